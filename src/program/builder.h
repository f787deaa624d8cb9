/* builder.h - appends units, slots and instructions to a program held in an arena. */
#ifndef TRI_PROGRAM_BUILDER_H
#define TRI_PROGRAM_BUILDER_H

#include "program/program.h"

typedef struct tri_builder {
    tri_arena *arena;
    tri_program *program;
    int unit, mb;   /* of everything added from now on */
    uint32_t gates; /* of instructions added from now on, as is their layer's gate */
    int layer;
} tri_builder;

tri_program *tri__program_new(tri_arena *arena, const char *title);
int tri__build_unit(tri_builder *builder, const char *name);   /* finds or adds it; makes it the current unit */
void tri__build_units(tri_builder *builder,
                      const tri_program *from); /* adds the units of another program */
/* Begins a rewrite of another program: copies its header and units, no slots or instructions. */
tri_builder tri__build_like(tri_arena *arena, const tri_program *from);
int tri__build_slot(tri_builder *builder, tri_mem mem, tri_dtype dtype, tri_rows rows, int64_t cols, const char *format,
                    ...) __attribute__((format(printf, 6, 7)));
int tri__build_view(tri_builder *builder, int parent, int64_t at, int64_t rows, int64_t cols, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* A view with any rows: counted ones, at most as many as fit into the parent. */
int tri__build_rows_view(tri_builder *builder, int parent, int64_t at, tri_rows rows, int64_t cols, const char *format,
                         ...) __attribute__((format(printf, 6, 7)));
/* Unit, microbatch and gates of everything added from now on are those of `like`. */
void tri__build_as(tri_builder *builder, const tri_instr *like);
/* Appends an instruction; `slots` in the order of the operation's row, -1 for omitted operands. */
tri_instr *tri__build(tri_builder *builder, tri_op op, const int *slots, tri_attr attr);
#define TRI_BUILD(builder, op, attr, ...) \
    tri__build((builder), TRI_OP_##op, (const int[TRI_MAX_ARGS]){__VA_ARGS__}, (attr))

#endif
