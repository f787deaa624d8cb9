/* test_column_info.c - column_info.json: which columns are texts, numbers, categories and the label. */
#include "base/file.h"
#include "settings/column_info.h"

#include <unistd.h>

#include "tests/lib/test.h"

static char path[64];

static void assert_error(const char *want) {
    if (!strstr(tri_error(), want)) fail_msg("\"%s\" does not say \"%s\"", tri_error(), want);
}

TEST(reads_column_info) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{\"text_cols\": [\"Title\", \"Review Text\"], \"num_cols\": [\"Rating\", \"Age\"], \"cat_cols\": "
         "[\"Class\"], "
         "\"label_col\": \"y\", \"label_list\": [\"No\", 1, true], \"note\": {}}",
         NULL},
        {"{\"text_cols\": [\"t\"], \"label_col\": \"y\"}", NULL},
        {"{\"text_cols\": [\"t\"]}", "label_col must name"},
        {"{\"text_cols\": [], \"label_col\": \"y\"}", "text_cols must name"},
        {"{\"text_cols\": \"t\", \"label_col\": \"y\"}", "text_cols must be an array"},
        {"{\"text_cols\": [\"t\"], \"num_cols\": [1], \"label_col\": \"y\"}", "num_cols must hold column names only"},
        {"{\"text_cols\": [\"t\"], \"label_list\": [null], \"label_col\": \"y\"}", "label_list must hold labels only"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_column_info info;
        assert_int_equal(tri__file_write(path, cases[i].text, strlen(cases[i].text)), TRI_OK);
        assert_int_equal(tri__column_info_read(path, &info), cases[i].error ? TRI_USAGE : TRI_OK);
        if (cases[i].error) assert_error(cases[i].error);
        if (i == 0) {
            assert_true(info.text.n == 2 && info.columns.n == 3 && info.categorical.n == 1 && info.labels.n == 3);
            assert_string_equal(info.columns.at[2], "Class");
            assert_string_equal(info.labels.at[1], "1");
            assert_string_equal(info.labels.at[2], "true");
        }
        tri__column_info_free(&info);
    }
    assert_int_equal(unlink(path), 0);
}

int main(int argc, char **argv) {
    snprintf(path, sizeof path, "/tmp/trident-column-info-%ld.json", (long)getpid());
    return run_listed(argc, argv, NULL, NULL);
}
