/* merged_profiles.c - merges the profiles of all ranks. Only numbers are trusted: a file may be damaged, or of another
 * version. */
#include "report/runs/run_parts.h"

enum { FILES = 64, LEGS = 6000 };

static void add(tri_json *to, const char *key, double value) {
    tri__json_set_new(to, key, tri__json_real(tri__number_in(to, key) + value));
}

/* The member of a list whose `key` is `name`; made if there is none. */
static tri_json *entry(tri_json *list, const char *key, const char *name) {
    tri__json_items(list, one) if (!strcmp(tri__text_in(one, key), name)) return one;
    tri_json *one = tri__json_pack("{s:s}", key, name);
    return tri__json_append_new(list, one) ? NULL : one;
}

/* Adds the members `keys` of each row of `from` to the row of `list` with the same name. */
static void add_rows(tri_json *list, const tri_json *from, const char *name, const char *const *keys, double by) {
    tri__json_items(from, row) {
        if (!tri__text_in(row, name)) continue;
        tri_json *to = entry(list, name, tri__text_in(row, name));
        for (int k = 0; to && keys[k]; k++) add(to, keys[k], by * tri__number_in(row, keys[k]));
    }
}

/* A list by falling `key`; a new reference. */
static tri_json *sorted(const tri_json *list, const char *key) {
    tri_json *out = tri__json_array();
    size_t n = tri__json_size(list);
    TRI_OWNED(tri__free_at) char *taken = calloc(n + 1, 1);
    for (size_t k = 0; k < n && taken; k++) {
        size_t best = n;
        tri__json_each(list, i, row)
            if (!taken[i] && (best == n || tri__number_in(row, key) > tri__number_in(tri__json_at(list, best), key)))
                best = i;
        taken[best] = 1;
        tri__json_append(out, tri__json_at(list, best));
    }
    if (!taken || !tri__json_is_whole(list)) tri__json_append_new(out, NULL); /* incomplete: out of memory */
    return out;
}

/* first: this rank's parameters count, since other replicas have the same. */
static void add_module(tri_json *to, const tri_json *from, double by, int first, int depth) {
    tri_json *children = tri__json_get(to, "children");
    add(to, "seconds", by * tri__number_in(from, "seconds"));
    add(to, "flops", tri__number_in(from, "flops"));
    add(to, "parameters", first ? tri__number_in(from, "parameters") : 0);
    tri__json_items(tri__json_get(from, "children"), child) {
        if (!tri__text_in(child, "name") || depth > 8) continue;
        if (!children) {
            children = tri__json_array();
            if (tri__json_set_new(to, "children", children)) children = NULL; /* it is freed */
        }
        tri_json *into = children ? entry(children, "name", tri__text_in(child, "name")) : NULL;
        if (into) add_module(into, child, by, first, depth + 1);
    }
}

static tri_json *rank_json(const tri_json *profile) {
    static const char *const keys[] = {"rank", "coords", "device", "seconds", "parts", "shares", "clock", "memory"};
    tri_json *one = tri__json_object();
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const tri_json *value = tri__json_get(profile, keys[k]);
        if (value) tri__json_set(one, keys[k], value);
    }
    return one;
}

/* ---- the timeline ---- */

static tri_json *real(double value) { return tri__json_real(tri__curve_value(value)); }

/* [[kind, (mb,) begin, end]], from `origin` on, at most *left boxes. */
static tri_json *boxes(const tri_json *from, int times, double origin, int64_t *left, int64_t *left_out) {
    tri_json *out = tri__json_array();
    tri__json_items(from, box) {
        const char *kind = tri__json_string_value(tri__json_at(box, 0));
        if (!kind || (int)tri__json_size(box) < times + 2) continue;
        if (*left <= 0) {
            ++*left_out;
            continue;
        }
        --*left;
        tri_json *one = tri__json_array();
        tri__json_append_new(one, tri__json_string(kind));
        if (times == 2) tri__json_append(one, tri__json_at(box, 1));
        for (int t = times; t < times + 2; t++)
            tri__json_append_new(one, real(tri__json_number_value(tri__json_at(box, (size_t)t)) - origin));
        tri__json_append_new(out, one);
    }
    return out;
}

/* A member of `to`, if a step was recorded. */
static void add_timeline(tri_json *to, const tri_json *profiles, int legs) {
    double origin = INFINITY, end = -INFINITY, step = -1;
    int64_t left = legs, left_out = 0;
    tri__json_items(profiles, profile) {
        const tri_json *line = tri__json_get(profile, "timeline");
        if (!line) continue;
        if (step < 0) step = tri__number_in(line, "step");
        if (tri__number_in(line, "step") != step) continue;
        origin = fmin(origin, tri__number_in(line, "begin")), end = fmax(end, tri__number_in(line, "end"));
    }
    if (!(end > origin)) return;
    tri_json *ranks = tri__json_array();
    tri__json_items(profiles, profile) {
        const tri_json *line = tri__json_get(profile, "timeline");
        if (!line || tri__number_in(line, "step") != step) continue;
        tri_json *boxed = boxes(tri__json_get(line, "legs"), 2, origin, &left, &left_out),
                 *moved = boxes(tri__json_get(line, "transfers"), 1, origin, &left, &left_out);
        tri__json_append_new(ranks, tri__json_pack("{s:O?, s:O?, s:o, s:o}", "rank", tri__json_get(profile, "rank"),
                                                   "coords", tri__json_get(profile, "coords"), "legs", boxed,
                                                   "transfers", moved));
    }
    tri__json_set_new(to, "timeline",
                      tri__json_pack("{s:I, s:f, s:I, s:o}", "step", (tri_json_int)step, "seconds", end - origin,
                                     "left_out", (tri_json_int)left_out, "ranks", ranks));
}

/* ---- all together ---- */

/* The sums that all ranks contribute to. */
typedef struct merged {
    tri_json *parts, *ranks, *operations, *modules, *transfers;
    const tri_json *largest; /* the profile of the rank that holds most memory */
} merged;

static void add_profile(merged *m, const tri_json *profile, double by) {
    static const char *const costs[] = {"calls", "seconds", "flops", "bytes", NULL};
    static const char *const moved[] = {"count", "bytes", "seconds", "exposed_seconds", "waiting_seconds", NULL};
    const tri_json *modules = tri__json_get(profile, "modules");
    int first = tri__number_in(tri__json_get(profile, "coords"), "dp") == 0;
    tri__json_members(tri__json_get(profile, "parts"), member)
        if (tri__json_is_number(member->value)) add(m->parts, member->key, by * tri__json_number_value(member->value));
    tri__json_append_new(m->ranks, rank_json(profile));
    add_rows(m->operations, tri__json_get(profile, "operations"), "name", costs, by);
    add_rows(m->transfers, tri__json_get(profile, "transfers"), "kind", moved, by);
    if (modules) add_module(m->modules, modules, by, first, 0);
    const tri_json *total = tri__json_get(tri__json_get(profile, "memory"), "total"),
                   *most = tri__json_get(tri__json_get(m->largest, "memory"), "total");
    if (total && (!most || tri__number_in(total, "held") > tri__number_in(most, "held"))) m->largest = profile;
}

tri_json *tri__profiles_merge(const tri_json *profiles, int legs) {
    const tri_json *first = tri__json_at(profiles, 0);
    double by = 1 / (double)tri__json_size(profiles), seconds = 0;
    merged m = {tri__json_object(), tri__json_array(), tri__json_array(), tri__json_pack("{s:s}", "name", "model"),
                tri__json_array(), NULL};
    tri__json_items(profiles, profile) {
        add_profile(&m, profile, by);
        seconds += by * tri__number_in(profile, "seconds");
    }
    tri_json *out = tri__json_pack(
        "{s:O?, s:I, s:O?, s:f, s:o, s:o, s:o, s:o, s:o}", "world", tri__json_get(first, "world"), "n",
        (tri_json_int)tri__json_size(profiles), "steps", tri__json_get(first, "steps"), "seconds", seconds, "parts",
        m.parts, "ranks", m.ranks, "operations", sorted(m.operations, "seconds"), "modules", m.modules, "transfers",
        sorted(m.transfers, "exposed_seconds"));
    tri__json_decref(m.operations);
    tri__json_decref(m.transfers);
    if (out && m.largest) {
        tri__json_set(out, "memory", tri__json_get(m.largest, "memory"));
        tri__json_set(out, "memory_rank", tri__json_get(m.largest, "rank"));
    }
    if (out && tri__json_get(first, "kinds")) tri__json_set(out, "kinds", tri__json_get(first, "kinds"));
    if (out) add_timeline(out, profiles, legs);
    return out;
}

/* The rank of "profile-rank<r>.json"; -1: the name is another. */
static int rank_of(const char *name) {
    int rank = -1, end = 0;
    if (sscanf(name, "profile-rank%d.json%n", &rank, &end) < 1 || !end || name[end]) return -1;
    return rank;
}

/* A profile of another number of ranks than the first's was left by an earlier start of the run. */
static tri_status read_profile(const char *folder, const char *name, tri_json *run, tri_json *profiles) {
    const tri_json *first = tri__json_at(profiles, 0);
    TRI_OWNED(tri__json_drop) tri_json *profile = NULL;
    TRI_TRY(tri__run_load(folder, name, 1, run, &profile));
    if (profile && tri__number_in(profile, "format") != 1)
        tri__run_missing(run, "%s cannot be read: its format is not 1; another version of Trident wrote it", name);
    else if (profile && (!first || tri__number_in(first, "world") == tri__number_in(profile, "world")))
        tri__json_append(profiles, profile);
    return TRI_OK;
}

static int by_rank(const void *a, const void *b) { return rank_of(*(char *const *)a) - rank_of(*(char *const *)b); }

tri_status tri__run_profiles(const char *folder, const tri_names *names, const tri_run_data_options *options,
                             tri_json *run) {
    char *found[FILES];
    int n = 0;
    for (int i = 0; i < names->n && n < FILES; i++)
        if (rank_of(names->name[i]) >= 0) found[n++] = names->name[i];
    if (!n) return TRI_OK;
    qsort(found, (size_t)n, sizeof *found, by_rank);
    TRI_OWNED(tri__json_drop) tri_json *profiles = tri__json_array();
    for (int i = 0; i < n; i++) TRI_TRY(read_profile(folder, found[i], run, profiles));
    if (!tri__json_is_whole(profiles)) return tri__fail(TRI_RESOURCE, "no memory for the profiles of %s", folder);
    if (tri__json_size(profiles))
        tri__json_set_new(run, "profile", tri__profiles_merge(profiles, options->legs ? options->legs : LEGS));
    return TRI_OK;
}
