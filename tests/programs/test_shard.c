/* test_shard.c - data parallelism: every sharding strategy trains like one rank, with ranks as threads, bitwise if sums
 * have the same order; programs of all ranks match each other and print as the committed texts. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "tests/lib/program_text.h"

#include <math.h>
#include <sys/mman.h>

enum { MAX_RANKS = 4, STEPS = 20, HEAP = 4 << 20 };

static const char *const kind_names[] = {"none", "zero1", "zero2", "zero3", "hybrid"};

/* One job: the plans of all ranks, and what came of running them. */
typedef struct job {
    int dp, n_mb, kind, steps;
    tiny *rank;                          /* [dp] */
    double loss[MAX_RANKS][STEPS], norm[MAX_RANKS][STEPS];
    float *weights;                      /* [n_elements] by unit, from those who hold them */
    float *probs[MAX_RANKS];             /* of the forward program, after the last step */
} job;

static void job_open(job *j, int dp, int n_mb, tri_sharding sharding) {
    const tri_program *train[MAX_RANKS], *infer[MAX_RANKS];
    *j = (job){
        .dp = dp, .n_mb = n_mb, .kind = sharding.kind, .steps = STEPS, .rank = calloc((size_t)dp, sizeof *j->rank)};
    for (int r = 0; r < dp; r++) {
        tiny_open_rank(&j->rank[r], "cpu", 2, 3, 0.1, n_mb, &(tiny_rank){.dp = dp, .rank = r, .sharding = sharding});
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
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = 2, .seed = 7,
                                            .guard = TINY_GUARD, .world = world}, &exec));
    tiny_guards(exec, 1);
    tiny_init(t, exec);
    tri_status status = TRI_OK;
    for (int step = 0; step < j->steps && status == TRI_OK; step++) {
        t->hyper[0] = 1e-2f, t->hyper[1] = (float)(1 - pow(0.9, step + 1)),
        t->hyper[2] = (float)(1 - pow(0.999, step + 1));
        status = tri__exec_run(exec, 0, 0, t->plan.train.update, (uint32_t)step + 1, t->feed, NULL);
        j->loss[rank][step] = tiny_loss(t, exec);
        if (status != TRI_OK) break;
        status = tri__exec_run(exec, 0, t->plan.train.update, t->program[0]->n_instrs, (uint32_t)step + 1, t->feed,
                               NULL);
        j->norm[rank][step] = *(const double *)tri__exec_slot(exec, 0, t->plan.train.norm);
    }
    collect(j, rank, exec);
    if (status == TRI_OK) status = tri__exec_run(exec, 1, 0, t->program[1]->n_instrs, 0, t->feed, NULL);
    size_t probs = (size_t)(t->feed[0].counts.of[TRI_SYM_N] * t->model.n_classes) * sizeof(float);
    j->probs[rank] = malloc(probs + 1);
    memcpy(j->probs[rank], tiny_probs(t, exec, rank * t->in.n_mb), probs);
    if (status == TRI_OK && !tiny_guards(exec, 0))
        status = tri__fail(TRI_INTERNAL, "rank %d wrote beyond what the plan gave it", rank);
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
    for (int s = 0; s < a->steps; s++)
        if (!(fabs(a->loss[0][s] - b->loss[0][s]) <= 2e-6 * fmax(b->loss[0][s], 0.1)))
            fail_msg("%s of %d ranks, %d microbatches: loss of step %d is %.9g, not %.9g", kind_names[a->kind], a->dp,
                     a->n_mb, s + 1, a->loss[0][s], b->loss[0][s]);
    /* Softmax does not feel a bias of the keys: its gradient is rounding alone, which AdamW makes as large as any
     * other. */
    const tri_network *model = &a->rank[0].model;
    if (a->steps < b->steps) return;
    for (int64_t i = 0, at = 0; i < model->n_params; at += model->param[i++].count) {
        const tri_param *param = &model->param[i];
        for (int64_t k = at; k < at + param->count && !strstr(param->name, "self.key.bias"); k++)
            if (fabs((double)a->weights[k] - b->weights[k]) > 1e-4)
                fail_msg("%s of %d ranks, %d microbatches: %s is %g in place of %g", kind_names[a->kind], a->dp,
                         a->n_mb, param->name, a->weights[k], b->weights[k]);
    }
}

static void assert_same_bits(const job *a, const job *b) {
    if (memcmp(a->loss[0], b->loss[0], sizeof a->loss[0]) || memcmp(a->norm[0], b->norm[0], sizeof a->norm[0]) ||
        memcmp(a->weights, b->weights, (size_t)a->rank[0].model.n_elements * sizeof *a->weights))
        fail_msg("%s and %s of %d ranks, %d microbatches differ", kind_names[a->kind], kind_names[b->kind], a->dp,
                 a->n_mb);
    for (int r = 0; r < a->dp; r++) {
        int64_t n = a->rank[r].feed[0].counts.of[TRI_SYM_N] * a->rank[r].model.n_classes;
        assert_memory_equal(a->probs[r], b->probs[r], (size_t)n * sizeof(float));
    }
}

/* Every kind against one rank; none = zero1, and with one microbatch = zero2 = zero3, to the bit. Some ranks have no
 * sample at all. */
TEST(one_rank_or_many) {
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
                if (dp > 2) kind[k].steps = STEPS / 4; /* more ranks than cores take their time */
                job_run(&kind[k]);
                assert_close(&kind[k], &one);
                if (k == TRI_SHARD_ZERO1 || (n_mb == 1 && k < TRI_SHARD_HYBRID)) assert_same_bits(&kind[k], &kind[0]);
                if (k == TRI_SHARD_ZERO3) assert_same_bits(&kind[k], &kind[TRI_SHARD_ZERO2]);
            }
            for (int k = 0; k < n; k++) job_close(&kind[k]);
        }
        job_close(&one);
    }
}

/* Blocks of several units, every way of keeping weights and of gathering ahead: all the same bits as replicas without
 * shards. */
TEST(blocks_and_prefetch) {
    static const tri_sharding ways[] = {
        {.kind = TRI_SHARD_ZERO1, .wrap = TRI_WRAP_SIZE, .wrap_min_params = 3000},
        {.kind = TRI_SHARD_ZERO2, .wrap = TRI_WRAP_SIZE, .wrap_min_params = 3000},
        {.kind = TRI_SHARD_ZERO3, .wrap = TRI_WRAP_SIZE, .wrap_min_params = 2500, .prefetch = 2},
        {.kind = TRI_SHARD_ZERO3, .wrap = TRI_WRAP_SIZE, .wrap_min_params = 100000000},
        {.kind = TRI_SHARD_ZERO3, .reshard = TRI_RESHARD_YES},
        {.kind = TRI_SHARD_ZERO3, .reshard = TRI_RESHARD_YES, .prefetch = 3},
        {.kind = TRI_SHARD_ZERO3, .reshard = TRI_RESHARD_NO, .prefetch = 1},
        {.kind = TRI_SHARD_ZERO3, .prefetch = 20},
        {.kind = TRI_SHARD_HYBRID, .size = 3, .prefetch = 1},
        {.kind = TRI_SHARD_HYBRID, .size = 1},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        /* The norm adds up by blocks, so that replicas too are compared with their blocks. */
        job none, way;
        job_open(&none, 3, 1,
                 (tri_sharding){.bucket_mb = 0.01, .wrap = ways[i].wrap, .wrap_min_params = ways[i].wrap_min_params});
        job_open(&way, 3, 1, ways[i]);
        none.steps = way.steps = 2;
        job_run(&none);
        job_run(&way);
        assert_same_bits(&way, &none);
        job_close(&way);
        job_close(&none);
    }
}

/* Two runs of the same job, to the bit. */
TEST(again) {
    job a, b;
    const tri_sharding how = {.kind = TRI_SHARD_HYBRID, .size = 2, .prefetch = 1};
    job_open(&a, 4, 2, how), job_open(&b, 4, 2, how);
    a.steps = b.steps = 3;
    job_run(&a), job_run(&b);
    assert_same_bits(&a, &b);
    job_close(&a), job_close(&b);
}

/* Ranks as processes, which see each other's memory at other addresses: the same losses as ranks as threads. First of
 * all tests, while this process has no threads. */
FIRST_TEST(processes_or_threads) {
    for (int kind = 0; kind <= TRI_SHARD_ZERO3; kind++) {
        job *forks = mmap(NULL, sizeof *forks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), threads;
        assert_true(forks != MAP_FAILED);
        const tri_sharding how = {.kind = kind, .prefetch = 1};
        job_open(forks, 3, 2, how), job_open(&threads, 3, 2, how);
        forks->steps = threads.steps = 2;
        OK(tri_ranks_run(&(tri_ranks){.n = 3, .heap_bytes = HEAP, .forks = 1}, rank_main, forks));
        job_run(&threads);
        assert_memory_equal(forks->loss, threads.loss, sizeof threads.loss);
        memset(forks->probs, 0, sizeof forks->probs); /* they were the processes' own */
        job_close(forks), job_close(&threads);
        munmap(forks, sizeof *forks);
    }
}

/* Programs of the first two ranks of each kind. */
TEST(golden_programs) {
    for (int kind = 0; kind <= TRI_SHARD_HYBRID; kind++) {
        tiny t[2];
        char path[64];
        for (int r = 0; r < 2; r++)
            tiny_open_rank(&t[r], "cpu", 1, 0, 0, kind == TRI_SHARD_ZERO2 ? 2 : 1,
                           &(tiny_rank){.dp = kind == TRI_SHARD_HYBRID ? 4 : 2, .rank = r,
                                        .sharding = {.kind = kind, .size = 2, .prefetch = 1, .bucket_mb = 0.01}});
        snprintf(path, sizeof path, "tests/programs/%s.txt", kind_names[kind]);
        program_text_check(path, (const tri_program *[]){t[0].program[0], t[1].program[0]}, 2);
        tiny_close(&t[0]), tiny_close(&t[1]);
    }
}

static int64_t total(const tri_range *part, int n) {
    int64_t sum = 0;
    for (int u = 0; u < n; u++) sum += part[u].end - part[u].begin;
    return sum;
}

/* What each kind holds; every element is saved by one rank; ZeRO-3's memory is its share, prefetch + 1 gathered blocks
 * and one of gradients. */
TEST(planned_bytes) {
    enum { PREFETCH = 1 };
    for (int dp = 2; dp <= 4; dp++)
        for (int kind = 0; kind <= TRI_SHARD_HYBRID; kind++) {
            if (kind == TRI_SHARD_HYBRID && dp != 4) continue;
            job j;
            job_open(&j, dp, 1, (tri_sharding){.kind = kind, .size = 2, .prefetch = PREFETCH});
            const tri_network *model = &j.rank[0].model;
            int n = kind == TRI_SHARD_HYBRID ? 2 : dp;
            int64_t all = model->n_elements, largest = 0, saved = 0,
                    padding = (TRI_SHARD_GRANULE + 16) * (int64_t)model->n_units;
            for (int u = 0; u < model->n_units; u++)
                largest = model->unit[u].count > largest ? model->unit[u].count : largest;
            for (int r = 0; r < dp; r++) {
                const tri_planned *plan = &j.rank[r].plan.train;
                const int64_t *bytes = plan->program->bytes, share = all / n + padding;
                double sent[TRI_COLLECTIVE_COUNT];
                tri__program_sent(plan->program, sent);
                saved += total(plan->save_part, model->n_units);
                assert_true(total(plan->param_part, model->n_units) <= (kind >= TRI_SHARD_ZERO3 ? share : all));
                assert_true(bytes[TRI_MEM_PARAM] <= 4 * (kind >= TRI_SHARD_ZERO3 ? share : all + padding));
                assert_true(bytes[TRI_MEM_STATE] <= 8 * (kind >= TRI_SHARD_ZERO1 ? share : all + padding));
                assert_true(bytes[TRI_MEM_GRAD] <= 4 * (kind >= TRI_SHARD_ZERO2 ? share : all + padding));
                assert_true(bytes[TRI_MEM_GATHER] <=
                            (kind >= TRI_SHARD_ZERO3 ? (PREFETCH + 1) * (4 * largest + 64) : 0));
                assert_true(bytes[TRI_MEM_COMM] <= (kind >= TRI_SHARD_ZERO2 ? 4 * (largest + 16) : 0));
                assert_true((sent[TRI_ALL_GATHER] > 0) == (kind >= TRI_SHARD_ZERO1));
                assert_true((sent[TRI_REDUCE_SCATTER] > 0) == (kind >= TRI_SHARD_ZERO1));
                assert_true(sent[TRI_ALL_REDUCE] > (kind == TRI_SHARD_NONE ? 4.0 * (double)all * (n - 1) / n : 0));
            }
            assert_int_equal(saved, all);
            job_close(&j);
        }
}

/* Buckets of gradients; every one of several units has at most the wanted bytes. */
static int count_buckets(const tri_program *p, double most) {
    int n = 0;
    for (int s = 0; s < p->n_slots; s++) {
        if (p->slot[s].mem != TRI_MEM_GRAD || p->slot[s].parent >= 0) continue;
        if (strstr(p->slot[s].name, "bucket")) assert_true((double)tri__slot_bytes(&p->slot[s], &p->max) <= most);
        n++;
    }
    return n;
}

/* A bucket's size is that of what travels: gradients of half the size, more of them in one. */
TEST(buckets_count_what_travels) {
    tiny t;
    const double mb = 0.01;
    tiny_open_rank(&t, "cpu", 2, 3, 0.1, 1, &(tiny_rank){.dp = 2, .sharding = {.bucket_mb = mb}});
    int wide = count_buckets(t.program[0], mb * (1 << 20));
    t.in.precision = t.in.reduce_dtype = TRI_BF16;
    tiny_plan(&t);
    int half = count_buckets(t.program[0], mb * (1 << 20));
    if (!(half < wide && half > 1)) fail_msg("%d buckets of fp32, %d of bf16", wide, half);
    tiny_close(&t);
}

static tri_status spoiled_main(tri_world *world, void *argument) {
    job *j = argument;
    int rank = tri_world_rank(world), line = -1, slot = -1;
    tiny *t = &j->rank[rank];
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = 1, .seed = 7,
                                            .world = world}, &exec));
    tiny_init(t, exec);
    const tri_param *param = tri__model_find(&t->model, "primary.encoder.layer.1.intermediate.dense.bias");
    float *w = (float *)tri__exec_slot(exec, 0, t->plan.train.param[param->unit]) + param->at,
          before = *w; /* [count] */
    if (rank == 1) *w = NAN;
    tri_status status = tri__exec_run(exec, 0, 0, t->program[0]->n_instrs, 1, t->feed, NULL);
    const int32_t *apply = tri__exec_slot(exec, 0, t->plan.train.apply);
    if (status == TRI_OK && *apply) status = tri__fail(TRI_DATA, "rank %d applies it", rank);
    if (status == TRI_OK && rank == 0 && *w != before) status = tri__fail(TRI_DATA, "a weight changed");
    if (status == TRI_OK) status = tri__exec_find_bad(exec, 0, 1, t->feed, &line, &slot);
    int computed = status == TRI_OK &&
                   t->program[0]->instr[line].op != TRI_OP_wait; /* it did not come from another rank */
    if (status == TRI_OK)
        status = computed ? tri__fail(TRI_NOTFINITE, "%s", t->program[0]->slot[slot].name)
                          : tri_barrier(tri_group_world(world));
    tri__exec_close(exec);
    return status;
}

/* A number that is none on one rank: no rank updates, and all learn from that one where it came from. */
TEST(bad_numbers_are_everyones) {
    job j;
    job_open(&j, 3, 1, (tri_sharding){0});
    assert_int_equal(tri_ranks_run(&(tri_ranks){.n = 3, .heap_bytes = HEAP}, spoiled_main, &j), TRI_NOTFINITE);
    if (!strstr(tri_error(), "primary.layer.1")) fail_msg("said: %s", tri_error());
    job_close(&j);
}

/* A hybrid's parts must divide the replicas. */
TEST(refusals) {
    tiny t;
    tiny_open(&t, "cpu", 1, 0, 0, 1);
    t.in.mesh.dp = 4, t.in.sharding = (tri_sharding){.kind = TRI_SHARD_HYBRID, .size = 3};
    assert_int_equal(tri__plan(&t.arena, &t.in, 1, &t.plan), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--shard-size 3"));
    tiny_close(&t);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
