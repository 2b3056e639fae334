/* p-values m / d, rounded so that `p > alpha` decides like the sets for every level, read as the decimal it prints as: the
 * smallest double whose shortest decimal is not below the quotient. Twin of kernels/p_value_rounding.py, without its decimals. */
#ifndef APTSET_P_VALUE_ROUNDING_H
#define APTSET_P_VALUE_ROUNDING_H
#include <math.h>
#include "row.h"

typedef unsigned __int128 Wide;
#define MOST_DECIMALS 20 /* decimals of a double from 2^-10 on, at most: 53 bits times 10^20 fit a wide integer */
#define FEWEST_DECIMALS 15

/* The decimal nearest to mantissa / 2^shift with so many places (as a whole number of them), half to even; tells whether it
 * reads back as that double. */
INLINE int decimal_reads_back(uint64_t mantissa, int shift, Wide power, Wide *decimal) {
    Wide product = mantissa * power, half = (Wide)1 << (shift - 1), part = product & (2 * half - 1);
    Wide nearest = product >> shift;
    nearest += part > half || (part == half && (nearest & 1));
    *decimal = nearest;
    Wide back = nearest << shift, gap = back > product ? back - product : product - back;
    return mantissa % 2 ? 2 * gap < power : 2 * gap <= power;
}

INLINE double p_value(uint64_t m, uint64_t d, const Wide *powers) {
    double value = (double)m / (double)d;
    uint64_t bits = bits_of(value), mantissa = (bits & (((uint64_t)1 << 52) - 1)) | ((uint64_t)1 << 52);
    int shift = 1075 - (int)(bits >> 52), places = FEWEST_DECIMALS;
    Wide decimal, fewer;
    while (!decimal_reads_back(mantissa, shift, powers[places], &decimal)) places++;
    while (places > 0 && decimal_reads_back(mantissa, shift, powers[places - 1], &fewer)) { decimal = fewer; places--; }
    return decimal * d < m * powers[places] ? nextafter(value, 2.0) : value;
}

/* Fill `table` with the p-values of counts 0 .. of n scores, as far as they are at least 2^-10; return how many. */
static int64_t fill_p_values(uint64_t n, double *table) {
    Wide powers[MOST_DECIMALS + 1] = {1};
    for (int k = 1; k <= MOST_DECIMALS; k++) powers[k] = 10 * powers[k - 1];
    uint64_t count = 0;
    for (; count <= n && (n + 1 - count) * 1024 >= n + 1; count++) table[count] = p_value(n + 1 - count, n + 1, powers);
    return (int64_t)count;
}
#endif
