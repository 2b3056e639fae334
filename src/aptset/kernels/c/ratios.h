/* Ratios of whole numbers, in [0, 1]: the smallest double whose decimal is not below each. What kernels/ratios.py does for arrays, one by one;
 * what is too close to call is marked and left to rationals. */
#ifndef APTSET_RATIOS_H
#define APTSET_RATIOS_H
#include <math.h>
#include "row.h"

#define SPLIT 134217729.0 /* 2^27 + 1 cuts a double into halves whose products are exact */
#define CLOSE_TO_CALL 0x1p-20
#define SHORT_DIGITS 15
#define LONG_DIGITS 17
#define SPACING(x) (from_bits(bits_of(x) + 1) - (x))

typedef struct { double high, low; } Pair;
/* Powers of ten as pairs, from 10^0 on, and one tenth, one hundredth, ... as doubles. */
typedef struct { const Pair *powers; const double *tenths; int64_t decades; } Decimals;

INLINE Pair pair_of(int64_t whole) { double high = (double)whole; return (Pair){high, (double)(whole - (int64_t)high)}; }

INLINE Pair pair_product(double one, double other) {
    double product = one * other, cut = one * SPLIT, other_cut = other * SPLIT;
    double high = cut - (cut - one), other_high = other_cut - (other_cut - other), low = one - high, other_low = other - other_high;
    return (Pair){product, ((high * other_high - product) + high * other_low + low * other_high) + low * other_low};
}

/* By how much a double times the denominator exceeds the numerator. */
INLINE double excess_of(double found, Pair above, Pair below) {
    Pair product = pair_product(found, below.high);
    return (product.high - above.high) + ((product.low + found * below.low) - above.low);
}

/* The nearest multiple of a power of a tenth less the double; tells whether it comes back as the double. */
INLINE double to_digits(double found, Pair power, int *comes_back) {
    Pair product = pair_product(found, power.high);
    double rest = (product.high - rint(product.high)) + (product.low + found * power.low);
    rest = rest - rint(rest);
    *comes_back = fabs(rest) <= SPACING(found) / 2 * power.high;
    return -rest / power.high;
}

/* The decimal that a double prints as less the double. */
INLINE double decimal_off_by(double found, const Decimals *d) {
    int64_t decade = 0;
    int comes_back;
    while (decade < d->decades && found < d->tenths[decade]) decade++;
    Pair power = d->powers[decade + SHORT_DIGITS];
    if (power.low != 0.0) to_digits(found, power, &comes_back);
    else comes_back = rint(found * power.high) / power.high == found;
    if (comes_back) return to_digits(found, power, &comes_back);
    double off = to_digits(found, d->powers[decade + SHORT_DIGITS + 1], &comes_back);
    return comes_back ? off : to_digits(found, d->powers[decade + LONG_DIGITS], &comes_back);
}

INLINE double one_ratio(int64_t numerator, int64_t denominator, const Decimals *d, uint8_t *is_open) {
    Pair above = pair_of(numerator), below = pair_of(denominator);
    double found = above.high / below.high;
    if (denominator >= (int64_t)1 << 53) found = found - excess_of(found, above, below) / below.high;
    *is_open = !(found >= d->tenths[d->decades - 1]);
    if (*is_open) return 0.0;
    double excess = excess_of(found, above, below), half = SPACING(found) / 2 * below.high;
    double by_decimal = excess + decimal_off_by(found, d) * below.high;
    *is_open = fabs(by_decimal) < CLOSE_TO_CALL * half || fabs(fabs(excess) - half) < CLOSE_TO_CALL * half;
    return by_decimal < 0.0 ? from_bits(bits_of(found) + 1) : found;
}

/* Returns how many are open. A ratio that comes again right behind is not worked out again. */
static int64_t ratios_loop(const int64_t *above, const int64_t *below, int64_t n, const Decimals *d, double *to, uint8_t *is_open) {
    int64_t open = 0;
    for (int64_t k = 0; k < n; k++) {
        if (k && above[k] == above[k - 1] && below[k] == below[k - 1]) to[k] = to[k - 1], is_open[k] = is_open[k - 1];
        else to[k] = one_ratio(above[k], below[k], d, is_open + k);
        open += is_open[k];
    }
    return open;
}
#endif
