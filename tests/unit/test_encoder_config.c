/* test_encoder_config.c - encoder architectures: known names, and the keys of a config.json, there and back. */
#include "model/family.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/json_text.h"

static void expect_error(const char *what, tri_status got, tri_status want, const char *part) {
    if (got != want || !strstr(tri_error(), part))
        fail_msg("%s: expected status %d and \"%s\"; got %d and \"%s\"", what, want, part, got, tri_error());
}

/* A key that looks like one that counts is an error; those of transformers' files are not. */
static void test_misspelt_keys(void **state) {
    (void)state;
    static const struct {
        const char *text, *part; /* NULL: accepted */
    } cases[] = {
        {"{\"num_hidden_layer\": 2}", "unknown key \"num_hidden_layer\"; did you mean \"num_hidden_layers\"?"},
        {"{\"hiden_size\": 32}", "did you mean \"hidden_size\"?"},
        {"{\"model_type\": \"distilbert\", \"n_layer\": 2}", "did you mean \"n_layers\"?"},
        {"{\"model_type\": \"modernbert\", \"global_rope_thta\": 2}", "did you mean \"global_rope_theta\"?"},
        {"{\"num_expert\": 2}", "did you mean \"num_experts\"?"},
        {"{\"hidden_size\": 32, \"cls_token_id\": 1, \"transformers_version\": \"5\", \"pooler_type\": 7}", NULL},
        {"{\"model_type\": \"distilbert\", \"hidden_size\": 32, \"n_heads\": 2, \"qa_dropout\": 0.1}", NULL},
        {"{\"my_own_note\": 1, \"_comment\": \"x\"}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_encoder e;
        tri_json *json = json_of(cases[i].text);
        assert_true(tri__encoder_preset("bert-base-uncased", &e));
        assert_int_equal(tri__encoder_parse(json, "primary_encoder", &e), TRI_OK);
        tri_status status = tri__encoder_check_keys(json, "primary_encoder", &e);
        if (cases[i].part) expect_error(cases[i].text, status, TRI_USAGE, cases[i].part);
        else if (status != TRI_OK) fail_msg("%s: %s", cases[i].text, tri_error());
        tri__json_decref(json);
    }
}

static void test_presets(void **state) {
    (void)state;
    static const struct {
        const char *name, *family;
        int vocab, hidden, layers, heads, inner, positions, types, base;
        double eps;
    } cases[] = {
        {"bert-base-cased", "bert", 28996, 768, 12, 12, 3072, 512, 2, 0, 1e-12},
        {"bert-base-uncased", "bert", 30522, 768, 12, 12, 3072, 512, 2, 0, 1e-12},
        {"bert-large-cased", "bert", 28996, 1024, 24, 16, 4096, 512, 2, 0, 1e-12},
        {"roberta-base", "roberta", 50265, 768, 12, 12, 3072, 514, 1, 2, 1e-5},
        {"roberta-large", "roberta", 50265, 1024, 24, 16, 4096, 514, 1, 2, 1e-5},
        {"google/electra-small-discriminator", "electra", 30522, 256, 12, 4, 1024, 512, 2, 0, 1e-12},
        {"distilbert-base-cased", "distilbert", 28996, 768, 6, 12, 3072, 512, 0, 0, 1e-12},
        {"microsoft/mpnet-base", "mpnet", 30527, 768, 12, 12, 3072, 514, 0, 2, 1e-5},
        {"microsoft/deberta-v3-xsmall", "deberta-v2", 128100, 384, 12, 6, 1536, 512, 0, 0, 1e-7},
        {"microsoft/deberta-v3-base", "deberta-v2", 128100, 768, 12, 12, 3072, 512, 0, 0, 1e-7},
        {"FacebookAI/xlm-roberta-large", "xlm-roberta", 250002, 1024, 24, 16, 4096, 514, 1, 2, 1e-5},
    };
    tri_encoder e, back;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(tri__encoder_preset(cases[i].name, &e));
        assert_string_equal(tri__family(&e)->type, cases[i].family);
        assert_true(e.vocab_size == cases[i].vocab && e.hidden_size == cases[i].hidden);
        assert_true(e.num_hidden_layers == cases[i].layers && e.num_attention_heads == cases[i].heads);
        assert_true(e.intermediate_size == cases[i].inner && e.max_position_embeddings == cases[i].positions);
        assert_true(e.type_vocab_size == cases[i].types && e.layer_norm_eps == cases[i].eps);
        assert_true(e.hidden_dropout_prob == 0.1 && e.attention_probs_dropout_prob == 0.1);
        assert_true(e.initializer_range == 0.02);
        assert_int_equal(tri__encoder_position_base(&e), cases[i].base);
        assert_int_equal(tri__encoder_check(&e, "here", 512), TRI_OK);
        expect_error(cases[i].name, tri__encoder_check(&e, "here", 513), TRI_USAGE,
                     "here: max_sen_len 513 is beyond the encoder's 512 positions");
        back = e;
        assert_int_equal(tri__encoder_extend(&back, 512), 0); /* enough as it is */
        assert_memory_equal(&back, &e, sizeof e);
        assert_int_equal(tri__encoder_extend(&back, 1025), 512);
        assert_int_equal(back.max_position_embeddings, 1025 + cases[i].base);
        assert_int_equal(tri__encoder_check(&back, "here", 1025), TRI_OK);
        tri_json *json = tri__encoder_json(&e); /* there and back, over nothing and over another */
        back = (tri_encoder){0};
        assert_int_equal(tri__encoder_parse(json, "here", &back), TRI_OK);
        assert_memory_equal(&back, &e, sizeof e);
        assert_true(tri__encoder_preset(cases[(i + 3) % (sizeof cases / sizeof *cases)].name, &back));
        assert_int_equal(tri__encoder_parse(json, "here", &back), TRI_OK);
        assert_memory_equal(&back, &e, sizeof e);
        tri__json_decref(json);
    }
    assert_false(tri__encoder_preset("bert-base", &e));
    assert_false(tri__encoder_preset("", &e));
    assert_false(tri__encoder_preset("./bert-base-cased", &e));
    assert_false(tri__encoder_preset("a/b/bert-base-cased", &e));
}

static void test_encoder_parse(void **state) {
    (void)state;
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"{\"unknown\": [1], \"hidden_size\": 64, \"num_attention_heads\": 4}", NULL},
        {"{\"hidden_act\": \"quick_gelu\"}",
         "cfg: hidden_act is \"quick_gelu\"; supported are gelu, gelu_python, gelu_new, gelu_pytorch_tanh, gelu_fast, "
         "gelu_accurate, relu, silu, swish"},
        {"{\"hidden_act\": \"relu\"}", NULL},
        {"{\"hidden_act\": \"gelu_pytorch_tanh\"}", NULL},
        {"{\"hidden_act\": 3}", "hidden_act is \"not a string\""},
        {"{\"position_embedding_type\": \"relative_key\"}", "position_embedding_type is \"relative_key\""},
        {"{\"position_embedding_type\": \"absolute\", \"hidden_act\": \"gelu\"}", NULL},
        {"{\"hidden_act\": \"gelu_python\", \"pad_token_id\": null}", NULL},
        {"{\"model_type\": \"gpt2\"}",
         "cfg: model_type is \"gpt2\"; supported are bert, roberta, distilbert, electra, xlm-roberta, mpnet, "
         "deberta-v2, modernbert"},
        {"{\"is_decoder\": true}", "cfg: is_decoder is true; only false is supported"},
        {"{\"hidden_size\": 0}", "cfg: hidden_size: 0 is out of range"},
        {"{\"vocab_size\": \"many\"}", "cfg: vocab_size: expected a whole number, not a string"},
        {"{\"vocab_size\": 99999999999}", "out of range"},
        {"{\"layer_norm_eps\": 0}", "layer_norm_eps: 0 is out of range"},
        {"{\"hidden_dropout_prob\": 1}", "hidden_dropout_prob: 1 is out of range"},
        {"{\"attention_pattern\": {\"mode\": \"window\", \"window\": 100}}", NULL},
        {"{\"attention_pattern\": \"bigbird\"}", NULL},
        {"{\"attention_pattern\": \"bigbrid\"}", "cfg: attention_pattern: \"bigbrid\" is not a pattern"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_encoder e, before;
        assert_true(tri__encoder_preset("bert-base-cased", &e));
        before = e;
        tri_json *json = json_of(cases[i].json);
        assert_non_null(json);
        tri_status status = tri__encoder_parse(json, "cfg", &e);
        if (cases[i].error) {
            expect_error(cases[i].json, status, TRI_USAGE, cases[i].error);
            assert_memory_equal(&e, &before, sizeof e);
        } else {
            assert_int_equal(status, TRI_OK);
        }
        tri__json_decref(json);
    }
    tri_encoder e = {0};
    tri_json *json = tri__json_pack("{s:s}", "model_type", "roberta"); /* the class's defaults, not roberta-base's */
    assert_int_equal(tri__encoder_parse(json, "cfg", &e), TRI_OK);
    assert_true(strcmp(tri__family(&e)->type, "roberta") == 0 && e.vocab_size == 50265 && e.pad_token_id == 1 &&
                e.max_position_embeddings == 512);
    tri__json_decref(json);
    e.num_attention_heads = 7;
    expect_error("heads", tri__encoder_check(&e, "cfg", 8), TRI_USAGE,
                 "cfg: hidden_size 768 cannot be divided among 7 heads");
    e.num_attention_heads = 12, e.pad_token_id = 50265;
    expect_error("pad", tri__encoder_check(&e, "cfg", 8), TRI_USAGE, "pad_token_id 50265");
    e.pad_token_id = -1;
    expect_error("no pad", tri__encoder_check(&e, "cfg", 8), TRI_USAGE, "pad_token_id is null");
    e = (tri_encoder){0};
    expect_error("sizes", tri__encoder_check(&e, "cfg", 8), TRI_USAGE, "above 0");
}

/* ModernBERT's keys in both of transformers' forms, there and back; and what cannot be honoured. */
static void test_modernbert(void **state) {
    (void)state;
    static const struct {
        const char *keys, *error; /* of a config.json with 5 layers */
        int local[5];
        double global_theta, local_theta;
    } cases[] = {
        {"\"hidden_size\": 768", NULL, {0, 1, 1, 0, 1}, 160000, 10000},
        {"\"global_attn_every_n_layers\": 2, \"global_rope_theta\": 7, \"local_rope_theta\": null", NULL,
         {0, 1, 0, 1, 0}, 7, 7},
        {"\"layer_types\": [\"full_attention\", \"sliding_attention\", \"sliding_attention\", \"full_attention\","
         " \"sliding_attention\"], \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\","
         " \"rope_theta\": 11}, \"sliding_attention\": {\"rope_theta\": 12}}", NULL, {0, 1, 1, 0, 1}, 11, 12},
        {"\"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\","
         " \"full_attention\"], \"attention_dropout\": 0.25, \"mlp_dropout\": 0.5, \"norm_bias\": true", NULL,
         {1, 0, 1, 0, 0}, 160000, 10000},
        {"\"layer_types\": [\"full_attention\"]", "cfg: layer_types is not a list of as many entries", {0}, 0, 0},
        {"\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"yarn\"}}", "rope_type of full_attention is", {0},
         0, 0},
        {"\"rope_scaling\": {\"factor\": 2}", "rope_scaling is given", {0}, 0, 0},
        {"\"local_attention\": 1", "local_attention: 1 is out of range", {0}, 0, 0},
        {"\"num_experts\": 2", "num_experts 2: feed-forward layers of a modernbert", {0}, 0, 0},
        {"\"attention_pattern\": \"window\"", "have patterns of their own", {0}, 0, 0},
        {"\"num_attention_heads\": 256", "take an even number", {0}, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_encoder e = {0}, back = {0};
        char text[512];
        snprintf(text, sizeof text, "{\"model_type\": \"modernbert\", \"num_hidden_layers\": 5, %s}", cases[i].keys);
        tri_json *json = json_of(text);
        assert_non_null(json);
        tri_status status = tri__encoder_parse(json, "cfg", &e);
        if (status == TRI_OK) status = tri__encoder_check(&e, "cfg", 8192);
        tri__json_decref(json);
        if (cases[i].error) {
            expect_error(cases[i].keys, status, TRI_USAGE, cases[i].error);
            continue;
        }
        assert_int_equal(status, TRI_OK);
        for (int k = 0; k < 5; k++) assert_int_equal(tri__encoder_is_local(&e, k), cases[i].local[k]);
        assert_true(e.global_rope_theta == cases[i].global_theta && e.local_rope_theta == cases[i].local_theta);
        json = tri__encoder_json(&e);
        assert_int_equal(tri__encoder_parse(json, "cfg", &back), TRI_OK);
        assert_memory_equal(&back, &e, sizeof e);
        tri__json_decref(json);
    }
}

/* Without a pad token no row is left out; a config.json says so by null, and so does what is written. */
static void test_encoder_without_pad(void **state) {
    (void)state;
    tri_encoder e = {0}, back = {0};
    tri_json *json = json_of("{\"model_type\": \"bert\", \"pad_token_id\": null}");
    assert_int_equal(tri__encoder_parse(json, "cfg", &e), TRI_OK);
    assert_true(e.pad_token_id == -1);
    assert_int_equal(tri__encoder_check(&e, "cfg", 8), TRI_OK);
    tri__json_decref(json);
    json = tri__encoder_json(&e);
    assert_true(tri__json_is_null(tri__json_get(json, "pad_token_id")));
    assert_int_equal(tri__encoder_parse(json, "cfg", &back), TRI_OK);
    assert_memory_equal(&back, &e, sizeof e);
    tri__json_decref(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets), cmocka_unit_test(test_misspelt_keys),
        cmocka_unit_test(test_encoder_parse),
        cmocka_unit_test(test_modernbert),
        cmocka_unit_test(test_encoder_without_pad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
