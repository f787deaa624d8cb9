/* folders.c - finding, marking and removing checkpoints. The newest is the one whose manifest has the highest sequence;
 * there is no pointer file that could be stale. Folders being created or removed have ".tmp." in their names, and
 * readers ignore them.
 *
 * A checkpoint is valid, damaged, or unknown. Damaged means proven damaged: a hash, a size or a listed file is wrong or
 * missing. Any other error while checking it (no memory, no descriptors, a failing disk or network) proves nothing and
 * aborts the operation: the checkpoint is neither removed nor skipped. */
#include "checkpoint/folders.h"

#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <unistd.h>

static const char prefix[] = "checkpoint-", best_name[] = "best_checkpoint.json";

tri_status tri__checkpoint_name(char out[static TRI_PATH_MAX], const char *folder, int64_t step, const char *suffix) {
    return tri__path_join(out, folder, TRI_TEXT(128, "%s%lld%s", prefix, (long long)step, suffix));
}

int64_t tri__checkpoint_named(const char *name, const char **rest) {
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    const char *digits = name + sizeof prefix - 1;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 18 || (n > 1 && digits[0] == '0')) return -1;
    *rest = digits + n;
    return strtoll(digits, NULL, 10);
}

/* A checkpoint and its sort keys. */
typedef struct candidate {
    int damaged;      /* its manifest is: sorted first, so that it is reported */
    int64_t sequence; /* from the manifest; 0 if an older build wrote it */
    double began;     /* seconds since 1970 when its run began: orders those of older builds */
    int64_t step;
} candidate;

/* A run restarted from scratch in the folder of a longer one has the newer checkpoints, regardless of steps and
 * clocks. */
static int newest_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->damaged != y->damaged) return y->damaged - x->damaged;
    if (x->sequence != y->sequence) return x->sequence < y->sequence ? 1 : -1;
    if (x->began != y->began) return x->began < y->began ? 1 : -1;
    return (x->step < y->step) - (x->step > y->step);
}

int tri__proves_damage(tri_status status) { return status == TRI_DATA || status == TRI_NOINPUT; }

static tri_status find_place(const char *folder, candidate *c) {
    char path[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *manifest = NULL;
    TRI_TRY(tri__checkpoint_name(path, folder, c->step, ""));
    tri_status status = tri__manifest_load(path, &manifest);
    c->damaged = tri__proves_damage(status);
    c->sequence = tri__whole_in(manifest, "sequence");
    c->began = tri__number_in(tri__json_get(manifest, "state"), "began");
    return c->damaged ? TRI_OK : status;
}

static tri_status add_candidate(const char *folder, int64_t step, candidate **all, int *n) {
    size_t room = *n ? 2 * (size_t)*n : 1;
    candidate *grown = *n & (*n - 1) ? *all : realloc(*all, room * sizeof *grown); /* at powers of two */
    if (!grown) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    *all = grown;
    grown[*n] = (candidate){.step = step};
    return find_place(folder, &grown[(*n)++]);
}

/* All checkpoints, newest first; the caller frees *all even after a failure. */
static tri_status find_all(const char *folder, candidate **all, int *n) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    *all = NULL, *n = 0;
    TRI_TRY(tri__folder_list(folder, &names));
    for (int i = 0; i < names.n; i++) {
        const char *rest = "";
        tri_kind kind;
        int64_t step = tri__checkpoint_named(names.name[i], &rest);
        if (step < 0 || *rest) continue;
        TRI_PATH(path, folder, names.name[i]);
        TRI_TRY(tri__path_kind(path, &kind));
        if (kind == TRI_KIND_FOLDER) TRI_TRY(add_candidate(folder, step, all, n));
    }
    if (*n) qsort(*all, (size_t)*n, sizeof **all, newest_first);
    return TRI_OK;
}

tri_status tri__checkpoint_steps(const char *folder, int64_t **steps, int *n) {
    TRI_OWNED(tri__free_at) candidate *all = NULL;
    *steps = NULL;
    TRI_TRY(find_all(folder, &all, n));
    if (*n) TRI_TRY(TRI_NEW(*steps, *n, folder));
    for (int i = 0; i < *n; i++) (*steps)[i] = all[i].step;
    return TRI_OK;
}

tri_status tri__checkpoint_sequence(const char *folder, int64_t *last) {
    TRI_OWNED(tri__free_at) candidate *all = NULL;
    int n;
    *last = 0;
    TRI_TRY(find_all(folder, &all, &n));
    for (int i = 0; i < n; i++) *last = all[i].sequence > *last ? all[i].sequence : *last;
    return TRI_OK;
}

tri_status tri__checkpoint_best(const char *folder, int64_t *step) {
    *step = -1;
    tri_kind kind;
    TRI_PATH(path, folder, best_name);
    TRI_TRY(tri__path_kind(path, &kind));
    if (kind == TRI_KIND_NONE) return TRI_OK;
    TRI_OWNED(tri__json_drop) tri_json *best = NULL;
    TRI_TRY(tri__json_load(path, TRI_DATA, &best));
    const tri_json *value = tri__json_get(best, "step");
    if (tri__json_is_integer(value) && tri__json_integer_value(value) >= 0) *step = tri__json_integer_value(value);
    return *step >= 0 ? TRI_OK : tri__fail(TRI_DATA, "%s names no step", path);
}

tri_status tri__checkpoint_mark_best(const char *folder, int64_t step) {
    char path[TRI_PATH_MAX], name[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(path, folder, best_name));
    TRI_TRY(tri__checkpoint_name(name, "", step, ""));
    TRI_OWNED(tri__json_drop) tri_json *best = tri__json_pack("{s:I, s:s}", "step", (tri_json_int)step, "checkpoint",
                                                              name);
    if (!best) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    TRI_TRY(tri__json_save(path, best));
    return tri__folder_sync(folder);
}

/* Renamed first, so that a half-removed checkpoint is never found. A link is removed, not its target. */
static tri_status retire(const char *folder, int64_t step) {
    char path[TRI_PATH_MAX], gone[TRI_PATH_MAX];
    TRI_TRY(tri__checkpoint_name(path, folder, step, ""));
    TRI_TRY(tri__checkpoint_name(gone, folder, step, TRI_TEXT(64, ".tmp.old-%ld", (long)getpid())));
    if (tri__path_rename(path, gone, TRI_RENAME_REPLACE))
        return errno == ENOENT ? TRI_OK : tri__fail_errno("rename", path, TRI_IO);
    return tri__folder_remove_all(gone);
}

/* A temporary file that a process left when it was killed: "NAME.tmp-<pid>-<n>" of tri__file_write, ".probe-<n>". */
static int is_stray_file(const char *name) {
    const char *mark = strstr(name, ".tmp-");
    int n, end = -1;
    long pid;
    if (mark && sscanf(mark, ".tmp-%ld-%d%n", &pid, &n, &end) == 2 && mark[end] == 0) return pid != (long)getpid();
    return sscanf(name, ".probe-%d%n", &n, &end) == 1 && name[end] == 0;
}

/* running: 1: of files, only those that saving writes; other processes may be writing others here: ranks their
 * profiles, `trident report` its page. */
static tri_status sweep(const char *folder, int running) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    TRI_TRY(tri__folder_list(folder, &names));
    for (int i = 0; i < names.n; i++) {
        const char *rest = "";
        int of_saving = strncmp(names.name[i], best_name, strlen(best_name)) == 0;
        int stray = is_stray_file(names.name[i]) && (of_saving || !running);
        if (!stray && (tri__checkpoint_named(names.name[i], &rest) < 0 || strncmp(rest, ".tmp.", 5) != 0)) continue;
        TRI_PATH(path, folder, names.name[i]);
        if (stray) (void)tri__file_remove(path);
        else TRI_TRY(tri__folder_remove_all(path));
    }
    return TRI_OK;
}

tri_status tri__checkpoint_sweep(const char *folder) { return sweep(folder, 0); }

/* Checks the manifest and the sizes of all files, without hashing: this detects interrupted writes and full disks. */
static tri_status look(const char *path, tri_json **manifest) {
    TRI_OWNED(tri__json_drop) tri_json *read = NULL;
    TRI_TRY(tri__manifest_load(path, &read));
    TRI_TRY(tri__manifest_check(path, read, 0, 0));
    *manifest = TRI_GIVE(read);
    return TRI_OK;
}

tri_status tri__checkpoint_glance(const char *path, char folder[static TRI_PATH_MAX], tri_json **manifest) {
    TRI_OWNED(tri__free_at) int64_t *steps = NULL;
    int n;
    tri_kind kind;
    *manifest = NULL;
    TRI_TRY(tri__path_join(folder, path, "manifest.json"));
    TRI_TRY(tri__path_kind(folder, &kind));
    if (kind == TRI_KIND_FILE) {
        TRI_TRY(tri__path_join(folder, "", path));
        return look(path, manifest);
    }
    TRI_TRY(tri__checkpoint_steps(path, &steps, &n));
    tri_status status = n ? TRI_DATA : tri__fail(TRI_NOINPUT, "%s holds no checkpoint", path);
    for (int i = 0; i < n && tri__proves_damage(status); i++) {
        status = tri__checkpoint_name(folder, path, steps[i], "");
        if (status == TRI_OK) status = look(folder, manifest);
    }
    return status;
}

/* ---- prune ---- */

void tri__proven_add(tri_proven *proven, int64_t step) {
    int64_t *grown = realloc(proven->step, ((size_t)proven->n + 1) * sizeof *grown);
    if (!grown) return; /* it will be verified again */
    proven->step = grown;
    grown[proven->n++] = step;
}

void tri__proven_free(tri_proven *proven) {
    free(proven->step);
    *proven = (tri_proven){0};
}

/* Verifies all hashes the first time, only sizes after that. */
static tri_status prove(const char *folder, int64_t step, tri_proven *proven) {
    char path[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *manifest = NULL;
    TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *checkpoint = NULL;
    TRI_TRY(tri__checkpoint_name(path, folder, step, ""));
    for (int i = 0; i < proven->n; i++)
        if (proven->step[i] == step) return look(path, &manifest);
    TRI_TRY(tri__checkpoint_open_part(path, 0, 1, &checkpoint));
    tri__proven_add(proven, step);
    return TRI_OK;
}

/* stays[i] of steps[i], newest first: the newest `keep` that are proven valid; those later than `last` only if there is
 * no other. Fails before anything is removed if one can be proven neither valid nor damaged. */
static tri_status choose(const char *folder, int keep, int64_t last, const int64_t *steps, int n, tri_proven *proven,
                         char *stays) {
    int kept = 0;
    for (int i = 0; i < n && kept < keep; i++) {
        if (steps[i] > last) continue;
        tri_status status = prove(folder, steps[i], proven);
        if (status != TRI_OK && !tri__proves_damage(status))
            return tri__fail_in(status, "%s: nothing was removed, since a checkpoint could not be checked", folder);
        stays[i] = status == TRI_OK;
        kept += stays[i];
    }
    for (int i = 0; i < n && keep && !kept; i++) stays[i] = steps[i] > last;
    return TRI_OK;
}

tri_status tri__checkpoint_prune_proven(const char *folder, int keep, int64_t last, tri_proven *proven) {
    int64_t best;
    TRI_OWNED(tri__free_at) int64_t *steps = NULL;
    int n;
    TRI_TRY(tri__checkpoint_best(folder, &best));
    TRI_TRY(sweep(folder, 1));
    TRI_TRY(tri__checkpoint_steps(folder, &steps, &n));
    TRI_OWNED(tri__free_at) char *stays = calloc((size_t)n + 1, 1);
    if (!stays) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    TRI_TRY(choose(folder, keep, last, steps, n, proven, stays));
    for (int i = 0; i < n; i++)
        if (!stays[i] && (steps[i] != best || steps[i] > last)) TRI_TRY(retire(folder, steps[i]));
    return TRI_OK;
}

tri_status tri__checkpoint_prune(const char *folder, int keep, int64_t last) {
    TRI_OWNED(tri__proven_free) tri_proven proven = {0};
    return tri__checkpoint_prune_proven(folder, keep, last, &proven);
}
