/* hardware_read.c - hardware from JSON: every figure is there and possible, or the file is refused with the key. */
#include "base/text.h"
#include "sim/hardware_keys.h"
#include "sim/sizes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_KEYS = 64, KEY_TEXT = 96 };

/* What is read, for messages. */
typedef struct source {
    const char *name;
    tri_arena *arena;
    tri_hardware *out;
} source;

tri_status tri__hardware_refuse(const char *name, const char *section, const tri_json *object,
                                const char *const *known, int n) {
    const char *key;
    tri_json *value;
    tri__json_each_member((tri_json *)object, key, value) {
        int found = 0;
        for (int i = 0; i < n; i++) found |= strcmp(key, known[i]) == 0;
        if (found) continue;
        const char *near = tri__text_nearest(key, known, n);
        return tri__fail(TRI_DATA, "%s: unknown key \"%s%s%s\"%s%s%s", name, section ? section : "",
                         section ? "." : "", key, near ? "; did you mean \"" : "", near ? near : "",
                         near ? "\"?" : "");
    }
    return TRI_OK;
}

/* An object that a file may leave out (NULL); anything else is refused. */
static tri_status part_of(const source *s, const tri_json *root, const char *key, const tri_json **part) {
    *part = tri__json_get(root, key);
    if (!*part || tri__json_is_object(*part)) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: %s has to be an object {...}", s->name, key);
}

static tri_status refuse_unknown(const source *s, const tri_json *root) {
    const char *known[MOST_KEYS];
    static const char *const sections[] = {NULL, "peak_flops", "host", "offload", "watts"};
    int n_keys, n_parts;
    const tri_hardware_key *key = tri__hardware_keys(&n_keys);
    const char *const *parts = tri__hardware_parts(&n_parts);
    for (size_t k = 0; k < sizeof sections / sizeof *sections; k++) {
        const tri_json *object = root;
        int n = 0;
        if (sections[k]) TRI_TRY(part_of(s, root, sections[k], &object));
        for (int i = 0; i < n_keys; i++)
            if (sections[k] ? key[i].section && strcmp(key[i].section, sections[k]) == 0 : !key[i].section)
                known[n++] = key[i].key;
        for (int i = 0; i < n_parts && !sections[k]; i++) known[n++] = parts[i];
        TRI_ASSERT(n <= MOST_KEYS);
        if (object) TRI_TRY(tri__hardware_refuse(s->name, sections[k], object, known, n));
    }
    return TRI_OK;
}

static tri_status bad_number(const source *s, const char *key, double min, double max, const tri_json *value) {
    if (!value) return tri__fail(TRI_DATA, "%s: %s is missing: a number from %g to %g", s->name, key, min, max);
    return tri__fail(TRI_DATA, "%s: %s has to be a number from %g to %g", s->name, key, min, max);
}

static int is_within(const tri_json *value, double min, double max) {
    double x = tri__json_number_value(value);
    return tri__json_is_number(value) && x >= min && x <= max;
}

static tri_status read_figures(const source *s, const tri_json *root) {
    int n;
    const tri_hardware_key *key = tri__hardware_keys(&n);
    for (int i = 0; i < n; i++, key++) {
        const tri_json *section = key->section ? tri__json_get(root, key->section) : root,
                       *value = tri__json_get(section, key->key);
        char name[KEY_TEXT];
        if (!value && !key->required) continue;
        snprintf(name, sizeof name, "%s%s%s", key->section ? key->section : "", key->section ? "." : "", key->key);
        if (!is_within(value, key->min, key->max)) return bad_number(s, name, key->min, key->max, value);
        if (key->whole && !tri__json_is_integer(value))
            return tri__fail(TRI_DATA, "%s: %s has to be a whole number from %g to %g", s->name, name, key->min,
                             key->max);
        void *at = (char *)s->out + key->offset;
        if (key->whole) *(int *)at = (int)tri__json_integer_value(value);
        else *(double *)at = tri__json_number_value(value);
    }
    return TRI_OK;
}

/* A member's text, copied; NULL if the object leaves it out. */
static tri_status read_text(const source *s, const tri_json *object, const char *section, const char *key,
                            const char **text) {
    const tri_json *value = tri__json_get(object, key);
    *text = NULL;
    if (!value) return TRI_OK;
    if (!tri__json_is_string(value))
        return tri__fail(TRI_DATA, "%s: %s%s has to be a text in quotes", s->name, section, key);
    *text = tri__arena_copy(s->arena, tri__json_string_value(value));
    return TRI_OK;
}

static tri_status read_list(const source *s, const tri_json *origin, const char *key, const char ***texts, int *n) {
    const tri_json *list = tri__json_get(origin, key);
    tri_json *value;
    size_t i;
    if (!list) return TRI_OK;
    if (tri__json_is_array(list)) *texts = tri__arena_alloc(s->arena, tri__json_size(list) * sizeof **texts);
    tri__json_each(list, i, value) {
        if (!tri__json_is_string(value)) break;
        (*texts)[(*n)++] = tri__arena_copy(s->arena, tri__json_string_value(value));
    }
    if (tri__json_is_array(list) && i == tri__json_size(list)) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: origin.%s has to be a list of keys in quotes", s->name, key);
}

static tri_status read_origin(const source *s, const tri_json *root) {
    static const char *const known[] = {"measured", "maker", "assumed", "machine", "date", "version"};
    tri_hardware_origin *o = &s->out->origin;
    const tri_json *origin;
    TRI_TRY(part_of(s, root, "origin", &origin));
    if (!origin) return TRI_OK;
    TRI_TRY(tri__hardware_refuse(s->name, "origin", origin, known, sizeof known / sizeof *known));
    TRI_TRY(read_list(s, origin, "measured", &o->measured, &o->n_measured));
    TRI_TRY(read_list(s, origin, "maker", &o->maker, &o->n_maker));
    TRI_TRY(read_list(s, origin, "assumed", &o->assumed, &o->n_assumed));
    TRI_TRY(read_text(s, origin, "origin.", "machine", &o->machine));
    TRI_TRY(read_text(s, origin, "origin.", "date", &o->date));
    return read_text(s, origin, "origin.", "version", &o->version);
}

/* One of `kernels` or `links`, for messages: "kernels[3].points[0]". */
typedef struct row_at {
    const char *list;
    size_t row;
} row_at;

/* A row's list of points, each of `sizes` sizes (or one less, if the last is `optional`), seconds and their spread. */
static tri_status read_points(const source *s, row_at at, const tri_json *row, int sizes, int optional,
                              const tri_json **out) {
    const tri_json *points = tri__json_get(row, "points");
    tri_json *point;
    size_t i;
    if (!tri__json_is_array(points) || tri__json_size(points) == 0)
        return tri__fail(TRI_DATA, "%s: %s[%zu].points has to be a list of points [size, ..., seconds, spread]",
                         s->name, at.list, at.row);
    tri__json_each(points, i, point) {
        int has = (int)tri__json_size(point) - 2, good = has == sizes || (optional && has == sizes - 1);
        for (int k = 0; good && k < has; k++) good = is_within(tri__json_at(point, (size_t)k), 1, 1e18);
        good = good && is_within(tri__json_at(point, (size_t)has), 1e-10, 1e4) &&
               is_within(tri__json_at(point, (size_t)has + 1), 0, 1e4);
        if (!good)
            return tri__fail(TRI_DATA,
                             "%s: %s[%zu].points[%zu] has to be %d sizes from 1 on, seconds above 0 and their spread",
                             s->name, at.list, at.row, i, sizes);
    }
    *out = points;
    return TRI_OK;
}

static double number_at(const tri_json *point, int k) { return tri__json_number_value(tri__json_at(point, (size_t)k)); }

static tri_status row_int(const source *s, row_at at, const tri_json *row, const char *key, int min, int *out) {
    const tri_json *value = tri__json_get(row, key);
    if (!tri__json_is_integer(value) || !is_within(value, min, 1 << 20))
        return tri__fail(TRI_DATA, "%s: %s[%zu].%s has to be a whole number from %d on", s->name, at.list, at.row, key,
                         min);
    *out = (int)tri__json_integer_value(value);
    return TRI_OK;
}

static tri_status read_tile(const source *s, row_at at, const tri_json *row, int tile[static 2]) {
    const tri_json *value = tri__json_get(row, "tile");
    if (!value) return TRI_OK;
    int good = tri__json_is_array(value) && tri__json_size(value) == 2;
    for (int k = 0; k < 2 && good; k++) {
        const tri_json *side = tri__json_at(value, (size_t)k);
        good = tri__json_is_integer(side) && is_within(side, 0, 1 << 20);
        tile[k] = good ? (int)tri__json_integer_value(side) : 0;
    }
    if (good) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: kernels[%zu].tile has to be two whole numbers, rows and columns", s->name, at.row);
}

static tri_status read_code(const source *s, row_at at, const tri_json *row, tri_code *code) {
    const tri_json *value = tri__json_get(row, "code");
    const char *name = tri__json_string_value(value);
    *code = TRI_CODE_NONE;
    if (!value) return TRI_OK;
    for (int k = TRI_CODE_BF16; k < TRI_CODE_COUNT && name; k++)
        if (strcmp(name, tri__code_name((tri_code)k)) == 0) *code = (tri_code)k;
    if (*code != TRI_CODE_NONE) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: kernels[%zu].code has to be a code: bf16, int8, int4, fp8, signs", s->name, at.row);
}

static tri_status read_kernel(const source *s, row_at at, const tri_json *row, tri_kernel_curve *curve) {
    static const char *const known[] = {"op", "dtype", "threads", "adds", "code", "tile", "points"};
    const char *op = tri__json_string_value(tri__json_get(row, "op")), *names[TRI_SIZES],
               *dtype = tri__json_string_value(tri__json_get(row, "dtype"));
    int op_at = op ? tri__variant_find(op) : -1, dtype_at = dtype ? tri__dtype_find(dtype) : -1;
    const tri_json *points, *adds = tri__json_get(row, "adds");
    if (!tri__json_is_object(row))
        return tri__fail(TRI_DATA, "%s: kernels[%zu] has to be an object {...}", s->name, at.row);
    TRI_TRY(tri__hardware_refuse(s->name, "kernels", row, known, 7));
    if (op_at < 0 || tri__op_queue(tri__variant_row(op_at)->op) != TRI_QUEUE_COMPUTE)
        return tri__fail(TRI_DATA, "%s: kernels[%zu].op has to be an operation that computes", s->name, at.row);
    if (dtype_at < 0)
        return tri__fail(TRI_DATA, "%s: kernels[%zu].dtype has to be a type: f32, bf16, f16", s->name, at.row);
    *curve = (tri_kernel_curve){.variant = op_at, .dtype = (tri_dtype)dtype_at};
    TRI_TRY(row_int(s, at, row, "threads", 0, &curve->threads));
    if (adds && !tri__json_is_boolean(adds))
        return tri__fail(TRI_DATA, "%s: kernels[%zu].adds has to be true or false", s->name, at.row);
    curve->adds = tri__json_is_true(adds);
    TRI_TRY(read_code(s, at, row, &curve->code));
    TRI_TRY(read_tile(s, at, row, curve->tile));
    /* Attention without raggedness: files from before it was measured, when all sequences were equally long. */
    int sizes = tri__op_sizes(tri__variant_row(op_at), names), attends = tri__op_is_attention(tri__variant_row(op_at));
    TRI_TRY(read_points(s, at, row, sizes, attends, &points));
    curve->point = tri__arena_alloc(s->arena, tri__json_size(points) * sizeof *curve->point);
    for (curve->n = 0; curve->n < (int)tri__json_size(points); curve->n++) {
        const tri_json *from = tri__json_at(points, (size_t)curve->n);
        tri_kernel_point *to = &curve->point[curve->n];
        int has = (int)tri__json_size(from) - 2;
        for (int k = 0; k < sizes; k++) to->size[k] = k < has ? number_at(from, k) : 1;
        to->seconds = number_at(from, has), to->spread = number_at(from, has + 1);
    }
    return TRI_OK;
}

static tri_status read_link(const source *s, row_at at, const tri_json *row, tri_link_curve *curve) {
    static const char *const known[] = {"kind", "ranks", "nodes", "points"};
    const char *kind = tri__json_string_value(tri__json_get(row, "kind"));
    const tri_json *points;
    if (!tri__json_is_object(row))
        return tri__fail(TRI_DATA, "%s: links[%zu] has to be an object {...}", s->name, at.row);
    TRI_TRY(tri__hardware_refuse(s->name, "links", row, known, 4));
    *curve = (tri_link_curve){0};
    while (curve->kind < TRI_LINK_KINDS && (!kind || strcmp(tri__link_kind_name(curve->kind), kind) != 0))
        curve->kind++;
    if (curve->kind == TRI_LINK_KINDS)
        return tri__fail(TRI_DATA, "%s: links[%zu].kind has to be a transfer: all_reduce, send, copy_in, ...", s->name,
                         at.row);
    TRI_TRY(row_int(s, at, row, "ranks", 1, &curve->ranks));
    TRI_TRY(row_int(s, at, row, "nodes", 1, &curve->nodes));
    TRI_TRY(read_points(s, at, row, 1, 0, &points));
    curve->point = tri__arena_alloc(s->arena, tri__json_size(points) * sizeof *curve->point);
    for (curve->n = 0; curve->n < (int)tri__json_size(points); curve->n++) {
        const tri_json *from = tri__json_at(points, (size_t)curve->n);
        curve->point[curve->n] = (tri_link_point){number_at(from, 0), number_at(from, 1), number_at(from, 2)};
        if (curve->n && curve->point[curve->n].bytes <= curve->point[curve->n - 1].bytes)
            return tri__fail(TRI_DATA, "%s: links[%zu].points have to be in order of bytes", s->name, at.row);
    }
    double last = curve->point[curve->n - 1].bytes;
    if (curve->kind != TRI_LINK_CONTROL && last < TRI_LINK_LEAST)
        return tri__fail(TRI_DATA,
                         "%s: links[%zu], %s of %d ranks on %d nodes, ends at %.0f bytes: times of larger transfers do "
                         "not follow from that. Measure up to 128 KiB at least: `trident calibrate` again, or leave "
                         "the curve out",
                         s->name, at.row, kind, curve->ranks, curve->nodes, last);
    return TRI_OK;
}

static tri_status rows_of(const source *s, const tri_json *root, const char *key, const tri_json **rows) {
    *rows = tri__json_get(root, key);
    if (*rows && !tri__json_is_array(*rows))
        return tri__fail(TRI_DATA, "%s: %s has to be a list [...]", s->name, key);
    return TRI_OK;
}

static tri_status read_curves(const source *s, const tri_json *root) {
    tri_hardware *h = s->out;
    const tri_json *rows;
    tri_json *row;
    size_t i;
    TRI_TRY(rows_of(s, root, "kernels", &rows));
    if (rows) h->kernel = tri__arena_alloc(s->arena, tri__json_size(rows) * sizeof *h->kernel);
    tri__json_each(rows, i, row)
        TRI_TRY(read_kernel(s, (row_at){"kernels", i}, row, &h->kernel[h->n_kernels++]));
    TRI_TRY(rows_of(s, root, "links", &rows));
    if (rows) h->link = tri__arena_alloc(s->arena, tri__json_size(rows) * sizeof *h->link);
    tri__json_each(rows, i, row) TRI_TRY(read_link(s, (row_at){"links", i}, row, &h->link[h->n_links++]));
    return TRI_OK;
}

typedef struct reading {
    source from;
    const tri_json *root;
} reading;

static tri_status read_all(void *data) {
    const reading *r = data;
    const source *s = &r->from;
    const tri_json *overlap = tri__json_get(r->root, "overlap"), *target;
    *s->out = (tri_hardware){.name = tri__arena_copy(s->arena, s->name)};
    TRI_TRY(refuse_unknown(s, r->root));
    TRI_TRY(read_figures(s, r->root));
    if (!tri__json_is_boolean(overlap)) return tri__fail(TRI_DATA, "%s: overlap has to be true or false", s->name);
    s->out->overlap = tri__json_is_true(overlap);
    TRI_TRY(read_text(s, r->root, "", "device", &s->out->device));
    TRI_TRY(read_origin(s, r->root));
    TRI_TRY(read_curves(s, r->root));
    TRI_TRY(part_of(s, r->root, "target", &target));
    if (!target) return TRI_OK;
    if (!s->out->device)
        return tri__fail(TRI_DATA, "%s: device is missing: a target needs the name of its device", s->name);
    return tri__target_read(s->arena, s->name, target, s->out->device, &s->out->target);
}

tri_status tri__hardware_read(tri_arena *arena, const char *name, const tri_json *root, tri_hardware *out) {
    reading r = {{name, arena, out}, root};
    return tri__arena_guard(read_all, &r);
}
