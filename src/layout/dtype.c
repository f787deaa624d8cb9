/* dtype.c - the table of element types. */
#include "layout/dtype.h"

#include <string.h>

static const struct {
    const char *name, *file_name;
    size_t bytes;
} rows[TRI_DTYPE_COUNT] = {
#define X(upper, lower, bytes) {#lower, #upper, bytes},
    TRI_DTYPES(X)
#undef X
};

size_t tri__dtype_bytes(tri_dtype dtype) { return rows[dtype].bytes; }
size_t tri__dtype_sum_bytes(tri_dtype dtype) {
    int narrow = dtype == TRI_BF16 || dtype == TRI_F16 || dtype == TRI_F8_E4M3 || dtype == TRI_F8_E5M2;
    return narrow ? 4 : rows[dtype].bytes;
}
const char *tri__dtype_name(tri_dtype dtype) { return rows[dtype].name; }
const char *tri__dtype_file_name(tri_dtype dtype) { return rows[dtype].file_name; }

int tri__dtype_find(const char *name) {
    for (int i = 0; i < TRI_DTYPE_COUNT; i++)
        if (strcmp(name, rows[i].name) == 0 || strcmp(name, rows[i].file_name) == 0) return i;
    return -1;
}
