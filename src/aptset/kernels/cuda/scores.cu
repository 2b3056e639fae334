/* The score of one label of each row: one pass, no sort. */
#include "careful.cuh"
#include "loading.cuh"

#define AT_ONCE (LANES == 32 ? 2 : 1) /* rows that a lane looks at together: they share the keys of the columns */
#define BATCH (CHUNKS < 4 ? CHUNKS : 4) /* chunks that are asked for before the first is used */

/* Sums over a row, of this lane or of all that share the row. Masses are exact in float64; what counts, counts in float32:
 * the units for whole numbers have enough to do with the hash. */
struct Sums { double total, above; u64 hash; float greater, equal; u32 odd; i64 top, second; };

DEVICE void add_label(Sums &s, Value x, Value mine, u64 key) {
    double wide = (double)x, mass = (wide + 2.0) - 2.0;
    s.total += mass;
    if (x > mine) s.above += mass, s.greater += 1.0f;
    if (x == mine) s.equal += 1.0f;
    s.odd = max(s.odd, oddness(x));
    if (HASHES) s.hash += hash_word(bits_of(wide), key);
}

DEVICE void pass_over(const Job &job, const Element *const *rows, const Value *mine, Sums *s) {
    for (int k = 0; k < AT_ONCE; k++) s[k] = {0.0, 0.0, 0, 0.0f, 0.0f, 0, 0, 0};
#pragma unroll 1
    for (int first = 0; first < CHUNKS; first += BATCH) {
        Value x[AT_ONCE][BATCH][VECTOR];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
            for (int c = 0; c < BATCH; c++)
                if (first + c < CHUNKS && is_inside(first + c)) load_chunk(rows[k], first + c, x[k][c]);
#pragma unroll
        for (int c = 0; c < BATCH; c++) {
            if (first + c >= CHUNKS || !is_inside(first + c)) continue;
            u64 keys[VECTOR];
            if (HASHES) load_keys(job.column_keys, first + c, keys);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
#pragma unroll
                for (int v = 0; v < VECTOR; v++) add_label(s[k], x[k][c][v], mine[k], keys[v]);
                if (!ASKS) continue;
#pragma unroll
                for (int v = 0; v < VECTOR; v++) add_to_top_two(s[k].top, s[k].second, grid_steps((double)x[k][c][v]));
            }
        }
    }
}

DEVICE Sums together(const Sums &mine) {
    Sums s = mine;
    s.total = mass_in_group(mine.total), s.above = mass_in_group(mine.above);
    if (HASHES) s.hash = sum_in_group(mine.hash);
    if (COLUMNS < 65536) {
        u32 both = sum_in_group((u32)mine.greater | (u32)mine.equal << 16);
        s.greater = (float)(both & 0xFFFFu), s.equal = (float)(both >> 16);
    } else
        s.greater = sum_over(mine.greater, LANES), s.equal = sum_over(mine.equal, LANES);
    s.odd = largest_in_group(mine.odd);
    if (ASKS) top_two_over(s.top, s.second, LANES);
    return s;
}

/* Each lane finishes one row: the one that its group looks at in turn WITHIN. There are `turns` of them, fewer than LANES where
 * rows are few: then more warps have some. */
/* Blocks on a multiprocessor at a time, as measured. */
#define MIN_BLOCKS (LANES == 32 ? 1 : 8)
extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS) label_scores(Job job, const i64 *labels, double *scores, i64 turns) {
    i64 n = rows_to_do(job), warps = (i64)gridDim.x * blockDim.x / 32;
    for (i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32 * (GROUPS * turns); first < n; first += warps * (GROUPS * turns)) {
        i64 i = first + LANE / LANES * turns + WITHIN;
        bool here = i < n && (i64)WITHIN < turns;
        i64 row = row_at(job, here ? i : n - 1);
        const Element *at = elements_of(job, row);
        Value value = value_of(at[labels[row]]) + (Value)0;
        Sums sums = {0.0, 0.0, 0, 0.0f, 0.0f, 0, 0, 0};
#pragma unroll 1
        for (int turn = 0; turn < (int)turns; turn += AT_ONCE) {
            const Element *rows[AT_ONCE];
            Value mine[AT_ONCE];
            Sums found[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                int whose = (int)LANE / LANES * LANES + turn + k;
                rows[k] = (const Element *)__shfl_sync(FULL, (u64)at, whose), mine[k] = __shfl_sync(FULL, value, whose);
            }
            pass_over(job, rows, mine, found);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                found[k] = together(found[k]);
                if (turn + k == (int)WITHIN) sums = found[k];
            }
        }
        double own = mass_of((double)value);
        Loaded of = {sums.total * STEPS_PER_ONE, (double)sums.top, (double)sums.second, 0, 0.0};
        if (!here) continue;
        if (sums.odd > ODD) { look_at_odd(job, row); continue; }
        if (is_off(of.total, job.tolerance)) { report(job, row); continue; }
        of.u = uniform_at(job, row, seed_at(job, row, sums.hash, true));
        if (sums.equal != 1.0f || own == 0.0) leave(job, row);
        else scores[row] = mass_score(job.w, sums.above * STEPS_PER_ONE, own, (double)sums.greater + 1.0, of);
    }
}

extern "C" __global__ void label_scores_carefully(Job job, const i64 *labels, double *scores, i64 turns) {
    i64 warps = (i64)gridDim.x * blockDim.x / 32, n = (i64)*job.n_slow;
    for (i64 k = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; k < n; k += warps) {
        i64 row = (i64)job.slow[k];
        Careful c = open_carefully(job, row);
        if (c.bad) { if (LANE == 0) report(job, row); continue; }
        double score = careful_label_score(job, c, labels[row]);
        if (LANE == 0) scores[row] = score;
    }
}

/* The seed of every row of a matrix of any numbers. */
extern "C" __global__ void hash_rows(Job job, u64 *seeds) {
    i64 warps = (i64)gridDim.x * blockDim.x / 32;
    for (i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; row < job.n; row += warps) {
        const Element *at = elements_of(job, row);
        u64 hash = 0;
        for (i64 j = LANE; j < COLUMNS; j += 32) {
            double x = double_at(at, j);
            hash += hash_word(x == x ? bits_of(x) : 0x7FF8000000000000ull, job.column_keys[j]);
        }
        hash = sum_over(hash, 32);
        if (LANE == 0) seeds[row] = mix(hash + job.base);
    }
}
