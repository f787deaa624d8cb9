/* deliver.c - a user's output: written to a temporary sibling and renamed when it is whole, so that a failure or a kill
 * leaves what was there. Pipes, terminals and open descriptors are written into. */
#include "base/file_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int tri__path_is_open_file(const char *path) {
    static const char *const starts[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"};
    for (int i = 0; i < 4; i++)
        if (strncmp(path, starts[i], strlen(starts[i])) == 0) return 1;
    return 0;
}

/* An existing pipe, terminal or open file. */
static tri_status open_into(tri_delivery *d, const char *path) {
    d->fd = tri__open_at(AT_FDCWD, path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY, 0);
    if (d->fd < 0 && errno == ENXIO)
        return tri__fail(TRI_IO, "cannot write %s: nobody reads it; start the reader first", path);
    if (d->fd < 0) return tri__fail_errno("write", path, TRI_IO);
    int flags = fcntl(d->fd, F_GETFL);
    if (flags >= 0 && !fcntl(d->fd, F_SETFL, flags & ~O_NONBLOCK)) return TRI_OK;
    close(d->fd);
    return tri__fail_errno("write", path, TRI_IO);
}

static tri_status exists(const char *path) {
    return tri__fail(TRI_BUSY, "%s: exists already; name another file, or give --force to replace it", path);
}

tri_status tri__delivery_begin(tri_delivery *d, const char *path, int replaces) {
    struct stat info;
    *d = (tri_delivery){.fd = -1, .replaces = replaces};
    int there = stat(path, &info) == 0;
    if (!there && errno != ENOENT) return tri__fail_errno("write", path, TRI_IO);
    TRI_TRY(tri__path_join(d->path, "", path));
    if (there && (tri__path_is_open_file(path) || S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)))
        return open_into(d, path);
    int is_file = there && S_ISREG(info.st_mode);
    if (is_file && !replaces) return exists(path);
    if (is_file && !tri__path_real(path, d->path)) return tri__fail_errno("write", path, TRI_IO);
    TRI_TRY(tri__file_check_own(d->path));
    TRI_TRY(tri__file_sibling(d->path, d->made, &d->fd));
    if (is_file) (void)!fchmod(d->fd, info.st_mode & 0777);
    return TRI_OK;
}

/* A file system that cannot refuse an existing name in one call gets the nearest: a look, then a rename. */
static tri_status commit(const tri_delivery *d) {
    int failed = tri__path_rename(d->made, d->path, d->replaces ? TRI_RENAME_REPLACE : TRI_RENAME_NEW);
    if (failed && errno == EEXIST) return exists(d->path);
    if (failed && !d->replaces && (errno == EINVAL || errno == ENOSYS)) {
        tri_kind kind;
        TRI_TRY(tri__path_kind(d->path, &kind));
        if (kind != TRI_KIND_NONE) return exists(d->path);
        failed = tri__path_rename(d->made, d->path, TRI_RENAME_REPLACE);
    }
    return failed ? tri__fail_errno("write", d->path, TRI_IO) : TRI_OK;
}

tri_status tri__delivery_end(tri_delivery *d, tri_status status) {
    int unsynced = status == TRI_OK && d->made[0] && tri__file_sync(d->fd, d->path);
    if (unsynced) status = tri__fail_errno("write", d->path, TRI_IO);
    if (tri__close(d->fd) && status == TRI_OK) status = tri__fail_errno("write", d->path, TRI_IO);
    if (!d->made[0]) return status;
    if (status == TRI_OK) status = commit(d);
    if (status != TRI_OK) (void)tri__file_remove(d->made);
    return status;
}

tri_status tri__file_deliver(const char *path, const void *data, size_t size, int replaces) {
    tri_delivery d;
    TRI_TRY(tri__delivery_begin(&d, path, replaces));
    return tri__delivery_end(&d, tri__write_all(d.fd, data, size, path));
}
