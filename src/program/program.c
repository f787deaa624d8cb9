/* program.c - facts about slots and instructions: sizes, dims, costs. */
#include "program/program.h"

#include <stdlib.h>
#include <string.h>

const char *tri__mem_name(tri_mem mem) {
    static const char *const names[TRI_MEM_COUNT] = {"param", "grad", "state", "act", "gather", "comm", "result", "work"};
    return names[mem];
}

const char *tri__sym_name(tri_sym sym) {
    static const char *const names[TRI_SYM_COUNT] = {"", "T0", "T1", "N"};
    return names[sym];
}

tri_counts tri__counts_rounded(const tri_counts *counts, int granule) {
    tri_counts rounded = *counts;
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_T1; sym++) rounded.of[sym] = (counts->of[sym] + granule - 1) / granule * granule;
    return rounded;
}

int64_t tri__slot_rows(const tri_slot *slot, const tri_counts *counts) {
    return counts->of[slot->rows.sym] / (slot->rows.div ? slot->rows.div : 1) + slot->rows.add;
}

int64_t tri__slot_bytes(const tri_slot *slot, const tri_counts *counts) {
    return tri__slot_rows(slot, counts) * slot->cols * (int64_t)tri__dtype_bytes(slot->dtype);
}

int tri__slot_root(const tri_program *program, int slot) {
    while (program->slot[slot].parent >= 0) slot = program->slot[slot].parent;
    return slot;
}

int tri__program_find(const tri_program *program, const char *slot_name) {
    for (int i = 0; i < program->n_slots; i++)
        if (strcmp(program->slot[i].name, slot_name) == 0) return i;
    return -1;
}

int64_t tri__program_bytes(const tri_program *program) {
    int64_t bytes = 0;
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) bytes += program->bytes[mem];
    return bytes;
}

int64_t tri__program_second_bytes(const tri_program *program) {
    int64_t bytes = 0;
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (program->second >> mem & 1) bytes += program->bytes[mem];
    return bytes;
}

/* Binds one dim of an operand: a letter to its extent, or a number that must be the extent. */
static int bind(tri_dims *dims, unsigned *bound, const char *dim, int64_t extent) {
    if (*dim >= '0' && *dim <= '9') return strtol(dim, NULL, 10) == extent;
    int letter = *dim - 'A';
    if (*bound & (1u << letter)) return dims->of[letter] == (double)extent;
    *bound |= 1u << letter;
    dims->of[letter] = (double)extent;
    return 1;
}

tri_status tri__instr_dims(const tri_program *program, const tri_instr *instr, const tri_counts *counts, tri_dims *dims) {
    const tri_op_row *row = tri__op_row(instr->op);
    unsigned bound = 0;
    *dims = (tri_dims){{0}};
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0) continue;
        const tri_slot *slot = &program->slot[instr->slot[k]];
        const char *text = row->arg[k].dims;
        if (!bind(dims, &bound, text, tri__slot_rows(slot, counts)) || !bind(dims, &bound, strchr(text, ',') + 1, slot->cols))
            return tri__fail(TRI_INTERNAL, "%s: operand %s is [%lld,%lld], which does not fit [%s] beside the others", row->name,
                             row->arg[k].name, (long long)tri__slot_rows(slot, counts), (long long)slot->cols, text);
        if (text[0] == 'T') dims->of['Q' - 'A'] = counts->squares[slot->rows.sym];
    }
    return TRI_OK;
}

tri_dtype tri__instr_dtype(const tri_program *program, const tri_instr *instr) {
    const tri_op_row *row = tri__op_row(instr->op);
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0 || row->arg[k].dtype >= 0) continue;
        tri_dtype dtype = program->slot[instr->slot[k]].dtype;
        if (dtype == TRI_BF16 || dtype == TRI_F16) return dtype;
    }
    return TRI_F32;
}

/* How often an operand's bytes pass through memory. */
static double traffic(const tri_operand *operand, int accumulates) {
    if (operand->access == TRI_ACCESS_U) return 2;
    return operand->access == TRI_ACCESS_A && accumulates ? 2 : 1;
}

tri_cost tri__instr_cost(const tri_program *program, const tri_instr *instr, const tri_counts *counts) {
    const tri_op_row *row = tri__op_row(instr->op);
    tri_dims dims;
    if (tri__instr_dims(program, instr, counts, &dims) != TRI_OK) return (tri_cost){0};
    tri_cost cost = {.flops = row->flops(&dims)};
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0) continue;
        const tri_slot *slot = &program->slot[instr->slot[k]];
        double bytes = (double)tri__slot_bytes(slot, counts);
        if (row->arg[k].access == TRI_ACCESS_G) /* one row a token */
            bytes = dims.of['T' - 'A'] * (double)slot->cols * (double)tri__dtype_bytes(slot->dtype);
        cost.bytes += bytes * traffic(&row->arg[k], instr->acc >> k & 1);
    }
    return cost;
}
