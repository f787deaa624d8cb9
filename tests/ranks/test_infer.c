/* test_infer.c - the forward program on meshes: every rank gets the probabilities of all samples, with the bits that
 * one rank has for them alone, whatever the replicas, stages, microbatches and shards. */
#include "tests/lib/test.h"
#include "tests/lib/tensor_job.h"

#include "engine/evaluate.h"
#include "engine/server_ranks.h"

#include <time.h>

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
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = TRI_PROGRAMS,
                                            .seed = 7, .guard = TINY_GUARD, .world = world}, &exec));
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
        for (int i = 0; i < TINY_SAMPLES * CLASSES; i++) {
            float a = want->got.of[0][i / CLASSES][i % CLASSES], b = have->got.of[r][i / CLASSES][i % CLASSES];
            double gap = fabs((double)a - b);
            if (!(gap <= worst)) worst = gap;
            if (bits && memcmp(&a, &b, sizeof a))
                fail_msg("%s: rank %d has %.9g for class %d of sample %d, one rank %.9g", what, r, (double)b,
                         i % CLASSES, i / CLASSES, (double)a);
        }
    }
    job_close(&have->job);
    free(have);
    return worst;
}

#define SHARD(kind_, size_) .sharding = {.kind = TRI_SHARD_##kind_, .size = (size_), .prefetch = 1}
#define SCHEDULE(kind_) .staging = {.schedule = TRI_SCHEDULE_##kind_}

TEST(replicas_and_stages_change_no_bit) {
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
TEST(shared_layers_are_close) {
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
TEST(microbatches_are_in_flight) {
    job j;
    job_open(&j, (job_what){.pp = 4, .n_mb = 6});
    for (int r = 0; r < 4; r++) {
        const tri_program *p = j.rank[r].program[TRI_INFER];
        int last = -1;
        for (int i = 0; i < p->n_instrs; i++) {
            if (tri__instr_row(&p->instr[i])->phase != TRI_PHASE_F) continue;
            assert_true(p->instr[i].mb >= last); /* each microbatch once, in order: none waits for a later one */
            last = p->instr[i].mb;
        }
        assert_int_equal(last, 5);
    }
    job_close(&j);
    /* Memory holds the activations of one microbatch, and what travels of a few: as much for eight as for four. */
    int64_t bytes[2][4];
    for (int many = 0; many < 2; many++) {
        tiny t;
        for (int r = 0; r < 4; r++) {
            job_what is = {.pp = 4, .n_mb = 4};
            job_plan(&t, job_filled(&is), r);
            t.in.n_mb_infer = many ? 8 : 4;
            tiny_plan(&t);
            bytes[many][r] = t.program[TRI_INFER]->bytes[TRI_MEM_ACT];
            tiny_close(&t);
        }
    }
    assert_memory_equal(bytes[0], bytes[1], sizeof bytes[0]);
}

/* ---- Ranks of a server ---- */

enum { ROUNDS = 3, NUMBER = 7 };
static const double LIMIT = 3; /* seconds that a wait may take, where rank 0 pauses for longer */

typedef struct served {
    job job;
    answers got[ROUNDS];   /* of rank 0 */
    int pauses;
    int followed;          /* ranks that saw the whole series of orders */
} served;

static void sleep_for(double seconds) {
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

/* Samples 0 .. n - 1 over the parts of the batch: sample s goes to part s % parts. */
static tri_status lead_batch(tri_engine *engine, tiny *t, int n, answers *got) {
    int parts = tri__engine_parts(engine);
    tiny_feed(t, parts, 1, 0);
    for (int part = 0; part < parts; part++) {
        tri_counts *counts = &t->feed[part].counts;
        if (part >= n) *counts = (tri_counts){0}; /* whole samples only: a part has at most one, or n is all */
        *counts = tri__counts_rounded(counts, tri__plan_granule(&t->in));
    }
    TRI_TRY(tri__engine_lead(engine, TRI_ORDER_RUN, 0, t->feed));
    for (int s = 0; s < n; s++)
        memcpy(got->of[0][s], tri__infer_probs(engine, s % parts) + s / parts * CLASSES, sizeof got->of[0][s]);
    return TRI_OK;
}

/* Batches of different sizes, a pause longer than a wait's limit, and orders between them. */
static tri_status lead(tri_engine *engine, tiny *t, served *v) {
    int parts = tri__engine_parts(engine), few = parts < TINY_SAMPLES ? TINY_SAMPLES : 1;
    TRI_TRY(lead_batch(engine, t, TINY_SAMPLES, &v->got[0]));
    for (double waited = 0; waited < 1.2 * LIMIT && v->pauses; waited += LIMIT / 4) {
        sleep_for(LIMIT / 4);
        TRI_TRY(tri__engine_lead(engine, TRI_ORDER_IDLE, 0, NULL));
    }
    TRI_TRY(lead_batch(engine, t, few, &v->got[1]));
    TRI_TRY(tri__engine_lead(engine, TRI_ORDER_RELOAD, NUMBER, NULL));
    TRI_TRY(lead_batch(engine, t, TINY_SAMPLES, &v->got[2]));
    return tri__engine_lead(engine, TRI_ORDER_STOP, 0, NULL);
}

static tri_status follow(tri_engine *engine, served *v) {
    tri_order order;
    int64_t value;
    TRI_TRY(tri__engine_follow(engine, &order, &value));
    if (order != TRI_ORDER_RELOAD || value != NUMBER) return tri__fail(TRI_INTERNAL, "expected an order to reload");
    TRI_TRY(tri__engine_follow(engine, &order, &value));
    if (order != TRI_ORDER_STOP) return tri__fail(TRI_INTERNAL, "expected an order to stop");
    __atomic_add_fetch(&v->followed, 1, __ATOMIC_RELAXED);
    return TRI_OK;
}

static tri_status serve(tri_world *world, void *argument) {
    served *v = argument;
    int rank = world ? tri_world_rank(world) : 0;
    tiny *t = &v->job.rank[rank];
    tri_engine engine = {.place = {.world = world, .mesh = t->in.mesh, .rank = rank},
                         .in = t->in,
                         .model = t->model,
                         .plan = t->plan,
                         .infer = 1,
                         .class_weights = t->class_weights};
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = TRI_PROGRAMS,
                                            .seed = 7, .guard = TINY_GUARD, .world = world}, &engine.exec));
    tiny_guards(engine.exec, 1);
    job_init(t, engine.exec);
    tri_status status = tiny_start(t, engine.exec);
    if (status == TRI_OK) status = rank ? follow(&engine, v) : lead(&engine, t, v);
    if (status == TRI_OK && !tiny_guards(engine.exec, 0))
        status = tri__fail(TRI_INTERNAL, "rank %d wrote beyond what the plan gave it", rank);
    tri__exec_close(engine.exec);
    return status;
}

/* Ranks without data of their own give rank 0 the bits of one rank (with shared layers: to rounding). */
TEST(a_server_has_the_bits_of_one_rank) {
    static const struct {
        const char *what;
        job_what is;
    } cases[] = {{"one rank", {0}},
                 {"one rank, 3 microbatches", {.n_mb = 3}},
                 {"dp 2", {.dp = 2}},
                 {"dp 4, 2 microbatches", {.dp = 4, .n_mb = 2}},
                 {"dp 4, hybrid of 2", {.dp = 4, .n_mb = 1, SHARD(HYBRID, 2)}},
                 {"pp 2, 4 microbatches", {.pp = 2, .n_mb = 4}},
                 {"pp 4, branches", {.pp = 4, .n_mb = 3, .staging = {.schedule = TRI_SCHEDULE_1F1B,
                                                                     .shape = TRI_SHAPE_BRANCH}}},
                 {"pp 2 x dp 2, zero3", {.pp = 2, .dp = 2, .n_mb = 2, SHARD(ZERO3, 0)}},
                 {"tp 2", {.tp = 2}},
                 {"pp 2 x tp 2 x dp 2", {.pp = 2, .tp = 2, .dp = 2, .n_mb = 2, .sequence = 1}}};
    asked *one = calloc(1, sizeof *one);
    served *v = calloc(1, sizeof *v);
    ask(one, (job_what){0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job_what is = cases[i].is;
        is.fed = 1;
        *v = (served){.pauses = is.pp == 2 && is.dp == 2 && !is.tp};
        job_open(&v->job, is);
        if (v->job.n == 1) OK(serve(NULL, v));
        else
            OK(tri_ranks_run(&(tri_ranks){.n = v->job.n, .heap_bytes = JOB_HEAP,
                                          .progress_timeout = v->pauses ? LIMIT : 120},
                             serve, v));
        assert_int_equal(v->followed, v->job.n - 1);
        int parts = v->job.is.dp * v->job.is.n_mb, few = parts < TINY_SAMPLES ? TINY_SAMPLES : 1;
        for (int round = 0; round < ROUNDS; round++)
            for (int k = 0; k < (round == 1 ? few : TINY_SAMPLES) * CLASSES; k++) {
                float want = one->got.of[0][k / CLASSES][k % CLASSES],
                      have = v->got[round].of[0][k / CLASSES][k % CLASSES];
                if (is.tp ? !(fabsf(want - have) <= 1e-5f) : memcmp(&want, &have, sizeof want))
                    fail_msg("%s, batch %d: class %d of sample %d has %.9g, not %.9g", cases[i].what, round,
                             k % CLASSES, k / CLASSES, (double)have, (double)want);
            }
        job_close(&v->job);
    }
    job_close(&one->job);
    free(one), free(v);
}

/* Plans without training: programs of a server fit together in every precision, and only the forward one is fed. */
TEST(plans_of_servers_fit) {
    static const job_what meshes[] = {{.tp = 2}, {.dp = 4, SHARD(HYBRID, 2)}, {.pp = 2, .n_mb = 4},
                                      {.pp = 2, .tp = 2, .dp = 2, .n_mb = 2, .sequence = 1, SHARD(ZERO3, 0)}};
    static const struct {
        tri_dtype precision, quantize;
    } types[] = {{TRI_F32, TRI_F32}, {TRI_BF16, TRI_F32}, {TRI_F16, TRI_F32}, {TRI_F32, TRI_I8}, {TRI_BF16, TRI_I8}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            job_what is = meshes[m];
            tri_classes all[TRI_PROGRAMS];
            tiny t;
            is.fed = 1;
            job_plan(&t, job_filled(&is), 0);
            t.in.precision = types[i].precision, t.in.quantize = types[i].quantize;
            OK(tri__plan_ranks(&t.arena, &t.in, 0, all));
            OK(tri__check_all(&all[TRI_INFER]));
            OK(tri__check_all(&all[TRI_START]));
            for (int r = 0; r < all[TRI_INFER].world; r++) {
                const tri_program *infer = tri__classes_program(&all[TRI_INFER], &t.arena, r);
                assert_int_equal(tri__exec_control_of(infer), 0);
                assert_int_equal(tri__exec_control_of(tri__classes_program(&all[TRI_START], &t.arena, r)), -1);
                for (int k = 0; k < infer->n_instrs && r > 0; k++)
                    assert_true(infer->instr[k].op != TRI_OP_input ||
                                infer->instr[k].attr.field == TRI_FIELD_class_weights ||
                                infer->instr[k].attr.field == TRI_FIELD_loss_inv);
            }
            tiny_close(&t);
        }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
