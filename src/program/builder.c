/* builder.c - appends units, slots and instructions to a program. */
#include "program/builder.h"

tri_program *tri__program_new(tri_arena *arena, const char *title) {
    tri_program *program = tri__arena_alloc(arena, sizeof *program);
    program->title = tri__arena_copy(arena, title);
    program->mesh = (tri_mesh){.pp = 1, .tp = 1, .dp = 1};
    program->n_mb = 1;
    return program;
}

int tri__build_unit(tri_builder *builder, const char *name) {
    tri_program *program = builder->program;
    for (int i = 0; i < program->n_units; i++)
        if (strcmp(program->unit[i], name) == 0) return builder->unit = i;
    *TRI_PUSH(builder->arena, program->unit, program->n_units, program->cap_units) = tri__arena_copy(builder->arena,
                                                                                                     name);
    return builder->unit = program->n_units - 1;
}

tri_builder tri__build_like(tri_arena *arena, const tri_program *from) {
    tri_builder build = {.arena = arena, .program = tri__program_new(arena, from->title)};
    build.program->mesh = from->mesh, build.program->rank = from->rank;
    build.program->n_mb = from->n_mb, build.program->max = from->max;
    build.program->gates = from->gates;
    memcpy(build.program->share, from->share, sizeof from->share);
    build.program->layer = from->layer, build.program->n_layers = build.program->cap_layers = from->n_layers;
    for (int i = 0; i < from->n_units; i++) tri__build_unit(&build, from->unit[i]);
    build.program->cap_slots = from->n_slots + from->n_slots / 8; /* most rewrites add little */
    build.program->slot = tri__arena_alloc(arena, (size_t)build.program->cap_slots * sizeof *from->slot);
    build.program->cap_instrs = from->n_instrs + from->n_instrs / 8;
    build.program->instr = tri__arena_alloc(arena, (size_t)build.program->cap_instrs * sizeof *from->instr);
    return build;
}

/* Most names are copies, or a parent's with a label: these take no formatting. */
static char *print_name(tri_arena *arena, const char *format, va_list args) {
    char name[256];
    if (strcmp(format, "%s") == 0) return tri__arena_copy(arena, va_arg(args, const char *));
    if (strcmp(format, "%s.%s") == 0) {
        const char *first = va_arg(args, const char *), *second = va_arg(args, const char *);
        size_t n = strlen(first), m = strlen(second);
        char *made = tri__arena_alloc(arena, n + m + 2);
        memcpy(made, first, n), made[n] = '.', memcpy(made + n + 1, second, m);
        return made;
    }
    int length = vsnprintf(name, sizeof name, format, args);
    TRI_ASSERT(length > 0 && length < (int)sizeof name);
    return tri__arena_copy(arena, name);
}

static int push_slot(tri_builder *builder, tri_slot slot, const char *format, va_list args) {
    tri_program *program = builder->program;
    slot.name = print_name(builder->arena, format, args);
    *TRI_PUSH(builder->arena, program->slot, program->n_slots, program->cap_slots) = slot;
    return program->n_slots - 1;
}

int tri__build_slot(tri_builder *builder, tri_mem mem, tri_dtype dtype, tri_rows rows, int64_t cols, const char *format,
                    ...) {
    va_list args;
    va_start(args, format);
    tri_slot made = {.dtype = dtype, .mem = mem, .rows = rows, .cols = cols, .unit = builder->unit, .parent = -1,
                     .offset = -1};
    int slot = push_slot(builder, made, format, args);
    va_end(args);
    return slot;
}

int tri__build_rows_view(tri_builder *builder, int parent, int64_t at, tri_rows rows, int64_t cols, const char *format,
                         ...) {
    va_list args;
    va_start(args, format);
    const tri_slot *of = &builder->program->slot[parent];
    tri_slot made = {.dtype = of->dtype, .mem = of->mem, .rows = rows, .cols = cols, .unit = of->unit, .parent = parent,
                     .parent_at = at};
    int slot = push_slot(builder, made, format, args);
    va_end(args);
    return slot;
}

void tri__build_as(tri_builder *builder, const tri_instr *like) {
    builder->unit = like->unit, builder->mb = like->mb, builder->gates = like->gates, builder->layer = like->layer;
}

tri_instr *tri__build(tri_builder *builder, tri_op op, const int *slots, tri_attr attr) {
    tri_program *program = builder->program;
    tri_instr *instr = TRI_PUSH(builder->arena, program->instr, program->n_instrs, program->cap_instrs);
    *instr = (tri_instr){.op = (uint16_t)op, .unit = (int16_t)builder->unit, .mb = (int16_t)builder->mb,
                         .gates = builder->gates, .layer = builder->layer, .await = -1, .attr = attr};
    const tri_op_row *row = tri__op_row(op, &attr);
    for (int k = 0; k < TRI_MAX_ARGS; k++) instr->slot[k] = k < row->n_args && row->arg[k].access ? slots[k] : -1;
    return instr;
}

tri_instr *tri__build_variant(tri_builder *builder, tri_op op, const int *slots, tri_attr attr) {
    const tri_op_row *row = tri__op_row(op, &attr);
    int placed[TRI_MAX_ARGS];
    for (int k = 0; k < TRI_MAX_ARGS; k++) placed[k] = k < row->n_args && row->arg[k].access ? *slots++ : -1;
    return tri__build(builder, op, placed, attr);
}

tri_instr *tri__build_copy(tri_builder *builder, const tri_instr *instr) {
    tri_program *program = builder->program;
    tri_instr *made = TRI_PUSH(builder->arena, program->instr, program->n_instrs, program->cap_instrs);
    *made = *instr;
    return made;
}

void tri__build_post(tri_builder *builder, tri_op op, tri_attr group, tri_ends ends) {
    tri_instr *post = tri__build(builder, op, (const int[TRI_MAX_ARGS]){ends.y, ends.x}, group);
    post->attr.id = tri__random_id(builder->program->slot[tri__transfer_whole(post)].name);
}

void tri__build_wait(tri_builder *builder, tri_ends ends) {
    TRI_BUILD(builder, wait, (tri_attr){0}, ends.y, ends.x);
}

tri_instr *tri__take_instrs(tri_program *program, int *n) {
    tri_instr *had = program->instr;
    *n = program->n_instrs;
    program->instr = NULL, program->n_instrs = program->cap_instrs = 0;
    return had;
}
