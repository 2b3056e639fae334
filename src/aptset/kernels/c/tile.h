/* Scores of every label of a few narrow rows at once: each label is compared with each other one, in all rows together.
 * No sort, no branch; rows with equal probabilities or without mass somewhere are left to the row-by-row path. */
#ifndef APTSET_TILE_H
#define APTSET_TILE_H
#include "order.h"

#define LANES 8        /* rows at a time: one vector of the widest machines */
#define WIDEST_TILE 40 /* beyond this many labels sorting a row is quicker than comparing all pairs */

/* Vectors of the compiler: every operation works on LANES rows, whatever the machine. Comparisons give masks. */
typedef double Doubles __attribute__((vector_size(LANES * 8)));
typedef int64_t Masks __attribute__((vector_size(LANES * 8)));
typedef uint64_t WordVector __attribute__((vector_size(LANES * 8)));

INLINE Doubles where(Masks mask, Doubles x) { return (Doubles)(mask & (Masks)x); } /* x, or 0.0 */

/* Column k of the tile holds that column of LANES rows. */
typedef struct {
    Doubles *value, *mass, *score;
    Doubles total, u;
    Masks slow; /* the row needs the row-by-row path; its scores are not right */
    int64_t first_bad;
} Tile;

INLINE Masks load_tile(const Job *job, int64_t start, int64_t rows, int is_single, Tile *t, WordVector *hash) {
    for (int64_t i = 0; i < LANES; i++) {
        const void *row = row_at(job, start + (i < rows ? i : 0));
        for (int64_t k = 0; k < job->columns; k++) ((double *)(t->value + k))[i] = AS_DOUBLE(row, is_single, k);
    }
    Masks invalid = {0};
    t->total = (Doubles){0};
    for (int64_t k = 0; k < job->columns; k++) {
        Doubles value = t->value[k];
        t->mass[k] = (value + 2.0) - 2.0;
        t->total += t->mass[k];
        invalid |= ~((value >= 0.0) & (value <= 2.0));
        if (job->seeds) continue;
        WordVector word = (WordVector)value, low = (word + job->column_keys[k]) & 0xFFFFFFFFu;
        *hash += low * (((word >> 32) + (job->column_keys[k] >> 32)) & 0xFFFFFFFFu);
    }
    return invalid;
}

/* Score rows start .. start + rows - 1 (at most LANES of them). */
INLINE void score_tile(const Job *job, int64_t start, int64_t rows, Tile *t) {
    WordVector hash = {0};
    Masks invalid = job->is_single ? load_tile(job, start, rows, 1, t, &hash) : load_tile(job, start, rows, 0, t, &hash);
    invalid |= ~((t->total - 1.0 <= job->tolerance) & (t->total - 1.0 >= -job->tolerance));
    t->first_bad = -1;
    for (int64_t i = LANES - 1; i >= 0; i--) {
        int64_t row = start + (i < rows ? i : 0);
        t->u[i] = job->u ? job->u[row] : uniform_of(job->seeds ? job->seeds[row] : seed_of(hash[i], job->key));
        if (invalid[i]) t->first_bad = row;
    }
    if (t->first_bad >= 0) return;
    Doubles ranks = {0};
    const double *w = job->weights;
    t->slow = (Masks){0};
    for (int64_t k = 0; k < job->columns; k++) {
        Doubles above = {0}, mine = t->value[k], own = t->mass[k];
        Masks greater = {0};
        for (int64_t j = 0; j < job->columns; j++) {
            Masks is_greater = t->value[j] > mine;
            above += where(is_greater, t->mass[j]);
            greater -= is_greater;
        }
        Doubles rank = __builtin_convertvector(greater, Doubles) + 1.0, late = rank - w[FREE_RANKS];
        t->score[k] = MASS_SCORE(w, above, own, t->total, where(late > 0.0, late), t->u);
        ranks += rank;
        t->slow |= own == 0.0;
    }
    t->slow |= ranks != (double)(job->columns * (job->columns + 1) / 2); /* ranks add up but for ties */
}

INLINE double lane_of(const Doubles *column, int64_t i) { return ((const double *)column)[i]; }
#endif
