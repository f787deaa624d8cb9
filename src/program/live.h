/* live.h - how much of a program's memory is in use at each instruction. */
#pragma once

#include "program/program.h"

/* [n_instrs * TRI_MEM_COUNT], in the arena: the bytes of each class in slots that are live while instruction i runs,
 * from their first use to their last, sized for the largest microbatch. Classes that are never reused are live
 * throughout. */
int64_t *tri__program_live(tri_arena *arena, const tri_program *program);
