/* How many calibration scores lie below a score, and the p-value of that count. Twin of c/counts.h. */
#ifndef APTSET_CALIBRATED_CUH
#define APTSET_CALIBRATED_CUH
#include "row.cuh"

/* Scores of group g stand from offsets[g] on, upward; those of its bucket b, (score - low) * scale rounded down, from
 * starts[firsts[g] + b] on. Without row_groups each column is a group. `rounding` has a bit for every count of every group:
 * whether its p-value is one step above the nearest float. */
struct Calibrated {
    const double *sorted;
    const i64 *offsets;
    const int *row_groups;
    const int *starts;
    const i64 *firsts;
    const double *low, *scale;
    const unsigned char *rounding;
};

DEVICE i64 group_of(const Calibrated &c, i64 row, i64 column) { return c.row_groups ? c.row_groups[row] : column; }

DEVICE i64 count_below(const Calibrated &c, i64 group, double score) {
    const double *sorted = c.sorted + c.offsets[group];
    i64 low = 0, high = c.offsets[group + 1] - c.offsets[group];
    i64 last = c.starts ? c.firsts[group + 1] - c.firsts[group] - 2 : -1;
    if (last >= 0) {
        double place = (score - c.low[group]) * c.scale[group];
        place = place > 0.0 ? place : 0.0;
        i64 bucket = place < (double)last ? (i64)place : last;
        const int *starts = c.starts + c.firsts[group] + bucket;
        low = starts[0], high = starts[1];
    }
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (sorted[middle] < score) low = middle + 1; else high = middle;
    }
    return low;
}

DEVICE double p_value(const Calibrated &c, i64 group, double score) {
    if (group < 0) return 1.0; /* never seen */
    i64 count = count_below(c, group, score), n = c.offsets[group + 1] - c.offsets[group];
    i64 bit = c.offsets[group] + group + count;
    double nearest = (double)(n + 1 - count) / (double)(n + 1);
    return from_bits(bits_of(nearest) + (c.rounding[bit >> 3] >> (bit & 7) & 1));
}
#endif
