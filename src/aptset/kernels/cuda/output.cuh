/* What comes out: sets, or what becomes of the scores of all labels. */
#ifndef APTSET_OUTPUT_CUH
#define APTSET_OUTPUT_CUH
#include "row.cuh"

/* What WHAT may be; the same numbers stand in engines/cuda_engine.py. */
#define SCORES_OF_LABELS 0
#define SIZES_OF_SETS 1
#define MEMBERS_OF_SETS 2
#define MASK_BY_LABEL 3
#define SIZES_BY_LABEL 4
#define MEMBERS_BY_LABEL 5

struct Output {
    double *scores;           /* (rows, labels) */
    unsigned char *flags;     /* MASK_BY_LABEL */
    const double *thresholds; /* (rows or 1, n_thresholds); by label: (labels) */
    i64 n_thresholds, per_row, min_size, n_rows;
    int *sizes;               /* (n_thresholds, n_rows) */
    const int *longest;       /* MEMBERS: how many of each row */
    const i64 *pointers;      /* where the members of each row go */
    int *members;
    float *cutoffs;           /* of each row the least value that is in at the largest threshold; SIZES tells, MEMBERS may ask */
};

/* Where to cut, and where the flags or sizes of the sets go. */
struct Wanted { const double *thresholds; i64 per_row; i64 min_size; unsigned char *flags; int *sizes; float *cutoffs; };
#endif
