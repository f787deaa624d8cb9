/* test_hashed.c - names and codes as hashed character n-grams, as an implementation in Python has them; columns of yes
 * and no; rare categories that are joined; and what of them is kept with a model, and refused in what is read. */
#include "tests/lib/test.h"
#include "tests/lib/fitted_table.h"

#include "data/dataset/unseen.h"

#include <math.h>

#include "tests/lib/json_text.h"

static tri_field_text text_of(const char *text) { return (tri_field_text){text, strlen(text), 0}; }

TEST(n_grams_of_the_golden_file) {
    tri_json *golden;
    int cases = 0;
    assert_int_equal(tri__json_load("tests/golden/hashed.json", TRI_INTERNAL, &golden), TRI_OK);
    tri__json_items(tri__json_get(golden, "cases"), at) {
        const char *text = tri__text_in(at, "text");
        int buckets = (int)tri__whole_in(at, "buckets"), n = 0;
        float have[1001];
        have[buckets] = 7;
        tri__grams_count(text_of(text), buckets, have);
        for (int k = 0; k < buckets; k++) n += have[k] != 0;
        tri__json_members(tri__json_get(at, "numbers"), want) {
            float value = have[atoi(want->key)];
            if (value != (float)tri__json_number_value(want->value))
                fail_msg("\"%s\" has %.9g in bucket %s of %d", text, (double)value, want->key, buckets);
            n--;
        }
        if (n) fail_msg("\"%s\" has %d more buckets of %d", text, n, buckets);
        assert_true(have[buckets] == 7);
        cases++;
    }
    assert_true(cases > 80);
    tri__json_decref(golden);
}

/* Columns x (hashed) and y (boolean). */
static tri_preprocess_spec kinds_spec(tri_vectors vectors) {
    tri_preprocess_spec spec = spec_of(2, 2);
    spec.hashed = (tri_texts){names + 2, 1}, spec.boolean = (tri_texts){names + 3, 1};
    spec.buckets = 8, spec.vectors = vectors, spec.bins = 4;
    static char *missing[] = {"NA"};
    spec.reading.missing = (tri_texts){missing, 1};
    return spec;
}

static const char kinds_table[] = "text,x,y,label\na,Nova 12,Yes,0\nb,1.0,no,1\nc,NA,TRUE,0\nd,true,f,1\ne,x,,0\n"
                                  "f,y,1,1\n";

static tri_preprocess *kinds_of(tri_vectors vectors) {
    tri_table *table = table_of(kinds_table);
    tri_preprocess_spec spec = kinds_spec(vectors);
    tri_preprocess *made;
    if (tri__preprocess_fit(table, &spec, 1, &made) != TRI_OK) fail_msg("%s", tri_error());
    tri__table_close(table);
    return made;
}

TEST(hashed_columns_are_numbers_of_a_row) {
    tri_preprocess *p = kinds_of(TRI_VECTORS_NONE);
    float want[8], have[9];
    static const char *const equal[][2] = {{"Nova 12", " nova  12 "}, {"1.0", "1"}, {"TRUE", "true"}};
    assert_int_equal(p->width, 9);
    assert_int_equal(p->vectors.n, 9);
    assert_int_equal(p->column[0].missing, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tri__column_numbers(&p->column[0], &p->reading, text_of(equal[i][0]), have), TRI_NUMBER_GOOD);
        assert_int_equal(tri__column_numbers(&p->column[0], &p->reading, text_of(equal[i][1]), want), TRI_NUMBER_GOOD);
        assert_memory_equal(have, want, sizeof want);
        double squares = 0;
        for (int k = 0; k < 8; k++) squares += (double)have[k] * (double)have[k];
        assert_true(fabs(squares - 1) < 1e-6); /* as much as a standardised number */
    }
    static const char *const missing[] = {"", "  ", "NA"};
    for (int i = 0; i < 3; i++) {
        memset(have, 1, sizeof have);
        assert_int_equal(tri__column_numbers(&p->column[0], &p->reading, text_of(missing[i]), have), TRI_NUMBER_GOOD);
        for (int k = 0; k < 8; k++) assert_true(have[k] == 0);
    }
    char *said = tri__preprocess_describe(p);
    assert_string_equal(said, "x: character n-grams in 8 buckets, 1 missing; y: yes or no, 1 missing");
    free(said);
    tri__preprocess_free(p);
}

TEST(booleans_are_one_number) {
    tri_preprocess *p = kinds_of(TRI_VECTORS_NONE);
    static const struct {
        const char *text;
        int value; /* -1: none */
    } cases[] = {{"yes", 1},   {"NO", 0}, {"True", 1}, {"false", 0}, {"t", 1},     {"F", 0},  {"y", 1},    {"n", 0},
                 {" on ", 1},  {"Off", 0}, {"1", 1},   {"0", 0},     {"1.0", 1},   {"2", -1}, {"maybe", -1},
                 {"yess", -1}, {"ye", -1},   {"-1", -1}};
    const tri_column_stats *y = &p->column[1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float have;
        tri_number number = tri__column_numbers(y, &p->reading, text_of(cases[i].text), &have);
        if (number != (cases[i].value < 0 ? TRI_NUMBER_NONE : TRI_NUMBER_GOOD))
            fail_msg("\"%s\": %d", cases[i].text, number);
        if (cases[i].value >= 0) assert_true(have == (float)((cases[i].value - y->mean) / y->deviation));
    }
    assert_int_equal(y->missing, 1);
    assert_true(y->fill == 1); /* of 1, 0, 1, 0, 1 */
    tri__preprocess_free(p);

    tri_table *table = table_of("text,x,y,label\na,Nova,yes,0\nb,x,perhaps,1\n");
    tri_preprocess_spec spec = kinds_spec(TRI_VECTORS_NONE);
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &p), TRI_DATA);
    assert_error("table.csv:3:5: \"perhaps\" in column \"y\" is not a boolean: yes or no, true or false, t or f");
    spec.bad_rows = TRI_BAD_ROWS_SKIP;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &p), TRI_OK);
    tri__preprocess_free(p);
    tri__table_close(table);
}

TEST(hashed_columns_become_vectors) {
    tri_preprocess *p = kinds_of(TRI_VECTORS_PIECEWISE);
    assert_int_equal(p->width, 9);
    assert_int_equal(p->vectors.n_at, 2);
    assert_int_equal(p->vectors.at[0].kind, TRI_COLUMN_HASHED);
    assert_int_equal(p->vectors.at[0].count, 8);
    assert_int_equal(p->vectors.at[0].has_missing, 0);
    assert_int_equal(p->vectors.at[1].kind, TRI_COLUMN_PIECEWISE);
    assert_int_equal(p->vectors.at[1].has_missing, 1);
    tri__preprocess_free(p);
}

TEST(kept_with_the_model) {
    for (tri_vectors vectors = TRI_VECTORS_NONE; vectors <= TRI_VECTORS_PERIODIC; vectors++) {
        tri_preprocess *p = kinds_of(vectors), *read;
        tri_json *json = tri__preprocess_json(p), *again;
        assert_int_equal(tri__whole_in(json, "version"), 5);
        assert_int_equal(tri__preprocess_parse(json, "file", &read), TRI_OK);
        assert_true(tri__json_equal(json, again = tri__preprocess_json(read)));
        assert_int_equal(read->width, 9);
        float have[2][8];
        tri__column_numbers(&p->column[0], &p->reading, text_of("Nova 13"), have[0]);
        tri__column_numbers(&read->column[0], &read->reading, text_of("Nova 13"), have[1]);
        assert_memory_equal(have[0], have[1], sizeof have[0]);
        tri__json_decref(json), tri__json_decref(again);
        tri__preprocess_free(p), tri__preprocess_free(read);
    }
    tri_preprocess_spec spec = spec_of(1, 2); /* without what is new, stores keep their names, models their version */
    tri_json *json = tri__preprocess_spec_json(&spec);
    char *text = tri__json_text(json, 0);
    assert_null(strstr(text, "hash"));
    assert_null(strstr(text, "bucket"));
    assert_null(strstr(text, "min_rows"));
    assert_int_equal(tri__whole_in(json, "version"), 4);
    free(text), tri__json_decref(json);
}

#define HEAD                                                                                                  \
    "{\"version\": 5, \"label_name\": \"l\", \"labels\": [\"0\"], \"primary_text\": [\"t\"], \"secondary_text\": [], " \
    "\"decimal_mark\": \".\", \"missing_values\": [], \"columns\": "

TEST(refuses_what_no_model_has) {
    static const struct {
        const char *column, *error;
    } cases[] = {
        {"\"form\": {\"kind\": \"hashed\", \"buckets\": 1}", "hashed into 2 to 4096 buckets"},
        {"\"form\": {\"kind\": \"hashed\", \"buckets\": 4097}", "hashed into 2 to 4096 buckets"},
        {"\"form\": {\"kind\": \"hashed\", \"buckets\": -64}", "hashed into 2 to 4096 buckets"},
        {"\"form\": {\"kind\": \"hashed\", \"buckets\": \"64\"}", "hashed into 2 to 4096 buckets"},
        {"\"form\": {\"kind\": \"hashed\"}", "hashed into 2 to 4096 buckets"},
        {"\"form\": {\"kind\": \"boolean\"}", "transform of column"},
        {"\"form\": {\"kind\": \"plain\"}", "must be that of an amount"},
    };
    char text[2000];
    tri_preprocess *p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, HEAD "[{\"name\": \"x\", %s}]}", cases[i].column);
        tri_json *json = json_of(text);
        assert_int_equal(tri__preprocess_parse(json, "file", &p), TRI_DATA);
        assert_error(cases[i].error);
        tri__json_decref(json);
    }
    /* a target is a number; a row has at most 2^24 of them */
    static const char hashed[] = "{\"name\": \"x\", \"form\": {\"kind\": \"hashed\", \"buckets\": 4096}}";
    tri_json *json = json_of(HEAD "[]}");
    tri_json *columns = tri__json_array();
    for (int i = 0; i <= 4096; i++) tri__json_append_new(columns, json_of(hashed));
    tri__json_set_new(json, "columns", columns);
    assert_int_equal(tri__preprocess_parse(json, "file", &p), TRI_DATA);
    assert_error("a row has 16781312 numbers; at most 16777216 are possible");
    tri__json_set_new(json, "columns", tri__json_array());
    tri__json_set_new(json, "target", json_of(hashed));
    assert_int_equal(tri__preprocess_parse(json, "file", &p), TRI_DATA);
    assert_error("target must be a number's");
    tri__json_decref(json);
}

/* x has v0 once, v1 twice, ... in an order that mixes them; y is a, b, b. */
static tri_table *rare_table(int values) {
    char *text = malloc((size_t)values * (size_t)values * 24 + 100), *at = text;
    at += sprintf(at, "text,x,y,label\n");
    for (int k = 0, row = 0; k < values; k++)
        for (int v = k; v < values; v++, row++) at += sprintf(at, "t,v%d,%s,%d\n", v, row % 3 ? "b" : "a", row % 2);
    tri_table *table = table_of(text);
    free(text);
    return table;
}

TEST(rare_categories_are_joined) {
    tri_table *table = rare_table(12);
    tri_preprocess_spec spec = spec_of(2, 2);
    tri_preprocess *p, *read;
    float have[16];
    spec.min_rows = 9;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &p), TRI_OK);
    const tri_column_stats *x = &p->column[0];
    assert_int_equal(x->n_categories, 4); /* of 9 to 12 rows, in byte order */
    assert_string_equal(x->category[0], "v10");
    assert_string_equal(x->category[3], "v9");
    assert_int_equal(x->joined, 8);
    assert_int_equal(p->column[1].joined, 0);
    tri__column_numbers(x, &p->reading, text_of("v3"), have);
    assert_true(have[4] == 1 && !tri__category_known(x, have)); /* as a value that training did not have */
    char *said = tri__preprocess_describe(p);
    assert_string_equal(said, "x: 4 categories, 8 rare values joined; y: 2 categories");
    free(said);
    tri_json *json = tri__preprocess_json(p), *list = tri__json_array();
    assert_int_equal(tri__whole_in(json, "version"), 4);
    assert_int_equal(tri__preprocess_parse(json, "file", &read), TRI_OK);
    assert_int_equal(read->column[0].joined, 8);
    tri__json_append_new(list, tri__unseen_json("x", &(tri_unseen){.values = 3, .unseen = 3})); /* may be rare ones */
    assert_int_equal(tri__unseen_say(list, "table", read, 0, NULL), TRI_OK);
    tri__json_append_new(list, tri__unseen_json("y", &(tri_unseen){.values = 3, .unseen = 3}));
    assert_int_equal(tri__unseen_say(list, "table", read, 0, NULL), TRI_DATA);
    tri__json_decref(json), tri__json_decref(list);
    tri__preprocess_free(p), tri__preprocess_free(read);
    spec.min_rows = 13;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &p), TRI_DATA);
    assert_error("column \"x\" has no value in 13 rows (min_category_rows)");
    tri__table_close(table);
}

TEST(the_most_frequent_stay_where_there_are_too_many) {
    char *text = malloc(1 << 20), *at = text;
    at += sprintf(at, "text,x,label\n");
    for (int i = 0; i < 900; i++) at += sprintf(at, "t,v%d,%d\n", i < 600 ? i / 2 : i - 600, i % 2);
    tri_table *table = table_of(text);
    free(text);
    tri_preprocess_spec spec = spec_of(1, 2);
    tri_preprocess *p;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &p), TRI_DATA);
    assert_error("min_category_rows joins rare values, hashed_field_list takes names and codes");
    spec.min_rows = 2; /* 300 values of 3 rows each: the first 256 of them */
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &p), TRI_OK);
    assert_int_equal(p->column[0].n_categories, 256);
    assert_int_equal(p->column[0].joined, 44);
    float have[257];
    tri__column_numbers(&p->column[0], &p->reading, text_of("v255"), have);
    assert_true(tri__category_known(&p->column[0], have));
    tri__column_numbers(&p->column[0], &p->reading, text_of("v256"), have);
    assert_false(tri__category_known(&p->column[0], have));
    tri__preprocess_free(p);
    spec.vectors = TRI_VECTORS_PIECEWISE;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &p), TRI_OK);
    assert_int_equal(p->column[0].n_categories, 300);
    tri__preprocess_free(p);
    tri__table_close(table);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, remove_folder); }
