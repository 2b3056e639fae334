/* The pass that opens a row of single floats: its facts, and one bit a label that tells whether it stands near a guess. */
#ifndef APTSET_BITS_H
#define APTSET_BITS_H
#include "bracket.h"

#if defined(__AVX512F__) /* which sets labels apart without a branch; without that, whole passes are as quick */
#define HAS_WARM_START 1
#else
#define HAS_WARM_START 0
#endif

/* One bit a label: whether it stands above the guess, or near it. */
typedef struct { uint64_t *above, *close_by; } Bits;
INLINE int64_t words_of(int64_t columns) { return (columns + 63) / 64; }
INLINE Bits room_for_bits(const Job *job, Scratch s) { return (Bits){(uint64_t *)s.scores, (uint64_t *)s.scores + words_of(job->columns)}; }

#if HAS_WARM_START
typedef struct { __m512i total, above, most, hash; } Sums; /* total and above: of the bits of values + 2 */

/* Add SPAN labels of a row to its sums, or those of them that are there, and copy them; note their bits from `shift` on. */
INLINE void add_labels(Sums *s, const float *at, float *held, const uint64_t *keys, __mmask16 there, int with_hash, const Guess *guess, int shift,
                       uint64_t *above, uint64_t *close_by) {
    __m512 x = _mm512_maskz_loadu_ps(there, at);
    const __m256 half[2] = {_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)};
    __mmask16 is_above = 0;
    _mm512_mask_storeu_ps(held, there, x);
    s->most = _mm512_max_epu32(s->most, _mm512_castps_si512(x));
    if (guess) {
        is_above = _mm512_mask_cmp_ps_mask(there, x, _mm512_set1_ps(guess->high), _CMP_GT_OQ);
        *above |= (uint64_t)is_above << shift;
        *close_by |= (uint64_t)_mm512_mask_cmp_ps_mask(there, x, _mm512_set1_ps(guess->low), _CMP_GT_OQ) << shift;
    }
    for (int k = 0; k < SPAN; k += LANES) {
        __mmask8 lanes = (__mmask8)(there >> k);
        __m512d value = _mm512_cvtps_pd(half[k / LANES]);
        __m512i steps = _mm512_castpd_si512(_mm512_add_pd(value, _mm512_set1_pd(2.0)));
        s->total = _mm512_add_epi64(s->total, steps);
        if (guess) s->above = _mm512_mask_add_epi64(s->above, (__mmask8)(is_above >> k), s->above, steps);
        if (!with_hash) continue;
        __m512i word = _mm512_add_epi32(_mm512_castpd_si512(value), _mm512_maskz_loadu_epi64(lanes, keys + k));
        s->hash = _mm512_mask_add_epi64(s->hash, lanes, s->hash, _mm512_mul_epu32(word, _mm512_srli_epi64(word, 32)));
    }
}

/* The facts of a row of single floats, as row_facts, which is held then; its largest probability; where there is a guess, the mass above it and the bits of the row. */
INLINE Facts facts_of_singles(const Job *job, const float *row, int with_hash, const Guess *guess, Bits bits, int64_t *above, float *top) {
    Sums s = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    const uint64_t *keys = job->column_keys;
    float *held = job->held;
    const int64_t columns = job->columns, spans = (columns + SPAN - 1) / SPAN;
    int64_t count = 0;
    for (int64_t w = 0; w < words_of(columns); w++) {
        uint64_t is_above = 0, is_close = 0;
        int64_t j = w * 64, left = columns - j;
        if (left >= 64)
            for (int k = 0; k < 64; k += SPAN) add_labels(&s, row + j + k, held + j + k, keys + j + k, 0xFFFF, with_hash, guess, k, &is_above, &is_close);
        else
            for (int k = 0; k < left; k += SPAN) add_labels(&s, row + j + k, held + j + k, keys + j + k, lanes_there(left - k), with_hash, guess, k, &is_above, &is_close);
        if (guess) bits.above[w] = is_above, bits.close_by[w] = is_close & ~is_above, count += __builtin_popcountll(is_above);
    }
    uint32_t most = _mm512_reduce_max_epu32(s.most);
    if (guess) *above = (int64_t)((uint64_t)sum_of((Masks)s.above) - (uint64_t)count * (uint64_t)BITS_OF_TWO);
    *top = float_of((int32_t)most);
    return (Facts){(int64_t)((uint64_t)sum_of((Masks)s.total) - (uint64_t)(spans * SPAN) * (uint64_t)BITS_OF_TWO), (uint64_t)sum_of((Masks)s.hash),
                   most > (uint32_t)0x40000000};
}
#endif
#endif
