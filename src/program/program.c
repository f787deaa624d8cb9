/* program.c - facts about slots and instructions: sizes, dims, costs. */
#include "program/program.h"

static const char *const gate_names[TRI_GATE_COUNT] = {
#define X(name, text) #name,
    TRI_GATES(X)
#undef X
};

const char *tri__gate_name(tri_gate gate) { return gate_names[gate]; }

int tri__gate_find(const char *name) {
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++)
        if (strcmp(gate_names[gate], name) == 0) return gate;
    return -1;
}

int tri__program_kinds(const tri_program *program, uint32_t kind[static TRI_GATE_COUNT]) {
    int n = 0;
    kind[0] = 0;
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++)
        if (program->gates >> gate & 1) kind[n++] = 1u << gate;
    return n ? n : 1;
}

double tri__kind_share(const tri_program *program, uint32_t kind) {
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++)
        if (kind >> gate & 1) return program->share[gate];
    return 1;
}

int tri__layer_find(const tri_program *program, const char *name) {
    for (int k = 0; k < program->n_layers; k++) {
        size_t length = strlen(program->layer[k].name);
        if (strncmp(program->layer[k].name, name, length) == 0 &&
            (!name[length] || strcmp(name + length, ".experts") == 0))
            return k;
    }
    return -1;
}

int tri__program_case(const tri_program *program, int index, tri_open_gates *now) {
    uint32_t kind[TRI_GATE_COUNT];
    int n = tri__program_kinds(program, kind), layers = program->n_layers, of_layers = index / n;
    if (of_layers > (layers > 1 ? 1 + layers : layers)) return 0; /* a single layer is all of them */
    *now = (tri_open_gates){.kind = kind[index % n]};
    for (int k = 0; k < layers; k++)
        if (of_layers == 1 || of_layers == k + 2) tri__close_layer(now, k);
    return 1;
}

const char *tri__mem_name(tri_mem mem) {
    static const char *const names[TRI_MEM_COUNT] = {"param", "grad", "state",  "act", "gather",
                                                     "comm",  "staging", "result", "host", "kept", "work"};
    return names[mem];
}

const char *tri__sym_name(tri_sym sym) {
    static const char *const names[TRI_SYM_COUNT] = {"", "T0", "T1", "N", "W0", "W1", "X0", "X1"};
    return names[sym];
}

tri_counts tri__counts_rounded(const tri_counts *counts, int granule) {
    tri_counts rounded = *counts;
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_T1; sym++)
        rounded.of[sym] = (counts->of[sym] + granule - 1) / granule * granule;
    return rounded;
}

tri_counts tri__counts_of(const tri_readers *readers, int n_texts, int64_t samples, int64_t tokens, int64_t windows) {
    tri_counts counts = {.of[TRI_SYM_N] = samples};
    for (int t = 0; t < n_texts; t++) {
        counts.of[TRI_SYM_T0 + tri__reader(readers, t)] += tokens;
        counts.of[TRI_SYM_W0 + tri__reader(readers, t)] += windows ? windows : readers->joined ? samples : 0;
    }
    return counts;
}

int64_t tri__slot_rows(const tri_slot *slot, const tri_counts *counts) {
    const tri_rows *rows = &slot->rows;
    return counts->of[rows->sym] * (rows->mul ? rows->mul : 1) / (rows->div ? rows->div : 1) + rows->add;
}

int64_t tri__slot_bytes(const tri_slot *slot, const tri_counts *counts) {
    return tri__slot_rows(slot, counts) * slot->cols * (int64_t)tri__dtype_bytes(slot->dtype);
}

int tri__slot_root(const tri_program *program, int slot) {
    while (program->slot[slot].parent >= 0) slot = program->slot[slot].parent;
    return slot;
}

int64_t tri__slot_begin(const tri_program *program, int slot) {
    int64_t begin = 0;
    for (; program->slot[slot].parent >= 0; slot = program->slot[slot].parent) begin += program->slot[slot].parent_at;
    return begin;
}

int64_t tri__slot_offset(const tri_program *program, int slot) {
    return program->slot[tri__slot_root(program, slot)].offset +
           tri__slot_begin(program, slot) * (int64_t)tri__dtype_bytes(program->slot[slot].dtype);
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

int64_t tri__program_offload_bytes(const tri_program *program) {
    int64_t bytes = 0;
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (program->offload >> mem & 1) bytes += program->bytes[mem];
    return bytes;
}

int tri__program_lanes(const tri_program *program) {
    int most = 0;
    for (int i = 0; i < program->n_instrs; i++)
        if (program->instr[i].lane > most) most = program->instr[i].lane;
    return 1 + most;
}

static void extents(const tri_program *program, const tri_instr *instr, const tri_counts *counts,
                    tri_extent out[static TRI_MAX_ARGS]) {
    for (int k = 0; k < tri__instr_row(instr)->n_args; k++) {
        const tri_slot *slot = instr->slot[k] < 0 ? NULL : &program->slot[instr->slot[k]];
        out[k] = slot ? (tri_extent){tri__slot_rows(slot, counts), slot->cols, slot->dtype, 1} : (tri_extent){0};
    }
}

/* Pairs of query and key where blocks are left out. Queries are all tokens or, if the operation has samples, first
 * tokens alone. */
static void leave_out(const tri_instr *instr, tri_dims *dims) {
    double *pairs = &dims->of['Q' - 'A'], tokens = dims->of['T' - 'A'], samples = dims->of['N' - 'A'];
    double queries = samples > 0 ? samples : tokens;
    if (samples > 0) *pairs = tokens;
    if (queries * (double)instr->attr.keys < *pairs) *pairs = queries * (double)instr->attr.keys;
}

tri_status tri__instr_dims(const tri_program *program, const tri_instr *instr, const tri_counts *counts,
                           tri_dims *dims) {
    const tri_op_row *row = tri__instr_row(instr);
    tri_extent arg[TRI_MAX_ARGS];
    extents(program, instr, counts, arg);
    int bad = tri__op_bind(row, arg, dims);
    if (bad >= 0)
        return tri__fail(TRI_INTERNAL, "%s: operand %s is [%lld,%lld], which does not fit [%s] with the other operands",
                         row->name, row->arg[bad].name, (long long)arg[bad].rows, (long long)arg[bad].cols,
                         row->arg[bad].dims);
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0 || row->arg[k].dims[0] != 'T') continue;
        tri_rows rows = program->slot[instr->slot[k]].rows;
        double runs = rows.div ? rows.div : 1; /* of a ring: a run's queries meet a run's keys */
        double squares = rows.mul ? (double)counts->of[rows.sym] * rows.mul * rows.mul : counts->squares[rows.sym];
        dims->of['Q' - 'A'] = squares / (runs * runs);
    }
    if (instr->attr.keys > 0) leave_out(instr, dims);
    return TRI_OK;
}

tri_dtype tri__instr_dtype(const tri_program *program, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0 || row->arg[k].dtype >= 0) continue;
        tri_dtype dtype = program->slot[instr->slot[k]].dtype;
        if (dtype == TRI_BF16 || dtype == TRI_F16) return dtype;
    }
    return TRI_F32;
}

tri_cost tri__instr_cost(const tri_program *program, const tri_instr *instr, const tri_counts *counts) {
    tri_extent arg[TRI_MAX_ARGS];
    tri_dims dims;
    if (tri__instr_dims(program, instr, counts, &dims) != TRI_OK) return (tri_cost){0};
    extents(program, instr, counts, arg);
    return tri__op_cost(tri__instr_row(instr), arg, instr->acc, &dims);
}

double tri__layer_share(const tri_program *program, const tri_instr *instr) {
    if (!instr->layer) return 1;
    double keep = program->layer[(instr->layer > 0 ? instr->layer : -instr->layer) - 1].keep;
    return instr->layer > 0 ? keep : 1 - keep;
}

double tri__instr_share(const tri_program *program, const tri_instr *instr) {
    double share = instr->gates ? 0 : 1;
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++)
        if (instr->gates >> gate & 1) share += program->share[gate];
    return share * tri__layer_share(program, instr);
}

tri_cost tri__program_cost(const tri_program *program) {
    tri_cost cost = {0};
    for (int i = 0; i < program->n_instrs; i++) {
        tri_cost one = tri__instr_cost(program, &program->instr[i], &program->max);
        double share = tri__instr_share(program, &program->instr[i]);
        cost.flops += share * one.flops, cost.bytes += share * one.bytes;
    }
    return cost;
}
