/* copies.c - tensors of which each copy of the model has its own numbers. */
#include "checkpoint/copies.h"

enum { RUN = 1024 }; /* elements merged at a time */

static void shift(int64_t dim[static TRI_MAX_DIMS], int n, int64_t first) {
    memmove(dim + 1, dim, (size_t)n * sizeof *dim);
    dim[0] = first;
}

void tri__piece_of_copy(tri_piece *piece, int copy, int copies) {
    int n = piece->shape.n;
    TRI_ASSERT(n < TRI_MAX_DIMS && 0 <= copy && copy < copies);
    shift(piece->shape.dim, n, copies);
    shift(piece->slice.start, n, copy);
    shift(piece->slice.extent, n, 1); /* so the range inside the box stays as it is */
    piece->shape.n++;
}

/* The piece without its first dim. */
static tri_piece parameter_of(const tri_piece *piece) {
    tri_piece of = *piece;
    int n = --of.shape.n;
    memmove(of.shape.dim, of.shape.dim + 1, (size_t)n * sizeof *of.shape.dim);
    memmove(of.slice.start, of.slice.start + 1, (size_t)n * sizeof *of.slice.start);
    memmove(of.slice.extent, of.slice.extent + 1, (size_t)n * sizeof *of.slice.extent);
    return of;
}

/* Merges the rows of `writers` copies, 0: of a tensor of the parameter's shape, into elements of `of`. */
static tri_status merge(const tri_checkpoint *checkpoint, const tri_piece *of, int writers, double divisor) {
    float row[RUN], *into = of->data; /* [end - begin of the slice] */
    double sum[RUN];
    for (int64_t at = of->slice.begin; at < of->slice.end; at += RUN) {
        int n = (int)(of->slice.end - at < RUN ? of->slice.end - at : RUN);
        memset(sum, 0, sizeof sum);
        for (int w = 0; w < (writers ? writers : 1); w++) {
            tri_piece part = *of;
            part.slice.begin = at, part.slice.end = at + n, part.data = row;
            if (writers) tri__piece_of_copy(&part, w, writers);
            TRI_TRY(tri__checkpoint_read(checkpoint, &part));
            for (int i = 0; i < n; i++) sum[i] += (double)row[i];
        }
        for (int i = 0; i < n; i++) into[at - of->slice.begin + i] = (float)(sum[i] / divisor);
    }
    return TRI_OK;
}

tri_status tri__copies_read(const tri_checkpoint *checkpoint, const tri_piece *piece, int copies, tri_merging merging) {
    tri_shape have;
    if (!tri__checkpoint_shape(checkpoint, piece->name, &have) || tri__shape_equal(&have, &piece->shape))
        return tri__checkpoint_read(checkpoint, piece); /* which says what is missing */
    tri_piece of = copies ? parameter_of(piece) : *piece;
    int writers = 0;
    if (!tri__shape_equal(&have, &of.shape)) {
        int fits = have.n == of.shape.n + 1 && have.dim[0] > 0 && have.dim[0] <= INT32_MAX &&
                   memcmp(have.dim + 1, of.shape.dim, (size_t)of.shape.n * sizeof *have.dim) == 0;
        if (!fits) return tri__checkpoint_read(checkpoint, piece);
        writers = (int)have.dim[0];
    }
    int readers = copies ? copies : 1;
    return merge(checkpoint, &of, writers, merging == TRI_MERGE_SUM ? readers : writers ? writers : 1);
}
