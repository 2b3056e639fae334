/* How the lanes of a row read it: VECTOR labels at a time, side by side. */
#ifndef APTSET_LOADING_CUH
#define APTSET_LOADING_CUH
#include "warp.cuh"

#define CHUNKS ((COLUMNS + LANES * VECTOR - 1) / (LANES * VECTOR)) /* that a lane reads of a row */
#define PER_LANE (CHUNKS * VECTOR)

struct __align__(VECTOR * sizeof(Element)) Several { Element x[VECTOR]; };
#if VECTOR >= 2
struct __align__(16) TwoKeys { u64 of[2]; };
#endif

/* The column of the first label of a chunk. */
DEVICE int column_of(int chunk) { return (chunk * LANES + (int)WITHIN) * VECTOR; }

/* COLUMNS is a multiple of VECTOR, so a chunk lies in the row or outside. */
DEVICE bool is_inside(int chunk) { return (chunk + 1) * LANES * VECTOR <= COLUMNS || column_of(chunk) < COLUMNS; }

DEVICE void load_chunk(const Element *row, int chunk, Value *to) {
    Several s = *(const Several *)(row + column_of(chunk));
#pragma unroll
    for (int v = 0; v < VECTOR; v++) to[v] = value_of(s.x[v]) + (Value)0; /* one zero */
}

DEVICE void load_keys(const u64 *keys, int chunk, u64 *to) {
#if VECTOR >= 2
#pragma unroll
    for (int v = 0; v < VECTOR; v += 2) {
        TwoKeys two = *(const TwoKeys *)(keys + column_of(chunk) + v);
        to[v] = two.of[0], to[v + 1] = two.of[1];
    }
#else
    to[0] = keys[column_of(chunk)];
#endif
}
#endif
