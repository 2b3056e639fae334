/* What needs every score of a row: the row is put in order by TEAM threads, and each label told where it stands.
 *
 * WHAT says what becomes of the scores. LENGTH is the power of two that holds a row. Rows stand in shared memory, or in
 * memory of the device where they are too long for that.
 */
#include "exact_fallback.cuh"
#include "output.cuh"

#define WARPS (TEAM / 32)
#define PART (LENGTH / WARPS) /* of a row that a warp has */

struct Shared { u64 total, hash, with_mass; u32 invalid; i64 sums[WARPS]; u32 counts[WARPS]; u32 sizes[32]; };

DEVICE void team_sync() { if (TEAM == 32) __syncwarp(); else __syncthreads(); }

struct Places { Value *x; u32 *columns; };

DEVICE bool stands_before(const Places &p, u32 a, u32 b, u64 tie_seed) {
    Value x = p.x[a], y = p.x[b];
    if (x != y || x < 0) return x > y;
    return tie_of(tie_seed, p.columns[a]) < tie_of(tie_seed, p.columns[b]);
}

/* Bitonic: every pass compares places that differ in one bit. */
DEVICE void put_in_order(const Places &p, u32 member, u64 tie_seed) {
    for (u32 size = 2; size <= LENGTH; size *= 2)
        for (u32 step = size / 2; step > 0; step /= 2) {
            for (u32 k = member; k < LENGTH / 2; k += TEAM) {
                u32 a = 2 * k - (k & (step - 1)), b = a + step;
                bool upward = (a & size) == 0;
                if (stands_before(p, upward ? b : a, upward ? a : b, tie_seed)) {
                    Value x = p.x[a]; p.x[a] = p.x[b]; p.x[b] = x;
                    u32 column = p.columns[a]; p.columns[a] = p.columns[b]; p.columns[b] = column;
                }
            }
            team_sync();
        }
}

/* Read a row, sum it, seed it. */
DEVICE Careful open_together(const Job &job, i64 row, u32 member, Shared &s, const Places &p) {
    Careful c;
    c.at = elements_of(job, row);
    if (member == 0) s.total = s.hash = s.with_mass = 0, s.invalid = 0;
    team_sync();
    u64 total = 0, hash = 0, with_mass = 0;
    u32 invalid = 0;
    for (u32 j = member; j < LENGTH; j += TEAM) {
        Value x = j < COLUMNS ? value_of(c.at[j]) + (Value)0 : (Value)-1;
        p.x[j] = x, p.columns[j] = j;
        if (j >= COLUMNS) continue;
        i64 steps = grid_steps((double)x);
        invalid |= !(x >= 0) || !(x <= 2);
        total += (u64)steps, with_mass += steps > 0;
        if (!job.seeds) add_to_hash(hash, bits_of((double)x), job.column_keys[j]);
    }
    total = sum_over(total, 32), hash = sum_over(hash, 32), with_mass = sum_over(with_mass, 32);
    bool any = __any_sync(FULL, invalid);
    if (LANE == 0) {
        atomicAdd(&s.total, total), atomicAdd(&s.hash, hash), atomicAdd(&s.with_mass, with_mass);
        if (any) atomicAdd(&s.invalid, 1u);
    }
    team_sync();
    c.of.total = (double)(i64)s.total, c.of.with_mass = (i64)s.with_mass;
    c.bad = s.invalid || is_off(c.of.total, job.tolerance);
    u64 seed = seed_at(job, row, s.hash, member == 0);
    c.of.u = uniform_at(job, row, seed);
    c.tie_seed = tie_seed_of(seed, c.of.u);
    return c;
}

/* The mass, or the number of labels, before the part of this warp. */
template <typename T> DEVICE T before_part(T *parts, T of_lane, u32 member) {
    of_lane = sum_over(of_lane, 32);
    if (LANE == 0) parts[member / 32] = of_lane;
    team_sync();
    T before = 0;
    for (u32 w = 0; w < member / 32; w++) before += parts[w];
    return before;
}
/* The sum over the lanes up to this one. */
template <typename T> DEVICE T sum_up_to(T x) {
    for (int step = 1; step < 32; step *= 2) {
        T other = __shfl_up_sync(FULL, x, step);
        if (LANE >= step) x += other;
    }
    return x;
}

DEVICE double score_at(const Job &job, const Careful &c, const Places &p, u32 e, i64 above) {
    return score_of(job.w, above, grid_steps((double)p.x[e]), (i64)e + 1, c.of);
}

/* Call `use(place, score)` for every label of the part of this warp, in stripes of 32; beyond the row the score is none. */
template <typename Use> DEVICE void each_score(const Job &job, const Careful &c, const Places &p, u32 member, Shared &s, Use use) {
    u32 first = member / 32 * PART;
    i64 of_lane = 0;
    for (u32 e = first + LANE; e < first + PART; e += 32) of_lane += e < COLUMNS ? grid_steps((double)p.x[e]) : 0;
    i64 before = before_part(s.sums, of_lane, member);
    for (u32 e = first + LANE; e < first + PART; e += 32) {
        i64 own = e < COLUMNS ? grid_steps((double)p.x[e]) : 0, up_to = sum_up_to(own);
        use(e, e < COLUMNS ? score_at(job, c, p, e, before + up_to - own) : 0.0);
        before += __shfl_sync(FULL, up_to, 31);
    }
}

DEVICE void use_scores(const Job &job, const Careful &c, const Places &p, i64 row, u32 member, Shared &s, const Output &out) {
#if WHAT == SCORES_OF_LABELS
    each_score(job, c, p, member, s, [&](u32 e, double score) {
        if (e < COLUMNS) out.scores[row * COLUMNS + p.columns[e]] = score;
    });
#elif WHAT == SIZES_OF_SETS
    for (i64 from = 0; from < out.n_thresholds; from += 32) { /* a lane has a threshold, and counts for it */
        int here = out.n_thresholds - from < 32 ? (int)(out.n_thresholds - from) : 32;
        double of_lane = LANE < here ? out.thresholds[(out.per_row ? row * out.n_thresholds : 0) + from + LANE] : 0.0;
        u32 in = 0;
        each_score(job, c, p, member, s, [&](u32 e, double score) {
            for (int a = 0; a < here; a++) {
                double threshold = __shfl_sync(FULL, of_lane, a);
                u32 votes = __ballot_sync(FULL, e < COLUMNS && score <= threshold);
                if ((int)LANE == a) in += __popc(votes);
            }
        });
        if (member < 32) s.sizes[member] = 0;
        team_sync();
        if (in) atomicAdd(&s.sizes[LANE], in);
        team_sync();
        if ((int)member < here) {
            int size = (int)s.sizes[member];
            out.sizes[(from + member) * out.n_rows + row] = size < out.min_size ? (int)out.min_size : size;
        }
        team_sync();
    }
#elif WHAT == MEMBERS_OF_SETS
    for (u32 e = member; e < (u32)out.longest[row]; e += TEAM) out.members[out.pointers[row] + e] = (int)p.columns[e];
#else /* each label has a threshold of its own; a copy that is not looked at as such yet may have more than its place */
    u32 of_lane = 0, before = 0;
    each_score(job, c, p, member, s, [&](u32 e, double score) { of_lane += e < COLUMNS && score <= out.thresholds[p.columns[e]]; });
    before = before_part(s.counts, of_lane, member);
    u32 all = 0;
    for (u32 w = 0; w < WARPS; w++) all += s.counts[w];
#if WHAT == SIZES_BY_LABEL
    if (member == 0) out.sizes[row] = all < (u32)out.min_size ? (int)out.min_size : (int)all;
#else
    each_score(job, c, p, member, s, [&](u32 e, double score) {
        bool is_in = e < COLUMNS && (score <= out.thresholds[p.columns[e]] || (all < (u32)out.min_size && e == 0));
#if WHAT == MASK_BY_LABEL
        if (e < COLUMNS) out.flags[row * COLUMNS + p.columns[e]] = is_in;
#else
        u32 votes = __ballot_sync(FULL, is_in);
        u32 at = before + __popc(votes & ((1u << LANE) - 1u));
        if (is_in && at < (u32)out.sizes[row]) out.members[out.pointers[row] + at] = (int)p.columns[e];
        before += __popc(votes);
#endif
    });
#endif
#endif
}

extern "C" __global__ void __launch_bounds__(BLOCK) ordered(Job job, Output out, unsigned char *memory) {
    __shared__ Shared shared[BLOCK / TEAM];
    DYNAMIC_SHARED(pool);
    u32 team = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
    i64 teams = (i64)gridDim.x * (BLOCK / TEAM), of_lane = (i64)blockIdx.x * (BLOCK / TEAM) + team;
    const i64 bytes = (i64)LENGTH * (sizeof(Value) + sizeof(u32));
    unsigned char *at = memory ? memory + of_lane * bytes : pool + team * bytes;
    Places p = {(Value *)at, (u32 *)(at + LENGTH * sizeof(Value))};
    i64 n = rows_to_do(job);
    for (i64 i = of_lane; i < n; i += teams) {
        i64 row = row_at(job, i);
        Careful c = open_together(job, row, member, shared[team], p);
        if (c.bad) { if (member == 0) report(job, row); team_sync(); continue; }
        put_in_order(p, member, c.tie_seed);
        c.of.top = (double)grid_steps((double)p.x[0]), c.of.second = (double)grid_steps((double)p.x[1]);
        use_scores(job, c, p, row, member, shared[team], out);
        team_sync();
    }
}
