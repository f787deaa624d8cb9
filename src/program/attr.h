/* attr.h - the fields of tri_attr as a table, for printing and parsing. */
#pragma once

#include "program/op.h"

typedef enum tri_attr_kind { TRI_ATTR_REAL, TRI_ATTR_INT, TRI_ATTR_ID, TRI_ATTR_AXES } tri_attr_kind;

typedef struct tri_attr_row {
    const char *name;
    tri_attr_kind kind; /* float, int32_t, uint32_t, or uint32_t as a set of axes: "pp+dp" */
    size_t offset;
} tri_attr_row;

static const tri_attr_row tri__attr_rows[] = {
    {"p", TRI_ATTR_REAL, offsetof(tri_attr, p)},
    {"eps", TRI_ATTR_REAL, offsetof(tri_attr, eps)},
    {"id", TRI_ATTR_ID, offsetof(tri_attr, id)},
    {"bits", TRI_ATTR_INT, offsetof(tri_attr, bits)},
    {"heads", TRI_ATTR_INT, offsetof(tri_attr, heads)},
    {"head0", TRI_ATTR_INT, offsetof(tri_attr, head0)},
    {"row0", TRI_ATTR_INT, offsetof(tri_attr, row0)},
    {"pad", TRI_ATTR_INT, offsetof(tri_attr, pad)},
    {"pad_position", TRI_ATTR_INT, offsetof(tri_attr, pad_position)},
    {"part", TRI_ATTR_INT, offsetof(tri_attr, part)},
    {"run", TRI_ATTR_INT, offsetof(tri_attr, run)},
    {"groups", TRI_ATTR_INT, offsetof(tri_attr, groups)},
    {"max_len", TRI_ATTR_INT, offsetof(tri_attr, max_len)},
    {"block", TRI_ATTR_INT, offsetof(tri_attr, block)},
    {"keys", TRI_ATTR_REAL, offsetof(tri_attr, keys)},
    {"window", TRI_ATTR_INT, offsetof(tri_attr, window)},
    {"buckets", TRI_ATTR_INT, offsetof(tri_attr, buckets)},
    {"reach", TRI_ATTR_INT, offsetof(tri_attr, reach)},
    {"terms", TRI_ATTR_INT, offsetof(tri_attr, terms)},
    {"theta", TRI_ATTR_REAL, offsetof(tri_attr, theta)},
    {"act", TRI_ATTR_INT, offsetof(tri_attr, act)},
    {"field", TRI_ATTR_INT, offsetof(tri_attr, field)},
    {"max_norm", TRI_ATTR_REAL, offsetof(tri_attr, max_norm)},
    {"beta1", TRI_ATTR_REAL, offsetof(tri_attr, beta1)},
    {"beta2", TRI_ATTR_REAL, offsetof(tri_attr, beta2)},
    {"decay", TRI_ATTR_REAL, offsetof(tri_attr, decay)},
    {"nesterov", TRI_ATTR_INT, offsetof(tri_attr, nesterov)},
    {"code", TRI_ATTR_INT, offsetof(tri_attr, code)},
    {"members", TRI_ATTR_INT, offsetof(tri_attr, members)},
    {"smoothing", TRI_ATTR_REAL, offsetof(tri_attr, smoothing)},
    {"gamma", TRI_ATTR_REAL, offsetof(tri_attr, gamma)},
    {"loss", TRI_ATTR_INT, offsetof(tri_attr, loss)},
    {"delta", TRI_ATTR_REAL, offsetof(tri_attr, delta)},
    {"rate", TRI_ATTR_REAL, offsetof(tri_attr, rate)},
    {"axes", TRI_ATTR_AXES, offsetof(tri_attr, axes)},
    {"within", TRI_ATTR_INT, offsetof(tri_attr, within)},
    {"across", TRI_ATTR_INT, offsetof(tri_attr, across)},
    {"root", TRI_ATTR_INT, offsetof(tri_attr, root)},
};

enum { TRI_ATTR_ROWS = sizeof tri__attr_rows / sizeof tri__attr_rows[0] };
