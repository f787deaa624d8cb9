/* test_regroup.c - runs that go on when ranks die: each rank, several, while others regroup, all; ranks that are
 * started again; spares; stops. This program is also the rank (regrouped_rank.h). */
#include "launch/supervisor.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "names.h"
#include "soak.h"
#include "regrouped_rank.h"

extern char **environ;

static char folder[] = "/tmp/test_regroup.XX" "XX" "XX", notes[64], lines[4096];

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

/* No step is repeated beyond those that a death interrupted, none is left out, and their sum is right. */
static void expect_done(int steps, int generation, int ranks) {
    char line[256], want[64];
    int64_t step, next = 0;
    FILE *file = fopen(notes, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "step %ld", &step) != 1) continue;
        if (step > next) fail_msg("step %ld comes after step %ld", step, next - 1);
        next = step + 1;
    }
    fclose(file);
    assert_int_equal(next, steps);
    snprintf(want, sizeof want, "done %d %d %lld\n", generation, ranks, steps * (steps - 1LL) / 2);
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

static void any_rank_may_die(void **state) {
    (void)state;
    char words[32], want[96];
    for (int rank = 0; rank < 4; rank++) {
        snprintf(words, sizeof words, "0.%d@7=K", rank);
        expect_well(words, 1, 3);
        snprintf(want, sizeof want, "rank %d died (killed by SIGKILL) in step 7: 3 of 4 ranks go on\n", rank);
        assert_string_equal(lines, want);
    }
}

static void several_deaths(void **state) {
    (void)state;
    expect_well("0.1@7=K 0.2@7=K", 1, 2);
    expect_line("rank 1 died (killed by SIGKILL) in step 7: 2 of 4");
    expect_line("rank 2 died (killed by SIGKILL) in step 7: 2 of 4");
    expect_well("0.0@3=K 1.0@9=K 2.0@12=K", 3, 1); /* one after another: rank 0 is another one each time */
    expect_well("0.3@0=K", 1, 3);                  /* before there is state to go on with */
    expect_well("0.3@j=K", 1, 3);                  /* before it joined */
    expect_well("0.3@7=K 1.1@7=K", 2, 2); /* before the second world kept a step: the first one's state serves */
}

static void deaths_while_others_regroup(void **state) {
    (void)state;
    expect_well("0.3@7=K 0.1@l=K", 1, 2);
    expect_well("0.3@7=K 0.1@w=K", 2, 2);
    expect_line("rank 1 died (killed by SIGKILL): 2 of 3 ranks go on");
    expect_well("0.3@7=K 0.0@w=K 0.2@w=K", 2, 1);
}

int main(int argc, char **argv) {
    if (argc > 4 && !strcmp(argv[1], "rank")) return run_rank(argv);
    soak_select(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_rank_may_die),
        cmocka_unit_test(several_deaths),
        cmocka_unit_test(deaths_while_others_regroup),
    };
    (void)fit_runs;
    snprintf(notes, sizeof notes, "%s/notes", mkdtemp(folder));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
