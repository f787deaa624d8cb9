/* sizes.h - the sizes of a call that its kernel's time depends on: the coordinates of a curve. */
#pragma once

#include "program/program.h"
#include "sim/hardware.h"

/* The sizes of an operation, and their names: products have rows, out and in; attention has tokens, the mean length of
 * a sequence (of a token's), heads, the size of a head and raggedness: the mean square of the sequences' lengths over
 * the square of their mean, 1 where all are equally long; other operations have rows and cols (of unpack_sum: the rows
 * that are added up); embed_dw also words: the rows of a table that is overwritten, 1 if it is added to. Returns how
 * many. */
int tri__op_sizes(const tri_op_row *row, const char *name[static TRI_SIZES]);
/* An instruction's sizes, each at least 1. */
int tri__instr_sizes(const tri_program *program, const tri_instr *instr, const tri_counts *counts,
                     double size[static TRI_SIZES]);

int tri__op_is_product(const tri_op_row *row);
int tri__op_is_attention(const tri_op_row *row);
/* How much longer a product of this size takes because the tiles of its output do not divide evenly among the curve's
 * threads; 1: not at all. */
double tri__product_imbalance(const tri_kernel_curve *curve, const double *size);
/* Whether a call adds to its first output instead of overwriting it, or packs and keeps errors: such calls have their
 * own curves. */
int tri__instr_adds(const tri_instr *instr);
tri_code tri__instr_code(const tri_instr *instr); /* of the coded numbers that it reads or writes; none */

/* ---- curves.c: seconds of a kernel from measured points: interpolated, and extrapolated along the roofline ---- */

/* A call to be timed. */
typedef struct tri_kernel_call {
    int variant;
    tri_dtype dtype;
    int threads, adds;
    double size[TRI_SIZES];
    tri_code code;
} tri_kernel_call;

/* By the curve of the operation or, if it has none of this type, of one that does the same kind of work. -1: there is
 * none, and the roofline has to do. */
double tri__curve_seconds(const tri_hardware *hardware, const tri_kernel_call *call);
