/* sizes.c - sizes by the letters of an operation's dims. */
#include "sim/sizes.h"

enum { NOT_FOUND = -1 };

static int has_dims(const tri_op_row *row, const char *dims) {
    for (int k = 0; k < row->n_args; k++)
        if (row->arg[k].access && strcmp(row->arg[k].dims, dims) == 0) return 1;
    return 0;
}

/* The gradient of tables: the more words, the more rows are cleared and added to. */
static int is_table_gradient(const tri_op_row *row) {
    return row->phase == TRI_PHASE_W && row->family == TRI_OPS_EMBEDDING;
}

int tri__op_is_product(const tri_op_row *row) { return has_dims(row, "O,I"); }
int tri__op_is_attention(const tri_op_row *row) {
    return tri__row_arg(row, "qkv") != NOT_FOUND || tri__row_arg(row, "dqkv") != NOT_FOUND;
}

static int names_are(const char *name[static TRI_SIZES], const char *const names[static TRI_SIZES]) {
    int n = 0;
    for (; n < TRI_SIZES && names[n]; n++) name[n] = names[n];
    return n;
}

int tri__op_sizes(const tri_op_row *row, const char *name[static TRI_SIZES]) {
    static const char *const products[TRI_SIZES] = {"rows", "out", "in"},
                             *const attention[TRI_SIZES] = {"tokens", "length", "heads", "head_size", "raggedness"},
                             *const tables[TRI_SIZES] = {"rows", "cols", "words"},
                             *const others[TRI_SIZES] = {"rows", "cols"};
    if (tri__op_is_product(row)) return names_are(name, products);
    if (tri__op_is_attention(row)) return names_are(name, attention);
    return names_are(name, is_table_gradient(row) ? tables : others);
}

/* The extent of the first of these letters that the operation has; 1: it has none. */
static double extent(const tri_dims *dims, const char *letters) {
    for (; *letters; letters++)
        if (dims->of[*letters - 'A'] > 0) return dims->of[*letters - 'A'];
    return 1;
}

int tri__instr_sizes(const tri_program *program, const tri_instr *instr, const tri_counts *counts,
                     double size[static TRI_SIZES]) {
    const char *name[TRI_SIZES];
    const tri_op_row *row = tri__instr_row(instr);
    tri_dims dims = {{0}};
    int n = tri__op_sizes(row, name);
    tri__instr_dims(program, instr, counts, &dims); /* it has passed the checker */
    int adds_up = row->decodes && row->arg[0].access == TRI_ACCESS_A; /* M rows of coded numbers */
    double rows = extent(&dims, adds_up ? "M" : "TRN"), cols = extent(&dims, "HOIYCKD");
    if (tri__op_is_product(row)) {
        size[0] = rows, size[1] = extent(&dims, "O"), size[2] = extent(&dims, "I");
    } else if (tri__op_is_attention(row)) {
        double heads = instr->attr.heads > 0 ? instr->attr.heads : 1, squares = dims.of['Q' - 'A'];
        size[0] = rows, size[1] = squares / rows, size[2] = heads, size[3] = cols / heads;
        size[4] = squares / rows * (extent(&dims, "S") - 1) / rows; /* seq has a number more than sequences */
    } else {
        size[0] = rows, size[1] = cols;
        if (is_table_gradient(row)) size[2] = instr->acc & 1 ? 1 : extent(&dims, "V");
    }
    for (int k = 0; k < n; k++) size[k] = fmax(1, size[k]);
    return n;
}

int tri__instr_adds(const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    int e = tri__row_arg(row, "e"); /* optional: what coding lost, where that is fed back */
    return e >= 0 && row->arg[e].optional ? instr->slot[e] >= 0 : instr->acc & 1;
}

tri_code tri__instr_code(const tri_instr *instr) {
    return tri__row_arg(tri__instr_row(instr), "q") == NOT_FOUND ? TRI_CODE_NONE : (tri_code)instr->attr.code;
}

/* The output of y = x w^T is [rows, out], that of a gradient of x [rows, in], of w [out, in]. */
double tri__product_imbalance(const tri_kernel_curve *curve, const double *size) {
    tri_op_phase phase = tri__variant_row(curve->variant)->phase;
    double rows = phase == TRI_PHASE_W ? size[1] : size[0], cols = phase == TRI_PHASE_F ? size[1] : size[2];
    if (curve->threads < 2 || (!curve->tile[0] && !curve->tile[1])) return 1;
    double tiles = (curve->tile[0] ? ceil(rows / curve->tile[0]) : 1) *
                   (curve->tile[1] ? ceil(cols / curve->tile[1]) : 1);
    return ceil(tiles / curve->threads) * curve->threads / tiles;
}
