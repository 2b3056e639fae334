/* Bounds for many directions: rows are projected and counted in bins, some rows at a time for all directions, so that a row comes from
 * memory once. Projections have the bits of features.project: products are added feature by feature. */
#ifndef APTSET_DIRECTIONS_H
#define APTSET_DIRECTIONS_H
#include <math.h>

#include "slabs.h"
#include "vectors.h"

#define STEP (4 * LANES)   /* rows that are projected at once */
#define MOST_AT_ONCE 512   /* rows that wait in columns, a whole number of steps on every machine */
#define LEAST_AT_ONCE 32
#define LEAST_SAMPLED 512  /* rows that tell how far a direction reaches, or one of 32: few points may lie further out */

typedef struct { double low, scale; } Span;

typedef struct {
    const double *matrix, *vectors;
    const uint8_t *covered;
    int64_t n, features, directions, least, n_bins;
} Search;

/* Room for one call; `column` first, since its vectors must be aligned. */
typedef struct {
    double *column, *place;
    Span *span;
    uint64_t *count; /* what a row adds to its bin: a point, and a missed one in the upper half */
    uint64_t *bins;
    Prefix *start;
    int64_t *hull;
    int32_t *index;
} SearchRoom;

static inline int64_t rows_at_once(int64_t features) {
    int64_t rows = 2048 / features / LEAST_AT_ONCE * LEAST_AT_ONCE;
    return rows < LEAST_AT_ONCE ? LEAST_AT_ONCE : rows > MOST_AT_ONCE ? MOST_AT_ONCE : rows;
}

/* Take m rows apart into columns; the last one is repeated up to a whole step. */
INLINE int64_t take_columns(const Search *s, int64_t start, int64_t stride, int64_t m, int64_t at_once, double *restrict column) {
    int64_t padded = (m + STEP - 1) / STEP * STEP, features = s->features;
    const double *restrict matrix = s->matrix;
    for (int64_t k = 0; k < padded; k++) {
        const double *row = matrix + (start + (k < m ? k : m - 1) * stride) * features;
        for (int64_t j = 0; j < features; j++) column[j * at_once + k] = row[j];
    }
    return padded;
}

/* Ask for a share of the rows that come next, one share for each direction: they come while these are counted. */
INLINE void ask_for_next(const Search *s, int64_t start, int64_t m, int64_t v) {
    int64_t lines = m * s->features / 8, first = lines * v / s->directions, stop = lines * (v + 1) / s->directions;
    for (int64_t k = first; k < stop; k++) __builtin_prefetch(s->matrix + start * s->features + 8 * k);
}

INLINE void project_rows(const Search *s, const double *vector, const double *column, int64_t padded, int64_t at_once, double *place) {
    for (int64_t k = 0; k < padded; k += STEP) {
        Doubles a = {0}, b = {0}, c = {0}, d = {0};
        for (int64_t j = 0; j < s->features; j++) {
            const Doubles *x = (const Doubles *)(column + j * at_once + k);
            a += vector[j] * x[0];
            b += vector[j] * x[1];
            c += vector[j] * x[2];
            d += vector[j] * x[3];
        }
        Doubles *to = (Doubles *)(place + k);
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    }
}

/* How far each direction reaches among some rows; what lies further out is counted in the outermost bins. */
static void find_spans(const Search *s, const SearchRoom *r, int64_t at_once) {
    int64_t wanted = s->n / 32 > LEAST_SAMPLED ? s->n / 32 : LEAST_SAMPLED, sampled = s->n < wanted ? s->n : wanted, stride = s->n / sampled;
    for (int64_t v = 0; v < s->directions; v++) r->span[v] = (Span){HUGE_VAL, -HUGE_VAL};
    for (int64_t start = 0; start < sampled; start += at_once) {
        int64_t m = sampled - start < at_once ? sampled - start : at_once;
        int64_t padded = take_columns(s, start * stride, stride, m, at_once, r->column);
        for (int64_t v = 0; v < s->directions; v++) {
            project_rows(s, s->vectors + v * s->features, r->column, padded, at_once, r->place);
            Doubles low = ((Doubles *)r->place)[0], high = low;
            for (int64_t k = LANES; k < padded; k += LANES) {
                Doubles x = *(Doubles *)(r->place + k);
                low = smaller(x, low);
                high = larger(x, high);
            }
            for (int i = 0; i < LANES; i++) {
                r->span[v].low = smaller_of(low[i], r->span[v].low);
                r->span[v].scale = larger_of(high[i], r->span[v].scale); /* the high end, for now */
            }
        }
    }
    for (int64_t v = 0; v < s->directions; v++) {
        double width = r->span[v].scale - r->span[v].low;
        r->span[v].scale = width > 0.0 ? (double)s->n_bins / width : 0.0;
    }
}

/* Bins never fall along a direction, whatever its span: that is all a bound needs. Where a span has no width, all rows are in the first. */
INLINE void find_bins(const double *place, int64_t padded, Span span, int64_t n_bins, int32_t *index) {
    Doubles last = (Doubles){0} + (double)(n_bins - 1), first = {0};
    for (int64_t k = 0; k < padded; k += LANES) {
        Doubles at = (*(const Doubles *)(place + k) - span.low) * span.scale;
#if defined(__AVX512F__)
        __m512d inside = _mm512_min_pd(_mm512_max_pd((__m512d)at, (__m512d)first), (__m512d)last);
        _mm256_storeu_si256((__m256i *)(index + k), _mm512_cvttpd_epi32(inside));
#else
        at = smaller(larger(at, first), last);
        for (int i = 0; i < LANES; i++) index[k + i] = (int32_t)at[i];
#endif
    }
}

/* Directions whose slabs all lie above a mean that is known (covered points, and all of them) need no bound. Whole bins of the direction
 * whose bound is lowest so far may have a lower mean, which is known from then on: few directions come that far. */
static void bounds_loop(const Search *s, const SearchRoom *r, double *bounds, int64_t *known) {
    int64_t at_once = rows_at_once(s->features);
    const uint64_t *count = r->count;
    const int32_t *index = r->index;
    find_spans(s, r, at_once);
    memset(r->bins, 0, (size_t)(s->directions * s->n_bins) * sizeof *r->bins);
    for (int64_t start = 0; start < s->n; start += at_once) {
        int64_t m = s->n - start < at_once ? s->n - start : at_once;
        int64_t padded = take_columns(s, start, 1, m, at_once, r->column);
        for (int64_t k = 0; k < m; k++) r->count[k] = s->covered[start + k] ? 1 : 1 + ((uint64_t)1 << 32);
        int64_t next = start + m, in_next = s->n - next < at_once ? s->n - next : at_once;
        for (int64_t v = 0; v < s->directions; v++) {
            ask_for_next(s, next, in_next, v);
            uint64_t *restrict bins = r->bins + v * s->n_bins;
            project_rows(s, s->vectors + v * s->features, r->column, padded, at_once, r->place);
            find_bins(r->place, padded, r->span[v], s->n_bins, r->index);
            for (int64_t k = 0; k < m; k++) bins[index[k]] += count[k];
        }
    }
    double lowest = HUGE_VAL;
    for (int64_t v = 0; v < s->directions; v++) {
        const uint64_t *bins = r->bins + v * s->n_bins;
        int is_above = all_above(bins, s->n_bins, s->least, known[0], known[1], r->start);
        bounds[v] = is_above ? HUGE_VAL : least_mean_bound(bins, s->n_bins, s->least, r->start, r->hull);
        if (bounds[v] >= lowest) continue;
        lowest = bounds[v];
        int64_t sum, count;
        least_mean_of_bins(bins, s->n_bins, s->least, r->start, r->hull, &sum, &count);
        if (sum * known[1] < known[0] * count) known[0] = sum, known[1] = count;
    }
}
#endif
