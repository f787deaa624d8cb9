/* test_vectors.c - columns that become vectors: edges of bins and places among them as numpy finds them, what happens
 * to columns without numbers, values or differences, the preprocessing's JSON; and models with such columns and gated
 * branches on every kind of mesh, against one rank. */
#include "tests/lib/test.h"
#include "tests/lib/tensor_job.h"

#include "tests/lib/fitted_table.h"
#include "tests/lib/json_text.h"
#include "data/dataset/quantile.h"

static const tri_json *get(const tri_json *object, const char *key) {
    const tri_json *value = tri__json_get(object, key);
    if (!value) fail_msg("no %s", key);
    return value;
}

static tri_preprocess_spec vectors_spec(tri_vectors vectors, int bins, int n_columns) {
    tri_preprocess_spec spec = spec_of(n_columns, 2);
    spec.vectors = vectors, spec.bins = bins;
    return spec;
}

/* The golden table as CSV; two classes, by turns. */
static tri_table *golden_table(const tri_json *golden) {
    static char text[1 << 14];
    size_t used = (size_t)snprintf(text, sizeof text, "text,a,b,c,d,color,label\n");
    tri__json_each(get(golden, "table"), i, row) {
        used += (size_t)snprintf(text + used, sizeof text - used, "t");
        tri__json_each(row, c, field) used += (size_t)snprintf(text + used, sizeof text - used, ",%s",
                                                               tri__json_string_value(field));
        used += (size_t)snprintf(text + used, sizeof text - used, ",%d\n", (int)(i % 2));
        assert_true(used < sizeof text);
    }
    return table_of(text);
}

static void expect_close(double have, double want, double most, const char *what) {
    if (!(fabs(have - want) <= most * fmax(1, fabs(want)))) fail_msg("%s is %.12g, numpy has %.12g", what, have, want);
}

static void expect_column(const tri_column_stats *have, const tri_json *want) {
    const tri_json *edges = tri__json_get(want, "edges"), *categories = tri__json_get(want, "categories");
    assert_int_equal(have->missing, tri__json_integer_value(get(want, "missing")));
    assert_int_equal(have->n_edges, edges ? tri__json_size(edges) : 0);
    assert_int_equal(have->n_categories, categories ? tri__json_size(categories) : 0);
    for (int i = 0; i < have->n_edges; i++)
        expect_close(have->edge[i], tri__json_number_value(tri__json_at(edges, (size_t)i)), 1e-6, have->name);
    for (int i = 0; i < have->n_categories; i++)
        assert_string_equal(have->category[i], tri__json_string_value(tri__json_at(categories, (size_t)i)));
}

/* What all fields of the table, and those of rows unlike it, become. */
static void expect_places(const tri_preprocess *made, const tri_json *golden) {
    size_t rows = tri__json_size(get(golden, "table"));
    for (size_t i = 0; i < tri__json_size(get(golden, "places")); i++) {
        const tri_json *row = i < rows ? tri__json_at(get(golden, "table"), i)
                                       : tri__json_at(get(golden, "probes"), i - rows);
        for (int c = 0; c < made->n_columns; c++) {
            const char *text = tri__json_string_value(tri__json_at(row, (size_t)c));
            const tri_json *want = tri__json_at(tri__json_at(get(golden, "places"), i), (size_t)c);
            float have;
            assert_int_equal(tri__column_numbers(&made->column[c], &made->reading,
                                                 (tri_field_text){text, strlen(text), 0}, &have),
                             TRI_NUMBER_GOOD);
            if (tri__json_is_number(want)) expect_close(have, tri__json_number_value(want), 2e-5, text);
            else assert_true(have == TRI_COLUMN_MISSING);
        }
    }
}

TEST(fits_as_numpy) {
    static char *columns[] = {"a", "b", "c", "d", "color"};
    for (int vectors = TRI_VECTORS_PIECEWISE; vectors <= TRI_VECTORS_PERIODIC; vectors++) {
        tri_json *golden;
        tri_preprocess *made, *read;
        const char *file = vectors == TRI_VECTORS_PIECEWISE ? "tests/golden/columns.json" : "tests/golden/periods.json";
        OK(tri__json_load(file, TRI_DATA, &golden));
        tri_table *table = golden_table(golden);
        tri_preprocess_spec spec = vectors_spec((tri_vectors)vectors, 8, 0);
        spec.columns = (tri_texts){columns, 5};
        OK(tri__preprocess_fit(table, &spec, 1, &made));
        for (int c = 0; c < 5; c++)
            expect_column(&made->column[c], tri__json_at(get(get(golden, "preprocessing"), "columns"), (size_t)c));
        expect_places(made, golden);
        tri_json *json = tri__preprocess_json(made);
        OK(tri__preprocess_parse(json, "again", &read));
        tri_json *again = tri__preprocess_json(read);
        assert_true(tri__json_equal(json, again));
        assert_int_equal(read->vectors.n, 5);
        assert_memory_equal(read->vectors.at, made->vectors.at, 5 * sizeof *made->vectors.at);
        assert_int_equal(made->vectors.at[1].has_missing, 1);
        assert_int_equal(made->vectors.at[0].has_missing, 0);
        tri__json_decref(again), tri__json_decref(json), tri__json_decref(golden);
        tri__preprocess_free(read), tri__preprocess_free(made);
        tri__table_close(table);
    }
}

/* A column's bins, fitted to rows of x and y. */
static void fit_rows(const char *rows, tri_transform transform, tri_preprocess **made) {
    char text[1 << 12];
    snprintf(text, sizeof text, "text,x,y,label\n%s", rows);
    tri_table *table = table_of(text);
    tri_preprocess_spec spec = vectors_spec(TRI_VECTORS_PIECEWISE, 4, 2);
    spec.transform = transform;
    OK(tri__preprocess_fit(table, &spec, 1, made));
    tri__table_close(table);
}

static float place_of(const tri_preprocess *made, int c, const char *text) {
    float place;
    tri_field_text field = {text, strlen(text), 0};
    assert_int_equal(tri__column_numbers(&made->column[c], &made->reading, field, &place), TRI_NUMBER_GOOD);
    return place;
}

/* Bins of quantile_normal are quantiles of the transformed numbers, not transformed quantiles. */
TEST(bins_after_the_transform) {
    static const double numbers[] = {1, 2, 4, 8, 16, 32, 64}; /* the quartiles lie between them */
    double transformed[7], want[5];
    tri_preprocess *made;
    fit_rows("t,1,1,0\nt,2,1,1\nt,4,1,0\nt,8,1,1\nt,16,,0\nt,32,1,1\nt,64,1,0\n", TRI_TRANSFORM_QUANTILE_NORMAL,
             &made);
    const tri_column_stats *x = &made->column[0];
    for (int i = 0; i < 7; i++) transformed[i] = tri__quantile_normal(numbers[i], x->quantile, x->n_quantiles);
    tri__quantiles_at(transformed, 7, 5, want);
    assert_int_equal(x->n_edges, 5);
    for (int i = 0; i < 5; i++) assert_true(x->edge[i] == (double)(float)want[i]);
    double raw = tri__quantile_normal(3, x->quantile, x->n_quantiles); /* of the quartile of the numbers */
    assert_true(fabs(x->edge[1] - raw) > 1e-3);
    tri__preprocess_free(made);
}

TEST(few_values) {
    tri_preprocess *made;
    /* one value, and a constant with values missing, which have a row of their own */
    fit_rows("t,5,-3,0\nt,5,,1\nt,5,-3,0\n", TRI_TRANSFORM_STANDARD, &made);
    for (int c = 0; c < 2; c++) assert_int_equal(made->column[c].n_edges, 2);
    assert_true(place_of(made, 0, "5") == 0 && place_of(made, 0, "5.5") == 0.5f && place_of(made, 0, "99") == 2);
    assert_true(place_of(made, 0, "") == 0 && place_of(made, 1, "") == TRI_COLUMN_MISSING);
    assert_true(place_of(made, 1, "-3") == 0 && place_of(made, 1, "-99") == -1);
    tri__preprocess_free(made);
    /* huge constants still have a bin with a width */
    fit_rows("t,1e30,0,0\nt,1e30,0,1\n", TRI_TRANSFORM_NONE, &made);
    assert_true(place_of(made, 0, "1e30") == 0 && place_of(made, 0, "4e30") == 2 && place_of(made, 0, "-1e38") == -1);
    tri__preprocess_free(made);
    /* two values: one bin; many equal ones: fewer bins; ends are included */
    fit_rows("t,0,1,0\nt,1,1,1\nt,0,1,0\nt,1,1,1\nt,0,1,0\nt,0,9,0\n", TRI_TRANSFORM_QUANTILE_NORMAL, &made);
    assert_int_equal(made->column[0].n_edges, 2);
    assert_true(place_of(made, 0, "0") == 0 && place_of(made, 0, "1") == 1);
    tri__preprocess_free(made);
}

TEST(refuses_columns) {
    tri_preprocess *made;
    tri_preprocess_spec spec = vectors_spec(TRI_VECTORS_PIECEWISE, 4, 1);
    tri_table *table = table_of("text,x,label\nt,,0\nt,,1\n");
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_DATA);
    assert_error("column \"x\" has no number in any row; leave it out of tab_field_list");
    tri__table_close(table);
    table = table_of("text,x,label\nt,1e308,0\nt,-1e308,1\n");
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_DATA);
    assert_error("the numbers of column \"x\" are too large to standardise");
    tri__table_close(table);

    /* more categories than one-hot columns may have, and then more than vectors may */
    char *text = malloc(1 << 22);
    size_t used = (size_t)snprintf(text, 64, "text,x,label\n");
    for (int i = 0; i < 300; i++) used += (size_t)snprintf(text + used, 64, "t,c%d,%d\n", i, i % 2);
    table = table_of(text);
    OK(tri__preprocess_fit(table, &spec, 1, &made));
    assert_int_equal(made->width, 1);
    assert_int_equal(made->vectors.at[0].count, 300);
    assert_true(place_of(made, 0, "c0") == 0 && place_of(made, 0, "none") == 300 && place_of(made, 0, "") == 300);
    tri__preprocess_free(made);
    tri_preprocess_spec plain = spec_of(1, 2);
    assert_int_equal(tri__preprocess_fit(table, &plain, 1, &made), TRI_DATA);
    assert_error("more than 256 different values, too many for categories");
    assert_error("or set tabular to embedded (up to 65536)");
    tri__table_close(table);
    for (int i = 300; i < TRI_CATEGORY_ROWS_MAX + 1; i++) used += (size_t)snprintf(text + used, 64, "t,c%d,0\n", i);
    table = table_of(text);
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_DATA);
    assert_error("more than 65536 different values");
    tri__table_close(table);
    free(text);
}

TEST(refuses_files) {
    static const char *const columns[][2] = {
        {"\"transform\": \"none\", \"fill\": 0", "edges of column \"x\" must be"},
        {"\"transform\": \"none\", \"fill\": 0, \"edges\": [1]", "2 to 1025 numbers"},
        {"\"transform\": \"none\", \"fill\": 0, \"edges\": [1, 1]", "rising numbers"},
        {"\"transform\": \"none\", \"fill\": 0, \"edges\": [1, \"2\"]", "rising"},
        {"\"categories\": []", "0 categories; 1 to 65536"},
    };
    char text[1024];
    for (size_t i = 0; i <= sizeof columns / sizeof *columns; i++) {
        int last = i == sizeof columns / sizeof *columns;
        snprintf(text, sizeof text,
                 "{\"version\": 3, \"label_name\": \"l\", \"labels\": [\"a\"], \"primary_text\": [\"t\"], "
                 "\"secondary_text\": [], \"decimal_mark\": \".\", \"missing_values\": [], \"columns\": "
                 "[{\"name\": \"x\", \"missing\": 0, %s}]%s}",
                 last ? "\"transform\": \"none\"" : columns[i][0], last ? "" : ", \"vectors\": \"piecewise\"");
        tri_preprocess *made;
        tri_json *json = json_of(text);
        assert_int_equal(tri__preprocess_parse(json, "file", &made), TRI_DATA);
        assert_error(last ? "file: vectors must be piecewise or periodic" : columns[i][1]);
        tri__json_decref(json);
    }
}

/* Losses and weights of a mesh, and those of one rank with the same samples. */
static void compare(job_what is) {
    job one, have;
    is.vectors = 1, is.steps = 6, is.dropout = 0.1;
    job_open(&have, is);
    job_run(&have);
    job_open(&one, (job_what){.n_mb = is.n_mb, .steps = 6, .dropout = 0.1, .vectors = 1, .precision = is.precision});
    job_run(&one);
    assert_true(one.loss[0][5] < one.loss[0][0]);
    double most = is.precision == TRI_F32 ? 1e-5 : 3e-2;
    for (int s = 0; s < 6; s++)
        if (!(fabs(have.loss[0][s] - one.loss[0][s]) <= most * fmax(one.loss[0][s], 0.1)))
            fail_msg("pp %d, tp %d, dp %d: loss of step %d is %.9g, not %.9g", is.pp, is.tp, is.dp, s + 1,
                     have.loss[0][s], one.loss[0][s]);
    for (int r = 0; r < have.n && is.dp < 2; r++) /* replicas have other samples */
        for (int64_t i = 0; i < have.rank[r].feed[0].counts.of[TRI_SYM_N] * have.rank[r].model.n_classes; i++)
            if (!(fabs((double)have.probs[r][i] - one.probs[0][i]) <= 10 * most))
                fail_msg("pp %d, tp %d: other probabilities", is.pp, is.tp);
    const tri_network *model = &have.rank[0].model;
    int tables = 0;
    for (int64_t i = 0, at = 0; i < model->n_params; at += model->param[i++].count) {
        int new = strstr(model->param[i].name, "tabular.") || strstr(model->param[i].name, "fusion.gate.");
        tables += new;
        for (int64_t k = at; k < at + model->param[i].count && new && is.precision == TRI_F32; k++)
            if (!(fabs((double)have.weights[k] - one.weights[k]) <= 1e-4))
                fail_msg("pp %d, tp %d, dp %d: %s is %g, not %g", is.pp, is.tp, is.dp, model->param[i].name,
                         have.weights[k], one.weights[k]);
    }
    assert_int_equal(tables, 8);
    job_close(&one), job_close(&have);
}

TEST(every_mesh) {
    static const job_what meshes[] = {
        {.dp = 2},
        {.dp = 2, .n_mb = 2, .sharding = {.kind = TRI_SHARD_ZERO2}},
        {.dp = 2, .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1}},
        {.pp = 2, .n_mb = 3},
        {.tp = 2},
        {.tp = 2, .sequence = 1, .dp = 2, .sharding = {.kind = TRI_SHARD_ZERO1}},
        {.dp = 2, .precision = TRI_BF16},
        {.pp = 2, .tp = 2, .precision = TRI_BF16},
        {.tp = 2, .recompute = TRI_RECOMPUTE_FULL, .precision = TRI_F16},
        {.pp = 2, .fed = 1},
    };
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) compare(meshes[i]);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, remove_folder); }
