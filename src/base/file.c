/* file.c - files and paths on POSIX. Only regular files are read, and they are opened without blocking, so that a FIFO
 * or a device given by mistake is refused instead of waited for. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fails with "cannot VERB PATH: cause" and the status that errno means; `missing` when there is no such thing. */
static tri_status fail_errno(const char *verb, const char *path, tri_status missing) {
    int cause = errno;
    tri_status code = cause == ENOENT || cause == ENOTDIR                      ? missing
                      : cause == EMFILE || cause == ENFILE || cause == ENOMEM ? TRI_RESOURCE
                                                                              : TRI_IO;
    return tri__fail(code, "cannot %s %s: %s", verb, path, strerror(cause));
}

/* The size of a regular file; anything else is refused, and closed. */
static tri_status regular_size(const char *path, int fd, size_t *size) {
    struct stat info;
    tri_status status = TRI_OK;
    if (fstat(fd, &info)) status = fail_errno("read", path, TRI_IO);
    else if (S_ISDIR(info.st_mode)) status = tri__fail(TRI_IO, "%s is a folder; a file is expected", path);
    else if (!S_ISREG(info.st_mode))
        status = tri__fail(TRI_IO, "%s is no regular file (a pipe or a device); copy it to a file first", path);
    if (status != TRI_OK) close(fd);
    else *size = (size_t)info.st_size;
    return status;
}

tri_status tri__file_open(const char *path, int *fd, size_t *size) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return fail_errno("open", path, TRI_NOINPUT);
    return regular_size(path, *fd, size);
}

/* Opens `part` of the open folder `at`, itself and not what it may point to; `path` stands in the message. */
static tri_status open_part(int at, const char *part, int flags, const char *path, int *fd) {
    struct stat info;
    *fd = openat(at, part, flags | O_NOFOLLOW | O_CLOEXEC);
    if (*fd >= 0) return TRI_OK;
    int cause = errno;
    if (fstatat(at, part, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode))
        return tri__fail(TRI_DATA,
                         "%s: '%s' is a symbolic link, and a name that comes out of an index or a manifest is not followed out of its "
                         "folder; make a copy with the files themselves (cp -rL) and use that",
                         path, part);
    errno = cause;
    return fail_errno("open", path, TRI_NOINPUT);
}

static tri_status open_listed(const char *folder, const char *name, const char *path, int *fd) {
    char part[TRI_PATH_MAX];
    int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return fail_errno("open the folder", folder, TRI_NOINPUT);
    tri_status status = TRI_OK;
    for (const char *slash; status == TRI_OK && (slash = strchr(name, '/')); name = slash + 1) {
        int inner;
        snprintf(part, sizeof part, "%.*s", (int)(slash - name), name);
        status = open_part(at, part, O_PATH | O_DIRECTORY, path, &inner);
        if (status != TRI_OK) break;
        close(at);
        at = inner;
    }
    if (status == TRI_OK) status = open_part(at, name, O_RDONLY | O_NONBLOCK, path, fd);
    close(at);
    return status;
}

tri_status tri__file_open_listed(const char *folder, const char *name, int *fd, size_t *size) {
    char path[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(path, folder, name));
    TRI_TRY(open_listed(folder, name, path, fd));
    return regular_size(path, *fd, size);
}

tri_status tri__file_read(const char *path, size_t limit, char **text, size_t *size) {
    int fd = -1;
    size_t expected = 0, got = 0;
    TRI_TRY(tri__file_open(path, &fd, &expected));
    tri_status status = TRI_OK;
    char *data = NULL;
    if (expected > limit) {
        status = tri__fail(TRI_DATA, "%s has %zu bytes; at most %zu are accepted", path, expected, limit);
        goto close;
    }
    data = malloc(expected + 1);
    if (!data) {
        status = tri__fail(TRI_RESOURCE, "no memory for the %zu bytes of %s", expected, path);
        goto close;
    }
    while (got < expected) {
        ssize_t part = read(fd, data + got, expected - got);
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) status = fail_errno("read", path, TRI_IO);
        if (part == 0) status = tri__fail(TRI_IO, "%s became shorter while it was read", path);
        if (part <= 0) goto close;
        got += (size_t)part;
    }
    data[expected] = 0;
    *text = data, *size = expected;
    data = NULL;
close:
    free(data);
    close(fd);
    return status;
}

void tri__file_start(const char *path, char *text, size_t size) {
    size_t used = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    for (ssize_t n = 1; fd >= 0 && n > 0 && used < size - 1; used += n > 0 ? (size_t)n : 0) n = read(fd, text + used, size - 1 - used);
    text[used] = 0;
    if (fd >= 0) close(fd);
}

tri_status tri__write_all(int fd, const void *data, size_t size, const char *path) {
    for (size_t done = 0; done < size;) {
        ssize_t part = write(fd, (const char *)data + done, size - done);
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return fail_errno("write", path, TRI_IO);
        done += (size_t)part;
    }
    return TRI_OK;
}

/* A new file beside `path`; its name goes into `name`. */
static tri_status open_sibling(const char *path, char name[static TRI_PATH_MAX], int *fd) {
    for (int attempt = 0; attempt < 100; attempt++) {
        int length = snprintf(name, TRI_PATH_MAX, "%s.tmp-%ld-%d", path, (long)getpid(), attempt);
        if (length >= TRI_PATH_MAX) return tri__fail(TRI_USAGE, "the path is too long: %s", path);
        *fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd >= 0) return TRI_OK;
        if (errno != EEXIST) break;
    }
    return fail_errno("create", name, TRI_IO);
}

tri_status tri__file_write(const char *path, const void *data, size_t size) {
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return tri__fail(TRI_IO, "cannot write %s: it is no regular file", path);
    char name[TRI_PATH_MAX];
    int fd = -1;
    TRI_TRY(open_sibling(path, name, &fd));
    tri_status status = tri__write_all(fd, data, size, path);
    if (status == TRI_OK && fsync(fd)) status = fail_errno("write", path, TRI_IO);
    if (close(fd) && status == TRI_OK) status = fail_errno("write", path, TRI_IO);
    if (status == TRI_OK && rename(name, path)) status = fail_errno("write", path, TRI_IO);
    if (status != TRI_OK) unlink(name);
    return status;
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
        if (mkdir(part, 0777) && errno != EEXIST) return fail_errno("create the folder", part, TRI_IO);
        if (i < length) part[i] = '/';
    }
    if (!tri__is_folder(path)) return tri__fail(TRI_IO, "cannot create the folder %s: a file has that name", path);
    return TRI_OK;
}

tri_status tri__folder_remove(const char *path) {
    DIR *folder = opendir(path);
    if (!folder) return fail_errno("open the folder", path, TRI_NOINPUT);
    tri_status status = TRI_OK;
    for (struct dirent *entry; status == TRI_OK && (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) && errno != ENOENT)
            status = tri__fail(TRI_IO, "cannot remove %s/%s: %s", path, entry->d_name, strerror(errno));
    }
    closedir(folder);
    if (status == TRI_OK && rmdir(path)) status = fail_errno("remove the folder", path, TRI_NOINPUT);
    return status;
}

tri_status tri__folder_sync(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno("open the folder", path, TRI_NOINPUT);
    tri_status status = TRI_OK;
    /* EINVAL: this file system has nothing to synchronise for a folder. */
    if (fsync(fd) && errno != EINVAL) status = fail_errno("synchronise the folder", path, TRI_IO);
    close(fd);
    return status;
}

tri_status tri__folder_probe(const char *path, int who) {
    char name[TRI_PATH_MAX], file[32];
    static const char block[4096];
    snprintf(file, sizeof file, ".probe-%d", who);
    TRI_TRY(tri__folder_make(path));
    TRI_TRY(tri__path_join(name, path, file));
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return fail_errno("write to the folder", path, TRI_IO);
    tri_status status = tri__write_all(fd, block, sizeof block, name);
    if (status == TRI_OK && fsync(fd)) status = fail_errno("bring to disk", name, TRI_IO);
    if (close(fd) && status == TRI_OK) status = fail_errno("write", name, TRI_IO);
    unlink(name);
    return status;
}

int tri__is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

int tri__is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
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
