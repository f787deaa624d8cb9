/* modules.c - sums by unit and family, and their tree. A unit's name has its branch before the first dot. */
#include "train/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const family_names[TRI_FAMILY_COUNT] = {"attention", "products",    "norms",
                                                           "embedding", "elementwise", "update"};

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

tri_family tri__op_family(tri_op op) {
    const char *name = tri__op_row(op)->name;
    if (tri__op_row(op)->phase == TRI_PHASE_U) return TRI_FAMILY_UPDATE;
    if (begins(name, "attention")) return TRI_FAMILY_ATTENTION;
    if (begins(name, "linear") || begins(name, "bias")) return TRI_FAMILY_PRODUCTS;
    if (begins(name, "norm") || begins(name, "dropout_add_norm")) return TRI_FAMILY_NORMS;
    return begins(name, "embed") ? TRI_FAMILY_EMBEDDING : TRI_FAMILY_ELEMENTWISE;
}

/* The family whose operations use a parameter. */
static tri_family param_family(const char *name) {
    if (strstr(name, "norm") || strstr(name, "Norm")) return TRI_FAMILY_NORMS;
    return strstr(name, "embeddings") ? TRI_FAMILY_EMBEDDING : TRI_FAMILY_PRODUCTS;
}

static int find_unit(const tri_network *model, const char *name) {
    for (int u = 0; u < model->n_units; u++)
        if (strcmp(model->unit[u].name, name) == 0) return u;
    return model->n_units;
}

tri_status tri__modules_open(tri_modules *m, const tri_network *model, const tri_program *program) {
    *m = (tri_modules){.model = model};
    m->time = calloc(((size_t)model->n_units + 1) * TRI_FAMILY_COUNT, sizeof *m->time);
    m->unit_of = calloc((size_t)program->n_units + 1, sizeof *m->unit_of);
    if (!m->time || !m->unit_of) return tri__fail(TRI_RESOURCE, "out of memory");
    m->unit_of[0] = model->n_units;
    for (int u = 0; u < program->n_units; u++) m->unit_of[u + 1] = find_unit(model, program->unit[u]);
    return TRI_OK;
}

void tri__modules_close(tri_modules *m) {
    free(m->time);
    free(m->unit_of);
    *m = (tri_modules){0};
}

void tri__modules_add(tri_modules *m, const tri_instr *instr, double flops, double seconds) {
    int unit = m->unit_of[instr->unit < 0 ? 0 : instr->unit + 1];
    tri_module_time *time = &m->time[unit * TRI_FAMILY_COUNT + (int)tri__op_family(instr->op)];
    time->flops += flops;
    time->seconds += seconds;
}

/* ---- The tree ---- */

typedef struct node {
    int64_t parameters;
    double flops, seconds;
} node;

static void add(node *to, const node *of) {
    to->parameters += of->parameters, to->flops += of->flops, to->seconds += of->seconds;
}

static int is_empty(const node *of) { return !of->parameters && of->flops == 0 && of->seconds == 0; }

static void put(tri_json *list, const char *name, const node *of, tri_json *children) {
    tri_json *one = tri__json_pack("{s:s, s:I, s:f, s:f}", "name", name, "parameters", (tri_json_int)of->parameters,
                                   "flops", of->flops, "seconds", of->seconds);
    if (children) tri__json_set_new(one, "children", children);
    tri__json_append_new(list, one);
}

/* The families of one unit into `list`; returns their sum. parameters: [TRI_FAMILY_COUNT]. */
static node put_families(tri_json *list, const tri_module_time *time, const int64_t *parameters, double n) {
    node sum = {0};
    for (int family = 0; family < TRI_FAMILY_COUNT; family++) {
        node one = {parameters[family], time[family].flops / n, time[family].seconds / n};
        if (is_empty(&one)) continue;
        put(list, family_names[family], &one, NULL);
        add(&sum, &one);
    }
    return sum;
}

/* [(n_units + 1) * TRI_FAMILY_COUNT] elements by unit of the whole model and family; NULL: out of memory. */
static int64_t *count_parameters(const tri_network *model, const tri_network *held) {
    int64_t *count = calloc(((size_t)model->n_units + 1) * TRI_FAMILY_COUNT, sizeof *count);
    for (int i = 0; i < held->n_params && count; i++) {
        const tri_param *param = &held->param[i];
        int unit = held == model ? param->unit : find_unit(model, held->unit[param->unit].name);
        count[unit * TRI_FAMILY_COUNT + (int)param_family(param->name)] += param->count;
    }
    return count;
}

/* Units [first, end) of one branch as a child of the model; a branch that is itself a unit has families at once. */
static void put_branch(tri_json *list, const tri_network *model, int first, int end, const tri_module_time *time,
                       const int64_t *parameters, double n, node *sum) {
    char branch[64];
    const char *name = model->unit[first].name, *dot = strchr(name, '.');
    tri_json *children = tri__json_array();
    node own = {0};
    snprintf(branch, sizeof branch, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
    for (int u = first; u < end; u++) {
        const char *inner = strchr(model->unit[u].name, '.');
        tri_json *families = inner ? tri__json_array() : children;
        node one = put_families(families, &time[u * TRI_FAMILY_COUNT], &parameters[u * TRI_FAMILY_COUNT], n);
        if (inner && is_empty(&one)) tri__json_decref(families);
        else if (inner) put(children, inner + 1, &one, families);
        add(&own, &one);
    }
    if (is_empty(&own)) tri__json_decref(children);
    else put(list, branch, &own, children);
    add(sum, &own);
}

static int same_branch(const char *a, const char *b) {
    size_t n = strcspn(a, ".");
    return n == strcspn(b, ".") && strncmp(a, b, n) == 0;
}

tri_json *tri__modules_json(const tri_network *model, const tri_network *held, const tri_module_time *time, double n) {
    int64_t *parameters = count_parameters(model, held);
    tri_json *branches = parameters ? tri__json_array() : NULL, *step = branches ? tri__json_array() : NULL;
    node all = {0};
    if (!step) {
        free(parameters);
        tri__json_decref(branches);
        return NULL;
    }
    for (int u = 0, end; u < model->n_units; u = end) {
        for (end = u + 1; end < model->n_units && same_branch(model->unit[u].name, model->unit[end].name);) end++;
        put_branch(branches, model, u, end, time, parameters, n, &all);
    }
    int none = model->n_units * TRI_FAMILY_COUNT;
    node rest = put_families(step, &time[none], &parameters[none], n);
    if (is_empty(&rest)) tri__json_decref(step);
    else put(branches, "step", &rest, step);
    add(&all, &rest);
    free(parameters);
    return tri__json_pack("{s:s, s:I, s:f, s:f, s:o}", "name", "model", "parameters", (tri_json_int)all.parameters,
                          "flops", all.flops, "seconds", all.seconds, "children", branches);
}
