/* search_space.c - spaces of a search: read, checked, drawn from. */
#include "job/search_space.h"

#include "base/file.h"

enum { ORIGIN_BYTES = 512, DRAWN = 4 }; /* DRAWN: the last word of a draw's counter (base/random.h) */

/* Keys that a search leaves alone, and why. */
static const struct {
    const char *why, *names[12];
} fixed[] = {
    {"rungs are parts of `epochs`, which is the same for all trials", {"epochs"}},
    {"rungs are epochs, and their number is the same for all trials", {"max_steps"}},
    {"trials are ranked by one figure", {"best_by"}},
    {"it ends trials by itself, and is the same for all", {"early_stopping"}},
    {"they are part of the validation loss too, so that trials could not be compared", {"class_weights"}},
    {"trials could not be compared",
     {"data_path", "label_name", "label_separator", "label_list", "num_classes", "bad_rows", "split", "split_seed",
      "stratify", "group_by", "folds", "fold"}},
    {"a trial is one training", {"seeds", "stack"}},
    {"each trial has a folder of its own", {"output_dir"}},
    {"each trial is resumed from its own checkpoint", {"resume", "save_every"}}};

typedef struct reading {
    const char *name;
    char origin[ORIGIN_BYTES]; /* "space.json:3: lr" */
    tri_settings *scratch;     /* values are tried on it */
} reading;

static tri_status no_such_key(const reading *r) {
    const char *near = tri__settings_nearest(r->scratch, r->name, "config");
    return tri__fail(TRI_USAGE, "%s: there is no such key of the configuration%s%s%s", r->origin,
                     near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static tri_status find_key(const reading *r, const tri_option **out, int *model) {
    const tri_option *row = tri__option_find(tri__model_options, r->name);
    *model = row != NULL;
    if (!row && !(row = tri__option_find(tri__run_options, r->name))) return no_such_key(r);
    if (!tri__option_listed(row, "config"))
        return tri__fail(TRI_USAGE, "%s: belongs on the command line: it is not a key of the configuration", r->origin);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        for (const char *const *name = fixed[i].names; *name; name++)
            if (strcmp(row->name, *name) == 0)
                return tri__fail(TRI_USAGE, "%s: cannot be searched: %s", r->origin, fixed[i].why);
    *out = row;
    return TRI_OK;
}

static tri_status try_value(const reading *r, const tri_option *row, int model, const tri_json *value) {
    if (tri__json_is_null(value)) return tri__fail(TRI_USAGE, "%s: null is not a value", r->origin);
    return tri__option_set_json(row, model ? (void *)&r->scratch->model : r->scratch, r->origin, value);
}

static tri_status read_range(const reading *r, int model, const tri_json *spec, tri_search_key *key) {
    const tri_json *from = tri__json_get(spec, "from"), *to = tri__json_get(spec, "to"),
                   *integer = tri__json_get(spec, "integer");
    const char *scale = tri__text_in(spec, "scale");
    tri__json_members(spec, m)
        if (strcmp(m->key, "from") && strcmp(m->key, "to") && strcmp(m->key, "scale") && strcmp(m->key, "integer"))
            return tri__fail(TRI_USAGE, "%s: a range has from, to, scale and integer, not \"%s\"", r->origin, m->key);
    if (key->row->kind != TRI_OPTION_INT && key->row->kind != TRI_OPTION_REAL)
        return tri__fail(TRI_USAGE, "%s: a range is of numbers; give a list of values", r->origin);
    if (!tri__json_is_number(from) || !tri__json_is_number(to))
        return tri__fail(TRI_USAGE, "%s: a range needs the numbers \"from\" and \"to\"", r->origin);
    if ((scale && strcmp(scale, "log") && strcmp(scale, "linear")) || (!scale && tri__json_get(spec, "scale")))
        return tri__fail(TRI_USAGE, "%s: \"scale\" is \"log\" or \"linear\"", r->origin);
    if (integer && !tri__json_is_boolean(integer))
        return tri__fail(TRI_USAGE, "%s: \"integer\" is true or false", r->origin);
    key->from = tri__json_number_value(from), key->to = tri__json_number_value(to);
    key->log = scale && !strcmp(scale, "log");
    key->integer = key->row->kind == TRI_OPTION_INT || tri__json_is_true(integer);
    TRI_TRY(try_value(r, key->row, model, from));
    TRI_TRY(try_value(r, key->row, model, to));
    if (key->from > key->to)
        return tri__fail(TRI_USAGE, "%s: \"from\" %.9g is above \"to\" %.9g", r->origin, key->from, key->to);
    if (key->log && key->from <= 0)
        return tri__fail(TRI_USAGE, "%s: a logarithmic scale begins above 0, not at %.9g", r->origin, key->from);
    if (key->integer && (key->from != floor(key->from) || key->to != floor(key->to)))
        return tri__fail(TRI_USAGE, "%s: whole numbers from %.9g to %.9g: give whole bounds", r->origin, key->from,
                         key->to);
    return TRI_OK;
}

static tri_status read_key(const reading *r, const tri_json *spec, tri_search_key *key) {
    int model;
    TRI_TRY(find_key(r, &key->row, &model));
    if (tri__json_is_object(spec)) return read_range(r, model, spec, key);
    if (!tri__json_is_array(spec) || !tri__json_size(spec))
        return tri__fail(TRI_USAGE, "%s: expected a list of values, or {\"from\": A, \"to\": B, \"scale\": \"log\" or "
                         "\"linear\"}", r->origin);
    key->values = spec;
    tri__json_items(spec, value) TRI_TRY(try_value(r, key->row, model, value));
    return TRI_OK;
}

static tri_status read_keys(const char *path, const char *text, size_t size, tri_settings *scratch,
                            tri_search_space *out) {
    reading r = {.scratch = scratch};
    tri_json_lines lines = {.text = text, .length = size};
    TRI_TRY(TRI_NEW(out->key, tri__json_object_size(out->file) + 1, "a search space"));
    tri__json_members(out->file, m) {
        r.name = m->key;
        if (strcmp(r.name, "_comments") == 0) continue;
        int line = tri__json_line_of(&lines, r.name);
        const char *where = TRI_TEXT(ORIGIN_BYTES, line ? "%.380s:%d" : "%.380s", path, line);
        snprintf(r.origin, sizeof r.origin, "%.400s: %.100s", where, r.name);
        TRI_TRY(read_key(&r, m->value, &out->key[out->n]));
        if (tri__search_find(out, out->key[out->n].row))
            return tri__fail(TRI_USAGE, "%s: is another name of a key that the file has already", r.origin);
        out->n++;
    }
    return out->n ? TRI_OK : tri__fail(TRI_USAGE, "%s: names no key to search", path);
}

tri_status tri__search_read(const char *path, tri_search_space *out) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    TRI_OWNED(tri__settings_free) tri_settings scratch = {0};
    *out = (tri_search_space){0};
    tri_status status = tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size);
    if (status != TRI_OK) return status == TRI_DATA ? TRI_USAGE : status;
    status = tri__json_parse(text, size, path, TRI_USAGE, &out->file);
    if (status == TRI_OK) status = tri__settings_init(&scratch);
    if (status == TRI_OK) status = read_keys(path, text, size, &scratch, out);
    if (status != TRI_OK) tri__search_free(out);
    return status;
}

void tri__search_free(tri_search_space *space) {
    free(space->key);
    tri__json_decref(space->file);
    *space = (tri_search_space){0};
}

const tri_search_key *tri__search_find(const tri_search_space *space, const tri_option *row) {
    for (int i = 0; i < space->n; i++)
        if (space->key[i].row == row) return &space->key[i];
    return NULL;
}

/* Uniform in [0, 1), with 53 bits. */
static double uniform(const char *key, uint32_t seed, int64_t trial) {
    tri_random r = tri__philox(seed, tri__random_id(key), (uint32_t)trial, (uint32_t)((uint64_t)trial >> 32), 0, DRAWN);
    return (double)((uint64_t)r.word[0] << 21 | r.word[1] >> 11) * 0x1p-53;
}

static tri_json *draw(const tri_search_key *key, double u) {
    if (key->values)
        return tri__json_incref(tri__json_at(key->values, (size_t)(u * (double)tri__json_size(key->values))));
    double end = key->integer ? key->to + 1 : key->to; /* whole numbers are rounded down */
    double value = key->log ? exp(log(key->from) + u * (log(end) - log(key->from))) : key->from + u * (end - key->from);
    if (key->integer) return tri__json_integer((tri_json_int)fmin(fmax(floor(value), key->from), key->to));
    const char *text = TRI_TEXT(32, "%.6g", value); /* what a person would write down */
    return tri__json_real(fmin(fmax(strtod(text, NULL), key->from), key->to));
}

tri_json *tri__search_draw(const tri_search_space *space, uint32_t seed, int64_t trial) {
    tri_json *values = tri__json_object();
    for (int i = 0; i < space->n; i++)
        tri__json_set_new(values, space->key[i].row->name,
                          draw(&space->key[i], uniform(space->key[i].row->name, seed, trial)));
    return tri__json_whole(values);
}
