/* The bindings of the loops for Python: they take contiguous buffers, let go of the interpreter, return the first bad row or -1.
 * The modules of kernels prepare every argument; checked here are only lengths, and what points into memory, since some of it
 * comes from files; labels and groups of many rows are checked after the interpreter is let go of, since other threads wait for it. Stable ABI, so one build serves every Python >= 3.11. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "loops.h"
#include "codes.h"
#include "buffer_checks.h"
#include "p_value_rounding.h"

static const Loops *loops; /* those for this machine */
static Secret secret;

static const Loops *loops_of(const char *level) {
    const Loops *best = &baseline_loops;
#if defined(APTSET_LEVELS)
    __builtin_cpu_init();
    const Loops *others[] = {&v3_loops, &v4_loops};
    int runs[] = {__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"),
                  __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")
                      && __builtin_cpu_supports("avx512vl")};
    for (int k = 0; k < 2; k++)
        if (runs[k] && (!*level || !strcmp(level, others[k]->level))) best = others[k];
#endif
    return !*level || !strcmp(level, best->level) ? best : NULL;
}

#define JOB_FORMAT "y*Ly*y*Kdz*z*z*" /* rows, columns, weights, column_keys, key, tolerance, seeds, u, room for seeds */

typedef struct {
    Py_buffer rows, weights, keys, seeds, u, noted;
    Job job;
    int64_t n;
} Arguments;

#define JOB_ARGUMENTS(a, columns, key) \
    &(a).rows, &(columns), &(a).weights, &(a).keys, &(key), &(a).job.tolerance, &(a).seeds, &(a).u, &(a).noted

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
    a->job.noted = a->noted.buf;
}

static void release(Arguments *a) {
    PyBuffer_Release(&a->rows);
    PyBuffer_Release(&a->weights);
    PyBuffer_Release(&a->keys);
    PyBuffer_Release(&a->seeds);
    PyBuffer_Release(&a->u);
    PyBuffer_Release(&a->noted);
}

static int fits(const Arguments *a) {
    return job_fits(&a->rows, &a->weights, &a->keys, &a->seeds, &a->u, a->n, a->job.columns)
        && (!a->noted.buf || a->noted.len == a->n * 8);
}

/* Why there is no room for the work: nothing fits, or no memory is left. */
static PyObject *refuse(int all_fits) {
    if (all_fits) return PyErr_NoMemory();
    PyErr_SetString(PyExc_ValueError, "arrays must fit together: lengths, offsets, groups or labels point outside of them");
    return NULL;
}

/* Room for one wide row, or for a tile of narrow ones: vectors first, since they must be aligned, and as long as those of the widest machine. */
static void *take_room(Job *job, Scratch *s, Tile **t) {
    int64_t columns = job->columns, tile = columns <= WIDEST_TILE ? columns : 0, entries = columns + 1;
    int64_t numbers = tile * TILE_ROWS + (tile ? 2 * LONGEST_GROUP : 0);
    size_t held = ((size_t)columns * sizeof(double) + WIDEST_VECTOR - 1) / WIDEST_VECTOR * WIDEST_VECTOR;
    size_t bytes = WIDEST_VECTOR + (size_t)numbers * sizeof(double) + held + sizeof(Tile) + sizeof(Guess) + (size_t)(tile * tile) * sizeof(Exchange)
                 + (size_t)(3 * entries) * sizeof(Entry) + (size_t)columns * (2 * sizeof(double) + sizeof(int32_t))
                 + (size_t)rough_room(columns) * sizeof(float);
    char *room = malloc(bytes);
    if (!room) return NULL;
    double *value = (double *)(((uintptr_t)room + WIDEST_VECTOR - 1) / WIDEST_VECTOR * WIDEST_VECTOR), *key = value + tile * TILE_ROWS;
    job->held = value + numbers;
    *t = (Tile *)((char *)job->held + held);
    **t = (Tile){(Doubles *)value, (Doubles *)key, (Doubles *)(key + LONGEST_GROUP), NULL, 0, 0, 0};
    s->guess = (Guess *)(*t + 1);
    *s->guess = (Guess){0};
    s->entries = (Entry *)(s->guess + 1);
    s->spare = s->entries + entries;
    s->window = s->spare + entries;
    s->scores = (double *)(s->window + entries);
    s->least = s->scores + columns;
    s->columns = (int32_t *)(s->least + columns);
    s->rough = (float *)(s->columns + columns);
    (*t)->network = (Exchange *)(s->rough + rough_room(columns));
    (*t)->exchanges = tile ? make_network(tile, (*t)->network) : 0;
    return room;
}

static PyObject *label_scores(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer labels, scores;
    Scratch scratch;
    Tile *tile;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "y*w*", JOB_ARGUMENTS(a, columns, key), &labels, &scores)) return NULL;
    complete(&a, columns, key, rows_of(scores.len, 8));
    int64_t bad = -1;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && labels_fit(&labels, a.n, columns);
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        bad = loops->label_scores(&a.job, a.n, tile, labels.buf, scores.buf);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&labels);
    PyBuffer_Release(&scores);
    return room ? PyLong_FromLongLong(bad) : refuse(all_fits);
}

static PyObject *all_scores(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer scores;
    Scratch scratch;
    Tile *tile;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "w*", JOB_ARGUMENTS(a, columns, key), &scores)) return NULL;
    complete(&a, columns, key, rows_of(scores.len, 8 * columns));
    int64_t bad = -1;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && scores.len == a.n * columns * 8;
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        bad = loops->all_scores(&a.job, a.n, scratch, tile, scores.buf);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&scores);
    return room ? PyLong_FromLongLong(bad) : refuse(all_fits);
}

#define KNOWN_FORMAT "y*y*z*z*z*z*z*z*z*z*" /* sorted scores, offsets, groups of rows and of columns, the index, bits of rounding */

typedef struct { Py_buffer sorted, offsets, row_groups, of_columns, starts, firsts, low, scale, finer, rounding; } Known;

#define KNOWN_ARGUMENTS(k) \
    &(k).sorted, &(k).offsets, &(k).row_groups, &(k).of_columns, &(k).starts, &(k).firsts, &(k).low, &(k).scale, &(k).finer, &(k).rounding

static Calibrated calibrated_of(const Known *k) {
    Index index = {k->starts.buf, k->firsts.buf, k->low.buf, k->scale.buf, k->finer.buf};
    return (Calibrated){k->sorted.buf, k->offsets.buf, k->row_groups.buf, k->of_columns.buf, index, k->rounding.buf};
}

static int known_fits(const Known *k, int64_t n, int64_t columns, int with_p) {
    return calibrated_fits(&k->sorted, &k->offsets, &k->row_groups, &k->of_columns, n, columns)
        && index_fits(&k->starts, &k->firsts, &k->low, &k->scale, &k->finer, &k->offsets) && (!with_p || rounding_fits(&k->rounding, &k->offsets));
}

static void release_known(Known *k) {
    Py_buffer *all[] = {KNOWN_ARGUMENTS(*k)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
}

/* Counts (added to what is there) or, with the bits of their rounding, p-values. */
static PyObject *count_labels(PyObject *args, int with_p) {
    Arguments a = {0};
    Known k = {0};
    Py_buffer out;
    Scratch scratch;
    Tile *tile;
    long long columns;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT KNOWN_FORMAT "w*", JOB_ARGUMENTS(a, columns, key), KNOWN_ARGUMENTS(k), &out)) return NULL;
    int width = with_p ? 8 : 4;
    complete(&a, columns, key, rows_of(out.len, width * columns));
    Calibrated calibrated = calibrated_of(&k);
    int64_t bad = -1;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && out.len == a.n * columns * width && known_fits(&k, a.n, columns, with_p);
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        bad = with_p ? loops->p_values(&a.job, a.n, scratch, tile, &calibrated, out.buf)
                     : loops->counts(&a.job, a.n, scratch, tile, &calibrated, out.buf);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    release_known(&k);
    PyBuffer_Release(&out);
    return room ? PyLong_FromLongLong(bad) : refuse(all_fits);
}

static PyObject *add_counts(PyObject *self, PyObject *args) { return count_labels(args, 0); }
static PyObject *p_values(PyObject *self, PyObject *args) { return count_labels(args, 1); }

/* Sets with a threshold for every column: sizes and members, or flags (zeros that came). Returns the first bad row, and how many members. */
static PyObject *by_label(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer thresholds, sizes, members, flags;
    Scratch scratch;
    Tile *tile;
    long long columns, n, min_size, width;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT "Ly*Lz*z*Lz*", JOB_ARGUMENTS(a, columns, key), &n, &thresholds, &min_size, &sizes, &members,
                          &width, &flags))
        return NULL;
    complete(&a, columns, key, n);
    ByLabel wanted = {thresholds.buf, 0.0, 0, min_size, sizes.buf, {members.buf, (int)width}, flags.buf};
    int64_t bad = -1, written = 0;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && thresholds.len == columns * 8 && (flags.buf ? flags.len == n * columns
                   : sizes.buf && sizes.len == n * 4 && room_for_members_fits(&members, n * columns, width));
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        for (int64_t j = 0, first = 1; j < columns; j++) {
            if (wanted.thresholds[j] == INFINITY) { wanted.open = 1; continue; }
            if (first || wanted.thresholds[j] > wanted.most) wanted.most = wanted.thresholds[j];
            first = 0;
        }
        bad = loops->by_label(&a.job, a.n, scratch, tile, &wanted, &written);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&thresholds);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&members);
    PyBuffer_Release(&flags);
    return room ? Py_BuildValue("LL", (long long)bad, (long long)written) : refuse(all_fits);
}

#define WANTED_FORMAT "y*LLLw*" /* thresholds, how many a row, how far from row to row, at least, sizes or flags */

static PyObject *cuts(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer thresholds, sizes, members, values, tie_seeds;
    Scratch scratch;
    Tile *tile;
    long long columns, n_thresholds, stride, min_size, width;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT WANTED_FORMAT "w*Lz*z*", JOB_ARGUMENTS(a, columns, key), &thresholds, &n_thresholds,
                          &stride, &min_size, &sizes, &members, &width, &values, &tie_seeds))
        return NULL;
    complete(&a, columns, key, rows_of(sizes.len, 4 * n_thresholds));
    Wanted wanted = {thresholds.buf, n_thresholds, stride, min_size, a.n, sizes.buf};
    int64_t bad = -1, written = 0;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && wanted_fits(&thresholds, n_thresholds, stride, a.n) && room_for_members_fits(&members, a.n * columns, width)
        && (!values.buf || (tie_seeds.buf && n_thresholds == 1 && columns > WIDEST_TILE && values.len == a.rows.len && tie_seeds.len == a.n * 8));
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        bad = loops->cuts(&a.job, a.n, scratch, tile, &wanted, (Members){members.buf, (int)width},
                          (Waiting){values.buf, tie_seeds.buf}, &written);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&thresholds);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&members);
    PyBuffer_Release(&values);
    PyBuffer_Release(&tie_seeds);
    return room ? Py_BuildValue("LL", (long long)bad, (long long)written) : refuse(all_fits);
}

/* Put members that wait in order. */
static PyObject *order(PyObject *self, PyObject *args) {
    Py_buffer sizes, members, values, tie_seeds, ordered;
    Scratch scratch;
    Tile *tile;
    Job job = {0};
    long long width;
    if (!PyArg_ParseTuple(args, "y*y*Ly*y*w*", &sizes, &members, &width, &values, &tie_seeds, &ordered)) return NULL;
    int64_t n = sizes.len / 4, count = ordered.len / 4, longest = members_fit(&sizes, count);
    int is_single = values.len == count * 4;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = longest >= 0 && tie_seeds.len == n * 8 && room_for_members_fits(&members, count, width) && members.len == count * width && (is_single || values.len == count * 8);
    job.columns = longest > WIDEST_TILE ? longest : WIDEST_TILE + 1;
    room = all_fits ? take_room(&job, &scratch, &tile) : NULL;
    if (room) {
        loops->order(n, sizes.buf, (Members){members.buf, (int)width}, (Waiting){values.buf, tie_seeds.buf}, is_single, scratch, ordered.buf);
        free(room);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&members);
    PyBuffer_Release(&values);
    PyBuffer_Release(&tie_seeds);
    PyBuffer_Release(&ordered);
    return room ? Py_NewRef(Py_None) : refuse(all_fits);
}

/* Take the first sizes[i] of the longest[i] members of each row. */
static PyObject *beginnings(PyObject *self, PyObject *args) {
    Py_buffer members, longest, sizes, taken;
    if (!PyArg_ParseTuple(args, "y*y*y*w*", &members, &longest, &sizes, &taken)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    const int32_t *from = members.buf, *whole = longest.buf, *part = sizes.buf;
    int32_t *to = taken.buf;
    for (int64_t i = 0, n = sizes.len / 4; i < n; from += whole[i], to += part[i], i++)
        for (int32_t k = 0; k < part[i]; k++) to[k] = from[k];
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&members);
    PyBuffer_Release(&longest);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&taken);
    Py_RETURN_NONE;
}

static PyObject *masks(PyObject *self, PyObject *args) {
    Arguments a = {0};
    Py_buffer thresholds, flags;
    Scratch scratch;
    Tile *tile;
    long long columns, n_thresholds, stride, min_size;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, JOB_FORMAT WANTED_FORMAT, JOB_ARGUMENTS(a, columns, key), &thresholds, &n_thresholds, &stride,
                          &min_size, &flags))
        return NULL;
    complete(&a, columns, key, rows_of(flags.len, columns));
    Wanted wanted = {thresholds.buf, n_thresholds, stride, min_size, a.n, NULL};
    int64_t bad = -1;
    int all_fits;
    void *room;
    Py_BEGIN_ALLOW_THREADS
    all_fits = fits(&a) && flags.len == a.n * columns && wanted_fits(&thresholds, n_thresholds, stride, a.n);
    room = all_fits ? take_room(&a.job, &scratch, &tile) : NULL;
    if (room) {
        bad = loops->masks(&a.job, a.n, scratch, tile, &wanted, flags.buf);
        free(room);
    }
    Py_END_ALLOW_THREADS
    release(&a);
    PyBuffer_Release(&thresholds);
    PyBuffer_Release(&flags);
    return room ? PyLong_FromLongLong(bad) : refuse(all_fits);
}

static PyObject *hash_rows(PyObject *self, PyObject *args) {
    Py_buffer rows, keys, seeds;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, "y*y*Kw*", &rows, &keys, &key, &seeds)) return NULL;
    int64_t n = seeds.len / 8, columns = keys.len / 8;
    Py_BEGIN_ALLOW_THREADS
    loops->hash_rows(rows.buf, rows.len == n * columns * 4, n, columns, keys.buf, key, seeds.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&rows);
    PyBuffer_Release(&keys);
    PyBuffer_Release(&seeds);
    Py_RETURN_NONE;
}

static PyObject *copies_(PyObject *self, PyObject *args) {
    Py_buffer seeds, rows, other_seeds;
    unsigned long long first_block, side;
    if (!PyArg_ParseTuple(args, "y*KKw*w*", &seeds, &first_block, &side, &rows, &other_seeds)) return NULL;
    int64_t n_copies;
    Py_BEGIN_ALLOW_THREADS
    n_copies = find_copies(seeds.buf, seeds.len / 8, first_block, side, secret.words[0], rows.buf, other_seeds.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&seeds);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&other_seeds);
    return PyLong_FromLongLong(n_copies);
}

static PyObject *p_value_table(PyObject *self, PyObject *args) {
    Py_buffer table;
    if (!PyArg_ParseTuple(args, "w*", &table)) return NULL;
    int64_t done;
    Py_BEGIN_ALLOW_THREADS
    done = fill_p_values((uint64_t)(table.len / 8 - 1), table.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&table);
    return PyLong_FromLongLong(done);
}

static PyObject *least_mean_(PyObject *self, PyObject *args) {
    Py_buffer position, covered;
    long long least;
    if (!PyArg_ParseTuple(args, "y*y*L", &position, &covered, &least)) return NULL;
    int64_t n = covered.len, sum = 1, count = 1;
    Prefix *prefix = malloc((size_t)(n + 1) * (sizeof(Prefix) + sizeof(int64_t)));
    if (prefix) {
        Py_BEGIN_ALLOW_THREADS
        least_mean(position.buf, covered.buf, n, least, prefix, (int64_t *)(prefix + n + 1), &sum, &count);
        Py_END_ALLOW_THREADS
        free(prefix);
    }
    PyBuffer_Release(&position);
    PyBuffer_Release(&covered);
    return prefix ? Py_BuildValue("LL", (long long)sum, (long long)count) : PyErr_NoMemory();
}

static PyObject *worst_segment(PyObject *self, PyObject *args) {
    Py_buffer position, covered;
    long long least, sum, count;
    if (!PyArg_ParseTuple(args, "y*y*LLL", &position, &covered, &least, &sum, &count)) return NULL;
    int64_t n = covered.len, first = -1, last = -1;
    int all_fits = position.len == n * 8 && least > 0;
    Py_BEGIN_ALLOW_THREADS
    if (all_fits) find_segment(position.buf, covered.buf, n, least, sum, count, &first, &last);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&position);
    PyBuffer_Release(&covered);
    return all_fits ? Py_BuildValue("LL", (long long)first, (long long)last) : refuse(0);
}

/* Room for the bounds of many directions, as directions.h asks for it; NULL if there is none. */
static void *take_search_room(const Search *s, SearchRoom *r) {
    size_t at_once = (size_t)rows_at_once(s->features), bins = (size_t)s->n_bins, directions = (size_t)s->directions;
    size_t bytes = WIDEST_VECTOR + (at_once * (size_t)s->features + at_once) * sizeof(double) + directions * sizeof(Span)
                 + (at_once + directions * bins) * sizeof(uint64_t) + (bins + 1) * (sizeof(Prefix) + sizeof(int64_t)) + at_once * sizeof(int32_t);
    char *room = malloc(bytes);
    if (!room) return NULL;
    r->column = (double *)(((uintptr_t)room + WIDEST_VECTOR - 1) / WIDEST_VECTOR * WIDEST_VECTOR);
    r->place = r->column + at_once * (size_t)s->features;
    r->span = (Span *)(r->place + at_once);
    r->count = (uint64_t *)(r->span + directions);
    r->bins = r->count + at_once;
    r->start = (Prefix *)(r->bins + directions * bins);
    r->hull = (int64_t *)(r->start + bins + 1);
    r->index = (int32_t *)(r->hull + bins + 1);
    return room;
}

static PyObject *least_mean_bounds(PyObject *self, PyObject *args) {
    Py_buffer matrix, vectors, covered, bounds, known;
    long long least, n_bins;
    if (!PyArg_ParseTuple(args, "y*y*y*LLw*w*", &matrix, &vectors, &covered, &least, &n_bins, &bounds, &known)) return NULL;
    Search search = {matrix.buf, vectors.buf, covered.buf, covered.len, 0, bounds.len / 8, least, n_bins};
    search.features = search.n ? matrix.len / 8 / search.n : 0;
    int all_fits = search.features > 0 && n_bins > 0 && n_bins < INT32_MAX && matrix.len == search.n * search.features * 8
                && vectors.len == search.directions * search.features * 8 && known.len == 16;
    SearchRoom room;
    void *taken = all_fits ? take_search_room(&search, &room) : NULL;
    if (taken) {
        Py_BEGIN_ALLOW_THREADS
        loops->bounds(&search, &room, bounds.buf, known.buf);
        Py_END_ALLOW_THREADS
        free(taken);
    }
    PyBuffer_Release(&matrix);
    PyBuffer_Release(&vectors);
    PyBuffer_Release(&covered);
    PyBuffer_Release(&bounds);
    PyBuffer_Release(&known);
    if (!taken) return refuse(all_fits);
    Py_RETURN_NONE;
}

/* Use the loops built for a level of machines ("baseline", "v3", "v4"; "" for the best that this one runs). */
static PyObject *use_level(PyObject *self, PyObject *args) {
    const char *wanted;
    if (!PyArg_ParseTuple(args, "s", &wanted)) return NULL;
    const Loops *of_level = loops_of(wanted);
    if (!of_level) return PyErr_Format(PyExc_ValueError, "no loops for %s in this build, or this machine cannot run them", wanted);
    loops = of_level;
    return PyUnicode_FromString(loops->level);
}

#include "bindings.h"
#include "whole_arrays.h"

static PyMethodDef methods[] = {
    {"use_level", use_level, METH_VARARGS, "Choose the loops by the level of the machine."},
    {"label_scores", label_scores, METH_VARARGS, "Score of one label per row."},
    {"all_scores", all_scores, METH_VARARGS, "Score of every label of every row."},
    {"hash_rows", hash_rows, METH_VARARGS, "Keyed seed of every row."},
    {"copies", copies_, METH_VARARGS, "Rows that came before in their block, and seeds of their own."},
    {"p_value_table", p_value_table, METH_VARARGS, "The p-value of every count."},
    {"add_counts", add_counts, METH_VARARGS, "Calibration scores below the score of every label."},
    {"p_values", p_values, METH_VARARGS, "The p-value of every label."},
    {"by_label", by_label, METH_VARARGS, "Members of each row at a threshold for every label."},
    {"least_mean", least_mean_, METH_VARARGS, "Least mean of a slab of sorted points."},
    {"worst_segment", worst_segment, METH_VARARGS, "The slab of sorted points that falls furthest below a mean."},
    {"least_mean_bounds", least_mean_bounds, METH_VARARGS, "What no slab falls below, for each of many directions."},
    {"masks", masks, METH_VARARGS, "Flags of the members of each row at its threshold."},
    {"beginnings", beginnings, METH_VARARGS, "The first members of each row."},
    {"order", order, METH_VARARGS, "Members of each row in order."},
    MORE_DOORS
    DOORS_OF_WHOLE_ARRAYS
    {"cuts", cuts, METH_VARARGS, "Members of each row at its thresholds."},
    {NULL, NULL, 0, NULL},
};
/* Choose the loops, and draw what places items in tables. */
static int start_module(PyObject *module) {
    loops = loops_of("");
    PyObject *os = PyImport_ImportModule("os"), *drawn = os ? PyObject_CallMethod(os, "urandom", "i", (int)sizeof secret) : NULL;
    char *bytes = drawn ? PyBytes_AsString(drawn) : NULL;
    if (bytes) memcpy(&secret, bytes, sizeof secret);
    Py_XDECREF(drawn);
    Py_XDECREF(os);
    return bytes ? 0 : -1;
}
static PyModuleDef_Slot slots[] = {{Py_mod_exec, start_module}, {0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_compiled", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&module); }
