/* hardware_read.c - hardware from JSON: every figure is there and possible, or the file is refused with the key. */
#include "sim/hardware_keys.h"
#include "sim/sizes.h"

enum { MOST_KEYS = 64, KEY_TEXT = 96 };

/* What is read, for messages. */
typedef struct source {
    const char *name;
    tri_arena *arena;
    tri_hardware *out;
} source;

tri_status tri__hardware_refuse(const char *name, const char *section, const tri_json *object,
                                const char *const *known, int n) {
    tri__json_members(object, m) {
        if (tri__text_index(m->key, known, n) >= 0) continue;
        const char *near = tri__text_nearest(m->key, known, n);
        return tri__fail(TRI_DATA, "%s: unknown key \"%s%s%s\"%s%s%s", name, section ? section : "",
                         section ? "." : "", m->key, near ? "; did you mean \"" : "", near ? near : "",
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
    static const char *const parts[] = {"peak_flops", "host", "offload", "watts", "origin", "islands",
                                        "kernels", "links", "target", "_comments"};
    enum { SECTIONS = 6, PARTS = sizeof parts / sizeof *parts }; /* the first are sections */
    for (int k = -1; k < SECTIONS; k++) {
        const char *known[MOST_KEYS];
        const tri_json *object = root;
        int n = 0;
        if (k >= 0) TRI_TRY(part_of(s, root, parts[k], &object));
        for (const tri_hardware_key *key = tri__hardware_keys; key->key; key++)
            if (k < 0 ? !key->section : key->section && strcmp(key->section, parts[k]) == 0) known[n++] = key->key;
        for (int i = 0; i < PARTS && k < 0; i++) known[n++] = parts[i];
        TRI_ASSERT(n <= MOST_KEYS);
        if (object) TRI_TRY(tri__hardware_refuse(s->name, k < 0 ? NULL : parts[k], object, known, n));
    }
    return TRI_OK;
}

static int is_within(const tri_json *value, double min, double max) {
    double x = tri__json_number_value(value);
    return tri__json_is_number(value) && x >= min && x <= max;
}

static tri_status read_number(const source *s, const tri_hardware_key *key, const char *name, const tri_json *value,
                              void *at) {
    int whole = key->kind == TRI_KEY_WHOLE, within = is_within(value, key->min, key->max);
    if (!within || (whole && !tri__json_is_integer(value)))
        return tri__fail(TRI_DATA, "%s: %s %s number from %g to %g", s->name, name,
                         !value ? "is missing: a" : within ? "has to be a whole" : "has to be a", key->min, key->max);
    if (whole) *(int *)at = (int)tri__json_integer_value(value);
    else *(double *)at = tri__json_number_value(value);
    return TRI_OK;
}

/* 0: it is not a list of texts. */
static int read_texts(const source *s, const tri_json *list, struct tri_hardware_names *out) {
    if (!tri__json_is_array(list)) return 0;
    out->at = tri__arena_alloc(s->arena, tri__json_size(list) * sizeof *out->at);
    tri__json_items(list, value) {
        if (!tri__json_is_string(value)) return 0;
        out->at[out->n++] = tri__arena_copy(s->arena, tri__json_string_value(value));
    }
    return 1;
}

static tri_status read_member(const source *s, const tri_hardware_key *key, const tri_json *value) {
    char name[KEY_TEXT];
    void *at = (char *)s->out + key->offset;
    const char *wants = NULL, *text = tri__json_string_value(value);
    snprintf(name, sizeof name, "%s%s%s", key->section ? key->section : "", key->section ? "." : "", key->key);
    if (key->kind <= TRI_KEY_WHOLE) return read_number(s, key, name, value, at);
    if (key->kind == TRI_KEY_SWITCH) {
        *(int *)at = tri__json_is_true(value);
        if (!tri__json_is_boolean(value)) wants = "true or false";
    } else if (key->kind == TRI_KEY_TEXTS) {
        if (!read_texts(s, value, at)) wants = "a list of keys in quotes";
    } else if (text) *(const char **)at = tri__arena_copy(s->arena, text);
    else wants = "a text in quotes";
    return wants ? tri__fail(TRI_DATA, "%s: %s has to be %s", s->name, name, wants) : TRI_OK;
}

static tri_status read_members(const source *s, const tri_json *root) {
    for (const tri_hardware_key *key = tri__hardware_keys; key->key; key++) {
        const tri_json *value = tri__json_get(key->section ? tri__json_get(root, key->section) : root, key->key);
        if (value || key->required) TRI_TRY(read_member(s, key, value));
    }
    const struct tri_hardware_islands *islands = &s->out->islands;
    if (!tri__json_get(root, "islands") || (islands->ranks > 0 && s->out->ranks_per_node % islands->ranks == 0 &&
                                            islands->bytes > 0)) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: islands has to have latency, bytes_per_s, and ranks that divide ranks_per_node, %d",
                     s->name, s->out->ranks_per_node);
}

/* One of `kernels` or `links`, for messages: "kernels[3].points[0]". */
typedef struct row_at {
    const source *from;
    const char *list;
    size_t row;
    const tri_json *json;
} row_at;

static tri_status bad_row(const row_at *at, const char *member, const char *wants) {
    return tri__fail(TRI_DATA, "%s: %s[%zu]%s has to be %s", at->from->name, at->list, at->row, member, wants);
}

/* The row is an object, of these members only. */
static tri_status check_row(const row_at *at, const char *const *known, int n) {
    if (!tri__json_is_object(at->json)) return bad_row(at, "", "an object {...}");
    return tri__hardware_refuse(at->from->name, at->list, at->json, known, n);
}

static const char *text_of(const row_at *at, const char *key) { return tri__text_in(at->json, key); }

/* A row's list of points, each of `sizes` sizes (or one less, if the last is `optional`), seconds and their spread. */
static tri_status read_points(const row_at *at, int sizes, int optional, const tri_json **out) {
    const tri_json *points = tri__json_get(at->json, "points");
    if (!tri__json_is_array(points) || tri__json_size(points) == 0)
        return bad_row(at, ".points", "a list of points [size, ..., seconds, spread]");
    tri__json_each(points, i, point) {
        int has = (int)tri__json_size(point) - 2, good = has == sizes || (optional && has == sizes - 1);
        for (int k = 0; good && k < has; k++) good = is_within(tri__json_at(point, (size_t)k), 1, 1e18);
        good = good && is_within(tri__json_at(point, (size_t)has), 1e-10, 1e4) &&
               is_within(tri__json_at(point, (size_t)has + 1), 0, 1e4);
        if (!good)
            return tri__fail(TRI_DATA,
                             "%s: %s[%zu].points[%zu] has to be %d sizes from 1 on, seconds above 0 and their spread",
                             at->from->name, at->list, at->row, i, sizes);
    }
    *out = points;
    return TRI_OK;
}

static double number_at(const tri_json *point, int k) { return tri__json_number_value(tri__json_at(point, (size_t)k)); }

static tri_status row_int(const row_at *at, const char *key, int min, int *out) {
    const tri_json *value = tri__json_get(at->json, key);
    if (!tri__json_is_integer(value) || !is_within(value, min, 1 << 20))
        return tri__fail(TRI_DATA, "%s: %s[%zu].%s has to be a whole number from %d on", at->from->name, at->list,
                         at->row, key, min);
    *out = (int)tri__json_integer_value(value);
    return TRI_OK;
}

static tri_status read_tile(const row_at *at, int tile[static 2]) {
    const tri_json *value = tri__json_get(at->json, "tile");
    int good = !value || (tri__json_is_array(value) && tri__json_size(value) == 2);
    for (int k = 0; k < 2 && value && good; k++) {
        const tri_json *side = tri__json_at(value, (size_t)k);
        good = tri__json_is_integer(side) && is_within(side, 0, 1 << 20);
        tile[k] = good ? (int)tri__json_integer_value(side) : 0;
    }
    return good ? TRI_OK : bad_row(at, ".tile", "two whole numbers, rows and columns");
}

static tri_status read_code(const row_at *at, tri_code *code) {
    const char *name = text_of(at, "code");
    for (int k = TRI_CODE_BF16; k < TRI_CODE_COUNT && name; k++)
        if (strcmp(name, tri__code_name((tri_code)k)) == 0) *code = (tri_code)k;
    if (*code != TRI_CODE_NONE || !tri__json_get(at->json, "code")) return TRI_OK;
    return bad_row(at, ".code", "a code: bf16, int8, int4, fp8, signs");
}

static tri_status read_kernel(const row_at *at, tri_kernel_curve *curve) {
    static const char *const known[] = {"op", "dtype", "threads", "adds", "code", "tile", "points"};
    const char *op = text_of(at, "op"), *dtype = text_of(at, "dtype"), *names[TRI_SIZES];
    int op_at = op ? tri__variant_find(op) : -1, dtype_at = dtype ? tri__dtype_find(dtype) : -1;
    const tri_json *points, *adds = tri__json_get(at->json, "adds");
    TRI_TRY(check_row(at, known, 7));
    if (op_at < 0 || tri__op_queue(tri__variant_row(op_at)->op) != TRI_QUEUE_COMPUTE)
        return bad_row(at, ".op", "an operation that computes");
    if (dtype_at < 0) return bad_row(at, ".dtype", "a type: f32, bf16, f16");
    *curve = (tri_kernel_curve){.variant = op_at, .dtype = (tri_dtype)dtype_at, .code = TRI_CODE_NONE};
    TRI_TRY(row_int(at, "threads", 0, &curve->threads));
    if (adds && !tri__json_is_boolean(adds)) return bad_row(at, ".adds", "true or false");
    curve->adds = tri__json_is_true(adds);
    TRI_TRY(read_code(at, &curve->code));
    TRI_TRY(read_tile(at, curve->tile));
    /* Attention without raggedness: files from before it was measured, when all sequences were equally long. */
    int sizes = tri__op_sizes(tri__variant_row(op_at), names), attends = tri__op_is_attention(tri__variant_row(op_at));
    TRI_TRY(read_points(at, sizes, attends, &points));
    curve->point = tri__arena_alloc(at->from->arena, tri__json_size(points) * sizeof *curve->point);
    for (curve->n = 0; curve->n < (int)tri__json_size(points); curve->n++) {
        const tri_json *from = tri__json_at(points, (size_t)curve->n);
        tri_kernel_point *to = &curve->point[curve->n];
        int has = (int)tri__json_size(from) - 2;
        for (int k = 0; k < sizes; k++) to->size[k] = k < has ? number_at(from, k) : 1;
        to->seconds = number_at(from, has), to->spread = number_at(from, has + 1);
    }
    return TRI_OK;
}

static tri_status read_link(const row_at *at, tri_link_curve *curve) {
    static const char *const known[] = {"kind", "ranks", "nodes", "points"};
    const char *kind = text_of(at, "kind");
    const tri_json *points;
    TRI_TRY(check_row(at, known, 4));
    *curve = (tri_link_curve){0};
    while (curve->kind < TRI_LINK_KINDS && (!kind || strcmp(tri__link_kind_name(curve->kind), kind) != 0))
        curve->kind++;
    if (curve->kind == TRI_LINK_KINDS) return bad_row(at, ".kind", "a transfer: all_reduce, send, copy_in, ...");
    TRI_TRY(row_int(at, "ranks", 1, &curve->ranks));
    TRI_TRY(row_int(at, "nodes", 1, &curve->nodes));
    TRI_TRY(read_points(at, 1, 0, &points));
    curve->point = tri__arena_alloc(at->from->arena, tri__json_size(points) * sizeof *curve->point);
    for (curve->n = 0; curve->n < (int)tri__json_size(points); curve->n++) {
        const tri_json *from = tri__json_at(points, (size_t)curve->n);
        curve->point[curve->n] = (tri_link_point){number_at(from, 0), number_at(from, 1), number_at(from, 2)};
        if (curve->n && curve->point[curve->n].bytes <= curve->point[curve->n - 1].bytes)
            return tri__fail(TRI_DATA, "%s: links[%zu].points have to be in order of bytes", at->from->name, at->row);
    }
    double last = curve->point[curve->n - 1].bytes;
    if (curve->kind != TRI_LINK_CONTROL && last < TRI_LINK_LEAST)
        return tri__fail(TRI_DATA,
                         "%s: links[%zu], %s of %d ranks on %d nodes, ends at %.0f bytes: times of larger transfers do "
                         "not follow from that. Measure up to 128 KiB at least: `trident calibrate` again, or leave "
                         "the curve out",
                         at->from->name, at->row, kind, curve->ranks, curve->nodes, last);
    return TRI_OK;
}

static tri_status read_curves(const source *s, const tri_json *root, int links) {
    const char *key = links ? "links" : "kernels";
    const tri_json *rows = tri__json_get(root, key);
    tri_hardware *h = s->out;
    if (rows && !tri__json_is_array(rows)) return tri__fail(TRI_DATA, "%s: %s has to be a list [...]", s->name, key);
    if (links) h->link = tri__arena_alloc(s->arena, tri__json_size(rows) * sizeof *h->link);
    else h->kernel = tri__arena_alloc(s->arena, tri__json_size(rows) * sizeof *h->kernel);
    tri__json_each(rows, i, row) {
        const row_at at = {s, key, i, row};
        TRI_TRY(links ? read_link(&at, &h->link[h->n_links++]) : read_kernel(&at, &h->kernel[h->n_kernels++]));
    }
    return TRI_OK;
}

typedef struct reading {
    source from;
    const tri_json *root;
} reading;

static tri_status read_all(void *data) {
    const reading *r = data;
    const source *s = &r->from;
    const tri_json *target;
    *s->out = (tri_hardware){.name = tri__arena_copy(s->arena, s->name)};
    TRI_TRY(refuse_unknown(s, r->root));
    TRI_TRY(read_members(s, r->root));
    for (int links = 0; links < 2; links++) TRI_TRY(read_curves(s, r->root, links));
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
