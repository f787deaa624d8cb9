/* variant.h - the variants of operations: by number, by mnemonic, by an instruction's attributes. */
#pragma once

#include "program/op.h"

enum { TRI_VARIANTS = 512 }; /* numbers of variants are below it */
/* The number of a variant, by which tables of kernels and of times are indexed; -1: attributes have no such values. */
int tri__variant(tri_op op, const tri_attr *attr);
int tri__variant_find(const char *name); /* by its mnemonic; -1 when there is none */
int tri__variant_count(void);
/* The variants of an operation: the first, and how many. Some may not exist: their rows have no name. */
int tri__op_variants(tri_op op);
int tri__variant_computes(int variant); /* whether there is such a variant, and kernels compute it */
int tri__op_variant_count(tri_op op);
int tri__op_find(const char *name); /* by its name in ops.def; -1 when there is none */
const tri_op_row *tri__variant_row(int variant);
/* Sets the attributes that make the variant what it is, and leaves all others. */
void tri__variant_set(int variant, tri_attr *attr);
const tri_op_row *tri__op_row(tri_op op, const tri_attr *attr);
