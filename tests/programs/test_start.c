/* test_start.c - the start program: its texts, and those of the exchange for averaged weights (test_average.c); for
 * every layout the ranks' programs match, can be simulated, and compute from the masters bitwise the weights of one
 * rank; it is empty in fp32 (prediction with fewer bits: test_served.c); programs that differ between ranks or lack a
 * wait are refused. Ranks are threads. */
#include "tests/lib/test.h"
#include "tests/lib/tensor_job.h"

#include "program/transfer.h"
#include "tests/lib/program_text.h"
#include "sim/timeline.h"

/* ---- Texts ---- */

TEST(golden_programs) {
    static const struct {
        const char *name;
        job_what is;
    } cases[] = {
        {"bf16", {.precision = TRI_BF16}},
        {"zero1-fp32", {.dp = 4, .sharding.kind = TRI_SHARD_ZERO1}},
        {"zero1-bf16", {.dp = 4, .sharding.kind = TRI_SHARD_ZERO1, .precision = TRI_BF16}},
        {"zero2-fp32", {.dp = 4, .sharding.kind = TRI_SHARD_ZERO2}},
        {"zero2-bf16", {.dp = 4, .sharding.kind = TRI_SHARD_ZERO2, .precision = TRI_BF16}},
        {"zero3-bf16", {.dp = 4, .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1}, .precision = TRI_BF16}},
        {"hybrid-bf16", {.dp = 4, .sharding = {.kind = TRI_SHARD_HYBRID, .size = 2}, .precision = TRI_BF16}},
        {"tp2-dp2-bf16", {.tp = 2, .dp = 2, .sharding.kind = TRI_SHARD_ZERO1, .precision = TRI_BF16}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job_what is = cases[i].is;
        tiny t[2];
        char path[64];
        is.texts = 1, is.no_table = 1;
        job_filled(&is);
        int n = is.tp * is.dp > 1 ? 2 : 1;
        for (int r = 0; r < n; r++) job_plan(&t[r], &is, r * (is.tp * is.dp - 1)); /* the first and the last */
        snprintf(path, sizeof path, "tests/programs/start-%s.txt", cases[i].name);
        program_text_check(path, (const tri_program *[]){t[0].plan.start, n > 1 ? t[1].plan.start : NULL}, n);
        for (int r = 0; r < n; r++) tiny_close(&t[r]);
    }
}

/* Averages, and the anchor of local steps. */
TEST(golden_exchanges) {
    static const tri_dtype types[] = {TRI_F32, TRI_BF16};
    for (int i = 0; i < 4; i++) {
        int local = i / 2;
        job_what is = {.dp = 2, .texts = 1, .no_table = 1, .precision = types[i % 2],
                       .sharding.kind = local ? TRI_SHARD_NONE : TRI_SHARD_ZERO1,
                       .average = local ? TRI_AVERAGE_NONE : TRI_AVERAGE_EMA, .sync_every = local ? 4 : 1};
        tiny t;
        char path[64];
        job_filled(&is);
        job_plan(&t, &is, 1);
        snprintf(path, sizeof path, "tests/programs/exchange-%s-%s.txt", local ? "local" : "zero1",
                 i % 2 ? "bf16" : "fp32");
        program_text_check(path, (const tri_program *[]){t.plan.exchange, t.plan.start}, 2);
        tiny_close(&t);
    }
}

/* ---- What comes of it ---- */

/* Whether a unit's weights are those of the model, rounded to 16 bits. */
static int is_rounded(const tiny *t, const tri_exec *exec, int unit) {
    const tri_planned *train = &t->plan.train;
    tri_range held = train->param_part[unit];
    const uint16_t *got = tri__exec_slot(exec, TRI_TRAIN, train->param[unit]); /* [held] */
    size_t bytes = (size_t)tri__range_count(held) * sizeof *got;
    uint16_t *want = malloc(bytes + 1); /* [held] */
    memcpy(want, got, bytes);           /* what is between parameters */
    for (int i = t->plan.model->unit[unit].first; i < t->plan.model->unit[unit].first + t->plan.model->unit[unit].n;
         i++)
        job_fill(&t->plan.model->param[i], held, t->in.precision, want);
    int same = memcmp(want, got, bytes) == 0;
    free(want);
    return same;
}

/* Runs in the rank's own thread, where nothing may be asserted. */
static tri_status start_main(tri_world *world, void *argument) {
    job *j = argument;
    int rank = world ? tri_world_rank(world) : 0;
    tiny *t = &j->rank[rank];
    int64_t bytes;
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = TRI_PROGRAMS,
                                            .seed = 7, .guard = TINY_GUARD, .world = world}, &exec));
    tiny_guards(exec, 1);
    tri_status status = TRI_OK;
    for (int again = 0; again < 2 && status == TRI_OK; again++) { /* as after a resume: what was there does not count */
        void *weights = tri__exec_memory(exec, TRI_MEM_PARAM, &bytes);
        memset(weights, 0xFF, (size_t)bytes);
        job_init(t, exec);
        status = tiny_start(t, exec);
        for (int unit = 0; unit < t->plan.model->n_units && status == TRI_OK; unit++)
            if (t->in.precision != TRI_F32 && !is_rounded(t, exec, unit))
                status = tri__fail(TRI_INTERNAL, "rank %d has other weights of %s", rank,
                                   t->plan.model->unit[unit].name);
    }
    if (status == TRI_OK && !tiny_guards(exec, 0)) status = tri__fail(TRI_INTERNAL, "rank %d wrote too far", rank);
    tri__exec_close(exec);
    return status;
}

static void expect_start(const job_what *is) {
    job j;
    job_open(&j, *is); /* which checks all ranks' programs */
    tri_status status = j.n == 1 ? start_main(NULL, &j)
                                 : tri_ranks_run(&(tri_ranks){.n = j.n, .heap_bytes = JOB_HEAP, .progress_timeout = 60},
                                                 start_main, &j);
    if (status != TRI_OK)
        fail_msg("pp %d tp %d dp %d, shard %d, %s: %s", j.is.pp, j.is.tp, j.is.dp, j.is.sharding.kind,
                 tri__dtype_name(j.is.precision), tri_error());
    job_close(&j);
}

TEST(weights_are_those_of_one_rank) {
    static const job_what meshes[] = {{.dp = 1},          {.dp = 3},
                                      {.dp = 8},          {.tp = 2, .sequence = 1},
                                      {.tp = 2, .dp = 2}, {.pp = 2, .dp = 2, .n_mb = 2},
                                      {.pp = 2, .tp = 2, .dp = 2, .n_mb = 2, .sequence = 1}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++)
            for (int wide = 0; wide < 2; wide++) {
                job_what is = meshes[m];
                is.sharding = (tri_sharding){.kind = (tri_shard_kind)kind,
                                             .size = is.dp % 2 ? 1 : 2,
                                             .prefetch = 1,
                                             .wrap = wide ? TRI_WRAP_SIZE : TRI_WRAP_LAYER,
                                             .wrap_min_params = 2000};
                is.precision = wide ? TRI_F16 : TRI_BF16;
                expect_start(&is);
            }
}

/* ---- Where there is nothing to do ---- */

TEST(empty_in_fp32) {
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++)
        for (int train = 0; train < 2; train++) {
            tiny t;
            tri_rank_plan plan;
            tri_program *parsed;
            char *text, *again;
            tiny_open_rank(&t, "cpu", 2, 3, 0, 1,
                           &(tiny_rank){.dp = 4, .rank = 1, .sharding = {.kind = kind, .size = 2}});
            OK(tri__plan(&t.arena, &t.in, train, &plan));
            assert_int_equal(plan.train.program != NULL, train);
            assert_int_equal(plan.start->n_instrs, 0);
            assert_int_equal(tri__program_bytes(plan.start), 0);
            assert_int_equal(plan.exchange->n_instrs, 0);
            assert_int_equal(tri__program_bytes(plan.exchange), 0);
            OK(tri__program_text(plan.start, &text));
            OK(tri__program_parse(&t.arena, "start", text, &parsed));
            OK(tri__program_text(parsed, &again));
            assert_string_equal(text, again);
            free(text), free(again);
            tiny_close(&t);
        }
}

/* Slots of the start program lie where the step has them, and take no more memory there. */
TEST(shares_the_steps_memory) {
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++) {
        tiny t;
        tiny_open_rank(&t, "cpu", 2, 3, 0, 1, &(tiny_rank){.dp = 4, .rank = 3, .sharding = {.kind = kind, .size = 2}});
        t.in.precision = TRI_BF16;
        tiny_plan(&t);
        const tri_program *train = t.plan.train.program, *start = t.plan.start;
        assert_int_equal(start->bytes[TRI_MEM_PARAM], train->bytes[TRI_MEM_PARAM]);
        assert_int_equal(start->bytes[TRI_MEM_STATE], train->bytes[TRI_MEM_STATE]);
        int found = 0;
        for (int s = 0; s < start->n_slots; s++) {
            int of = start->slot[s].mem == TRI_MEM_WORK ? -1 : tri__program_find(train, start->slot[s].name);
            if (start->slot[s].parent >= 0 || of < 0) continue;
            assert_int_equal(start->slot[s].offset, train->slot[of].offset);
            assert_int_equal(start->slot[s].mem, train->slot[of].mem);
            found++;
        }
        assert_int_equal(found, 4 * t.model.n_units); /* weights, master, m and v */
        tiny_close(&t);
    }
}

/* ---- Programs that are wrong ---- */

enum { RANKS = 4 };

static tri_program copy_of(tri_arena *arena, const tri_program *p) {
    tri_program copy = *p;
    size_t bytes = (size_t)p->n_instrs * sizeof *p->instr;
    copy.instr = memcpy(tri__arena_alloc(arena, bytes), p->instr, bytes);
    return copy;
}

static void drop(tri_program *p, int at) {
    memmove(&p->instr[at], &p->instr[at + 1], (size_t)(--p->n_instrs - at) * sizeof *p->instr);
}

/* On each rank, for each all-gather: no wait; no part in it at all; posted before what it sends is written. */
TEST(defects_are_found) {
    job j;
    job_open(&j, (job_what){.dp = RANKS, .sharding.kind = TRI_SHARD_ZERO1, .precision = TRI_BF16});
    tri_arena *arena = &j.rank[0].arena;
    int tried = 0;
    for (int victim = 0; victim < RANKS; victim++) {
        const tri_program *each[RANKS], *was = j.rank[victim].plan.start;
        for (int r = 0; r < RANKS; r++) each[r] = j.rank[r].plan.start;
        OK(tri__check(each, RANKS));
        for (int i = 0; i < was->n_instrs; i++) {
            if (was->instr[i].op != TRI_OP_all_gather_post) continue;
            tri_program silent = copy_of(arena, was), absent = copy_of(arena, was), early = copy_of(arena, was);
            int wait = tri__transfer_wait_of(was, i);
            drop(&silent, wait);
            drop(&absent, wait), drop(&absent, i);
            early.instr[i] = was->instr[0], early.instr[0] = was->instr[i]; /* a cast into what is under way */
            each[victim] = &silent;
            assert_int_equal(tri__check(each, RANKS), TRI_INTERNAL);
            assert_non_null(strstr(tri_error(), "never waited for"));
            each[victim] = &absent;
            assert_int_equal(tri__check(each, RANKS), TRI_INTERNAL);
            each[victim] = &early;
            assert_int_equal(tri__check(each, RANKS), TRI_INTERNAL);
            tried++;
        }
    }
    assert_true(tried >= RANKS * 5);
    job_close(&j);
}

/* ---- Time ---- */

TEST(is_simulated) {
    tri_hardware hardware;
    const tri_costs costs = {.hardware = &hardware};
    double seconds[2];
    for (int half = 0; half < 2; half++) {
        tiny t;
        tri_classes all[TRI_PROGRAMS];
        tri_timeline line;
        tiny_open_rank(&t, "cpu", 2, 3, 0, 1, &(tiny_rank){.dp = 8, .sharding.kind = TRI_SHARD_ZERO2});
        t.in.precision = half ? TRI_BF16 : TRI_F32;
        OK(tri__hardware_open(&t.arena, "a100x8", &hardware));
        OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
        OK(tri__timeline(&t.arena, &all[TRI_START], &costs, &line));
        seconds[half] = line.seconds;
        if (half) assert_true(tri__timeline_of(&line, 0)->moving > 0);
        tiny_close(&t);
    }
    assert_true(seconds[0] == 0 && seconds[1] > 0);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
