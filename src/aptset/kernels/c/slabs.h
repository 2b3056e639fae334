/* The segment of least mean among sorted points: at least `least` points, whole groups of equal positions. */
#ifndef APTSET_SLABS_H
#define APTSET_SLABS_H
#include <stdint.h>
#include <string.h>

#include "row.h"

typedef struct { int64_t points, covered; } Prefix; /* of the groups so far */

/* Whether the mean from a to c is at most the mean from b to c; differences stay below 2^31, products exact. */
static inline int no_steeper(Prefix a, Prefix b, Prefix c) {
    return (c.covered - a.covered) * (c.points - b.points) <= (c.covered - b.covered) * (c.points - a.points);
}

/* The least mean so far, as a fraction, over segments of whole groups. Starts wait until their segment is long enough, then join the upper hull of
 * starts; a start that another one beats from the present end can only lose against means already found, so each is dropped once. */
typedef struct { Prefix *prefix; int64_t *hull, groups, waiting, front, back, sum, count; } Least;

INLINE Least no_groups(Prefix *prefix, int64_t *hull) {
    prefix[0] = (Prefix){0, 0};
    return (Least){.prefix = prefix, .hull = hull, .sum = 1, .count = 1};
}

INLINE void add_group(Least *l, Prefix now, int64_t least) {
    Prefix *prefix = l->prefix;
    int64_t *hull = l->hull;
    prefix[++l->groups] = now;
    for (; now.points - prefix[l->waiting].points >= least; l->waiting++) {
        while (l->back - l->front > 1 && no_steeper(prefix[hull[l->back - 2]], prefix[hull[l->back - 1]], prefix[l->waiting])) l->back--;
        hull[l->back++] = l->waiting;
    }
    if (l->back == l->front) return;
    while (l->back - l->front > 1 && no_steeper(prefix[hull[l->front + 1]], prefix[hull[l->front]], now)) l->front++;
    int64_t points = now.points - prefix[hull[l->front]].points, inside = now.covered - prefix[hull[l->front]].covered;
    if (inside * l->count < l->sum * points) l->sum = inside, l->count = points;
}

static void least_mean(const double *position, const uint8_t *covered, int64_t n, int64_t least, Prefix *prefix, int64_t *hull,
                       int64_t *sum, int64_t *count) {
    Least l = no_groups(prefix, hull);
    for (int64_t k = 0; k < n;) {
        Prefix now = prefix[l.groups];
        double here = position[k];
        do now.points++, now.covered += covered[k++]; while (k < n && position[k] == here); /* at least one: ends on NaN too */
        add_group(&l, now, least);
    }
    *sum = l.sum, *count = l.count;
}

/* The least mean of a slab of whole bins: one that some slab has, though another may fall below it. */
INLINE void least_mean_of_bins(const uint64_t *bins, int64_t n_bins, int64_t least, Prefix *prefix, int64_t *hull, int64_t *sum, int64_t *count) {
    Least l = no_groups(prefix, hull);
    for (int64_t j = 0; j < n_bins; j++) {
        if (!bins[j]) continue;
        int64_t points = (uint32_t)bins[j], missed = (int64_t)(bins[j] >> 32);
        Prefix now = prefix[l.groups];
        add_group(&l, (Prefix){now.points + points, now.covered + points - missed}, least);
    }
    *sum = l.sum, *count = l.count;
}

/* The first segment (by its end, then by its start) that falls furthest below a mean, sum / count: its first and its last point, -1 for none. */
static void find_segment(const double *position, const uint8_t *covered, int64_t n, int64_t least, int64_t sum, int64_t count, int64_t *first,
                         int64_t *last) {
    int64_t inside = 0, start = 0, inside_before = 0, highest = INT64_MIN, of_highest = 0, deepest = INT64_MAX;
    *first = *last = -1;
    for (int64_t k = 0; k < n; k++) {
        inside += covered[k];
        if (k + 1 < n && position[k + 1] == position[k]) continue; /* whole groups only */
        while (start <= k + 1 - least) { /* `start` begins a group, and as many points up to k follow */
            int64_t balance = count * inside_before - sum * start;
            if (balance > highest) highest = balance, of_highest = start;
            do inside_before += covered[start++]; while (start < n && position[start] == position[start - 1]);
        }
        if (highest == INT64_MIN) continue;
        int64_t gain = count * inside - sum * (k + 1) - highest;
        if (gain < deepest) deepest = gain, *first = of_highest, *last = k;
    }
}

/* A mean that no slab of these (unsorted) points falls below, from counts in bins alone (points; missed ones in the upper half). A slab takes whole bins but for
 * the first and the last; at its worst it takes there the missed points only, and covered ones just to be long enough.
 * Starts and ends are then points of two staircases, and the steepest way between them is found as in least_mean. */
INLINE double least_mean_bound(const uint64_t *bins, int64_t n_bins, int64_t least, Prefix *start, int64_t *hull) {
    int64_t points = 0, missed = 0, waiting = 0, front = 0, back = 0, first = 0, missed_before_first = 0;
    int64_t sum = 1, count = 1;
    double bound = 1.0;
    for (int64_t j = 0; j < n_bins; j++) {
        int64_t points_here = (uint32_t)bins[j], missed_here = (int64_t)(bins[j] >> 32);
        Prefix end = {points + missed_here, points - missed};
        for (; waiting < j && end.points - start[waiting].points >= least; waiting++) {
            while (back - front > 1 && no_steeper(start[hull[back - 2]], start[hull[back - 1]], start[waiting])) back--;
            hull[back++] = waiting;
        }
        while (back - front > 1 && no_steeper(start[hull[front + 1]], start[hull[front]], end)) front++;
        if (back > front) {
            int64_t length = end.points - start[hull[front]].points, inside = end.covered - start[hull[front]].covered;
            if (inside * count < sum * length) sum = inside, count = length;
        }
        /* Slabs whose missed points and whole bins are too few: `least` points, all the missed of their bins among them. */
        points += points_here;
        missed += missed_here;
        for (; first < waiting; first++) missed_before_first += (int64_t)(bins[first] >> 32);
        double short_of = 1.0 - (double)(missed - missed_before_first) / (double)least;
        bound = short_of < bound ? short_of : bound;
        start[j] = (Prefix){points - missed_here, points - missed};
    }
    double whole = (double)sum / (double)count;
    bound = whole < bound ? whole : bound;
    return bound > 0.0 ? bound : 0.0;
}

/* Whether every slab that least_mean_bound thinks of lies above a mean, sum / count: without hull or quotient, most directions are ruled
 * out so. Products stay exact: whole numbers up to the square of the rows. */
INLINE int all_above(const uint64_t *bins, int64_t n_bins, int64_t least, int64_t sum, int64_t count, Prefix *start) {
    int64_t points = 0, missed = 0, waiting = 0, missed_before = 0, highest = INT64_MIN / 2;
    int64_t most_missed = 0;
    for (int64_t j = 0; j < n_bins; j++) {
        int64_t points_here = (uint32_t)bins[j], missed_here = (int64_t)(bins[j] >> 32), end = points + missed_here;
        for (; waiting < j && end - start[waiting].points >= least; waiting++) {
            int64_t balance = count * start[waiting].covered - sum * start[waiting].points;
            highest = balance > highest ? balance : highest;
            missed_before += (int64_t)(bins[waiting] >> 32);
        }
        if (count * (points - missed) - sum * end <= highest) return 0;
        points += points_here;
        missed += missed_here;
        most_missed = missed - missed_before > most_missed ? missed - missed_before : most_missed;
        start[j] = (Prefix){points - missed_here, points - missed};
    }
    return (least - most_missed) * count > sum * least;
}
#endif
