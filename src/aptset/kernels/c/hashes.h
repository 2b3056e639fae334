/* The keyed hash of rows of anything that is numbers. */
#ifndef APTSET_HASHES_H
#define APTSET_HASHES_H
#include "vectors.h"

#define BITS_OF_NAN ((int64_t)0x7FF8000000000000)

/* Values may be anything here, missing ones too: every NaN hashes alike, and so do both zeros. */
INLINE void hash_rows_of(const void *rows, int is_single, int64_t n, int64_t columns, const uint64_t *keys, uint64_t key,
                         uint64_t *seeds) {
    for (int64_t i = 0; i < n; i++) {
        const char *row = (const char *)rows + i * columns * (is_single ? 4 : 8);
        WordVector hashes = {0}, key_lanes;
        uint64_t hash = 0;
        int64_t j = 0;
        for (; j + LANES <= columns; j += LANES) {
            Doubles x = load_lanes(row, is_single, j) + 0.0;
            Masks bits = (Masks)x;
            memcpy(&key_lanes, keys + j, sizeof key_lanes);
            hashes += hash_lanes((Doubles)(bits ^ ((bits ^ BITS_OF_NAN) & (x != x))), key_lanes);
        }
        for (; j < columns; j++) {
            double x = AS_DOUBLE(row, is_single, j);
            hash += hash_word(x == x ? bits_of(x) : (uint64_t)BITS_OF_NAN, keys[j]);
        }
        seeds[i] = seed_of((uint64_t)sum_of((Masks)hashes) + hash, key);
    }
}

static void hash_rows_loop(const void *rows, int is_single, int64_t n, int64_t columns, const uint64_t *keys, uint64_t key,
                           uint64_t *seeds) {
    if (is_single) hash_rows_of(rows, 1, n, columns, keys, key, seeds); else hash_rows_of(rows, 0, n, columns, keys, key, seeds);
}
#endif
