/* Whether buffers are as long as the loops will walk, and whether what came from a file points into them. */
#ifndef APTSET_BUFFER_CHECKS_H
#define APTSET_BUFFER_CHECKS_H
#include <stdint.h>

INLINE int64_t rows_of(int64_t bytes, int64_t bytes_a_row) { return bytes_a_row > 0 ? bytes / bytes_a_row : -1; }

/* Rows are float64 or float32; seeds and u may be left out. */
/* Members are numbers of so many bytes, for as many labels at most. */
static int room_for_members_fits(const Py_buffer *members, int64_t labels, int64_t width) {
    return members->buf && (width == 1 || width == 2 || width == 4) && members->len >= labels * width;
}

static int job_fits(const Py_buffer *rows, const Py_buffer *weights, const Py_buffer *keys, const Py_buffer *seeds,
                    const Py_buffer *u, int64_t n, int64_t columns) {
    return n >= 0 && columns > 0 && n <= INT64_MAX / 16 / columns && (rows->len == n * columns * 8 || rows->len == n * columns * 4)
        && weights->len == N_WEIGHTS * 8 && keys->len == columns * 8
        && (!seeds->buf || seeds->len == n * 8) && (!u->buf || u->len == n * 8);
}

/* Offsets must rise from 0 within the scores; there must be a group for every column, for what columns say, or for every id of a row. */
static int calibrated_fits(const Py_buffer *sorted, const Py_buffer *offsets, const Py_buffer *row_groups, const Py_buffer *of_columns, int64_t n,
                           int64_t columns) {
    const int64_t *offset = offsets->buf, groups = offsets->len / 8 - 1;
    const int32_t *group = row_groups->buf, *of_column = of_columns->buf;
    if (groups < 0 || offset[0] < 0 || offset[groups] > sorted->len / 8) return 0;
    for (int64_t g = 0; g < groups; g++)
        if (offset[g] > offset[g + 1]) return 0;
    if (of_column && of_columns->len != columns * 4) return 0;
    for (int64_t j = 0; j < columns && of_column; j++)
        if (of_column[j] < 0 || of_column[j] >= groups) return 0;
    if (!group) return of_column || groups >= columns;
    if (row_groups->len != n * 4) return 0;
    for (int64_t i = 0; i < n; i++)
        if (group[i] >= groups) return 0;
    return 1;
}

/* The starts of each group rise from 0 to its number of scores, as far as is looked at: the first, the last and where they stand. Finer lists
 * come behind those of the groups, and of two lists the later one is the finer. */
static int index_fits(const Py_buffer *starts, const Py_buffer *firsts, const Py_buffer *low, const Py_buffer *scale, const Py_buffer *finer,
                      const Py_buffer *offsets) {
    const int32_t *start = starts->buf, *list_of = finer->buf;
    const int64_t *offset = offsets->buf, *first = firsts->buf, groups = offsets->len / 8 - 1;
    if (!start) return !list_of;
    if (!first) return 0;
    int64_t lists = firsts->len / 8 - 1;
    if (lists < groups || (lists > groups && !list_of) || low->len != lists * 8 || scale->len != lists * 8) return 0;
    if (first[0] != 0 || first[lists] != starts->len / 4 || (list_of && finer->len != starts->len)) return 0;
    for (int64_t g = 0; g < lists; g++) {
        if (first[g] > first[g + 1] || (g >= groups && first[g + 1] - first[g] < 2)) return 0;
        if (g < groups && first[g + 1] - first[g] > 1 && (start[first[g]] != 0 || start[first[g + 1] - 1] != offset[g + 1] - offset[g])) return 0;
        for (int64_t k = first[g]; k < first[g + 1] && list_of; k++)
            if (list_of[k] && (list_of[k] < groups || list_of[k] <= g || list_of[k] >= lists)) return 0;
    }
    return 1;
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

/* The largest of the sizes of rows with `count` members in all; -1 if they do not add up to that. */
static int64_t members_fit(const Py_buffer *sizes, int64_t count) {
    const int32_t *size = sizes->buf;
    int64_t longest = 0;
    for (int64_t i = 0; i < sizes->len / 4; i++) {
        if (size[i] < 0 || size[i] > count) return -1;
        count -= size[i];
        longest = size[i] > longest ? size[i] : longest;
    }
    return count == 0 ? longest : -1;
}

/* Row i is cut at the thresholds from i * stride on. */
static int wanted_fits(const Py_buffer *thresholds, int64_t n_thresholds, int64_t stride, int64_t n) {
    return n_thresholds > 0 && stride >= 0 && (n == 0 || thresholds->len / 8 >= (n - 1) * stride + n_thresholds);
}
#endif
