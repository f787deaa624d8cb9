/* coded_report.c - says what of a run's transfers between replicas is coded, and how many are too small for it; which
 * dense layers FP8 training takes, and which it leaves in bf16. */
#include "engine/coded_report.h"

#include "plan/step_kinds.h"

/* Transfers of a step, of one replica's ranks. */
typedef struct counted {
    int sums, full_sums, gathers, full_gathers;
} counted;

static int holds_gradients(const tri_program *p, int slot) {
    return p->slot[slot].mem == TRI_MEM_GRAD || p->slot[slot].mem == TRI_MEM_COMM;
}

/* A sum of gradients over replicas as it would be without coding; not those within a machine that stay so. */
static int is_full_sum(const tri_plan_in *in, const tri_program *p, const tri_instr *instr) {
    if (instr->op != TRI_OP_all_reduce_post && instr->op != TRI_OP_reduce_scatter_post) return 0;
    if (in->compression.within > 1 && instr->attr.within) return 0;
    return instr->attr.axes == TRI_AXIS_SET(TRI_AXIS_DP) && holds_gradients(p, tri__transfer_whole(instr));
}

static void count(const tri_plan_in *in, const tri_program *p, counted *n) {
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        const tri_op_row *row = tri__instr_row(instr);
        int sums = row->decodes && row->arg[0].access == TRI_ACCESS_A, decodes = row->decodes && !sums;
        int gathers = instr->op == TRI_OP_all_gather_post;
        n->sums += sums, n->full_sums += is_full_sum(in, p, instr);
        if ((!decodes && !gathers) || p->slot[instr->slot[0]].mem != TRI_MEM_GATHER) continue;
        n->gathers += decodes, n->full_gathers += gathers;
    }
}

static void say(const tri_log *log, const char *what, tri_code code, int coded, int full) {
    char rest[160] = "";
    if (full)
        snprintf(rest, sizeof rest, "; %d with fewer than %d numbers for each replica %s in full", full,
                 TRI_CODE_BLOCK, full == 1 ? "is" : "are");
    tri__say(log, TRI_LOG_INFO, "%s travel between replicas as %s: %d transfer%s of a step%s", what,
             tri__code_name(code), coded, coded == 1 ? "" : "s", rest);
}

/* Momentum is made of gradients that were not summed, so shards of their sum save nothing after the full steps. */
static void say_whole_gradients(const tri_plan_in *in, const tri_log *log) {
    tri_shard_kind kind = in->sharding.kind;
    if (!tri__is_onebit(in->optimizer.kind) || in->mesh.dp == 1) return;
    if (kind != TRI_SHARD_ZERO2 && kind != TRI_SHARD_ZERO3) return;
    tri__say(log, TRI_LOG_INFO, "--shard %s: this optimizer keeps each replica's gradients whole, as zero1 does: "
             "momentum is made of them before anything is summed", kind == TRI_SHARD_ZERO2 ? "zero2" : "zero3");
}

static void say_local_steps(const tri_plan_in *in, const tri_log *log) {
    const tri_optimizing *how = &in->optimizer;
    if (how->sync_every <= 1 || in->mesh.dp == 1) return;
    tri__say(log, TRI_LOG_INFO, "--sync-every %lld: copies take local steps at %.3g times the learning rate "
             "(--inner-lr-factor)%s, and synchronise in a step of %.3g times their mean change (--outer-lr) with a "
             "momentum of %.3g (--outer-momentum)", (long long)how->sync_every, how->inner_lr_factor,
             in->max_grad_norm > 0 ? ", clip at sqrt(copies) times --max-grad-norm" : "", how->outer_lr,
             how->outer_momentum);
}

/* 0/1 Adam: shards of all replicas are one copy. */
static void say_together(const tri_plan_in *in, const tri_log *log) {
    if (in->optimizer.kind != TRI_ZERO_ONE_ADAM || in->mesh.dp == 1 || in->optimizer.local_step_clipper > 1) return;
    if (in->sharding.kind == TRI_SHARD_NONE) return;
    if (in->sharding.kind == TRI_SHARD_HYBRID && in->sharding.size < in->mesh.dp) return;
    tri__say(log, TRI_LOG_INFO, "zero-one-adam: all replicas share one copy of the model, so none takes local steps: "
             "every step exchanges, as with --local-step-clipper 1");
}

void tri__coding_say(const tri_plan_in *in, const tri_classes *train, const tri_log *log) {
    const tri_compression *how = &in->compression;
    counted n = {0};
    if (in->sharding.kind != TRI_SHARD_NONE && in->mesh.dp == 1)
        tri__say(log, TRI_LOG_WARN, "--shard: there is one replica, so nothing is sharded");
    say_whole_gradients(in, log);
    say_local_steps(in, log);
    say_together(in, log);
    if (how->gradients == TRI_CODE_NONE && how->weights == TRI_CODE_NONE) return;
    if (in->mesh.dp == 1)
        tri__say(log, TRI_LOG_WARN, "--compress-%s: there is one replica, so nothing travels",
                 how->gradients != TRI_CODE_NONE ? "gradients" : "weights");
    if (in->mesh.dp == 1 || in->optimizer.sync_every > 1) return; /* local steps: pass_local.c */
    for (int i = 0; i < train->n; i++)
        if (train->at[i].begin == 0) count(in, train->at[i].program, &n);
    if (how->gradients != TRI_CODE_NONE) say(log, "gradients", how->gradients, n.sums, n.full_sums);
    if (how->weights != TRI_CODE_NONE) say(log, "gathered weights", how->weights, n.gathers, n.full_gathers);
}

void tri__products_say(const tri_plan_in *in, const tri_device *device, const tri_log *log) {
    int all = 0, taken = 0, ragged = 0;
    const char *first = NULL;
    char rest[300] = "";
    if (!in->fp8) return;
    for (int i = 0; i < in->model->n_params; i++) {
        const tri_param *param = &in->model->param[i];
        tri_fp8_weight weight = tri__fp8_weight(in->model, in->mesh.tp, param);
        all += weight != TRI_FP8_NONE, taken += weight == TRI_FP8_TAKEN && !tri__is_exempt(in, param->name);
        ragged += weight == TRI_FP8_RAGGED;
        if (weight == TRI_FP8_RAGGED && !first) first = param->name;
    }
    if (first)
        snprintf(rest, sizeof rest, ", and so do %d weights of which a dim, or a rank's share of it, is not a multiple "
                 "of 16: %s%s", ragged, first, ragged > 1 ? ", ..." : "");
    tri__say(log, TRI_LOG_INFO, "fp8: %d of the %d weights in the encoders' layers are multiplied in 8 bits; the first "
             "and the last layer of each encoder stay in bf16%s", taken, all, rest);
    if (device && !device->async && !device->is_stub)
        tri__say(log, TRI_LOG_INFO,
                 "fp8 on --device %s is an emulation: it rounds as a GPU does and is slower than bf16", device->name);
}
