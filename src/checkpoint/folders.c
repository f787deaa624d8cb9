/* folders.c - finding, marking and removing checkpoints. The newest is found by looking at the folders, never by a pointer that could be
 * stale: that of the run that began last, with the most steps. What is being made or removed has ".tmp." in its name, and no reader looks
 * at it. */
#include "checkpoint/folders.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = "checkpoint-", best_name[] = "best_checkpoint.json";

tri_status tri__checkpoint_name(char out[static TRI_PATH_MAX], const char *folder, int64_t step, const char *suffix) {
    char name[128];
    snprintf(name, sizeof name, "%s%lld%s", prefix, (long long)step, suffix);
    return tri__path_join(out, folder, name);
}

/* The step of "checkpoint-<step>", -1 for any other name. *rest: what follows the digits. */
static int64_t parse_name(const char *name, const char **rest) {
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    const char *digits = name + sizeof prefix - 1;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 18 || (n > 1 && digits[0] == '0')) return -1;
    *rest = digits + n;
    return strtoll(digits, NULL, 10);
}

/* A checkpoint, and when the run that it belongs to began. */
typedef struct candidate {
    double began;  /* seconds since 1970; infinite when its manifest cannot be read */
    int64_t step;
} candidate;

/* A run that was begun anew in the folder of a longer one has the newer checkpoints, whatever their steps. */
static int newest_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->began != y->began) return x->began < y->began ? 1 : -1;
    return (x->step < y->step) - (x->step > y->step);
}

static tri_status sort_steps(const char *folder, int64_t *steps, int n) {
    candidate *all = calloc((size_t)n + 1, sizeof *all);
    tri_status status = all ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    for (int i = 0; i < n && status == TRI_OK; i++) {
        char path[TRI_PATH_MAX];
        json_t *manifest = NULL;
        all[i] = (candidate){.began = INFINITY, .step = steps[i]};
        status = tri__checkpoint_name(path, folder, steps[i], "");
        if (status == TRI_OK && tri__manifest_load(path, &manifest) == TRI_OK)
            all[i].began = json_number_value(json_object_get(json_object_get(manifest, "state"), "began"));
        json_decref(manifest);
    }
    if (status == TRI_OK) qsort(all, (size_t)n, sizeof *all, newest_first);
    for (int i = 0; i < n && status == TRI_OK; i++) steps[i] = all[i].step;
    free(all);
    return status;
}

tri_status tri__checkpoint_steps(const char *folder, int64_t **steps, int *n) {
    *steps = NULL, *n = 0;
    DIR *dir = opendir(folder);
    if (!dir) return tri__fail(errno == ENOENT ? TRI_NOINPUT : TRI_IO, "cannot open %s: %s", folder, strerror(errno));
    int capacity = 0;
    tri_status status = TRI_OK;
    for (struct dirent *entry; status == TRI_OK && (entry = readdir(dir));) {
        const char *rest = "";
        int64_t step = parse_name(entry->d_name, &rest);
        if (step < 0 || *rest) continue;
        if (*n == capacity) {
            int64_t *grown = realloc(*steps, (size_t)(capacity = 2 * capacity + 16) * sizeof **steps);
            if (!grown) status = tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
            else *steps = grown;
        }
        if (status == TRI_OK) (*steps)[(*n)++] = step;
    }
    closedir(dir);
    if (status == TRI_OK && *n) status = sort_steps(folder, *steps, *n);
    if (status != TRI_OK) {
        free(*steps);
        *steps = NULL;
    }
    return status;
}

tri_status tri__checkpoint_remove(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) return errno == ENOENT ? TRI_OK : tri__fail(TRI_IO, "cannot open %s: %s", path, strerror(errno));
    tri_status status = TRI_OK;
    for (struct dirent *entry; status == TRI_OK && (entry = readdir(dir));) {
        char inner[TRI_PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        status = tri__path_join(inner, path, entry->d_name);
        if (status == TRI_OK && tri__is_folder(inner)) status = tri__folder_remove(inner);
    }
    closedir(dir);
    return status == TRI_OK ? tri__folder_remove(path) : status;
}

tri_status tri__checkpoint_best(const char *folder, int64_t *step) {
    *step = -1;
    char path[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(path, folder, best_name));
    if (!tri__is_file(path)) return TRI_OK;
    json_t *best;
    TRI_TRY(tri__json_load(path, TRI_DATA, &best));
    const json_t *value = json_object_get(best, "step");
    tri_status status = TRI_OK;
    if (json_is_integer(value) && json_integer_value(value) >= 0) *step = json_integer_value(value);
    else status = tri__fail(TRI_DATA, "%s names no step", path);
    json_decref(best);
    return status;
}

tri_status tri__checkpoint_mark_best(const char *folder, int64_t step) {
    char path[TRI_PATH_MAX], name[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(path, folder, best_name));
    TRI_TRY(tri__checkpoint_name(name, "", step, ""));
    json_t *best = json_pack("{s:I, s:s}", "step", (json_int_t)step, "checkpoint", name);
    tri_status status = best ? tri__json_save(path, best) : tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    json_decref(best);
    if (status == TRI_OK) status = tri__folder_sync(folder);
    return status;
}

/* Renamed first, so that a half-removed checkpoint is never found. */
static tri_status retire(const char *folder, int64_t step) {
    char path[TRI_PATH_MAX], gone[TRI_PATH_MAX], suffix[64];
    snprintf(suffix, sizeof suffix, ".tmp.old-%ld", (long)getpid());
    TRI_TRY(tri__checkpoint_name(path, folder, step, ""));
    TRI_TRY(tri__checkpoint_name(gone, folder, step, suffix));
    if (rename(path, gone)) return tri__fail(TRI_IO, "cannot rename %s: %s", path, strerror(errno));
    return tri__checkpoint_remove(gone);
}

/* A file that another process was writing or trying when it ended: "NAME.tmp-<pid>-<n>" of tri__file_write, ".probe-<n>". */
static int is_stray_file(const char *name) {
    const char *mark = strstr(name, ".tmp-");
    int n, end = -1;
    long pid;
    if (mark && sscanf(mark, ".tmp-%ld-%d%n", &pid, &n, &end) == 2 && mark[end] == 0) return pid != (long)getpid();
    return sscanf(name, ".probe-%d%n", &n, &end) == 1 && name[end] == 0;
}

tri_status tri__checkpoint_sweep(const char *folder) {
    DIR *dir = opendir(folder);
    if (!dir) return tri__fail(TRI_IO, "cannot open %s: %s", folder, strerror(errno));
    tri_status status = TRI_OK;
    for (struct dirent *entry; status == TRI_OK && (entry = readdir(dir));) {
        const char *rest = "";
        char path[TRI_PATH_MAX];
        int stray = is_stray_file(entry->d_name);
        if (!stray && (parse_name(entry->d_name, &rest) < 0 || strncmp(rest, ".tmp.", 5) != 0)) continue;
        status = tri__path_join(path, folder, entry->d_name);
        if (status == TRI_OK && stray) unlink(path);
        else if (status == TRI_OK) status = tri__checkpoint_remove(path);
    }
    closedir(dir);
    return status;
}

/* The manifest is sound and all files have their sizes: what an interrupted or failed disk leaves behind is neither. */
static tri_status look(const char *path, json_t **manifest) {
    TRI_TRY(tri__manifest_load(path, manifest));
    tri_status status = tri__manifest_check(path, *manifest, 0, 0);
    if (status == TRI_OK) return TRI_OK;
    json_decref(*manifest);
    *manifest = NULL;
    return status;
}

static int looks_valid(const char *folder, int64_t step) {
    char path[TRI_PATH_MAX];
    json_t *manifest = NULL;
    int valid = tri__checkpoint_name(path, folder, step, "") == TRI_OK && look(path, &manifest) == TRI_OK;
    json_decref(manifest);
    return valid;
}

tri_status tri__checkpoint_glance(const char *path, json_t **manifest) {
    char inner[TRI_PATH_MAX];
    int64_t *steps;
    int n;
    *manifest = NULL;
    TRI_TRY(tri__path_join(inner, path, "manifest.json"));
    if (tri__is_file(inner)) return look(path, manifest);
    TRI_TRY(tri__checkpoint_steps(path, &steps, &n));
    tri_status status = n ? TRI_DATA : tri__fail(TRI_NOINPUT, "%s holds no checkpoint", path);
    for (int i = 0; i < n && status != TRI_OK && status != TRI_RESOURCE; i++) {
        status = tri__checkpoint_name(inner, path, steps[i], "");
        if (status == TRI_OK) status = look(inner, manifest);
    }
    free(steps);
    return status;
}

tri_status tri__checkpoint_prune(const char *folder, int keep, int64_t last) {
    int64_t best, *steps;
    int n, kept = 0;
    TRI_TRY(tri__checkpoint_best(folder, &best));
    TRI_TRY(tri__checkpoint_sweep(folder));
    TRI_TRY(tri__checkpoint_steps(folder, &steps, &n));
    tri_status status = TRI_OK;
    for (int i = 0; i < n && status == TRI_OK; i++) {
        if (steps[i] <= last && kept < keep && looks_valid(folder, steps[i])) kept++;
        else if (steps[i] != best || steps[i] > last) status = retire(folder, steps[i]);
    }
    free(steps);
    return status;
}
