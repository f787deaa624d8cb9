/* lock.c - non-blocking flock, retried every few milliseconds: a blocking one cannot have a deadline without
 * signals. */
#include "base/file.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const double FIRST_PAUSE = 0.001, LONGEST_PAUSE = 0.05; /* seconds */

tri_lock_result tri__lock(int fd, int operation, double seconds, const tri_stop *stop) {
    double until = tri__clock() + seconds;
    for (double pause = FIRST_PAUSE;; pause = 2 * pause < LONGEST_PAUSE ? 2 * pause : LONGEST_PAUSE) {
        if (flock(fd, operation | LOCK_NB) == 0) return TRI_LOCK_TAKEN;
        if (errno != EWOULDBLOCK && errno != EINTR) return TRI_LOCK_NONE;
        if (tri__stop_signalled(stop)) return TRI_LOCK_STOPPED;
        double now = tri__clock();
        if (now >= until) return TRI_LOCK_HELD;
        tri__clock_sleep(now + pause < until ? now + pause : until);
    }
}

/* Lines of /proc/locks: "7: FLOCK  ADVISORY  WRITE 1234 fd:01:131 0 EOF". */
static long holder_in(char *text, const struct stat *file) {
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        long process;
        unsigned device, part;
        unsigned long inode;
        if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%lu", &process, &device, &part, &inode) == 4 &&
            inode == file->st_ino && device == major(file->st_dev) && part == minor(file->st_dev))
            return process;
    }
    return 0;
}

const char *tri__lock_holder(int fd, char out[static 32]) {
    char text[16384]; /* locks beyond that are not seen: only a message depends on it */
    struct stat file;
    long process = 0;
    tri__file_start("/proc/locks", text, sizeof text);
    if (fstat(fd, &file) == 0) process = holder_in(text, &file);
    if (process > 0) snprintf(out, 32, "process %ld", process);
    else strcpy(out, "another process");
    return out;
}

int tri__lock_held(const char *folder) {
    char path[TRI_PATH_MAX];
    size_t size;
    TRI_OWNED(tri__fd_drop) int fd = -1;
    if (tri__path_join(path, folder, ".lock") != TRI_OK || tri__file_open(path, &fd, &size) != TRI_OK) return 0;
    return tri__lock(fd, LOCK_SH, 0, NULL) == TRI_LOCK_HELD;
}
