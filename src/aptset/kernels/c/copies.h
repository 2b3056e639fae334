/* Rows whose content came before in their block of rows. They are told by their seeds, which are hashes of the content; twin of
 * kernels/rows.py. */
#ifndef APTSET_COPIES_H
#define APTSET_COPIES_H
#include "row.h"

#define COPY_BITS 12 /* a block has 2^COPY_BITS rows */
#define BLOCK_ROWS (1 << COPY_BITS)
#define SLOT_BITS (COPY_BITS + 1)

INLINE uint64_t seed_of_copy(uint64_t seed, uint64_t block, uint64_t copy, uint64_t side) {
    return mix(seed + mix((((block << COPY_BITS | copy) << 1) | side) + GOLDEN));
}

typedef struct { int64_t count; int64_t *rows; uint64_t *seeds; } CopiesOut;

/* Note the copies among some rows of a block, by an exact table that a secret places them in, so that nobody can choose rows that crowd it: `which` lists them upward, or is NULL for all. */
static void copies_among(const uint64_t *of_block, const uint16_t *which, int64_t n, int64_t start, uint64_t block, uint64_t side,
                         uint64_t secret, CopiesOut *out) {
    uint16_t slots[1 << SLOT_BITS] = {0}; /* one more than the number of a first copy in its block; 0 where free */
    uint16_t times[BLOCK_ROWS];           /* how often a first copy came again */
    for (int64_t k = 0; k < n; k++) {
        int64_t i = which ? which[k] : k;
        uint64_t seed = of_block[i], slot = (seed * (secret | 1)) >> (64 - SLOT_BITS);
        while (slots[slot] && of_block[slots[slot] - 1] != seed) slot = (slot + 1) & ((1 << SLOT_BITS) - 1);
        if (!slots[slot]) {
            slots[slot] = (uint16_t)(i + 1);
            times[i] = 0;
            continue;
        }
        out->rows[out->count] = start + i;
        out->seeds[out->count++] = seed_of_copy(seed, block, ++times[slots[slot] - 1], side);
    }
}

#define FILTER_BITS 17 /* 16 kB, half of a near cache: most rows meet a free bit, whatever came before */
#define SUSPECT_BITS 16
#define MOST_SUSPECTS 1024 /* with more of them the exact table is quicker */

/* List the rows of a block that may be copies, or may have some: all rows of a content that came twice are among them. Two passes without a
 * branch: a row whose bit is taken is suspect, and a row that shares a few bits with a suspect is listed. Returns -1 for many. */
static int64_t list_suspects(const uint64_t *of_block, int64_t n, uint16_t *listed) {
    uint64_t taken[1 << (FILTER_BITS - 6)] = {0}, shared[1 << (SUSPECT_BITS - 6)] = {0};
    int64_t suspects = 0, count = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bit = of_block[i] >> (64 - FILTER_BITS), mask = (uint64_t)1 << (bit & 63), *word = taken + (bit >> 6);
        listed[suspects] = (uint16_t)i;
        suspects += (*word & mask) != 0;
        *word |= mask;
    }
    if (suspects == 0 || suspects > MOST_SUSPECTS) return suspects ? -1 : 0;
    for (int64_t k = 0; k < suspects; k++) {
        uint64_t bit = of_block[listed[k]] & ((1 << SUSPECT_BITS) - 1);
        shared[bit >> 6] |= (uint64_t)1 << (bit & 63);
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t bit = of_block[i] & ((1 << SUSPECT_BITS) - 1);
        listed[count] = (uint16_t)i;
        count += shared[bit >> 6] >> (bit & 63) & 1;
    }
    return count;
}

/* Write the number of each copy and its seed; return how many there are. `seeds` start at the beginning of a block. */
static int64_t find_copies(const uint64_t *seeds, int64_t n, uint64_t first_block, uint64_t side, uint64_t secret, int64_t *rows,
                           uint64_t *other_seeds) {
    CopiesOut out = {0, rows, other_seeds};
    for (int64_t start = 0; start < n; start += BLOCK_ROWS) {
        uint16_t listed[BLOCK_ROWS + 1];
        uint64_t block = first_block + (uint64_t)(start >> COPY_BITS);
        int64_t rows_of_block = n - start < BLOCK_ROWS ? n - start : BLOCK_ROWS;
        int64_t n_suspects = list_suspects(seeds + start, rows_of_block, listed);
        if (n_suspects < 0) copies_among(seeds + start, NULL, rows_of_block, start, block, side, secret, &out);
        else if (n_suspects > 1) copies_among(seeds + start, listed, n_suspects, start, block, side, secret, &out);
    }
    return out.count;
}
#endif
