/* Which of the few labels between two ends are in. */
#ifndef APTSET_SETTLING_CUH
#define APTSET_SETTLING_CUH
#include "narrowing.cuh"

#define EACH_LEFT ((MOST_LEFT + LANES - 1) / LANES) /* that a lane scores */

/* Labels that are left; places behind the last one hold a value below all others. */
struct __align__(16) Left {
    Value x[MOST_LEFT];
    double mass[MOST_LEFT];
    u64 ties[MOST_LEFT];
    int columns[MOST_LEFT], count;
#if LOGITS
    float logits[MOST_LEFT];
#endif
};

/* Whether labels are equal; of logits, whether their order is in doubt though they are not. */
DEVICE bool are_equal(const Left &left, int c, int d) {
#if LOGITS
    return left.logits[c] == left.logits[d];
#else
    return left.x[c] == left.x[d];
#endif
}
#if LOGITS
DEVICE bool are_near(Value x, Value y) { return fabsf(x - y) <= APART * y; }
#endif

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
#if LOGITS
            left.logits[at] = x, x = about_exponential(x, held.shift) * held.scale;
#endif
            left.x[at] = x, left.columns[at] = column;
            if (!PLAIN) left.mass[at] = LOGITS ? (double)x * STEPS_PER_ONE : mass_of((double)x);
        }
    }
    __syncwarp();
    return is_open ? left.count : 0;
}

/* What comes out for a row: labels of at least `from` are in; of those that equal it only the ones up to `tie`. */
struct Kept { Value from; u64 tie; int size; bool slow; };

/* The mass of the labels before one of those that are left, and its rank among them; tells whether it equals another (or is near one). */
DEVICE bool place_among(const Left &left, int c, double *above, float *rank) {
    Value mine = left.x[c];
    float alike = 0.0f;
#pragma unroll
    for (int d = 0; d < MOST_LEFT; d++) {
        Value other = left.x[d];
#if LOGITS
        if (are_near(other, mine)) alike += 1.0f;
        else
#else
        if (other == mine) alike += 1.0f;
#endif
        if (other > mine) *above += left.mass[d], *rank += 1.0f;
    }
    return alike > 1.0f;
}
DEVICE void add_ties(const Left &left, int c, int count, double *above, float *rank) {
#pragma unroll 1
    for (int d = 0; d < count; d++)
        if (are_equal(left, c, d) && left.ties[d] < left.ties[c]) *above += left.mass[d], *rank += 1.0f;
}

/* Which of the labels that are left are in; tells whether all are sure with so much slack, and whether some are equal. */
DEVICE bool score_left(const Job &job, const Left &left, int count, double above, float number_at_high, bool tied, const Target &t,
                       double slack, bool *is_in, bool *equal) {
    bool sure = true;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++) {
        int c = (int)WITHIN + k * LANES;
        is_in[k] = false;
        if (c >= count) continue;
        double before = above;
        float rank = (float)COLUMNS - number_at_high + 1.0f;
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

#if LOGITS
/* Whether the order of labels that are left is in doubt: near each other, and not equal. */
DEVICE bool are_in_doubt(const Left &left, int count) {
    bool doubt = false;
    for (int c = (int)WITHIN; c < count; c += LANES)
        for (int d = 0; d < count; d++) doubt |= are_near(left.x[d], left.x[c]) && !are_equal(left, c, d);
    return any_in_group(doubt);
}
/* Whether a label is so near above an end that it may be below it. */
DEVICE bool has_near_ends(const Held &held, const Bracket &b) {
    float above_low = b.low * (1.0f + APART), above_high = b.high * (1.0f + APART);
    bool near = false;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) near |= (held.x[e] > b.low && held.x[e] <= above_low) || (held.x[e] > b.high && held.x[e] <= above_high);
    return any_in_group(near);
}
#else
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
#endif

#if PLAIN
/* The same in float32: tells less often. */
DEVICE bool score_quickly(const Left &left, int count, const Bracket &b, const Target &t, bool *is_in, bool *equal) {
    float room = b.at_high.mass - t.tail, slack = b.at_high.mass * (float)OFF_BY + t.slack;
    bool sure = true;
    u32 ranks = 0;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++) {
        int c = (int)WITHIN + k * LANES;
        is_in[k] = false;
        if (c >= count) continue;
        float mine = left.x[c], above = 0.0f, beyond = LOGITS ? mine * (1.0f + 2.0f * 0x1p-16f) : mine;
#pragma unroll
        for (int d = 0; d < MOST_LEFT; d++)
            if (left.x[d] > beyond) above += left.x[d], ranks++;
        float gap = above + mine * t.share - room;
        is_in[k] = gap < 0.0f;
        sure = sure && fabsf(gap) > slack;
    }
    *equal = (int)sum_in_group(ranks) != count * (count - 1) / 2; /* equal ones leave out ranks */
    return sure;
}
#endif

/* Score the labels between the ends: with the sums at hand where these are enough, else exactly, with ties in order. */
DEVICE Kept settle(const Job &job, const Held &held, const Element *row, const Bracket &b, Target &t, u64 seed, bool is_open, Left &left) {
    int count = gather(held, row, b, is_open, left);
    Kept kept = {b.high, ~0ull, PLAIN ? 0 : COLUMNS - (int)b.at_high.number, count > MOST_LEFT};
    if (kept.slow) count = 0;
    bool is_in[EACH_LEFT], equal = false, sure;
#if PLAIN
    sure = score_quickly(left, count, b, t, is_in, &equal);
#else
    double about = t.of.total - (double)b.at_high.mass * STEPS_PER_ONE, slack = slack_of(job, b.at_high.mass, t, t.threshold);
    sure = score_left(job, left, count, about, b.at_high.number, false, t, slack, is_in, &equal);
#endif
    bool any_tied = __any_sync(FULL, equal), tied = any_tied && any_in_group(equal);
    if (any_tied || __any_sync(FULL, !sure)) {
        u64 tie_seed = tie_seed_of(seed, t.of.u);
        for (int c = (int)WITHIN; c < count; c += LANES) {
            if (tied) left.ties[c] = tie_of(tie_seed, left.columns[c]);
            if (PLAIN) left.mass[c] = mass_of((double)left.x[c]);
        }
        if (PLAIN) t.one_over_total = 1.0 / t.of.total;
#if LOGITS /* what is not sure is left to the careful kernel */
        double above = t.of.total - (double)b.at_high.mass * STEPS_PER_ONE, most = slack_of(job, b.at_high.mass, t, t.threshold);
        __syncwarp();
        bool doubt = are_in_doubt(left, count) && tied;
        sure = score_left(job, left, count, above, b.at_high.number, tied, t, most, is_in, &equal);
        kept.slow |= any_in_group(!sure || doubt);
#else
        double above = mass_above(row, b.high, is_open);
        __syncwarp();
        score_left(job, left, count, above, b.at_high.number, tied, t, 0.0, is_in, &equal);
#endif
    }
#if LOGITS
    kept.slow |= has_near_ends(held, b);
#endif
    u32 in = 0;
    Value least = (Value)4;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++)
        if (is_in[k]) in++, least = min(least, left.x[(int)WITHIN + k * LANES]);
    least = least_in_group(least), in = sum_in_group(in);
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
    if (__any_sync(FULL, is_open && !b.has_low)) { /* labels without mass, which nobody looked at */
        bool are_there = count_above(held, (Value)LEAST_MASS) < COLUMNS;
        if (is_open && !b.has_low && (int)in == count && are_there) kept.slow = true;
    }
    kept.size += (int)in;
    kept.from = in ? least : (Value)__uint_as_float(__float_as_uint((float)b.high) + 1u); /* what follows `high` */
    return kept;
}
#endif
