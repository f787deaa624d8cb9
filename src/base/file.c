/* file.c - files and paths on POSIX. Everything is opened without blocking and checked through its descriptor, so that
 * a FIFO or a device given by mistake is refused instead of waited for, and the file that was checked is the one that
 * is used. */
#include "base/file_parts.h"

#include "base/file_call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

tri_status tri__fail_errno(const char *verb, const char *path, tri_status missing) {
    int cause = errno;
    tri_status code = cause == ENOENT || cause == ENOTDIR                      ? missing
                      : cause == EMFILE || cause == ENFILE || cause == ENOMEM ? TRI_RESOURCE
                                                                              : TRI_IO;
    return tri__fail(code, "cannot %s %s: %s", verb, path, strerror(cause));
}

int tri__open_at(int at, const char *name, int flags, mode_t mode) {
    int fd;
    tri__call_begin(TRI_CALL_OPEN, name);
    do fd = openat(at, name, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    tri__call_end();
    return fd;
}

static const char *kind_words(mode_t mode) {
    return S_ISLNK(mode)    ? "a symbolic link"
           : S_ISDIR(mode)  ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

static tri_status not_ours(const char *path, mode_t mode) {
    return tri__fail(TRI_IO,
                     "cannot write %s: it is not a regular file but %s, and Trident neither writes through that nor "
                     "removes it; remove or rename it, or name another folder", path, kind_words(mode));
}

/* ---- reading ---- */

/* The size of a regular file; anything else is refused (`other`), and closed. */
static tri_status regular_size(const char *path, int *fd, tri_status other, size_t *size) {
    struct stat info;
    tri_status status = TRI_OK;
    if (fstat(*fd, &info)) status = tri__fail_errno("read", path, TRI_IO);
    else if (S_ISDIR(info.st_mode)) status = tri__fail(other, "%s is a folder; a file is expected", path);
    else if (!S_ISREG(info.st_mode))
        status = tri__fail(other, "%s is not a regular file (a pipe or a device); copy it to a file first", path);
    if (status != TRI_OK) tri__fd_drop(fd);
    else *size = (size_t)info.st_size;
    return status;
}

tri_status tri__file_open(const char *path, int *fd, size_t *size) {
    *fd = tri__open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
    if (*fd < 0) return tri__fail_errno("open", path, TRI_NOINPUT);
    return regular_size(path, fd, TRI_IO, size);
}

tri_status tri__file_open_any(const char *path, int *fd) {
    struct stat info;
    *fd = tri__open_at(AT_FDCWD, path, O_RDONLY, 0);
    if (*fd < 0) return tri__fail_errno("open", path, TRI_NOINPUT);
    if (fstat(*fd, &info) || !S_ISDIR(info.st_mode)) return TRI_OK;
    tri__fd_drop(fd);
    return tri__fail(TRI_IO, "%s is a folder; a file is expected", path);
}

/* Opens `part` of the open folder `at` without following links; `path` is for the message. */
static tri_status open_part(int at, const char *part, int flags, const char *path, int *fd) {
    struct stat info;
    *fd = tri__open_at(at, part, flags | O_NOFOLLOW, 0);
    if (*fd >= 0) return TRI_OK;
    int cause = errno;
    if (fstatat(at, part, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode))
        return tri__fail(TRI_DATA,
                         "%s: '%s' is a symbolic link, and a name that comes out of an index or a manifest is not "
                         "followed out of its folder; make a copy with the files themselves (cp -rL) and use that",
                         path, part);
    errno = cause;
    return tri__fail_errno("open", path, TRI_NOINPUT);
}

static tri_status open_listed(const char *folder, const char *name, const char *path, int *fd) {
    TRI_OWNED(tri__fd_drop) int at = tri__open_at(AT_FDCWD, folder, O_PATH | O_DIRECTORY, 0);
    if (at < 0) return tri__fail_errno("open the folder", folder, TRI_NOINPUT);
    for (const char *slash; (slash = strchr(name, '/')); name = slash + 1) {
        int inner;
        const char *part = TRI_TEXT(TRI_PATH_MAX, "%.*s", (int)(slash - name), name);
        TRI_TRY(open_part(at, part, O_PATH | O_DIRECTORY, path, &inner));
        close(at);
        at = inner;
    }
    return open_part(at, name, O_RDONLY | O_NONBLOCK, path, fd);
}

tri_status tri__file_open_listed(const char *folder, const char *name, int *fd, size_t *size) {
    TRI_PATH(path, folder, name);
    TRI_TRY(open_listed(folder, name, path, fd));
    return regular_size(path, fd, TRI_DATA, size);
}

tri_status tri__file_read(const char *path, size_t limit, char **text, size_t *size) {
    TRI_OWNED(tri__fd_drop) int fd = -1;
    size_t expected = 0, got = 0;
    TRI_TRY(tri__file_open(path, &fd, &expected));
    if (expected > limit)
        return tri__fail(TRI_DATA, "%s has %zu bytes; at most %zu are accepted", path, expected, limit);
    TRI_OWNED(tri__free_at) char *data = malloc(expected + 1);
    if (!data) return tri__fail(TRI_RESOURCE, "no memory for the %zu bytes of %s", expected, path);
    while (got < expected) {
        ssize_t part = TRI_DURING(TRI_CALL_READ, path, read(fd, data + got, expected - got));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return tri__fail_errno("read", path, TRI_IO);
        if (part == 0) return tri__fail(TRI_IO, "%s became shorter while it was read", path);
        got += (size_t)part;
    }
    data[expected] = 0;
    *text = TRI_GIVE(data), *size = expected;
    return TRI_OK;
}

void tri__file_start(const char *path, char *text, size_t size) {
    size_t used = 0;
    TRI_OWNED(tri__fd_drop) int fd = tri__open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
    while (fd >= 0 && used < size - 1) {
        ssize_t n = read(fd, text + used, size - 1 - used);
        if (n == 0 || (n < 0 && errno != EINTR)) break;
        if (n > 0) used += (size_t)n;
    }
    text[used] = 0;
}

uint64_t tri__file_number(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

/* ---- writing ---- */

/* at -1: where the descriptor stands, which may be a pipe's. */
static tri_status write_from(int fd, off_t at, const char *data, size_t size, const char *path) {
    for (size_t done = 0; done < size;) {
        ssize_t part = TRI_DURING(TRI_CALL_WRITE, path, at < 0 ? write(fd, data + done, size - done)
                                         : pwrite(fd, data + done, size - done, at + (off_t)done));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return tri__fail_errno("write", path, TRI_IO);
        done += (size_t)part;
    }
    return TRI_OK;
}

tri_status tri__write_all(int fd, const void *data, size_t size, const char *path) {
    return write_from(fd, -1, data, size, path);
}

tri_status tri__write_at(int fd, uint64_t at, const void *data, size_t size, const char *path) {
    return write_from(fd, (off_t)at, data, size, path);
}

tri_status tri__file_resize(int fd, uint64_t size, const char *path) {
    int failed;
    do failed = ftruncate(fd, (off_t)size);
    while (failed && errno == EINTR);
    return failed ? tri__fail_errno("write", path, TRI_IO) : TRI_OK;
}

int tri__close(int fd) { return close(fd) && errno != EINTR ? -1 : 0; }

void tri__fd_drop(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

int tri__file_sync(int fd, const char *path) { return TRI_DURING(TRI_CALL_SYNC, path, fsync(fd)); }

tri_status tri__file_bring(const char *path) {
    TRI_OWNED(tri__fd_drop) int fd = tri__open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return errno == ENOENT ? TRI_OK : tri__fail_errno("open", path, TRI_IO);
    return tri__file_sync(fd, path) ? tri__fail_errno("bring to disk", path, TRI_IO) : TRI_OK;
}

/* TRI_OK if the name is free or a regular file. */
static tri_status check_free(int at, const char *name, const char *path) {
    struct stat info;
    if (fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? TRI_OK : tri__fail_errno("write", path, TRI_IO);
    return S_ISREG(info.st_mode) ? TRI_OK : not_ours(path, info.st_mode);
}

tri_status tri__file_check_own(const char *path) { return check_free(AT_FDCWD, path, path); }

/* Creates a file in the folder of `path`; its full path goes to `whole`. */
static tri_status make_sibling(const tri_spot *spot, const char *path, char whole[static TRI_PATH_MAX], int *fd) {
    size_t folder = strlen(path) - strlen(spot->name);
    for (int attempt = 0; attempt < 100; attempt++) {
        int length = snprintf(whole, TRI_PATH_MAX, "%s.tmp-%ld-%d", path, (long)getpid(), attempt);
        if (length >= TRI_PATH_MAX) return tri__fail(TRI_USAGE, "the path is too long: %s", path);
        *fd = tri__open_at(spot->at, whole + folder, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (*fd >= 0) return TRI_OK;
        if (errno != EEXIST) break;
    }
    return tri__fail_errno("create", whole, TRI_IO);
}

tri_status tri__file_sibling(const char *path, char name[static TRI_PATH_MAX], int *fd) {
    TRI_OWNED(tri__spot_close) tri_spot spot = {.at = -1};
    TRI_TRY(tri__spot_open(path, TRI_IO, &spot));
    return make_sibling(&spot, path, name, fd);
}

static tri_status write_spot(const tri_spot *spot, const char *path, const void *data, size_t size) {
    char whole[TRI_PATH_MAX];
    const char *name = whole + strlen(path) - strlen(spot->name);
    int fd = -1;
    TRI_TRY(check_free(spot->at, spot->name, path));
    TRI_TRY(make_sibling(spot, path, whole, &fd));
    tri_status status = tri__write_all(fd, data, size, path);
    if (status == TRI_OK && tri__file_sync(fd, path)) status = tri__fail_errno("write", path, TRI_IO);
    if (tri__close(fd) && status == TRI_OK) status = tri__fail_errno("write", path, TRI_IO);
    tri__call_begin(TRI_CALL_RENAME, path);
    if (status == TRI_OK && renameat(spot->at, name, spot->at, spot->name))
        status = tri__fail_errno("write", path, TRI_IO);
    tri__call_end();
    if (status != TRI_OK) unlinkat(spot->at, name, 0);
    return status;
}

tri_status tri__file_write(const char *path, const void *data, size_t size) {
    TRI_OWNED(tri__spot_close) tri_spot spot = {.at = -1};
    TRI_TRY(tri__spot_open(path, TRI_IO, &spot));
    return write_spot(&spot, path, data, size);
}

tri_status tri__file_own(const char *path, tri_own_way way, int *fd) {
    static const int flags[] = {[TRI_OWN_NEW] = O_WRONLY | O_CREAT | O_EXCL,
                                [TRI_OWN_FRESH] = O_WRONLY | O_CREAT | O_EXCL,
                                [TRI_OWN_APPEND] = O_WRONLY | O_CREAT | O_APPEND,
                                [TRI_OWN_UPDATE] = O_RDWR | O_CREAT};
    TRI_OWNED(tri__spot_close) tri_spot spot = {.at = -1};
    struct stat info;
    *fd = -1;
    TRI_TRY(tri__spot_open(path, TRI_IO, &spot));
    if (way != TRI_OWN_NEW) TRI_TRY(check_free(spot.at, spot.name, path));
    if (way == TRI_OWN_FRESH && unlinkat(spot.at, spot.name, 0) && errno != ENOENT)
        return tri__fail_errno("write", path, TRI_IO);
    TRI_OWNED(tri__fd_drop) int made = tri__open_at(spot.at, spot.name, flags[way] | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (made < 0 || fstat(made, &info)) return tri__fail_errno("write", path, TRI_IO);
    if (!S_ISREG(info.st_mode)) return not_ours(path, info.st_mode); /* replaced in the meantime */
    *fd = made, made = -1;
    return TRI_OK;
}

tri_status tri__file_nameless(const char *folder, int *fd) {
    char path[TRI_PATH_MAX], name[TRI_PATH_MAX];
    *fd = tri__open_at(AT_FDCWD, folder, O_TMPFILE | O_RDWR, 0600);
    if (*fd >= 0) return TRI_OK;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return tri__fail_errno("make a file in", folder, TRI_IO);
    TRI_TRY(tri__path_join(path, folder, ".offload")); /* the file system has no O_TMPFILE */
    TRI_TRY(tri__file_sibling(path, name, fd));
    (void)tri__file_remove(name); /* else the next run removes it */
    return TRI_OK;
}

tri_status tri__null_open(int *fd) {
    *fd = tri__open_at(AT_FDCWD, "/dev/null", O_RDWR, 0);
    return *fd >= 0 ? TRI_OK : tri__fail_errno("open", "/dev/null", TRI_IO);
}

tri_status tri__standard_open(int *no_output) {
    *no_output = fcntl(STDOUT_FILENO, F_GETFD) < 0;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        int got; /* open returns the lowest free descriptor: this one */
        TRI_TRY(tri__null_open(&got));
        fcntl(got, F_SETFD, 0);
    }
    return TRI_OK;
}

tri_status tri__output_refuse(void) {
    TRI_OWNED(tri__fd_drop) int fd = tri__open_at(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) return tri__fail_errno("open", "/", TRI_IO);
    return TRI_OK;
}

/* ---- names ---- */

int tri__file_remove(const char *path) {
    return TRI_DURING(TRI_CALL_REMOVE, path, unlinkat(AT_FDCWD, path, 0) && errno != ENOENT ? -1 : 0);
}

int tri__file_touch(const char *path) {
    return TRI_DURING(TRI_CALL_OPEN, path, utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW));
}

int tri__path_rename(const char *from, const char *to, tri_rename way) {
    static const unsigned flags[] = {
        [TRI_RENAME_REPLACE] = 0, [TRI_RENAME_EXCHANGE] = RENAME_EXCHANGE, [TRI_RENAME_NEW] = RENAME_NOREPLACE};
    return TRI_DURING(TRI_CALL_RENAME, to, renameat2(AT_FDCWD, from, AT_FDCWD, to, flags[way]));
}

int tri__path_real(const char *path, char out[static TRI_PATH_MAX]) {
    char real[PATH_MAX]; /* given, so that nothing is allocated */
    int fits = realpath(path, real) && strlen(real) < TRI_PATH_MAX;
    if (fits) memcpy(out, real, strlen(real) + 1);
    return fits;
}

int tri__file_same(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* stat(), announced. */
static int look_at(const char *path, struct stat *info) { return TRI_DURING(TRI_CALL_LOOK, path, stat(path, info)); }

tri_stamp tri__path_stamp(const char *path) {
    struct stat info;
    if (look_at(path, &info)) return (tri_stamp){0};
    return (tri_stamp){(uint64_t)info.st_dev, (uint64_t)info.st_ino, (uint64_t)info.st_size, info.st_mtim};
}

tri_status tri__path_kind(const char *path, tri_kind *kind) {
    struct stat info;
    *kind = TRI_KIND_NONE;
    if (look_at(path, &info)) {
        int none = errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG;
        return none ? TRI_OK : tri__fail_errno("look at", path, TRI_IO);
    }
    *kind = S_ISREG(info.st_mode) ? TRI_KIND_FILE : S_ISDIR(info.st_mode) ? TRI_KIND_FOLDER : TRI_KIND_OTHER;
    return TRI_OK;
}

static tri_status is_kind(const char *path, tri_kind wanted, int *there) {
    tri_kind kind;
    tri_status status = tri__path_kind(path, &kind);
    *there = kind == wanted;
    return status;
}

tri_status tri__file_there(const char *path, int *there) { return is_kind(path, TRI_KIND_FILE, there); }

tri_status tri__folder_there(const char *path, int *there) { return is_kind(path, TRI_KIND_FOLDER, there); }

int tri__is_file(const char *path) {
    int there;
    return tri__file_there(path, &there) == TRI_OK && there;
}

int tri__is_folder(const char *path) {
    int there;
    return tri__folder_there(path, &there) == TRI_OK && there;
}

int tri__path_mode(const char *path) {
    struct stat info;
    return look_at(path, &info) ? 0 : (int)(info.st_mode & 0777);
}

tri_status tri__path_join(char out[static TRI_PATH_MAX], const char *folder, const char *name) {
    size_t n = folder ? strlen(folder) : 0;
    int alone = n == 0 || name[0] == '/';
    const char *slash = alone || folder[n - 1] == '/' ? "" : "/";
    int length = snprintf(out, TRI_PATH_MAX, "%s%s%s", alone ? "" : folder, slash, name);
    if (length < 0 || length >= TRI_PATH_MAX)
        return tri__fail(TRI_USAGE, "the path is too long: %s%s%s", alone ? "" : folder, slash, name);
    return TRI_OK;
}

tri_status tri__path_parent(const char *path, char out[static TRI_PATH_MAX]) {
    TRI_TRY(tri__path_join(out, "", path));
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/') n--;
    while (n > 0 && out[n - 1] != '/') n--;
    while (n > 1 && out[n - 1] == '/') n--;
    out[n] = 0;
    return n ? TRI_OK : tri__path_join(out, "", ".");
}
