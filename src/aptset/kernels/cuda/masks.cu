/* Which labels score at most a threshold: the row stays in registers, and few labels are ever scored.
 *
 * Scores never fall along the row, so the set is a beginning of its order. A few looks at the row leave a few labels that may be
 * its last, and their scores decide (docs/design/0016).
 */
#include "exact_fallback.cuh"
#include "output.cuh"

/* Rows that are bad hold every label: a graph cannot raise an error. */
DEVICE void flag_all(const Wanted &wanted, i64 row, int first, int step) {
    for (int j = first; j < COLUMNS && wanted.flags; j += step) wanted.flags[row * COLUMNS + j] = 1;
}

#define FITS (COLUMNS <= 2048 && ELEMENT != 1) /* the registers; jobs.py says the same */

#if FITS
#include "tiles.cuh"
#include "candidates.cuh"

#if ELEMENT != 1 && VECTOR % 4 == 0
/* Bits of values that are not negative sort like the values: a difference below zero says that a label is in. */
DEVICE u32 four_flags(const float *x, u32 last_out) {
    u32 first = __byte_perm(last_out - __float_as_uint(x[0]), last_out - __float_as_uint(x[1]), 0x0073);
    u32 second = __byte_perm(last_out - __float_as_uint(x[2]), last_out - __float_as_uint(x[3]), 0x0073);
    return (__byte_perm(first, second, 0x5410) & 0x80808080u) >> 7;
}
struct __align__(VECTOR) Flags { u32 x[VECTOR / 4]; };
DEVICE Flags flags_of(const Value *x, Value from) {
    Flags flags;
#pragma unroll
    for (int v = 0; v < VECTOR; v += 4) flags.x[v / 4] = four_flags(x + v, __float_as_uint(from) - 1u);
    return flags;
}
#else
struct __align__(VECTOR) Flags { unsigned char x[VECTOR]; };
DEVICE Flags flags_of(const Value *x, Value from) {
    Flags flags;
#pragma unroll
    for (int v = 0; v < VECTOR; v++) flags.x[v] = x[v] >= from;
    return flags;
}
#endif

/* Flag the labels from a value on. */
DEVICE void flag_from(const Wanted &wanted, const Held &held, Value from, i64 row) {
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        if (is_inside(chunk)) *(Flags *)(wanted.flags + row * COLUMNS + column_of(chunk)) = flags_of(held.x + chunk * VECTOR, from);
}

#if LOGITS
/* Flag those that are in of the labels that were left, one by one; or the most likely label. */
DEVICE void flag_left(const Wanted &wanted, const Held &held, const Element *at, const Left &left, const Kept &kept, i64 row) {
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++) {
        int c = (int)WITHIN + k * LANES;
        if (c < kept.count && kept.is_in[k]) wanted.flags[row * COLUMNS + left.columns[c]] = 1;
    }
    for (int j = (int)WITHIN; j < COLUMNS && kept.top; j += LANES)
        if (value_of(at[j]) == held.top) wanted.flags[row * COLUMNS + j] = 1;
}
#else
/* Take back the flags of those that equal the last label and stand behind it. */
DEVICE void split_ties(const Wanted &wanted, const Element *at, const Kept &kept, i64 row, u64 tie_seed) {
    for (int j = (int)WITHIN * VECTOR; j < COLUMNS; j += LANES * VECTOR) /* as they were written: by this lane */
        for (int v = 0; v < VECTOR; v++)
            if (value_of(at[j + v]) == kept.from && tie_of(tie_seed, j + v) > kept.tie) wanted.flags[row * COLUMNS + j + v] = 0;
}
#endif

/* Blocks on a multiprocessor at a time: registers for more of them were measured to be worth it. */
#ifndef MIN_BLOCKS
#define MIN_BLOCKS (PER_LANE > 32 ? 3 : ASKS ? 4 : ELEMENT > 1 ? (LOGITS ? 6 : 4) : LOGITS ? 5 : 6)
#endif
#if !defined(ONLY_ONE) || defined(ONLY_mask)
extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS) mask(Job job, Wanted wanted) {
    __shared__ Left lefts[BLOCK / LANES];
    i64 n = rows_to_do(job), stride = (i64)gridDim.x * blockDim.x / LANES;
    i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32 * GROUPS;
    Habit habit = {0, 0.0f, 0.0f, true};
    bool like_is_known = false;
#if IN_TILES
    DYNAMIC_SHARED(pool);
    Tile *tiles = (Tile *)pool + threadIdx.x / 32 * 2;
    int side = 0;
    ask_for(job, first, n, tiles[0]);
#endif
    for (; first < n; first += stride) {
        i64 i = first + LANE / LANES;
        bool here = i < n;
        if (!here) i = n - 1;
        i64 row = row_at(job, i);
#if IN_TILES
        ask_for(job, first + stride, n, tiles[side ^ 1]);
        arrived();
        const Element *at = tiles[side] + LANE / LANES * COLUMNS;
        side ^= 1;
#else
        const Element *at = elements_of(job, row);
#endif
        Held held;
        Value pivot = first_pivot(habit);
        Facts facts = hold(job, at, here, held, pivot, like_is_known);
#if LOGITS
        bool slow = facts.odd >= ODD, bad = false;
#else
        bool odd = facts.odd >= ODD, bad = odd || is_off(facts.total * STEPS_PER_ONE, job.tolerance), slow = false;
        if (bad && here && WITHIN == 0) { if (odd) look_at_odd(job, row); else report(job, row); }
        if (bad && here) flag_all(wanted, row, (int)WITHIN, LANES);
#endif
        u64 seed = seed_at(job, row, facts.hash, here && !bad && WITHIN == 0);
        Target t = target_of(job, wanted.thresholds[wanted.per_row ? row : 0], facts.total, uniform_at(job, row, seed));
        if (ASKS) {
            i64 top = 0, second = 0;
#pragma unroll
            for (int e = 0; e < PER_LANE; e++)
                if (held.x[e] >= 0) add_to_top_two(top, second, grid_steps((double)held.x[e]));
            top_two_over(top, second, LANES);
            t.of.top = (double)top, t.of.second = (double)second;
        }
        bool is_full = t.threshold > 1e300, is_open = !bad && !slow && !is_full;
        Bracket b = narrow(job, held, t, is_open, pivot, facts.look, habit, &slow);
        Kept kept = settle(job, held, at, b, t, seed, is_open && !slow, lefts[threadIdx.x / LANES]);
        if (PLAIN && (wanted.sizes || wanted.min_size)) kept.size += count_above(held, b.high);
        slow |= kept.slow;
        if (is_full) kept.from = 0, kept.size = COLUMNS, kept.tie = ~0ull;
#if LOGITS
        if (is_full) kept.high = -1.0f, kept.count = 0;
#endif
        bool is_empty = !bad && !slow && kept.size == 0 && wanted.min_size;
        if (__any_sync(FULL, is_empty)) { /* the most likely label alone */
#if LOGITS
            u32 tops = 0;
            for (int j = (int)WITHIN; j < COLUMNS; j += LANES) tops += held.top - value_of(at[j]) < SMALL; /* as likely, perhaps */
            bool alone = sum_in_group(tops) == 1;
            if (is_empty) kept.high = 4.0f, kept.count = 0, kept.top = true, kept.size = 1, slow |= !alone;
#else
            Value top = largest_held(held);
            bool alone = count_held(held, top) == 1;
            if (is_empty) kept.from = top, kept.size = 1, slow |= !alone;
#endif
        }
        if (!bad && !slow) habit.cut = kept.from;
        bool is_done = here && !bad && !slow;
        if (is_done && WITHIN == 0) {
            if (wanted.sizes) wanted.sizes[row] = kept.size;
            if (wanted.cutoffs) wanted.cutoffs[row] = kept.size ? (float)kept.from : 4.0f; /* nobody reaches that */
        }
#if LOGITS
        if (wanted.flags && is_done) flag_from(wanted, held, __uint_as_float(__float_as_uint(kept.high) + 1u), row);
        __syncwarp(); /* a lane flags labels that another one has written */
        if (wanted.flags && is_done) flag_left(wanted, held, at, lefts[threadIdx.x / LANES], kept, row);
#else
        if (wanted.flags && is_done) flag_from(wanted, held, kept.from, row);
        if (wanted.flags && is_done && kept.tie != ~0ull) split_ties(wanted, at, kept, row, tie_seed_of(seed, t.of.u));
#endif
        if (here && slow && WITHIN == 0) leave(job, row);
#if IN_TILES
        __syncwarp(); /* all have read the row */
#endif
    }
}
#endif

#endif

DEVICE void mask_row(const Job &job, i64 row, const Wanted &wanted, double *room) {
    Careful c = open_carefully(job, row, room);
    if (c.bad) {
        if (LANE == 0) report(job, row);
        flag_all(wanted, row, (int)LANE, 32);
        return;
    }
    Cut cut = careful_cut(job, c, wanted.thresholds[wanted.per_row ? row : 0], (int)wanted.min_size);
    if (LANE == 0 && wanted.sizes) wanted.sizes[row] = (int)cut.size;
    if (LANE == 0 && wanted.cutoffs) wanted.cutoffs[row] = cut.size ? (float)from_bits(cut.value) : 4.0f;
    for (i64 j = LANE; j < COLUMNS && wanted.flags; j += 32)
        wanted.flags[row * COLUMNS + j] = is_member(cut, bits_of(double_at(c.at, j)), c.tie_seed, j);
}

#if !defined(ONLY_ONE) || defined(ONLY_mask_carefully)
/* The rows that were left, and copies, if some are listed; all of them where rows do not fit the registers. */
extern "C" __global__ void mask_carefully(Job job, Wanted wanted, i64 all) {
    i64 copies = all || job.which ? rows_to_do(job) : 0, n = copies + (all ? 0 : (i64)*job.n_slow), warps = (i64)gridDim.x * blockDim.x / 32;
    double *room = 0;
#if LOGITS
    DYNAMIC_SHARED(pool);
    room = (double *)pool + threadIdx.x / 32 * ROOM;
    bool is_known = !all;
#endif
    for (i64 k = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; k < n; k += warps) {
        i64 row = k < copies ? row_at(job, k) : (i64)job.slow[k - copies];
#if LOGITS
        if (!is_known) tell_unlike(job, row_is_unlike(elements_of(job, row), 32), is_known);
#endif
        mask_row(job, row, wanted, room);
#if LOGITS
        __syncwarp(); /* the room is written again */
#endif
    }
}
#endif
