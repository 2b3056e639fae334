/* All labels of a wide row in order, with their scores. */
#ifndef APTSET_SORTING_H
#define APTSET_SORTING_H
#include "bracket.h"

/* Score the row that is held, which was opened and is not odd, in order: columns and scores upward. 0 where its keys do not tell the order. */
INLINE int score_by_keys(const Job *job, int is_single, Loaded *row, Scratch s) {
    const void *at = job->held;
    int64_t n = job->columns, equal = 0, mass = 0, *own = (int64_t *)s.entries;
    uint64_t *key = (uint64_t *)s.spare;
    int32_t most, *bits = (int32_t *)s.rough;
    if (n > MOST_BY_PLACES) return 0;
    if (!is_single) load_rough(job, at, is_single, s.rough);
    if (!sort_bits(is_single ? at : bits, n, (uint64_t *)s.entries, key, &most)) return 0;
    for (int64_t k = 1; k < n; k++) equal += (key[k] ^ key[k - 1]) < 1 << NUMBER_BITS;
    if (equal && !is_single) return 0; /* doubles that are the same as single floats */
    for (int64_t k = 0; k < n; k++) {
        s.columns[k] = NUMBER_IN_KEY(key[k]);
        own[k] = grid_steps(is_single ? (double)float_of(most - BELOW_IN_KEY(key[k])) : ((const double *)at)[s.columns[k]]);
        mass += own[k] > 0;
    }
    row->with_mass = mass;
    if (equal) {
        for (int64_t k = 0; k < n; k++) s.window[k] = (Entry){(int64_t)bits_of(AS_DOUBLE(at, 1, s.columns[k])), s.columns[k]};
        order_ties(s.window, s.spare, n, row->tie_seed);
        for (int64_t k = 0; k < n; k++) s.columns[k] = (int32_t)s.window[k].column;
    }
    scores_of_masses(own, n, row, job, s.scores);
    return 1;
}

/* Note the columns of n labels in order beside their scores. */
INLINE void note_columns(int64_t n, Scratch s) {
    for (int64_t k = 0; k < n; k++) s.columns[k] = (int32_t)s.entries[k].column;
}

/* Score every label of any row i: columns and scores upward. */
INLINE Loaded score_row(const Job *job, int64_t i, Scratch s) {
    Loaded row = load_row(job, i, s.entries);
    if (row.bad) return row;
    order_entries(s.entries, s.spare, job->columns, row.tie_seed);
    ordered_scores(s.entries, job->columns, &row, job, s);
    note_columns(job->columns, s);
    return row;
}

/* The same for wide rows: most are put in order more quickly. */
INLINE Loaded score_wide_row(const Job *job, int64_t i, Scratch s) {
    Loaded row;
    if (job->is_single ? open_row(job, i, 1, &row) && score_by_keys(job, 1, &row, s)
                       : open_row(job, i, 0, &row) && score_by_keys(job, 0, &row, s)) return row;
    return score_row(job, i, s);
}
#endif
