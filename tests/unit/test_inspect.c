/* test_inspect.c - inspections of synthetic tables: kinds, roles, classes, lengths, rules, and each warning with a
 * table that triggers it and one that does not. */
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"
#include "base/file.h"
#include "data/inspect/inspect_parts.h"

#include <math.h>
#include <unistd.h>

/* A table being written; closing gives its path. */
static FILE *begin(const char *name, char path[static 128]) {
    snprintf(path, 128, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    return out;
}

static tri_inspection *inspect(const tri_inspect_spec *spec) {
    tri_inspection *out;
    if (tri__inspect(spec, &out) != TRI_OK) fail_msg("%s", tri_error());
    return out;
}

static int column(const tri_inspection *in, const char *name) {
    for (int c = 0; c < in->n_columns; c++)
        if (strcmp(in->column[c].name, name) == 0) return c;
    fail_msg("no column %s", name);
    return -1;
}

/* The warning of a kind, of a column where it is named; NULL: none. */
static const char *warning(const tri_inspection *in, const char *what, const char *of) {
    for (int i = 0; i < in->n_warnings; i++)
        if (strcmp(in->warning[i].what, what) == 0 && (!of || in->warning[i].column == column(in, of)))
            return in->warning[i].text;
    return NULL;
}

static const char *const cities[] = {"Bonn", "Lima", "Oslo", "Rome", "New York"};

/* 200 rows with a column of each kind. Numbers are whole or not, rising or not, all different or not. */
static void write_kinds(char path[static 128]) {
    FILE *out = begin("kinds.csv", path);
    fputs(",key,order,customer_id,price,count,city,same,nothing,some,title,story,is_late\n", out);
    for (int i = 0; i < 200; i++)
        fprintf(out,
                "%d,k%07x,%d,%d,%d.%02d,%d,%s,yes,,%s,\"parcel %d, %s\",\"The box number %d went to %s and came back "
                "after %d "
                "days, as %d people said\",%d\n",
                i, (unsigned)i * 2654435761u >> 4, 1000 + i * 3, i % 17, i * 7919 % 200, i % 100, i * i % 23,
                cities[i % 5], i % 3 ? "x" : "", i % 60, cities[i % 5], i, cities[i * 7 % 5], i % 9, i, i % 4 == 0);
    fclose(out);
}

TEST(kinds_and_parts) {
    static const struct {
        const char *name;
        tri_inspect_kind kind;
        tri_inspect_role role;
        int64_t filled, distinct;
        const char *example;
    } rows[] = {
        {"", TRI_INSPECT_ID, TRI_INSPECT_NO_ROLE, 200, 200, "0"},
        {"key", TRI_INSPECT_ID, TRI_INSPECT_NO_ROLE, 200, 200, "k0000000"},
        {"order", TRI_INSPECT_ID, TRI_INSPECT_NO_ROLE, 200, 200, "1000"},
        {"customer_id", TRI_INSPECT_ID, TRI_INSPECT_NO_ROLE, 200, 17, "0"},
        {"price", TRI_INSPECT_NUMERIC, TRI_INSPECT_TABULAR, 200, 200, "0.00"},
        {"count", TRI_INSPECT_NUMERIC, TRI_INSPECT_TABULAR, 200, 12, "0"},
        {"city", TRI_INSPECT_CATEGORICAL, TRI_INSPECT_TABULAR, 200, 5, "Bonn"},
        {"same", TRI_INSPECT_CONSTANT, TRI_INSPECT_NO_ROLE, 200, 1, "yes"},
        {"nothing", TRI_INSPECT_EMPTY, TRI_INSPECT_NO_ROLE, 0, 0, ""},
        {"some", TRI_INSPECT_CATEGORICAL, TRI_INSPECT_TABULAR, 133, 1, "x"},
        {"title", TRI_INSPECT_TEXT, TRI_INSPECT_SECONDARY, 200, 60, "parcel 0, Bonn"},
        {"story", TRI_INSPECT_TEXT, TRI_INSPECT_PRIMARY, 200, 200, "The box number 0 went to Bonn and came b..."},
        {"is_late", TRI_INSPECT_NUMERIC, TRI_INSPECT_LABEL, 200, 2, "1"},
    };
    char path[128];
    write_kinds(path);
    tri_inspection *in = inspect(&(tri_inspect_spec){.path = {path}, .threads = 2});
    assert_int_equal(in->n_columns, 13);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tri_inspect_column *c = &in->column[column(in, rows[i].name)];
        if (c->kind != rows[i].kind || c->role != rows[i].role || c->filled != rows[i].filled ||
            c->distinct != rows[i].distinct || strcmp(c->example, rows[i].example))
            fail_msg("\"%s\": %s, part %d, filled %lld, distinct %lld, \"%s\"", rows[i].name,
                     tri__inspect_kind_name(c->kind), c->role, (long long)c->filled, (long long)c->distinct,
                     c->example);
    }
    assert_int_equal(in->label, column(in, "is_late"));
    assert_false(in->label_given);
    assert_int_equal(in->n_classes, 2);
    assert_string_equal(in->classes[1].label, "1");
    assert_int_equal(in->classes[1].rows[0], 50);
    assert_non_null(warning(in, "empty", "nothing"));
    assert_non_null(warning(in, "constant", "same"));
    assert_null(warning(in, "decides_label", NULL));
    assert_null(warning(in, "imbalance", NULL));
    tri__inspect_free(in);
}

/* The configuration's columns stand, whatever would be guessed; one that is not there is named with the nearest. */
TEST(given_columns) {
    char path[128], tabular[] = "price", *list[] = {tabular};
    write_kinds(path);
    tri_inspect_spec spec = {.path = {path}, .label = "city", .primary = "title", .tabular = list, .n_tabular = 1};
    tri_inspection *in = inspect(&spec);
    assert_int_equal(in->label, column(in, "city"));
    assert_int_equal(in->primary, column(in, "title"));
    assert_int_equal(in->secondary, -1);
    assert_int_equal(in->n_classes, 5);
    assert_string_equal(in->classes[0].label, "Bonn"); /* in byte order */
    assert_string_equal(in->classes[2].label, "New York");
    assert_int_equal(in->column[column(in, "price")].role, TRI_INSPECT_TABULAR);
    assert_int_equal(in->column[column(in, "count")].role, TRI_INSPECT_NO_ROLE);
    assert_true(in->column[column(in, "is_late")].candidate);
    tri__inspect_free(in);
    spec.label = "citty";
    assert_int_equal(tri__inspect(&spec, &in), TRI_DATA);
    assert_non_null(strstr(tri_error(), "city"));
    assert_null(in);
}

/* Texts that are joined to the secondary one are part of its length, and are measured nowhere else. */
TEST(further_texts) {
    char path[128], note[] = "note", place[] = "place", *list[] = {place, note};
    FILE *out = begin("further.csv", path);
    fputs("story,title,note,place,label\n", out);
    for (int i = 0; i < 40; i++) /* a title of 2 words, a place of 1, in every fourth row a note of 3 */
        fprintf(out, "some words about a parcel and row %d,two %c,%s,town%d,%d\n", i, 'a' + i % 26,
                i % 4 ? "" : "and three more", i, i % 2);
    fclose(out);
    tri_inspect_spec spec = {.path = {path}, .label = "label", .primary = "story", .secondary = "title", .threads = 2};
    tri_inspection *in = inspect(&spec);
    assert_int_equal(in->column[in->secondary].lengths.max, 4); /* [CLS] and [SEP] among them */
    assert_int_equal(in->column[column(in, "note")].role, TRI_INSPECT_NO_ROLE);
    tri__inspect_free(in);
    spec.further = list, spec.n_further = 2;
    in = inspect(&spec);
    assert_int_equal(in->column[in->secondary].lengths.median, 5);
    assert_int_equal(in->column[in->secondary].lengths.max, 8);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(in->column[column(in, list[i])].role, TRI_INSPECT_SECONDARY);
        assert_int_equal(in->column[column(in, list[i])].lengths.rows, 0);
    }
    tri_json *json = tri__inspect_json(in), *names = tri__json_get(json, "secondary_text_list");
    assert_int_equal(tri__json_size(names), 2);
    assert_string_equal(tri__json_string_value(tri__json_at(names, 0)),
                        "place"); /* in the order in which they are joined */
    tri__json_decref(json);
    tri__inspect_free(in);
}

/* Columns that could be the label are named beside a guess, unless the name of the guess says that it is the label;
 * labels that differ only by case are two classes, which is said. */
TEST(several_labels) {
    static const char *const names[] = {"kind", "kategorie"};
    static const char *const groups[] = {"Stra\xc3\x9f" "e", "\xc3\x84pfel", "\xc3\xa4pfel", "Tee"};
    for (int named = 0; named < 2; named++) {
        char path[128];
        FILE *out = begin("several.csv", path);
        fprintf(out, "note,%s,vip\n", names[named]);
        for (int i = 0; i < 80; i++)
            fprintf(out, "some words of row %d,%s,%d\n", i, groups[i * 7 / 3 % 4], i * 5 / 2 % 2);
        fclose(out);
        tri_inspection *in = inspect(&(tri_inspect_spec){.path = {path}});
        const char *said = warning(in, "several_labels", NULL);
        assert_int_equal(in->label, column(in, named ? "kategorie" : "vip"));
        assert_true(named ? !said : said && strstr(said, "\"kind\" could be it as well"));
        assert_int_equal(warning(in, "label_case", NULL) != NULL, named);
        if (named) assert_non_null(strstr(warning(in, "label_case", "kategorie"), "\"\xc3\x84pfel\" and"));
        tri__inspect_free(in);
        in = inspect(&(tri_inspect_spec){.path = {path}, .label = "vip"});
        assert_null(warning(in, "several_labels", NULL));
        tri__inspect_free(in);
    }
}

TEST(whole_words) {
    static const char *const words[] = {"id", "label", NULL};
    static const char *const yes[] = {"id", "row_id", "rowId", "Row ID", "ID", "id2", "my-label", "LABEL"};
    static const char *const no[] = {"", "width", "idle", "grid", "labels2", "candid ate", "relabel"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) assert_true(tri__inspect_named(yes[i], words));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) assert_false(tri__inspect_named(no[i], words));
}

/* A label that `leak` gives, wrong in one row of `wrong` (0: never), and columns that tell little. */
static void write_leak(const char *name, int first, int rows, int wrong, char path[static 128]) {
    FILE *out = begin(name, path);
    fputs("text,leak,range,word,code,label\n", out);
    for (int i = first; i < first + rows; i++) {
        unsigned noise = (unsigned)i * 2654435761u >> 8;
        int label = noise % 3 == 0;
        int seen = wrong && i % wrong == 0 ? !label : label;
        fprintf(out, "some words of row %d,%d,%d.%d,%s,c%d,%s\n", i, seen + 4, (int)(noise % 500) + (label ? 600 : 0),
                i % 10, cities[i % 5], i, label ? "yes" : "no");
    }
    fclose(out);
}

TEST(deciding_columns) {
    char train[128], test[128];
    write_leak("train.csv", 0, 1000, 20, train);
    write_leak("test.csv", 1000, 400, 20, test);
    for (int together = 0; together < 2; together++) { /* scored on the test table; on half of train */
        tri_inspection *in = inspect(&(tri_inspect_spec){.path = {train, NULL, together ? NULL : test}});
        assert_int_equal(in->label, column(in, "label"));
        assert_int_equal(in->scored, together ? 0 : 2);
        assert_true(fabs(in->majority - 2.0 / 3) < 0.05);
        const char *leak = warning(in, "decides_label", "leak"), *range = warning(in, "decides_label", "range");
        assert_non_null(leak);
        assert_non_null(range); /* more values than rows could teach one by one */
        assert_non_null(strstr(range, together ? "\"range\" alone gives the label of" : "rows of test"));
        assert_true(fabs(in->column[column(in, "leak")].rule - 0.95) < 0.02);
        assert_null(warning(in, "decides_label", "word"));
        assert_null(
            warning(in, "decides_label", "code")); /* a value of its own in each row decides nothing elsewhere */
        assert_true(in->column[column(in, "word")].rule < 0.75);
        tri__inspect_free(in);
    }
    write_leak("train.csv", 0, 1000, 5, train); /* wrong too often */
    tri_inspection *in = inspect(&(tri_inspect_spec){.path = {train}});
    assert_null(warning(in, "decides_label", "leak"));
    tri__inspect_free(in);
}

/* Rare positives: a column that is right on 95 % of the rows says nothing when the most frequent class is 95 % too. */
TEST(rare_class) {
    char path[128];
    FILE *out = begin("rare.csv", path);
    fputs("text,kind,target\n", out);
    for (int i = 0; i < 2000; i++) fprintf(out, "words of row number %d,%s,%d\n", i, cities[i % 5], i % 20 == 3);
    fclose(out);
    tri_inspection *in = inspect(&(tri_inspect_spec){.path = {path}});
    assert_true(in->column[column(in, "kind")].rule > 0.9);
    assert_null(warning(in, "decides_label", NULL));
    assert_non_null(warning(in, "imbalance", "target"));
    assert_non_null(strstr(warning(in, "imbalance", "target"), "5.0 %"));
    tri__inspect_free(in);
}

static void write_split(const char *name, int first, const char *header, const char *extra, char path[static 128]) {
    FILE *out = begin(name, path);
    fprintf(out, "%s\n", header);
    for (int i = first; i < first + 40; i++) fprintf(out, "%d,\"words, of row %d\",%d,%d\n", i, i, i % 7, i % 2);
    fputs(extra, out);
    fclose(out);
}

TEST(shared_rows) {
    char train[128], valid[128], test[128];
    const char *header = "row_id,text,size,label";
    write_split("train.csv", 0, header, "", train);
    write_split("valid.csv", 100, header,
                "900,\"words, of row 7\",0,1\n901,\"words, of row 8\",1,0\n902,\"words, of row 9\",3,1\n", valid);
    write_split("test.csv", 200, header, "950,\"words, of row 102\",5,0\n951,,5,2\n952,,,\n", test);
    tri_inspection *in = inspect(&(tri_inspect_spec){.path = {train, valid, test}});
    assert_int_equal(in->column[0].kind, TRI_INSPECT_ID);
    /* rows 7 and 8 are equal but for the id; row 9 is another size; row 102 % 7 = 4 is another size too */
    assert_string_equal(warning(in, "duplicate_rows", NULL),
                        "2 of 43 rows of valid equal a row of train in every column but row_id");
    assert_string_equal(warning(in, "duplicate_texts", "text"),
                        "3 of 43 rows of valid have a \"text\" that also appears in train");
    int texts = 0, rows = 0;
    for (int i = 0; i < in->n_warnings; i++) {
        texts += strcmp(in->warning[i].what, "duplicate_texts") == 0;
        rows += strcmp(in->warning[i].what, "duplicate_rows") == 0;
    }
    assert_int_equal(rows, 1);
    assert_int_equal(texts, 2); /* and one between test and valid */
    assert_null(warning(in, "repeated_rows", NULL));
    assert_string_equal(warning(in, "unknown_label", "label"),
                        "1 rows of test have the label \"2\", which train does not have");
    assert_string_equal(warning(in, "missing_labels", "label"),
                        "1 rows of test have no \"label\": train and eval stop at the first; fill them in, or leave "
                        "them out with --bad-rows skip");
    assert_int_equal(in->column[1].missing[2], 2);
    assert_int_equal(in->column[2].missing[2], 1);
    assert_int_equal(in->column[2].missing[0], 0);
    tri__inspect_free(in);
}

TEST(missing_columns) {
    char train[128], valid[128], test[128];
    write_split("train.csv", 0, "row_id,text,size,label", "41,one more,n/a,1\n", train);
    write_split("valid.csv", 100, "row_id,text,weight,label", "", valid);
    write_split("test.csv", 0, "label,size,text,row_id", "", test); /* columns go by name */
    tri_inspection *in = inspect(&(tri_inspect_spec){.path = {train, valid, test}});
    int size = column(in, "size");
    assert_int_equal(in->column[size].missing[1], -1);
    assert_int_not_equal(in->column[size].role, TRI_INSPECT_TABULAR); /* valid could not be read */
    assert_non_null(warning(in, "missing_column", "size"));
    assert_non_null(strstr(warning(in, "missing_column", NULL), "valid.csv"));
    int weight = 0;
    for (int i = 0; i < in->n_warnings; i++) weight += strstr(in->warning[i].text, "\"weight\" of") != NULL;
    assert_int_equal(weight, 1);
    assert_non_null(strstr(warning(in, "bad_numbers", "size"), "train.csv:42:13"));
    tri__inspect_free(in);
}

TEST(lengths_and_padding) {
    char path[128];
    FILE *out = begin("lengths.csv", path);
    fputs("short,long,label\n", out);
    for (int i = 0; i < 64; i++) {
        for (int w = 0; w < (i % 2 ? 10 : 30); w++) fprintf(out, "%sab%d", w ? " " : "", i);
        fputc(',', out);
        for (int w = 0; w < (i ? 100 : 600); w++) fprintf(out, "cd%d. ", w);
        fprintf(out, ",%d\n", i % 2);
    }
    fclose(out);
    tri_inspection *in = inspect(&(tri_inspect_spec){.path = {path}});
    const tri_inspect_lengths *s = &in->column[0].lengths, *l = &in->column[1].lengths;
    assert_true(s->estimated && l->estimated);
    assert_int_equal(s->rows, 64);
    assert_int_equal(s->median, 12); /* ten words, and one token at each end */
    assert_int_equal(s->p95, 32);
    assert_int_equal(s->max, 32);
    assert_true(fabs(s->waste_batch - (1 - 22.0 / 32)) < 1e-12);
    assert_true(fabs(s->waste_long - (1 - 22.0 / 512)) < 1e-12);
    assert_int_equal(l->max, 1202); /* a word and a full stop each */
    assert_int_equal(l->n_long, 1);
    assert_true(fabs(l->waste_batch - (1 - (63 * 202.0 + 1202) / (32 * 1202.0 + 32 * 202))) < 1e-12);
    assert_true(fabs(l->waste_long - (1 - (63 * 202.0 + 512) / (64 * 512))) < 1e-12); /* the long one is cut */
    assert_non_null(
        strstr(warning(in, "long_texts", "long"), "1 texts of \"long\" (1.6 %) have probably more than 512 tokens"));
    assert_null(warning(in, "long_texts", "short"));
    tri__inspect_free(in);
}

TEST(tokens_counted) {
    static const char pieces[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##believ\n##able\nbox\n";
    char vocabulary[160], path[128];
    snprintf(vocabulary, sizeof vocabulary, "%s/vocab.txt", folder);
    assert_int_equal(tri__file_write(vocabulary, pieces, sizeof pieces - 1), TRI_OK);
    tri_tokenizer *tokenizer;
    assert_int_equal(tri__tokenizer_load(folder, &tokenizer), TRI_OK);
    FILE *out = begin("tokens.csv", path);
    fputs("text,label\n", out);
    for (int i = 0; i < 50; i++) fprintf(out, "unbelievable%s box box,%d\n", i % 10 == 9 ? " unbelievable" : "", i % 2);
    fclose(out);
    tri_inspect_spec spec = {.path = {path}, .primary = "text", .tokenizer = {tokenizer}};
    tri_inspection *in = inspect(&spec);
    const tri_inspect_lengths *l = &in->column[0].lengths;
    assert_false(l->estimated);
    assert_int_equal(l->median, 7);
    assert_int_equal(l->p95, 10);
    assert_int_equal(l->max, 10);
    tri__inspect_free(in);
    tri__tokenizer_free(tokenizer);
}

TEST(same_for_any_threads) {
    char path[128], *first = NULL;
    write_kinds(path);
    for (int threads = 0; threads < 5; threads++) {
        tri_inspection *in = inspect(&(tri_inspect_spec){.path = {path}, .threads = threads});
        tri_json *json = tri__inspect_json(in);
        char *text = tri__json_line(json);
        assert_non_null(text);
        if (first) assert_string_equal(first, text);
        else first = strdup(text);
        free(text);
        tri__json_decref(json);
        tri__inspect_free(in);
    }
    assert_non_null(
        strstr(first, "{\"name\":\"is_late\",\"kind\":\"numeric\",\"role\":\"label\",\"label_candidate\":true"));
    free(first);
}

/* Tables that offer nothing: an answer and warnings, no crash. */
TEST(poor_tables) {
    static const char *const tables[] = {
        "a\n", "a,b,c\n", "text,label\nx,1\n", "label\n1\n0\n1\n0\n", "a,b\n,\n,\n", "id,id2\n1,1\n2,2\n3,3\n",
        "text,label\nsome words here,1\nother words there,1\n",
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char path[128];
        FILE *out = begin("poor.csv", path);
        fputs(tables[i], out);
        fclose(out);
        tri_inspection *in = inspect(&(tri_inspect_spec){.path = {NULL, path}});
        assert_int_equal(in->base, 1);
        tri_json *json = tri__inspect_json(in);
        assert_non_null(json);
        if (in->label < 0) assert_non_null(warning(in, "no_label", NULL));
        if (in->primary < 0) assert_non_null(warning(in, "no_text", NULL));
        tri__json_decref(json);
        tri__inspect_free(in);
    }
}

/* Dates and amounts are numbers; those that are ambiguous, and ids, are left out with a reason; a label with a few
 * blanks is one; texts for missing values are no values. */
TEST(left_out_and_missing) {
    static char *marks[] = {"NA", "-"};
    static const struct {
        const char *name;
        tri_inspect_kind kind;
        tri_inspect_role role;
        int64_t missing;
        const char *left_out; /* a part of it; NULL: it plays a part */
    } want[] = {
        {"order_id", TRI_INSPECT_ID, TRI_INSPECT_NO_ROLE, 0, "identifies rows"},
        {"case key", TRI_INSPECT_ID, TRI_INSPECT_NO_ROLE, 0, "identifies rows"},
        {"day", TRI_INSPECT_DATE, TRI_INSPECT_TABULAR, 0, NULL},
        {"price", TRI_INSPECT_AMOUNT, TRI_INSPECT_TABULAR, 0, NULL},
        {"due", TRI_INSPECT_DATE, TRI_INSPECT_NO_ROLE, 0, "--date-order"},
        {"count", TRI_INSPECT_NUMERIC, TRI_INSPECT_TABULAR, 20, NULL},
        {"shop", TRI_INSPECT_CATEGORICAL, TRI_INSPECT_TABULAR, 40, NULL},
        {"text", TRI_INSPECT_TEXT, TRI_INSPECT_PRIMARY, 0, NULL},
        {"sold", TRI_INSPECT_BOOLEAN, TRI_INSPECT_LABEL, 4, NULL},
    };
    char path[128];
    FILE *file = begin("marks.csv", path);
    fprintf(file, "order_id,case key,day,price,due,count,shop,text,sold\n");
    for (int i = 0; i < 80; i++) {
        char text[64] = "-"; /* a text stays a text */
        if (i) snprintf(text, sizeof text, "a text of %d words or so and number %d", i % 7, i);
        fprintf(file, "%d,1 000 %03d,%d.%d.2024,\"$1,%03d.50\",%d/%d/2024,%s,%s,%s,%s\n", 100 + 3 * i,
                i * 7 % 100, i % 28 + 1, i % 12 + 1, i, i % 12 + 1, i % 11 + 1, i % 4 ? "5" : "NA",
                i % 2   ? "NA"
                : i % 4 ? "Rome"
                        : "Oslo",
                text,
                i % 20 == 3 ? (i % 40 == 3 ? "" : "-")
                : i % 2     ? "yes"
                            : "no");
    }
    fclose(file);
    tri_inspection *in = inspect(&(tri_inspect_spec){.path = {path}, .reading.missing = {marks, 2}});
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const tri_inspect_column *c = &in->column[column(in, want[i].name)];
        if (c->kind != want[i].kind || c->role != want[i].role || c->missing[0] != want[i].missing ||
            !c->left_out != !want[i].left_out || (c->left_out && !strstr(c->left_out, want[i].left_out)))
            fail_msg("\"%s\": %s, %s, %lld missing, left out: %s", want[i].name, tri__inspect_kind_name(c->kind),
                     tri__inspect_role_name(c->role), (long long)c->missing[0], c->left_out ? c->left_out : "no");
    }
    assert_int_equal(in->n_base_classes, 2);
    assert_non_null(warning(in, "missing_labels", "sold"));
    tri__inspect_free(in);
    file = begin("signs.csv", path); /* "-" may be a label: it is said, and listed it is one; 1 and 1.0 are one label */
    fprintf(file, "text,sign,y\n");
    for (int i = 0; i < 60; i++)
        fprintf(file, "some text number %d of many,%s,%s\n", i, i % 2 ? "+" : "-", i % 3 ? "0" : i % 2 ? "1" : "1.0");
    fclose(file);
    in = inspect(&(tri_inspect_spec){.path = {path}, .reading.missing = {marks, 2}});
    assert_non_null(warning(in, "one_value", "sign"));
    assert_int_equal(in->label, column(in, "y"));
    assert_int_equal(in->n_base_classes, 2);
    tri__inspect_free(in);
    static char *signs[] = {"-", "+"};
    in = inspect(
        &(tri_inspect_spec){.path = {path}, .label = "sign", .label_list = {signs, 2}, .reading.missing = {marks, 2}});
    assert_true(in->n_base_classes == 2 && in->column[in->label].missing[0] == 0 && !warning(in, "one_value", "sign"));
    tri__inspect_free(in);
}

TEST(tallies) {
    tri_tally tally = {0};
    assert_int_equal(tri__tally_find(&tally, 5), -1);
    for (int64_t i = 0; i < 100000; i++)
        assert_int_equal(tri__tally_add(&tally, (uint64_t)(i % 1000) << 20, i), i % 1000);
    assert_int_equal(tally.n, 1000);
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(tri__tally_find(&tally, (uint64_t)i << 20), i);
        assert_int_equal(tally.entry[i].count, 100);
        assert_int_equal(tally.entry[i].first, i);
    }
    assert_int_equal(tri__tally_find(&tally, 1), -1);
    tri__tally_free(&tally);
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
