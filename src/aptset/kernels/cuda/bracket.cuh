/* Between which values a row is cut: a few looks at it, each for one value p.
 *
 * For any p the least score that a label up to p can have is known from the mass and the number of the labels up to p: if even
 * that exceeds the threshold, all of them are out, else all labels above p are in. Sums in float32 decide where they are
 * farther from the threshold than they may be off. PLAIN says that a score is the mass above a label and a share of its own,
 * not below 0: then the mass up to p alone decides, in float32, and labels are counted now and then.
 */
#ifndef APTSET_BRACKET_CUH
#define APTSET_BRACKET_CUH
#include "registers.cuh"

#if ELEMENT == 2 || ELEMENT == 3
#define MOST_LEFT (LANES == 32 ? 32 : 16) /* labels that are scored one by one: many are equal in short types */
#else
#define MOST_LEFT (LANES == 32 && PLAIN ? 32 : LANES >= 16 ? 16 : 8)
#endif
#define MOST_ROUNDS 24
#define LEAST_MASS 0x1p-51f /* labels above it have mass */

/* How far sums may be off: those of up to 69 numbers in float32, a lane's and those of the lanes; and masses, each rounded to the grid. */
#if LOGITS /* in 2^-24: 57 for the terms, 48 (64) for their scale, 22 (38) and 32 for two sums; and the total is near 1, not known */
#define OFF_BY (PER_LANE > 32 ? 0x1p-16 : 0x1.8p-17)
#define OFF_GRID ((COLUMNS + 64) * 0x1p-50)
#else
#define OFF_BY 0x1p-17
#define OFF_GRID (COLUMNS * 0x1p-51)
#endif

/* What a row is cut by. */
struct Target {
    Loaded of;
    double one_over_total, threshold;
    float tail;  /* mass of the labels that are out, about; */
    float slack; /* how far that may be off */
    float share; /* PLAIN: how much of its own mass counts for a label */
};

DEVICE Target target_of(const Job &job, double threshold, double total, double u) {
    double rest = PURE ? 0.0 : job.w[CONSTANT] + job.w[U] * u, tail = total - (threshold - rest) * total;
    double share = PURE ? 1.0 - u : job.w[OWN] + job.w[OWN_U] * u;
    Target t = {{total * STEPS_PER_ONE, 0.0, 0.0, 0, u}, 0.0, threshold, (float)tail, 0.0f, (float)share};
    t.slack = fabsf(t.tail) * 0x1p-22f + (float)(OFF_GRID + 0x1p-44 * (1.0 + fabs(threshold) + fabs(rest)));
    if (!PLAIN) t.one_over_total = 1.0 / t.of.total;
    return t;
}

/* Labels up to `low` are out and labels above `high` are in; what is known of the labels up to each. */
struct Bracket { Value low, high; Look at_low, at_high; bool has_low, has_high; };

DEVICE Value middle_of(Value low, Value high) {
    return (Value)__uint_as_float((__float_as_uint((float)low) + __float_as_uint((float)high)) / 2);
}

/* Where a warp looks at a row first: where the row before was cut, which is near if rows are alike; or at the mean of a row, which
 * few labels exceed if rows are peaked. It learns how many looks each of them leads to. */
struct Habit { Value cut; float by_cut, by_mean; bool takes_mean; };

DEVICE Value first_pivot(Habit &habit) {
    habit.takes_mean = habit.by_cut > habit.by_mean || !(habit.cut > (Value)LEAST_MASS && habit.cut < (Value)2);
    return habit.takes_mean ? (Value)(1.0f / COLUMNS) : habit.cut;
}
DEVICE void learn(Habit &habit, int looks) {
    float before = habit.takes_mean ? habit.by_mean : habit.by_cut, now = (float)looks;
    if (before != 0.0f) now = before + 0.25f * (now - before);
    if (habit.takes_mean) habit.by_mean = now; else habit.by_cut = now;
}

/* Whether few labels are left, each with more mass than `low`; and which part of all they are. */
DEVICE bool are_few(const Bracket &b) {
    return (PLAIN ? (b.at_high.mass - b.at_low.mass) <= (float)b.low * MOST_LEFT : b.at_high.number - b.at_low.number <= MOST_LEFT);
}
DEVICE float part_of_few(const Bracket &b) {
    return PLAIN ? __fdividef((float)b.low * MOST_LEFT, b.at_high.mass - b.at_low.mass) : __fdividef((float)MOST_LEFT, b.at_high.number - b.at_low.number);
}

/* Where to look next; whatever is chosen only costs time. Between two ends labels are taken to be spread evenly, and a little is
 * added so that the next end falls on the other side; beyond one end the mass is taken to grow a little less than the value. A value in the
 * middle of the bits now and then ends every bad guess. */
DEVICE Value next_pivot(const Job &job, const Bracket &b, const Target &t, int round, bool rose, Value last, float mass) {
    float p, between = b.at_high.mass - b.at_low.mass;
    if (!PLAIN && (LANES < 32 || job.w[ABOVE] == 0.0)) /* the mass that is out says less: the mean of what is left */
        p = __fdividef(between, b.at_high.number - b.at_low.number);
    else if (b.has_low && b.has_high) {
        float part = __fdividef(t.tail - b.at_low.mass, between) + (rose ? -0.3f : 0.3f) * part_of_few(b);
        p = (float)b.low + ((float)b.high - (float)b.low) * min(max(part, 0.03f), 0.97f);
    } else {
        float times = min(max(__fdividef(t.tail, mass), 0.1f), 8.0f);
        p = (float)last * times * __fsqrt_rn(times) * (b.has_low ? 1.02f : 0.98f);
    }
    return round % 5 != 4 && p > (float)b.low && p < (float)b.high ? (Value)p : middle_of(b.low, b.high);
}

/* `own` is what stands for itself in a score: of logits it is off, too, and so are the largest masses; no weight exceeds 1. */
DEVICE double slack_of(float mass, float own, const Target &t, double closest) {
    double off = LOGITS ? (double)(mass + 2.0f * own + (ASKS ? 2.0f : 0.0f)) : (double)mass;
    return (off * OFF_BY + OFF_GRID) * STEPS_PER_ONE * t.one_over_total + 0x1p-44 * (1.0 + fabs(closest));
}
/* Tells whether labels up to p are out, or those above p in; false where p is too near to tell. */
#if PLAIN
DEVICE bool tells(const Job &job, Value p, const Look &look, const Target &t, bool *is_out) {
    float gap = t.tail - look.mass;
    *is_out = gap > 0.0f;
    return fabsf(gap) > look.mass * (float)OFF_BY + t.slack;
}
#else
DEVICE bool tells(const Job &job, Value p, const Look &look, const Target &t, bool *is_out) {
    const double *w = job.w;
    double mass = (double)look.mass * STEPS_PER_ONE, rank = (double)((float)COLUMNS - look.number + 1.0f);
    double own = w[OWN] + w[OWN_U] * t.of.u < 0.0 ? mass_of((double)p) : 0.0;
    bool is_first = w[FIRST] != 0.0 && rank == 1.0, is_exact = !LOGITS && w[ABOVE] == 0.0; /* no sum is in it */
    double top = numerator(w, t.of.total - mass, own, is_first, t.of);
    double least = with_rest(w, is_exact ? top / t.of.total : top * t.one_over_total, rank, is_first, t.of.u);
    *is_out = least > t.threshold;
    return is_exact || fabs(least - t.threshold) >= slack_of(look.mass, (float)p, t, least);
}
#endif

/* Look at the row for several values, until few labels are left between the ends. `p` is the one that `look` was for. Values that
 * are too near to tell lie from `closest` to `far`, and are gone around. */
DEVICE Bracket narrow(const Job &job, const Held &held, const Target &t, bool is_open, Value p, Look look, Habit &habit, bool *slow) {
    Bracket b = {(Value)LEAST_MASS, (Value)2, {0.0f, 0.0f}, {(float)(t.of.total / STEPS_PER_ONE), (float)COLUMNS}, false, false};
    Value closest = (Value)4, far = (Value)0;
    bool rose = false, goes_on = is_open;
    int round = 1;
#pragma unroll 1
    for (;; round++) {
        bool is_out, is_decided = tells(job, p, look, t, &is_out);
        if (goes_on && !is_decided) closest = min(closest, p), far = max(far, p), rose = !rose;
        else if (goes_on && is_out) b.low = p, b.at_low = look, b.has_low = true, rose = false;
        else if (goes_on) b.high = p, b.at_high = look, b.has_high = rose = true;
        bool few = are_few(b);
        bool counts = round == 1 ? LOGITS && habit.takes_mean : round > 3 || !b.has_low || !is_decided;
        if (PLAIN && !LOGITS && round == 1) few |= b.at_high.number - b.at_low.number <= MOST_LEFT;
        else if (PLAIN && __any_sync(FULL, goes_on && !few && counts)) few |= count_between(held, b.low, b.high) <= MOST_LEFT;
        goes_on = goes_on && !few;
        if (round == MOST_ROUNDS) *slow |= goes_on, goes_on = false;
        if (!__any_sync(FULL, goes_on)) break;
        p = next_pivot(job, b, t, round, rose, p, look.mass);
        if (!is_decided) p = rose ? middle_of(far, b.high) : middle_of(b.low, closest);
        if (goes_on && !(p > b.low && p < b.high)) *slow = true, goes_on = false; /* only equal ones are left */
        look = look_up_to(held, p, !PLAIN);
    }
    learn(habit, round);
    return b;
}
#endif
