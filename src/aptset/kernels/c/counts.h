/* The score of every label of every row, and how many calibration scores lie below it. */
#ifndef APTSET_COUNTS_H
#define APTSET_COUNTS_H
#include "order.h"
#include "tile.h"

/* Score every label of row i by sorting it: entries in order, their scores upward. */
INLINE Loaded score_row(const Job *job, int64_t i, Scratch s) {
    Loaded row = load_row(job, i, s.entries);
    if (row.bad) return row;
    order_entries(s.entries, s.spare, job->columns, row.tie_seed);
    ordered_scores(s.entries, job->columns, &row, job, s.scores);
    return row;
}

static int64_t all_scores_loop(const Job *job, int64_t n, Scratch s, Tile *t, double *scores) {
    int64_t columns = job->columns;
    EACH_LANE_GROUP(start, count, n) {
        Masks slow = (Masks){0} - 1;
        if (columns <= WIDEST_TILE) slow = score_lanes(job, t, lane_group(job, start, n, t));
        for (int64_t i = 0; i < count; i++) {
            double *out = scores + (start + i) * columns;
            if (!slow[i]) {
                for (int64_t r = 0; r < columns; r++) out[column_in_lane(t, r, i)] = score_in_lane(t, r, i);
                continue;
            }
            if (score_row(job, start + i, s).bad) return start + i;
            for (int64_t r = 0; r < columns; r++) out[s.entries[r].column] = s.scores[r];
        }
    }
    return -1;
}

/* How many of n sorted calibration scores lie below a score: halving without branches. */
INLINE int32_t count_below(const double *sorted, int64_t n, double score) {
    const double *base = sorted;
    for (int64_t left = n; left > 0;) {
        int64_t half = (left + 1) / 2;
        base += half & -(int64_t)(base[half - 1] < score);
        left -= half;
    }
    return (int32_t)(base - sorted);
}

/* Where to look first in many scores: those of bucket b, (score - low) * scale rounded down, stand from starts[b] on. The function never
 * falls, so scores of lower buckets are below a score and those of higher ones are not. Without starts there is no index. */
typedef struct { const int32_t *starts; int64_t buckets; double low, scale; } Index;

INLINE int32_t count_by_index(const double *sorted, int64_t n, const Index *index, double score) {
    if (!(score > index->low)) return 0;
    double place = (score - index->low) * index->scale;
    if (!(place < (double)index->buckets)) return (int32_t)n;
    int64_t bucket = (int64_t)place, start = index->starts[bucket];
    return (int32_t)start + count_below(sorted + start, index->starts[bucket + 1] - start, score);
}

typedef struct { const double *sorted; const int64_t *offsets; const int32_t *row_groups; Index index; } Calibrated;

/* Calibration scores of its group below the score of a label. The scores of group g are sorted[offsets[g] ..
 * offsets[g + 1]); a label's group is its column, or the one of its row (-1: never seen, nothing below). */
INLINE int32_t count_for(const Calibrated *c, int64_t i, int64_t column, double score) {
    int64_t group = c->row_groups ? c->row_groups[i] : column;
    if (c->index.starts && group >= 0) return count_by_index(c->sorted, c->offsets[1], &c->index, score);
    return group < 0 ? 0 : count_below(c->sorted + c->offsets[group], c->offsets[group + 1] - c->offsets[group], score);
}

static int64_t counts_loop(const Job *job, int64_t n, Scratch s, Tile *t, const Calibrated *c, int32_t *counts) {
    int64_t columns = job->columns;
    EACH_LANE_GROUP(start, count, n) {
        Masks slow = (Masks){0} - 1;
        if (columns <= WIDEST_TILE) slow = score_lanes(job, t, lane_group(job, start, n, t));
        for (int64_t i = 0; i < count; i++) {
            int32_t *out = counts + (start + i) * columns;
            if (!slow[i]) {
                for (int64_t r = 0; r < columns; r++) {
                    int64_t column = column_in_lane(t, r, i);
                    out[column] += count_for(c, start + i, column, score_in_lane(t, r, i));
                }
                continue;
            }
            if (score_row(job, start + i, s).bad) return start + i;
            for (int64_t r = 0; r < columns; r++) {
                int64_t column = s.entries[r].column;
                out[column] += count_for(c, start + i, column, s.scores[r]);
            }
        }
    }
    return -1;
}
#endif
