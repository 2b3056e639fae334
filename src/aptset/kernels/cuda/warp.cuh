/* Sums over the lanes of a warp, or over the LANES of one row; all 32 lanes come here together. */
#ifndef APTSET_WARP_CUH
#define APTSET_WARP_CUH
#include "row.cuh"

#define LANE (threadIdx.x & 31)
#define GROUPS (32 / LANES)  /* rows that a warp has in hand at a time */
#define WITHIN (LANE % LANES)

#ifndef ASKS_AHEAD /* tests need not */
DEVICE void ask_ahead(const void *at) { asm volatile("prefetch.global.L1 [%0];" ::"l"(at)); }
#endif

/* Ask for the row at place i of the work, so that it is near when it is read: a lane asks for 128 bytes. */
DEVICE void ask_for_row(const Job &job, i64 i) {
    if ((int)LANE * 128 < COLUMNS * (int)sizeof(Element)) ask_ahead((const unsigned char *)elements_of(job, row_at(job, i)) + LANE * 128);
}

template <typename T> DEVICE T sum_over(T x, int lanes) {
    for (int step = 1; step < lanes; step *= 2) x += __shfl_xor_sync(FULL, x, step);
    return x;
}
template <typename T> DEVICE T largest_over(T x, int lanes) {
    for (int step = 1; step < lanes; step *= 2) { T other = __shfl_xor_sync(FULL, x, step); x = other > x ? other : x; }
    return x;
}
template <typename T> DEVICE T least_over(T x, int lanes) {
    for (int step = 1; step < lanes; step *= 2) { T other = __shfl_xor_sync(FULL, x, step); x = other < x ? other : x; }
    return x;
}

/* Of floats: a whole warp has the largest whole number in hardware, and bits of floats, turned over where they are negative, sort like these. Where one
 * is missing, anything comes out. */
DEVICE double largest_in_group(double x) { return largest_over(x, LANES); }
DEVICE float largest_in_group(float x) {
    if (LANES < 32) return largest_over(x, LANES);
    u32 bits = __float_as_uint(x), most = __reduce_max_sync(FULL, bits ^ ((u32)((int)bits >> 31) | 0x80000000u));
    return __uint_as_float(most ^ ((u32)~((int)most >> 31) | 0x80000000u));
}

/* Whole numbers have sums in hardware, of 32 bits over whole warps. */
DEVICE u32 sum_in_group(u32 x) { return LANES == 32 ? __reduce_add_sync(FULL, x) : sum_over(x, LANES); }
DEVICE u32 largest_in_group(u32 x) { return LANES == 32 ? __reduce_max_sync(FULL, x) : largest_over(x, LANES); }
/* Of values from 0 on, whose bits sort like them. */
DEVICE float least_in_group(float x) {
    return LANES == 32 ? __uint_as_float(__reduce_min_sync(FULL, __float_as_uint(x))) : least_over(x, LANES);
}
DEVICE double least_in_group(double x) { return least_over(x, LANES); }
DEVICE u64 sum_in_group(u64 x) {
    if (LANES < 32) return sum_over(x, LANES);
    u64 low = __reduce_add_sync(FULL, (u32)x & 0x3FFFFFFu), middle = __reduce_add_sync(FULL, (u32)(x >> 26) & 0x3FFFFFFu);
    u64 high = __reduce_add_sync(FULL, (u32)(x >> 52));
    return low + (middle << 26) + (high << 52);
}
/* Masses below 2 as whole numbers of grid steps; what is larger is bad, whatever comes out. */
DEVICE double mass_in_group(double x) {
    if (LANES < 32) return sum_over(x, LANES);
    u64 steps = (u64)grid_steps(x);
    u64 low = __reduce_add_sync(FULL, (u32)steps & 0x3FFFFFFu), high = __reduce_add_sync(FULL, (u32)(steps >> 26));
    return (double)(i64)(low + (high << 26)) * 0x1p-51;
}
/* Two sums at once: half of the lanes go on with each. */
DEVICE void sum_two_in_group(float &a, float &b) {
    if (LANES < 8) { a = sum_over(a, LANES), b = sum_over(b, LANES); return; }
    bool is_second = WITHIN & (LANES / 2);
    float kept = is_second ? b : a, theirs = is_second ? a : b;
    kept += __shfl_xor_sync(FULL, theirs, LANES / 2);
    for (int step = LANES / 4; step > 0; step /= 2) kept += __shfl_xor_sync(FULL, kept, step);
    int first = (int)LANE / LANES * LANES;
    a = __shfl_sync(FULL, kept, first), b = __shfl_sync(FULL, kept, first + LANES / 2);
}
DEVICE bool any_in_group(bool x) {
    u32 votes = __ballot_sync(FULL, x);
    return LANES == 32 ? votes != 0 : (votes >> (LANE / LANES * LANES) & ((1u << (LANES & 31)) - 1u)) != 0;
}
/* The two largest masses of a row. */
DEVICE void add_to_top_two(i64 &top, i64 &second, i64 steps) {
    if (steps > top) second = top, top = steps; else if (steps > second) second = steps;
}
DEVICE void top_two_over(i64 &top, i64 &second, int lanes) {
    for (int step = 1; step < lanes; step *= 2) {
        i64 other = __shfl_xor_sync(FULL, top, step), behind = __shfl_xor_sync(FULL, second, step);
        second = other > top ? (behind > top ? behind : top) : (other > second ? other : second);
        top = other > top ? other : top;
    }
}
#endif
