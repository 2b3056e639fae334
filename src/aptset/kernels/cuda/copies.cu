/* The rows whose seed came before in their block of 4096, each with a seed of its own. Twin of c/copies.h. */
#define COLUMNS 1
#define ELEMENT 0
#define ASKS 0
#define RANKS 0
#include "row.cuh"

#define BLOCK_ROWS 4096
#define SLOTS 8192
#define THREADS 1024
#define EACH (BLOCK_ROWS / THREADS)
#define TAG_BITS 12 /* of the row; the rest of an entry is from its seed */

/* `which` and `own` list the copies; each also gets its own among the seeds. */
extern "C" __global__ void __launch_bounds__(THREADS) find_copies(u64 *seeds, i64 n, u64 first_block, u64 side, i64 *which,
                                                                  u64 *own, u64 *count) {
    __shared__ u32 table[SLOTS];
    __shared__ unsigned char is_shared[BLOCK_ROWS];
    __shared__ u32 found;
    i64 start = (i64)blockIdx.x * BLOCK_ROWS;
    u32 rows = n - start < BLOCK_ROWS ? (u32)(n - start) : BLOCK_ROWS;
    u64 *mine = seeds + start, held[EACH], copy[EACH];
    u32 is_copy = 0;
    for (int e = 0; e < EACH; e++) held[e] = threadIdx.x + e * THREADS < rows ? mine[threadIdx.x + e * THREADS] : 0;
    for (u32 k = threadIdx.x; k < SLOTS; k += THREADS) table[k] = ~0u;
    for (u32 k = threadIdx.x; k < BLOCK_ROWS; k += THREADS) is_shared[k] = 0;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    for (int e = 0; e < EACH; e++) {
        u32 row = threadIdx.x + e * THREADS, tag = (u32)held[e] << TAG_BITS & 0x7FFFFFFFu; /* no entry is all ones */
        if (row >= rows) break;
        for (u32 slot = (u32)(held[e] >> 51);; slot++) {
            u32 holder = atomicCAS(&table[slot % SLOTS], ~0u, tag | row);
            if (holder == ~0u) break;
            if ((holder >> TAG_BITS) != (tag >> TAG_BITS) || mine[holder % BLOCK_ROWS] != held[e]) continue;
            is_shared[holder % BLOCK_ROWS] = is_shared[row] = 1, found = 1;
            break;
        }
    }
    __syncthreads();
    if (!found) return;
    for (int e = 0; e < EACH; e++) {
        u32 row = threadIdx.x + e * THREADS;
        if (row >= rows || !is_shared[row]) continue;
        u64 number = 0;
        for (u32 before = 0; before < row; before++) number += mine[before] == held[e];
        if (!number) continue;
        u64 place = (first_block + blockIdx.x) * BLOCK_ROWS + number, at = atomicAdd(count, 1ull);
        copy[e] = mix(held[e] + mix(place * 2 + side + GOLDEN));
        which[at] = start + row, own[at] = copy[e], is_copy |= 1u << e;
    }
    __syncthreads(); /* all have read what is written now */
    for (int e = 0; e < EACH; e++)
        if (is_copy >> e & 1) mine[threadIdx.x + e * THREADS] = copy[e];
}

/* Over all chunks of so many rows: how many copies there were, and the first bad row or -1. */
extern "C" __global__ void finish(const u64 *counters, i64 n_chunks, i64 rows_of_chunk, i64 *results) {
    i64 copies = 0, first_bad = -1;
    for (i64 k = n_chunks; k-- > 0;) {
        const u64 *of_chunk = counters + 4 * k;
        copies += (i64)of_chunk[0];
        if (of_chunk[3]) first_bad = k * rows_of_chunk + (i64)(~0ull - of_chunk[3]);
    }
    results[0] = copies, results[1] = first_bad;
}
