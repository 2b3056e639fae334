/* One row of probabilities on the device: exact masses, the keyed hash, the score formula. Twin of c/row.h, bit for bit.
 *
 * A program is compiled for one width and one type: COLUMNS, ELEMENT (0 float32, 1 float64, 2 float16, 3 bfloat16), and
 * how a warp divides its rows: LANES lanes a row, which read VECTOR labels at a time. HASHES says whether seeds come from the
 * rows, ASKS whether the score asks for the largest masses, RANKS whether a rank counts. Collectives are always those of whole
 * warps, reached by all lanes together: tests run the same source on a processor, with lanes as fibers. LOGITS says that the rows
 * are logits, whose softmax the kernel makes itself. PURE says that a score is the mass up to a label less u times its own: products
 * with 1 and sums with 0, which change no bit, are left out (the adaptive score).
 */
#ifndef APTSET_ROW_CUH
#define APTSET_ROW_CUH

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifndef LOGITS
#define LOGITS 0
#endif
#ifndef PLAIN
#define PLAIN 0
#endif
#ifndef PURE
#define PURE 0
#endif

#define DEVICE static __device__ __forceinline__
#define FULL 0xFFFFFFFFu
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

#if ELEMENT == 1
typedef double Element;
typedef double Value; /* what holds an element exactly, and compares fast */
#elif ELEMENT == 0
typedef float Element;
typedef float Value;
#else
typedef unsigned short Element;
typedef float Value;
#endif

/* The order of the weights is fixed by kernels/formula.py. */
enum { ABOVE, OWN, OWN_U, CONSTANT, U, RANK, FREE_RANKS, RANK_U, TOP, BEHIND, FIRST,
       FIRST_OWN, FIRST_OWN_U, FIRST_SECOND, FIRST_CONSTANT, FIRST_U, N_WEIGHTS };

/* Rows and all that their scores depend on. With `which`, only those rows are looked at, `*count` of them. */
struct Job {
    const void *rows;
    i64 n, start; /* how many, and the number of the first */
    const u64 *column_keys; /* the first of them, mix(key + GOLDEN), shifts every hash, too */
    double tolerance;
    const u64 *seeds;
    const double *u;
    u64 *noted;
    const u32 *which;
    const u64 *count;
    u64 *bad;       /* the number of the first bad row; all ones if there is none */
    u32 *slow;      /* rows that a fast path could not settle, perhaps twice (as a first copy and as what they are); */
    u64 *n_slow;    /* how many */
    u64 *unlike;    /* LOGITS: becomes 1 where a row is none of probabilities; if it stays 0, logits were announced in error */
    double w[N_WEIGHTS];
};

DEVICE i64 rows_to_do(const Job &job) { return job.which ? (i64)*job.count : job.n; }
DEVICE i64 row_at(const Job &job, i64 i) { return job.which ? (i64)job.which[i] : i; }
DEVICE const Element *elements_of(const Job &job, i64 row) { return (const Element *)job.rows + row * COLUMNS; }

DEVICE u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
DEVICE double from_bits(u64 b) { return __longlong_as_double((i64)b); }

#define GOLDEN 0x9E3779B97F4A7C15ull
#define TWO_BITS 0x4000000000000000ull
#define STEPS_PER_ONE 2251799813685248.0 /* 2^51 */

/* x + 2 lies in [2, 4), where doubles are 2^-51 apart: the low bits are x in grid steps, rounded to even. */
DEVICE i64 grid_steps(double x) { return (i64)(bits_of(x + 2.0) - TWO_BITS); }

/* The same as a number: exact, and so are sums of up to 4 before they are scaled. */
DEVICE double mass_of(double x) { return ((x + 2.0) - 2.0) * STEPS_PER_ONE; }

/* A quotient as IEEE rounds it, where nothing is near the ends of the exponents: with the rounded reciprocal one correction leaves
 * less than a step, and the second one rounds. */
DEVICE double quotient(double x, double y, double one_over_y) {
    double q = x * one_over_y;
    q = fma(fma(-q, y, x), one_over_y, q);
    return fma(fma(-q, y, x), one_over_y, q);
}

#ifndef LOOKS_AGAIN /* keeps what was made of a number from being kept in registers: making it again takes less */
DEVICE void look_again(u32 &x) { asm volatile("" : "+r"(x)); }
#endif

#ifdef HALVES /* tests have no instruction for it */
DEVICE float from_half(u32 h) {
    u32 sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 1023u;
    if (exponent == 0) return __uint_as_float(sign | __float_as_uint((float)mantissa * 5.9604644775390625e-8f)); /* 2^-24 */
    return __uint_as_float(sign | (exponent == 31 ? 0x7F800000u : (exponent + 112u) << 23) | mantissa << 13);
}
#else
DEVICE float from_half(unsigned short h) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }
#endif

DEVICE Value value_of(Element x) {
#if ELEMENT == 2
    return from_half(x);
#elif ELEMENT == 3
    return __uint_as_float((u32)x << 16);
#else
    return x;
#endif
}

/* Bits that reach ODD where a value is negative, no number, or 2 and more; so do those of several values joined by "or". */
DEVICE u32 oddness(Value x) {
#if ELEMENT == 1
    return (u32)(bits_of(x) >> 32);
#else
    return __float_as_uint(x);
#endif
}
#define ODD 0x40000000u

/* The larger of two values; what is missing stays missing. */
DEVICE Value larger_or_missing(Value a, Value b) {
#if ELEMENT == 1 || defined(HALVES)
    return a != a || a > b ? a : b;
#else
    Value c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
#endif
}

DEVICE u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
#ifndef ADDS_PRODUCTS /* one instruction, which compilers do not always find */
DEVICE void add_product(u64 &sum, u32 a, u32 b) { asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(sum) : "r"(a), "r"(b)); }
#endif
DEVICE void add_to_hash(u64 &hash, u64 word, u64 column_key) {
    add_product(hash, (u32)word + (u32)column_key, (u32)(word >> 32) + (u32)(column_key >> 32));
}
/* The same for a value: of short types the low word of the float64 is 0. */
DEVICE void add_value_to_hash(u64 &hash, Value x, u64 column_key) {
    u64 word = bits_of((double)x);
    if (ELEMENT > 1) add_product(hash, (u32)column_key, (u32)(word >> 32) + (u32)(column_key >> 32));
    else add_to_hash(hash, word, column_key);
}
DEVICE u64 seed_at(const Job &job, i64 row, u64 hash, bool notes) {
    if (job.seeds) return job.seeds[row];
    u64 seed = mix(hash + job.column_keys[0]);
    if (notes && job.noted) job.noted[row] = seed;
    return seed;
}
DEVICE double uniform_at(const Job &job, i64 row, u64 seed) {
    return job.u ? job.u[row] : (double)(mix(seed + GOLDEN) >> 11) * 0x1p-53;
}
DEVICE u64 tie_seed_of(u64 seed, double u) { return mix(seed ^ mix(bits_of(u + 0.0))); }
DEVICE u64 tie_of(u64 tie_seed, i64 column) { return mix(tie_seed + (u64)(column + 1) * GOLDEN); }

DEVICE bool is_off(double total, double tolerance) {
    double excess = total * 0x1p-51 - 1.0;
    return !(excess <= tolerance && excess >= -tolerance);
}
DEVICE void leave(const Job &job, i64 row) { job.slow[atomicAdd(job.n_slow, 1ull)] = (u32)row; }
DEVICE void report(const Job &job, i64 row) { atomicMin(job.bad, (u64)(job.start + row)); }

/* What the scores of a row depend on as a whole, masses in grid steps. `top` and `second` are only there if asked for. */
struct Loaded { double total, top, second; i64 with_mass; double u; };

DEVICE double rank_penalty(const double *w, double rank, double u) {
    if (!RANKS) return 0.0;
    return rank > w[FREE_RANKS] ? (rank - w[FREE_RANKS]) - w[RANK_U] * u : 0.0;
}

/* What stands above the fraction line of a score; twin of formula.mass_score together with the two below. */
DEVICE double numerator(const double *w, double above, double own, bool is_first, const Loaded &row) {
    if (PURE) return (above + own) - row.u * own;
    if (ASKS && is_first) return (w[FIRST_OWN] * own + w[FIRST_OWN_U] * (row.u * own)) + w[FIRST_SECOND] * row.second;
    double shared = (PLAIN ? above : w[ABOVE] * above) + w[OWN] * own + w[OWN_U] * (row.u * own);
    return ASKS ? shared + w[TOP] * row.top : shared; /* adding a zero changes no bit */
}
DEVICE double with_rest(const double *w, double share, double rank, bool is_first, double u) {
    if (PURE) return share;
    double rest = ASKS && is_first ? w[FIRST_CONSTANT] + w[FIRST_U] * u : w[CONSTANT] + w[U] * u;
    return RANKS ? (share + rest) + w[RANK] * rank_penalty(w, rank, u) : share + rest;
}
DEVICE double mass_score(const double *w, double above, double own, double rank, const Loaded &row) {
    bool is_first = ASKS && w[FIRST] != 0.0 && rank == 1.0;
    return with_rest(w, numerator(w, above, own, is_first, row) / row.total, rank, is_first, row.u);
}
/* The same with the rounded reciprocal of the total, for many labels of a row. */
DEVICE double mass_score(const double *w, double above, double own, double rank, const Loaded &row, double one_over_total) {
    bool is_first = ASKS && w[FIRST] != 0.0 && rank == 1.0;
    return with_rest(w, quotient(numerator(w, above, own, is_first, row), row.total, one_over_total), rank, is_first, row.u);
}
/* The score of a label without mass that stands behind all others. */
DEVICE double behind_score(const double *w, i64 rank, const Loaded &row) {
    double position = (double)(rank - 1 - row.with_mass), count = (double)(COLUMNS - row.with_mass);
    return (1.0 + ((position + 1.0) - row.u) / count) + w[RANK] * rank_penalty(w, (double)rank, row.u);
}
/* The score of a label with `rank - 1` labels before it. */
DEVICE double score_of(const double *w, i64 above, i64 own, i64 rank, const Loaded &row) {
    if (own > 0 || w[BEHIND] == 0.0) return mass_score(w, (double)above, (double)own, (double)rank, row);
    return behind_score(w, rank, row);
}

/* Whether a score with mass is at most a threshold: a product decides where it is far enough, else the quotient itself. */
DEVICE bool is_within(const double *w, double above, double own, double rank, const Loaded &row, double one_over_total, double threshold) {
    bool is_first = ASKS && w[FIRST] != 0.0 && rank == 1.0;
    double top = numerator(w, above, own, is_first, row), estimate = with_rest(w, top * one_over_total, rank, is_first, row.u);
    double gap = estimate - threshold, slack = 0x1p-44 * (1.0 + fabs(threshold));
    if (fabs(gap) > slack) return gap < 0.0;
    return with_rest(w, top / row.total, rank, is_first, row.u) <= threshold;
}
#endif
