/* pattern_json.c - patterns as JSON: one table of keys says which modes have each, and how it is read and written. */
#include "base/file.h"
#include "base/option.h"
#include "model/pattern.h"

/* Sets of modes. */
enum {
    DENSE = 1 << TRI_PATTERN_DENSE, WINDOW = 1 << TRI_PATTERN_WINDOW, LONGFORMER = 1 << TRI_PATTERN_LONGFORMER,
    STRIDED = 1 << TRI_PATTERN_STRIDED, OFFSETS = 1 << TRI_PATTERN_OFFSETS, FIXED = 1 << TRI_PATTERN_FIXED,
    VARIABLE = 1 << TRI_PATTERN_VARIABLE, BIGBIRD = 1 << TRI_PATTERN_BIGBIRD,
    BSLONGFORMER = 1 << TRI_PATTERN_BSLONGFORMER, DEEPSPEED = FIXED | VARIABLE | BIGBIRD | BSLONGFORMER,
    ALL = (1 << TRI_PATTERN_MODES) - 1
};

#define MODES "dense|window|longformer|strided|offsets|fixed|variable|bigbird|bslongformer" /* as tri_pattern_mode */
#define MOST 65536 /* tokens, or blocks */

typedef struct key {
    tri_option row;
    int modes;
} key;

#define ROW(modes_, kind_, field_, ...) \
    {{.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(tri_pattern, field_), __VA_ARGS__}, modes_}

static const key scalars[] = {
    ROW(ALL, CHOICE, mode, .choices = MODES), ROW(ALL, INT, block),
    ROW(WINDOW | LONGFORMER | STRIDED, INT, window, .min = 1, .max = MOST),
    ROW(LONGFORMER, INT, global_tokens, .min = 1, .max = MOST), ROW(STRIDED, INT, stride, .min = 1, .max = MOST),
    ROW(DENSE | DEEPSPEED, BOOL, different_layout_per_head), ROW(FIXED, INT, num_local_blocks, .min = 1, .max = MOST),
    ROW(FIXED | BIGBIRD, INT, num_global_blocks, .min = 1, .max = MOST),
    ROW(FIXED, INT, num_different_global_patterns, .min = 1, .max = MOST),
    ROW(VARIABLE | BIGBIRD, INT, num_random_blocks, .min = 0, .max = MOST),
    ROW(BIGBIRD | BSLONGFORMER, INT, num_sliding_window_blocks, .min = 1, .max = MOST),
    ROW(FIXED | VARIABLE | OFFSETS, BOOL, horizontal_global_attention),
    ROW(VARIABLE | BIGBIRD, INT, seed, .min = -1, .max = 4294967295.0)};

static const struct {
    const char *name;
    size_t offset; /* of a tri_pattern_list */
    int modes;
    int64_t min;
} lists[] = {
    {"offsets", offsetof(tri_pattern, offsets), OFFSETS, -MOST},
    {"local_window_blocks", offsetof(tri_pattern, local_window_blocks), VARIABLE, 1},
    {"global_block_indices", offsetof(tri_pattern, global_block_indices), OFFSETS | VARIABLE | BSLONGFORMER, 0},
    {"global_block_end_indices", offsetof(tri_pattern, global_block_end_indices), OFFSETS | VARIABLE | BSLONGFORMER, 1},
};

enum { SCALARS = sizeof scalars / sizeof *scalars, LISTS = sizeof lists / sizeof *lists, KEYS = SCALARS + LISTS + 1 };

#define ONLY(number) {.at = {number}, .n = 1}
/* DeepSpeed's modes have DeepSpeed's defaults. */
static const tri_pattern defaults[TRI_PATTERN_MODES] = {
    [TRI_PATTERN_DENSE] = {.block = 64}, [TRI_PATTERN_WINDOW] = {.block = 64, .window = 512},
    [TRI_PATTERN_LONGFORMER] = {.block = 64, .window = 512, .global_tokens = 64},
    [TRI_PATTERN_STRIDED] = {.block = 64, .window = 256, .stride = 512}, [TRI_PATTERN_OFFSETS] = {.block = 64},
    [TRI_PATTERN_FIXED] = {.block = 16, .num_local_blocks = 4, .num_global_blocks = 1,
                           .num_different_global_patterns = 1},
    [TRI_PATTERN_VARIABLE] = {.block = 16, .seed = -1, .local_window_blocks = ONLY(4), .global_block_indices = ONLY(0)},
    [TRI_PATTERN_BIGBIRD] = {.block = 16, .num_random_blocks = 1, .num_sliding_window_blocks = 3,
                             .num_global_blocks = 1, .seed = -1},
    [TRI_PATTERN_BSLONGFORMER] = {.block = 16, .num_sliding_window_blocks = 3, .global_block_indices = ONLY(0)}};

const char *tri__pattern_mode_name(int mode) {
    static const char *const names[TRI_PATTERN_MODES] = {"dense", "window", "longformer", "strided", "offsets",
                                                         "fixed", "variable", "bigbird", "bslongformer"};
    return names[mode];
}

static tri_pattern default_of(int mode) {
    tri_pattern pattern = defaults[mode];
    pattern.mode = mode;
    return pattern;
}

/* 0: there is none of that name. */
static int pattern_named(const char *name, tri_pattern *out) {
    for (int mode = TRI_PATTERN_DENSE; mode < TRI_PATTERN_MODES; mode++) {
        if (strcmp(name, tri__pattern_mode_name(mode)) != 0) continue;
        *out = default_of(mode);
        out->block = 64;
        if (mode == TRI_PATTERN_DENSE) *out = (tri_pattern){0};
        if (mode == TRI_PATTERN_BIGBIRD) out->num_random_blocks = 3, out->num_global_blocks = 2; /* as published */
        return mode != TRI_PATTERN_OFFSETS;
    }
    return 0;
}

static tri_pattern_list *list_at(tri_pattern *pattern, size_t offset) {
    return (tri_pattern_list *)(void *)((char *)pattern + offset);
}

static tri_status parse_list(const tri_json *value, const char *origin, int k, tri_pattern_list *out) {
    size_t n = tri__json_size(value);
    *out = (tri_pattern_list){0};
    if (tri__json_is_null(value)) return TRI_OK;
    if (!tri__json_is_array(value) || n > TRI_PATTERN_LIST)
        return tri__fail(TRI_USAGE, "%s: %s must be a list of at most %d numbers of blocks", origin, lists[k].name,
                         TRI_PATTERN_LIST);
    for (size_t i = 0; i < n; i++) {
        const tri_json *number = tri__json_at(value, i);
        int64_t x = tri__json_integer_value(number);
        if (!tri__json_is_integer(number) || x < lists[k].min || x > MOST)
            return tri__fail(TRI_USAGE, "%s: %s: number %zu must be a whole one from %lld to %d", origin, lists[k].name,
                             i + 1, (long long)lists[k].min, MOST);
        out->at[out->n++] = x;
    }
    return TRI_OK;
}

/* Names of the mode's keys; returns how many. */
static int names_of(int mode, const char *names[static KEYS]) {
    int n = 0;
    for (int k = 0; k < SCALARS; k++)
        if (scalars[k].modes >> mode & 1) names[n++] = scalars[k].row.name;
    for (int k = 0; k < LISTS; k++)
        if (lists[k].modes >> mode & 1) names[n++] = lists[k].name;
    if (DEEPSPEED >> mode & 1) names[n++] = "attention";
    return n;
}

static tri_status check_names(const tri_json *json, const char *origin, int mode) {
    const char *names[KEYS];
    char all[400] = "";
    int n = names_of(mode, names);
    for (int k = 0; k < n; k++) tri__text_append(all, sizeof all, ", ", "%s", names[k]);
    tri__json_members(json, m) {
        if (strcmp(m->key, "_comments") == 0 || tri__text_index(m->key, names, n) >= 0) continue;
        const char *nearest = tri__text_nearest(m->key, names, n);
        if (nearest)
            return tri__fail(TRI_USAGE, "%s: mode %s has no key %s; did you mean %s?", origin,
                             tri__pattern_mode_name(mode), m->key, nearest);
        return tri__fail(TRI_USAGE, "%s: mode %s has no key %s; it has %s", origin, tri__pattern_mode_name(mode),
                         m->key, all);
    }
    return TRI_OK;
}

static tri_status check_globals(const tri_pattern *p, const char *origin) {
    const tri_pattern_list *from = &p->global_block_indices, *to = &p->global_block_end_indices;
    if (to->n && to->n != from->n)
        return tri__fail(TRI_USAGE, "%s: %lld global_block_indices, but %lld global_block_end_indices", origin,
                         (long long)from->n, (long long)to->n);
    for (int64_t k = 0; k < to->n; k++)
        if (from->at[k] >= to->at[k])
            return tri__fail(TRI_USAGE, "%s: global blocks from %lld up to but not including %lld are none", origin,
                             (long long)from->at[k], (long long)to->at[k]);
    return TRI_OK;
}

static tri_status check_fixed(const tri_pattern *p, const char *origin) {
    int64_t local = p->num_local_blocks, global = p->num_global_blocks, patterns = p->num_different_global_patterns;
    if (local % global)
        return tri__fail(TRI_USAGE, "%s: num_local_blocks %lld is not a multiple of num_global_blocks %lld", origin,
                         (long long)local, (long long)global);
    if (patterns > local / global)
        return tri__fail(TRI_USAGE, "%s: num_different_global_patterns is %lld, but a window of %lld blocks has only "
                         "%lld runs of %lld", origin, (long long)patterns, (long long)local,
                         (long long)(local / global), (long long)global);
    if (patterns > 1 && !p->different_layout_per_head)
        return tri__fail(TRI_USAGE, "%s: num_different_global_patterns %lld needs different_layout_per_head", origin,
                         (long long)patterns);
    return TRI_OK;
}

static tri_status check_numbers(const tri_pattern *p, const char *origin) {
    if (p->block != 16 && p->block != 32 && p->block != 64)
        return tri__fail(TRI_USAGE, "%s: block is %lld; blocks have 16, 32 or 64 tokens", origin, (long long)p->block);
    if (p->mode == TRI_PATTERN_STRIDED && p->stride % p->block)
        return tri__fail(TRI_USAGE, "%s: stride %lld is not a multiple of block %lld", origin, (long long)p->stride,
                         (long long)p->block);
    if (p->mode == TRI_PATTERN_OFFSETS && !p->offsets.n)
        return tri__fail(TRI_USAGE, "%s: mode offsets needs offsets, a list of distances in blocks: [-1, 0, 1]",
                         origin);
    if (p->mode == TRI_PATTERN_VARIABLE && !p->local_window_blocks.n)
        return tri__fail(TRI_USAGE, "%s: local_window_blocks is empty; give the sizes of windows in blocks", origin);
    if (p->mode == TRI_PATTERN_FIXED) TRI_TRY(check_fixed(p, origin));
    return check_globals(p, origin);
}

static tri_status parse_object(const tri_json *json, const char *origin, tri_pattern *out) {
    const tri_json *direction = tri__json_get(json, "attention");
    tri_status status = TRI_OK;
    if (!tri__json_get(json, "mode")) return tri__fail(TRI_USAGE, "%s: there is no mode; those are " MODES, origin);
    for (int k = 0; k < SCALARS && status == TRI_OK; k++) {
        const tri_json *value = tri__json_get(json, scalars[k].row.name);
        if (value) status = tri__option_set_json(&scalars[k].row, out, scalars[k].row.name, value);
        if (k == 0 && status == TRI_OK) {
            *out = default_of(out->mode);
            TRI_TRY(check_names(json, origin, out->mode));
        }
    }
    if (status != TRI_OK) return tri__fail_in(status, "%s", origin);
    for (int k = 0; k < LISTS; k++) {
        const tri_json *value = tri__json_get(json, lists[k].name);
        if (value) TRI_TRY(parse_list(value, origin, k, list_at(out, lists[k].offset)));
    }
    const char *text = tri__json_string_value(direction);
    if (direction && (!text || strcmp(text, "bidirectional") != 0))
        return tri__fail(TRI_USAGE, "%s: attention is \"%s\"; encoders have only \"bidirectional\"", origin,
                         text ? text : "not a string");
    return check_numbers(out, origin);
}

tri_status tri__pattern_parse(const tri_json *json, const char *origin, tri_pattern *pattern) {
    tri_pattern parsed = {0};
    const char *name = tri__json_string_value(json);
    if (name && pattern_named(name, pattern)) return TRI_OK;
    if (name || !tri__json_is_object(json))
        return tri__fail(TRI_USAGE, "%s: \"%s\" is not a pattern; give dense, window, longformer, bigbird, fixed, or "
                         "an object with a mode", origin, name ? name : "it");
    TRI_TRY(parse_object(json, origin, &parsed));
    *pattern = parsed;
    if (parsed.mode == TRI_PATTERN_DENSE) *pattern = (tri_pattern){0};
    return TRI_OK;
}

tri_status tri__pattern_load(const char *name, tri_pattern *pattern) {
    TRI_OWNED(tri__json_drop) tri_json *json = NULL;
    if (pattern_named(name, pattern)) return TRI_OK;
    int there;
    TRI_TRY(tri__file_there(name, &there));
    if (!there)
        return tri__fail(TRI_NOINPUT, "attention: no pattern and no file is called %s; patterns are dense, window, "
                         "longformer, bigbird and fixed", name);
    TRI_TRY(tri__json_load(name, TRI_USAGE, &json));
    const tri_json *member = tri__json_get(json, "sparse_attention"); /* of a whole DeepSpeed configuration */
    return tri__pattern_parse(member ? member : json, name, pattern);
}

tri_json *tri__pattern_json(const tri_pattern *pattern) {
    tri_json *json = tri__json_object();
    int n = pattern->mode == TRI_PATTERN_DENSE ? 1 : SCALARS; /* a dense one has no blocks */
    for (int k = 0; k < n; k++)
        if (scalars[k].modes >> pattern->mode & 1)
            tri__json_set_new(json, scalars[k].row.name, tri__option_json(&scalars[k].row, pattern));
    for (int k = 0; k < LISTS; k++) {
        const tri_pattern_list *list = list_at((tri_pattern *)pattern, lists[k].offset);
        if (!(lists[k].modes >> pattern->mode & 1)) continue;
        tri_json *numbers = list->n ? tri__json_array() : tri__json_null();
        for (int64_t i = 0; i < list->n; i++) tri__json_append_new(numbers, tri__json_integer(list->at[i]));
        tri__json_set_new(json, lists[k].name, numbers);
    }
    return json;
}
