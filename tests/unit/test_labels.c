/* test_labels.c - the classes of a table's labels, from the data or from a list. */
#include "tests/lib/test.h"
#include "tests/lib/fitted_table.h"

TEST(finds_the_classes) {
    static const struct {
        const char *labels[4];
        int n_classes;
        const char *want[3]; /* or the error, first */
        tri_status status;
    } cases[] = {
        {{"0", "1", "1.0", " 0 "}, 2, {"0", "1"}, TRI_OK},
        {{"0", "2", "0", "2"}, 3, {"0", "1", "2"}, TRI_OK},
        {{"no", "yes", "no", "yes"}, 2, {"no", "yes"}, TRI_OK},
        {{"1", "2", "1", "2"}, 2, {"1", "2"}, TRI_OK},
        {{"b", "c", "a", "b"}, 3, {"a", "b", "c"}, TRI_OK},
        {{"no", "yes", "maybe", "yes"},
         2,
         {"3 different labels where 2 classes are expected: \"maybe\", \"no\", \"yes\""},
         TRI_DATA},
        {{"x", "x", "x", "x"}, 2, {"1 different label where 2 classes are expected: \"x\""}, TRI_DATA},
        {{"0", "1", "", "1"}, 2, {":4:3: \"\" in column \"label\" is missing"}, TRI_DATA},
        {{"0", "1", "2", "1"}, 2, {"3 different labels"}, TRI_DATA},
        {{"0", "1", "-1", "1"}, 2, {"3 different labels"}, TRI_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256] = "text,label\n";
        for (int k = 0; k < 4; k++) sprintf(text + strlen(text), "t,%s\n", cases[i].labels[k]);
        tri_table *table = table_of(text);
        tri_preprocess *made;
        assert_int_equal(fit(table, 0, cases[i].n_classes, &made), cases[i].status);
        if (cases[i].status != TRI_OK) assert_error(cases[i].want[0]);
        for (int k = 0; made && k < made->n_classes; k++) assert_string_equal(made->label[k], cases[i].want[k]);
        tri__preprocess_free(made);
        tri__table_close(table);
    }
}

/* A label that figures belong to is one of those there are; what is fitted does not depend on it. */
TEST(a_positive_label_is_one_of_them) {
    static const struct {
        const char *labels, *positive;
        int class; /* -1: refused */
        const char *error;
    } cases[] = {
        {"t,ok\nt,fraud\n", "fraud", 0, NULL},
        {"t,ok\nt,fraud\n", "ok", 1, NULL},
        {"t,ok\nt,fraud\n", "Fraud", -1, "positive_label \"Fraud\" is none of the known labels: \"fraud\", \"ok\""},
        {"t,ok\nt,fraud\n", "1", -1, "positive_label \"1\" is none of"},
        {"t,0\nt,1\n", "1", 1, NULL},
        {"t,0\nt,1\n", "0.0", 0, NULL},
        {"t,0\nt,1\n", "2", -1, "positive_label \"2\" is none of the known labels: \"0\", \"1\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        int class = -1;
        snprintf(text, sizeof text, "text,label\n%s", cases[i].labels);
        tri_table *table = table_of(text);
        tri_preprocess *made, *with = NULL;
        tri_preprocess_spec spec = spec_of(0, 2);
        assert_int_equal(fit(table, 0, 2, &made), TRI_OK);
        tri_status want = cases[i].class < 0 ? TRI_USAGE : TRI_OK;
        assert_int_equal(tri__preprocess_positive(made, cases[i].positive, &class), want);
        assert_int_equal(class, cases[i].class);
        if (cases[i].error) assert_error(cases[i].error);
        tri_json *without = tri__preprocess_spec_json(&spec);
        spec.positive_label = cases[i].positive;
        tri_json *named = tri__preprocess_spec_json(&spec);
        assert_true(tri__json_equal(without, named)); /* so the token store is the same */
        tri__json_decref(without);
        tri__json_decref(named);
        assert_int_equal(tri__preprocess_fit(table, &spec, 1, &with), want); /* before anything is tokenised */
        tri__preprocess_free(with);
        tri__preprocess_free(made);
        tri__table_close(table);
    }
}

/* A given list fixes the order; labels are its texts or their places in it, the text first. */
TEST(a_list_of_labels_fixes_the_classes) {
    static const struct {
        const char *list[3], *labels;
        int32_t want[4];
        const char *error;
    } cases[] = {
        {{"yes", "no"}, "yes|no|no|yes", {0, 1, 1, 0}, NULL},
        {{"yes", "no"}, "0|1|1.0|yes", {0, 1, 1, 0}, NULL},
        {{"1", "0"}, "1|0|0|1", {0, 1, 1, 0}, NULL},
        {{"yes", "no"},
         "yes|no|maybe|2",
         {0},
         ":4:3: \"maybe\" in column \"label\" is none of the known labels: \"yes\", \"no\""},
        {{"yes", "no"}, "yes|no|2|yes", {0}, ":4:3: \"2\" in column"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256] = "text,label\n", *at = text + strlen(text), labels[64];
        strcpy(labels, cases[i].labels);
        for (char *one = strtok(labels, "|"); one; one = strtok(NULL, "|")) at += sprintf(at, "t,%s\n", one);
        tri_table *table = table_of(text);
        tri_preprocess_spec spec = spec_of(0, 2);
        spec.label_list = (tri_texts){(char **)cases[i].list, 2};
        tri_preprocess *made;
        assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), cases[i].error ? TRI_DATA : TRI_OK);
        if (cases[i].error) assert_error(cases[i].error);
        for (int row = 0; row < 4 && made; row++)
            assert_int_equal(tri__labels_class(made, tri__table_field(table, row, 1)), cases[i].want[row]);
        tri__preprocess_free(made);
        tri__table_close(table);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, remove_folder); }
