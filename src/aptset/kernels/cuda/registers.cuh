/* A row in the registers of its lanes: what is summed up while it is read, looks at all of it, flags. */
#ifndef APTSET_REGISTERS_CUH
#define APTSET_REGISTERS_CUH
#include "loading.cuh"
#include "output.cuh"
#if LOGITS
#include "logits.cuh"
#endif

/* Places beyond the end of the row hold what compares with nothing. Of logits `x` are probabilities in float32, near those of
 * float64; `shift` and `scale` make them of the logits, the largest of which is `top`. */
struct Held {
    Value x[PER_LANE];
#if LOGITS
    float top, shift, scale;
#endif
};

/* What a look at the labels up to a value finds: their mass, rounded, and how many they are. */
struct Look { float mass, number; };

struct Facts { double total; u64 hash; u32 odd; Look look; };

/* Additions wait for the one before: two parts take half of the time. */
DEVICE void add_to_look(Look *parts, int e, Value x, Value p, bool counts) {
    if (x <= p) { parts[e & 1].mass += (float)x; if (counts) parts[e & 1].number += 1.0f; }
}
DEVICE Look look_of_group(const Look *parts, bool counts) {
    Look look = {parts[0].mass + parts[1].mass, parts[0].number + parts[1].number};
    if (counts) sum_two_in_group(look.mass, look.number); else look.mass = sum_over(look.mass, LANES);
    return look;
}
DEVICE Look look_up_to(const Held &held, Value p, bool counts) {
    Look parts[2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) add_to_look(parts, e, held.x[e], p, counts);
    return look_of_group(parts, counts);
}

#if LOGITS
/* Whether this row, as it was read, is none of probabilities. */
DEVICE bool held_is_unlike(const Held &held) {
    double least = 0.0, sum = 0.0;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++)
        if (held.x[e] == held.x[e]) sum += (double)held.x[e], least = held.x[e] < least ? (double)held.x[e] : least;
    return is_unlike(least_over(least, LANES), sum_over(sum, LANES));
}

/* Turn the logits that were read into probabilities, about; the first look at them is for the value p. `odd` reaches ODD where a
 * number is missing or so large that only the careful kernel can tell. */
DEVICE Facts soften(const Job &job, Held &held, Value p) {
    Facts f = {1.0, 0, 0, {0.0f, 0.0f}};
    float top = -1.0f / 0.0f, sums[2] = {0.0f, 0.0f};
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) top = fmaxf(top, held.x[e]);
    held.top = top = largest_in_group(top), held.shift = top * PER_LOG_2;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        if (!is_inside(chunk)) continue;
        u64 keys[VECTOR];
        if (HASHES) load_keys(job.column_keys, chunk, keys);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            Value &x = held.x[chunk * VECTOR + v];
            if (HASHES) add_value_to_hash(f.hash, x + 0.0f, keys[v]); /* one zero */
            x = about_exponential(x, held.shift);
            sums[v & 1] += x;
        }
    }
    float sum = sum_over(sums[0] + sums[1], LANES);
    if (!(fabsf(top) <= MOST_TOP) || !(sum > 0.0f)) f.odd = ODD;
    held.scale = __fdividef(1.0f, sum);
    Look parts[2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) {
        held.x[e] *= held.scale;
        add_to_look(parts, e, held.x[e], p, !PLAIN);
    }
    f.look = look_of_group(parts, !PLAIN);
    if (HASHES) f.hash = sum_in_group(f.hash);
    return f;
}
#endif

/* Read the row; the first look at it is for the value p. */
DEVICE Facts hold(const Job &job, const Element *row, bool here, Held &held, Value p, bool &like_is_known) {
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        Value *x = held.x + chunk * VECTOR;
        if (is_inside(chunk)) { load_chunk(row, chunk, x); continue; }
#pragma unroll
        for (int v = 0; v < VECTOR; v++) x[v] = (Value)__longlong_as_double(0x7FF8000000000000ll);
    }
#if LOGITS
    if (!like_is_known) tell_unlike(job, held_is_unlike(held) && here, like_is_known);
    return soften(job, held, p);
}
#else
    double totals[2] = {0.0, 0.0};
    Look parts[2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
    Facts f = {0.0, 0, 0, {0.0f, 0.0f}};
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        if (!is_inside(chunk)) continue;
        u64 keys[VECTOR];
        if (HASHES) load_keys(job.column_keys, chunk, keys);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            Value x = held.x[chunk * VECTOR + v];
            double wide = (double)x;
            totals[v & 1] += (wide + 2.0) - 2.0;
            f.odd |= oddness(x);
            if (HASHES) add_value_to_hash(f.hash, x, keys[v]);
            add_to_look(parts, v, x, p, true);
        }
    }
    f.total = mass_in_group(totals[0] + totals[1]), f.odd = largest_in_group(f.odd), f.look = look_of_group(parts, true);
    if (HASHES) f.hash = sum_in_group(f.hash);
    return f;
}
#endif

DEVICE Value largest_held(const Held &held) {
    Value result = (Value)-1;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) result = held.x[e] > result ? held.x[e] : result;
    return largest_over(result, LANES);
}

DEVICE int count_held(const Held &held, Value what) {
    u32 result = 0;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) result += held.x[e] == what;
    return (int)sum_in_group(result);
}

DEVICE int count_between(const Held &held, Value low, Value high) {
    u32 result = 0;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) result += held.x[e] > low && held.x[e] <= high;
    return (int)sum_in_group(result);
}
DEVICE int count_above(const Held &held, Value p) { return count_between(held, p, (Value)4); }
#endif
