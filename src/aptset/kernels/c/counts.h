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

/* Where to look first among the scores of a group: those of bucket b, (score - low) * scale rounded down, stand from starts[b] on. The
 * function never falls, so scores of lower buckets are below a score and those of higher ones are not. Group g has the starts from
 * firsts[g] on, one more than it has buckets; none where it is small. */
typedef struct { const int32_t *starts; const int64_t *firsts; const double *low, *scale; } Index;

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

/* `rounding` has a bit for every count of every group: whether its p-value is one step above the nearest float. */
typedef struct { const double *sorted; const int64_t *offsets; const int32_t *row_groups; Index index; const uint8_t *rounding; } Calibrated;

#define CHUNK 64 /* scores that are looked up together: memory is asked for all of them before the first answer is needed */

/* Where the bucket of a score stands among all starts; -1 where its group has no buckets. Scores below the first bucket or above the last
 * are looked up there: what counts is how many are below. */
INLINE int64_t place_in_index(const Index *index, int64_t group, double score) {
    int64_t first = index->firsts[group], last = index->firsts[group + 1] - 2;
    double place = (score - index->low[group]) * index->scale[group];
    place = place > 0.0 ? place : 0.0; /* also where it is no number */
    int64_t at = first + (place < (double)(last - first) ? (int64_t)place : last - first);
    return last < first ? -1 : at;
}

/* Calibration scores of its group below each of some scores. The scores of group g are sorted[offsets[g] .. offsets[g + 1]); group -1 was
 * never seen, and nothing is below. */
INLINE void count_chunk(const Calibrated *c, const double *scores, const int32_t *groups, int64_t m, int32_t *counts) {
    int64_t at[CHUNK];
    const Index *index = &c->index;
    for (int64_t k = 0; k < m; k++) {
        at[k] = index->starts && groups[k] >= 0 ? place_in_index(index, groups[k], scores[k]) : -1;
        __builtin_prefetch(index->starts + (at[k] < 0 ? 0 : at[k]));
    }
    for (int64_t k = 0; k < m; k++)
        __builtin_prefetch(c->sorted + (at[k] < 0 ? 0 : c->offsets[groups[k]] + index->starts[at[k]]));
    for (int64_t k = 0; k < m; k++) {
        if (groups[k] < 0) { counts[k] = 0; continue; }
        const double *sorted = c->sorted + c->offsets[groups[k]];
        int64_t n = c->offsets[groups[k] + 1] - c->offsets[groups[k]], start = at[k] < 0 ? 0 : index->starts[at[k]];
        int64_t end = at[k] < 0 ? n : index->starts[at[k] + 1];
        if (end - start > 4 * LANES) { /* no index, or many equal scores */
            counts[k] = (int32_t)start + count_below(sorted + start, end - start, scores[k]);
            if (counts[k] < end) continue;
            start = end;
        }
        counts[k] = count_from(sorted, start, n, scores[k]);
    }
}

INLINE double p_value_of(const Calibrated *c, int64_t group, int64_t count) {
    if (group < 0) return 1.0;
    int64_t n = c->offsets[group + 1] - c->offsets[group], bit = c->offsets[group] + group + count;
    double nearest = (double)(n + 1 - count) / (double)(n + 1);
    return from_bits(bits_of(nearest) + (c->rounding[bit >> 3] >> (bit & 7) & 1));
}

typedef struct { const Calibrated *calibrated; int32_t *counts; double *p_values; } Counting; /* counts are added to, or p-values written */

INLINE void write_count(const Counting *w, int64_t cell, int32_t group, int32_t count) {
    if (w->counts) w->counts[cell] += count; else w->p_values[cell] = p_value_of(w->calibrated, group, count);
}

/* Count for the labels of row i, whose scores stand in s, in order. */
INLINE void count_row(const Counting *w, int64_t i, int64_t columns, Scratch s) {
    int32_t groups[CHUNK], counts[CHUNK];
    for (int64_t first = 0; first < columns; first += CHUNK) {
        int64_t m = columns - first < CHUNK ? columns - first : CHUNK;
        const int32_t *row_groups = w->calibrated->row_groups;
        for (int64_t k = 0; k < m; k++) groups[k] = row_groups ? row_groups[i] : (int32_t)s.entries[first + k].column;
        count_chunk(w->calibrated, s.scores + first, groups, m, counts);
        for (int64_t k = 0; k < m; k++) write_count(w, i * columns + s.entries[first + k].column, groups[k], counts[k]);
    }
}

/* Count for the rows of a lane group that are not slow. */
INLINE void count_lanes(const Counting *w, const Tile *t, int64_t start, int64_t rows, int64_t columns, Masks slow) {
    int32_t groups[CHUNK], counts[CHUNK];
    const int32_t *row_groups = w->calibrated->row_groups;
    for (int64_t first = 0; first < columns; first += CHUNK / LANES) {
        int64_t m = (columns - first < CHUNK / LANES ? columns - first : CHUNK / LANES) * LANES;
        for (int64_t k = 0; k < m; k++) {
            int64_t i = k % LANES;
            groups[k] = row_groups ? row_groups[start + (i < rows ? i : 0)] : (int32_t)column_in_lane(t, first + k / LANES, i);
        }
        count_chunk(w->calibrated, (const double *)(t->score + first), groups, m, counts);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = i; k < m && !slow[i]; k += LANES)
                write_count(w, (start + i) * columns + column_in_lane(t, first + k / LANES, i), groups[k], counts[k]);
    }
}

INLINE int64_t count_rows(const Job *job, int64_t n, Scratch s, Tile *t, const Counting *w) {
    int64_t columns = job->columns;
    EACH_LANE_GROUP(start, rows, n) {
        Masks slow = (Masks){0} - 1;
        if (columns <= WIDEST_TILE) {
            slow = score_lanes(job, t, lane_group(job, start, n, t));
            count_lanes(w, t, start, rows, columns, slow);
        }
        for (int64_t i = 0; i < rows; i++) {
            if (!slow[i]) continue;
            if (score_row(job, start + i, s).bad) return start + i;
            count_row(w, start + i, columns, s);
        }
    }
    return -1;
}

static int64_t counts_loop(const Job *job, int64_t n, Scratch s, Tile *t, const Calibrated *c, int32_t *counts) {
    Counting w = {c, counts, NULL};
    return count_rows(job, n, s, t, &w);
}

static int64_t p_values_loop(const Job *job, int64_t n, Scratch s, Tile *t, const Calibrated *c, double *p_values) {
    Counting w = {c, NULL, p_values};
    return count_rows(job, n, s, t, &w);
}
#endif
