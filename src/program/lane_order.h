/* lane_order.h - which waits two lanes need, and which orderings are already implied.
 *
 * Lanes are queues that a device works on at once, each in the order of the program. Two instructions of different
 * lanes that touch the same bytes, at least one of them writing, keep the program's order only if the later is "behind"
 * the earlier: it, or an instruction before it in its lane, waits for the earlier one or for one after that. The plan
 * derives the waits from this, and the checker proves that they suffice. */
#pragma once

#include "program/program.h"

/* Bytes [begin, end) of a class's allocation. */
typedef struct tri_slot_bytes {
    tri_mem mem;
    int64_t begin, end;
} tri_slot_bytes;

typedef struct tri_lane_order tri_lane_order;

/* An order without instructions. of [n_slots]: the bytes of each slot. */
tri_lane_order *tri__lane_order_open(tri_arena *arena, const tri_program *program, const tri_slot_bytes *of);
/* The last earlier instruction of the other lane that conflicts with this one (shares bytes, at least one writes) and
 * that this lane is not behind yet; -1: none. A transfer or a copy between memories owns its slots from its post to its
 * wait: both count as writing all of them. Scratch space does not count: each lane has its own. */
int tri__lane_order_missing(const tri_lane_order *order, const tri_instr *instr);
/* From now on the lane is behind instruction `index` of the other. */
void tri__lane_order_follow(tri_lane_order *order, int lane, int index);
int tri__lane_order_behind(const tri_lane_order *order, int lane); /* the last one it is behind; -1 */
/* Adds the next instruction, number `index`, once it is ordered. */
void tri__lane_order_add(tri_lane_order *order, const tri_instr *instr, int index);

/* Proves that a program's lanes exist and that its waits suffice. Returns NULL, or what is wrong with instruction
 * *line: a format with one %s, for instruction *other where *line may overtake it; otherwise *other is not set. post
 * [n_instrs]: of each wait, the post that it ends. A transfer begins when its lane reaches the post, so everything
 * after the wait is behind the post, where the wait runs in all kinds of steps. Instructions of kinds that are left out
 * of a step still signal and wait at their places: the proof for all instructions holds for those of each kind. */
const char *tri__lane_order_fault(tri_arena *arena, const tri_program *program, const tri_slot_bytes *of,
                                  const int *post, int *line, int *other);
