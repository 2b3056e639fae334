/* Rows whose content came before in their block of rows. They are told by their seeds, which are hashes of the content; twin of
 * kernels/copies.py. */
#ifndef APTSET_COPIES_H
#define APTSET_COPIES_H
#include "row.h"

#define COPY_BITS 12 /* a block has 2^COPY_BITS rows */
#define BLOCK_ROWS (1 << COPY_BITS)
#define SLOT_BITS (COPY_BITS + 1)

INLINE uint64_t seed_of_copy(uint64_t seed, uint64_t block, uint64_t copy, uint64_t side) {
    return mix(seed + mix((((block << COPY_BITS | copy) << 1) | side) + GOLDEN));
}

/* Write the number of each copy and its seed; return how many there are. `seeds` start at the beginning of a block. */
static int64_t find_copies(const uint64_t *seeds, int64_t n, uint64_t first_block, uint64_t side, int64_t *rows,
                           uint64_t *other_seeds) {
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += BLOCK_ROWS) {
        uint16_t slots[1 << SLOT_BITS] = {0}; /* one more than the number of a first copy in its block; 0 where free */
        uint16_t times[BLOCK_ROWS];           /* how often a first copy came again */
        const uint64_t *of_block = seeds + start, block = first_block + (uint64_t)(start >> COPY_BITS);
        int64_t rows_of_block = n - start < BLOCK_ROWS ? n - start : BLOCK_ROWS;
        for (int64_t i = 0; i < rows_of_block; i++) {
            uint64_t seed = of_block[i], slot = seed >> (64 - SLOT_BITS);
            while (slots[slot] && of_block[slots[slot] - 1] != seed) slot = (slot + 1) & ((1 << SLOT_BITS) - 1);
            if (!slots[slot]) {
                slots[slot] = (uint16_t)(i + 1);
                times[i] = 0;
                continue;
            }
            uint64_t copy = ++times[slots[slot] - 1];
            rows[found] = start + i;
            other_seeds[found++] = seed_of_copy(seed, block, copy, side);
        }
    }
    return found;
}
#endif
