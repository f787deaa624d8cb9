/* test_shard.c - data parallelism: every way of sharing out trains as one rank does, with ranks as threads; the same bits where the same
 * sums are taken; programs of all ranks fit together and print as the committed texts. */
#include "tiny.h"

#include "program/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_RANKS = 4, STEPS = 20, TEXT_BYTES = 1 << 20, HEAP = 4 << 20 };

static const char *const kind_names[] = {"none", "zero1", "zero2", "zero3", "hybrid"};

/* One job: the plans of all ranks, and what came of running them. */
typedef struct job {
    int dp, n_mb, kind;
    tiny *rank;                          /* [dp] */
    double loss[MAX_RANKS][STEPS], norm[MAX_RANKS][STEPS];
    float *weights;                      /* [n_elements] by unit, from those who hold them */
    float *probs[MAX_RANKS];             /* of the forward program, after the last step */
} job;

static void job_open(job *j, int dp, int n_mb, tri_sharding sharding) {
    const tri_program *train[MAX_RANKS], *infer[MAX_RANKS];
    *j = (job){.dp = dp, .n_mb = n_mb, .kind = sharding.kind, .rank = calloc((size_t)dp, sizeof *j->rank)};
    for (int r = 0; r < dp; r++) {
        tiny_open_rank(&j->rank[r], "cpu", 2, 3, 0.1, n_mb, &(tiny_rank){dp, r, sharding});
        train[r] = j->rank[r].program[0], infer[r] = j->rank[r].program[1];
    }
    OK(tri__check(train, dp));
    OK(tri__check(infer, dp));
    j->weights = calloc((size_t)j->rank[0].model.n_elements, sizeof *j->weights);
}

static void job_close(job *j) {
    for (int r = 0; r < j->dp; r++) tiny_close(&j->rank[r]), free(j->probs[r]);
    free(j->rank);
    free(j->weights);
}

/* This rank's part of the weights into job.weights: every element comes from one rank. */
static void collect(job *j, int rank, const tri_exec *exec) {
    const tiny *t = &j->rank[rank];
    int64_t at = 0;
    for (int u = 0; u < t->model.n_units; at += t->model.unit[u++].count) {
        tri_range save = t->plan.train.save_part[u], held = t->plan.train.param_part[u];
        const float *w = tri__exec_slot(exec, 0, t->plan.train.param[u]); /* [held] */
        for (int64_t k = save.begin; k < save.end; k++) j->weights[at + k] = w[k - held.begin];
    }
}

/* Runs in the rank's own thread, where nothing may be asserted. */
static tri_status rank_main(tri_world *world, void *argument) {
    job *j = argument;
    int rank = world ? tri_world_rank(world) : 0;
    tiny *t = &j->rank[rank];
    tri_exec *exec;
    TRI_TRY(tri__exec_open(tri__device_find("cpu"), t->program, 2, 1, 7, 0, world, &exec));
    tiny_init(t, exec);
    tri_status status = TRI_OK;
    for (int step = 0; step < STEPS && status == TRI_OK; step++) {
        t->hyper[0] = 1e-2f, t->hyper[1] = (float)(1 - pow(0.9, step + 1)), t->hyper[2] = (float)(1 - pow(0.999, step + 1));
        status = tri__exec_run(exec, 0, 0, t->plan.train.update, (uint32_t)step + 1, t->feed, NULL);
        j->loss[rank][step] = tiny_loss(t, exec);
        if (status == TRI_OK) status = tri__exec_run(exec, 0, t->plan.train.update, t->program[0]->n_instrs, (uint32_t)step + 1, t->feed, NULL);
        j->norm[rank][step] = *(const double *)tri__exec_slot(exec, 0, t->plan.train.norm);
    }
    collect(j, rank, exec);
    if (status == TRI_OK) status = tri__exec_run(exec, 1, 0, t->program[1]->n_instrs, 0, t->feed, NULL);
    size_t probs = (size_t)(t->feed[0].counts.of[TRI_SYM_N] * t->model.n_classes) * sizeof(float);
    j->probs[rank] = malloc(probs + 1);
    memcpy(j->probs[rank], tri__exec_slot(exec, 1, t->plan.infer.probs), probs);
    tri__exec_close(exec);
    return status;
}

static void job_run(job *j) {
    if (j->dp == 1) OK(rank_main(NULL, j));
    else OK(tri_ranks_run(&(tri_ranks){.n = j->dp, .heap_bytes = HEAP}, rank_main, j));
    for (int r = 1; r < j->dp; r++) {
        assert_memory_equal(j->loss[r], j->loss[0], sizeof j->loss[0]);
        assert_memory_equal(j->norm[r], j->norm[0], sizeof j->norm[0]);
    }
}

static void assert_close(const job *a, const job *b) {
    for (int s = 0; s < STEPS; s++)
        if (!(fabs(a->loss[0][s] - b->loss[0][s]) <= 2e-6 * fmax(b->loss[0][s], 0.1)))
            fail_msg("%s of %d ranks, %d microbatches: loss of step %d is %.9g, not %.9g", kind_names[a->kind], a->dp, a->n_mb, s + 1, a->loss[0][s],
                     b->loss[0][s]);
    /* Softmax does not feel a bias of the keys: its gradient is rounding alone, which AdamW makes as large as any other. */
    const tri_model *model = &a->rank[0].model;
    for (int64_t i = 0, at = 0; i < model->n_params; at += model->param[i++].count) {
        const tri_param *param = &model->param[i];
        for (int64_t k = at; k < at + param->count && !strstr(param->name, "self.key.bias"); k++)
            if (fabs((double)a->weights[k] - b->weights[k]) > 1e-4)
                fail_msg("%s of %d ranks, %d microbatches: %s is %g in place of %g", kind_names[a->kind], a->dp, a->n_mb, param->name, a->weights[k],
                         b->weights[k]);
    }
}

static void assert_same_bits(const job *a, const job *b) {
    if (memcmp(a->loss[0], b->loss[0], sizeof a->loss[0]) || memcmp(a->norm[0], b->norm[0], sizeof a->norm[0]) ||
        memcmp(a->weights, b->weights, (size_t)a->rank[0].model.n_elements * sizeof *a->weights))
        fail_msg("%s and %s of %d ranks, %d microbatches differ", kind_names[a->kind], kind_names[b->kind], a->dp, a->n_mb);
    for (int r = 0; r < a->dp; r++)
        assert_memory_equal(a->probs[r], b->probs[r], (size_t)(a->rank[r].feed[0].counts.of[TRI_SYM_N] * a->rank[r].model.n_classes) * sizeof(float));
}

/* Every kind against one rank; none = zero1, and with one microbatch = zero2 = zero3, to the bit. Some ranks have no sample at all. */
static void one_rank_or_many(void **state) {
    (void)state;
    for (int n_mb = 1; n_mb <= 3; n_mb += 2) {
        job one;
        job_open(&one, 1, n_mb, (tri_sharding){0});
        job_run(&one);
        assert_true(one.loss[0][STEPS - 1] < 0.7 * one.loss[0][0]);
        for (int dp = 2; dp <= MAX_RANKS; dp++) {
            job kind[TRI_SHARD_HYBRID + 1];
            int n = dp == 4 ? TRI_SHARD_HYBRID + 1 : TRI_SHARD_HYBRID;
            for (int k = 0; k < n; k++) {
                job_open(&kind[k], dp, n_mb, (tri_sharding){.kind = k, .size = 2, .prefetch = 1});
                job_run(&kind[k]);
                assert_close(&kind[k], &one);
                if (k == TRI_SHARD_ZERO1 || (n_mb == 1 && (k == TRI_SHARD_ZERO2 || k == TRI_SHARD_ZERO3))) assert_same_bits(&kind[k], &kind[0]);
                if (k == TRI_SHARD_ZERO3) assert_same_bits(&kind[k], &kind[TRI_SHARD_ZERO2]);
            }
            for (int k = 0; k < n; k++) job_close(&kind[k]);
        }
        job_close(&one);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank_or_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
