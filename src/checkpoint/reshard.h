/* reshard.h - finds the elements that two slices of a tensor share, so that any mesh can read what another one
 * wrote. */
#pragma once

#include "layout/slice.h"

/* `count` elements at `from` of the stored slice belong at `into` of the requested one; both relative to the slice's
 * begin. */
typedef tri_status (*tri_run_fn)(void *context, int64_t into, int64_t from, int64_t count);

/* 1 if the box is within the shape and [begin, end) within the box. */
int tri__slice_fits(const tri_slice *slice, const tri_shape *shape);
/* 1 if two slices that fit `shape` overlap. */
int tri__slice_meets(const tri_shape *shape, const tri_slice *a, const tri_slice *b);
/* Calls `run` for each contiguous run that `into` and `from` share; both fit `shape`. Adds the elements to *shared. */
tri_status tri__slice_overlap(const tri_shape *shape, const tri_slice *into, const tri_slice *from, tri_run_fn run,
                              void *context, int64_t *shared);

/* Reads part of a piece: its shape is that of the stored tensor. */
typedef tri_status (*tri_part_fn)(void *context, const tri_piece *part);

/* 1 if the piece has a tensor of this shape for each expert. */
int tri__piece_stacks(const tri_piece *piece, const tri_shape *stored);
/* Calls `read` for each expert of such a piece. */
tri_status tri__piece_stack(const tri_piece *piece, const tri_shape *stored, tri_part_fn read, void *context);
/* 1 if the piece can be read from a tensor of this shape by repeating rows: piece->repeat - 1 is the first of them, the
 * rows before it stay once. */
int tri__piece_repeats(const tri_piece *piece, const tri_shape *stored);
/* Calls `read` for each contiguous run of such a piece. */
tri_status tri__piece_repeat(const tri_piece *piece, const tri_shape *stored, tri_part_fn read, void *context);
