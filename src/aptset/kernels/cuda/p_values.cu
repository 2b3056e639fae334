/* The p-values of scores, in their place: how many calibration scores lie below each, and what that count means. Twin of c/counts.h. */
#define ELEMENT 0
#define ASKS 0
#define RANKS 0
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

/* Where to look for a score in its group: between `low` and `high`, in places of the group. */
struct Search { const double *sorted; u32 low, high, n; };

DEVICE Search start_search(const Calibrated &c, i64 group, double score) {
    i64 start = c.offsets[group];
    Search s = {c.sorted + start, 0, (u32)(c.offsets[group + 1] - start), (u32)(c.offsets[group + 1] - start)};
    i64 last = c.starts ? c.firsts[group + 1] - c.firsts[group] - 2 : -1;
    if (last < 0) return s;
    double place = (score - c.low[group]) * c.scale[group];
    place = place > 0.0 ? place : 0.0;
    const int *starts = c.starts + c.firsts[group] + (place < (double)last ? (i64)place : last);
    s.low = (u32)starts[0], s.high = (u32)starts[1];
    return s;
}

DEVICE double p_value_of(const Calibrated &c, i64 group, const Search &s) {
    i64 bit = c.offsets[group] + group + s.low;
    double nearest = ((double)s.n + 1.0 - (double)s.low) / ((double)s.n + 1.0);
    return from_bits(bits_of(nearest) + (c.rounding[bit >> 3] >> (bit & 7) & 1));
}

#define AT_A_TIME 4 /* labels that a thread looks for together, since every look waits for memory */

/* Where a group was never seen p-values are 1. */
extern "C" __global__ void __launch_bounds__(256) p_values(Calibrated c, double *scores, i64 n) {
    for (i64 first = (i64)blockIdx.x * 256 * AT_A_TIME + threadIdx.x; first < n; first += (i64)gridDim.x * 256 * AT_A_TIME) {
        Search s[AT_A_TIME];
        i64 groups[AT_A_TIME];
        double mine[AT_A_TIME];
#pragma unroll
        for (int q = 0; q < AT_A_TIME; q++) {
            i64 k = first + 256 * q;
            groups[q] = -1, s[q].low = s[q].high = 0, mine[q] = 0.0;
            if (k >= n) continue;
            mine[q] = scores[k], groups[q] = group_of(c, k / COLUMNS, k % COLUMNS);
            if (groups[q] >= 0) s[q] = start_search(c, groups[q], mine[q]);
        }
        for (bool more = true; more;) {
            double found[AT_A_TIME];
#pragma unroll
            for (int q = 0; q < AT_A_TIME; q++) found[q] = s[q].low < s[q].high ? s[q].sorted[(s[q].low + s[q].high) / 2] : 0.0;
            more = false;
#pragma unroll
            for (int q = 0; q < AT_A_TIME; q++) {
                u32 middle = (s[q].low + s[q].high) / 2;
                if (s[q].low >= s[q].high) continue;
                if (found[q] < mine[q]) s[q].low = middle + 1; else s[q].high = middle;
                more |= s[q].low < s[q].high;
            }
        }
#pragma unroll
        for (int q = 0; q < AT_A_TIME; q++)
            if (first + 256 * q < n) scores[first + 256 * q] = groups[q] < 0 ? 1.0 : p_value_of(c, groups[q], s[q]);
    }
}
