/* foreign_read.c - walks through other programs' files: a name is the path of keys, and each value finds its row. */
#include "settings/foreign.h"

#include "base/file.h"
#include "base/option.h"
#include "settings/yaml.h"

typedef struct walk {
    const tri_foreign *rows;
    tri_foreign_take take;
    void *context;
    const char *path;
    tri_json_lines lines;
} walk;

const tri_foreign *tri__foreign_rows(const char *option) {
    return !strcmp(option, "deepspeed")            ? tri__deepspeed_rows
           : !strcmp(option, "accelerate")         ? tri__accelerate_rows
           : !strcmp(option, "training_arguments") ? tri__arguments_rows : NULL;
}

/* Common rows and our own options are meant by the keys of the file's root, of "fsdp_config" and the like, and by an
 * optimizer's numbers. */
static int is_option(const char *name) {
    return !strchr(name, '.') || strstr(name, "_config.") || tri__text_begins(name, "optimizer.params.");
}

/* Hands a key to the reader, with each row that counts for its value. */
static tri_status hand_over(walk *w, tri_foreign_key *key) {
    key->is_ours = is_option(key->name), key->lines = &w->lines;
    key->is_known =
        tri__foreign_known(w->rows, key->name) || (key->is_ours && tri__foreign_known(tri__foreign, key->leaf));
    const tri_foreign *next = key->text ? tri__foreign_next(w->rows, key->name, key->text) : NULL;
    if (!next && key->text && key->is_ours) next = tri__foreign_find(key->leaf, key->text);
    key->row = next;
    TRI_TRY(w->take(w->context, key));
    while (next && next->more && (next = tri__foreign_next(next + 1, key->name, key->text))) {
        key->row = next;
        TRI_TRY(w->take(w->context, key));
    }
    return TRI_OK;
}

static tri_status visit(walk *w, const char *name, int line, tri_json *value) {
    char where[330], origin[512], child[TRI_FOREIGN_NAME], typed[TRI_OPTION_TYPED];
    const char *point = strrchr(name, '.');
    const tri_json *enabled = tri__json_is_object(value) ? tri__json_get(value, "enabled") : NULL;
    int is_off = !tri__json_object_size(value) || (tri__json_is_boolean(enabled) && !tri__json_is_true(enabled));
    int is_on = tri__json_is_object(value) && !is_off;
    snprintf(where, sizeof where, line ? "%.300s:%d" : "%.300s", w->path, line);
    snprintf(origin, sizeof origin, "%s: %.150s", where, name);
    tri_foreign_key at = {.path = w->path, .origin = origin, .name = name, .leaf = point ? point + 1 : name,
                          .text = tri__option_typed(value, ' ', typed), .value = value};
    if (is_on) at.text = TRI_FOREIGN_OBJECT;
    if (at.text && !strcmp(at.text, "auto")) at.text = NULL;
    int is_walked = tri__foreign_known(w->rows, name) || tri__text_ends(name, "_config");
    if (is_on && is_walked && !tri__foreign_next(w->rows, name, at.text)) {
        tri__json_members(value, m) {
            snprintf(child, sizeof child, "%.100s.%.50s", name, m->key);
            TRI_TRY(visit(w, child, tri__json_line_of(&w->lines, m->key), m->value));
        }
        return TRI_OK;
    }
    if (!tri__json_is_array(value) || at.text || !tri__json_size(value)) return hand_over(w, &at);
    tri__json_each(value, i, member) {
        snprintf(child, sizeof child, "%.100s.%zu", name, i);
        TRI_TRY(visit(w, child, line, member));
    }
    return TRI_OK;
}

tri_status tri__foreign_read_object(const char *option, const char *path, tri_json_lines lines, tri_json *object,
                                    tri_foreign_take take, void *context) {
    walk w = {.rows = tri__foreign_rows(option), .take = take, .context = context, .path = path, .lines = lines};
    w.lines.any = 1;
    tri__json_members(object, m) {
        TRI_TRY(visit(&w, m->key, tri__json_line_of(&w.lines, m->key), m->value));
    }
    return TRI_OK;
}

tri_status tri__foreign_read_file(const char *option, const char *path, tri_foreign_take take, void *context) {
    TRI_OWNED(tri__free_at) char *given = NULL, *converted = NULL;
    size_t size;
    TRI_OWNED(tri__json_drop) tri_json *root = NULL;
    TRI_TRY(tri__file_read(path, TRI_LIMIT_JSON_FILE, &given, &size));
    if (given[strspn(given, " \t\r\n")] != '{' && tri__foreign_rows(option) == tri__accelerate_rows)
        TRI_TRY(tri__yaml_to_json(path, given, size, &converted, &size));
    const char *text = converted ? converted : given;
    TRI_TRY(tri__json_parse(text, size, path, TRI_DATA, &root));
    return tri__foreign_read_object(option, path, (tri_json_lines){.text = text, .length = size}, root, take, context);
}
