/* copies.h - tensors of which each copy of the model has its own numbers, stored as [copies, shape of the parameter].
 * Any number of copies can read what any other number wrote. */
#pragma once

#include "checkpoint/checkpoint.h"

/* What matters about the copies' numbers, where readers are not as many as writers. */
typedef enum tri_merging {
    TRI_MERGE_MEAN, /* each reader gets the mean of the writers' */
    TRI_MERGE_SUM   /* each reader gets the sum of the writers', divided by the number of readers */
} tri_merging;

/* Makes a piece of a parameter's shape that of row `copy` of [copies, shape]. */
void tri__piece_of_copy(tri_piece *piece, int copy, int copies);
/* Fills an f32 piece: copies > 0: of that number, as made above; 0: of the parameter's shape, which all copies share. A
 * tensor of the parameter's shape counts as one writer's. With as many writers as readers a piece gets its own row as
 * it is; other numbers are merged in the order of rows, in double, and rounded once. */
tri_status tri__copies_read(const tri_checkpoint *checkpoint, const tri_piece *piece, int copies, tri_merging merging);
