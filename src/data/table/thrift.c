/* thrift.c - Thrift's compact protocol (apache/thrift, doc/specs/thrift-compact-protocol.md). */
#include "data/table/thrift.h"

enum { DEPTH = 32 };

void tri__thrift_fail(tri_thrift *in) { in->failed = 1, in->at = in->end; }

static uint8_t byte(tri_thrift *in) {
    if (in->at < in->end) return *in->at++;
    tri__thrift_fail(in);
    return 0;
}

int tri__varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return 1;
    }
    return 0;
}

static uint64_t varint(tri_thrift *in) {
    uint64_t value;
    if (tri__varint(&in->at, in->end, &value)) return value;
    tri__thrift_fail(in);
    return 0;
}

int tri__thrift_next(tri_thrift *in, tri_thrift_field *field) {
    uint8_t b = byte(in);
    field->type = (tri_thrift_type)(b & 15);
    if (in->failed || field->type == TRI_THRIFT_STOP) return 0;
    if (field->type > TRI_THRIFT_STRUCT) tri__thrift_fail(in);
    int64_t id = b >> 4 ? field->id + (b >> 4) : tri__zigzag(varint(in));
    if (id < 0 || id > INT16_MAX) tri__thrift_fail(in);
    field->id = (int)id;
    return !in->failed;
}

int64_t tri__thrift_integer(tri_thrift *in, const tri_thrift_field *field) {
    if (field->type == TRI_THRIFT_BYTE) return (int8_t)byte(in);
    if (field->type >= TRI_THRIFT_I16 && field->type <= TRI_THRIFT_I64) return tri__zigzag(varint(in));
    tri__thrift_fail(in);
    return 0;
}

int tri__thrift_boolean(tri_thrift *in, const tri_thrift_field *field) {
    if (field->type != TRI_THRIFT_TRUE && field->type != TRI_THRIFT_FALSE) tri__thrift_fail(in);
    return field->type == TRI_THRIFT_TRUE;
}

const char *tri__thrift_binary(tri_thrift *in, const tri_thrift_field *field, size_t *length) {
    uint64_t n = field->type == TRI_THRIFT_BINARY ? varint(in) : UINT64_MAX;
    *length = 0;
    if (in->failed || n > (uint64_t)(in->end - in->at)) {
        tri__thrift_fail(in);
        return "";
    }
    const char *text = (const char *)in->at;
    *length = (size_t)n, in->at += n;
    return text;
}

static uint32_t list_begin(tri_thrift *in, tri_thrift_type *type) {
    uint8_t b = byte(in);
    uint64_t n = b >> 4 < 15 ? b >> 4 : varint(in);
    *type = (tri_thrift_type)(b & 15);
    if (n > (uint64_t)(in->end - in->at)) tri__thrift_fail(in);
    return in->failed ? 0 : (uint32_t)n;
}

uint32_t tri__thrift_list(tri_thrift *in, const tri_thrift_field *field, tri_thrift_type type) {
    tri_thrift_type found = type;
    uint32_t n = 0;
    if (field->type != TRI_THRIFT_LIST) tri__thrift_fail(in);
    else n = list_begin(in, &found);
    if (n && found != type) tri__thrift_fail(in);
    return in->failed ? 0 : n;
}

int tri__thrift_struct(tri_thrift *in, const tri_thrift_field *field) {
    if (field->type != TRI_THRIFT_STRUCT) tri__thrift_fail(in);
    return !in->failed;
}

/* An element of a list or a map: a boolean has a byte of its own there. */
static void skip_element(tri_thrift *in, tri_thrift_type type) {
    tri__thrift_skip(in, type == TRI_THRIFT_TRUE || type == TRI_THRIFT_FALSE ? TRI_THRIFT_BYTE : type);
}

static void skip_list(tri_thrift *in) {
    tri_thrift_type type;
    uint32_t n = list_begin(in, &type);
    for (uint32_t i = 0; i < n && !in->failed; i++) skip_element(in, type);
}

static void skip_map(tri_thrift *in) {
    uint64_t n = varint(in);
    if (!n || in->failed) return;
    uint8_t types = byte(in);
    if (n > (uint64_t)(in->end - in->at)) tri__thrift_fail(in);
    for (uint64_t i = 0; i < n && !in->failed; i++) {
        skip_element(in, (tri_thrift_type)(types >> 4));
        skip_element(in, (tri_thrift_type)(types & 15));
    }
}

void tri__thrift_skip(tri_thrift *in, tri_thrift_type type) {
    if (++in->depth > DEPTH) tri__thrift_fail(in);
    tri_thrift_field field = {.type = type};
    size_t length;
    switch (in->failed ? TRI_THRIFT_TRUE : type) {
    case TRI_THRIFT_TRUE:
    case TRI_THRIFT_FALSE: break;
    case TRI_THRIFT_BYTE: byte(in); break;
    case TRI_THRIFT_I16:
    case TRI_THRIFT_I32:
    case TRI_THRIFT_I64: varint(in); break;
    case TRI_THRIFT_DOUBLE:
        if (in->end - in->at < 8) tri__thrift_fail(in);
        else in->at += 8;
        break;
    case TRI_THRIFT_BINARY: tri__thrift_binary(in, &field, &length); break;
    case TRI_THRIFT_LIST:
    case TRI_THRIFT_SET: skip_list(in); break;
    case TRI_THRIFT_MAP: skip_map(in); break;
    case TRI_THRIFT_STRUCT:
        field = (tri_thrift_field){0};
        while (tri__thrift_next(in, &field)) tri__thrift_skip(in, field.type);
        break;
    default: tri__thrift_fail(in);
    }
    in->depth--;
}
