/* op_def.h - a row of ops.def as it is written, of which variant.c makes the rows of its variants. */
#pragma once

#include "program/op.h"

/* An operand; `kind` is 1 + its dtype, so that it is 0 where it is left out: the computing type. */
#define TRI_OPERAND_FIELDS \
    const char *name;      \
    tri_access access;     \
    int optional;          \
    const char *dims;      \
    int kind

/* A condition of an operand: IF: it exists only with all of these facts; ANY: with one of them; OR: with all of them it
 * is the operand `is` instead; of several, the last that holds counts. */
typedef enum tri_rule { TRI_RULE_NONE, TRI_RULE_IF, TRI_RULE_ANY, TRI_RULE_NOT, TRI_RULE_OR } tri_rule;
typedef struct tri_condition {
    tri_rule rule;
    unsigned facts;
    struct {
        TRI_OPERAND_FIELDS;
    } is;
} tri_condition;

enum { TRI_CONDITIONS = 4 };
typedef struct tri_operand_def {
    TRI_OPERAND_FIELDS;
    tri_condition a, b, c, d; /* of which the first without a rule is the end */
} tri_operand_def;

/* With these facts a variant takes `times` as long as the one of this mnemonic, in which {x} is this variant's x. */
typedef struct tri_like {
    const char *name;
    double times;
    unsigned with, without;
} tri_like;

typedef struct tri_op_def {
    const char *name;
    tri_op_phase phase;
    double (*flops)(const tri_dims *dims, const tri_op_row *row);
    const char *adjoint, *formula;
    const tri_operand_def *arg;
    int n_args;

    /* Set by ROW(...). */
    tri_op_family family;
    tri_op_split split;
    tri_like like[6];     /* the first that holds counts */
    tri_op_rate rate;
    tri_op_part part;
    int lowered, elementwise, decodes;
    const char *mnemonic; /* "linear{act}": attributes that multiply the operation are in braces; NULL: the name */
    unsigned always;      /* facts of every variant */
    unsigned late;        /* facts of variants that passes make once there are gradients: they have no adjoint */
    unsigned never[6];    /* facts that do not go together */
    unsigned one_of[2];   /* facts of which a variant has one at most */
} tri_op_def;

const tri_op_def *tri__op_def(tri_op op);
