/* Where one label stands in its row: one pass, no sort. Rows with ties at the label, or a label without mass, take
 * a second look at the row while it is still in the nearest cache. */
#ifndef APTSET_PLACES_H
#define APTSET_PLACES_H
#include "row.h"

typedef struct { int64_t total, above, greater, equal, invalid; uint64_t hash; } Pass;

INLINE Pass one_pass(const void *row, int is_single, int with_hash, const Job *job, double mine) {
    int64_t total = 0, above = 0, greater = 0, equal = 0, invalid = 0, columns = job->columns;
    uint64_t hash = 0;
    const uint64_t *keys = job->column_keys;
    for (int64_t j = 0; j < columns; j++) {
        double x = AS_DOUBLE(row, is_single, j);
        int64_t steps = grid_steps(x);
        int64_t is_greater = -(int64_t)(x > mine);
        total += steps;
        above += steps & is_greater;
        greater -= is_greater;
        equal += (int64_t)(x == mine);
        invalid |= (int64_t)!(x >= 0.0) | (int64_t)!(x <= 2.0);
        if (with_hash) hash += hash_word(bits_of(x), keys[j]);
    }
    return (Pass){total, above, greater, equal, invalid, hash};
}

INLINE int64_t ties_before(const void *row, int is_single, const Job *job, int64_t label, double mine, uint64_t tie_seed) {
    uint64_t my_tie = tie_of(tie_seed, label);
    int64_t before = 0;
    for (int64_t j = 0; j < job->columns; j++) {
        if (j == label || AS_DOUBLE(row, is_single, j) != mine) continue;
        uint64_t tie = tie_of(tie_seed, j);
        before += tie < my_tie || (tie == my_tie && j < label);
    }
    return before;
}

INLINE double label_score(const Job *job, int64_t i, int is_single, int64_t label, int *bad) {
    const void *row = row_at(job, i);
    double mine = AS_DOUBLE(row, is_single, label);
    Pass pass = job->seeds ? one_pass(row, is_single, 0, job, mine) : one_pass(row, is_single, 1, job, mine);
    *bad = row_is_bad(pass.total, pass.invalid, job->tolerance);
    if (*bad) return 0.0;
    uint64_t seed = job->seeds ? job->seeds[i] : seed_of(pass.hash, job->key);
    double u = job->u ? job->u[i] : uniform_of(seed);
    int64_t before = 0, own = grid_steps(mine);
    if (pass.equal > 1) before = ties_before(row, is_single, job, label, mine, tie_seed_of(seed, u));
    double rank = (double)(pass.greater + before + 1);
    if (own > 0)
        return mass_score(job->weights, (double)(pass.above + before * own), (double)own, (double)pass.total, rank, u);
    int64_t with_mass = 0;
    for (int64_t j = 0; j < job->columns; j++) with_mass += grid_steps(AS_DOUBLE(row, is_single, j)) > 0;
    return zero_score(job->weights, (double)(pass.greater - with_mass + before), (double)(job->columns - with_mass), rank, u);
}

INLINE int64_t label_scores_of(const Job *job, int64_t n, int is_single, const int64_t *labels, double *scores) {
    for (int64_t i = 0; i < n; i++) {
        int bad;
        scores[i] = label_score(job, i, is_single, labels[i], &bad);
        if (bad) return i;
    }
    return -1;
}

VECTOR_CLONES static int64_t label_scores_loop(const Job *job, int64_t n, const int64_t *labels, double *scores) {
    return job->is_single ? label_scores_of(job, n, 1, labels, scores) : label_scores_of(job, n, 0, labels, scores);
}
#endif
