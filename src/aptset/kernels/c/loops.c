/* Compiled once per level, with LOOPS the name of the table and LEVEL its text. */
#include "loops.h"

const Loops LOOPS = {
    LEVEL, label_scores_loop, all_scores_loop, counts_loop, p_values_loop, by_label_loop, cuts_loop, order_loop, masks_loop, hash_rows_loop, bounds_loop,
    counts_of_scores_loop, by_cell_loop, own_mass_loop, ordered_loop, standing_loop, softmax_loop, ratios_loop,
};
