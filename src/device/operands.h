/* operands.h - a kernel's operands by their names in ops.def: after OPERANDS(norm) in a function, ARG(x) is the index
 * of operand x of norm in the call. */
#pragma once

#include "program/op.h"

#define OPERANDS(op) typedef struct tri_args_##op operands
#define ARG(name) ((int)offsetof(operands, name))
