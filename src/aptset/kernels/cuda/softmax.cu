/* The softmax of kernels/softmax.py, with its bits: TEAM threads have a row, whose weights stand in shared memory. */
#include "logits.cuh"

DEVICE void team_sync() { if (TEAM == 32) __syncwarp(); else __syncthreads(); }

extern "C" __global__ void __launch_bounds__(BLOCK) softmax(const void *logits, i64 n, double *probabilities) {
    __shared__ double highest[BLOCK / 32];
    __shared__ u32 missing[BLOCK / 32];
    DYNAMIC_SHARED(pool);
    u32 team = threadIdx.x / TEAM, member = threadIdx.x % TEAM, first_warp = team * (TEAM / 32);
    double *weights = (double *)pool + team * COLUMNS;
    for (i64 row = (i64)blockIdx.x * (BLOCK / TEAM) + team; row < n; row += (i64)gridDim.x * (BLOCK / TEAM)) {
        const Element *at = (const Element *)logits + row * COLUMNS;
        double *to = probabilities + row * COLUMNS, top = -1.0 / 0.0;
        bool is_nan = false;
        for (u32 j = member; j < COLUMNS; j += TEAM) {
            double x = (double)value_of(at[j]);
            is_nan |= x != x;
            top = x > top ? x : top;
        }
        top = largest_over(top, 32);
        is_nan = __any_sync(FULL, is_nan);
        if (LANE == 0) highest[threadIdx.x / 32] = top, missing[threadIdx.x / 32] = is_nan;
        team_sync();
        for (u32 w = first_warp; w < first_warp + TEAM / 32; w++) top = highest[w] > top ? highest[w] : top, is_nan |= missing[w] != 0;
        for (u32 j = member; j < COLUMNS; j += TEAM) {
            double x = (double)value_of(at[j]) - top;
            to[j] = weights[j] = is_nan || x != x ? from_bits(0x7FF8000000000000ull) : exponential(x);
        }
        team_sync();
        double rest = 0.0; /* of all threads alike: halves upon halves, as formula.sum_of_row */
        for (u32 width = COLUMNS; width > 1; width /= 2) {
            u32 half = width / 2;
            if (width % 2) rest += weights[width - 1];
            for (u32 j = member; j < half; j += TEAM) weights[j] += weights[half + j];
            team_sync();
        }
        double total = weights[0] + rest;
        for (u32 j = member; j < COLUMNS; j += TEAM) to[j] /= total;
        team_sync();
    }
}
