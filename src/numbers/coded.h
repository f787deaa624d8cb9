/* coded.h - numbers coded in fewer bits for their way between ranks.
 *
 * Elements are coded in blocks of 256 with a scale each, so that a block's result depends on nothing else. A row holds
 * one part of a vector: the blocks' payloads one after the other, then their scales (f32); it is a multiple of 64 bytes
 * long. The last block is filled up with zeros; rows of one buffer are as long as that of the largest part. What is
 * left is zeros.
 *
 *   code    payload of a block                                    an element stands for    scale
 *   bf16    256 bf16                                              itself, rounded          none
 *   int8    256 int8                                              scale * q                max |x| / 127
 *   int4    128 bytes: low half element i, high half i + 128      scale * q, -7 .. 7       max |x| / 7
 *   fp8     256 e4m3                                              scale * q                max |x| / 448
 *   signs   32 bytes: bit i % 8 of byte i / 8 set: negative       +scale or -scale         mean |x|
 *
 * Scales of int8, int4 and fp8 are tri__quantized_scale: of 16 significant bits, so that scale * q is exact and coding
 * what was decoded gives the same bytes. A block with a NaN or an infinity has a scale that is not finite. */
#pragma once

#include "layout/shard.h"

enum { TRI_CODE_BLOCK = 256 };

#define TRI_CODES(X) /* name, text, payload bytes of a block, scales of a block */ \
    X(NONE, none, 1024, 0) \
    X(BF16, bf16, 512, 0) \
    X(INT8, int8, 256, 1) \
    X(INT4, int4, 128, 1) \
    X(FP8, fp8, 256, 1) \
    X(SIGNS, signs, 32, 1)
typedef enum tri_code {
#define X(upper, lower, payload, scales) TRI_CODE_##upper,
    TRI_CODES(X)
#undef X
    TRI_CODE_COUNT
} tri_code;

const char *tri__code_name(tri_code code);
/* Bytes of a block's payload; of a row for a part of `count` elements. */
int64_t tri__code_payload(tri_code code);
int64_t tri__coded_bytes(tri_code code, int64_t count);
/* The bytes of each of the `members` rows for a vector of `count` elements: those of the largest part. */
int64_t tri__coded_row(tri_code code, int64_t count, int members);
/* Where the scales of a row of `bytes` bytes begin: after room for as many payloads as the row can hold with their
 * scales. A row's length alone says it, as a member that codes or sums only its own part may have a shorter one. */
int64_t tri__coded_scales(tri_code code, int64_t bytes);
