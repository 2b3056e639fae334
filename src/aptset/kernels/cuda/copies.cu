/* The rows whose seed came before in their block of 4096, each with a seed of its own. Twin of c/copies.h. */
#define COLUMNS 1
#define ELEMENT 0
#define ASKS 0
#define RANKS 0
#include "row.cuh"

#define BLOCK_ROWS 4096
#define SLOTS 8192
#define THREADS 512
#define EACH (BLOCK_ROWS / THREADS)

/* Other bits in every round; when there are no more of them, mixed anew. */
DEVICE u32 slot_of(u64 seed, u32 round) { return (u32)((round < 4 ? seed >> (51 - 13 * round) : mix(seed + round)) & (SLOTS - 1)); }

/* Set the counters of jobs.py; and the secrets of the columns, as rowhash.column_keys, from a key that lies on the device, if one does. */
extern "C" __global__ void prepare(const u64 *key, u64 *keys, i64 n, u64 *counters, i64 n_counters) {
    i64 j = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (j < n_counters) counters[j] = j ? 0 : ~0ull;
    if (key && j < n) keys[j] = mix(*key + (u64)(j + 1) * GOLDEN);
}

/* `which` lists the copies; each gets a seed of its own among the seeds.
 *
 * Rows of equal seeds want the same slot of a table, in every round. Whoever wrote a slot last has it: rows that find another
 * seed there want another slot in the next round, and those that find their own seed under another row are copies or have some. */
extern "C" __global__ void __launch_bounds__(THREADS) find_copies(u64 *seeds, i64 n, u64 first_block, u64 side, u32 *which, u64 *count) {
    __shared__ unsigned short table[SLOTS];
    __shared__ u32 checks[BLOCK_ROWS]; /* the lower half of each seed: what differs there is not looked up in memory */
    __shared__ unsigned char is_shared[BLOCK_ROWS];
    __shared__ u32 has_copies, waiting[2];
    i64 start = (i64)blockIdx.x * BLOCK_ROWS;
    u32 rows = n - start < BLOCK_ROWS ? (u32)(n - start) : BLOCK_ROWS, open = 0, is_copy = 0;
    u64 *of_block = seeds + start, held[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u32 row = threadIdx.x + e * THREADS;
        held[e] = row < rows ? of_block[row] : 0;
        if (row < rows) open |= 1u << e;
        is_shared[row] = 0, checks[row] = (u32)held[e];
    }
    if (threadIdx.x == 0) has_copies = waiting[0] = 0;
    for (u32 round = 0;; round++) {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (open >> e & 1) table[slot_of(held[e], round)] = (unsigned short)(threadIdx.x + e * THREADS);
        __syncthreads();
        if (threadIdx.x == 0) waiting[(round + 1) & 1] = 0;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            if (!(open >> e & 1)) continue;
            u32 row = threadIdx.x + e * THREADS, holder = table[slot_of(held[e], round)];
            if (holder != row && (checks[holder] != (u32)held[e] || of_block[holder] != held[e])) continue;
            open &= ~(1u << e);
            if (holder != row) is_shared[holder] = is_shared[row] = 1, has_copies = 1;
        }
        if (open) waiting[round & 1] = 1;
        __syncthreads();
        if (!waiting[round & 1]) break;
    }
    __syncthreads();
    if (!has_copies) return;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u32 row = threadIdx.x + e * THREADS;
        if (row >= rows || !is_shared[row]) continue;
        u64 number = 0;
        for (u32 before = 0; before < row; before++) number += of_block[before] == held[e];
        if (!number) continue;
        which[atomicAdd(count, 1ull)] = (u32)(start + row);
        checks[row] = (u32)number, is_copy |= 1u << e;
    }
    __syncthreads(); /* all have read what is written now */
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u32 row = threadIdx.x + e * THREADS;
        u64 place = (first_block + blockIdx.x) * BLOCK_ROWS + checks[row];
        if (is_copy >> e & 1) of_block[row] = mix(held[e] + mix(place * 2 + side + GOLDEN));
    }
}
