/* The score of one label of each row of logits, exactly: a warp has a row, whose softmax stays in its shared memory. Registers would hold it,
 * too, but then few warps are there to take turns, and the units for float64, of which there are few, often wait.
 *
 * The sum of a softmax goes by halves upon halves. A lane has the columns that the first FOLDS halvings put together, so that these take
 * place within it: cell b of lane k is column k + sum of COLUMNS >> i over the bits i - 1 of b. What an odd width leaves over at halving i stands
 * in 2^(i - 1) columns more; lanes 2^(i - 1) .. 2^i - 1 have one of them each.
 */
#include "exact_fallback.cuh"

#ifdef FOLDS
#define CELLS (1 << FOLDS)
#define LAST (COLUMNS >> FOLDS) /* at most 32: how many lanes have cells */

DEVICE int offset_of(int cell) {
    int offset = 0;
#pragma unroll
    for (int i = 1; i <= FOLDS; i++) offset += cell >> (i - 1) & 1 ? COLUMNS >> i : 0;
    return offset;
}
/* The column that this lane has of those that were left over; -1 if it has none. */
DEVICE int odd_column() {
    int lane = (int)LANE, column = -1;
#pragma unroll
    for (int i = 1; i <= FOLDS; i++)
        if (COLUMNS >> (i - 1) & 1 && lane >> (i - 1) == 1) column = 2 * (COLUMNS >> i) + offset_of(lane & ((1 << (i - 1)) - 1));
    return column;
}
template <int LEVEL> DEVICE double folded(const double *weights) {
    if constexpr (LEVEL == 0) return weights[0];
    else return folded<LEVEL - 1>(weights) + folded<LEVEL - 1>(weights + (1 << (LEVEL - 1)));
}

/* The sum of a row from that of the cells of this lane; `odd` is the weight of its column that was left over. */
DEVICE double sum_of_row(double sum, double odd) {
    double rest = 0.0;
#pragma unroll
    for (int i = 1; i < FOLDS; i++) {
        double other = __shfl_xor_sync(FULL, odd, 1 << (i - 1));
        if (LANE >> i) odd += other; /* lanes of a later halving */
    }
#pragma unroll
    for (int i = 1; i <= FOLDS; i++)
        if (COLUMNS >> (i - 1) & 1) rest += __shfl_sync(FULL, odd, 1 << (i - 1));
#pragma unroll
    for (int width = LAST; width > 1; width /= 2) {
        if (width % 2) rest += __shfl_sync(FULL, sum, width - 1);
        double other = __shfl_sync(FULL, sum, ((int)LANE + width / 2) & 31);
        if ((int)LANE < width / 2) sum += other;
    }
    return __shfl_sync(FULL, sum, 0) + rest;
}

/* Quotients as IEEE rounds them, in their place, where nothing is near the ends of the exponents: with the rounded reciprocal two corrections
 * are enough. */
template <int N> DEVICE void quotients(double *x, double y, double one_over_y) {
    double q[N];
#pragma unroll
    for (int i = 0; i < N; i++) q[i] = x[i] * one_over_y;
#pragma unroll
    for (int i = 0; i < N; i++) q[i] = fma(fma(-q[i], y, x[i]), one_over_y, q[i]);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = fma(fma(-q[i], y, x[i]), one_over_y, q[i]);
}

/* Sums over the labels of this lane, masses in grid steps: there are more units for whole numbers than for float64. Sums `from_two` on have
 * TWO_BITS in each term, which are gone from the low bits. */
struct Sums { u64 total, above, hash, own, top, second; u32 greater, equal, odd_equal; };

/* Labels that equal the one in question are marked, a bit each. */
DEVICE void add_label(Sums &s, double p, u32 &marks, u32 mark) {
    u64 bits = bits_of(p), from_two = bits_of(p + 2.0);
    s.total += from_two;
    if (bits > s.own) { s.above += from_two; if (RANKS || ASKS) s.greater++; }
    if (bits == s.own) marks |= mark;
    if (ASKS) {
        u64 steps = from_two - TWO_BITS, lower = steps < s.top ? steps : s.top;
        s.top = steps > s.top ? steps : s.top, s.second = lower > s.second ? lower : s.second;
    }
}
/* The sum over a warp of whole numbers below 2^53, each with a few TWO_BITS. */
DEVICE double steps_in_warp(u64 from_two) {
    u64 steps = from_two & (TWO_BITS - 1);
    u64 low = __reduce_add_sync(FULL, (u32)steps & 0x3FFFFFFu), high = __reduce_add_sync(FULL, (u32)(steps >> 26));
    return (double)(i64)(low + (high << 26));
}
DEVICE void top_two(Sums &s) {
    for (int step = 1; step < 32; step *= 2) {
        u64 other = __shfl_xor_sync(FULL, s.top, step), behind = __shfl_xor_sync(FULL, s.second, step);
        u64 lower = other < s.top ? other : s.top;
        behind = behind > s.second ? behind : s.second;
        s.top = other > s.top ? other : s.top, s.second = lower > behind ? lower : behind;
    }
}

/* How many of the labels of this lane that equal the one in question come before it. */
DEVICE u32 equal_before(const Sums &s, i64 label, u64 tie_seed, int odd_one) {
    u64 my_tie = tie_of(tie_seed, label);
    u32 before = s.odd_equal && odd_one != (int)label && tie_of(tie_seed, odd_one) < my_tie;
    for (u32 marks = s.equal; marks; marks &= marks - 1) {
        int column = (int)LANE + offset_of(__ffs((int)marks) - 1);
        before += column != (int)label && tie_of(tie_seed, column) < my_tie;
    }
    return before;
}

/* The score of a label that has no mass: the row once more, label by label. */
DEVICE double score_again(const Job &job, const Element *at, i64 label, double highest, double sum, Loaded &of, u64 seed) {
    double own_value = exponential((double)value_of(at[label]) - highest) / sum;
    u64 tie_seed = tie_seed_of(seed, of.u), my_tie = tie_of(tie_seed, label);
    i64 above = 0, before = 0, with_mass = 0;
#pragma unroll 1
    for (int j = (int)LANE; j < COLUMNS; j += 32) {
        double p = exponential((double)value_of(at[j]) - highest) / sum;
        i64 steps = grid_steps(p);
        bool comes_first = p > own_value || (p == own_value && j != label && tie_of(tie_seed, j) < my_tie);
        above += comes_first ? steps : 0, before += comes_first, with_mass += steps > 0;
    }
    of.with_mass = sum_over(with_mass, 32);
    return score_of(job.w, sum_over(above, 32), grid_steps(own_value), sum_over(before, 32) + 1, of);
}

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 6 /* on a multiprocessor at a time, as measured */
#endif
#define HAS_ODD (COLUMNS % CELLS != 0)
#ifndef MOST_FOLDS
#define MOST_FOLDS 3 /* of the cells that are worked on side by side */
#endif
#define SIDE_FOLDS (FOLDS < MOST_FOLDS ? FOLDS : MOST_FOLDS)
#define SIDE_BY_SIDE (1 << SIDE_FOLDS)
#define COLUMN(b) ((int)LANE + offset_of(b))

/* The largest and the least logit of this lane; the largest is missing where one of them is. */
struct Ends { Value top, least; };

/* Put the logits into the cells. A lane that has none reads those of another one, and what comes of them is left out of all sums. Loops over all cells
 * are not unrolled: the program would be long, and the compiler would ask for so many registers that fewer warps take turns. */
DEVICE Ends put_logits(const Job &job, const Element *at, double (*cells)[32], bool has, Value odd, u64 &hash) {
    Ends ends = {odd, odd};
#pragma unroll 1
    for (int b = 0; b < CELLS; b += SIDE_BY_SIDE) {
        int first = has ? COLUMN(b) : 0;
#pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++) {
            Value x = value_of(at[first + offset_of(i)]) + (Value)0; /* one zero */
            ends.top = larger_or_missing(ends.top, x), ends.least = min(ends.least, x);
            cells[b + i][LANE] = (double)x;
            if (HASHES) add_value_to_hash(hash, x, job.column_keys[first + offset_of(i)]);
        }
    }
    hash = has ? hash : 0;
    return ends;
}

/* Put the exponentials in the place of the logits; return the sum of those of this lane, halves upon halves. */
template <bool MAY_BE_LOWEST> DEVICE double put_weights(double (*cells)[32], double highest) {
    double sum = 0.0, halves[FOLDS - SIDE_FOLDS + 1]; /* that wait for their other half, as the bits of a number that counts up */
#pragma unroll 1
    for (int b = 0; b < CELLS; b += SIDE_BY_SIDE) {
        double weights[SIDE_BY_SIDE];
#pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++) weights[i] = cells[b + i][LANE] - highest;
        exponentials<SIDE_BY_SIDE, MAY_BE_LOWEST>(weights);
#pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++) cells[b + i][LANE] = weights[i];
        sum = folded<SIDE_FOLDS>(weights);
        bool goes_on = true;
#pragma unroll
        for (int i = 0; i < FOLDS - SIDE_FOLDS; i++) {
            bool is_second = b >> (SIDE_FOLDS + i) & 1;
            if (goes_on && is_second) sum = halves[i] + sum;
            if (goes_on && !is_second) halves[i] = sum, goes_on = false;
        }
    }
    return sum;
}

/* The weight of one label, from the lane that has its column. */
DEVICE double weight_of(i64 label, double (*cells)[32], double odd_weight) {
    int column = (int)label, cell = 0, odd_lane = -1;
#pragma unroll
    for (int i = 1; i <= FOLDS; i++) {
        int half = COLUMNS >> i;
        if (odd_lane >= 0) continue;
        if (column >= 2 * half) odd_lane = (1 << (i - 1)) + cell;
        else if (column >= half) column -= half, cell += 1 << (i - 1);
    }
    double of_odd = HAS_ODD ? __shfl_sync(FULL, odd_weight, odd_lane & 31) : 0.0;
    return odd_lane >= 0 ? of_odd : cells[cell][column];
}

/* The sums of all labels, whose weights become probabilities one after the other. */
DEVICE void add_labels(Sums &s, double (*cells)[32], bool has, double sum, double one_over_sum) {
#pragma unroll 1
    for (int b = 0; b < CELLS; b += SIDE_BY_SIDE) {
        double p[SIDE_BY_SIDE];
        u32 equal = 0;
#pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++) p[i] = cells[b + i][LANE];
        quotients<SIDE_BY_SIDE>(p, sum, one_over_sum);
#pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++) add_label(s, p[i], equal, 1u << i);
        s.equal |= equal << b;
    }
    if (!has) s.total = s.above = s.top = s.second = 0, s.greater = s.equal = 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS) label_scores(Job job, const i64 *labels, double *scores) {
    i64 n = rows_to_do(job), warps = (i64)gridDim.x * blockDim.x / 32, k = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    bool is_known = false, has = (int)LANE < LAST;
    int odd_one = odd_column();
    DYNAMIC_SHARED(pool);
    double (*cells)[32] = (double (*)[32])pool + threadIdx.x / 32 * CELLS;
    i64 next = k < n ? labels[row_at(job, k)] : 0;
    for (; k < n; k += warps) {
        i64 row = row_at(job, k), label = next;
        if (k + warps < n) next = labels[row_at(job, k + warps)], ask_for_row(job, k + warps);
        const Element *at = elements_of(job, row);
        if (!is_known) tell_unlike(job, row_is_unlike(at), is_known);
        Sums s = {0, 0, 0, 0, 0, 0, 0, 0, 0};
        Value odd_logit = value_of(at[odd_one >= 0 ? odd_one : 0]) + (Value)0;
        Ends ends = put_logits(job, at, cells, has, odd_logit, s.hash);
        if (HASHES && HAS_ODD && odd_one >= 0) add_value_to_hash(s.hash, odd_logit, job.column_keys[odd_one]);
        bool missing = ends.top != ends.top;
        double highest = (double)largest_in_group(ends.top);
        if (__any_sync(FULL, missing || is_infinite(highest))) { if (LANE == 0) report(job, row); continue; }
        double odd_weight = HAS_ODD && odd_one >= 0 ? exponential((double)odd_logit - highest) : 0.0;
        bool goes_low = __any_sync(FULL, (double)ends.least - highest < LOWEST);
        double of_lane = goes_low ? put_weights<true>(cells, highest) : put_weights<false>(cells, highest);
        double sum = sum_of_row(of_lane, odd_weight), one_over_sum = 1.0 / sum;
        __syncwarp(); /* all weights are there */
        double own_value = weight_of(label, cells, odd_weight);
        quotients<1>(&own_value, sum, one_over_sum), s.own = bits_of(own_value);
        add_labels(s, cells, has, sum, one_over_sum);
        if (HAS_ODD) quotients<1>(&odd_weight, sum, one_over_sum), add_label(s, odd_weight, s.odd_equal, 1u);
        Loaded of = {steps_in_warp(s.total), 0.0, 0.0, 0, 0.0};
        double above = steps_in_warp(s.above);
        u32 both = __reduce_add_sync(FULL, s.greater | (u32)(__popc(s.equal) + (int)s.odd_equal) << 16);
        if (ASKS) top_two(s), of.top = (double)s.top, of.second = (double)s.second;
        u64 seed = seed_at(job, row, HASHES ? sum_in_group(s.hash) : 0, LANE == 0);
        of.u = uniform_at(job, row, seed);
        double own = mass_of(own_value), score;
        if (own == 0.0) score = score_again(job, at, label, highest, sum, of, seed);
        else {
            double before = 0.0;
            if (both >> 16 > 1) before = (double)__reduce_add_sync(FULL, equal_before(s, label, tie_seed_of(seed, of.u), odd_one));
            score = mass_score(job.w, above + before * own, own, (double)(both & 0xFFFFu) + before + 1.0, of);
        }
        if (LANE == 0) scores[row] = score;
        __syncwarp(); /* all have read the row */
    }
}
#endif

/* Rows of any length that the room of a warp holds. */
extern "C" __global__ void label_scores_carefully(Job job, const i64 *labels, double *scores) {
    DYNAMIC_SHARED(pool);
    double *room = (double *)pool + threadIdx.x / 32 * ROOM;
    i64 n = rows_to_do(job), warps = (i64)gridDim.x * blockDim.x / 32;
    bool is_known = false;
    for (i64 k = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; k < n; k += warps) {
        i64 row = row_at(job, k);
        if (!is_known) tell_unlike(job, row_is_unlike(elements_of(job, row)), is_known);
        Careful c = open_carefully(job, row, room);
        if (c.bad) { if (LANE == 0) report(job, row); continue; }
        double score = careful_label_score(job, c, labels[row]);
        if (LANE == 0) scores[row] = score;
        __syncwarp();
    }
}
