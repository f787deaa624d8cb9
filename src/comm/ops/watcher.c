/* watcher.c - one small thread: polls a pidfd of each local peer, and runs tri__control_watch. A rank in a wait sees a
 * death only through the control page: this thread writes it there, also while its own rank computes. */
#include "comm/ops/watcher.h"

#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PERIOD_MS = 100, JOINING_MS = 5 /* while some have not joined */ };

struct tri_watcher {
    pthread_t thread;
    tri_control *control;
    tri_log log;
    int n, local;              /* ranks of the machine; this one */
    char found[TRI_RANKS_PER_NODE]; /* 1: has joined, and is watched if its pid can be */
    /* [0..n-1] pidfds (-1: none), [n] an eventfd, readable when the watcher should end */
    struct pollfd poll[TRI_RANKS_PER_NODE + 1];
    tri_seen seen[TRI_RANKS_PER_NODE];
};

/* Not our child: only its launcher knows for certain how it ended. Mostly it was killed, and not by a bug. */
static void ended(struct tri_watcher *watcher, int i) {
    const tri_rank_line *line = &watcher->control->line[i];
    if (atomic_load(&line->life) != TRI_LIFE_LEFT)
        tri__control_fail(watcher->control, watcher->control->rank_of[i], TRI_KILLED,
                          "its process (%d) ended without leaving: most likely it was killed; its launcher knows the "
                          "signal or exit code",
                          (int)atomic_load(&line->pid));
}

/* Opens pidfds of ranks that joined since the last call; 1 when all have. A pid of another pid namespace would be a
 * different process here. */
static int find_peers(struct tri_watcher *watcher) {
    const tri_rank_line *own = &watcher->control->line[watcher->local];
    int all = 1;
    for (int i = 0; i < watcher->n; i++) {
        const tri_rank_line *line = &watcher->control->line[i];
        uint32_t life = atomic_load(&line->life);
        all &= life != TRI_LIFE_NONE;
        if (watcher->found[i] || life == TRI_LIFE_NONE) continue;
        watcher->found[i] = 1;
        if (atomic_load(&line->pid_space) != atomic_load(&own->pid_space) || life == TRI_LIFE_LEFT) continue;
        watcher->poll[i].fd = (int)syscall(SYS_pidfd_open, (pid_t)atomic_load(&line->pid), 0);
        if (watcher->poll[i].fd < 0 && errno == ESRCH) ended(watcher, i);
    }
    return all;
}

static void *watch(void *context) {
    struct tri_watcher *watcher = context;
    while (!watcher->poll[watcher->n].revents) {
        int all = find_peers(watcher);
        if (poll(watcher->poll, (nfds_t)watcher->n + 1, all ? PERIOD_MS : JOINING_MS) > 0)
            for (int i = 0; i < watcher->n; i++)
                if (watcher->poll[i].revents) {
                    close(watcher->poll[i].fd);
                    watcher->poll[i] = (struct pollfd){.fd = -1};
                    ended(watcher, i);
                }
        tri__control_watch(watcher->control, watcher->seen, &watcher->log, watcher->local);
    }
    return NULL;
}

tri_status tri__watcher_open(tri_world *world, const tri_log *log) {
    struct tri_watcher *watcher = calloc(1, sizeof *watcher);
    if (!watcher) return tri__fail(TRI_RESOURCE, "out of memory for the watcher of local ranks");
    watcher->control = world->segment.control;
    if (log) watcher->log = *log;
    watcher->n = world->segment.n, watcher->local = world->local;
    watcher->found[world->local] = 1;
    for (int i = 0; i < watcher->n; i++) watcher->poll[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    int wake = eventfd(0, EFD_CLOEXEC), failed = wake < 0 ? errno : 0;
    watcher->poll[watcher->n] = (struct pollfd){.fd = wake, .events = POLLIN};
    if (!failed) failed = tri__thread_start(&watcher->thread, watch, watcher);
    if (failed) {
        if (wake >= 0) close(wake);
        free(watcher);
        return tri__fail(TRI_RESOURCE, "cannot start the watcher of local ranks: %s", strerror(failed));
    }
    world->watcher = watcher;
    return TRI_OK;
}

void tri__watcher_close(struct tri_watcher *watcher) {
    if (!watcher) return;
    uint64_t one = 1;
    ssize_t told = write(watcher->poll[watcher->n].fd, &one, sizeof one);
    TRI_ASSERT(told == (ssize_t)sizeof one); /* our eventfd is 0, so it accepts a 1 */
    pthread_join(watcher->thread, NULL);
    for (int i = 0; i <= watcher->n; i++)
        if (watcher->poll[i].fd >= 0) close(watcher->poll[i].fd);
    free(watcher);
}
