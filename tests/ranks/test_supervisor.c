/* test_supervisor.c - ranks that exit, fail, crash, hang or print; a supervisor that is asked to stop or killed. This
 * program is also the rank: the supervisor executes it (supervised_rank.h). */
#include "base/clock.h"
#include "job/supervisor.h"
#include "settings/forms.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/names.h"
#include "tests/lib/soak.h"
#include "tests/lib/supervised_rank.h"

#define WORK_FOLDER "/tmp/test_supervisor.XX" "XX" "XX"
#include "tests/lib/work_folder.h"

extern char **environ;

static tri_supervised job(int n, const char *action, char *argv[static 5]) {
    argv[0] = "test_supervisor", argv[1] = "rank", argv[2] = (char *)action, argv[3] = notes, argv[4] = NULL;
    unlink(notes);
    return (tri_supervised){.argv = argv, .environment = environ, .n = n, .heap_bytes = 1 << 16, .progress_timeout = 20,
                            .out = STDOUT_FILENO, .err = STDERR_FILENO};
}

/* Nothing is left behind: no child, no descriptor. The shared memory has no name that could stay. */
static tri_status supervise(const tri_supervised *what, tri_verdict *verdict) {
    int files = names("/proc/self/fd", NULL);
    tri_status status = tri__supervise(what, verdict);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(names("/proc/self/fd", NULL), files);
    return status;
}

static tri_verdict outcome(int n, const char *action) {
    char *argv[5];
    tri_supervised what = job(n, action, argv);
    tri_verdict verdict;
    if (supervise(&what, &verdict) != TRI_OK) fail_msg("%s", tri_error());
    return verdict;
}

static void expect_text(const tri_verdict *verdict, const char *const *parts) {
    char *text = tri__verdict_text(verdict);
    assert_non_null(text);
    for (; *parts; parts++)
        if (!strstr(text, *parts)) fail_msg("no \"%s\" in:\n%s", *parts, text);
    free(text);
}
#define EXPECT_TEXT(verdict, ...) expect_text(verdict, (const char *const[]){__VA_ARGS__, NULL})

TEST(all_leave) {
    setenv("RANK", "9", 1); /* ours counts */
    tri_verdict v = outcome(4, "leave");
    unsetenv("RANK");
    assert_int_equal(v.code, 0);
    assert_int_equal(v.failed, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(v.rank[i].status, 0);
        assert_int_equal(v.rank[i].life, TRI_LIFE_LEFT);
        assert_true(v.rank[i].peak_bytes > 0);
    }
    tri__verdict_free(&v);
}

static void own_handler(int signal) { (void)signal; }

/* A program that ignores SIGCHLD while ranks run: the kernel then forgets how they ended. */
static void *ignore_ends(void *context) {
    struct sigaction now;
    do sigaction(SIGCHLD, NULL, &now);
    while (now.sa_handler == own_handler); /* until the supervisor has set its own */
    signal(SIGCHLD, SIG_IGN);
    return context;
}

TEST(a_lost_exit_code_is_said) {
    pthread_t thread;
    signal(SIGCHLD, own_handler);
    assert_int_equal(pthread_create(&thread, NULL, ignore_ends, NULL), 0);
    tri_verdict v = outcome(4, "die");
    pthread_join(thread, NULL);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(v.failure.rank, 2);
    assert_int_equal(v.code, TRI_INTERNAL);
    for (int i = 0; i < 4; i++) assert_int_equal(v.rank[i].status, -1);
    EXPECT_TEXT(&v, "rank 2: it ended, and its exit code is unknown (wait4: No child processes)");
    tri__verdict_free(&v);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* From the death to each survivor's return from its wait. */
static int read_delays(double *delay) {
    FILE *file = fopen(notes, "r");
    char word[16];
    double died = 0, at, returned[8];
    int n = 0;
    assert_non_null(file);
    while (fscanf(file, "%15s %lf", word, &at) == 2)
        if (!strcmp(word, "died")) died = at;
        else returned[n++] = at;
    fclose(file);
    for (int i = 0; i < n; i++) delay[i] = returned[i] - died;
    return n;
}

TEST(a_killed_rank_ends_all) {
    int rounds = soak_count("SOAK_KILLS", 10), n = 0;
    double *delay = calloc((size_t)(3 * rounds), sizeof *delay); /* of each survivor of each round */
    for (int round = 0; round < rounds; round++) {
        tri_verdict v = outcome(4, "die");
        assert_int_equal(v.code, 128 + SIGKILL);
        assert_int_equal(v.failed, 1);
        assert_int_equal(v.hung, 0);
        assert_int_equal(v.failure.rank, 2);
        assert_int_equal(v.failure.step, 14);
        for (int i = 0; i < 4; i++)
            if (i != 2) assert_int_equal(WEXITSTATUS(v.rank[i].status), 128 + SIGKILL);
        EXPECT_TEXT(&v, "rank 2: killed by signal 9 (SIGKILL)", "step 14, in the step's program", "its peak was",
                    "ranks 0, 1, 3: exit code 137");
        n += read_delays(delay + n);
        tri__verdict_free(&v);
    }
    assert_int_equal(n, 3 * rounds);
    qsort(delay, (size_t)n, sizeof *delay, ascending);
    double median = delay[n / 2], most = delay[n - 1 - n / 100], worst = delay[n - 1];
    free(delay);
    printf("from a rank's death to the others' return, ms: median %.2f, 99 of 100 within %.2f, worst of %d %.2f\n",
           1e3 * median, 1e3 * most, n, 1e3 * worst);
    if (getenv("TRI_SANITIZED")) return;
    assert_true(rounds < 200 || most <= 0.05);
    assert_true(median <= 0.05 && worst <= 1);
}

TEST(failures_are_named) {
    tri_verdict v = outcome(4, "crash");
    assert_int_equal(v.code, 128 + SIGSEGV);
    EXPECT_TEXT(&v, "rank 1: killed by signal 11 (SIGSEGV)", "try", "bug");
    tri__verdict_free(&v);

    v = outcome(4, "report");
    assert_int_equal(v.code, TRI_DATA);
    assert_int_equal(v.failure.rank, 3);
    assert_int_equal(v.failure.phase, TRI_DOING_LOAD);
    for (int i = 0; i < 4; i++) assert_int_equal(WEXITSTATUS(v.rank[i].status), TRI_DATA);
    EXPECT_TEXT(&v, "rank 3: train.csv:7: a bad row", "loading data", "--bad-rows", "ranks 0-2: exit code 65");
    tri__verdict_free(&v);

    v = outcome(3, "forget");
    assert_int_equal(v.code, TRI_INTERNAL);
    EXPECT_TEXT(&v, "rank 0: it ended with exit code 0 without leaving");
    tri__verdict_free(&v);
}

/* A rank that ends before it joined, with words of its own, while others wait for it. */
TEST(last_words_are_the_cause) {
    double begin = tri__clock();
    tri_verdict v = outcome(3, "refuse");
    assert_int_equal(v.code, TRI_NOINPUT);
    assert_int_equal(v.failure.rank, 1);
    EXPECT_TEXT(&v, "rank 1: no such folder: /nowhere (it ended with exit code 66)", "try");
    tri__verdict_free(&v);
    if (!getenv("TRI_SANITIZED")) assert_true(tri__clock() - begin < 5);
}

TEST(two_failures_have_one_first) {
    int first[4] = {0};
    for (int round = 0; round < 12; round++) {
        tri_verdict v = outcome(4, "report_two");
        assert_int_equal(v.failed, 1);
        assert_true(v.failure.rank == 1 || v.failure.rank == 2);
        assert_int_equal(v.code, v.failure.rank == 1 ? TRI_DATA : 128 + SIGKILL);
        if (v.failure.rank == 1 && v.n_second) EXPECT_TEXT(&v, "rank 1: one", "then", "rank 2: killed by signal 9");
        first[v.failure.rank]++;
        tri_json *json = tri__verdict_json(&v);
        assert_int_equal(tri__json_integer_value(tri__json_get(json, "rank")), v.failure.rank);
        assert_int_equal(tri__json_integer_value(tri__json_get(json, "code")), v.code);
        assert_int_equal(tri__json_size(tri__json_get(json, "ranks")), 4);
        assert_int_equal(tri__json_size(tri__json_get(json, "others")), v.n_second);
        tri__json_decref(json);
        tri__verdict_free(&v);
    }
    printf("first of two: rank 1 %d times, rank 2 %d times\n", first[1], first[2]);
}

TEST(a_hanging_rank_is_named) {
    char *argv[5];
    tri_supervised what = job(3, "hang", argv);
    tri_verdict v;
    double begin = tri__clock();
    what.progress_timeout = 0.5;
    assert_int_equal(supervise(&what, &v), TRI_OK);
    assert_int_equal(v.code, TRI_DISAGREE);
    assert_int_equal(v.hung, 1);
    assert_int_equal(v.failure.rank, 1);
    assert_int_equal(v.rank[1].by_us, SIGKILL); /* SIGTERM does not reach a stopped process */
    EXPECT_TEXT(&v, "rank 1: hangs", "step 3, waiting for its next batch", "--progress-timeout",
                "ranks 0, 2: exit code 76");
    printf("a stopped rank: all over after %.2f s\n", tri__clock() - begin);
    if (!getenv("TRI_SANITIZED")) assert_true(tri__clock() - begin < 8);
    tri__verdict_free(&v);
}

/* Whatever a rank writes over the page: the supervisor comes to an end, has words for it, and nobody is hurt. */
TEST(a_page_that_lies_hurts_nobody) {
    for (int round = 0, rounds = soak_count("SOAK_LIES", 3); round < rounds; round++) {
        char *argv[5];
        tri_supervised what = job(3, "scribble", argv);
        tri_verdict v;
        what.progress_timeout = 0.25 + 0.5 * (round % 2);
        assert_int_equal(supervise(&what, &v), TRI_OK);
        for (int i = 0; i < 3; i++) {
            int signal = WIFSIGNALED(v.rank[i].status) ? WTERMSIG(v.rank[i].status) : 0;
            if (signal && signal != SIGTERM && signal != SIGKILL) fail_msg("rank %d died by signal %d", i, signal);
        }
        char *text = tri__verdict_text(&v);
        assert_non_null(text);
        tri_json *json = tri__verdict_json(&v);
        assert_int_equal(tri__json_size(tri__json_get(json, "ranks")), 3);
        tri__json_decref(json);
        free(text);
        tri__verdict_free(&v);
    }
}

/* ---- a supervisor in a process of its own ---- */

static pid_t start_supervisor(int n, const char *action) {
    pid_t pid = fork();
    if (pid) return pid;
    char *argv[5];
    tri_supervised what = job(n, action, argv);
    tri_verdict v;
    what.progress_timeout = 10;
    if (tri__supervise(&what, &v) != TRI_OK) _exit(99);
    _exit(v.failed ? 98 : v.code);
}

/* Waits until n ranks have noted their process. */
static void read_pids(int n, pid_t *pid) {
    for (int found = 0; found < n; usleep(2000)) {
        FILE *file = fopen(notes, "r");
        for (found = 0; file && found < n && fscanf(file, "%d", &pid[found]) == 1;) found++;
        if (file) fclose(file);
    }
}

TEST(ranks_end_with_their_supervisor) {
    enum { N = 4 };
    pid_t rank[N];
    int status;
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans become ours, so that their end is seen */
    unlink(notes);
    pid_t supervisor = start_supervisor(N, "stay_deaf");
    read_pids(N, rank);
    double begin = tri__clock();
    kill(supervisor, SIGKILL);
    assert_int_equal(waitpid(supervisor, &status, 0), supervisor);
    for (int i = 0; i < N; i++) {
        pid_t ended = 0; /* -1: not an orphan of ours yet */
        while ((ended = waitpid(rank[i], &status, WNOHANG)) <= 0 && tri__clock() - begin < 10) usleep(1000);
        if (ended <= 0) kill(rank[i], SIGKILL);
        assert_int_equal(ended, rank[i]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    printf("supervisor killed: all ranks gone after %.1f ms\n", 1e3 * (tri__clock() - begin));
    if (!getenv("TRI_SANITIZED")) assert_true(tri__clock() - begin < 1);
}

static int stop_supervisor(const char *action, int signal, int times) {
    enum { N = 3 };
    pid_t rank[N];
    int status;
    unlink(notes);
    pid_t supervisor = start_supervisor(N, action);
    read_pids(N, rank);
    for (int i = 0; i < times; i++) {
        kill(supervisor, signal);
        usleep(400000);
    }
    assert_int_equal(waitpid(supervisor, &status, 0), supervisor);
    for (int i = 0; i < N; i++) assert_true(kill(rank[i], 0) == -1 && errno == ESRCH);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(a_signal_stops_in_good_order) {
    assert_int_equal(stop_supervisor("stop", SIGTERM, 1), TRI_STOPPED);
    assert_int_equal(stop_supervisor("stay", SIGTERM, 1), 128 + SIGTERM); /* ranks without a handler */
    assert_int_equal(stop_supervisor("stay", SIGUSR1, 1), 128 + SIGUSR1);
    assert_int_equal(stop_supervisor("stay_deaf", SIGTERM, 2), 128 + SIGTERM);
}

/* ---- words ---- */

static char *read_whole(const char *path) {
    char *text;
    size_t size;
    if (tri__file_read(path, 1 << 20, &text, &size) != TRI_OK) fail_msg("%s", tri_error());
    return text;
}

TEST(lines_say_who_spoke) {
    char *argv[5], out[96], err[96];
    tri_supervised what = job(3, "speak", argv);
    tri_verdict v;
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(err, sizeof err, "%s/err", folder);
    what.out = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    what.err = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    assert_int_equal(supervise(&what, &v), TRI_OK);
    assert_int_equal(v.code, 0);
    char *words = read_whole(err), *results = read_whole(out);
    assert_string_equal(results, "result of 0\n");
    assert_non_null(strstr(words, "words of 0\n"));
    assert_null(strstr(words, "[rank 0]"));
    for (int i = 1; i < 3; i++) {
        char line[64];
        snprintf(line, sizeof line, "[rank %d] words of %d\n", i, i);
        assert_non_null(strstr(words, line));
        snprintf(line, sizeof line, "[rank %d] \xc3\xa4 of %d\n", i, i);
        assert_non_null(strstr(words, line));
        snprintf(line, sizeof line, "[rank %d] no newline\n", i);
        assert_non_null(strstr(words, line));
    }
    size_t xs = 0;
    for (char *at = words; *at; at++) xs += *at == 'x';
    assert_int_equal(xs, 4000 + 2); /* a line longer than the buffer comes whole */
    free(words);
    free(results);
    close(what.out);
    close(what.err);
    tri__verdict_free(&v);
}

static void expect_log(const tri_verdict *v, int rank, const char *name, const char *text) {
    char path[TRI_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%d/%s", v->logs, rank, name);
    if (!text) {
        assert_int_equal(access(path, F_OK), -1);
        return;
    }
    char *log = read_whole(path);
    if (strncmp(log, text, strlen(text))) fail_msg("%s begins: %.40s", path, log);
    free(log);
}

TEST(logs_are_in_torchruns_tree) {
    char *argv[5], logs[96], err[96];
    tri_supervised what = job(3, "speak", argv);
    tri_verdict v;
    snprintf(logs, sizeof logs, "%s/logs/deep", folder);
    snprintf(err, sizeof err, "%s/err", folder);
    what.logs.folder = logs;
    what.logs.run = "a/b";
    what.err = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    what.out = what.err;
    assert_int_equal(tri__streams_parse("--redirects", "0:3,1:1", 3, what.logs.redirect), TRI_OK);
    assert_int_equal(tri__streams_parse("--tee", "2:3", 3, what.logs.tee), TRI_OK);
    assert_int_equal(supervise(&what, &v), TRI_OK);
    assert_int_equal(strncmp(v.logs, logs, strlen(logs)), 0);
    assert_non_null(strstr(v.logs, "/a_b_"));
    assert_non_null(strstr(v.logs, "/attempt_0"));
    expect_log(&v, 0, "stdout.log", "result of 0\n");
    expect_log(&v, 0, "stderr.log", "words of 0\n");
    expect_log(&v, 1, "stdout.log", "result of 1\n");
    expect_log(&v, 1, "stderr.log", NULL);
    expect_log(&v, 2, "stdout.log", "result of 2\n");
    expect_log(&v, 2, "stderr.log", "words of 2\n");
    char *words = read_whole(err);
    assert_null(strstr(words, "of 0"));
    assert_null(strstr(words, "result of 1"));
    assert_non_null(strstr(words, "[rank 1] words of 1\n"));
    assert_non_null(strstr(words, "[rank 2] words of 2\n"));
    assert_non_null(strstr(words, "[rank 2] result of 2\n"));
    free(words);
    close(what.err);
    tri__verdict_free(&v);
}

TEST(stream_options_are_read) {
    uint8_t bits[TRI_RANKS_PER_NODE];
    assert_int_equal(tri__streams_parse("--tee", "2", 12, bits), TRI_OK);
    assert_int_equal(bits[11], 2);
    assert_int_equal(tri__streams_parse("--tee", "11:3,0:1", 12, bits), TRI_OK);
    assert_true(bits[11] == 3 && bits[0] == 1 && bits[1] == 0);
    static const char *const bad[] = {"", "4", "-1", "x", "1x", "12:1", "1:4", "1:", ":1", "1:1,", "1:1;2:1", "1:1 "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tri__streams_parse("--tee", bad[i], 12, bits) != TRI_USAGE) fail_msg("\"%s\" is accepted", bad[i]);
    assert_non_null(strstr(tri_error(), "--tee"));
    assert_int_equal(tri__streams_filter("--local-ranks-filter", "0,2", 4, bits), TRI_OK);
    assert_true(!bits[0] && bits[1] && !bits[2] && bits[3]);
    assert_int_equal(tri__streams_filter("--local-ranks-filter", "", 4, bits), TRI_OK);
    assert_true(!bits[0] && !bits[3]);
    assert_int_equal(tri__streams_filter("--local-ranks-filter", "4", 4, bits), TRI_USAGE);
}

/* ---- limits and starting ---- */

TEST(cores_are_shared_out) {
    char *argv[5];
    tri_supervised what = job(2, "show_cores", argv);
    tri_verdict v;
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    int cores = CPU_COUNT(&set), rank, own, sum = 0, lines = 0;
    what.bind_cores = 1;
    assert_int_equal(supervise(&what, &v), TRI_OK);
    FILE *file = fopen(notes, "r");
    while (fscanf(file, "%d %d", &rank, &own) == 2) sum += own, lines++;
    fclose(file);
    assert_int_equal(lines, 2);
    assert_int_equal(sum, cores > 1 ? cores : 2);
    tri__verdict_free(&v);
}

/* In a child with that limit; its exit code is the status, or 1 when `text` is missing from the words. */
static int under_limit(int resource, rlim_t limit, uid_t user, const char *text) {
    pid_t pid = fork();
    int status;
    if (!pid) {
        struct rlimit both = {limit, limit};
        char *argv[5];
        tri_supervised what = job(4, "leave", argv);
        tri_verdict v;
        if (setrlimit(resource, &both) || (user && setuid(user))) _exit(2);
        status = (int)tri__supervise(&what, &v);
        if (status && !strstr(tri_error(), text)) fprintf(stderr, "%s\n", tri_error()), status = 1;
        _exit(status);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(limits_are_said_at_the_start) {
    assert_int_equal(under_limit(RLIMIT_NOFILE, 16, 0, "4 ranks need 32 open files, and the limit is 16"),
                     TRI_RESOURCE);
    assert_int_equal(under_limit(RLIMIT_NOFILE, 256, 0, ""), TRI_OK);
    if (getuid() == 0 && !getenv("TRI_SANITIZED")) /* root has no limit of processes; nobody has */
        assert_int_equal(under_limit(RLIMIT_NPROC, 1, 65534, "limit of processes is reached (`ulimit -u` says 1"),
                         TRI_RESOURCE);
    char *argv[5];
    tri_verdict v;
    tri_supervised what = job(2, "leave", argv);
    what.heap_bytes = (size_t)1 << 60;
    assert_int_equal(supervise(&what, &v), TRI_RESOURCE);
    assert_non_null(strstr(tri_error(), "larger than this machine's memory"));
    what = job(2, "leave", argv);
    what.program = "/nowhere/trident";
    assert_int_equal(supervise(&what, &v), TRI_INTERNAL);
    assert_non_null(strstr(tri_error(), "/nowhere/trident"));
    what = job(257, "leave", argv);
    assert_int_equal(supervise(&what, &v), TRI_USAGE);
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "rank")) return supervised_rank(argc, argv);
    return run_listed(argc, argv, make_work, remove_work);
}
