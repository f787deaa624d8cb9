/* test_encoders.c - every kind of mesh trains every family of encoders like one rank: replicas with each shard, stages
 * with each schedule, ranks that share layers or tokens, recomputation, in fp32 and bf16. What a family cannot be
 * trained with is refused. One table of encoders, one of meshes. SOAK_STEPS=100: all pairs, else each mesh with one
 * encoder. */
#include "tests/lib/test.h"
#include "tests/lib/mesh_cases.h"

enum { LENGTH = 60 }; /* tokens of a text at most */

static const struct {
    const char *name, *pooling;
    const char *keys; /* %d: layers */
    int no_cp;        /* 1: ranks cannot share the tokens of its texts */
} encoders[] = {
    {"distilbert", "pooler",
     "\"model_type\": \"distilbert\", \"dim\": 16, \"n_heads\": 4, \"n_layers\": %d, \"hidden_dim\": 20,"
     " \"activation\": \"gelu\", \"max_position_embeddings\": 64",
     0},
    {"electra", "cls",
     "\"model_type\": \"electra\", \"hidden_size\": 16, \"embedding_size\": 12, \"num_attention_heads\": 4,"
     " \"num_hidden_layers\": %d, \"intermediate_size\": 20, \"hidden_act\": \"gelu_new\","
     " \"max_position_embeddings\": 64",
     0},
    {"xlm-roberta", "mean",
     "\"model_type\": \"xlm-roberta\", \"hidden_size\": 16, \"num_attention_heads\": 4,"
     " \"num_hidden_layers\": %d, \"intermediate_size\": 20, \"hidden_act\": \"silu\","
     " \"max_position_embeddings\": 64",
     0},
    {"mpnet", "pooler",
     "\"model_type\": \"mpnet\", \"hidden_size\": 16, \"num_attention_heads\": 4, \"num_hidden_layers\": %d,"
     " \"intermediate_size\": 20, \"hidden_act\": \"relu\", \"max_position_embeddings\": 64",
     1},
    {"modernbert", "mean",
     "\"model_type\": \"modernbert\", \"hidden_size\": 16, \"num_attention_heads\": 4,"
     " \"num_hidden_layers\": %d, \"intermediate_size\": 20, \"global_attn_every_n_layers\": 2,"
     " \"local_attention\": 16, \"pad_token_id\": 0, \"attention_dropout\": 0.1, \"embedding_dropout\": 0.1",
     0},
    {"deberta-v2", "cls",
     "\"model_type\": \"deberta-v2\", \"hidden_size\": 16, \"num_attention_heads\": 4,"
     " \"num_hidden_layers\": %d, \"intermediate_size\": 20, \"max_position_embeddings\": 64,"
     " \"type_vocab_size\": 0, \"relative_attention\": true, \"position_buckets\": 8,"
     " \"max_relative_positions\": 40, \"norm_rel_ebd\": \"layer_norm\", \"share_att_key\": true,"
     " \"pos_att_type\": [\"p2c\", \"c2p\"], \"position_biased_input\": false",
     1},
};
enum { ENCODERS = sizeof encoders / sizeof *encoders };

/* family: 0, or 1 in bf16; sampled: 1 + the encoder it has in `make test`, modulo their number; 0: none. */
static const mesh_case meshes[] = {
    {0, 1, 1, 1, 2, 1, 1, {NULL}},
    {0, 1, 1, 1, 2, 2, 2, {"--shard=zero1"}},
    {0, 1, 1, 1, 2, 1, 3, {"--shard=zero2"}},
    {0, 1, 1, 1, 2, 2, 4, {"--shard=zero3"}},
    {0, 1, 1, 1, 4, 1, 0, {"--shard=hybrid", "--shard-size=2"}},
    {0, 1, 1, 2, 1, 4, 5, {"--schedule=gpipe"}},
    {0, 1, 1, 2, 1, 4, 6, {"--schedule=1f1b"}},
    {0, 1, 1, 2, 1, 4, 4, {"--schedule=interleaved"}},
    {0, 1, 1, 3, 1, 3, 0, {"--schedule=zb-h1"}},
    {0, 1, 1, 2, 1, 2, 0, {"--schedule=zbv"}},
    {0, 1, 2, 1, 1, 1, 6, {"--sequence-parallel=no"}},
    {0, 1, 2, 1, 1, 2, 5, {"--sequence-parallel=yes"}},
    {0, 1, 2, 1, 1, 1, 2, {NULL}},
    {0, 1, 4, 1, 1, 1, 0, {NULL}},
    {0, 2, 1, 1, 1, 1, 5, {"--cp-mode=heads"}},
    {0, 2, 1, 1, 1, 1, 1, {"--cp-mode=ring"}},
    {0, 3, 1, 1, 2, 1, 0, {"--cp-mode=ring", "--shard=zero3"}},
    {0, 1, 1, 1, 1, 2, 2, {"--recompute=full"}},
    {0, 1, 1, 1, 1, 1, 3, {"--recompute=selective"}},
    {0, 1, 2, 2, 2, 2, 0, {"--shard=zero1", "--recompute=full"}},
    {0, 1, 1, 2, 2, 2, 0, {"--shard=zero3"}},
    {0, 2, 2, 1, 1, 1, 0, {"--cp-mode=heads"}},
    {1, 1, 1, 1, 2, 1, 0, {"--shard=zero3"}},
    {1, 1, 1, 2, 1, 2, 0, {"--recompute=full"}},
    {1, 1, 2, 1, 1, 1, 4, {NULL}},
    {1, 2, 1, 1, 1, 1, 0, {"--cp-mode=heads"}},
};
enum { MESHES = sizeof meshes / sizeof *meshes };

static char config_name[ENCODERS][32];
static mesh_family families[2 * ENCODERS];

static void write_config(int e) {
    char keys[2][768], text[2560];
    for (int b = 0; b < 2; b++) snprintf(keys[b], sizeof keys[b], encoders[e].keys, b ? 2 : 4);
    snprintf(text, sizeof text,
             "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
             " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\", \"pooling\": \"%s\","
             " \"hidden_common_dim\": 8, \"fusion_hidden_dim\": 12, \"max_sen_len\": %d, \"lr\": 0.002,"
             " \"warmup_steps\": 2, \"global_batch_size\": 16, \"primary_encoder\": {%s}, \"secondary_encoder\": {%s}}",
             encoders[e].pooling, LENGTH, keys[0], keys[1]);
    write_file(config_name[e], text);
}

static int make_model(void **state) {
    if (make_data(state)) return 1;
    for (int e = 0; e < ENCODERS; e++) {
        snprintf(config_name[e], sizeof config_name[e], "%s.json", encoders[e].name);
        write_config(e);
        families[2 * e] = (mesh_family){config_name[e], {NULL}, 0};
        families[2 * e + 1] = (mesh_family){config_name[e], {"--precision=bf16"}, 4e-3};
    }
    mesh_write_long("train.csv", 50, 1, LENGTH);
    mesh_write_long("valid.csv", 10, 1, LENGTH);
    return 0;
}

/* The norm of gradients tells more than a loss: all parameters of all layers are in it. */
static void expect_norms(const mesh_case *c, const char *name, double most, const run *one, const run *have) {
    (void)c;
    for (int k = 0; k < MESH_STEPS; k++)
        if (!(fabs(have->norm[0][k] - one->norm[0][k]) <= 10 * most * one->norm[0][k]))
            fail_msg("%s: norm of step %d is %.9g, not %.9g", name, k + 1, have->norm[0][k], one->norm[0][k]);
}

/* Which pairs there are: each mesh that works with an encoder. */
TEST(like_one_rank) {
    mesh_case pairs[ENCODERS * MESHES];
    int n = 0;
    for (int e = 0; e < ENCODERS; e++)
        for (int m = 0; m < MESHES; m++) {
            if (meshes[m].shared > 1 && encoders[e].no_cp) continue;
            pairs[n] = meshes[m];
            pairs[n].family += 2 * e;
            pairs[n++].sampled = meshes[m].sampled && (meshes[m].sampled - 1) % ENCODERS == e;
        }
    mesh_like_one_rank(
        &(mesh_cases){.axis = "cp", .families = families, .at = pairs, .n = n, .also = expect_norms});
}

/* Ranks never share what a family's attention needs whole. */
TEST(refused) {
    static const mesh_cases all = {.axis = "cp", .families = families};
    for (int e = 0; e < ENCODERS; e++) {
        if (!encoders[e].no_cp) continue;
        mesh_words text;
        run asked = mesh_run(&all, &(mesh_case){2 * e, 2, 1, 1, 1, 1, 1, {NULL}}, &text);
        assert_int_equal(run_status(&asked), TRI_USAGE);
        if (!strstr(tri_error(), encoders[e].name) || !strstr(tri_error(), "cp"))
            fail_msg("%s: refused by \"%s\"", encoders[e].name, tri_error());
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_model, remove_data); }
