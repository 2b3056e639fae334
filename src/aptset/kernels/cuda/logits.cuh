/* Rows of logits: their softmax with the bits of kernels/softmax.py, every operation rounded once; and one in float32 that is near it. */
#ifndef APTSET_LOGITS_CUH
#define APTSET_LOGITS_CUH
#include "warp.cuh"

#define LOWEST -708.0
#define PER_LOG 1.4426950408889634
#define LOG 6.93147180369123816490e-01
#define LOG_REST 1.90821492927058770002e-10
#define NEAREST 6755399441055744.0 /* 1.5 * 2^52: adding it rounds to a whole number, which stands in the low bits */

/* 1 / n!, each rounded once. Numbers in the text of a program would be moved into registers before each use. */
__constant__ double SERIES[14] = {1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0,
                                  1.0 / 362880.0, 1.0 / 3628800.0, 1.0 / 39916800.0, 1.0 / 479001600.0, 1.0 / 6227020800.0};
__constant__ double LOGARITHMS[4] = {PER_LOG, LOG, LOG_REST, NEAREST};

/* e to the power of N numbers that are at most 0, in their place. Each operation waits for the one before, so several go side by side. A whole number times LOG has no more bits than a double, so joining that
 * product with its difference rounds what the difference alone does. The power of two goes into the exponent: nothing is rounded, down to LOWEST; below it is 0.
 *
 * QUICK: none is below LOWEST, and the first product is joined with its sum, too. That finds the same whole number unless the product is within
 * its rounding, 2^-43, of the middle between two; then the rest is within 2^-42 of ln 2 / 2. What is returned is the largest rest, as the upper
 * half of its bits: if it is below NEAR_HALF, all numbers are what they are without QUICK. */
#define NEAR_HALF __uint_as_float(0x3FD62E42u) /* the upper half of ln 2 / 2 */

template <int N, bool QUICK = false> DEVICE float exponentials(double *x) {
    double rest[N], power[N];
    u32 twos_of[N], is_lowest = 0; /* what is needed at the end, in few registers */
    float nearest = 0.0f;
#pragma unroll
    for (int i = 0; i < N; i++) {
        double shifted = QUICK ? fma(x[i], LOGARITHMS[0], LOGARITHMS[3]) : x[i] * LOGARITHMS[0] + LOGARITHMS[3], twos = shifted - LOGARITHMS[3];
        twos_of[i] = (u32)bits_of(shifted);
        if (!QUICK) is_lowest |= (u32)(bits_of(x[i]) > bits_of(LOWEST)) << i; /* of negative numbers the lower one has the greater bits */
        rest[i] = fma(-twos, LOGARITHMS[1], x[i]) - twos * LOGARITHMS[2], power[i] = rest[i] * SERIES[13];
        if (QUICK) nearest = fmaxf(nearest, fabsf(__uint_as_float((u32)(bits_of(rest[i]) >> 32))));
    }
#pragma unroll
    for (int n = 12; n >= 1; n--)
#pragma unroll
        for (int i = 0; i < N; i++) power[i] = (power[i] + SERIES[n]) * rest[i];
#pragma unroll
    for (int i = 0; i < N; i++) {
        u64 bits = bits_of(power[i] + 1.0);
        double scaled = from_bits((u64)((u32)(bits >> 32) + (twos_of[i] << 20)) << 32 | (u32)bits);
        x[i] = is_lowest >> i & 1 ? 0.0 : scaled;
    }
    return nearest;
}
DEVICE double exponential(double x) { exponentials<1>(&x); return x; }

DEVICE bool is_infinite(double x) { return !(fabs(x) <= 1.7976931348623157e308); }

/* Tells that a row is none of probabilities, unless that is known: each warp says so once. All lanes of the warp come here together. */
DEVICE void tell_unlike(const Job &job, bool is_unlike, bool &is_known) {
    is_known = __any_sync(FULL, is_unlike);
    if (is_known && LANE == 0) *job.unlike = 1;
}
DEVICE bool is_unlike(double least, double sum) { return !(least >= 0.0 && fabs(sum - 1.0) <= 1e-5); }

/* A row of which `lanes` lanes look at every so many labels. */
DEVICE bool row_is_unlike(const Element *at, int lanes) {
    double least = 0.0, sum = 0.0;
    for (int j = (int)LANE % lanes; j < COLUMNS; j += lanes) {
        double x = (double)value_of(at[j]);
        sum += x, least = x >= least ? least : x;
    }
    return is_unlike(least_over(least, lanes), sum_over(sum, lanes));
}

/* Write the probabilities of a row; `room` takes half as many numbers. A whole warp does it; tells whether the row has any. */
DEVICE bool softmax_of_row(const Element *at, double *to, double *room) {
    double top = -1.0 / 0.0;
    bool missing = false;
    for (int j = (int)LANE; j < COLUMNS; j += 32) {
        double x = (double)value_of(at[j]);
        missing |= x != x, top = x > top ? x : top;
    }
    top = largest_over(top, 32);
    if (__any_sync(FULL, missing || is_infinite(top))) return false;
    for (int first = (int)LANE; first < COLUMNS; first += 128) {
        double x[4];
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = first + 32 * i < COLUMNS ? (double)value_of(at[first + 32 * i]) - top : 0.0;
        exponentials<4>(x);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (first + 32 * i < COLUMNS) to[first + 32 * i] = x[i];
    }
    __syncwarp();
    double rest = 0.0; /* of all lanes alike: halves upon halves, as formula.sum_of_row */
    const double *from = to;
    for (int width = COLUMNS; width > 1; width /= 2, from = room) {
        int half = width / 2;
        if (width % 2) rest += from[width - 1];
        for (int j = (int)LANE; j < half; j += 32) room[j] = from[j] + from[half + j];
        __syncwarp();
    }
    double total = room[0] + rest;
    for (int j = (int)LANE; j < COLUMNS; j += 32) to[j] /= total;
    __syncwarp();
    return true;
}

#ifndef POWERS_OF_TWO /* tests are as far off as a device may be */
DEVICE float power_of_two(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#endif

/* About e to the power of x - top, up to a factor that all logits of the row share, for |top| up to MOST_TOP. With d = x - top, what is
 * computed is off by |d| 1.23 2^-24 (the product and its constant) and 2^-22 (the power), relative to itself. The labels of
 * total probability R have a mean |d| of at most ln(COLUMNS / R), since entropy has no more; so for sums of them what is off stays below 2^-17. */
#define MOST_TOP 65536.0f
#define PER_LOG_2 1.44269502162933349609375f
DEVICE float about_exponential(float x, float shift) { return power_of_two(fmaf(x, PER_LOG_2, -shift)); }
#endif
