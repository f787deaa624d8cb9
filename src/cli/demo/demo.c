/* demo.c - `trident demo`: writes a data set about deliveries, learns a vocabulary, trains a small Trimodal BERT on
 * several ranks and the same model with one input left out, and prints each model's scores on held-out rows. It leaves
 * data/, vocab/, and a configuration and a run folder for each model, which train, eval and predict can use. */
#include "cli/demo/demo_data.h"
#include "cli/launch.h"

#include "data/text/tokenizer.h"
#include "job/trainings.h"
#include "report/sinks/sinks.h"
#include "report/text/text_table.h"
#include "serve/serve.h"

enum { BATCH = 32, VOCABULARY = 700, PROMISED_MARGIN = 8 /* points of accuracy over the best ablation */ };

/* A model and the inputs it sees. The first text it sees is its primary text. */
static const struct variant {
    const char *name, *folder, *title;
    int dialogue, track, numbers;
} variants[] = {
    {"all", "all", "all three inputs", 1, 1, 1},
    {"no_dialogue", "no-dialogue", "without the dialogue", 0, 1, 1},
    {"no_track", "no-track", "without the track", 1, 0, 1},
    {"no_numbers", "no-numbers", "without the numbers", 1, 1, 0},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

typedef struct demo {
    tri_cli *cli;
    const tri_settings *asked; /* output_dir, seed, threads, quiet */
    char data[TRI_PATH_MAX], vocab[TRI_PATH_MAX];
    tri_evaluation made[VARIANTS];
    double seconds;
} demo;

static tri_json *encoder(int positions) {
    return tri__json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "model_type", "bert", "hidden_size", 64,
                          "num_hidden_layers", 2, "num_attention_heads", 4, "intermediate_size", 128,
                          "max_position_embeddings", positions);
}

/* Makes the vocabulary's folder a model folder without weights, so that other configurations can name it. */
static tri_status write_encoder(const demo *d) {
    enum { POSITIONS = 512 }; /* the default of max_sen_len */
    TRI_PATH(path, d->vocab, "config.json");
    TRI_OWNED(tri__json_drop) tri_json *config = encoder(POSITIONS);
    if (!config) return tri__fail(TRI_RESOURCE, "out of memory for the demo's encoder");
    return tri__json_save(path, config);
}

/* Fails if the folder is not new, empty, or that of an earlier demo, whose files are replaced. */
static tri_status check_folder(const char *folder) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    int there;
    TRI_PATH(path, folder, "all.json");
    TRI_TRY(tri__folder_there(folder, &there));
    if (!there || tri__is_file(path)) return TRI_OK;
    TRI_TRY(tri__folder_list(folder, &names));
    if (!names.n) return TRI_OK;
    return tri__fail(TRI_BUSY, "%s: exists and is not the folder of an earlier demo, which would write data, vocab and "
                     "all.json there; name another folder with --output-dir", folder);
}

static tri_status write_inputs(demo *d) {
    TRI_OWNED(tri__demo_texts_free) tri_demo_texts texts = {0};
    const char *folder = d->asked->output_dir;
    TRI_TRY(check_folder(folder));
    TRI_TRY(tri__path_join(d->data, folder, "data"));
    TRI_TRY(tri__path_join(d->vocab, folder, "vocab"));
    TRI_TRY(tri__folder_make(d->data));
    TRI_TRY(tri__folder_make(d->vocab));
    TRI_TRY(tri__demo_write(d->data, (uint32_t)d->asked->seed, &texts));
    TRI_TRY(tri__wordpiece_train((const char *const *)texts.at, texts.n, VOCABULARY, 1, d->vocab));
    TRI_TRY(write_encoder(d));
    /* The configuration names the vocabulary by its full path, so that it works from any folder. */
    return tri__path_real(d->vocab, d->vocab) ? TRI_OK : tri__fail(TRI_IO, "%s: cannot resolve this path", d->vocab);
}

static tri_json *configuration(const demo *d, const struct variant *v) {
    tri_json *config = tri__json_pack("{s:s, s:s, s:s, s:o, s:i, s:i, s:f, s:b, s:i, s:i, s:s}", "label_name", "label",
                                      "primary_text_name", v->dialogue ? "dialogue" : "shiptrack", "primary_tokenizer",
                                      d->vocab, "primary_encoder", encoder(128), "hidden_common_dim", 64,
                                      "fusion_hidden_dim", 64, "fusion_dropout", 0.1, "is_binary", 1, "num_classes", 2,
                                      "max_sen_len", 128, "pooling", "mean");
    if (v->dialogue && v->track) {
        tri__json_set_new(config, "secondary_text_name", tri__json_string("shiptrack"));
        tri__json_set_new(config, "secondary_tokenizer", tri__json_string(d->vocab));
        tri__json_set_new(config, "secondary_encoder", encoder(128));
    }
    if (v->numbers)
        tri__json_set_new(config, "tab_field_list", tri__json_pack("[s, s, s, s]", "days_late", "updates_sent",
                                                                   "declared_value", "prior_claims"));
    tri__merge_new(config, tri__json_pack("{s:f, s:f, s:i, s:i, s:i}", "lr", 1e-3, "weight_decay", 0.01, "warmup_steps",
                                          50, "global_batch_size", BATCH, "epochs", 6));
    return config;
}

/* One model's training: its configuration file, the demo's data, a fresh run folder; four ranks, or two if there are
 * not so many cores. */
static tri_status train(const demo *d, const struct variant *v, tri_training *t) {
    const char *seed = TRI_TEXT(24, "%lld", (long long)d->asked->seed),
               *threads = TRI_TEXT(24, "%lld", (long long)d->asked->threads);
    TRI_PATH(path, d->asked->output_dir, TRI_TEXT(64, "%s.json", v->folder));
    TRI_TRY(tri__path_join(t->folder, d->asked->output_dir, v->folder));
    snprintf(t->name, sizeof t->name, "%s", v->title);
    TRI_OWNED(tri__json_drop) tri_json *config = configuration(d, v);
    TRI_TRY(tri__json_save(path, config));
    const tri_change changes[] = {{"config", path}, {"data_path", d->data}, {"output_dir", t->folder}, {"seed", seed},
                                  {"threads", threads}, {"resume", "never"},
                                  {"nproc_per_node", tri__cores() < 4 ? "2" : "4"},
                                  {"quiet", d->asked->quiet ? "true" : "false"}};
    const tri_parent *parent = tri__cli_parent(d->cli);
    t->argv = tri__training_argv(parent, 0, NULL, changes, sizeof changes / sizeof *changes);
    return t->argv ? tri__trainings_run(parent, t, 1, d->asked->quiet) : tri__fail(TRI_RESOURCE, "out of memory");
}

static tri_status train_and_score(demo *d, int which) {
    TRI_OWNED(tri__training_free) tri_training t = {0};
    tri_settings settings = *d->asked; /* borrows its texts */
    TRI_OWNED(tri__progress_close) tri_sink sink = {0};
    const tri_log log = tri__sink_log(&sink);
    settings.checkpoint = t.folder, settings.data_path = d->data;
    TRI_TRY(train(d, &variants[which], &t));
    TRI_TRY(tri__cli_progress(d->cli, 1, &sink));
    return tri__serve_eval(&settings, &(tri_eval_options){0}, NULL, &log, &d->made[which]);
}

/* Accuracy of the full model minus that of the best other model. */
static double margin(const demo *d) {
    double best = 0;
    for (int i = 1; i < VARIANTS; i++)
        if (d->made[i].scores.accuracy > best) best = d->made[i].scores.accuracy;
    return d->made[0].scores.accuracy - best;
}

static tri_status print_json(const demo *d) {
    tri_json *models = tri__json_array();
    for (int i = 0; i < VARIANTS; i++) {
        tri_json *row = tri__scores_json(&d->made[i].scores);
        tri__json_set_new(row, "model", tri__json_string(variants[i].name));
        tri__json_append_new(models, row);
    }
    tri_json *object = tri__json_pack("{s:o, s:f, s:f, s:f}", "models", models, "margin", margin(d), "promised_margin",
                               PROMISED_MARGIN / 100.0, "seconds", d->seconds);
    return tri__print_json_new(d->cli->out, object);
}

static tri_status print_table(const demo *d) {
    FILE *out = d->cli->out;
    tri_text_table table = {0};
    tri__text_table_add(&table, "model\taccuracy\tF1\tPR AUC\tavg precision\tROC AUC");
    for (int i = 0; i < VARIANTS; i++) {
        const tri_scores *s = &d->made[i].scores;
        tri__text_table_add(&table, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f", variants[i].title, s->accuracy, s->f1_macro,
                            s->pr_auc, s->average_precision, s->roc_auc);
    }
    TRI_TRY(tri__print_table(d->cli, &table));
    fprintf(out, "\nPR AUC, average precision and ROC AUC are of label %s.\n",
            tri__scores_positive(&d->made[0].scores));
    fprintf(out,
            "The label is the majority of three hints, one in each input; %d %% of the labels are wrong on purpose.\n"
            "With one input left out no model can be right on more than 3 rows in 4, with all three on %d %%.\n"
            "Margin over the best of the others: %.3f. %.0f s in all.\n",
            TRI_DEMO_NOISE, 100 - TRI_DEMO_NOISE, margin(d), d->seconds);
    TRI_OWNED(tri__free_at) char *folder = tri__text_quoted(d->asked->output_dir), *data = tri__text_quoted(d->data);
    if (folder && data)
        fprintf(out,
                "\nNext: trident predict --checkpoint %s/all --data-path %s/test.csv | head\n"
                "      trident serve %s/all\n", folder, data, folder);
    return folder && data ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* What the model is worth, before what each input adds to it. */
static void print_first(const demo *d) {
    fprintf(d->cli->out, "\nall three inputs: accuracy %.3f on the test rows. Next, each input is left out in turn, in "
            "three more trainings.\n\n", d->made[0].scores.accuracy);
    fflush(d->cli->out);
}

tri_status tri__command_demo(tri_cli *cli, tri_command_call *call) {
    double begin = tri__clock();
    TRI_OWNED(tri__free_at) demo *d = calloc(1, sizeof *d);
    if (!d) return tri__fail(TRI_RESOURCE, "out of memory");
    *d = (demo){.cli = cli, .asked = &call->settings};
    tri_status status = write_inputs(d);
    for (int i = 0; i < VARIANTS && status == TRI_OK; i++) {
        status = train_and_score(d, i);
        if (i == 0 && status == TRI_OK && !call->settings.json) print_first(d);
    }
    d->seconds = tri__clock() - begin;
    if (status == TRI_OK) status = call->settings.json ? print_json(d) : print_table(d);
    for (int i = 0; i < VARIANTS; i++) tri__evaluation_free(&d->made[i]);
    return status;
}
