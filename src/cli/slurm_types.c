/* slurm_types.c - runs `srun --mpi=list`, with a deadline, and parses the types from its output: one per line, after
 * "srun: " in older versions, mixed with sentences. */
#include "cli/slurm_types.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static const double SECONDS = 3;

/* From its output, which differs between versions of Slurm. */
static void parse(const char *text, char *out, size_t size) {
    out[0] = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *end = line + strcspn(line, "\n"), *at = line;
        if (!strncmp(at, "srun:", 5)) at += 5;
        while (at < end && isspace((unsigned char)*at)) at++;
        size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_"), used = strlen(out);
        if (!word || at + word != end || used + word + 2 > size) continue; /* a sentence */
        snprintf(out + used, size - used, "%s%.*s", used ? " " : "", (int)word, at);
    }
}

/* Reads from fd until end of file, a full buffer, or the deadline. */
static void read_until(int fd, double deadline, char *out, size_t size) {
    size_t used = 0;
    for (ssize_t n = 1; n != 0 && used < size - 1;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        double left = deadline - tri__clock();
        if (left <= 0 || (poll(&wait, 1, (int)(left * 1e3) + 1) <= 0 && errno != EINTR)) break;
        n = wait.revents ? read(fd, out + used, size - 1 - used) : -1;
        if (n > 0) used += (size_t)n;
    }
    out[used] = 0;
}

void tri__slurm_types(const char *srun, char *out, size_t size) {
    char text[4096];
    int fds[2], status;
    out[0] = 0;
    if (pipe2(fds, O_CLOEXEC)) return;
    double deadline = tri__clock() + SECONDS;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        dup2(fds[1], STDERR_FILENO);
        execl(srun, "srun", "--mpi=list", (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    if (pid > 0) {
        read_until(fds[0], deadline, text, sizeof text);
        kill(pid, SIGKILL); /* its output is complete, or it takes too long */
        waitpid(pid, &status, 0);
        parse(text, out, size);
    }
    close(fds[0]);
}
