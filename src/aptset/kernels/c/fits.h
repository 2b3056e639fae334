/* Whether buffers are as long as the loops will walk, and whether what came from a file points into them. */
#ifndef APTSET_FITS_H
#define APTSET_FITS_H
#include <stdint.h>

INLINE int64_t rows_of(int64_t bytes, int64_t bytes_a_row) { return bytes_a_row > 0 ? bytes / bytes_a_row : -1; }

/* Rows are float64 or float32; seeds and u may be left out. */
static int job_fits(const Py_buffer *rows, const Py_buffer *weights, const Py_buffer *keys, const Py_buffer *seeds,
                    const Py_buffer *u, int64_t n, int64_t columns) {
    return n >= 0 && columns > 0 && (rows->len == n * columns * 8 || rows->len == n * columns * 4)
        && weights->len == N_WEIGHTS * 8 && keys->len == columns * 8
        && (!seeds->buf || seeds->len == n * 8) && (!u->buf || u->len == n * 8);
}

/* Offsets must rise from 0 within the scores; there must be a group for every column, or for every id of a row. */
static int calibrated_fits(const Py_buffer *sorted, const Py_buffer *offsets, const Py_buffer *row_groups, int64_t n,
                           int64_t columns) {
    const int64_t *offset = offsets->buf, groups = offsets->len / 8 - 1;
    const int32_t *group = row_groups->buf;
    if (groups < 0 || offset[0] < 0 || offset[groups] > sorted->len / 8) return 0;
    for (int64_t g = 0; g < groups; g++)
        if (offset[g] > offset[g + 1]) return 0;
    if (!group) return groups >= columns;
    if (row_groups->len != n * 4) return 0;
    for (int64_t i = 0; i < n; i++)
        if (group[i] >= groups) return 0;
    return 1;
}

/* An index is of one group, and its last bucket ends with the scores. */
static int index_fits(const Py_buffer *starts, const Py_buffer *offsets) {
    const int32_t *start = starts->buf;
    const int64_t *offset = offsets->buf, last = starts->len / 4 - 1;
    return !start || (offsets->len == 16 && last > 0 && start[0] == 0 && start[last] == offset[1]);
}

/* A bit for every count of every group, 0 .. n of it. */
static int rounding_fits(const Py_buffer *rounding, const Py_buffer *offsets) {
    const int64_t *offset = offsets->buf, groups = offsets->len / 8 - 1;
    return rounding->buf && rounding->len * 8 >= offset[groups] + groups;
}

static int labels_fit(const Py_buffer *labels, int64_t n, int64_t columns) {
    const int64_t *label = labels->buf;
    if (labels->len != n * 8) return 0;
    for (int64_t i = 0; i < n; i++)
        if (label[i] < 0 || label[i] >= columns) return 0;
    return 1;
}

/* Row i is cut at the thresholds from i * stride on. */
static int wanted_fits(const Py_buffer *thresholds, int64_t n_thresholds, int64_t stride, int64_t n) {
    return n_thresholds > 0 && stride >= 0 && (n == 0 || thresholds->len / 8 >= (n - 1) * stride + n_thresholds);
}
#endif
