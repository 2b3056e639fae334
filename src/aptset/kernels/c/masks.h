/* The sets of rows as flags, one byte a label: no order is needed, so members are not sorted. */
#ifndef APTSET_MASKS_H
#define APTSET_MASKS_H
#include "membership.h"

/* Flags of the labels above a cut, then of the few at the window. */
INLINE void flag_row(const float *values, int64_t columns, const Position *cut, const Entry *window, uint8_t *flags) {
    for (int64_t j = 0; j < columns; j++) flags[j] = values[j] > cut->high;
    for (int64_t k = 0; k < cut->among; k++) flags[window[k].column] = 1;
}

/* The same where bits tell which labels stand above those near the cut. */
INLINE void flag_candidates(int64_t columns, Bits bits, const Candidates *candidates, const Position *cut, const Entry *window, uint8_t *flags) {
#if HAS_WARM_START
    int64_t w = 0;
    for (; (w + 1) * 64 <= columns; w++) _mm512_storeu_si512(flags + w * 64, _mm512_maskz_set1_epi8(bits.above[w], 1));
    if (w * 64 < columns)
        _mm512_mask_storeu_epi8(flags + w * 64, ((uint64_t)1 << (columns - w * 64)) - 1, _mm512_maskz_set1_epi8(bits.above[w], 1));
#endif
    for (int64_t k = 0; k < candidates->n; k++) flags[candidates->column[k]] = candidates->rough[k] > cut->high;
    for (int64_t k = 0; k < cut->among; k++) flags[window[k].column] = 1;
}

INLINE int64_t mask_wide_rows(const Job *job, int64_t n, int is_single, Scratch s, const Wanted *w, uint8_t *flags) {
    for (int64_t i = 0; i < n; i++, flags += job->columns) {
        double threshold = w->thresholds[i * w->stride];
        int is_close;
        PreparedRow o = prepare_with_guess(job, i, is_single, threshold, s);
        if (o.is_good && threshold == INFINITY) {
            memset(flags, 1, (size_t)job->columns);
            continue;
        }
        Position cut = cut_prepared(job, is_single, threshold, &o, &is_close, s);
        if (cut.proven && cut.before + cut.among >= w->min_size) {
            if (is_close) flag_candidates(job->columns, room_for_bits(job, s), &o.candidates, &cut, s.window, flags);
            else flag_row(is_single ? job->held : s.rough, job->columns, &cut, s.window, flags);
            continue;
        }
        Loaded row = load_row(job, i, s.entries);
        if (row.bad) return i;
        int64_t n_members = careful_members(&row, job, threshold, s);
        memset(flags, 0, (size_t)job->columns);
        for (int64_t k = 0; k < n_members || k < w->min_size; k++) flags[s.entries[k].column] = 1;
    }
    return -1;
}

APART int64_t mask_narrow_rows(const Job *job, int64_t n, Scratch s, Tile *t, const Wanted *w, uint8_t *flags) {
    int64_t columns = job->columns;
    EACH_LANE_GROUP(start, rows, n) {
        Masks slow = score_lanes(job, t, lane_group(job, start, n, t));
        Masks sizes = lane_sizes(t, columns, w, start, rows, 0);
        for (int64_t i = 0; i < rows; i++, flags += columns) {
            int64_t size = sizes[i] < w->min_size ? w->min_size : sizes[i];
            if (!slow[i]) {
                for (int64_t r = 0; r < columns; r++) flags[column_in_lane(t, r, i)] = r < size;
                continue;
            }
            Loaded row = load_row(job, start + i, s.entries);
            if (row.bad) return start + i;
            int64_t n_members = careful_members(&row, job, w->thresholds[(start + i) * w->stride], s);
            for (int64_t r = 0; r < columns; r++) flags[s.entries[r].column] = r < n_members || r < w->min_size;
        }
    }
    return -1;
}

static int64_t masks_loop(const Job *job, int64_t n, Scratch s, Tile *t, const Wanted *w, uint8_t *flags) {
    if (job->columns <= WIDEST_TILE) return mask_narrow_rows(job, n, s, t, w, flags);
    return job->is_single ? mask_wide_rows(job, n, 1, s, w, flags) : mask_wide_rows(job, n, 0, s, w, flags);
}
#endif
