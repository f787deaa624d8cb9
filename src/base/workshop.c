/* workshop.c - a temporary folder that a killed process does not leave for good. Each has a locked file; whoever opens
 * the next one in the same place removes those whose lock is free. A folder without that file is being made, or was
 * never finished: only an empty one is removed, and its maker takes another name. */
#include "base/file.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = ".trident-", lock_name[] = ".lock";
#define RANDOM "XX" "XX" "XX" /* tri__folder_temporary fills it in */

/* Takes the lock of a workshop; *lock is -1 where it is held, or not there. */
static tri_status take_lock(const char *folder, int make, int *lock) {
    struct stat info;
    *lock = -1;
    TRI_PATH(path, folder, lock_name);
    if (!make && !tri__is_file(path)) return TRI_OK;
    int fd;
    TRI_TRY(tri__file_own(path, TRI_OWN_UPDATE, &fd));
    tri_lock_result result = tri__lock(fd, LOCK_EX, 0, NULL);
    int is_mine = result == TRI_LOCK_TAKEN || (make && result == TRI_LOCK_NONE);
    if (is_mine && fstat(fd, &info) == 0 && info.st_nlink) *lock = fd;
    else close(fd);
    return TRI_OK;
}

/* What cannot be removed is left: it is somebody else's, or the next one's task. */
static void remove_left(const char *parent) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    if (tri__folder_list(parent, &names) != TRI_OK) return;
    for (int i = 0; i < names.n; i++) {
        char folder[TRI_PATH_MAX];
        TRI_OWNED(tri__fd_drop) int lock = -1;
        size_t length = strlen(names.name[i]);
        if (strncmp(names.name[i], prefix, sizeof prefix - 1) || length != sizeof prefix - 1 + sizeof RANDOM - 1 ||
            tri__path_join(folder, parent, names.name[i]) != TRI_OK || rmdir(folder) == 0 || errno != ENOTEMPTY ||
            take_lock(folder, 0, &lock) != TRI_OK || lock < 0)
            continue;
        (void)tri__folder_remove_all(folder);
    }
}

tri_status tri__workshop_open(const char *parent, tri_workshop *w) {
    enum { ATTEMPTS = 8 };
    tri_status status = TRI_OK;
    w->lock = -1;
    remove_left(parent);
    for (int attempt = 0; attempt < ATTEMPTS && w->lock < 0; attempt++) {
        TRI_TRY(tri__path_join(w->folder, parent, ".trident-" RANDOM));
        TRI_TRY(tri__folder_temporary(w->folder));
        status = take_lock(w->folder, 1, &w->lock);
    }
    if (w->lock >= 0) return TRI_OK;
    return status != TRI_OK ? status : tri__fail(TRI_IO, "cannot keep a temporary folder in %s", parent);
}

void tri__workshop_close(tri_workshop *w) {
    (void)tri__folder_remove_all(w->folder); /* else the next one removes it */
    close(w->lock);
}
