/* Where one label stands in its row: one pass, no sort. Rows with ties at the label, a label without mass or anything
 * odd take a second, careful look while they are still in the nearest cache. */
#ifndef APTSET_PLACES_H
#define APTSET_PLACES_H
#include "narrow_simd.h"

typedef struct { int64_t total, above, greater, equal, invalid; uint64_t hash; } Pass;

INLINE Pass one_pass(const void *row, int is_single, const Job *job, double probability) {
    Pass p = {0};
    for (int64_t j = 0; j < job->columns; j++) {
        double x = AS_DOUBLE(row, is_single, j);
        int64_t steps = grid_steps(x);
        int64_t is_greater = -(int64_t)(x > probability);
        p.total += steps;
        p.above += steps & is_greater;
        p.greater -= is_greater;
        p.equal += (int64_t)(x == probability);
        p.invalid |= (int64_t)!(x >= 0.0) | (int64_t)!(x <= 2.0);
        if (!job->seeds) p.hash += hash_word(bits_of(x), job->column_keys[j]);
    }
    return p;
}

INLINE int64_t ties_before(const void *row, int is_single, const Job *job, int64_t label, double probability, uint64_t tie_seed) {
    uint64_t my_tie = tie_of(tie_seed, label);
    int64_t before = 0;
    for (int64_t j = 0; j < job->columns; j++) {
        if (j == label || AS_DOUBLE(row, is_single, j) != probability) continue;
        uint64_t tie = tie_of(tie_seed, j);
        before += tie < my_tie || (tie == my_tie && j < label);
    }
    return before;
}

/* The score for any row; tells whether it is bad. */
static double careful_label_score(const Job *job, int64_t i, int is_single, int64_t label, int *bad) {
    const void *row = source_at(job, i);
    double probability = AS_DOUBLE(row, is_single, label);
    Pass pass = one_pass(row, is_single, job, probability);
    *bad = row_is_bad(pass.total, pass.invalid, job->tolerance);
    if (*bad) return 0.0;
    uint64_t seed = seed_at(job, i, pass.hash);
    double u = job->u ? job->u[i] : uniform_of(seed);
    int64_t before = 0, own = grid_steps(probability);
    if (pass.equal > 1) before = ties_before(row, is_single, job, label, probability, tie_seed_of(seed, u));
    double rank = (double)(pass.greater + before + 1);
    Loaded loaded = {.total = pass.total, .u = u};
    find_top_two(job, row, is_single, &loaded);
    if (own > 0 || job->weights[BEHIND] == 0.0)
        return mass_score(job->weights, (double)(pass.above + before * own), (double)own, rank, &loaded);
    int64_t with_mass = 0;
    for (int64_t j = 0; j < job->columns; j++) with_mass += grid_steps(AS_DOUBLE(row, is_single, j)) > 0;
    return zero_score(job->weights, (double)(pass.greater - with_mass + before), (double)(job->columns - with_mass), rank, u);
}

/* Labels above and beside one, counted in the type of the row: twice the lanes of the sums. */
INLINE int64_t count_places(const void *row, int is_single, int64_t columns, int64_t label, int64_t *equal) {
    int32_t above = 0, beside = 0;
    if (is_single) {
        const float *x = row;
        for (int64_t j = 0; j < columns; j++) above += x[j] > x[label], beside += x[j] == x[label];
    } else {
        const double *x = row;
        for (int64_t j = 0; j < columns; j++) above += x[j] > x[label], beside += x[j] == x[label];
    }
    *equal = beside;
    return above;
}

INLINE int64_t wide_label_scores(const Job *job, int64_t n, int is_single, const int64_t *labels, double *scores) {
    for (int64_t i = 0; i < n; i++) {
        const void *row = source_at(job, i);
        double probability = AS_DOUBLE(row, is_single, labels[i]);
        int64_t above, equal, own = grid_steps(probability);
        Facts facts = job->seeds ? row_facts(job, row, is_single, 0, probability, &above, NULL) : row_facts(job, row, is_single, 1, probability, &above, NULL);
        int64_t greater = count_places(row, is_single, job->columns, labels[i], &equal);
        int bad = row_is_bad(facts.total, 0, job->tolerance);
        if (bad || facts.odd || equal > 1 || own == 0) {
            scores[i] = careful_label_score(job, i, is_single, labels[i], &bad);
            if (bad) return i;
            continue;
        }
        uint64_t seed = seed_at(job, i, facts.hash);
        double u = job->u ? job->u[i] : uniform_of(seed);
        Loaded loaded = {.total = facts.total, .u = u};
        find_top_two(job, row, is_single, &loaded);
        scores[i] = mass_score(job->weights, (double)above, (double)own, (double)(greater + 1), &loaded);
    }
    return -1;
}

/* Scores of one label in each row of lane group v of a tile; `slow` where the row needs a careful look. */
INLINE Doubles lane_label_scores(const Job *job, const Tile *t, int64_t v, const int64_t *labels, int64_t rows, Masks *slow) {
    const double *w = job->weights;
    Doubles probability = {0};
    Masks greater = {0};
    for (int64_t i = 0; i < LANES; i++) probability[i] = ((const double *)lanes_at(t, labels[i < rows ? i : 0], v))[i];
    OneLabel label = {probability, {0}, {0}};
    Whole whole = whole_of_lanes(job, t, v, &label, slow);
    for (int64_t k = 0; k < job->columns && (w[RANK] != 0.0 || w[FIRST] != 0.0); k++) greater -= *lanes_at(t, k, v) > label.probability;
    Doubles above = label.above, own = (label.probability + 2.0) - 2.0, beyond = __builtin_convertvector(greater, Doubles) + 1.0 - w[FREE_RANKS];
    Doubles penalty = where(beyond > 0.0, beyond - w[RANK_U] * whole.u);
    *slow += label.equal != 1;
    *slow += own == 0.0;
    if (!asks_for_top(job)) return MASS_SCORE(w, above, own, whole.total, penalty, whole.u);
    Doubles top = {0}, second = {0};
    for (int64_t k = 0; k < job->columns; k++) {
        Doubles x = *lanes_at(t, k, v);
        RANK_AMONG_TWO(x, top, second);
    }
    Doubles scores = TOP_SCORE(w, above, own, (top + 2.0) - 2.0, whole.total, penalty, whole.u);
    if (w[FIRST] == 0.0) return scores;
    Masks is_first = greater == 0;
    Doubles of_first = FIRST_SCORE(w, own, (second + 2.0) - 2.0, whole.total, penalty, whole.u);
    return choose(is_first, of_first, scores);
}

INLINE int64_t narrow_label_scores(const Job *job, int64_t n, Tile *t, const int64_t *labels, double *scores) {
    EACH_LANE_GROUP(start, rows, n) {
        Masks slow;
        int64_t v = lane_group(job, start, n, t);
        Doubles lane_scores = lane_label_scores(job, t, v, labels + start, rows, &slow);
        for (int64_t i = 0; i < rows; i++) {
            int bad = 0;
            scores[start + i] = slow[i] ? careful_label_score(job, start + i, job->is_single, labels[start + i], &bad) : lane_scores[i];
            if (bad) return start + i;
        }
    }
    return -1;
}

static int64_t label_scores_loop(const Job *job, int64_t n, Tile *t, const int64_t *labels, double *scores) {
    if (job->columns <= WIDEST_TILE) return narrow_label_scores(job, n, t, labels, scores);
    return job->is_single ? wide_label_scores(job, n, 1, labels, scores) : wide_label_scores(job, n, 0, labels, scores);
}
#endif
