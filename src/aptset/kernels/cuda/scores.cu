/* The score of one label of each row: one pass, no sort. */
#define AT_ONCE (LANES == 32 ? 2 : 1) /* rows that a lane looks at together: they share the keys of the columns */
#include "exact_fallback.cuh"
#include "loading.cuh"
#include "tiles.cuh"

#define BATCH (CHUNKS < 4 ? CHUNKS : 4) /* chunks that are asked for before the first is used */

/* Labels that equal the one in question are marked, a bit each, where a lane has few enough of them; else they are counted. */
#define MARKS (PER_LANE <= 32)

/* Sums over a row, of this lane or of all that share the row. Masses are exact in float64. */
struct Sums { double total, above; u64 hash; float greater; u32 equal, columns, odd; i64 top, second; };
#define NO_SUMS {0.0, 0.0, 0, 0.0f, 0, 0, 0, 0, 0}

DEVICE void add_label(Sums &s, Value x, Value own_value, u64 key, u32 mark) {
    double wide = (double)x, mass = (wide + 2.0) - 2.0;
    s.total += mass;
    if (x > own_value) { s.above += mass; if (RANKS || ASKS) s.greater += 1.0f; } /* else nobody asks for the rank */
    if (x == own_value) s.equal = MARKS ? s.equal | mark : s.equal + 1u;
    s.odd |= oddness(x);
    if (HASHES) add_to_hash(s.hash, bits_of(wide), key);
}

/* `place` of this lane is where the chunk begins, among those whose marks are put together at a time. */
DEVICE void add_chunk(const Job &job, int chunk, int place, const Value (*x)[VECTOR], const Value *own_value, Sums *s, int rows) {
    u64 keys[VECTOR];
    if (HASHES) load_keys(job.column_keys, chunk, keys);
#pragma unroll
    for (int k = 0; k < rows; k++)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            add_label(s[k], x[k][v], own_value[k], keys[v], 1u << ((place + v) & 31));
            if (ASKS) add_to_top_two(s[k].top, s[k].second, grid_steps((double)x[k][v]));
        }
}

#if IN_TILES
DEVICE void pass_over(const Job &job, const Element *const *rows, const Value *own_value, Sums *s) {
    for (int k = 0; k < AT_ONCE; k++) s[k] = NO_SUMS;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        Value x[AT_ONCE][VECTOR];
        if (!is_inside(chunk)) continue;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) load_chunk(rows[k], chunk, x[k]);
        add_chunk(job, chunk, chunk * VECTOR, x, own_value, s, AT_ONCE);
    }
}
#else
DEVICE void pass_over(const Job &job, const Element *const *rows, const Value *own_value, Sums *s) {
    for (int k = 0; k < AT_ONCE; k++) s[k] = NO_SUMS;
#pragma unroll 1
    for (int first = 0; first < CHUNKS; first += BATCH) {
        Value x[BATCH][AT_ONCE][VECTOR];
        u32 before[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            before[k] = s[k].equal, s[k].equal = 0;
#pragma unroll
            for (int c = 0; c < BATCH; c++)
                if (first + c < CHUNKS && is_inside(first + c)) load_chunk(rows[k], first + c, x[c][k]);
        }
#pragma unroll
        for (int c = 0; c < BATCH; c++)
            if (first + c < CHUNKS && is_inside(first + c)) add_chunk(job, first + c, c * VECTOR, x[c], own_value, s, AT_ONCE);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            s[k].equal = MARKS ? before[k] | s[k].equal << ((first * VECTOR) & 31) : before[k] + s[k].equal;
    }
}
#endif

/* The columns of the first two labels that are marked, added. */
DEVICE u32 marked_columns(u32 marks) {
    int one = __ffs((int)marks) - 1, two = __ffs((int)(marks & (marks - 1u))) - 1;
    return (u32)((one < 0 ? 0 : column_of(one / VECTOR) + one % VECTOR) + (two < 0 ? 0 : column_of(two / VECTOR) + two % VECTOR));
}

DEVICE Sums together(const Sums &own_value) {
    Sums s = own_value;
    s.total = mass_in_group(own_value.total), s.above = mass_in_group(own_value.above);
    if (HASHES) s.hash = sum_in_group(own_value.hash);
    u32 equal = MARKS ? (u32)__popc(own_value.equal) : own_value.equal;
    if (COLUMNS < 65536) {
        u32 both = sum_in_group((u32)own_value.greater | equal << 16);
        s.greater = (float)(both & 0xFFFFu), s.equal = both >> 16;
    } else
        s.greater = sum_over(own_value.greater, LANES), s.equal = sum_over(equal, LANES);
    if (MARKS && __any_sync(FULL, s.equal == 2)) s.columns = sum_in_group(marked_columns(own_value.equal));
    s.odd = largest_in_group(own_value.odd);
    if (ASKS) top_two_over(s.top, s.second, LANES);
    return s;
}

/* Each lane finishes one row, from the sums over it. Where one other label equals the one in question, their ties decide. */
DEVICE void finish_row(const Job &job, i64 row, i64 label, Value value, const Sums &sums, double *scores) {
    double own = mass_of((double)value), above = sums.above * STEPS_PER_ONE, rank = (double)sums.greater + 1.0;
    Loaded of = {sums.total * STEPS_PER_ONE, (double)sums.top, (double)sums.second, 0, 0.0};
    if (sums.odd >= ODD) { look_at_odd(job, row); return; }
    if (is_off(of.total, job.tolerance)) { report(job, row); return; }
    u64 seed = seed_at(job, row, sums.hash, true);
    of.u = uniform_at(job, row, seed);
    if (sums.equal > (MARKS ? 2u : 1u) || own == 0.0) { leave(job, row); return; }
    if (sums.equal == 2) {
        u64 tie_seed = tie_seed_of(seed, of.u);
        if (tie_of(tie_seed, (i64)sums.columns - label) < tie_of(tie_seed, label)) above += own, rank += 1.0;
    }
    scores[row] = mass_score(job.w, above, own, rank, of);
}

/* Blocks on a multiprocessor at a time, as measured. */
#define MIN_BLOCKS (LANES < 32 ? 6 : IN_TILES ? 3 : 4)

#if !defined(ONLY_ONE) || defined(ONLY_label_scores)
/* Each lane finishes the row that its group looks at in turn WITHIN. There are `turns` of them, fewer than LANES where rows are
 * few: then more warps have some. */
extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS) label_scores(Job job, const i64 *labels, double *scores, i64 turns) {
    i64 n = rows_to_do(job), of_warp = GROUPS * turns, stride = (i64)gridDim.x * blockDim.x / 32 * of_warp;
    i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32 * of_warp;
    int group = (int)LANE / LANES;
#if IN_TILES
    DYNAMIC_SHARED(pool);
    Tile *tiles = (Tile *)pool + threadIdx.x / 32 * 2;
    int side = 0;
    ask_for(job, first, n, tiles[0]);
#endif
    for (; first < n; first += stride) {
        i64 i = first + (i64)(((int)WITHIN / AT_ONCE * GROUPS + group) * AT_ONCE + (int)WITHIN % AT_ONCE);
        bool here = i < n && (i64)WITHIN < turns;
        i64 row = row_at(job, here ? i : n - 1), label = labels[row];
#if !IN_TILES
        const Element *at = elements_of(job, row);
        Value of_label = value_of(at[label]) + (Value)0;
#endif
        Value value = 0;
        Sums sums = NO_SUMS;
#pragma unroll 1
        for (int turn = 0; turn < (int)turns; turn += AT_ONCE) {
            const Element *rows[AT_ONCE];
            Value own_value[AT_ONCE];
            Sums sums_of[AT_ONCE];
#if IN_TILES
            ask_for(job, turn + AT_ONCE < (int)turns ? first + (turn + AT_ONCE) * GROUPS : first + stride, n, tiles[side ^ 1]);
            arrived();
#endif
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                int whose = group * LANES + turn + k;
#if IN_TILES
                rows[k] = tiles[side] + (group * AT_ONCE + k) * COLUMNS;
                own_value[k] = value_of(rows[k][__shfl_sync(FULL, (int)label, whose)]) + (Value)0;
#else
                rows[k] = (const Element *)__shfl_sync(FULL, (u64)at, whose), own_value[k] = __shfl_sync(FULL, of_label, whose);
#endif
            }
            pass_over(job, rows, own_value, sums_of);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                sums_of[k] = together(sums_of[k]);
                if (turn + k == (int)WITHIN) sums = sums_of[k], value = own_value[k];
            }
#if IN_TILES
            side ^= 1;
            __syncwarp(); /* all have read the rows */
#endif
        }
        if (here) finish_row(job, row, label, value, sums, scores);
    }
}
#endif

#if !defined(ONLY_ONE) || defined(ONLY_label_scores_carefully)
/* The rows that were left, and the copies. */
extern "C" __global__ void label_scores_carefully(Job job, const i64 *labels, double *scores) {
    i64 warps = (i64)gridDim.x * blockDim.x / 32, copies = job.which ? (i64)*job.count : 0, n = copies + (i64)*job.n_slow;
    for (i64 k = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; k < n; k += warps) {
        i64 row = k < copies ? (i64)job.which[k] : (i64)job.slow[k - copies];
        Careful c = open_carefully(job, row, 0);
        if (c.bad) { if (LANE == 0) report(job, row); continue; }
        double score = careful_label_score(job, c, labels[row]);
        if (LANE == 0) scores[row] = score;
    }
}
#endif

#if !defined(ONLY_ONE) || defined(ONLY_hash_rows)
/* The seed of every row of a matrix of any numbers. */
extern "C" __global__ void hash_rows(Job job, u64 *seeds) {
    i64 warps = (i64)gridDim.x * blockDim.x / 32;
    for (i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; row < job.n; row += warps) {
        const Element *at = elements_of(job, row);
        u64 hash = 0;
        for (i64 j = LANE; j < COLUMNS; j += 32) {
            double x = double_at(at, j);
            add_to_hash(hash, x == x ? bits_of(x) : 0x7FF8000000000000ull, job.column_keys[j]);
        }
        hash = sum_over(hash, 32);
        if (LANE == 0) seeds[row] = mix(hash + job.column_keys[0]);
    }
}
#endif
