/* Items of equal length in bytes, by number: equal ones have one, in the order in which they first come. */
#ifndef APTSET_CODES_H
#define APTSET_CODES_H
#include "row.h"

/* What places items in tables: drawn anew in every process, so that nobody can choose items that crowd them. Nothing else depends on it. */
typedef struct { uint64_t words[2]; } Secret;

#define TURN(x, by) ((x) << (by) | (x) >> (64 - (by)))
INLINE void sip_round(uint64_t v[4]) {
    v[0] += v[1], v[2] += v[3];
    v[1] = TURN(v[1], 13) ^ v[0], v[3] = TURN(v[3], 16) ^ v[2];
    v[0] = TURN(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = TURN(v[1], 17) ^ v[2], v[3] = TURN(v[3], 21) ^ v[0];
    v[2] = TURN(v[2], 32);
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012). */
INLINE uint64_t hash_item(const uint8_t *item, int64_t width, const Secret *secret) {
    uint64_t v[4] = {secret->words[0] ^ 0x736F6D6570736575u, secret->words[1] ^ 0x646F72616E646F6Du, secret->words[0] ^ 0x6C7967656E657261u,
                     secret->words[1] ^ 0x7465646279746573u};
    uint64_t last = (uint64_t)width << 56, word;
    for (; width >= 8; width -= 8, item += 8) {
        memcpy(&word, item, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = 0;
    memcpy(&word, item, (size_t)width);
    last |= word;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last, v[2] ^= 0xFF;
    for (int k = 0; k < 3; k++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Slots hold one more than a number, 0 where they are free. */
typedef struct { int32_t *slots; uint64_t last; const Secret *secret; } Table;

/* Number the next items while the table is at most half full; `n_codes` counts different ones, and the first row of each goes into `firsts`.
 * Returns the first item that was not numbered. */
static int64_t number_items(const uint8_t *items, int64_t from, int64_t n, int64_t width, Table t, int32_t *codes, int64_t *firsts, int64_t *n_codes) {
    for (int64_t k = from; k < n; k++) {
        const uint8_t *item = items + k * width;
        uint64_t slot = hash_item(item, width, t.secret) & t.last;
        while (t.slots[slot] && memcmp(items + firsts[t.slots[slot] - 1] * width, item, (size_t)width)) slot = (slot + 1) & t.last;
        if (!t.slots[slot]) {
            if (2 * (uint64_t)*n_codes > t.last) return k;
            firsts[(*n_codes)++] = k;
            t.slots[slot] = (int32_t)*n_codes;
        }
        codes[k] = t.slots[slot] - 1;
    }
    return n;
}

/* Fill a larger table with the items that are known. */
static void fill_table(const uint8_t *items, int64_t width, const int64_t *firsts, int64_t n_codes, Table t) {
    for (int64_t code = 0; code < n_codes; code++) {
        uint64_t slot = hash_item(items + firsts[code] * width, width, t.secret) & t.last;
        while (t.slots[slot]) slot = (slot + 1) & t.last;
        t.slots[slot] = (int32_t)(code + 1);
    }
}
#endif
