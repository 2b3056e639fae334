/* Scores that no order of masses decides: a label's own mass times a factor of its column, ordered labels, and where labels stand for any function. */
#ifndef APTSET_SCALED_MASS_H
#define APTSET_SCALED_MASS_H
#include "membership.h"
#include "narrow_simd.h"

#define MASS_STEP 0x1p-51 /* of the grid of masses */

/* A label scores -(mass * factor) / total + (constant + noise * u); those without mass stand behind. */
typedef struct { const double *factors; double constant, noise; } OwnMass;

/* Put the labels without mass of the row that is held in order, in s.entries; return how many there are. */
INLINE int64_t order_without_mass(const Job *job, const Loaded *row, Scratch s) {
    int64_t n = 0;
    for (int64_t j = 0; j < job->columns; j++) {
        double x = AS_DOUBLE(job->held, job->is_single, j);
        s.entries[n] = (Entry){(int64_t)bits_of(x), j};
        n += grid_steps(x) == 0;
    }
    order_entries(s.entries, s.spare, n, row->tie_seed);
    return n;
}

INLINE double score_without_mass(int64_t place, int64_t count, double u) { return 1.0 + ((double)(place + 1) - u) / (double)count; }

INLINE void score_own_mass(const Job *job, int is_single, const Loaded *row, const OwnMass *f, Scratch s, double *scores) {
    const void *source = job->held;
    const double total = (double)row->total * MASS_STEP, rest = f->constant + f->noise * row->u;
    int64_t without = 0;
    for (int64_t j = 0; j < job->columns; j++) {
        double own = (AS_DOUBLE(source, is_single, j) + 2.0) - 2.0;
        scores[j] = -(own * f->factors[j]) / total + rest;
        without += own == 0.0;
    }
    if (!without) return;
    order_without_mass(job, row, s);
    for (int64_t k = 0; k < without; k++) scores[s.entries[k].column] = score_without_mass(k, without, row->u);
}

INLINE double score_own_label(const Job *job, int64_t label, const Loaded *row, const OwnMass *f, Scratch s) {
    double own = (AS_DOUBLE(job->held, job->is_single, label) + 2.0) - 2.0;
    if (own > 0.0) return -(own * f->factors[label]) / ((double)row->total * MASS_STEP) + (f->constant + f->noise * row->u);
    int64_t count = order_without_mass(job, row, s), place = 0;
    while (s.entries[place].column != label) place++;
    return score_without_mass(place, count, row->u);
}

/* Score every label, or one of each row where labels are named; returns the first bad row or -1. */
static int64_t own_mass_loop(const Job *job, int64_t n, Scratch s, const OwnMass *f, const int64_t *labels, double *scores) {
    for (int64_t i = 0; i < n; i++) {
        Loaded row;
        if (!(job->is_single ? open_row(job, i, 1, &row) : open_row(job, i, 0, &row))) {
            row = load_row(job, i, s.entries);
            if (row.bad) return i;
        }
        if (labels) scores[i] = score_own_label(job, labels[i], &row, f, s);
        else if (job->is_single) score_own_mass(job, 1, &row, f, s, scores + i * job->columns);
        else score_own_mass(job, 0, &row, f, s, scores + i * job->columns);
    }
    return -1;
}

/* Scores of ordered labels: the column of each from low to high. The expanding interval starts at the mode and takes in the likelier neighbour;
 * the central score is the level of the smallest central interval that meets the label. Twin of scores/ordered.py. */
typedef struct { const int64_t *columns; int is_central; } Ordering;

INLINE double mass_at(const Job *job, const Ordering *order, int64_t place) {
    return (AS_DOUBLE(job->held, job->is_single, order->columns[place]) + 2.0) - 2.0;
}

INLINE void score_expanding(const Job *job, const Loaded *row, const Ordering *order, double *scores) {
    const double total = (double)row->total * MASS_STEP;
    int64_t n = job->columns, mode = 0, used_up = n;
    double mass = mass_at(job, order, 0), before = 0.0;
    for (int64_t k = 1; k < n; k++) {
        double own = mass_at(job, order, k);
        if (own > mass) mass = own, mode = k;
    }
    int64_t low = mode - 1, high = mode + 1, joined = mode;
    double left = low >= 0 ? mass_at(job, order, low) : -1.0, right = high < n ? mass_at(job, order, high) : -1.0;
    for (int64_t step = 0; step < n; step++) {
        if (used_up == n && before == total) used_up = step;
        scores[order->columns[joined]] = step >= used_up ? score_without_mass(step - used_up, n - used_up, row->u)
                                                         : ((before + mass) - row->u * mass) / total;
        before += mass;
        if (left >= right) {
            mass = left, joined = low--;
            left = low >= 0 ? mass_at(job, order, low) : -1.0;
        } else {
            mass = right, joined = high++;
            right = high < n ? mass_at(job, order, high) : -1.0;
        }
    }
}

INLINE void score_central(const Job *job, const Loaded *row, const Ordering *order, double *scores) {
    const double total = (double)row->total * MASS_STEP;
    int64_t n = job->columns, left = 0, right = n, is_past = 0; /* labels before and behind all mass */
    while (left < n && mass_at(job, order, left) == 0.0) left++;
    while (right > left && mass_at(job, order, right - 1) == 0.0) right--;
    double below = 0.0;
    for (int64_t k = left; k < right; k++) {
        double up_to = below + mass_at(job, order, k);
        int is_median = !is_past && 2.0 * up_to >= total;
        double level = larger_of(larger_of(2.0 * below - total, total - 2.0 * up_to) / total, 0.0);
        scores[order->columns[k]] = is_median ? -row->u : level;
        is_past |= is_median;
        below = up_to;
    }
    int64_t behind = n - right;
    for (int64_t k = 0; k < left; k++) {
        int64_t far = left - 1 - k;
        scores[order->columns[k]] = score_without_mass(far + (far < behind ? far : behind), left + behind, row->u);
    }
    for (int64_t k = right; k < n; k++) {
        int64_t far = k - right;
        scores[order->columns[k]] = score_without_mass(far + (far + 1 < left ? far + 1 : left), left + behind, row->u);
    }
}

/* Score every label, or one of each row where labels are named; returns the first bad row or -1. */
static int64_t ordered_loop(const Job *job, int64_t n, Scratch s, const Ordering *order, const int64_t *labels, double *scores) {
    for (int64_t i = 0; i < n; i++) {
        Loaded row;
        if (!(job->is_single ? open_row(job, i, 1, &row) : open_row(job, i, 0, &row))) {
            row = load_row(job, i, s.entries);
            if (row.bad) return i;
        }
        double *out = labels ? s.scores : scores + i * job->columns;
        if (order->is_central) score_central(job, &row, order, out);
        else score_expanding(job, &row, order, out);
        if (labels) scores[i] = s.scores[labels[i]];
    }
    return -1;
}

/* Where labels stand: own, above and rank are (rows, labels), the others have one number a row. */
typedef struct { double *own, *above, *rank, *top, *second, *total, *with_mass, *u; } Standing;

INLINE void note_row(const Standing *to, int64_t i, double top, double second, double total, double with_mass, double u) {
    to->top[i] = top, to->second[i] = second, to->total[i] = total, to->with_mass[i] = with_mass, to->u[i] = u;
}

/* The places of a row that is loaded into s.entries. */
INLINE void stand_row(const Job *job, int64_t i, const Loaded *row, const Standing *to, Scratch s) {
    int64_t above = 0, columns = job->columns;
    order_entries(s.entries, s.spare, columns, row->tie_seed);
    for (int64_t r = 0; r < columns; r++) {
        int64_t own = steps_of(s.entries + r), cell = i * columns + s.entries[r].column;
        to->own[cell] = (double)own * MASS_STEP, to->above[cell] = (double)above * MASS_STEP, to->rank[cell] = (double)(r + 1);
        above += own;
    }
    double top = (double)steps_of(s.entries) * MASS_STEP, second = (double)steps_of(s.entries + 1) * MASS_STEP;
    note_row(to, i, top, second, (double)row->total * MASS_STEP, (double)row->with_mass, row->u);
}

/* The places of the rows of a lane group, all of whose labels have masses of their own; `slow` where they have not. */
INLINE Masks stand_lanes(const Job *job, int64_t start, int64_t n, const Standing *to, Tile *t) {
    Masks slow;
    int64_t v = lane_group(job, start, n, t), columns = job->columns, rows = n - start < LANES ? n - start : LANES;
    Whole whole = whole_of_lanes(job, t, v, NULL, &slow);
    Doubles above = {0}, before = (Doubles){0} - 1.0;
    sort_lanes(job, t, v);
    for (int64_t r = 0; r < columns; r++) {
        Doubles own = mass_of_key(t->key[r]);
        slow += own == before;
        slow += own == 0.0;
        for (int64_t i = 0; i < rows; i++) {
            int64_t cell = (start + i) * columns + column_in_lane(t, r, i);
            to->own[cell] = own[i], to->above[cell] = above[i], to->rank[cell] = (double)(r + 1);
        }
        above += own;
        before = own;
    }
    Doubles top = mass_of_key(t->key[0]), second = mass_of_key(t->key[1]);
    for (int64_t i = 0; i < rows; i++) note_row(to, start + i, top[i], second[i], whole.total[i], (double)columns, whole.u[i]);
    return slow;
}

/* Where every label of n rows stands; there are at least two labels. Returns the first bad row or -1. */
static int64_t standing_loop(const Job *job, int64_t n, Scratch s, Tile *t, const Standing *to) {
    EACH_LANE_GROUP(start, rows, n) {
        Masks slow = (Masks){0} - 1;
        if (job->columns <= WIDEST_TILE) slow = stand_lanes(job, start, n, to, t);
        for (int64_t i = start; i < start + rows; i++) {
            if (!slow[i - start]) continue;
            Loaded row = load_row(job, i, s.entries);
            if (row.bad) return i;
            stand_row(job, i, &row, to, s);
        }
    }
    return -1;
}
#endif
