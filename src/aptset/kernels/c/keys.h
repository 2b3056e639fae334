/* Labels sorted by keys of 64 bits: each goes to about its place, neighbours are exchanged then. */
#ifndef APTSET_KEYS_H
#define APTSET_KEYS_H
#include "vectors.h"

/* A key is how far the bits of a probability, as a single float, are below those of the largest, with a number below. Read as doubles, keys
 * this far from zero order like the integers, and every machine compares vectors of doubles. */
#define SORTING_BASE ((uint64_t)1 << 60)
#define NUMBER_BITS 16
#define NUMBER_IN_KEY(key) ((int32_t)((key) & ((1 << NUMBER_BITS) - 1)))
#define BELOW_IN_KEY(key) ((int32_t)(((key) - SORTING_BASE) >> NUMBER_BITS))
#define MOST_PLACES 2048
#define MOST_BY_PLACES 4096 /* more keys crowd the places */
#define ROUNDS_OF_EXCHANGE 12

/* Lanes 1, 0, 3, 2, ... */
INLINE Doubles turn_neighbours(Doubles x) {
#if defined(__clang__) && VECTOR == 64
    return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#elif defined(__clang__) && VECTOR == 32
    return __builtin_shufflevector(x, x, 1, 0, 3, 2);
#elif defined(__clang__)
    return __builtin_shufflevector(x, x, 1, 0);
#else
    Masks turned;
    for (int k = 0; k < LANES; k++) turned[k] = k ^ 1;
    return __builtin_shuffle(x, turned);
#endif
}

/* Exchange neighbours that are not in order, from the first on and from the second on, until none is left; 0 if that takes too long. */
INLINE int exchange_neighbours(uint64_t *key, int64_t n) {
    Masks second;
    for (int k = 0; k < LANES; k++) second[k] = -(int64_t)(k & 1);
    for (int round = 0; round < ROUNDS_OF_EXCHANGE; round++) {
        Masks moved = {0};
        for (int64_t first = 0; first < 2; first++) {
            int64_t k = first;
            for (; k + LANES <= n; k += LANES) {
                Doubles x, high, low;
                memcpy(&x, key + k, sizeof x);
                high = x, low = turn_neighbours(x);
                put_in_order(&high, &low);
                Masks sorted = (second & (Masks)high) | (~second & (Masks)low);
                moved |= sorted ^ (Masks)x;
                memcpy(key + k, &sorted, sizeof sorted);
            }
            for (; k + 1 < n; k += 2) {
                uint64_t x = key[k], y = key[k + 1];
                key[k] = x < y ? x : y, key[k + 1] = x < y ? y : x;
                moved[0] |= x > y;
            }
        }
        int64_t any_moved = 0;
        for (int k = 0; k < LANES; k++) any_moved |= moved[k];
        if (!any_moved) return 1;
    }
    return 0;
}

/* Turn counts of places into where each place starts: four at a time, whose running sums are one product. */
#define FOUR_TIMES 0x0001000100010001u
INLINE void starts_of_places(uint16_t *count, int64_t places) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t four, before = 0;
    for (int64_t p = 0; p < places; p += 4) {
        memcpy(&four, count + p, 8);
        uint64_t sums = four * FOUR_TIMES, starts = (sums << 16) + before * FOUR_TIMES;
        memcpy(count + p, &starts, 8);
        before += sums >> 48;
    }
#else
    for (int64_t p = 0, before = 0; p < places; p++) { int64_t here = count[p]; count[p] = (uint16_t)before, before += here; }
#endif
}

/* Sort n labels, at most MOST_BY_PLACES, by the bits of their single floats, largest first and equal ones by their numbers: keys in order come out in
 * `to`. 0 where exchanging takes too long, since very many are close. */
INLINE int sort_bits(const int32_t *bits, int64_t n, uint64_t *key, uint64_t *to, int32_t *largest) {
    uint16_t next[MOST_PLACES], place[MOST_BY_PLACES];
    int32_t least = INT32_MAX, most = 0;
    int64_t places = 64;
    while (places < 2 * n && places < MOST_PLACES) places *= 2;
    for (int64_t j = 0; j < n; j++) {
        least = bits[j] < least ? bits[j] : least;
        most = bits[j] > most ? bits[j] : most;
    }
    const uint64_t scale = ((uint64_t)places << 32) / ((uint64_t)(most - least) + 1);
    for (int64_t j = 0; j < n; j++) {
        uint64_t below = (uint64_t)(most - bits[j]);
        place[j] = (uint16_t)((below * scale) >> 32);
        key[j] = SORTING_BASE + (below << NUMBER_BITS) + (uint64_t)j;
    }
    memset(next, 0, (size_t)places * sizeof next[0]);
    for (int64_t j = 0; j < n; j++) next[place[j]]++;
    starts_of_places(next, places);
    for (int64_t j = 0; j < n; j++) to[next[place[j]]++] = key[j];
    *largest = most;
    return exchange_neighbours(to, n);
}
#endif
