/* check.h - proves that programs can run. */
#ifndef TRI_PROGRAM_CHECK_H
#define TRI_PROGRAM_CHECK_H

#include "program/program.h"

/* All ranks' programs of one step. TRI_INTERNAL, with rank, line and reason, at the first defect. */
tri_status tri__check(const tri_program *const *programs, int n);

#endif
