/* Where a row is cut, looked for where the last one was: rows of one matrix are often cut at about the same probability. One pass sets the
 * labels near that apart, the rest is decided among them. What is found is proven as in window.h, so a guess costs time, never a wrong set. */
#ifndef APTSET_NEAR_H
#define APTSET_NEAR_H
#include "window.h"

#if defined(__AVX512F__) /* which sets labels apart without a branch; without that, whole passes are as quick */
#define HAS_NEAR 1
#else
#define HAS_NEAR 0
#endif
#define FIRST_REACH 0.1f /* how far from the guess, relatively */
#define LONGEST_REACH 0.3f
#define MOST_FAILURES 4 /* in a row, before guessing rests for some rows */
#define ROWS_OF_REST 64
#define SET_APART 4     /* at most one label in so many is worth it */

typedef struct { float *rough; int32_t *column; int64_t n, before; } Near; /* labels of a row, and how many stand above them */

/* Set the labels between low and high apart. */
INLINE Near set_apart(const Job *job, int64_t i, Guess guess, Scratch s) {
    Near near = {(float *)s.entries, (int32_t *)s.entries + rough_room(job->columns), 0, 0};
#if HAS_NEAR
    const float *row = row_at(job, i);
    const __m512 low = _mm512_set1_ps(guess.low), high = _mm512_set1_ps(guess.high), none = _mm512_set1_ps(-FLT_MIN);
    __m512i column = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int64_t j = 0, columns = job->columns; j < spans_of(columns) * SPAN; j += SPAN) {
        __mmask16 there = columns - j >= SPAN ? 0xFFFF : columns > j ? (__mmask16)((1u << (columns - j)) - 1) : 0;
        __m512 x = _mm512_mask_loadu_ps(none, there, row + j);
        __mmask16 above = _mm512_cmp_ps_mask(x, high, _CMP_GT_OQ), in = _mm512_cmp_ps_mask(x, low, _CMP_GT_OQ) & (__mmask16)~above;
        _mm512_storeu_ps(near.rough + near.n, _mm512_maskz_compress_ps(in, x));
        _mm512_storeu_si512(near.column + near.n, _mm512_maskz_compress_epi32(in, column));
        near.n += __builtin_popcount(in);
        near.before += __builtin_popcount(above);
        column = _mm512_add_epi32(column, _mm512_set1_epi32(SPAN));
    }
#endif
    for (int64_t k = near.n; k < spans_of(near.n) * SPAN; k++) near.rough[k] = -FLT_MIN;
    return near;
}

/* Put the labels between low and high into s.window, columns upward; add up the exact mass of those above. */
INLINE int64_t collect_near(const Near *near, float low, float high, Entry *found, int64_t *above) {
    int64_t n = 0, k = 0;
    Masks mass = {0};
    for (int64_t s = 0; s < spans_of(near->n); s++)
        for (uint32_t left = between((const int32_t *)near->rough + s * SPAN, bits_of_float(low), bits_of_float(high)); left; left &= left - 1) {
            int64_t at = s * SPAN + __builtin_ctz(left);
            found[n++] = (Entry){(int64_t)bits_of((double)near->rough[at]), near->column[at]};
        }
    for (; k < spans_of(near->n) * SPAN; k += LANES) { /* filled up with what is not above */
        Doubles x = load_lanes(near->rough, 1, k);
        mass += steps_of_lanes(x) & (x > (double)high);
    }
    *above += sum_of(mass);
    return n;
}

/* The cut of a row that is not odd, if it lies where the guess says; `above` is the exact mass of the labels above the guess. */
INLINE Position cut_near(const Job *job, int64_t i, const Loaded *row, double threshold, Guess guess, int64_t above, Scratch s) {
    const Position none = {0};
    Near near = set_apart(job, i, guess, s);
    Searched in = {near.rough, near.n, {guess.high, (double)above / STEPS_PER_ONE, 0.0, near.before}};
    if (near.n == 0 || near.n * SET_APART > job->columns) return none;
    Aim aim = aim_at(job, threshold);
    Front high = in.above, low = front_of(job, &in, guess.low, row, 0);
    high.score = mass_score(job->weights, (double)above, guess.high * STEPS_PER_ONE, (double)(near.before + 1), row);
    if (high.score > threshold || low.score <= threshold) return none;
    narrow_between(job, &in, row, aim, &low, &high, 0);
    int64_t through = above, n = collect_near(&near, next_float(low.pivot), high.pivot, s.window, &through);
    Decision found = decide_window(job, row, threshold, high, n, through, 0, s);
    if (found.cut.proven) return found.cut;
    float below = low.pivot, next = high.pivot;
    widen(near.rough, near.n, &below, &next);
    if (below < 0.0f || !(next <= guess.high)) return none; /* the label beside was not set apart */
    if (holds_beside(job, row, threshold, &found, below, next)) { found.cut.proven = 1; return found.cut; }
    return none;
}

/* Guess for the next rows, from where this one was cut. What fails reaches further; what fails again and again rests. */
INLINE void guess_next(Guess *guess, int was_guessed, int was_right, const Position *cut, const Entry *window) {
    if (guess->resting > 0) { guess->resting--; return; }
    guess->failures = was_right ? 0 : guess->failures + 1;
    if (guess->failures > MOST_FAILURES || !cut->proven || !(cut->high < INFINITY)) {
        *guess = (Guess){.resting = ROWS_OF_REST};
        return;
    }
    float at = (float)from_bits((uint64_t)window[cut->among ? cut->among - 1 : 0].rank_bits);
    float reach = !was_guessed ? FIRST_REACH : guess->reach * (was_right ? 0.99f : 1.25f);
    guess->at = guess->high > 0.0f ? 0.75f * guess->at + 0.25f * at : at;
    guess->reach = reach < LONGEST_REACH ? reach : LONGEST_REACH;
    guess->low = guess->at * (1.0f - guess->reach);
    guess->high = guess->at * (1.0f + guess->reach);
}

/* A row that was opened, with the guess of that moment and the exact mass above it. */
typedef struct { Loaded row; int is_good; Guess guess; int64_t above; } Opened;

INLINE Opened open_with_guess(const Job *job, int64_t i, int is_single, Scratch s) {
    Opened o = {.guess = *s.guess};
    if (HAS_NEAR && is_single && o.guess.high > 0.0f) o.is_good = open_row_at(job, i, 1, (double)o.guess.high, &o.above, &o.row);
    else o.is_good = open_row(job, i, is_single, &o.row);
    return o;
}

/* Cut a row at a threshold; not proven if it is odd or bad. Leaves the row as single floats in s.rough if `with_rough`. */
INLINE Position cut_opened(const Job *job, int64_t i, int is_single, double threshold, const Opened *o, int with_rough, Scratch s) {
    Position cut = {0};
    int is_guessed = HAS_NEAR && is_single && o->guess.high > 0.0f && threshold <= NEAR_ONE;
    if (!o->is_good || threshold == INFINITY) return cut;
    if (is_guessed) cut = cut_near(job, i, &o->row, threshold, o->guess, o->above, s);
    int was_right = cut.proven;
    if (!was_right) cut = find_cut(job, i, is_single, &o->row, threshold, s);
    else if (with_rough) load_rough(job, row_at(job, i), is_single, s.rough);
    if (HAS_NEAR && is_single) guess_next(s.guess, is_guessed, was_right, &cut, s.window);
    return cut;
}
#endif
