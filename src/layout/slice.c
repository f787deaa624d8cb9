/* slice.c - shapes and slices of logical tensors. */
#include "layout/slice.h"

int64_t tri__shape_count(const tri_shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->n; i++)
        if (shape->dim[i] < 0 || __builtin_mul_overflow(count, shape->dim[i], &count)) return -1;
    return count;
}

tri_shape tri__shape_2d(int64_t rows, int64_t cols) { return (tri_shape){.n = 2, .dim = {rows, cols}}; }
tri_shape tri__shape_1d(int64_t n) { return (tri_shape){.n = 1, .dim = {n}}; }

int tri__shape_equal(const tri_shape *a, const tri_shape *b) {
    return a->n == b->n && memcmp(a->dim, b->dim, (size_t)a->n * sizeof a->dim[0]) == 0;
}

const char *tri__shape_text(const tri_shape *shape, char text[static 128]) {
    size_t used = (size_t)snprintf(text, 128, "[");
    for (int i = 0; i < shape->n && used < 128; i++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%lld", i ? ", " : "", (long long)shape->dim[i]);
    if (used < 128) snprintf(text + used, 128 - used, "]");
    return text;
}

tri_slice tri__slice_whole(const tri_shape *shape) {
    tri_slice slice = {.begin = 0, .end = tri__shape_count(shape)};
    for (int i = 0; i < shape->n; i++) slice.extent[i] = shape->dim[i];
    return slice;
}

int tri__slice_is_whole(const tri_slice *slice, const tri_shape *shape) {
    for (int i = 0; i < shape->n; i++)
        if (slice->start[i] != 0 || slice->extent[i] != shape->dim[i]) return 0;
    return slice->begin == 0 && slice->end == tri__shape_count(shape);
}
