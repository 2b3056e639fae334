/* Where a wide row is cut, without sorting it. A set is a beginning of the order of its row, so the cut is searched among
 * the bits of the probabilities: rough sums in single floats narrow it down to a few labels, and their exact scores decide.
 * The labels on both sides of the cut are always among those few, so a rough sum that misleads is noticed. */
#ifndef APTSET_BRACKET_H
#define APTSET_BRACKET_H
#include "order.h"
#include "vectors.h"
#include <float.h>
#include <math.h>

#define SPAN (VECTOR / 4) /* single floats in one vector */
#define BITS_OF_INFINITY 0x7F800000
typedef float Roughs __attribute__((vector_size(VECTOR)));
typedef int32_t RoughMasks __attribute__((vector_size(VECTOR)));

/* An even number of vectors that holds a row, and the room that it takes on any machine. */
INLINE int64_t spans_of(int64_t columns) { return (columns + 2 * SPAN - 1) / (2 * SPAN) * 2; }
INLINE int64_t rough_room(int64_t columns) { return columns + WIDEST_VECTOR / 2; }
INLINE Roughs rough_at(const float *rough, int64_t s) { Roughs x; memcpy(&x, rough + s * SPAN, sizeof x); return x; }
INLINE float float_of(int32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
INLINE int32_t bits_of_float(float x) { int32_t bits; memcpy(&bits, &x, 4); return bits; }

INLINE float next_float(float x) { return float_of(bits_of_float(x) + 1); } /* of a positive number */

#if defined(__AVX512F__) /* which reads the last labels of a row without those beyond */
#define READS_IN_PLACE 1
#else
#define READS_IN_PLACE 0
#endif
/* The row that is held as single floats: where it lies, or in the room where load_rough left it. */
INLINE const float *rough_of(const Job *job, int is_single, Scratch s) { return READS_IN_PLACE && is_single ? job->held : s.rough; }

/* The row as single floats, rounded if it was double (which keeps the order), filled up with what is never a member. Returns the largest. */
INLINE float load_rough(const Job *job, const void *row, int is_single, float *rough) {
    int64_t columns = job->columns;
    int32_t top = 0, bits; /* bits: vectors find the largest integer, but not the largest float */
    for (int64_t j = 0; j < columns; j++) {
        float x = is_single ? ((const float *)row)[j] : (float)((const double *)row)[j];
        rough[j] = x;
        memcpy(&bits, &x, 4);
        top = bits > top ? bits : top;
    }
    for (int64_t j = columns; j < spans_of(columns) * SPAN; j++) rough[j] = -FLT_MIN;
    return float_of(top);
}

/* How the cut is searched. Near 1 a rough sum from the top would lose what the cut depends on: the labels below are summed up there, and
 * what is left of 1 is compared by its logarithm, roughly. */
typedef struct { double threshold, place; int from_below, in_logs; } Aim;
#define CLOSE_TO_ONE 0.95

INLINE double place_of(double score, int in_logs) {
    return in_logs ? -(double)bits_of(score < 1.0 - 0x1p-52 ? 1.0 - score : 0x1p-52) : score;
}
INLINE Aim aim_at(const Job *job, double threshold) {
    const double *w = job->weights;
    int from_below = threshold > CLOSE_TO_ONE, in_logs = from_below && w[ABOVE] > 0.0 && w[BEHIND] != 0.0 && w[TOP] == 0.0 && w[RANK] == 0.0;
    return (Aim){threshold, place_of(threshold, in_logs), from_below, in_logs};
}

typedef struct { float pivot; double mass, score; int64_t count; } Front; /* the labels above the pivot */

INLINE double sum_of_roughs(Roughs x) {
    float lanes[SPAN];
    memcpy(lanes, &x, sizeof lanes);
    for (int half = SPAN / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    return lanes[0];
}

#if defined(__AVX512F__)
/* Lanes that hold labels where `left` are left. */
INLINE __mmask16 lanes_there(int64_t left) { return left >= SPAN ? 0xFFFF : left > 0 ? (__mmask16)((1u << left) - 1) : 0; }
/* Sum up SPAN labels of a row above (or up to) the bar; tell which are above. */
INLINE uint64_t add_span(const float *at, __mmask16 there, __m512 bar, int from_below, __m512 *mass) {
    __m512 x = _mm512_mask_loadu_ps(_mm512_set1_ps(-FLT_MIN), there, at);
    __mmask16 in = _mm512_cmp_ps_mask(x, bar, _CMP_GT_OQ);
    *mass = _mm512_mask_add_ps(*mass, from_below ? _mm512_cmp_ps_mask(x, bar, _CMP_LE_OQ) : in, *mass, x);
    return in;
}
/* Rough mass above (or up to) the pivot, and the number of labels above. Four sums: one would wait for itself. */
INLINE double rough_mass(const float *rough, int64_t n, float pivot, int from_below, int64_t *count) {
    __m512 bar = _mm512_set1_ps(pivot), mass[4];
    for (int k = 0; k < 4; k++) mass[k] = _mm512_setzero_ps();
    int64_t above = 0, j = 0;
    for (; j + 4 * SPAN <= n; j += 4 * SPAN) {
        uint64_t in = 0;
        for (int k = 0; k < 4; k++) in |= add_span(rough + j + k * SPAN, 0xFFFF, bar, from_below, mass + k) << 16 * k;
        above += __builtin_popcountll(in);
    }
    for (int k = 0; j < n; j += SPAN, k++) above += __builtin_popcountll(add_span(rough + j, lanes_there(n - j), bar, from_below, mass + k));
    *count = above;
    return (double)_mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(mass[0], mass[1]), _mm512_add_ps(mass[2], mass[3])));
}
#endif

/* The labels that are looked at: all of a row, or some of it and what stands above them. */
typedef struct { const float *rough; int64_t n; Front above; } Searched;

/* `score` is what a label right at the pivot would have. */
INLINE Front front_of(const Job *job, const Searched *in, float pivot, const Loaded *row, int from_below) {
    const float *rough = in->rough;
    Front f = {pivot, 0.0, 0.0, 0};
#if defined(__AVX512F__)
    double sum = from_below ? rough_mass(rough, in->n, pivot, 1, &f.count) : rough_mass(rough, in->n, pivot, 0, &f.count);
#else
    Roughs mass = {0}, more_mass = {0}; /* two sums: one would wait for itself */
    const RoughMasks turn = (RoughMasks){0} - from_below;
    RoughMasks count = {0};
    for (int64_t s = 0; s < spans_of(in->n); s += 2) {
        Roughs x = rough_at(rough, s), y = rough_at(rough, s + 1);
        RoughMasks x_in = x > pivot, y_in = y > pivot;
        mass += (Roughs)((x_in ^ turn) & (RoughMasks)x);
        more_mass += (Roughs)((y_in ^ turn) & (RoughMasks)y);
        count -= x_in + y_in;
    }
    for (int i = 0; i < SPAN; i++) f.count += count[i];
    double sum = sum_of_roughs(mass + more_mass);
#endif
    f.count += in->above.count;
    f.mass = from_below ? (double)row->total / STEPS_PER_ONE - sum : in->above.mass + sum;
    f.score = mass_score(job->weights, f.mass * STEPS_PER_ONE, pivot * STEPS_PER_ONE, (double)(f.count + 1), row);
    return f;
}

/* A probability below which no member stands, for scores that sum up from the top; any value is right. */
INLINE float lowest_pivot(const Job *job, double threshold) {
    double left = 0.5 * (1.0 - threshold) / (job->weights[ABOVE] > 0.0 ? (double)job->columns : 1.0);
    int sums_up = job->weights[BEHIND] != 0.0 && job->weights[TOP] == 0.0;
    return sums_up && left > 0x1p-52 ? (float)left : 0x1p-52f;
}

/* Narrow the cut down to a few labels with low < rough <= high, from ends on both sides of it. The end that stays for long loses weight, so
 * that the search does not creep from one side. */
INLINE void narrow_between(const Job *job, const Searched *in, const Loaded *row, Aim aim, Front *low, Front *high, int64_t at_top) {
    Front l = *low, h = *high;
    double low_weight = 1.0, high_weight = 1.0;
    for (int round = 0; round < 64 && l.count > at_top && l.count - h.count > FEW; round++) {
        int32_t a = bits_of_float(l.pivot), b = bits_of_float(h.pivot);
        if (b - a < 2) break;
        double up = low_weight * (place_of(l.score, aim.in_logs) - aim.place);
        double down = high_weight * (aim.place - place_of(h.score, aim.in_logs));
        double share = round % 8 == 7 || !(up > 0.0 && down > 0.0) ? 0.5 : up / (up + down);
        int32_t step = (int32_t)(share * (double)(b - a));
        Front f = front_of(job, in, float_of(a + (step < 1 ? 1 : step >= b - a ? b - a - 1 : step)), row, aim.from_below);
        int is_in = f.score <= aim.threshold;
        low_weight = is_in ? (h.count ? low_weight * 0.5 : 1.0) : 1.0;
        high_weight = is_in ? 1.0 : (l.count < job->columns ? high_weight * 0.5 : 1.0);
        if (is_in) h = f; else l = f;
    }
    *low = l;
    *high = h;
}

/* Narrow the cut down in a whole row, from its top; to a few at the top of the row if high comes out infinite. */
INLINE Front narrow_down(const Job *job, const float *rough, float top, const Loaded *row, Aim aim, float *low) {
    Front l = {lowest_pivot(job, aim.threshold), 1.0, 2.0, job->columns}, h = {top, 0.0, 0.0, 0};
    if (aim.in_logs) l.score = 1.0 - 0.25 * (1.0 - aim.threshold);
    if (job->weights[BEHIND] == 0.0) l.score += job->weights[RANK] * (double)job->columns;
    if (l.pivot >= top) l.pivot = 0.0f;
    Searched whole = {rough, job->columns, {0}};
    narrow_between(job, &whole, row, aim, &l, &h, FEW);
    *low = l.pivot;
    return l.count > FEW ? h : (Front){INFINITY, 0.0, 0.0, 0};
}

/* Step outward to the next label on each side; where there is none, to -1 and infinity. */
INLINE void widen(const float *rough, int64_t n, float *low, float *high) {
    const int32_t *bits = (const int32_t *)rough, l = bits_of_float(*low), h = bits_of_float(*high);
    int32_t next = BITS_OF_INFINITY, last = -1;
    for (int64_t j = 0; j < n; j++) {
        int32_t above = bits[j] > h ? bits[j] : BITS_OF_INFINITY, below = bits[j] <= l ? bits[j] : -1;
        next = above < next ? above : next;
        last = below > last ? below : last;
    }
    *high = float_of(next);
    *low = last < 0 ? -1.0f : float_of(last);
}

/* One bit for each of the SPAN labels from `bits` on that lies between low and high (bits of floats, none negative); `left` of them are there. */
INLINE uint32_t between(const int32_t *bits, int64_t left, int32_t low, int32_t high) {
#if defined(__AVX512F__)
    __m512i x = _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), lanes_there(left), bits);
    return _mm512_mask_cmple_epi32_mask(_mm512_cmpge_epi32_mask(x, _mm512_set1_epi32(low)), x, _mm512_set1_epi32(high));
#elif defined(__AVX2__)
    __m256i x = _mm256_loadu_si256((const __m256i *)bits);
    __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(low), x), _mm256_cmpgt_epi32(x, _mm256_set1_epi32(high)));
    return 0xFFu & ~(uint32_t)_mm256_movemask_ps((__m256)outside);
#elif defined(__SSE2__)
    __m128i x = _mm_loadu_si128((const __m128i *)bits);
    __m128i outside = _mm_or_si128(_mm_cmpgt_epi32(_mm_set1_epi32(low), x), _mm_cmpgt_epi32(x, _mm_set1_epi32(high)));
    return 0xFu & ~(uint32_t)_mm_movemask_ps((__m128)outside);
#else
    uint32_t inside = 0;
    for (int k = 0; k < SPAN; k++) inside |= (uint32_t)(bits[k] >= low && bits[k] <= high) << k;
    return inside;
#endif
}

/* Collect the labels with low <= rough <= high, columns upward. First one bit a label, 64 in a word, then the words that are not empty: most
 * are, and a branch for each would be mispredicted. */
#define WORDS 64 /* at a time */
INLINE int64_t collect(const Job *job, const float *rough, float low, float high, Entry *entries) {
    const void *row = job->held;
    const int64_t spans = spans_of(job->columns), step = 64 / SPAN;
    uint64_t words[WORDS];
    int64_t n = 0;
    for (int64_t first = 0; first < spans; first += WORDS * step) {
        uint64_t filled = 0;
        for (int64_t w = 0; w < WORDS && first + w * step < spans; w++) {
            uint64_t word = 0;
            for (int64_t k = 0; k < step && first + w * step + k < spans; k++) {
                int64_t j = (first + w * step + k) * SPAN;
                word |= (uint64_t)between((const int32_t *)rough + j, job->columns - j, bits_of_float(low), bits_of_float(high)) << k * SPAN;
            }
            words[w] = word;
            filled |= (uint64_t)(word != 0) << w;
        }
        for (; filled; filled &= filled - 1) {
            int64_t w = __builtin_ctzll(filled), start = first * SPAN + w * 64;
            for (uint64_t left = words[w]; left; left &= left - 1) {
                int64_t column = start + __builtin_ctzll(left);
                entries[n++] = (Entry){(int64_t)bits_of(AS_DOUBLE(row, job->is_single, column)), column};
            }
        }
    }
    return n;
}
#endif
