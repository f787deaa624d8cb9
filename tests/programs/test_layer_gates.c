/* test_layer_gates.c - layers that steps leave out (--layer-drop): the schedule and the gates; programs whose
 * instructions belong to a layer are printed, parsed, proven open and closed, run and timed; plans of all meshes;
 * gradients of a step that leaves some layers out. Against PyTorch: test_golden.c; on meshes: cli_layers.sh. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "plan/layer_gates.h"
#include "plan/pipeline/stage.h"
#include "plan/step_kinds.h"
#include "tests/lib/program_text.h"
#include "settings/foreign.h"
#include "settings/forms.h"
#include "sim/timeline.h"

#include <math.h>

enum { HEAP = 1 << 20 };

/* ---- The schedule and the gates ---- */

TEST(schedule_is_the_published_one) {
    tri_layer_drop how = {.theta = 0.5, .gamma = -1, .steps = 1000};
    tri__layer_drop_resolve(&how);
    assert_true(how.gamma == 0.1); /* 100 / steps */
    tri_layer_drop unknown = {.theta = 0.5, .gamma = -1}, given = {.theta = 0.5, .gamma = 0, .steps = 7};
    tri__layer_drop_resolve(&unknown), tri__layer_drop_resolve(&given);
    assert_true(unknown.gamma == 0.001 && given.gamma == 0);
    assert_true(tri__layer_keep_mean(&given, 12, 12) == 1);
    for (int64_t layer = 1; layer <= 12; layer++) {
        double sum = 0;
        for (int64_t step = 0; step < how.steps; step++) {
            double theta = 0.5 * exp(-0.1 * (double)step) + 0.5, keep = 1 - (double)layer / 12 * (1 - theta);
            assert_true(fabs(tri__layer_theta(&how, step) - theta) < 1e-15);
            assert_true(fabs(tri__layer_keep(&how, layer, 12, step) - keep) < 1e-15);
            sum += keep;
        }
        assert_true(fabs(tri__layer_keep_mean(&how, layer, 12) - sum / (double)how.steps) < 1e-12);
    }
    assert_true(tri__layer_keep(&how, 12, 12, 0) == 1); /* nothing is dropped in the first step */
}

TEST(gates_are_drawn) {
    tiny t;
    const tri_layer_drop how = {.theta = 0.4, .gamma = 0.3, .steps = 4000}, none = {0};
    int closed[3] = {0}, alike = 0;
    float scale[3];
    tiny_open(&t, "cpu", 2, 0, 0, 1);
    for (int64_t step = 0; step < how.steps; step++) {
        tri_open_gates now = {0}, again = {0}, other = {0};
        tri__layer_gates_step(&how, &t.model, 5, step, &other, scale);
        tri__layer_gates_step(&how, &t.model, 4, step, &now, scale);
        tri__layer_gates_step(&how, &t.model, 4, step, &again, scale);
        assert_memory_equal(&now, &again, sizeof now);
        alike += now.closed[0] == other.closed[0];
        for (int k = 0; k < 3; k++) {
            double keep = tri__layer_keep(&how, k == 2 ? 1 : k + 1, k == 2 ? 1 : 2, step);
            closed[k] += !tri__layer_is_open(&now, k);
            assert_true(fabs(scale[k] * keep - 1) < 1e-6);
        }
        double open = tri__layers_open(&how, &t.model, 0, &now) + 4 * tri__layers_open(&how, &t.model, 1, &now);
        assert_true(open == tri__layer_is_open(&now, 0) + tri__layer_is_open(&now, 1) +
                                4 * tri__layer_is_open(&now, 2));
        if (step == 0) assert_true(!now.closed[0]);
    }
    /* 4,000 draws: four deviations are 0.03 */
    for (int k = 0; k < 3; k++)
        assert_true(fabs(1 - closed[k] / 4000.0 - tri__layer_keep_mean(&how, k == 2 ? 1 : k + 1, k == 2 ? 1 : 2)) <
                    0.03);
    assert_true(alike < 2500); /* another seed draws others */
    tri_open_gates now = {0};
    tri__layer_gates_step(&none, &t.model, 4, 100, &now, scale);
    assert_true(!now.closed[0] && scale[0] == 1 && scale[2] == 1);
    assert_true(tri__layers_open(&none, &t.model, 0, NULL) == 2);
    tiny_close(&t);
}

TEST(bad_forms_are_refused) {
    static const char *const bad[] = {"",          "0.5",           "theta=0", "theta=-1", "theta=1.1", "theta=nan",
                                      "gamma=0.1", "theta=0.5,gamma=-1", "theta=0.5,beta=1", "theta=0.5,theta=0.5",
                                      "theta=",    "theta=0.5;gamma=1", "theta=0.5,gamma=inf"};
    double theta, gamma;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tri__layer_drop_parse(bad[i], &theta, &gamma), TRI_USAGE);
        assert_non_null(strstr(tri_error(), "--layer-drop"));
    }
    OK(tri__layer_drop_parse("none", &theta, &gamma));
    assert_true(theta == 0);
    OK(tri__layer_drop_parse("gamma=0.25,theta=1", &theta, &gamma));
    assert_true(theta == 1 && gamma == 0.25);
    OK(tri__layer_drop_parse("theta=0.5", &theta, &gamma));
    assert_true(theta == 0.5 && gamma == -1);
}

/* ---- Programs written by hand ---- */

/* Layer a doubles the sum over ranks of h; layer b adds what it has to its gradient. */
static const char text_of[] =
    "program layers\nmesh pp=1 tp=1 dp=2 rank=%d microbatches=1\nmax T0=4 T1=0 N=0 Q0=0 Q1=0\n"
    "layer a keep=0.75\nlayer b keep=0.5\nbytes grad=64 act=256 result=64\n"
    "slot h act f32 [1,4] @0\nslot t act f32 [1,4] @64\nslot y act f32 [1,4] @128\nslot z act f32 [1,4] @192\n"
    "slot g grad f32 [1,4] @0\nslot s result f32 [1,4] @0\nview two of h +1 [1,1]\n"
    "0 input h field=13\n"
    "1 scale t <- h two when=a\n"
    "2 all_reduce_post t id=1 axes=dp when=a\n"
    "3 wait t <- _ when=a\n"
    "4 accumulate y <- t when=a\n"
    "5 skip y <- h unless=a\n"
    "6 zero g unless=b\n"
    "7 accumulate g <- y when=b\n"
    "8 accumulate z <- y when=b\n"
    "9 skip z <- y unless=b\n"
    "10 accumulate s <- z\n"
    "11 accumulate +s <- g\n";

static const tri_program *parse(tri_arena *arena, int rank, const char *find, const char *put) {
    return program_text_parse(arena, "layers", tri__arena_print(arena, text_of, rank), find, put);
}

TEST(text_is_printed_and_parsed) {
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 24));
    const tri_program *both[2] = {parse(&arena, 0, NULL, NULL), parse(&arena, 1, NULL, NULL)};
    assert_int_equal(both[0]->n_layers, 2);
    assert_int_equal(both[0]->instr[0].layer, 0);
    assert_int_equal(both[0]->instr[1].layer, 1);
    assert_int_equal(both[0]->instr[6].layer, -2);
    assert_true(tri__instr_share(both[0], &both[0]->instr[5]) == 0.25);
    OK(tri__check(both, 2));
    tri_program *parsed = program_text_again(&arena, both[0], "\nlayer b keep=0.5\n");
    parsed->layer[1].keep = 0.4; /* gates are part of a program */
    assert_false(tri__program_equal(both[0], parsed));
    static const char *const bad[][2] = {{"when=a\n2", "when=c\n2"}, {"when=a\n2", "when=a unless=b\n2"},
                                         {"keep=0.75", "keep=1.5"},  {"keep=0.75", ""},
                                         {"layer b", "layer a"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *text = tri__arena_print(&arena, text_of, 0);
        text = program_text_edited(&arena, text, bad[i][0], bad[i][1]);
        assert_int_equal(tri__program_parse(&arena, "bad", text, &parsed), TRI_DATA);
    }
    tri__arena_close(&arena);
}

TEST(breaks_are_named) {
    static const struct {
        const char *find, *put, *words;
    } cases[] = {
        {"5 skip y <- h unless=a\n", "", "y is read before it is written, with all layers closed"},
        {"6 zero g unless=b\n", "", "g is read before it is written, with all layers closed"},
        {"7 accumulate g <- y when=b", "7 accumulate g <- t when=b", "t is read before it is written, with a closed"},
        {"3 wait t <- _ when=a", "3 wait t <- _", "no transfer of these slots is in flight"},
        {"5 skip y <- h unless=a", "5 accumulate y <- h unless=a", "something else than its input"},
        {"9 skip z <- y unless=b", "9 skip z <- h unless=b", "something else than its input"},
        {"6 zero g unless=b", "6 accumulate g <- y unless=b\n6 zero y unless=b", "something else than its input"},
        {"layer b keep=0.5", "layer b keep=0.4", "plan gates of different layers"},
        {"2 all_reduce_post t id=1 axes=dp when=a\n3 wait t <- _ when=a\n", "", "rank 1 has ended"},
    };
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 24));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tri_program *both[2] = {parse(&arena, 0, NULL, NULL), parse(&arena, 1, cases[i].find, cases[i].put)};
        assert_int_equal(tri__check(both, 2), TRI_INTERNAL);
        if (!strstr(tri_error(), cases[i].words)) fail_msg("case %zu: %s", i, tri_error());
    }
    tri__arena_close(&arena);
}

/* s in each of the four cases; a closed layer's sum is not posted, so both ranks must agree. */
static tri_status run_cases(tri_world *world, void *argument) {
    const tri_program *const *both = argument;
    int rank = tri_world_rank(world);
    float hyper[4] = {1, 2, 3, (float)rank};
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = &both[rank], .n = 1,
                                            .seed = 1, .world = world}, &exec));
    const float *s = tri__exec_slot(exec, 0, tri__program_find(both[rank], "s")); /* [4] */
    int wrong = 0;
    for (int closed = 0; closed < 4; closed++) {
        tri_feed feed = {.field[TRI_FIELD_hyper] = hyper, .gates.closed = {(uint64_t)closed}};
        float y = closed & 1 ? 3 : 12, last = closed & 1 ? (float)rank : 2;
        tri_time times[12];
        TRI_TRY(tri__exec_run(exec, 0, 0, 12, 1, &feed, closed ? times : NULL));
        wrong += s[2] != y * (closed & 2 ? 1 : 2) || s[3] != last * (closed & 2 ? 1 : 2);
    }
    tri__exec_close(exec);
    return wrong ? tri__fail(TRI_DATA, "rank %d: wrong numbers", rank) : TRI_OK;
}

TEST(only_open_layers_run) {
    tri_arena arena;
    double sent[TRI_COLLECTIVE_COUNT];
    OK(tri__arena_open(&arena, (size_t)1 << 24));
    const tri_program *both[2] = {parse(&arena, 0, NULL, NULL), parse(&arena, 1, NULL, NULL)};
    OK(tri_ranks_run(&(tri_ranks){.n = 2, .heap_bytes = HEAP}, run_cases, (void *)both));
    tri__program_sent(both[0], sent);
    assert_true(sent[TRI_ALL_REDUCE] == 0.75 * 16);
    tri__arena_close(&arena);
}

/* A kernel takes 0.5 s, the transfer 16: the expected step has each by its share. */
TEST(layers_are_timed) {
    tri_arena arena;
    tri_timeline line;
    tri_classes ranks;
    const tri_hardware hardware = {.name = "clockwork", .f32 = 1e21, .half = 1e21, .attention = 1, .bytes = 1e21,
                                   .copy = 1e18, .launch = 0.5, .ranks_per_node = 2, .near = {0, 1}, .far = {0, 1},
                                   .overlap = 1};
    OK(tri__arena_open(&arena, (size_t)1 << 24));
    const tri_program *both[2] = {parse(&arena, 0, NULL, NULL), parse(&arena, 1, NULL, NULL)};
    OK(tri__classes_list(&ranks, &arena, both, 2));
    OK(tri__timeline(&arena, &ranks, &(tri_costs){.hardware = &hardware}, &line));
    double moved = line.all_open -
                   line.all_closed; /* open: scale, accumulate x 3 and the sum; closed: skip x 2, zero */
    assert_true(line.all_closed > 0 && line.all_open > line.all_closed + 10);
    double a_open = 1 + (moved - 0.5), a_closed = 0.5, b = 1; /* b is as long closed as open */
    double expected = line.all_open - a_open - b + 0.75 * a_open + 0.25 * a_closed + b;
    if (fabs(line.mean - expected) > 1e-9) fail_msg("mean %g, not %g", line.mean, expected);
    assert_true(line.seconds == line.mean);
    tri__arena_close(&arena);
}

/* ---- Plans ---- */

static void open_with_drop(tiny *t, int texts, double p, int n_mb) {
    tiny_open(t, "cpu", texts, 3, p, n_mb);
    t->in.layer_drop = (tri_layer_drop){.theta = 0.5, .gamma = 0.1, .steps = 100};
}

/* Whatever is planned passes the checker with layers open and closed, by classes or rank by rank, and is the same after
 * printing and parsing. */
static void try_mesh(tri_mesh mesh, int variant) {
    tiny t;
    tri_classes all[TRI_PROGRAMS];
    int texts = mesh.tp > 1 ? 1 : 2; /* the second encoder has 3 heads */
    open_with_drop(&t, texts, 0.1, 4);
    t.in.mesh = mesh;
    t.in.staging = (tri_staging){.schedule = (tri_schedule_kind)(variant % TRI_SCHEDULE_COUNT)};
    t.in.sequence_parallel = mesh.tp > 1 && variant % 2;
    t.in.sharding = (tri_sharding){.kind = (tri_shard_kind)(variant % 4), .prefetch = 1};
    t.in.recompute = (tri_recompute)(variant % 3);
    if (variant == 2) t.in.precision = TRI_BF16;
    if (variant == 1 && mesh.dp > 1) t.in.compression = (tri_compression){.gradients = TRI_CODE_INT8, .feedback = 1};
    if (variant == 3) {
        t.config.pooling = TRI_POOLING_MEAN;
        tri__model_make(&t.arena, &t.config, t.encoder, (tri_columns){.n = 3}, (tri_texts){0}, &t.model);
    }
    if (variant == 4) t.target.lanes = 2;
    if (variant > 3) t.target.ahead = 1 << 12, t.in.offload = 1u << TRI_MEM_ACT | 1u << TRI_MEM_STATE;
    if (variant > 3 && mesh.tp == 1) t.in.offload |= 1u << TRI_MEM_GRAD;
    if (tri__plan_ranks(&t.arena, &t.in, 1, all) != TRI_OK) fail_msg("variant %d: %s", variant, tri_error());
    for (int i = 0; i < TRI_PROGRAMS; i++)
        if (tri__check_all(&all[i]) != TRI_OK) fail_msg("variant %d: %s", variant, tri_error());
    for (int rank = 0; rank < all[0].world; rank++) {
        tri_rank_plan plan;
        tri_program *parsed;
        char *text, *again;
        t.in.rank = rank;
        OK(tri__plan(&t.arena, &t.in, 1, &plan));
        assert_true(tri__program_equal(tri__classes_program(&all[0], &t.arena, rank), plan.train.program));
        assert_int_equal(plan.train.program->n_layers, 1 + texts);
        assert_int_equal(plan.infer.program->n_layers, 0);
        OK(tri__program_text(plan.train.program, &text));
        OK(tri__program_parse(&t.arena, "planned", text, &parsed));
        OK(tri__program_text(parsed, &again));
        assert_string_equal(text, again);
        free(text), free(again);
    }
    tiny_close(&t);
}

TEST(every_mesh_passes_the_checker) {
    static const tri_mesh meshes[] = {{.pp = 1, .tp = 1, .dp = 1}, {.pp = 1, .tp = 1, .dp = 2},
                                      {.pp = 2, .tp = 1, .dp = 1}, {.pp = 1, .tp = 2, .dp = 1},
                                      {.pp = 2, .tp = 2, .dp = 2}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int variant = 0; variant < 6; variant++) try_mesh(meshes[m], variant);
}

/* Stages are balanced in expectation: with layers that are hardly ever there, the first stage takes more of them. */
TEST(stages_are_balanced_in_expectation) {
    tiny t;
    tri_stages plain, drops;
    int with = 0, without = 0;
    tiny_open(&t, "cpu", 1, 0, 0, 2);
    t.encoder[0].num_hidden_layers = 12, t.encoder[0].hidden_size = 64, t.encoder[0].intermediate_size = 256;
    tri__model_make(&t.arena, &t.config, t.encoder, (tri_columns){0}, (tri_texts){0}, &t.model);
    t.in.mesh.pp = 2, t.in.staging.schedule = TRI_SCHEDULE_1F1B;
    OK(tri__stages_plan(&t.arena, &t.in, &plain));
    t.in.layer_drop = (tri_layer_drop){.theta = 0.1, .gamma = 100, .steps = 1000};
    OK(tri__stages_plan(&t.arena, &t.in, &drops));
    for (int u = 0; u < t.model.n_units; u++) without += plain.of_unit[u] == 0, with += drops.of_unit[u] == 0;
    /* 12 layers kept with probabilities of 1 - 0.9 l / 12: the first 5 cost 3.875, the others 2.275 of 6.15 */
    assert_true(with < without);
    tiny_close(&t);
}

/* ---- Gradients ---- */

static double loss_of(const tiny *t, tri_exec *exec) {
    OK(tri__exec_run(exec, 0, 0, t->plan.train.update, 1, t->feed, NULL));
    return tiny_loss(t, exec);
}

/* The slope of the loss along each unit's gradient is that gradient's norm; a closed layer's is 0, and its weights
 * change nothing. */
TEST(gradients_are_slopes) {
    const float scale[3] = {1.25f, 1.6f, 1.3f};
    for (unsigned closed = 0; closed < 8; closed++)
        for (int n_mb = 1; n_mb <= 2; n_mb++) {
            tiny t;
            open_with_drop(&t, 2, 0, n_mb);
            tiny_plan(&t);
            tri_exec *exec = tiny_exec(&t, "reference", 1, 0);
            for (int mb = 0; mb < n_mb; mb++) t.feed[mb].field[TRI_FIELD_layer_scale] = scale;
            t.feed[0].gates.closed[0] = closed;
            OK(tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, 1, t.feed, NULL)); /* gradients of other weights */
            tiny_init(&t, exec);
            loss_of(&t, exec);
            for (int u = 0; u < t.model.n_units; u++) {
                int gate = tri__layer_find(t.program[0], t.model.unit[u].name),
                    is_closed = gate >= 0 && closed >> gate & 1;
                char name[64];
                snprintf(name, sizeof name, "g.%s", t.model.unit[u].name);
                int64_t n = t.model.unit[u].count;
                float *w = tri__exec_slot(exec, 0, t.plan.train.param[u]),
                      *g = tri__exec_slot(exec, 0, tri__program_find(t.program[0], name));
                double norm = 0;
                loss_of(&t, exec);
                float *kept = malloc(2 * (size_t)n * sizeof *kept), *along = kept + n; /* [n] weights; gradient */
                memcpy(kept, w, (size_t)n * sizeof *w), memcpy(along, g, (size_t)n * sizeof *g);
                for (int64_t i = 0; i < n; i++) norm += (double)along[i] * along[i];
                norm = sqrt(norm);
                assert_true(is_closed ? norm == 0 : norm > 0);
                double ends[2];
                for (int side = 0; side < 2; side++) {
                    for (int64_t i = 0; i < n; i++)
                        w[i] = kept[i] + (side ? -1 : 1) * (is_closed ? 0.1f : (float)(2e-3 * along[i] / norm));
                    ends[side] = loss_of(&t, exec);
                }
                memcpy(w, kept, (size_t)n * sizeof *w);
                double slope = is_closed ? ends[0] - ends[1] : (ends[0] - ends[1]) / 4e-3;
                if (fabs(slope - norm) > (is_closed ? 0 : 2e-4 + 2e-3 * norm))
                    fail_msg("closed %u, %s: slope %g, norm %g", closed, t.model.unit[u].name, slope, norm);
                free(kept);
            }
            tri__exec_close(exec);
            tiny_close(&t);
        }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
