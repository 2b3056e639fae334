/* The segment of least mean among sorted points: at least `least` points, whole groups of equal positions. */
#ifndef APTSET_SLABS_H
#define APTSET_SLABS_H
#include <stdint.h>

typedef struct { int64_t points, covered; } Prefix; /* of the groups so far */

/* Whether the mean from a to c is at most the mean from b to c; differences stay below 2^31, products exact. */
static inline int no_steeper(Prefix a, Prefix b, Prefix c) {
    return (c.covered - a.covered) * (c.points - b.points) <= (c.covered - b.covered) * (c.points - a.points);
}

/* Least mean as a fraction. Starts wait until their segment is long enough, then join the upper hull of starts; a start
 * that another one beats from the present end can only lose against means already found, so each is dropped once. */
static void least_mean(const double *position, const uint8_t *covered, int64_t n, int64_t least, Prefix *prefix, int64_t *hull,
                       int64_t *sum, int64_t *count) {
    int64_t groups = 0, waiting = 0, front = 0, back = 0;
    *sum = 1, *count = 1;
    prefix[0] = (Prefix){0, 0};
    for (int64_t k = 0; k < n;) {
        Prefix now = prefix[groups++];
        double here = position[k];
        for (; k < n && position[k] == here; k++) now.points++, now.covered += covered[k];
        prefix[groups] = now;
        for (; now.points - prefix[waiting].points >= least; waiting++) {
            while (back - front > 1 && no_steeper(prefix[hull[back - 2]], prefix[hull[back - 1]], prefix[waiting])) back--;
            hull[back++] = waiting;
        }
        if (back == front) continue;
        while (back - front > 1 && no_steeper(prefix[hull[front + 1]], prefix[hull[front]], now)) front++;
        int64_t points = now.points - prefix[hull[front]].points, inside = now.covered - prefix[hull[front]].covered;
        if (inside * *count < *sum * points) *sum = inside, *count = points;
    }
}
#endif
