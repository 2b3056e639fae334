/* The loops, built once for each level of machines: loops.c is compiled several times, and compiled.c picks at load time.
 * Results do not depend on the level. */
#ifndef APTSET_LOOPS_H
#define APTSET_LOOPS_H
#include "by_label.h"
#include "copies.h"
#include "counts.h"
#include "directions.h"
#include "hashes.h"
#include "masks.h"
#include "scaled_mass.h"
#include "places.h"
#include "double_double.h"
#include "from_scores.h"
#include "softmax.h"

typedef struct {
    const char *level;
    int64_t (*label_scores)(const Job *, int64_t, Tile *, const int64_t *, double *);
    int64_t (*all_scores)(const Job *, int64_t, Scratch, Tile *, double *);
    int64_t (*counts)(const Job *, int64_t, Scratch, Tile *, const Calibrated *, int32_t *);
    int64_t (*p_values)(const Job *, int64_t, Scratch, Tile *, const Calibrated *, double *);
    int64_t (*by_label)(const Job *, int64_t, Scratch, Tile *, const ByLabel *, int64_t *);
    int64_t (*cuts)(const Job *, int64_t, Scratch, Tile *, const Wanted *, Members, Waiting, int64_t *);
    void (*order)(int64_t, const int32_t *, Members, Waiting, int, Scratch, int32_t *);
    int64_t (*masks)(const Job *, int64_t, Scratch, Tile *, const Wanted *, uint8_t *);
    void (*hash_rows)(const void *, int, int64_t, int64_t, const uint64_t *, uint64_t, uint64_t *);
    void (*bounds)(const Search *, const SearchRoom *, double *, int64_t *);
    void (*counts_of_scores)(const Calibrated *, int64_t, int64_t, const double *, int32_t *, double *);
    int64_t (*by_cell)(const Job *, int64_t, Scratch, const ByCell *);
    int64_t (*own_mass)(const Job *, int64_t, Scratch, const OwnMass *, const int64_t *, double *);
    int64_t (*ordered)(const Job *, int64_t, Scratch, const Ordering *, const int64_t *, double *);
    int64_t (*standing)(const Job *, int64_t, Scratch, Tile *, const Standing *);
    void (*softmax)(const Exponential *, const void *, int, int64_t, int64_t, double *, double *);
    void (*ratios)(const int64_t *, const int64_t *, int64_t, const Decimals *, double *, uint8_t *);
} Loops;

extern const Loops baseline_loops, v3_loops, v4_loops;
#endif
