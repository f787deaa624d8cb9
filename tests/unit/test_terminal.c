/* test_terminal.c - a run on a terminal: Ctrl-C is answered immediately; pressed twice, however quickly, it ends the
 * run immediately. */
#include "tests/lib/test.h"
#include "tests/lib/session_data.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static char seen[1 << 16]; /* what the terminal shows */
static size_t n_seen;

/* Starts trident with a terminal of its own, as its session's; *master: our end. */
static pid_t start(const char *program, const char *ranks, int *master) {
    char config[128], data[128], models[128], out[128];
    snprintf(config, sizeof config, "--config=%s/config.json", root);
    snprintf(data, sizeof data, "--data-path=%s", root);
    snprintf(models, sizeof models, "--models-dir=%s", root);
    snprintf(out, sizeof out, "--output-dir=%s/run%s", root, ranks);
    *master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*master < 0 || grantpt(*master) || unlockpt(*master)) return -1;
    const char *name = ptsname(*master);
    n_seen = 0;
    pid_t pid = fork();
    if (pid) return pid;
    setsid();
    int slave = open(name, O_RDWR); /* the first terminal that a session opens is its own */
    for (int fd = 0; fd < 3; fd++) dup2(slave, fd);
    setenv("TERM", "xterm", 1);
    execl(program, "trident", "train", config, data, models, out, "--epochs=5000", "--threads=1",
          "--save-every=1000000", ranks, NULL);
    _exit(127);
}

/* Reads until the terminal shows a text; 0: it never does. */
static int await(int master, const char *text) {
    for (struct pollfd p = {.fd = master, .events = POLLIN}; poll(&p, 1, 60 * 1000) > 0;) {
        ssize_t n = read(master, seen + n_seen, sizeof seen - 1 - n_seen);
        if (n <= 0) return 0;
        n_seen += (size_t)n;
        seen[n_seen] = 0;
        if (strstr(seen, text)) return 1;
        if (n_seen > sizeof seen / 2) memmove(seen, seen + n_seen - 256, 257), n_seen = 256;
    }
    return 0;
}

static int end_of(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Ranks that stand still: their step cannot end. */
static void hold_ranks(pid_t pid) {
    char path[64];
    int rank;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fscanf(file, "%d", &rank) == 1) kill(rank, SIGSTOP);
    fclose(file);
}

TEST_IN(a_key_is_answered, make_data, remove_data) {
    char program[256];
    static const struct {
        const char *ranks, *keys, *answer;
        int code;
    } cases[] = {
        {"--nproc-per-node=1", "\003", "stopping: the step in progress is finished and saved", TRI_STOPPED},
        {"--nproc-per-node=2", "\003", "stopping: the ranks finish the step in progress, or the next one", TRI_STOPPED},
        {"--nproc-per-node=2", "\003\003", "stopped by signal 2 (SIGINT)", 128 + SIGINT},
    };
    snprintf(program, sizeof program, "%s/trident", getenv("TRI_BUILD") ? getenv("TRI_BUILD") : "build");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int master;
        pid_t pid = start(program, cases[i].ranks, &master);
        if (pid < 0) skip(); /* no terminals here */
        assert_true(await(master, "step "));
        if (cases[i].keys[1]) hold_ranks(pid);
        for (const char *key = cases[i].keys; *key; key++) {
            if (key > cases[i].keys) assert_true(await(master, "stopping")); /* else two may become one */
            assert_int_equal(write(master, key, 1), 1);
        }
        if (!await(master, cases[i].answer))
            fail_msg("%s: \"%s\" instead of \"%s\"", cases[i].ranks, seen, cases[i].answer);
        while (await(master, "\001never")) continue; /* until it closes the terminal */
        assert_int_equal(end_of(pid), cases[i].code);
        close(master);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
