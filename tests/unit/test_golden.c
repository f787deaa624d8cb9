/* test_golden.c - against PyTorch and transformers, from the same weights: logits, every parameter's gradient, the
 * losses of 50 steps, also of steps that leave layers out; `sparse` with block-sparse attention, there dense with a
 * mask; `experts` with mixtures, there a loop over tokens; `shared` with one encoder of both texts, `texts` with four;
 * `columns` and `periods` with columns as vectors and gated branches; `fusion` with texts and columns in layers of
 * attention; `quantized` through int8 products, with PyTorch's fake-quantise; one model of each further family of
 * encoders; losses and final weights of `bert` with other optimizers; losses with texts as windows, with rates for
 * layers and frozen ones, and of other losses than cross-entropy; schedules of learning rates. tools/golden.py and
 * others of that folder write the files. make parity: a folder given as argument replaces tests/golden, names after it
 * the models. */
#include "tests/lib/tiny.h"

#include "checkpoint/safetensors.h"
#include "data/dataset/field_values.h"
#include "engine/evaluate.h"
#include "plan/layer_gates.h"
#include "settings/forms.h"
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder = "tests/golden";

enum { MAX_SAMPLES = 16, MAX_TOKENS = 1024, MAX_WINDOWS = 64, MAX_CLASSES = 64 };

typedef struct golden {
    tri_json *json;
    tri_st_file file;
    tri_settings settings;
    tri_assets assets;
    tri_preprocess *preprocess; /* of columns that become vectors; NULL: samples have their numbers */
    tri_engine engine;
    int n_samples;
    /* the batch in hand */
    tri_micro micro;
    tri_feed feed;
    double inv, balance_inv;
    float hyper[4], average;
    tri_micro_spec spec;
    char block[1 << 17]; /* the micro's arrays */
} golden;

static const tri_json *get(const tri_json *object, const char *key) {
    const tri_json *value = tri__json_get(object, key);
    if (!value) fail_msg("the golden file has no %s", key);
    return value;
}

static double larger(double a, double b) { return a > b ? a : b; }

static double real(const tri_json *object, const char *key) { return tri__json_number_value(get(object, key)); }

static void set_options(golden *g, const tri_option *rows, void *into, const tri_json *from) {
    tri__json_members(from, m) {
        const tri_option *row = tri__option_find(rows, m->key);
        if (row) OK(tri__option_set_json(row, into, m->key, m->value));
    }
    (void)g;
}

/* A sample's numbers of the table. */
static void take_numbers(const golden *g, const tri_json *sample, float *to) {
    for (int c = 0; c < g->spec.n_columns; c++) {
        if (!g->preprocess) {
            to[c] = (float)tri__json_number_value(tri__json_at(get(sample, "numbers"), (size_t)c));
            continue;
        }
        const char *text = tri__json_string_value(tri__json_at(get(sample, "fields"), (size_t)c));
        assert_int_equal(tri__column_numbers(&g->preprocess->column[c], &g->preprocess->reading,
                                             (tri_field_text){text, strlen(text), 0}, &to[c]),
                         TRI_NUMBER_GOOD);
    }
}

/* Packs the samples named by `order` into the feed. */
static void pack(golden *g, const tri_json *order) {
    const tri_json *samples = get(g->json, "samples");
    const tri_micro_spec *spec = &g->spec;
    double weight = 0;
    tri__micro_clear(spec, &g->micro);
    for (size_t k = 0; k < tri__json_size(order); k++) {
        const tri_json *sample = tri__json_at(samples, (size_t)tri__json_integer_value(tri__json_at(order, k)));
        for (int text = 0; text < spec->n_texts; text++) {
            const tri_json *ids = get(sample, tri__branch_name(text));
            int64_t n = (int64_t)tri__json_size(ids);
            int32_t *to = tri__micro_ids(spec, &g->micro, text, n); /* [n] */
            for (int64_t i = 0; i < n; i++) to[i] = (int32_t)tri__json_integer_value(tri__json_at(ids, (size_t)i));
            tri__micro_text(spec, &g->micro, text, n, (int64_t)k);
        }
        take_numbers(g, sample, tri__micro_numbers(spec, &g->micro));
        int32_t label = (int32_t)tri__json_integer_value(get(sample, "label"));
        float target[MAX_CLASSES] = {0.75f * (float)label - 0.5f};
        for (int c = 0; spec->words > 1 && c < spec->words; c++)
            target[c] = label + c == 3 ? NAN : (float)((label + c) % 2);
        weight += g->engine.model.is_number ? 1 : (double)g->engine.class_weights[label];
        tri__micro_row(spec, &g->micro, (int64_t)k, g->engine.model.is_number ? (const int32_t *)target : &label);
    }
    g->inv = 1 / weight;
    tri__micro_pad(spec, &g->micro);
    tri__feed(&g->micro, &g->engine, &g->inv, g->hyper, &g->feed);
    g->balance_inv = 1 / (double)g->micro.n; /* no model has both experts and windows */
    for (int text = 0; text < 2; text++) g->feed.field[TRI_FIELD_balance_inv0 + text] = &g->balance_inv;
}

/* The arrays of the batch in hand. */
static void open_micro(golden *g) {
    size_t bytes = 0;
    g->spec = (tri_micro_spec){.n_texts = g->assets.n_texts,
                               .n_columns = g->engine.model.n_columns,
                               .fused = g->engine.model.tokens,
                               .rows = MAX_SAMPLES,
                               .words = g->engine.model.n_targets,
                               .windows = tri__assets_windows(&g->settings.model, &g->assets)};
    for (int text = 0; text < g->assets.n_encoders; text++) {
        g->spec.tokens[text] = MAX_TOKENS, g->spec.sequences[text] = MAX_WINDOWS;
        g->spec.position_base[text] = tri__encoder_position_base(&g->assets.encoder[text]);
        g->spec.capacity[text] = tri__encoder_capacity(&g->assets.encoder[text]);
    }
    tri__micro_carve(&g->spec, NULL, &bytes, NULL);
    assert_true(bytes <= sizeof g->block);
    bytes = 0;
    tri__micro_carve(&g->spec, g->block, &bytes, &g->micro);
}

/* model, more: keys beyond those of its configuration, options beyond those of its recipe; NULL: none. */
static void open_golden(golden *g, const char *name, const tri_json *model, const tri_json *more, const char *device) {
    char path[512];
    *g = (golden){0};
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    OK(tri__json_load(path, TRI_DATA, &g->json));
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    OK(tri__st_open(path, &g->file));
    tri__settings_init(&g->settings);
    set_options(g, tri__model_options, &g->settings.model, get(g->json, "config"));
    if (model) set_options(g, tri__model_options, &g->settings.model, model);
    if (g->settings.model.task && g->settings.model.task != TRI_TASK_LABELS) g->settings.model.class_weights.n = 0;
    set_options(g, tri__run_options, &g->settings, get(g->json, "recipe"));
    if (more) set_options(g, tri__run_options, &g->settings, more);
    OK(tri__option_set_text(tri__option_find(tri__run_options, "device"), &g->settings, "device", device));
    g->settings.num_microbatches = 1; /* left open by the options: nobody resolves them here */
    OK(tri__model_config_check(&g->settings.model));
    g->assets.n_texts = tri__model_texts(&g->settings.model);
    g->assets.n_encoders = tri__model_encoders(&g->settings.model);
    g->assets.readers = tri__model_readers(&g->settings.model);
    const tri_json *encoders[2] = {g->settings.model.primary_encoder, g->settings.model.secondary_encoder};
    for (int e = 0; e < g->assets.n_encoders; e++) OK(tri__encoder_parse(encoders[e], name, &g->assets.encoder[e]));
    tri_counts max = {.of = {0, MAX_TOKENS, g->assets.n_encoders > 1 ? MAX_TOKENS : 0, MAX_SAMPLES}};
    for (int e = 0; e < g->assets.n_encoders && (g->settings.model.windows > 1 || g->assets.readers.joined); e++)
        max.of[TRI_SYM_W0 + e] = MAX_WINDOWS;
    tri_place place;
    OK(tri__place_make(&g->settings, NULL, 1, 0, &place));
    tri_columns columns = {.n = g->settings.model.tab_field_list.n};
    const tri_json *fitted = tri__json_get(g->json, "preprocessing");
    if (fitted) OK(tri__preprocess_parse(fitted, name, &g->preprocess));
    if (fitted) columns = g->preprocess->vectors;
    OK(tri__engine_plan(&(tri_engine_spec){.settings = &g->settings, .place = &place, .assets = &g->assets,
                                           .columns = columns, .train = 1, .max = &max, .max_infer = &max},
                                           &g->engine));
    OK(tri__engine_bind(&g->engine, NULL));
    open_micro(g);
    for (int i = 0; i < g->engine.n_weights; i++) {
        const tri_st_entry *entry = tri__st_find(&g->file, g->engine.weights[i].name);
        if (!entry) fail_msg("the golden file has no %s", g->engine.weights[i].name);
        assert_true(tri__shape_equal(&entry->shape, &g->engine.weights[i].shape));
        OK(tri__st_read_f32(&g->file, entry, 0, g->engine.weights[i].slice.end, g->engine.weights[i].data));
    }
    OK(tri__engine_upload(&g->engine));
}

static void close_golden(golden *g) {
    tri__engine_close(&g->engine);
    tri__preprocess_free(g->preprocess);
    tri__settings_free(&g->settings);
    tri__st_close(&g->file);
    tri__json_decref(g->json);
}

static tri_json *all_samples(const golden *g) {
    tri_json *order = tri__json_array();
    for (size_t i = 0; i < tri__json_size(get(g->json, "samples")); i++)
        tri__json_append_new(order, tri__json_integer((tri_json_int)i));
    return order;
}

static void check_logits(golden *g) {
    const tri_program *infer = g->engine.plan.infer.program;
    int64_t count = g->micro.n * g->engine.model.n_classes;
    float want[MAX_CLASSES * MAX_SAMPLES];
    assert_true(g->engine.model.n_classes <= MAX_CLASSES);
    OK(tri__exec_run(g->engine.exec, g->engine.infer, 0, infer->n_instrs, 0, &g->feed, NULL));
    const char *name = g->engine.model.tokens ? "fusion.head.logits#0" : "fusion.logits#0";
    const float *logits = tri__exec_slot(g->engine.exec, g->engine.infer,
                                         tri__program_find(infer, name)); /* [n, classes] */
    OK(tri__st_read_f32(&g->file, tri__st_find(&g->file, "logits"), 0, count, want));
    double worst = 0;
    for (int64_t i = 0; i < count; i++) worst = larger(worst, fabs((double)logits[i] - want[i]));
    print_message("    logits differ by at most %.2g\n", worst);
    assert_true(worst <= 1e-5);
}

/* |dg| <= 1e-4 * max(|g|, 1e-6 * |g_all|) for every parameter. The gradient of a key's bias is 0, for softmax does not
 * see it. In the fusion's layers, whose few tokens are of all sizes, the rounding of its sum is more than that: at most
 * 1e-8 * |g_all|. */
static void check_gradients(golden *g) {
    const tri_program *train = g->engine.plan.train.program;
    double all = 0, worst = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < g->engine.model.n_params; i++) {
            const tri_param *param = &g->engine.model.param[i];
            char name[256];
            snprintf(name, sizeof name, "grad.%s", param->name);
            const tri_st_entry *entry = tri__st_find(&g->file, name);
            if (!entry) fail_msg("the golden file has no %s", name);
            float *want = malloc((size_t)param->count * sizeof *want); /* [count] */
            OK(tri__st_read_f32(&g->file, entry, 0, param->count, want));
            snprintf(name, sizeof name, "g.%s", g->engine.model.unit[param->unit].name);
            const float *unit = tri__exec_slot(g->engine.exec, g->engine.train, tri__program_find(train, name));
            const float *got = unit + param->at; /* [count] */
            double norm = 0, difference = 0;
            for (int64_t k = 0; k < param->count; k++)
                norm += (double)want[k] * want[k], difference += pow((double)got[k] - want[k], 2);
            free(want);
            if (pass == 0) {
                all += norm;
                continue;
            }
            int is_fusion_key = !strncmp(param->name, "fusion.layer.", 13) && strstr(param->name, "key.bias");
            double floor = is_fusion_key ? 1e-4 : 1e-6;
            double ratio = sqrt(difference) / fmax(sqrt(norm), floor * sqrt(all));
            if (norm > 1e-12 * all) worst = larger(worst, ratio); /* not where it is 0: a key's bias */
            if (ratio > 1e-4)
                fail_msg("gradient of %s is off by %g (norm %g)", param->name, sqrt(difference), sqrt(norm));
        }
    print_message("    %d gradients differ by at most %.2g of their norm\n", g->engine.model.n_params, worst);
}

/* Of all layers with experts: their balancing losses (0), or tokens without a place (1). */
static double expert_figure(const golden *g, int which) {
    double sum = 0;
    int64_t n = g->engine.plan.train.experts < 0 ? 0 : tri__model_expert_layers(&g->engine.model);
    for (int64_t i = 0; i < n; i++)
        sum += ((double *)tri__exec_slot(g->engine.exec, g->engine.train, g->engine.plan.train.experts))[2 * i + which];
    return sum;
}

static double run_step(golden *g, int64_t s, int update) {
    const tri_program *train = g->engine.plan.train.program;
    const tri_json *recipe = get(g->json, "recipe");
    tri_rates rates = tri__rates(&g->settings, (int64_t)real(recipe, "total_steps"));
    rates.warmup = (int64_t)real(recipe, "warmup_steps");
    g->hyper[0] = (float)tri__learning_rate(&rates, s);
    g->hyper[1] = (float)(1 - pow(real(recipe, "adam_beta1"), (double)s + 1));
    g->hyper[2] = (float)(1 - pow(real(recipe, "adam_beta2"), (double)s + 1));
    tri_average_form average;
    OK(tri__average_parse(g->settings.average_weights, &average));
    g->average = (float)tri__ema_step(average.decay, s + 1);
    g->feed.field[TRI_FIELD_average] = &g->average;
    OK(tri__exec_run(g->engine.exec, g->engine.train, 0, update ? train->n_instrs : g->engine.plan.train.update,
                     (uint32_t)s + 1, &g->feed, NULL));
    double loss = *(double *)tri__exec_slot(g->engine.exec, g->engine.train, g->engine.plan.train.loss);
    return loss + expert_figure(g, 0);
}

/* Steps that leave layers out: the gates are those of tools/golden_layers.py, which draws them itself. */
static void set_gates(golden *g, size_t s, const tri_json *closed) {
    tri_open_gates expected = {0};
    tri__json_items(closed, layer) tri__close_layer(&expected, (int)tri__json_integer_value(layer));
    tri__layer_gates_step(&g->engine.in.layer_drop, &g->engine.model, g->engine.seed, (int64_t)s, &g->feed.gates,
                          g->engine.layer_scale);
    assert_memory_equal(&g->feed.gates, &expected, sizeof expected);
}

/* run: the losses to expect. */
static void check_losses(golden *g, const tri_json *run) {
    const tri_json *losses = get(run, "losses"), *batches = get(g->json, "batches"), *norms = get(run, "grad_norms");
    const tri_json *closed = tri__json_get(run, "closed"); /* layers that each step leaves out */
    double worst = 0;
    for (size_t s = 0; s < tri__json_size(losses); s++) {
        pack(g, tri__json_at(batches, s % tri__json_size(batches)));
        if (closed) set_gates(g, s, tri__json_at(closed, s));
        double loss = run_step(g, (int64_t)s, 1), want = tri__json_number_value(tri__json_at(losses, s));
        double norm = *(double *)tri__exec_slot(g->engine.exec, g->engine.train, g->engine.plan.train.norm);
        worst = larger(worst, fabs(loss - want));
        if (fabs(loss - want) > 1e-4) fail_msg("loss of step %zu is %.9g, PyTorch has %.9g", s, loss, want);
        double want_norm = tri__json_number_value(tri__json_at(norms, s));
        if (fabs(norm - want_norm) > 1e-3 * fmax(want_norm, 0.01))
            fail_msg("norm of step %zu is %g, PyTorch has %g", s, norm, want_norm);
    }
    print_message("    %zu losses differ by at most %.2g\n", tri__json_size(losses), worst);
}

static void compare(const char *name, const char *device) {
    golden *g = malloc(sizeof *g);
    assert_non_null(g);
    open_golden(g, name, NULL, NULL, device);
    tri_json *order = all_samples(g);
    pack(g, order);
    print_message("  %s on %s\n", name, device);
    check_logits(g);
    assert_true(fabs(run_step(g, 0, 0) - real(g->json, "loss")) <= 1e-5);
    if (tri__json_get(g->json, "dropped")) assert_int_equal(expert_figure(g, 1), real(g->json, "dropped"));
    check_gradients(g);
    check_losses(g, g->json);
    tri__json_decref(order);
    close_golden(g);
    free(g);
}

/* A key's bias changes no loss: its gradient is 0, and an optimizer that divides by its size moves it by rounding
 * noise. */
static void check_weights(golden *g, const tri_json *weights) {
    double worst = 0;
    for (int i = 0; i < g->engine.n_weights; i++) {
        const tri_piece *piece = &g->engine.weights[i];
        const tri_json *want = get(weights, piece->name);
        int64_t n = (int64_t)tri__json_size(want), count = piece->slice.end, each = (count + 7) / 8;
        assert_int_equal(n, (count + each - 1) / each);
        for (int64_t k = 0; k < n && !strstr(piece->name, "key.bias"); k++) {
            double got = ((const float *)piece->data)[k * each], wanted = tri__json_number_value(tri__json_at(want, k));
            worst = larger(worst, fabs(got - wanted));
            if (fabs(got - wanted) > 2e-5)
                fail_msg("%s [%lld] is %.9g, PyTorch has %.9g", piece->name, (long long)(k * each), got, wanted);
        }
    }
    print_message("    final weights differ by at most %.2g\n", worst);
}

/* Calls `visit` for each of the n runs of a golden file, on each device. */
typedef void visit_run(golden *g, const tri_json *all, const tri_json *run, const char *device);
static void each_run(const char *file, size_t n, visit_run *visit) {
    static const char *const devices[] = {"reference", "cpu"};
    char path[512];
    tri_json *all;
    golden *g = malloc(sizeof *g);
    assert_non_null(g);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    OK(tri__json_load(path, TRI_DATA, &all));
    assert_int_equal(tri__json_size(get(all, "runs")), n);
    tri__json_items(get(all, "runs"), run) for (int d = 0; d < 2; d++) visit(g, all, run, devices[d]);
    tri__json_decref(all);
    free(g);
}

static void optimizer_run(golden *g, const tri_json *all, const tri_json *run, const char *device) {
    const tri_json *recipe = get(run, "recipe");
    open_golden(g, tri__json_string_value(get(all, "of")), NULL, recipe, device);
    print_message("  %s on %s, averages %s\n", tri__json_string_value(get(recipe, "optimizer")), device,
                  g->settings.average_weights);
    check_losses(g, run);
    check_weights(g, get(run, "weights"));
    close_golden(g);
}

static void optimizers(void **state) {
    (void)state;
    each_run("optimizers.json", 5, optimizer_run);
}

/* The weights that are compared are the averages. */
static void averages(void **state) {
    (void)state;
    each_run("averages.json", 2, optimizer_run);
}

static void windows_run(golden *g, const tri_json *all, const tri_json *run, const char *device) {
    (void)all;
    open_golden(g, tri__json_string_value(get(run, "of")), get(run, "config"), NULL, device);
    print_message("  windows of %s on %s\n", tri__json_string_value(get(run, "of")), device);
    check_losses(g, run);
    close_golden(g);
}

/* Texts as overlapping windows. */
static void windows(void **state) {
    (void)state;
    each_run("windows.json", 5, windows_run);
}

static void losses_run(golden *g, const tri_json *all, const tri_json *run, const char *device) {
    char *text = tri__json_line(get(run, "recipe"));
    (void)all;
    open_golden(g, tri__json_string_value(get(run, "of")), tri__json_get(run, "config"), get(run, "recipe"), device);
    print_message("  %s %s on %s\n", tri__json_string_value(get(run, "of")), text, device);
    check_losses(g, run);
    close_golden(g);
    free(text);
}

/* Smoothed labels, focal loss, losses of numbers, several labels. */
static void losses(void **state) {
    (void)state;
    each_run("losses.json", 18, losses_run);
}

static void layers_run(golden *g, const tri_json *all, const tri_json *run, const char *device) {
    char drop[512];
    tri_json *more = tri__json_object();
    (void)all;
    snprintf(drop, sizeof drop, "theta=%.17g,gamma=%.17g", real(run, "theta"), real(run, "gamma"));
    tri__json_set_new(more, "layer_drop", tri__json_string(drop));
    tri__json_set_new(more, "seed", tri__json_integer((tri_json_int)real(run, "seed")));
    open_golden(g, tri__json_string_value(get(run, "of")), NULL, more, device);
    print_message("  %s with layers left out, on %s\n", tri__json_string_value(get(run, "of")), device);
    check_losses(g, run);
    close_golden(g);
    tri__json_decref(more);
}

static void layers(void **state) {
    (void)state;
    each_run("layers.json", 2, layers_run);
}

/* Frozen weights keep their bits. */
static void check_frozen(const golden *g) {
    const tri_network *model = &g->engine.model;
    for (int i = 0; i < g->engine.n_weights; i++) {
        const tri_piece *piece = &g->engine.weights[i];
        float before[4096];
        int64_t n = piece->slice.end;
        if (!model->unit[tri__model_find(model, piece->name)->unit].frozen) continue;
        assert_true(n <= 4096);
        OK(tri__st_read_f32(&g->file, tri__st_find(&g->file, piece->name), 0, n, before));
        assert_memory_equal(piece->data, before, (size_t)n * sizeof *before);
    }
}

static void rates_run(golden *g, const tri_json *all, const tri_json *run, const char *device) {
    (void)all;
    open_golden(g, tri__json_string_value(get(run, "of")), NULL, get(run, "recipe"), device);
    print_message("  rates of %s on %s\n", tri__json_string_value(get(run, "of")), device);
    check_losses(g, run);
    check_frozen(g);
    close_golden(g);
}

/* A rate for each layer and for new parameters, and frozen ones; schedules. */
static void rates(void **state) {
    (void)state;
    each_run("rates.json", 5, rates_run);
}

static void schedules(void **state) {
    char path[512];
    tri_json *all;
    (void)state;
    snprintf(path, sizeof path, "%s/rates.json", folder);
    OK(tri__json_load(path, TRI_DATA, &all));
    tri__json_each(get(all, "schedules"), i, one) {
        tri_settings settings;
        OK(tri__settings_init(&settings));
        set_options(NULL, tri__run_options, &settings, one);
        tri_rates rates = tri__rates(&settings, (int64_t)real(one, "steps"));
        tri__json_each(get(one, "factors"), s, factor) {
            double want = settings.lr * tri__json_number_value(factor), got = tri__learning_rate(&rates, (int64_t)s);
            if (fabs(got - want) > 1e-12 * settings.lr)
                fail_msg("schedule %zu, step %zu: %.17g, transformers has %.17g", i, s, got, want);
        }
        tri__settings_free(&settings);
    }
    assert_int_equal(tri__json_size(get(all, "schedules")), 20);
    tri__json_decref(all);
}

static void both(void **state) {
    compare(*state, "reference");
    compare(*state, "cpu");
}

static int compare_named(int n, char **names) {
    struct CMUnitTest *tests = calloc((size_t)n, sizeof *tests); /* [n] */
    if (!tests) return 1;
    for (int i = 0; i < n; i++) tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(both, names[i]);
    int failed = _cmocka_run_group_tests("golden", tests, (size_t)n, NULL, NULL);
    free(tests);
    return failed;
}

int main(int argc, char **argv) {
    if (argc > 1) folder = argv[1];
    if (argc > 2) return compare_named(argc - 2, argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(both, "bert"),
        cmocka_unit_test_prestate(both, "roberta"),
        cmocka_unit_test_prestate(both, "trimodal"),
        cmocka_unit_test_prestate(both, "sparse"),
        cmocka_unit_test_prestate(both, "experts"),
        cmocka_unit_test_prestate(both, "shared"),
        cmocka_unit_test_prestate(both, "texts"),
        cmocka_unit_test_prestate(both, "columns"),
        cmocka_unit_test_prestate(both, "periods"),
        cmocka_unit_test_prestate(both, "fusion"),
        cmocka_unit_test_prestate(both, "distilbert"),
        cmocka_unit_test_prestate(both, "electra"),
        cmocka_unit_test_prestate(both, "xlm-roberta"),
        cmocka_unit_test_prestate(both, "mpnet"),
        cmocka_unit_test_prestate(both, "modernbert"),
        cmocka_unit_test_prestate(both, "deberta-v2"),
        cmocka_unit_test_prestate(both, "quantized"),
        cmocka_unit_test(optimizers),
        cmocka_unit_test(averages),
        cmocka_unit_test(windows),
        cmocka_unit_test(layers),
        cmocka_unit_test(losses),
        cmocka_unit_test(rates),
        cmocka_unit_test(schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
