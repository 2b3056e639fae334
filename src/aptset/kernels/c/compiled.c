/* Python's door to the loops: takes contiguous buffers, lets go of the interpreter, returns the first bad row or -1.
 * Nothing is checked here; kernels/*.py prepare every argument. Stable ABI, so one build serves every Python >= 3.11. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "cuts.h"
#include "order.h"
#include "places.h"

#define JOB_FORMAT "y*Ly*y*Kdz*z*" /* rows, columns, weights, column_keys, key, tolerance, seeds, u */

typedef struct {
    Py_buffer rows, weights, keys, seeds, u;
    Job job;
    int64_t n;
    int is_single;
} Arguments;

#define JOB_ARGUMENTS(a, columns, key) \
    &(a).rows, &(columns), &(a).weights, &(a).keys, &(key), &(a).job.tolerance, &(a).seeds, &(a).u

static void complete(Arguments *a, long long columns, unsigned long long key, int64_t n) {
    a->job.columns = columns;
    a->job.key = key;
    a->job.weights = a->weights.buf;
    a->job.column_keys = a->keys.buf;
    a->n = n;
    a->is_single = a->rows.len == n * columns * 4;
}

static void release(Arguments *a) {
    PyBuffer_Release(&a->rows);
    PyBuffer_Release(&a->weights);
    PyBuffer_Release(&a->keys);
    PyBuffer_Release(&a->seeds);
    PyBuffer_Release(&a->u);
}

static PyObject *label_scores(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer labels, scores;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "y*w*", JOB_ARGUMENTS(a, columns, key), &labels, &scores)) return NULL;
    complete(&a, columns, key, scores.len / 8);
    int64_t bad;
    Py_BEGIN_ALLOW_THREADS
    bad = (a.is_single ? label_scores_single : label_scores_double)(a.rows.buf, a.n, &a.job, labels.buf, a.seeds.buf,
                                                                    a.u.buf, scores.buf);
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&labels);
    PyBuffer_Release(&scores);
    return PyLong_FromLongLong(bad);
}

static int take_scratch(Scratch *s, int64_t columns) {
    s->entries = PyMem_Malloc((size_t)columns * (2 * sizeof(Entry) + sizeof(double)));
    if (!s->entries) return 0;
    s->spare = s->entries + columns;
    s->scores = (double *)(s->spare + columns);
    return 1;
}

INLINE Loaded load_nth(const Arguments *a, int64_t i, Entry *entries) {
    const char *row = (const char *)a->rows.buf + i * a->job.columns * (a->is_single ? 4 : 8);
    const uint64_t *seed = a->seeds.buf ? (const uint64_t *)a->seeds.buf + i : NULL;
    const double *u = a->u.buf ? (const double *)a->u.buf + i : NULL;
    return a->is_single ? load_row(row, 1, &a->job, seed, u, entries) : load_row(row, 0, &a->job, seed, u, entries);
}

VECTOR_CLONES static int64_t all_scores_loop(const Arguments *a, Scratch s, double *scores) {
    for (int64_t i = 0; i < a->n; i++) {
        Loaded row = load_nth(a, i, s.entries);
        if (row.bad) return i;
        order_entries(s.entries, s.spare, a->job.columns, row.tie_seed);
        ordered_scores(s.entries, a->job.columns, &row, &a->job, s.scores);
        for (int64_t r = 0; r < a->job.columns; r++) scores[i * a->job.columns + s.entries[r].column] = s.scores[r];
    }
    return -1;
}

static PyObject *all_scores(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer scores;
    Scratch scratch;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "w*", JOB_ARGUMENTS(a, columns, key), &scores)) return NULL;
    complete(&a, columns, key, scores.len / 8 / columns);
    int64_t bad = -1;
    int ready = take_scratch(&scratch, columns);
    if (ready) {
        Py_BEGIN_ALLOW_THREADS
        bad = all_scores_loop(&a, scratch, scores.buf);
        Py_END_ALLOW_THREADS
        PyMem_Free(scratch.entries);
    }
    release(&a);
    PyBuffer_Release(&scores);
    return ready ? PyLong_FromLongLong(bad) : PyErr_NoMemory();
}

/* How many calibration scores lie below a score; `sorted` may be empty. */
INLINE int32_t count_below(const double *sorted, int64_t n, double score) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t k = low + (high - low) / 2;
        if (sorted[k] < score) low = k + 1; else high = k;
    }
    return (int32_t)low;
}

/* Add to each label's count the calibration scores of its group below its score. The scores of group g are
 * sorted[offsets[g] .. offsets[g + 1]); a label's group is its column, or the one of its row (-1: none, adds nothing). */
VECTOR_CLONES static int64_t counts_loop(const Arguments *a, Scratch s, const double *sorted, const int64_t *offsets,
                                         const int32_t *row_groups, int32_t *counts) {
    int64_t columns = a->job.columns;
    for (int64_t i = 0; i < a->n; i++) {
        Loaded row = load_nth(a, i, s.entries);
        if (row.bad) return i;
        if (row_groups && row_groups[i] < 0) continue;
        order_entries(s.entries, s.spare, columns, row.tie_seed);
        ordered_scores(s.entries, columns, &row, &a->job, s.scores);
        for (int64_t r = 0; r < columns; r++) {
            int64_t column = s.entries[r].column, group = row_groups ? row_groups[i] : column;
            counts[i * columns + column] +=
                count_below(sorted + offsets[group], offsets[group + 1] - offsets[group], s.scores[r]);
        }
    }
    return -1;
}

static PyObject *add_counts(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer sorted, offsets, row_groups, counts;
    Scratch scratch;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "y*y*z*w*", JOB_ARGUMENTS(a, columns, key), &sorted, &offsets, &row_groups,
                          &counts))
        return NULL;
    complete(&a, columns, key, counts.len / 4 / columns);
    int64_t bad = -1;
    int ready = take_scratch(&scratch, columns);
    if (ready) {
        Py_BEGIN_ALLOW_THREADS
        bad = counts_loop(&a, scratch, sorted.buf, offsets.buf, row_groups.buf, counts.buf);
        Py_END_ALLOW_THREADS
        PyMem_Free(scratch.entries);
    }
    release(&a);
    PyBuffer_Release(&sorted);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&row_groups);
    PyBuffer_Release(&counts);
    return ready ? PyLong_FromLongLong(bad) : PyErr_NoMemory();
}

/* Thresholds are (n, n_thresholds); sizes are (n_thresholds, n); members are written one row after the other. */
VECTOR_CLONES static int64_t cuts_loop(const Arguments *a, Scratch s, const double *thresholds, int64_t n_thresholds,
                                       int64_t at_least, int32_t *sizes, int32_t *members) {
    int64_t written = 0;
    for (int64_t i = 0; i < a->n; i++) {
        Loaded row = load_nth(a, i, s.entries);
        if (row.bad) return i;
        written += cut_row(&row, &a->job, thresholds + i * n_thresholds, n_thresholds, at_least, s, sizes + i, a->n,
                           members + written);
    }
    return -1;
}

static PyObject *cuts(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer thresholds, sizes, members;
    Scratch scratch;
    long long columns, n_thresholds, at_least;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "y*LLw*w*", JOB_ARGUMENTS(a, columns, key), &thresholds, &n_thresholds,
                          &at_least, &sizes, &members))
        return NULL;
    complete(&a, columns, key, sizes.len / 4 / n_thresholds);
    int64_t bad = -1;
    int ready = take_scratch(&scratch, columns);
    if (ready) {
        Py_BEGIN_ALLOW_THREADS
        bad = cuts_loop(&a, scratch, thresholds.buf, n_thresholds, at_least, sizes.buf, members.buf);
        Py_END_ALLOW_THREADS
        PyMem_Free(scratch.entries);
    }
    release(&a);
    PyBuffer_Release(&thresholds);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&members);
    return ready ? PyLong_FromLongLong(bad) : PyErr_NoMemory();
}

/* Values may be anything here, missing ones too: every NaN hashes alike. */
INLINE void hash_rows_of(const void *rows, int is_single, int64_t n, int64_t columns, const uint64_t *keys, uint64_t key,
                         uint64_t *seeds) {
    for (int64_t i = 0; i < n; i++) {
        const char *row = (const char *)rows + i * columns * (is_single ? 4 : 8);
        uint64_t hash = 0;
        for (int64_t j = 0; j < columns; j++) {
            double x = AS_DOUBLE(row, is_single, j);
            hash += hash_word(x == x ? bits_of(x) : 0x7FF8000000000000u, keys[j]);
        }
        seeds[i] = seed_of(hash, key);
    }
}
VECTOR_CLONES static void hash_rows_single(const void *rows, int64_t n, int64_t columns, const uint64_t *keys, uint64_t key,
                                           uint64_t *seeds) {
    hash_rows_of(rows, 1, n, columns, keys, key, seeds);
}
VECTOR_CLONES static void hash_rows_double(const void *rows, int64_t n, int64_t columns, const uint64_t *keys, uint64_t key,
                                           uint64_t *seeds) {
    hash_rows_of(rows, 0, n, columns, keys, key, seeds);
}

static PyObject *hash_rows(PyObject *self, PyObject *args) {
    Py_buffer rows, keys, seeds;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, "y*y*Kw*", &rows, &keys, &key, &seeds)) return NULL;
    int64_t n = seeds.len / 8, columns = keys.len / 8;
    Py_BEGIN_ALLOW_THREADS
    (rows.len == n * columns * 4 ? hash_rows_single : hash_rows_double)(rows.buf, n, columns, keys.buf, key, seeds.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&rows);
    PyBuffer_Release(&keys);
    PyBuffer_Release(&seeds);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"label_scores", label_scores, METH_VARARGS, "Score of one label per row."},
    {"all_scores", all_scores, METH_VARARGS, "Score of every label of every row."},
    {"hash_rows", hash_rows, METH_VARARGS, "Keyed seed of every row."},
    {"add_counts", add_counts, METH_VARARGS, "Calibration scores below the score of every label."},
    {"cuts", cuts, METH_VARARGS, "Members of each row at its thresholds."},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_compiled", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&module); }
