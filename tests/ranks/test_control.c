/* test_control.c - the control all-reduce of each step: its instruction in programs of every mesh, the checker's
 * messages when it is broken, its sums, its simulated time, and a run that one rank is asked to stop. */
#include "tests/lib/test.h"
#include "tests/lib/session_data.h"
#include "tests/lib/tensor_job.h"

#include "tests/lib/program_text.h"
#include "sim/timeline.h"
#include "train/run.h"

enum { HEAP = 4 << 20 };

/* ---- In programs ---- */

/* Lines of a program that name the control, without their numbers; the caller frees them. */
static char *control_lines(const tri_program *p) {
    char *text, *out = calloc(1, 4096), *save = NULL;
    OK(tri__program_text(p, &text));
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (!strstr(line, "control")) continue;
        strcat(out, line + strspn(line, "0123456789"));
        strcat(out, "\n");
    }
    free(text);
    return out;
}

TEST(one_in_each_program) {
    static const struct {
        job_what layout;
        const char *axes;
    } cases[] = {{{.dp = 2}, "dp"},
                 {{.pp = 2, .n_mb = 2}, "pp"},
                 {{.tp = 2}, "tp"},
                 {{.dp = 4, .sharding = {.kind = TRI_SHARD_HYBRID, .size = 2}}, "dp"},
                 {{.dp = 4, .sharding.kind = TRI_SHARD_ZERO1, .precision = TRI_BF16}, "dp"},
                 {{.pp = 2, .dp = 2, .n_mb = 2, .precision = TRI_F16}, "pp+dp"},
                 {{.pp = 2, .tp = 2, .dp = 2, .n_mb = 2}, "pp+tp+dp"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job j;
        char want[512];
        job_open(&j, cases[i].layout);
        snprintf(want, sizeof want,
                 "slot control host f64 [1,5] @0\n control_post         control id=1278414279 axes=%s\n"
                 " wait                 control <- _\n",
                 cases[i].axes);
        for (int r = 0; r < j.n; r++) {
            const tri_program *p = j.rank[r].program[0];
            int post = tri__exec_control_of(p), wait = tri__transfer_wait_of(p, post);
            char *train = control_lines(p), *infer = control_lines(j.rank[r].program[1]);
            assert_string_equal(train, want);
            assert_string_equal(infer, "");
            assert_int_equal(post, j.rank[r].plan.train.update); /* before all that the update waits for */
            assert_int_equal(wait, p->n_instrs - 1);
            free(train), free(infer);
        }
        job_close(&j);
    }
}

TEST(none_for_one_rank) {
    job j;
    job_open(&j, (job_what){.n_mb = 2});
    assert_int_equal(tri__exec_control_of(j.rank[0].program[0]), -1);
    assert_int_equal(j.rank[0].program[0]->bytes[TRI_MEM_HOST], 0);
    job_close(&j);
}

/* ---- Written by hand ---- */

static const char text_of_rank[] =
    "program told\nmesh pp=1 tp=1 dp=4 rank=%d microbatches=1\nmax T0=0 T1=0 N=0 Q0=0 Q1=0\n"
    "bytes act=64 result=64 host=64\n"
    "slot control host f64 [1,5] @0\nslot sum result f64 [1,5] @0\nslot c act f64 [1,1] @0\n"
    "0 control_post control id=1 axes=dp\n"
    "1 input c field=12\n"
    "2 wait control <- _\n";

/* With `find` replaced; NULL: as it is. */
static const tri_program *parse(tri_arena *arena, int rank, const char *find, const char *put) {
    return program_text_parse(arena, "told", tri__arena_print(arena, text_of_rank, rank), find, put);
}

/* Each on rank 2 alone, or on all ranks. */
TEST(breaks_are_named) {
    static const struct {
        int all;
        const char *find, *put, *words;
    } cases[] = {
        {0, "0 control_post control id=1 axes=dp\n", "", "no transfer of these slots"},
        {0, "2 wait control <- _\n", "", "never waited for"},
        {0, "0 control_post control id=1 axes=dp\n1 input c field=12\n2 wait control <- _\n", "1 input c field=12\n",
         "rank 2 has ended"},
        {0, "control id=1", "control id=2", "do not fit together"},
        {0, "2 wait control <- _\n", "2 wait control <- _\n3 control_post control id=1 axes=dp\n4 wait control <- _\n",
         "rank 0 has ended"},
        {1, "axes=dp", "axes=dp within=2", "control is not exchanged among all ranks"},
        {1, "control host f64 [1,5]", "control result f64 [1,5]", "control is not a record in the host's memory"},
        {1, "control host f64 [1,5]", "control host f64 [1,4]", "control is not a record in the host's memory"},
        {1, "control host f64 [1,5]", "control host f32 [1,5]", "wrong element type"},
        {1, "0 control_post", "0 all_reduce_post", "which all_reduce_post cannot access"},
        {1, "1 input c field=12", "1 input control field=12", "which input cannot access"},
        {1, "1 input c field=12", "1 control_post control id=2 axes=dp", "before the transfer posted at"},
    };
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 28));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tri_program *ranks[4];
        for (int r = 0; r < 4; r++)
            ranks[r] = parse(&arena, r, cases[i].all || r == 2 ? cases[i].find : NULL, cases[i].put);
        if (tri__check(ranks, 4) != TRI_INTERNAL) fail_msg("accepted: \"%s\" for \"%s\"", cases[i].put, cases[i].find);
        if (!strstr(tri_error(), cases[i].words))
            fail_msg("\"%s\" for \"%s\": %s", cases[i].put, cases[i].find, tri_error());
    }
    tri__arena_close(&arena);
}

/* So large and so small that a sum depends on its order. */
static double told(int rank, int column) {
    static const double of[4] = {1, 0x1p60, 3, -0x1p60};
    return of[(rank + column) % 4] + 0x1p-30 * rank;
}

static tri_status expect_sums(const tri_exec *exec, const tri_program *p, int left_out) {
    const double *sum = tri__exec_slot(exec, 0, tri__program_find(p, "control")); /* [1, TRI_TOLD_COUNT] */
    for (int column = 0; column < TRI_TOLD_COUNT; column++) {
        double want = 0;
        for (int rank = 0; rank < 4; rank++) want += rank == left_out ? 0 : told(rank, column);
        if (sum[column] != want) return tri__fail(TRI_DATA, "column %d is %.17g, not %.17g", column, sum[column], want);
    }
    return TRI_OK;
}

static tri_status sum_rank(tri_world *world, void *argument) {
    const tri_program *const *ranks = argument;
    int rank = tri_world_rank(world);
    double own[TRI_TOLD_COUNT], number = 1;
    tri_exec *exec;
    for (int column = 0; column < TRI_TOLD_COUNT; column++) own[column] = told(rank, column);
    tri_feed feed = {.field = {[TRI_FIELD_control] = own, [TRI_FIELD_loss_inv] = &number}};
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = &ranks[rank], .n = 1,
                                            .seed = 1, .world = world}, &exec));
    tri_status status = tri__exec_run(exec, 0, 0, ranks[rank]->n_instrs, 1, &feed, NULL);
    if (status == TRI_OK) status = expect_sums(exec, ranks[rank], -1);
    if (rank == 3) feed.field[TRI_FIELD_control] = NULL;
    if (status == TRI_OK) status = tri__exec_control(exec, 0, &feed); /* alone */
    if (status == TRI_OK) status = expect_sums(exec, ranks[rank], 3);
    tri__exec_close(exec);
    return status;
}

TEST(sums_in_the_order_of_ranks) {
    tri_arena arena;
    const tri_program *ranks[4];
    OK(tri__arena_open(&arena, (size_t)1 << 28));
    for (int r = 0; r < 4; r++) ranks[r] = parse(&arena, r, NULL, NULL);
    OK(tri__check(ranks, 4));
    OK(tri_ranks_run(&(tri_ranks){.n = 4, .heap_bytes = HEAP}, sum_rank, ranks));
    tri__arena_close(&arena);
}

/* A small all-reduce on the links there are, on every rank at the same time. */
TEST(takes_time_in_simulations) {
    const tri_hardware hardware = {.f32 = 1e12, .half = 1e12, .attention = 1, .bytes = 1e12, .copy = 1e12,
                                   .launch = 1e-6, .ranks_per_node = 4, .near = {1e-3, 1e9}, .far = {1, 1},
                                   .overlap = 1};
    const int members[] = {0, 1, 2, 3};
    const tri_program *train[4];
    tri_classes all;
    tri_timeline line;
    job j;
    job_open(&j, (job_what){.dp = 2, .pp = 2, .n_mb = 2});
    for (int r = 0; r < 4; r++) train[r] = j.rank[r].program[0];
    OK(tri__classes_list(&all, &j.rank[0].arena, train, 4));
    OK(tri__timeline(&j.rank[0].arena, &all, &(tri_costs){.hardware = &hardware}, &line));
    double seconds = tri__transfer_seconds(&hardware, TRI_ALL_REDUCE, members, 4, 40);
    assert_true(seconds >= 4e-3 && seconds < 5e-3); /* four latencies */
    for (int r = 0; r < 4; r++) {
        int post = tri__exec_control_of(train[r]);
        const tri_rank_timeline *rank = tri__timeline_of(&line, r), *first = tri__timeline_of(&line, 0);
        assert_true(fabs(rank->end[post] - rank->begin[post] - seconds) < 1e-12);
        assert_true(rank->begin[post] == first->begin[tri__exec_control_of(train[0])]);
    }
    job_close(&j);
}

/* ---- A stop ---- */

enum { ASKED_AFTER = 5, RANKS = 4 };

/* One rank of a run. */
typedef struct watcher {
    tri_stop stop;
    int asks;        /* 1: this rank is asked to stop when step ASKED_AFTER is taken */
    int64_t steps;   /* TRAIN events so far */
    int64_t last;    /* step of the last */
    double flops;    /* of the last */
    tri_status got;
    char words[256];
} watcher;

typedef struct stopped_run {
    const char *mesh; /* an option */
    const char *output;
    watcher rank[RANKS];
} stopped_run;

static tri_status watch(void *context, const tri_event *event) {
    watcher *w = context;
    if (event->kind != TRI_EVENT_TRAIN) return TRI_OK;
    w->steps++, w->last = event->step, w->flops = event->flops;
    if (w->asks && event->step == ASKED_AFTER) atomic_store(&w->stop.signal, 15);
    return TRI_OK;
}

static tri_status train_watched(tri_world *world, const stopped_run *run, watcher *w) {
    char config[128], data[128], models[128], out[160];
    const char *options[] = {config, data, models, out, run->mesh, "--epochs=2", "--threads=1", "--resume=never"},
               *word;
    int n_words = 0;
    tri_settings settings;
    snprintf(config, sizeof config, "--config=%s/config.json", root);
    snprintf(data, sizeof data, "--data-path=%s", root);
    snprintf(models, sizeof models, "--models-dir=%s", root);
    snprintf(out, sizeof out, "--output-dir=%s/%s", root, run->output);
    tri_status status = tri__settings_init(&settings);
    if (status == TRI_OK) status = tri__settings_parse(&settings, "train", 8, options, &word, 1, &n_words);
    if (status == TRI_OK && world)
        status = tri__settings_launched(&settings, tri_world_size(world), tri_world_size(world));
    if (status == TRI_OK) status = tri__run_adopt(&settings);
    if (status == TRI_OK)
        status = tri__run_train(&settings, world, &(tri_sink){.emit = watch, .context = w}, &w->stop);
    tri__settings_free(&settings);
    return status;
}

static tri_status stopped_rank(tri_world *world, void *argument) {
    stopped_run *run = argument;
    watcher *w = &run->rank[world ? tri_world_rank(world) : 0];
    w->got = train_watched(world, run, w);
    snprintf(w->words, sizeof w->words, "%s", tri_error());
    return w->got == TRI_STOPPED ? TRI_OK : w->got;
}

static void expect_stop(const stopped_run *run, int ranks, int64_t step) {
    char words[64], path[160];
    snprintf(words, sizeof words, "stopped at step %lld of 18", (long long)step);
    for (int r = 0; r < ranks; r++) {
        const watcher *w = &run->rank[r];
        if (w->got != TRI_STOPPED || !strstr(w->words, words)) fail_msg("rank %d: %d: %s", r, (int)w->got, w->words);
        assert_int_equal(w->last, step);
        assert_int_equal(w->steps, step); /* every step was told, none twice */
        assert_true(w->flops > 0 && w->flops == run->rank[0].flops);
    }
    snprintf(path, sizeof path, "%s/%s/checkpoint-%lld/manifest.json", root, run->output, (long long)step);
    assert_true(tri__is_file(path));
}

/* The step after the one in which it was asked for is the last, for all. Where nobody has to be told: that one. */
TEST_IN(stops_all_ranks_one_step_later, make_data, remove_data) {
    static const struct {
        int ranks, asked;
        const char *mesh;
    } cases[] = {{2, 1, "--dp-size=2"}, {4, 3, "--dp-size=4"}, {4, 2, "--pp-size=2"}, {4, 0, "--tp-size=2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stopped_run run = {.mesh = cases[i].mesh, .output = "stopped"};
        run.rank[cases[i].asked].asks = 1;
        tri_ranks how = {.n = cases[i].ranks, .heap_bytes = 16 << 20, .progress_timeout = 60};
        OK(tri_ranks_run(&how, stopped_rank, &run));
        expect_stop(&run, cases[i].ranks, ASKED_AFTER + 1);
    }
    stopped_run one = {.mesh = "--dp-size=1", .output = "stopped_one", .rank[0].asks = 1};
    OK(stopped_rank(NULL, &one));
    expect_stop(&one, 1, ASKED_AFTER);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
