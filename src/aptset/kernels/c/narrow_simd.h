/* Narrow rows, LANES of them in one vector: each lane is a row. Scores of every label come from one sorting network
 * over all lanes, without a branch; rows with equal masses, without mass somewhere or odd are left to the careful path. */
#ifndef APTSET_NARROW_SIMD_H
#define APTSET_NARROW_SIMD_H
#include "vectors.h"

#define WIDEST_TILE 40 /* beyond this many labels the row-by-row path is quicker */
#define TILE_ROWS 64   /* turned at a time: what was stored by cells is not read back as vectors right away */
#define GROUPS (TILE_ROWS / LANES)
#define COLUMN_BITS 6

typedef struct { uint8_t low, high; } Exchange;

typedef struct {
    Doubles *value;       /* column k of lane group v stands at k * GROUPS + v */
    Doubles *key, *score; /* of one lane group, in the order of the rows: see sort_lanes */
    Exchange *network;
    int64_t exchanges, first, rows; /* of the rows it holds */
} Tile;
#define LONGEST_GROUP (WIDEST_TILE * WIDEST_VECTOR / 8) /* numbers of a lane group, on any machine */

INLINE Doubles *lanes_at(const Tile *t, int64_t column, int64_t v) { return t->value + column * GROUPS + v; }

/* Batcher's merge exchange for any number of columns: the list of pairs to put in order. Returns its length. */
static int64_t make_network(int64_t columns, Exchange *network) {
    int64_t top = 1, length = 0;
    while (2 * top < columns) top *= 2;
    for (int64_t p = top; p > 0; p /= 2)
        for (int64_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (int64_t i = 0; i + d < columns; i++)
                if ((i & p) == r) network[length++] = (Exchange){(uint8_t)i, (uint8_t)(i + d)};
            if (q == p) break;
        }
    return length;
}

#if defined(__AVX2__)
#define TURNED 8 /* rows, and columns, that are turned at once */
INLINE __m256 joined(__m256 a, __m256 b) { return _mm256_shuffle_ps(a, b, 0x44); }
INLINE __m256 joined_high(__m256 a, __m256 b) { return _mm256_shuffle_ps(a, b, 0xEE); }
INLINE __m256 halves(__m256 a, __m256 b) { return _mm256_permute2f128_ps(a, b, 0x20); }
INLINE __m256 halves_high(__m256 a, __m256 b) { return _mm256_permute2f128_ps(a, b, 0x31); }

/* Write TURNED columns of as many rows of single floats, widened, TILE_ROWS numbers apart. */
INLINE void turn_singles(const float *const *row, int64_t column, double *to) {
    __m256 x[TURNED], y[TURNED];
    for (int k = 0; k < TURNED; k++) x[k] = _mm256_loadu_ps(row[k] + column);
    for (int k = 0; k < TURNED; k += 2) y[k] = _mm256_unpacklo_ps(x[k], x[k + 1]), y[k + 1] = _mm256_unpackhi_ps(x[k], x[k + 1]);
    for (int k = 0; k < TURNED; k += 4)
        for (int m = 0; m < 2; m++) x[k + 2 * m] = joined(y[k + m], y[k + m + 2]), x[k + 2 * m + 1] = joined_high(y[k + m], y[k + m + 2]);
    for (int k = 0; k < 4; k++) y[k] = halves(x[k], x[k + 4]), y[k + 4] = halves_high(x[k], x[k + 4]);
    for (int k = 0; k < TURNED; k++, to += TILE_ROWS) {
#if defined(__AVX512F__)
        _mm512_storeu_pd(to, _mm512_cvtps_pd(y[k]));
#else
        _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(y[k])));
        _mm256_storeu_pd(to + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(y[k], 1)));
#endif
    }
}
#endif

/* Turn rows start .. start + TILE_ROWS - 1; places behind the last row repeat the first one. */
INLINE void turn_rows(const Job *job, int64_t start, int64_t n, int is_single, Tile *t) {
    int64_t rows = n - start < TILE_ROWS ? n - start : TILE_ROWS, i = 0;
#if defined(__AVX2__)
    for (; is_single && job->columns >= TURNED && i < TILE_ROWS; i += TURNED) {
        const float *row[TURNED];
        double *to = (double *)t->value + i;
        for (int64_t k = 0; k < TURNED; k++) row[k] = source_at(job, start + (i + k < rows ? i + k : 0));
        for (int64_t j = 0; j + TURNED <= job->columns; j += TURNED) turn_singles(row, j, to + j * TILE_ROWS);
        int64_t last = job->columns - TURNED; /* some columns twice rather than one by one */
        if (job->columns % TURNED) turn_singles(row, last, to + last * TILE_ROWS);
    }
#endif
    for (; i < TILE_ROWS; i++) {
        const void *row = source_at(job, start + (i < rows ? i : 0));
        double *to = (double *)t->value + i;
        for (int64_t k = 0; k < job->columns; k++)
            to[k * TILE_ROWS] = is_single ? (double)((const float *)row)[k] : ((const double *)row)[k];
    }
    t->first = start;
    t->rows = rows;
}

APART void load_tile(const Job *job, int64_t start, int64_t n, Tile *t) {
    if (job->is_single) turn_rows(job, start, n, 1, t); else turn_rows(job, start, n, 0, t);
}

/* Load the tile that lane group `start` begins, if it begins one; return the number of the group in its tile. */
INLINE int64_t lane_group(const Job *job, int64_t start, int64_t n, Tile *t) {
    if (start % TILE_ROWS == 0) load_tile(job, start, n, t);
    return start % TILE_ROWS / LANES;
}
#define EACH_LANE_GROUP(start, count, n) \
    for (int64_t start = 0, count; start < (n) && (count = (n) - start < LANES ? (n) - start : LANES); start += LANES)

typedef struct { Doubles total, u; } Whole;
typedef struct { Doubles probability, above; Masks equal; } OneLabel; /* of each row: its probability, the mass above it, how many have as much */

/* Totals and uniforms of the rows of a lane group, and where one label of each stands if that is asked for; `slow` where a row is odd or does
 * not sum to 1. (Masks are added up, not joined by "or": gcc 12 takes the latter apart lane by lane.) */
INLINE Whole whole_of_lanes(const Job *job, const Tile *t, int64_t v, OneLabel *label, Masks *slow) {
    Doubles total = {0}, u = {0};
    Masks odd = {0};
    WordVector hash = {0}, seeds = {0};
    for (int64_t k = 0; k < job->columns; k++) {
        Doubles x = *lanes_at(t, k, v), mass = (x + 2.0) - 2.0;
        total += mass;
        odd = note_odd(odd, x);
        if (label) {
            label->above = add_where_greater(label->above, x, label->probability, mass);
            label->equal = count_where_equal(label->equal, x, label->probability);
        }
        if (!job->seeds) hash += hash_lanes(x, (WordVector){0} + job->column_keys[k]);
    }
    int64_t first = t->first + v * LANES, rows = t->rows - v * LANES;
    for (int64_t i = 0; i < LANES && job->seeds; i++) seeds[i] = job->seeds[i < rows ? first + i : t->first];
    for (int64_t i = 0; i < LANES && job->u; i++) u[i] = job->u[i < rows ? first + i : t->first];
    if (!job->seeds) seeds = mix_lanes(hash + mix(job->key + GOLDEN));
    if (job->noted) memcpy(job->noted + first, &seeds, (size_t)(rows < LANES ? rows : LANES) * 8);
    if (!job->u) u = uniform_of_lanes(seeds);
    *slow = lanes_noted(odd);
    *slow += total - 1.0 > job->tolerance;
    *slow += total - 1.0 < -job->tolerance;
    return (Whole){total, u};
}

/* A key is a mass in grid steps with its column below. Read as doubles, keys this far from zero and from infinity order
 * like the integers, and every machine compares and sorts vectors of doubles. */
#define KEY_BASE ((int64_t)1 << 60)
#define COLUMN_OF_KEY(key) ((key) & ((1 << COLUMN_BITS) - 1))
INLINE Doubles mass_of_key(Doubles key) { return (Doubles)((((Masks)key - KEY_BASE) >> COLUMN_BITS) + BITS_OF_TWO) - 2.0; }
INLINE int64_t column_in_lane(const Tile *t, int64_t r, int64_t i) { return COLUMN_OF_KEY(((const int64_t *)(t->key + r))[i]); }
INLINE double score_in_lane(const Tile *t, int64_t r, int64_t i) { return ((const double *)(t->score + r))[i]; }

/* Batcher's merge exchange for up to 16 keys, spelled out so that they stay in registers; pairs that reach beyond the last
 * key are left out. */
#define MOST_IN_REGISTERS 16
#define EXCHANGES(X) \
    X(0, 8) X(1, 9) X(2, 10) X(3, 11) X(4, 12) X(5, 13) X(6, 14) X(7, 15) X(0, 4) \
    X(1, 5) X(2, 6) X(3, 7) X(8, 12) X(9, 13) X(10, 14) X(11, 15) X(4, 8) X(5, 9) \
    X(6, 10) X(7, 11) X(0, 2) X(1, 3) X(4, 6) X(5, 7) X(8, 10) X(9, 11) X(12, 14) \
    X(13, 15) X(2, 8) X(3, 9) X(6, 12) X(7, 13) X(2, 4) X(3, 5) X(6, 8) X(7, 9) \
    X(10, 12) X(11, 13) X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(8, 9) X(10, 11) X(12, 13) \
    X(14, 15) X(1, 8) X(3, 10) X(5, 12) X(7, 14) X(1, 4) X(3, 6) X(5, 8) X(7, 10) \
    X(9, 12) X(11, 14) X(1, 2) X(3, 4) X(5, 6) X(7, 8) X(9, 10) X(11, 12) X(13, 14)

/* Put the labels of every row of a lane group in order: t->key[r] is the r-th of each. */
INLINE void sort_lanes(const Job *job, Tile *t, int64_t v) {
    int64_t columns = job->columns;
    for (int64_t k = 0; k < columns; k++)
        t->key[k] = (Doubles)((steps_of_lanes(*lanes_at(t, k, v)) << COLUMN_BITS) + (KEY_BASE + k));
    if (columns > MOST_IN_REGISTERS) {
        for (int64_t e = 0; e < t->exchanges; e++) put_in_order(t->key + t->network[e].low, t->key + t->network[e].high);
        return;
    }
    Doubles key[MOST_IN_REGISTERS];
    memcpy(key, t->key, sizeof key);
#define EXCHANGE(a, b) if ((b) < columns) put_in_order(key + (a), key + (b));
    EXCHANGES(EXCHANGE)
#undef EXCHANGE
    memcpy(t->key, key, sizeof key);
}

/* The scores of a sorted lane group with every term there is; those that most scores go without are left out below. */
static Masks score_lanes_fully(const Job *job, Tile *t, Whole whole, Masks slow) {
    const double *w = job->weights;
    Doubles above = {0}, before = (Doubles){0} - 1.0, top = mass_of_key(t->key[0]), second = mass_of_key(t->key[1]);
    for (int64_t r = 0; r < job->columns; r++) {
        Doubles own = mass_of_key(t->key[r]), penalty = {0};
        if ((double)(r + 1) > w[FREE_RANKS]) penalty = ((double)(r + 1) - w[FREE_RANKS]) - w[RANK_U] * whole.u;
        t->score[r] = r == 0 && w[FIRST] != 0.0 ? FIRST_SCORE(w, own, second, whole.total, penalty, whole.u)
                                                : TOP_SCORE(w, above, own, top, whole.total, penalty, whole.u);
        slow += own == before;
        slow += own == 0.0;
        above += own;
        before = own;
    }
    return slow;
}

/* Sort a lane group and score its labels, upward in each row: t->score[r]. Slow rows are not right. */
INLINE Masks score_lanes(const Job *job, Tile *t, int64_t v) {
    Masks slow;
    Whole whole = whole_of_lanes(job, t, v, NULL, &slow);
    Doubles above = {0}, before = (Doubles){0} - 1.0;
    double w[N_WEIGHTS];
    memcpy(w, job->weights, sizeof w);
    sort_lanes(job, t, v);
    if (asks_for_top(job) || w[RANK_U] != 0.0) return score_lanes_fully(job, t, whole, slow);
    for (int64_t r = 0; r < job->columns; r++) {
        Doubles own = mass_of_key(t->key[r]);
        t->score[r] = MASS_SCORE(w, above, own, whole.total, rank_penalty(w, (double)(r + 1), 0.0), whole.u);
        slow += own == before;
        slow += own == 0.0;
        above += own;
        before = own;
    }
    return slow;
}
#endif
