/* What needs every score of a row, for rows of up to 32 labels a lane: the row is put in order in registers.
 *
 * A lane has EACH places of the order, one lane's behind the other's. A key is a value and its column, so that whole numbers
 * are compared; only where values are equal does the keyed order of ties decide, in a second pass. WHAT says what becomes
 * of the scores. Longer rows, and those of float64, are for ordered.cu.
 */
#include "loading.cuh"
#include "output.cuh"

#define LENGTH (LANES * EACH)
#ifndef TIE_BITS
#define TIE_BITS 44 /* of a tie that fit a key beside a place and a column */
#endif
#define GATHERS (LANES >= 16 && EACH == 32) /* whether members are picked out before they are put in order */
#ifndef BY_BUCKETS
#define BY_BUCKETS (LANES == 32 && EACH == 32) /* whether values are spread over buckets first */
#endif
#ifndef ONLY_BUCKETS
#define ONLY_BUCKETS 0 /* rows with too full a bucket are left to another kernel: sorting in registers asks for most of them */
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS (WHAT == SIZES_OF_SETS || BY_BUCKETS ? 3 : 4) /* on a multiprocessor at a time, as measured */
#endif
#define PLACE(e) ((int)WITHIN * E + (e)) /* of E in each lane */

/* The greater key comes first. */
DEVICE void order_pair(u64 &a, u64 &b) {
    u64 greater = a > b ? a : b;
    b = a > b ? b : a, a = greater;
}
DEVICE u64 kept_of(u64 of_lane, u64 other, bool comes_first) { return (of_lane > other) == comes_first ? of_lane : other; }

template <int E> DEVICE void merge_in_lane(u64 (&keys)[E]) {
#pragma unroll
    for (int step = E / 2; step > 0; step /= 2)
#pragma unroll
        for (int e = 0; e < E; e++)
            if (!(e & step)) order_pair(keys[e], keys[e + step]);
}
/* Each size compares mirrored places first, then places that differ in one bit: nothing is ever sorted upward. */
template <int E> DEVICE void sort_in_lane(u64 (&keys)[E]) {
#pragma unroll
    for (int size = 2; size <= E; size *= 2) {
#pragma unroll
        for (int e = 0; e < E; e++)
            if (e < (e ^ (size - 1))) order_pair(keys[e], keys[e ^ (size - 1)]);
#pragma unroll
        for (int step = size / 4; step > 0; step /= 2)
#pragma unroll
            for (int e = 0; e < E; e++)
                if (!(e & step)) order_pair(keys[e], keys[e + step]);
    }
}
template <int E> DEVICE void sort_in_group(u64 (&keys)[E]) {
    sort_in_lane(keys);
#pragma unroll 1
    for (int lanes = 2; lanes <= LANES; lanes *= 2) {
        bool comes_first = !(WITHIN & (lanes / 2));
#pragma unroll
        for (int e = 0; e < E / 2; e++) {
            u64 &of_lane = keys[e], &mirrored = keys[E - 1 - e];
            u64 other = __shfl_xor_sync(FULL, mirrored, lanes - 1), another = __shfl_xor_sync(FULL, of_lane, lanes - 1);
            of_lane = kept_of(of_lane, other, comes_first), mirrored = kept_of(mirrored, another, comes_first);
        }
#pragma unroll 1
        for (int step = lanes / 4; step > 0; step /= 2) {
            comes_first = !(WITHIN & step);
#pragma unroll
            for (int e = 0; e < E; e++) keys[e] = kept_of(keys[e], __shfl_xor_sync(FULL, keys[e], step), comes_first);
        }
        merge_in_lane(keys);
    }
}

/* The sum over the lanes of the row before this one. */
template <typename T> DEVICE T sum_before(T of_lane) {
    T up_to = of_lane;
    for (int step = 1; step < LANES; step *= 2) {
        T other = __shfl_up_sync(FULL, up_to, step);
        if ((int)WITHIN >= step) up_to += other;
    }
    return up_to - of_lane;
}
/* What the lane of this row before this one has; the first one gets its own. */
template <typename T> DEVICE T from_lane_before(T of_lane) { return __shfl_sync(FULL, of_lane, (int)LANE - (WITHIN ? 1 : 0)); }
template <typename T> DEVICE T from_lane_after(T of_lane) { return __shfl_sync(FULL, of_lane, (int)LANE + (WITHIN < LANES - 1 ? 1 : 0)); }

/* The row in order: values as bits plus 1 (0 beyond the row), and their columns. */
template <int E> struct OrderOf { u32 values[E]; u32 columns[E]; };
typedef OrderOf<EACH> Ordered;

/* Put the columns of equal values into the keyed order of ties, where ties in full decide: neighbours change places until none has to. */
template <int E> DEVICE void settle_neighbours(OrderOf<E> &o, u64 tie_seed) {
    bool moved = true;
    while (__any_sync(FULL, moved)) {
        moved = false;
#pragma unroll
        for (int e = 0; e + 1 < E; e++) {
            if (!o.values[e] || o.values[e] != o.values[e + 1]) continue;
            if (tie_of(tie_seed, o.columns[e]) < tie_of(tie_seed, o.columns[e + 1])) continue;
            u32 column = o.columns[e];
            o.columns[e] = o.columns[e + 1], o.columns[e + 1] = column, moved = true;
        }
        u32 value = from_lane_before(o.values[E - 1]), column = from_lane_before(o.columns[E - 1]);
        bool takes = WITHIN && value && value == o.values[0] && tie_of(tie_seed, column) > tie_of(tie_seed, o.columns[0]);
        bool gives = __shfl_sync(FULL, (int)takes, ((int)LANE + 1) & 31) && WITHIN < LANES - 1;
        u32 next = from_lane_after(o.columns[0]);
        if (takes) o.columns[0] = column, moved = true;
        if (gives) o.columns[E - 1] = next;
    }
}

/* The keys for a second pass: the place where each value begins, then the first bits of ties. */
template <int E> DEVICE void tie_keys(const OrderOf<E> &o, u64 tie_seed, u64 (&keys)[E]) {
    u32 before = from_lane_before(o.values[E - 1]), begins[E], latest = 0;
#pragma unroll
    for (int e = 0; e < E; e++) { /* the last beginning in this lane up to here, if there is one; plus 1 */
        bool is_new = (e == 0 ? WITHIN == 0 || before != o.values[0] : o.values[e - 1] != o.values[e]);
        latest = is_new ? (u32)PLACE(e) + 1u : latest;
        begins[e] = latest;
    }
    u32 inherited = latest;
    for (int step = 1; step < LANES; step *= 2) {
        u32 other = __shfl_up_sync(FULL, inherited, step);
        if ((int)WITHIN >= step) inherited = inherited > other ? inherited : other;
    }
    inherited = from_lane_before(inherited);
#pragma unroll
    for (int e = 0; e < E; e++) {
        u64 begin = begins[e] ? begins[e] : inherited; /* in 1 .. LANES * E */
        u64 tie = ~tie_of(tie_seed, o.columns[e]) >> (64 - TIE_BITS);
        keys[e] = ((u64)(LANES * E) - begin) << 54 | tie << 10 | o.columns[e];
    }
}

/* Tells whether a value stands twice in the row. */
template <int E> DEVICE bool has_ties(const OrderOf<E> &o) {
    u32 before = from_lane_before(o.values[E - 1]);
    bool tied = WITHIN && o.values[0] && before == o.values[0];
#pragma unroll
    for (int e = 1; e < E; e++) tied |= o.values[e] && o.values[e - 1] == o.values[e];
    return tied;
}

/* By values; then, where some are equal, by their ties, for which the first bits nearly always are enough. */
template <int E> DEVICE OrderOf<E> put_in_order(u64 (&keys)[E], u64 tie_seed) {
    OrderOf<E> o;
#pragma unroll 1
    for (bool by_ties = false;; by_ties = true) { /* the code of sorting stands once: it is long */
        sort_in_group(keys);
        if (by_ties) break;
#pragma unroll
        for (int e = 0; e < E; e++) o.values[e] = (u32)(keys[e] >> 32), o.columns[e] = (u32)keys[e];
        if (!__any_sync(FULL, has_ties(o))) return o;
        tie_keys(o, tie_seed, keys);
    }
#pragma unroll
    for (int e = 0; e < E; e++) o.columns[e] = (u32)keys[e] & 1023u;
    settle_neighbours(o, tie_seed);
    return o;
}

/* Where labels, scores, flags or members wait in shared memory, until a warp reads or writes them side by side. */
DEVICE int padded(int place) { return place + (int)((u32)place >> 5); } /* lanes would meet in one bank */

/* The labels of this lane as they were read: their values as bits plus 1, and the columns that these stand in. */
#define IS_LABEL(e) is_inside((e) / VECTOR) /* whatever its value is: rows may be bad */
DEVICE u64 key_at(const u32 (&values)[EACH], int e) {
    return IS_LABEL(e) ? (u64)values[e] << 32 | (u32)(column_of(e / VECTOR) + e % VECTOR) : 0;
}

#if BY_BUCKETS
#define N_BUCKETS 1024
#define FULLEST 24 /* labels of a bucket up to which neighbours are exchanged */
struct Buckets { u32 highest, times; };

/* Bits of floats grow with their logarithms, so equal parts of their range are equal parts of the range of the logits. The last
 * bucket stays empty: quotients and products are rounded, but never out of order. */
DEVICE Buckets buckets_of(const u32 (&values)[EACH]) {
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (IS_LABEL(e)) least = values[e] < least ? values[e] : least, most = values[e] > most ? values[e] : most;
    least = __reduce_min_sync(FULL, least), most = __reduce_max_sync(FULL, most);
    float times = __fdividef(0x1p32f * (N_BUCKETS - 2), (float)(most - least) + 1.0f);
    Buckets b = {most, (u32)fminf(times, 4294967040.0f)};
    return b;
}
DEVICE int bucket_of(const Buckets &b, u32 value) { return padded((int)__umulhi(b.highest - value, b.times)); }

/* Exchange neighbours whose values are out of order; `rounds` times, each the pairs that begin at even and then at odd places. */
DEVICE void exchange_neighbours(Ordered &o, u32 rounds) {
#pragma unroll 1
    for (; rounds; rounds--) {
#pragma unroll
        for (int first = 0; first < 2; first++)
#pragma unroll
            for (int e = first; e + 1 < EACH; e += 2) {
                u32 value = o.values[e], column = o.columns[e];
                bool swaps = value < o.values[e + 1];
                o.values[e] = swaps ? o.values[e + 1] : value, o.columns[e] = swaps ? o.columns[e + 1] : column;
                o.values[e + 1] = swaps ? value : o.values[e + 1], o.columns[e + 1] = swaps ? column : o.columns[e + 1];
            }
        u32 before = from_lane_before(o.values[EACH - 1]), its_column = from_lane_before(o.columns[EACH - 1]);
        u32 after = from_lane_after(o.values[0]), that_column = from_lane_after(o.columns[0]);
        if (WITHIN && before < o.values[0]) o.values[0] = before, o.columns[0] = its_column;
        if (WITHIN < LANES - 1 && after > o.values[EACH - 1]) o.values[EACH - 1] = after, o.columns[EACH - 1] = that_column;
    }
}

/* Count the labels of every bucket, let each begin where the one before it ends, put labels there, and exchange neighbours as
 * often as the fullest bucket asks for: n of them are in order after n turns. False, with nothing done, if one is too full. */
DEVICE bool order_by_buckets(const u32 (&values)[EACH], Ordered &o, u64 *staged) {
    u32 *starts = (u32 *)(staged + padded(LENGTH)), places[EACH / 2], total = 0, fullest = 0; /* of two labels: a bucket and a place there each */
    Buckets b = buckets_of(values);
    for (int k = (int)LANE; k < padded(N_BUCKETS); k += 32) starts[k] = 0;
    __syncwarp();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u32 bucket = (u32)bucket_of(b, values[e]), place = IS_LABEL(e) ? atomicAdd(starts + bucket, 1u) & 31u : 0;
        places[e / 2] = e % 2 ? places[e / 2] | bucket << 21 | place << 16 : bucket << 5 | place;
    }
    __syncwarp();
    u32 *of_lane = starts + padded((int)LANE * (N_BUCKETS / 32));
#pragma unroll 8
    for (int k = 0; k < N_BUCKETS / 32; k++) total += of_lane[k], fullest = of_lane[k] > fullest ? of_lane[k] : fullest;
    fullest = __reduce_max_sync(FULL, fullest);
    if (fullest > FULLEST) return false;
    u32 start = sum_before(total);
#pragma unroll 8
    for (int k = 0; k < N_BUCKETS / 32; k++) {
        u32 count = of_lane[k];
        of_lane[k] = start, start += count;
    }
    __syncwarp();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u32 noted = e % 2 ? places[e / 2] >> 16 : places[e / 2] & 0xFFFFu;
        if (IS_LABEL(e)) staged[padded((int)(starts[noted >> 5] + (noted & 31u)))] = key_at(values, e);
    }
    __syncwarp();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u64 key = (int)LANE * EACH + e < COLUMNS ? staged[padded((int)LANE * EACH + e)] : 0;
        o.values[e] = (u32)(key >> 32), o.columns[e] = (u32)key;
    }
    __syncwarp();
    if (fullest > 1) exchange_neighbours(o, fullest / 2 + 1);
    return true;
}

/* The same as settle_neighbours, in shared memory: rows with ties are rare, and code that is long would push the rest out of the cache of instructions. */
DEVICE void settle_staged(Ordered &o, u64 *staged, u64 tie_seed) {
    int first = (int)LANE * EACH;
#pragma unroll
    for (int e = 0; e < EACH; e++) staged[padded(first + e)] = (u64)o.values[e] << 32 | o.columns[e];
    __syncwarp();
    bool moved = true;
    while (__any_sync(FULL, moved)) {
        moved = false;
#pragma unroll 1
        for (int e = 0; e < EACH; e++) { /* pairs across two lanes last, when nobody else looks at them */
            if (e == EACH - 1) __syncwarp();
            if (first + e + 1 >= LENGTH) continue;
            u64 &a = staged[padded(first + e)], &b = staged[padded(first + e + 1)], kept = a, next = b;
            if (!(kept >> 32) || kept >> 32 != next >> 32) continue;
            if (tie_of(tie_seed, (u32)kept) < tie_of(tie_seed, (u32)next)) continue;
            a = next, b = kept, moved = true;
        }
        __syncwarp();
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) o.columns[e] = (u32)staged[padded(first + e)];
    __syncwarp();
}
#endif

/* The whole row in order. */
DEVICE Ordered put_row_in_order(const u32 (&values)[EACH], u64 tie_seed, unsigned char *pool) {
#if BY_BUCKETS
    Ordered o;
    if (order_by_buckets(values, o, (u64 *)pool)) {
        if (__any_sync(FULL, has_ties(o))) settle_staged(o, (u64 *)pool, tie_seed);
        return o;
    }
#endif
    u64 keys[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) keys[e] = key_at(values, e);
    return put_in_order(keys, tie_seed);
}

template <typename T> DEVICE void write_together(const T *staged, T *to, i64 from, int count, bool spread) {
#pragma unroll 1
    for (int g = 0; g < GROUPS; g++) {
        i64 start = __shfl_sync(FULL, from, g * LANES);
        int length = __shfl_sync(FULL, count, g * LANES);
        for (int k = (int)LANE; k < length; k += 32) to[start + k] = staged[g * padded(LENGTH) + (spread ? padded(k) : k)];
    }
    __syncwarp();
}

struct Row { i64 row; bool here; Loaded of; u64 tie_seed; };

/* Whether a value, by its bits, is more than nothing on the grid: more than half a step. */
DEVICE bool has_mass(u32 bits) { return bits > 0x25800000u; /* 2^-52 */ }

DEVICE double mass_at(const Ordered &o, int e) { return ((double)__uint_as_float((o.values[e] ? o.values[e] : 1u) - 1u) + 2.0) - 2.0; }

/* A score that is made later, of a label without mass behind all others: no number, with its rank in the low bits. */
#define LATER 0x7FF8000000000000ull

/* Call `use(e, score)` for every place of this lane. Masses are not scaled to grid steps, which changes no quotient. Where all scores are
 * written, those of labels without mass are made by the loop that writes them: the code of a division for each place would be long. */
template <typename Use> DEVICE void each_score(const Job &job, const Row &r, Ordered &o, Use use) {
    double of_lane = 0.0;
#pragma unroll
    for (int e = 0; e < EACH; e++) of_lane += mass_at(o, e);
#pragma unroll
    for (int e = 0; e < EACH; e++) look_again(o.values[e]);
    Loaded of = r.of;
    of.total *= 0x1p-51, of.top *= 0x1p-51, of.second *= 0x1p-51;
    double above = sum_before(of_lane), one_over_total = 1.0 / of.total;
    bool may_be_behind = job.w[BEHIND] != 0.0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        double own = mass_at(o, e);
        int rank = (int)WITHIN * EACH + e + 1;
        if (rank <= COLUMNS) {
#if WHAT == SCORES_OF_LABELS
            double score = mass_score(job.w, above, own, (double)rank, of, one_over_total);
            use(e, may_be_behind && !has_mass(o.values[e] - 1u) ? from_bits(LATER | (u32)rank) : score);
#else
            use(e, own > 0.0 || !may_be_behind ? mass_score(job.w, above, own, (double)rank, of, one_over_total) : behind_score(job.w, rank, of));
#endif
        }
        above += own;
    }
}

#if WHAT == SCORES_OF_LABELS
/* Write the scores of each row that the warp has, side by side. */
DEVICE void write_scores(const Job &job, const Row &r, const double *staged, double *to) {
#pragma unroll 1
    for (int g = 0; g < GROUPS; g++) {
        i64 start = __shfl_sync(FULL, r.row, g * LANES) * COLUMNS;
        Loaded of = r.of;
        of.u = __shfl_sync(FULL, of.u, g * LANES), of.with_mass = __shfl_sync(FULL, of.with_mass, g * LANES);
        if (!__shfl_sync(FULL, (int)r.here, g * LANES)) continue;
        const double *from = staged + g * padded(LENGTH);
        if (of.with_mass == COLUMNS || job.w[BEHIND] == 0.0) {
#pragma unroll 8
            for (int k = (int)LANE; k < COLUMNS; k += 32) to[start + k] = from[k];
            continue;
        }
#pragma unroll 1
        for (int k = (int)LANE; k < COLUMNS; k += 32)
            to[start + k] = from[k] == from[k] ? from[k] : behind_score(job.w, (i64)(bits_of(from[k]) & 0xFFFFu), of);
    }
    __syncwarp();
}
#endif

#if WHAT == MEMBERS_OF_SETS
template <int E> DEVICE void write_members(const Row &r, const OrderOf<E> &o, const Output &out, unsigned char *pool) {
    int *staged = (int *)pool + (LANE / LANES) * padded(LENGTH);
#pragma unroll
    for (int e = 0; e < E; e++) staged[padded(PLACE(e))] = (int)o.columns[e];
    __syncwarp();
    write_together((int *)pool, out.members, out.pointers[r.row], r.here ? out.longest[r.row] : 0, true);
}

#if GATHERS
/* Put only the labels in order that wait in shared memory. */
template <int E> DEVICE void order_gathered(const Row &r, int count, const Output &out, unsigned char *pool) {
    const u64 *staged = (const u64 *)pool + (LANE / LANES) * padded(LENGTH);
    u64 keys[E];
#pragma unroll
    for (int e = 0; e < E; e++) keys[e] = PLACE(e) < count ? staged[PLACE(e)] : 0;
    __syncwarp();
    write_members(r, put_in_order(keys, r.tie_seed), out, pool);
}

/* Only labels that reach the least value of the set can be in it; some that equal it may be out. */
DEVICE void order_members(const Row &r, const u32 (&values)[EACH], const Output &out, unsigned char *pool) {
    u32 least = __float_as_uint(out.cutoffs[r.row]) + 1u, chosen = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) chosen |= (u32)(IS_LABEL(e) && values[e] >= least) << e;
    int count = (int)sum_in_group((u32)__popc(chosen)), at = (int)sum_before((u32)__popc(chosen));
    int most = (int)__reduce_max_sync(FULL, r.here ? (u32)count : 0u);
    if (most > 8 * LANES) {
        write_members(r, put_row_in_order(values, r.tie_seed, pool), out, pool);
        return;
    }
    u64 *staged = (u64 *)pool + (LANE / LANES) * padded(LENGTH);
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (chosen >> e & 1) staged[at++] = key_at(values, e);
    __syncwarp();
    if (most <= 2 * LANES) order_gathered<2>(r, count, out, pool); else order_gathered<8>(r, count, out, pool);
}
#endif
#endif

DEVICE void use_scores(const Job &job, const Row &r, Ordered &o, const Output &out, unsigned char *pool) {
#if WHAT == SCORES_OF_LABELS
    double *staged = (double *)pool + (LANE / LANES) * padded(LENGTH);
    each_score(job, r, o, [&](int e, double score) { staged[o.columns[e]] = score; });
    __syncwarp();
    write_scores(job, r, (double *)pool, out.scores);
#elif WHAT == SIZES_OF_SETS
    double scores[EACH];
    each_score(job, r, o, [&](int e, double score) { scores[e] = score; });
    int longest = 0;
    for (i64 a = 0; a < out.n_thresholds; a++) {
        double threshold = out.thresholds[(out.per_row ? r.row * out.n_thresholds : 0) + a];
        u32 in = 0;
#pragma unroll
        for (int e = 0; e < EACH; e++) in += (int)WITHIN * EACH + e < COLUMNS && scores[e] <= threshold;
        int size = (int)sum_in_group(in);
        size = size < (int)out.min_size ? (int)out.min_size : size, longest = longest > size ? longest : size;
        if (r.here && WITHIN == 0) out.sizes[a * out.n_rows + r.row] = size;
    }
    if (longest == 0 && WITHIN == 0 && r.here) out.cutoffs[r.row] = 4.0f; /* nobody reaches it */
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (r.here && (int)WITHIN * EACH + e + 1 == longest) out.cutoffs[r.row] = __uint_as_float(o.values[e] - 1u);
#else /* each label has a threshold of its own; a copy that is not looked at as such yet may have more than its place */
    u32 in = 0;
    each_score(job, r, o, [&](int e, double score) { in |= (u32)(score <= out.thresholds[o.columns[e]]) << e; });
    u32 all = sum_in_group((u32)__popc(in));
    if (all == 0 && out.min_size && WITHIN == 0) in = 1;
    if (all < (u32)out.min_size) all = (u32)out.min_size;
#if WHAT == SIZES_BY_LABEL
    if (r.here && WITHIN == 0) out.sizes[r.row] = (int)all;
#elif WHAT == MASK_BY_LABEL
    unsigned char *staged = pool + (LANE / LANES) * padded(LENGTH);
#pragma unroll
    for (int e = 0; e < EACH; e++) if ((int)WITHIN * EACH + e < COLUMNS) staged[o.columns[e]] = in >> e & 1;
    __syncwarp();
    write_together(pool, out.flags, r.row * COLUMNS, r.here ? COLUMNS : 0, false);
#else
    int *staged = (int *)pool + (LANE / LANES) * padded(LENGTH);
    int at = (int)sum_before((u32)__popc(in)), most = r.here ? min((int)all, out.sizes[r.row]) : 0;
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (in >> e & 1) staged[padded(at)] = (int)o.columns[e], at++;
    __syncwarp();
    write_together((int *)pool, out.members, out.pointers[r.row], most, true);
#endif
#endif
}

/* Read a row, sum it, seed it; bad rows are told and then go along without a place to write to. */
DEVICE Row open_values(const Job &job, i64 i, bool here, u32 (&values)[EACH]) {
    Row r = {row_at(job, i), here, {0.0, 0.0, 0.0, 0, 0.0}, 0};
    const Element *at = elements_of(job, r.row);
    double total = 0.0;
    u64 hash = 0;
    u32 odd = 0, with_mass = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) values[e] = 0;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        if (!is_inside(chunk)) continue;
        Value x[VECTOR];
        u64 column_keys[VECTOR];
        load_chunk(at, chunk, x);
        if (HASHES) load_keys(job.column_keys, chunk, column_keys);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            Value value = x[v] + (Value)0; /* one zero */
            double wide = (double)value, mass = (wide + 2.0) - 2.0;
            total += mass, odd |= oddness(value), with_mass += has_mass(__float_as_uint(value));
            if (HASHES) add_to_hash(hash, bits_of(wide), column_keys[v]);
            values[chunk * VECTOR + v] = __float_as_uint(value) + 1u;
        }
    }
    r.of.total = mass_in_group(total) * STEPS_PER_ONE, r.of.with_mass = sum_in_group(with_mass);
    bool bad = largest_in_group(odd) >= ODD || is_off(r.of.total, job.tolerance);
    if (HASHES) hash = sum_in_group(hash);
    u64 seed = seed_at(job, r.row, hash, here && WITHIN == 0);
    r.of.u = uniform_at(job, r.row, seed), r.tie_seed = tie_seed_of(seed, r.of.u);
    if (bad && here && WITHIN == 0) report(job, r.row);
    r.here = here && !bad;
    return r;
}

extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS) sorted(Job job, Output out) {
    DYNAMIC_SHARED(pool);
    unsigned char *of_warp = pool + (threadIdx.x / 32) * (GROUPS * padded(LENGTH) * (BY_BUCKETS ? 12 : 8));
    i64 n = rows_to_do(job), step = (i64)gridDim.x * blockDim.x / 32 * GROUPS, first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32 * GROUPS;
    for (; first < n; first += step) {
        i64 i = first + LANE / LANES;
        u32 values[EACH];
        Row r = open_values(job, i < n ? i : n - 1, i < n, values);
#if WHAT == MEMBERS_OF_SETS && GATHERS
        order_members(r, values, out, of_warp);
#elif WHAT == MEMBERS_OF_SETS
        write_members(r, put_row_in_order(values, r.tie_seed, of_warp), out, of_warp);
#else
#if ONLY_BUCKETS
        Ordered o;
        bool in_order = order_by_buckets(values, o, (u64 *)of_warp);
        if (first + step < n) ask_for_row(job, first + step); /* it is on its way while this one is scored */
        if (!in_order) {
            if (LANE == 0 && r.here) leave(job, r.row);
            continue;
        }
        if (__any_sync(FULL, has_ties(o))) settle_staged(o, (u64 *)of_warp, r.tie_seed);
#else
        Ordered o = put_row_in_order(values, r.tie_seed, of_warp);
#endif
        int lead = (int)LANE / LANES * LANES;
        r.of.top = __shfl_sync(FULL, mass_at(o, 0), lead) * STEPS_PER_ONE, r.of.second = __shfl_sync(FULL, mass_at(o, 1), lead) * STEPS_PER_ONE;
        use_scores(job, r, o, out, of_warp);
#endif
    }
}
