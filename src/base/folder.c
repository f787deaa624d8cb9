/* folder.c - lists, creates and removes folders. Entries are removed through the descriptor of their folder, and links
 * without following them: nothing outside is ever touched, even if the content changes concurrently. */
#include "base/file_parts.h"

#include "base/file_call.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

tri_status tri__spot_open(const char *path, tri_status missing, tri_spot *spot) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    if (length >= TRI_PATH_MAX || strlen(name) >= sizeof spot->name)
        return tri__fail(TRI_USAGE, "the path is too long: %s", path);
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return tri__fail(TRI_USAGE, "%s does not end with a name", path);
    const char *folder = length ? TRI_TEXT(TRI_PATH_MAX, "%.*s", (int)length, path) : ".";
    memcpy(spot->name, name, strlen(name) + 1);
    spot->at = tri__open_at(AT_FDCWD, folder, O_PATH | O_DIRECTORY, 0);
    return spot->at >= 0 ? TRI_OK : tri__fail_errno("open the folder", folder, missing);
}

void tri__spot_close(tri_spot *spot) { tri__fd_drop(&spot->at); }

/* ---- listing ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static tri_status add_name(tri_names *names, size_t *room, const char *name, const char *path) {
    char *copy = tri__grow(&names->name, room, (size_t)names->n + 1, sizeof *names->name) ? strdup(name) : NULL;
    if (!copy) return tri__fail(TRI_RESOURCE, "no memory for the names in %s", path);
    names->name[names->n++] = copy;
    return TRI_OK;
}

/* Leaves the descriptor open. */
static tri_status list_open(int fd, const char *path, tri_names *names) {
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    size_t room = 0;
    *names = (tri_names){0};
    DIR *folder = own >= 0 ? fdopendir(own) : NULL;
    if (folder) rewinddir(folder); /* both descriptors share a position */
    tri_status status = folder ? TRI_OK : tri__fail_errno("list", path, TRI_IO);
    if (!folder && own >= 0) close(own);
    while (status == TRI_OK) {
        errno = 0;
        const struct dirent *entry = TRI_DURING(TRI_CALL_LIST, path, readdir(folder));
        if (!entry && errno)
            status = tri__fail_errno("list", path, TRI_IO); /* else the rest would be missed silently */
        if (!entry) break;
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            status = add_name(names, &room, entry->d_name, path);
    }
    if (folder) closedir(folder);
    if (status == TRI_OK && names->n) qsort(names->name, (size_t)names->n, sizeof *names->name, by_name);
    if (status != TRI_OK) tri__names_free(names);
    return status;
}

tri_status tri__folder_list(const char *path, tri_names *names) {
    *names = (tri_names){0};
    TRI_OWNED(tri__fd_drop) int fd = tri__open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return tri__fail_errno("open the folder", path, TRI_NOINPUT);
    return list_open(fd, path, names);
}

void tri__names_free(tri_names *names) {
    for (int i = 0; i < names->n; i++) free(names->name[i]);
    free(names->name);
    *names = (tri_names){0};
}

/* Whether the open folder has that file, `depth` levels deep. What cannot be read holds nothing. */
static int holds(int fd, const char *path, const struct stat *file, int depth) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    int found = 0;
    if (list_open(fd, path, &names) != TRI_OK) return 0;
    for (int i = 0; i < names.n && !found; i++) {
        struct stat info;
        if (fstatat(fd, names.name[i], &info, 0)) continue;
        found = info.st_dev == file->st_dev && info.st_ino == file->st_ino;
        if (found || !S_ISDIR(info.st_mode) || !depth) continue;
        TRI_OWNED(tri__fd_drop) int inner = tri__open_at(fd, names.name[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
        if (inner < 0) continue;
        found = holds(inner, path, file, depth - 1);
    }
    return found;
}

int tri__path_holds(const char *path, const char *file) {
    enum { LEVELS = 8 };
    struct stat info;
    if (tri__file_same(path, file)) return 1;
    TRI_OWNED(tri__fd_drop) int fd = stat(file, &info) ? -1 : tri__open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    return fd >= 0 && holds(fd, path, &info, LEVELS);
}

/* ---- making ---- */

static int make_at(const char *path) { return TRI_DURING(TRI_CALL_MAKE, path, mkdirat(AT_FDCWD, path, 0777)); }

/* Brings the name of a new folder to disk: after a power loss what was synced inside it would be gone without it. A
 * parent that may not be opened cannot be synced by us. */
static tri_status sync_name(const char *path) {
    char parent[TRI_PATH_MAX];
    TRI_TRY(tri__path_parent(path, parent));
    TRI_OWNED(tri__fd_drop) int fd = tri__open_at(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return TRI_OK;
    int failed = tri__file_sync(fd, parent) && errno != EINVAL;
    return failed ? tri__fail_errno("synchronise the folder of", path, TRI_IO) : TRI_OK;
}

tri_status tri__folder_make(const char *path) {
    char part[TRI_PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return tri__fail(TRI_USAGE, "a folder's path must have 1 to %d bytes: \"%s\"", TRI_PATH_MAX - 1, path);
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != 0) continue;
        part[i] = 0;
        int failed = make_at(part);
        if (failed && errno != EEXIST) return tri__fail_errno("create the folder", part, TRI_IO);
        if (!failed) TRI_TRY(sync_name(part));
        if (i < length) part[i] = '/';
    }
    tri_kind kind;
    TRI_TRY(tri__path_kind(path, &kind));
    if (kind == TRI_KIND_NONE)
        return tri__fail(TRI_IO, "cannot create the folder %s: a link that leads nowhere has that name", path);
    if (kind != TRI_KIND_FOLDER) return tri__fail(TRI_IO, "cannot create the folder %s: a file has that name", path);
    return TRI_OK;
}

tri_status tri__folder_create(const char *path) {
    return make_at(path) ? tri__fail_errno("create the folder", path, TRI_IO) : TRI_OK;
}

tri_status tri__folder_temporary(char path[static TRI_PATH_MAX]) {
    return mkdtemp(path) ? TRI_OK : tri__fail_errno("create a folder", path, TRI_IO);
}

/* ---- removing ---- */

enum { DEPTH_MAX = 16, ATTEMPTS = 4 };

static tri_status empty_open(int fd, const char *path, int depth);

static int unlink_at(int at, const char *name, int flags, const char *path) {
    return TRI_DURING(TRI_CALL_REMOVE, path, unlinkat(at, name, flags));
}

/* Removes `name` in the open folder `at` and its content, `depth` levels deep. `path`: the full path, for messages. A
 * missing entry was removed concurrently: not an error. */
static tri_status remove_at(int at, const char *name, const char *path, int depth) {
    TRI_OWNED(tri__fd_drop) int fd = tri__open_at(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) /* a file, or the link itself */
        return unlink_at(at, name, 0, path) && errno != ENOENT ? tri__fail_errno("remove", path, TRI_IO) : TRI_OK;
    if (fd < 0) return errno == ENOENT ? TRI_OK : tri__fail_errno("open the folder", path, TRI_IO);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) { /* others may still add files */
        TRI_TRY(empty_open(fd, path, depth));
        if (unlink_at(at, name, AT_REMOVEDIR, path) == 0 || errno == ENOENT) return TRI_OK;
        if (errno != ENOTEMPTY) break;
    }
    return tri__fail_errno("remove the folder", path, TRI_IO);
}

/* Removes the content of the open folder `fd`. */
static tri_status empty_open(int fd, const char *path, int depth) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    TRI_TRY(list_open(fd, path, &names));
    for (int i = 0; i < names.n; i++) {
        TRI_PATH(inner, path, names.name[i]);
        if (depth > 0) TRI_TRY(remove_at(fd, names.name[i], inner, depth - 1));
        else if (unlink_at(fd, names.name[i], 0, inner) && errno != ENOENT)
            return tri__fail_errno("remove", inner, TRI_IO);
    }
    return TRI_OK;
}

static tri_status remove_path(const char *path, int depth) {
    TRI_OWNED(tri__spot_close) tri_spot spot = {.at = -1};
    TRI_PATH(whole, "", path);
    for (size_t n = strlen(whole); n > 1 && whole[n - 1] == '/'; n--) whole[n - 1] = 0;
    TRI_TRY(tri__spot_open(whole, TRI_NOINPUT, &spot));
    return remove_at(spot.at, spot.name, whole, depth);
}

tri_status tri__folder_remove(const char *path) {
    tri_kind kind;
    TRI_TRY(tri__path_kind(path, &kind));
    if (kind == TRI_KIND_NONE) return tri__fail(TRI_NOINPUT, "cannot remove %s: there is no such folder", path);
    return remove_path(path, 0);
}
tri_status tri__folder_remove_all(const char *path) { return remove_path(path, DEPTH_MAX); }

/* ---- bringing to disk ---- */

tri_status tri__folder_sync(const char *path) {
    TRI_OWNED(tri__fd_drop) int fd = tri__open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return tri__fail_errno("open the folder", path, TRI_NOINPUT);
    /* EINVAL: this file system cannot sync folders. */
    if (tri__file_sync(fd, path) && errno != EINVAL) return tri__fail_errno("synchronise the folder", path, TRI_IO);
    return TRI_OK;
}

tri_status tri__folder_probe(const char *path, int who) {
    static const char block[4096];
    int fd;
    TRI_TRY(tri__folder_make(path));
    TRI_PATH(name, path, TRI_TEXT(32, ".probe-%d", who));
    TRI_TRY(tri__file_own(name, TRI_OWN_FRESH, &fd));
    tri_status status = tri__write_all(fd, block, sizeof block, name);
    if (status == TRI_OK && tri__file_sync(fd, name)) status = tri__fail_errno("bring to disk", name, TRI_IO);
    if (tri__close(fd) && status == TRI_OK) status = tri__fail_errno("write", name, TRI_IO);
    if (tri__file_remove(name) && status == TRI_OK) status = tri__fail_errno("remove", name, TRI_IO);
    return status;
}
