/* Sets with a threshold for every label: no beginnings of the order of their rows. */
#ifndef APTSET_BY_LABEL_H
#define APTSET_BY_LABEL_H
#include "counts.h"
#include "membership.h"

/* A threshold for every column: `most` is the largest of those that are finite, `open` tells whether some are not. Sets go into members and
 * sizes, or into flags where those are there. */
typedef struct {
    const double *thresholds;
    double most;
    int64_t open, min_size;
    int32_t *sizes;
    Members members;
    uint8_t *flags;
} ByLabel;

INLINE void put_label(const ByLabel *w, int64_t i, int64_t columns, int64_t at, int64_t column) {
    if (w->flags) w->flags[i * columns + column] = 1; else put_member(w->members, at, column);
}

/* Keep the labels of row i whose score is at most their threshold, of `n_members` labels in order; return how many. */
INLINE int64_t keep_labels(const ByLabel *w, int64_t i, int64_t columns, int64_t at, int64_t n_members, Scratch s) {
    int64_t kept = 0;
    for (int64_t k = 0; k < n_members; k++)
        if (s.scores[k] <= w->thresholds[s.entries[k].column]) put_label(w, i, columns, at + kept++, s.entries[k].column);
    return kept;
}

/* The labels without a threshold that stand behind the `n_members` ones, in order; there are room for their marks in s.rough. */
INLINE int64_t keep_open_labels(const Job *job, const ByLabel *w, int64_t i, int64_t at, int64_t n_members, const Loaded *row, Scratch s) {
    uint8_t *is_member = (uint8_t *)s.rough;
    int64_t n = 0;
    memset(is_member, 0, (size_t)job->columns);
    for (int64_t k = 0; k < n_members; k++) is_member[s.entries[k].column] = 1;
    for (int64_t j = 0; j < job->columns; j++)
        if (w->thresholds[j] == INFINITY && !is_member[j])
            s.window[n++] = (Entry){(int64_t)bits_of(AS_DOUBLE(job->held, job->is_single, j)), j};
    if (!w->flags) order_entries(s.window, s.spare, n, row->tie_seed);
    for (int64_t k = 0; k < n; k++) put_label(w, i, job->columns, at + k, s.window[k].column);
    return n;
}

INLINE int64_t choose_in_wide_rows(const Job *job, int64_t n, Scratch s, const ByLabel *w, int64_t *end) {
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        Loaded row;
        int64_t n_members = wide_members(job, i, w->most, 1, &row, s);
        if (n_members < 0) return i;
        int64_t best = s.entries[0].column, size = keep_labels(w, i, job->columns, at, n_members, s);
        if (w->open) size += keep_open_labels(job, w, i, at + size, n_members, &row, s);
        if (size < w->min_size) put_label(w, i, job->columns, at + size++, best);
        if (w->sizes) w->sizes[i] = (int32_t)size;
        at += size;
    }
    *end = at;
    return -1;
}

APART int64_t choose_in_narrow_rows(const Job *job, int64_t n, Scratch s, Tile *t, const ByLabel *w, int64_t *end) {
    int64_t at = 0, columns = job->columns;
    EACH_LANE_GROUP(start, rows, n) {
        Masks slow = score_lanes(job, t, lane_group(job, start, n, t));
        for (int64_t i = 0; i < rows; i++) {
            int64_t size = 0;
            if (slow[i]) {
                if (score_row(job, start + i, s).bad) return start + i;
                size = keep_labels(w, start + i, columns, at, columns, s);
                if (size < w->min_size) put_label(w, start + i, columns, at + size++, s.entries[0].column);
            } else if (w->flags) {
                uint8_t *flags = w->flags + (start + i) * columns;
                for (int64_t r = 0; r < columns; r++) {
                    int64_t column = column_in_lane(t, r, i), is_in = score_in_lane(t, r, i) <= w->thresholds[column];
                    flags[column] = (uint8_t)is_in;
                    size += is_in;
                }
                if (size < w->min_size) flags[column_in_lane(t, 0, i)] = 1;
            } else { /* the next label is written over one that is not in: no branch */
                uint8_t *to = (uint8_t *)w->members.to + at;
                for (int64_t r = 0; r < columns; r++) {
                    int64_t column = column_in_lane(t, r, i);
                    to[size] = (uint8_t)column;
                    size += score_in_lane(t, r, i) <= w->thresholds[column];
                }
                if (size < w->min_size) to[size++] = (uint8_t)column_in_lane(t, 0, i);
            }
            if (w->sizes) w->sizes[start + i] = (int32_t)size;
            at += size;
        }
    }
    *end = at;
    return -1;
}

/* Flags are zeros when this starts. */
static int64_t by_label_loop(const Job *job, int64_t n, Scratch s, Tile *t, const ByLabel *w, int64_t *end) {
    if (job->columns <= WIDEST_TILE) return choose_in_narrow_rows(job, n, s, t, w, end);
    return choose_in_wide_rows(job, n, s, w, end);
}
#endif
