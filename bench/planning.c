/* planning.c - how long planning takes: one rank of a model with two 12-layer encoders, and 1,024 ranks, planned and checked, for several
 * meshes. Prints one JSON object a line; exits with 1 when a target is missed. Times are of this process alone, whatever else runs. */
#include "device/device.h"
#include "plan/plan.h"
#include "program/check.h"

#include <stdio.h>
#include <time.h>

enum { WORLD = 1024 };
static const double one_target = 0.050, all_target = 5; /* seconds */

typedef struct job {
    const char *name;
    tri_mesh mesh;
    int n_mb;
    tri_sharding sharding;
} job;

static const job jobs[] = {
    {"ddp", {.pp = 1, .tp = 1, .dp = WORLD}, 1, {.kind = TRI_SHARD_NONE}},
    {"zero1", {.pp = 1, .tp = 1, .dp = WORLD}, 1, {.kind = TRI_SHARD_ZERO1}},
    {"zero3", {.pp = 1, .tp = 1, .dp = WORLD}, 1, {.kind = TRI_SHARD_ZERO3, .prefetch = 1}},
    {"pp 4 x tp 2", {.pp = 4, .tp = 2, .dp = WORLD / 8}, 8, {.kind = TRI_SHARD_NONE}},
    {"pp 8 x tp 4, zero1", {.pp = 8, .tp = 4, .dp = WORLD / 32}, 16, {.kind = TRI_SHARD_ZERO1}},
};

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void make_model(tri_arena *arena, tri_model *model) {
    static const tri_model_config config = {.label_name = "label", .primary_text_name = "a", .secondary_text_name = "b",
                                            .hidden_common_dim = 256, .fusion_hidden_dim = 256, .num_classes = 2, .max_sen_len = 512};
    tri_encoder encoder[2];
    TRI_ASSERT(tri__encoder_preset("bert-base-uncased", &encoder[0]));
    encoder[1] = encoder[0];
    tri__model_make(arena, &config, encoder, 3, (tri_texts){0}, model);
}

/* Seconds to plan one rank, to plan all, to check them. */
static tri_status measure(tri_arena *arena, const tri_plan_in *in, double seconds[3]) {
    tri_plan plan;
    const tri_program *train[WORLD], *infer[WORLD];
    double start = cpu();
    TRI_TRY(tri__plan(arena, in, 1, &plan));
    double one = cpu();
    TRI_TRY(tri__plan_programs(arena, in, train, infer));
    double all = cpu();
    TRI_TRY(tri__check(train, WORLD));
    TRI_TRY(tri__check(infer, WORLD));
    seconds[0] = one - start, seconds[1] = all - one, seconds[2] = cpu() - all;
    return TRI_OK;
}

static tri_status run(const job *job, int *missed) {
    tri_arena arena;
    tri_model model;
    tri_target target;
    double seconds[3];
    TRI_TRY(tri__arena_open(&arena, TRI_PLAN_ARENA));
    make_model(&arena, &model);
    tri__device_target(tri__device_find("cpu"), &target);
    const tri_counts max = {.of = {0, 4096, 4096, 8}, .squares = {0, 4096. * 512, 4096. * 512}};
    const tri_plan_in in = {.model = &model, .mesh = job->mesh, .n_mb = job->n_mb, .max = max, .max_infer = max, .target = &target,
                            .sharding = job->sharding, .staging = {.schedule = TRI_SCHEDULE_1F1B, .shape = TRI_SHAPE_BRANCH},
                            .sequence_parallel = job->mesh.tp > 1, .max_grad_norm = 1};
    tri_status status = measure(&arena, &in, seconds);
    if (status == TRI_OK) {
        printf("{\"mesh\": \"%s\", \"ranks\": %d, \"microbatches\": %d, \"one_rank_seconds\": %.4f, \"plan_seconds\": %.3f, "
               "\"check_seconds\": %.3f, \"bytes\": %zu}\n", job->name, WORLD, job->n_mb, seconds[0], seconds[1], seconds[2], arena.used);
        *missed |= seconds[0] > one_target || seconds[1] + seconds[2] > all_target;
    }
    tri__arena_close(&arena);
    return status;
}

int main(void) {
    int missed = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        if (run(&jobs[i], &missed) != TRI_OK) {
            fprintf(stderr, "planning: %s\n", tri_error());
            return 1;
        }
    return missed;
}
