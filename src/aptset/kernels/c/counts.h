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

/* The same for wide rows: most are put in order more quickly. */
INLINE Loaded score_wide_row(const Job *job, int64_t i, Scratch s) {
    Loaded row;
    const void *at = row_at(job, i);
    int is_open = job->is_single ? open_row(job, i, 1, &row) : open_row(job, i, 0, &row);
    int is_done = is_open && (job->is_single ? order_wide_row(at, 1, job->columns, s.entries, s.spare, &row)
                                             : order_wide_row(at, 0, job->columns, s.entries, s.spare, &row));
    if (!is_done) return score_row(job, i, s);
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
            if ((columns > WIDEST_TILE ? score_wide_row(job, start + i, s) : score_row(job, start + i, s)).bad) return start + i;
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

/* What counting in one group needs to know; `last` is its last bucket, -1 where it has none. */
typedef struct { const double *sorted; const int32_t *starts; int64_t n, last; double low, scale; } OneGroup;

INLINE OneGroup open_group(const Calibrated *c, int64_t group) {
    OneGroup g = {c->sorted, NULL, 0, -1, 0.0, 0.0};
    if (group < 0) return g; /* never seen: nothing is below */
    g.sorted = c->sorted + c->offsets[group];
    g.n = c->offsets[group + 1] - c->offsets[group];
    if (!c->index.starts) return g;
    g.starts = c->index.starts + c->index.firsts[group];
    g.last = c->index.firsts[group + 1] - c->index.firsts[group] - 2;
    g.low = c->index.low[group], g.scale = c->index.scale[group];
    return g;
}

/* The bucket of a score. Scores below the first bucket or above the last are looked up there: what counts is how many are below. */
INLINE int32_t bucket_of(const OneGroup *g, double score) {
    double place = (score - g->low) * g->scale;
    place = place > 0.0 ? place : 0.0; /* also where it is no number */
    return (int32_t)(place < (double)g->last ? place : (double)g->last);
}

INLINE int32_t count_in_group(const OneGroup *g, int32_t bucket, double score) {
    int64_t start = bucket < 0 ? 0 : g->starts[bucket], end = bucket < 0 ? g->n : g->starts[bucket + 1];
    if (end - start > 4 * LANES) { /* no index, or many equal scores */
        int32_t count = (int32_t)start + count_below(g->sorted + start, end - start, score);
        if (count < end) return count;
        start = end;
    }
    return count_from(g->sorted, start, g->n, score);
}

/* Calibration scores of its group below each of some scores; all of one group, or each of its own. */
INLINE void count_chunk(const Calibrated *c, const double *scores, const int32_t *groups, int is_one_group, int64_t m, int32_t *counts) {
    int32_t bucket[CHUNK];
    OneGroup g = open_group(c, groups[0]);
    if (is_one_group) {
        for (int64_t k = 0; k < m; k++) bucket[k] = g.last < 0 ? -1 : bucket_of(&g, scores[k]);
        for (int64_t k = 0; k < m && g.last >= 0; k++) __builtin_prefetch(g.starts + bucket[k]);
        for (int64_t k = 0; k < m && g.last >= 0; k++) __builtin_prefetch(g.sorted + g.starts[bucket[k]]);
        for (int64_t k = 0; k < m; k++) counts[k] = count_in_group(&g, bucket[k], scores[k]);
        return;
    }
    for (int64_t k = 0; k < m; k++) {
        g = open_group(c, groups[k]);
        bucket[k] = g.last < 0 ? -1 : bucket_of(&g, scores[k]);
        if (g.last >= 0) __builtin_prefetch(g.starts + bucket[k]);
    }
    for (int64_t k = 0; k < m; k++) {
        g = open_group(c, groups[k]);
        if (g.last >= 0) __builtin_prefetch(g.sorted + g.starts[bucket[k]]);
    }
    for (int64_t k = 0; k < m; k++) {
        g = open_group(c, groups[k]);
        counts[k] = count_in_group(&g, bucket[k], scores[k]);
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
        count_chunk(w->calibrated, s.scores + first, groups, row_groups != NULL, m, counts);
        for (int64_t k = 0; k < m; k++) write_count(w, i * columns + s.entries[first + k].column, groups[k], counts[k]);
    }
}

/* Count for the rows of a lane group that are not slow. */
INLINE void count_lanes(const Counting *w, const Tile *t, int64_t start, int64_t rows, int64_t columns, Masks slow) {
    int32_t groups[CHUNK], counts[CHUNK];
    const int32_t *row_groups = w->calibrated->row_groups;
    int is_one_group = row_groups != NULL;
    for (int64_t i = 1; i < rows && row_groups; i++) is_one_group &= row_groups[start + i] == row_groups[start];
    for (int64_t first = 0; first < columns; first += CHUNK / LANES) {
        int64_t m = (columns - first < CHUNK / LANES ? columns - first : CHUNK / LANES) * LANES;
        for (int64_t k = 0; k < m; k++) {
            int64_t i = k % LANES;
            groups[k] = row_groups ? row_groups[start + (i < rows ? i : 0)] : (int32_t)column_in_lane(t, first + k / LANES, i);
        }
        count_chunk(w->calibrated, (const double *)(t->score + first), groups, is_one_group, m, counts);
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
            if ((columns > WIDEST_TILE ? score_wide_row(job, start + i, s) : score_row(job, start + i, s)).bad) return start + i;
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
