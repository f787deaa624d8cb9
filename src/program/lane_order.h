/* lane_order.h - what the instructions of two lanes must wait for, and what they are known to be behind.
 *
 * Lanes are queues that a device works on at once, each in the order of the program. Two instructions of different
 * lanes that touch the same bytes, at least one of them writing, keep the program's order only if the later one is
 * behind the earlier: itself or one before it in its lane waits for that instruction or for one after it. The plan
 * finds the waits with this, and the checker proves with it that they suffice. */
#ifndef TRI_PROGRAM_LANE_ORDER_H
#define TRI_PROGRAM_LANE_ORDER_H

#include "program/program.h"

/* Bytes [begin, end) of a class's allocation. */
typedef struct tri_slot_bytes {
    tri_mem mem;
    int64_t begin, end;
} tri_slot_bytes;

typedef struct tri_lane_order tri_lane_order;

/* An order that knows of no instruction yet. of [n_slots]: the bytes of each slot. */
tri_lane_order *tri__lane_order_open(tri_arena *arena, const tri_program *program, const tri_slot_bytes *of);
/* The last earlier instruction of the other lane that shares bytes with this one, at least one of both writing, and
 * that its lane is not behind; -1: none. A transfer, and a copy between memories, has its slots to itself from its post
 * to its wait: both count as writing all of them. Scratch space does not count: each lane has its own. */
int tri__lane_order_missing(const tri_lane_order *order, const tri_instr *instr);
/* The lane, from now on, is behind instruction `index` of the other. */
void tri__lane_order_follow(tri_lane_order *order, int lane, int index);
int tri__lane_order_behind(const tri_lane_order *order, int lane); /* the last that it is; -1 */
/* The next instruction, number `index`, has been ordered. */
void tri__lane_order_add(tri_lane_order *order, const tri_instr *instr, int index);

/* Proves that the lanes of a program are there and that its waits suffice: NULL, or what is wrong with instruction
 * *line, as a format of one %s, for instruction *other where it shares bytes with that and may overtake it; else
 * *other is left. post [n_instrs]: where the transfer or copy was posted that a wait ends; it begins when its lane has
 * come to that, so that what follows the wait is behind the post. */
const char *tri__lane_order_fault(tri_arena *arena, const tri_program *program, const tri_slot_bytes *of,
                                  const int *post, int *line, int *other);

#endif
