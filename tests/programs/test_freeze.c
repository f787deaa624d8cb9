/* test_freeze.c - plans of models that are trained in part: frozen units have no gradients, states, transfers of
 * gradients or backward operations beyond what passes through them, on every mesh, and every rank's program passes the
 * checker. Rates of parameters by layers, and in the attributes of the update. */
#include "model/family.h"
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "plan/pipeline/stage.h"
#include "tests/lib/program_text.h"

static const tri_recipe recipes[] = {{.freezes_embeddings = 1},
                                     {.freezes_embeddings = 1, .frozen_layers = 1, .layer_decay = 0.5, .head = 3},
                                     {.frozen_layers = 1, .layer_decay = 0.5},
                                     {.freezes_embeddings = 1, .frozen_layers = TRI_ALL_LAYERS}};
enum { RECIPES = sizeof recipes / sizeof *recipes };

static int is_frozen(const tri_network *model, const char *unit) {
    for (int u = 0; u < model->n_units; u++)
        if (strcmp(model->unit[u].name, unit) == 0) return model->unit[u].frozen;
    return 0;
}

/* Nothing is kept, written or summed for what is frozen. With the embeddings nothing below it is trained: then nothing
 * passes back through it either. */
static void expect_frozen(const tri_network *model, const tri_recipe *recipe, const tri_program *p) {
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        tri_op_phase phase = tri__instr_row(instr)->phase;
        if (instr->unit < 0 || !is_frozen(model, p->unit[instr->unit])) continue;
        assert_true(phase != TRI_PHASE_W && phase != TRI_PHASE_U);
        if (recipe->freezes_embeddings) assert_true(phase != TRI_PHASE_B);
    }
    for (int s = 0; s < p->n_slots; s++) {
        const tri_slot *slot = &p->slot[s];
        if (slot->unit < 0 || !is_frozen(model, p->unit[slot->unit])) continue;
        assert_true(slot->mem != TRI_MEM_GRAD);
        if (slot->mem == TRI_MEM_STATE && strncmp(slot->name, "master.", 7) != 0) fail_msg("%s is kept", slot->name);
    }
}

static void set_variant(tiny *t, int variant) {
    const tri_optimizer_kind kinds[] = {TRI_ADAMW, TRI_LAMB, TRI_SGD, TRI_ADAM, TRI_ONEBIT_ADAM, TRI_ONEBIT_LAMB};
    tri_optimizing *how = &t->in.optimizer;
    t->in.staging = (tri_staging){.schedule = (tri_schedule_kind)(variant % TRI_SCHEDULE_COUNT)};
    t->in.sequence_parallel = t->in.mesh.tp > 1 && variant % 2;
    t->in.sharding = (tri_sharding){.kind = (tri_shard_kind)(variant % 4), .prefetch = 1,
                                    .wrap = variant % 3 ? TRI_WRAP_LAYER : TRI_WRAP_SIZE, .wrap_min_params = 3000};
    t->in.recompute = (tri_recompute)(variant % 3);
    if (variant % 3 == 2) t->in.precision = TRI_BF16;
    how->kind = kinds[variant % 6], how->steps = 50, how->full_steps = 5;
    if (variant == 6) t->in.layer_drop = (tri_layer_drop){.theta = 0.5, .gamma = 0.1, .steps = 100};
    if (variant == 7 && t->in.mesh.dp > 1) t->in.compression = (tri_compression){.gradients = TRI_CODE_BF16};
    if (variant == 8 && t->in.mesh.dp > 1) t->in.sharding.kind = TRI_SHARD_NONE, how->sync_every = 3;
    if (variant == 8) how->kind = TRI_ADAMW;
    t->target.lanes = variant == 6 ? 2 : 1;
    if (variant == 7) t->target.ahead = 1 << 12, t->in.offload = 1u << TRI_MEM_STATE | 1u << TRI_MEM_GRAD;
}

static void try_mesh(tri_mesh mesh, int variant, const tri_recipe *recipe) {
    tiny t;
    tri_classes all[TRI_PROGRAMS];
    tiny_open(&t, "cpu", mesh.tp > 1 ? 1 : 2 /* the second encoder has 3 heads */, 3, 0.1, 4);
    OK(tri__model_tune(&t.model, recipe));
    t.in.mesh = mesh;
    set_variant(&t, variant);
    tri_status status = tri__plan_ranks(&t.arena, &t.in, 1, all);
    if (status == TRI_USAGE && strstr(tri_error(), "nothing would be coded")) { /* what is trained is too small */
        tiny_close(&t);
        return;
    }
    if (status != TRI_OK) fail_msg("variant %d: %s", variant, tri_error());
    for (int i = 0; i < TRI_PROGRAMS; i++)
        if (tri__check_all(&all[i]) != TRI_OK) fail_msg("variant %d, program %d: %s", variant, i, tri_error());
    for (int i = 0; i < all[TRI_TRAIN].n; i++) expect_frozen(&t.model, recipe, all[TRI_TRAIN].at[i].program);
    for (int rank = 0; rank < all[0].world; rank++) {
        tri_rank_plan plan;
        t.in.rank = rank;
        OK(tri__plan(&t.arena, &t.in, 1, &plan));
        assert_true(tri__program_equal(tri__classes_program(&all[TRI_TRAIN], &t.arena, rank), plan.train.program));
        for (int s = 0; s < plan.train.n_states; s++)
            for (int u = 0; u < plan.model->n_units; u++)
                if (plan.model->unit[u].frozen) {
                    assert_int_equal(plan.train.state[s].slot[u], -1);
                    assert_int_equal(tri__range_count(plan.train.state[s].save[u]), 0);
                }
    }
    tiny_close(&t);
}

TEST(every_mesh_passes_the_checker) {
    static const tri_mesh meshes[] = {{.pp = 1, .tp = 1, .dp = 1}, {.pp = 1, .tp = 1, .dp = 3},
                                      {.pp = 3, .tp = 1, .dp = 1}, {.pp = 1, .tp = 2, .dp = 1},
                                      {.pp = 2, .tp = 2, .dp = 2}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int variant = 0; variant < 9; variant++)
            for (int r = 0; r < RECIPES; r++) try_mesh(meshes[m], variant, &recipes[r]);
}

/* The first layer is frozen with the embeddings: the program ends backward above it. */
TEST(golden_program) {
    tiny t;
    tiny_open_rank(&t, "cpu", 1, 0, 0.1, 1, &(tiny_rank){.dp = 2, .sharding = {.kind = TRI_SHARD_ZERO1}});
    OK(tri__model_tune(&t.model, &recipes[1]));
    tiny_plan(&t);
    program_text_check("tests/programs/frozen.txt", t.program, 1);
    tiny_close(&t);
}

static double rate_of(const tri_network *model, const char *name) {
    const tri_param *param = tri__model_find(model, name);
    if (!param) fail_msg("there is no %s", name);
    return param->rate;
}

/* Each encoder counts its own layers; new parameters have the head's rate. */
TEST(rates_follow_the_layers) {
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0, 1);
    for (int i = 0; i < t.model.n_params; i++) assert_true(t.model.param[i].rate == 1);
    OK(tri__model_tune(&t.model, &(tri_recipe){.layer_decay = 0.5, .head = 10}));
    static const struct {
        const char *name;
        double rate;
    } expected[] = {{"primary.encoder.layer.1.output.dense.weight", 1},
                    {"primary.encoder.layer.0.output.dense.weight", 0.5},
                    {"primary.embeddings.word_embeddings.weight", 0.25},
                    {"secondary.encoder.layer.0.output.dense.bias", 1},
                    {"secondary.embeddings.word_embeddings.weight", 0.5},
                    {"primary.pooler.dense.weight", 1},
                    {"primary.projection.weight", 10},
                    {"secondary.projection.bias", 10},
                    {"tabular.linear.weight", 10},
                    {"fusion.output.weight", 10}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_true(rate_of(&t.model, expected[i].name) == expected[i].rate);
    tiny_plan(&t);
    for (int i = 0; i < t.program[0]->n_instrs; i++) {
        const tri_instr *instr = &t.program[0]->instr[i];
        if (instr->op != TRI_OP_adamw) continue;
        const char *unit = t.program[0]->unit[instr->unit];
        double want = strcmp(unit, "primary.embeddings") == 0 ? 0.25 : strstr(unit, ".layer.1") ? 0 : -1;
        if (want >= 0) assert_true((double)instr->attr.rate == want);
    }
    tiny_close(&t);
}

/* A family whose transformers class has no pooler: it is new. */
TEST(a_new_pooler_has_the_head_s_rate) {
    tiny t;
    tiny_open(&t, "cpu", 1, 0, 0, 1);
    assert_int_equal(tri__family_find("electra", "", &t.encoder[0].family), TRI_OK);
    t.encoder[0].embedding_size = t.encoder[0].hidden_size;
    tri__model_make(&t.arena, &t.config, t.encoder, (tri_columns){0}, (tri_texts){0}, &t.model);
    OK(tri__model_tune(&t.model, &(tri_recipe){.head = 10}));
    assert_true(rate_of(&t.model, "primary.pooler.dense.weight") == 10);
    tiny_close(&t);
}

TEST(too_many_layers_are_refused) {
    tiny t;
    tiny_open(&t, "cpu", 2, 0, 0, 1);
    assert_int_equal(tri__model_tune(&t.model, &(tri_recipe){.frozen_layers = 2}), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--freeze layers=2: the secondary encoder has 1 layers"));
    OK(tri__model_tune(&t.model, &(tri_recipe){.frozen_layers = TRI_ALL_LAYERS}));
    assert_true(tri__model_trained(&t.model) < t.model.n_elements);
    tiny_close(&t);
}

/* A factor that a float cannot hold is not mistaken for none. */
TEST(small_rates_stay) {
    tiny t;
    tiny_open(&t, "cpu", 1, 0, 0, 1);
    OK(tri__model_tune(&t.model, &(tri_recipe){.layer_decay = 1e-30}));
    tiny_plan(&t);
    int seen = 0;
    for (int i = 0; i < t.program[0]->n_instrs; i++) {
        const tri_instr *instr = &t.program[0]->instr[i];
        if (instr->op != TRI_OP_adamw || strcmp(t.program[0]->unit[instr->unit], "primary.embeddings") != 0) continue;
        assert_true(instr->attr.rate > 0 && instr->attr.rate < 1e-30f);
        seen++;
    }
    assert_true(seen > 0);
    tiny_close(&t);
}

/* Frozen layers compute no backward: the first stage of a pipeline takes more of them. */
TEST(stages_are_balanced_by_what_is_trained) {
    tiny t;
    tri_stages stages;
    int first[2] = {0};
    tiny_open(&t, "cpu", 1, 0, 0, 2);
    t.encoder[0].num_hidden_layers = 12, t.encoder[0].hidden_size = 64, t.encoder[0].intermediate_size = 256;
    tri__model_make(&t.arena, &t.config, t.encoder, (tri_columns){0}, (tri_texts){0}, &t.model);
    t.in.mesh.pp = 2, t.in.staging.schedule = TRI_SCHEDULE_1F1B;
    for (int frozen = 0; frozen < 2; frozen++) {
        if (frozen) OK(tri__model_tune(&t.model, &(tri_recipe){.freezes_embeddings = 1, .frozen_layers = 6}));
        OK(tri__stages_plan(&t.arena, &t.in, &stages));
        for (int u = 0; u < t.model.n_units; u++) first[frozen] += stages.of_unit[u] == 0;
    }
    assert_true(first[1] > first[0]);
    tiny_close(&t);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
