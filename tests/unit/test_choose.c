/* test_choose.c - the search for layouts: the same for any number of threads, and as an enumeration; layouts as options
 * and back. tests/cli/cli_choose.sh has the command. */
#include "engine/staging.h"
#include "settings/settings.h"
#include "study/choose/choose.h"
#include "study/choose/choose_parts.h"

#include <math.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define OK(call) assert_int_equal_or_say((call), __LINE__)
static void assert_int_equal_or_say(tri_status status, int line) {
    if (status != TRI_OK) fail_msg("line %d: status %d: %s", line, status, tri_error());
}

/* A model of two tiny encoders on `hardware`. */
static void open_settings(tri_settings *s, int n, const char *const *more) {
    static const char *const args[] = {"--primary_text_name", "a",  "--secondary_text_name", "b", "--label_name", "y",
                                       "--primary_tokenizer", "bert-base-cased", "--hidden_common_dim", "8",
                                       "--fusion_hidden_dim", "8",  "--max_sen_len", "16", "--tiny",
                                       "--hardware", "cpu", "--offload", "none", "--global-batch-size", "8"};
    enum { GIVEN = sizeof args / sizeof *args };
    const char *all[GIVEN + 16];
    int words = 0;
    memcpy(all, args, sizeof args);
    memcpy(all + GIVEN, more, (size_t)n * sizeof *more);
    OK(tri__settings_init(s));
    OK(tri__settings_parse(s, "choose", GIVEN + n, all, NULL, 0, &words));
}

static void choose(const tri_settings *s, int world, const tri_choose_options *how, tri_chooser *chooser,
                   tri_choice *out) {
    tri_log silent = {0};
    OK(tri__chooser_open(s, 0, &silent, NULL, NULL, chooser));
    OK(tri__choose(chooser, world, 8, how, out));
}

static void same_choice(const tri_choice *a, const tri_choice *b) {
    assert_int_equal(a->n_best, b->n_best);
    for (int i = 0; i < a->n_best; i++) {
        assert_int_equal(a->best[i].index, b->best[i].index);
        assert_memory_equal(&a->best[i].layout, &b->best[i].layout, sizeof a->best[i].layout);
        assert_true(a->best[i].seconds == b->best[i].seconds);
        assert_int_equal(a->best[i].need, b->best[i].need);
    }
}

TEST(test_threads) {
    static const char *const more[] = {"--recompute", "none", "--schedule", "1f1b"};
    tri_settings s;
    tri_chooser chooser[3];
    tri_choice choice[3];
    const tri_choose_options how[] = {{.top = 10, .threads = 1}, {.top = 10, .threads = 4},
                                      {.top = 10, .exhaustive = 1}};
    open_settings(&s, 4, more);
    for (int i = 0; i < 3; i++) choose(&s, 4, &how[i], &chooser[i], &choice[i]);
    same_choice(&choice[0], &choice[1]);
    assert_int_equal(choice[0].simulated, choice[1].simulated);
    same_choice(&choice[0], &choice[2]);
    assert_int_equal(choice[2].bounds_broken, 0);
    assert_true(choice[0].simulated < choice[2].simulated);
    for (int i = 0; i < 3; i++) tri__chooser_close(&chooser[i]);
    tri__settings_free(&s);
}

/* A limit leaves layouts, and says so; without one nothing is left. */
TEST(test_limit) {
    static const char *const more[] = {"--recompute", "none"};
    tri_settings s;
    tri_chooser chooser;
    tri_choice choice;
    open_settings(&s, 2, more);
    choose(&s, 4, &(tri_choose_options){.top = 10, .limit = 3}, &chooser, &choice);
    assert_int_equal(choice.simulated + choice.unfit, 3);
    assert_true(choice.left > 0);
    tri__chooser_close(&chooser);
    tri__settings_free(&s);
}

/* An option of a layout, read as a run would, is what its settings have. */
static tri_status expect_option(void *context, const char *key, const char *value) {
    const tri_option *row = tri__option_find(tri__run_options, key);
    tri_settings given;
    OK(tri__settings_init(&given));
    OK(tri__option_set_text(row, &given, key, value));
    tri_json *want = tri__option_json(row, &given), *have = tri__option_json(row, context);
    assert_true(want && have && tri__json_equal(want, have));
    tri__json_decref(want), tri__json_decref(have);
    tri__settings_free(&given);
    return TRI_OK;
}

TEST(test_layout) {
    const tri_layout layout = {.pp = 2,
                               .tp = 1,
                               .cp = 1,
                               .dp = 4,
                               .order = 1,
                               .shard = TRI_SHARD_HYBRID,
                               .shard_size = 2,
                               .schedule = TRI_SCHEDULE_INTERLEAVED,
                               .shape = TRI_SHAPE_ASKED_CHAIN,
                               .chunks = 3,
                               .recompute = TRI_RECOMPUTE_FULL,
                               .n_mb = 4,
                               .precision = TRI_PRECISION_BF16,
                               .offload = TRI_OFFLOAD_OPTIMIZER | TRI_OFFLOAD_PARAMS};
    tri_settings s;
    tri_layout_settings read;
    char text[TRI_LAYOUT_TEXT];
    OK(tri__settings_init(&s));
    tri__layout_settings(&layout, &s, 62, &read);
    assert_int_equal(read.settings.pp_size, 2);
    assert_int_equal(read.settings.batch_size, 16);
    assert_string_equal(read.settings.mesh_order, "pp,dp,tp");
    assert_int_equal(read.settings.offload.n, 2);
    assert_string_equal(read.settings.offload.at[1], "params");
    OK(tri__layout_options(&layout, 1, NULL, expect_option, &read.settings));
    assert_string_equal(tri__layout_text(&layout, text),
                        "dp 4 x pp 2, order pp,dp,tp, hybrid of 2, interleaved, chain x 3, 4 microbatches, "
                        "recompute full, offload optimizer,params, bf16");
    tri__settings_free(&s);
}

TEST(test_why) {
    const tri_candidate best = {.layout = {.pp = 1, .tp = 1, .cp = 1, .dp = 8, .n_mb = 1},
                                .seconds = 1,
                                .computing = 0.9,
                                .exposed = 0.05,
                                .waiting = 0.05};
    tri_candidate slow = {.layout = {.pp = 4, .tp = 1, .cp = 1, .dp = 2, .n_mb = 4}, .seconds = 1.5, .computing = 0.9,
                          .exposed = 0.1, .waiting = 0.5};
    char why[TRI_WHY_TEXT];
    assert_string_equal(tri__choose_why(&best, &slow, why), "4 microbatches in a pipeline of 4 leave a bubble of 33 %");
    slow.layout = (tri_layout){.pp = 1, .tp = 1, .cp = 1, .dp = 8, .n_mb = 1, .shard = TRI_SHARD_ZERO3};
    slow.exposed = 0.5, slow.waiting = 0.1, slow.sent = 1 << 20;
    assert_string_equal(tri__choose_why(&best, &slow, why),
                        "gathers of sharded weights are exposed for 500 ms (1.0 MiB sent a step)");
    slow.layout.recompute = TRI_RECOMPUTE_FULL;
    slow.computing = 1.35, slow.exposed = slow.waiting = 0.075;
    assert_string_equal(tri__choose_why(&best, &slow, why), "50 % more computing: activations are recomputed");
    slow.seconds = 1.0001;
    assert_string_equal(tri__choose_why(&best, &slow, why), "takes the same time");
}

/* Two machines of two ranks and a slow link between them. */
static const char slow_link[] =
    "{\"device\": \"cpu\", \"f32_flops\": 2e10, \"half_flops\": 2e10, \"attention_share\": 0.5, "
    "\"memory_bytes_per_s\": 1e10, \"copy_bytes_per_s\": 1e10, \"launch_seconds\": 1e-6, \"ranks_per_node\": 2, "
    "\"near_latency\": 1e-6, \"near_bytes_per_s\": 5e9, \"far_latency\": 1e-4, \"far_bytes_per_s\": 1e7, "
    "\"overlap\": true}";

static const char *hardware_file(void) {
    static char path[256];
    snprintf(path, sizeof path, "%s/test_choose.%d.json", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(slow_link, file);
    fclose(file);
    return path;
}

/* Where links bind, ways to send less stand apart: the choice itself stays exact, and is the same with and without. */
TEST(test_proposals) {
    const char *const slow[] = {"--hardware", hardware_file(), "--recompute", "none", "--pp-size", "1", "--tp-size",
                                "1"};
    tri_settings s;
    tri_chooser chooser[2];
    tri_choice with, without;
    open_settings(&s, 8, slow);
    choose(&s, 4, &(tri_choose_options){.top = 4, .propose = 1}, &chooser[0], &with);
    choose(&s, 4, &(tri_choose_options){.top = 4}, &chooser[1], &without);
    same_choice(&with, &without);
    assert_int_equal(without.n_coded, 0);
    assert_int_equal(with.n_coded, 3);
    for (int i = 0; i < with.n_coded; i++) {
        const tri_coded_choice *c = &with.coded[i];
        assert_true(c->of.seconds * 1.05 <= with.best[0].seconds);
        assert_true(i == 0 || c->of.seconds >= with.coded[i - 1].of.seconds);
        assert_true(c->of.sent < with.best[0].sent);
    }
    double exact = without.best[0].seconds;
    for (int i = 0; i < 2; i++) tri__chooser_close(&chooser[i]);
    s.compress_gradients = 2; /* asked for: nothing else is proposed */
    choose(&s, 4, &(tri_choose_options){.top = 4, .propose = 1}, &chooser[0], &with);
    assert_int_equal(with.n_coded, 0);
    assert_true(with.best[0].seconds < exact);
    tri__chooser_close(&chooser[0]);
    tri__settings_free(&s);
    const char *const fast[] = {"--recompute", "none", "--pp-size", "1", "--tp-size", "1"};
    open_settings(&s, 6, fast); /* memory of one machine does not bind */
    choose(&s, 4, &(tri_choose_options){.top = 4, .propose = 1}, &chooser[0], &with);
    assert_int_equal(with.n_coded, 0);
    tri__chooser_close(&chooser[0]);
    tri__settings_free(&s);
    remove(slow[1]);
}

/* ---- many microbatches, from few ---- */

static int close_to(double a, double b) { return fabs(a - b) <= 1e-7 * fabs(b); }

/* Plans and simulates every rank and every microbatch. */
static void plan_whole(const tri_chooser *chooser, const tri_layout_trial *t, tri_timeline *line, tri_arena *arena,
                       int64_t bytes[static TRI_MEM_COUNT]) {
    tri_layout_settings settings;
    tri_plan_in in;
    tri_classes all[TRI_PROGRAMS];
    OK(tri__layout_input(chooser, &t->of.layout, t->global_batch, &t->rows.max, arena, &settings, &in));
    OK(tri__plan_kinds(arena, &in, 1, 1u << TRI_TRAIN, all));
    const tri_costs costs = tri__staging_costs(arena, &in, &chooser->hardware);
    OK(tri__timeline(arena, &all[TRI_TRAIN], &costs, line));
    for (int rank = 0; rank < all[TRI_TRAIN].world; rank++) {
        const tri_program *p = tri__class_of(&all[TRI_TRAIN], rank, NULL)->program;
        for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
            if (p->bytes[mem] > bytes[mem]) bytes[mem] = p->bytes[mem];
    }
}

/* The figures of layouts with many microbatches are those of planning all of them. */
TEST(test_rounds) {
    enum { MANY = 40, GLOBAL = 8 * MANY };
    static const char *const more[] = {"--hardware", "h200x8"};
    static const tri_layout layouts[] = {
        {.pp = 1, .tp = 1, .dp = 4},
        {.pp = 1, .tp = 1, .dp = 4, .shard = TRI_SHARD_ZERO3},
        {.pp = 1, .tp = 2, .dp = 4, .shard = TRI_SHARD_ZERO1, .recompute = TRI_RECOMPUTE_SELECTIVE},
        {.pp = 1, .tp = 4, .dp = 2, .shard = TRI_SHARD_ZERO2, .precision = TRI_PRECISION_BF16},
        {.pp = 1, .tp = 2, .dp = 8, .shard = TRI_SHARD_HYBRID, .shard_size = 2, .order = 1},
        {.pp = 2, .tp = 1, .dp = 2, .shape = TRI_SHAPE_ASKED_BRANCH, .schedule = TRI_SCHEDULE_1F1B},
        {.pp = 2, .tp = 2, .dp = 1, .shape = TRI_SHAPE_ASKED_BRANCH, .schedule = TRI_SCHEDULE_ZB_H1},
        {.pp = 4, .tp = 1, .dp = 2, .shape = TRI_SHAPE_ASKED_CHAIN, .schedule = TRI_SCHEDULE_1F1B,
         .shard = TRI_SHARD_ZERO1, .recompute = TRI_RECOMPUTE_SELECTIVE},
        {.pp = 2, .tp = 1, .dp = 1, .shape = TRI_SHAPE_ASKED_CHAIN, .schedule = TRI_SCHEDULE_INTERLEAVED, .chunks = 2},
        {.pp = 2, .tp = 1, .dp = 2, .shape = TRI_SHAPE_ASKED_CHAIN, .schedule = TRI_SCHEDULE_ZBV},
        {.pp = 2, .tp = 1, .dp = 2, .shape = TRI_SHAPE_ASKED_CHAIN, .schedule = TRI_SCHEDULE_GPIPE},
    };
    enum { LAYOUTS = sizeof layouts / sizeof *layouts };
    tri_log silent = {0};
    tri_settings s;
    tri_chooser chooser;
    int shorter = 0;
    open_settings(&s, 2, more);
    OK(tri__chooser_open(&s, 0, &silent, NULL, NULL, &chooser));
    tri_bounds *bounds = tri__bounds_open(&chooser.arena, &chooser, GLOBAL, 1);
    for (int i = 0; i < LAYOUTS; i++) {
        tri_layout_trial t = {.chooser = &chooser, .room = {.bytes = INT64_MAX, .by = {1, 1}}, .global_batch = GLOBAL,
                              .of = {.layout = layouts[i]}};
        tri_arena arena;
        tri_timeline line;
        int64_t bytes[TRI_MEM_COUNT] = {0};
        char text[TRI_LAYOUT_TEXT];
        t.of.layout.cp = 1, t.of.layout.n_mb = MANY;
        OK(tri__bounds_rows(bounds, &t.of.layout, &t.rows));
        tri__layout_try(&t, 0);
        OK(t.status);
        OK(tri__arena_open(&arena, TRI_PLAN_ARENA));
        plan_whole(&chooser, &t, &line, &arena, bytes);
        tri__layout_text(&t.of.layout, text);
        if (!close_to(t.of.seconds, line.mean)) fail_msg("%s: %.9g s, not %.9g", text, t.of.seconds, line.mean);
        for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
            if (t.of.bytes[mem] > bytes[mem])
                fail_msg("%s: %lld bytes of %s, not %lld", text, (long long)t.of.bytes[mem],
                         tri__mem_name((tri_mem)mem), (long long)bytes[mem]);
        assert_int_equal(t.of.bytes[TRI_MEM_ACT], bytes[TRI_MEM_ACT]);
        shorter += t.planned < MANY / 2;
        tri__arena_close(&arena);
    }
    /* in three the loss of each microbatch takes some bytes, or stages are not in step yet; gpipe keeps all */
    if (shorter < LAYOUTS - 4) fail_msg("only %d of %d layouts were found from few microbatches", shorter, LAYOUTS);
    tri__chooser_close(&chooser);
    tri__settings_free(&s);
}

/* ---- searches that end early ---- */

static void count_rounds(void *context, const tri_choice *so_far) {
    int *rounds = context;
    rounds[so_far->n_best > 0]++;
}

/* A deadline that is over, and a signal: what was found so far, said to be partial. */
TEST(test_early) {
    static const char *const more[] = {"--recompute", "none"};
    tri_settings s;
    tri_chooser chooser;
    tri_choice choice;
    tri_stop stop = {0};
    tri_log silent = {0};
    int rounds[2] = {0};
    open_settings(&s, 2, more);
    OK(tri__chooser_open(&s, 0, &silent, &stop, NULL, &chooser));
    const tri_choose_options late = {.top = 10, .deadline = 1e-9, .progress = count_rounds, .context = rounds};
    OK(tri__choose(&chooser, 4, 8, &late, &choice));
    assert_int_equal(choice.ended, TRI_CHOOSE_DEADLINE);
    assert_true(choice.n_best > 0 && choice.left > 0);
    assert_int_equal(rounds[1], 1); /* the first round that found something is the last */
    OK(tri__choose(&chooser, 4, 8, &(tri_choose_options){.top = 10}, &choice));
    assert_int_equal(choice.ended, TRI_CHOOSE_WHOLE);
    atomic_store(&stop.signal, 2);
    assert_int_equal(tri__choose(&chooser, 4, 8, &(tri_choose_options){.top = 10, .keeps = 1}, &choice), TRI_STOPPED);
    assert_int_equal(tri__choose(&chooser, 4, 8, &(tri_choose_options){.top = 10}, &choice), TRI_STOPPED);
    tri__chooser_close(&chooser);
    tri__settings_free(&s);
}

/* With options that send less, the search still finds what an enumeration finds. */
TEST(test_coded_bounds) {
    static const char *const ways[][2] = {{"--compress-gradients", "int8"}, {"--compress-gradients", "bf16"},
                                          {"--optimizer", "onebit-adam"}, {"--sync-every", "4"},
                                          {"--compress-weights", "int8"}, {"--reshard-after-forward", "yes"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *const more[] = {"--hardware", hardware_file(), "--recompute", "none", "--schedule", "1f1b",
                                    "--tp-size", "1", "--num-microbatches", "2", ways[i][0], ways[i][1]};
        tri_settings s;
        tri_chooser chooser[2];
        tri_choice searched, all;
        open_settings(&s, 12, more);
        choose(&s, 4, &(tri_choose_options){.top = 10}, &chooser[0], &searched);
        choose(&s, 4, &(tri_choose_options){.top = 10, .exhaustive = 1}, &chooser[1], &all);
        same_choice(&searched, &all);
        assert_int_equal(all.bounds_broken, 0);
        for (int k = 0; k < 2; k++) tri__chooser_close(&chooser[k]);
        tri__settings_free(&s);
        remove(more[1]);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
