/* passes.c - the table of passes (passes.def), and how they run. */
#include "plan/least.h"
#include "plan/optimizer.h"

static const char LANES_NEED[] = "two texts on a device with two queues, --pp-size 1, not --recompute full";

/* Whether a plan needs a pass. */
#define TRI_PASS(name, scope, does, when, ...)          \
    static int is_needed_##name(const tri_pass *pass) { \
        const tri_plan_in *in = pass->in;               \
        const tri_mesh *mesh = &in->mesh;               \
        return (void)mesh, (when);                      \
    }
#include "plan/passes.def"

const tri_pass_row tri__passes[] = {
#define TRI_PASS(name_, scope_, does_, when_, needs_, ...)                             \
    {.name = #name_, .run = tri__pass_##name_, .scope = TRI_SCOPE_##scope_, .does = does_, \
     .when = is_needed_##name_, .needs = needs_, __VA_ARGS__},
#include "plan/passes.def"
    {.name = NULL},
};

const tri_pass_row *tri__pass_find(const char *name) {
    for (const tri_pass_row *row = tri__passes; row->name; row++)
        if (strcmp(row->name, name) == 0) return row;
    return NULL;
}

tri_status tri__passes_run(tri_pass *pass, tri_scope scope, const tri_pass_row *last) {
    for (const tri_pass_row *row = tri__passes; row->name; row++) {
        if (row->scope == scope && row->when(pass)) TRI_TRY(row->run(pass));
        if (row == last) break;
    }
    return TRI_OK;
}

void tri__plan_least(const tri_plan_in *in, double elements, double kept, tri_least *out) {
    *out = (tri_least){.elements = elements, .kept = kept,
                       .trained = (double)tri__model_trained(in->model) / (double)in->model->n_elements};
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) out->among[mem] = 1;
    for (const tri_pass_row *row = tri__passes; row->name; row++)
        if (row->least) row->least(in, out);
}
