/* Which labels of a row score at most a threshold. A score never falls along the order of its row, so a set is a
 * beginning of that order: its end is found by halving the range of probabilities, and only members are sorted. */
#ifndef APTSET_CUTS_H
#define APTSET_CUTS_H
#include "tile.h"

/* A first guess at the probability where the row is cut; any value is right, a good one saves passes. */
INLINE int64_t first_pivot(const Job *job, double threshold) {
    double left = 1.0 - threshold;
    if (!(left > 0.0)) return LAST_ZERO_BITS;
    double guess = job->weights[ABOVE] > 0.0 ? left / (double)job->columns : left;
    int64_t pivot = (int64_t)bits_of(guess < 1.0 ? guess : 1.0);
    return pivot > LAST_ZERO_BITS ? pivot : LAST_ZERO_BITS;
}

/* How many of a run of n labels, in order behind `above` and `rank`, score at most the threshold. */
INLINE int64_t members_of_run(const Entry *first, int64_t n, const Loaded *row, const Job *job, double threshold,
                              int64_t above, int64_t rank) {
    int64_t low = 0, high = n, own = steps_of(first);
    while (low < high) {
        int64_t k = low + (high - low) / 2;
        double score = own > 0 ? mass_score(job->weights, (double)(above + k * own), (double)own, (double)row->total,
                                            (double)(rank + k + 1), row->u)
                               : zero_score(job->weights, (double)k, (double)n, (double)(rank + k + 1), row->u);
        if (score <= threshold) low = k + 1; else high = k;
    }
    return low;
}

/* Move the entries above the pivot to the front; the others follow, in `spare` order. Returns how many went front. */
INLINE int64_t part(Entry *e, Entry *spare, int64_t n, int64_t pivot, int64_t *mass, int64_t *least) {
    int64_t front = 0, back = 0, sum = 0, minimum = INT64_MAX;
    for (int64_t k = 0; k < n; k++) {
        Entry moving = e[k];
        int64_t is_front = moving.rank_bits > pivot;
        e[front] = moving;
        spare[back] = moving;
        front += is_front;
        back += 1 - is_front;
        if (is_front) {
            sum += steps_of(&moving);
            minimum = moving.rank_bits < minimum ? moving.rank_bits : minimum;
        }
    }
    memcpy(e + front, spare, (size_t)back * sizeof(Entry));
    *mass = sum;
    *least = minimum;
    return front;
}

/* Number of members at the threshold; they stand, in order, at the front of `e` when this returns. */
static int64_t select_members(Entry *e, Entry *spare, const Loaded *row, const Job *job, double threshold) {
    int64_t accepted = 0, active = job->columns, above = 0, pivot = first_pivot(job, threshold);
    while (active > 0) {
        Entry *now = e + accepted;
        int64_t low = INT64_MAX, high = -1;
        for (int64_t k = 0; k < active; k++) {
            low = now[k].rank_bits < low ? now[k].rank_bits : low;
            high = now[k].rank_bits > high ? now[k].rank_bits : high;
        }
        if (high <= LAST_ZERO_BITS || low == high) { /* nothing left to halve: labels without mass, or all equal */
            order_entries(now, spare, active, row->tie_seed);
            accepted += members_of_run(now, active, row, job, threshold, above, accepted);
            break;
        }
        if (pivot < low || pivot >= high) pivot = low + (high - low) / 2;
        if (pivot < LAST_ZERO_BITS) pivot = LAST_ZERO_BITS; /* labels without mass are never mixed with the others */
        int64_t mass, least;
        int64_t front = part(now, spare, active, pivot, &mass, &least);
        int64_t last = grid_steps(from_bits((uint64_t)least));
        double score = mass_score(job->weights, (double)(above + mass - last), (double)last, (double)row->total,
                                  (double)(accepted + front), row->u);
        if (score <= threshold) { accepted += front; above += mass; active -= front; } else active = front;
        pivot = -1;
    }
    order_entries(e, spare, accepted, row->tie_seed);
    return accepted;
}

INLINE int64_t count_at_most(const double *scores, int64_t n, double threshold) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t k = low + (high - low) / 2;
        if (scores[k] <= threshold) low = k + 1; else high = k;
    }
    return low;
}

INLINE void put_best_first(Entry *e, int64_t n, uint64_t tie_seed) {
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++) {
        uint64_t tie = tie_of(tie_seed, e[k].column), best_tie = tie_of(tie_seed, e[best].column);
        int equal = e[k].rank_bits == e[best].rank_bits;
        if (e[k].rank_bits > e[best].rank_bits || (equal && (tie < best_tie || (tie == best_tie && e[k].column < e[best].column))))
            best = k;
    }
    Entry top = e[best]; e[best] = e[0]; e[0] = top;
}

/* Thresholds are (n, count), sizes (count, n); sets hold at least `at_least` labels (0 or 1). */
typedef struct { const double *thresholds; int64_t count, at_least, n; int32_t *sizes; } Wanted;

INLINE double largest_threshold(const Wanted *w, int64_t i) {
    double largest = w->thresholds[i * w->count];
    for (int64_t a = 1; a < w->count; a++) {
        double threshold = w->thresholds[i * w->count + a];
        largest = threshold > largest ? threshold : largest;
    }
    return largest;
}

/* Write the sizes of row i from the scores of its members at the largest threshold, upward; return the largest size. */
INLINE int64_t write_sizes(const Wanted *w, int64_t i, const double *scores, int64_t found) {
    for (int64_t a = 0; a < w->count; a++) {
        int64_t size = w->count > 1 ? count_at_most(scores, found, w->thresholds[i * w->count + a]) : found;
        w->sizes[a * w->n + i] = (int32_t)(size < w->at_least ? w->at_least : size);
    }
    return found < w->at_least ? w->at_least : found;
}

/* Sizes of one row at each of its thresholds, and its members at the largest. Returns the number of members. */
INLINE int64_t cut_row(const Loaded *row, const Job *job, int64_t i, const Wanted *w, Scratch s, int32_t *members) {
    double largest = largest_threshold(w, i);
    int64_t found;
    if (job->columns <= WIDEST_TILE) {
        order_entries(s.entries, s.spare, job->columns, row->tie_seed);
        ordered_scores(s.entries, job->columns, row, job, s.scores);
        found = count_at_most(s.scores, job->columns, largest);
    } else {
        found = select_members(s.entries, s.spare, row, job, largest);
        if (w->count > 1) ordered_scores(s.entries, found, row, job, s.scores);
        if (found < w->at_least) put_best_first(s.entries, job->columns, row->tie_seed);
    }
    found = write_sizes(w, i, s.scores, found);
    for (int64_t k = 0; k < found; k++) members[k] = (int32_t)s.entries[k].column;
    return found;
}

/* The same for lane i of a tile whose row has no ties: members are picked by score, then put in order. */
INLINE int64_t cut_lane(const Tile *t, int64_t lane, const Job *job, int64_t i, const Wanted *w, Scratch s, int32_t *members) {
    double largest = largest_threshold(w, i);
    int64_t found = 0, best = 0;
    for (int64_t k = 0; k < job->columns; k++) {
        s.entries[found].rank_bits = (int64_t)bits_of(lane_of(t->value + k, lane));
        s.entries[found].column = k;
        found += lane_of(t->score + k, lane) <= largest;
        if (lane_of(t->value + k, lane) > lane_of(t->value + best, lane)) best = k;
    }
    insertion_sort(s.entries, found);
    for (int64_t k = 0; k < found; k++) s.scores[k] = lane_of(t->score + s.entries[k].column, lane);
    for (int64_t k = 0; k < found; k++) members[k] = (int32_t)s.entries[k].column;
    if (found == 0) members[0] = (int32_t)best;
    return write_sizes(w, i, s.scores, found);
}
#endif
