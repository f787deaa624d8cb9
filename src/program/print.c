/* print.c - a program as text, one line a slot and a line an instruction:
 *
 *   14 linear    qkv.1#0[T0,192] <- ln.1#0[T0,64] p.layer.1.qkv.w p.layer.1.qkv.b  mb 0  layer.1
 *
 * An operand that is added to has + in front; an omitted one is _. Attributes, lanes and memory classes that are 0 are
 * not printed, nor are offsets and class sizes before the memory pass, nor the default order of the mesh's axes.
 * `gates=full+turn` before the microbatch: runs only in steps of these kinds, whose shares of all steps the header has
 * (`kinds full=0.2 ...`). `when=primary.layer.3`: runs only in steps in which the gate of this layer is open;
 * `unless=`: only where it is closed; the header has each layer's share of steps in which it is open (`layer
 * primary.layer.3 keep=0.8`). `lane 1` and `after 12` at the end: runs on lane 1, after instruction 12 (of the other
 * lane) is done. A file may hold several programs: each begins with its line `program`. */
#include "program/attr.h"
#include "program/text.h"

const char *tri__slot_size(const tri_slot *slot, char text[static TRI_SIZE_TEXT]) {
    const tri_rows *rows = &slot->rows;
    char mul[16] = "", div[16] = "", add[32] = "";
    if (rows->mul) snprintf(mul, sizeof mul, "*%d", rows->mul);
    if (rows->div) snprintf(div, sizeof div, "/%d", rows->div);
    if (!rows->sym || rows->add) snprintf(add, sizeof add, "%s%lld", rows->sym ? "+" : "", (long long)rows->add);
    snprintf(text, TRI_SIZE_TEXT, "[%s%s%s%s,%lld]", tri__sym_name(rows->sym), mul, div, add, (long long)slot->cols);
    return text;
}

static void print_slot(FILE *out, const tri_program *program, const tri_slot *slot) {
    char size[TRI_SIZE_TEXT];
    tri__slot_size(slot, size);
    if (slot->parent >= 0) {
        fprintf(out, "view %s of %s +%lld %s\n", slot->name, program->slot[slot->parent].name,
                (long long)slot->parent_at, size);
        return;
    }
    fprintf(out, "slot %s %s %s %s", slot->name, tri__mem_name(slot->mem), tri__dtype_name(slot->dtype), size);
    if (slot->offset >= 0) fprintf(out, " @%lld", (long long)slot->offset);
    if (slot->unit >= 0) fprintf(out, " %s", program->unit[slot->unit]);
    fputc('\n', out);
}

static const char *axis_name(int axis) { return tri__axis_name((tri_axis)axis); }
static const char *gate_name(int gate) { return tri__gate_name((tri_gate)gate); }

/* " axes=pp+dp": a set of bits by their names; nothing where it is empty. */
static void print_set(FILE *out, const char *name, uint32_t set, const char *(*name_of)(int bit)) {
    const char *before = "=";
    if (set) fprintf(out, " %s", name);
    for (int bit = 0; set >> bit; bit++) {
        if (!(set >> bit & 1)) continue;
        fprintf(out, "%s%s", before, name_of(bit));
        before = "+";
    }
}

static void print_layer(FILE *out, const tri_program *program, int layer) {
    if (layer) fprintf(out, " %s=%s", layer > 0 ? "when" : "unless", program->layer[abs(layer) - 1].name);
}

static void print_attr(FILE *out, const tri_attr *attr) {
    for (int i = 0; i < TRI_ATTR_ROWS; i++) {
        const tri_attr_row *row = &tri__attr_rows[i];
        const char *at = (const char *)attr + row->offset;
        switch (row->kind) {
        case TRI_ATTR_REAL:
            if (*(const float *)at != 0) fprintf(out, " %s=%.9g", row->name, (double)*(const float *)at);
            break;
        case TRI_ATTR_INT:
            if (*(const int32_t *)at) fprintf(out, " %s=%d", row->name, *(const int32_t *)at);
            break;
        case TRI_ATTR_ID:
            if (*(const uint32_t *)at) fprintf(out, " %s=%u", row->name, *(const uint32_t *)at);
            break;
        case TRI_ATTR_AXES:
            print_set(out, row->name, *(const uint32_t *)at, axis_name);
            break;
        }
    }
}

static void print_instr(FILE *out, const tri_program *program, const tri_instr *instr, int line) {
    const tri_op_row *row = tri__instr_row(instr);
    char size[TRI_SIZE_TEXT];
    int outputs = 1;
    fprintf(out, "%d %-20s", line, row->name);
    for (int k = 0; k < row->n_args; k++) {
        if (!row->arg[k].access) continue;
        if (outputs && !tri__access_writes(row->arg[k].access)) {
            fputs(" <-", out);
            outputs = 0;
        }
        if (instr->slot[k] < 0) {
            fputs(" _", out);
            continue;
        }
        const tri_slot *slot = &program->slot[instr->slot[k]];
        fprintf(out, " %s%s", instr->acc >> k & 1 ? "+" : "", slot->name);
        if (slot->rows.sym != TRI_SYM_NONE) fputs(tri__slot_size(slot, size), out);
    }
    print_attr(out, &instr->attr);
    print_set(out, "gates", instr->gates, gate_name);
    print_layer(out, program, instr->layer);
    if (instr->mb >= 0) fprintf(out, "  mb %d", instr->mb);
    if (instr->unit >= 0) fprintf(out, "  %s", program->unit[instr->unit]);
    if (instr->lane) fprintf(out, "  lane %d", instr->lane);
    if (instr->await >= 0) fprintf(out, "  after %d", instr->await);
    fputc('\n', out);
}

/* The order of the axes, where it is not the default. */
static void print_mesh(FILE *out, const tri_program *program) {
    const tri_mesh *mesh = &program->mesh, plain = {.pp = mesh->pp, .tp = mesh->tp, .dp = mesh->dp};
    char order[TRI_MESH_ORDER_TEXT], usual[TRI_MESH_ORDER_TEXT];
    fprintf(out, "mesh pp=%d tp=%d dp=%d rank=%d microbatches=%d", mesh->pp, mesh->tp, tri__mesh_readers(mesh),
            program->rank, program->n_mb);
    if (mesh->cp > 1) fprintf(out, " cp=%d", mesh->cp);
    if (mesh->ep > 1) fprintf(out, " ep=%d", mesh->ep);
    if (strcmp(tri__mesh_order(mesh, order), tri__mesh_order(&plain, usual)) != 0) fprintf(out, " order=%s", order);
    fputc('\n', out);
}

/* Prints nothing where all steps are the same. */
static void print_kinds(FILE *out, const tri_program *program) {
    if (program->gates) fputs("kinds", out);
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++)
        if (program->gates >> gate & 1)
            fprintf(out, " %s=%.17g", tri__gate_name((tri_gate)gate), program->share[gate]);
    if (program->gates) fputc('\n', out);
}

/* Prints nothing before the memory pass. */
static void print_bytes(FILE *out, const tri_program *program) {
    int64_t peak = tri__program_bytes(program);
    if (peak) fputs("bytes", out);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (program->bytes[mem]) fprintf(out, " %s=%lld", tri__mem_name((tri_mem)mem), (long long)program->bytes[mem]);
    if (peak) fputc('\n', out);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (program->offload >> mem & 1) fprintf(out, "offload %s\n", tri__mem_name((tri_mem)mem));
    if (peak) fprintf(out, "# peak %lld B\n", (long long)peak);
}

void tri__program_print(const tri_program *program, FILE *out) {
    const tri_counts *max = &program->max;
    fprintf(out, "program %s\n", program->title);
    print_mesh(out, program);
    fprintf(out, "max T0=%lld T1=%lld N=%lld Q0=%.17g Q1=%.17g", (long long)max->of[TRI_SYM_T0],
            (long long)max->of[TRI_SYM_T1], (long long)max->of[TRI_SYM_N], max->squares[TRI_SYM_T0],
            max->squares[TRI_SYM_T1]);
    if (max->of[TRI_SYM_W0])
        fprintf(out, " W0=%lld W1=%lld", (long long)max->of[TRI_SYM_W0], (long long)max->of[TRI_SYM_W1]);
    if (max->of[TRI_SYM_X0] || max->of[TRI_SYM_X1])
        fprintf(out, " X0=%lld X1=%lld", (long long)max->of[TRI_SYM_X0], (long long)max->of[TRI_SYM_X1]);
    fputc('\n', out);
    print_kinds(out, program);
    for (int k = 0; k < program->n_layers; k++)
        fprintf(out, "layer %s keep=%.17g\n", program->layer[k].name, program->layer[k].keep);
    print_bytes(out, program);
    for (int i = 0; i < program->n_units; i++) fprintf(out, "unit %s\n", program->unit[i]);
    for (int i = 0; i < program->n_slots; i++) print_slot(out, program, &program->slot[i]);
    for (int i = 0; i < program->n_instrs; i++) print_instr(out, program, &program->instr[i], i);
}

tri_status tri__program_text(const tri_program *program, char **text) {
    size_t size;
    FILE *out = open_memstream(text, &size);
    if (!out) return tri__fail(TRI_RESOURCE, "out of memory for a program's text");
    tri__program_print(program, out);
    int failed = ferror(out);
    if (fclose(out) == 0 && !failed && *text)
        return TRI_OK; /* when memory runs out, a memory stream closes without error but has no text */
    free(*text);
    *text = NULL;
    return tri__fail(TRI_RESOURCE, "out of memory for a program's text");
}
