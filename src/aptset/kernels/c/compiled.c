/* Python's door to the loops: takes contiguous buffers, lets go of the interpreter, returns the first bad row or -1.
 * Nothing is checked here; kernels/*.py prepare every argument. Stable ABI, so one build serves every Python >= 3.11. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "cuts.h"
#include "order.h"
#include "places.h"
#include "slabs.h"

#define JOB_FORMAT "y*Ly*y*Kdz*z*" /* rows, columns, weights, column_keys, key, tolerance, seeds, u */

typedef struct {
    Py_buffer rows, weights, keys, seeds, u;
    Job job;
    int64_t n;
} Arguments;

#define JOB_ARGUMENTS(a, columns, key) \
    &(a).rows, &(columns), &(a).weights, &(a).keys, &(key), &(a).job.tolerance, &(a).seeds, &(a).u

static void complete(Arguments *a, long long columns, unsigned long long key, int64_t n) {
    a->n = n;
    a->job.rows = a->rows.buf;
    a->job.is_single = a->rows.len == n * columns * 4;
    a->job.columns = columns;
    a->job.weights = a->weights.buf;
    a->job.column_keys = a->keys.buf;
    a->job.key = key;
    a->job.seeds = a->seeds.buf;
    a->job.u = a->u.buf;
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
    bad = label_scores_loop(&a.job, a.n, labels.buf, scores.buf);
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&labels);
    PyBuffer_Release(&scores);
    return PyLong_FromLongLong(bad);
}

/* Room for one row, and for a tile of narrow ones (first, since vectors must be aligned). */
static void *take_room(int64_t columns, Scratch *s, Tile *t) {
    int64_t tile = columns <= WIDEST_TILE ? columns : 0;
    size_t bytes = (size_t)(3 * tile + 1) * sizeof(Doubles) + (size_t)((columns + 1) * 2) * sizeof(Entry);
    char *room = PyMem_Malloc(bytes + (size_t)columns * sizeof(double));
    if (!room) return NULL;
    t->value = (Doubles *)(((uintptr_t)room + sizeof(Doubles) - 1) / sizeof(Doubles) * sizeof(Doubles));
    t->mass = t->value + tile;
    t->score = t->mass + tile;
    s->entries = (Entry *)(t->score + tile);
    s->spare = s->entries + columns + 1;
    s->scores = (double *)(s->spare + columns + 1);
    return room;
}

/* Score every label of row i by sorting it: entries in order, their scores upward. */
INLINE Loaded score_row(const Job *job, int64_t i, Scratch s) {
    Loaded row = load_row(job, i, s.entries);
    if (row.bad) return row;
    order_entries(s.entries, s.spare, job->columns, row.tie_seed);
    ordered_scores(s.entries, job->columns, &row, job, s.scores);
    return row;
}

#define EACH_TILE(start, count, n) \
    for (int64_t start = 0, count; start < (n) && (count = (n) - start < LANES ? (n) - start : LANES); start += LANES)

VECTOR_CLONES static int64_t all_scores_loop(const Job *job, int64_t n, Scratch s, Tile t, double *scores) {
    int64_t columns = job->columns;
    EACH_TILE(start, count, n) {
        int narrow = columns <= WIDEST_TILE;
        if (narrow) score_tile(job, start, count, &t);
        if (narrow && t.first_bad >= 0) return t.first_bad;
        for (int64_t i = 0; i < count; i++) {
            double *out = scores + (start + i) * columns;
            if (narrow && !t.slow[i]) {
                for (int64_t k = 0; k < columns; k++) out[k] = lane_of(t.score + k, i);
                continue;
            }
            if (score_row(job, start + i, s).bad) return start + i;
            for (int64_t r = 0; r < columns; r++) out[s.entries[r].column] = s.scores[r];
        }
    }
    return -1;
}

static PyObject *all_scores(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer scores;
    Scratch scratch;
    Tile tile;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "w*", JOB_ARGUMENTS(a, columns, key), &scores)) return NULL;
    complete(&a, columns, key, scores.len / 8 / columns);
    int64_t bad = -1;
    void *room = take_room(columns, &scratch, &tile);
    if (room) {
        Py_BEGIN_ALLOW_THREADS
        bad = all_scores_loop(&a.job, a.n, scratch, tile, scores.buf);
        Py_END_ALLOW_THREADS
        PyMem_Free(room);
    }
    release(&a);
    PyBuffer_Release(&scores);
    return room ? PyLong_FromLongLong(bad) : PyErr_NoMemory();
}

/* How many of n sorted calibration scores lie below a score: halving without branches. */
INLINE int32_t count_below(const double *sorted, int64_t n, double score) {
    const double *base = sorted;
    for (int64_t left = n; left > 0;) {
        int64_t half = (left + 1) / 2;
        base += half & -(int64_t)(base[half - 1] < score);
        left -= half;
    }
    return (int32_t)(base - sorted);
}

typedef struct { const double *sorted; const int64_t *offsets; const int32_t *row_groups; } Calibrated;

/* Calibration scores of its group below the score of a label. The scores of group g are sorted[offsets[g] ..
 * offsets[g + 1]); a label's group is its column, or the one of its row (-1: never seen, nothing below). */
INLINE int32_t count_for(const Calibrated *c, int64_t i, int64_t column, double score) {
    int64_t group = c->row_groups ? c->row_groups[i] : column;
    return group < 0 ? 0 : count_below(c->sorted + c->offsets[group], c->offsets[group + 1] - c->offsets[group], score);
}

VECTOR_CLONES static int64_t counts_loop(const Job *job, int64_t n, Scratch s, Tile t, const Calibrated *c, int32_t *counts) {
    int64_t columns = job->columns;
    EACH_TILE(start, count, n) {
        int narrow = columns <= WIDEST_TILE;
        if (narrow) score_tile(job, start, count, &t);
        if (narrow && t.first_bad >= 0) return t.first_bad;
        for (int64_t i = 0; i < count; i++) {
            int32_t *out = counts + (start + i) * columns;
            if (narrow && !t.slow[i]) {
                for (int64_t k = 0; k < columns; k++) out[k] += count_for(c, start + i, k, lane_of(t.score + k, i));
                continue;
            }
            if (score_row(job, start + i, s).bad) return start + i;
            for (int64_t r = 0; r < columns; r++) {
                int64_t column = s.entries[r].column;
                out[column] += count_for(c, start + i, column, s.scores[r]);
            }
        }
    }
    return -1;
}

static PyObject *add_counts(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer sorted, offsets, row_groups, counts;
    Scratch scratch;
    Tile tile;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "y*y*z*w*", JOB_ARGUMENTS(a, columns, key), &sorted, &offsets, &row_groups,
                          &counts))
        return NULL;
    complete(&a, columns, key, counts.len / 4 / columns);
    Calibrated calibrated = {sorted.buf, offsets.buf, row_groups.buf};
    int64_t bad = -1;
    void *room = take_room(columns, &scratch, &tile);
    if (room) {
        Py_BEGIN_ALLOW_THREADS
        bad = counts_loop(&a.job, a.n, scratch, tile, &calibrated, counts.buf);
        Py_END_ALLOW_THREADS
        PyMem_Free(room);
    }
    release(&a);
    PyBuffer_Release(&sorted);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&row_groups);
    PyBuffer_Release(&counts);
    return room ? PyLong_FromLongLong(bad) : PyErr_NoMemory();
}

/* Members are written one row after the other. */
VECTOR_CLONES static int64_t cuts_loop(const Job *job, int64_t n, Scratch s, Tile t, const Wanted *w, int32_t *members) {
    EACH_TILE(start, count, n) {
        int narrow = job->columns <= WIDEST_TILE;
        if (narrow) score_tile(job, start, count, &t);
        if (narrow && t.first_bad >= 0) return t.first_bad;
        for (int64_t i = 0; i < count; i++) {
            if (narrow && !t.slow[i]) {
                members += cut_lane(&t, i, job, start + i, w, s, members);
                continue;
            }
            Loaded row = load_row(job, start + i, s.entries);
            if (row.bad) return start + i;
            members += cut_row(&row, job, start + i, w, s, members);
        }
    }
    return -1;
}

static PyObject *cuts(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer thresholds, sizes, members;
    Scratch scratch;
    Tile tile;
    long long columns, n_thresholds, at_least;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "y*LLw*w*", JOB_ARGUMENTS(a, columns, key), &thresholds, &n_thresholds,
                          &at_least, &sizes, &members))
        return NULL;
    complete(&a, columns, key, sizes.len / 4 / n_thresholds);
    Wanted wanted = {thresholds.buf, n_thresholds, at_least, a.n, sizes.buf};
    int64_t bad = -1;
    void *room = take_room(columns, &scratch, &tile);
    if (room) {
        Py_BEGIN_ALLOW_THREADS
        bad = cuts_loop(&a.job, a.n, scratch, tile, &wanted, members.buf);
        Py_END_ALLOW_THREADS
        PyMem_Free(room);
    }
    release(&a);
    PyBuffer_Release(&thresholds);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&members);
    return room ? PyLong_FromLongLong(bad) : PyErr_NoMemory();
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

static PyObject *least_mean_(PyObject *self, PyObject *args) {
    Py_buffer position, covered;
    long long least;
    if (!PyArg_ParseTuple(args, "y*y*L", &position, &covered, &least)) return NULL;
    int64_t n = covered.len, sum = 1, count = 1;
    Prefix *prefix = PyMem_Malloc((size_t)(n + 1) * (sizeof(Prefix) + sizeof(int64_t)));
    if (prefix) {
        Py_BEGIN_ALLOW_THREADS
        least_mean(position.buf, covered.buf, n, least, prefix, (int64_t *)(prefix + n + 1), &sum, &count);
        Py_END_ALLOW_THREADS
        PyMem_Free(prefix);
    }
    PyBuffer_Release(&position);
    PyBuffer_Release(&covered);
    return prefix ? Py_BuildValue("LL", (long long)sum, (long long)count) : PyErr_NoMemory();
}

static PyObject *least_mean_bounds(PyObject *self, PyObject *args) {
    Py_buffer places, covered, bounds;
    long long least, n_bins;
    if (!PyArg_ParseTuple(args, "y*y*LLw*", &places, &covered, &least, &n_bins, &bounds)) return NULL;
    Bin *bins = PyMem_Malloc((size_t)n_bins * (sizeof(Bin) + sizeof(Prefix) + sizeof(int64_t)));
    if (bins) {
        Prefix *start = (Prefix *)(bins + n_bins);
        Py_BEGIN_ALLOW_THREADS
        bounds_loop(places.buf, covered.buf, covered.len, bounds.len / 8, least, bins, n_bins, start,
                    (int64_t *)(start + n_bins), bounds.buf);
        Py_END_ALLOW_THREADS
        PyMem_Free(bins);
    }
    PyBuffer_Release(&places);
    PyBuffer_Release(&covered);
    PyBuffer_Release(&bounds);
    if (!bins) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"label_scores", label_scores, METH_VARARGS, "Score of one label per row."},
    {"all_scores", all_scores, METH_VARARGS, "Score of every label of every row."},
    {"hash_rows", hash_rows, METH_VARARGS, "Keyed seed of every row."},
    {"add_counts", add_counts, METH_VARARGS, "Calibration scores below the score of every label."},
    {"least_mean", least_mean_, METH_VARARGS, "Least mean of a slab of sorted points."},
    {"least_mean_bounds", least_mean_bounds, METH_VARARGS, "What no slab of unsorted points falls below."},
    {"cuts", cuts, METH_VARARGS, "Members of each row at its thresholds."},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_compiled", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&module); }
