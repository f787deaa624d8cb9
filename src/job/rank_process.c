/* rank_process.c - fork and exec; between the two only calls that are allowed in the child of a threaded process. */
#include "job/rank_process.h"

#include "base/file.h"

#include <errno.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int duplicate(int from, int to) {
    int got;
    do got = dup2(from, to);
    while (got < 0 && (errno == EINTR || errno == EBUSY)); /* EBUSY: another thread was opening it when we forked */
    return got == to;
}

/* Runs in the child. Reports the cause over `report` if the program cannot be executed. */
static void become(const tri_rank_start *how, pid_t parent, int report) {
    const int standard[] = {how->in, how->out, how->err};
    int ok = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent; /* it may have died already */
    setpgid(0, 0);
    for (int fd = 0; fd < 3 && ok; fd++)
        if (standard[fd] >= 0) ok = duplicate(standard[fd], fd);
    for (int i = 0; i < 2 && ok; i++) ok = how->keep[i] < 0 || fcntl(how->keep[i], F_SETFD, 0) == 0;
    if (ok && how->cores) ok = sched_setaffinity(0, sizeof *how->cores, how->cores) == 0;
    if (ok) ok = sigprocmask(SIG_SETMASK, how->signals, NULL) == 0;
    if (ok) execve(how->program, how->argv, how->environment);
    int cause = errno;
    ssize_t n;
    do n = write(report, &cause, sizeof cause); /* -1: the parent is gone, there is nothing to report to */
    while (n < 0 && errno == EINTR);
    _exit(127);
}

static tri_status cannot_fork(int rank) {
    struct rlimit limit = {0};
    int cause = errno;
    if (cause == EAGAIN && getrlimit(RLIMIT_NPROC, &limit) == 0)
        return tri__fail(TRI_RESOURCE, "cannot start rank %d: the limit of processes is reached (`ulimit -u` says %llu "
                         "for all of this user; a container may have its own); raise it, or start fewer ranks", rank,
                         (unsigned long long)limit.rlim_cur);
    return tri__fail(TRI_RESOURCE, "cannot start rank %d: %s; start fewer ranks", rank, strerror(cause));
}

/* Waits until exec closes the report, or the child reports an error. */
static tri_status await_program(const tri_rank_start *how, int rank, int report) {
    int cause = 0;
    ssize_t n;
    do n = read(report, &cause, sizeof cause);
    while (n < 0 && errno == EINTR);
    if (n == 0) return TRI_OK;
    const char *what = TRI_TEXT(64, "start rank %d:", rank);
    errno = n < 0 ? errno : cause;
    if (errno == EAGAIN) errno = ENOMEM; /* of the system's: no process */
    return tri__fail_errno(what, how->program, TRI_INTERNAL);
}

tri_status tri__rank_start(const tri_rank_start *how, int rank, pid_t *pid, int *pidfd) {
    int report[2];
    pid_t parent = getpid();
    if (pipe2(report, O_CLOEXEC))
        return tri__fail(TRI_RESOURCE, "cannot start rank %d: no pipe (%s); raise `ulimit -n`", rank, strerror(errno));
    *pid = fork();
    if (*pid == 0) become(how, parent, report[1]);
    tri_status status = *pid < 0 ? cannot_fork(rank) : TRI_OK;
    close(report[1]);
    if (status == TRI_OK) status = await_program(how, rank, report[0]);
    close(report[0]);
    *pidfd = status == TRI_OK ? pidfd_open(*pid, 0) : -1;
    if (status == TRI_OK && *pidfd < 0)
        status = tri__fail(TRI_RESOURCE, "cannot watch rank %d: %s; raise `ulimit -n`", rank, strerror(errno));
    if (status != TRI_OK && *pid > 0) {
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
    }
    return status;
}

/* Whether "NAME=value" sets one of the pairs' names. */
static int named(const char *variable, const char *const (*pairs)[2], int n) {
    for (int i = 0; i < n; i++) {
        size_t length = strlen(pairs[i][0]);
        if (!strncmp(variable, pairs[i][0], length) && variable[length] == '=') return 1;
    }
    return 0;
}

char **tri__environment_with(char *const *base, const char *const (*pairs)[2], int n) {
    size_t count = 0, bytes = 0, used = 0;
    while (base[count]) count++;
    for (int i = 0; i < n; i++) bytes += pairs[i][1] ? strlen(pairs[i][0]) + strlen(pairs[i][1]) + 2 : 0;
    char **out = malloc((count + (size_t)n + 1) * sizeof *out + bytes),
         *text = (char *)(out ? out + count + (size_t)n + 1 : NULL);
    if (!out) return NULL;
    for (size_t i = 0; i < count; i++)
        if (!named(base[i], pairs, n)) out[used++] = base[i];
    for (int i = 0; i < n; i++) {
        if (!pairs[i][1]) continue;
        out[used++] = text;
        text += sprintf(text, "%s=%s", pairs[i][0], pairs[i][1]) + 1;
    }
    out[used] = NULL;
    return out;
}
