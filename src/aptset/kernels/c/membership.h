/* Which labels of a row score at most a threshold. A score never falls along the order of its row, so a set is a
 * beginning of that order, and only members are sorted. Narrow rows go through narrow_simd.h, wide ones through bracket.h; rows
 * that neither can tell are cut here, by halving the range of the probabilities. */
#ifndef APTSET_MEMBERSHIP_H
#define APTSET_MEMBERSHIP_H
#include "warm_start.h"
#include "narrow_simd.h"

/* A first guess at the probability where the row is cut; any value is right, a good one saves passes. */
INLINE int64_t first_pivot(const Job *job, double threshold) {
    double left = 1.0 - threshold;
    if (!(left > 0.0)) return LAST_ZERO_BITS;
    double guess = job->weights[ABOVE] > 0.0 ? left / (double)job->columns : left;
    int64_t pivot = (int64_t)bits_of(guess < 1.0 ? guess : 1.0);
    return pivot > LAST_ZERO_BITS ? pivot : LAST_ZERO_BITS;
}

/* How many of a run of n labels, in order behind `above` and `rank`, score at most the threshold. */
INLINE int64_t members_of_run(const Entry *first, int64_t n, const Loaded *row, const Job *job, double threshold,
                              int64_t above, int64_t rank) {
    int64_t low = 0, high = n, own = steps_of(first);
    while (low < high) {
        int64_t k = low + (high - low) / 2;
        double score = own > 0 || job->weights[BEHIND] == 0.0
                           ? mass_score(job->weights, (double)(above + k * own), (double)own, (double)(rank + k + 1), row)
                           : zero_score(job->weights, (double)k, (double)n, (double)(rank + k + 1), row->u);
        if (score <= threshold) low = k + 1; else high = k;
    }
    return low;
}

/* Move the entries above the pivot to the front; the others follow, in `spare` order. Returns how many went front. */
INLINE int64_t part(Entry *e, Entry *spare, int64_t n, int64_t pivot, int64_t *mass, int64_t *least) {
    int64_t front = 0, back = 0, sum = 0, minimum = INT64_MAX;
    for (int64_t k = 0; k < n; k++) {
        Entry moving = e[k];
        int64_t is_front = moving.rank_bits > pivot;
        e[front] = moving;
        spare[back] = moving;
        front += is_front;
        back += 1 - is_front;
        if (is_front) {
            sum += steps_of(&moving);
            minimum = moving.rank_bits < minimum ? moving.rank_bits : minimum;
        }
    }
    memcpy(e + front, spare, (size_t)back * sizeof(Entry));
    *mass = sum;
    *least = minimum;
    return front;
}

/* Number of members at the threshold; they stand, in order, at the front of `e` when this returns. */
static int64_t select_members(Entry *e, Entry *spare, const Loaded *row, const Job *job, double threshold) {
    int64_t accepted = 0, active = job->columns, above = 0, pivot = first_pivot(job, threshold);
    while (active > 0) {
        Entry *now = e + accepted;
        int64_t low = INT64_MAX, high = -1;
        for (int64_t k = 0; k < active; k++) {
            low = now[k].rank_bits < low ? now[k].rank_bits : low;
            high = now[k].rank_bits > high ? now[k].rank_bits : high;
        }
        if (high <= LAST_ZERO_BITS || low == high) { /* nothing left to halve: labels without mass, or all equal */
            order_entries(now, spare, active, row->tie_seed);
            accepted += members_of_run(now, active, row, job, threshold, above, accepted);
            break;
        }
        if (pivot < low || pivot >= high) pivot = low + (high - low) / 2;
        if (pivot < LAST_ZERO_BITS) pivot = LAST_ZERO_BITS; /* labels without mass are never mixed with the others */
        int64_t mass, least;
        int64_t front = part(now, spare, active, pivot, &mass, &least);
        int64_t last = grid_steps(from_bits((uint64_t)least));
        double score = mass_score(job->weights, (double)(above + mass - last), (double)last, (double)(accepted + front), row);
        if (score <= threshold) { accepted += front; above += mass; active -= front; } else active = front;
        pivot = -1;
    }
    order_entries(e, spare, accepted, row->tie_seed);
    return accepted;
}

INLINE int64_t count_at_most(const double *scores, int64_t n, double threshold) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t k = low + (high - low) / 2;
        if (scores[k] <= threshold) low = k + 1; else high = k;
    }
    return low;
}

INLINE void put_best_first(Entry *e, int64_t n, uint64_t tie_seed) {
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++) {
        uint64_t tie = tie_of(tie_seed, e[k].column), best_tie = tie_of(tie_seed, e[best].column);
        int equal = e[k].rank_bits == e[best].rank_bits;
        if (e[k].rank_bits > e[best].rank_bits || (equal && (tie < best_tie || (tie == best_tie && e[k].column < e[best].column))))
            best = k;
    }
    Entry top = e[best]; e[best] = e[0]; e[0] = top;
}

/* Thresholds are (n, count), or the same for all rows if stride is 0; sizes are (count, n); sets hold at least `min_size`
 * labels (0 or 1). */
typedef struct { const double *thresholds; int64_t count, stride, min_size, n; int32_t *sizes; } Wanted;

INLINE double largest_threshold(const Wanted *w, int64_t i) {
    double largest = w->thresholds[i * w->stride];
    for (int64_t a = 1; a < w->count; a++) {
        double threshold = w->thresholds[i * w->stride + a];
        largest = threshold > largest ? threshold : largest;
    }
    return largest;
}

/* Write the sizes of row i from the scores of its members at the largest threshold, upward; return the largest size. */
INLINE int64_t write_sizes(const Wanted *w, int64_t i, const double *scores, int64_t n_members) {
    for (int64_t a = 0; a < w->count; a++) {
        int64_t size = w->count > 1 ? count_at_most(scores, n_members, w->thresholds[i * w->stride + a]) : n_members;
        w->sizes[a * w->n + i] = (int32_t)(size < w->min_size ? w->min_size : size);
    }
    return n_members < w->min_size ? w->min_size : n_members;
}

/* Number of members of any row at a threshold; they stand, in order, at the front of s.entries (the most likely label
 * stands there even if it is no member). */
static int64_t careful_members(const Loaded *row, const Job *job, double threshold, Scratch s) {
    if (job->columns <= WIDEST_TILE) {
        order_entries(s.entries, s.spare, job->columns, row->tie_seed);
        ordered_scores(s.entries, job->columns, row, job, s);
        return count_at_most(s.scores, job->columns, threshold);
    }
    int64_t n_members = select_members(s.entries, s.spare, row, job, threshold);
    if (n_members == 0) put_best_first(s.entries, job->columns, row->tie_seed);
    return n_members;
}

/* Members of wide row i in order, in s.entries, and their number; -1 for a bad row. The most likely label stands there in any case. */
INLINE int64_t wide_members_of(const Job *job, int64_t i, int is_single, double threshold, int with_scores, Loaded *prepared, Scratch s) {
    int is_close;
    PreparedRow o = prepare_with_guess(job, i, is_single, threshold, s);
    Loaded row = o.row;
    Position cut = cut_prepared(job, is_single, threshold, &o, &is_close, s);
    const float *rough = rough_of(job, is_single, s);
    int64_t n_members = cut.before + cut.among;
    if (cut.proven) {
        collect(job, rough, next_float(cut.high), INFINITY, s.entries);
        order_entries(s.entries, s.spare, cut.before, row.tie_seed);
        memcpy(s.entries + cut.before, s.window, (size_t)(cut.among ? cut.among : 1) * sizeof(Entry));
    } else {
        row = load_row(job, i, s.entries);
        if (row.bad) return -1;
        n_members = careful_members(&row, job, threshold, s);
    }
    if (with_scores) ordered_scores(s.entries, n_members, &row, job, s);
    *prepared = row;
    return n_members;
}

APART int64_t wide_members(const Job *job, int64_t i, double threshold, int with_scores, Loaded *prepared, Scratch s) {
    return job->is_single ? wide_members_of(job, i, 1, threshold, with_scores, prepared, s) : wide_members_of(job, i, 0, threshold, with_scores, prepared, s);
}

typedef struct { void *to; int width; } Members; /* columns in 1, 2 or 4 bytes, one row after the other */

INLINE void put_member(Members m, int64_t at, int64_t column) {
    if (m.width == 1) ((uint8_t *)m.to)[at] = (uint8_t)column;
    else if (m.width == 2) ((uint16_t *)m.to)[at] = (uint16_t)column;
    else ((int32_t *)m.to)[at] = (int32_t)column;
}

INLINE int64_t member_at(Members m, int64_t at) {
    return m.width == 1 ? ((const uint8_t *)m.to)[at] : m.width == 2 ? ((const uint16_t *)m.to)[at] : ((const int32_t *)m.to)[at];
}

/* Cut wide rows; returns the first bad one or -1. */
INLINE int64_t cut_wide_rows(const Job *job, int64_t n, Scratch s, const Wanted *w, Members members, int64_t *end) {
    int64_t written = 0;
    Loaded row;
    for (int64_t i = 0; i < n; i++) {
        int64_t n_members = wide_members(job, i, largest_threshold(w, i), w->count > 1, &row, s);
        if (n_members < 0) return i;
        n_members = write_sizes(w, i, s.scores, n_members);
        for (int64_t k = 0; k < n_members; k++) put_member(members, written + k, s.entries[k].column);
        written += n_members;
    }
    *end = written;
    return -1;
}

/* What puts members in order later: their probabilities, in the type of the rows, and the seed of the ties of each row. */
typedef struct { void *values; uint64_t *tie_seeds; } Waiting;

#define SPARSE 8 /* fewer than one label in so many are picked one by one */

#if defined(__AVX512F__)
/* The same for most rows, SPAN labels at a time. What is written beyond the last member is written over, but for the last labels of a row: they
 * are left to the loop that counts them one by one. */
INLINE int64_t gather_spans(const float *row, int64_t columns, float high, uint16_t *to, float *values, int64_t *written) {
    const __m512 bar = _mm512_set1_ps(high);
    __m512i column = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int64_t j = 0, n = 0;
    for (; j + 2 * SPAN <= columns; j += SPAN) { /* as many labels are left as are written too far */
        __m512 x = _mm512_loadu_ps(row + j);
        __mmask16 in = _mm512_cmp_ps_mask(x, bar, _CMP_GT_OQ);
        _mm512_storeu_ps(values + n, _mm512_maskz_compress_ps(in, x));
        _mm256_storeu_si256((__m256i *)(to + n), _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(in, column)));
        n += __builtin_popcount(in);
        column = _mm512_add_epi32(column, _mm512_set1_epi32(SPAN));
    }
    *written = n;
    return j;
}
#endif

/* Write the labels above `high` as members that wait, columns upward: the next one is written over one that is not in, without a branch. */
INLINE void gather(const Job *job, int is_single, int width, const float *rough, float high, Members members, Waiting waiting,
                   int64_t at) {
    const void *row = job->held;
    int64_t j = 0, written = 0;
#if defined(__AVX512F__)
    if (is_single && width == 2)
        j = gather_spans(row, job->columns, high, (uint16_t *)members.to + at, (float *)waiting.values + at, &written);
#endif
    for (at += written; j < job->columns; j++) {
        put_member((Members){members.to, width}, at, j);
        if (is_single) ((float *)waiting.values)[at] = (float)AS_DOUBLE(row, 1, j);
        else ((double *)waiting.values)[at] = AS_DOUBLE(row, 0, j);
        at += rough[j] > high;
    }
}

/* Write the members of wide row i, which wait to be put in order, and return their number; -1 for a bad row. */
INLINE int64_t waiting_members(const Job *job, int64_t i, int is_single, const Wanted *w, Scratch s, Members members, Waiting waiting,
                               int64_t at) {
    double threshold = w->thresholds[i * w->stride];
    int is_close;
    PreparedRow o = prepare_with_guess(job, i, is_single, threshold, s);
    Loaded row = o.row;
    Position cut = cut_prepared(job, is_single, threshold, &o, &is_close, s);
    const float *rough = rough_of(job, is_single, s);
    int64_t n_members = cut.before + cut.among;
    int64_t gathered = cut.proven && cut.before * SPARSE > job->columns ? cut.before : 0;
    if (gathered) {
        if (members.width == 2) gather(job, is_single, 2, rough, cut.high, members, waiting, at);
        else gather(job, is_single, members.width, rough, cut.high, members, waiting, at);
    } else if (cut.proven) {
        collect(job, rough, next_float(cut.high), INFINITY, s.entries);
        memcpy(s.entries + cut.before, s.window, (size_t)(cut.among ? cut.among : 1) * sizeof(Entry));
    } else {
        row = load_row(job, i, s.entries);
        if (row.bad) return -1;
        n_members = careful_members(&row, job, threshold, s);
    }
    const Entry *rest = gathered ? s.window : s.entries;
    if (n_members < w->min_size) n_members = w->min_size;
    for (int64_t k = gathered; k < n_members; k++) {
        Entry entry = rest[k - gathered];
        put_member(members, at + k, entry.column);
        if (is_single) ((float *)waiting.values)[at + k] = (float)from_bits((uint64_t)entry.rank_bits);
        else ((double *)waiting.values)[at + k] = from_bits((uint64_t)entry.rank_bits);
    }
    waiting.tie_seeds[i] = row.tie_seed;
    w->sizes[i] = (int32_t)n_members;
    return n_members;
}

/* Cut wide rows at one threshold and leave the order of the members for later; returns the first bad row or -1. */
INLINE int64_t cut_and_wait(const Job *job, int64_t n, int is_single, Scratch s, const Wanted *w, Members members, Waiting waiting, int64_t *end) {
    int64_t written = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t n_members = waiting_members(job, i, is_single, w, s, members, waiting, written);
        if (n_members < 0) return i;
        written += n_members;
    }
    *end = written;
    return -1;
}

/* Put the members of each row, of which there are sizes[i], in order. */
static void order_loop(int64_t n, const int32_t *sizes, Members members, Waiting waiting, int is_single, Scratch s, int32_t *ordered) {
    for (int64_t i = 0, at = 0; i < n; at += sizes[i++]) {
        for (int64_t k = 0; k < sizes[i]; k++) {
            double x = AS_DOUBLE(waiting.values, is_single, at + k);
            s.entries[k] = (Entry){(int64_t)bits_of(x), member_at(members, at + k)};
        }
        order_entries(s.entries, s.spare, sizes[i], waiting.tie_seeds[i]);
        for (int64_t k = 0; k < sizes[i]; k++) ordered[at + k] = (int32_t)s.entries[k].column;
    }
}

/* Sizes of the sets of a lane group at threshold number a. */
INLINE Masks lane_sizes(const Tile *t, int64_t columns, const Wanted *w, int64_t first, int64_t rows, int64_t a) {
    Doubles thresholds = (Doubles){0} + w->thresholds[a];
    for (int64_t i = 0; i < rows && w->stride; i++) thresholds[i] = w->thresholds[(first + i) * w->stride + a];
    Masks size = {0};
    for (int64_t r = 0; r < columns; r++) size -= t->score[r] <= thresholds;
    return size;
}

APART int64_t cut_narrow_rows(const Job *job, int64_t n, Scratch s, Tile *t, const Wanted *w, Members members, int64_t *end) {
    uint8_t *to = members.to;
    EACH_LANE_GROUP(start, rows, n) {
        int64_t longest[LANES] = {0};
        Masks slow = score_lanes(job, t, lane_group(job, start, n, t));
        for (int64_t a = 0; a < w->count; a++) {
            Masks sizes = lane_sizes(t, job->columns, w, start, rows, a);
            for (int64_t i = 0; i < rows; i++) {
                int64_t size = sizes[i] < w->min_size ? w->min_size : sizes[i];
                w->sizes[a * w->n + start + i] = (int32_t)size;
                longest[i] = size > longest[i] ? size : longest[i];
            }
        }
        for (int64_t i = 0; i < rows; i++) {
            if (!slow[i]) { /* a whole row is written, the next one starts behind the members: no branch on the size */
                for (int64_t r = 0; r < job->columns; r++) to[r] = (uint8_t)column_in_lane(t, r, i);
                to += longest[i];
                continue;
            }
            Loaded row = load_row(job, start + i, s.entries);
            if (row.bad) return start + i;
            int64_t n_members = write_sizes(w, start + i, s.scores, careful_members(&row, job, largest_threshold(w, start + i), s));
            for (int64_t k = 0; k < n_members; k++) *to++ = (uint8_t)s.entries[k].column;
        }
    }
    *end = to - (uint8_t *)members.to;
    return -1;
}

/* Writes how many members there are to *end, if no row is bad. Order waits where there is room for what it needs (wide rows, one threshold). */
static int64_t cuts_loop(const Job *job, int64_t n, Scratch s, Tile *t, const Wanted *w, Members members, Waiting waiting, int64_t *end) {
    if (job->columns <= WIDEST_TILE) return cut_narrow_rows(job, n, s, t, w, members, end);
    if (waiting.values) return job->is_single ? cut_and_wait(job, n, 1, s, w, members, waiting, end) : cut_and_wait(job, n, 0, s, w, members, waiting, end);
    return cut_wide_rows(job, n, s, w, members, end);
}
#endif
