/* slice.h - which part of which logical tensor a piece of memory or of a file holds.
 *
 * A slice is a box (start and extent in each dim) and a flat range [begin, end) of the box's elements in row-major
 * order. ZeRO cuts the flat range, tensor parallelism cuts the box: a ZeRO shard of a block of columns is not a box of
 * the tensor, but it is a range of one. */
#pragma once

#include "base/base.h"
#include "layout/dtype.h"

enum { TRI_MAX_DIMS = 8 };

typedef struct tri_shape {
    int n;                        /* 0 for a scalar */
    int64_t dim[TRI_MAX_DIMS];
} tri_shape;

typedef struct tri_slice {
    int64_t start[TRI_MAX_DIMS], extent[TRI_MAX_DIMS]; /* the box, one entry a dim of the tensor */
    int64_t begin, end;                                /* elements of the box */
} tri_slice;

/* One piece of memory that holds a slice of a logical tensor. */
typedef struct tri_piece {
    const char *name; /* logical name, e.g. primary.encoder.layer.0.output.dense.weight */
    tri_dtype dtype;
    tri_shape shape;  /* of the whole logical tensor */
    tri_slice slice;
    void *data;       /* [slice.end - slice.begin] elements */
    /* 1 + the first row of those that are repeated where the stored tensor has fewer rows (rows of the whole tensor,
     * which the box spans); 0: shapes must be equal */
    int64_t repeat;
    tri_dtype
        through; /* of an f32 piece: numbers read from a float tensor are rounded to this type; f32: they are not */
} tri_piece;

/* The number of elements; -1 when it overflows. */
int64_t tri__shape_count(const tri_shape *shape);
tri_shape tri__shape_2d(int64_t rows, int64_t cols);
tri_shape tri__shape_1d(int64_t n);
int tri__shape_equal(const tri_shape *a, const tri_shape *b);
/* "[768, 3072]" into `text`, which is returned. */
const char *tri__shape_text(const tri_shape *shape, char text[static 128]);
/* The slice that covers the whole tensor. */
tri_slice tri__slice_whole(const tri_shape *shape);
int tri__slice_is_whole(const tri_slice *slice, const tri_shape *shape);
