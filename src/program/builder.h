/* builder.h - appends units, slots and instructions to a program held in an arena. */
#pragma once

#include "program/transfer.h"

typedef struct tri_builder {
    tri_arena *arena;
    tri_program *program;
    int unit, mb;   /* of everything added from now on */
    uint32_t gates; /* of instructions added from now on, as is their layer's gate */
    int layer;
} tri_builder;

tri_program *tri__program_new(tri_arena *arena, const char *title);
int tri__build_unit(tri_builder *builder, const char *name);   /* finds or adds it; makes it the current unit */
/* Begins a rewrite of another program: copies its header and units, no slots or instructions. */
tri_builder tri__build_like(tri_arena *arena, const tri_program *from);
int tri__build_slot(tri_builder *builder, tri_mem mem, tri_dtype dtype, tri_rows rows, int64_t cols, const char *format,
                    ...) __attribute__((format(printf, 6, 7)));
/* A slot of one row; one of the class, type and size of `like`, a tri_slot. Then its name. */
#define TRI_BUILD_FLAT(builder, mem, dtype, cols, ...) \
    tri__build_slot((builder), (mem), (dtype), (tri_rows){.add = 1}, (cols), __VA_ARGS__)
#define TRI_BUILD_SAME(builder, like, ...) \
    tri__build_slot((builder), (like).mem, (like).dtype, (like).rows, (like).cols, __VA_ARGS__)
/* A view of elements of a slot, from `at` on: counted rows, at most as many as fit into it; or so many. */
int tri__build_rows_view(tri_builder *builder, int parent, int64_t at, tri_rows rows, int64_t cols, const char *format,
                         ...) __attribute__((format(printf, 6, 7)));
#define tri__build_view(builder, parent, at, rows, cols, ...) \
    tri__build_rows_view((builder), (parent), (at), (tri_rows){.add = (rows)}, (cols), __VA_ARGS__)
/* Unit, microbatch and gates of everything added from now on are those of `like`. */
void tri__build_as(tri_builder *builder, const tri_instr *like);
/* Appends an instruction; `slots` in the order of the operation's row, -1 for omitted operands. */
tri_instr *tri__build(tri_builder *builder, tri_op op, const int *slots, tri_attr attr);
#define TRI_NO_SLOTS {[0 ... TRI_MAX_ARGS - 1] = -1}
#define TRI_BUILD(builder, op, attr, ...) \
    tri__build((builder), TRI_OP_##op, (const int[TRI_MAX_ARGS]){__VA_ARGS__}, (attr))
/* The same with the slots of those operands alone that the variant has. */
tri_instr *tri__build_variant(tri_builder *builder, tri_op op, const int *slots, tri_attr attr);
#define TRI_BUILD_VARIANT(builder, op, attr, ...) \
    tri__build_variant((builder), TRI_OP_##op, (const int[TRI_MAX_ARGS]){__VA_ARGS__}, (attr))
/* Appends a copy of an instruction, of this program or with slots that it has too. */
tri_instr *tri__build_copy(tri_builder *builder, const tri_instr *instr);
/* Appends a post in the group of `group`, or the wait for one. All members name a transfer alike, by its attr.id: that
 * of the name of the slot that holds all members' data. */
void tri__build_post(tri_builder *builder, tri_op op, tri_attr group, tri_ends ends);
void tri__build_wait(tri_builder *builder, tri_ends ends);
/* Empties a program's list of instructions, to be written anew; returns the old one, [*n]. */
tri_instr *tri__take_instrs(tri_program *program, int *n);
