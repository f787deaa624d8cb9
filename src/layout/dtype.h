/* dtype.h - element types of tensors. */
#ifndef TRI_LAYOUT_DTYPE_H
#define TRI_LAYOUT_DTYPE_H

#include <stddef.h>

/* name in programs, name in safetensors files, bytes an element */
#define TRI_DTYPES(X)   \
    X(F32, f32, 4)      \
    X(F64, f64, 8)      \
    X(BF16, bf16, 2)    \
    X(F16, f16, 2)      \
    X(I32, i32, 4)      \
    X(I64, i64, 8)      \
    X(U8, u8, 1)

typedef enum tri_dtype {
#define X(upper, lower, bytes) TRI_##upper,
    TRI_DTYPES(X)
#undef X
    TRI_DTYPE_COUNT
} tri_dtype;

size_t tri__dtype_bytes(tri_dtype dtype);
const char *tri__dtype_name(tri_dtype dtype);       /* "f32" */
const char *tri__dtype_file_name(tri_dtype dtype);  /* "F32", as safetensors writes it */
/* Either form of the name; -1 when it is none of ours. */
int tri__dtype_find(const char *name);

#endif
