/* The p-values of scores, in their place: how many calibration scores lie below each, and what that count means. Twin of c/counts.h. */
#define ELEMENT 0
#define ASKS 0
#define RANKS 0
#include "row.cuh"
#ifndef SAME_GROUP
#define SAME_GROUP 0 /* 1 where one group stands for all rows */
#endif

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

/* One group: its scores, its buckets, if it has any, the number of the last of them, how many scores it has, and where its bits of rounding
 * start: `phase` bits behind the beginning of a byte. */
struct Group {
    const double *sorted;
    const int *starts;
    const unsigned char *rounding;
    double low, scale, count, one_over_count;
    int last;
    u32 n, phase;
};

DEVICE Group group_at(const Calibrated &c, i64 group) {
    i64 start = c.offsets[group], bits = start + group;
    Group g = {c.sorted + start, 0, c.rounding + (bits >> 3), 0.0, 0.0, 0.0, 0.0, 0, (u32)(c.offsets[group + 1] - start), (u32)bits & 7u};
    g.count = (double)g.n + 1.0, g.one_over_count = 1.0 / g.count;
    if (!c.starts || c.firsts[group + 1] - c.firsts[group] < 2) return g;
    g.starts = c.starts + c.firsts[group], g.last = (int)(c.firsts[group + 1] - c.firsts[group] - 2);
    g.low = c.low[group], g.scale = c.scale[group];
    return g;
}

#ifndef SATURATES /* numbers that are too large become the largest one */
DEVICE int whole_part(double x) { return __double2int_rz(x); }
#endif

/* Where to look for a score in its group: between `low` and `high`, in places of the group. */
struct Search { const double *sorted; u32 low, high; };

DEVICE Search start_search(const Group &g, double score) {
    Search s = {g.sorted, 0, g.n};
    if (!g.starts) return s;
    int bucket = whole_part((score - g.low) * g.scale);
    bucket = bucket < g.last ? bucket > 0 ? bucket : 0 : g.last;
    s.low = (u32)g.starts[bucket], s.high = (u32)g.starts[bucket + 1];
    return s;
}

DEVICE double p_value_of(const Group &g, u32 below) {
    u32 bit = g.phase + below;
    double nearest = quotient(g.count - (double)below, g.count, g.one_over_count);
    return from_bits(bits_of(nearest) + (g.rounding[bit >> 3] >> (bit & 7) & 1));
}

#ifndef AT_A_TIME
#define AT_A_TIME 4 /* labels that a thread looks for together, since every look waits for memory */
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 5
#endif
#define OF_BLOCK (256 * AT_A_TIME)

/* The group of a label; that of every row is the first one where SAME_GROUP says so. Below 0 it was never seen. */
DEVICE i64 group_of(const Calibrated &c, i64 row, u32 k) {
    return SAME_GROUP ? (i64)c.row_groups[0] : c.row_groups ? (i64)c.row_groups[row + k / COLUMNS] : (i64)(k % COLUMNS);
}

/* Where a group was never seen p-values are 1. */
extern "C" __global__ void __launch_bounds__(256, MIN_BLOCKS) p_values(Calibrated c, double *scores, i64 n) {
#if SAME_GROUP
    i64 same = group_of(c, 0, 0);
    Group only = group_at(c, same < 0 ? 0 : same);
#endif
    for (i64 first = (i64)blockIdx.x * OF_BLOCK; first < n; first += (i64)gridDim.x * OF_BLOCK) {
        Search s[AT_A_TIME];
        i64 groups[AT_A_TIME], row = SAME_GROUP ? 0 : first / COLUMNS;
        u32 column = (u32)(first - row * COLUMNS) + threadIdx.x, left = (u32)(n - first < OF_BLOCK ? n - first : OF_BLOCK);
        double of_label[AT_A_TIME], *at = scores + first + threadIdx.x;
#pragma unroll
        for (int q = 0; q < AT_A_TIME; q++) {
            groups[q] = -1, s[q].low = s[q].high = 0, of_label[q] = 0.0;
            if (threadIdx.x + 256 * q >= left) continue;
            of_label[q] = at[256 * q];
#if SAME_GROUP
            s[q] = start_search(only, of_label[q]);
#else
            groups[q] = group_of(c, row, column + 256 * q);
            if (groups[q] >= 0) s[q] = start_search(group_at(c, groups[q]), of_label[q]);
#endif
        }
        for (bool more = true; more;) {
            double at_middle[AT_A_TIME];
#pragma unroll
            for (int q = 0; q < AT_A_TIME; q++) at_middle[q] = s[q].low < s[q].high ? s[q].sorted[(s[q].low + s[q].high) / 2] : 0.0;
            more = false;
#pragma unroll
            for (int q = 0; q < AT_A_TIME; q++) {
                u32 middle = (s[q].low + s[q].high) / 2;
                if (s[q].low >= s[q].high) continue;
                if (at_middle[q] < of_label[q]) s[q].low = middle + 1; else s[q].high = middle;
                more |= s[q].low < s[q].high;
            }
        }
#pragma unroll
        for (int q = 0; q < AT_A_TIME; q++) {
            if (threadIdx.x + 256 * q >= left) continue;
#if SAME_GROUP
            at[256 * q] = same < 0 ? 1.0 : p_value_of(only, s[q].low);
#else
            at[256 * q] = groups[q] < 0 ? 1.0 : p_value_of(group_at(c, groups[q]), s[q].low);
#endif
        }
    }
}
