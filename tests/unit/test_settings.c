/* test_settings.c - settings from configuration files and command lines; what is refused, and with which message. */
#include "base/file.h"
#include "base/machine.h"
#include "engine/accept_settings.h"
#include "engine/infer_settings.h"
#include "settings/settings.h"

#include <unistd.h>

#include "tests/lib/test.h"

enum { ARGS = 12 };

static char config_path[64];

/* Writes a configuration file; its path is config_path. */
static void write_config(const char *text) {
    assert_int_equal(tri__file_write(config_path, text, strlen(text)), TRI_OK);
}

static int make_file(void **state) {
    (void)state;
    snprintf(config_path, sizeof config_path, "/tmp/trident-settings-%ld.json", (long)getpid());
    return tri__file_write(config_path, "{}", 2);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(config_path);
}

static int count(const char *const *args) {
    int n = 0;
    while (args[n]) n++;
    return n;
}

/* "key=value" of the recorded configuration. */
static void expect_pair(const char *what, const tri_json *all, const char *pair) {
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(pair, "="), pair);
    char *got = tri__json_text(tri__json_get(all, key), TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9));
    if (!got || strcmp(got, strchr(pair, '=') + 1))
        fail_msg("%s: expected %s, got %s", what, pair, got ? got : "nothing");
    free(got);
}

/* A command line, after a configuration file where there is one ("--config" is added); a part of the message, or what
 * is then recorded. */
static const struct {
    const char *scope, *config;
    const char *args[ARGS];
    const char *error;
    const char *values[4];
} parse_cases[] = {
    {"train", NULL, {"--batch-size", "8", "--lr=1e-4"}, NULL, {"batch_size=8", "lr=0.0001"}},
    {"train", NULL, {"--batch_size", "8", "--batch-size=9"}, NULL, {"batch_size=9"}},
    {"train", NULL, {"--learning-rate", "0.5"}, NULL, {"lr=0.5"}},
    {"train",
     NULL,
     {"--max-sen-len", "128", "--tab-field-list", "a,b"},
     NULL,
     {"max_sen_len=128", "tab_field_list=[\"a\",\"b\"]"}},
    {"train", NULL, {"--is-binary=no", "--num-classes", "3"}, NULL, {"is_binary=false", "num_classes=3"}},
    {"train", NULL, {"--sharding-strategy", "FULL_SHARD"}, NULL, {"shard=\"zero3\""}},
    {"train", NULL, {"--shard", "shard_grad_op"}, NULL, {"shard=\"zero2\""}},
    {"train", NULL, {"--sharding_strategy=HYBRID_SHARD"}, NULL, {"shard=\"hybrid\""}},
    {"train", NULL, {"--sharding_strategy=NO_SHARD"}, NULL, {"shard=\"none\""}},
    {"train", NULL, {"--schedule", "ZB-H1"}, NULL, {"schedule=\"zb-h1\""}},
    {"train",
     "{\"lr\": 0.1, \"epochs\": 3, \"_comments\": {\"x\": [1]}}",
     {"--epochs", "4"},
     NULL,
     {"lr=0.1", "epochs=4"}},
    {"train", "{\"batch_size\": 8}", {NULL}, NULL, {"batch_size=8", "global_batch_size=0"}},
    {"train", NULL, {"--global-batch-size", "48"}, NULL, {"batch_size=48", "global_batch_size=48"}},
    {"train", "{\"global_batch_size\": 12}", {NULL}, NULL, {"batch_size=12"}},
    {"train", NULL, {"--global-batch-size", "12", "--dp-size", "4"}, NULL, {"batch_size=3"}},
    {"train", NULL, {"--global-batch-size", "10", "--dp-size", "4"}, NULL, {"batch_size=3", "global_batch_size=10"}},
    {"train", NULL, {"--global-batch-size", "64", "--nproc-per-node", "4"}, NULL, {"batch_size=16", "world_size=4"}},
    {"train", NULL, {"--nproc-per-node", "8", "--nnodes", "2"}, NULL, {"world_size=16", "nproc_per_node=8"}},
    {"train", NULL, {"--nproc-per-node", "8", "--world-size", "16"}, NULL, {"world_size=16", "nproc_per_node=8"}},
    {"train", NULL, {"--world-size", "16", "--nnodes", "2:2"}, NULL, {"world_size=16", "nproc_per_node=8"}},
    {"train", "{\"world_size\": 6}", {NULL}, NULL, {"world_size=6", "nproc_per_node=6"}},
    {"plan", NULL, {"--world-size", "6"}, NULL, {"nproc_per_node=6"}},
    {"train", NULL, {"--world-size", "16", "--nnodes", "3"}, "--world-size 16 cannot be shared by 3 machines", {NULL}},
    {"train",
     NULL,
     {"--world-size", "16", "--nproc-per-node", "5"},
     "--world-size 16 cannot be shared by machines of 5",
     {NULL}},
    {"train",
     NULL,
     {"--world-size=16", "--nproc-per-node=4", "--nnodes=2"},
     "--world-size 16 is not --nnodes 2 x --nproc-per-node 4",
     {NULL}},
    {"train", NULL, {"--nnodes", "1:4"}, "--nnodes 1:4: the number of machines stays", {NULL}},
    {"train", NULL, {"--nnodes", "2:4", "--elastic", "--nproc-per-node", "3"}, NULL, {"world_size=6"}},
    {"train", NULL, {"--nnodes", "0"}, "--nnodes: expected a number of machines, not \"0\"", {NULL}},
    {"train", NULL, {"--nnodes", "2:"}, "not \"2:\"", {NULL}},
    {"train", NULL, {"--nnodes", "two"}, "not \"two\"", {NULL}},
    {"train", NULL, {"--nproc-per-node", "gpu"}, "--nproc-per-node gpu: this machine has no NVIDIA GPU", {NULL}},
    {"train", NULL, {"--nproc-per-node", "0"}, "--nproc-per-node: 0 is out of range", {NULL}},
    {"train", NULL, {"--progress-timeout", "0.1"}, "--progress-timeout: 0.1 is out of range", {NULL}},
    {"train", NULL, {"--rdzv-backend", "etcd"}, "--rdzv-backend: expected static or c10d, not \"etcd\"", {NULL}},
    {"train",
     "{\"progress_timeout\": 2.5, \"mesh_order\": \"auto\"}",
     {"--transport", "shm"},
     NULL,
     {"progress_timeout=2.5", "mesh_order=\"auto\"", "transport=\"shm\""}},
    {"train", "{\"rdzv_id\": \"x\"}", {NULL}, "\"rdzv_id\" belongs on the command line", {NULL}},
    {"train",
     "{\"secondary_text_name\": \"s\", \"primary_tokenizer\": \"p\"}",
     {NULL},
     NULL,
     {"secondary_tokenizer=\"p\""}},
    {"train",
     "{\"secondary_text_name\": \"s\", \"primary_tokenizer\": \"p\"}",
     {"--primary-tokenizer", "q"},
     NULL,
     {"primary_tokenizer=\"q\"", "secondary_tokenizer=\"q\""}},
    {"train", "{\"primary_tokenizer\": \"p\"}", {NULL}, NULL, {"secondary_tokenizer=null"}},
    {"train", "{\"lrr\": 0.1}", {NULL}, "unknown key \"lrr\"; did you mean \"lr\"?", {NULL}},
    {"train", "{\"hidden-common-dim\": 16}", {NULL}, NULL, {"hidden_common_dim=16"}},
    {"train", "{\"temperature\": 0.1}", {NULL}, "unknown key \"temperature\"", {NULL}},
    {"train", "{\"comments\": {}}", {NULL}, "unknown key \"comments\"", {NULL}},
    {"train", "{\"json\": true}", {NULL}, "\"json\" belongs on the command line", {NULL}},
    {"train", "{\"lr\": \"high\"}", {NULL}, ": lr: expected a number, not a string", {NULL}},
    {"train", "{\"lr\": -1}", {NULL}, ": lr: -1 is out of range; expected 0 or more", {NULL}},
    {"train", "{\"lr\": 1,}", {NULL}, ":1:", {NULL}},
    {"train", "{\"primary_encoder\": {\"hidden_size\": 64}}", {NULL}, NULL, {"primary_encoder={\"hidden_size\":64}"}},
    {"train", NULL, {"--primary-encoder", "{}"}, "--primary-encoder: an object is expected", {NULL}},
    {"train", NULL, {"--batch-sise", "8"}, "unknown option --batch-sise; did you mean --batch-size?", {NULL}},
    {"train", NULL, {"--bach-size=8"}, "unknown option --bach-size; did you mean --batch-size?", {NULL}},
    {"train", NULL, {"--max-sent-len", "8"}, "did you mean --max-sen-len?", {NULL}},
    {"train", NULL, {"--temperature", "8"}, "unknown option --temperature; trident train --help all", {NULL}},
    {"train", NULL, {"-x"}, "unknown option -x", {NULL}},
    {"train", NULL, {"--batch-size"}, "--batch-size needs a value", {NULL}},
    {"train", NULL, {"--batch-size", "--lr", "1"}, "--batch-size needs a value", {NULL}},
    {"train", NULL, {"--batch-size", "many"}, "--batch-size: expected a whole number, not \"many\"", {NULL}},
    {"train", NULL, {"--batch_size=0"}, "--batch-size: 0 is out of range; expected 1 to 1048576", {NULL}},
    {"train", NULL, {"--seed", "-1"}, "--seed: -1 is out of range", {NULL}},
    {"train", NULL, {"--data-path", ""}, "--data-path: the value is empty", {NULL}},
    {"train", NULL, {"--precision", "fp4"}, "--precision: expected fp32, bf16, fp16, int8 or fp8, not \"fp4\"", {NULL}},
    {"train", NULL, {"--quantize", "int8"}, NULL, {"quantize=\"int8\"", "precision=\"fp32\""}},
    {"eval", NULL, {"--precision", "int8"}, NULL, {"precision=\"int8\""}},
    {"train", NULL, {"--print-program", "0"}, "--print-program is not an option of trident train", {NULL}},
    {"eval", NULL, {"--epochs", "3"}, "--epochs is not an option of trident eval", {NULL}},
    {"demo", NULL, {"--lr", "3"}, "--lr is not an option of trident demo", {NULL}},
    {"train",
     NULL,
     {"--lr", "1", "--learning-rate", "2"},
     "--learning-rate and --lr are the same option, --lr",
     {NULL}},
    {"train", NULL, {"--learning_rate", "1", "--learning-rate", "2"}, NULL, {"lr=2.0"}},
    {"train", "{\"lr\": 1}", {"--learning-rate", "2"}, NULL, {"lr=2.0"}},
    {"train",
     "{\"epochs\": 1,\n \"lr\": 1,\n \"learning_rate\": 2}",
     {NULL},
     ":3: learning_rate and lr are the same option",
     {NULL}},
    {"train", NULL, {"--mesh-order", "pp,tp"}, "mesh order \"pp,tp\": dp is missing", {NULL}},
    {"train",
     "{\n\"mesh_order\": \"pp,tp\"}",
     {NULL},
     ".json:2: mesh_order: mesh order \"pp,tp\": dp is missing",
     {NULL}},
    {"train", NULL, {"--profile", "foo"}, "--profile foo: expected wait=N", {NULL}},
    {"train", "{\n\"profile\": \"foo\"}", {NULL}, ".json:2: profile: --profile foo: expected wait=N", {NULL}},
    {"train", NULL, {"--device", "foo"}, "--device foo: there are cpu", {NULL}},
    {"eval", NULL, {"--device", "gpu"}, "--device gpu is not possible: an NVIDIA GPU is --device cuda", {NULL}},
    {"train",
     NULL,
     {"--offload", "optimizer,x"},
     "--offload: expected none, optimizer, gradients, params or activations, not \"x\"",
     {NULL}},
    {"train", "{\"offload\": [\"Optimizer\", \"params\"]}", {NULL}, NULL, {"offload=[\"optimizer\",\"params\"]"}},
    {"train", "{\"offload\": [\"x\"]}", {NULL}, ".json:1: offload: expected none", {NULL}},
    {"train", NULL, {"--memory-limit", "much"}, "--memory-limit much: expected bytes", {NULL}},
    {"train",
     NULL,
     {"--bf16", "--precision", "fp16"},
     "--precision and --bf16 are the same option, --precision",
     {NULL}},
    {"train",
     NULL,
     {"--offload-optimizer-device", "cpu", "--offload-param-device", "cpu"},
     NULL,
     {"offload=[\"optimizer\",\"params\"]"}},
    {"train",
     NULL,
     {"--offload", "params", "--offload-param-device", "cpu"},
     "are the same option, --offload",
     {NULL}},
    {"train",
     NULL,
     {"--per-device-train-batch-size", "8", "--gradient-accumulation-steps", "4"},
     NULL,
     {"batch_size=32", "num_microbatches=4"}},
    {"train",
     NULL,
     {"--batch-size", "8", "--accumulate-grad-batches", "4"},
     "4 accumulated microbatches of how many samples?",
     {NULL}},
    {"train", NULL, {"--wrap", "size_based_auto_wrap_policy"}, NULL, {"wrap=\"size\""}},
    {"train", NULL, {"--auto_wrap_policy=transformer_auto_wrap_policy"}, NULL, {"wrap=\"layer\""}},
    {"train",
     NULL,
     {"--size_based_auto_wrap_policy", "--min_num_params", "100_000_000"},
     NULL,
     {"wrap=\"size\"", "wrap_min_params=100000000"}},
    {"train", NULL, {"--max-steps", "1__0"}, "expected a whole number, not \"1__0\"", {NULL}},
    {"train", NULL, {"--schedule", "ScheduleGPipe"}, NULL, {"schedule=\"gpipe\""}},
    {"train", NULL, {"--schedule", "Schedule1F1B"}, NULL, {"schedule=\"1f1b\""}},
    {"train", NULL, {"--schedule", "ScheduleInterleaved1F1B"}, NULL, {"schedule=\"interleaved\""}},
    {"train", NULL, {"--schedule", "ScheduleZBVZeroBubble"}, NULL, {"schedule=\"zbv\""}},
    {"train",
     NULL,
     {"--param_dtype", "torch.bfloat16", "--reduce_dtype", "torch.float32", "--buffer_dtype", "bf16"},
     NULL,
     {"precision=\"bf16\"", "reduce_dtype=\"fp32\""}},
    {"train", NULL, {"--autocast", "--max_norm", "0.5", "--with_stack"}, NULL,
     {"precision=\"bf16\"", "max_grad_norm=0.5"}},
    {"train", NULL, {"--autocast", "float16"}, NULL, {"precision=\"fp16\""}},
    {"train", NULL, {"--backend", "gloo"}, NULL, {"transport=\"auto\""}},
    {"train", NULL, {"--backend", "mpi"}, NULL, {"transport=\"mpi\""}},
    {"train", NULL, {"--backend", "nccl", "--device", "cuda"}, NULL, {"device=\"cuda\""}},
    {"train", NULL, {"--backend", "nccl"}, "--backend nccl with --device cpu: ranks on GPUs", {NULL}},
    {"train", NULL, {"--device=cuda", "--dist-backend", "gloo"}, "--backend gloo with --device cuda: ranks on CPUs",
     {NULL}},
    {"train", NULL, {"--context-parallel-size", "2", "--expert-model-parallel-size", "4"}, NULL,
     {"cp_size=2", "ep_size=4"}},
    {"train", NULL, {"--is-binary", "false", "--num-classes", "3"}, NULL, {"is_binary=false"}},
    {"train", NULL, {"--is-binary", "TRUE"}, NULL, {"is_binary=true"}},
    {"train", NULL, {"--is-binary", "--lr", "1"}, NULL, {"is_binary=true"}},
    {"train", NULL, {"--is-binary=maybe"}, "--is-binary: expected true or false, not \"maybe\"", {NULL}},
    {"train", NULL, {"--async-save", "off"}, NULL, {"async_save=false"}},
    {"train", NULL, {"--precision", "16-mixed"}, NULL, {"precision=\"fp16\""}},
    {"train", NULL, {"--precision", "bf16-mixed"}, NULL, {"precision=\"bf16\""}},
    {"train", NULL, {"--precision", "bf16-true"}, "--precision bf16-true is not possible: weights", {NULL}},
    {"train", NULL, {"--sequence-parallel", "--tp-size", "2"}, NULL, {"sequence_parallel=\"yes\""}},
    {"train", NULL, {"--sequence-parallel", "auto"}, NULL, {"sequence_parallel=\"auto\""}},
    {"train", "{\"sequence_parallel\": true}", {NULL}, NULL, {"sequence_parallel=\"yes\""}},
    {"train", "{\n\"bf16\": {\"enabled\": true}}", {NULL}, ":2: bf16: expected true or false", {NULL}},
    {"train", "{\"a\": \"deepspeed\"}", {NULL}, ":1: unknown key \"a\"", {NULL}},
    {"train",
     "{\"num_train_epochs\": \"3\"}",
     {NULL},
     ":1: num_train_epochs: expected a whole number, not a string",
     {NULL}},
    {"train", "{\"epochs\": 3,\n\n  \"lr\": -1}", {NULL}, ".json:3: lr: -1 is out of range", {NULL}},
    {"digest", NULL, {"--bf16"}, "--bf16 is --precision here, which is not an option of trident digest", {NULL}},
    {"digest", NULL, {"--limit-all-gathers"}, "unknown option --limit-all-gathers", {NULL}},
    {"train", NULL, {"--max-epochs"}, "--max-epochs needs a value", {NULL}},
    {"train", NULL, {"word"}, "unexpected word \"word\"", {NULL}},
    {"train", NULL, {"--", "--lr"}, "unexpected word \"--lr\"", {NULL}},
};

TEST(test_parse) {
    for (size_t i = 0; i < sizeof parse_cases / sizeof *parse_cases; i++) {
        tri_settings s;
        tri__settings_init(&s);
        const char *args[ARGS + 2] = {NULL};
        int n = count(parse_cases[i].args), n_words = 0;
        memcpy(args, parse_cases[i].args, (size_t)n * sizeof *args);
        const char *what = n ? args[0] : parse_cases[i].config;
        if (parse_cases[i].config) { /* at the end: the command line wins wherever the file is named */
            write_config(parse_cases[i].config);
            args[n++] = "--config", args[n++] = config_path;
        }
        tri_status status = tri__settings_parse(&s, parse_cases[i].scope, n, args, NULL, 0, &n_words);
        const char *error = parse_cases[i].error;
        if (error && strstr(error, "no NVIDIA GPU") && tri__gpus() > 0) error = NULL; /* this machine has one */
        if (error && (status != TRI_USAGE || !strstr(tri_error(), error)))
            fail_msg("%s: expected \"%s\", got %d \"%s\"", what, error, status, tri_error());
        if (!error && status != TRI_OK) fail_msg("%s: %s", what, tri_error());
        tri_json *all = tri__settings_json(&s);
        for (int v = 0; v < 4 && parse_cases[i].values[v]; v++) expect_pair(what, all, parse_cases[i].values[v]);
        tri__json_decref(all);
        tri__settings_free(&s);
    }
}

TEST(test_words_and_flags) {
    tri_settings s;
    tri__settings_init(&s);
    const char *args[] = {"run",        "--json", "more", "--quiet=false", "--checkpoint", "c",
                          "--no-color", "-",      "--",   "-o",            "x"};
    const char *words[5];
    int n = 0;
    assert_int_equal(tri__settings_parse(&s, "digest", 11, args, words, 5, &n), TRI_OK);
    assert_int_equal(n, 5);
    static const char *const want[] = {"run", "more", "-", "-o", "x"};
    for (int i = 0; i < 5; i++) assert_string_equal(words[i], want[i]);
    assert_true(s.json && !s.quiet && s.no_color);
    assert_string_equal(s.checkpoint, "c");
    tri__settings_free(&s);
    tri__settings_init(&s);
    const char *predict[] = {"-o", "out.csv", "--data-path=a=b"};
    assert_int_equal(tri__settings_parse(&s, "predict", 3, predict, NULL, 0, &n), TRI_OK);
    assert_string_equal(s.output, "out.csv");
    assert_string_equal(s.data_path, "a=b");
    tri__settings_free(&s);
    tri__settings_init(&s);
    const char *missing[] = {"--config", "/nonexistent/c.json"};
    assert_int_equal(tri__settings_parse(&s, "train", 2, missing, NULL, 0, &n), TRI_NOINPUT);
    tri__settings_free(&s);
}

/* A command's own rows fill its own struct, with names that mean something else elsewhere; what was given is known of
 * them as of all others. */
typedef struct predicting {
    tri_texts keep;
    int64_t top_k;
} predicting;
static const tri_option predicting_rows[] = {{.name = "keep",
                                              .kind = TRI_OPTION_TEXTS,
                                              .offset = offsetof(predicting, keep),
                                              .commands = "predict",
                                              .effect = TRI_EFFECT_UNRECORDED},
                                             {.name = "top_k",
                                              .kind = TRI_OPTION_INT,
                                              .offset = offsetof(predicting, top_k),
                                              .commands = "predict",
                                              .effect = TRI_EFFECT_UNRECORDED},
                                             {0}};

TEST(test_own_rows) {
    const tri_option *const others[] = {predicting_rows, NULL};
    tri_settings s;
    predicting own;
    int n;
    tri__settings_init(&s);
    assert_int_equal(tri__options_init(predicting_rows, &own), TRI_OK);
    s.own = (tri_option_set){predicting_rows, &own};
    const char *args[] = {"--keep", "a,b", "--batch-size", "32"};
    assert_int_equal(tri__settings_parse(&s, "predict", 4, args, NULL, 0, &n), TRI_OK);
    assert_true(own.keep.n == 2 && own.top_k == 0 && s.keep == 2);
    assert_true(tri__settings_given(&s, &own.keep) && !tri__settings_given(&s, &own.top_k));
    assert_true(tri__settings_given(&s, &s.batch_size) && !tri__settings_given(&s, &s.keep));
    assert_false(tri__settings_given(&s, &s.model.num_classes));
    tri__settings_forget(&s, &s.batch_size);
    assert_false(tri__settings_given(&s, &s.batch_size));
    assert_true(tri__settings_given(&s, &own.keep));
    const char *near[] = {"--topk", "3"};
    assert_int_equal(tri__settings_parse(&s, "predict", 2, near, NULL, 0, &n), TRI_USAGE);
    assert_string_equal(tri_error(), "unknown option --topk; did you mean --top-k?");
    tri__settings_free(&s);
    assert_null(own.keep.at);

    tri__settings_init(&s);
    s.others = others;
    const char *number[] = {"--keep", "3", "--num-classes=5"}, *theirs[] = {"--top-k", "3"};
    assert_int_equal(tri__settings_parse(&s, "train", 3, number, NULL, 0, &n), TRI_OK);
    assert_true(s.keep == 3 && tri__settings_given(&s, &s.keep) && tri__settings_given(&s, &s.model.num_classes));
    assert_int_equal(tri__settings_parse(&s, "train", 2, theirs, NULL, 0, &n), TRI_USAGE);
    assert_string_equal(tri_error(), "--top-k is not an option of trident train; trident train --help all lists them");
    tri__settings_free(&s);
}

/* What this build cannot give is refused by name, with the reason. */
static const struct {
    const char *args[ARGS], *error;
} check_cases[] = {
    {{"--nproc-per-node", "2"}, NULL},
    {{"--world-size", "16"}, NULL},
    {{"--pp-size", "2", "--nproc-per-node", "2", "--schedule", "zbv", "--pipeline-shape", "branch"},
     "--schedule zbv needs stages in a row"},
    {{"--pp-size", "2", "--nproc-per-node", "2", "--schedule", "interleaved", "--pipeline-shape", "branch"},
     "take --pipeline-shape chain"},
    {{"--pp-size", "2", "--nproc-per-node", "2", "--schedule", "zb-h1", "--pipeline-shape", "branch"}, NULL},
    {{"--pp-size", "2", "--nproc-per-node", "2", "--schedule", "zbv", "--virtual-stages", "3"},
     "--virtual-stages 3: with --schedule zbv each rank holds 2"},
    {{"--pp-size", "2", "--tp-size", "2", "--nproc-per-node", "8", "--sequence-parallel", "no"}, NULL},
    {{"--dp-size", "4"}, "1 ranks asked for, but pp 1 x tp 1 x dp 4 = 4"},
    {{"--dp-size", "4", "--nproc-per-node", "4"}, NULL},
    {{"--dp-size", "3", "--nproc-per-node", "4"}, "4 ranks asked for, but pp 1 x tp 1 x dp 3 = 3"},
    {{"--mesh-order", "dp,tp,pp"}, NULL},
    {{"--mesh-order", "auto"}, NULL},
    {{"--batch-size", "32", "--global-batch-size", "64", "--nproc-per-node", "2"}, NULL},
    {{"--batch-size", "3", "--global-batch-size", "10", "--nproc-per-node", "4"}, NULL},
    {{"--batch-size", "4", "--global-batch-size", "10", "--nproc-per-node", "4"},
     "global_batch_size 10 is not batch_size 4 x 4 replicas"},
    {{"--dp-size", "1"}, NULL},
    {{"--sharding-strategy", "NO_SHARD"}, NULL},
    {{"--schedule", "gpipe"}, NULL},
    {{"--schedule", "1F1B"}, NULL},
    {{"--offload", "optimizer"}, NULL},
    {{"--offload", "none"}, NULL},
    {{"--offload", "none,params"}, "--offload: give none, or some of"},
    {{"--tee", "9"}, "--tee 9: give 0 (none)"},
    {{"--redirects", "0:3,1:2"}, "--redirects 0:3,1:2: give 0 (none)"},
    {{"--local-ranks-filter", "x"}, "--local-ranks-filter x: give ranks"},
    {{"--batch-size", "32", "--global-batch-size", "64"}, "global_batch_size 64 is not batch_size 32"},
    {{"--batch-size", "64", "--global-batch-size", "64"}, NULL},
    {{"--global-batch-size", "64"}, NULL},
    {{"--num-microbatches", "32"}, NULL},
    {{"--num-microbatches", "0"}, NULL},
    {{"--precision", "int8"}, "--quantize int8 beside one of the first three"},
    {{"--precision", "bf16", "--quantize", "int8"}, NULL},
    {{"--quantize", "fp8"}, "--quantize fp8: training is for int8 products only"},
    {{"--num-microbatches", "33"}, "--num-microbatches 33 is more than the 32 samples"},
    {{"--freeze", "embeddings,layers=2"}, NULL},
    {{"--freeze", "layers=all"}, NULL},
    {{"--freeze", "layer=2"}, "--freeze layer=2: expected embeddings, or layers=N"},
    {{"--freeze", "layers=2x"}, "--freeze layers=2x: expected"},
    {{"--freeze", "layers=1,layers=2"}, "each once"},
    {{"--head-lr", "0.001", "--lr", "0"}, "--head-lr 0.001 with --lr 0"},
    {{"--lr-schedule", "cosine", "--warmup-ratio", "0.1"}, NULL},
    {{"--optimizer", "onebit-adam", "--full-steps", "99", "--warmup-ratio", "0.5", "--max-steps", "999"},
     "ends within the learning rate's warm-up of 500 steps"},
};

TEST(test_check) {
    for (size_t i = 0; i < sizeof check_cases / sizeof *check_cases; i++) {
        tri_settings s;
        int n_words;
        tri__settings_init(&s);
        int n = count(check_cases[i].args);
        assert_int_equal(tri__settings_parse(&s, "train", n, check_cases[i].args, NULL, 0, &n_words), TRI_OK);
        tri_status status = tri__engine_accept(&s);
        if (status != (check_cases[i].error ? TRI_USAGE : TRI_OK) ||
            (check_cases[i].error && !strstr(tri_error(), check_cases[i].error)))
            fail_msg("%s %s: got %d \"%s\"", check_cases[i].args[0], check_cases[i].args[1], status, tri_error());
        tri__settings_free(&s);
    }
}

/* Microbatches of a replica follow the stages and the batch, unless given. */
TEST(test_microbatches) {
    static const struct {
        const char *args[ARGS];
        int64_t want;
    } cases[] = {
        {{NULL}, 1},
        {{"--nproc-per-node", "8"}, 1},
        {{"--nproc-per-node", "8", "--pp-size", "4"}, 8},
        {{"--nproc-per-node", "8", "--pp-size", "4", "--num-microbatches", "0"}, 8},
        {{"--nproc-per-node", "8", "--pp-size", "4", "--num-microbatches", "3"}, 3},
        {{"--nproc-per-node", "8", "--pp-size", "4", "--batch-size", "5"}, 5},
        {{"--nproc-per-node", "8", "--pp-size", "4", "--global-batch-size", "12"}, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_settings s;
        int n_words;
        tri__settings_init(&s);
        assert_int_equal(tri__settings_parse(&s, "train", count(cases[i].args), cases[i].args, NULL, 0, &n_words),
                         TRI_OK);
        assert_int_equal(s.num_microbatches, cases[i].want);
        assert_int_equal(tri__engine_accept(&s), TRI_OK);
        tri__settings_free(&s);
    }
}

/* Ranks that a launcher started: options that say otherwise are refused with both numbers; the rest follows. */
TEST(test_launched) {
    static const struct {
        const char *args[ARGS], *error;
        int world, local;
        int64_t nodes, replicas, batch, global;
    } cases[] = {
        {{NULL}, NULL, 16, 8, 2, 16, 32, 512},
        {{"--global-batch-size", "100"}, NULL, 16, 8, 2, 16, 7, 100},
        {{"--nproc-per-node", "8", "--batch-size", "4"}, NULL, 16, 8, 2, 16, 4, 64},
        {{"--nproc-per-node", "4"},
         "--nproc-per-node 4, but the launcher started 8 ranks on this machine",
         16,
         8,
         0,
         0,
         0,
         0},
        {{"--world-size", "8"}, "--world-size 8, but the launcher started 16 ranks in all", 16, 8, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_settings s;
        int n_words;
        tri__settings_init(&s);
        assert_int_equal(tri__settings_parse(&s, "train", count(cases[i].args), cases[i].args, NULL, 0, &n_words),
                         TRI_OK);
        tri_status status = tri__settings_launched(&s, cases[i].world, cases[i].local);
        if (cases[i].error) {
            assert_int_equal(status, TRI_USAGE);
            assert_non_null(strstr(tri_error(), cases[i].error));
        } else {
            assert_int_equal(status, TRI_OK);
            assert_true(s.world_size == cases[i].world && s.nproc_per_node == cases[i].local &&
                        s.nodes == cases[i].nodes);
            assert_int_equal(tri__settings_replicas(&s), cases[i].replicas);
            assert_int_equal(s.batch_size, cases[i].batch);
            assert_int_equal(tri__settings_global_batch(&s), cases[i].global);
        }
        tri__settings_free(&s);
    }
}

/* What is recorded can be read again, and says the same. */
TEST(test_recorded) {
    tri_settings s, back;
    int n_words;
    tri__settings_init(&s);
    write_config("{\"label_name\": \"y\", \"primary_text_name\": \"t\", \"secondary_text_name\": \"u\","
                 "\"primary_tokenizer\": \"p\","
                 "\"tab_field_list\": [\"a, b\", \"c\"], \"class_weights\": [1, 2.5], \"no_decay\": [],"
                 "\"primary_encoder\": {\"hidden_size\": 64, \"layer_norm_eps\": 1e-12}}");
    const char *args[] = {"--config", config_path, "--lr", "3e-5", "--seed", "4294967295", "--global-batch-size", "24",
                          "--profile", "wait=1,active=1", "--shard", "zero2", "--quiet"};
    assert_int_equal(tri__settings_parse(&s, "train", 13, args, NULL, 0, &n_words), TRI_OK);
    tri_json *first = tri__settings_json(&s);
    assert_int_equal(tri__json_save(config_path, first), TRI_OK);
    tri__settings_init(&back);
    assert_int_equal(tri__settings_config(&back, config_path), TRI_OK);
    tri_json *second = tri__settings_json(&back);
    assert_true(tri__json_equal(first, second));
    assert_true(back.lr == 3e-5 && back.seed == 4294967295 && back.batch_size == 24 && back.no_decay.n == 0);
    assert_null(tri__json_get(first, "quiet")); /* how to show things is not part of it */
    assert_null(tri__json_get(first, "config"));
    assert_non_null(tri__json_get(first, "data_path"));
    tri__json_decref(first);
    tri__json_decref(second);
    tri__settings_free(&s);
    tri__settings_free(&back);
}

/* The configurations that users of this model have today. */
TEST(test_shipped) {
    static const char *const names[] = {"hybrid_3d_16gpu", "hybrid_fsdp_pp_16gpu", "hybrid_fsdp_pp_8gpu",
                                        "hybrid_pp_dp_16gpu", "hybrid_pp_dp_8gpu"};
    for (size_t i = 0; i < 5; i++) {
        char path[128];
        snprintf(path, sizeof path, "configs/%s.json", names[i]);
        tri_settings s;
        tri__settings_init(&s);
        assert_int_equal(tri__settings_config(&s, path), TRI_OK);
        assert_int_equal(tri__model_config_check(&s.model), TRI_OK);
        tri_encoder encoder;
        assert_true(tri__encoder_preset(s.model.primary_tokenizer, &encoder));
        assert_int_equal(tri__encoder_check(&encoder, path, s.model.max_sen_len), TRI_OK);
        assert_true(s.model.class_weights.n == 2 && s.model.class_weights.at[1] == 2 && s.model.tab_field_list.n == 3);
        assert_true(s.lr > 0 && s.lr < 1e-4 && s.warmup_steps >= 100);
        tri__settings_free(&s);
    }
}

/* What a model was trained with, what is asked for, and what it computes with. */
static const struct {
    int trained, quantized; /* TRI_PRECISION_, TRI_QUANTIZE_ */
    const char *args[5];
    int precision, quantize; /* precision -1: refused */
} infer_cases[] = {
    {TRI_PRECISION_BF16, TRI_QUANTIZE_NONE, {NULL}, TRI_PRECISION_FP32, TRI_QUANTIZE_NONE},
    {TRI_PRECISION_BF16, TRI_QUANTIZE_INT8, {NULL}, TRI_PRECISION_BF16, TRI_QUANTIZE_INT8},
    {TRI_PRECISION_BF16, TRI_QUANTIZE_INT8, {"--precision", "fp32"}, TRI_PRECISION_FP32, TRI_QUANTIZE_NONE},
    {TRI_PRECISION_FP32, TRI_QUANTIZE_NONE, {"--precision", "fp16"}, TRI_PRECISION_FP16, TRI_QUANTIZE_NONE},
    {TRI_PRECISION_BF16, TRI_QUANTIZE_NONE, {"--precision", "int8"}, TRI_PRECISION_FP32, TRI_QUANTIZE_INT8},
    {TRI_PRECISION_BF16, TRI_QUANTIZE_INT8, {"--precision", "int8"}, TRI_PRECISION_BF16, TRI_QUANTIZE_INT8},
    {TRI_PRECISION_BF16, TRI_QUANTIZE_NONE, {"--quantize", "int8"}, TRI_PRECISION_FP32, TRI_QUANTIZE_INT8},
    {TRI_PRECISION_FP32, TRI_QUANTIZE_INT8, {"--quantize", "none"}, TRI_PRECISION_FP32, TRI_QUANTIZE_NONE},
    {TRI_PRECISION_FP32, TRI_QUANTIZE_NONE, {"--precision", "bf16", "--quantize", "int8"}, TRI_PRECISION_BF16,
     TRI_QUANTIZE_INT8},
    {TRI_PRECISION_FP32, TRI_QUANTIZE_NONE, {"--precision", "int8", "--quantize", "int8"}, TRI_PRECISION_FP32,
     TRI_QUANTIZE_INT8},
    {TRI_PRECISION_FP32, TRI_QUANTIZE_NONE, {"--precision", "int8", "--quantize", "fp8"}, -1, 0},
};

TEST(test_infer) {
    const char *model_args[] = {"--nproc-per-node", "8", "--pp-size", "4", "--lr", "0.5", "--offload", "params",
                                "--batch-size", "64", "--separator", "tab", NULL};
    for (size_t i = 0; i < sizeof infer_cases / sizeof *infer_cases; i++) {
        tri_settings model, asked;
        int words;
        tri__settings_init(&model), tri__settings_init(&asked);
        assert_int_equal(tri__settings_parse(&model, "train", count(model_args), model_args, NULL, 0, &words), TRI_OK);
        model.precision = infer_cases[i].trained, model.quantize = infer_cases[i].quantized;
        assert_int_equal(tri__settings_parse(&asked, "eval", count(infer_cases[i].args), infer_cases[i].args, NULL, 0,
                                             &words),
                         TRI_OK);
        tri_status status = tri__settings_infer(&model, &asked);
        assert_int_equal(status, infer_cases[i].precision < 0 ? TRI_USAGE : TRI_OK);
        if (status == TRI_OK) {
            assert_int_equal(model.precision, infer_cases[i].precision);
            assert_int_equal(model.quantize, infer_cases[i].quantize);
            /* The mesh, batches and memory are this call's; what the model was trained with stays. */
            assert_true(model.world_size == 1 && model.nproc_per_node == 1 && model.pp_size == 1);
            assert_true(model.batch_size == 32 && strcmp(model.offload.at[0], "none") == 0);
            assert_true(model.lr == 0.5 && strcmp(model.separator, "tab") == 0);
        }
        tri__settings_free(&model), tri__settings_free(&asked);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_file, remove_file); }
