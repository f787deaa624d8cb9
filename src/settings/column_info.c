/* column_info.c - {"text_cols": [...], "num_cols": [...], "cat_cols": [...], "label_col": "...", "label_list": [...]}.
 * Labels may also be numbers, true or false: their JSON text is the label. */
#include "settings/column_info.h"

#include <stdlib.h>
#include <string.h>

static tri_status no_memory(const char *path) { return tri__fail(TRI_RESOURCE, "%s: out of memory", path); }

static tri_status push(const char *path, char *copy, tri_texts *to) {
    char **grown = copy ? realloc(to->at, ((size_t)to->n + 1) * sizeof *grown) : NULL;
    if (!grown) {
        free(copy);
        return no_memory(path);
    }
    to->at = grown;
    to->at[to->n++] = copy;
    return TRI_OK;
}

/* Adds an array of texts. With `scalars`, other values are added as their JSON text. */
static tri_status add(const tri_json *root, const char *path, const char *key, int scalars, tri_texts *to) {
    const tri_json *array = tri__json_get(root, key), *value;
    size_t i;
    if (!array || tri__json_is_null(array)) return TRI_OK;
    if (!tri__json_is_array(array)) return tri__fail(TRI_USAGE, "%s: %s must be an array", path, key);
    tri__json_each(array, i, value) {
        int fits = tri__json_is_string(value) ||
                   (scalars && (tri__json_is_number(value) || tri__json_is_boolean(value)));
        if (!fits)
            return tri__fail(TRI_USAGE, "%s: %s must hold %s only", path, key, scalars ? "labels" : "column names");
        TRI_TRY(push(
            path, tri__json_is_string(value) ? strdup(tri__json_string_value(value)) : tri__json_text(value, 0), to));
    }
    return TRI_OK;
}

static tri_status read(const tri_json *root, const char *path, tri_column_info *out) {
    const char *label = tri__text_in(root, "label_col");
    if (!label) return tri__fail(TRI_USAGE, "%s: label_col must name the label's column", path);
    out->label = strdup(label);
    if (!out->label) return no_memory(path);
    TRI_TRY(add(root, path, "text_cols", 0, &out->text));
    if (!out->text.n) return tri__fail(TRI_USAGE, "%s: text_cols must name a text's column", path);
    TRI_TRY(add(root, path, "num_cols", 0, &out->columns));
    TRI_TRY(add(root, path, "cat_cols", 0, &out->columns));
    TRI_TRY(add(root, path, "cat_cols", 0, &out->categorical));
    return add(root, path, "label_list", 1, &out->labels);
}

tri_status tri__column_info_read(const char *path, tri_column_info *out) {
    *out = (tri_column_info){0};
    tri_json *root;
    TRI_TRY(tri__json_load(path, TRI_USAGE, &root));
    tri_status status = read(root, path, out);
    tri__json_decref(root);
    if (status != TRI_OK) tri__column_info_free(out);
    return status;
}

void tri__column_info_free(tri_column_info *info) {
    tri_texts *const lists[] = {&info->text, &info->columns, &info->categorical, &info->labels};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < lists[i]->n; k++) free(lists[i]->at[k]);
        free(lists[i]->at);
    }
    free(info->label);
    *info = (tri_column_info){0};
}
