/* quantized_folder.h - a model folder with int8 weights, made from a checkpoint. */
#pragma once

#include "serve/convert/source_checkpoint.h"

/* A weight in the forms in which a folder may hold it; owned. */
typedef struct tri_stored_weight {
    int8_t *q;          /* [rows, cols]; NULL: not a weight that is quantised */
    float *scale;       /* [rows] */
    uint16_t *half;     /* [rows, cols] in 16 bits */
    tri_dtype half_type;
    char *scale_name;
} tri_stored_weight;

/* All weights of a model, quantised once; which form is written is then a choice for each. */
typedef struct tri_quantizer {
    const tri_original *original;
    tri_dtype computing;       /* f32, bf16, f16: weights are rounded to it before they are quantised */
    tri_stored_weight *weight; /* [original->n_weights] */
} tri_quantizer;

/* TRI_DATA, naming the tensor, for a weight that is not finite. Close it even after a failure. */
tri_status tri__quantizer_open(const tri_original *original, tri_dtype computing, tri_quantizer *out);
void tri__quantizer_close(tri_quantizer *quantizer);

/* The word of its computing type: "bf16". */
const char *tri__quantizer_precision(const tri_quantizer *quantizer);

/* Writes a folder, atomically. store[i], of [n_weights]: I8, the half_type of weight i, or F32; weights that are not
 * quantised are F32. facts (may be NULL) join `quantized` in the manifest's state. *bytes (may be NULL): of all
 * weights and scales. TRI_BUSY if the folder exists and is not empty. */
tri_status tri__quantizer_write(const tri_quantizer *quantizer, const tri_dtype *store, const tri_json *facts,
                                const char *folder, int64_t *bytes);
