/* Vectors of the compiler: every operation works on all lanes, whatever the machine. Comparisons give masks (0 or -1).
 * Lanes are columns of one wide row, or rows of a tile of narrow ones. The few places where a compiler misses the right
 * instruction name it; what they compute is the same everywhere. */
#ifndef APTSET_VECTORS_H
#define APTSET_VECTORS_H
#include "row.h"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* Bytes of a vector: as long as the machine's own. Longer ones gcc takes apart number by number, which is ten times slower. */
#if defined(__AVX512F__)
#define VECTOR 64
#elif defined(__AVX2__)
#define VECTOR 32
#else
#define VECTOR 16
#endif
#define WIDEST_VECTOR 64
#define LANES (VECTOR / 8) /* doubles in one vector */
typedef double Doubles __attribute__((vector_size(VECTOR)));
typedef float Singles __attribute__((vector_size(VECTOR / 2)));
typedef int64_t Masks __attribute__((vector_size(VECTOR)));
typedef uint64_t WordVector __attribute__((vector_size(VECTOR)));
typedef uint32_t HalfWords __attribute__((vector_size(VECTOR)));

#define BITS_OF_TWO ((int64_t)0x4000000000000000)

INLINE Doubles where(Masks mask, Doubles x) { return (Doubles)(mask & (Masks)x); } /* x, or 0.0 */
INLINE Doubles choose(Masks mask, Doubles x, Doubles y) { return (Doubles)((mask & (Masks)x) | (~mask & (Masks)y)); }
INLINE Doubles larger(Doubles x, Doubles y) { return choose(x > y, x, y); }
INLINE Doubles smaller(Doubles x, Doubles y) { return choose(x < y, x, y); }
INLINE int64_t sum_of(Masks v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_epi64((__m512i)v);
#else
    int64_t sum = 0;
    for (int i = 0; i < LANES; i++) sum += v[i];
    return sum;
#endif
}

INLINE Singles load_singles(const float *from) { Singles x; memcpy(&x, from, sizeof x); return x; }

/* Columns j .. j + LANES - 1 of a row, widened. Zeros keep their sign: such a row shows up as odd. */
INLINE Doubles load_lanes(const void *row, int is_single, int64_t j) {
    Doubles x;
#if defined(__AVX512F__) /* gcc 12 would convert halves and join them */
    if (is_single) return (Doubles)_mm512_cvtps_pd(_mm256_loadu_ps((const float *)row + j));
#else
    if (is_single) return __builtin_convertvector(load_singles((const float *)row + j), Doubles);
#endif
    memcpy(&x, (const double *)row + j, sizeof x);
    return x;
}

/* The same, read once and copied to `held` where there is room. */
INLINE Doubles take_lanes(const void *row, int is_single, int64_t j, void *held) {
    if (!held) return load_lanes(row, is_single, j);
    memcpy((char *)held + j * (is_single ? 4 : 8), (const char *)row + j * (is_single ? 4 : 8), LANES * (is_single ? 4 : 8));
    return load_lanes(held, is_single, j);
}

/* Take a number in among the two largest. */
#define RANK_AMONG_TWO(x, top, second) second = larger(second, smaller(top, x)), top = larger(top, x)
INLINE double larger_of(double x, double y) { return x > y ? x : y; }
INLINE double smaller_of(double x, double y) { return x < y ? x : y; }

/* Find the two largest masses of a row, if the score asks for them; any numbers if the row is bad. */
INLINE void find_top_two(const Job *job, const void *source, int is_single, Loaded *row) {
    if (!asks_for_top(job)) return;
    Doubles tops = {0}, seconds = {0};
    double candidates[2 * LANES + LANES] = {0}, top = 0.0, second = 0.0;
    int64_t j = 0, n = 0;
    for (; j + LANES <= job->columns; j += LANES) {
        Doubles x = load_lanes(source, is_single, j);
        RANK_AMONG_TWO(x, tops, seconds);
    }
    for (int i = 0; i < LANES; i++) candidates[n++] = tops[i], candidates[n++] = seconds[i];
    for (; j < job->columns; j++) candidates[n++] = AS_DOUBLE(source, is_single, j);
    for (int64_t i = 0; i < n; i++) second = larger_of(second, smaller_of(top, candidates[i])), top = larger_of(top, candidates[i]);
    row->top = grid_steps(top);
    row->second = grid_steps(second);
}

INLINE Masks steps_of_lanes(Doubles x) { return (Masks)(x + 2.0) - BITS_OF_TWO; }

/* Negative in lanes outside [0, 2], missing or -0.0: what needs the careful path, which also tells good from bad. */
INLINE Masks odd_lanes(Doubles x) { return (Masks)x | (BITS_OF_TWO - (Masks)x); }

/* The same of many: what they leave together, and whether one of them was odd. */
INLINE Masks note_odd(Masks noted, Doubles x) {
#if defined(__AVX512F__)
    return (Masks)_mm512_max_epu64((__m512i)noted, (__m512i)x);
#else
    return noted | odd_lanes(x);
#endif
}
INLINE int any_odd(Masks noted) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_epu64((__m512i)noted) > (uint64_t)BITS_OF_TWO;
#else
    int64_t joined = 0;
    for (int i = 0; i < LANES; i++) joined |= noted[i];
    return joined < 0;
#endif
}

/* Lane by lane, which noted something odd. */
INLINE Masks lanes_noted(Masks noted) {
#if defined(__AVX512F__)
    return (Masks)_mm512_movm_epi64(_mm512_cmpgt_epu64_mask((__m512i)noted, _mm512_set1_epi64(BITS_OF_TWO)));
#else
    return noted < 0;
#endif
}

/* sum + value where x > bar. */
INLINE Doubles add_where_greater(Doubles sum, Doubles x, Doubles bar, Doubles value) {
#if defined(__AVX512F__) /* gcc 12 would turn the comparison into a vector first */
    return (Doubles)_mm512_mask_add_pd((__m512d)sum, _mm512_cmp_pd_mask((__m512d)x, (__m512d)bar, _CMP_GT_OQ), (__m512d)sum, (__m512d)value);
#else
    return sum + where(x > bar, value);
#endif
}

/* count + 1 where x == y. */
INLINE Masks count_where_equal(Masks count, Doubles x, Doubles y) {
#if defined(__AVX512F__)
    return (Masks)_mm512_mask_add_epi64((__m512i)count, _mm512_cmp_pd_mask((__m512d)x, (__m512d)y, _CMP_EQ_OQ), (__m512i)count, _mm512_set1_epi64(1));
#else
    return count - (x == y);
#endif
}

/* The product of the two halves of every word: one instruction where there is one. */
INLINE WordVector times_own_half(WordVector w) {
#if defined(__AVX512F__)
    return (WordVector)_mm512_mul_epu32((__m512i)w, (__m512i)(w >> 32));
#elif defined(__AVX2__)
    return (WordVector)_mm256_mul_epu32((__m256i)w, (__m256i)(w >> 32));
#elif defined(__SSE2__)
    return (WordVector)_mm_mul_epu32((__m128i)w, (__m128i)(w >> 32));
#else
    return (w & 0xFFFFFFFFu) * (w >> 32);
#endif
}

/* Twin of hash_word; `keys` broadcast or loaded by the caller. */
INLINE WordVector hash_lanes(Doubles x, WordVector keys) {
    return times_own_half((WordVector)((HalfWords)x + (HalfWords)keys));
}

/* Put the larger of two numbers into *a and the smaller into *b, lane by lane; none of them is missing. */
INLINE void put_in_order(Doubles *a, Doubles *b) {
    Doubles x = *a, y = *b;
#if defined(__AVX512F__)
    *a = (Doubles)_mm512_max_pd((__m512d)x, (__m512d)y);
    *b = (Doubles)_mm512_min_pd((__m512d)x, (__m512d)y);
#else
    Masks swap = ((Masks)x ^ (Masks)y) & (x < y);
    *a = (Doubles)((Masks)x ^ swap);
    *b = (Doubles)((Masks)y ^ swap);
#endif
}
INLINE WordVector mix_lanes(WordVector z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
INLINE Doubles uniform_of_lanes(WordVector seed) {
    return __builtin_convertvector((Masks)(mix_lanes(seed + GOLDEN) >> 11), Doubles) * 0x1p-53;
}

typedef struct { int64_t total; uint64_t hash; int odd; } Facts;

/* What every score needs about a row as a whole; only right if the row is not odd. With `above`, also the mass of the
 * labels above `probability`; with `held`, a copy of what was read. */
INLINE Facts row_facts(const Job *job, const void *row, int is_single, int with_hash, double probability, int64_t *above, void *held) {
    Masks total = {0}, greater = {0}, odd = {0}; /* total: of the bits of values + 2, and what the twos add is taken off at the end */
    WordVector hash = {0}, keys;
    int64_t j = 0, columns = job->columns, total_left = 0, above_left = 0, odd_left = 0;
    uint64_t hash_left = 0;
    for (; j + LANES <= columns; j += LANES) {
        Doubles x = take_lanes(row, is_single, j, held);
        total += (Masks)(x + 2.0);
        if (above) greater += steps_of_lanes(x) & (x > probability);
        odd = note_odd(odd, x);
        if (!with_hash) continue;
        memcpy(&keys, job->column_keys + j, sizeof keys);
        hash += hash_lanes(x, keys);
    }
    for (; j < columns; j++) {
        double x = is_single ? (double)((const float *)row)[j] : ((const double *)row)[j];
        if (held && is_single) ((float *)held)[j] = (float)x;
        else if (held) ((double *)held)[j] = x;
        int64_t steps = grid_steps(x), bits = (int64_t)bits_of(x);
        total_left += steps;
        above_left += x > probability ? steps : 0;
        odd_left |= bits | (BITS_OF_TWO - bits);
        if (with_hash) hash_left += hash_word((uint64_t)bits, job->column_keys[j]);
    }
    total_left -= (int64_t)((uint64_t)(columns / LANES * LANES) * (uint64_t)BITS_OF_TWO);
    if (above) *above = sum_of(greater) + above_left;
    return (Facts){sum_of(total) + total_left, (uint64_t)sum_of((Masks)hash) + hash_left, odd_left < 0 || any_odd(odd)};
}
#endif
