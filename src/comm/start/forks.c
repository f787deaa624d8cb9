/* forks.c - ranks as forks of this process. The parent supervises: a rank's death or hang becomes the failure of all;
 * after a failure the others have a moment to leave, and then are killed. No child outlives the parent. */
#include "comm/start/ranks.h"

#include "base/file.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { PERIOD_MS = 100, POLL_MS = 5 /* without pidfds */ };
static const double GRACE_SECONDS = 2; /* to leave after a failure */

typedef struct family {
    tri_control *control;
    int n, left;             /* ranks; those not yet reaped */
    int ended;               /* 1: the rest were sent SIGKILL */
    pid_t *pid;              /* [n]; 0: reaped, or never started */
    struct pollfd *poll;     /* [n] pidfds; -1: none */
    tri_seen *seen;          /* [TRI_RANKS_PER_NODE] */
} family;

static void run_child(const tri_ranks_job *job, int local, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(128 + SIGKILL); /* the parent died before the line above */
    tri_status status = tri__ranks_one(job, local);
    fflush(NULL);
    _exit(status);
}

static void start(family *family, const tri_ranks_job *job) {
    pid_t parent = getpid();
    fflush(NULL); /* otherwise every child would write the buffered text again */
    for (int i = 0; i < family->n; i++) {
        pid_t pid = fork();
        if (pid == 0) run_child(job, i, parent);
        if (pid < 0) {
            tri__control_fail(family->control, -1, TRI_RESOURCE,
                              "cannot start rank %d of %d: %s; see the limit of processes (ulimit -u)", i, family->n,
                              strerror(errno));
            return;
        }
        family->pid[i] = pid;
        family->poll[i].fd = (int)syscall(SYS_pidfd_open, pid, 0);
        family->left++;
    }
}

/* Records how a child ended, if it did not leave. `how` is waitpid's status. */
static void judge(family *family, int i, int how) {
    tri_control *control = family->control;
    int rank = control->rank_of[i];
    if (atomic_load(&control->line[i].life) == TRI_LIFE_LEFT || family->ended) return;
    if (WIFSIGNALED(how))
        tri__control_fail(control, rank, 128 + WTERMSIG(how), "died (signal %d, %s)", WTERMSIG(how),
                          strsignal(WTERMSIG(how)));
    else
        tri__control_fail(control, rank, WEXITSTATUS(how) ? WEXITSTATUS(how) : TRI_INTERNAL,
                          "ended (exit code %d) before its function returned", WEXITSTATUS(how));
}

static void reap(family *family) {
    for (int i = 0; i < family->n; i++) {
        int how = 0;
        pid_t got = family->pid[i] ? waitpid(family->pid[i], &how, WNOHANG) : 0;
        if (got == 0 || (got < 0 && errno != ECHILD))
            continue; /* ECHILD: the program ignores SIGCHLD, and the exit status is lost */
        judge(family, i, how);
        tri__fd_drop(&family->poll[i].fd);
        family->pid[i] = 0;
        family->left--;
    }
}

static void supervise(family *family) {
    double failed_at = 0;
    while (family->left) {
        int wait_ms = PERIOD_MS;
        for (int i = 0; i < family->n; i++)
            if (family->pid[i] && family->poll[i].fd < 0) wait_ms = POLL_MS;
        poll(family->poll, (nfds_t)family->n, wait_ms);
        reap(family);
        tri__control_watch(family->control, family->seen, NULL, -1);
        if (!atomic_load(&family->control->abort) || family->ended) continue;
        if (!failed_at) failed_at = tri__clock();
        if (tri__clock() - failed_at < GRACE_SECONDS) continue;
        for (int i = 0; i < family->n; i++)
            if (family->pid[i]) kill(family->pid[i], SIGKILL);
        family->ended = 1;
    }
}

tri_status tri__ranks_forks(tri_ranks_job *job) {
    size_t n = (size_t)job->segment.n;
    family family = {.control = job->segment.control, .n = (int)n, .pid = calloc(n, sizeof *family.pid),
                     .poll = calloc(n, sizeof *family.poll), .seen = calloc(TRI_RANKS_PER_NODE, sizeof *family.seen)};
    tri_status status;
    if (family.pid && family.poll && family.seen) {
        for (size_t i = 0; i < n; i++) family.poll[i] = (struct pollfd){.fd = -1, .events = POLLIN};
        start(&family, job);
        supervise(&family);
        status = tri__control_status(family.control);
    } else {
        status = tri__fail(TRI_RESOURCE, "out of memory for %zu ranks", n);
    }
    TRI_FREE(family.pid, family.poll, family.seen);
    return status;
}
