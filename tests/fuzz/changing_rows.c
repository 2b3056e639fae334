/* An adversary that writes to rows while they are read: whenever a loop turns to a row, it holds something else, a distribution or not. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

int rows_change = 0; /* set by fuzz/changing.py */
static uint64_t state = 1;

static uint64_t draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static double hostile(void) {
    const double values[] = {NAN, -NAN, INFINITY, -INFINITY, -1.0, -0.0, 0.0, -1e-300, 1e-300, 0x1p-52, -0x1p-60, 0.5, 1.0, 2.5, 1e308, -1e308};
    return values[draw() % (sizeof values / sizeof *values)];
}

static void put(void *row, int is_single, size_t j, double x) {
    if (is_single) ((float *)row)[j] = (float)x; else ((double *)row)[j] = x;
}

/* A distribution: on one label, alike, falling, or on some labels alike and on none of the others. */
static void put_distribution(void *row, int is_single, size_t columns) {
    size_t kind = draw() % 4, first = draw() % columns, some = 1 + draw() % columns;
    double left = 1.0, share = 1.0 / (double)(1 + draw() % 8) - 1e-3;
    for (size_t k = 0; k < columns; k++) {
        double x = kind == 0 ? k == 0 : kind == 1 ? 1.0 / (double)columns : kind == 2 ? (k < some) / (double)some : left * share;
        if (kind == 3) left -= x, x += k == columns - 1 ? left : 0.0;
        put(row, is_single, (first + k) % columns, x);
    }
}

void change_row(const void *read, size_t bytes, int is_single) {
    if (!rows_change) return;
    void *row = (void *)read;
    size_t columns = bytes / (is_single ? 4 : 8), kind = draw() % 8;
    if (kind < 6) put_distribution(row, is_single, columns);
    else if (kind == 6) for (size_t k = 1 + draw() % 3; k; k--) put(row, is_single, draw() % columns, hostile());
    else for (size_t j = 0; j < columns; j++) put(row, is_single, j, hostile());
}
