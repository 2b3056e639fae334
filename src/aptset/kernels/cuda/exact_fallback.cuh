/* Any row, exactly, by a whole warp that walks over it in memory as often as it must: ties, labels without mass, odd rows
 * and rows that a fast path could not settle. */
#ifndef APTSET_EXACT_FALLBACK_CUH
#define APTSET_EXACT_FALLBACK_CUH
#include "warp.cuh"

DEVICE double double_at(const Element *at, i64 j) { return (double)value_of(at[j]) + 0.0; } /* one zero */
#if LOGITS
#include "logits.cuh"
typedef double Probability; /* of a softmax, which stands in the room of a warp: so much of it */
#define ROOM (COLUMNS + COLUMNS / 2)
#if ELEMENT != 1
DEVICE double double_at(const double *at, i64 j) { return at[j]; }
#endif
#else
typedef Element Probability;
#endif

struct Careful { Loaded of; const Probability *at; u64 tie_seed; bool bad; };

/* Where the probabilities of a row stand; none if there are none. Its hash is that of what came in. */
DEVICE const Probability *probabilities_of(const Job &job, i64 row, double *room) {
#if LOGITS
    return softmax_of_row(elements_of(job, row), room, room + COLUMNS) ? room : 0;
#else
    return elements_of(job, row);
#endif
}

DEVICE Careful open_carefully(const Job &job, i64 row, double *room) {
    Careful c;
    c.at = probabilities_of(job, row, room);
    i64 total = 0, with_mass = 0, top = 0, second = 0;
    u64 hash = 0;
    u32 invalid = c.at == 0;
#pragma unroll 8
    for (i64 j = LANE; j < COLUMNS && c.at; j += 32) {
        double x = double_at(c.at, j);
        i64 steps = grid_steps(x);
        invalid |= !(x >= 0.0) || !(x <= 2.0);
        total += steps;
        with_mass += steps > 0;
        if (!job.seeds) add_to_hash(hash, bits_of(LOGITS ? double_at(elements_of(job, row), j) : x), job.column_keys[j]);
        add_to_top_two(top, second, steps);
    }
    c.of.total = (double)sum_over(total, 32), c.of.with_mass = sum_over(with_mass, 32);
    hash = sum_over(hash, 32);
    top_two_over(top, second, 32);
    c.of.top = (double)top, c.of.second = (double)second;
    c.bad = __any_sync(FULL, invalid) || is_off(c.of.total, job.tolerance);
    u64 seed = seed_at(job, row, hash, LANE == 0);
    c.of.u = uniform_at(job, row, seed);
    c.tie_seed = tie_seed_of(seed, c.of.u);
    return c;
}

/* A row with something odd, by one lane: it is bad, or has zeros below zero. Those hash like others, so the seed is noted here. */
DEVICE void look_at_odd(const Job &job, i64 row) {
    const Element *at = elements_of(job, row);
    u64 hash = 0;
    bool bad = false;
    for (i64 j = 0; j < COLUMNS; j++) {
        double x = double_at(at, j);
        bad |= !(x >= 0.0) || !(x <= 2.0);
        if (!job.seeds) add_to_hash(hash, bits_of(x), job.column_keys[j]);
    }
    if (bad) { report(job, row); return; }
    seed_at(job, row, hash, true);
    leave(job, row);
}

/* The score of one label of a row. */
DEVICE double careful_label_score(const Job &job, const Careful &c, i64 label) {
    double own_value = double_at(c.at, label);
    u64 my_tie = tie_of(c.tie_seed, label);
    i64 above = 0, before = 0, own = grid_steps(own_value);
#pragma unroll 8
    for (i64 j = LANE; j < COLUMNS; j += 32) {
        double x = double_at(c.at, j);
        bool comes_first = x > own_value || (x == own_value && j != label && tie_of(c.tie_seed, j) < my_tie);
        above += comes_first ? grid_steps(x) : 0;
        before += comes_first;
    }
    return score_of(job.w, sum_over(above, 32), own, sum_over(before, 32) + 1, c.of);
}

/* The set as a beginning of the order: labels whose bits exceed `value`, and of those that equal it the ones up to `tie`. */
struct Cut { u64 value, tie; i64 size; };

DEVICE bool is_member(const Cut &cut, u64 bits, u64 tie_seed, i64 column) {
    return bits > cut.value || (bits == cut.value && (cut.tie == ~0ull || tie_of(tie_seed, column) <= cut.tie));
}

/* A tie up to which `wanted` of the labels that equal a value go: any between that of the last one and that of the next will do. */
DEVICE u64 tie_after(const Careful &c, u64 value, i64 wanted) {
    u64 low = 0, high = ~0ull;
    while (low < high) {
        u64 middle = low + (high - low) / 2;
        i64 count = 0;
        for (i64 j = LANE; j < COLUMNS; j += 32)
            count += bits_of(double_at(c.at, j)) == value && tie_of(c.tie_seed, j) <= middle;
        count = sum_over(count, 32);
        if (count == wanted) return middle;
        if (count > wanted) high = middle; else low = middle + 1;
    }
    return low;
}

/* Halve the values until the least one is found whose first label is in. The ends move to values that are there, so that few looks are enough. */
DEVICE Cut cut_carefully(const Job &job, const Careful &c, double threshold, int min_size) {
    u64 low = 0, high = TWO_BITS;
    Cut cut = {~0ull, ~0ull, 0};
    i64 mass_before = 0, before = 0; /* of the value that is cut at */
    bool has_members = false;
    while (low <= high) {
        u64 middle = low + (high - low) / 2, nearest = 0, least = ~0ull, next = ~0ull;
        i64 above = 0, greater = 0;
#pragma unroll 8
        for (i64 j = LANE; j < COLUMNS; j += 32) {
            double x = double_at(c.at, j);
            u64 bits = bits_of(x);
            if (bits > middle) above += grid_steps(x), greater++, next = bits < next ? bits : next;
            else if (bits >= low) nearest = bits > nearest ? bits : nearest, least = bits < least ? bits : least;
        }
        least = least_over(least, 32), next = least_over(next, 32);
        if (least == ~0ull) { if (next > high) break; low = next; continue; } /* nobody is down here */
        nearest = largest_over(nearest, 32), above = sum_over(above, 32), greater = sum_over(greater, 32);
        bool is_in = score_of(job.w, above, grid_steps(from_bits(nearest)), greater + 1, c.of) <= threshold;
        if (!is_in) { if (next > high) break; low = next; continue; }
        cut.value = nearest, mass_before = above, before = greater, has_members = true;
        if (nearest == least) break;
        high = nearest - 1, low = least;
    }
    if (!has_members && !min_size) return cut;
    if (!has_members) { /* the most likely label alone */
        u64 top = 0;
#pragma unroll 8
    for (i64 j = LANE; j < COLUMNS; j += 32) { u64 bits = bits_of(double_at(c.at, j)); top = bits > top ? bits : top; }
        cut.value = largest_over(top, 32);
    }
    i64 own = grid_steps(from_bits(cut.value)), equal = 0;
    for (i64 j = LANE; j < COLUMNS; j += 32) equal += bits_of(double_at(c.at, j)) == cut.value;
    equal = sum_over(equal, 32);
    i64 in = 1, out = equal + 1; /* of the equal ones, the first `in` are in; those from `out` on are not */
    while (has_members && out - in > 1) {
        i64 middle = in + (out - in) / 2;
        if (score_of(job.w, mass_before + (middle - 1) * own, own, before + middle, c.of) <= threshold) in = middle; else out = middle;
    }
    if (in < equal) cut.tie = tie_after(c, cut.value, in);
    cut.size = before + in;
    return cut;
}

DEVICE Cut everything() { Cut cut = {0, ~0ull, COLUMNS}; return cut; }

DEVICE Cut careful_cut(const Job &job, const Careful &c, double threshold, int min_size) {
    return threshold > 1e300 ? everything() : cut_carefully(job, c, threshold, min_size);
}
#endif
