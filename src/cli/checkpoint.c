/* checkpoint.c - `trident checkpoint ls|verify|diff|prune`: lists checkpoints, checks their integrity, compares two of
 * them, and removes old ones. */
#include "cli/cli.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/folders.h"
#include "checkpoint/run_set.h"
#include "report/text/text_table.h"

/* The checkpoint folders that a path denotes: itself, or the checkpoints of a run folder, newest first. */
typedef struct found {
    char folder[TRI_PATH_MAX];
    int64_t *steps;     /* [n] */
    int n;              /* 0: the folder itself */
    int64_t best;       /* -1: none */
} found;

static void free_found(found *f) { free(f->steps); }

static tri_status find(const char *path, found *f) {
    *f = (found){.best = -1};
    TRI_TRY(tri__path_join(f->folder, "", path));
    tri_kind kind;
    TRI_TRY(tri__path_kind(path, &kind));
    if (kind != TRI_KIND_FOLDER)
        return tri__fail(TRI_NOINPUT, "%s is not a folder; a checkpoint or a run folder is expected", path);
    TRI_PATH(inner, path, "manifest.json");
    TRI_TRY(tri__path_kind(inner, &kind));
    if (kind == TRI_KIND_FILE) return TRI_OK;
    TRI_TRY(tri__checkpoint_best(path, &f->best));
    TRI_TRY(tri__checkpoint_steps(path, &f->steps, &f->n));
    return f->n ? TRI_OK
                : tri__fail(TRI_NOINPUT, "%s holds neither manifest.json nor a checkpoint-<step> folder", path);
}

static tri_status name(const found *f, int i, char path[static TRI_PATH_MAX]) {
    return f->n ? tri__checkpoint_name(path, f->folder, f->steps[i], "") : tri__path_join(path, "", f->folder);
}

/* A checkpoint as an object: path, step, bytes, valid, best, mesh, engine, decision; or why it is not a checkpoint.
 * deep: 1: verifies all hashes. */
static tri_status describe(const found *f, int i, int deep, tri_json **out) {
    char path[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *manifest = NULL;
    TRI_TRY(name(f, i, path));
    tri_status status = tri__manifest_load(path, &manifest);
    if (status == TRI_OK && !deep) status = tri__manifest_check(path, manifest, 0, 0);
    if (status == TRI_OK && deep) {
        TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *checkpoint = NULL;
        status = tri__checkpoint_open_part(path, 0, 1, &checkpoint);
    }
    if (status != TRI_OK && !tri__proves_damage(status)) return status;
    const tri_json *mesh = tri__json_get(tri__json_get(manifest, "state"), "mesh");
    tri_json_int step = manifest ? tri__whole_in(manifest, "step") : f->n ? f->steps[i] : -1;
    *out = tri__json_pack("{s:s, s:I, s:b, s:b, s:I, s:O?, s:O?, s:s?, s:O?}", "path", path, "step", step, "valid",
                          status == TRI_OK, "best", f->n && f->steps[i] == f->best, "bytes",
                          (tri_json_int)tri__manifest_bytes(manifest), "mesh", mesh, "engine",
                          tri__json_get(manifest, "engine"), "reason", status == TRI_OK ? NULL : tri_error(),
                          "decision", tri__json_get(tri__json_get(manifest, "state"), "decision"));
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* run: where there are several, the folder that it is in; "" */
static void add_row(tri_text_table *table, const tri_json *row, const char *run) {
    char bytes[32], mesh[96] = "-";
    const tri_json *m = tri__json_get(row, "mesh");
    const char *engine = tri__text_in(row, "engine"), *reason = tri__text_in(row, "reason");
    if (tri__whole_in(m, "pp")) /* absent from exports */
        snprintf(mesh, sizeof mesh, "pp=%d tp=%d dp=%d", (int)tri__whole_in(m, "pp"), (int)tri__whole_in(m, "tp"),
                 (int)tri__whole_in(m, "dp"));
    const tri_json *d = tri__json_get(row, "decision"), *threshold = tri__json_get(d, "threshold");
    char temperature[32] = "-", from[32] = "-";
    if (tri__json_is_object(d)) snprintf(temperature, sizeof temperature, "%.4g", tri__number_in(d, "temperature"));
    if (tri__json_is_number(threshold)) snprintf(from, sizeof from, "%.4g", tri__json_number_value(threshold));
    tri__text_table_add(
        table, "%s%s%lld\t%s\t%s\t%s\t%s\t%s\t%s%s", run, *run ? "\t" : "", (long long)tri__whole_in(row, "step"),
        tri__text_bytes((double)tri__whole_in(row, "bytes"), bytes), mesh, engine ? engine : "-", temperature, from,
        tri__json_is_true(tri__json_get(row, "best")) ? "best; " : "", reason ? reason : "ok");
}

/* What ls and verify do with the checkpoints of all runs. */
typedef struct listing {
    tri_cli *cli;
    const tri_settings *settings;
    int deep;              /* verify: hashes all files */
    tri_text_table table;
    int n, bad;
    char first[1024];      /* what is wrong with the first damaged one */
} listing;

static tri_status list_run(listing *l, const char *path, const char *run) {
    TRI_OWNED(free_found) found f;
    TRI_TRY(find(path, &f));
    for (int i = 0; i < (f.n ? f.n : 1); i++) {
        TRI_OWNED(tri__json_drop) tri_json *row = NULL;
        TRI_TRY(describe(&f, i, l->deep, &row));
        l->n++;
        if (!tri__json_is_true(tri__json_get(row, "valid")) && !l->bad++)
            snprintf(l->first, sizeof l->first, "%s", tri__text_in(row, "reason"));
        if (l->settings->json) TRI_TRY(tri__print_json(l->cli->out, row));
        else add_row(&l->table, row, run);
    }
    return TRI_OK;
}

/* The runs that a path denotes: its own, or those of a sweep, of folds or seeds. */
static tri_status list_runs(listing *l, const char *path, const tri_run_set *set) {
    tri__text_table_add(&l->table, "%sstep\tsize\tmesh\ttrident\ttemperature\tthreshold\tstate", set->n ? "run\t" : "");
    if (!set->n) return list_run(l, path, "");
    for (int i = 0; i < set->n; i++) {
        char run[64];
        tri_status status;
        snprintf(run, sizeof run, "%.40s%s", strrchr(set->folder[i], '/') + 1, set->is_ranked && !i ? " (best)" : "");
        status = list_run(l, set->folder[i], run);
        if (status != TRI_OK && status != TRI_NOINPUT) return status;
        if (status != TRI_OK && !l->settings->json) /* a trial that failed before its first checkpoint */
            tri__text_table_add(&l->table, "%s\t-\t-\t-\t-\t-\t-\tno checkpoint", run);
    }
    return TRI_OK;
}

/* verify fails (TRI_DATA) if a checkpoint is damaged. */
static tri_status list(tri_cli *cli, const tri_settings *settings, const char *path, int deep) {
    listing l = {.cli = cli, .settings = settings, .deep = deep};
    TRI_OWNED(tri__run_set_free) tri_run_set set = {0};
    TRI_TRY(tri__run_set_read(path, &set));
    tri_status status = list_runs(&l, path, &set);
    if (status == TRI_OK && !settings->json) status = tri__text_table_print(&l.table, cli->out, cli->out_color);
    tri__text_table_free(&l.table);
    if (status == TRI_OK && deep && l.bad) return tri__fail(TRI_DATA, "%d of %d damaged: %s", l.bad, l.n, l.first);
    return status;
}

static tri_status prune(const tri_settings *settings, const char *path) {
    tri_kind kind;
    TRI_OWNED(tri__run_set_free) tri_run_set set = {0};
    TRI_TRY(tri__path_kind(path, &kind));
    if (kind != TRI_KIND_FOLDER) return tri__fail(TRI_NOINPUT, "%s is not a folder; a run folder is expected", path);
    TRI_TRY(tri__run_set_read(path, &set));
    if (!set.n) TRI_TRY(tri__checkpoint_prune(path, (int)settings->keep, INT64_MAX));
    for (int i = 0; i < set.n; i++) TRI_TRY(tri__checkpoint_prune(set.folder[i], (int)settings->keep, INT64_MAX));
    return TRI_OK;
}

/* ---- diff ---- */

/* A whole tensor, read into a buffer that the caller frees. */
static tri_status read_whole(const tri_checkpoint *checkpoint, tri_piece *tensor, void **buffer) {
    size_t bytes = (size_t)tri__shape_count(&tensor->shape) * tri__dtype_bytes(tensor->dtype);
    tensor->data = *buffer = malloc(bytes + 1);
    if (!*buffer) return tri__fail(TRI_RESOURCE, "no memory for the %zu bytes of tensor '%s'", bytes, tensor->name);
    return tri__checkpoint_read(checkpoint, tensor);
}

static int find_tensor(const tri_checkpoint *checkpoint, const char *name, tri_piece *tensor) {
    for (int i = 0; i < tri__checkpoint_count(checkpoint); i++)
        if (tri__checkpoint_tensor(checkpoint, i, tensor) == TRI_OK && !strcmp(tensor->name, name)) return 1;
    return 0;
}

/* Counts elements that differ, and finds the largest difference. */
static void compare_data(const tri_piece *a, const tri_piece *b, int64_t *differ, double *most) {
    size_t each = tri__dtype_bytes(a->dtype);
    *differ = 0, *most = 0;
    for (int64_t i = 0; i < tri__shape_count(&a->shape); i++) {
        const char *x = (const char *)a->data + (size_t)i * each, *y = (const char *)b->data + (size_t)i * each;
        if (memcmp(x, y, each) == 0) continue;
        ++*differ;
        float p, q;
        if (a->dtype != TRI_F32) continue;
        memcpy(&p, x, sizeof p);
        memcpy(&q, y, sizeof q);
        *most = fmax(*most, fabs((double)p - (double)q));
    }
}

static tri_status add_difference(tri_json *rows, const char *tensor, const char *what) {
    tri__json_append_new(rows, tri__json_pack("{s:s, s:s}", "tensor", tensor, "what", what));
    return TRI_OK;
}

/* Appends an object to `rows` if the tensor differs. */
static tri_status compare_tensor(const tri_checkpoint *const both[2], tri_piece a, tri_json *rows) {
    tri_piece b;
    TRI_OWNED(tri__free_at) void *x = NULL, *y = NULL;
    int64_t differ = 0;
    double most = 0;
    if (!find_tensor(both[1], a.name, &b)) return add_difference(rows, a.name, "only in the first");
    if (a.dtype != b.dtype || !tri__shape_equal(&a.shape, &b.shape))
        return add_difference(rows, a.name, "another shape or dtype");
    TRI_TRY(read_whole(both[0], &a, &x));
    TRI_TRY(read_whole(both[1], &b, &y));
    compare_data(&a, &b, &differ, &most);
    if (differ)
        tri__json_append_new(rows, tri__json_pack("{s:s, s:s, s:I, s:I, s:f}", "tensor", a.name, "what", "other values",
                                                  "elements", (tri_json_int)differ, "of",
                                                  (tri_json_int)tri__shape_count(&a.shape), "most", most));
    return TRI_OK;
}

static tri_status compare_tensors(const tri_checkpoint *const both[2], tri_json *rows) {
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < tri__checkpoint_count(both[side]); i++) {
            tri_piece tensor;
            TRI_TRY(tri__checkpoint_tensor(both[side], i, &tensor));
            if (side == 0) TRI_TRY(compare_tensor(both, tensor, rows));
            else if (!tri__checkpoint_has(both[0], tensor.name))
                TRI_TRY(add_difference(rows, tensor.name, "only in the second"));
        }
    return TRI_OK;
}

/* Keys of two objects whose values differ: {key, first, second}. */
static void compare_objects(const tri_json *a, const tri_json *b, tri_json *rows) {
    tri__json_members(a, m) {
        tri_json *other = tri__json_get(b, m->key);
        if (other && tri__json_equal(m->value, other)) continue;
        tri__json_append_new(
            rows, tri__json_pack("{s:s, s:O, s:O?}", "key", m->key, "first", m->value, "second", other));
    }
    tri__json_members(b, m) if (!tri__json_get(a, m->key))
        tri__json_append_new(rows, tri__json_pack("{s:s, s:n, s:O}", "key", m->key, "first", "second", m->value));
}

static void print_keys(tri_text_table *table, const char *what, const tri_json *rows) {
    tri__json_items(rows, row) {
        TRI_OWNED(tri__free_at) char *a = tri__json_line(tri__json_get(row, "first")),
                                     *b = tri__json_line(tri__json_get(row, "second"));
        table->failed |= !a || !b;
        tri__text_table_add(table, "%s\t%s\t%.60s\t%.60s", what, tri__text_in(row, "key"), a ? a : "", b ? b : "");
    }
}

static tri_status print_diff(tri_cli *cli, const tri_json *all) {
    TRI_OWNED(tri__text_table_free) tri_text_table table = {0};
    const tri_json *tensors = tri__json_get(all, "tensors");
    tri__text_table_add(&table, "what\tname\tfirst\tsecond");
    print_keys(&table, "config", tri__json_get(all, "config"));
    print_keys(&table, "state", tri__json_get(all, "state"));
    tri__json_items(tensors, row) {
        const tri_json *n = tri__json_get(row, "elements");
        char words[128] = "";
        if (n)
            snprintf(words, sizeof words, "%lld of %lld elements, by %.3g at most",
                     (long long)tri__json_integer_value(n), (long long)tri__whole_in(row, "of"),
                     tri__json_real_value(tri__json_get(row, "most")));
        tri__text_table_add(&table, "tensor\t%s\t%s\t%s", tri__text_in(row, "tensor"),
                            tri__text_in(row, "what"), words);
    }
    if (table.n > 1 || table.failed) TRI_TRY(tri__text_table_print(&table, cli->out, cli->out_color));
    if (tri__json_size(tensors) == 0) fprintf(cli->out, "all tensors are the same\n");
    return TRI_OK;
}

static tri_status diff(tri_cli *cli, const tri_settings *settings, const char *const *paths) {
    TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *a = NULL, *b = NULL;
    TRI_TRY(tri__checkpoint_open(paths[0], 0, &a));
    TRI_TRY(tri__checkpoint_open(paths[1], 0, &b));
    TRI_OWNED(tri__json_drop) tri_json *all = tri__json_pack("{s:[], s:[], s:[]}", "config", "state", "tensors");
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory");
    compare_objects(tri__checkpoint_config(a), tri__checkpoint_config(b), tri__json_get(all, "config"));
    compare_objects(tri__checkpoint_state(a), tri__checkpoint_state(b), tri__json_get(all, "state"));
    TRI_TRY(compare_tensors((const tri_checkpoint *const[]){a, b}, tri__json_get(all, "tensors")));
    if (!tri__json_is_whole(all)) return tri__fail(TRI_RESOURCE, "out of memory");
    return settings->json ? tri__print_json(cli->out, all) : print_diff(cli, all);
}

tri_status tri__command_checkpoint(tri_cli *cli, tri_command_call *call) {
    const tri_settings *settings = &call->settings;
    const char *verb = call->n_words ? call->words[0] : "";
    int n = call->n_words, deep = !strcmp(verb, "verify");
    if ((deep || !strcmp(verb, "ls")) && n == 2) return list(cli, settings, call->words[1], deep);
    if (!strcmp(verb, "prune") && n == 2) return prune(settings, call->words[1]);
    if (!strcmp(verb, "diff") && n == 3) return diff(cli, settings, call->words + 1);
    return tri__fail(TRI_USAGE, "what, and of which folder? e.g. `trident checkpoint ls run`, `verify run`, "
                                "`prune run --keep 1`, `diff run/checkpoint-10 run/checkpoint-20`");
}
