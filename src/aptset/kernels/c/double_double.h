/* Ratios of whole numbers, in [0, 1]: the smallest double whose decimal is not below each. Twin of kernels/p_value_rounding.py; what is too close to
 * call is marked, and left to rationals. */
#ifndef APTSET_DOUBLE_DOUBLE_H
#define APTSET_DOUBLE_DOUBLE_H
#include "vectors.h"

#define SPLIT 134217729.0 /* 2^27 + 1 cuts a double into halves whose products are exact */
#define CLOSE_TO_CALL 0x1p-20
#define SHORT_DIGITS 15
#define LONG_DIGITS 17

/* Powers of ten as pairs of doubles, from 10^0 on, and one tenth, one hundredth, ... */
typedef struct { const double *powers, *tenths; int64_t decades; } Decimals;
typedef struct { Doubles high, low; } Pair;

INLINE Doubles magnitude(Doubles x) { return (Doubles)((Masks)x & INT64_MAX); }
INLINE Doubles half_spacing(Doubles x) { return ((Doubles)((Masks)x + 1) - x) / 2.0; }
/* The nearest whole number of a number that is not negative: from 2^52 on all are whole. */
INLINE Doubles nearest_whole(Doubles x) { return choose(x < 0x1p52, (x + 0x1p52) - 0x1p52, x); }

INLINE Pair pair_of(Masks whole) {
    Doubles high = __builtin_convertvector(whole, Doubles);
    return (Pair){high, __builtin_convertvector(whole - __builtin_convertvector(high, Masks), Doubles)};
}

INLINE Pair pair_product(Doubles one, Doubles other) {
    Doubles product = one * other, cut = one * SPLIT, other_cut = other * SPLIT;
    Doubles high = cut - (cut - one), other_high = other_cut - (other_cut - other), low = one - high, other_low = other - other_high;
    return (Pair){product, ((high * other_high - product) + high * other_low + low * other_high) + low * other_low};
}

/* By how much a double times the denominator exceeds the numerator. */
INLINE Doubles excess_of(Doubles ratio, Pair above, Pair below) {
    Pair product = pair_product(ratio, below.high);
    return (product.high - above.high) + ((product.low + ratio * below.low) - above.low);
}

INLINE Pair powers_at(const Decimals *d, Masks decade, int64_t digits) {
    double high[LANES], low[LANES];
    for (int i = 0; i < LANES; i++) {
        const double *power = d->powers + 2 * (decade[i] + digits);
        high[i] = power[0], low[i] = power[1];
    }
    Pair ratio;
    memcpy(&ratio.high, high, sizeof high);
    memcpy(&ratio.low, low, sizeof low);
    return ratio;
}

/* A double less the nearest multiple of a power of a tenth, times that power of ten; and whether the multiple comes back as the double. */
INLINE Doubles beyond_digits(Doubles ratio, Pair power, Masks *comes_back) {
    Pair product = pair_product(ratio, power.high);
    Doubles rest = (product.high - nearest_whole(product.high)) + (product.low + ratio * power.low);
    rest = rest - ((rest + 0x1.8p52) - 0x1.8p52);
    *comes_back = magnitude(rest) <= half_spacing(ratio) * power.high;
    return rest;
}

/* The decimal that a double prints as less the double: the shortest that comes back, the nearest of those. */
INLINE Doubles decimal_off_by(Doubles ratio, const Decimals *d) {
    Masks decade = {0}, smaller = ratio < d->tenths[0], comes_back, is_short, is_next;
    for (int64_t k = 1; sum_of(smaller); k++) {
        decade -= smaller;
        smaller = k < d->decades ? ratio < d->tenths[k] : (Masks){0};
    }
    Pair power = powers_at(d, decade, SHORT_DIGITS), next = powers_at(d, decade, SHORT_DIGITS + 1), last = powers_at(d, decade, LONG_DIGITS);
    Doubles few = beyond_digits(ratio, power, &comes_back), more = beyond_digits(ratio, next, &is_next), most = beyond_digits(ratio, last, &is_short);
    is_short = nearest_whole(ratio * power.high) / power.high == ratio;
    is_short = ((power.low == 0.0) & is_short) | ((power.low != 0.0) & comes_back);
    Doubles rest = choose(is_short, few, choose(is_next, more, most));
    return -rest / choose(is_short, power.high, choose(is_next, next.high, last.high));
}

INLINE Doubles ratios_of_lanes(Masks numerator, Masks denominator, const Decimals *d, Masks *is_open) {
    Pair above = pair_of(numerator), below = pair_of(denominator);
    Doubles ratio = above.high / below.high;
    ratio = choose(denominator >= (int64_t)1 << 53, ratio - excess_of(ratio, above, below) / below.high, ratio);
    Doubles excess = excess_of(ratio, above, below), half = half_spacing(ratio) * below.high;
    Doubles by_decimal = excess + decimal_off_by(ratio, d) * below.high;
    *is_open = (magnitude(by_decimal) < CLOSE_TO_CALL * half) | (magnitude(magnitude(excess) - half) < CLOSE_TO_CALL * half)
        | ~(ratio >= d->tenths[d->decades - 1]);
    return (Doubles)((Masks)ratio - (by_decimal < 0.0)); /* one step up where the decimal is below */
}

static void ratios_loop(const int64_t *above, const int64_t *below, int64_t n, const Decimals *d, double *to, uint8_t *is_open) {
    Masks numerator = (Masks){0} + 1, denominator = numerator, open;
    for (int64_t k = 0; k < n; k += LANES) {
        int64_t n_lanes = n - k < LANES ? n - k : LANES;
        memcpy(&numerator, above + k, (size_t)n_lanes * 8);
        memcpy(&denominator, below + k, (size_t)n_lanes * 8);
        Doubles ratio = ratios_of_lanes(numerator, denominator, d, &open);
        memcpy(to + k, &ratio, (size_t)n_lanes * 8);
        for (int64_t i = 0; i < n_lanes; i++) is_open[k + i] = open[i] != 0;
    }
}
#endif
