/* test_session_meshes.c - pipelines, tensor parallelism and replicas in any combination, on ranks that are threads,
 * against one rank: the same losses, norms and weights, evaluation and checkpoints; a pipeline, with any schedule, is
 * bitwise equal to the same replicas without one. `make test` runs a sample; SOAK_STEPS=100: all cases, 100 steps. */
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"
#include "tests/lib/soak.h"

enum { GPIPE, F1B, INTERLEAVED, ZB_H1, ZBV };
static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv"};
enum { CHAIN, BRANCH };
static const char *const shapes[] = {"chain", "branch"};

/* Of a mesh: what is asked for. */
typedef struct cell {
    int pp, tp, dp, schedule, shape;
    const char *shard;
    int plain;           /* tensor parallelism without shards of the tokens */
    int sample;          /* in `make test` too */
    const char *config;  /* NULL: two texts and a table */
    const char *more;    /* another option; NULL */
} cell;

static const cell cells[] = {
    {2, 1, 1, F1B, BRANCH, "none", .sample = 1},
    {2, 1, 1, F1B, CHAIN, "none", .sample = 0},
    {2, 1, 1, INTERLEAVED, CHAIN, "none", .sample = 1},
    {2, 1, 1, ZBV, CHAIN, "none", .sample = 1},
    {3, 1, 1, F1B, BRANCH, "none", .sample = 0},
    {3, 1, 1, ZB_H1, CHAIN, "none", .sample = 1},
    {3, 1, 1, ZBV, CHAIN, "none", .sample = 0},
    {3, 1, 1, INTERLEAVED, CHAIN, "none", .sample = 0},
    {4, 1, 1, F1B, BRANCH, "none", .sample = 0},
    {4, 1, 1, GPIPE, CHAIN, "none", .sample = 1},
    {4, 1, 1, ZB_H1, BRANCH, "none", .sample = 0},
    {4, 1, 1, INTERLEAVED, CHAIN, "none", .sample = 0},
    {2, 1, 4, F1B, BRANCH, "none", .sample = 0},
    {2, 1, 4, F1B, BRANCH, "zero3", .sample = 1},
    {4, 1, 2, F1B, BRANCH, "zero3", .sample = 0},
    {1, 2, 1, F1B, CHAIN, "none", .sample = 1},
    {1, 2, 1, F1B, CHAIN, "none", .plain = 1, .sample = 0},
    {1, 4, 1, F1B, CHAIN, "none", .sample = 0},
    {1, 4, 1, F1B, CHAIN, "none", .plain = 1, .sample = 1},
    {1, 2, 2, F1B, CHAIN, "none", .sample = 0},
    {1, 3, 1, F1B, CHAIN, "none", .sample = 0, .more = "--tp-plan=*.attention=replicate,*.feed_forward=sequence"},
    {1, 2, 2, F1B, CHAIN, "zero3", .sample = 1, .more = "--tp-plan=*.feed_forward=sequence,*.words=replicate"},
    {2, 2, 1, F1B, BRANCH, "none", .sample = 0, .plain = 1, .more = "--tp-plan=*.attention=replicate"},
    {2, 2, 2, ZB_H1, CHAIN, "zero1", .sample = 1, .more = "--tp-plan=*.attention=sequence,*.embeddings=sequence"},
    {1, 2, 1, F1B, CHAIN, "none", .sample = 0, .config = "shared.json", .more = "--tp-plan=secondary=replicate"},
    {1, 2, 2, F1B, CHAIN, "zero3", .sample = 1},
    {2, 2, 2, F1B, BRANCH, "zero1", .sample = 1},
    {2, 2, 2, ZB_H1, CHAIN, "zero3", .sample = 1},
    {4, 2, 2, F1B, BRANCH, "none", .sample = 0},
    {2, 1, 1, F1B, CHAIN, "none", .sample = 1, .config = "one.json"},
    {1, 2, 1, F1B, CHAIN, "none", .sample = 0, .config = "one.json"},
    {2, 2, 1, F1B, BRANCH, "none", .sample = 0, .config = "one.json"},
    {2, 1, 1, F1B, BRANCH, "none", .sample = 0, .config = "two.json"},
    {2, 2, 1, ZB_H1, CHAIN, "none", .sample = 0, .config = "two.json"},
    {1, 1, 2, F1B, CHAIN, "none", .sample = 1, .config = "shared.json"},
    {1, 1, 2, F1B, CHAIN, "zero3", .sample = 1, .config = "shared.json"},
    {2, 1, 1, F1B, CHAIN, "none", .sample = 1, .config = "shared.json"},
    {1, 2, 1, F1B, CHAIN, "none", .sample = 1, .config = "shared.json"},
    {3, 1, 1, INTERLEAVED, CHAIN, "none", .sample = 0, .config = "shared.json"},
    {2, 2, 2, ZBV, CHAIN, "zero1", .sample = 0, .config = "shared.json"},
    {2, 2, 1, F1B, BRANCH, "none", .plain = 1, .sample = 0, .config = "shared.json"}, /* one encoder: a chain */
    {2, 1, 2, ZB_H1, CHAIN, "zero2", .sample = 0, .config = "shared.json", .more = "--recompute=full"},
    {2, 1, 2, F1B, CHAIN, "zero3", .sample = 0, .config = "shared.json", .more = "--precision=bf16"},
    {1, 2, 1, F1B, CHAIN, "none", .sample = 1, .config = "texts.json"},
    {2, 1, 2, ZB_H1, CHAIN, "zero2", .sample = 1, .config = "texts.json"},
    {2, 2, 2, F1B, BRANCH, "zero3", .sample = 0, .config = "texts.json"},
    {3, 1, 1, INTERLEAVED, CHAIN, "none", .sample = 0, .config = "texts.json", .more = "--recompute=full"},
    {3, 1, 1, INTERLEAVED, CHAIN, "none", .sample = 0, .more = "--recompute=full"},
    {2, 2, 2, F1B, BRANCH, "zero3", .sample = 1, .more = "--recompute=full"},
    {2, 1, 2, ZB_H1, CHAIN, "zero2", .sample = 1, .more = "--precision=bf16"},
    {2, 2, 1, F1B, BRANCH, "none", .sample = 0, .more = "--precision=fp16"},
    {2, 2, 2, ZBV, CHAIN, "zero1", .sample = 0, .more = "--precision=bf16"},
    {2, 1, 2, F1B, BRANCH, "none", .sample = 0, .more = "--offload=optimizer"},
};
enum { CELLS = sizeof cells / sizeof *cells };

static int steps;
static int whole; /* all of them */

/* Heads that two and four ranks can share; a model of one text, one without a table, one whose texts share an encoder,
 * which is the first one's; four texts of two encoders. */
static int make_models(void **state) {
    static const char *const models[][2] = {
        {"texts.json", "\"secondary_text_name\": \"title\", \"text_list\": [\"review\", \"title\", \"age\", \"score\"],"
                       " \"text_encoders\": [\"primary\", \"secondary\", \"secondary\", \"primary\"],"},
        {"three.json", "\"secondary_text_name\": \"title\", \"tab_field_list\": [\"age\", \"score\"],"},
        {"two.json", "\"secondary_text_name\": \"title\","},
        {"one.json", ""},
        {"shared.json", "\"secondary_text_name\": \"title\", \"share_encoders\": true, \"tab_field_list\": [\"age\"],"},
    };
    static const char second[] = " \"secondary_encoder\": {\"model_type\": \"roberta\", \"hidden_size\": 16,"
                                 " \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
                                 " \"intermediate_size\": 24, \"max_position_embeddings\": 16},";
    char text[2048];
    if (make_data(state)) return 1;
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text,
                 "{\"label_name\": \"label\", \"primary_text_name\": \"review\", %s \"primary_tokenizer\": \"vocab\","
                 " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"class_weights\": [1.0, "
                 "2.0], \"lr\": 0.001,"
                 " \"warmup_steps\": 5, \"global_batch_size\": 32,"
                 "%s"
                 " \"primary_encoder\": {\"hidden_size\": 24, \"num_hidden_layers\": 3, \"num_attention_heads\": 4,"
                 " \"intermediate_size\": 32, \"max_position_embeddings\": 16}}",
                 models[i][1], i < 3 ? second : "");
        write_file(models[i][0], text);
    }
    return 0;
}

/* Batches of 32, the last of an epoch of 5: microbatches and replicas without a sample. what: in words. */
static run *run_cell(const cell *c, char what[static 128]) {
    char text[6][48];
    run asked = {
        .ranks = c->pp * c->tp * c->dp, .steps = steps, .evaluate = 1, .config = c->config ? c->config : "three.json"};
    snprintf(text[0], sizeof text[0], "--pp-size=%d", c->pp);
    snprintf(text[1], sizeof text[1], "--tp-size=%d", c->tp);
    snprintf(text[2], sizeof text[2], "--schedule=%s", schedules[c->schedule]);
    snprintf(text[3], sizeof text[3], "--pipeline-shape=%s", shapes[c->shape]);
    snprintf(text[4], sizeof text[4], "--shard=%s", c->shard);
    snprintf(text[5], sizeof text[5], "--sequence-parallel=%s", c->plain ? "no" : "auto");
    for (int i = 0; i < 6; i++) asked.option[i] = text[i];
    asked.option[6] = "--num-microbatches=4";
    asked.option[7] = "--check-replicas=4";
    asked.option[8] = c->more;
    snprintf(what, 128, "pp %d x tp %d x dp %d, %s, %s, %s%s%s%s %s", c->pp, c->tp, c->dp, schedules[c->schedule],
             shapes[c->shape], c->shard, c->plain ? ", whole tokens" : "", c->config ? ", " : "",
             c->config ? c->config : "", c->more ? c->more : "");
    return run_on(&asked);
}

static run *alone(const char *config) { return run_on(&(run){.steps = steps, .evaluate = 1, .config = config}); }

/* Gradients are added in the order of microbatches, and their squares by unit, wherever stages are and whatever their
 * order is. */
static void check_without_pipeline(const cell *c, const run *have, const char *what) {
    cell flat = *c;
    char text[128];
    flat.pp = 1, flat.schedule = F1B, flat.shape = CHAIN;
    run *plain = run_cell(&flat, text);
    expect_same_bits(plain, have, what);
    run_free(plain);
}

TEST(any_mesh_gives_one_rank_s_result) {
    static const char *const configs[] = {"three.json", "two.json", "one.json", "shared.json", "texts.json"};
    int count = 0;
    double worst = 0, worst_tensor = 0;
    for (int m = 0; m < 5; m++) {
        run *one = alone(configs[m]);
        for (int i = 0; i < CELLS; i++) {
            const cell *c = &cells[i];
            char what[128];
            if (strcmp(c->config ? c->config : configs[0], configs[m]) != 0 || !(whole || c->sample)) continue;
            run *have = run_cell(c, what);
            int half = c->more &&
                       strstr(c->more, "precision"); /* no rank alone is that exact; the pipeline's bits are */
            double off = half ? 0 : expect_within(one, have, what, c->tp > 1 ? 1e-5 : 2e-6);
            if (c->tp > 1) worst_tensor = fmax(worst_tensor, off);
            else worst = fmax(worst, off);
            for (int r = 0; r < have->ranks; r++)
                if (!half && !(fabs(have->scores[r].loss - one->scores[0].loss) < 1e-4))
                    fail_msg("%s: rank %d evaluates to another loss", what, r);
            if (c->pp > 1) check_without_pipeline(c, have, what);
            run_free(have);
            count++;
        }
        run_free(one);
    }
    print_message(
        "    %d meshes of %d, %d steps: losses differ by at most %.3f of the limit, with tensor parallelism %.3f\n",
        count, CELLS, steps, worst, worst_tensor);
}

TEST(schedules_agree_to_the_bit) {
    static const int others[] = {GPIPE, ZB_H1};
    int count = 0;
    for (int pp = 2; pp <= 4; pp++)
        for (int shape = CHAIN; shape <= BRANCH; shape++) {
            char what[128];
            if (!whole && (pp == 4 || shape != (pp == 2 ? BRANCH : CHAIN)))
                continue; /* two stages side by side, three in a row */
            run *plain = run_cell(&(cell){pp, 1, 1, F1B, shape, "none", .sample = 1}, what);
            for (int i = 0; i < 2; i++) {
                run *have = run_cell(&(cell){pp, 1, 1, others[i], shape, "none", .sample = 1}, what);
                expect_same_bits(plain, have, what);
                run_free(have);
                count++;
            }
            run_free(plain);
        }
    print_message("    %d pairs\n", count);
}

static void digest_of(const char *folder, char hex[static 33]) {
    tri_checkpoint *checkpoint;
    OK(tri__checkpoint_open(folder, 0, &checkpoint));
    OK(tri__checkpoint_digest(checkpoint, hex));
    tri__checkpoint_close(checkpoint);
}

/* A row of padding begins as zeros, the one after it does not. */
static void expect_padding(const char *folder, const char *name, int64_t rows, int64_t width, int pad) {
    tri_checkpoint *checkpoint;
    tri_shape shape = tri__shape_2d(rows, width);
    float *read = malloc((size_t)(rows * width) * sizeof *read); /* [rows, width] */
    OK(tri__checkpoint_open(folder, 0, &checkpoint));
    OK(tri__checkpoint_read(checkpoint, &(tri_piece){.name = name, .dtype = TRI_F32, .shape = shape,
                                                     .slice = tri__slice_whole(&shape), .data = read}));
    for (int64_t i = 0; i < width; i++) assert_true(read[pad * width + i] == 0 && read[(pad + 1) * width + i] != 0);
    tri__checkpoint_close(checkpoint);
    free(read);
}

/* Before the first step: each element's random number is its own, whoever holds it. Checkpoints of it have one
 * digest. */
TEST(initial_weights_are_one_rank_s) {
    static const char *const meshes[][2] = {{"--tp-size=2", "--shard=none"},
                                            {"--tp-size=4", "--shard=none"},
                                            {"--tp-size=2", "--shard=zero3"},
                                            {"--pp-size=2", "--tp-size=2"}};
    static const int ranks[] = {2, 4, 4, 4};
    char want[33], have[33];
    run *one = run_on(&(run){.save = 1, .output = "one", .config = "three.json"});
    digest_of(one->folder, want);
    expect_padding(one->folder, "secondary.embeddings.position_embeddings.weight", 16, 16, 1);
    for (int i = 0; i < 4; i++) {
        run *many = run_on(&(run){.ranks = ranks[i],
                                  .save = 1,
                                  .output = "many",
                                  .config = "three.json",
                                  .option = {meshes[i][0], meshes[i][1]}});
        expect_same_bits(one, many, meshes[i][0]);
        digest_of(many->folder, have);
        assert_string_equal(have, want);
        run_free(many);
    }
    run_free(one);
}

/* Eight ranks save, one reads. */
TEST(a_checkpoint_of_a_mesh_is_whole) {
    const char *const mesh[] = {"--pp-size=2", "--tp-size=2", "--shard=zero1", "--num-microbatches=2"};
    run asked = {.ranks = 8, .steps = 4, .save = 1, .output = "mesh", .config = "three.json"};
    for (int i = 0; i < 4; i++) asked.option[i] = mesh[i];
    run *first = run_on(&asked);
    tri_checkpoint *checkpoint;
    OK(tri__checkpoint_open(first->folder, 0, &checkpoint));
    float *read = malloc((size_t)first->elements * sizeof *read); /* [elements] */
    char config[128];
    snprintf(config, sizeof config, "--config=%s/three.json", root);
    tri_session *s = open_session("other", OPTIONS(config, "--resume=never"));
    for (int i = 0; i < s->engine.model.n_params; i++) {
        int64_t at = run_piece_at(&s->engine.model, s->engine.model.param[i].name, "");
        const tri_param *param = &s->engine.model.param[i];
        OK(tri__checkpoint_read(checkpoint, &(tri_piece){.name = param->name, .dtype = TRI_F32, .shape = param->shape,
                                                         .slice = tri__slice_whole(&param->shape), .data = read + at}));
    }
    assert_memory_equal(read, first->state[0], (size_t)first->elements * sizeof *read);
    tri_session_close(s);
    tri__checkpoint_close(checkpoint);
    free(read);
    run_free(first);
}

/* Of all ranks of a stage, before the third step. */
static tri_status spoil_second(run *run, tri_session *session, int rank, int step) {
    (void)run, (void)rank;
    const tri_engine *e = &session->engine;
    if (step != 2 || tri__mesh_coords(&e->place.mesh, e->place.rank).pp != 1) return TRI_OK;
    for (int i = 0; i < e->n_weights; i++)
        if (strstr(e->weights[i].name, "secondary.projection.weight")) *(float *)e->weights[i].data = NAN;
    return TRI_OK;
}

/* The loss is the last stage's to see and every rank's to know; who computed the number that is none is named, not who
 * received it. */
TEST(a_bad_number_is_its_stage_s) {
    static const char *const shapes_of[] = {"--pipeline-shape=chain", "--pipeline-shape=branch"};
    for (int i = 0; i < 2; i++) {
        run spoiled = {.ranks = 4, .steps = 4, .config = "three.json", .before = spoil_second,
                       .option = {"--pp-size=2", shapes_of[i], "--num-microbatches=2"}};
        tri_status status = run_status(&spoiled);
        if (status != TRI_NOTFINITE || !strstr(tri_error(), "step 3: the loss is nan") ||
            !strstr(tri_error(), "secondary.pooling") || !strstr(tri_error(), "on rank 2"))
            fail_msg("status %d: %s", status, tri_error());
        for (int k = 0; k < 3; k++) free(spoiled.state[k]);
        free(spoiled.idle);
    }
}

int main(int argc, char **argv) {
    steps = soak_steps(5, RUN_STEPS, &whole); /* an epoch of four, its last batch uneven, and one of the next */
    return run_listed(argc, argv, make_models, remove_data);
}
