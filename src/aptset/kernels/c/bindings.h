/* More bindings for Python, to what starts from scores and to plain arrays; part of compiled.c. */
#ifndef APTSET_BINDINGS_H
#define APTSET_BINDINGS_H
#include <stdlib.h>

/* Counts (added to what is there) or p-values of a matrix of scores. */
static PyObject *of_scores(PyObject *args, int with_p) {
    Known k = {0};
    Py_buffer scores, out;
    long long columns;
    if (!PyArg_ParseTuple(args, "y*L" KNOWN_FORMAT "w*", &scores, &columns, KNOWN_ARGUMENTS(k), &out)) return NULL;
    int64_t n = rows_of(scores.len, 8 * columns);
    int all_fits;
    Calibrated calibrated = calibrated_of(&k);
    Py_BEGIN_ALLOW_THREADS
    all_fits = n >= 0 && scores.len == n * columns * 8 && out.len == n * columns * (with_p ? 8 : 4) && known_fits(&k, n, columns, with_p);
    if (all_fits) loops->counts_of_scores(&calibrated, n, columns, scores.buf, with_p ? NULL : out.buf, with_p ? out.buf : NULL);
    Py_END_ALLOW_THREADS
    release_known(&k);
    PyBuffer_Release(&scores);
    PyBuffer_Release(&out);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

static PyObject *counts_of_scores(PyObject *self, PyObject *args) { return of_scores(args, 0); }
static PyObject *p_values_of_scores(PyObject *self, PyObject *args) { return of_scores(args, 1); }

/* Sets of rows with seeds at a threshold for every cell: sizes and members, or flags (zeros that came). Returns how many members there are. */
static PyObject *by_cell(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer scores, thresholds, sizes, members, flags;
    Scratch scratch;
    Tile *tile;
    long long columns, n, by_row, by_column, min_size, width;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "Ly*y*LLLz*z*Lz*", JOB_ARGUMENTS(a, columns, key), &n, &scores, &thresholds, &by_row, &by_column, &min_size,
                          &sizes, &members, &width, &flags))
        return NULL;
    complete(&a, columns, key, n);
    int64_t wide = by_column ? columns : 1, written = 0;
    ByCell wanted = {scores.buf, thresholds.buf, by_row ? wide : 0, by_column ? 1 : 0, min_size, sizes.buf, {members.buf, (int)width}, flags.buf};
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && a.seeds.buf && scores.len == n * columns * 8 && thresholds.len == (by_row ? n : 1) * wide * 8
        && (flags.buf ? flags.len == n * columns : sizes.buf && sizes.len == n * 4 && room_for_members_fits(&members, n * columns, width));
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        written = loops->by_cell(&a.job, n, scratch, &wanted);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&scores);
    PyBuffer_Release(&thresholds);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&members);
    PyBuffer_Release(&flags);
    return room ? PyLong_FromLongLong(written) : refuse(all_fits);
}

/* Scores of own mass times a factor: of every label, or of one of each row where labels come. Returns the first bad row or -1. */
static PyObject *own_mass(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer factors, labels, scores;
    Scratch scratch;
    Tile *tile;
    double constant, noise;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "y*ddz*w*", JOB_ARGUMENTS(a, columns, key), &factors, &constant, &noise, &labels, &scores)) return NULL;
    complete(&a, columns, key, rows_of(scores.len, 8 * (labels.buf ? 1 : columns)));
    OwnMass formula = {factors.buf, constant, noise};
    int64_t bad = -1;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && factors.len == columns * 8 && scores.len == a.n * (labels.buf ? 1 : columns) * 8
        && (!labels.buf || labels_fit(&labels, a.n, columns));
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        bad = loops->own_mass(&a.job, a.n, scratch, &formula, labels.buf, scores.buf);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&factors);
    PyBuffer_Release(&labels);
    PyBuffer_Release(&scores);
    return room ? PyLong_FromLongLong(bad) : refuse(all_fits);
}

/* Scores of ordered labels: of every label, or of one of each row where labels come. Returns the first bad row or -1. */
static PyObject *ordered(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer order, labels, scores;
    Scratch scratch;
    Tile *tile;
    int is_central;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "y*pz*w*", JOB_ARGUMENTS(a, columns, key), &order, &is_central, &labels, &scores)) return NULL;
    complete(&a, columns, key, rows_of(scores.len, 8 * (labels.buf ? 1 : columns)));
    Ordering of_labels = {order.buf, is_central};
    int64_t bad = -1;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && labels_fit(&order, columns, columns) && scores.len == a.n * (labels.buf ? 1 : columns) * 8
        && (!labels.buf || labels_fit(&labels, a.n, columns));
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        bad = loops->ordered(&a.job, a.n, scratch, &of_labels, labels.buf, scores.buf);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&order);
    PyBuffer_Release(&labels);
    PyBuffer_Release(&scores);
    return room ? PyLong_FromLongLong(bad) : refuse(all_fits);
}

/* Where labels stand: own, above and rank, one after the other; then top, second, total, with_mass and u. Returns the first bad row or -1. */
static PyObject *standing(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer of_labels, of_rows;
    Scratch scratch;
    Tile *tile;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "w*w*", JOB_ARGUMENTS(a, columns, key), &of_labels, &of_rows)) return NULL;
    complete(&a, columns, key, rows_of(of_rows.len, 5 * 8));
    int64_t bad = -1, cells = a.n * columns;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && columns > 1 && of_labels.len == 3 * cells * 8 && of_rows.len == 5 * a.n * 8;
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        double *label = of_labels.buf, *row = of_rows.buf;
        Standing to = {label, label + cells, label + 2 * cells, row, row + a.n, row + 2 * a.n, row + 3 * a.n, row + 4 * a.n};
        bad = loops->standing(&a.job, a.n, scratch, tile, &to);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&of_labels);
    PyBuffer_Release(&of_rows);
    return room ? PyLong_FromLongLong(bad) : refuse(all_fits);
}

static PyObject *softmax(PyObject *self, PyObject *args) {
    Py_buffer logits, constants, to;
    long long columns;
    if (!PyArg_ParseTuple(args, "y*Ly*w*", &logits, &columns, &constants, &to)) return NULL;
    int64_t n = rows_of(to.len, 8 * columns);
    int is_single = logits.len == n * columns * 4;
    int all_fits;
    double *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = n >= 0 && to.len == n * columns * 8 && (is_single || logits.len == to.len) && constants.len == sizeof(Exponential);
    room = all_fits ? malloc((size_t)columns * 8) : NULL;
    if (room) {
        loops->softmax(constants.buf, logits.buf, is_single, n, columns, room, to.buf);
        free(room);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&logits);
    PyBuffer_Release(&constants);
    PyBuffer_Release(&to);
    return room ? Py_NewRef(Py_None) : refuse(all_fits);
}

/* Ratios of whole numbers below 2^62, and which of them are open. */
static PyObject *ratios(PyObject *self, PyObject *args) {
    Py_buffer above, below, powers, tenths, to, is_open;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*w*", &above, &below, &powers, &tenths, &to, &is_open)) return NULL;
    int64_t n = is_open.len, decades = tenths.len / 8;
    int all_fits = above.len == n * 8 && below.len == n * 8 && to.len == n * 8 && decades > 0
        && powers.len >= (decades + LONG_DIGITS + 1) * 16;
    if (all_fits) {
        Decimals decimals = {powers.buf, tenths.buf, decades};
        Py_BEGIN_ALLOW_THREADS
        loops->ratios(above.buf, below.buf, n, &decimals, to.buf, is_open.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&above);
    PyBuffer_Release(&below);
    PyBuffer_Release(&powers);
    PyBuffer_Release(&tenths);
    PyBuffer_Release(&to);
    PyBuffer_Release(&is_open);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

#define FIRST_SLOTS 1024
#define ITEMS_AT_ONCE (1 << 20) /* before signals are looked at: Ctrl-C comes through */

typedef struct { const uint8_t *items; int64_t n, width, done, n_codes; int32_t *numbers; int64_t *firsts; } Numbering;

/* Number some of the items, in a larger table where this one is half full; no table is left where memory is short. */
static void number_items_of(Numbering *a, Table *t) {
    int64_t stop = a->n - a->done < ITEMS_AT_ONCE ? a->n : a->done + ITEMS_AT_ONCE;
    while (a->done < stop) {
        a->done = number_items(a->items, a->done, stop, a->width, *t, a->numbers, a->firsts, &a->n_codes);
        if (a->done == stop) return;
        free(t->slots);
        *t = (Table){calloc(4 * (t->last + 1), sizeof(int32_t)), 4 * (t->last + 1) - 1, &secret};
        if (!t->slots) return;
        fill_table(a->items, a->width, a->firsts, a->n_codes, *t);
    }
}

/* The number of each item of so many bytes, and the first row of each number. */
static PyObject *codes(PyObject *self, PyObject *args) {
    Py_buffer items, numbers, firsts;
    if (!PyArg_ParseTuple(args, "y*w*w*", &items, &numbers, &firsts)) return NULL;
    int64_t n = numbers.len / 4, width = n ? items.len / n : 0;
    int all_fits = items.len == n * width && firsts.len == n * 8, stops = 0;
    Numbering a = {items.buf, n, width, 0, 0, numbers.buf, firsts.buf};
    Table table = {all_fits ? calloc(FIRST_SLOTS, sizeof(int32_t)) : NULL, FIRST_SLOTS - 1, &secret};
    while (table.slots && a.done < n && !stops) {
        Py_BEGIN_ALLOW_THREADS
        number_items_of(&a, &table);
        Py_END_ALLOW_THREADS
        stops = PyErr_CheckSignals();
    }
    int has_room = table.slots != NULL;
    free(table.slots);
    PyBuffer_Release(&items);
    PyBuffer_Release(&numbers);
    PyBuffer_Release(&firsts);
    return stops ? NULL : has_room ? PyLong_FromLongLong(a.n_codes) : refuse(all_fits);
}

#define MORE_DOORS \
    {"counts_of_scores", counts_of_scores, METH_VARARGS, "Calibration scores below each of a matrix of scores."}, \
    {"p_values_of_scores", p_values_of_scores, METH_VARARGS, "The p-value of each of a matrix of scores."}, \
    {"by_cell", by_cell, METH_VARARGS, "Members of each row at a threshold for every cell."}, \
    {"own_mass", own_mass, METH_VARARGS, "Scores of own mass times a factor."}, \
    {"ordered", ordered, METH_VARARGS, "Scores of ordered labels."}, \
    {"standing", standing, METH_VARARGS, "Where every label stands."}, \
    {"softmax", softmax, METH_VARARGS, "The probabilities of logits."}, \
    {"ratios", ratios, METH_VARARGS, "Ratios of whole numbers, rounded like p-values."}, \
    {"codes", codes, METH_VARARGS, "The number of each item among the different ones."},
#endif
