/* fitted_table.h - a table from its text, and a preprocessing fitted to it. For tests of preprocessing. */
#ifndef TRI_TESTS_FITTED_TABLE_H
#define TRI_TESTS_FITTED_TABLE_H

#include "base/file.h"
#include "data/dataset/field_values.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

static char folder[64], path[96];

static inline int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/trident-preprocess-%ld", (long)getpid());
    if (mkdir(folder, 0700)) return -1;
    snprintf(path, sizeof path, "%s/table.csv", folder);
    return 0;
}

static inline int remove_folder(void **state) {
    (void)state;
    return tri__folder_remove(folder) != TRI_OK;
}

static inline tri_table *table_of(const char *text) {
    assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
    tri_table *table;
    if (tri__table_open(path, NULL, &table) != TRI_OK) fail_msg("%s", tri_error());
    return table;
}

static char *names[] = {"text", "title", "x", "y"};

static inline tri_preprocess_spec spec_of(int n_columns, int n_classes) {
    return (tri_preprocess_spec){
        .label_name = "label", .text = {{names, 1}, {0}}, .columns = {names + 2, n_columns}, .n_classes = n_classes};
}

static inline tri_status fit(const tri_table *table, int n_columns, int n_classes, tri_preprocess **out) {
    tri_preprocess_spec spec = spec_of(n_columns, n_classes);
    return tri__preprocess_fit(table, &spec, 2, out);
}

static inline void assert_error(const char *want) {
    if (!strstr(tri_error(), want)) fail_msg("\"%s\" does not say \"%s\"", tri_error(), want);
}

#endif
