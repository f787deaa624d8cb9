/* data_files.c - finding data files, taking a run folder. */
#include "data/dataset/data_files.h"
#include "data/table/memory.h"
#include "data/table/parts.h"

#include <ctype.h>
#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

static const double LOCK_SECONDS = 5;

/* What a search has found, and in which folder: its own or one inside. */
typedef struct search {
    const char *folder;
    const tri_names *files;  /* the folder's */
    int shared;              /* looks for endings that other files have too: .json */
    char *out;               /* [TRI_PATH_MAX] */
} search;

/* Takes folder/name. Fails when there is another already. */
static tri_status take(search *s, const char *name) {
    TRI_PATH(path, s->folder, name);
    if (s->out[0])
        return tri__fail(TRI_USAGE, "%s and %s: which one is meant? Keep one, or name the file", s->out, name);
    memcpy(s->out, path, sizeof path);
    return TRI_OK;
}

/* One file: train.csv. */
static tri_status find_file(search *s, const char *name) {
    char ending[TRI_ENDING_BYTES];
    for (int i = 0; tri__table_ending(s->shared, i, ending); i++) {
        const char *file = TRI_TEXT(64, "%s%s", name, ending);
        TRI_PATH(path, s->folder, file);
        int there;
        TRI_TRY(tri__file_there(path, &there));
        if (there) TRI_TRY(take(s, file));
    }
    return TRI_OK;
}

/* Whether text[n] numbers a part: "00000-of-00003", "part-7", "0". */
static int is_number(const char *text, size_t n) {
    size_t digits = 0;
    if (n >= 4 && !strncmp(text, "part", 4)) text += 4, n -= 4;
    for (size_t i = 0; i < n; i++) {
        if (n - i > 4 && i && !strncmp(text + i, "-of-", 4)) i += 3;
        else if (isdigit((unsigned char)text[i])) digits++;
        else if (i || (text[i] != '-' && text[i] != '_')) return 0;
    }
    return digits > 0;
}

/* Several files: train-00000-of-00003.arrow, train_1.csv. All that begin and end alike must be numbered. */
static tri_status find_parts(search *s, const char *name, char joint, const char *ending) {
    size_t start = strlen(name) + 1, end = strlen(ending);
    const char *first = NULL, *other = NULL;
    int parts = 0;
    for (int i = 0; i < s->files->n; i++) {
        const char *file = s->files->name[i];
        size_t n = strlen(file);
        if (n <= start + end || strncmp(file, name, start - 1) || file[start - 1] != joint ||
            !tri__text_ends(file, ending))
            continue;
        if (is_number(file + start, n - start - end)) first = file, parts++;
        else other = file;
    }
    if (!parts) return TRI_OK;
    if (other)
        return tri__fail(TRI_USAGE, "%s: %s is numbered like a part of a table, %s is not; move it, or name the files",
                         s->folder, first, other);
    return take(s, parts == 1 ? first : TRI_TEXT(TRI_PATH_MAX, "%s%c*%s", name, joint, ending));
}

/* All files of a folder inside: train/part-0.csv, train/data-00000-of-00002.arrow. */
static tri_status find_inside(search *s, const char *name) {
    TRI_OWNED(tri__names_free) tri_names files = {0};
    int there;
    TRI_PATH(folder, s->folder, name);
    TRI_TRY(tri__folder_there(folder, &there));
    if (!there) return TRI_OK;
    TRI_TRY(tri__folder_list(folder, &files));
    char ending[TRI_ENDING_BYTES];
    for (int e = 0; tri__table_ending(s->shared, e, ending); e++) {
        int parts = 0, last = 0;
        for (int i = 0; i < files.n; i++)
            if (files.name[i][0] != '.' && tri__text_ends(files.name[i], ending)) parts++, last = i;
        char inner[TRI_PATH_MAX];
        if (!parts) continue;
        int n = parts == 1 ? snprintf(inner, sizeof inner, "%s/%s", name, files.name[last])
                           : snprintf(inner, sizeof inner, "%s/*%s", name, ending);
        TRI_TRY(n < TRI_PATH_MAX ? take(s, inner) : tri__fail(TRI_USAGE, "%s: its path is too long", folder));
    }
    return TRI_OK;
}

/* The folder's table with one of these names, in one file or, if there is none, in parts; "" when none. Fails when
 * there are two. Data sets of Hugging Face keep state.json beside their tables: such endings come last. */
static tri_status find(const char *folder, const tri_names *files, const char *const *names,
                       char out[static TRI_PATH_MAX]) {
    char ending[TRI_ENDING_BYTES];
    out[0] = 0;
    for (int shared = 0; shared < 2 && !out[0]; shared++) {
        search s = {folder, files, shared, out};
        for (int i = 0; names[i]; i++) TRI_TRY(find_file(&s, names[i]));
        for (int i = 0; names[i] && !out[0]; i++) {
            for (int e = 0; tri__table_ending(shared, e, ending); e++) {
                TRI_TRY(find_parts(&s, names[i], '-', ending));
                TRI_TRY(find_parts(&s, names[i], '_', ending));
            }
            TRI_TRY(find_inside(&s, names[i]));
        }
    }
    return TRI_OK;
}

static tri_status find_all(const char *folder, tri_data_files *files) {
    static const char *const train[] = {"train", NULL}, *const valid[] = {"valid", "val", "validation", NULL},
                             *const test[] = {"test", NULL};
    TRI_OWNED(tri__names_free) tri_names names = {0};
    TRI_TRY(tri__folder_list(folder, &names));
    TRI_TRY(find(folder, &names, train, files->train));
    TRI_TRY(find(folder, &names, valid, files->valid));
    return find(folder, &names, test, files->test);
}

/* A folder without tables: names a table in another format, if there is one. */
static tri_status none_found(const char *folder) {
    static const char *const names[] = {"train", "valid", "val", "test"},
                      *const others[] = {"csv.zip", "csv.bz2", "csv.xz", "xlsx", "xls", "txt"};
    char endings[TRI_ENDINGS_BYTES], accepted[TRI_ENDINGS_BYTES + 128];
    snprintf(accepted, sizeof accepted, "has none of train, valid, val, validation, test as %s, in one file or in "
             "parts", tri__table_endings(endings));
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t e = 0; e < sizeof others / sizeof *others; e++) {
            const char *file = TRI_TEXT(64, "%s.%s", names[n], others[e]);
            TRI_PATH(path, folder, file);
            if (tri__is_file(path))
                return tri__fail(TRI_NOINPUT, "%s: %s; there is %s: trident inspect %s says how to make a table of it",
                                 folder, accepted, file, path);
        }
    return tri__fail(TRI_NOINPUT, "%s: %s", folder, accepted);
}

/* The same table for all. */
static tri_status take_one(const char *path, tri_data_files *files) {
    files->one = 1;
    TRI_TRY(tri__path_join(files->train, "", path));
    TRI_TRY(tri__path_join(files->valid, "", path));
    return tri__path_join(files->test, "", path);
}

/* Several tables in memory: "memory:train+valid". */
static tri_status find_memory(const char *names, tri_data_files *files) {
    static const char *const known[] = {"train", "valid", "test"};
    char *const to[] = {files->train, files->valid, files->test};
    for (const char *name = names; *name; name += *name == '+') {
        int n = (int)strcspn(name, "+"), k = 0;
        while (k < 3 && (strlen(known[k]) != (size_t)n || strncmp(name, known[k], (size_t)n))) k++;
        if (k == 3)
            return tri__fail(TRI_USAGE, TRI_MEMORY_PREFIX "%s: of several tables in memory the names are train, valid "
                             "and test", names);
        snprintf(to[k], TRI_PATH_MAX, TRI_MEMORY_PREFIX "%s", known[k]);
        name += n;
    }
    return TRI_OK;
}

tri_status tri__data_files(const char *path, tri_data_files *files) {
    tri_kind kind;
    int there;
    *files = (tri_data_files){0};
    if (!path)
        return tri__fail(TRI_USAGE, "no data: give --data-path, a table or a folder of train, valid and test tables");
    const char *memory = tri__memory_name(path);
    if (memory && strchr(memory, '+')) return find_memory(memory, files);
    if (memory) return take_one(path, files);
    TRI_TRY(tri__path_kind(path, &kind));
    if (kind == TRI_KIND_FILE || tri__parts_named(path)) return take_one(path, files);
    if (strcmp(path, "-") == 0)
        return tri__fail(TRI_USAGE,
                         "--data-path -: a table is read more than once, so not from stdin; save it to a file first");
    if (kind == TRI_KIND_OTHER)
        return tri__fail(TRI_USAGE, "%s is neither a file nor a folder (--data-path); save the table to a file first",
                         path);
    if (kind == TRI_KIND_NONE) return tri__fail(TRI_NOINPUT, "%s: no such file or folder (--data-path)", path);
    TRI_TRY(find_all(path, files));
    TRI_PATH(inside, path, "data"); /* as in repositories of Hugging Face */
    TRI_TRY(tri__folder_there(inside, &there));
    if (!files->train[0] && !files->valid[0] && !files->test[0] && there) TRI_TRY(find_all(inside, files));
    return files->train[0] || files->valid[0] || files->test[0] ? TRI_OK : none_found(path);
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
    return tri__fail(TRI_IO, "cannot lock %s: %s. A run folder is locked so that no second run writes there: choose an "
                     "--output-dir on a file system with locks (of NFS: with lockd, or mounted with -o "
                     "local_lock=flock)", folder, strerror(cause));
}

tri_status tri__folder_lock(const char *folder, const tri_stop *stop, int *lock) {
    TRI_TRY(tri__folder_make(folder));
    TRI_PATH(path, folder, ".lock");
    TRI_OWNED(tri__fd_drop) int fd = -1;
    TRI_TRY(tri__file_own(path, TRI_OWN_UPDATE, &fd));
    tri_lock_result result = tri__lock(fd, LOCK_EX, LOCK_SECONDS, stop);
    const char *text = TRI_TEXT(32, "%d\n", (int)getpid());
    if (result != TRI_LOCK_TAKEN) return not_locked(result, fd, folder, errno, stop);
    TRI_TRY(tri__file_resize(fd, 0, path));
    TRI_TRY(tri__write_at(fd, 0, text, strlen(text), path));
    *lock = fd, fd = -1;
    return TRI_OK;
}
