/* test_quantize.c - `trident quantize` from C: the folder's figures are those that were measured; the harmful layers
 * return to 16 bits, and only they; every integer and every scale counts; a run of --quantize int8 loses nothing. */
#include "tests/lib/test.h"
#include "tests/lib/session_data.h"

#include "checkpoint/quantized_weights.h"
#include "engine/infer_settings.h"
#include "model/model.h"
#include "serve/convert/quantized_folder.h"
#include "serve/serve.h"

#include <math.h>

enum { PATH = 256, ROWS = 30 };
static char plain[PATH], bad[PATH]; /* runs: as trained; with two layers that int8 destroys */

static float *weight_of(tri_session *s, const char *name) {
    const tri_param *param = tri__model_find(&s->engine.model, name);
    if (!param) fail_msg("no weight %s", name);
    return s->engine.weights[param - s->engine.model.param].data;
}

/* A column whose input is 0 gets numbers so large that all others of their row round to 0: nothing changes in floats,
 * and int8 loses the layer. Two layers in a row: to return one of them alone would not help. */
static void spoil(tri_session *s) {
    enum { WIDTH = 16, COMMON = 16 };
    float *pooler = weight_of(s, "secondary.pooler.dense.weight");    /* [WIDTH, WIDTH] */
    float *projection = weight_of(s, "secondary.projection.weight");  /* [COMMON, WIDTH] */
    memset(weight_of(s, "primary.projection.weight"), 0, 24 * COMMON * sizeof(float)); /* the first text says it, too */
    weight_of(s, "secondary.encoder.layer.0.output.LayerNorm.weight")[1] = 0;
    weight_of(s, "secondary.encoder.layer.0.output.LayerNorm.bias")[1] = 0;
    memset(pooler, 0, WIDTH * sizeof *pooler); /* its output 0 */
    weight_of(s, "secondary.pooler.dense.bias")[0] = 0;
    for (int o = 0; o < WIDTH; o++) pooler[o * WIDTH + 1] = 1000;
    for (int o = 0; o < COMMON; o++) projection[o * WIDTH] = 1000;
}

static void train(const char *output, const char *option, int spoils, char folder[static PATH]) {
    double loss;
    int more = 1;
    char saved[TRI_PATH_MAX];
    tri_session *s = open_session(output, OPTIONS("--resume=never", "--epochs=30", option));
    while (more) OK(take_step(s, &loss, &more));
    if (spoils) spoil(s);
    OK(tri_save(s, saved, sizeof saved));
    tri_session_close(s);
    snprintf(folder, PATH, "%s/%s", root, output);
}

static int make_runs(void **state) {
    if (make_data(state)) return -1;
    train("plain", NULL, 0, plain);
    train("bad", NULL, 1, bad);
    return 0;
}

/* ---- Calls ---- */

static void parse(tri_settings *settings, const char *command, int n, const char *const *options) {
    int n_words = 0;
    OK(tri__settings_init(settings));
    if (tri__settings_parse(settings, command, n, options, NULL, 0, &n_words) != TRI_OK) fail_msg("%s", tri_error());
}

static tri_status quantize(const char *run, const char *out, double max_drop, const char *option, tri_json **facts) {
    char checkpoint[PATH + 32], output[PATH + 32], data[PATH + 32];
    const char *options[] = {checkpoint, output, data, option};
    tri_settings settings;
    snprintf(checkpoint, sizeof checkpoint, "--checkpoint=%s", run);
    snprintf(output, sizeof output, "--output=%s/%s", root, out);
    snprintf(data, sizeof data, "--data-path=%s/valid.csv", root);
    parse(&settings, "quantize", option ? 4 : 3, options);
    tri_status status = tri__serve_quantize(&settings, max_drop, NULL, NULL, facts);
    tri__settings_free(&settings);
    return status;
}

/* probs [ROWS, 2] */
static void predict(const char *folder, const char *const *more, float *probs) {
    char checkpoint[TRI_PATH_MAX + 32], data[PATH + 32];
    const char *options[8] = {checkpoint, data};
    int n = 2;
    tri_settings settings;
    tri_predictions made;
    snprintf(checkpoint, sizeof checkpoint, "--checkpoint=%s", folder);
    snprintf(data, sizeof data, "--data-path=%s/valid.csv", root);
    for (; more && *more; more++) options[n++] = *more;
    parse(&settings, "predict", n, options);
    if (tri__serve_predict(&settings, NULL, &(tri_predict_options){0}, NULL, &made) != TRI_OK)
        fail_msg("%s", tri_error());
    assert_int_equal(made.n, ROWS);
    memcpy(probs, made.probs, 2 * ROWS * sizeof *probs);
    tri__predictions_free(&made);
    tri__settings_free(&settings);
}

static const char *path_of(const char *name, char out[static PATH]) {
    snprintf(out, PATH, "%s/%s", root, name);
    return out;
}

static double number(const tri_json *facts, const char *object, const char *key) {
    return tri__json_number_value(tri__json_get(object ? tri__json_get(facts, object) : facts, key));
}

/* Nothing but the runs and the data is in the folder. */
static void expect_absent(const char *name) {
    char path[PATH];
    tri_kind kind;
    OK(tri__path_kind(path_of(name, path), &kind));
    assert_int_equal(kind, TRI_KIND_NONE);
    tri_names names;
    OK(tri__folder_list(root, &names));
    for (int i = 0; i < names.n; i++)
        if (strstr(names.name[i], ".trident")) fail_msg("%s is left", names.name[i]);
    tri__names_free(&names);
}

/* ---- Tests ---- */

/* The folder gives, bit by bit, what the run gives with int8 products: it is only another way to store it. */
TEST(folder_is_the_run_in_int8) {
    static const char *const types[] = {"fp32", "bf16", "fp16"};
    for (int t = 0; t < 3; t++) {
        char path[PATH], precision[32], name[32];
        float run[2 * ROWS], folder[2 * ROWS], floats[2 * ROWS];
        tri_json *facts = NULL;
        snprintf(precision, sizeof precision, "--precision=%s", types[t]);
        snprintf(name, sizeof name, "int8-%s", types[t]);
        if (quantize(plain, name, 1, precision, &facts) != TRI_OK) fail_msg("%s", tri_error());
        assert_int_equal(tri__json_size(tri__json_get(facts, "layers_in_16_bits")), 0);
        assert_string_equal(tri__json_string_value(tri__json_get(facts, "precision")), types[t]);
        predict(plain, OPTIONS(precision, "--quantize=int8"), run);
        predict(plain, NULL, floats);
        predict(path_of(name, path), NULL, folder);
        assert_memory_equal(run, folder, sizeof run);
        assert_memory_not_equal(run, floats, sizeof run);
        for (int i = 0; i < 2 * ROWS; i++) assert_true(fabs((double)run[i] - floats[i]) < 0.1);
        tri__json_decref(facts);
        expect_absent("nothing");
    }
}

TEST(harmful_layers_return) {
    char path[PATH], kept[256] = "";
    float floats[2 * ROWS], folder[2 * ROWS];
    tri_json *facts = NULL, *all = NULL;
    if (quantize(bad, "all", 1, NULL, &all) != TRI_OK) fail_msg("%s", tri_error()); /* any drop is allowed */
    print_message("    all in int8: accuracy %.3f, before %.3f\n", number(all, "after", "accuracy"),
                  number(all, "before", "accuracy"));
    assert_true(number(all, NULL, "drop") > 0.1);
    assert_int_equal(number(all, NULL, "evaluations"), 2);
    if (quantize(bad, "returned", 0.002, NULL, &facts) != TRI_OK) fail_msg("%s", tri_error());
    const tri_json *list = tri__json_get(facts, "layers_in_16_bits");
    tri__json_items(list, name) {
        snprintf(kept + strlen(kept), sizeof kept - strlen(kept), "%s ", tri__json_string_value(name));
    }
    print_message("    back in 16 bits: %s, after %d evaluations\n", kept, (int)number(facts, NULL, "evaluations"));
    assert_string_equal(kept, "secondary.pooler.dense secondary.projection ");
    assert_true(number(facts, NULL, "drop") <= 0.002);
    /* The most harmful first, one after the other. */
    assert_int_equal(number(facts, NULL, "evaluations"), 2 + number(facts, NULL, "layers") + 2);
    predict(bad, NULL, floats);
    predict(path_of("returned", path), NULL, folder);
    for (int k = 0; k < 2 * ROWS; k++) assert_true(fabs((double)floats[k] - folder[k]) < 0.1);
    expect_absent("nothing");
    tri__json_decref(all);
    tri__json_decref(facts);
}

TEST(refuses_with_figures) {
    tri_json *facts = NULL;
    assert_int_equal(quantize(plain, "refused", -0.5, NULL, &facts), TRI_USAGE); /* it would have to improve */
    static const char *const words[] = {"accuracy", "PR AUC", "before", "layers in 16 bits", "30 rows",
                                        "Nothing was written"};
    for (int i = 0; i < 6; i++)
        if (!strstr(tri_error(), words[i])) fail_msg("no \"%s\" in: %s", words[i], tri_error());
    assert_null(facts);
    expect_absent("refused");
}

/* Two encoders of MiniLM's size, with every layer in int8; the weights of quantized_folder.c. */
TEST(a_quarter_of_the_bytes) {
    tri_settings settings;
    tri_encoder encoder[2] = {{0}};
    tri_arena arena;
    tri_network model;
    double floats = 0, stored = 0;
    tri_json *spec = tri__json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "type_vocab_size", 2, "vocab_size", 30522,
                                    "hidden_size", 384, "num_hidden_layers", 6, "num_attention_heads", 12,
                                    "intermediate_size", 1536, "max_position_embeddings", 512);
    OK(tri__settings_init(&settings));
    settings.model.primary_text_name = strdup("a"), settings.model.secondary_text_name = strdup("b");
    for (int branch = 0; branch < 2; branch++) OK(tri__encoder_parse(spec, "minilm", &encoder[branch]));
    OK(tri__arena_open(&arena, 1 << 20));
    tri__model_make(&arena, &settings.model, encoder, (tri_columns){.n = 3}, (tri_texts){0}, &model);
    for (int i = 0; i < model.n_params; i++) {
        const tri_param *param = &model.param[i];
        const tri_piece piece = {.name = param->name, .shape = param->shape};
        double n = (double)tri__shape_count(&param->shape);
        floats += 4 * n;
        stored += tri__weight_quantizes(piece.name, &piece.shape) ? n + 4 * (double)param->shape.dim[0] : 4 * n;
    }
    print_message("    %.1f MB of %.1f: %.4f\n", stored / 1e6, floats / 1e6, stored / floats);
    assert_true(model.n_elements > 45000000 && stored <= 0.3 * floats);
    tri__arena_close(&arena);
    tri__json_decref(spec);
    tri__settings_free(&settings);
}

/* Copies a folder with one number of a tensor changed: an integer, or a scale. */
typedef struct edit {
    tri_checkpoint *from;
    tri_piece *piece; /* [n] as stored; data owned */
    int n;
} edit;

static void open_edit(edit *e, const char *path) {
    OK(tri__checkpoint_open(path, 1, &e->from));
    e->n = tri__checkpoint_count(e->from);
    e->piece = calloc((size_t)e->n, sizeof *e->piece);
    for (int i = 0; i < e->n; i++) {
        OK(tri__checkpoint_tensor(e->from, i, &e->piece[i]));
        e->piece[i].data = malloc((size_t)e->piece[i].slice.end * tri__dtype_bytes(e->piece[i].dtype) + 1);
        OK(tri__checkpoint_read(e->from, &e->piece[i]));
    }
}

static tri_status copy_vocabularies(void *context, const char *folder) {
    static const char *const files[] = {"primary/vocab.txt", "primary/tokenizer_config.json", "primary/config.json",
                                        "secondary/vocab.txt", "secondary/tokenizer_config.json",
                                        "secondary/config.json"};
    const edit *e = context;
    for (int i = 0; i < 6; i++) {
        char from[TRI_PATH_MAX], to[TRI_PATH_MAX], *text;
        size_t size;
        if (i % 3 == 0) {
            TRI_TRY(tri__path_join(to, folder, i ? "secondary" : "primary"));
            TRI_TRY(tri__folder_make(to));
        }
        TRI_TRY(tri__path_join(from, tri__checkpoint_path(e->from), files[i]));
        if (!tri__is_file(from)) continue;
        TRI_TRY(tri__path_join(to, folder, files[i]));
        TRI_TRY(tri__file_read(from, 1 << 20, &text, &size));
        tri_status status = tri__file_write(to, text, size);
        free(text);
        TRI_TRY(status);
    }
    return TRI_OK;
}

static void write_edit(const edit *e, const char *path) {
    tri_checkpoint_out out = {.folder = path,
                              .weights = e->piece,
                              .n_weights = e->n,
                              .config = tri__checkpoint_config(e->from),
                              .preprocessing = tri__checkpoint_preprocessing(e->from),
                              .state = tri__checkpoint_state(e->from),
                              .extras = copy_vocabularies,
                              .context = (void *)e};
    OK(tri__folder_remove_all(path));
    OK(tri__checkpoint_export(&out));
}

/* An integer that all texts use: of the first row, or of the [CLS] token, and not the row's largest. */
static int64_t find_integer(const tri_piece *piece) {
    const int8_t *q = piece->data; /* [rows, cols] */
    int64_t cols = piece->shape.dim[1], row = strstr(piece->name, "word_embeddings") ? 2 : 0;
    for (int64_t i = 0; i < cols; i++)
        if (abs(q[row * cols + i]) < 127) return row * cols + i;
    fail_msg("%s: a row of 127s", piece->name);
    return -1;
}

TEST(every_number_counts) {
    char path[PATH], changed[PATH];
    float before[2 * ROWS], after[2 * ROWS];
    edit e;
    int tensors = 0;
    open_edit(&e, path_of("int8-fp32", path));
    path_of("changed", changed);
    predict(path, NULL, before);
    write_edit(&e, changed);
    predict(changed, NULL, after);
    assert_memory_equal(before, after, sizeof before);
    for (int i = 0; i < e.n; i++) {
        if (e.piece[i].dtype != TRI_I8) continue;
        int8_t *q = (int8_t *)e.piece[i].data + find_integer(&e.piece[i]), kept = *q;
        *q = (int8_t)(kept > 0 ? kept - 40 : kept + 40);
        write_edit(&e, changed);
        predict(changed, NULL, after);
        if (!memcmp(before, after, sizeof before)) fail_msg("an integer of %s changes no answer", e.piece[i].name);
        *q = kept;
        char name[256];
        snprintf(name, sizeof name, "%s" TRI_SCALE_SUFFIX, e.piece[i].name);
        for (int k = 0; k < e.n; k++) {
            if (strcmp(e.piece[k].name, name) != 0) continue;
            float *scale = (float *)e.piece[k].data + (strstr(name, "word_embeddings") ? 2 : 0);
            *scale *= 2;
            write_edit(&e, changed);
            predict(changed, NULL, after);
            if (!memcmp(before, after, sizeof before)) fail_msg("a scale of %s changes no answer", name);
            *scale /= 2;
        }
        tensors++;
    }
    assert_int_equal(tensors, 2 * 5 + 3 * 6); /* two encoders' tables, pooler, projection; three layers */
    for (int i = 0; i < e.n; i++) free(e.piece[i].data);
    free(e.piece);
    tri__checkpoint_close(e.from);
}

/* Written by another build: bad data to those that want its answers. */
TEST(another_version) {
    char path[PATH], file[TRI_PATH_MAX], checkpoint[PATH + 32], data[PATH + 32];
    tri_json *manifest;
    tri_settings settings;
    tri_predictions made;
    OK(tri__manifest_load(path_of("changed", path), &manifest));
    assert_int_equal(tri__json_set_new(manifest, "version", tri__json_integer(99)), 0);
    char *text = tri__manifest_text(manifest);
    OK(tri__path_join(file, path, "manifest.json"));
    OK(tri__file_write(file, text, strlen(text)));
    free(text);
    tri__json_decref(manifest);
    snprintf(checkpoint, sizeof checkpoint, "--checkpoint=%s", path);
    snprintf(data, sizeof data, "--data-path=%s/valid.csv", root);
    parse(&settings, "predict", 2, (const char *const[]){checkpoint, data});
    assert_int_equal(tri__serve_predict(&settings, NULL, &(tri_predict_options){0}, NULL, &made), TRI_DATA);
    assert_non_null(strstr(tri_error(), "version 99"));
    tri__settings_free(&settings);
}

/* Trained through int8 products: the folder has the forward pass that training saw. */
TEST(trained_for_it) {
    char run[PATH], path[PATH];
    static const char *const types[] = {"--precision=fp32", "--precision=bf16"};
    for (int t = 0; t < 2; t++) {
        float a[2 * ROWS], b[2 * ROWS];
        double loss;
        int more = 1;
        char saved[TRI_PATH_MAX];
        tri_result seen;
        tri_json *facts = NULL;
        tri_session *s = open_session("qat", OPTIONS("--resume=never", "--epochs=4", "--quantize=int8", types[t],
                                                     "--float-layers=primary.projection.weight,"
                                                     "primary.encoder.layer.0.attention.self.key.weight"));
        while (more) OK(take_step(s, &loss, &more));
        OK(tri_evaluate(s, &seen));
        OK(tri_save(s, saved, sizeof saved));
        tri_session_close(s);
        if (quantize(path_of("qat", run), t ? "qat16" : "qat32", 0, NULL, &facts) != TRI_OK)
            fail_msg("%s", tri_error());
        assert_true(tri__json_is_true(tri__json_get(facts, "trained_for_it")));
        assert_true(number(facts, "before", "log_loss") == number(facts, "after", "log_loss"));
        assert_true(number(facts, "before", "accuracy") == seen.accuracy);
        predict(run, NULL, a);
        predict(path_of(t ? "qat16" : "qat32", path), NULL, b);
        assert_memory_equal(a, b, sizeof a);
        tri__json_decref(facts);
        facts = NULL;
        assert_int_equal(quantize(run, "other", 1, "--precision=fp16", &facts), TRI_USAGE);
        assert_non_null(strstr(tri_error(), "beside another computing type"));
    }
}

/* The configuration in a folder is untrusted, whatever its manifest says. */
TEST(hostile_settings) {
    char path[PATH], config[TRI_PATH_MAX], *none[] = {"primary.pooler.weight"};
    tri_checkpoint *checkpoint;
    tri_settings s;
    OK(tri__checkpoint_open(path_of("int8-fp32", path), 1, &checkpoint));
    OK(tri__path_join(config, tri__checkpoint_path(checkpoint), "config.json"));
    OK(tri__settings_init(&s));
    OK(tri__settings_config(&s, config));
    OK(tri__settings_check(&s, checkpoint));
    s.precision = TRI_PRECISION_INT8, s.quantize = TRI_QUANTIZE_INT8;
    assert_int_equal(tri__settings_check(&s, checkpoint), TRI_DATA);
    assert_non_null(strstr(tri_error(), "config.json: precision"));
    s.precision = TRI_PRECISION_BF16;
    OK(tri__settings_check(&s, checkpoint));
    tri_texts kept = s.float_layers;
    s.float_layers = (tri_texts){none, 1};
    assert_int_equal(tri__settings_check(&s, checkpoint), TRI_DATA);
    assert_non_null(strstr(tri_error(), "primary.pooler.weight"));
    s.float_layers = kept;
    s.model.num_classes++;
    assert_int_equal(tri__settings_check(&s, checkpoint), TRI_DATA);
    tri__settings_free(&s);
    tri__checkpoint_close(checkpoint);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_runs, remove_data); }
