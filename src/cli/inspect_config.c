/* inspect_config.c - a starter configuration: the columns as guessed or given, a model that suits the data, and in
 * _comments the reason for each choice. It trains without changes, or inspect.c warns why not. */
#include "cli/inspect.h"

enum { BATCH = 32, CLASSES_MAX = 100, MIN_ROWS = 5 };

/* What won on the validation rows of three tasks (docs/internals/accuracy.md). */
typedef struct recipe {
    double lr, head_lr, layer_lr_decay;
    int epochs;
} recipe;
static const recipe pretrained = {1e-4, 5e-4, 0.9, 3}, from_random = {5e-4, 0, 1, 4};

static int has_file(const tri_inspect_model *model, const char *name) {
    char path[TRI_PATH_MAX];
    return model->folder[0] && tri__path_join(path, model->folder, name) == TRI_OK && tri__is_file(path);
}

int tri__inspect_has_weights(const tri_inspect_model *model) {
    return has_file(model, "model.safetensors") || has_file(model, "model.safetensors.index.json");
}

static void comment(tri_json *comments, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void comment(tri_json *comments, const char *key, const char *format, ...) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    tri__json_set_new(comments, key, tri__json_string(text));
}

/* The length of the longest text, rounded up to a multiple of 32, at most 512; estimates are increased by half. */
static int longest(const tri_inspection *in) {
    int most = 0;
    for (int t = 0; t < in->n_texts; t++) {
        const tri_inspect_lengths *l = &in->column[in->text[t]].lengths;
        int need = l->estimated ? l->max + l->max / 2 : l->max;
        most = need > most ? need : most;
    }
    int steps = (most + 31) / 32 * 32;
    return steps < 32 ? 32 : steps > TRI_INSPECT_LONG ? TRI_INSPECT_LONG : steps;
}

/* Byte-level BPE vocabularies come with RoBERTa's special tokens. */
static int is_roberta(const tri_tokenizer *tokenizer, int *pad) {
    for (*pad = 0; tokenizer && *pad < tri__tokenizer_size(tokenizer) && *pad < 8; ++*pad)
        if (strcmp(tri__tokenizer_piece(tokenizer, *pad), "<pad>") == 0) return 1;
    *pad = 0;
    return 0;
}

/* Without weights to start from, a small encoder learns more from a small table than a large one, and in minutes. */
static tri_json *small_encoder(const tri_tokenizer *tokenizer) {
    int pad, roberta = is_roberta(tokenizer, &pad);
    return tri__json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f}", "model_type",
                          roberta ? "roberta" : "bert", "hidden_size", 256, "num_hidden_layers", 2,
                          "num_attention_heads", 4, "intermediate_size", 1024, "max_position_embeddings",
                          TRI_INSPECT_LONG + (roberta ? pad + 1 : 0), "type_vocab_size", roberta ? 1 : 2,
                          "pad_token_id", pad, "hidden_dropout_prob", 0.3, "attention_probs_dropout_prob", 0.3);
}

/* Wider encoders want lower rates: that of the recipe is for 384 columns. Of an unknown architecture, as for 768. */
static double rate_of(const tri_inspect_model *model) {
    enum { SMALL = 512, BASE = 768 };
    char path[TRI_PATH_MAX];
    tri_encoder encoder = {.hidden_size = BASE};
    TRI_OWNED(tri__json_drop) tri_json *json = NULL;
    (void)tri__encoder_preset(model->name, &encoder);
    if (has_file(model, "config.json") && tri__path_join(path, model->folder, "config.json") == TRI_OK &&
        tri__json_load(path, TRI_DATA, &json) == TRI_OK)
        (void)tri__encoder_parse(json, path, &encoder); /* training says what is wrong with it */
    return pretrained.lr / (encoder.hidden_size <= SMALL ? 1 : encoder.hidden_size <= BASE ? 2 : 5);
}

/* The encoders' tokenizers and architectures; returns whether they begin with random weights. */
static int describe_encoders(tri_json *config, const tri_settings *settings, int n_texts,
                             const tri_inspect_model *model) {
    const tri_json *given[] = {settings->model.primary_encoder, settings->model.secondary_encoder};
    const char *const names[] = {"primary", "secondary"};
    int random = 0, n = n_texts > 1 ? 2 : 1, shared = n == 2 && strcmp(model[0].name, model[1].name) == 0 && !given[1];
    for (int t = 0; t < n; t++) {
        const char *key = TRI_TEXT(32, "%s_encoder", names[t]);
        tri__json_set_new(config, TRI_TEXT(32, "%s_tokenizer", names[t]),
                          tri__json_string(model[t].name[0] ? model[t].name : "bert-base-uncased"));
        int lacks = model[t].folder[0] && !tri__inspect_has_weights(&model[t]);
        if (given[t]) tri__json_set(config, key, (tri_json *)given[t]);
        else if (lacks && !(t && shared))
            tri__json_set_new(config, key, small_encoder(model[t].tokenizer ? model[t].tokenizer : model[0].tokenizer));
        random |= lacks;
    }
    if (shared) tri__json_set_new(config, "share_encoders", tri__json_boolean(1));
    tri_json *readers = tri__json_array();
    for (int t = 0; t < n_texts && n_texts > 2 && !shared; t++)
        tri__json_append_new(readers, tri__json_string(names[t > 0]));
    tri__json_set_filled(config, "text_encoders", readers);
    return random;
}

static void describe_model(tri_json *config, tri_json *comments, const tri_settings *settings, const tri_inspection *in,
                           const tri_inspect_model *model) {
    int n = in->n_texts, random = describe_encoders(config, settings, n, model);
    const recipe *r = random ? &from_random : &pretrained;
    int tabular = tri__json_get(config, "tab_field_list") != NULL;
    if (!model[0].name[0])
        comment(comments, "primary_tokenizer",
                "a guess: no tokenizer was given; trident train needs its folder under --models-dir");
    if (random)
        comment(comments, "primary_encoder",
                "the folder has no weights, so the encoder is small and starts from random ones. Pretrained weights "
                "give better answers: put model.safetensors into the folder and write this configuration again");
    tri__json_set_new(config, "pooling", tri__json_string("mean"));
    if (tabular) tri__json_set_new(config, "tabular", tri__json_string("embedded"));
    if (n + tabular > 1) tri__json_set_new(config, "fusion", tri__json_string("gated"));
    tri__json_set_new(config, "lr", tri__json_real(random ? r->lr : rate_of(&model[0])));
    if (r->head_lr > 0) tri__json_set_new(config, "head_lr", tri__json_real(r->head_lr));
    if (r->layer_lr_decay < 1) tri__json_set_new(config, "layer_lr_decay", tri__json_real(r->layer_lr_decay));
    tri__json_set_new(config, "epochs", tri__json_integer(r->epochs));
    comment(comments, "lr", "this, the keys after it, pooling, tabular and fusion are the recipe that won on three "
                            "tasks (docs/guide/recipe.md); trident sweep searches for a better one");
}

/* The task: as given, or by the label's values. */
static int64_t task_of(const tri_settings *settings, const tri_inspection *in) {
    if (tri__settings_given(settings, &settings->model.task)) return settings->model.task;
    return in->n_several ? TRI_TASK_LABELS : in->is_number ? TRI_TASK_NUMBER : TRI_TASK_CLASSES;
}

static void describe_label(tri_json *config, tri_json *comments, int64_t task, const tri_settings *settings,
                           const tri_inspection *in) {
    const char *label = in->column[in->label].name;
    tri__json_set_new(config, "label_name", tri__json_string(label));
    if (task == TRI_TASK_LABELS) {
        comment(comments, "label_name", in->label_given ? "as given: %d labels"
                                                        : "a guess: %d labels; see part in trident inspect for others",
                in->n_several);
        tri__merge_new(config, tri__json_pack("{s:s, s:i}", "task", "multilabel", "num_classes", in->n_several));
        if (!in->several[0]) {
            tri__json_set_new(config, "label_name", tri__json_string(settings->model.label_name));
            comment(comments, "task", "as given: each label has a column of 0 and 1");
            return;
        }
        tri__json_set_new(config, "label_separator", tri__json_string(in->several));
        comment(comments, "task", "many of the label's %lld different cells hold several of its %d labels; "
                "classification would take each cell for a class", (long long)in->column[in->label].distinct,
                in->n_several);
    } else if (task != TRI_TASK_CLASSES) {
        comment(comments, "label_name", in->label_given ? "as given: numbers"
                                                        : "a guess: numbers; see part in trident inspect for others");
        tri__json_set_new(config, "task", tri__json_string(task == TRI_TASK_NUMBER ? "regression" : "quantiles"));
        comment(comments, "task", "the label has %lld different numbers, so they are learned as such; classification "
                "would take each for a class, quantiles say how far a number may be off",
                (long long)in->column[in->label].distinct);
    } else {
        comment(comments, "label_name",
                in->label_given ? "as given: %d classes"
                                : "a guess: %d classes; see part in trident inspect for others", in->n_base_classes);
    }
}

/* What columns of the table hold, where values do not show it to training. */
static void describe_kinds(tri_json *config, tri_json *comments, const tri_model_config *m, const tri_inspection *in) {
    static const char *const keys[] = {"cat_field_list", "boolean_field_list", "hashed_field_list"};
    const tri_texts *const given[] = {&m->cat_field_list, &m->boolean_field_list, &m->hashed_field_list};
    int joins = 0;
    for (int k = 0; k < 3; k++) {
        tri_json *list = tri__json_array();
        char reasons[1000] = "";
        for (int c = 0; c < in->n_columns; c++) {
            const tri_inspect_column *column = &in->column[c];
            int key = column->kind >= TRI_INSPECT_NAME ? 2 : column->kind == TRI_INSPECT_BOOLEAN, is_given = 0;
            for (int i = 0; i < 3; i++)
                if (tri__texts_has(given[i], column->name)) key = i, is_given = 1;
            if (column->role != TRI_INSPECT_TABULAR || !(column->reason || is_given) || key != k) continue;
            joins |= !is_given && tri__inspect_joins(column);
            tri__json_append_new(list, tri__json_string(column->name));
            tri__text_append(reasons, sizeof reasons, "; ", "%.60s: %s", column->name,
                             is_given ? "as given" : column->reason);
        }
        if (*reasons) comment(comments, keys[k], "%s", reasons);
        tri__json_set_filled(config, keys[k], list);
    }
    if (!joins) return;
    tri__json_set_new(config, "min_category_rows", tri__json_integer(MIN_ROWS));
    comment(comments, "min_category_rows", "values in fewer training rows are one rare value, with those that training "
                                           "does not have: nothing can be learned of each");
}

static void describe_texts(tri_json *config, tri_json *comments, const tri_inspection *in) {
    static const char *const keys[] = {"primary_text_name", "secondary_text_name"},
                      *const guesses[] = {"a guess, the longest text", "a guess, the next longest text"};
    for (int t = 0; t < in->n_texts && in->n_texts <= 2; t++) {
        const tri_inspect_column *column = &in->column[in->text[t]];
        tri__json_set_new(config, keys[t], tri__json_string(column->name));
        comment(comments, keys[t], "%s: %.1f words on average", in->texts_given ? "as given" : guesses[t],
                column->words);
    }
    if (in->n_texts <= 2) return;
    tri__json_set_new(config, "text_list", tri__inspect_texts(in));
    comment(comments, "text_list", in->texts_given ? "as given: %d texts"
                                                   : "a guess: %d columns hold free text, the longest first; each is "
                                                     "read on its own. One that says nothing costs time: leave it out",
            in->n_texts);
}

static void describe_columns(tri_json *config, tri_json *comments, const tri_settings *settings,
                             const tri_inspection *in) {
    tri_json *tabular = tri__json_array(), *deciding = tri__json_array();
    describe_texts(config, comments, in);
    tri_json *further = tri__json_array();
    for (int i = 0; i < in->n_further; i++)
        tri__json_append_new(further, tri__json_string(in->column[in->further[i]].name));
    tri__json_set_filled(config, "secondary_text_list", further);
    for (int c = 0; c < in->n_columns; c++)
        if (in->column[c].role == TRI_INSPECT_TABULAR)
            tri__json_append_new(tabular, tri__json_string(in->column[c].name));
    for (int i = 0; i < in->n_warnings; i++)
        if (strcmp(in->warning[i].what, "decides_label") == 0 &&
            in->column[in->warning[i].column].role == TRI_INSPECT_TABULAR)
            tri__json_append_new(deciding, tri__json_string(in->warning[i].text));
    if (tri__json_size(tabular))
        comment(comments, "tab_field_list", "%s; each becomes a learned vector",
                in->tabular_given ? "as given" : "a guess: numbers, categories, names and codes");
    tri__json_set_filled(config, "tab_field_list", tabular);
    describe_kinds(config, comments, &settings->model, in);
    tri__json_set_filled(comments, "careful", deciding);
}

/* What training without a validation table needs: rows of the training table. */
static const char *parts_of(int64_t task, const tri_inspection *in) {
    enum { TRAIN, VALID, TEST };
    if (!in->split[TRAIN].path || in->split[VALID].path) return "";
    if (task != TRI_TASK_CLASSES) return in->split[TEST].path ? " --split 0.9,0.1" : " --split 0.8,0.1,0.1";
    return in->split[TEST].path ? " --split 0.9,0.1 --stratify" : " --split 0.8,0.1,0.1 --stratify";
}

static tri_status describe_training(tri_json *config, tri_json *comments, int64_t task, const char *data,
                                    const tri_settings *settings, const char *path, const tri_inspection *in) {
    int number = task != TRI_TASK_CLASSES;
    if (!number)
        tri__merge_new(config, tri__json_pack("{s:b, s:i}", "is_binary", in->n_base_classes == 2, "num_classes",
                                              in->n_base_classes));
    tri__json_set_new(config, "max_sen_len", tri__json_integer(longest(in)));
    comment(comments, "max_sen_len", "room for the longest text%s; tokens are packed, so short texts cost nothing",
            in->column[in->primary].lengths.estimated ? ", estimated by its words" : "");
    int uneven = !number && tri__inspect_warned(in, "imbalance");
    tri__merge_new(config, tri__json_pack("{s:i, s:i, s:i, s:f, s:f, s:s, s:s}", "hidden_common_dim", 128,
                                          "fusion_hidden_dim", 128, "batch_size", BATCH, "weight_decay", 0.01,
                                          "warmup_ratio", 0.08, "average_weights", "ema", "best_by",
                                          number ? "loss" : uneven ? "pr_auc" : "roc_auc"));
    if (uneven)
        comment(comments, "best_by", "the classes are uneven: PR AUC sees the rare one, where ROC AUC is high anyway");
    if (settings->bad_rows) tri__json_set_new(config, "bad_rows", tri__json_string("skip"));
    if (tri__settings_given(settings, &settings->separator))
        tri__json_set_new(config, "separator", tri__json_string(settings->separator));
    if (settings->decimal_mark)
        tri__json_set_new(config, "decimal_mark",
                          tri__json_string(settings->decimal_mark == TRI_DECIMAL_COMMA ? "comma" : "point"));
    if (settings->date_order)
        tri__json_set_new(config, "date_order", tri__json_string(tri__date_orders[settings->date_order]));
    const tri_texts *missing = &settings->model.missing;
    if (tri__settings_given(settings, missing))
        tri__json_set_new(config, "missing", tri__json_strings(missing->at, missing->n));
    TRI_OWNED(tri__free_at) char *file = tri__text_quoted(path), *table = tri__text_quoted(data),
                                 *models = tri__text_quoted(settings->models_dir ? settings->models_dir : "");
    int enough = file && table && models;
    if (enough)
        comment(comments, "run", "trident train --config %s --data-path %s%s%s%s --output-dir run", file, table,
                settings->models_dir ? " --models-dir " : "", settings->models_dir ? models : "", parts_of(task, in));
    return enough ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory for a configuration");
}

tri_status tri__inspect_write_config(const char *path, const char *data, const tri_settings *settings,
                                     const tri_inspection *in, const tri_inspect_model *model) {
    const char *table = in->split[in->base].path;
    if (in->label < 0) return tri__fail(TRI_DATA, "%s: no column looks like a label; name it with --label-name", table);
    if (in->primary < 0)
        return tri__fail(TRI_DATA, "%s: no column looks like a text; name it with --primary-text-name", table);
    int64_t task = task_of(settings, in);
    if (task == TRI_TASK_CLASSES && (in->n_base_classes < 2 || in->n_base_classes > CLASSES_MAX))
        return tri__fail(TRI_DATA, "%s: the label \"%s\" has %d different values; 2 to %d are expected of a class",
                         table, in->column[in->label].name, in->n_base_classes, CLASSES_MAX);
    if (task == TRI_TASK_LABELS && !in->n_several)
        return tri__fail(TRI_DATA, "%s: the cells of \"%s\" do not hold several labels that repeat: write the "
                         "configuration by hand, with label_separator, or with columns of 0 and 1 in label_name",
                         table, in->column[in->label].name);
    tri_json *config = tri__json_object(), *comments = tri__json_object();
    describe_label(config, comments, task, settings, in);
    describe_columns(config, comments, settings, in);
    describe_model(config, comments, settings, in, model);
    tri_status status = describe_training(config, comments, task, data, settings, path, in);
    tri__json_set_new(config, "_comments", comments);
    if (!config) status = tri__fail(TRI_RESOURCE, "no memory for a configuration");
    if (status == TRI_OK) status = tri__json_deliver(path, config, settings->force);
    tri__json_decref(config);
    return status;
}
