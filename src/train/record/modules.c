/* modules.c - sums by unit and family, and their tree. A unit's name has its branch before the first dot. */
#include "train/record/recorder.h"

/* In the order of the tree. */
static const struct family {
    tri_op_family family;
    const char *name;
} families[TRI_OPS_COUNT] = {{TRI_OPS_ATTENTION, "attention"}, {TRI_OPS_PRODUCTS, "products"},
                             {TRI_OPS_NORMS, "norms"},         {TRI_OPS_EMBEDDING, "embedding"},
                             {TRI_OPS_ELEMENTWISE, "elementwise"}, {TRI_OPS_UPDATE, "update"}};

/* The family whose operations use a parameter. */
static tri_op_family param_family(const char *name) {
    if (strstr(name, "norm") || strstr(name, "Norm")) return TRI_OPS_NORMS;
    return strstr(name, "embeddings.") ? TRI_OPS_EMBEDDING : TRI_OPS_PRODUCTS;
}

/* The last one is for operations of no unit. */
static int find_unit(const tri_network *model, const char *name) {
    int unit = tri__model_find_unit(model, name);
    return unit < 0 ? model->n_units : unit;
}

tri_status tri__modules_open(tri_modules *m, const tri_network *model, const tri_program *program) {
    *m = (tri_modules){.model = model};
    TRI_TRY(TRI_NEW(m->time, ((size_t)model->n_units + 1) * TRI_OPS_COUNT, "the times of modules"));
    TRI_TRY(TRI_NEW(m->unit_of, (size_t)program->n_units + 1, "the times of modules"));
    m->unit_of[0] = model->n_units;
    for (int u = 0; u < program->n_units; u++) m->unit_of[u + 1] = find_unit(model, program->unit[u]);
    return TRI_OK;
}

void tri__modules_close(tri_modules *m) {
    TRI_FREE(m->time, m->unit_of);
    *m = (tri_modules){0};
}

void tri__modules_add(tri_modules *m, const tri_instr *instr, double flops, double seconds) {
    int unit = m->unit_of[instr->unit < 0 ? 0 : instr->unit + 1];
    tri_module_time *time = &m->time[unit * TRI_OPS_COUNT + (int)tri__op_family(instr->op)];
    time->flops += flops, time->seconds += seconds;
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

/* What the tree is made of: by unit of the model and family, the last unit for none. */
typedef struct tri_module_sums {
    const tri_network *model;
    const tri_module_time *time;
    int64_t *parameters;
    double n;
    int folded;
} tri_module_sums;

/* The families of units [first, end) together into `list`; returns their sum. */
static node put_families(tri_json *list, const tri_module_sums *of, int first, int end) {
    node sum = {0};
    for (int f = 0; f < TRI_OPS_COUNT; f++) {
        node one = {0};
        int family = families[f].family;
        for (int u = first; u < end; u++) {
            const tri_module_time *time = &of->time[u * TRI_OPS_COUNT + family];
            add(&one, &(node){of->parameters[u * TRI_OPS_COUNT + family], time->flops / of->n, time->seconds / of->n});
        }
        if (is_empty(&one)) continue;
        put(list, families[f].name, &one, NULL);
        add(&sum, &one);
    }
    return sum;
}

/* [(n_units + 1) * TRI_OPS_COUNT] elements by unit of the whole model and family; NULL: out of memory. */
static int64_t *count_parameters(const tri_network *model, const tri_network *held) {
    int64_t *count = calloc(((size_t)model->n_units + 1) * TRI_OPS_COUNT, sizeof *count);
    for (int i = 0; i < held->n_params && count; i++) {
        const tri_param *param = &held->param[i];
        int unit = held == model ? param->unit : find_unit(model, held->unit[param->unit].name);
        count[unit * TRI_OPS_COUNT + (int)param_family(param->name)] += param->count;
    }
    return count;
}

static int is_layer(const tri_network *model, int unit) {
    const char *inner = strchr(model->unit[unit].name, '.');
    return inner && tri__text_begins(inner, ".layer.");
}

/* The end of the units that share a node with unit `first`, at most `end`. */
static int node_end(const tri_module_sums *of, int first, int end) {
    int next = first + 1;
    while (of->folded && is_layer(of->model, first) && next < end && is_layer(of->model, next)) next++;
    return next;
}

/* Units [first, end) of one branch as a child of the model; a branch that is itself a unit has families at once. */
static void put_branch(tri_json *list, const tri_module_sums *of, int first, int end, node *sum) {
    const char *name = of->model->unit[first].name;
    tri_json *children = tri__json_array();
    node own = {0};
    const char *branch = TRI_TEXT(64, "%.*s", (int)strcspn(name, "."), name);
    for (int u = first, next; u < end; u = next) {
        const char *inner = strchr(of->model->unit[u].name, '.');
        tri_json *families = inner ? tri__json_array() : children;
        next = node_end(of, u, end);
        node one = put_families(families, of, u, next);
        if (inner && is_empty(&one)) tri__json_decref(families);
        else if (inner) put(children, of->folded && is_layer(of->model, u) ? "layers" : inner + 1, &one, families);
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

tri_json *tri__modules_json(const tri_network *model, const tri_network *held, const tri_module_time *time, double n,
                            int folded) {
    tri_module_sums of = {model, time, count_parameters(model, held), n, folded};
    tri_json *branches = tri__json_array(), *step = tri__json_array();
    node all = {0};
    for (int u = 0, end; u < model->n_units && of.parameters; u = end) {
        for (end = u + 1; end < model->n_units && same_branch(model->unit[u].name, model->unit[end].name);) end++;
        put_branch(branches, &of, u, end, &all);
    }
    node rest = of.parameters ? put_families(step, &of, model->n_units, model->n_units + 1) : (node){0};
    if (is_empty(&rest)) tri__json_decref(step);
    else put(branches, "step", &rest, step);
    add(&all, &rest);
    if (!of.parameters) tri__json_decref(branches), branches = NULL;
    free(of.parameters);
    return tri__json_pack("{s:s, s:I, s:f, s:f, s:o}", "name", "model", "parameters", (tri_json_int)all.parameters,
                          "flops", all.flops, "seconds", all.seconds, "children", branches);
}
