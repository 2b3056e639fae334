/* Which of the few labels between two ends are in. */
#ifndef APTSET_CANDIDATES_CUH
#define APTSET_CANDIDATES_CUH
#include "bracket.cuh"

#define EACH_LEFT ((MOST_LEFT + LANES - 1) / LANES) /* that a lane scores */

/* Labels that are left; places behind the last one hold a value below all others. */
struct __align__(16) Left {
    Value x[MOST_LEFT];
    double mass[MOST_LEFT];
    u64 ties[MOST_LEFT]; /* of a score in float32: keys that are greater for a label that comes first, by its logit and the first bits of its tie */
    int columns[MOST_LEFT], count;
#if LOGITS
    float logits[MOST_LEFT];
#endif
};

/* Labels in order: of logits, by these. Their softmax has the same order, and is equal where they are, unless they are SMALL: others
 * differ by 2^-40 at least, and the exponential of float64 by more than it may be off. */
#if LOGITS
#define SMALL 0x1p-16f
DEVICE float order_of(const Left &left, int c) { return left.logits[c]; }
#else
DEVICE Value order_of(const Left &left, int c) { return left.x[c]; }
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

#if LOGITS
/* What is so near above an end may be below it: two probabilities at a distance d of the largest logit are in the order of the exact
 * ones if they differ by 2 (1.23 d + 4.5) 2^-24 of themselves. */
DEVICE float beyond(const Held &held, float p) {
    float d = 0.6931472f * (__log2f(held.scale) - __log2f(p));
    return p * (1.0f + (1.23f * fmaxf(d, 0.0f) + 5.0f) * 0x1p-22f);
}
#else
DEVICE Value beyond(const Held &, Value p) { return p; }
#endif

/* Put the labels between the ends side by side, and with them those that are so near above the upper one that they may be below it. */
DEVICE int gather(const Held &held, const Element *row, const Bracket &b, bool is_open, Left &left) {
    const Value last = beyond(held, b.high);
    if (WITHIN == 0) left.count = 0;
    for (int c = (int)WITHIN; c < MOST_LEFT; c += LANES) {
        left.x[c] = (Value)-1;
#if LOGITS
        left.logits[c] = -1.0f / 0.0f;
#endif
    }
    __syncwarp();
    Chosen chosen = 0;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++)
        if (held.x[e] > b.low && held.x[e] <= last) chosen |= (Chosen)1 << e;
    if (is_open && chosen) {
        int at = atomicAdd(&left.count, number_of(chosen));
        for (; chosen && at < MOST_LEFT; chosen &= chosen - 1, at++) {
            int e = first_of(chosen), column = column_of(e / VECTOR) + e % VECTOR;
            Value x = value_of(row[column]); /* registers have no index */
#if LOGITS
            left.logits[at] = x + 0.0f, x = about_exponential(x, held.shift) * held.scale;
#endif
            left.x[at] = x, left.columns[at] = column;
            if (!PLAIN) left.mass[at] = LOGITS ? (double)x * STEPS_PER_ONE : mass_of((double)x);
        }
    }
    __syncwarp();
    return is_open ? left.count : 0;
}

/* What comes out for a row: labels of at least `from` are in; of those that equal it only the ones up to `tie`. */
struct Kept {
    Value from;
    u64 tie;
    int size;
    bool slow;
#if LOGITS /* labels above `high` are in, and of the `count` that were left those of which `is_in` tells; `top` asks for the most likely label */
    Value high;
    int count;
    bool is_in[EACH_LEFT], top;
#endif
};

/* The mass of the labels before one of those that are left, and its rank among them; tells whether it equals another. */
DEVICE bool place_among(const Left &left, int c, double *above, float *rank) {
    Value own_value = order_of(left, c);
    float alike = 0.0f;
#pragma unroll
    for (int d = 0; d < MOST_LEFT; d++) {
        Value other = order_of(left, d);
        if (other == own_value) alike += 1.0f;
        if (other > own_value) *above += left.mass[d], *rank += 1.0f;
    }
    return alike > 1.0f;
}
DEVICE void add_ties(const Left &left, int c, int count, double *above, float *rank) {
#pragma unroll 1
    for (int d = 0; d < count; d++)
        if (order_of(left, d) == order_of(left, c) && left.ties[d] < left.ties[c]) *above += left.mass[d], *rank += 1.0f;
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
/* Whether labels that are left may not be in the order of their softmax, or so near above an end that they may be below it. */
DEVICE bool are_in_doubt(const Held &held, const Bracket &b, const Left &left, int count) {
    float above_low = beyond(held, b.low);
    bool doubt = false;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++) {
        int c = (int)WITHIN + k * LANES;
        if (c >= count) continue;
        doubt |= left.x[c] <= above_low || left.x[c] > b.high || (left.logits[c] != 0.0f && fabsf(left.logits[c]) < SMALL);
    }
    return any_in_group(doubt);
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
#if LOGITS
/* A key for each label that is left, the greater the sooner it comes, of equal ones by their ties if these are wanted; what is behind the last
 * one comes last. */
DEVICE void put_keys(Left &left, int count, bool with_ties, u64 seed, double u) {
    u64 tie_seed = with_ties ? tie_seed_of(seed, u) : 0;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++) {
        int c = (int)WITHIN + k * LANES;
        if (c >= MOST_LEFT) continue;
        u32 bits = __float_as_uint(left.logits[c]), tie = with_ties ? (u32)(~tie_of(tie_seed, left.columns[c]) >> 32) : 0;
        u64 first = bits >> 31 ? ~bits : bits | 0x80000000u;
        left.ties[c] = c < count ? first << 32 | tie : 0;
    }
    __syncwarp();
}
DEVICE bool comes_before(const Left &left, int d, int c) { return left.ties[d] > left.ties[c]; }
#else
DEVICE bool comes_before(const Left &left, int d, int c) { return left.x[d] > left.x[c]; }
#endif

/* The same in float32: tells less often. */
#define AT_A_TIME (LOGITS ? 8 : MOST_LEFT)
DEVICE bool score_quickly(const Left &left, int count, const Bracket &b, const Target &t, bool *is_in, bool *equal) {
    float room = b.at_high.mass - t.tail, slack = b.at_high.mass * (float)OFF_BY + t.slack;
    bool sure = true;
    u32 ranks = 0;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++) {
        int c = (int)WITHIN + k * LANES;
        is_in[k] = false;
        if (c >= count) continue;
        float above = 0.0f;
        for (int first = 0; first < count; first += AT_A_TIME) /* what is behind the last one comes before nobody */
#pragma unroll
            for (int d = first; d < first + AT_A_TIME; d++)
                if (comes_before(left, d, c)) above += left.x[d], ranks++;
        float gap = above + left.x[c] * t.share - room;
        is_in[k] = gap < 0.0f;
        sure = sure && fabsf(gap) > slack;
    }
    *equal = (int)sum_in_group(ranks) != count * (count - 1) / 2; /* equal ones leave out ranks */
    return sure;
}
#endif

/* Score the labels between the ends, with the sums at hand where these are enough, in `is_in`. What is not sure is slow where rows are logits, and
 * else scored exactly, with ties in order; `tied` tells whether the labels of this row were. */
DEVICE bool score_candidates(const Job &job, const Element *row, const Bracket &b, Target &t, u64 seed, bool is_open, Left &left, int count,
                             bool *is_in, bool *tied, bool *slow) {
    bool equal = false, sure;
#if PLAIN && LOGITS
    const bool at_once = ELEMENT > 1; /* rows of short types have many ties, others few */
    put_keys(left, count, at_once, seed, t.of.u);
    sure = score_quickly(left, count, b, t, is_in, &equal);
    if (!at_once && __any_sync(FULL, equal)) {
        __syncwarp(); /* all have read the keys */
        put_keys(left, count, true, seed, t.of.u);
        sure = score_quickly(left, count, b, t, is_in, &equal);
    }
    bool unsure = any_in_group(!sure); /* all lanes ask, whether theirs are equal or not */
    *tied = false, *slow |= equal || unsure;
    return false;
#elif PLAIN
    sure = score_quickly(left, count, b, t, is_in, &equal);
#else
    double about = t.of.total - (double)b.at_high.mass * STEPS_PER_ONE, slack = slack_of(b.at_high.mass, b.at_high.mass, t, t.threshold);
    sure = score_left(job, left, count, about, b.at_high.number, false, t, slack, is_in, &equal);
#endif
#if !(PLAIN && LOGITS)
    bool any_tied = __any_sync(FULL, equal);
    *tied = any_tied && any_in_group(equal);
    if (!any_tied && !__any_sync(FULL, !sure)) return false;
    u64 tie_seed = tie_seed_of(seed, t.of.u);
    for (int c = (int)WITHIN; c < count; c += LANES) {
        if (*tied) left.ties[c] = tie_of(tie_seed, left.columns[c]);
        if (PLAIN) left.mass[c] = mass_of((double)left.x[c]);
    }
#if LOGITS
    __syncwarp();
    sure = score_left(job, left, count, about, b.at_high.number, *tied, t, slack, is_in, &equal);
    *slow |= any_in_group(!sure);
#else
    if (PLAIN) t.one_over_total = 1.0 / t.of.total;
    double above = mass_above(row, b.high, is_open);
    __syncwarp();
    score_left(job, left, count, above, b.at_high.number, *tied, t, 0.0, is_in, &equal);
#endif
    return any_tied;
#endif
}

/* Which of the labels between the ends are in. */
DEVICE Kept settle(const Job &job, const Held &held, const Element *row, const Bracket &b, Target &t, u64 seed, bool is_open, Left &left) {
    int count = gather(held, row, b, is_open, left);
    Kept kept = {b.high, ~0ull, PLAIN ? 0 : COLUMNS - (int)b.at_high.number, count > MOST_LEFT};
    if (kept.slow) count = 0;
    bool is_in[EACH_LEFT], tied;
    bool any_tied = score_candidates(job, row, b, t, seed, is_open, left, count, is_in, &tied, &kept.slow);
    u32 in = 0;
    Value least = (Value)4;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++)
        if (is_in[k]) in++, least = min(least, left.x[(int)WITHIN + k * LANES]);
    least = least_in_group(least), in = sum_in_group(in);
#if LOGITS
    kept.slow |= are_in_doubt(held, b, left, count);
    kept.high = b.high, kept.count = count, kept.top = false;
#pragma unroll
    for (int k = 0; k < EACH_LEFT; k++) kept.is_in[k] = is_in[k];
#else
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
#endif
    if (__any_sync(FULL, is_open && !b.has_low)) { /* labels without mass, which nobody looked at */
        bool are_there = count_above(held, (Value)LEAST_MASS) < COLUMNS;
        if (is_open && !b.has_low && (int)in == count && are_there) kept.slow = true;
    }
    kept.size += (int)in;
    kept.from = in ? least : (Value)__uint_as_float(__float_as_uint((float)b.high) + 1u); /* what follows `high` */
    return kept;
}
#endif
