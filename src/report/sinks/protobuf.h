/* protobuf.h - messages in protobuf's wire format, written field by field into a growing buffer; out of memory shows in
 * its `failed`. Messages nest: an inner one is finished first, and then put into the outer one. */
#pragma once

#include "base/buffer.h"

#include <stdint.h>

void tri__proto_integer(tri_buffer *message, int field, uint64_t value); /* any integer, enum or bool: a varint */
void tri__proto_double(tri_buffer *message, int field, double value);
void tri__proto_float(tri_buffer *message, int field, float value);
void tri__proto_bytes(tri_buffer *message, int field, const void *data, size_t size);
/* A string: readers refuse one that is not UTF-8, so that bytes which are not become U+FFFD. */
void tri__proto_text(tri_buffer *message, int field, const char *text);
/* Frees `inner`. */
void tri__proto_message(tri_buffer *message, int field, tri_buffer *inner);
