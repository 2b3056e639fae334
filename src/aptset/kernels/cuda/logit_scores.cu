/* The score of one label of each row of logits, exactly. LANES lanes have a row. It waits in shared memory, where the exponentials of its logits stand,
 * too. docs/design/0016 says where the time goes.
 */
#include "exact_fallback.cuh"

#ifdef FOLDS
#include "loading.cuh"
#include "tiles.cuh"

/* The sum of a softmax goes by halves upon halves. A lane has the columns that the first FOLDS halvings put together, a cell for each, so that these
 * halvings take place within it: cell c of lane k is column k + sum of COLUMNS >> i over the bits i - 1 of c. What an odd width leaves over at
 * halving i are 2^(i - 1) columns more, in the cells 2^(i - 1) .. 2^i - 1 of lane LAST. All other cells stay 0. */
#define CELLS (1 << FOLDS)
#define LAST (COLUMNS >> FOLDS) /* lanes that have all cells; fewer than LANES where columns are left over */
#define SIDE_BY_SIDE 8 /* cells that are worked on together: each operation waits for the one before */
#define LEAVES_OVER(halving) ((COLUMNS >> ((halving) - 1) & 1) != 0)

DEVICE int offset_of(int cell) {
    int offset = 0;
#pragma unroll
    for (int i = 1; i <= FOLDS; i++) offset += cell >> (i - 1) & 1 ? COLUMNS >> i : 0;
    return offset;
}
/* The halving at which lane LAST has a cell, if it has: the number of its bits. */
DEVICE int halving_of(int cell) { return cell < 2 ? cell : cell < 4 ? 2 : cell < 8 ? 3 : cell < 16 ? 4 : 5; }
DEVICE bool has_cell(int halving) {
    return (int)WITHIN < LAST || ((int)WITHIN == LAST && (COLUMNS & (1 << halving) / 2) != 0);
}
/* The column of a cell of this lane, less the offset of the cell; of one that it does not have, any that is in the row. */
DEVICE int start_of(int halving) { return (int)WITHIN < LAST ? (int)WITHIN : has_cell(halving) ? COLUMNS >> halving : 0; }

template <int LEVEL> DEVICE double folded(const double *weights) {
    if constexpr (LEVEL == 0) return weights[0];
    else return folded<LEVEL - 1>(weights) + folded<LEVEL - 1>(weights + (1 << (LEVEL - 1)));
}

/* The largest and the least logit of this lane; the largest is missing where one of them is. */
struct Ends { Value top, least; };

DEVICE Ends look_at(const Job &job, const Element *row, u64 &hash) {
    Value first = value_of(row[0]);
    Ends ends = {first, first};
#pragma unroll 4
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        if (!is_inside(chunk)) continue;
        Value x[VECTOR];
        u64 keys[VECTOR];
        load_chunk(row, chunk, x);
        if (HASHES) load_keys(job.column_keys, chunk, keys);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            ends.top = larger_or_missing(ends.top, x[v]), ends.least = min(ends.least, x[v]);
            if (HASHES) add_value_to_hash(hash, x[v] + (Value)0, keys[v]); /* one zero */
        }
    }
    return ends;
}

/* The sums of the exponentials of a lane, halves upon halves: of its cells, and of what was left over, if it is lane LAST. */
struct Folded { double cells, left_over; float near_half; };

/* Put the exponentials of some logits of a row into their cells; return their sum. */
template <bool QUICK> DEVICE double put_some(const Element *row, double (*cells)[32], double highest, int b, Folded &sums) {
    double weights[SIDE_BY_SIDE];
#pragma unroll
    for (int i = 0; i < SIDE_BY_SIDE; i++) weights[i] = (double)value_of(row[offset_of(b + i) + start_of(halving_of(b + i))]) - highest;
    sums.near_half = fmaxf(sums.near_half, exponentials<SIDE_BY_SIDE, QUICK>(weights));
#pragma unroll
    for (int i = 0; i < SIDE_BY_SIDE; i++)
        if (has_cell(halving_of(b + i))) cells[b + i][LANE] = weights[i];
    if (b == 0) {
        if (LEAVES_OVER(1)) sums.left_over += weights[1];
        if (LEAVES_OVER(2)) sums.left_over += folded<1>(weights + 2);
        if (LEAVES_OVER(3)) sums.left_over += folded<2>(weights + 4);
    }
    return folded<3>(weights);
}

/* Put the exponentials of the logits of a row into the cells. */
template <bool QUICK> DEVICE Folded put_weights(const Element *row, double (*cells)[32], double highest) {
    Folded sums = {0.0, 0.0, 0.0f};
    double half = 0.0;
    constexpr int UNROLLED = QUICK ? CELLS / SIDE_BY_SIDE : 1; /* what is rare need not be long */
#pragma unroll UNROLLED
    for (int b = 0; b < CELLS; b += SIDE_BY_SIDE) {
        double sum = put_some<QUICK>(row, cells, highest, b, sums);
        if (b == 8 && LEAVES_OVER(4)) sums.left_over += sum;
        if (b & 8) sum = half + sum;
        else half = sum;
        if (b == 24 && LEAVES_OVER(5)) sums.left_over += sum;
        if (b < 16) sums.cells = sum;
        if (b == 24) sums.cells += sum;
    }
    return sums;
}

/* The sum of a row, from those of its lanes. */
DEVICE double sum_of_row(const Folded &sums) {
    int first = (int)(LANE - WITHIN);
    double sum = sums.cells, rest = LAST < LANES ? __shfl_sync(FULL, sums.left_over, first + LAST % LANES) : 0.0;
#pragma unroll
    for (int width = LAST; width > 1; width /= 2) {
        if (width % 2) rest += __shfl_sync(FULL, sum, first + width - 1);
        sum += __shfl_sync(FULL, sum, ((int)LANE + width / 2) & 31); /* what lanes from width / 2 on make of it is not looked at */
    }
    return __shfl_sync(FULL, sum, first) + rest;
}

/* Reciprocals of the sum of a row: rounded, just below and just above. The rounded one is off by at most half a unit, and rounding a quotient moves it
 * by at most 2^-53 of itself, which is at most one unit of the reciprocal: two units to either side hold both. */
struct Divisor { double sum, one_over, below, beyond; };

DEVICE Divisor divisor_of(double sum) {
    double one_over = 1.0 / sum;
    Divisor by = {sum, one_over, from_bits(bits_of(one_over) - 2), from_bits(bits_of(one_over) + 2)};
    return by;
}
DEVICE double divided(double weight, const Divisor &by) { return quotient(weight, by.sum, by.one_over); }

/* The label in question: its cell, whether this lane has it, the upper half of its weight, its probability, and the bits of that. */
struct Own { int cell; bool is_here; u32 upper; double value; u64 bits; };

DEVICE Own find_own(i64 label, double (*cells)[32], const Divisor &by) {
    int column = (int)label, cell = 0;
    bool is_left_over = false;
#pragma unroll
    for (int i = 1; i <= FOLDS; i++) {
        int half = COLUMNS >> i;
        if (!is_left_over && column >= half) column -= half, cell += 1 << (i - 1), is_left_over = LEAVES_OVER(i) && column == half;
    }
    column = is_left_over ? LAST : column;
    double weight = cells[cell][(int)(LANE - WITHIN) + column], value = divided(weight, by);
    Own own = {cell, (int)WITHIN == column, (u32)(bits_of(weight) >> 32), value, bits_of(value)};
    return own;
}

/* Sums over the labels of this lane, as whole numbers: of masses the bits of 2 plus the mass are added, whose low bits are grid steps; those of the 2, which
 * stand above them, are dropped at the end. Some labels are marked, a bit each, to be looked at again. */
struct Sums { u64 total, above, hash, top, second; u32 greater, marks; };

/* The bits of 2 plus the mass of a label. The product with a reciprocal just below the true one may be a step too low; where scores ask for the largest masses,
 * it must not be. */
DEVICE u64 about_mass(double weight, const Divisor &by) { return bits_of(ASKS ? divided(weight, by) + 2.0 : fma(weight, by.below, 2.0)); }

/* Rounding keeps order: where the reciprocals just below and just above put a weight at the same place of the grid, there it is, too, when the quotient is rounded
 * first. Weights whose upper halves differ by two or more have quotients in the same order, rounding included. All other labels are marked: the own one, those
 * that equal it, and one or two of a row of any length whose mass is in doubt. */
DEVICE void add_labels(Sums &s, double (*cells)[32], u32 own_upper, const Divisor &by) {
    u32 just_below = own_upper - 1;
#pragma unroll 1
    for (int b = 0; b < CELLS; b += SIDE_BY_SIDE) {
        double weights[SIDE_BY_SIDE];
        u32 marks = 0;
#pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++) weights[i] = cells[b + i][LANE];
#pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++) {
            u64 mass = about_mass(weights[i], by);
            u32 apart = (u32)(bits_of(weights[i]) >> 32) - just_below;
            s.total += mass;
            if ((int)apart > 2) { s.above += mass; if (RANKS || ASKS) s.greater++; }
            bool is_near = apart <= 2u, is_in_doubt = !ASKS && (u32)mass != (u32)bits_of(fma(weights[i], by.beyond, 2.0));
            if (is_near | is_in_doubt) marks |= 1u << i;
            if (ASKS) {
                u64 steps = mass - TWO_BITS, lower = steps < s.top ? steps : s.top;
                s.top = steps > s.top ? steps : s.top, s.second = lower > s.second ? lower : s.second;
            }
        }
        s.marks |= marks << b;
    }
}

/* Look at the marked labels again, by their quotients; those that equal the own one stay marked. */
DEVICE void add_marked(Sums &s, double (*cells)[32], const Own &own, const Divisor &by) {
    u32 equal = 0;
    for (; s.marks; s.marks &= s.marks - 1) {
        int cell = __ffs((int)s.marks) - 1;
        double weight = cells[cell][LANE], value = divided(weight, by);
        u64 mass = bits_of(value + 2.0), before = about_mass(weight, by);
        bool was_above = (int)((u32)(bits_of(weight) >> 32) - own.upper) > 1, is_above = bits_of(value) > own.bits;
        s.total += mass - before;
        s.above += (is_above ? mass : 0) - (was_above ? before : 0), s.greater += is_above && !was_above;
        if (bits_of(value) == own.bits && !(own.is_here && cell == own.cell)) equal |= 1u << cell;
    }
    s.marks = equal;
}

/* How many of the marked labels come before the own one, by their ties. */
DEVICE u32 equal_before(u32 marks, i64 label, u64 tie_seed) {
    u64 own_tie = tie_of(tie_seed, label);
    u32 before = 0;
    for (; marks; marks &= marks - 1) {
        int cell = __ffs((int)marks) - 1;
        before += tie_of(tie_seed, offset_of(cell) + start_of(halving_of(cell))) < own_tie;
    }
    return before;
}

/* The sum over a row of masses in grid steps, from the sums of its lanes. */
DEVICE double steps_in_group(u64 of_lane) {
    u64 steps = of_lane & (TWO_BITS - 1);
    if (LANES < 32) return (double)(i64)sum_over(steps, LANES);
    u64 low = __reduce_add_sync(FULL, (u32)steps & 0x3FFFFFFu), high = __reduce_add_sync(FULL, (u32)(steps >> 26));
    return (double)(i64)(low + (high << 26));
}
DEVICE void top_two(Sums &s) {
    for (int step = 1; step < LANES; step *= 2) {
        u64 other = __shfl_xor_sync(FULL, s.top, step), behind = __shfl_xor_sync(FULL, s.second, step);
        u64 lower = other < s.top ? other : s.top;
        behind = behind > s.second ? behind : s.second;
        s.top = other > s.top ? other : s.top, s.second = lower > behind ? lower : behind;
    }
}

/* The score of a label that has no mass: the row once more, label by label. */
DEVICE double score_again(const Job &job, const Element *at, i64 label, double highest, double sum, Loaded &of, u64 tie_seed) {
    double own_value = exponential((double)value_of(at[label]) - highest) / sum;
    u64 own_tie = tie_of(tie_seed, label);
    i64 above = 0, before = 0, with_mass = 0;
#pragma unroll 1
    for (int j = (int)WITHIN; j < COLUMNS; j += LANES) {
        double p = exponential((double)value_of(at[j]) - highest) / sum;
        i64 steps = grid_steps(p);
        bool comes_first = p > own_value || (p == own_value && j != label && tie_of(tie_seed, j) < own_tie);
        above += comes_first ? steps : 0, before += comes_first, with_mass += steps > 0;
    }
    of.with_mass = sum_over(with_mass, LANES);
    above = sum_over(above, LANES), before = sum_over(before, LANES);
    return score_of(job.w, above, grid_steps(own_value), before + 1, of);
}

#define TILE_BYTES ((int)(OF_TILE * sizeof(Element) + 15) / 16 * 16)
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 4 /* on a multiprocessor at a time: as many as have room */
#endif

extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS) label_scores(Job job, const i64 *labels, double *scores) {
    i64 n = rows_to_do(job), stride = (i64)gridDim.x * blockDim.x / 32 * GROUPS;
    i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32 * GROUPS;
    int group = (int)LANE / LANES;
    bool is_known = false;
    DYNAMIC_SHARED(pool);
    double (*cells)[32] = (double (*)[32])pool + threadIdx.x / 32 * CELLS;
    Element *tile = (Element *)(pool + BLOCK / 32 * CELLS * 256 + threadIdx.x / 32 * TILE_BYTES);
    for (int c = 0; c < CELLS; c++) cells[c][LANE] = 0.0;
    ask_for(job, first, n, tile);
    for (; first < n; first += stride) {
        bool here = first + group < n;
        i64 row = row_at(job, here ? first + group : n - 1), label = labels[row];
        const Element *logits = tile + group * COLUMNS;
        all_arrived();
        if (!is_known) tell_unlike(job, row_is_unlike(logits, LANES) && here, is_known);
        Sums s = {0, 0, 0, 0, 0, 0, 0};
        Ends ends = look_at(job, logits, s.hash);
        double highest = (double)largest_in_group(ends.top);
        bool bad = any_in_group(ends.top != ends.top) || is_infinite(highest);
        Folded sums = {0.0, 0.0, NEAR_HALF};
        if (!__any_sync(FULL, (double)ends.least - highest < LOWEST)) sums = put_weights<true>(logits, cells, highest);
        if (__any_sync(FULL, sums.near_half >= NEAR_HALF)) sums = put_weights<false>(logits, cells, highest);
        __syncwarp(); /* all have read the logits, and all weights are there */
        ask_for(job, first + stride, n, tile);
        Divisor by = divisor_of(sum_of_row(sums));
        Own own = find_own(label, cells, by);
        add_labels(s, cells, own.upper, by), add_marked(s, cells, own, by);
        Loaded of = {steps_in_group(s.total), 0.0, 0.0, 0, 0.0};
        if (ASKS) top_two(s), of.top = (double)s.top, of.second = (double)s.second;
        u64 seed = seed_at(job, row, HASHES ? sum_in_group(s.hash) : 0, here && WITHIN == 0);
        of.u = uniform_at(job, row, seed);
        double mass = mass_of(own.value), before = 0.0;
        if (__any_sync(FULL, s.marks != 0)) before = (double)sum_in_group(equal_before(s.marks, label, tie_seed_of(seed, of.u)));
        double above = steps_in_group(s.above), rank = (RANKS || ASKS ? (double)sum_in_group(s.greater) : 0.0) + before + 1.0;
        double score = mass_score(job.w, above + before * mass, mass, rank, of);
        if (__any_sync(FULL, mass == 0.0)) {
            double of_none = score_again(job, elements_of(job, row), label, highest, by.sum, of, tie_seed_of(seed, of.u));
            score = mass == 0.0 ? of_none : score;
        }
        if (here && WITHIN == 0) { if (bad) report(job, row); else scores[row] = score; }
    }
}

#else
/* Rows of any length that the room of a warp holds. */
extern "C" __global__ void label_scores_carefully(Job job, const i64 *labels, double *scores) {
    DYNAMIC_SHARED(pool);
    double *room = (double *)pool + threadIdx.x / 32 * ROOM;
    i64 n = rows_to_do(job), warps = (i64)gridDim.x * blockDim.x / 32;
    bool is_known = false;
    for (i64 k = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; k < n; k += warps) {
        i64 row = row_at(job, k);
        if (!is_known) tell_unlike(job, row_is_unlike(elements_of(job, row), 32), is_known);
        Careful c = open_carefully(job, row, room);
        if (c.bad) { if (LANE == 0) report(job, row); continue; }
        double score = careful_label_score(job, c, labels[row]);
        if (LANE == 0) scores[row] = score;
        __syncwarp();
    }
}
#endif
