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

/* The bucket that a score falls into; -1 where no score is below it, the number of buckets where all are. */
INLINE int64_t bucket_of(const Index *index, double score) {
    double place = (score - index->low) * index->scale;
    if (!(score > index->low)) return -1;
    return place < (double)index->buckets ? (int64_t)place : index->buckets;
}

/* Scores of later buckets are not below, so no end is looked for: vectors count those below until one is not full. */
INLINE int32_t count_from(const double *sorted, int64_t start, int64_t n, double score) {
    for (; start + LANES <= n; start += LANES) {
        Doubles x;
        memcpy(&x, sorted + start, sizeof x);
#if defined(__AVX512F__)
        int64_t below = __builtin_popcount(_mm512_cmp_pd_mask((__m512d)x, _mm512_set1_pd(score), _CMP_LT_OQ));
#else
        int64_t below = -sum_of(x < score);
#endif
        if (below < LANES) return (int32_t)(start + below);
    }
    return (int32_t)start + count_below(sorted + start, n - start, score);
}

INLINE int32_t count_by_index(const double *sorted, int64_t n, const Index *index, double score) {
    int64_t bucket = bucket_of(index, score);
    if (bucket < 0) return 0;
    if (bucket == index->buckets) return (int32_t)n;
    int64_t start = index->starts[bucket], end = index->starts[bucket + 1];
    if (end - start > 4 * LANES) return (int32_t)start + count_below(sorted + start, end - start, score); /* many equal scores */
    return count_from(sorted, start, n, score);
}

/* `rounding` has a bit for every count of every group: whether its p-value is one step above the nearest float. */
typedef struct { const double *sorted; const int64_t *offsets; const int32_t *row_groups; Index index; const uint8_t *rounding; } Calibrated;

/* Calibration scores of its group below the score of a label. The scores of group g are sorted[offsets[g] ..
 * offsets[g + 1]); a label's group is its column, or the one of its row (-1: never seen, nothing below). */
INLINE int32_t count_for(const Calibrated *c, int64_t group, double score) {
    if (c->index.starts && group >= 0) return count_by_index(c->sorted, c->offsets[1], &c->index, score);
    return group < 0 ? 0 : count_below(c->sorted + c->offsets[group], c->offsets[group + 1] - c->offsets[group], score);
}

INLINE double p_value_for(const Calibrated *c, int64_t group, double score) {
    if (group < 0) return 1.0;
    int64_t n = c->offsets[group + 1] - c->offsets[group], count = count_for(c, group, score);
    int64_t bit = c->offsets[group] + group + count;
    double nearest = (double)(n + 1 - count) / (double)(n + 1);
    return from_bits(bits_of(nearest) + (c->rounding[bit >> 3] >> (bit & 7) & 1));
}

/* Add to the counts of every label, or write its p-value. */
INLINE int64_t count_rows(const Job *job, int64_t n, Scratch s, Tile *t, const Calibrated *c, int32_t *counts, double *p_values) {
    int64_t columns = job->columns;
    EACH_LANE_GROUP(start, rows, n) {
        Masks slow = (Masks){0} - 1;
        if (columns <= WIDEST_TILE) slow = score_lanes(job, t, lane_group(job, start, n, t));
        for (int64_t i = start; i < start + rows; i++) {
            int is_slow = slow[i - start] != 0;
            if (is_slow && score_row(job, i, s).bad) return i;
            for (int64_t r = 0; r < columns; r++) {
                int64_t column = is_slow ? s.entries[r].column : column_in_lane(t, r, i - start);
                int64_t group = c->row_groups ? c->row_groups[i] : column;
                double score = is_slow ? s.scores[r] : score_in_lane(t, r, i - start);
                if (counts) counts[i * columns + column] += count_for(c, group, score);
                else p_values[i * columns + column] = p_value_for(c, group, score);
            }
        }
    }
    return -1;
}

static int64_t counts_loop(const Job *job, int64_t n, Scratch s, Tile *t, const Calibrated *c, int32_t *counts) {
    return count_rows(job, n, s, t, c, counts, NULL);
}

static int64_t p_values_loop(const Job *job, int64_t n, Scratch s, Tile *t, const Calibrated *c, double *p_values) {
    return count_rows(job, n, s, t, c, NULL, p_values);
}
#endif
