/* files.c - finding data files, taking a run folder. */
#include "engine/files.h"
#include "base/lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const double LOCK_SECONDS = 5;

/* The folder's table with one of these names; "" when none. Fails when there are two. */
static tri_status find(const char *folder, const char *const *names, char out[static TRI_PATH_MAX]) {
    static const char *const endings[] = {"csv", "tsv", "jsonl", "ndjson"};
    char path[TRI_PATH_MAX];
    out[0] = 0;
    for (; *names; names++)
        for (int i = 0; i < 4; i++) {
            char file[64];
            snprintf(file, sizeof file, "%s.%s", *names, endings[i]);
            TRI_TRY(tri__path_join(path, folder, file));
            if (!tri__is_file(path)) continue;
            if (out[0])
                return tri__fail(TRI_USAGE, "%s and %s: which one is meant? Keep one, or name the file", out, file);
            memcpy(out, path, sizeof path);
        }
    return TRI_OK;
}

/* A folder without tables: names a table in another format, if there is one. */
static tri_status none_found(const char *folder) {
    static const char *const names[] = {"train", "valid", "val", "test"},
                      *const endings[] = {"csv.gz",  "tsv.gz",  "jsonl.gz", "csv.zip", "csv.bz2", "csv.xz", "csv.zst",
                                          "parquet", "feather", "arrow",    "json",    "xlsx",    "xls",    "txt"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
            char path[TRI_PATH_MAX], file[64];
            snprintf(file, sizeof file, "%s.%s", names[n], endings[e]);
            TRI_TRY(tri__path_join(path, folder, file));
            if (tri__is_file(path))
                return tri__fail(TRI_NOINPUT,
                                 "%s: has none of train, valid, val, test as .csv, .tsv or .jsonl; there is %s: "
                                 "trident inspect %s says how to make a table of it", folder, file, path);
        }
    return tri__fail(TRI_NOINPUT, "%s: has none of train, valid, val, test as .csv, .tsv or .jsonl", folder);
}

tri_status tri__data_files(const char *path, tri_data_files *files) {
    static const char *const train[] = {"train", NULL}, *const valid[] = {"valid", "val", NULL},
                             *const test[] = {"test", NULL};
    *files = (tri_data_files){0};
    if (!path)
        return tri__fail(TRI_USAGE, "no data: give --data-path, a table or a folder of train, valid and test tables");
    if (tri__is_file(path)) {
        TRI_TRY(tri__path_join(files->train, "", path));
        TRI_TRY(tri__path_join(files->valid, "", path));
        return tri__path_join(files->test, "", path);
    }
    if (strcmp(path, "-") == 0)
        return tri__fail(TRI_USAGE,
                         "--data-path -: a table is read more than once, so not from stdin; save it to a file first");
    if (!tri__is_folder(path) && access(path, F_OK) == 0)
        return tri__fail(TRI_USAGE, "%s is neither a file nor a folder (--data-path); save the table to a file first",
                         path);
    if (!tri__is_folder(path)) return tri__fail(TRI_NOINPUT, "%s: no such file or folder (--data-path)", path);
    TRI_TRY(find(path, train, files->train));
    TRI_TRY(find(path, valid, files->valid));
    TRI_TRY(find(path, test, files->test));
    if (!files->train[0] && !files->valid[0] && !files->test[0])
        return none_found(path);
    return TRI_OK;
}

tri_status tri__data_scored(const char *path, char out[static TRI_PATH_MAX]) {
    tri_data_files files;
    TRI_TRY(tri__data_files(path, &files));
    const char *chosen = files.test[0] ? files.test : files.valid;
    if (!chosen[0]) return tri__fail(TRI_NOINPUT, "%s: has neither a test nor a validation table; name the file", path);
    return tri__path_join(out, "", chosen);
}

static tri_status held(int fd, const char *folder) {
    char holder[32] = "";
    ssize_t n = pread(fd, holder, sizeof holder - 1, 0);
    holder[n > 0 ? n : 0] = 0;
    holder[strcspn(holder, "\n")] = 0;
    return tri__fail(TRI_BUSY, "%s is in use by another run (process %s): choose another --output-dir or wait for it",
                     folder, holder[0] ? holder : "unknown");
}

/* Fails according to the lock's result; cause: its errno. */
static tri_status not_locked(tri_lock_result result, int fd, const char *folder, int cause, const tri_stop *stop) {
    if (result == TRI_LOCK_STOPPED) return tri__stop_check(stop, "%s was in use by another run", folder);
    if (result == TRI_LOCK_HELD) return held(fd, folder);
    return tri__fail(
        TRI_IO,
        "cannot lock %s: %s. A run folder is locked so that no second run writes there: choose an --output-dir on a "
        "file system with locks (of NFS: with lockd, or mounted with -o local_lock=flock)",
        folder, strerror(cause));
}

tri_status tri__folder_lock(const char *folder, const tri_stop *stop, int *lock) {
    char path[TRI_PATH_MAX], text[32];
    TRI_TRY(tri__folder_make(folder));
    TRI_TRY(tri__path_join(path, folder, ".lock"));
    int fd;
    TRI_TRY(tri__file_own(path, TRI_OWN_UPDATE, &fd));
    tri_lock_result result = tri__lock(fd, LOCK_EX, LOCK_SECONDS, stop);
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    tri_status status = result == TRI_LOCK_TAKEN ? TRI_OK : not_locked(result, fd, folder, errno, stop);
    if (status == TRI_OK && (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n))
        status = tri__fail(TRI_IO, "%s: cannot write here: %s", path, strerror(errno));
    if (status == TRI_OK) *lock = fd;
    else close(fd);
    return status;
}
