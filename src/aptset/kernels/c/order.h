/* Labels in the order of their row: probability downward, equal ones by their keyed tie. */
#ifndef APTSET_ORDER_H
#define APTSET_ORDER_H
#include "keys.h"

/* `rank_bits` are the bits of a non-negative double: as signed integers they sort like the double. */
typedef struct { int64_t rank_bits; int64_t column; } Entry;

INLINE int64_t steps_of(const Entry *e) { return grid_steps(from_bits((uint64_t)e->rank_bits)); }

static void insertion_sort(Entry *e, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        Entry moving = e[i];
        int64_t j = i;
        for (; j > 0 && e[j - 1].rank_bits < moving.rank_bits; j--) e[j] = e[j - 1];
        e[j] = moving;
    }
}

/* Bottom-up merge sort over insertion-sorted runs: n log n for every input. The result ends in `e`. */
static void sort_downward(Entry *e, Entry *spare, int64_t n) {
    const int64_t run = 24;
    for (int64_t start = 0; start < n; start += run) insertion_sort(e + start, n - start < run ? n - start : run);
    Entry *from = e, *to = spare;
    for (int64_t width = run; width < n; width *= 2) {
        for (int64_t start = 0; start < n; start += 2 * width) {
            int64_t a = start, middle = start + width < n ? start + width : n;
            int64_t b = middle, end = start + 2 * width < n ? start + 2 * width : n;
            for (int64_t k = start; k < end; k++)
                to[k] = (b >= end || (a < middle && from[a].rank_bits >= from[b].rank_bits)) ? from[a++] : from[b++];
        }
        Entry *swap = from; from = to; to = swap;
    }
    if (from != e) memcpy(e, from, (size_t)n * sizeof(Entry));
}

/* The same order of a few probabilities without a branch: each goes where as many stand before it as are larger, or equal and earlier. */
#define FEW 16
static void sort_few(Entry *e, Entry *spare, int64_t n) {
    double values[FEW];
    Masks numbers, place[FEW / LANES] = {{0}};
    Doubles lanes[FEW / LANES];
    for (int64_t k = 0; k < FEW; k++) values[k] = k < n ? from_bits((uint64_t)e[k].rank_bits) : 0.0;
    for (int k = 0; k < LANES; k++) numbers[k] = k;
    memcpy(lanes, values, sizeof lanes);
    for (int64_t k = 0; k < n; k++)
        for (int64_t v = 0; v * LANES < n; v++)
            place[v] -= (lanes[v] < values[k]) | ((lanes[v] == values[k]) & (numbers + v * LANES > k));
    for (int64_t k = 0; k < n; k++) spare[((const int64_t *)place)[k]] = e[k];
    memcpy(e, spare, (size_t)n * sizeof(Entry));
}

#define DIGIT_BITS 10
#define MOST_DIGITS 4 /* in 32 bits */
#define FEWEST_FOR_PLACES 48 /* below this many labels merging is quicker */

/* Sort runs of probabilities that are the same single float by all of their bits. */
static void sort_equal_floats(Entry *e, Entry *spare, int64_t n) {
    for (int64_t start = 0, end; start < n; start = end) {
        float first = (float)from_bits((uint64_t)e[start].rank_bits);
        int differ = 0;
        for (end = start + 1; end < n && (float)from_bits((uint64_t)e[end].rank_bits) == first; end++)
            differ |= e[end].rank_bits != e[start].rank_bits;
        if (differ) sort_downward(e + start, spare, end - start);
    }
}

/* The same order by digits of the probabilities as single floats, which rounding leaves in order: linear, without a branch that could
 * be mispredicted. A key is a float, downward, above the number of its entry; two lists of keys fit the spare entries. */
static void sort_by_digits(Entry *e, Entry *spare, int64_t n) {
    uint64_t *from = (uint64_t *)spare, *to = from + n, varying = 0;
    for (int64_t k = 0; k < n; k++) {
        float x = (float)from_bits((uint64_t)e[k].rank_bits);
        uint32_t bits;
        memcpy(&bits, &x, 4);
        from[k] = (uint64_t)~bits << 32 | (uint64_t)k;
        varying |= from[k] ^ from[0];
    }
    varying >>= 32;
    const uint64_t last = (1 << DIGIT_BITS) - 1;
    uint32_t place[MOST_DIGITS][1 << DIGIT_BITS];
    int first = varying ? 32 + __builtin_ctzll(varying) : 64, digits = 0;
    while (first + digits * DIGIT_BITS < 64 && varying >> (first - 32 + digits * DIGIT_BITS)) digits++;
    memset(place, 0, (size_t)digits * sizeof place[0]);
    for (int64_t k = 0; k < n; k++)
        for (int d = 0; d < digits; d++) place[d][from[k] >> (first + d * DIGIT_BITS) & last]++;
    for (int d = 0, shift = first; d < digits; d++, shift += DIGIT_BITS) {
        uint32_t next = 0;
        for (uint64_t v = 0; v <= last; v++) { uint32_t size = place[d][v]; place[d][v] = next; next += size; }
        for (int64_t k = 0; k < n; k++) to[place[d][from[k] >> shift & last]++] = from[k];
        uint64_t *swap = from; from = to; to = swap;
    }
    for (int64_t k = 0; k < n; k++) {
        const Entry *entry = e + (uint32_t)from[k];
        from[k] = (uint64_t)entry->column;
        to[k] = (uint64_t)entry->rank_bits;
    }
    for (int64_t k = 0; k < n; k++) e[k] = (Entry){(int64_t)to[k], (int64_t)from[k]};
    sort_equal_floats(e, spare, n);
}

/* The same by about their places: quicker where it succeeds. */
static int sort_by_places(Entry *e, Entry *spare, int64_t n) {
    int32_t bits[MOST_BY_PLACES], most;
    uint64_t *key = (uint64_t *)spare, *to = key + n;
    if (n > MOST_BY_PLACES) return 0;
    for (int64_t k = 0; k < n; k++) {
        float x = (float)from_bits((uint64_t)e[k].rank_bits);
        memcpy(bits + k, &x, 4);
    }
    if (!sort_bits(bits, n, key, to, &most)) return 0;
    for (int64_t k = 0; k < n; k++) {
        const Entry *entry = e + NUMBER_IN_KEY(to[k]);
        key[k] = (uint64_t)entry->column;
        to[k] = (uint64_t)entry->rank_bits;
    }
    for (int64_t k = 0; k < n; k++) e[k] = (Entry){(int64_t)to[k], (int64_t)key[k]};
    sort_equal_floats(e, spare, n);
    return 1;
}

/* Where the last rows were cut, for the next one to be looked at there first: see warm_start.h. */
typedef struct { int32_t at, up, down; float low, high; int32_t failures, resting; } Guess;

/* Room for one row: entries, as many spare ones, those around the cut, scores and the columns that have them, what labels far down have, the row
 * as single floats, and a guess that rows hand on. */
typedef struct { Entry *entries, *spare, *window; double *scores, *least; int32_t *columns; float *rough; Guess *guess; } Scratch;

/* Put a run of equal probabilities into the order of its ties, through keys that sort like the wanted order. */
static void order_run_by_ties(Entry *e, Entry *spare, int64_t n, uint64_t tie_seed) {
    int64_t rank_bits = e[0].rank_bits;
    /* Ties upward = flipped ties downward; the top bit turns unsigned order into signed order. Entries arrive with
     * their columns upward and the sort is stable, so equal ties (chance 2^-64) fall back to the column. */
    for (int64_t k = 0; k < n; k++) e[k].rank_bits = (int64_t)(~tie_of(tie_seed, e[k].column) ^ ((uint64_t)1 << 63));
    sort_downward(e, spare, n);
    for (int64_t k = 0; k < n; k++) e[k].rank_bits = rank_bits;
}

/* Put every run of equal probabilities of a sorted row into the order of its ties. */
static void order_ties(Entry *e, Entry *spare, int64_t n, uint64_t tie_seed) {
    for (int64_t start = 0; start < n;) {
        int64_t end = start + 1;
        while (end < n && e[end].rank_bits == e[start].rank_bits) end++;
        if (end - start > 1) order_run_by_ties(e + start, spare, end - start, tie_seed);
        start = end;
    }
}

static void order_entries(Entry *e, Entry *spare, int64_t n, uint64_t tie_seed) {
    if (n <= FEW) sort_few(e, spare, n);
    else if (n < FEWEST_FOR_PLACES) sort_downward(e, spare, n);
    else if (!sort_by_places(e, spare, n)) sort_by_digits(e, spare, n);
    order_ties(e, spare, n, tie_seed);
}

INLINE Loaded load_row_of(const Job *job, int64_t i, int is_single, Entry *entries) {
    const void *row = hold_row(job, i);
    int64_t total = 0, with_mass = 0, invalid = 0;
    uint64_t hash = 0;
    for (int64_t j = 0; j < job->columns; j++) {
        double x = AS_DOUBLE(row, is_single, j);
        int64_t steps = grid_steps(x);
        total += steps;
        with_mass += steps > 0;
        invalid |= (int64_t)!(x >= 0.0) | (int64_t)!(x <= 2.0);
        entries[j].rank_bits = (int64_t)bits_of(x);
        entries[j].column = j;
    }
    if (!job->seeds)
        for (int64_t j = 0; j < job->columns; j++) hash += hash_word((uint64_t)entries[j].rank_bits, job->column_keys[j]);
    uint64_t seed = seed_at(job, i, hash);
    double u = job->u ? job->u[i] : uniform_of(seed);
    Loaded loaded = {total, with_mass, 0, 0, tie_seed_of(seed, u), u, row_is_bad(total, invalid, job->tolerance)};
    find_top_two(job, row, is_single, &loaded);
    return loaded;
}

/* Copy a row, and read it into entries (unsorted), with everything a score needs about the row as a whole. */
INLINE Loaded load_row(const Job *job, int64_t i, Entry *entries) {
    return job->is_single ? load_row_of(job, i, 1, entries) : load_row_of(job, i, 0, entries);
}

/* Scores of the first n labels of an ordered row, upward, from their masses in grid steps. */
INLINE void scores_of_masses(const int64_t *own, int64_t n, const Loaded *row, const Job *job, double *scores) {
    int64_t above = 0;
    int64_t end = n < row->with_mass || job->weights[BEHIND] == 0.0 ? n : row->with_mass;
    double zeros = (double)(job->columns - row->with_mass), w[N_WEIGHTS], total = (double)row->total, u = row->u;
    memcpy(w, job->weights, sizeof w);
    for (int64_t r = 0; r < end; r++) { /* first what one label passes to the next, then what vectors can do */
        scores[r] = (double)above;
        above += own[r];
    }
    if (asks_for_top(job) || w[RANK] != 0.0)
        for (int64_t r = 0; r < end; r++) scores[r] = mass_score(w, scores[r], (double)own[r], (double)(r + 1), row);
    else
        for (int64_t r = 0; r < end; r++) {
            double own_mass = (double)own[r];
            scores[r] = MASS_SCORE(w, scores[r], own_mass, total, 0.0, u);
        }
    for (int64_t r = end; r < n; r++)
        scores[r] = zero_score(job->weights, (double)(r - end), zeros, (double)(r + 1), row->u);
}
INLINE void ordered_scores(const Entry *ordered, int64_t n, const Loaded *row, const Job *job, Scratch s) {
    int64_t *own = (int64_t *)s.spare;
    for (int64_t r = 0; r < n; r++) own[r] = steps_of(ordered + r);
    scores_of_masses(own, n, row, job, s.scores);
}
/* What the fast path of wide rows needs about a row, of which the facts are known; 0 if it is odd or bad. */
INLINE int open_row_with(const Job *job, int64_t i, const void *at, int is_single, Facts facts, Loaded *row) {
    uint64_t seed = seed_at(job, i, facts.hash);
    double u = job->u ? job->u[i] : uniform_of(seed);
    *row = (Loaded){facts.total, job->columns, 0, 0, tie_seed_of(seed, u), u, 0};
    find_top_two(job, at, is_single, row);
    return !facts.odd && !row_is_bad(facts.total, 0, job->tolerance);
}
/* The same for row i, which is held then. */
INLINE int open_row(const Job *job, int64_t i, int is_single, Loaded *row) {
    const void *at = source_at(job, i);
    Facts facts = job->seeds ? row_facts(job, at, is_single, 0, 0.0, NULL, job->held) : row_facts(job, at, is_single, 1, 0.0, NULL, job->held);
    return open_row_with(job, i, job->held, is_single, facts, row);
}

#endif
