/* test_pipeline.c - pipelines: how models are divided into stages; every schedule on every division trains bitwise like
 * one rank, with ranks as threads; programs of all ranks of all meshes match each other and print as the committed
 * texts. SOAK_STEPS=100: all cases. */
#include "tests/lib/test.h"
#include "tests/lib/tensor_job.h"

#include "tests/lib/dry_run.h"
#include "plan/pipeline/stage.h"
#include "tests/lib/program_text.h"
#include "sim/timeline.h"
#include "tests/lib/soak.h"

static int whole; /* the whole matrix */

static const char *const schedule_names[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv"};

/* ---- Cutting ---- */

/* The text of a cut: units by rank, stages in their order. */
static const char *cut_text(tri_arena *arena, const tri_network *model, const tri_stages *stages) {
    const char *text = "";
    for (int stage = 0; stage < stages->pipeline.n_stages; stage++) {
        text = tri__arena_print(arena, "%s%s%d:", text, stage ? " | " : "", stages->pipeline.rank[stage]);
        for (int u = 0; u < model->n_units; u++)
            if (stages->of_unit[u] == stage) text = tri__arena_print(arena, "%s %s", text, model->unit[u].name);
    }
    return text;
}

/* A model of `layers` each, cut for pp ranks. */
static tri_status cut(tiny *t, const int layers[2], int pp, tri_staging staging, tri_stages *out) {
    t->encoder[0].num_hidden_layers = layers[0], t->encoder[1] = t->encoder[0],
    t->encoder[1].num_hidden_layers = layers[1];
    tri_columns columns = {.n = t->model.n_columns};
    tri__model_make(&t->arena, &t->config, t->encoder, columns, (tri_texts){0}, &t->model);
    t->in.mesh.pp = pp, t->in.staging = staging;
    t->in.max.of[TRI_SYM_T1] = t->in.max.of[TRI_SYM_T0], t->in.max.squares[TRI_SYM_T1] = t->in.max.squares[TRI_SYM_T0];
    return tri__stages_plan(&t->arena, &t->in, out);
}

static void expect_cut(tiny *t, const int layers[2], int pp, tri_staging staging, const char *want) {
    tri_stages stages;
    OK(cut(t, layers, pp, staging, &stages));
    assert_string_equal(cut_text(&t->arena, &t->model, &stages), want);
    assert_int_equal(stages.head, stages.pipeline.n_stages - 1);
    assert_int_equal(stages.pipeline.depth[stages.head], 0);
}

TEST(layouts) {
    const tri_staging branch = {.schedule = TRI_SCHEDULE_1F1B, .shape = TRI_SHAPE_BRANCH},
                      chain = {.schedule = TRI_SCHEDULE_1F1B};
    const int two[2] = {2, 2}, longer[2] = {1, 7};
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0, 1);
    expect_cut(&t, two, 2, branch,
               "0: primary.embeddings primary.layer.0 primary.layer.1 primary.pooling | "
               "1: secondary.embeddings secondary.layer.0 secondary.layer.1 secondary.pooling tabular fusion");
    expect_cut(&t, two, 4, branch,
               "0: primary.embeddings primary.layer.0 | 1: primary.layer.1 primary.pooling | "
               "2: secondary.embeddings secondary.layer.0 | 3: secondary.layer.1 secondary.pooling tabular fusion");
    /* The fusion goes with the shorter encoder, whose stage then comes last; ranks stay in the model's order. */
    expect_cut(&t, longer, 3, branch,
               "1: secondary.embeddings secondary.layer.0 secondary.layer.1 secondary.layer.2 | "
               "2: secondary.layer.3 secondary.layer.4 secondary.layer.5 secondary.layer.6 secondary.pooling | "
               "0: primary.embeddings primary.layer.0 primary.pooling tabular fusion");
    /* In a row a stage may have the end of one encoder and the beginning of the other. */
    expect_cut(&t, two, 2, chain,
               "0: primary.embeddings primary.layer.0 primary.layer.1 primary.pooling secondary.embeddings | "
               "1: secondary.layer.0 secondary.layer.1 secondary.pooling tabular fusion");
    expect_cut(&t, two, 2, (tri_staging){.schedule = TRI_SCHEDULE_ZBV},
               "0: primary.embeddings primary.layer.0 | 1: primary.layer.1 primary.pooling secondary.embeddings | "
               "1: secondary.layer.0 | 0: secondary.layer.1 secondary.pooling tabular fusion");
    char *ranges[] = {"primary.embeddings, primary.layer.0-1", "secondary", "primary.pooling tabular fusion"};
    tri_staging given = branch;
    given.stages = (tri_texts){ranges, 3};
    expect_cut(&t, two, 3, given,
               "0: primary.embeddings primary.layer.0 primary.layer.1 | "
               "1: secondary.embeddings secondary.layer.0 secondary.layer.1 secondary.pooling | 2: primary.pooling "
               "tabular fusion");
    tiny_close(&t);
}

/* The slowest stage of the best cut, by trying all: `from` is the first unit of what is left. */
static double best_by_trial(const tri_stage_time *time, int from, int n, int parts) {
    double best = INFINITY, part = 0;
    for (int end = from + 1; end <= n - parts + 1; end++) {
        part += time[end - 1].forward;
        double rest = parts == 1 ? (end == n ? 0 : INFINITY) : best_by_trial(time, end, n, parts - 1);
        best = fmin(best, fmax(part, rest));
    }
    return best;
}

/* Chains of random times are cut as well as they can be, into any number of stages. */
TEST(no_cut_is_better) {
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0, 1);
    for (uint32_t trial = 0; trial < 20; trial++) {
        tri_stage_time time[16] = {{0}};
        int n = t.model.n_units;
        for (int u = 0; u < n; u++) time[u].forward = 1 + tri__philox(1, trial, (uint32_t)u, 0, 0, 0).word[0] % 20;
        for (int pp = 2; pp <= n; pp++) {
            tri_stages stages;
            t.in.mesh.pp = pp, t.in.staging = (tri_staging){.schedule = TRI_SCHEDULE_1F1B, .time = time};
            OK(tri__stages_plan(&t.arena, &t.in, &stages));
            double slowest = 0, stage[16] = {0};
            for (int u = 0; u < n; u++) stage[stages.of_unit[u]] += time[u].forward;
            for (int s = 0; s < pp; s++) slowest = fmax(slowest, stage[s]);
            assert_true(slowest == best_by_trial(time, 0, n, pp));
        }
    }
    tiny_close(&t);
}

/* When the last gradient is there, by the event simulation of all ranks' programs on wires and memory that take no
 * time: from the second microbatch on, gradients of weights are read as well. */
static double simulated(tiny *t, const tri_stage_time *time) {
    const tri_hardware hardware = {.f32 = 1e9,
                                   .half = 1e9,
                                   .attention = 1,
                                   .bytes = 1e30,
                                   .copy = 1e30,
                                   .ranks_per_node = 64,
                                   .near = {0, 1e30},
                                   .far = {0, 1e30},
                                   .overlap = 1};
    tri_unit_seconds unit[64];
    tri_classes all[TRI_PROGRAMS];
    tri_timeline line;
    double end = 0;
    for (int u = 0; u < t->model.n_units; u++)
        unit[u] = (tri_unit_seconds){t->model.unit[u].name, time[u].forward, time[u].input, time[u].weight};
    OK(tri__plan_ranks(&t->arena, &t->in, 1, all));
    tri_costs costs = {.hardware = &hardware, .measured = unit, .n_measured = t->model.n_units};
    OK(tri__timeline(&t->arena, &all[TRI_TRAIN], &costs, &line));
    for (int rank = 0; rank < line.world; rank++) {
        const tri_rank_timeline *one = tri__timeline_of(&line, rank);
        for (int i = 0; i < one->program->n_instrs; i++)
            if (tri__op_queue(one->program->instr[i].op) == TRI_QUEUE_COMPUTE && one->program->instr[i].mb >= 0)
                end = fmax(end, one->end[i]);
    }
    return end;
}

/* The seconds of units for both: layers take a second for each of their three parts, all else next to nothing. */
static void layer_seconds(const tri_network *model, tri_stage_time *time) {
    for (int u = 0; u < model->n_units; u++)
        time[u] = strstr(model->unit[u].name, "layer") ? (tri_stage_time){1, 1, 1}
                                                       : (tri_stage_time){1e-3, 1e-3, 1e-3};
}

static double bubble(tiny *t, const int layers[2], int pp, int n_mb, tri_shape_kind shape) {
    tri_stages stages;
    tri_stage_time time[64];
    double busy = 0;
    t->in.n_mb = n_mb;
    OK(cut(t, layers, pp, (tri_staging){.schedule = TRI_SCHEDULE_1F1B, .shape = shape}, &stages));
    layer_seconds(&t->model, time);
    t->in.staging.time = time;
    for (int u = 0; u < t->model.n_units; u++) busy += n_mb * (time[u].forward + time[u].input + time[u].weight);
    return 1 - busy / (pp * simulated(t, time));
}

/* Two equal encoders: what waits at the ends is as long as a branch is deep, (k - 1) / (m + k - 1) for k stages a
 * branch, not all. The fusion waits for the other branch only when its own is done. A row of n stages waits as long as
 * n - 1 take; less a backward, two thirds of what one takes, where a stage of the second encoder only hands on the
 * first one's gradient: it leaves when that stage begins. */
TEST(branches_wait_less) {
    const int layers[2] = {12, 12};
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0, 1);
    for (int k = 1; k <= 3; k++)
        for (int m = 4; m <= 8; m += 4) {
            double want = (k - 1.0) / (m + k - 1), have = bubble(&t, layers, 2 * k, m, TRI_SHAPE_BRANCH);
            double waits = 2 * k - (k > 1 ? 5 / 3.0 : 1), want_row = waits / (m + waits),
                   row = bubble(&t, layers, 2 * k, m, TRI_SHAPE_CHAIN);
            if (fabs(have - want) > 0.01 || fabs(row - want_row) > 0.01)
                fail_msg("%d stages a branch, %d microbatches: %.3f and in a row %.3f, not %.3f and %.3f", k, m, have,
                         row, want, want_row);
        }
    tiny_close(&t);
}

/* One encoder in a row of stages: the programs of every schedule take as long as its orders do, less a part of a layer
 * for each stage: a gradient leaves before the gradients of weights that follow it in the same action. */
TEST(programs_follow_the_orders) {
    tiny t;
    tri_stage_time time[64];
    tiny_open(&t, "cpu", 1, 3, 0, 6);
    t.encoder[0].num_hidden_layers = 12;
    tri__model_make(&t.arena, &t.config, t.encoder, (tri_columns){.n = t.model.n_columns}, (tri_texts){0}, &t.model);
    layer_seconds(&t.model, time);
    for (int kind = 0; kind < TRI_SCHEDULE_COUNT; kind++)
        for (int pp = 2; pp <= 5; pp++) {
            tri_stages stages;
            tri_stage_time stage[64] = {{0}};
            dry_times dry;
            t.in.mesh.pp = pp, t.in.staging = (tri_staging){.schedule = kind, .time = time};
            OK(tri__stages_plan(&t.arena, &t.in, &stages));
            for (int u = 0; u < t.model.n_units; u++) {
                tri_stage_time *sum = &stage[stages.of_unit[u]];
                sum->forward += time[u].forward, sum->input += time[u].input, sum->weight += time[u].weight;
            }
            OK(dry_run(&t.arena, &stages.pipeline, tri__stages_orders(&t.arena, &t.in, &stages), stage, 0, &dry));
            double real = simulated(&t, time);
            if (real > dry.span * (1 + 1e-9) || dry.span - real > 0.03 * real)
                fail_msg("%s, %d ranks: %g by the orders, %g by the programs", schedule_names[kind], pp, dry.span,
                         real);
        }
    tiny_close(&t);
}

/* The program has slots of weights for the units of its rank's stages alone. */
static void expect_weights(const tiny *t, const tri_stages *stages, const tri_program *program, int rank) {
    int place = tri__mesh_coords(&t->in.mesh, rank).pp;
    for (int u = 0; u < t->model.n_units; u++) {
        char name[64];
        int held = 0;
        snprintf(name, sizeof name, "p.%s", t->model.unit[u].name);
        for (int s = 0; s < program->n_slots; s++)
            held |= program->slot[s].mem == TRI_MEM_PARAM && strcmp(program->slot[s].name, name) == 0;
        if (held != (stages->pipeline.rank[stages->of_unit[u]] == place))
            fail_msg("pp %d, tp %d, rank %d: %s is %sits own", t->in.mesh.pp, t->in.mesh.tp, rank,
                     t->model.unit[u].name, held ? "" : "not ");
    }
}

/* Every rank of every mesh holds the weights of the stages that tri__stages_plan gives its place on pp, and no others:
 * what is announced is what runs, also where tp moves the cut. */
TEST(stages_are_the_plans) {
    const int layers[2] = {3, 3};
    char *given[] = {"primary", "secondary.embeddings", "secondary.layer", "secondary.pooling tabular fusion"};
    int moved = 0;
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0, 2);
    for (int trial = 0; trial < 4; trial++) /* a row, branches, stages as given, two stages a rank */
        for (int pp = 2; pp <= 5; pp++) {
            tri_staging staging = {.schedule = trial == 3 ? TRI_SCHEDULE_ZBV : TRI_SCHEDULE_1F1B,
                                   .shape = trial == 1 ? TRI_SHAPE_BRANCH : TRI_SHAPE_CHAIN};
            const char *whole_layers = NULL;
            if (trial == 2 && pp != 4) continue;
            if (trial == 2) staging.stages = (tri_texts){given, 4};
            for (int tp = 1; tp <= 4; tp *= 2) {
                tri_stages stages;
                tri_classes all[TRI_PROGRAMS], *train = &all[TRI_TRAIN];
                t.in.mesh.tp = tp, t.in.sequence_parallel = tp > 1;
                OK(cut(&t, layers, pp, staging, &stages));
                OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
                for (int rank = 0; rank < train->world; rank++)
                    expect_weights(&t, &stages, tri__classes_program(train, &t.arena, rank), rank);
                const char *text = cut_text(&t.arena, &t.model, &stages);
                if (tp == 1) whole_layers = text;
                moved += strcmp(text, whole_layers) != 0;
            }
        }
    assert_true(moved > 0); /* or tp would not matter here */
    tiny_close(&t);
}

TEST(refusals) {
    char *twice[] = {"primary secondary.layer.0", "secondary tabular fusion"},
         *missing[] = {"primary", "secondary fusion"};
    char *unknown[] = {"primary tertiary", "secondary tabular fusion"},
         *turned[] = {"tabular fusion", "primary secondary"};
    char *circle[] = {"primary.embeddings primary.layer.1 secondary tabular fusion primary.pooling", "primary.layer.0"};
    char *beyond[] = {"primary.embeddings primary.layer.0-7 primary.pooling", "secondary tabular fusion"};
    char *empty[] = {"primary secondary tabular fusion", " "};
    const struct {
        int pp;
        tri_staging staging;
        const char *words;
    } cases[] = {
        {10, {.schedule = TRI_SCHEDULE_1F1B}, "the model has only 9 units to share out among stages; give 9 at most"},
        {5, {.schedule = TRI_SCHEDULE_ZBV}, "10 stages, but the model has only 9 units"},
        {2, {.schedule = TRI_SCHEDULE_ZBV, .shape = TRI_SHAPE_BRANCH}, "--pipeline-shape chain"},
        {2, {.schedule = TRI_SCHEDULE_INTERLEAVED, .shape = TRI_SHAPE_BRANCH}, "--pipeline-shape chain"},
        {2, {.schedule = TRI_SCHEDULE_ZB_H1, .shape = TRI_SHAPE_BRANCH, .chunks = 2}, "--pipeline-shape chain"},
        {2, {.schedule = TRI_SCHEDULE_1F1B, .chunks = 2}, "--schedule 1f1b has 1 stage a rank, not 2"},
        {2, {.schedule = TRI_SCHEDULE_INTERLEAVED, .chunks = 1}, "at least 2"},
        {3, {.schedule = TRI_SCHEDULE_1F1B, .stages = {twice, 2}}, "names 2 stages, but 3 ranks"},
        {2,
         {.schedule = TRI_SCHEDULE_1F1B, .stages = {twice, 2}},
         "secondary.layer.0 is in stage 0 and again in stage 1"},
        {2, {.schedule = TRI_SCHEDULE_1F1B, .stages = {missing, 2}}, "tabular is in no stage"},
        {2, {.schedule = TRI_SCHEDULE_1F1B, .stages = {unknown, 2}}, "\"tertiary\" is not a unit"},
        {2, {.schedule = TRI_SCHEDULE_1F1B, .stages = {turned, 2}}, "only a later stage computes"},
        {2,
         {.schedule = TRI_SCHEDULE_1F1B, .shape = TRI_SHAPE_BRANCH, .stages = {circle, 2}},
         "only a later stage computes"},
        {2, {.schedule = TRI_SCHEDULE_1F1B, .stages = {empty, 2}}, "stage 1 has no unit"},
        {2, {.schedule = TRI_SCHEDULE_1F1B, .stages = {beyond, 2}}, "\"primary.layer.0-7\": this model has only"},
    };
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        t.in.mesh.pp = cases[i].pp, t.in.staging = cases[i].staging;
        assert_int_equal(tri__plan(&t.arena, &t.in, 1, &t.plan), TRI_USAGE);
        if (!strstr(tri_error(), cases[i].words)) fail_msg("case %zu: %s", i, tri_error());
    }
    tiny_close(&t);
}

/* ---- Training ---- */

static int has_branches(tri_schedule_kind schedule) { return !tri__schedule_row(schedule)->chain; }

/* Losses, norms, weights and predictions. */
static void expect_same(const job *want, const job *have, const char *what) {
    if (memcmp(want->loss[0], have->loss[0], sizeof want->loss[0]) != 0)
        fail_msg("%s: loss of step 1 is %.17g, not %.17g", what, have->loss[0][0], want->loss[0][0]);
    if (memcmp(want->norm[0], have->norm[0], sizeof want->norm[0]) != 0)
        fail_msg("%s: norm of step 1 is %.17g, not %.17g", what, have->norm[0][0], want->norm[0][0]);
    if (memcmp(want->weights, have->weights, (size_t)want->rank[0].model.n_elements * sizeof(float)) != 0)
        fail_msg("%s: other weights", what);
    for (int r = 0; r < have->n; r++) {
        int replica = tri__mesh_coords(&have->rank[r].in.mesh, r).dp;
        const tiny *t = &have->rank[r];
        size_t bytes = (size_t)(t->feed[0].counts.of[TRI_SYM_N] * t->model.n_classes) * sizeof(float);
        if (memcmp(want->probs[replica], have->probs[r], bytes) != 0) fail_msg("%s: other predictions", what);
    }
}

static int run_pipeline(const job *want, job_what is, const char *what) {
    char text[128];
    job j;
    snprintf(text, sizeof text, "%s: %d stages of %s%s, %d replicas, %d microbatches", what, is.pp,
             schedule_names[is.staging.schedule], is.staging.shape ? ", branches" : "", is.dp ? is.dp : 1, is.n_mb);
    job_open(&j, is);
    job_run(&j);
    expect_same(want, &j, text);
    job_close(&j);
    return 1;
}

/* The same model and data on one rank, or one for each replica. */
static void open_one(job *one, job_what is) {
    is.pp = 1, is.staging = (tri_staging){0};
    job_open(one, is);
    job_run(one);
}

/* Every schedule in every shape for 2, 3 and 4 ranks, with few and many microbatches: the bits of one rank. */
TEST(schedules) {
    static const int counts[] = {1, 2, 5, 8};
    int cases = 0;
    for (size_t m = 0; m < sizeof counts / sizeof *counts; m++) {
        job_what is = {.n_mb = counts[m], .steps = whole ? JOB_STEPS : 3, .dropout = 0.1};
        job one;
        open_one(&one, is);
        for (is.pp = 2; is.pp <= 4; is.pp++)
            for (int schedule = 0; schedule < TRI_SCHEDULE_COUNT; schedule++)
                for (int shape = 0; shape <= has_branches(schedule); shape++) {
                    if (!whole && (is.pp + schedule + shape + (int)m) % 2) continue;
                    is.staging = (tri_staging){.schedule = schedule, .shape = shape};
                    cases += run_pipeline(&one, is, "schedules");
                }
        job_close(&one);
    }
    print_message("    %d cases, each the bits of one rank\n", cases);
}

/* Replicas of pipelines: the bits of replicas without stages, however they share out. */
TEST(replicas) {
    int cases = 0;
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_ZERO3; kind++)
        for (int n_mb = 1; n_mb <= 3; n_mb += 2) {
            job_what is = {.dp = 2,
                           .n_mb = n_mb,
                           .steps = whole ? JOB_STEPS : 2,
                           .dropout = 0.1,
                           .sharding = {.kind = kind, .prefetch = 1}};
            job one;
            open_one(&one, is);
            for (is.pp = 2; is.pp <= 4; is.pp++)
                for (int schedule = 0; schedule < TRI_SCHEDULE_COUNT; schedule++)
                    for (int shape = 0; shape <= has_branches(schedule); shape++) {
                        if (!whole && (is.pp + schedule + shape + kind + n_mb) % 5) continue;
                        is.staging = (tri_staging){.schedule = schedule, .shape = shape};
                        cases += run_pipeline(&one, is, "replicas");
                    }
            job_close(&one);
        }
    print_message("    %d cases, each the bits of replicas without stages\n", cases);
}

/* Recomputation, 16-bit numbers, models of one and two branches, blocks of several units, weights that stay
 * gathered. */
TEST(mixtures) {
    const tri_staging zbv = {.schedule = TRI_SCHEDULE_ZBV},
                      zb = {.schedule = TRI_SCHEDULE_ZB_H1, .shape = TRI_SHAPE_BRANCH};
    const tri_staging plain = {.schedule = TRI_SCHEDULE_1F1B}, looped = {.schedule = TRI_SCHEDULE_INTERLEAVED};
    const job_what ways[] = {
        {.pp = 3, .n_mb = 4, .recompute = TRI_RECOMPUTE_FULL, .staging = zb},
        {.pp = 2, .n_mb = 3, .recompute = TRI_RECOMPUTE_SELECTIVE, .staging = zbv},
        {.pp = 4, .n_mb = 2, .precision = TRI_BF16, .staging = plain},
        {.pp = 3, .n_mb = 3, .precision = TRI_F16, .staging = zbv},
        {.pp = 2, .n_mb = 3, .texts = 1, .no_table = 1, .staging = zbv},
        {.pp = 3, .n_mb = 2, .texts = 1, .staging = zb},
        {.pp = 3, .n_mb = 5, .no_table = 1, .staging = looped},
        {.pp = 5, .n_mb = 2, .staging = zb},
        {.pp = 2,
         .dp = 2,
         .n_mb = 3,
         .recompute = TRI_RECOMPUTE_FULL,
         .staging = zb,
         .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 2}},
        {.pp = 2, .dp = 2, .n_mb = 2, .staging = zbv, .sharding = {.kind = TRI_SHARD_ZERO3, .reshard = TRI_RESHARD_NO}},
        {.pp = 2,
         .dp = 2,
         .n_mb = 2,
         .staging = plain,
         .sharding = {.kind = TRI_SHARD_ZERO3, .reshard = TRI_RESHARD_YES}},
        {.pp = 2,
         .dp = 4,
         .n_mb = 2,
         .staging = looped,
         .sharding = {.kind = TRI_SHARD_HYBRID, .size = 2, .prefetch = 1}},
        {.pp = 2, .dp = 2, .n_mb = 2, .precision = TRI_BF16, .staging = zbv, .sharding = {.kind = TRI_SHARD_ZERO2}},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        job_what is = ways[i];
        job one;
        is.steps = 2, is.dropout = 0.1;
        open_one(&one, is);
        run_pipeline(&one, is, "mixtures");
        job_close(&one);
    }
}

/* Blocks of several units do not cross stages, so that replicas of pipelines cut other shards: close, not the same. */
TEST(blocks) {
    job_what is = {.dp = 2, .n_mb = 2, .steps = 4, .dropout = 0.1};
    job one, many;
    open_one(&one, is);
    is.pp = 2, is.staging = (tri_staging){.schedule = TRI_SCHEDULE_ZBV};
    is.sharding = (tri_sharding){
        .kind = TRI_SHARD_ZERO3, .wrap = TRI_WRAP_SIZE, .wrap_min_params = 100000000, .prefetch = 1};
    job_open(&many, is);
    job_run(&many);
    for (int s = 0; s < is.steps; s++)
        assert_true(fabs(many.loss[0][s] - one.loss[0][s]) <= 2e-6 * fmax(one.loss[0][s], 0.1));
    job_close(&many), job_close(&one);
}

/* ---- Programs ---- */

/* Plans and checks the programs of all ranks of a mesh; 0: there is no such layout. */
static int check_mesh(tiny *t) {
    const tri_program *program[TRI_PROGRAMS][16];
    tri_arena arena;
    int n = tri__mesh_world(&t->in.mesh);
    OK(tri__arena_open(&arena, (size_t)1 << 32));
    tri_status status = TRI_OK;
    for (t->in.rank = 0; t->in.rank < n && status == TRI_OK; t->in.rank++) {
        tri_rank_plan plan;
        status = tri__plan(&arena, &t->in, 1, &plan);
        program[TRI_TRAIN][t->in.rank] = plan.train.program, program[TRI_INFER][t->in.rank] = plan.infer.program;
        program[TRI_START][t->in.rank] = plan.start;
        program[TRI_EXCHANGE][t->in.rank] = plan.exchange;
    }
    if (status != TRI_USAGE) OK(status);
    for (int i = 0; i < TRI_PROGRAMS && status == TRI_OK; i++)
        if (tri__check(program[i], n) != TRI_OK)
            fail_msg("pp %d tp %d dp %d, %s, shape %d, shard %d: %s", t->in.mesh.pp, t->in.mesh.tp, t->in.mesh.dp,
                     schedule_names[t->in.staging.schedule], t->in.staging.shape, t->in.sharding.kind, tri_error());
    tri__arena_close(&arena);
    return status == TRI_OK;
}

/* A model with as many units and heads as 16 ranks can share out. */
static void open_large(tiny *t) {
    tiny_open(t, "cpu", 2, 3, 0.1, 1);
    for (int b = 0; b < 2; b++) {
        t->encoder[b].num_hidden_layers = 14, t->encoder[b].num_attention_heads = 16;
        t->encoder[b].hidden_size = 16, t->encoder[b].intermediate_size = 32;
    }
    tri__model_make(&t->arena, &t->config, t->encoder, (tri_columns){.n = 3}, (tri_texts){0}, &t->model);
    t->in.n_mb = t->in.n_mb_infer = 3;
}

/* All schedules, shapes and ways to share out on one mesh, or one of `every` so many. */
static int check_layouts(tiny *t, int every, int *number) {
    int legal = 0;
    for (int schedule = 0; schedule < TRI_SCHEDULE_COUNT; schedule++)
        for (int shape = 0; shape <= has_branches(schedule); shape++)
            for (int kind = 0; kind <= TRI_SHARD_HYBRID; kind++) {
                int only_one = (t->in.mesh.pp == 1 && (schedule || shape)) || (t->in.mesh.dp == 1 && kind);
                if (only_one || (kind == TRI_SHARD_HYBRID && t->in.mesh.dp % 2) || (*number)++ % every) continue;
                t->in.staging = (tri_staging){.schedule = schedule, .shape = shape};
                t->in.sharding = (tri_sharding){.kind = kind, .size = 2, .prefetch = 1};
                t->in.sequence_parallel = t->in.mesh.tp > 1 && *number % 3;
                t->in.fed = *number % 2;
                legal += check_mesh(t);
            }
    return legal;
}

TEST(meshes) {
    int legal = 0, number = 0, every = whole ? 1 : 89;
    tiny t;
    open_large(&t);
    for (int pp = 1; pp <= 16; pp++)
        for (int tp = 1; pp * tp <= 16; tp++)
            for (int dp = 1; pp * tp * dp <= 16; dp++) {
                t.in.mesh = (tri_mesh){.pp = pp, .tp = tp, .dp = dp};
                legal += check_layouts(&t, every, &number);
            }
    print_message("    programs of %d layouts fit together, of %d asked for\n", legal, (number + every - 1) / every);
    tiny_close(&t);
}

/* Bytes of activations of a rank of four stages. */
static int64_t activations(tiny *t, tri_schedule_kind schedule, int n_mb, int rank) {
    tri_rank_plan plan;
    t->in.n_mb = n_mb, t->in.rank = rank, t->in.staging = (tri_staging){.schedule = schedule};
    OK(tri__plan(&t->arena, &t->in, 1, &plan));
    return plan.train.program->bytes[TRI_MEM_ACT];
}

/* GPipe holds all microbatches; 1F1B as many as stages follow and one, however many there are; the others no more with
 * more of them. */
TEST(memory_follows_the_schedule) {
    enum { P = 4 };
    tiny t;
    open_large(&t);
    t.in.mesh.pp = P;
    for (int rank = 0; rank < P; rank++) {
        double each = (double)activations(&t, TRI_SCHEDULE_GPIPE, 2 * P, rank) / (2 * P);
        int64_t alternate = activations(&t, TRI_SCHEDULE_1F1B, 2 * P, rank);
        assert_true((double)activations(&t, TRI_SCHEDULE_GPIPE, P, rank) < 1.1 * P * each);
        assert_true((double)alternate > 0.9 * (P - rank) * each && (double)alternate < 1.1 * (P - rank) * each);
        for (int schedule = TRI_SCHEDULE_1F1B; schedule < TRI_SCHEDULE_COUNT; schedule++)
            assert_true((double)activations(&t, schedule, 4 * P, rank) <
                        1.05 * (double)activations(&t, schedule, 2 * P, rank));
    }
    tiny_close(&t);
}

/* Programs of the two ranks of a pipeline. */
TEST(golden_programs) {
    static const tri_schedule_kind kinds[] = {TRI_SCHEDULE_1F1B, TRI_SCHEDULE_ZB_H1};
    for (int k = 0; k < 2; k++) {
        tiny t[2];
        char path[64];
        for (int r = 0; r < 2; r++)
            tiny_open_rank(&t[r], "cpu", 2, 0, 0, 2,
                           &(tiny_rank){.rank = r, .pp = 2, .staging = {.schedule = kinds[k], .shape = k}});
        snprintf(path, sizeof path, "tests/programs/%s.txt", schedule_names[kinds[k]]);
        program_text_check(path, (const tri_program *[]){t[0].program[0], t[1].program[0]}, 2);
        tiny_close(&t[0]), tiny_close(&t[1]);
    }
}

int main(int argc, char **argv) {
    whole = soak_count("SOAK_STEPS", 0) > 0;
    return run_listed(argc, argv, NULL, NULL);
}
