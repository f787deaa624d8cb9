/* test_config.c - option rows, the model's keys, and settings from files and command lines. */
#include "base/file.h"
#include "engine/accept_settings.h"
#include "model/config.h"
#include "settings/settings.h"

#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/json_text.h"

static void expect_error(const char *what, tri_status got, tri_status want, const char *part) {
    if (got != want || !strstr(tri_error(), part))
        fail_msg("%s: expected status %d and \"%s\"; got %d and \"%s\"", what, want, part, got, tri_error());
}

/* Each name, and so each key of the configuration file, has one row; and each row says what a change of it means. */
TEST(test_one_row_each) {
    const tri_option *const tables[] = {tri__model_options, tri__run_options};
    const tri_option *all[TRI_OPTIONS_MAX];
    int n = 0;
    for (int t = 0; t < 2; t++)
        for (const tri_option *row = tables[t]; row->name; row++) all[n++] = row;
    for (int i = 0; i < n; i++) {
        if (all[i]->effect < TRI_EFFECT_UNRECORDED || all[i]->effect > TRI_EFFECT_RUN)
            fail_msg("%s: what does a change of it mean for a run that goes on?", all[i]->name);
        assert_true(all[i]->help && all[i]->help[0] && all[i]->commands);
        for (int k = 0; k < i; k++)
            if (!strcmp(all[i]->name, all[k]->name) || (all[i]->alias && !strcmp(all[i]->alias, all[k]->name)) ||
                (all[k]->alias && !strcmp(all[k]->alias, all[i]->name)))
                fail_msg("%s has two rows", all[i]->name);
    }
}

TEST(test_defaults) {
    tri_settings s;
    tri__settings_init(&s);
    assert_true(s.lr == 2e-5 && s.weight_decay == 0.01 && s.adam_beta1 == 0.9 && s.adam_beta2 == 0.999);
    assert_true(s.adam_eps == 1e-8 && s.max_grad_norm == 1 && s.warmup_steps == 0 && s.no_decay.n == 3);
    assert_string_equal(s.no_decay.at[1], "LayerNorm.weight");
    assert_true(s.batch_size == 32 && s.epochs == 10 && s.seed == 42 && s.keep == 2 && s.print_program == -1);
    assert_true(s.model.is_binary == 1 && s.model.pooling == TRI_POOLING_POOLER && s.model.max_sen_len == 512);
    assert_true(s.precision == 0 && s.shard == 0 && s.schedule == 1 && s.recompute == 0 && !s.json && !s.config);
    assert_int_equal(tri__engine_accept(&s), TRI_OK);
    tri__settings_free(&s);
    tri__settings_free(&s);
}

/* One of each kind. */
typedef struct sample {
    int flag, choice;
    int64_t whole;
    double real;
    char *text, *name;
    tri_texts texts;
    tri_reals reals, worded;
    tri_json *object;
} sample;

#define ROW(kind_, field_, ...) \
    {.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(sample, field_), __VA_ARGS__}
static const tri_option sample_rows[] = {
    ROW(BOOL, flag, .value = "true"),
    ROW(INT, whole, .value = "5", .min = 1, .max = 100, .choices = "auto=0|many=-7"),
    ROW(REAL, real, .value = "0.5", .min = 0, .max = 1),
    ROW(TEXT, text, .value = "abc", .alias = "other_name"),
    ROW(TEXT, name, .value = NULL),
    ROW(CHOICE, choice, .value = "zb-h1", .choices = "none|NO_SHARD=none|zb-h1|full|ALL_OF_IT=full"),
    ROW(TEXTS, texts, .value = "a, b"),
    ROW(REALS, reals, .min = 0, .max = 10),
    ROW(REALS, worded, .value = "1", .choices = "even|balanced"),
    ROW(OBJECT, object, .value = NULL),
    {0}};
#undef ROW

/* A value as text, or as JSON where the text begins with '@'; what the field then is as JSON, or a part of the
 * message. */
static const struct {
    const char *name, *text, *json, *error;
} value_cases[] = {
    {"flag", "false", "false", NULL},
    {"flag", "OFF", "false", NULL},
    {"flag", "no", "false", NULL},
    {"flag", "0", "false", NULL},
    {"flag", "yes", "true", NULL},
    {"flag", "On", "true", NULL},
    {"flag", "maybe", NULL, "here: expected true or false, not \"maybe\""},
    {"flag", "", NULL, "expected true or false"},
    {"flag", "@false", "false", NULL},
    {"flag", "@0", NULL, "here: expected true or false, not a whole number"},
    {"whole", "1", "1", NULL},
    {"whole", "100", "100", NULL},
    {"whole", "0", NULL, "here: 0 is out of range; expected 1 to 100"},
    {"whole", "-3", NULL, "here: -3 is out of range; expected 1 to 100"},
    {"whole", "1_000", NULL, "here: 1000 is out of range; expected 1 to 100"},
    {"whole", "1__0", NULL, "expected a whole number, not \"1__0\""},
    {"whole", "10_", NULL, "expected a whole number, not \"10_\""},
    {"whole", "1e1", NULL, "expected a whole number"},
    {"whole", "0x10", NULL, "expected a whole number"},
    {"whole", " 7", NULL, "expected a whole number"},
    {"whole", "7 ", NULL, "expected a whole number"},
    {"whole", "-", NULL, "expected a whole number"},
    {"whole", "", NULL, "expected a whole number"},
    {"whole", "99999999999999999999", NULL, "too large"},
    {"whole", "@17", "17", NULL},
    {"whole", "@101", NULL, "here: 101 is out of range"},
    {"whole", "@1.5", NULL, "expected a whole number, not 1.5"},
    {"whole", "@\"5\"", NULL, "expected a whole number, not a string"},
    {"whole", "auto", "0", NULL},
    {"whole", "Many", "-7", NULL},
    {"whole", "@\"many\"", "-7", NULL},
    {"whole", "autos", NULL, "expected a whole number, not \"autos\""},
    {"whole", "@null", NULL, "expected a value, not null"},
    {"real", "1e-5", "1e-5", NULL},
    {"real", ".25", "0.25", NULL},
    {"real", "1", "1.0", NULL},
    {"real", "1.01", NULL, "here: 1.01 is out of range; expected 0 to 1"},
    {"real", "nan", NULL, "expected a number, not \"nan\""},
    {"real", "inf", NULL, "expected a number"},
    {"real", "1e999", NULL, "expected a number"},
    {"real", "0x1p-1", NULL, "expected a number"},
    {"real", "1e", NULL, "expected a number"},
    {"real", "", NULL, "expected a number"},
    {"real", "@1", "1.0", NULL},
    {"real", "@2.5", NULL, "here: 2.5 is out of range"},
    {"real", "@true", NULL, "expected a number, not true"},
    {"text", "x y", "\"x y\"", NULL},
    {"text", "", NULL, "here: the value is empty"},
    {"text", "@null", "\"abc\"", NULL}, /* it has a default */
    {"name", "@null", "null", NULL},
    {"text", "@\"\"", NULL, "the value is empty"},
    {"text", "@7", NULL, "expected a string, not a whole number"},
    {"choice", "none", "\"none\"", NULL},
    {"choice", "no-shard", "\"none\"", NULL},
    {"choice", "ZB_H1", "\"zb-h1\"", NULL},
    {"choice", "all_of_it", "\"full\"", NULL},
    {"choice", "zb", NULL, "here: expected none, zb-h1 or full, not \"zb\""},
    {"choice", "", NULL, "expected none, zb-h1 or full"},
    {"choice", "none|full", NULL, "expected none"},
    {"choice", "NO_SHARD=none", NULL, "expected none"},
    {"choice", "@\"full\"", "\"full\"", NULL},
    {"choice", "@1", NULL, "expected a string"},
    {"texts", "x", "[\"x\"]", NULL},
    {"texts", " x , y z ,w", "[\"x\",\"y z\",\"w\"]", NULL},
    {"texts", "", "[]", NULL},
    {"texts", "x,,y", NULL, "here: an empty item in \"x,,y\""},
    {"texts", "x,", NULL, "an empty item"},
    {"texts", ", x", NULL, "an empty item"},
    {"texts", "@[]", "[]", NULL},
    {"texts", "@[\"p,q\", \"\"]", "[\"p,q\",\"\"]", NULL},
    {"texts", "@[\"p\", 1]", NULL, "expected a list of strings, not a whole number"},
    {"texts", "@\"p\"", NULL, "expected a list of strings, not a string"},
    {"reals", "1, 2.5", "[1.0,2.5]", NULL},
    {"reals", "1,x", NULL, "here: expected a number, not \"x\""},
    {"reals", "1,11", NULL, "11 is out of range; expected 0 to 10"},
    {"reals", "@[1, 0.5]", "[1.0,0.5]", NULL},
    {"reals", "@[-1]", NULL, "-1 is out of range"},
    {"reals", "@{}", NULL, "expected a list of numbers, not an object"},
    {"worded", "balanced", "\"balanced\"", NULL},
    {"worded", "Even", "\"even\"", NULL},
    {"worded", "@\"balanced\"", "\"balanced\"", NULL},
    {"worded", "2,3", "[2.0,3.0]", NULL},
    {"worded", "@[2, 3]", "[2.0,3.0]", NULL},
    {"worded", "balance", NULL, "here: expected numbers, or even or balanced, not \"balance\""},
    {"worded", "1,balanced", NULL, "expected numbers, or even or balanced, not \"balanced\""},
    {"worded", "@\"x\"", NULL, "expected numbers, or even or balanced, not \"x\""},
    {"worded", "@true", NULL, "expected a list of numbers, not true"},
    {"object", "{}", NULL, "only the configuration file"},
    {"object", "@{\"a\": 1}", "{\"a\":1}", NULL},
    {"object", "@null", "null", NULL},
    {"object", "@[]", NULL, "expected an object, not a list"},
};

static char *field_line(const tri_option *row, const void *from) {
    tri_json *value = tri__option_json(row, from);
    char *line = tri__json_text(value, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9));
    tri__json_decref(value);
    return line;
}

TEST(test_values) {
    sample s;
    for (size_t i = 0; i < sizeof value_cases / sizeof *value_cases; i++) {
        const char *text = value_cases[i].text;
        const tri_option *row = tri__option_find(sample_rows, value_cases[i].name);
        assert_non_null(row);
        tri__options_init(sample_rows, &s);
        char *before = field_line(row, &s);
        tri_status status;
        if (text[0] == '@') {
            tri_json *value = json_of(text + 1);
            status = tri__option_set_json(row, &s, "here", value);
            tri__json_decref(value);
        } else {
            status = tri__option_set_text(row, &s, "here", text);
        }
        if (value_cases[i].error) expect_error(text, status, TRI_USAGE, value_cases[i].error);
        else assert_int_equal(status, TRI_OK);
        char *after = field_line(row, &s);
        assert_string_equal(after, value_cases[i].json ? value_cases[i].json : before); /* refused: untouched */
        free(before);
        free(after);
        tri__options_free(sample_rows, &s);
    }
    assert_ptr_equal(tri__option_find(sample_rows, "other-name"), &sample_rows[3]);
    assert_null(tri__option_find(sample_rows, "Text"));
}

TEST(test_model_check) {
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"{}", NULL},
        {"{\"label_name\": null}", "label_name is not given"},
        {"{\"primary_text_name\": null}", "primary_text_name is not given"},
        {"{\"primary_tokenizer\": null}", "primary_tokenizer is not given"},
        {"{\"num_classes\": 5}", "is_binary is true, but num_classes is 5"},
        {"{\"num_classes\": 5, \"is_binary\": false}", NULL},
        {"{\"class_weights\": [1, 2]}", NULL},
        {"{\"class_weights\": []}", NULL},
        {"{\"class_weights\": \"balanced\"}", NULL},
        {"{\"class_weights\": [1, 2, 3]}", "class_weights has 3 numbers, but num_classes is 2"},
        {"{\"class_weights\": [1, 0]}", "class_weights holds 0"},
        {"{\"class_weights\": [1, -2]}", "class_weights holds -2"},
        {"{\"tab_field_list\": [\"a\", \"b\", \"a\"]}", "tab_field_list holds \"a\" twice"},
        {"{\"tab_field_list\": [\"y\"]}", "the label's column \"y\""},
        {"{\"label_name\": \"t\"}", "same column, \"t\""},
        {"{\"secondary_text_name\": \"y\"}", "same column, \"y\""},
        {"{\"secondary_text_name\": \"s\", \"secondary_text_list\": [\"y\"]}", "same column, \"y\""},
        {"{\"tab_field_list\": [\"a\", \"t\"]}", "\"t\" is a text and in tab_field_list"},
        {"{\"secondary_text_name\": \"s\", \"tab_field_list\": [\"s\"]}", "\"s\" is a text and in tab_field_list"},
        {"{\"secondary_text_name\": \"s\", \"secondary_text_list\": [\"z\"], \"tab_field_list\": [\"z\"]}",
         "\"z\" is a text and in tab_field_list"},
        {"{\"secondary_encoder\": {\"hidden_size\": 32}}", "there is no secondary_text_name for it to read"},
        {"{\"secondary_encoder\": {\"hidden_size\": 32}, \"secondary_text_name\": \"s\"}", NULL},
        {"{\"secondary_text_list\": [\"z\"]}", "there is no secondary_text_name"},
        {"{\"secondary_text_list\": [\"z\"], \"secondary_text_name\": \"s\"}", NULL},
        {"{\"tab_field_list\": [\"a\", \"b\"], \"cat_field_list\": [\"b\"]}", NULL},
        {"{\"tab_field_list\": [\"a\"], \"cat_field_list\": [\"b\"]}",
         "cat_field_list holds \"b\", which tab_field_list does not"},
        {"{\"label_list\": [\"no\", \"yes\"]}", NULL},
        {"{\"label_list\": [\"no\"]}", "label_list has 1 label, but num_classes is 2"},
        {"{\"label_list\": [\"no\", \"no\"]}", "label_list holds \"no\" twice"},
        {"{\"positive_label\": \"no\"}", NULL},
        {"{\"positive_label\": \"no\", \"num_classes\": 3, \"is_binary\": false}",
         "positive_label \"no\" names one of two classes, but num_classes is 3"},
        {"{\"positive_label\": \"maybe\", \"label_list\": [\"no\", \"yes\"]}",
         "positive_label \"maybe\" is not in label_list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_model_config config;
        tri__options_init(tri__model_options, &config);
        tri_json *base = tri__json_pack("{s:s, s:s, s:s}", "label_name", "y", "primary_text_name", "t",
                                 "primary_tokenizer", "b");
        tri_json *changes = json_of(cases[i].json);
        tri__json_update(base, changes);
        tri__json_members(base, m) {
            const tri_option *row = tri__option_find(tri__model_options, m->key);
            assert_int_equal(tri__option_set_json(row, &config, m->key, m->value), TRI_OK);
        }
        tri_status status = tri__model_config_check(&config);
        if (cases[i].error) expect_error(cases[i].json, status, TRI_USAGE, cases[i].error);
        else assert_int_equal(status, TRI_OK);
        tri__json_decref(base);
        tri__json_decref(changes);
        tri__options_free(tri__model_options, &config);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
