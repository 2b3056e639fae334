/* Items of equal length in bytes, by number: equal ones have one, in the order in which they first come. */
#ifndef APTSET_CODES_H
#define APTSET_CODES_H
#include "row.h"

INLINE uint64_t hash_item(const uint8_t *item, int64_t width) {
    uint64_t hash = GOLDEN, word = 0;
    for (; width >= 8; width -= 8, item += 8) {
        memcpy(&word, item, 8);
        hash = mix(hash + word);
    }
    if (!width) return hash;
    word = 0;
    memcpy(&word, item, (size_t)width);
    return mix(hash + word);
}

/* Slots hold one more than a number, 0 where they are free. */
typedef struct { int32_t *slots; uint64_t last; } Table;

/* Number the next items while the table is at most half full; `found` counts different ones, and the first row of each goes into `firsts`.
 * Returns the first item that was not numbered. */
static int64_t number_items(const uint8_t *items, int64_t from, int64_t n, int64_t width, Table t, int32_t *codes, int64_t *firsts, int64_t *found) {
    for (int64_t k = from; k < n; k++) {
        const uint8_t *item = items + k * width;
        uint64_t slot = hash_item(item, width) & t.last;
        while (t.slots[slot] && memcmp(items + firsts[t.slots[slot] - 1] * width, item, (size_t)width)) slot = (slot + 1) & t.last;
        if (!t.slots[slot]) {
            if (2 * (uint64_t)*found > t.last) return k;
            firsts[(*found)++] = k;
            t.slots[slot] = (int32_t)*found;
        }
        codes[k] = t.slots[slot] - 1;
    }
    return n;
}

/* Fill a larger table with the items that are known. */
static void fill_table(const uint8_t *items, int64_t width, const int64_t *firsts, int64_t found, Table t) {
    for (int64_t code = 0; code < found; code++) {
        uint64_t slot = hash_item(items + firsts[code] * width, width) & t.last;
        while (t.slots[slot]) slot = (slot + 1) & t.last;
        t.slots[slot] = (int32_t)(code + 1);
    }
}
#endif
