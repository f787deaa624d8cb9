/* planning.c - how long planning takes: one rank of a model with two 12-layer encoders, and all ranks, planned and
 * checked, for several meshes of 1,024 and 16,384 ranks. Prints one JSON object per line; exit 1 if a target is missed.
 * Times are CPU times of this process; memory is that of the programs. */
#include "device/device.h"
#include "plan/plan.h"
#include "program/check.h"

#include <stdio.h>
#include <time.h>

static const double one_target = 0.050; /* seconds */
static const size_t bytes_target = (size_t)300 << 20;
static const int worlds[] = {1024, 16384};
enum { WORLDS = sizeof worlds / sizeof *worlds };

typedef struct job {
    const char *name;
    int pp, tp, n_mb;
    tri_sharding sharding;
    double target[WORLDS]; /* seconds, to plan and check all ranks */
} job;

static const job jobs[] = {
    {"ddp", 1, 1, 1, {.kind = TRI_SHARD_NONE}, {0.5, 2}},
    {"zero1", 1, 1, 1, {.kind = TRI_SHARD_ZERO1}, {0.5, 2}},
    {"zero3", 1, 1, 1, {.kind = TRI_SHARD_ZERO3, .prefetch = 1}, {0.5, 2}},
    {"hybrid of 8", 1, 1, 1, {.kind = TRI_SHARD_HYBRID, .size = 8, .prefetch = 1}, {0.5, 2}},
    {"pp 4 x tp 2", 4, 2, 8, {.kind = TRI_SHARD_NONE}, {0.5, 2}},
    {"pp 8 x tp 4, zero1", 8, 4, 16, {.kind = TRI_SHARD_ZERO1}, {1, 2}},
};

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void make_model(tri_arena *arena, tri_network *model) {
    static const tri_model_config config = {.label_name = "label",
                                            .primary_text_name = "a",
                                            .secondary_text_name = "b",
                                            .hidden_common_dim = 256,
                                            .fusion_hidden_dim = 256,
                                            .num_classes = 2,
                                            .max_sen_len = 512};
    static char *no_decay[] = {"bias", "LayerNorm.weight", "norm.weight"};
    tri_encoder encoder[2];
    TRI_ASSERT(tri__encoder_preset("bert-base-uncased", &encoder[0]));
    encoder[1] = encoder[0];
    tri__model_make(arena, &config, encoder, (tri_columns){.n = 3}, (tri_texts){no_decay, 3}, model);
}

/* Measurements of one mesh. */
typedef struct figures {
    double one, plan, check; /* seconds: one rank, all, and their check */
    int classes;             /* of training programs */
} figures;

static tri_status measure(tri_arena *arena, const tri_plan_in *in, figures *out) {
    tri_rank_plan plan;
    tri_classes classes[TRI_PROGRAMS];
    double start = cpu();
    TRI_TRY(tri__plan(arena, in, 1, &plan));
    double one = cpu();
    TRI_TRY(tri__plan_ranks(arena, in, 1, classes));
    double all = cpu();
    for (int i = 0; i < TRI_PROGRAMS; i++) TRI_TRY(tri__check_all(&classes[i]));
    *out = (figures){one - start, all - one, cpu() - all, classes[TRI_TRAIN].n};
    return TRI_OK;
}

static tri_status run(const job *job, int world, int *missed) {
    tri_arena arena;
    tri_network model;
    tri_target target;
    figures got;
    int ranks = worlds[world];
    TRI_TRY(tri__arena_open(&arena, TRI_PLAN_ARENA));
    make_model(&arena, &model);
    tri__device_target(tri__device_find("cpu"), &target);
    const tri_counts max = {.of = {0, 4096, 4096, 8}, .squares = {0, 4096. * 512, 4096. * 512}};
    const tri_plan_in in = {.model = &model,
                            .mesh = {.pp = job->pp, .tp = job->tp, .dp = ranks / job->pp / job->tp},
                            .n_mb = job->n_mb,
                            .max = max,
                            .max_infer = max,
                            .target = &target,
                            .sharding = job->sharding,
                            .staging = {.schedule = TRI_SCHEDULE_1F1B, .shape = TRI_SHAPE_BRANCH},
                            .sequence_parallel = job->tp > 1,
                            .optimizer = {.weight_decay = 0.01, .sync_every = 1},
                            .max_grad_norm = 1};
    tri_status status = measure(&arena, &in, &got);
    if (status == TRI_OK) {
        printf("{\"mesh\": \"%s\", \"ranks\": %d, \"microbatches\": %d, \"classes\": %d, \"one_rank_seconds\": %.4f, "
               "\"plan_seconds\": %.3f, "
               "\"check_seconds\": %.3f, \"bytes\": %zu}\n",
               job->name, ranks, job->n_mb, got.classes, got.one, got.plan, got.check, arena.used);
        *missed |= got.one > one_target || got.plan + got.check > job->target[world] || arena.used > bytes_target;
    }
    tri__arena_close(&arena);
    return status;
}

int main(void) {
    int missed = 0;
    for (int world = 0; world < WORLDS; world++)
        for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
            if (run(&jobs[i], world, &missed) != TRI_OK) {
                fprintf(stderr, "planning: %s\n", tri_error());
                return 1;
            }
    return missed;
}
