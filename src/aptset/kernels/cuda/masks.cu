/* Which labels score at most a threshold: the row stays in registers, and few labels are ever scored.
 *
 * Scores never fall along the row, so the set is a beginning of its order. For any value p the least score that a label
 * up to p can have is known from the mass and the number of the labels up to p: if even that exceeds the threshold, all of
 * them are out, else all labels above p are in (docs/design/0016). Sums in float32 decide where they are far enough from the
 * threshold. A few values p leave a few labels, whose exact scores decide.
 */
#include "careful.cuh"
#include "loading.cuh"
#include "output.cuh"

#if ELEMENT == 2 || ELEMENT == 3
#define MOST_LEFT 32 /* labels that are scored exactly: many are equal in short types */
#else
#define MOST_LEFT (LANES >= 16 ? 16 : 8)
#endif
#define EACH_LEFT ((MOST_LEFT + LANES - 1) / LANES) /* that a lane scores */
#define MOST_ROUNDS 24
#define LEAST_MASS 0x1p-51f /* labels above it have mass */

/* The row in registers; places beyond its end hold what compares with nothing. */
struct Held { Value x[PER_LANE]; };

struct Facts { double total; u64 hash; u32 odd; };

DEVICE Facts hold(const Job &job, const Element *row, Held &held) {
    Facts f = {0.0, 0, 0};
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        Value *x = held.x + chunk * VECTOR;
        if (is_inside(chunk)) { load_chunk(row, chunk, x); continue; }
#pragma unroll
        for (int v = 0; v < VECTOR; v++) x[v] = (Value)__longlong_as_double(0x7FF8000000000000ll);
    }
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        if (!is_inside(chunk)) continue;
        u64 keys[VECTOR];
        if (HASHES) load_keys(job.column_keys, chunk, keys);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            Value x = held.x[chunk * VECTOR + v];
            double wide = (double)x;
            f.total += (wide + 2.0) - 2.0;
            f.odd |= oddness(x);
            if (HASHES) add_to_hash(f.hash, bits_of(wide), keys[v]);
        }
    }
    f.total = mass_in_group(f.total), f.odd = largest_in_group(f.odd);
    if (HASHES) f.hash = sum_in_group(f.hash);
    return f;
}

/* What a row is cut by. */
struct Target { Loaded of; double one_over_total, threshold; float tail; /* mass of the labels that are out, about */ };

/* Labels up to `low` are out and labels above `high` are in; how many there are up to each, and their mass. */
struct Bracket { Value low, high; float up_to_low, up_to_high, mass_low, mass_high; bool has_low, has_high; };

DEVICE Value middle_of(const Bracket &b) {
    return (Value)__uint_as_float((__float_as_uint((float)b.low) + __float_as_uint((float)b.high)) / 2);
}

/* Where to look next; whatever is chosen only costs time. Rows alike are cut at about the same value, so the one of the row
 * before comes first. Between two ends labels are taken to be spread evenly, and a little is added so that the next end falls
 * on the other side. A value in the middle of the bits now and then ends every bad guess. */
DEVICE Value next_pivot(const Job &job, const Bracket &b, const Target &t, int round, Value before, bool rose) {
    float left = b.up_to_high - b.up_to_low, p = __fdividef(b.mass_high - b.mass_low, left);
    if (LANES == 32 && job.w[ABOVE] != 0.0) {
        if (round == 0) p = (float)before;
        else if (round % 5 == 4) p = (float)middle_of(b);
        else if (b.has_low && b.has_high) {
            float part = __fdividef(t.tail - b.mass_low, b.mass_high - b.mass_low) + __fdividef((rose ? -0.4f : 0.4f) * MOST_LEFT, left);
            p = (float)b.low + ((float)b.high - (float)b.low) * min(max(part, 0.03f), 0.97f);
        } else if (round == 1 && before > 0) p = (float)before * (b.has_low ? 1.06f : 0.94f);
    } else if (round % 4 == 3) p = (float)middle_of(b);
    return p > (float)b.low && p < (float)b.high ? (Value)p : middle_of(b);
}

/* Sums of up to 69 numbers in float32, a lane's and those of the lanes. */
DEVICE double slack_of(float tail, const Target &t, double near) {
    return (double)tail * STEPS_PER_ONE * t.one_over_total * 0x1p-17 + 0x1p-44 * (1.0 + fabs(near));
}

/* The least score of a label up to p, and how far the sum behind it may be off. */
DEVICE double least_score(const double *w, Value p, float tail, float up_to, const Target &t, double *slack) {
    double mass = (double)tail * STEPS_PER_ONE, rank = (double)((float)COLUMNS - up_to + 1.0f);
    double own = w[OWN] + w[OWN_U] * t.of.u < 0.0 ? mass_of((double)p) : 0.0;
    bool is_first = w[FIRST] != 0.0 && rank == 1.0;
    double top = numerator(w, t.of.total - mass, own, is_first, t.of);
    if (w[ABOVE] == 0.0) { /* no sum is in it: exact */
        *slack = 0.0;
        return with_rest(w, top / t.of.total, rank, is_first, t.of.u);
    }
    double near = with_rest(w, top * t.one_over_total, rank, is_first, t.of.u);
    *slack = slack_of(tail, t, near);
    return near;
}
/* Look at the row for several values, until few labels are left between the ends. */
DEVICE Bracket narrow(const Job &job, const Held &held, const Target &t, bool is_open, Value before, bool *slow) {
    Bracket b = {(Value)LEAST_MASS, (Value)2, 0.0f, (float)COLUMNS, 0.0f, (float)(t.of.total / STEPS_PER_ONE), false, false};
    bool rose = false;
#pragma unroll 1
    for (int round = 0; round < MOST_ROUNDS; round++) {
        bool goes_on = is_open && !*slow && b.up_to_high - b.up_to_low > MOST_LEFT;
        if (!__any_sync(FULL, goes_on)) break;
        Value p = next_pivot(job, b, t, round, before, rose);
        if (goes_on && !(p > b.low && p < b.high)) *slow = true; /* only equal ones are left */
        float tail = 0.0f, up_to = 0.0f;
#pragma unroll
        for (int e = 0; e < PER_LANE; e++)
            if (held.x[e] <= p) tail += (float)held.x[e], up_to += 1.0f;
        sum_two_in_group(tail, up_to);
        double slack, least = least_score(job.w, p, tail, up_to, t, &slack);
        if (!goes_on || *slow) continue;
        if (fabs(least - t.threshold) < slack) rose = !rose; /* too near to tell: try another value */
        else if (least <= t.threshold) b.high = p, b.up_to_high = up_to, b.mass_high = tail, b.has_high = rose = true;
        else b.low = p, b.up_to_low = up_to, b.mass_low = tail, b.has_low = true, rose = false;
    }
    if (is_open && b.up_to_high - b.up_to_low > MOST_LEFT && b.has_low) *slow = true;
    return b;
}

/* Labels that are left; places behind the last one hold a value below all others. */
struct __align__(16) Left { Value x[MOST_LEFT]; double mass[MOST_LEFT]; u64 ties[MOST_LEFT]; int columns[MOST_LEFT]; int count; };

#if VECTOR * ((COLUMNS + LANES * VECTOR - 1) / (LANES * VECTOR)) > 32
typedef u64 Chosen;
DEVICE int first_of(Chosen c) { return __ffsll((i64)c) - 1; }
DEVICE int number_of(Chosen c) { return __popcll(c); }
#else
typedef u32 Chosen;
DEVICE int first_of(Chosen c) { return __ffs((int)c) - 1; }
DEVICE int number_of(Chosen c) { return __popc(c); }
#endif

/* Put the labels between the ends side by side. */
DEVICE int gather(const Held &held, const Element *row, const Bracket &b, bool is_open, Left &left) {
    if (WITHIN == 0) left.count = 0;
    for (int c = (int)WITHIN; c < MOST_LEFT; c += LANES) left.x[c] = (Value)-1;
    __syncwarp();
    Chosen chosen = 0;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++)
        if (held.x[e] > b.low && held.x[e] <= b.high) chosen |= (Chosen)1 << e;
    if (is_open && chosen) {
        int at = atomicAdd(&left.count, number_of(chosen));
        for (; chosen && at < MOST_LEFT; chosen &= chosen - 1, at++) {
            int e = first_of(chosen), column = column_of(e / VECTOR) + e % VECTOR;
            Value x = value_of(row[column]); /* registers have no index */
            left.x[at] = x, left.mass[at] = mass_of((double)x), left.columns[at] = column;
        }
    }
    __syncwarp();
    return is_open ? left.count : 0;
}

/* What comes out for a row: labels of at least `from` are in; of those that equal it only the ones up to `tie`. */
struct Kept { Value from; u64 tie; int size; bool slow; };

/* The mass of the labels before one of those that are left, and its rank among them; tells whether it equals another. */
DEVICE bool place_among(const Left &left, int c, double *above, float *rank) {
    Value mine = left.x[c];
    float alike = 0.0f;
#pragma unroll
    for (int d = 0; d < MOST_LEFT; d++) {
        Value other = left.x[d];
        if (other == mine) alike += 1.0f;
        if (other > mine) *above += left.mass[d], *rank += 1.0f;
    }
    return alike > 1.0f;
}
DEVICE void add_ties(const Left &left, int c, int count, double *above, float *rank) {
#pragma unroll 1
    for (int d = 0; d < count; d++)
        if (left.x[d] == left.x[c] && left.ties[d] < left.ties[c]) *above += left.mass[d], *rank += 1.0f;
}

/* Which of the labels that are left are in; tells whether all are sure with so much slack, and whether some are equal. */
DEVICE bool score_left(const Job &job, const Left &left, int count, double above, float up_to_high, bool tied, const Target &t,
                       double slack, bool *is_in, bool *equal) {
    bool sure = true;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++) {
        int c = (int)WITHIN + k * LANES;
        is_in[k] = false;
        if (c >= count) continue;
        double before = above;
        float rank = (float)COLUMNS - up_to_high + 1.0f;
        *equal |= place_among(left, c, &before, &rank);
        if (tied) add_ties(left, c, count, &before, &rank);
        bool is_first = ASKS && job.w[FIRST] != 0.0 && rank == 1.0f;
        double top = numerator(job.w, before, left.mass[c], is_first, t.of);
        double score = with_rest(job.w, top * t.one_over_total, (double)rank, is_first, t.of.u), gap = score - t.threshold;
        if (slack == 0.0 && fabs(gap) <= 0x1p-44 * (1.0 + fabs(t.threshold)))
            gap = with_rest(job.w, top / t.of.total, (double)rank, is_first, t.of.u) <= t.threshold ? -1.0 : 1.0;
        is_in[k] = gap < 0.0;
        sure = sure && fabs(gap) > slack;
    }
    return sure;
}

/* The exact mass of the labels above a value, read once more: registers have no index, and code of this kind is rare. */
DEVICE double mass_above(const Element *row, Value high, bool is_open) {
    double above = 0.0;
#pragma unroll 1
    for (int j = (int)WITHIN; j < COLUMNS && is_open; j += LANES) {
        Value x = value_of(row[j]);
        if (x > high) above += ((double)x + 2.0) - 2.0;
    }
    return mass_in_group(above) * STEPS_PER_ONE;
}

/* Score the labels between the ends: with the sums at hand where these are enough, else exactly, with ties in order. */
DEVICE Kept settle(const Job &job, const Held &held, const Element *row, const Bracket &b, const Target &t, u64 seed, bool is_open, Left &left) {
    int count = gather(held, row, b, is_open, left);
    Kept kept = {b.high, ~0ull, COLUMNS - (int)b.up_to_high, count > MOST_LEFT};
    if (kept.slow) count = 0;
    bool is_in[EACH_LEFT], tied = false, any_tied = false;
    double above = t.of.total - (double)b.mass_high * STEPS_PER_ONE, slack = slack_of(b.mass_high, t, t.threshold);
#pragma unroll 1
    for (int look = 0; look < 2; look++) {
        bool equal = false, sure = score_left(job, left, count, above, b.up_to_high, tied, t, slack, is_in, &equal);
        if (look || !__any_sync(FULL, !sure || equal)) break;
        any_tied = __any_sync(FULL, equal), tied = any_in_group(equal);
        u64 tie_seed = tie_seed_of(seed, t.of.u);
        for (int c = (int)WITHIN; c < count && tied; c += LANES) left.ties[c] = tie_of(tie_seed, left.columns[c]);
        above = mass_above(row, b.high, is_open), slack = 0.0;
        __syncwarp();
    }
    u32 in = 0;
    Value least = (Value)4;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++)
        if (is_in[k]) in++, least = min(least, left.x[(int)WITHIN + k * LANES]);
    least = least_over(least, LANES), in = sum_in_group(in);
    if (any_tied) {
        u64 last_tie = 0;
        bool splits = false;
#pragma unroll
        for (int k = 0; k < EACH_LEFT; k++) {
            int c = (int)WITHIN + k * LANES;
            if (c >= count || left.x[c] != least || !tied) continue;
            if (is_in[k]) last_tie = left.ties[c] > last_tie ? left.ties[c] : last_tie; else splits = true;
        }
        splits = any_in_group(splits), last_tie = largest_over(last_tie, LANES);
        if (splits) kept.tie = last_tie;
    }
    int without_mass = b.has_low ? 0 : (int)b.up_to_high - count; /* labels that nobody looked at */
    if (is_open && (int)in == count && without_mass > 0) kept.slow = true;
    kept.size += (int)in;
    kept.from = in ? least : (Value)__uint_as_float(__float_as_uint((float)b.high) + 1u); /* what follows `high` */
    return kept;
}

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

DEVICE void write_flags(const Wanted &wanted, const Held &held, const Kept &kept, i64 row) {
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        if (is_inside(chunk)) *(Flags *)(wanted.flags + row * COLUMNS + column_of(chunk)) = flags_of(held.x + chunk * VECTOR, kept.from);
}

/* Take back the flags of those that equal the last label and stand behind it. */
DEVICE void split_ties(const Wanted &wanted, const Element *at, const Kept &kept, i64 row, u64 tie_seed) {
    for (int j = (int)WITHIN * VECTOR; j < COLUMNS; j += LANES * VECTOR) /* as they were written: by this lane */
        for (int v = 0; v < VECTOR; v++)
            if (value_of(at[j + v]) == kept.from && tie_of(tie_seed, j + v) > kept.tie) wanted.flags[row * COLUMNS + j + v] = 0;
}

DEVICE void mask_row(const Job &job, i64 row, const Wanted &wanted) {
    Careful c = open_carefully(job, row);
    if (c.bad) { if (LANE == 0) report(job, row); return; }
    Cut cut = careful_cut(job, c, wanted.thresholds[wanted.per_row ? row : 0], (int)wanted.at_least);
    if (LANE == 0 && wanted.sizes) wanted.sizes[row] = (int)cut.size;
    if (LANE == 0 && wanted.cutoffs) wanted.cutoffs[row] = cut.size ? (float)from_bits(cut.value) : 4.0f;
    for (i64 j = LANE; j < COLUMNS && wanted.flags; j += 32)
        wanted.flags[row * COLUMNS + j] = is_member(cut, bits_of(double_at(c.at, j)), c.tie_seed, j);
}

DEVICE Value largest_held(const Held &held) {
    Value found = (Value)-1;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) found = held.x[e] > found ? held.x[e] : found;
    return largest_over(found, LANES);
}

DEVICE int count_held(const Held &held, Value what) {
    u32 found = 0;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) found += held.x[e] == what;
    return (int)sum_in_group(found);
}

/* Blocks on a multiprocessor at a time: registers for more of them were measured to be worth it. */
#define MIN_BLOCKS (PER_LANE > 32 ? 3 : ASKS || ELEMENT > 1 ? 4 : 6)
extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS) mask(Job job, Wanted wanted) {
    __shared__ Left lefts[BLOCK / LANES];
    i64 n = rows_to_do(job), stride = (i64)gridDim.x * blockDim.x / LANES;
    Value before = 0;
    for (i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32 * GROUPS; first < n; first += stride) {
        i64 i = first + LANE / LANES;
        bool here = i < n;
        if (!here) i = n - 1;
        i64 row = row_at(job, i);
        const Element *at = elements_of(job, row);
        Held held;
        Facts facts = hold(job, at, held);
        Target t;
        t.of.total = facts.total * STEPS_PER_ONE, t.of.top = t.of.second = 0.0, t.of.with_mass = 0;
        t.threshold = wanted.thresholds[wanted.per_row ? row : 0];
        bool odd = facts.odd >= ODD, bad = odd || is_off(t.of.total, job.tolerance), slow = false;
        if (bad && here && WITHIN == 0) { if (odd) look_at_odd(job, row); else report(job, row); }
        u64 seed = seed_at(job, row, facts.hash, here && !bad && WITHIN == 0);
        t.of.u = uniform_at(job, row, seed);
        if (ASKS) {
            i64 top = 0, second = 0;
#pragma unroll
            for (int e = 0; e < PER_LANE; e++)
                if (held.x[e] >= 0) add_to_top_two(top, second, grid_steps((double)held.x[e]));
            top_two_over(top, second, LANES);
            t.of.top = (double)top, t.of.second = (double)second;
        }
        t.one_over_total = 1.0 / t.of.total;
        t.tail = (float)(facts.total - (t.threshold - (job.w[CONSTANT] + job.w[U] * t.of.u)) * facts.total);
        bool is_full = t.threshold > 1e300, is_open = !bad && !is_full;
        Bracket b = narrow(job, held, t, is_open, before, &slow);
        Kept kept = settle(job, held, at, b, t, seed, is_open && !slow, lefts[threadIdx.x / LANES]);
        slow |= kept.slow;
        if (is_full) kept.from = 0, kept.size = COLUMNS, kept.tie = ~0ull;
        bool is_empty = !bad && !slow && kept.size == 0 && wanted.at_least;
        if (__any_sync(FULL, is_empty)) { /* the most likely label alone */
            Value top = largest_held(held);
            bool alone = count_held(held, top) == 1;
            if (is_empty) kept.from = top, kept.size = 1, slow |= !alone;
        }
        if (!bad && !slow) before = kept.from;
        if (here && !bad && !slow) {
            if (wanted.sizes && WITHIN == 0) wanted.sizes[row] = kept.size;
            if (wanted.cutoffs && WITHIN == 0) wanted.cutoffs[row] = kept.size ? (float)kept.from : 4.0f; /* nobody reaches that */
            if (wanted.flags) write_flags(wanted, held, kept, row);
            if (wanted.flags && kept.tie != ~0ull) split_ties(wanted, at, kept, row, tie_seed_of(seed, t.of.u));
        }
        if (here && slow && WITHIN == 0) leave(job, row);
    }
}

/* The rows that were left; all of them where rows do not fit the registers. */
extern "C" __global__ void mask_carefully(Job job, Wanted wanted, i64 all) {
    i64 n = all ? rows_to_do(job) : (i64)*job.n_slow, warps = (i64)gridDim.x * blockDim.x / 32;
    for (i64 k = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; k < n; k += warps)
        if (all) mask_row(job, row_at(job, k), wanted); else mask_row(job, (i64)job.slow[k], wanted);
}
