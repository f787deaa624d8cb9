/* passes.c - the table of passes (passes.def), when a plan needs which of them, and how they run. */
#include "plan/least.h"
#include "plan/local.h"

#include <string.h>

static int is_training(const tri_pass *pass) { return pass->training; }
static int shares_layers(const tri_pass *pass) { return pass->in->mesh.tp > 1; }
static int shares_tokens(const tri_pass *pass) { return tri__mesh_cp(&pass->in->mesh) > 1; }
static int shares_experts(const tri_pass *pass) { return tri__mesh_ep(&pass->in->mesh) > 1; }
static int has_ring(const tri_pass *pass) { return tri__plan_ring(pass->in) > 0; }
static int shares_any(const tri_pass *pass) {
    return shares_layers(pass) || shares_tokens(pass) || shares_experts(pass);
}
static int collects(const tri_pass *pass) {
    return !pass->training && (pass->in->mesh.pp > 1 || tri__mesh_readers(&pass->in->mesh) > 1);
}
static int is_fed(const tri_pass *pass) {
    return !pass->training && pass->in->fed && pass->in->mesh.pp * pass->in->mesh.tp * pass->in->mesh.dp > 1;
}
static int sums_layers(const tri_pass *pass) { return pass->training && shares_layers(pass); }

static int keeps_masks(const tri_pass *pass) {
    const tri_target *target = pass->in->target;
    return pass->training && target->mask_tokens > 0 && pass->in->precision != TRI_F32 &&
           tri__target_has(target, TRI_OP_attention_bits, &(tri_attr){0}, pass->in->precision);
}

static int recomputes(const tri_pass *pass) {
    return pass->training && pass->in->recompute != TRI_RECOMPUTE_NONE;
}

static int drops_layers(const tri_pass *pass) { return pass->training && pass->in->layer_drop.theta > 0; }

static int has_lanes(const tri_pass *pass) { return tri__plan_lanes(pass->in); }

static int compresses(const tri_pass *pass) {
    const tri_compression *how = &pass->in->compression;
    return pass->in->mesh.dp > 1 &&
           ((pass->training && how->gradients != TRI_CODE_NONE) || how->weights != TRI_CODE_NONE);
}

static int quantizes(const tri_pass *pass) { return pass->in->quantize != TRI_F32; }
static int trains_fp8(const tri_pass *pass) { return pass->in->fp8 && pass->training; }
static int copies_ahead(const tri_pass *pass) { return pass->in->offload && pass->in->target->ahead; }

static const char LANES_NEED[] = "two texts on a device with two queues, --pp-size 1, not --recompute full";

const tri_pass_row tri__passes[] = {
#define TRI_PASS(name_, scope_, does_, ...) \
    {.name = #name_, .run = tri__pass_##name_, .scope = TRI_SCOPE_##scope_, .does = does_, __VA_ARGS__},
#include "plan/passes.def"
#undef TRI_PASS
    {.name = NULL},
};

const tri_pass_row *tri__pass_find(const char *name) {
    for (const tri_pass_row *row = tri__passes; row->name; row++)
        if (strcmp(row->name, name) == 0) return row;
    return NULL;
}

tri_status tri__passes_run(tri_pass *pass, tri_scope scope, const tri_pass_row *last) {
    for (const tri_pass_row *row = tri__passes; row->name; row++) {
        if (row->scope == scope && (!row->when || row->when(pass))) TRI_TRY(row->run(pass));
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
