/* reshard.c - walks the intersection of two boxes row by row. In each box a row is a contiguous range of elements, so a
 * row, clipped to both flat ranges, is one run. Trailing dims that both boxes span completely are folded into the dim
 * before: two whole tensors give a single run. Pieces of a tensor with more rows than the stored one are read in runs
 * of the stored rows. */
#include "checkpoint/reshard.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

int tri__slice_fits(const tri_slice *slice, const tri_shape *shape) {
    int64_t count = 1; /* cannot overflow: each extent is at most the shape's dim */
    for (int d = 0; d < shape->n; d++) {
        if (slice->start[d] < 0 || slice->extent[d] < 0 || slice->start[d] > shape->dim[d] ||
            slice->extent[d] > shape->dim[d] - slice->start[d])
            return 0;
        count *= slice->extent[d];
    }
    return slice->begin >= 0 && slice->begin <= slice->end && slice->end <= count;
}

/* Returns the number of dims left, at least one, even for a scalar. */
static int fold(const tri_shape *shape, tri_slice *a, tri_slice *b) {
    int n = shape->n;
    if (n == 0) {
        a->start[0] = b->start[0] = 0;
        a->extent[0] = b->extent[0] = 1;
        return 1;
    }
    for (; n > 1 && a->extent[n - 1] == shape->dim[n - 1] && b->extent[n - 1] == shape->dim[n - 1]; n--) {
        int64_t dim = shape->dim[n - 1];
        a->start[n - 2] *= dim, a->extent[n - 2] *= dim;
        b->start[n - 2] *= dim, b->extent[n - 2] *= dim;
    }
    return n;
}

/* The flat index of `at` in the slice's box. */
static int64_t box_offset(const tri_slice *slice, int n, const int64_t *at) {
    int64_t offset = 0;
    for (int d = 0; d < n; d++) offset = offset * slice->extent[d] + at[d] - slice->start[d];
    return offset;
}

tri_status tri__slice_overlap(const tri_shape *shape, const tri_slice *into, const tri_slice *from, tri_run_fn run,
                              void *context, int64_t *shared) {
    if (into->begin == into->end || from->begin == from->end) return TRI_OK; /* an empty tensor's dims may overflow */
    tri_slice a = *into, b = *from;
    int n = fold(shape, &a, &b);
    int64_t low[TRI_MAX_DIMS], high[TRI_MAX_DIMS], at[TRI_MAX_DIMS];
    for (int d = 0; d < n; d++) {
        at[d] = low[d] = most(a.start[d], b.start[d]);
        high[d] = least(a.start[d] + a.extent[d], b.start[d] + b.extent[d]);
        if (low[d] >= high[d]) return TRI_OK;
    }
    for (;;) {
        int64_t x = box_offset(&a, n, at), y = box_offset(&b, n, at);
        int64_t skip = most(0, most(a.begin - x, b.begin - y));
        int64_t stop = least(high[n - 1] - low[n - 1], least(a.end - x, b.end - y));
        if (skip < stop) {
            TRI_TRY(run(context, x + skip - a.begin, y + skip - b.begin, stop - skip));
            *shared += stop - skip;
        }
        int d = n - 2;
        for (; d >= 0 && ++at[d] == high[d]; d--) at[d] = low[d];
        if (d < 0) return TRI_OK;
    }
}

/* Stops at the first run: only its existence matters. */
static tri_status stop_run(void *context, int64_t into, int64_t from, int64_t count) {
    (void)context, (void)into, (void)from, (void)count;
    return TRI_STOPPED;
}

int tri__slice_meets(const tri_shape *shape, const tri_slice *a, const tri_slice *b) {
    size_t bytes = (size_t)shape->n * sizeof a->start[0];
    int64_t shared = 0;
    /* Ranges of one box, as replicas store them, need no walk. */
    if (memcmp(a->start, b->start, bytes) == 0 && memcmp(a->extent, b->extent, bytes) == 0)
        return most(a->begin, b->begin) < least(a->end, b->end);
    return tri__slice_overlap(shape, a, b, stop_run, NULL, &shared) == TRI_STOPPED;
}

int tri__piece_stacks(const tri_piece *piece, const tri_shape *stored) {
    const tri_shape *want = &piece->shape;
    return want->n == stored->n + 1 &&
           memcmp(want->dim + 1, stored->dim, (size_t)stored->n * sizeof *want->dim) == 0;
}

tri_status tri__piece_stack(const tri_piece *piece, const tri_shape *stored, tri_part_fn read, void *context) {
    tri_piece part = *piece;
    int64_t each = 1; /* elements that the box has of an expert */
    part.shape = *stored;
    for (int d = 0; d < stored->n; d++) {
        part.slice.start[d] = piece->slice.start[d + 1];
        each *= part.slice.extent[d] = piece->slice.extent[d + 1];
    }
    for (int64_t at = piece->slice.begin, n; at < piece->slice.end; at += n) {
        n = least(each - at % each, piece->slice.end - at);
        part.slice.begin = at % each, part.slice.end = at % each + n;
        part.data = (char *)piece->data + (size_t)(at - piece->slice.begin) * tri__dtype_bytes(piece->dtype);
        TRI_TRY(read(context, &part));
    }
    return TRI_OK;
}

int tri__piece_repeats(const tri_piece *piece, const tri_shape *stored) {
    const tri_shape *want = &piece->shape;
    return piece->repeat > 0 && want->n == 2 && stored->n == 2 && stored->dim[1] == want->dim[1] &&
           stored->dim[0] < want->dim[0] && stored->dim[0] >= piece->repeat && stored->dim[1] > 0;
}

tri_status tri__piece_repeat(const tri_piece *piece, const tri_shape *stored, tri_part_fn read, void *context) {
    int64_t rows = stored->dim[0], cols = stored->dim[1], first = piece->repeat - 1, cycle = rows - first;
    tri_piece part = *piece;
    TRI_ASSERT(piece->slice.extent[0] == piece->shape.dim[0] && piece->slice.extent[1] == cols);
    part.shape = *stored;
    part.slice = tri__slice_whole(stored);
    for (int64_t at = piece->slice.begin, n; at < piece->slice.end; at += n) {
        int64_t row = at / cols, from = row < rows ? row : first + (row - first) % cycle;
        part.slice.begin = from * cols + at % cols;
        n = least(rows * cols - part.slice.begin, piece->slice.end - at);
        part.slice.end = part.slice.begin + n;
        part.data = (char *)piece->data + (size_t)(at - piece->slice.begin) * tri__dtype_bytes(piece->dtype);
        TRI_TRY(read(context, &part));
    }
    return TRI_OK;
}
