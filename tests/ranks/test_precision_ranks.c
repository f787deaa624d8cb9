/* test_precision_ranks.c - 16-bit types and recomputed activations on several ranks, which are threads: every strategy
 * trains like one rank, bitwise if sums have the same order; an overflow on one rank counts on all. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"
#include "train/loss_scale.h"

#include <math.h>

enum { MAX_RANKS = 3, STEPS = 5, HEAP = 4 << 20 };

/* One job: what is planned, and what came of it. */
typedef struct job {
    int dp, n_mb, overflow_at;            /* overflow_at: a step, from 1; 0 none */
    tri_shard_kind kind;
    tri_dtype precision, reduce;
    tri_recompute recompute;
    tiny rank[MAX_RANKS];
    double loss[MAX_RANKS][STEPS];
    int32_t apply[MAX_RANKS][STEPS];
    float scale[MAX_RANKS][STEPS];
    int changed[MAX_RANKS][STEPS];        /* weights or optimizer state */
} job;

static void job_open(job *j) {
    const tri_program *program[TRI_PROGRAMS][MAX_RANKS];
    for (int r = 0; r < j->dp; r++) {
        tiny *t = &j->rank[r];
        tiny_open_rank(t, "cpu", 2, 3, 0.1, j->n_mb,
                       &(tiny_rank){.dp = j->dp, .rank = r, .sharding = {.kind = j->kind, .prefetch = 1}});
        t->in.precision = j->precision, t->in.reduce_dtype = j->reduce, t->in.recompute = j->recompute;
        tiny_plan(t);
        for (int i = 0; i < TRI_PROGRAMS; i++) program[i][r] = t->program[i];
    }
    for (int i = 0; i < TRI_PROGRAMS; i++) OK(tri__check(program[i], j->dp));
}

static uint64_t hash_class(const tri_exec *exec, tri_mem mem) {
    int64_t bytes;
    const unsigned char *at = tri__exec_memory(exec, mem, &bytes);
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (int64_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

/* Runs in the rank's own thread, where nothing may be asserted. */
static tri_status rank_main(tri_world *world, void *argument) {
    job *j = argument;
    int rank = world ? tri_world_rank(world) : 0;
    tiny *t = &j->rank[rank];
    const tri_planned *train = &t->plan.train;
    tri_loss_scale scale = tri__loss_scale_start();
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = TRI_PROGRAMS,
                                            .seed = 7, .world = world}, &exec));
    tiny_init(t, exec);
    tri_status status = tiny_start(t, exec);
    for (int step = 0; step < STEPS && status == TRI_OK; step++) {
        if (step + 1 == j->overflow_at) scale.scale = 0x1p30f;
        t->loss_scale = j->scale[rank][step] = scale.scale;
        t->hyper[1] = (float)(1 - pow(0.9, step + 1)), t->hyper[2] = (float)(1 - pow(0.999, step + 1));
        uint64_t weights = hash_class(exec, TRI_MEM_PARAM), state = hash_class(exec, TRI_MEM_STATE);
        status = tri__exec_run(exec, 0, 0, train->update, (uint32_t)step + 1, t->feed, NULL);
        j->loss[rank][step] = tiny_loss(t, exec);
        if (status == TRI_OK)
            status = tri__exec_run(exec, 0, train->update, t->program[0]->n_instrs, (uint32_t)step + 1, t->feed, NULL);
        j->apply[rank][step] = *(const int32_t *)tri__exec_slot(exec, 0, train->apply);
        j->changed[rank][step] = weights != hash_class(exec, TRI_MEM_PARAM) || state != hash_class(exec, TRI_MEM_STATE);
        if (status == TRI_OK) status = tri__loss_scale_next(&scale, j->apply[rank][step]);
    }
    tri__exec_close(exec);
    return status;
}

/* All ranks see the same losses. */
static job *run(job how) {
    job *j = malloc(sizeof *j);
    assert_non_null(j);
    *j = how;
    job_open(j);
    if (j->dp == 1) OK(rank_main(NULL, j));
    else OK(tri_ranks_run(&(tri_ranks){.n = j->dp, .heap_bytes = HEAP}, rank_main, j));
    for (int r = 1; r < j->dp; r++) {
        assert_memory_equal(j->loss[r], j->loss[0], sizeof j->loss[0]);
        assert_memory_equal(j->apply[r], j->apply[0], sizeof j->apply[0]);
        assert_memory_equal(j->scale[r], j->scale[0], sizeof j->scale[0]);
    }
    return j;
}

static void done(job *j) {
    for (int r = 0; r < j->dp; r++) tiny_close(&j->rank[r]);
    free(j);
}

TEST(as_one_rank) {
    static const struct { tri_dtype precision, reduce; double within;
    } types[] = {
        {TRI_F32, TRI_F32, 2e-6},   {TRI_F32, TRI_BF16, 1e-2}, {TRI_BF16, TRI_F32, 1e-2},
        {TRI_BF16, TRI_BF16, 1e-2}, {TRI_F16, TRI_F16, 1e-2},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int n_mb = 1; n_mb <= 2; n_mb++) {
            int dp = n_mb + 1;
            job how = {.dp = 1, .n_mb = n_mb, .precision = types[i].precision, .reduce = types[i].reduce};
            job *one = run(how);
            for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_ZERO3; kind++) {
                how.dp = dp, how.kind = (tri_shard_kind)kind, how.recompute = TRI_RECOMPUTE_NONE;
                job *many = run(how);
                for (int step = 0; step < STEPS; step++)
                    if (!(fabs(many->loss[0][step] - one->loss[0][step]) <=
                          types[i].within * fmax(one->loss[0][step], 0.1)))
                        fail_msg("kind %d of %d ranks in %s: loss %g, not %g", kind, dp, tri__dtype_name(how.precision),
                                 many->loss[0][step], one->loss[0][step]);
                how.recompute = kind % 2 ? TRI_RECOMPUTE_SELECTIVE : TRI_RECOMPUTE_FULL;
                job *rebuilt = run(how);
                assert_memory_equal(rebuilt->loss, many->loss, sizeof many->loss);
                done(rebuilt);
                done(many);
            }
            done(one);
        }
}

/* Where none and zero1 sum the same gradients in the same order, they are the same to the bit, whatever the types. */
TEST(none_is_zero1) {
    static const tri_dtype types[] = {TRI_BF16, TRI_F16};
    for (int i = 0; i < 2; i++) {
        job how = {.dp = 2, .n_mb = 2, .precision = types[i], .reduce = i ? TRI_F32 : TRI_BF16};
        job *none = run(how);
        how.kind = TRI_SHARD_ZERO1;
        job *zero1 = run(how);
        assert_memory_equal(zero1->loss, none->loss, sizeof none->loss);
        done(none);
        done(zero1);
    }
}

TEST(overflow_is_everyones) {
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_ZERO3; kind++) {
        job *j = run((job){.dp = 3, .n_mb = 2, .kind = (tri_shard_kind)kind, .precision = TRI_F16, .overflow_at = 3});
        assert_int_equal(j->apply[0][1], 1);
        assert_int_equal(j->apply[0][2], 0);
        assert_true(j->scale[0][2] == 0x1p30f && j->scale[0][3] == 0x1p29f);
        for (int r = 0; r < 3; r++)
            for (int step = 0; step < STEPS; step++) assert_int_equal(j->changed[r][step], j->apply[0][step]);
        done(j);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
