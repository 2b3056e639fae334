/* Rows of up to 16 labels: a thread has a row, and compares every label with every other. A warp reads and writes its 32 rows
 * together, through shared memory. */
#include "warp.cuh"
#include "output.cuh"
#include "tiles.cuh"
#if LOGITS
#include "logits.cuh"
typedef double Number; /* a probability, and where those of the row of a lane stand */
#define SOFTENED __shared__ __align__(16) double softened[BLOCK / 32][OF_TILE]
#define ROW_OF_LANE(tile) (MINE(softened) + LANE * COLUMNS)
#if ELEMENT != 1
DEVICE double number_at(const double *at, i64 j) { return at[j]; }
#endif
#else
typedef Value Number;
#define SOFTENED
#define ROW_OF_LANE(tile) ((tile) + LANE * COLUMNS)
#endif
DEVICE Value number_at(const Element *at, i64 j) { return value_of(at[j]) + (Value)0; }

#define STAGED(name, type) __shared__ __align__(16) type name[BLOCK / 32][OF_TILE] /* what a warp writes together */
#define MINE(name) (name[threadIdx.x / 32])

/* Write what each lane left at its place in shared memory, `size` bytes each. */
struct __align__(16) Sixteen { u64 of[2]; };
DEVICE void write_tile(const Job &job, i64 first, i64 n, void *to, const void *from, int size) {
    __syncwarp();
    char *at = (char *)to + first * size;
    if (is_whole(job, first, n) && ((u64)at & 15) == 0)
        for (int k = (int)LANE; k < 2 * size; k += 32) ((Sixteen *)at)[k] = ((const Sixteen *)from)[k];
    else if (first + (i64)LANE < n)
        for (int b = 0; b < size; b++) ((char *)to)[row_at(job, first + LANE) * size + b] = ((const char *)from)[LANE * size + b];
}

/* The row of this thread. */
struct Narrow { Number x[COLUMNS]; Loaded of; u64 seed; bool bad; };

#if LOGITS
template <int WIDTH> DEVICE double sum_of_halves(double *weights, double rest) {
    if constexpr (WIDTH == 1) return weights[0] + rest;
    else {
        if (WIDTH % 2) rest += weights[WIDTH - 1];
#pragma unroll
        for (int k = 0; k < WIDTH / 2; k++) weights[k] += weights[WIDTH / 2 + k];
        return sum_of_halves<WIDTH / 2>(weights, rest);
    }
}
#define QUITE_LOW -670.0 /* this far below the largest logit weights are so large that what a quotient leaves over is a normal number, and not rounded */

/* Make probabilities of the logits of this thread, and write them down; tells whether there are any. What is rare goes by loops over what is written. */
DEVICE bool soften(double *x, double *to) {
    double top = x[0], least = x[0], weights[COLUMNS];
    bool missing = false;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) missing |= x[j] != x[j], top = x[j] > top ? x[j] : top, least = x[j] < least ? x[j] : least;
    if (missing || is_infinite(top)) return false;
    bool is_low = !(least - top >= QUITE_LOW);
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) to[j] = weights[j] = x[j] - top;
    if (is_low || exponentials<COLUMNS, true>(weights) >= NEAR_HALF) {
#pragma unroll 1
        for (int j = 0; j < COLUMNS; j++) to[j] = exponential(to[j]);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) weights[j] = to[j];
    }
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) x[j] = weights[j];
    double total = sum_of_halves<COLUMNS>(weights, 0.0), one_over_total = 1.0 / total;
    if (is_low) {
#pragma unroll 1
        for (int j = 0; j < COLUMNS; j++) to[j] /= total;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) x[j] = to[j];
    } else
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) to[j] = x[j] = quotient(x[j], total, one_over_total);
    return true;
}
/* Read the row of this thread, hash it as it is, and make its probabilities; tells whether it is bad. */
DEVICE bool read_narrow(const Job &job, Narrow &r, const Element *at, double *to, u64 &hash, bool &is_known) {
    double least = 0.0, sum = 0.0;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        r.x[j] = (double)number_at(at, j);
        if (HASHES) add_to_hash(hash, bits_of(r.x[j]), job.column_keys[j]);
        if (!is_known) sum += r.x[j], least = r.x[j] >= least ? least : r.x[j];
    }
    if (!is_known && is_unlike(least, sum)) {
        is_known = true;
        if (*(volatile u64 *)job.unlike == 0) *job.unlike = 1;
    }
    return !soften(r.x, to);
}
#else
DEVICE bool read_narrow(const Job &job, Narrow &r, const Element *at, const Element *, u64 &hash, bool &) {
    u32 odd = 0;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        r.x[j] = number_at(at, j);
        odd |= oddness(r.x[j]);
        if (HASHES) add_to_hash(hash, bits_of((double)r.x[j]), job.column_keys[j]);
    }
    return odd >= ODD;
}
#endif

/* Of logits, `to` takes the probabilities. */
template <typename To> DEVICE Narrow open_narrow(const Job &job, i64 row, const Element *at, To *to, bool &is_known) {
    Narrow r;
    u64 hash = 0;
    r.of.total = r.of.top = r.of.second = 0.0, r.of.with_mass = COLUMNS;
    r.bad = read_narrow(job, r, at, to, hash, is_known);
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        double mass = ((double)r.x[j] + 2.0) - 2.0;
        r.of.total += mass;
        if (!ASKS) continue;
        if (mass > r.of.top) r.of.second = r.of.top, r.of.top = mass; else if (mass > r.of.second) r.of.second = mass;
    }
    r.of.total *= STEPS_PER_ONE, r.of.top *= STEPS_PER_ONE, r.of.second *= STEPS_PER_ONE;
    r.bad |= is_off(r.of.total, job.tolerance);
    r.seed = seed_at(job, row, hash, true);
    r.of.u = uniform_at(job, row, r.seed);
    return r;
}

/* How many labels have mass: asked for where one has none. */
DEVICE void count_mass(Narrow &r) {
    r.of.with_mass = 0;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) r.of.with_mass += mass_of((double)r.x[j]) > 0.0;
}

/* Where every label of the row stands. */
struct Standing { double above[COLUMNS]; int rank[COLUMNS]; };

template <typename From> DEVICE Standing compare_all(Narrow &r, const From *at) {
    Standing s;
    count_mass(r);
    bool tied = false;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) s.above[j] = 0.0, s.rank[j] = 1;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
        for (int k = j + 1; k < COLUMNS; k++) {
            bool first = r.x[j] > r.x[k];
            tied |= r.x[j] == r.x[k];
            if (first) s.above[k] += mass_of((double)r.x[j]), s.rank[k]++;
            else s.above[j] += mass_of((double)r.x[k]), s.rank[j]++;
        }
    if (!tied) return s;
    u64 tie_seed = tie_seed_of(r.seed, r.of.u);
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        u64 own_value = tie_of(tie_seed, j);
        s.above[j] = 0.0, s.rank[j] = 1;
#pragma unroll 1
        for (int k = 0; k < COLUMNS; k++) {
            Number x = number_at(at, k);
            if (x > r.x[j] || (x == r.x[j] && tie_of(tie_seed, k) < own_value)) s.above[j] += mass_of((double)x), s.rank[j]++;
        }
    }
    return s;
}

DEVICE double narrow_score(const Job &job, const Narrow &r, const Standing &s, int j) {
    double own = mass_of((double)r.x[j]);
    if (own > 0.0 || job.w[BEHIND] == 0.0) return mass_score(job.w, s.above[j], own, (double)s.rank[j], r.of);
    return behind_score(job.w, s.rank[j], r.of);
}

/* Blocks on a multiprocessor at a time, as measured. */
#ifndef MIN_BLOCKS
#define MIN_BLOCKS (COLUMNS <= 10 && ELEMENT != 1 ? (LOGITS ? 5 : 8) : 4)
#endif

/* Every 32 rows that this warp has; the ones behind them are on their way. */
#define EACH_TILE(first, n, tiles) \
    bool is_known = false; \
    i64 stride = (i64)gridDim.x * BLOCK, first = ((i64)blockIdx.x * BLOCK + threadIdx.x) / 32 * 32; \
    int side = 0; \
    ask_for(job, first, n, MINE(tiles)[0]); \
    for (; first < n && (ask_for(job, first + stride, n, MINE(tiles)[side ^ 1]), arrived(), true); __syncwarp(), first += stride, side ^= 1)

#if !defined(ONLY_ONE) || defined(ONLY_label_scores)
/* `labels` and `scores` go by the row. */
extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS) label_scores(Job job, const i64 *labels, double *scores) {
    TILES(tiles);
    SOFTENED;
    i64 n = rows_to_do(job);
    EACH_TILE(first, n, tiles) {
        i64 i = first + LANE;
        if (i >= n) continue;
        i64 row = row_at(job, i), label = labels[row];
        auto at = ROW_OF_LANE(MINE(tiles)[side]);
        Narrow r = open_narrow(job, row, MINE(tiles)[side] + LANE * COLUMNS, at, is_known);
        if (r.bad) { report(job, row); continue; }
        Number own_value = number_at(at, label);
        double above = 0.0, own = mass_of((double)own_value);
        int rank = 1, equal = 0;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            if (r.x[j] > own_value) { above += ((double)r.x[j] + 2.0) - 2.0; if (RANKS || ASKS) rank++; }
            equal += r.x[j] == own_value;
        }
        above *= STEPS_PER_ONE;
        if (own == 0.0) {
            count_mass(r), rank = 1;
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) rank += r.x[j] > own_value;
        }
        if (equal > 1) {
            u64 tie_seed = tie_seed_of(r.seed, r.of.u), my_tie = tie_of(tie_seed, label);
#pragma unroll 1
            for (int j = 0; j < COLUMNS; j++)
                if (number_at(at, j) == own_value && tie_of(tie_seed, j) < my_tie) above += own, rank++;
        }
        bool has_mass = own > 0.0 || job.w[BEHIND] == 0.0;
        scores[row] = has_mass ? mass_score(job.w, above, own, (double)rank, r.of) : behind_score(job.w, rank, r.of);
    }
}
#endif

/* The labels that are in, a bit each, from exact scores. */
template <typename From> DEVICE u32 members_exactly(const Job &job, Narrow &r, const From *at, double threshold, int min_size) {
    Standing s = compare_all(r, at);
    u32 in = 0;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) in |= (u32)(narrow_score(job, r, s, j) <= threshold) << j;
    if (in || !min_size) return in;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) in |= (u32)(s.rank[j] == 1) << j;
    return in;
}

#if ELEMENT != 1
/* The same from sums in float32; tells whether they are enough: no label is near the threshold, none equals another. */
DEVICE bool members_quickly(const Job &job, const Narrow &r, double threshold, u32 *members) {
    float x[COLUMNS], above[COLUMNS], rank[COLUMNS];
    bool sure = true;
    u32 in = 0;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) x[j] = (float)r.x[j], above[j] = 0.0f, rank[j] = 1.0f;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
        for (int k = j + 1; k < COLUMNS; k++) {
            bool first = x[j] > x[k];
            sure = sure && x[j] != x[k];
            if (first) above[k] += x[j]; else above[j] += x[k];
            if (RANKS || ASKS) { if (first) rank[k] += 1.0f; else rank[j] += 1.0f; }
        }
    const double *w = job.w;
    float u = (float)r.of.u, scale = __fdividef(1.0f, (float)(r.of.total * 0x1p-51)), t = (float)threshold;
    float rest = (float)(w[CONSTANT] + w[U] * r.of.u), own_weight = (float)(w[OWN] + w[OWN_U] * r.of.u), above_weight = (float)w[ABOVE];
    float slack = 0x1p-18f * (1.0f + fabsf(t)) + (RANKS ? 0x1p-18f * fabsf((float)w[RANK]) * (COLUMNS + 1) : 0.0f);
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        float score = (above_weight * above[j] + own_weight * x[j]) * scale + rest;
        if (ASKS) {
            float top = (float)(r.of.top * 0x1p-51), second = (float)(r.of.second * 0x1p-51);
            score += (float)w[TOP] * top * scale;
            float first = ((float)(w[FIRST_OWN] + w[FIRST_OWN_U] * r.of.u) * x[j] + (float)w[FIRST_SECOND] * second) * scale;
            if (w[FIRST] != 0.0 && rank[j] == 1.0f) score = first + (float)(w[FIRST_CONSTANT] + w[FIRST_U] * r.of.u);
        }
        if (RANKS && rank[j] > (float)w[FREE_RANKS]) score += (float)w[RANK] * ((rank[j] - (float)w[FREE_RANKS]) - (float)w[RANK_U] * u);
        bool is_behind = x[j] <= 0x1p-51f && w[BEHIND] != 0.0; /* perhaps without mass: scores more than 1 then */
        if (is_behind) score = 2.0f, sure = sure && t < 0.99f && x[j] < 0x1p-53f;
        in |= (u32)(score < t) << j;
        sure = sure && fabsf(score - t) > slack;
    }
    *members = in;
    return sure && fabsf(t) < 1e6f;
}
#endif

#if !defined(ONLY_ONE) || defined(ONLY_mask)
extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS) mask(Job job, Wanted wanted) {
    TILES(tiles);
    SOFTENED;
    STAGED(flags, unsigned char);
    i64 n = rows_to_do(job);
    EACH_TILE(first, n, tiles) {
        i64 i = first + LANE;
        if (i < n) {
            i64 row = row_at(job, i);
            auto at = ROW_OF_LANE(MINE(tiles)[side]);
            Narrow r = open_narrow(job, row, MINE(tiles)[side] + LANE * COLUMNS, at, is_known);
            if (r.bad) report(job, row);
            double threshold = wanted.thresholds[wanted.per_row ? row : 0];
            u32 in;
#if ELEMENT != 1
            if (!members_quickly(job, r, threshold, &in) || (!in && wanted.min_size))
#endif
                in = members_exactly(job, r, at, threshold, (int)wanted.min_size);
            if (r.bad) in = (1u << COLUMNS) - 1u; /* a graph cannot raise an error */
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) MINE(flags)[LANE * COLUMNS + j] = (unsigned char)(in >> j & 1);
            if (wanted.sizes) wanted.sizes[row] = __popc(in);
        }
        if (wanted.flags) write_tile(job, first, n, wanted.flags, MINE(flags), COLUMNS);
    }
}
#endif

#if !defined(ONLY_ONE) || defined(ONLY_every_label)
extern "C" __global__ void __launch_bounds__(BLOCK) every_label(Job job, Output out) {
    TILES(tiles);
    SOFTENED;
#if WHAT == SCORES_OF_LABELS
    STAGED(staged, double);
#elif WHAT == MASK_BY_LABEL
    STAGED(staged, unsigned char);
#endif
    i64 n = rows_to_do(job);
    EACH_TILE(first, n, tiles) {
        i64 i = first + LANE;
        if (i < n) {
            i64 row = row_at(job, i);
            auto at = ROW_OF_LANE(MINE(tiles)[side]);
            Narrow r = open_narrow(job, row, MINE(tiles)[side] + LANE * COLUMNS, at, is_known);
            if (r.bad) report(job, row);
            Standing s = compare_all(r, at);
#if WHAT == MEMBERS_OF_SETS
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                if (s.rank[j] <= out.longest[row]) out.members[out.pointers[row] + s.rank[j] - 1] = j;
#elif WHAT == SCORES_OF_LABELS
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) MINE(staged)[LANE * COLUMNS + j] = narrow_score(job, r, s, j);
#elif WHAT == SIZES_OF_SETS
            double scores[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) scores[j] = narrow_score(job, r, s, j);
            for (i64 a = 0; a < out.n_thresholds; a++) {
                double threshold = out.thresholds[(out.per_row ? row * out.n_thresholds : 0) + a];
                int size = 0;
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) size += scores[j] <= threshold;
                out.sizes[a * out.n_rows + row] = size < (int)out.min_size ? (int)out.min_size : size;
            }
#else /* each label has a threshold of its own; a copy that is not looked at as such yet may have more than its place */
            u32 in = 0; /* by rank */
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) in |= (u32)(narrow_score(job, r, s, j) <= out.thresholds[j]) << (s.rank[j] - 1);
            if (!in && out.min_size) in = 1;
#if WHAT == SIZES_BY_LABEL
            out.sizes[row] = __popc(in);
#else
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                bool is_in = in >> (s.rank[j] - 1) & 1;
#if WHAT == MASK_BY_LABEL
                MINE(staged)[LANE * COLUMNS + j] = is_in || r.bad;
#else
                int at = __popc(in & ((1u << (s.rank[j] - 1)) - 1u));
                if (is_in && at < out.sizes[row]) out.members[out.pointers[row] + at] = j;
#endif
            }
#endif
#endif
        }
#if WHAT == SCORES_OF_LABELS
        write_tile(job, first, n, out.scores, MINE(staged), COLUMNS * 8);
#elif WHAT == MASK_BY_LABEL
        write_tile(job, first, n, out.flags, MINE(staged), COLUMNS);
#endif
    }
}
#endif
