/* test_preprocess.c - numbers, categories, statistics, quantiles and their JSON. */
#include "tests/lib/test.h"
#include "tests/lib/fitted_table.h"

#include "data/dataset/quantile.h"

#include <math.h>

#include "tests/lib/json_text.h"

TEST(computes_statistics) {
    tri_table *table = table_of("text,x,y,label\na,1, 7 ,0\nb,,7,1\nc,4,,0\nd,-2.5e0,7.0,1\ne,  ,+7,1\nf,10,7,0\n");
    tri_preprocess *made;
    assert_int_equal(fit(table, 2, 2, &made), TRI_OK);
    const tri_column_stats *x = &made->column[0], *y = &made->column[1];
    assert_string_equal(x->name, "x");
    assert_int_equal(x->missing, 2);
    assert_true(x->fill == 2.5); /* of -2.5, 1, 4, 10 */
    double mean = (1 + 2.5 + 4 - 2.5 + 2.5 + 10) / 6, squares = 0;
    static const double filled[] = {1, 2.5, 4, -2.5, 2.5, 10};
    for (int i = 0; i < 6; i++) squares += (filled[i] - mean) * (filled[i] - mean);
    assert_true(fabs(x->mean - mean) < 1e-15 * 6);
    assert_true(fabs(x->deviation - sqrt(squares / 6)) < 1e-15 * 6);
    assert_true(y->fill == 7 && y->mean == 7 && y->deviation == 1 && y->missing == 1);
    assert_string_equal(made->label[0], "0");
    assert_string_equal(made->label[1], "1");
    assert_int_equal(made->text[1].n, 0);
    assert_int_equal(made->width, 2);
    tri__preprocess_free(made);
    tri__table_close(table);
}

TEST(fills_missing_numbers_as_told) {
    static const double fills[] = {2, 3, 0}; /* median, mean, zero of 1, 2, 6 */
    tri_table *table = table_of("text,x,label\na,1,0\nb,,1\nc,2,0\nd,6,1\n");
    for (int policy = TRI_MISSING_MEDIAN; policy <= TRI_MISSING_ZERO; policy++)
        for (int transform = TRI_TRANSFORM_STANDARD; transform <= TRI_TRANSFORM_NONE; transform++) {
            tri_preprocess_spec spec = spec_of(1, 2);
            spec.missing = (tri_missing)policy, spec.transform = (tri_transform)transform;
            tri_preprocess *made;
            tri_fields fields;
            tri_bad_field bad;
            float got;
            assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
            const tri_column_stats *x = &made->column[0];
            assert_true(x->fill == fills[policy]);
            assert_int_equal(tri__fields_find(table, made, 1, &fields), TRI_OK);
            assert_int_equal(tri__fields_numbers(&fields, 1, &got, &bad), 1);
            double mean = (9 + fills[policy]) / 4, squares = 0;
            static const double values[] = {1, 2, 6};
            for (int i = 0; i < 3; i++) squares += (values[i] - mean) * (values[i] - mean);
            squares += (fills[policy] - mean) * (fills[policy] - mean);
            if (transform == TRI_TRANSFORM_NONE) assert_true(got == (float)fills[policy]);
            if (transform == TRI_TRANSFORM_STANDARD)
                assert_true(fabs((double)got - (fills[policy] - mean) / sqrt(squares / 4)) < 1e-6);
            if (transform == TRI_TRANSFORM_QUANTILE_NORMAL) {
                assert_int_equal(x->n_quantiles, 4); /* the filled column's */
                assert_true(got == (float)tri__quantile_normal(fills[policy], x->quantile, 4));
            }
            tri__fields_free(&fields);
            tri__preprocess_free(made);
        }
    tri__table_close(table);
}

/* sklearn 1.9.1, QuantileTransformer(output_distribution="normal", n_quantiles=min(1000, n), subsample=None) */
TEST(transforms_by_quantiles_as_scikit_learn) {
    static const double small[] = {1, 1, 2, 3, 3, 4, 5, 5, 5, 6, 9}, constant[] = {7, 7, 7, 7, 7}, single[] = {2.5};
    double *big = malloc(2500 * sizeof *big);
    for (int i = 0; i < 2500; i++) big[i] = pow(i / 3, 1.5) / 10;
    const struct {
        const double *values;
        int n, quantiles;
        double in[13], out[13];
    } cases[] = {
        {small,
         11,
         11,
         {0, 1, 1.5, 2, 3, 4.25, 5, 5.5, 8.9999999999, 9, 10, -1e300, 1e300},
         {-5.199337582605575, -5.199337582605575, -1.0364333894937894, -0.8416212335729142, -0.3853204664075676,
          0.06270677794321385, 0.524400512708041, 1.0364333894937898, 5.19933758270342, 5.19933758270342,
          5.19933758270342, -5.199337582605575, 5.19933758270342}},
        {constant, 5, 5, {6, 7, 8}, {-5.199337582605575, -5.199337582605575, 5.19933758270342}},
        {single, 1, 1, {2.5, 3}, {-5.199337582605575, 5.19933758270342}},
        {big,
         2500,
         1000,
         {0, 0.1, 1, 10, 100, 500, 1000, 2000, 2405.6, 2500},
         {-5.199337582605575, -2.879568883798913, -2.5342448444109325, -1.9341167907611445, -1.1743865247136833,
          -0.38063600076671633, 0.14518229534576577, 1.1987681129573682, 5.19933758270342, 5.19933758270342}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double quantile[TRI_QUANTILES_MAX];
        assert_int_equal(tri__quantiles_fit(cases[i].values, cases[i].n, quantile), cases[i].quantiles);
        for (int k = 0; k < 13 && (k == 0 || cases[i].out[k] != 0); k++) {
            double got = tri__quantile_normal(cases[i].in[k], quantile, cases[i].quantiles);
            if (fabs(got - cases[i].out[k]) > 1e-9)
                fail_msg("case %zu: %g gives %.15g, not %.15g", i, cases[i].in[k], got, cases[i].out[k]);
        }
    }
    static const double p[] = {1e-7, 1e-3, 0.02425, 0.3, 0.5, 0.9, 0.975}; /* scipy.stats.norm.ppf */
    static const double y[] = {-5.1993375821928165, -3.090232306167813, -1.972961051311885, -0.5244005127080409, 0,
                               1.2815515655446004,  1.959963984540054};
    for (int i = 0; i < 7; i++) assert_true(fabs(tri__normal_inverse(p[i]) - y[i]) < 1e-14);
    free(big);
}

/* A table of 20 rows whose x is a number but for one. */
static tri_table *numbers_but(const char *odd) {
    char text[1024] = "text,x,label\n";
    for (int i = 0; i < 20; i++) {
        if (i == 1) sprintf(text + strlen(text), "\"c\nd\",\"%s\",1\n", odd);
        else sprintf(text + strlen(text), "\"a\nb\",%d,%d\n", i, i % 2);
    }
    return table_of(text);
}

TEST(refuses_what_is_no_number) {
    static const char *const bad[] = {"nan", "NaN",   "inf",      "-inf",  "0x10",      "1e999", "-1e999",
                                      "1,5", "1.5.2", "--1",      "1e",    "1e+",       ".",     "e5",
                                      "12a", "1 2",   "infinity", "1_000", "\302\2402a", "1f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tri_table *table = numbers_but(bad[i]);
        tri_preprocess *made;
        assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
        assert_null(made);
        assert_error("table.csv:5:4: \"");
        assert_error(strstr(bad[i], "999")   ? "too large"
                     : strstr(bad[i], "inf") ? "is infinite"
                                             : "is not a decimal number");
        tri__table_close(table);
    }
    static const char *const good[] = {
        "1", "-1", "+1", "1.", ".5", "1e5", "1E-5", "\t1.25 ", "1e-999", "00012", "123456789012345678901234567890"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[128];
        snprintf(text, sizeof text, "text,x,label\na,\"%s\",0\n", good[i]);
        tri_table *table = table_of(text);
        tri_preprocess *made;
        if (fit(table, 1, 2, &made) != TRI_OK) fail_msg("%s", tri_error());
        assert_true(made->column[0].fill == strtod(good[i], NULL));
        tri__preprocess_free(made);
        tri__table_close(table);
    }
}

TEST(bad_rows_count_for_nothing) {
    tri_table *table = numbers_but("huge");
    tri_preprocess_spec spec = spec_of(1, 2);
    tri_preprocess *made;
    spec.bad_rows = TRI_BAD_ROWS_SKIP;
    assert_int_equal(tri__preprocess_fit(table, &spec, 3, &made), TRI_OK);
    assert_null(made->column[0].category);
    assert_true(fabs(made->column[0].mean - 189.0 / 19) < 1e-12); /* 0 and 2 to 19 */
    tri__preprocess_free(made);
    tri__table_close(table);
    char text[1024] = "text,x,label\n"; /* labels: 20 good ones, one missing, one that is none, whose rows hold 1000 */
    for (int i = 0; i < 22; i++)
        sprintf(text + strlen(text), "t,%d,%s\n", i < 20 ? 1 : 1000, i < 20 ? i % 2 ? "1" : "0" : i == 20 ? "" : "7");
    table = table_of(text);
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    assert_true(made->column[0].mean == 1);
    tri__preprocess_free(made);
    spec.bad_rows = TRI_BAD_ROWS_FAIL;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_DATA);
    assert_error(":22:8: \"\" in column \"label\" is missing");
    tri__table_close(table);
    table = table_of("text,x,label\na,1,\nb,2,\n");
    spec.bad_rows = TRI_BAD_ROWS_SKIP;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_DATA); /* nothing is left */
    tri__table_close(table);
}

TEST(encodes_categories) {
    tri_table *table = table_of("text,x,y,label\na,red,1,0\nb, blue ,3,1\nc,,2,0\nd,red,1,1\ne,\"re,d\",2,0\n"), *other;
    tri_preprocess_spec spec = spec_of(2, 2);
    spec.categorical = (tri_texts){names + 3, 1}; /* y, though its values are numbers */
    tri_preprocess *made;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    const tri_column_stats *x = &made->column[0], *y = &made->column[1];
    assert_true(x->n_categories == 3 && x->width == 4 && x->missing == 1 && y->n_categories == 3 && made->width == 8);
    assert_string_equal(x->category[0], "blue");
    assert_string_equal(x->category[1], "re,d");
    assert_string_equal(x->category[2], "red");
    assert_string_equal(y->category[2], "3");
    char *words = tri__preprocess_describe(made);
    assert_string_equal(words, "x: 3 categories, 1 missing; y: 3 categories");
    free(words);
    tri__table_close(table);
    other = table_of("y,text,x\n1,a,red \n3,b,green\n9,c,\n");
    static const float want[3][8] = {{0, 0, 1, 0, 1, 0, 0, 0}, {0, 0, 0, 1, 0, 0, 1, 0}, {0, 0, 0, 1, 0, 0, 0, 1}};
    tri_fields fields;
    assert_int_equal(tri__fields_find(other, made, 1, &fields), TRI_DATA);
    assert_error("\"label\"");
    assert_int_equal(tri__fields_find(other, made, 0, &fields), TRI_OK);
    for (int row = 0; row < 3; row++) {
        float got[8];
        tri_bad_field bad;
        assert_int_equal(tri__fields_numbers(&fields, row, got, &bad), 1);
        assert_memory_equal(got, want[row], sizeof got);
    }
    tri__fields_free(&fields);
    tri__table_close(other);
    tri__preprocess_free(made);
}

TEST(categories_have_a_limit) {
    for (int n = TRI_CATEGORIES_MAX; n <= TRI_CATEGORIES_MAX + 1; n++) {
        char *text = malloc(64 * 1024), *to = text + sprintf(text, "text,x,label\n");
        for (int i = 0; i < 2 * n; i++) to += sprintf(to, "t,v%d,%d\n", (i * 7) % n, i % 2);
        tri_table *table = table_of(text);
        free(text);
        tri_preprocess *made;
        assert_int_equal(fit(table, 1, 2, &made), n > TRI_CATEGORIES_MAX ? TRI_DATA : TRI_OK);
        if (n > TRI_CATEGORIES_MAX)
            assert_error("table.csv:2:3: \"v0\" in column \"x\" is not a number, and the column has more than 256");
        else assert_int_equal(made->width, n + 1);
        tri__preprocess_free(made);
        tri__table_close(table);
    }
}

/* Texts that mean "missing" count in columns and labels, and are kept with the model; version 1 had none. */
TEST(texts_for_missing_values) {
    static char *marks[] = {"NA", "-", "?"};
    tri_table *table = table_of("text,x,y,label\n-,1,red,yes\nNA,NA,?,no\nc, - ,NA,NA\nd,-3,red,no\n?,?,blue,yes\n");
    tri_preprocess_spec spec = spec_of(2, 2);
    tri_preprocess *made, *again;
    spec.reading.missing = (tri_texts){marks, 3};
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_DATA);
    assert_error(":4:10: \"NA\" in column \"label\" counts as missing (--missing)");
    spec.bad_rows = TRI_BAD_ROWS_SKIP;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    assert_true(made->column[0].missing == 2 && made->column[0].fill == -1 && !made->column[0].category);
    assert_true(made->column[1].missing == 1 && made->column[1].n_categories == 2);
    tri_json *json = tri__preprocess_json(made);
    assert_int_equal(tri__preprocess_parse(json, "test", &again), TRI_OK);
    for (int i = 0; i < 3; i++) assert_string_equal(again->reading.missing.at[i], marks[i]);
    tri__preprocess_free(again);
    tri__json_set_new(json, "version", tri__json_integer(1)); /* as older checkpoints have it */
    tri__json_del(json, "missing_values");
    tri__json_del(json, "decimal_mark");
    assert_int_equal(tri__preprocess_parse(json, "test", &again), TRI_OK);
    assert_true(again->reading.missing.n == 0 && again->reading.decimal == '.');
    tri__preprocess_free(again);
    tri__json_decref(json);
    tri__preprocess_free(made);
    tri__table_close(table);
    table = table_of("text,label\na,-\nb,+\nc,-\nd,+\n"); /* listed, a label is one */
    static char *signs[] = {"-", "+"};
    spec = spec_of(0, 2), spec.reading.missing = (tri_texts){marks, 3}, spec.label_list = (tri_texts){signs, 2};
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    assert_int_equal(tri__labels_class(made, tri__table_field(table, 0, 1)), 0);
    tri__preprocess_free(made);
    tri__table_close(table);
}

/* Decimal commas are recognised where commas do not separate; what is not clear is refused, and may be said. */
TEST(recognises_decimal_commas) {
    static const struct {
        const char *text;
        char mark;         /* as asked for */
        double mean;       /* of x */
        const char *error;
    } cases[] = {
        {"text;x;label\na;12,5;0\nb;2,5;1\n", 0, 7.5, NULL},
        {"text;x;label\na;12.5;0\nb;2.5;1\n", 0, 7.5, NULL},
        {"text;x;label\na;1;0\nb;0,250;1\n", 0, 0.625, NULL},
        {"text\tx\tlabel\na\t1,234\t0\nb\t2,000\t1\n", 0, 0, "may mark a fraction or thousands"},
        {"text\tx\tlabel\na\t1,234\t0\nb\t2,000\t1\n", ',', 1.617, NULL},
        {"text\tx\tlabel\na\t1,234\t0\nb\t2,000\t1\n", '.', 1617, NULL},
        {"text;x;label\na;999;0\nb;1.234;1\n", 0, 0, "a point before three digits or none, so it may mark a fraction"},
        {"text;x;label\na;999;0\nb;1.234;1\n", ',', 1116.5, NULL},
        {"text;x;label\na;999;0\nb;1.234;1\n", '.', 500.117, NULL},
        {"text;x;label\na;1.234;0\nb;2.345;1\n", 0, 1.7895, NULL},
        {"text,x,label\na,\"1,5\",0\nb,\"2,5\",1\n", ',', 2, NULL},
        {"text,x,label\na,\"1,5\",0\nb,\"2,5\",1\n", 0, 2, NULL}, /* no other reading */
        {"text;x;label\na;1,5;0\nb;2,5;1\nc;1.5;0\nd;1,0;0\ne;1,0;0\nf;1,0;0\ng;1,0;0\nh;1,0;0\ni;1,0;0\nj;1,0;0\nk;1,"
         "0;0\n",
         0, 0, ":4:3: \"1.5\" in column \"x\" is not a decimal number with a comma"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_table *table = table_of(cases[i].text);
        tri_preprocess_spec spec = spec_of(1, 2);
        tri_preprocess *made;
        spec.reading.decimal = cases[i].mark;
        tri_status status = tri__preprocess_fit(table, &spec, 1, &made);
        if (cases[i].error) {
            assert_int_equal(status, TRI_DATA);
            assert_error(cases[i].error);
        } else {
            if (status != TRI_OK) fail_msg("case %zu: %s", i, tri_error());
            assert_true(fabs(made->column[0].mean - cases[i].mean) < 1e-12);
        }
        tri__preprocess_free(made);
        tri__table_close(table);
    }
    tri_table *table = table_of("text;x;y;label\na;1,5;1.5;0\nb;2,5;2.5;1\n");
    tri_preprocess *made;
    assert_int_equal(fit(table, 2, 2, &made), TRI_DATA);
    assert_error("column \"x\" has decimal commas, column \"y\" decimal points");
    tri__table_close(table);
    table = table_of("text;x;y;label\na;1.234;1,5;0\nb;999;2,5;1\n"); /* a comma marks fractions, a point thousands */
    assert_int_equal(fit(table, 2, 2, &made), TRI_OK);
    assert_true(made->column[0].mean == 1116.5 && made->column[1].mean == 2);
    tri__preprocess_free(made);
    tri__table_close(table);
}

TEST(needs_columns_and_rows) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"text,x,label\n", "no rows"},
        {"text,z,label\na,1,0\n", "no column \"x\""},
        {"text,x,label\na,,0\n", "no number in any row"},
        {"text,x,label\na,1e308,0\nb,-1e308,1\n", "too large to standardise"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_table *table = table_of(cases[i].text);
        tri_preprocess *made;
        assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
        assert_error(cases[i].error);
        tri__table_close(table);
    }
}

static void assert_same(const tri_preprocess *a, const tri_preprocess *b) {
    tri_json *json[2] = {tri__preprocess_json(a), tri__preprocess_json(b)};
    assert_true(tri__json_equal(json[0], json[1]));
    tri__json_decref(json[0]);
    tri__json_decref(json[1]);
    assert_int_equal(a->width, b->width);
    for (int c = 0; c < a->n_columns; c++) {
        const tri_column_stats *x = &a->column[c], *y = &b->column[c];
        assert_true(x->transform == y->transform && x->width == y->width && x->n_quantiles == y->n_quantiles);
        assert_memory_equal(&x->fill, &y->fill, sizeof(double));
        if (x->transform == TRI_TRANSFORM_STANDARD) assert_memory_equal(&x->mean, &y->mean, 2 * sizeof(double));
        if (x->quantile) assert_memory_equal(x->quantile, y->quantile, (size_t)x->n_quantiles * sizeof(double));
    }
}

static tri_preprocess *back_from(const tri_preprocess *made, tri_json **json) {
    tri_preprocess *back;
    tri_json *fresh = tri__preprocess_json(made);
    assert_non_null(fresh);
    char *text = tri__json_text(fresh, TRI_JSON_REAL_PRECISION(17));
    tri__json_decref(fresh);
    assert_int_equal(tri__json_parse(text, strlen(text), "memory", TRI_DATA, json), TRI_OK);
    free(text);
    if (tri__preprocess_parse(*json, "memory", &back) != TRI_OK) fail_msg("%s", tri_error());
    return back;
}

TEST(comes_back_from_json) {
    tri_table *table = table_of("text,title,x,y,label\na,a,0.1,red,no\nb,b,0.7,blue,yes\nc,,,123456.789,no\n");
    for (int transform = TRI_TRANSFORM_STANDARD; transform <= TRI_TRANSFORM_NONE; transform++) {
        tri_preprocess_spec spec = spec_of(2, 2);
        spec.text[1] = (tri_texts){names, 2}; /* text and title, joined */
        spec.text[2] = (tri_texts){names + 1, 1};
        spec.transform = (tri_transform)transform;
        tri_preprocess *made;
        tri_json *json;
        assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
        tri_preprocess *back = back_from(made, &json);
        assert_same(made, back);
        assert_string_equal(back->label_name, "label");
        assert_string_equal(back->text[1].at[1], "title");
        assert_int_equal(tri__preprocess_texts(back->text), 3);
        assert_string_equal(back->text[2].at[0], "title");
        assert_string_equal(back->label[1], "yes");
        assert_string_equal(back->column[1].category[0], "123456.789");
        tri__preprocess_free(back);
        static const char *const keys[] = {"label_name", "primary_text", "secondary_text",
                                           "columns",    "labels",       "version"};
        for (int i = 0; i < 6; i++) { /* each of them is needed */
            tri_json *less = tri__json_deep_copy(json);
            tri__json_del(less, keys[i]);
            assert_int_equal(tri__preprocess_parse(less, "memory", &back), TRI_DATA);
            assert_error(keys[i]);
            tri__json_decref(less);
        }
        tri__json_decref(json);
        tri__preprocess_free(made);
    }
    tri__table_close(table);
}

TEST(damaged_json_is_refused) {
    static const char whole[] =
        "{\"version\": 1, \"label_name\": \"l\", \"labels\": [\"a\"], \"primary_text\": [\"t\"], "
        "\"secondary_text\": [], \"columns\": [%s]}";
    static const struct {
        const char *column, *error;
    } cases[] = {
        {"{\"name\": \"x\", \"missing\": 0, \"transform\": \"none\", \"fill\": 1}", NULL},
        {"7", "name of a column must be a text"},
        {"{\"name\": \"x\", \"transform\": \"square\", \"fill\": 1}", "transform of column \"x\""},
        {"{\"name\": \"x\", \"transform\": \"standard\", \"fill\": 1, \"mean\": 0, \"deviation\": 0}",
         "deviation of column \"x\" must be above 0"},
        {"{\"name\": \"x\", \"transform\": \"standard\", \"fill\": 1, \"mean\": \"0\", \"deviation\": 1}",
         "mean of a column must be a number"},
        {"{\"name\": \"x\", \"transform\": \"quantile_normal\", \"fill\": 1, \"quantiles\": []}", "1 to 1000 numbers"},
        {"{\"name\": \"x\", \"transform\": \"quantile_normal\", \"fill\": 1, \"quantiles\": [2, 1]}", "rising"},
        {"{\"name\": \"x\", \"categories\": [\"b\", \"a\"]}", "not sorted"},
        {"{\"name\": \"x\", \"categories\": [\"a\", \"a\"]}", "not sorted"},
        {"{\"name\": \"x\", \"categories\": []}", "0 categories"},
        {"{\"name\": \"x\", \"categories\": [1]}", "categories must be a text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, whole, cases[i].column);
        tri_json *json = json_of(text);
        tri_preprocess *made;
        assert_non_null(json);
        assert_int_equal(tri__preprocess_parse(json, "memory", &made), cases[i].error ? TRI_DATA : TRI_OK);
        if (cases[i].error) assert_error(cases[i].error);
        tri__preprocess_free(made);
        tri__json_decref(json);
    }
}

TEST(damaged_texts_are_refused) {
    static const struct {
        const char *texts, *error;
    } cases[] = {
        {"\"secondary_text\": [\"s\"], \"further_texts\": [\"u\", \"v\"]", NULL},
        {"\"secondary_text\": [], \"further_texts\": [\"u\"]", "1 further_texts after 1 texts"},
        {"\"secondary_text\": [\"s\"], \"further_texts\": [\"u\", 3]", "further_texts must be a text"},
        {"\"secondary_text\": [\"s\"], \"further_texts\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "at most 16 in all"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"version\": 1, \"label_name\": \"l\", \"labels\": [\"a\"], \"primary_text\": "
                 "[\"t\"], \"columns\": [], %s}", cases[i].texts);
        tri_json *json = json_of(text);
        tri_preprocess *made;
        assert_non_null(json);
        assert_int_equal(tri__preprocess_parse(json, "memory", &made), cases[i].error ? TRI_DATA : TRI_OK);
        if (cases[i].error) assert_error(cases[i].error);
        tri__preprocess_free(made);
        tri__json_decref(json);
    }
}

TEST(joins_texts) {
    tri_table *table = table_of("title,x,text,label\nA,1,b c,0\n,1,d,1\nE,1,,0\n,1,,1\n");
    tri_preprocess_spec spec = spec_of(1, 2);
    spec.text[1] = (tri_texts){(char *[]){"title", "text", "title"}, 3};
    tri_preprocess *made;
    tri_fields fields;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    assert_int_equal(tri__fields_find(table, made, 1, &fields), TRI_OK);
    static const char *const want[] = {"A b c A", "d", "E E", ""};
    tri_joined joined = {0};
    for (int row = 0; row < 4; row++) {
        tri_field_text text = tri__fields_text(&fields, row, 1, &joined);
        assert_int_equal(text.length, strlen(want[row]));
        assert_memory_equal(text.text, want[row], text.length);
    }
    free(joined.at);
    tri__fields_free(&fields);
    tri__preprocess_free(made);
    tri__table_close(table);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, remove_folder); }
