/* protobuf.c - protobuf's wire format: a tag is field number << 3 | wire type. */
#include "report/sinks/protobuf.h"

#include "base/base.h"

enum { VARINT = 0, WIDE = 1, BLOCK = 2, NARROW = 5 }; /* wire types */

static void put_varint(tri_buffer *message, uint64_t value) {
    char bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) bytes[n++] = (char)(value | 0x80);
    bytes[n++] = (char)value;
    tri__buffer_add(message, bytes, n);
}

static void put_tag(tri_buffer *message, int field, int type) {
    put_varint(message, (uint64_t)field << 3 | (unsigned)type);
}

void tri__proto_integer(tri_buffer *message, int field, uint64_t value) {
    put_tag(message, field, VARINT);
    put_varint(message, value);
}

void tri__proto_double(tri_buffer *message, int field, double value) {
    put_tag(message, field, WIDE);
    tri__buffer_add(message, (const char *)&value, sizeof value);
}

void tri__proto_float(tri_buffer *message, int field, float value) {
    put_tag(message, field, NARROW);
    tri__buffer_add(message, (const char *)&value, sizeof value);
}

void tri__proto_bytes(tri_buffer *message, int field, const void *data, size_t size) {
    put_tag(message, field, BLOCK);
    put_varint(message, size);
    tri__buffer_add(message, data ? data : "", size);
}

void tri__proto_text(tri_buffer *message, int field, const char *text) {
    size_t length = strlen(text);
    tri_buffer clean = {0};
    for (size_t at = 0; at < length;) {
        size_t begin = at;
        if (tri__utf8_next(text, length, &at) < 0) tri__buffer_add(&clean, "\xEF\xBF\xBD", 3);
        else tri__buffer_add(&clean, text + begin, at - begin);
    }
    tri__proto_message(message, field, &clean); /* a string and a message are the same on the wire */
}

void tri__proto_message(tri_buffer *message, int field, tri_buffer *inner) {
    tri__proto_bytes(message, field, inner->text, inner->size);
    message->failed |= inner->failed;
    tri__buffer_free(inner);
}
