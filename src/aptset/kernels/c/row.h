/* One row of probabilities: exact masses, the keyed hash, the score formula.
 *
 * Every function here has a numpy twin in kernels/ that must agree bit for bit. Masses are whole numbers of grid
 * steps (2^-51), so their sums are integer sums: exact, and free to be reordered by the vectoriser.
 */
#ifndef APTSET_ROW_H
#define APTSET_ROW_H
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline)) /* loops that share a function share its registers, and lose */

/* The order of the weights is fixed by kernels/formula.py. */
enum { ABOVE, OWN, OWN_U, CONSTANT, U, RANK, FREE_RANKS, RANK_U, TOP, BEHIND, FIRST,
       FIRST_OWN, FIRST_OWN_U, FIRST_SECOND, FIRST_CONSTANT, FIRST_U, N_WEIGHTS };

/* Rows of probabilities and all that their scores depend on. Without seeds, they are hashed from the row and, if there is
 * room for that, noted; without u, it is drawn from the seed. */
typedef struct {
    const void *rows;
    int is_single; /* float32 rather than float64 */
    int64_t columns;
    const double *weights;
    const uint64_t *column_keys;
    uint64_t key;
    double tolerance;
    const uint64_t *seeds;
    const double *u;
    uint64_t *noted;
    void *held; /* room for one row: see hold_row */
} Job;

INLINE uint64_t bits_of(double x) { uint64_t b; memcpy(&b, &x, 8); return b; }
INLINE double from_bits(uint64_t b) { double x; memcpy(&x, &b, 8); return x; }

/* x + 2 lies in [2, 4), where doubles are 2^-51 apart: the low bits are x in grid steps, rounded to even. */
INLINE int64_t grid_steps(double x) { return (int64_t)(bits_of(x + 2.0) - bits_of(2.0)); }

/* The largest probability that rounds to zero steps, as bits (bits of non-negative doubles sort like the doubles). */
#define LAST_ZERO_BITS ((int64_t)0x3CB0000000000000) /* 2^-52 */
#define STEPS_PER_ONE 2251799813685248.0             /* 2^51 */

INLINE uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
#define GOLDEN 0x9E3779B97F4A7C15u

INLINE uint64_t hash_word(uint64_t word, uint64_t column_key) {
    uint64_t low = (uint32_t)((uint32_t)word + (uint32_t)column_key);
    uint64_t high = (uint32_t)((uint32_t)(word >> 32) + (uint32_t)(column_key >> 32));
    return low * high;
}
INLINE uint64_t seed_of(uint64_t hash, uint64_t key) { return mix(hash + mix(key + GOLDEN)); }
INLINE uint64_t seed_at(const Job *job, int64_t i, uint64_t hash) {
    if (job->seeds) return job->seeds[i];
    uint64_t seed = seed_of(hash, job->key);
    if (job->noted) job->noted[i] = seed;
    return seed;
}
INLINE double uniform_of(uint64_t seed) { return (double)(mix(seed + GOLDEN) >> 11) * 0x1p-53; }
INLINE uint64_t tie_seed_of(uint64_t seed, double u) { return mix(seed ^ mix(bits_of(u + 0.0))); }
INLINE uint64_t tie_of(uint64_t tie_seed, int64_t column) { return mix(tie_seed + (uint64_t)(column + 1) * GOLDEN); }

/* What the scores of a row depend on as a whole, in grid steps. `top` and `second` are its largest masses: only there if
 * the score asks for them. */
typedef struct { int64_t total, with_mass, top, second; uint64_t tie_seed; double u; int bad; } Loaded;

INLINE int asks_for_top(const Job *job) { return job->weights[TOP] != 0.0 || job->weights[FIRST] != 0.0; }

/* The score of a label, for numbers or vectors of them; twin of formula.mass_score. `penalty` is by how much its rank counts.
 * Without a term for the top the sum is that of three: adding a zero changes no bit. */
#define SHARED(w, above, own, u) (w[ABOVE] * (above) + w[OWN] * (own) + w[OWN_U] * ((u) * (own)))
#define MASS_SCORE(w, above, own, total, penalty, u) \
    ((SHARED(w, above, own, u) / (total) + (w[CONSTANT] + w[U] * (u))) + w[RANK] * (penalty))
#define TOP_SCORE(w, above, own, top, total, penalty, u) \
    (((SHARED(w, above, own, u) + w[TOP] * (top)) / (total) + (w[CONSTANT] + w[U] * (u))) + w[RANK] * (penalty))
#define FIRST_SCORE(w, own, second, total, penalty, u) \
    ((((w[FIRST_OWN] * (own) + w[FIRST_OWN_U] * ((u) * (own))) + w[FIRST_SECOND] * (second)) / (total) \
      + (w[FIRST_CONSTANT] + w[FIRST_U] * (u))) + w[RANK] * (penalty))

INLINE double rank_penalty(const double *w, double rank, double u) {
    return rank > w[FREE_RANKS] ? (rank - w[FREE_RANKS]) - w[RANK_U] * u : 0.0;
}
INLINE double mass_score(const double *w, double above, double own, double rank, const Loaded *row) {
    double penalty = rank_penalty(w, rank, row->u), total = (double)row->total;
    if (w[FIRST] != 0.0 && rank == 1.0) return FIRST_SCORE(w, own, (double)row->second, total, penalty, row->u);
    return TOP_SCORE(w, above, own, (double)row->top, total, penalty, row->u);
}
/* The score of the position-th (from 0) of `count` labels without mass that stand behind; twin of formula.zero_score. */
INLINE double zero_score(const double *w, double position, double count, double rank, double u) {
    return (1.0 + ((position + 1.0) - u) / count) + w[RANK] * rank_penalty(w, rank, u);
}

INLINE int row_is_bad(int64_t total, int64_t invalid, double tolerance) {
    double excess = (double)total / STEPS_PER_ONE - 1.0;
    return invalid || !(excess <= tolerance && excess >= -tolerance);
}

INLINE size_t bytes_of_row(const Job *job) { return (size_t)job->columns * (job->is_single ? 4 : 8); }
/* Row i where the caller has it. Others may write there meanwhile (a memory map, another thread), so no two reads agree for sure: in the
 * build of tests/fuzz/sanitized.sh, rows change whenever a loop turns to them. */
#if defined(ROWS_CHANGE)
void change_row(const void *row, size_t bytes, int is_single);
#else
#define change_row(row, bytes, is_single) ((void)0)
#endif
INLINE const void *source_at(const Job *job, int64_t i) {
    const char *row = (const char *)job->rows + i * (int64_t)bytes_of_row(job);
    change_row(row, bytes_of_row(job), job->is_single);
    return row;
}
/* Copy row i: what is looked at more than once is job->held, so that what was checked is what is sorted, cut and counted. The first pass over a
 * wide row copies it on its way. */
INLINE const void *hold_row(const Job *job, int64_t i) { return memcpy(job->held, source_at(job, i), bytes_of_row(job)); }
#define AS_DOUBLE(source, is_single, j) ((is_single) ? (double)((const float *)(source))[j] + 0.0 \
                                                     : ((const double *)(source))[j] + 0.0)
#endif
