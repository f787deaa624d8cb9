/* test_regroup.c - runs that go on when ranks die: each rank, several, while others regroup, all; ranks that are
 * started again; spares; stops. This program is also the rank (regrouped_rank.h). */
#include "base/clock.h"
#include "comm/link/regroup.h"
#include "job/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/lib/test.h"
#include "tests/lib/names.h"
#include "tests/lib/soak.h"
#include "tests/lib/regrouped_rank.h"

#define WORK_FOLDER "/tmp/test_regroup.XX" "XX" "XX"
#include "tests/lib/work_folder.h"

extern char **environ;

static char lines[4096];

/* ---- one run ---- */

static void hear_line(void *context, tri_log_level level, const char *text) {
    (void)context, (void)level;
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof lines - used, "%s\n", text);
}

static const tri_log heard = {.say = hear_line};

/* Ranks come in runs of so many, like tensor groups. */
static int fit_runs(void *context, int alive, int32_t *stages, int32_t *replicas) {
    int each = *(int *)context;
    *stages = each, *replicas = alive / each;
    return alive / each * each;
}

static tri_supervised job(int n, int steps, const char *words, char *argv[static 6]) {
    static char count[16];
    snprintf(count, sizeof count, "%d", steps);
    argv[0] = "test_regroup", argv[1] = "rank", argv[2] = count, argv[3] = notes, argv[4] = (char *)words;
    argv[5] = NULL;
    unlink(notes);
    lines[0] = 0;
    return (tri_supervised){.argv = argv, .environment = environ, .n = n, .heap_bytes = 1 << 16, .progress_timeout = 20,
                            .out = STDOUT_FILENO, .err = STDERR_FILENO, .log = &heard, .elastic = 1, .min_ranks = 1};
}

/* Nothing is left behind: no child, no descriptor. */
static tri_verdict supervise(const tri_supervised *what) {
    tri_verdict v;
    int files = names("/proc/self/fd", NULL);
    if (tri__supervise(what, &v) != TRI_OK) fail_msg("%s", tri_error());
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(names("/proc/self/fd", NULL), files);
    return v;
}

static int count_notes(const char *begin) {
    char line[256];
    int n = 0;
    FILE *file = fopen(notes, "r");
    while (file && fgets(line, sizeof line, file)) n += !strncmp(line, begin, strlen(begin));
    if (file) fclose(file);
    return n;
}

/* No step is repeated but one that a death interrupted, none is left out, and their sum is right. steps -1: any number
 * of them. */
static void expect_done(int steps, int generation, int ranks) {
    char line[256], want[64];
    int64_t step, next = 0;
    FILE *file = fopen(notes, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "step %ld", &step) != 1) continue;
        if (step > next || step < next - 1) fail_msg("step %ld comes after step %ld", step, next - 1);
        next = step + 1;
    }
    fclose(file);
    if (steps >= 0) assert_int_equal(next, steps);
    snprintf(want, sizeof want, "done %d %d %ld\n", generation, ranks, next * (next - 1) / 2);
    if (count_notes(want) != 1) fail_msg("no \"%s\" after:\n%s", want, lines);
}

static void expect_line(const char *text) {
    if (!strstr(lines, text)) fail_msg("no \"%s\" in:\n%s", text, lines);
}

/* A run of 4 ranks and 20 steps that ends well, with so many ranks. */
static void expect_well(const char *words, int generation, int ranks) {
    char *argv[6];
    tri_supervised what = job(4, 20, words, argv);
    tri_verdict v = supervise(&what);
    if (v.code) fail_msg("%s: code %d: %s\n%s", words, v.code, v.failure.text, lines);
    expect_done(20, generation, ranks);
    tri__verdict_free(&v);
}

/* ---- deaths ---- */

TEST(any_rank_may_die) {
    char words[32], want[96];
    for (int rank = 0; rank < 4; rank++) {
        snprintf(words, sizeof words, "0.%d@7=K", rank);
        expect_well(words, 1, 3);
        snprintf(want, sizeof want, "rank %d died (killed by SIGKILL) in step 7: 3 of 4 ranks go on\n", rank);
        assert_string_equal(lines, want);
    }
}

TEST(several_deaths) {
    expect_well("0.1@7=P", 1, 2);
    expect_line("rank 1 died (killed by SIGKILL) in step 7: 2 of 4");
    expect_line("rank 2 died (killed by SIGKILL) in step ");
    expect_well("0.0@3=K 1.0@9=K 2.0@12=K", 3, 1); /* one after another: rank 0 is another one each time */
    expect_well("0.3@0=K", 1, 3);                  /* before there is state to go on with */
    expect_well("0.3@j=K", 1, 3);                  /* before it joined */
    expect_well("0.3@7=K 1.1@7=K", 2, 2); /* before the second world kept a step: the first one's state serves */
}

TEST(deaths_while_others_regroup) {
    expect_well("0.3@7=K 0.1@l=K", 1, 2);
    expect_well("0.3@7=K 0.1@w=K", 2, 2);
    expect_line("rank 1 died (killed by SIGKILL): 2 of 3 ranks go on");
    expect_well("0.3@7=K 0.0@w=K 0.2@w=K", 2, 1);
}

/* A rank that fails by a bug, hangs, or ends without leaving is dead to the others, too. */
TEST(failures_that_others_survive) {
    char *argv[6];
    expect_well("0.1@7=I", 1, 3);
    expect_line("rank 1 died (a bug) in step 7: 3 of 4");
    expect_well("0.1@7=X", 1, 3);
    expect_line("rank 1 died (it ended with exit code 0 without leaving the others");
    const struct {
        const char *words, *line;
        int generation, ranks;
    } hangs[] = {{"0.2@7=T", "rank 2 died (hangs: no progress for 1.", 1, 3},
                 {"0.3@7=K 0.1@w=T", "rank 1 died (did not start within 1.", 2, 2}};
    for (int i = 0; i < 2; i++) {
        tri_supervised what = job(4, 20, hangs[i].words, argv);
        what.progress_timeout = 1;
        double begin = tri__clock();
        tri_verdict v = supervise(&what);
        assert_int_equal(v.code, 0);
        assert_true(tri__clock() - begin < 2.8 || getenv("TRI_SANITIZED")); /* killed: nobody waits until it leaves */
        expect_done(20, hangs[i].generation, hangs[i].ranks);
        expect_line(hangs[i].line);
        tri__verdict_free(&v);
    }
}

/* What would fail again ends the run, as without --elastic. */
TEST(failures_that_end_all) {
    char *argv[6];
    tri_supervised what = job(4, 20, "0.1@7=K 1.1@9=D", argv);
    tri_verdict v = supervise(&what);
    assert_int_equal(v.code, TRI_DATA);
    assert_int_equal(v.failure.rank, 1);
    assert_string_equal(v.failure.text, "a bad row");
    assert_int_equal(v.n, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(WEXITSTATUS(v.rank[i].status), TRI_DATA);
    tri__verdict_free(&v);
}

TEST(too_few_ranks_end_it) {
    char *argv[6];
    int pairs = 2;
    tri_supervised what = job(4, 20, "0.1@7=K 1.1@9=K", argv);
    what.min_ranks = 3;
    tri_verdict v = supervise(&what);
    assert_int_equal(v.code, 128 + SIGKILL);
    assert_int_equal(v.failure.rank, 1);
    assert_int_equal(v.failure.step, 9);
    assert_int_equal(v.n, 3);
    assert_int_equal(WTERMSIG(v.rank[1].status), SIGKILL);
    assert_int_equal(v.rank[1].step, 9);
    tri__verdict_free(&v);
    what = job(2, 20, "0.1@7=K", argv); /* no mesh */
    what.fit = fit_runs, what.fit_context = &pairs;
    v = supervise(&what);
    assert_int_equal(v.code, 128 + SIGKILL);
    assert_string_equal(lines, "");
    tri__verdict_free(&v);
}

/* ---- ranks outside the world ---- */

TEST(a_spare_steps_in) {
    char *argv[6];
    int pairs = 2;
    const struct {
        const char *words;
        int generation, ranks;
    } cases[] = {{"0.3@7=K", 1, 2}, {"0.3@7=K 1.0@9=K", 2, 2}, {"0.0@7=K 1.1@9=K", 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_supervised what = job(4, 20, cases[i].words, argv);
        what.fit = fit_runs, what.fit_context = &pairs;
        tri_verdict v = supervise(&what);
        if (v.code) fail_msg("%s: code %d: %s", cases[i].words, v.code, v.failure.text);
        expect_done(20, cases[i].generation, cases[i].ranks);
        expect_line("2 of 4 ranks go on");
        tri__verdict_free(&v);
    }
}

/* A run of 4 ranks whose dead are started again; three steps of this world are the last, however long a start takes. */
static void expect_restarted(const char *words, int restarts, int generation, int ranks) {
    char *argv[6];
    tri_supervised what = job(4, -generation, words, argv);
    what.max_restarts = restarts;
    tri_verdict v = supervise(&what);
    if (v.code) fail_msg("%s: code %d: %s\n%s", words, v.code, v.failure.text, lines);
    expect_done(-1, generation, ranks);
    tri__verdict_free(&v);
}

TEST(the_dead_are_started_again) {
    expect_restarted("0.2@7=K", 1, 2, 4);
    assert_string_equal(lines, "rank 2 died (killed by SIGKILL) in step 7: 3 of 4 ranks go on\n"
                               "rank 2 was started again and joins: 4 ranks\n");
    expect_restarted("0.0@7=K", 1, 2, 4); /* and is rank 0 again */
    expect_restarted("0.1@7=P", 1, 2, 4);
    expect_restarted("0.2@7=K 2.2@b=K", 1, 3, 3); /* once */
    expect_restarted("0.2@7=K 1.1@w=K", 2, 4, 4);   /* while they regroup in order */
}

/* All steps are taken, and a rank is killed before it has ended: the run is complete once the first rank has ended, and
 * what comes after the steps is done again if that one died. */
TEST(a_death_at_the_end) {
    char *argv[6];
    for (int restarts = 0; restarts < 2; restarts++)
        for (int first = 0; first < 2; first++) {
            tri_supervised what = job(4, 20, first ? "0.0@e=K" : "0.2@e=K", argv);
            what.max_restarts = restarts;
            tri_verdict v = supervise(&what);
            assert_int_equal(v.code, first && !restarts ? 128 + SIGKILL : 0);
            assert_int_equal(count_notes("step 19\n"), 1);
            assert_int_equal(count_notes("done 1 4 190\n"), first && restarts);
            if (first) assert_null(strstr(lines, "rank 2 died"));
            else expect_line("rank 2 died after the run had ended (killed by signal 9 (SIGKILL))");
            tri__verdict_free(&v);
        }
}

TEST(all_may_die) {
    expect_restarted("0.0@7=A", 1, 1, 4);
    expect_line("rank 0 died (killed by SIGKILL) in step 7: the run waits for ranks that are started again");
    expect_line("rank 3 was started again and joins: 4 ranks");
    assert_int_equal(count_notes("step 5\n"), 1); /* nothing was lost: the memory outlived them all */
    expect_restarted("0.0@j=K 0.1@j=K 0.2@j=K 0.3@j=K", 1, 1, 4);
    char *argv[6];
    tri_supervised what = job(2, 20, "0.0@7=A", argv);
    tri_verdict v = supervise(&what);
    assert_int_equal(v.code, 128 + SIGKILL);
    tri__verdict_free(&v);
}

/* ---- stops ---- */

TEST(a_stop_between_two_worlds) {
    char *argv[6];
    tri_supervised what = job(4, 20, "0.3@7=K 0.1@l=S", argv);
    tri_verdict v = supervise(&what);
    assert_int_equal(v.code, TRI_STOPPED);
    assert_int_equal(v.failed, 0);
    assert_int_equal(v.stopped, SIGTERM);
    tri__verdict_free(&v);
    what = job(4, 20, "0.3@7=K 1.1@9=S", argv); /* and in the second */
    v = supervise(&what);
    assert_int_equal(v.code, TRI_STOPPED);
    assert_true(count_notes("step 9\n") == 1 && count_notes("step 19\n") == 0);
    tri__verdict_free(&v);
    what = job(4, 20, "0.1@7=S 0.3@7=Z", argv); /* a death after the request is the run's failure */
    v = supervise(&what);
    assert_int_equal(v.code, 128 + SIGKILL);
    assert_int_equal(v.failed, 1);
    tri__verdict_free(&v);
    int pairs = 2;
    what = job(4, 20, "0.3@7=K 1.1@9=S", argv); /* a spare ends, too */
    what.fit = fit_runs, what.fit_context = &pairs;
    v = supervise(&what);
    assert_int_equal(v.code, TRI_STOPPED);
    tri__verdict_free(&v);
}

static int all_gone(void) {
    char line[64];
    int pid, left = 0;
    FILE *file = fopen(notes, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "pid %d", &pid) == 1) left += kill(pid, 0) == 0;
    if (file) fclose(file);
    return !left;
}

TEST(ranks_end_with_their_supervisor) {
    static const char *const cases[] = {"0.3@7=K 0.1@l=U", "0.3@7=K 1.1@9=U"};
    int pairs = 2;
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* else zombies would look alive */
    for (size_t i = 0; i < 2; i++) {
        char *argv[6];
        tri_supervised what = job(4, 20, cases[i], argv);
        what.fit = fit_runs, what.fit_context = &pairs; /* with a spare */
        pid_t pid = fork();
        if (pid == 0) {
            tri_verdict v;
            _exit(tri__supervise(&what, &v) == TRI_OK ? v.code : 99);
        }
        int how;
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        double begin = tri__clock();
        while (!all_gone() && tri__clock() - begin < 5) {
            while (waitpid(-1, NULL, WNOHANG) > 0) continue;
            usleep(1000);
        }
        assert_true(all_gone());
        while (waitpid(-1, NULL, 0) > 0) continue;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* ---- messages ---- */

/* Whatever comes over a socket: no descriptor stays open, and nothing is mapped that is not ours. */
TEST(strange_messages_are_refused) {
    int end[2], files = names("/proc/self/fd", NULL), again, null = open("/dev/null", O_RDWR);
    tri_regroup_message got;
    tri_world *next;
    assert_int_equal(tri__regroup_open(end), TRI_OK);
    assert_int_equal(tri__regroup_hear(end[1], &got), 0);
    assert_int_equal(write(end[0], "what?", 5), 5);
    assert_int_equal(tri__regroup_hear(end[1], &got), -1);
    const tri_regroup_message strange[] = {{.kind = TRI_REGROUP_WORLD, .next = -1, .before = -1},
                                           {.kind = TRI_REGROUP_END, .next = null, .before = -1},
                                           {.kind = TRI_REGROUP_READY, .next = null, .before = null}};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        assert_true(tri__regroup_say(end[0], &strange[i]));
        assert_int_equal(tri__regroup_hear(end[1], &got), -1);
    }
    const tri_regroup_message other = {.kind = TRI_REGROUP_WORLD, .n = 1, .next = null, .before = null};
    assert_true(tri__regroup_say(end[0], &other));
    assert_int_equal(tri__regroup_next(end[1], 1, NULL, &next, &again), TRI_DISAGREE);
    assert_non_null(strstr(tri_error(), "is not shared memory of Trident"));
    assert_null(next);
    tri_segment segment;
    tri_segment_spec spec = {.n = 2, .world = 2, .heap_bytes = 4096, .progress_timeout = 1};
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    const tri_regroup_message place = {
        .kind = TRI_REGROUP_WORLD, .local = 2, .n = 2, .next = segment.fd, .before = segment.fd};
    assert_true(tri__regroup_say(end[0], &place));
    assert_int_equal(tri__regroup_next(end[1], 1, NULL, &next, &again), TRI_DISAGREE);
    assert_non_null(strstr(tri_error(), "place 2 of 2"));
    tri__segment_close(&segment);
    close(end[0]);
    assert_int_equal(tri__regroup_next(end[1], 1, NULL, &next, &again), TRI_INTERNAL);
    assert_int_equal(again, 0);
    close(end[1]);
    close(null);
    assert_int_equal(names("/proc/self/fd", NULL), files);
}

/* ---- many ---- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* From the death until the last survivor is inside the next world, has met the others and found its state. */
static double read_delay(void) {
    char line[256];
    double died = 0, last = 0, at;
    FILE *file = fopen(notes, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "died %lf", &at) == 1) died = at;
        if (sscanf(line, "went on %*d %*d %*d %*d %lf", &at) == 1) last = at;
    }
    fclose(file);
    return last - died;
}

TEST(the_way_is_short) {
    int rounds = soak_count("SOAK_KILLS", 20);
    double *delay = calloc((size_t)rounds, sizeof *delay);
    for (int i = 0; i < rounds; i++) {
        expect_well("0.2@7=K", 1, 3);
        delay[i] = read_delay();
    }
    qsort(delay, (size_t)rounds, sizeof *delay, ascending);
    printf("death to all survivors in the next world: median %.1f ms, longest %.1f ms of %d\n", delay[rounds / 2] * 1e3,
           delay[rounds - 1] * 1e3, rounds);
    assert_true(delay[rounds / 2] < 0.05 || getenv("TRI_SANITIZED"));
    free(delay);
}

/* Many worlds, by deaths and joins in turn: the supervisor and the ranks that live through all of them have as many
 * descriptors as at first. */
TEST(worlds_leave_nothing_behind) {
    enum { MOST = 1000 };
    int worlds = soak_count("SOAK_WORLDS", 20) / 2 * 2;
    char *words = calloc(MOST, 16), *argv[6], line[256], done[32];
    assert_true(worlds <= MOST);
    for (int i = 0; i < worlds; i += 2) sprintf(words + strlen(words), "%d.2@b=K ", i);
    tri_supervised what = job(3, -worlds, words, argv);
    what.max_restarts = worlds;
    tri_verdict v = supervise(&what);
    if (v.code) fail_msg("code %d: %s", v.code, v.failure.text);
    tri__verdict_free(&v);
    free(words);
    int files, held, first[2] = {0}, last[2] = {0};
    FILE *file = fopen(notes, "r");
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "files %d %d", &files, &held) == 2) {
            if (!first[0]) first[0] = files, first[1] = held;
            last[0] = files, last[1] = held;
        }
    fclose(file);
    snprintf(done, sizeof done, "done %d 3 ", worlds);
    assert_int_equal(count_notes(done), 1);
    assert_true(first[0] > 0);
    assert_int_equal(last[0], first[0]);
    assert_true(last[1] < first[1] + 6); /* those of the dead rank, and of the earlier memory, may be closed already */
}

int main(int argc, char **argv) {
    if (argc > 4 && !strcmp(argv[1], "rank")) return regrouped_rank(argv);
    return run_listed(argc, argv, make_work, remove_work);
}
