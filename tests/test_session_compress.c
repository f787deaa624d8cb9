/* test_session_compress.c - runs whose gradients and weights travel in a code, on ranks that are threads: every code
 * with every shard, with and without a pipeline and microbatches. Each trains close to the run in full; resumed, it is
 * the uninterrupted run to the bit, errors included; and it moves to another mesh. `make test` runs a sample;
 * SOAK_STEPS=100: all of them. */
#include "session_runs.h"
#include "soak.h"

static const char *const codes[] = {"bf16", "int8", "int4", "fp8"};
static const char *const shards[] = {"none", "zero1", "zero2", "zero3", "hybrid"};
enum { CODES = 4, SHARDS = 5, BEFORE = 3, AFTER = 3, HYBRID = 4, ZERO3 = 3, INT4 = 2 };

typedef struct cell {
    int code, shard, pp, mb;
} cell;

static int feeds_back(const cell *c) { return c->code >= 2; }

/* dp: replicas; 0: those of the cell. */
static run of_cell(const cell *c, int dp, char text[static 8][48]) {
    run made = {.config = "three.json", .output = "coded"};
    int n = dp ? dp : c->shard == HYBRID ? 4 : 2;
    snprintf(text[0], 48, "--shard=%s", shards[c->shard]);
    snprintf(text[1], 48, "--pp-size=%d", c->pp);
    snprintf(text[2], 48, "--num-microbatches=%d", c->mb);
    snprintf(text[3], 48, "--compress-gradients=%s", codes[c->code]);
    snprintf(text[4], 48, "--error-feedback=%s", feeds_back(c) ? "yes" : "no");
    snprintf(text[5], 48, "--shard-size=%d", 2);
    snprintf(text[6], 48, "--compress-weights=%s", c->shard >= ZERO3 ? codes[c->code % 2] : "none");
    made.ranks = n * c->pp;
    for (int i = 0; i < 7; i++) made.option[i] = text[i];
    made.option[7] = "--check-replicas=2";
    return made;
}

static int make_model(void **state) {
    if (make_data(state)) return 1;
    write_file("three.json",
               "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
               " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\","
               " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"lr\": 0.002,"
               " \"warmup_steps\": 2, \"global_batch_size\": 16,"
               " \"primary_encoder\": {\"hidden_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
               " \"intermediate_size\": 32, \"max_position_embeddings\": 16},"
               " \"secondary_encoder\": {\"hidden_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 4,"
               " \"intermediate_size\": 24, \"max_position_embeddings\": 16}}");
    return 0;
}

/* Losses and norms near those of the run in full; `limit`: of norms. A sum that is lost or counted twice is far beyond:
 * coarse codes only add their noise. */
static void expect_near(const run *full, const run *have, const char *what, double limit) {
    for (int k = 0; k < have->steps; k++)
        if (!(fabs(full->loss[0][k] - have->loss[0][k]) <= 0.1 * full->loss[0][k]))
            fail_msg("%s: loss of step %d is %g, in full %g", what, k + 1, have->loss[0][k], full->loss[0][k]);
    for (int k = 0; k < have->steps; k++)
        if (!(fabs(full->norm[0][k] - have->norm[0][k]) <= limit * full->norm[0][k]))
            fail_msg("%s: norm of step %d is %g, in full %g", what, k + 1, have->norm[0][k], full->norm[0][k]);
}

static void expect_continued(const run *whole, const run *rest, const char *what) {
    if (memcmp(whole->loss[0] + BEFORE, rest->loss[0], AFTER * sizeof(double)) != 0)
        fail_msg("%s: other losses after a restart", what);
    for (int k = 0; k < 3; k++)
        if (memcmp(whole->state[k], rest->state[k], (size_t)whole->elements * sizeof(float)) != 0)
            fail_msg("%s: other bits in state %d after a restart", what, k);
}

static void try_cell(const cell *c, const run *full) {
    char text[8][48], moved[8][48], what[128];
    snprintf(what, sizeof what, "%s, %s, pp %d, %d microbatches", codes[c->code], shards[c->shard], c->pp, c->mb);
    run asked = of_cell(c, 0, text);
    asked.steps = BEFORE + AFTER, asked.evaluate = 1;
    run *whole = run_on(&asked);
    expect_near(full, whole, what, c->code == INT4 ? 0.6 : 0.2);
    asked.steps = BEFORE, asked.save = 1, asked.evaluate = 0;
    run *first = run_on(&asked);
    asked.steps = AFTER, asked.save = 0, asked.keep_going = 1;
    run *rest = run_on(&asked);
    expect_continued(whole, rest, what);
    run there = of_cell(c, c->shard == HYBRID ? 2 : 4, moved); /* a hybrid of two replicas is zero3 */
    there.steps = AFTER, there.keep_going = 1;
    run *other = run_on(&there);
    for (int k = 0; k < AFTER; k++)
        if (!(fabs(other->loss[0][k] - whole->loss[0][BEFORE + k]) <= 0.1 * whole->loss[0][BEFORE + k]))
            fail_msg("%s, moved: loss %g in place of %g", what, other->loss[0][k], whole->loss[0][BEFORE + k]);
    run_free(whole), run_free(first), run_free(rest), run_free(other);
}

static void every_code_with_every_mesh(void **state) {
    (void)state;
    int whole = soak_count("SOAK_STEPS", 0) > 0, n = 0, tried = 0;
    run *full = run_on(&(run){.config = "three.json", .steps = BEFORE + AFTER});
    for (int code = 0; code < CODES; code++)
        for (int shard = 0; shard < SHARDS; shard++)
            for (int pp = 1; pp <= 2; pp++)
                for (int mb = 1; mb <= 4; mb += 3, n++) {
                    if (!whole && n % 11 != 1) continue;
                    try_cell(&(cell){code, shard, pp, mb}, full);
                    tried++;
                }
    print_message("%d of %d combinations\n", tried, n);
    run_free(full);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_code_with_every_mesh)};
    return cmocka_run_group_tests(tests, make_model, remove_data);
}
