/* run_set.c - reads the file that makes a folder a set of runs. Members are plain names beside it: a folder that was
 * moved or copied stays what it is. */
#include "checkpoint/run_set.h"

#include "base/file.h"

enum { MEMBERS = 1000 };

/* The files, their format, and the list of members. */
static const struct {
    const char *file, *format, *list, *words;
} rows[] = {
    [TRI_RUN_SET_FOLDS] = {"summary.json", "trident-folds", "folds", "folds"},
    [TRI_RUN_SET_SEEDS] = {"ensemble.json", "trident-ensemble", "members", "members"},
    [TRI_RUN_SET_SWEEP] = {"sweep.json", "trident-sweep", "trials", "trials"},
};

const char *tri__run_set_words(tri_run_set_kind kind) { return kind ? rows[kind].words : "runs"; }

void tri__run_set_free(tri_run_set *set) {
    for (int i = 0; i < set->n; i++) free(set->folder[i]);
    free(set->folder);
    *set = (tri_run_set){0};
}

static tri_status no_memory(void) { return tri__fail(TRI_RESOURCE, "out of memory for a list of runs"); }

/* A trial that never began has no folder, and is left out. */
static tri_status add(const char *folder, const char *path, const tri_json *member, size_t index, tri_run_set *out) {
    tri_kind kind = TRI_KIND_FOLDER;
    const char *name = tri__text_in(member, "folder");
    if (!name || !*name || strchr(name, '/') || !strcmp(name, ".."))
        return tri__fail(TRI_DATA, "%s: %s[%zu].folder is missing, or not a name of a folder beside it", path,
                         rows[out->kind].list, index);
    TRI_PATH(joined, folder, name);
    if (out->kind == TRI_RUN_SET_SWEEP) TRI_TRY(tri__path_kind(joined, &kind));
    if (kind != TRI_KIND_FOLDER) return TRI_OK;
    out->folder[out->n] = strdup(joined);
    return out->folder[out->n++] ? TRI_OK : no_memory();
}

static tri_json_int rank_of(const tri_json *trial) { return tri__whole_in(trial, "rank"); }

/* In the order of their ranks; those without one follow in the order of the list. */
static tri_status add_all(const char *folder, const char *path, const tri_json *list, tri_run_set *out) {
    size_t n = tri__json_size(list);
    for (size_t rank = 1; rank <= n; rank++)
        tri__json_each(list, i, member) {
            if (rank_of(member) != (tri_json_int)rank) continue;
            TRI_TRY(add(folder, path, member, i, out));
            out->is_ranked |= rank == 1 && out->n == 1;
        }
    tri__json_each(list, i, member)
        if (rank_of(member) < 1 || rank_of(member) > (tri_json_int)n) TRI_TRY(add(folder, path, member, i, out));
    return TRI_OK;
}

static tri_status take(const char *folder, const char *path, const tri_json *root, tri_run_set *out) {
    const tri_json *list = tri__json_get(root, rows[out->kind].list);
    const char *format = tri__text_in(root, "format");
    size_t n = tri__json_size(list);
    int known = format && !strcmp(format, rows[out->kind].format);
    if (out->kind == TRI_RUN_SET_FOLDS && !known) return TRI_OK; /* of a run */
    if (!known || tri__whole_in(root, "version") != 1)
        return tri__fail(TRI_DATA, "%s: its format is not %s, version 1", path, rows[out->kind].format);
    if (n < 1 || n > MEMBERS)
        return tri__fail(TRI_DATA, "%s: %s: 1 to %d are expected", path, rows[out->kind].list, MEMBERS);
    out->folder = calloc(n, sizeof *out->folder);
    return out->folder ? add_all(folder, path, list, out) : no_memory();
}

static tri_status read_as(const char *folder, tri_run_set_kind kind, tri_run_set *out) {
    TRI_OWNED(tri__json_drop) tri_json *root = NULL;
    int there;
    TRI_PATH(path, folder, rows[kind].file);
    TRI_TRY(tri__file_there(path, &there));
    if (!there) return TRI_OK;
    tri_status status = tri__json_load(path, TRI_DATA, &root);
    if (status == TRI_DATA && kind == TRI_RUN_SET_FOLDS) return TRI_OK; /* a run's may be cut off */
    out->kind = kind;
    if (status == TRI_OK) status = take(folder, path, root, out);
    if (status != TRI_OK || !out->n) tri__run_set_free(out);
    return status;
}

tri_status tri__run_set_read(const char *folder, tri_run_set *out) {
    *out = (tri_run_set){0};
    for (tri_run_set_kind kind = TRI_RUN_SET_FOLDS; folder && kind <= TRI_RUN_SET_SWEEP && !out->kind; kind++)
        TRI_TRY(read_as(folder, kind, out));
    return TRI_OK;
}
