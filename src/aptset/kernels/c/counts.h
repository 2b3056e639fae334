/* The score of every label of every row, and how many calibration scores lie below it. */
#ifndef APTSET_COUNTS_H
#define APTSET_COUNTS_H
#include "membership.h"
#include "sorting.h"
#include "narrow_simd.h"

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
            for (int64_t r = 0; r < columns; r++) out[s.columns[r]] = s.scores[r];
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
 * firsts[g] on, one more than it has buckets; none where it is small. Buckets with very many scores have finer ones, in lists behind those of the
 * groups: finer[b] is the number of such a list, 0 where there is none; NULL where no bucket has. */
typedef struct { const int32_t *starts; const int64_t *firsts; const double *low, *scale; const int32_t *finer; } Index;

#define TOGETHER 8 /* scores that are compared at once */

/* How many of TOGETHER sorted numbers are below a score. */
INLINE int64_t few_below(const double *sorted, double score) {
#if defined(__AVX512F__)
    return __builtin_popcount(_mm512_cmp_pd_mask(_mm512_loadu_pd(sorted), _mm512_set1_pd(score), _CMP_LT_OQ));
#elif defined(__SSE2__)
    const __m128d bar = _mm_set1_pd(score);
    int bits = 0;
    for (int k = 0; k < TOGETHER; k += 2) bits |= _mm_movemask_pd(_mm_cmplt_pd(_mm_loadu_pd(sorted + k), bar)) << k;
    return __builtin_popcount((unsigned)bits);
#else
    int64_t below = 0;
    for (int k = 0; k < TOGETHER; k++) below += sorted[k] < score;
    return below;
#endif
}

/* Scores of lower buckets are below, those of later ones are not: most counts end among the first of the bucket, and halving does the rest. There
 * are at least TOGETHER scores. */
INLINE int32_t count_from(const double *sorted, const int32_t *bucket, int64_t n, double score) {
    int64_t start = bucket[0] < n - TOGETHER ? bucket[0] : n - TOGETHER, below = few_below(sorted + start, score);
    if (below < TOGETHER || start + TOGETHER >= bucket[1]) return (int32_t)(start + below);
    start += TOGETHER;
    return (int32_t)start + count_below(sorted + start, bucket[1] - start, score);
}

/* `rounding` has a bit for every count of every group: whether its p-value is one step above the nearest float. */
typedef struct {
    const double *sorted;
    const int64_t *offsets;
    const int32_t *row_groups, *of_columns; /* the group of a label is that of its row, else what its column says, else its column */
    Index index;
    const uint8_t *rounding;
} Calibrated;

INLINE int32_t group_of(const Calibrated *c, int64_t i, int64_t column) {
    return c->row_groups ? c->row_groups[i] : c->of_columns ? c->of_columns[column] : (int32_t)column;
}

#define CHUNK 64 /* scores that are looked up together: memory is asked for all of them before the first answer is needed */
#define CACHED_SCORES 65536 /* so many are in a near cache anyhow */

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

/* Step down from buckets to the finest ones of the same scores, counted from the first of their group as well. */
APART void find_finest(const Calibrated *c, const double *scores, const int32_t *groups, int64_t m, int32_t *bucket) {
    const Index *index = &c->index;
    for (int64_t k = 0; k < m; k++) {
        if (bucket[k] < 0) continue;
        const int32_t *first = index->starts + index->firsts[groups[k]], *at = first + bucket[k];
        for (int32_t finer; (finer = index->finer[at - index->starts]);) {
            const int64_t start = index->firsts[finer];
            OneGroup list = {.last = index->firsts[finer + 1] - start - 2, .low = index->low[finer], .scale = index->scale[finer]};
            at = index->starts + start + bucket_of(&list, scores[k]);
        }
        bucket[k] = (int32_t)(at - first);
    }
}

/* `bucket` is -1 where the group has no index. */
INLINE int32_t count_in_group(const OneGroup *g, int32_t bucket, double score) {
    return bucket < 0 ? count_below(g->sorted, g->n, score) : count_from(g->sorted, g->starts + bucket, g->n, score);
}

/* Calibration scores of its group below each of some scores; all of one group, or each of its own. */
INLINE void count_chunk(const Calibrated *c, const double *scores, const int32_t *groups, int is_one_group, int64_t m, int32_t *counts) {
    int32_t bucket[CHUNK];
    OneGroup g = open_group(c, groups[0]);
    if (is_one_group && g.last < 0) {
        for (int64_t k = 0; k < m; k++) counts[k] = count_below(g.sorted, g.n, scores[k]);
        return;
    }
    if (is_one_group) {
        for (int64_t k = 0; k < m; k++) bucket[k] = bucket_of(&g, scores[k]);
        if (c->index.finer) find_finest(c, scores, groups, m, bucket);
        for (int64_t k = 0; k < m && g.n > CACHED_SCORES; k++) __builtin_prefetch(g.starts + bucket[k]);
        for (int64_t k = 0; k < m && g.n > CACHED_SCORES; k++) __builtin_prefetch(g.sorted + g.starts[bucket[k]]);
        for (int64_t k = 0; k < m; k++) counts[k] = count_from(g.sorted, g.starts + bucket[k], g.n, scores[k]);
        return;
    }
    for (int64_t k = 0; k < m; k++) {
        g = open_group(c, groups[k]);
        bucket[k] = g.last < 0 ? -1 : bucket_of(&g, scores[k]);
        if (g.last >= 0) __builtin_prefetch(g.starts + bucket[k]);
    }
    if (c->index.finer) find_finest(c, scores, groups, m, bucket);
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

/* p-values of counts; all of one group, or each of its own. */
INLINE void p_values_of_chunk(const Calibrated *c, const int32_t *groups, int is_one_group, const int32_t *counts, int64_t m, double *p) {
    if (!is_one_group || groups[0] < 0) {
        for (int64_t k = 0; k < m; k++) p[k] = p_value_of(c, groups[k], counts[k]);
        return;
    }
    const int64_t first = c->offsets[groups[0]] + groups[0], n = c->offsets[groups[0] + 1] - c->offsets[groups[0]];
    const double whole = (double)(n + 1);
    for (int64_t k = 0; k < m; k++) p[k] = (whole - (double)counts[k]) / whole;
    for (int64_t k = 0; k < m; k++) {
        int64_t bit = first + counts[k];
        p[k] = from_bits(bits_of(p[k]) + (c->rounding[bit >> 3] >> (bit & 7) & 1));
    }
}

/* Count for the first n labels of row i in order, whose columns and scores stand in s; the others have been counted as above all scores. */
INLINE void count_row(const Counting *w, int64_t i, int64_t columns, int64_t n, Scratch s) {
    int32_t groups[CHUNK], counts[CHUNK];
    double p[CHUNK];
    const int32_t *row_groups = w->calibrated->row_groups;
    int is_one_group = row_groups != NULL;
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t m = n - first < CHUNK ? n - first : CHUNK;
        const int32_t *column = s.columns + first;
        for (int64_t k = 0; k < m; k++) groups[k] = group_of(w->calibrated, i, column[k]);
        count_chunk(w->calibrated, s.scores + first, groups, is_one_group, m, counts);
        if (w->counts) {
            for (int64_t k = 0; k < m; k++) w->counts[i * columns + column[k]] += counts[k];
            continue;
        }
        p_values_of_chunk(w->calibrated, groups, is_one_group, counts, m, p);
        for (int64_t k = 0; k < m; k++) w->p_values[i * columns + column[k]] = p[k];
    }
}

/* Count for the rows of a lane group that are not slow. */
INLINE void count_lanes(const Counting *w, const Tile *t, int64_t start, int64_t rows, int64_t columns, Masks slow) {
    int32_t groups[CHUNK], counts[CHUNK];
    double p[CHUNK];
    const int32_t *row_groups = w->calibrated->row_groups;
    int is_one_group = row_groups != NULL;
    for (int64_t i = 1; i < rows && row_groups; i++) is_one_group &= row_groups[start + i] == row_groups[start];
    for (int64_t first = 0; first < columns; first += CHUNK / LANES) {
        int64_t m = (columns - first < CHUNK / LANES ? columns - first : CHUNK / LANES) * LANES;
        for (int64_t k = 0; k < m; k++) {
            int64_t i = k % LANES;
            groups[k] = group_of(w->calibrated, start + (i < rows ? i : 0), column_in_lane(t, first + k / LANES, i));
        }
        count_chunk(w->calibrated, (const double *)(t->score + first), groups, is_one_group, m, counts);
        if (w->p_values) p_values_of_chunk(w->calibrated, groups, is_one_group, counts, m, p);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = i; k < m && !slow[i]; k += LANES) {
                int64_t cell = (start + i) * columns + column_in_lane(t, first + k / LANES, i);
                if (w->p_values) w->p_values[cell] = p[k]; else w->counts[cell] += counts[k];
            }
    }
}

/* Beyond the largest calibration score all scores are below, so labels that stand further down their row need no look: the row is cut there, as
 * for a set. `resting` counts rows that are scored whole, since most labels of the last one were above. */
typedef struct { double most; int64_t resting; } Reach;
#define ROWS_SCORED_WHOLE 15

/* The largest score of the group of a row, or of all groups where each label is one. */
INLINE double most_of_group(const Calibrated *c, int64_t group) {
    return group >= 0 && c->offsets[group + 1] > c->offsets[group] ? c->sorted[c->offsets[group + 1] - 1] : -INFINITY;
}

/* What labels beyond have: in s.least, where each label is a group. */
INLINE Reach start_counting(const Counting *w, int64_t columns, Scratch s) {
    const Calibrated *c = w->calibrated;
    Reach reach = {-INFINITY, 0};
    for (int64_t j = 0; j < columns && !c->row_groups; j++) {
        int64_t g = group_of(c, 0, j);
        double most = most_of_group(c, g);
        reach.most = most > reach.most ? most : reach.most;
        if (w->p_values) s.least[j] = p_value_of(c, g, c->offsets[g + 1] - c->offsets[g]);
    }
    return reach;
}

/* Count all labels of row i as beyond. */
INLINE void count_as_beyond(const Counting *w, int64_t i, int64_t columns, Scratch s) {
    const Calibrated *c = w->calibrated;
    int32_t group = c->row_groups ? c->row_groups[i] : -1;
    int32_t whole = group < 0 ? 0 : (int32_t)(c->offsets[group + 1] - c->offsets[group]);
    if (w->p_values) {
        double *p = w->p_values + i * columns, least = c->row_groups ? p_value_of(c, group, whole) : 0.0;
        for (int64_t j = 0; j < columns; j++) p[j] = c->row_groups ? least : s.least[j];
    } else {
        int32_t *counts = w->counts + i * columns;
        for (int64_t j = 0; j < columns; j++) {
            int64_t g = c->row_groups ? 0 : group_of(c, i, j);
            counts[j] += c->row_groups ? whole : (int32_t)(c->offsets[g + 1] - c->offsets[g]);
        }
    }
}

/* Count for wide row i; 0 if it is bad. */
INLINE int count_wide_row(const Job *job, int64_t i, Scratch s, const Counting *w, Reach *reach) {
    const Calibrated *c = w->calibrated;
    const int64_t columns = job->columns;
    Loaded row;
    if (reach->resting > 0) {
        reach->resting--;
        if (score_wide_row(job, i, s).bad) return 0;
        count_row(w, i, columns, columns, s);
        return 1;
    }
    double most = c->row_groups ? most_of_group(c, c->row_groups[i]) : reach->most;
    int64_t n_members = wide_members(job, i, most, 1, &row, s);
    if (n_members < 0) return 0;
    note_columns(n_members, s);
    count_as_beyond(w, i, columns, s);
    for (int64_t k = 0; k < n_members && w->counts; k++) { /* these are counted right below */
        int64_t group = group_of(c, i, s.columns[k]);
        w->counts[i * columns + s.columns[k]] -= group < 0 ? 0 : (int32_t)(c->offsets[group + 1] - c->offsets[group]);
    }
    count_row(w, i, columns, n_members, s);
    if (2 * n_members > columns) reach->resting = ROWS_SCORED_WHOLE;
    return 1;
}

APART int64_t count_narrow_rows(const Job *job, int64_t n, Scratch s, Tile *t, const Counting *w) {
    int64_t columns = job->columns;
    EACH_LANE_GROUP(start, rows, n) {
        Masks slow = score_lanes(job, t, lane_group(job, start, n, t));
        count_lanes(w, t, start, rows, columns, slow);
        for (int64_t i = 0; i < rows; i++) {
            if (!slow[i]) continue;
            if (score_row(job, start + i, s).bad) return start + i;
            count_row(w, start + i, columns, columns, s);
        }
    }
    return -1;
}

INLINE int64_t count_rows(const Job *job, int64_t n, Scratch s, Tile *t, const Counting *w) {
    if (job->columns <= WIDEST_TILE) return count_narrow_rows(job, n, s, t, w);
    Reach reach = start_counting(w, job->columns, s);
    for (int64_t i = 0; i < n; i++)
        if (!count_wide_row(job, i, s, w, &reach)) return i;
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
