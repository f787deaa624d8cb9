/* test_local_programs.c - programs of copies of the model that take local steps (--sync-every): what is refused; all
 * ranks' programs fit together on every mesh; a program as text; meetings within and between machines, as they run. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "tests/lib/program_text.h"

#include <math.h>

static void refused(const char *words, int dp, int tp, tri_sharding sharding, tri_code code) {
    tiny t;
    tiny_open(&t, "cpu", 1, 0, 0, 1);
    t.in.mesh = (tri_mesh){.pp = 1, .tp = tp, .dp = dp};
    t.in.sharding = sharding, t.in.optimizer.sync_every = 8, t.in.compression.gradients = code;
    assert_int_equal(tri__plan(&t.arena, &t.in, 1, &t.plan), TRI_USAGE);
    if (!strstr(tri_error(), words)) fail_msg("said: %s", tri_error());
    tiny_close(&t);
}

TEST(refusals) {
    refused("nothing to synchronise", 1, 1, (tri_sharding){0}, TRI_CODE_NONE);
    refused("--shard zero1", 2, 1, (tri_sharding){.kind = TRI_SHARD_ZERO1}, TRI_CODE_NONE);
    refused("--shard zero2", 2, 1, (tri_sharding){.kind = TRI_SHARD_ZERO2}, TRI_CODE_NONE);
    refused("none can take local steps: take --shard none", 3, 1, (tri_sharding){.kind = TRI_SHARD_ZERO3},
            TRI_CODE_NONE);
    assert_null(strstr(tri_error(), "hybrid")); /* there is no run of 3 replicas that could be a copy */
    refused("or --shard hybrid with --shard-size 3", 6, 1, (tri_sharding){.kind = TRI_SHARD_ZERO3}, TRI_CODE_NONE);
    refused("--shard hybrid", 4, 1, (tri_sharding){.kind = TRI_SHARD_HYBRID, .size = 4}, TRI_CODE_NONE);
    refused("take bf16", 2, 2, (tri_sharding){0}, TRI_CODE_INT8);
    refused("256 elements of a block", 64, 1, (tri_sharding){0}, TRI_CODE_INT8);
}

/* Whatever is planned passes the checker in both kinds of steps, planned by classes or rank by rank, and is the same
 * after printing and parsing. */
TEST(every_mesh_passes_the_checker) {
    static const tri_mesh meshes[] = {{.pp = 1, .tp = 1, .dp = 2}, {.pp = 2, .tp = 1, .dp = 3},
                                      {.pp = 1, .tp = 2, .dp = 2}, {.pp = 1, .tp = 1, .dp = 8},
                                      {.pp = 2, .tp = 2, .dp = 4}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int variant = 0; variant < 4; variant++) {
            tiny t;
            tri_classes all[TRI_PROGRAMS];
            int wide = meshes[m].dp >= 4;
            tiny_open(&t, "cpu", 1, 3, 0.1, 2);
            t.in.mesh = meshes[m];
            t.in.optimizer.sync_every = 8, t.in.optimizer.steps = 100;
            t.in.staging = (tri_staging){.schedule = TRI_SCHEDULE_1F1B};
            t.in.sequence_parallel = meshes[m].tp > 1;
            if (variant % 2 && wide) t.in.sharding = (tri_sharding){.kind = TRI_SHARD_HYBRID, .size = 2, .prefetch = 1};
            if (variant > 1) t.in.precision = TRI_BF16;
            if (variant == 2) t.in.compression = (tri_compression){.gradients = TRI_CODE_BF16, .within = wide ? 2 : 0};
            if (variant == 3 && meshes[m].tp == 1)
                t.in.compression = (tri_compression){.gradients = TRI_CODE_INT4, .feedback = 1};
            if (tri__plan_ranks(&t.arena, &t.in, 1, all) != TRI_OK)
                fail_msg("mesh %zu, variant %d: %s", m, variant, tri_error());
            for (int i = 0; i < TRI_PROGRAMS; i++) OK(tri__check_all(&all[i]));
            for (int rank = 0; rank < all[0].world; rank++) {
                tri_rank_plan plan;
                t.in.rank = rank;
                OK(tri__plan(&t.arena, &t.in, 1, &plan));
                assert_true(tri__program_equal(tri__classes_program(&all[0], &t.arena, rank), plan.train.program));
                assert_true(tri__program_equal(tri__classes_program(&all[2], &t.arena, rank), plan.start));
                assert_true(plan.train.program->gates == (TRI_GATE(alone) | TRI_GATE(sync)));
                assert_true(plan.train.program->share[TRI_GATE_sync] == 13.0 / 100);
            }
            tiny_close(&t);
        }
}

/* ---- Machines that have several copies ---- */

enum { NODES_RANKS = 4, NODES_STEPS = 6, NODES_EVERY = 3, UNITS = 16 };

typedef struct nodes {
    int steps;
    tiny rank[NODES_RANKS];
    int n_units;
    int64_t count[UNITS];
    float *anchor[NODES_RANKS][UNITS]; /* [count] */
} nodes;

static tri_status nodes_steps(tiny *t, int steps, tri_exec *exec) {
    double weight = 0, inv;
    for (int k = 0; k < t->feed[0].counts.of[TRI_SYM_N]; k++) weight += t->class_weights[t->labels[0][k]];
    inv = 1 / weight;
    t->feed[0].field[TRI_FIELD_copy_inv] = &inv;
    for (int step = 1; step <= steps; step++) {
        t->hyper[0] = 1e-2f, t->hyper[1] = (float)(1 - pow(0.9, step)), t->hyper[2] = (float)(1 - pow(0.999, step));
        t->feed[0].gates.kind = step % NODES_EVERY ? TRI_GATE(alone) : TRI_GATE(sync);
        TRI_TRY(tri__exec_run(exec, 0, 0, t->program[0]->n_instrs, (uint32_t)step, t->feed, NULL));
    }
    return TRI_OK;
}

static tri_status nodes_main(tri_world *world, void *context) {
    nodes *n = context;
    int rank = tri_world_rank(world);
    tiny *t = &n->rank[rank];
    const tri_planned *train = &t->plan.train;
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = TRI_PROGRAMS,
                                            .seed = 7, .guard = TINY_GUARD, .world = world}, &exec));
    tiny_guards(exec, 1);
    tiny_init(t, exec);
    for (int u = 0; u < n->n_units; u++)
        memcpy(tri__exec_slot(exec, 0, train->shown[u]), tri__exec_slot(exec, 0, train->param[u]),
               (size_t)n->count[u] * sizeof(float));
    tri_status status = tiny_start(t, exec);
    if (status == TRI_OK) status = nodes_steps(t, n->steps, exec);
    for (int u = 0; u < n->n_units; u++) {
        size_t bytes = (size_t)n->count[u] * sizeof(float);
        float *kept = n->anchor[rank][u] = malloc(bytes + 1);
        memcpy(kept, tri__exec_slot(exec, 0, train->shown[u]), bytes);
        if (status == TRI_OK && memcmp(kept, tri__exec_slot(exec, 0, train->param[u]), bytes) != 0)
            status = tri__fail(TRI_INTERNAL, "after a meeting a copy has other weights than the anchor");
    }
    if (status == TRI_OK && !tiny_guards(exec, 0)) status = tri__fail(TRI_INTERNAL, "wrote beyond the plan");
    tri__exec_close(exec);
    return status;
}

static nodes *nodes_run(tri_compression compression, int steps) {
    nodes *n = calloc(1, sizeof *n);
    n->steps = steps;
    for (int r = 0; r < NODES_RANKS; r++) {
        tiny *t = &n->rank[r];
        tiny_open_rank(t, "cpu", 1, 0, 0, 1, &(tiny_rank){.dp = NODES_RANKS, .rank = r});
        t->in.optimizer.sync_every = NODES_EVERY, t->in.optimizer.outer_lr = 0.7, t->in.optimizer.outer_momentum = 0.9;
        t->in.compression = compression;
        tiny_plan(t);
    }
    n->n_units = n->rank[0].plan.model->n_units;
    assert_true(n->n_units <= UNITS);
    for (int u = 0; u < n->n_units; u++) n->count[u] = tri__range_count(n->rank[0].plan.train.param_part[u]);
    OK(tri_ranks_run(&(tri_ranks){.n = NODES_RANKS, .heap_bytes = 8 << 20}, nodes_main, n));
    for (int r = 1; r < NODES_RANKS; r++)
        for (int u = 0; u < n->n_units; u++)
            assert_memory_equal(n->anchor[r][u], n->anchor[0][u], (size_t)n->count[u] * sizeof(float));
    return n;
}

static void nodes_free(nodes *n) {
    for (int r = 0; r < NODES_RANKS; r++) {
        tiny_close(&n->rank[r]);
        for (int u = 0; u < n->n_units; u++) free(n->anchor[r][u]);
    }
    free(n);
}

static double nodes_distance(const nodes *a, const nodes *b) {
    double sum = 0;
    for (int u = 0; u < a->n_units; u++)
        for (int64_t k = 0; k < a->count[u]; k++) {
            double apart = (double)a->anchor[0][u][k] - b->anchor[0][u][k];
            sum += apart * apart;
        }
    return sqrt(sum);
}

/* Coded between machines only, or between all copies: near the copies that meet in full. A meeting that loses or
 * repeats a copy's change is as far from them as copies that meet once less. */
TEST(between_machines) {
    nodes *full = nodes_run((tri_compression){0}, NODES_STEPS), *less = nodes_run((tri_compression){0}, NODES_EVERY);
    double far = nodes_distance(full, less);
    for (int within = 0; within <= 2; within += 2) {
        nodes *coded = nodes_run((tri_compression){.gradients = TRI_CODE_INT8, .feedback = 1, .within = within},
                                 NODES_STEPS);
        double off = nodes_distance(coded, full);
        if (!(off > 0 && off < 0.02 * far)) fail_msg("machines of %d: %g off, of %g", within, off, far);
        nodes_free(coded);
    }
    nodes_free(full);
    nodes_free(less);
}

/* A program as text. */
TEST(golden_program) {
    tiny t;
    tiny_open_rank(&t, "cpu", 1, 0, 0, 1, &(tiny_rank){.dp = 2, .rank = 1});
    t.in.optimizer.sync_every = 8, t.in.optimizer.steps = 100;
    t.in.optimizer.outer_lr = 0.7, t.in.optimizer.outer_momentum = 0.9;
    t.in.compression = (tri_compression){.gradients = TRI_CODE_INT8, .feedback = 1};
    tiny_plan(&t);
    program_text_check("tests/programs/local.txt", &t.program[0], 1);
    tiny_close(&t);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
