/* thrift.h - reads Thrift's compact protocol, in which Parquet writes its footer and page headers. A cursor over bytes;
 * everything is checked, and the first fault stops all further reading. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum tri_thrift_type {
    TRI_THRIFT_STOP,
    TRI_THRIFT_TRUE,
    TRI_THRIFT_FALSE,
    TRI_THRIFT_BYTE,
    TRI_THRIFT_I16,
    TRI_THRIFT_I32,
    TRI_THRIFT_I64,
    TRI_THRIFT_DOUBLE,
    TRI_THRIFT_BINARY,
    TRI_THRIFT_LIST,
    TRI_THRIFT_SET,
    TRI_THRIFT_MAP,
    TRI_THRIFT_STRUCT
} tri_thrift_type;

typedef struct tri_thrift {
    const uint8_t *at, *end;
    int depth;   /* of structs and lists being skipped */
    int failed;
} tri_thrift;

/* A number of 7 bits a byte, the lowest first, a byte below 128 being its last; advances *at. 0: there is none. */
int tri__varint(const uint8_t **at, const uint8_t *end, uint64_t *value);
static inline int64_t tri__zigzag(uint64_t value) { return (int64_t)(value >> 1 ^ (0 - (value & 1))); }

/* A field of a struct. Begin with a zeroed one; tri__thrift_next moves on to the next, whose value must be read or
 * skipped before the one after it. */
typedef struct tri_thrift_field {
    int id;
    tri_thrift_type type;
} tri_thrift_field;
/* 0: the struct's end, or a fault. */
int tri__thrift_next(tri_thrift *in, tri_thrift_field *field);
/* The value of an integer field; a fault if it is of another type. */
int64_t tri__thrift_integer(tri_thrift *in, const tri_thrift_field *field);
int tri__thrift_boolean(tri_thrift *in, const tri_thrift_field *field);
/* Bytes inside the input. */
const char *tri__thrift_binary(tri_thrift *in, const tri_thrift_field *field, size_t *length);
/* The elements of a list of `type`; each takes at least a byte, so there are at most as many as bytes left. */
uint32_t tri__thrift_list(tri_thrift *in, const tri_thrift_field *field, tri_thrift_type type);
/* Whether the field is a struct; a fault if not. */
int tri__thrift_struct(tri_thrift *in, const tri_thrift_field *field);
void tri__thrift_skip(tri_thrift *in, tri_thrift_type type);
void tri__thrift_fail(tri_thrift *in);
