/* Where a row is cut, looked for where the last one was: rows of one matrix are often cut at about the same probability. One pass sets the
 * labels near that apart, the rest is decided among them. What is found is proven as in bracket.h, so a guess costs time, never a wrong set. */
#ifndef APTSET_WARM_START_H
#define APTSET_WARM_START_H
#include "bits.h"
#include "resolve.h"

/* In the bits of single floats, of which 2^23 are a doubling: */
#define FIRST_REACH (1 << 20)   /* how far from the guess */
#define LONGEST_REACH (8 << 23)
#define LEAST_BITS (1 << 23) /* what is near is above zero */
#define MOST_FAILURES 8 /* in a row, before guessing rests for some rows */
#define ROWS_OF_REST 32
#define SET_APART 6     /* at most one label in so many is worth it */

typedef struct { float *rough; int32_t *column; int64_t n, before; } Candidates; /* labels of a row, and how many stand above them */

#define AT_ONCE 4 /* labels of a word that are written without a branch */
/* Set the labels near the guess apart. */
INLINE Candidates set_apart(const Job *job, Bits bits, Scratch s) {
    const float *row = job->held;
    Candidates candidates = {(float *)s.entries, (int32_t *)s.entries + rough_room(job->columns), 0, 0};
    for (int64_t w = 0; w < words_of(job->columns); w++) {
        uint64_t left = bits.close_by[w];
        int32_t *to = candidates.column + candidates.n;
        candidates.before += __builtin_popcountll(bits.above[w]);
        int64_t count = __builtin_popcountll(left);
        candidates.n += count;
        int64_t k = 0;
        do
            for (int m = 0; m < AT_ONCE; m++, left &= left - 1) to[k++] = (int32_t)(w * 64) + (int32_t)__builtin_ctzll(left | (uint64_t)1 << 63);
        while (k < count);
    }
    for (int64_t k = 0; k < candidates.n; k++) candidates.rough[k] = row[candidates.column[k]];
    for (int64_t k = candidates.n; k < spans_of(candidates.n) * SPAN; k++) candidates.rough[k] = -FLT_MIN;
    return candidates;
}

#if HAS_WARM_START
/* The labels above two pivots among those near. */
INLINE void two_fronts(const Job *job, const Searched *in, const Loaded *row, Front *first, Front *second) {
    const __m512 bar = _mm512_set1_ps(first->pivot), higher = _mm512_set1_ps(second->pivot);
    __m512 mass = _mm512_setzero_ps(), less = mass;
    int64_t count = 0, fewer = 0;
    for (int64_t k = 0; k < in->n; k += SPAN) { /* filled up with what is not above */
        __m512 x = _mm512_loadu_ps(in->rough + k);
        __mmask16 is_above = _mm512_cmp_ps_mask(x, bar, _CMP_GT_OQ), is_higher = _mm512_cmp_ps_mask(x, higher, _CMP_GT_OQ);
        mass = _mm512_mask_add_ps(mass, is_above, mass, x);
        less = _mm512_mask_add_ps(less, is_higher, less, x);
        count += __builtin_popcount(is_above), fewer += __builtin_popcount(is_higher);
    }
    first->count = in->above.count + count, second->count = in->above.count + fewer;
    first->mass = in->above.mass + (double)_mm512_reduce_add_ps(mass), second->mass = in->above.mass + (double)_mm512_reduce_add_ps(less);
    first->score = mass_score(job->weights, first->mass * STEPS_PER_ONE, first->pivot * STEPS_PER_ONE, (double)(first->count + 1), row);
    second->score = mass_score(job->weights, second->mass * STEPS_PER_ONE, second->pivot * STEPS_PER_ONE, (double)(second->count + 1), row);
}

/* Narrow the cut down among the labels near it: two pivots at a time, some labels on both sides of where it should be. */
#define BESIDE 4
INLINE void narrow_candidates(const Job *job, const Searched *in, const Loaded *row, double threshold, Front *low, Front *high) {
    for (int round = 0; round < 8 && low->count - high->count > FEW; round++) {
        int32_t a = bits_of_float(low->pivot), b = bits_of_float(high->pivot);
        if (b - a < 4) break;
        double up = low->score - threshold, down = threshold - high->score, width = (double)(b - a);
        double share = round % 4 < 3 && up > 0.0 && down > 0.0 ? up / (up + down) : 0.5, beside = BESIDE / (double)(low->count - high->count);
        double from = smaller_of(larger_of((share - beside) * width, 1.0), width - 3.0);
        double to = smaller_of(larger_of((share + beside) * width, from + 1.0), width - 1.0);
        Front l = {.pivot = float_of(a + (int32_t)from)}, h = {.pivot = float_of(a + (int32_t)to)};
        two_fronts(job, in, row, &l, &h);
        if (h.score > threshold) *low = h;
        else if (l.score > threshold) *low = l, *high = h;
        else *high = l;
    }
}

/* The labels above low and up to high, columns upward, at most FEW of them; add the exact mass of those above. Returns how many there are. */
INLINE int64_t collect_few(const Candidates *candidates, float low, float high, Few *few, int64_t *above) {
    const __m512 l = _mm512_set1_ps(low), h = _mm512_set1_ps(high);
    float value[3 * SPAN];
    int32_t column[3 * SPAN];
    int64_t n = 0, count = 0;
    __m512i bits = _mm512_setzero_si512(); /* of values + 2 */
    for (int64_t k = 0; k < candidates->n && n <= FEW; k += SPAN) {
        __m512 x = _mm512_loadu_ps(candidates->rough + k);
        __mmask16 is_above = _mm512_cmp_ps_mask(x, h, _CMP_GT_OQ), in = _mm512_cmp_ps_mask(x, l, _CMP_GT_OQ) & (__mmask16)~is_above;
        _mm512_storeu_ps(value + n, _mm512_maskz_compress_ps(in, x));
        _mm512_storeu_si512(column + n, _mm512_maskz_compress_epi32(in, _mm512_loadu_si512(candidates->column + k)));
        for (int half = 0; half < SPAN; half += LANES) {
            __m512d wide = _mm512_cvtps_pd(_mm256_loadu_ps(candidates->rough + k + half));
            bits = _mm512_mask_add_epi64(bits, (__mmask8)(is_above >> half), bits, _mm512_castpd_si512(_mm512_add_pd(wide, _mm512_set1_pd(2.0))));
        }
        n += __builtin_popcount(in), count += __builtin_popcount(is_above);
    }
    *above += (int64_t)((uint64_t)sum_of((Masks)bits) - (uint64_t)count * (uint64_t)BITS_OF_TWO);
    for (int64_t k = 0; k < FEW; k += LANES) {
        Doubles wide = (Doubles)_mm512_cvtps_pd(_mm256_maskz_loadu_ps((__mmask8)(lanes_there(n) >> k), value + k));
        memcpy(few->value + k, &wide, sizeof wide);
    }
    memcpy(few->column, column, sizeof few->column);
    return n;
}
#endif

/* The same for any number of labels. */
INLINE int64_t collect_candidates(const Candidates *candidates, float low, float high, Entry *decision, int64_t *above) {
    int64_t n = 0;
    for (int64_t k = 0; k < candidates->n; k++) {
        if (candidates->rough[k] > high) *above += grid_steps((double)candidates->rough[k]);
        else if (candidates->rough[k] > low) decision[n++] = (Entry){(int64_t)bits_of((double)candidates->rough[k]), candidates->column[k]};
    }
    return n;
}

/* A row that was opened: with its largest probability, the guess of that moment, the exact mass above it and the labels near it; `top` is negative
 * where it was not looked for. */
typedef struct { Loaded row; int is_good, is_guessed; Guess guess; int64_t above; float top; Candidates candidates; } PreparedRow;

INLINE int is_too_many(int64_t n, int64_t columns) { return n * SET_APART > columns; }

/* The cut of a row that is not odd, if it lies where the guess says. */
INLINE Position cut_candidates(const Job *job, double threshold, PreparedRow *o, Scratch s) {
    const Position none = {0};
#if HAS_WARM_START
    const Loaded *row = &o->row;
    int64_t above = o->above;
    o->candidates = set_apart(job, room_for_bits(job, s), s);
    Candidates candidates = o->candidates;
    Front high = {candidates.before ? o->guess.high : o->top, (double)above / STEPS_PER_ONE, 0.0, candidates.before};
    Searched in = {candidates.rough, candidates.n, high};
    if (candidates.n == 0 || is_too_many(candidates.n, job->columns)) return none;
    Front low = front_of(job, &in, o->guess.low, row, 0);
    if (candidates.before) high.score = mass_score(job->weights, (double)above, high.pivot * STEPS_PER_ONE, (double)(candidates.before + 1), row);
    if (high.score > threshold || low.score <= threshold) return none;
    narrow_candidates(job, &in, row, threshold, &low, &high);
    Few few;
    Decision decision;
    int64_t through = above, n = collect_few(&candidates, low.pivot, high.pivot, &few, &through);
    if (!decide_few(job, row, threshold, high, &few, n, through, 0, s, &decision)) {
        n = collect_candidates(&candidates, low.pivot, high.pivot, s.window, &above);
        decision = decide_in_order(job, row, threshold, high, n, above, 0, s);
    }
    if (decision.cut.proven) return decision.cut;
    float below = low.pivot, next = high.pivot;
    widen(candidates.rough, candidates.n, &below, &next);
    int needs_below = decision.cut.among == n, needs_above = decision.cut.among == 0 && high.count > 0;
    if ((needs_below && below < 0.0f) || (needs_above && !(next <= o->guess.high))) { /* the label beside was not set apart */
        below = low.pivot, next = high.pivot;
        widen(job->held, job->columns, &below, &next);
    }
    if (holds_beside(job, row, threshold, &decision, below, next)) { decision.cut.proven = 1; return decision.cut; }
#endif
    return none;
}

INLINE int32_t further(int32_t reach, int32_t missed) {
    if (missed < reach) missed = reach;
    return missed + missed / 4 < LONGEST_REACH ? missed + missed / 4 : LONGEST_REACH;
}

/* Guess for the next rows, from where this one was cut. What fails reaches further; what fails again and again rests. */
INLINE void guess_next(Guess *guess, const PreparedRow *o, int64_t columns, int was_right, const Position *cut, const Entry *window) {
    if (guess->resting > 0) { guess->resting--; return; }
    guess->failures = was_right ? 0 : guess->failures + 1;
    if (guess->failures > MOST_FAILURES) *guess = (Guess){.resting = ROWS_OF_REST};
    if (guess->resting > 0 || !cut->proven) return;
    int32_t at = bits_of_float((float)from_bits((uint64_t)window[cut->among ? cut->among - 1 : 0].rank_bits));
    if (!o->is_guessed) guess->at = at, guess->up = guess->down = FIRST_REACH;
    else if (was_right) guess->up -= guess->up / 100, guess->down -= guess->down / 100;
    else if (is_too_many(o->candidates.n, columns)) guess->up -= guess->up / 4, guess->down -= guess->down / 4;
    else if (at > guess->at) guess->up = further(guess->up, at - guess->at);
    else guess->down = further(guess->down, guess->at - at);
    guess->at += (at - guess->at) / 8;
    guess->low = guess->at - guess->down > LEAST_BITS ? float_of(guess->at - guess->down) : float_of(LEAST_BITS);
    guess->high = float_of(guess->at + guess->up);
}

INLINE PreparedRow prepare_with_guess(const Job *job, int64_t i, int is_single, double threshold, Scratch s) {
    PreparedRow o = {.guess = *s.guess, .top = -1.0f};
#if HAS_WARM_START
    if (is_single) {
        const float *row = source_at(job, i);
        Bits bits = room_for_bits(job, s);
        o.is_guessed = o.guess.high > 0.0f && threshold <= CLOSE_TO_ONE;
#define FACTS(with_hash, guess) facts_of_singles(job, row, with_hash, guess, bits, &o.above, &o.top)
        Facts facts = o.is_guessed ? (job->seeds ? FACTS(0, &o.guess) : FACTS(1, &o.guess)) : (job->seeds ? FACTS(0, NULL) : FACTS(1, NULL));
#undef FACTS
        o.is_good = open_row_with(job, i, job->held, 1, facts, &o.row);
        return o;
    }
#endif
    o.is_good = open_row(job, i, is_single, &o.row);
    return o;
}

/* Cut a row at a threshold; not proven if it is odd or bad. Tells whether the cut was found near the guess; leaves the row where rough_of says. */
INLINE Position cut_prepared(const Job *job, int is_single, double threshold, PreparedRow *o, int *is_close, Scratch s) {
    Position cut = {0};
    *is_close = 0;
    if (!o->is_good || threshold == INFINITY) return cut;
    if (o->is_guessed) cut = cut_candidates(job, threshold, o, s);
    *is_close = cut.proven;
    if (!cut.proven) cut = find_cut(job, is_single, &o->row, threshold, o->top, s);
    if (HAS_WARM_START && is_single && threshold <= CLOSE_TO_ONE) guess_next(s.guess, o, job->columns, *is_close, &cut, s.window);
    return cut;
}
#endif
