/* test_foreign_options.c - options of other programs: translated to ours, already satisfied, or refused with the option
 * to use. */
#include "base/file.h"
#include "settings/foreign.h"
#include "settings/settings.h"

#include <ctype.h>
#include <unistd.h>

#include "tests/lib/test.h"

static const tri_option *own_row(const char *name) {
    const tri_option *row = tri__option_find(tri__model_options, name);
    return row ? row : tri__option_find(tri__run_options, name);
}

/* A value that an option of ours takes. */
static const char *sample(const tri_option *row, char out[static 32]) {
    static const char *const of[] = {[TRI_OPTION_BOOL] = "true", [TRI_OPTION_INT] = "3",   [TRI_OPTION_REAL] = "0.5",
                                     [TRI_OPTION_TEXT] = "2",    [TRI_OPTION_TEXTS] = "a", [TRI_OPTION_REALS] = "1"};
    if (row->check && row->value) return row->value; /* a text with a syntax */
    if (row->kind != TRI_OPTION_CHOICE) return of[row->kind];
    snprintf(out, 32, "%.*s", (int)strcspn(row->choices, "|"), row->choices);
    return out;
}

/* "--name" in `text` is an option. */
static void expect_options(const char *name, const char *text) {
    for (const char *at = strstr(text, "--"); at; at = strstr(at + 2, "--")) {
        char flag[64];
        snprintf(flag, sizeof flag, "%.*s", (int)strspn(at + 2, "abcdefghijklmnopqrstuvwxyz0123456789-"), at + 2);
        int torchrun = !strcmp(flag, "no-python");
        if (!own_row(flag) && !torchrun) fail_msg("%s: its words name --%s, which is not an option", name, flag);
    }
}

/* What the row's option is after the command line, against the same said in our own words. */
static void expect_taken(const tri_foreign *row, const char *flag, const char *value) {
    tri_settings theirs, ours;
    char own[TRI_OPTION_FLAG];
    int n_words;
    const tri_option *option = own_row(row->option);
    assert_non_null(option);
    char scaled[32];
    int parts = !strcmp(row->option, "num_microbatches"), more = parts ? 4 : 2; /* which need a batch */
    snprintf(scaled, sizeof scaled, "%.9g", strtod(value, NULL) * row->scale);
    const char *to = row->to ? row->to : row->scale ? scaled : value;
    const char *args[] = {flag, value, "--global-batch-size", "12"};
    const char *mine[] = {tri__option_flag(row->option, own), to, "--global-batch-size", "12"};
    tri__settings_init(&theirs), tri__settings_init(&ours);
    if (tri__settings_parse(&theirs, "train", more, args, NULL, 0, &n_words) != TRI_OK)
        fail_msg("%s: %s", flag, tri_error());
    if (tri__settings_parse(&ours, "train", more, mine, NULL, 0, &n_words) != TRI_OK)
        fail_msg("%s: %s", flag, tri_error());
    int in_model = tri__option_find(tri__model_options, row->option) != NULL;
    tri_json *a = tri__option_json(option, in_model ? (void *)&theirs.model : &theirs);
    tri_json *b = tri__option_json(option, in_model ? (void *)&ours.model : &ours);
    assert_true(tri__json_equal(a, b));
    assert_int_equal(ours.notes.n, 0);
    if (own_row(flag + 2)) assert_int_equal(theirs.notes.n, 0);
    else if (theirs.notes.n != 1 || !strstr(theirs.notes.at[0], flag) || !strstr(theirs.notes.at[0], own))
        fail_msg("%s: no note", flag);
    tri__json_decref(a), tri__json_decref(b);
    tri__settings_free(&theirs), tri__settings_free(&ours);
}

static void expect_answer(const tri_foreign *row, const char *flag, const char *value) {
    tri_settings s;
    int n_words;
    const char *args[] = {flag, value, "--device", row->device};
    tri__settings_init(&s);
    tri_status status = tri__settings_parse(&s, "train", row->device ? 4 : 2, args, NULL, 0, &n_words);
    const char *said = status == TRI_OK ? (s.notes.n == 1 ? s.notes.at[0] : "") : tri_error();
    if (status != (row->held ? TRI_OK : TRI_USAGE) || !strstr(said, flag) || !strstr(said, row->words))
        fail_msg("%s %s: got %d \"%s\"", flag, value, status, said);
    tri__settings_free(&s);
}

/* Every row is reached, does what it says, and names options that there are; every value of a name has an answer; the
 * page lists it. at: one of its names. */
static void check_name(const tri_foreign *row, const char *at, const char *page) {
    char name[64], flag[TRI_OPTION_FLAG], listed[80], first[64], buffer[32];
    int any = strcspn(at, "*") < strcspn(at, "|");
    snprintf(name, sizeof name, "%.*s%s", (int)strcspn(at, "*|"), at, any ? "x" : "");
    snprintf(first, sizeof first, "%.*s", row->value ? (int)strcspn(row->value, "|") : 0, row->value ? row->value : "");
    tri__option_flag(name, flag);
    snprintf(listed, sizeof listed, "`%.*s%s`", (int)strlen(flag) - any, flag, any ? "…" : "");
    if (!strstr(page, listed)) fail_msg("docs/guide/coming-from-pytorch.md does not list %s", listed);
    const char *value = row->value                ? first
                        : row->option && !row->to ? sample(own_row(row->option), buffer)
                                                  : "other";
    if (!row->value && !row->option && tri__foreign_is_switch(name))
        value = tri__foreign_find(name, "false") == row ? "false" : "true";
    if (tri__foreign_find(name, value) != row) fail_msg("%s %s: the row is never reached", name, value);
    if (row->option && tri__foreign_rows(row->option)) return; /* a file: test_files */
    if (row->option) expect_taken(row, flag, value);
    else expect_answer(row, flag, value), expect_options(name, row->words);
    int answered = tri__foreign_is_switch(name)
                       ? tri__foreign_find(name, "true") && tri__foreign_find(name, "false")
                       : tri__foreign_find(name, "other") != NULL;
    if (!answered && !own_row(name)) fail_msg("%s: some of its values have no answer", name);
}

TEST(test_foreign) {
    char *page;
    size_t size;
    assert_int_equal(tri__file_read("docs/guide/coming-from-pytorch.md", 1 << 20, &page, &size), TRI_OK);
    for (const tri_foreign *row = tri__foreign; row->name; row++)
        for (const char *at = row->name; *at; at += strcspn(at, "|"), at += *at == '|') check_name(row, at, page);
    free(page);
}

/* ---- Files ---- */

static const struct {
    const char *option;
    const tri_foreign *rows;
} files[] = {{"deepspeed", tri__deepspeed_rows},
             {"accelerate", tri__accelerate_rows},
             {"training_arguments", tri__arguments_rows}};

/* {"zero_optimization": {"stage": 3}} for a path and a value; the items before an index are numbers, too. */
static void write_key(const char *path, const char *name, const char *value, int is_object) {
    char text[600] = "", key[TRI_FOREIGN_NAME];
    int depth = 0;
    size_t n = 0;
    for (const char *at = name; *at; at += strcspn(at, "."), at += *at == '.') {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(at, "."), at);
        if (isdigit((unsigned char)*key) && !key[1]) {
            n += (size_t)snprintf(text + n, sizeof text - n, "[%s%s", *key == '1' ? "0.5, " : "", value);
            snprintf(text + n, sizeof text - n, "]%.*s", depth, "}}}}}}");
            assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
            return;
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "{\"%s\": ", key), depth++;
    }
    snprintf(text + n, sizeof text - n, is_object ? "{\"enabled\": %s}%.*s" : "\"%s\"%.*s", value, depth, "}}}}}}");
    assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
}

static void check_key(const char *option, const tri_foreign *row, const char *at, const char *path, const char *page) {
    char name[TRI_FOREIGN_NAME], listed[TRI_FOREIGN_NAME], first[64], buffer[32], flag[TRI_OPTION_FLAG];
    int n_words, any = strcspn(at, "*") < strcspn(at, "|"), length = (int)strcspn(at, "*|");
    tri_settings s;
    snprintf(name, sizeof name, "%.*s%s", length, at, any ? "x" : "");
    snprintf(listed, sizeof listed, "`%.*s%s`", length, at, any ? "…" : "");
    if (!strstr(page, listed)) fail_msg("docs/guide/files-of-others.md does not list %s", listed);
    snprintf(first, sizeof first, "%.*s", row->value ? (int)strcspn(row->value, "|") : 0, row->value ? row->value : "");
    const tri_option *own = row->option ? own_row(row->option) : NULL;
    if (row->option) assert_non_null(own);
    int is_file = own && tri__foreign_rows(row->option);
    const char *value = row->value ? first
                        : row->scale || row->more ? "1000000"
                        : own && !row->to && !is_file ? sample(own, buffer)
                                                      : "other";
    const tri_foreign *reached = tri__foreign_next(tri__foreign_rows(option), name, value);
    while (reached && reached != row && reached->more) reached = tri__foreign_next(reached + 1, name, value);
    if (reached != row) fail_msg("%s: %s %s: the row is never reached", option, name, value);
    if (is_file || row->to == tri__foreign_file) return; /* cli_files_of_others.sh */
    write_key(path, name, value, 0);
    const char *args[] = {tri__option_flag(option, flag), path, "--global-batch-size", "12"};
    tri__settings_init(&s);
    int parts = own && !strcmp(own->name, "num_microbatches");
    tri_status status = tri__settings_parse(&s, "train", parts ? 4 : 2, args, NULL, 0, &n_words);
    int refused = !row->option && !row->held, n_notes = row->held && !row->words ? 0 : 1;
    if (status != (refused ? TRI_USAGE : TRI_OK))
        fail_msg("%s: %s %s: %d %s", option, name, value, status, tri_error());
    const char *said = refused ? tri_error() : s.notes.n ? s.notes.at[s.notes.n - 1] : "";
    int is_same = own && !strcmp(own->name, strrchr(name, '.') ? strrchr(name, '.') + 1 : name);
    if (!refused && !is_same && (s.notes.n > 0) != (n_notes > 0)) fail_msg("%s: %s: %d notes", option, name, s.notes.n);
    if (row->words && !strstr(said, row->words)) fail_msg("%s: %s: \"%s\"", option, name, said);
    if (own) assert_true(tri__settings_given(&s, (char *)(tri__option_find(tri__model_options, own->name)
                                                             ? (void *)&s.model : (void *)&s) + own->offset));
    if (row->words) expect_options(name, row->words);
    tri__settings_free(&s);
}

TEST(test_files) {
    char *page, path[64];
    size_t size;
    assert_int_equal(tri__file_read("docs/guide/files-of-others.md", 1 << 20, &page, &size), TRI_OK);
    snprintf(path, sizeof path, "/tmp/trident-files-%ld.json", (long)getpid());
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (const tri_foreign *row = files[f].rows; row->name; row++)
            for (const char *at = row->name; *at; at += strcspn(at, "|"), at += *at == '|')
                check_key(files[f].option, row, at, path, page);
    unlink(path);
    free(page);
}

/* Files, what they set, what is refused. */
static const struct {
    const char *option, *text, *more, *error, *values[4];
} cases[] = {
    {"deepspeed", "{\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 3}", NULL, NULL,
     {"batch_size=12", "num_microbatches=3"}},
    {"deepspeed", "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4}", "--world-size=4", NULL,
     {"batch_size=16", "num_microbatches=4", "global_batch_size=64"}},
    {"deepspeed", "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4}", "--world-size=3",
     "train_batch_size 64 on 3 replicas is not a multiple of their train_micro_batch_size_per_gpu 4", {NULL}},
    {"deepspeed", "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4}", "--num-microbatches=2", NULL,
     {"batch_size=64", "num_microbatches=2"}},
    {"deepspeed", "{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 4}", "--world-size=4", NULL,
     {"batch_size=16", "num_microbatches=4"}},
    {"deepspeed", "{\"gradient_accumulation_steps\": 4}", NULL, "4 accumulated microbatches of how many samples?",
     {NULL}},
    {"deepspeed", "{\"gradient_accumulation_steps\": 4}", "--num-microbatches=4", NULL, {"num_microbatches=4"}},
    {"deepspeed", "{\"gradient_accumulation_steps\": 1}", "--pp-size=2", NULL, {"num_microbatches=4"}},
    {"deepspeed", "{\"gradient_clipping\": 0.5}", "--max-grad-norm=2", NULL, {"max_grad_norm=2.0"}},
    {"deepspeed", "{\"gradient_clipping\": \"auto\", \"fp16\": {\"enabled\": false, \"x\": 1}, \"amp\": {}}", NULL,
     NULL,
     {"max_grad_norm=1.0", "precision=\"fp32\""}},
    {"deepspeed", "{\"gradient_cliping\": \"auto\"}", NULL, ":1: gradient_cliping: unknown key", {NULL}},
    {"deepspeed", "{\"fp16\": {\"enabled\": true},\n\"bf16\": {\"enabled\": true}}", NULL,
     ":2: bf16.enabled and fp16.enabled are the same option, --precision", {NULL}},
    {"deepspeed", "{\"optimizer\": {\"params\": {\"lr\": 0.5}},\n\"scheduler\": {\"params\": "
     "{\"warmup_max_lr\": 0.5}}}",
     NULL, NULL, {"lr=0.5"}},
    {"deepspeed", "{\"optimizer\": {\"params\": {\"lr\": 0.5}},\n\"scheduler\": {\"params\": "
     "{\"warmup_max_lr\": 0.4}}}",
     NULL,
     ":2: scheduler.params.warmup_max_lr and optimizer.params.lr are the same", {NULL}},
    {"deepspeed", "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}}", NULL, NULL,
     {"optimizer=\"adam\""}},
    {"deepspeed", "{\"zero_optimization\": {\"zero_hpz_partition_size\": 8, \"stage\": 3}}", NULL, NULL,
     {"shard=\"hybrid\"", "shard_size=8"}},
    {"deepspeed", "{\"zero_optimization\": {\"offload_param\": {\"device\": \"cpu\"}, "
     "\"offload_optimizer\": {\"device\": \"cpu\"}, \"reduce_bucket_size\": 5e8}}", NULL, NULL,
     {"offload=[\"params\",\"optimizer\"]", "bucket_mb=2000.0"}},
    {"deepspeed", "{\"progressive_layer_drop\": {\"enabled\": true, \"theta\": 0.5}}", NULL, NULL,
     {"layer_drop=\"theta=0.5,gamma=0.001\""}},
    {"deepspeed", "{\"sequence_parallel_size\": 2, \"communication_data_type\": \"bf16\"}", NULL, NULL,
     {"cp_size=2", "cp_mode=\"heads\"", "reduce_dtype=\"bf16\""}},
    {"accelerate", "{\"distributed_type\": \"FSDP\", \"use_cpu\": true, \"fsdp_config\": {\"fsdp_sharding_strategy\": "
     "\"SHARD_GRAD_OP\"}, \"num_processes\": 2}", NULL, NULL, {"shard=\"zero2\"", "device=\"cpu\"", "world_size=2"}},
    {"accelerate", "{\"distributed_type\": \"XLA\"}", NULL, "distributed_type XLA is not possible: there are", {NULL}},
    {"accelerate", "{\"fsdp_config\": {\"fsdp_what\": 1}}", NULL, "fsdp_config.fsdp_what 1 is not possible", {NULL}},
    {"training_arguments", "{\"deepspeed\": {\"gradient_accumulation_steps\": \"auto\"}, "
     "\"gradient_accumulation_steps\": 2, \"per_device_train_batch_size\": 8}", NULL, NULL, {"batch_size=16",
     "num_microbatches=2"}},
    {"training_arguments", "{\"neftune_noise_alpha\": 5}", NULL,
     "neftune_noise_alpha 5 is not possible: Trident has nothing like it", {NULL}},
    {"training_arguments", "{\"fsdp\": [\"full_shard\", \"auto_wrap\", \"offload\"]}", NULL, NULL,
     {"shard=\"zero3\"", "offload=[\"params\"]"}},
    {"training_arguments", "{\"fsdp\": \"\", \"bf16\": null, \"max_steps\": -1}", NULL, NULL,
     {"shard=\"none\"", "precision=\"fp32\"", "max_steps=0"}},
};

TEST(test_file_cases) {
    char path[64], flag[TRI_OPTION_FLAG], key[64];
    int n_words;
    snprintf(path, sizeof path, "/tmp/trident-files-%ld.json", (long)getpid());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_settings s;
        const char *args[] = {tri__option_flag(cases[i].option, flag), path, cases[i].more};
        assert_int_equal(tri__file_write(path, cases[i].text, strlen(cases[i].text)), TRI_OK);
        tri__settings_init(&s);
        tri_status status = tri__settings_parse(&s, "train", cases[i].more ? 3 : 2, args, NULL, 0, &n_words);
        if (cases[i].error ? status != TRI_USAGE || !strstr(tri_error(), cases[i].error) : status != TRI_OK)
            fail_msg("%s: %d %s", cases[i].text, status, tri_error());
        tri_json *all = tri__settings_json(&s);
        for (int v = 0; v < 4 && cases[i].values[v]; v++) {
            snprintf(key, sizeof key, "%.*s", (int)strcspn(cases[i].values[v], "="), cases[i].values[v]);
            char *got = tri__json_text(tri__json_get(all, key), TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9));
            if (!got || strcmp(got, strchr(cases[i].values[v], '=') + 1))
                fail_msg("%s: %s, got %s", cases[i].text, cases[i].values[v], got ? got : "nothing");
            free(got);
        }
        tri__json_decref(all);
        tri__settings_free(&s);
    }
    unlink(path);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
