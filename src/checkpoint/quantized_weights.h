/* quantized_weights.h - weights of 8 bits in files: a tensor NAME of I8 [O,I], the integers, beside NAME.scale of F32
 * [O]. Row o of the weight is scale[o] * q[o], exactly, and quantising that row again gives the same scale and integers
 * (numbers/quantized.h): a reader that fills fp32 loses nothing. */
#pragma once

#include "checkpoint/safetensors.h"

#define TRI_SCALE_SUFFIX ".scale"
enum { TRI_QUANTIZED_VERSION = 1 };

/* A stored pair, open for reading. */
typedef struct tri_quantized {
    const tri_st_file *file;
    const tri_st_entry *entry; /* the integers, [rows, cols] */
    float *scale;              /* [rows]; owned */
    int64_t rows, cols;
} tri_quantized;

/* Both entries are whole tensors. TRI_DATA naming the tensor when shapes or dtypes are not as above, or a scale is
 * negative, not finite, or not one that quantising gives. */
tri_status tri__quantized_open(const tri_st_file *file, const tri_st_entry *entry, const tri_st_file *scale_file,
                               const tri_st_entry *scale_entry, tri_quantized *out);
void tri__quantized_close(tri_quantized *quantized);
/* Reads all integers: TRI_DATA, naming tensor and row, for -128, and for a row without 127 or -127 (unless its scale is
 * 0: then for one that is not all 0), since quantising its weights again would give others. */
tri_status tri__quantized_check(const tri_quantized *quantized);
/* Elements [begin, begin + n) of the weight. */
tri_status tri__quantized_read(const tri_quantized *quantized, int64_t begin, int64_t n, float *out);

/* Quantises w [rows, cols], first rounded to `through` (f32: as it is), into q [rows, cols] and scale [rows]. TRI_DATA,
 * naming the row, when a number is not finite or too large; `name` is for the message. */
tri_status tri__quantize_rows(const char *name, const float *w, int64_t rows, int64_t cols, tri_dtype through,
                              int8_t *q, float *scale);
