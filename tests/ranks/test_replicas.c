/* test_replicas.c - what replicas must agree on although their samples differ: inputs that one of them lacks, ranks and
 * microbatches without samples, class weights, steps that overflow, flipped bits, checkpoints of every sharding
 * strategy. Ranks are threads. */
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"

#include "base/hash.h"

#include <stdatomic.h>

static const char *const shard_option[] = {"--shard=none", "--shard=zero1", "--shard=zero2", "--shard=zero3"};
enum { KINDS = 4 };

static char bare_option[160]; /* the table below */

/* Beside what all tests of sessions have: a table two of three of whose rows have no title, and weights that hardly
 * count one class. */
static int make_more(void **state) {
    char path[128], *text, *config, *next = NULL;
    size_t size;
    if (make_data(state)) return 1;
    snprintf(path, sizeof path, "%s/bare", root);
    snprintf(bare_option, sizeof bare_option, "--data-path=%s", path);
    OK(tri__folder_make(path));
    snprintf(path, sizeof path, "%s/train.csv", root);
    OK(tri__file_read(path, 1 << 20, &text, &size));
    char *bare = calloc(1, size + 1), *to = bare;
    int row = 0;
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next), row++) {
        const char *title = strchr(line, ','), *rest = strchr(title + 1, ',');
        to += row && row % 3 ? sprintf(to, "%.*s,%s\n", (int)(title - line), line, rest) : sprintf(to, "%s\n", line);
    }
    write_file("bare/train.csv", bare);
    snprintf(path, sizeof path, "%s/config.json", root);
    OK(tri__file_read(path, 1 << 20, &config, &size));
    memcpy(strstr(config, "[1.0, 2.0]"), "[0.1, 9.0]", strlen("[0.1, 9.0]"));
    write_file("uneven.json", config);
    free(bare);
    free(text);
    free(config);
    return 0;
}

/* ---- Shares that differ ---- */

static atomic_int
    shares_without; /* steps of a rank that has samples, but no second text; an empty text is [CLS] [SEP] */
static atomic_int shares_empty;   /* steps of a rank without samples */

static tri_status count_shares(run *run, tri_session *s, int rank, int step) {
    (void)run, (void)rank, (void)step;
    int64_t n = 0, tokens = 0;
    for (int part = 0; part < s->batch->parts; part++)
        n += s->batch->part[part].n, tokens += s->batch->part[part].tokens[1];
    shares_without += n > 0 && tokens == 2 * n;
    shares_empty += n == 0;
    return TRI_OK;
}

/* One run on one rank, the others on several, each kind of sharing in turn. */
static void compare_kinds(const run *alone, const int *ranks, int n_ranks, const char *what) {
    char words[96];
    run *one = run_on(alone);
    for (int i = 0; i < n_ranks; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            run many = *alone;
            int n = 0;
            while (many.option[n]) n++;
            many.option[n] = shard_option[kind];
            many.ranks = ranks[i];
            many.before = count_shares;
            snprintf(words, sizeof words, "%s, %d ranks, %s", what, ranks[i], shard_option[kind] + 2);
            run *have = run_on(&many);
            expect_close(one, have, words);
            run_free(have);
        }
    run_free(one);
}

TEST(an_input_may_be_missing_on_one_rank) {
    shares_without = 0;
    compare_kinds(&(run){.steps = 20, .option = {bare_option, "--global-batch-size=4"}}, (const int[]){2, 3}, 2,
                  "titles missing");
    print_message("    %d shares without a second text\n", (int)shares_without);
    assert_true(shares_without > 50);
}

TEST(a_rank_may_have_no_sample) {
    shares_empty = 0;
    compare_kinds(&(run){.steps = 12, .option = {"--global-batch-size=2"}}, (const int[]){3, 4}, 2, "batches of 2");
    print_message("    %d shares without a sample\n", (int)shares_empty);
    assert_int_equal(shares_empty, KINDS * 12 * (1 + 2));
}

/* The divisor is the sum of the whole batch's weights, whoever has the samples of the heavy class. */
TEST(classes_weigh_the_same_everywhere) {
    compare_kinds(&(run){.steps = 12, .config = "uneven.json", .option = {"--global-batch-size=12"}},
                  (const int[]){2, 4}, 2, "class weights 0.1 and 9");
    run *weighted = run_on(&(run){.steps = 12, .option = {"--global-batch-size=12"}});
    run *other = run_on(&(run){.steps = 12, .config = "uneven.json", .option = {"--global-batch-size=12"}});
    assert_true(fabs(weighted->loss[0][11] - other->loss[0][11]) > 1e-3);
    run_free(weighted);
    run_free(other);
}

TEST(parts_of_a_batch_change_no_result) {
    static const struct {
        int ranks;
        const char *parts, *shard;
    } some[] = {{0, "8", "none"}, {2, "1", "none"}, {2, "8", "none"}, {2, "8", "zero2"}, {3, "8", "zero3"}};
    run *one = run_on(&(run){.steps = 18, .option = {"--global-batch-size=24"}});
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        char parts[32], shard[32], what[64];
        snprintf(parts, sizeof parts, "--num-microbatches=%s", some[i].parts);
        snprintf(shard, sizeof shard, "--shard=%s", some[i].shard);
        snprintf(what, sizeof what, "%d ranks, %s parts, %s", some[i].ranks, some[i].parts, some[i].shard);
        run *have = run_on(
            &(run){.ranks = some[i].ranks, .steps = 18, .option = {"--global-batch-size=24", parts, shard}});
        expect_close(one, have, what);
        run_free(have);
    }
    run_free(one);
}

/* ---- 16 bits ---- */

TEST(bf16_follows_fp32) {
    run *one = run_on(&(run){.steps = 50, .option = {"--global-batch-size=12"}});
    static const char *const reduce[] = {"--reduce-dtype=fp32", "--reduce-dtype=bf16"};
    for (int i = 0; i < 2; i++) {
        double worst = 0;
        run *half = run_on(
            &(run){.ranks = 2,
                   .steps = 50,
                   .option = {"--global-batch-size=12", "--shard=zero3", "--precision=bf16", reduce[i]}});
        for (int k = 0; k < 50; k++) worst = fmax(worst, fabs(half->loss[0][k] - one->loss[0][k]));
        print_message("    bf16, %s: losses of 50 steps differ by at most %.2g\n", reduce[i] + 2, worst);
        assert_true(worst < 1e-2 && worst > 0);
        run_free(half);
    }
    run_free(one);
}

/* Masters are shared out, the weights that compute are not: every replica must have got the others' part, also of units
 * that are cut together. */
TEST(sixteen_bit_weights_are_the_masters) {
    static const char *const wrap[] = {"--wrap=layer", "--wrap=size"};
    for (int w = 0; w < 2; w++) {
        run *plain = NULL;
        for (int kind = 0; kind < KINDS; kind++) {
            run *have = run_on(
                &(run){.ranks = 3,
                       .steps = 6,
                       .option = {"--precision=bf16", shard_option[kind], wrap[w], "--wrap-min-params=3000"}});
            if (kind) expect_same_bits(plain, have, shard_option[kind]);
            if (kind) run_free(have);
            else plain = have;
        }
        run_free(plain);
    }
}

/* ---- An overflow ---- */

enum { OVERFLOW = 4 }; /* the step, from 0, at which rank 1 overflows */
static uint64_t before_overflow[RUN_RANKS];
static atomic_int changed, warned;

static tri_status hear(void *context, const tri_event *event) {
    (void)context;
    warned += event->kind == TRI_EVENT_MESSAGE && event->level == TRI_LOG_WARN &&
              strstr(event->text, "step 5: gradients overflow") != NULL;
    return TRI_OK;
}

/* Of all weights, masters and moments that a rank holds. */
static uint64_t hash_held(const tri_session *s) {
    static const tri_mem held[] = {TRI_MEM_PARAM, TRI_MEM_STATE};
    uint64_t hash = 0;
    for (int i = 0; i < 2; i++) {
        int64_t bytes;
        const void *memory = tri__exec_memory(s->engine.exec, held[i], &bytes);
        hash = tri__hash64(hash, memory, (size_t)bytes);
    }
    return hash;
}

/* Only rank 1 has the scale at which its own share overflows; after the step all have the same again. */
static tri_status overflow_once(run *run, tri_session *s, int rank, int step) {
    (void)run;
    uint64_t now = hash_held(s);
    if (step == OVERFLOW) {
        before_overflow[rank] = now;
        if (rank == 0) s->sink = (tri_sink){.emit = hear};
        if (rank == 1) s->at.scale.scale = 0x1p40f;
    }
    if (step == OVERFLOW + 1) {
        changed += before_overflow[rank] != now;
        if (rank == 0 && s->at.scale.scale != 32768)
            return tri__fail(TRI_INTERNAL, "the scale is %g", (double)s->at.scale.scale);
        s->at.scale.scale = 32768;
    }
    if (step == OVERFLOW + 2 && before_overflow[rank] == now)
        return tri__fail(TRI_INTERNAL, "no step was taken after it");
    return TRI_OK;
}

TEST(an_overflow_is_everyones) {
    for (int kind = 0; kind < KINDS; kind++) {
        changed = warned = 0;
        run *have = run_on(&(run){.ranks = 3,
                                  .steps = OVERFLOW + 4,
                                  .option = {"--precision=fp16", shard_option[kind]},
                                  .before = overflow_once});
        assert_int_equal(changed, 0);
        assert_int_equal(warned, 1);
        for (int r = 0; r < 3; r++) assert_int_equal(have->skipped[r], 1);
        assert_true(isfinite(have->norm[0][OVERFLOW - 1]) && !isfinite(have->norm[0][OVERFLOW]) &&
                    isfinite(have->norm[0][OVERFLOW + 1]));
        run_free(have);
    }
}

/* ---- A bit that flips ---- */

/* Rank 1's first weight: of masters where there are any. */
static tri_status flip_a_bit(run *run, tri_session *s, int rank, int step) {
    (void)run;
    uint32_t *weights = s->engine.weights[0].data;
    if (rank == 1 && step == 2) weights[0] ^= 0x1000;
    return TRI_OK;
}

/* One of the weights that compute, where masters are another's: the next update would write it anew, so it is looked
 * for at once. */
static tri_status flip_a_copy(run *run, tri_session *s, int rank, int step) {
    (void)run;
    const tri_engine *e = &s->engine;
    uint16_t *weights = tri__exec_slot(e->exec, e->train, e->plan.train.param[0]);
    if (rank == 1 && step == 2) weights[0] ^= 1;
    return tri__session_compare_replicas(s);
}

TEST(a_flipped_bit_is_found) {
    static const struct {
        int ranks;
        const char *option[3], *words;
        tri_status (*flip)(run *, tri_session *, int, int);
    } some[] = {
        {3,
         {"--shard=none"},
         "step 3: rank 1 holds other weights than the 2 ranks that should hold the same",
         flip_a_bit},
        {4, {"--shard=none", "--precision=bf16"}, "step 3: rank 1 holds other weights than the 3 ranks", flip_a_bit},
        {6, {"--shard=hybrid", "--shard-size=2"}, "step 3: rank 1 holds other weights than the 2 ranks", flip_a_bit},
        {2,
         {"--shard=none"},
         "step 3: rank 0 and others hold different weights where they should be the same, 1 of 2 agree",
         flip_a_bit},
        {3, {"--shard=zero2", "--precision=bf16"}, "step 2: rank 1 holds other weights than the 2 ranks", flip_a_copy},
    };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const char *const *o = some[i].option;
        run *have = calloc(1, sizeof *have);
        *have = (run){.ranks = some[i].ranks,
                      .steps = 8,
                      .option = {"--check-replicas=3", o[0], o[1], o[1] ? o[2] : NULL},
                      .before = some[i].flip};
        tri_status status = run_status(have);
        if (status != TRI_DISAGREE || !strstr(tri_error(), some[i].words))
            fail_msg("case %d: status %d: %s", (int)i, status, tri_error());
        run_free(have);
    }
}

/* ---- Checkpoints ---- */

static void checkpoint_digest(const char *folder, char hex[static 33]) {
    tri_checkpoint *checkpoint;
    OK(tri__checkpoint_open(folder, 0, &checkpoint));
    OK(tri__checkpoint_digest(checkpoint, hex));
    tri__checkpoint_close(checkpoint);
}

/* One microbatch, two ranks: the same sums, so the same checkpoint, however it was shared out. */
TEST(checkpoints_do_not_know_how_they_were_shared) {
    char first[33], hex[33];
    for (int kind = 0; kind < KINDS; kind++) {
        run *have = run_on(&(run){
            .ranks = 2, .steps = 6, .save = 1, .output = "kinds", .option = {"--precision=bf16", shard_option[kind]}});
        checkpoint_digest(have->folder, kind ? hex : first);
        if (kind) assert_string_equal(hex, first);
        run_free(have);
    }
}

TEST(a_resumed_run_is_the_whole_one) {
    static const struct {
        int ranks;
        const char *option[4];
    } some[] = {{2, {"--shard=zero3", "--precision=bf16"}},
                {4, {"--shard=hybrid", "--shard-size=2", "--num-microbatches=3"}},
                {3, {"--shard=zero2", "--precision=bf16", "--reduce-dtype=bf16", "--wrap=size"}},
                {3, {"--shard=zero1", "--precision=fp16", "--recompute=full", "--offload=optimizer"}}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const char *const *o = some[i].option;
        run what = {
            .ranks = some[i].ranks, .steps = 14, .output = "whole", .option = {o[0], o[1], o[2], o[2] ? o[3] : NULL}};
        run *whole = run_on(&what);
        what.output = "cut", what.steps = 8, what.save = 1;
        run *cut = run_on(&what);
        what.steps = 6, what.save = 0, what.keep_going = 1;
        run *rest = run_on(&what);
        assert_memory_equal(rest->loss[0], whole->loss[0] + 8, 6 * sizeof(double));
        for (int k = 0; k < 3; k++)
            assert_memory_equal(rest->state[k], whole->state[k], (size_t)whole->elements * sizeof(float));
        run_free(whole);
        run_free(cut);
        run_free(rest);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_more, remove_data); }
