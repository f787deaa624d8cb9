/* test_values.c - a value is the same category, label and number in every format: canonical forms, decimal marks of
 * texts only, models saved before there were canonical forms. */
#include "tests/lib/test.h"
#include "tests/lib/fitted_table.h"

#include "base/hash.h"
#include "data/table/value_text.h"

static const tri_reading point = {.decimal = '.'}, comma = {.decimal = ','};

static tri_field_text text_of(const char *text) { return (tri_field_text){text, strlen(text), 0}; }

static void assert_form(const tri_reading *reading, tri_field_text field, const char *want) {
    char out[TRI_CANONICAL_BYTES];
    tri_field_text form = tri__field_canonical(reading, field, out);
    if (form.length != strlen(want) || memcmp(form.text, want, form.length))
        fail_msg("%.*s became %.*s, not %s", (int)field.length, field.text, (int)form.length, form.text, want);
}

TEST(one_form_of_booleans_and_numbers) {
    static const struct {
        const char *text, *form; /* NULL: the text itself */
    } cases[] = {
        {"True", "true"}, {"TRUE", "true"}, {" true\t", "true"}, {"False", "false"}, {"FALSE", "false"},
        {"tRUE", NULL}, {"T", NULL}, {"yes", NULL}, {"Truest", NULL},
        {"1", "1"}, {"1.0", "1"}, {"1.00", "1"}, {"10", "10"}, {"1e+00", "1"}, {"1.0E1", "10"}, {"1E+05", "100000"},
        {"0", "0"}, {"-0", "0"}, {"-0.0", "0"}, {"0.000e+00", "0"}, {"-3", "-3"}, {"-3.0", "-3"},
        {"1.50", "1.5"}, {".5", "0.5"}, {"-.5", "-0.5"}, {"0.1", "0.1"}, {"1.000000000000000056e-01", "0.1"},
        {"0.00001", "1e-05"}, {"1e-05", "1e-05"}, {"1.00000000000000000001", "1"},
        {"1e+20", "100000000000000000000"}, {"100000000000000000000", "100000000000000000000"},
        {"9007199254740993", "9007199254740993"}, {"9007199254740992.0", "9007199254740992"},
        {"12345678901234567.5", "12345678901234568"}, {"1e+100", "1e+100"}, {"1.5e+300", "1.5e+300"},
        /* names made of digits */
        {"01", NULL}, {"007", NULL}, {"00", NULL}, {"-01", NULL}, {"01.5", NULL}, {"+1", NULL}, {"5.", NULL},
        {"12e4", NULL}, {"0e12", NULL}, {"1e5", NULL}, {"1,5", NULL}, {"1.2.3", NULL}, {"1-2", NULL}, {"-", NULL},
        {".", NULL}, {"1e+", NULL}, {"1e+400", NULL}, {"1e-400", NULL}, {"0x10", NULL}, {"nan", NULL}, {"inf", NULL},
        {"", NULL}, {"1 000", NULL}, {"1e+999999999999", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_form(&point, text_of(cases[i].text), cases[i].form ? cases[i].form : cases[i].text);
    assert_form(&comma, text_of("1,50"), "1.5");
    assert_form(&comma, text_of("1,0"), "1");
    assert_form(&comma, text_of("1.50"), "1.50"); /* perhaps a thousand, perhaps a version */
    assert_form(&comma, (tri_field_text){"1.50", 4, 1}, "1.5"); /* a number has a point, whatever texts have */
    assert_form(&point, (tri_field_text){"1e2", 3, 1}, "100"); /* and is one in any form */
    char many[600];
    memset(many, '1', sizeof many);
    assert_true(tri__field_canonical(&point, (tri_field_text){many, sizeof many, 0}, (char[TRI_CANONICAL_BYTES]){0})
                    .text == many);
}

/* What integer, float and decimal columns have for equal numbers; a canonical form is its own. */
TEST(equal_numbers_have_equal_forms) {
    for (uint32_t i = 0; i < 20000; i++) {
        char text[TRI_VALUE_TEXT], want[TRI_VALUE_TEXT], out[TRI_CANONICAL_BYTES];
        uint64_t bits = tri__hash64(7, &i, sizeof i);
        int64_t whole = (int64_t)bits >> (11 + i % 53); /* up to 2^53 */
        want[tri__integer_text(whole, want)] = 0;
        assert_form(&point, (tri_field_text){text, tri__double_text((double)whole, text), 0}, want);
        snprintf(text, sizeof text, "%.40s.00", want);
        assert_form(&point, text_of(text), want);
        snprintf(text, sizeof text, "%.17e", (double)whole);
        assert_form(&point, text_of(text), want);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!(value - value == 0)) continue;
        snprintf(text, sizeof text, "%.17e", value);
        tri_field_text form = tri__field_canonical(&point, text_of(text), out);
        assert_true(strtod(text, NULL) == value);
        memcpy(want, form.text, form.length), want[form.length] = 0;
        assert_form(&point, (tri_field_text){text, tri__double_text(value, text), 1}, want);
        assert_form(&point, text_of(want), want);
    }
}

/* The table of a file with this ending. */
static tri_table *table_as(const char *ending, const char *text) {
    snprintf(path, sizeof path, "%s/table%s", folder, ending);
    return table_of(text);
}

/* One table as pandas, R, a database and JSON write it: one preprocessing, and the same row of numbers. */
TEST(every_format_gives_the_same_preprocessing) {
    static const struct {
        const char *ending, *text;
    } tables[] = {
        {".csv", "text,x,y,label\na,True,1.0,2\nb,False,,1\nc,True,3.0,2\n"},
        {".csv", "text,x,y,label\na,TRUE,1,2.0\nb,FALSE,NA,1.0\nc,TRUE,3,2.0\n"},
        {".tsv", "text\tx\ty\tlabel\na\ttrue\t1.00\t2.00\nb\tfalse\t\t1.00\nc\ttrue\t3.00\t2.00\n"},
        {".jsonl", "{\"text\":\"a\",\"x\":true,\"y\":1,\"label\":2}\n"
                   "{\"text\":\"b\",\"x\":false,\"y\":null,\"label\":1}\n"
                   "{\"text\":\"c\",\"x\":true,\"y\":3e0,\"label\":2.0}\n"},
        {".jsonl", "{\"text\":\"a\",\"x\":\"True\",\"y\":\"1\",\"label\":\"2\"}\n"
                   "{\"text\":\"b\",\"x\":\"False\",\"label\":\"1\"}\n"
                   "{\"text\":\"c\",\"x\":true,\"y\":3.0,\"label\":2}\n"},
    };
    static char *marks[] = {"NA"};
    tri_json *first = NULL;
    float want[3][8];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        tri_table *table = table_as(tables[i].ending, tables[i].text);
        tri_preprocess_spec spec = spec_of(2, 2);
        tri_preprocess *made;
        tri_fields fields;
        tri_bad_field bad;
        float got[8];
        spec.categorical = (tri_texts){names + 3, 1};
        spec.reading.missing = (tri_texts){marks, 1};
        if (tri__preprocess_fit(table, &spec, 1, &made) != TRI_OK) fail_msg("table %zu: %s", i, tri_error());
        tri_json *json = tri__preprocess_json(made);
        assert_string_equal(made->label[0], "1");
        assert_int_equal(made->width, 6); /* true, false, other; 1, 3, other */
        if (!first) first = tri__json_incref(json);
        if (!tri__json_equal(first, json)) fail_msg("table %zu is fitted as another one", i);
        assert_int_equal(tri__fields_find(table, made, 1, &fields), TRI_OK);
        for (int row = 0; row < 3; row++) {
            assert_int_equal(tri__fields_numbers(&fields, row, got, &bad), 1);
            if (!i) memcpy(want[row], got, sizeof got);
            assert_memory_equal(want[row], got, 6 * sizeof *got);
            assert_int_equal(tri__labels_class(made, tri__table_field(table, row, fields.label)), row != 1);
        }
        tri__fields_free(&fields);
        tri__json_decref(json);
        tri__preprocess_free(made);
        tri__table_close(table);
    }
    tri__json_decref(first);
    snprintf(path, sizeof path, "%s/table.csv", folder);
}

static int category(const tri_preprocess *made, const char *text) {
    return tri__column_category(&made->column[0], &made->reading, text_of(text));
}

/* Categories and labels of a model from before version 4 stay as they are, in their order; values are joined with them
 * where only one has their form. */
TEST(models_from_before_are_joined) {
    static const char saved[] =
        "{\"version\": 2, \"label_name\": \"label\", \"label_by_index\": false, "
        "\"labels\": [\"1.0\", \"2.0\", \"True\"], "
        "\"primary_text\": [\"text\"], \"secondary_text\": [], \"decimal_mark\": \".\", \"missing_values\": [], "
        "\"columns\": [{\"name\": \"x\", \"missing\": 0, "
        "\"categories\": [\"1\", \"1.0\", \"2.0\", \"False\", \"TRUE\", \"True\", \"a\"]}]}";
    tri_json *json, *again;
    tri_preprocess *made;
    assert_int_equal(tri__json_parse(saved, strlen(saved), "saved", TRI_DATA, &json), TRI_OK);
    assert_int_equal(tri__preprocess_parse(json, "saved", &made), TRI_OK);
    static const struct {
        const char *text;
        int category;
    } cases[] = {{"2.0", 2}, {"2", 2}, {"2.00", 2}, {"False", 3}, {"false", 3}, {"FALSE", 3}, {"a", 6}, {" a ", 6},
                 {"1", 0}, {"1.0", 1}, {"TRUE", 4}, {"True", 5}, /* as the table spelt them */
                 {"1.00", 7}, {"true", 7}, {"A", 7}, {"3", 7}};  /* two could be meant; new ones */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(category(made, cases[i].text), cases[i].category);
    static const char *const labels[][2] = {{"1.0", "1"}, {"2", "2.0"}, {"true", "TRUE"}};
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 2; k++) assert_int_equal(tri__labels_class(made, text_of(labels[c][k])), c);
    assert_int_equal(tri__labels_class(made, text_of("3")), -1);
    assert_string_equal(made->label[2], "True");
    made->reading.decimal = ','; /* --decimal-mark: of the table, not of what the model kept */
    assert_int_equal(tri__labels_class(made, text_of("2")), 1);
    assert_int_equal(category(made, "2,0"), 2);
    made->reading.decimal = '.';
    again = tri__preprocess_json(made);
    assert_true(tri__json_equal(json, again)); /* an export of it is the same model */
    tri__json_decref(again);
    tri__preprocess_free(made);
    tri__json_set_new(json, "labels", tri__json_pack("[s, s]", "0", "1"));
    assert_int_equal(tri__preprocess_parse(json, "saved", &made), TRI_OK);
    assert_int_equal(tri__labels_class(made, text_of("01")), 1); /* as it was then */
    tri__preprocess_free(made);
    tri__json_decref(json);
}

/* Digits that are names: zip codes and ids are not numbers, of labels neither. */
TEST(names_of_digits_stay_apart) {
    tri_table *table = table_of("text,x,label\na,01,01\nb,1,1\nc,+1,01\nd,12e4,1\ne,120000,1\n");
    tri_preprocess_spec spec = spec_of(1, 2);
    tri_preprocess *made;
    spec.categorical = (tri_texts){names + 2, 1};
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    assert_int_equal(made->column[0].n_categories, 5);
    assert_string_equal(made->label[0], "01");
    tri__preprocess_free(made);
    static char *twice[] = {"1", "1.0"}, *numbers[] = {"2", "1"};
    spec.label_list = (tri_texts){twice, 2};
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_USAGE);
    assert_error("label_list: \"1.0\" is listed twice");
    tri__table_close(table);
    table = table_of("text,label\na,2.0\nb,1.0\n");
    spec = spec_of(0, 2), spec.label_list = (tri_texts){numbers, 2};
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    assert_int_equal(tri__labels_class(made, text_of("1.0")), 1); /* the label, not the place in the list */
    assert_int_equal(tri__labels_class(made, text_of("0")), -1);  /* a number that is not listed */
    tri__preprocess_free(made);
    tri__table_close(table);
}

/* A model of a table with decimal commas takes numbers of any format, and texts with commas. */
TEST(decimal_commas_are_of_texts) {
    tri_table *table = table_of("text;x;y;label\na;3,5;1,5;0\nb;-1,25;2,0;1\nc;2;1,5;0\n");
    tri_preprocess_spec spec = spec_of(2, 2);
    tri_preprocess *made;
    tri_fields fields;
    tri_bad_field bad;
    float want[3][8], got[8];
    spec.categorical = (tri_texts){names + 3, 1};
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    assert_true(made->reading.decimal == ',');
    assert_int_equal(tri__fields_find(table, made, 1, &fields), TRI_OK);
    for (int row = 0; row < 3; row++) assert_int_equal(tri__fields_numbers(&fields, row, want[row], &bad), 1);
    tri__fields_free(&fields);
    tri__table_close(table);
    table = table_as(".jsonl", "{\"text\":\"a\",\"x\":3.5,\"y\":1.5,\"label\":0}\n"
                               "{\"text\":\"b\",\"x\":-1.25e0,\"y\":2,\"label\":1.0}\n"
                               "{\"text\":\"c\",\"x\":\"2,0\",\"y\":\"1,50\",\"label\":\"0,0\"}\n"
                               "{\"text\":\"d\",\"x\":\"2.0\",\"y\":\"1,50\",\"label\":0}\n");
    assert_int_equal(tri__fields_find(table, made, 1, &fields), TRI_OK);
    for (int row = 0; row < 3; row++) {
        assert_int_equal(tri__fields_numbers(&fields, row, got, &bad), 1);
        assert_memory_equal(got, want[row], (size_t)made->width * sizeof *got);
        assert_int_equal(tri__labels_class(made, tri__table_field(table, row, fields.label)), row == 1);
    }
    assert_int_equal(tri__fields_numbers(&fields, 3, got, &bad), 0); /* a text with a point: a thousand? */
    tri__fields_free(&fields);
    tri__table_close(table);
    tri__preprocess_free(made);
    snprintf(path, sizeof path, "%s/table.csv", folder);
    static const char *const files[] = {"tests/golden/arrow/table.arrow", "tests/golden/parquet/table.parquet",
                                        "tests/golden/arrow/table.csv"};
    double mean = 0;
    for (int i = 2; i >= 0; i--) { /* doubles, whatever the mark of texts */
        assert_int_equal(tri__table_open(files[i], NULL, &table), TRI_OK);
        spec = spec_of(1, 2), spec.columns = (tri_texts){(char *[]){"weight"}, 1};
        spec.reading.decimal = i == 2 ? '.' : ',';
        if (tri__preprocess_fit(table, &spec, 1, &made) != TRI_OK) fail_msg("%s: %s", files[i], tri_error());
        assert_true(!made->column[0].category);
        if (i == 2) mean = made->column[0].mean;
        assert_true(made->column[0].mean == mean);
        tri__preprocess_free(made);
        tri__table_close(table);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, remove_folder); }
