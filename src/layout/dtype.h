/* dtype.h - properties of each element type, tri_dtype. */
#pragma once

#include "trident_comm.h"

size_t tri__dtype_bytes(tri_dtype dtype);
/* Of the type in which numbers of this type are added: f32 for floats of 16 and 8 bits, else the type itself. */
size_t tri__dtype_sum_bytes(tri_dtype dtype);
const char *tri__dtype_name(tri_dtype dtype);       /* "f32" */
const char *tri__dtype_file_name(tri_dtype dtype);  /* "F32", as safetensors writes it */
/* By either form of the name; -1 when unknown. */
int tri__dtype_find(const char *name);
