/* test_value_form.c - amounts and dates: single values, the form of a whole column and what is refused as ambiguous,
 * and preprocessing that is fitted to them, kept as JSON and applied. */
#include "tests/lib/test.h"
#include "tests/lib/fitted_table.h"

#include <math.h>

static tri_field_text field_of(const char *text) { return (tri_field_text){.text = text, .length = strlen(text)}; }

TEST(reads_amounts) {
    static const struct {
        const char *text;
        char mark;
        double value; /* NaN: it is none */
        const char *unit;
    } rows[] = {
        {"$1,234.50", '.', 1234.5, "$"},
        {"1.234,50 \xE2\x82\xAC", ',', 1234.5, "\xE2\x82\xAC"},
        {"1 234,50", ',', 1234.5, ""},
        {"1\xC2\xA0" "234\xC2\xA0" "567,5\xC2\xA0\xE2\x82\xAC", ',', 1234567.5, "\xE2\x82\xAC"},
        {"1\xE2\x80\xAF" "234", ',', 1234, ""},
        {"CHF 1'234.50", '.', 1234.5, "CHF"},
        {"1\xE2\x80\x99" "234.5", '.', 1234.5, ""},
        {"-$3.50", '.', -3.5, "$"},
        {"$-3.50", '.', -3.5, "$"},
        {"\xE2\x88\x92" "3,5 EUR", ',', -3.5, "EUR"},
        {"($1,234.50)", '.', -1234.5, "$"},
        {"(1,234)", '.', -1234, ""},
        {"12 %", '.', 12, "%"},
        {"12,5%", ',', 12.5, "%"},
        {"1,234,567", '.', 1234567, ""},
        {"1,23,456.00", '.', 123456, ""},
        {"1,234", '.', 1234, ""},
        {"1,234", ',', 1.234, ""},
        {".50", '.', 0.5, ""},
        {"US$ 5", '.', 5, "US$"},
        {"(5)", '.', NAN, ""},
        {"1,23", '.', NAN, ""},
        {"1,2345", '.', NAN, ""},
        {"0,123", '.', NAN, ""},
        {"1,234,56", '.', NAN, ""},
        {"1,234 567", '.', NAN, ""},
        {"1234,567.0", '.', NAN, ""},
        {"1.234.50", '.', NAN, ""},
        {"1.", '.', NAN, ""},
        {"$", '.', NAN, ""},
        {"%", '.', NAN, ""},
        {"", '.', NAN, ""},
        {"ABC 123", '.', NAN, ""},
        {"EURO 5", '.', NAN, ""},
        {"$5 EUR", '.', NAN, ""},
        {"5 boxes", '.', NAN, ""},
        {"--5", '.', NAN, ""},
        {"555-1234", '.', NAN, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = 0;
        tri_field_text unit;
        int ok = tri__amount_read(field_of(rows[i].text), rows[i].mark, &value, &unit);
        if (ok != !isnan(rows[i].value) ||
            (ok && (value != rows[i].value || unit.length != strlen(rows[i].unit) ||
                    memcmp(unit.text, rows[i].unit, unit.length))))
            fail_msg("\"%s\" with %c: %d, %g, %.*s", rows[i].text, rows[i].mark, ok, value, (int)unit.length,
                     unit.text);
    }
    char long_number[600];
    memset(long_number, '1', sizeof long_number);
    long_number[sizeof long_number - 1] = 0;
    double value;
    tri_field_text unit;
    assert_false(tri__amount_read(field_of(long_number), '.', &value, &unit));
}

TEST(reads_dates) {
#define Y TRI_DATE_YMD
#define D TRI_DATE_DMY
#define M TRI_DATE_MDY
    static const struct {
        const char *text;
        tri_date_order order;
        int year, month, day;  /* 0: no day */
        double hour;           /* -1: no time; NaN: it is no date */
    } rows[] = {
        {"2024-12-31", Y, 2024, 12, 31, -1},
        {"2024-12-31", D, 2024, 12, 31, -1}, /* ISO in any order */
        {"2024/2/29", M, 2024, 2, 29, -1},
        {"31.12.2024", D, 2024, 12, 31, -1},
        {"1/2/2024", D, 2024, 2, 1, -1},
        {"1/2/2024", M, 2024, 1, 2, -1},
        {"12-31-2024", M, 2024, 12, 31, -1},
        {"31.12.24", D, 2024, 12, 31, -1},
        {"31.12.69", D, 1969, 12, 31, -1},
        {"24-05-31", Y, 2024, 5, 31, -1},
        {"31 Dec 2024", Y, 2024, 12, 31, -1},
        {"December 31, 2024", D, 2024, 12, 31, -1},
        {"31-Dec-24", M, 2024, 12, 31, -1},
        {"Tue, 31 Dec 2024 08:30:00 GMT", Y, 2024, 12, 31, 8.5},
        {"2024-12-31T08:30", Y, 2024, 12, 31, 8.5},
        {"2024-12-31 08:30:36.000", Y, 2024, 12, 31, 8.51},
        {"2024-12-31T23:30:00-01:00", Y, 2025, 1, 1, 0.5}, /* in UTC */
        {"2025-01-01T00:30+0100", Y, 2024, 12, 31, 23.5},
        {"12/31/2024, 8:30 PM", M, 2024, 12, 31, 20.5},
        {"12:15 am", Y, 0, 0, 0, 0.25},
        {"8:30", Y, 0, 0, 0, 8.5},
        {"1600-02-29", Y, 1600, 2, 29, -1},
        {"31.12.2024", M, 0, 0, 0, NAN},  /* points only separate days first */
        {"12.31.2024", M, 0, 0, 0, NAN},
        {"31.12.2024", Y, 0, 0, 0, NAN},
        {"2023-02-29", Y, 0, 0, 0, NAN},
        {"2024-13-01", Y, 0, 0, 0, NAN},
        {"31/4/2024", D, 0, 0, 0, NAN},
        {"2024-12-31T25:00", Y, 0, 0, 0, NAN},
        {"2024-12-31T08:60", Y, 0, 0, 0, NAN},
        {"13:00 PM", Y, 0, 0, 0, NAN},
        {"2024-12/31", Y, 0, 0, 0, NAN},
        {"2024-05", Y, 0, 0, 0, NAN},
        {"1.2.3.4", D, 0, 0, 0, NAN},
        {"May be", D, 0, 0, 0, NAN},
        {"20241231", Y, 0, 0, 0, NAN},
        {"", Y, 0, 0, 0, NAN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tri_date d = {0};
        int ok = tri__date_read(field_of(rows[i].text), rows[i].order, &d), want = !isnan(rows[i].hour);
        int same = d.year == rows[i].year && d.month == rows[i].month && d.day == rows[i].day &&
                   d.has_time == (rows[i].hour >= 0) && d.has_day == (rows[i].year > 0) &&
                   fabs(d.seconds / 3600 - fmax(rows[i].hour, 0)) < 1e-9;
        if (ok != want || (ok && !same))
            fail_msg("\"%s\" %s: %d, %d-%d-%d %g", rows[i].text, tri__date_orders[rows[i].order], ok, d.year, d.month,
                     d.day, d.seconds / 3600);
    }
    tri_date d;
    assert_true(tri__date_read(field_of("1969-12-31T12:00"), TRI_DATE_YMD, &d));
    assert_true(tri__date_number(&d, TRI_PART_DAYS) == -0.5 && tri__date_number(&d, TRI_PART_WEEKDAY) == 3);
    assert_true(tri__date_read(field_of("2024-12-29"), TRI_DATE_YMD, &d)); /* a Sunday */
    assert_true(tri__date_number(&d, TRI_PART_DAYS) == 20086 && tri__date_number(&d, TRI_PART_WEEKDAY) == 7);
}

/* The form of a column with these values, twenty times each, the last of them once. */
static tri_form_found find(const char *const *values, const tri_form_spec *asked) {
    char text[8000] = "x;label\n";
    size_t used = strlen(text), last = 0;
    while (values[last + 1]) last++;
    for (int i = 0; i < 20; i++)
        for (size_t k = 0; k < (i ? last : last + 1); k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s;%d\n", values[k], i % 2);
    tri_table *table = table_of(text);
    tri_reading reading = {.decimal = '.'};
    tri_form_spec spec = *asked;
    tri_form_found found;
    spec.reading = &reading;
    assert_int_equal(tri__form_find(table, 0, &spec, &found), TRI_OK);
    tri__table_close(table);
    return found;
}

TEST(columns_have_one_form) {
    static const struct {
        const char *value[5];
        tri_form_spec asked;
        const char *words; /* of its form; "": plain */
    } good[] = {
        {{"$12.50", "$1,234", "$3"}, {0}, "amounts in $ with a decimal point"},
        {{"12,50 EUR", "3", "1.234,00 EUR"}, {0}, "amounts in EUR with a decimal comma"},
        {{"1.234", "1.234.567", "999"}, {0}, "numbers with thousands and a decimal comma"},
        {{"1", "12.5", "1,234.5"}, {0}, "numbers with thousands and a decimal point"},
        {{"1", "2", "12,5"}, {0}, ""}, /* a decimal number, and one that is not: a bad value, as before */
        {{"1 234", "2 000"}, {0}, "numbers with thousands and a decimal point"},
        {{"1,234", "5,678"}, {.decimal = '.'}, "numbers with thousands and a decimal point"},
        {{"1,234", "5,678"}, {.hint = '.'}, "numbers with thousands and a decimal point"},
        {{"1.234 EUR", "999 EUR"}, {.hint = ','}, "amounts in EUR with a decimal comma"},
        {{"12%", "5 %", "0"}, {0}, "amounts in % with a decimal point"},
        {{"01.02.2024", "03.04.2024"}, {0}, "dates day.month.year"},
        {{"01/02/2024", "03/04/2024", "31/12/2024"}, {0}, "dates day.month.year"},
        {{"01/02/2024", "03/04/2024", "12/31/2024"}, {0}, "dates month/day/year"},
        {{"01/02/2024", "03/04/2024"}, {.order = TRI_DATE_MDY}, "dates month/day/year"},
        {{"01/02/24", "12/31/24"}, {0}, "dates month/day/year"},
        {{"2024-01-02", "5 May 2024"}, {0}, "dates year-month-day"},
        {{"05/05/2024", "06/06/2024"}, {0}, "dates day.month.year"}, /* equal in both orders */
        {{"2024-01-02T00:30Z", "2024-01-02T00:30+01:00"}, {0}, "dates year-month-day, in UTC"},
        {{"08:30", "9:15 PM"}, {0}, "times of day"},
        {{"red", "blue"}, {0}, ""},
        {{"1.5", "2.5", "12,5"}, {0}, ""},
        {{"A 12", "B 13"}, {0}, ""},
    };
    static const struct {
        const char *value[5];
        tri_form_spec asked;
        const char *why;
    } bad[] = {
        {{"1,234", "5,678"}, {0}, "may have thousands or a fraction"},
        {{"$1,234", "$56"}, {0}, "\"$1,234\""},
        {{"$1,234", "$56"}, {.hint = ','}, "may have thousands or a fraction"},
        {{"1.234", "5.678", "12,5"}, {0}, "may have thousands or a fraction"},
        {{"1.234", "999", "1.234.567"}, {0}, "may have thousands or a fraction"},
        {{"1,5", "2.5"}, {0}, "decimal points (\"2.5\") and with decimal commas (\"1,5\")"},
        {{"$1,234.50", "$2"}, {.decimal = ','}, "--decimal-mark comma does not read"},
        {{"$5", "7 EUR"}, {0}, "amounts in $ and in EUR"},
        {{"5%", "0.07"}, {0}, "with and without a percent sign"},
        {{"01/02/2024", "03/04/2024"}, {0}, "several orders"},
        {{"31/12/24", "30/11/23"}, {0}, "several orders"}, /* 2031-12-24 too */
        {{"31/12/2024", "12/31/2024"}, {0}, "different orders"},
        {{"31/12/2024", "30/11/2024"}, {.order = TRI_DATE_MDY}, "--date-order mdy does not read"},
        {{"2024-01-02T00:30Z", "2024-01-02T00:30"}, {0}, "with an offset from UTC and without one"},
        {{"2024-01-02", "08:30"}, {0}, "times of day without a date"},
    };
    char words[TRI_FORM_WORDS];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        tri_form_found found = find(good[i].value, &good[i].asked);
        const char *have = tri__form_words(&found.form, words);
        if (found.why[0] || strcmp(have, good[i].words))
            fail_msg("%s, ...: \"%s\" %s", good[i].value[0], have, found.why);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tri_form_found found = find(bad[i].value, &bad[i].asked);
        if (!strstr(found.why, bad[i].why)) fail_msg("%s, ...: \"%s\"", bad[i].value[0], found.why);
    }
}

static const char dated[] = "text;x;y;label\n"
                            "a;28.02.2024;1.234,50 \xE2\x82\xAC;0\n"
                            "b;01.03.2024;-;1\n"
                            "c;;12,00 \xE2\x82\xAC;0\n"
                            "d;31.12.2024;3;1\n";

static void expect_numbers(const tri_preprocess *p, const char *date, const char *amount, const double *want) {
    const char *const text[] = {date, amount};
    float got;
    for (int c = 0; c < p->n_columns; c++) {
        const tri_column_stats *s = &p->column[c];
        tri_number number = tri__column_numbers(s, &p->reading, field_of(text[c == p->n_columns - 1]), &got);
        assert_int_equal(number, TRI_NUMBER_GOOD);
        if ((double)got != (double)(float)want[c]) fail_msg("%s, %d: %g, not %g", s->name, c, (double)got, want[c]);
    }
}

/* Dates become a column for each part that differs, amounts one; the same from a table, from JSON and from a field. */
TEST(fits_and_applies_forms) {
    static const tri_date_part parts[] = {TRI_PART_DAYS, TRI_PART_MONTH, TRI_PART_DAY, TRI_PART_WEEKDAY};
    tri_table *table = table_of(dated);
    char *missing[] = {"-"};
    tri_preprocess_spec spec = spec_of(2, 2);
    tri_preprocess *made, *again;
    spec.reading.missing = (tri_texts){missing, 1};
    spec.transform = TRI_TRANSFORM_NONE;
    assert_int_equal(tri__preprocess_fit(table, &spec, 2, &made), TRI_OK);
    assert_int_equal(made->n_columns, 5);
    assert_int_equal(made->width, 5);
    for (int c = 0; c < 4; c++) {
        assert_string_equal(made->column[c].name, "x");
        assert_int_equal(made->column[c].read_as.part, parts[c]);
        assert_int_equal(made->column[c].missing, 1);
    }
    assert_int_equal(tri__preprocess_next(made, 0), 4);
    char *words = tri__preprocess_describe(made);
    assert_string_equal(words, "x: dates day.month.year as days, month, day, weekday, 1 missing; y: amounts in "
                               "\xE2\x82\xAC with a decimal comma, 1 missing");
    free(words);
    tri_json *json = tri__preprocess_json(made);
    assert_int_equal(tri__preprocess_parse(json, "json", &again), TRI_OK);
    tri__json_decref(json);
    for (int i = 0; i < 2; i++) {
        const tri_preprocess *p = i ? again : made;
        expect_numbers(p, "31.12.2024", "1.234,50 \xE2\x82\xAC", (double[]){20088, 12, 31, 2, 1234.5});
        expect_numbers(p, "2024-12-31", "1234,5", (double[]){20088, 12, 31, 2, 1234.5});
        expect_numbers(p, "", "-", (double[]){19783, 3, 28, 3, 12}); /* the medians */
    }
    tri_fields fields;
    float row[5];
    tri_bad_field bad;
    assert_int_equal(tri__fields_find(table, again, 1, &fields), TRI_OK);
    assert_int_equal(tri__fields_numbers(&fields, 0, row, &bad), 1);
    assert_true(row[0] == 19781 && row[1] == 2 && row[2] == 28 && row[3] == 3 && row[4] == 1234.5f);
    tri__fields_free(&fields);
    float got;
    const tri_column_stats *amount = &again->column[4];
    assert_int_equal(tri__column_numbers(amount, &again->reading, field_of("$5"), &got), TRI_NUMBER_NONE);
    assert_int_equal(tri__column_numbers(amount, &again->reading, field_of("5.00"), &got), TRI_NUMBER_NONE);
    assert_int_equal(tri__column_numbers(again->column, &again->reading, field_of("12/31/2024"), &got),
                     TRI_NUMBER_NONE);
    tri__preprocess_read_as(again, '.', TRI_DATE_MDY); /* a table with other habits */
    expect_numbers(again, "12/31/2024", "\xE2\x82\xAC" "1,234.50", (double[]){20088, 12, 31, 2, 1234.5});
    tri__preprocess_free(made);
    tri__preprocess_free(again);
    tri__table_close(table);
}

/* Each part is a column with bins of its own; a listed column stays one of categories. */
TEST(forms_become_vectors) {
    tri_table *table = table_of(dated);
    tri_preprocess_spec spec = spec_of(2, 2);
    tri_preprocess *made;
    char *missing[] = {"-"};
    spec.reading.missing = (tri_texts){missing, 1};
    spec.vectors = TRI_VECTORS_PIECEWISE, spec.bins = 4;
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    assert_int_equal(made->vectors.n, 5);
    for (int c = 0; c < 5; c++) assert_true(made->column[c].n_edges >= 2 && made->vectors.at[c].has_missing);
    tri__preprocess_free(made);
    spec.categorical = (tri_texts){names + 2, 1};
    assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
    assert_int_equal(made->n_columns, 2);
    assert_int_equal(made->column[0].n_categories, 3);
    tri__preprocess_free(made);
    tri__table_close(table);
}

TEST(wrong_values_are_named) {
    tri_preprocess *made;
    char text[2000] = "text,x,label\n";
    for (int i = 0; i < 20; i++) sprintf(text + strlen(text), "a,%d/%d/2024,%d\n", i % 12 + 1, i + 10, i % 2);
    strcat(text, "a,soon,1\n");
    tri_table *table = table_of(text);
    assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
    assert_error("table.csv:22:3: \"soon\" in column \"x\" is not a date such as 12/31/2024");
    tri__table_close(table);
    table = table_of("text,x,label\na,1/2/2024,0\na,3/4/2024,1\n");
    assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
    assert_error("table.csv: column \"x\" has dates such as \"1/2/2024\"");
    tri__table_close(table);
    table = table_of("text,x,label\na,1.5,0\na,inf,1\na,-Infinity,1\na,2,0\n"); /* half of a column of numbers */
    assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
    assert_error("table.csv:3:3: \"inf\" in column \"x\" is infinite");
    tri__table_close(table);
}

TEST(damaged_forms_are_refused) {
    static const char *const bad[] = {
        "{\"kind\": \"amount\", \"decimal_mark\": \";\", \"unit\": \"\"}",
        "{\"kind\": \"amount\", \"decimal_mark\": \".\", \"unit\": \"12345678\"}",
        "{\"kind\": \"amount\", \"decimal_mark\": \".\"}",
        "{\"kind\": \"date\", \"order\": \"auto\", \"part\": \"days\"}",
        "{\"kind\": \"date\", \"order\": \"ymd\", \"part\": \"week\"}",
        "{\"kind\": \"plain\"}",
        "7",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[600];
        tri_json *json;
        tri_preprocess *made;
        snprintf(text, sizeof text,
                 "{\"version\": 4, \"label_name\": \"l\", \"label_by_index\": false, \"labels\": [\"0\"], "
                 "\"primary_text\": [\"t\"], \"secondary_text\": [], \"decimal_mark\": \".\", \"missing_values\": [], "
                 "\"columns\": [{\"name\": \"x\", \"missing\": 0, \"transform\": \"none\", \"fill\": 0, "
                 "\"form\": %s}]}",
                 bad[i]);
        assert_int_equal(tri__json_parse(text, strlen(text), "json", TRI_DATA, &json), TRI_OK);
        if (tri__preprocess_parse(json, "json", &made) != TRI_DATA) fail_msg("%s is taken", bad[i]);
        assert_error("form of column \"x\"");
        tri__json_decref(json);
    }
}

/* Any bytes: nothing is read beyond them, and what is a date or an amount is a possible one. */
TEST(any_bytes) {
    static const char *const pieces[] = {"1", "12", "031", "2024", ".", ",", "-",   "/",   ":",  " ",   "T",   "Z", "+",
                                         "(", ")",  "%",   "$",    "'", "e", "EUR", "Dec", "PM", "GMT", "Mon", "sept",
                                         "inf", "\xE2\x82\xAC", "\xC2\xA0", "\xE2", "2024-12-", "/12/",
                                         "08:30"};
    enum { PIECES = sizeof pieces / sizeof *pieces, ROUNDS = 100000 };
    uint32_t seed = 7;
    int dates = 0, amounts = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char text[64] = "";
        for (int i = 0, n = (int)(seed >> 9) % 9; i <= n; i++) {
            seed = seed * 1664525 + 1013904223;
            strcat(text, pieces[(seed >> 16) % PIECES]);
        }
        size_t length = strlen(text);
        char *bytes = malloc(length + 1);
        memcpy(bytes, text, length);
        tri_field_text field = {.text = bytes, .length = length}, unit;
        bytes = realloc(bytes, length); /* what lies behind is not ours */
        field.text = bytes;
        double value = 0;
        for (int m = 0; m < 2; m++)
            if (tri__amount_read(field, ".,"[m], &value, &unit)) {
                assert_true(isfinite(value) && unit.length < TRI_UNIT_BYTES);
                amounts++;
            }
        for (int o = TRI_DATE_YMD; o < TRI_DATE_ORDERS; o++) {
            tri_date d;
            if (!tri__date_read(field, (tri_date_order)o, &d)) continue;
            assert_true(d.seconds >= 0 && d.seconds < 86401 && (d.has_day || d.has_time));
            if (d.has_day) assert_true(d.month >= 1 && d.month <= 12 && d.day >= 1 && d.day <= 31);
            dates++;
        }
        free(bytes);
    }
    assert_true(dates > 10 && amounts > 1000);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, remove_folder); }
