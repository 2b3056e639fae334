/* The rows that a warp has in hand, AT_ONCE for each group of lanes, side by side in shared memory: they are asked for while the
 * ones before are worked on, and every byte is fetched once. PIECE labels make up to 16 bytes. */
#ifndef APTSET_TILES_CUH
#define APTSET_TILES_CUH
#include "warp.cuh"

#ifndef AT_ONCE
#define AT_ONCE 1
#endif
#define TILE_ROWS (GROUPS * AT_ONCE)
#define OF_TILE (TILE_ROWS * COLUMNS) /* labels */
typedef Element Tile[OF_TILE];
#define TILES(name) __shared__ __align__(16) Tile name[BLOCK / 32][2]

struct __align__(PIECE * sizeof(Element)) Piece { Element x[PIECE]; };

#ifndef ASKED_FOR /* tests copy at once */
template <int BYTES> DEVICE void ask_for_piece(void *to, const void *from) {
    u32 place = (u32)__cvta_generic_to_shared(to);
    if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
    else if (BYTES == 8) asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(place), "l"(from) : "memory");
    else if (BYTES == 4) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(from) : "memory");
    else *(Piece *)to = *(const Piece *)from;
}
DEVICE void end_of_request() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* All but the latest request are there. */
DEVICE void wait_for_request() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
DEVICE void wait_for_all() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
#endif

/* Rows first .. first + TILE_ROWS - 1 of the work to do, if all are there and stand side by side. */
DEVICE bool is_whole(const Job &job, i64 first, i64 n) { return !job.which && first + TILE_ROWS <= n; }

DEVICE void ask_for(const Job &job, i64 first, i64 n, Element *tile) {
    if (is_whole(job, first, n)) {
        const Piece *from = (const Piece *)elements_of(job, first);
#pragma unroll
        for (int p = 0; p < (OF_TILE / PIECE + 31) / 32; p++)
            if (p * 32 + (int)LANE < OF_TILE / PIECE) ask_for_piece<PIECE * sizeof(Element)>((Piece *)tile + p * 32 + LANE, from + p * 32 + LANE);
    } else
        for (int k = 0; k < AT_ONCE; k++) {
            int place = (int)(LANE / LANES) * AT_ONCE + k;
            if (first + place >= n) continue;
            const Element *from = elements_of(job, row_at(job, first + place));
            for (int j = (int)WITHIN; j < COLUMNS; j += LANES) tile[place * COLUMNS + j] = from[j];
        }
    end_of_request();
}
/* What was asked for before the latest request can be read by all lanes. */
DEVICE void arrived() { wait_for_request(); __syncwarp(); }
DEVICE void all_arrived() { wait_for_all(); __syncwarp(); }
#endif
