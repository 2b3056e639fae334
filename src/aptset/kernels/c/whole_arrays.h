/* Loops over long arrays that are no rows of probabilities: numbers of groups, sorting by them, sets against labels. Threads take pieces of
 * them; every index that comes from outside is compared with the length of what it points into. Part of compiled.c. */
#ifndef APTSET_WHOLE_ARRAYS_H
#define APTSET_WHOLE_ARRAYS_H
#include <stdlib.h>

/* Write for each value how many of the splitters, which never fall, are not above it; a missing value is above all. */
static void number_by_splitters(const double *values, int64_t n, const double *splitters, int64_t count, int32_t *numbers) {
    for (int64_t i = 0; i < n; i++) {
        int64_t first = 0, left = count;
        while (left > 0) { /* as many steps for every value, and no branch on it */
            int64_t half = (left + 1) / 2;
            first += !(values[i] < splitters[first + half - 1]) ? half : 0;
            left -= half;
        }
        numbers[i] = (int32_t)first;
    }
}

static PyObject *bucket_numbers(PyObject *self, PyObject *args) {
    Py_buffer values, splitters, numbers;
    if (!PyArg_ParseTuple(args, "y*y*w*", &values, &splitters, &numbers)) return NULL;
    int64_t n = values.len / 8;
    int all_fits = values.len == n * 8 && numbers.len == n * 4 && splitters.len % 8 == 0;
    if (all_fits) {
        Py_BEGIN_ALLOW_THREADS
        number_by_splitters(values.buf, n, splitters.buf, splitters.len / 8, numbers.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&values);
    PyBuffer_Release(&splitters);
    PyBuffer_Release(&numbers);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

/* Copy labels that are numbers of columns, in as many bytes or half of them; tell whether all of them are. */
static PyObject *copy_columns(PyObject *self, PyObject *args) {
    Py_buffer labels, to;
    long long columns;
    if (!PyArg_ParseTuple(args, "y*w*L", &labels, &to, &columns)) return NULL;
    int64_t n = labels.len / 8, *wide = to.len == n * 8 ? to.buf : NULL;
    const int64_t *label = labels.buf;
    int32_t *narrow = to.buf;
    uint64_t are_columns = 1;
    int all_fits = labels.len == n * 8 && (wide || to.len == n * 4) && columns <= INT32_MAX;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; all_fits && i < n; i++) {
        int64_t number = label[i]; /* read once: another thread may write to it */
        if (wide) wide[i] = number;
        else narrow[i] = (int32_t)number;
        are_columns &= (uint64_t)number < (uint64_t)columns;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&labels);
    PyBuffer_Release(&to);
    return all_fits ? PyBool_FromLong((long)are_columns) : refuse(0);
}

/* Write the values from low to high as long as there is room; return how many are below low, and how many are in the range. */
static PyObject *within(PyObject *self, PyObject *args) {
    Py_buffer values, to;
    double low, high;
    if (!PyArg_ParseTuple(args, "y*ddw*", &values, &low, &high, &to)) return NULL;
    int64_t n = values.len / 8, room = to.len / 8, below = 0, inside = 0;
    const double *value = values.buf;
    double *out = to.buf;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < n; i++) {
        below += value[i] < low;
        if (!(value[i] >= low && value[i] <= high)) continue;
        if (inside < room) out[inside] = value[i];
        inside++;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&values);
    PyBuffer_Release(&to);
    return Py_BuildValue("LL", (long long)below, (long long)inside);
}

/* Write where buckets of scores, which never fall, start among them, as far as scores first .. stop - 1 decide it. Threads write different buckets. */
static PyObject *bucket_starts(PyObject *self, PyObject *args) {
    Py_buffer scores, starts;
    double low, scale;
    long long first, stop;
    if (!PyArg_ParseTuple(args, "y*LLddw*", &scores, &first, &stop, &low, &scale, &starts)) return NULL;
    int64_t n = scores.len / 8, count = starts.len / 4 - 1;
    const double *score = scores.buf;
    int32_t *start = starts.buf;
    int all_fits = 0 <= first && first <= stop && stop <= n && n <= INT32_MAX && count > 0;
    Py_BEGIN_ALLOW_THREADS
    OneGroup g = {.last = count - 1, .low = low, .scale = scale};
    int64_t next = all_fits && first > 0 ? bucket_of(&g, score[first - 1]) + 1 : 0;
    for (int64_t i = first; all_fits && i < stop; i++)
        for (int64_t bucket = bucket_of(&g, score[i]); next <= bucket; next++) start[next] = (int32_t)i;
    for (; all_fits && stop == n && next <= count; next++) start[next] = (int32_t)n;
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&scores);
    PyBuffer_Release(&starts);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

/* The sum of the squares of the sizes of buckets that start there, and the largest size. */
static PyObject *crowding(PyObject *self, PyObject *args) {
    Py_buffer starts;
    if (!PyArg_ParseTuple(args, "y*", &starts)) return NULL;
    int64_t count = starts.len / 4 - 1, squares = 0, most = 0;
    const int32_t *start = starts.buf;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t k = 0; k < count; k++) {
        int64_t size = (int64_t)start[k + 1] - start[k];
        squares += size * size;
        most = size > most ? size : most;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&starts);
    return Py_BuildValue("LL", (long long)squares, (long long)most);
}

/* Add to the size of each group how many numbers are its own. */
static PyObject *group_sizes(PyObject *self, PyObject *args) {
    Py_buffer numbers, sizes;
    if (!PyArg_ParseTuple(args, "y*w*", &numbers, &sizes)) return NULL;
    int64_t n = numbers.len / 4, groups = sizes.len / 8, *size = sizes.buf;
    const int32_t *number = numbers.buf;
    int all_fits = 1;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < n; i++) {
        if ((uint64_t)(int64_t)number[i] >= (uint64_t)groups) { all_fits = 0; break; }
        size[number[i]]++;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&numbers);
    PyBuffer_Release(&sizes);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

/* Put words of eight bytes where their groups go on; `starts`, where each does, moves along. */
static PyObject *place(PyObject *self, PyObject *args) {
    Py_buffer words, numbers, starts, to;
    if (!PyArg_ParseTuple(args, "y*y*w*w*", &words, &numbers, &starts, &to)) return NULL;
    int64_t n = words.len / 8, groups = starts.len / 8, room = to.len / 8, *start = starts.buf;
    const int32_t *number = numbers.buf;
    const uint64_t *word = words.buf;
    uint64_t *out = to.buf;
    int all_fits = words.len == n * 8 && numbers.len == n * 4;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; all_fits && i < n; i++) {
        if ((uint64_t)(int64_t)number[i] >= (uint64_t)groups || (uint64_t)start[number[i]] >= (uint64_t)room) all_fits = 0;
        else out[start[number[i]]++] = word[i];
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&words);
    PyBuffer_Release(&numbers);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&to);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

/* Whether pointers of n rows never fall and stay within so many members. */
static int pointers_fit(const int64_t *pointers, int64_t n, int64_t members) {
    if (n < 0 || pointers[0] < 0 || pointers[n] > members) return 0;
    for (int64_t i = 0; i < n; i++)
        if (pointers[i + 1] < pointers[i]) return 0;
    return 1;
}

/* Write where rows of these sizes end, if the first of them starts at `first`. */
static PyObject *running_totals(PyObject *self, PyObject *args) {
    Py_buffer sizes, ends;
    long long first;
    if (!PyArg_ParseTuple(args, "y*Lw*", &sizes, &first, &ends)) return NULL;
    int64_t n = ends.len / 8, total = first, *end = ends.buf;
    const int64_t *longs = sizes.buf;
    const int32_t *ints = sizes.buf;
    int is_long = sizes.len == n * 8, all_fits = ends.len == n * 8 && (is_long || sizes.len == n * 4);
    if (all_fits) {
        Py_BEGIN_ALLOW_THREADS
        if (is_long) for (int64_t i = 0; i < n; i++) end[i] = total += longs[i];
        else for (int64_t i = 0; i < n; i++) end[i] = total += ints[i];
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&ends);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

/* Flag the rows whose members, from pointers[i] on, hold the column of the row. With counts: add the rows to those of their column, of their size
 * (up to sizes - 1) and of whether they hold it; a row of a number that is no column is in none. */
static int judge_rows(const int64_t *pointer, int64_t n, Members members, const int64_t *columns, uint8_t *flag, int64_t *count, int64_t n_columns, int64_t sizes) {
    for (int64_t i = 0; i < n; i++) {
        int64_t column = columns[i], size = pointer[i + 1] - pointer[i]; /* read once: another thread may write to it */
        uint8_t any = 0;
        for (int64_t k = pointer[i]; k < pointer[i] + size; k++) any |= member_at(members, k) == column;
        flag[i] = any;
        if ((uint64_t)column >= (uint64_t)n_columns) continue;
        if (size >= sizes) return 0;
        count[(column * sizes + size) * 2 + any]++;
    }
    return 1;
}

static PyObject *holds(PyObject *self, PyObject *args) {
    Py_buffer pointers, members, columns, flags, counts;
    long long width, sizes;
    if (!PyArg_ParseTuple(args, "y*y*Ly*w*Lz*", &pointers, &members, &width, &columns, &flags, &sizes, &counts)) return NULL;
    int64_t n = flags.len, n_columns = counts.buf && sizes > 0 ? counts.len / 16 / sizes : 0;
    int all_fits = (width == 1 || width == 2 || width == 4) && pointers.len == (n + 1) * 8 && columns.len == n * 8;
    Py_BEGIN_ALLOW_THREADS
    all_fits = all_fits && pointers_fit(pointers.buf, n, members.len / width)
        && judge_rows(pointers.buf, n, (Members){members.buf, (int)width}, columns.buf, flags.buf, counts.buf, n_columns, sizes);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&pointers);
    PyBuffer_Release(&members);
    PyBuffer_Release(&columns);
    PyBuffer_Release(&flags);
    PyBuffer_Release(&counts);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

/* v.x of every row, term by term. */
static PyObject *project(PyObject *self, PyObject *args) {
    Py_buffer matrix, vector, to;
    if (!PyArg_ParseTuple(args, "y*y*w*", &matrix, &vector, &to)) return NULL;
    int64_t n = to.len / 8, features = vector.len / 8;
    const double *row = matrix.buf, *weight = vector.buf;
    double *out = to.buf;
    int all_fits = to.len == n * 8 && vector.len == features * 8 && matrix.len == n * features * 8;
    if (all_fits) {
        Py_BEGIN_ALLOW_THREADS
        for (int64_t i = 0; i < n; i++, row += features) {
            double sum = 0.0;
            for (int64_t j = 0; j < features; j++) sum += weight[j] * row[j];
            out[i] = sum;
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&matrix);
    PyBuffer_Release(&vector);
    PyBuffer_Release(&to);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

/* Add rows to sums, one after the other: all of a matrix or some by number, and with a mean the squares of how far they are from it. False for a row that is not there. */
static int sum_rows(const double *matrix, int64_t n, int64_t features, const int64_t *rows, int64_t count, const double *mean, double *restrict sums) {
    for (int64_t i = 0; i < count; i++) {
        int64_t number = rows ? rows[i] : i;
        if ((uint64_t)number >= (uint64_t)n) return 0;
        const double *row = matrix + number * features;
        for (int64_t j = 0; j < features; j++) {
            sums[j] += mean ? (row[j] - mean[j]) * (row[j] - mean[j]) : row[j];
        }
    }
    return 1;
}

static PyObject *add_rows(PyObject *self, PyObject *args) {
    Py_buffer matrix, rows, mean, sums;
    if (!PyArg_ParseTuple(args, "y*z*z*w*", &matrix, &rows, &mean, &sums)) return NULL;
    int64_t features = sums.len / 8, n = features ? matrix.len / 8 / features : 0, count = rows.buf ? rows.len / 8 : n;
    int all_fits = features && sums.len == features * 8 && matrix.len == n * features * 8 && count > 0 && (!mean.buf || mean.len == sums.len);
    Py_BEGIN_ALLOW_THREADS
    all_fits = all_fits && sum_rows(matrix.buf, n, features, rows.buf, count, mean.buf, sums.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&matrix);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&mean);
    PyBuffer_Release(&sums);
    return all_fits ? Py_NewRef(Py_None) : refuse(0);
}

/* The furthest that running sums of rows, taken in each of some orders, get from 0 in any column. False for a row that is not there. */
static int furthest_of_orders(const double *matrix, int64_t n, int64_t features, const int64_t *orders, int64_t count, double *restrict sums, double *furthest) {
    double *restrict most = sums + features;
    for (int64_t k = 0; k < count; k++, orders += n) {
        for (int64_t j = 0; j < 2 * features; j++) sums[j] = 0.0;
        for (int64_t i = 0; i < n; i++) {
            if ((uint64_t)orders[i] >= (uint64_t)n) return 0;
            const double *row = matrix + orders[i] * features;
            for (int64_t j = 0; j < features; j++) {
                sums[j] += row[j];
                double far = fabs(sums[j]);
                most[j] = far > most[j] ? far : most[j];
            }
        }
        furthest[k] = most[0];
        for (int64_t j = 1; j < features; j++) furthest[k] = most[j] > furthest[k] ? most[j] : furthest[k];
    }
    return 1;
}

static PyObject *furthest_sums(PyObject *self, PyObject *args) {
    Py_buffer matrix, orders, furthest;
    long long features;
    if (!PyArg_ParseTuple(args, "y*Ly*w*", &matrix, &features, &orders, &furthest)) return NULL;
    int64_t n = features > 0 ? matrix.len / 8 / features : 0, count = furthest.len / 8;
    int all_fits = n > 0 && matrix.len == n * features * 8 && furthest.len == count * 8 && orders.len == count * n * 8, is_done = 0;
    double *sums = all_fits ? malloc((size_t)features * 16) : NULL;
    Py_BEGIN_ALLOW_THREADS
    if (sums) is_done = furthest_of_orders(matrix.buf, n, features, orders.buf, count, sums, furthest.buf);
    Py_END_ALLOW_THREADS
    free(sums);
    PyBuffer_Release(&matrix);
    PyBuffer_Release(&orders);
    PyBuffer_Release(&furthest);
    return is_done ? Py_NewRef(Py_None) : refuse(all_fits && !sums);
}

#define FEW_MEMBERS 8 /* compared with each other; of more, the last row of each label is noted */

/* The first row that holds a label twice, or -2 for a member that is no position in the classes, or -1. */
static int64_t find_repeated(const int64_t *pointer, int64_t n, const int32_t *member, int64_t classes, int64_t *last_row) {
    for (int64_t i = 0; i < n; i++) {
        int64_t size = pointer[i + 1] - pointer[i], twice = 0;
        const int32_t *row = member + pointer[i];
        uint64_t seen = 0;
        for (int64_t k = 0; k < size; k++) {
            if ((uint64_t)(int64_t)row[k] >= (uint64_t)classes) return -2;
            if (classes <= 64) {
                twice |= (int64_t)(seen >> row[k] & 1);
                seen |= (uint64_t)1 << row[k];
                continue;
            }
            if (size > FEW_MEMBERS) {
                twice |= last_row[row[k]] == i + 1;
                last_row[row[k]] = i + 1;
            } else {
                for (int64_t j = 0; j < k; j++) twice |= row[j] == row[k];
            }
        }
        if (twice) return i;
    }
    return -1;
}

static PyObject *repeated(PyObject *self, PyObject *args) {
    Py_buffer pointers, members;
    long long classes;
    if (!PyArg_ParseTuple(args, "y*y*L", &pointers, &members, &classes)) return NULL;
    int64_t n = pointers.len / 8 - 1, row = -2;
    int64_t *last_row = classes >= 0 ? calloc((size_t)classes + 1, 8) : NULL;
    Py_BEGIN_ALLOW_THREADS
    if (last_row && pointers.len == (n + 1) * 8 && pointers_fit(pointers.buf, n, members.len / 4))
        row = find_repeated(pointers.buf, n, members.buf, classes, last_row);
    Py_END_ALLOW_THREADS
    free(last_row);
    PyBuffer_Release(&pointers);
    PyBuffer_Release(&members);
    if (!last_row && classes >= 0) return PyErr_NoMemory();
    return row > -2 ? PyLong_FromLongLong(row) : refuse(0);
}

#define DOORS_OF_WHOLE_ARRAYS \
    {"bucket_numbers", bucket_numbers, METH_VARARGS, "How many splitters are not above each value."}, \
    {"copy_columns", copy_columns, METH_VARARGS, "Copies labels that are numbers of columns, and tells whether all are."}, \
    {"within", within, METH_VARARGS, "The values in a range, and how many are below it."}, \
    {"bucket_starts", bucket_starts, METH_VARARGS, "Where buckets of sorted scores start."}, \
    {"crowding", crowding, METH_VARARGS, "The sum of squares of the sizes of buckets, and the largest size."}, \
    {"group_sizes", group_sizes, METH_VARARGS, "How many numbers are those of each group."}, \
    {"place", place, METH_VARARGS, "Words in the order of their groups."}, \
    {"running_totals", running_totals, METH_VARARGS, "Where rows of some sizes end."}, \
    {"holds", holds, METH_VARARGS, "Whether each set holds a column."}, \
    {"project", project, METH_VARARGS, "Rows projected on vectors."}, \
    {"add_rows", add_rows, METH_VARARGS, "The sums of rows, or of the squares of how far they are from a mean."}, \
    {"furthest_sums", furthest_sums, METH_VARARGS, "The furthest that running sums of rows get, in each of some orders."}, \
    {"repeated", repeated, METH_VARARGS, "The first set that holds a label twice."},
#endif
