/* What follows from a matrix of scores, (rows, labels), whoever worked it out: counts, p-values, and sets in which no order of the scores is assumed. */
#ifndef APTSET_FROM_SCORES_H
#define APTSET_FROM_SCORES_H
#include "counts.h"
#include "membership.h"

/* Add the counts of n rows of scores, or write their p-values. */
static void counts_of_scores_loop(const Calibrated *c, int64_t n, int64_t columns, const double *scores, int32_t *counts, double *p_values) {
    int32_t groups[CHUNK], below[CHUNK];
    for (int64_t first = 0, i = 0, j = 0; first < n * columns; first += CHUNK) {
        int64_t m = n * columns - first < CHUNK ? n * columns - first : CHUNK;
        int is_one_group = 1;
        for (int64_t k = 0; k < m; k++) {
            groups[k] = group_of(c, i, j);
            is_one_group &= groups[k] == groups[0];
            if (++j == columns) i++, j = 0;
        }
        count_chunk(c, scores + first, groups, is_one_group, m, below);
        if (p_values) p_values_of_chunk(c, groups, is_one_group, below, m, p_values + first);
        for (int64_t k = 0; k < m && !p_values; k++) counts[first + k] += below[k];
    }
}

/* A threshold for every label of every row: that of label j of row i stands at i * row_stride + j * column_stride. Sets go into members and
 * sizes, or into flags where those are there. */
typedef struct {
    const double *scores, *thresholds;
    int64_t row_stride, column_stride, min_size;
    int32_t *sizes;
    Members members;
    uint8_t *flags;
} ByCell;

/* Of a cell that was a probability when its row was scored, and may be anything by now: only numbers from 0 on can be put in order. */
INLINE Entry entry_of(double x, int64_t column) { return (Entry){(int64_t)bits_of(x > 0.0 ? x : 0.0), column}; }

/* Put the labels of row i that are in into s.entries, columns upward, and the most likely one if none is and one is wanted; return how many. */
INLINE int64_t members_by_cell(const Job *job, int64_t i, int is_single, uint64_t tie_seed, const ByCell *w, Scratch s) {
    const void *row = source_at(job, i);
    const double *scores = w->scores + i * job->columns, *thresholds = w->thresholds + i * w->row_stride;
    int64_t n_members = 0;
    for (int64_t j = 0; j < job->columns; j++) { /* the next label is written over one that is not in: no branch */
        s.entries[n_members] = entry_of(AS_DOUBLE(row, is_single, j), j);
        n_members += scores[j] <= thresholds[j * w->column_stride];
    }
    if (n_members || !w->min_size) return n_members;
    for (int64_t j = 0; j < job->columns; j++) s.entries[j] = entry_of(AS_DOUBLE(row, is_single, j), j);
    put_best_first(s.entries, job->columns, tie_seed);
    return 1;
}

/* The sets of rows that have seeds and are not bad; returns how many members were written. Flags are zeros when this starts. */
static int64_t by_cell_loop(const Job *job, int64_t n, Scratch s, const ByCell *w) {
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t tie_seed = tie_seed_of(job->seeds[i], job->u ? job->u[i] : uniform_of(job->seeds[i]));
        int64_t n_members = job->is_single ? members_by_cell(job, i, 1, tie_seed, w, s) : members_by_cell(job, i, 0, tie_seed, w, s);
        for (int64_t k = 0; k < n_members && w->flags; k++) w->flags[i * job->columns + s.entries[k].column] = 1;
        if (w->flags) continue;
        if (n_members > 1) order_entries(s.entries, s.spare, n_members, tie_seed);
        for (int64_t k = 0; k < n_members; k++) put_member(w->members, at + k, s.entries[k].column);
        w->sizes[i] = (int32_t)n_members;
        at += n_members;
    }
    return at;
}
#endif
