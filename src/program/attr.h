/* attr.h - the fields of tri_attr as a table, for printing and parsing. */
#pragma once

#include "program/op.h"

typedef enum tri_attr_kind { TRI_ATTR_REAL, TRI_ATTR_INT, TRI_ATTR_ID, TRI_ATTR_AXES } tri_attr_kind;

typedef struct tri_attr_row {
    const char *name;
    tri_attr_kind kind; /* float, int32_t, uint32_t, or uint32_t as a set of axes: "pp+dp" */
    size_t offset;
} tri_attr_row;

#define REAL(field) {#field, TRI_ATTR_REAL, offsetof(tri_attr, field)}
#define INT(field) {#field, TRI_ATTR_INT, offsetof(tri_attr, field)}
#define ID(field) {#field, TRI_ATTR_ID, offsetof(tri_attr, field)}
#define AXES(field) {#field, TRI_ATTR_AXES, offsetof(tri_attr, field)}
static const tri_attr_row tri__attr_rows[] = {
    REAL(p), REAL(eps), ID(id), INT(bits), INT(heads), INT(head0), INT(row0), INT(pad), INT(pad_position), INT(part),
    INT(run), INT(groups), INT(max_len), INT(block), REAL(keys), INT(window), INT(buckets), INT(reach), INT(terms),
    REAL(theta), INT(act), INT(field), REAL(max_norm), REAL(beta1), REAL(beta2), REAL(decay), INT(nesterov), INT(code),
    INT(members), REAL(smoothing), REAL(gamma), INT(loss), REAL(delta), REAL(rate), AXES(axes), INT(within),
    INT(across), INT(root),
};
#undef REAL
#undef INT
#undef ID
#undef AXES

enum { TRI_ATTR_ROWS = sizeof tri__attr_rows / sizeof tri__attr_rows[0] };
