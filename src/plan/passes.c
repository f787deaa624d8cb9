/* passes.c - the passes, in the order in which they run: from the model's list of operations to one rank's program of a
 * step. A new pass is a file of this folder and a row here.
 *
 * Stages are cut before the first pass, since several passes need their number (pipeline/stage.c). Operations of tensor
 * parallelism stay in the template until `tensor_lower`, so that they have adjoints and fuse like others. */
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

#define LANES_NEED "two texts on a device with two queues, --pp-size 1, not --recompute full"
#define PASS(word, where) .name = #word, .run = tri__pass_##word, .scope = TRI_SCOPE_##where

const tri_pass_row tri__passes[] = {
    {PASS(forward, TENSOR), .does = "the model writes its operations: one microbatch, one device"},
    {PASS(context, TENSOR),
     .does = "splits the tokens of each text over ranks, which exchange heads or keys for attention",
     .when = shares_tokens, .needs = "--cp-size above 1"},
    {PASS(expert, TENSOR), .does = "splits the experts of layers over ranks, which exchange the rows for them",
     .when = shares_experts, .needs = "--ep-size above 1"},
    {PASS(tensor, TENSOR), .does = "splits operations over ranks that share layers, as operations that have adjoints",
     .when = shares_layers, .needs = "--tp-size above 1"},
    {PASS(masks, TENSOR), .does = "keeps dropout's decisions in attention as bits, for its gradient",
     .when = keeps_masks, .needs = "training in 16 bits on a device that reads them faster than it draws them"},
    {PASS(backward, TENSOR),
     .does = "adds the adjoint of each operation; gradients of inputs and of weights are separate", .when = is_training,
     .needs = "training"},
    {PASS(recompute, TENSOR), .does = "drops activations, and repeats the operations that rebuild them",
     .when = recomputes, .needs = "--recompute"},
    {PASS(fuse, TENSOR), .does = "replaces runs of operations by fused ones that the device has"},
    {PASS(prune, TENSOR), .does = "leaves out optional outputs that nothing reads"},
    {PASS(ring, TENSOR),
     .does = "puts parts of attention, between transfers of keys and values round a ring, in the place of attention",
     .when = has_ring, .needs = "--cp-mode ring"},
    {PASS(tensor_lower, TENSOR),
     .does = "turns operations between ranks that share layers, tokens or experts into transfers, posted early, waited "
             "for late",
     .when = shares_any, .needs = "--tp-size, --cp-size or --ep-size above 1"},
    {PASS(turns, TENSOR), .does = "interleaves the two encoders, unit by unit", .when = has_lanes, .needs = LANES_NEED},
    {PASS(schedule, STAGE),
     .does = "unrolls all microbatches of this rank's stages in the schedule's order; sends and receives"},
    {PASS(collect, STAGE), .does = "prediction: brings the probabilities of all replicas to every rank",
     .when = collects, .needs = "prediction with --pp-size or --dp-size above 1"},
    {PASS(context_place, REPLICA), .does = "this rank's runs of tokens, and its heads or its neighbours",
     .when = shares_tokens, .needs = "--cp-size above 1"},
    {PASS(shard, REPLICA), .does = "data parallelism: sums of gradients, gathers of sharded weights",
     .least = tri__least_shard},
    {PASS(compress, REPLICA), .does = "gradients and gathered weights travel between replicas in fewer bits",
     .when = compresses, .needs = "--compress-gradients or --compress-weights, with --dp-size above 1",
     .least = tri__least_compress},
    {PASS(tensor_sums, REPLICA), .does = "sums gradients that ranks of a layer form from their own tokens",
     .when = sums_layers, .needs = "training with --tp-size above 1"},
    {PASS(layers, REPLICA), .does = "gradients of layers that a step leaves out are 0", .when = drops_layers,
     .needs = "training with --layer-drop"},
    {PASS(update, REPLICA),
     .does = "norm and clipping of gradients, the optimizer on what this rank owns, the control all-reduce",
     .when = is_training, .needs = "training", .least = tri__least_update},
    {PASS(local, REPLICA), .does = "copies that step alone: their own gradients, and meetings",
     .when = tri__steps_alone, .needs = "--sync-every above 1"},
    {PASS(precision, REPLICA), .does = "gives slots their element types; casts, master weights, the loss scale",
     .least = tri__least_precision},
    {PASS(quantize, REPLICA), .does = "puts products of 8-bit factors in the place of the encoders' dense layers",
     .when = quantizes, .needs = "--quantize"},
    {PASS(fp8, REPLICA), .does = "training: products of 8-bit factors with a scale each, and what scales are made from",
     .when = trains_fp8, .needs = "training with --precision fp8"},
    {PASS(feed, REPLICA), .does = "a server: inputs come from rank 0, which tells the others how many", .when = is_fed,
     .needs = "prediction by the ranks of a server"},
    {PASS(offload, REPLICA), .does = "copies between the device's memory and the offload memory, ahead of use",
     .when = copies_ahead, .needs = "--offload on a device that copies", .least = tri__least_offload},
    {PASS(lanes, REPLICA),
     .does = "gives the encoders a queue of kernels each, and the waits for data dependencies between them",
     .when = has_lanes, .needs = LANES_NEED},
    {PASS(memory, REPLICA), .does = "finds each slot's lifetime and gives it its offset"},
    {PASS(waits, REPLICA), .does = "adds waits between queues for memory that both use in turn", .when = has_lanes,
     .needs = LANES_NEED},
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
