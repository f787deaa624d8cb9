/* test_infer.c - the forward program on meshes: every rank gets the probabilities of all samples, with the bits that
 * one rank has for them alone, whatever the replicas, stages, microbatches and shards. */
#include "tensor_job.h"

enum { CLASSES = 3 };

typedef struct answers {
    float of[JOB_RANKS][TINY_SAMPLES][CLASSES];
} answers;

typedef struct asked {
    job job;
    answers got;
} asked;

/* In the rank's own thread. Two runs: what the first left in memory changes nothing. */
static tri_status predict(tri_world *world, void *argument) {
    asked *a = argument;
    int rank = world ? tri_world_rank(world) : 0, dp = a->job.is.dp, n_mb = a->job.is.n_mb;
    tiny *t = &a->job.rank[rank];
    tri_exec *exec;
    TRI_TRY(tri__exec_open(tri__device_find("cpu"), t->program, TRI_PROGRAMS, 1, 7, TINY_GUARD, world, NULL, &exec));
    tiny_guards(exec, 1);
    job_init(t, exec);
    tri_status status = tiny_start(t, exec);
    for (int i = 0; i < 2 && status == TRI_OK; i++)
        status = tri__exec_run(exec, 1, 0, t->program[1]->n_instrs, 0, t->feed, NULL);
    for (int s = 0; s < TINY_SAMPLES && status == TRI_OK; s++) { /* dealt as tiny_feed does */
        int part = s % dp * n_mb + s / dp % n_mb, at = s / (dp * n_mb);
        memcpy(a->got.of[rank][s], tiny_probs(t, exec, part) + at * CLASSES, sizeof a->got.of[rank][s]);
    }
    if (status == TRI_OK && !tiny_guards(exec, 0))
        status = tri__fail(TRI_INTERNAL, "rank %d wrote beyond what the plan gave it", rank);
    tri__exec_close(exec);
    return status;
}

static void ask(asked *a, job_what is) {
    job_open(&a->job, is);
    assert_int_equal(a->job.rank[0].model.n_classes, CLASSES);
    if (a->job.n == 1) OK(predict(NULL, a));
    else OK(tri_ranks_run(&(tri_ranks){.n = a->job.n, .heap_bytes = JOB_HEAP, .progress_timeout = 120}, predict, a));
}

/* The largest difference to `want` on any rank; bits: none is allowed. */
static double compare(const asked *want, job_what is, int bits, const char *what) {
    asked *have = calloc(1, sizeof *have);
    double worst = 0;
    ask(have, is);
    for (int r = 0; r < have->job.n; r++) {
        const float *a = want->got.of[0][0], *b = have->got.of[r][0];
        for (int i = 0; i < TINY_SAMPLES * CLASSES; i++) {
            double gap = fabs((double)a[i] - b[i]);
            if (!(gap <= worst)) worst = gap;
            if (bits && memcmp(&a[i], &b[i], sizeof *a))
                fail_msg("%s: rank %d has %.9g for class %d of sample %d, one rank %.9g", what, r, (double)b[i],
                         i % CLASSES, i / CLASSES, (double)a[i]);
        }
    }
    job_close(&have->job);
    free(have);
    return worst;
}

#define SHARD(kind_, size_) .sharding = {.kind = TRI_SHARD_##kind_, .size = (size_), .prefetch = 1}
#define SCHEDULE(kind_) .staging = {.schedule = TRI_SCHEDULE_##kind_}

static void replicas_and_stages_change_no_bit(void **state) {
    (void)state;
    static const struct {
        const char *what;
        job_what is;
    } cases[] = {
        {"2 microbatches", {.n_mb = 2}},
        {"5 microbatches", {.n_mb = 5}},
        {"dp 2", {.dp = 2}},
        {"dp 4, 2 microbatches", {.dp = 4, .n_mb = 2}},
        {"dp 8: replicas without samples", {.dp = 8, .n_mb = 2}},
        {"dp 2, zero1", {.dp = 2, SHARD(ZERO1, 0)}},
        {"dp 3, zero3", {.dp = 3, SHARD(ZERO3, 0)}},
        {"dp 2, zero3, 3 microbatches", {.dp = 2, .n_mb = 3, SHARD(ZERO3, 0)}},
        {"dp 4, hybrid of 2", {.dp = 4, SHARD(HYBRID, 2)}},
        {"pp 2, 1 microbatch", {.pp = 2}},
        {"pp 2, 4 microbatches", {.pp = 2, .n_mb = 4}},
        {"pp 3, 5 microbatches", {.pp = 3, .n_mb = 5}},
        {"pp 4, 6 microbatches", {.pp = 4, .n_mb = 6}},
        {"pp 4, branches", {.pp = 4, .n_mb = 4, .staging = {.schedule = TRI_SCHEDULE_1F1B, .shape = TRI_SHAPE_BRANCH}}},
        {"pp 2, interleaved", {.pp = 2, .n_mb = 4, .staging = {.schedule = TRI_SCHEDULE_INTERLEAVED, .chunks = 2}}},
        {"pp 2, zbv", {.pp = 2, .n_mb = 3, SCHEDULE(ZBV)}},
        {"pp 2 x dp 2", {.pp = 2, .dp = 2, .n_mb = 2, SCHEDULE(1F1B)}},
        {"pp 2 x dp 4, zero3", {.pp = 2, .dp = 4, .n_mb = 2, SHARD(ZERO3, 0)}},
        {"pp 2 x dp 4, hybrid of 2", {.pp = 2, .dp = 4, .n_mb = 3, SHARD(HYBRID, 2)}},
    };
    for (int pooling = 0; pooling < 2; pooling++) {
        asked *one = calloc(1, sizeof *one);
        ask(one, (job_what){.pooling = pooling ? TRI_POOLING_MEAN : 0});
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            job_what is = cases[i].is;
            is.pooling = one->job.is.pooling;
            if (!pooling || i % 3 == 0) compare(one, is, 1, cases[i].what);
        }
        job_close(&one->job);
        free(one);
    }
}

/* Sums over ranks that share a layer round differently; all such ranks have the same. */
static void shared_layers_are_close(void **state) {
    (void)state;
    asked *one = calloc(1, sizeof *one);
    double worst = 0;
    ask(one, (job_what){0});
    for (int sequence = 0; sequence < 2; sequence++) {
        const job_what cases[] = {{.tp = 2}, {.tp = 4, .n_mb = 2}, {.pp = 2, .tp = 2, .dp = 2, .n_mb = 3},
                                  {.tp = 2, .dp = 2, SHARD(ZERO3, 0)}};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            job_what is = cases[i];
            is.sequence = sequence;
            worst = fmax(worst, compare(one, is, 0, "tp"));
        }
    }
    print_message("    probabilities differ by at most %.1e\n", worst);
    assert_true(worst <= 1e-5);
    job_close(&one->job);
    free(one);
}

/* A pipeline's stages work at the same time: while the last one has a microbatch, the first has a later one. */
static void microbatches_are_in_flight(void **state) {
    (void)state;
    job j;
    job_open(&j, (job_what){.pp = 4, .n_mb = 6});
    for (int r = 0; r < 4; r++) {
        const tri_program *p = j.rank[r].program[TRI_INFER];
        int last = -1;
        for (int i = 0; i < p->n_instrs; i++) {
            if (tri__op_row(p->instr[i].op)->phase != TRI_PHASE_F) continue;
            assert_true(p->instr[i].mb >= last); /* each microbatch once, in order: none waits for a later one */
            last = p->instr[i].mb;
        }
        assert_int_equal(last, 5);
    }
    /* Memory holds what travels of all microbatches, and the activations of one. */
    int64_t six = j.rank[0].program[TRI_INFER]->bytes[TRI_MEM_ACT];
    job_close(&j);
    job_open(&j, (job_what){.pp = 4, .n_mb = 1});
    assert_true(six < 6 * j.rank[0].program[TRI_INFER]->bytes[TRI_MEM_ACT]);
    job_close(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(replicas_and_stages_change_no_bit),
                                       cmocka_unit_test(shared_layers_are_close),
                                       cmocka_unit_test(microbatches_are_in_flight)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
