/* Where exactly a wide row is cut: the few labels that bracket.h leaves are decided by their exact scores. */
#ifndef APTSET_RESOLVE_H
#define APTSET_RESOLVE_H
#include "bracket.h"

/* Exact mass of the labels above `high`, of which there are `count`. */
INLINE int64_t mass_above(const Job *job, const void *row, int is_single, const float *rough, float high, int64_t count) {
    Masks bits = {0}; /* of values + 2: what the twos add is taken off at the end */
    int64_t j = 0, mass = 0;
    if (count == 0) return 0;
    for (; j + LANES <= job->columns; j += LANES) {
        Doubles x = load_lanes(row, is_single, j);
        bits += (Masks)(x + 2.0) & ((is_single ? x : load_lanes(rough, 1, j)) > (double)high);
    }
    for (; j < job->columns; j++) mass += rough[j] > high ? (int64_t)bits_of(AS_DOUBLE(row, is_single, j) + 2.0) : 0;
    return (int64_t)((uint64_t)(sum_of(bits) + mass) - (uint64_t)count * (uint64_t)BITS_OF_TWO);
}

typedef struct {
    float high;     /* every label above this is in */
    int64_t before; /* how many those are */
    int64_t among;  /* how many of the window, in order, are in as well */
    int proven;     /* 0: the search was misled, or the cut lies among the labels without mass */
} Position;

/* What was found out about a window: its labels, the exact mass above it and above its first label that is out, and whether labels without
 * mass can be left aside. */
typedef struct { Position cut; int64_t n, above, through; int has_mass; } Decision;

#if defined(__AVX512F__)
typedef struct { double value[FEW]; int32_t column[FEW]; } Few; /* filled up with zeros */

/* Decide at most FEW labels with masses that differ, all at once, and put them in order into s.window; 0 where they are not of that kind. */
INLINE int decide_few(const Job *job, const Loaded *row, double threshold, Front front, const Few *few, int64_t n, int64_t above, int proven_below,
                      Scratch s, Decision *decision) {
    const double *w = job->weights;
    Doubles lanes[FEW / LANES];
    Masks numbers, before[FEW / LANES] = {{0}};
    int64_t in = 0, through = above, alone = 0;
    if (n > FEW || asks_for_top(job)) return 0;
    for (int k = 0; k < LANES; k++) numbers[k] = k;
    memcpy(lanes, few->value, sizeof lanes);
    for (int64_t v = 0; v * LANES < n; v++) {
        Masks mass = (Masks){0} + above, same = {0}, is_there = numbers + v * LANES < n, own = steps_of_lanes(lanes[v]);
        for (int64_t k = 0; k < n; k++) {
            Masks is_above = lanes[v] < few->value[k];
            before[v] -= is_above;
            same -= lanes[v] == few->value[k];
            mass += is_above & grid_steps(few->value[k]);
        }
        Doubles beyond = __builtin_convertvector(before[v] + front.count + 1, Doubles) - w[FREE_RANKS];
        Doubles penalty = where(beyond > 0.0, beyond - w[RANK_U] * row->u), total = (Doubles){0} + (double)row->total;
        Doubles scores = MASS_SCORE(w, __builtin_convertvector(mass, Doubles), __builtin_convertvector(own, Doubles), total, penalty, row->u);
        Masks is_in = is_there & (scores <= threshold);
        alone -= sum_of(is_there & (same == 1) & (own > 0));
        in -= sum_of(is_in);
        through += sum_of(is_in & own);
    }
    if (alone != n) return 0;
    for (int64_t k = 0; k < n; k++) s.window[((const int64_t *)before)[k]] = (Entry){(int64_t)bits_of(few->value[k]), few->column[k]};
    int proven = (in > 0 || front.count == 0) && (in < n || proven_below);
    *decision = (Decision){{front.pivot, front.count, in, proven}, n, above, through, 1};
    return 1;
}
#endif

/* Decide the n labels of s.window, below which exact mass stands above, one by one: they are put in order. */
INLINE Decision decide_in_order(const Job *job, const Loaded *row, double threshold, Front front, int64_t n, int64_t above, int proven_below,
                                Scratch s) {
    int64_t rank = 0, own = 1, behind = job->weights[BEHIND] != 0.0, through = above;
    order_entries(s.window, s.spare, n, row->tie_seed);
    for (; rank < n && (own = steps_of(s.window + rank)) >= behind; rank++, through += own) {
        double score = mass_score(job->weights, (double)through, (double)own, (double)(front.count + rank + 1), row);
        if (!(score <= threshold)) break;
    }
    int has_mass = own >= behind || threshold < 1.0;
    int proven = (rank > 0 || front.count == 0) && (rank < n || proven_below) && has_mass;
    return (Decision){{front.pivot, front.count, rank, proven}, n, above, through, has_mass};
}

INLINE Decision decide_window(const Job *job, const Loaded *row, double threshold, Front front, int64_t n, int64_t above, int proven_below,
                              Scratch s) {
#if defined(__AVX512F__)
    Few few = {{0}};
    Decision decision;
    for (int64_t k = 0; k < n && k < FEW; k++) few.value[k] = from_bits((uint64_t)s.window[k].rank_bits), few.column[k] = (int32_t)s.window[k].column;
    if (decide_few(job, row, threshold, front, &few, n, above, proven_below, s, &decision)) return decision;
#endif
    return decide_in_order(job, row, threshold, front, n, above, proven_below, s);
}

/* Decide the labels of a row with low <= rough <= high. */
INLINE Decision decide(const Job *job, int is_single, const Loaded *row, double threshold, float low, Front front,
                       int proven_below, Scratch s) {
    const float *rough = rough_of(job, is_single, s);
    int64_t n = collect(job, rough, low, front.pivot, s.window);
    int64_t above = mass_above(job, job->held, is_single, rough, front.pivot, front.count);
    return decide_window(job, row, threshold, front, n, above, proven_below, s);
}

/* Whether the labels beside a window, the least above it and the largest below it, prove its cut: they often do where the cut lies right at
 * an end. Of equal ones the last is looked at above, the first below. */
INLINE int holds_beside(const Job *job, const Loaded *row, double threshold, const Decision *d, float below, float above) {
    int64_t own = grid_steps((double)above), next = grid_steps((double)below), rank = d->cut.before;
    if (!d->has_mass || (d->cut.among == d->n && !(below >= 0x1p-51f))) return 0;
    if (d->cut.among == 0 && rank > 0
        && !(mass_score(job->weights, (double)(d->above - own), (double)own, (double)rank, row) <= threshold)) return 0;
    return d->cut.among < d->n
        || mass_score(job->weights, (double)d->through, (double)next, (double)(rank + d->n + 1), row) > threshold;
}

/* Cut a row that is not odd at a threshold; `top` is its largest probability, or negative where that is not known. */
INLINE Position find_cut(const Job *job, int is_single, const Loaded *row, double threshold, float top, Scratch s) {
    const float *rough = rough_of(job, is_single, s);
    float low, largest = READS_IN_PLACE && is_single && top >= 0.0f ? top : load_rough(job, job->held, is_single, s.rough);
    Aim aim = aim_at(job, threshold);
    Front front = narrow_down(job, rough, largest, row, aim, &low);
    Decision decision = decide(job, is_single, row, threshold, next_float(low), front, 0, s);
    if (decision.cut.proven) return decision.cut;
    /* The cut may lie right at an end of the window: look at one more label on each side, or decide again with them. Below, there may be
     * nothing at all, or only labels without mass, which score more than 1. */
    widen(rough, job->columns, &low, &front.pivot);
    if (is_single && holds_beside(job, row, threshold, &decision, low, front.pivot)) { decision.cut.proven = 1; return decision.cut; }
    Searched whole = {rough, job->columns, {0}};
    front = front_of(job, &whole, front.pivot, row, aim.from_below);
    int zeros_are_out = job->weights[BEHIND] != 0.0 && threshold < 1.0;
    int proven_below = low < 0.0f || (low < 0x1p-52f && zeros_are_out);
    if (proven_below) low = zeros_are_out ? 0x1p-52f : 0.0f;
    return decide(job, is_single, row, threshold, low, front, proven_below, s).cut;
}
#endif
