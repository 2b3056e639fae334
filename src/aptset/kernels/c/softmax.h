/* A softmax whose every operation rounds once, as in kernels/softmax.py: the same bits. */
#ifndef APTSET_SOFTMAX_H
#define APTSET_SOFTMAX_H
#include "vectors.h"

#define TERMS 14
/* Constants of kernels/softmax.py: the lowest exponent, 1 / ln 2, ln 2 in two parts, and the series. */
typedef struct { double lowest, per_log, log, log_rest, series[TERMS]; } Exponential;

#define NEAREST 6755399441055744.0 /* 1.5 * 2^52: adding it rounds to a whole number, which stands in the low bits */
#define CELLS_AT_ONCE 2048

/* e to the power of numbers that are at most 0; what is missing stays missing. */
INLINE Doubles exponential_of(const Exponential *e, Doubles x) {
    Doubles none = (Doubles){0}, kept = choose(x >= e->lowest, x, none + e->lowest), shifted = kept * e->per_log + NEAREST, twos = shifted - NEAREST;
    Doubles rest = (kept - twos * e->log) - twos * e->log_rest, power = rest * e->series[TERMS - 1];
    for (int term = TERMS - 2; term > 0; term--) power = (power + e->series[term]) * rest;
    Doubles scale = (Doubles)(((Masks)shifted - (int64_t)bits_of(NEAREST) + 1023) << 52);
    return choose(x >= e->lowest, (power + 1.0) * scale, choose(x < e->lowest, none, x));
}

INLINE void exponentials(const Exponential *e, double *values, int64_t n) {
    Doubles x = {0};
    for (; n > 0; n -= LANES, values += LANES) {
        size_t bytes = sizeof(double) * (size_t)(n < LANES ? n : LANES);
        memcpy(&x, values, n < LANES ? bytes : sizeof x);
        x = exponential_of(e, x);
        memcpy(values, &x, n < LANES ? bytes : sizeof x);
    }
}

/* The sum of a row in the order that arrays and tensors share: halves upon halves. The room is written over. */
INLINE double sum_of_halves(double *values, int64_t width) {
    double rest = 0.0;
    for (; width > 1; width /= 2) {
        int64_t half = width / 2;
        if (width % 2) rest = rest + values[width - 1];
        for (int64_t k = 0; k < half; k++) values[k] = values[k] + values[half + k];
    }
    return values[0] + rest;
}

INLINE double highest_of(const double *values, int64_t n) {
    double highest = values[0];
    Doubles most, x;
    int64_t j = 0;
    memcpy(&most, values, n < LANES ? 0 : sizeof most);
    for (; j + LANES <= n; j += LANES) {
        memcpy(&x, values + j, sizeof x);
        most = larger(most, x);
    }
    for (int64_t i = 0; i < LANES && j; i++) highest = larger_of(most[i], highest);
    for (; j < n; j++) highest = larger_of(values[j], highest);
    return highest;
}

/* Write by how much each logit of a row is below the highest; none is a number if one is missing. */
INLINE void from_highest(const void *row, int is_single, int64_t columns, double *to) {
    int64_t missing = 0;
    for (int64_t j = 0; j < columns; j++) {
        to[j] = is_single ? (double)((const float *)row)[j] : ((const double *)row)[j];
        missing |= to[j] != to[j];
    }
    double highest = missing ? from_bits(~(uint64_t)0) : highest_of(to, columns);
    for (int64_t j = 0; j < columns; j++) to[j] = to[j] - highest;
}

/* `room` holds as many numbers as a row. */
static void softmax_loop(const Exponential *e, const void *logits, int is_single, int64_t n, int64_t columns, double *room, double *to) {
    int64_t step = columns < CELLS_AT_ONCE ? CELLS_AT_ONCE / columns : 1;
    for (int64_t start = 0; start < n; start += step) {
        int64_t rows = n - start < step ? n - start : step;
        double *out = to + start * columns;
        for (int64_t i = 0; i < rows; i++)
            from_highest((const char *)logits + (start + i) * columns * (is_single ? 4 : 8), is_single, columns, out + i * columns);
        exponentials(e, out, rows * columns);
        for (int64_t i = 0; i < rows; i++) {
            double *row = out + i * columns;
            memcpy(room, row, (size_t)columns * 8);
            double total = sum_of_halves(room, columns);
            for (int64_t j = 0; j < columns; j++) row[j] = row[j] / total;
        }
    }
}
#endif
