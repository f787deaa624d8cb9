/* column_info.c - {"text_cols": [...], "num_cols": [...], "cat_cols": [...], "label_col": "...", "label_list": [...]}.
 * Labels may also be numbers, true or false: their JSON text is the label. */
#include "settings/column_info.h"

#include "base/file.h"

static tri_status no_memory(const char *path) { return tri__fail(TRI_RESOURCE, "%s: out of memory", path); }

/* Adds an array of texts. With `scalars`, other values are added as their JSON text. */
static tri_status add(const tri_json *root, const char *path, const char *key, int scalars, tri_texts *to) {
    const tri_json *array = tri__json_get(root, key);
    if (!array || tri__json_is_null(array)) return TRI_OK;
    if (!tri__json_is_array(array)) return tri__fail(TRI_USAGE, "%s: %s must be an array", path, key);
    tri__json_items(array, value) {
        int is_text = tri__json_is_string(value);
        if (!is_text && !(scalars && (tri__json_is_number(value) || tri__json_is_boolean(value))))
            return tri__fail(TRI_USAGE, "%s: %s must hold %s only", path, key, scalars ? "labels" : "column names");
        TRI_TRY(tri__texts_push(to, is_text ? strdup(tri__json_string_value(value)) : tri__json_text(value, 0)));
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

void tri__column_info_free(tri_column_info *info) {
    tri_texts *const lists[] = {&info->text, &info->columns, &info->categorical, &info->labels};
    for (int i = 0; i < 4; i++) tri__texts_free(lists[i]);
    free(info->label);
    *info = (tri_column_info){0};
}

tri_status tri__column_info_read(const char *path, tri_column_info *out) {
    *out = (tri_column_info){0};
    TRI_OWNED(tri__json_drop) tri_json *root = NULL;
    TRI_TRY(tri__json_load(path, TRI_USAGE, &root));
    return read(root, path, out);
}

static void move_text(char **from, char **to) {
    if (*to) return;
    *to = *from, *from = NULL;
}

static void move_texts(tri_texts *from, tri_texts *to) {
    if (to->n) return;
    *to = *from, *from = (tri_texts){0};
}

/* Takes keys that are not given otherwise from a column_info.json: the first text is the primary one, all others form
 * the secondary. */
static void take_columns(tri_settings *settings, tri_column_info *info) {
    tri_model_config *model = &settings->model;
    int classes = info->labels.n;
    move_text(&info->label, &model->label_name);
    if (!model->primary_text_name && !model->secondary_text_name && !model->text_list.n) {
        move_text(&info->text.at[0], &model->primary_text_name);
        if (info->text.n > 1) move_text(&info->text.at[1], &model->secondary_text_name);
        if (info->text.n > 2) {
            TRI_FREE(info->text.at[0], info->text.at[1]);
            info->text.n -= 2;
            memmove(info->text.at, info->text.at + 2, (size_t)info->text.n * sizeof *info->text.at);
            move_texts(&info->text, &model->secondary_text_list);
        }
    }
    if (!model->tab_field_list.n) {
        move_texts(&info->columns, &model->tab_field_list);
        move_texts(&info->categorical, &model->cat_field_list);
    }
    move_texts(&info->labels, &model->label_list);
    if (classes > 1 && !tri__settings_given(settings, &model->num_classes)) model->num_classes = classes;
    if (classes > 1 && !tri__settings_given(settings, &model->is_binary)) model->is_binary = model->num_classes == 2;
}

tri_status tri__column_info_adopt(tri_settings *settings) {
    char path[TRI_PATH_MAX];
    int there = 1;
    if (settings->column_info) {
        TRI_TRY(tri__path_join(path, "", settings->column_info));
    } else {
        if (settings->model.primary_text_name || settings->model.text_list.n || !settings->data_path) return TRI_OK;
        TRI_TRY(tri__path_join(path, settings->data_path, "column_info.json"));
        TRI_TRY(tri__file_there(path, &there));
    }
    if (!there) return TRI_OK;
    TRI_OWNED(tri__column_info_free) tri_column_info info = {0};
    TRI_TRY(tri__column_info_read(path, &info));
    take_columns(settings, &info);
    return TRI_OK;
}
