/* test_parent.c - what starts trainings and ranks, without starting any: command lines, a sweep's state and order. */
#include "job/ranks.h"
#include "job/sweep.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

static char said[4096];

static void say(void *context, tri_log_level level, const char *text) {
    (void)context;
    assert_int_equal(level, TRI_LOG_PLAIN);
    snprintf(said, sizeof said, "%s", text);
}

static char *hosts(const char *name) { return strcmp(name, "SLURM_JOB_NODELIST") ? NULL : (char *)"gpu[07-08]"; }
static char *nothing(const char *name) { return (void)name, NULL; }

static tri_settings settings_of(int n, const char *const *args) {
    tri_settings settings;
    int n_words;
    assert_int_equal(tri__settings_init(&settings), TRI_OK);
    if (tri__settings_parse(&settings, "train", n, args, NULL, 0, &n_words) != TRI_OK) fail_msg("%s", tri_error());
    return settings;
}

/* Options that set hosts and ranks are dropped with their values, other words quoted. */
TEST(machines_are_told) {
    const char *args[] = {"trident", "train", "--nnodes", "2", "--nproc-per-node=4", "--data-path", "my data",
                          "--standalone", "--epochs", "3", NULL};
    tri_settings settings = settings_of(4, (const char *const[]){"--nnodes", "2", "--nproc-per-node", "4"});
    tri_parent parent = {.argv = (char *const *)args, .lookup = hosts, .log.say = say};
    settings.world_size = 8;
    tri__tell_machines(&parent, &settings);
    const char *command = " trident train --data-path 'my data' --epochs 3";
    char first[256];
    snprintf(first, sizeof first, "mpirun -np 8 -H gpu07:4,gpu08:4%s\nsrun -N 2 -n 8 --ntasks-per-node=4 --mpi=pmi",
             command);
    if (strncmp(said, first, strlen(first))) fail_msg("%s", said);
    assert_string_equal(said + strlen(said) - strlen(command), command);
    parent.lookup = nothing;
    tri__tell_machines(&parent, &settings);
    assert_non_null(strstr(said, "-H HOST1:4,HOST2:4 trident"));
    tri__settings_free(&settings);
}

/* Changed options are left out with their values, by any of their names, and come at the end. */
TEST(trainings_have_their_own_options) {
    const char *args[] = {"--lr", "0.1", "--output_dir=a", "--json", "--epochs", "3", "--seeds", "4", "--", "word"};
    const tri_change changes[] = {{"output_dir", "b"}, {"seeds", "1"}, {"json", "false"}};
    const tri_parent parent = {.argv = (char *[]){(char *)"trident", NULL}};
    char **argv = tri__training_argv(&parent, 10, args, changes, 3), line[256] = "";
    assert_non_null(argv);
    for (int i = 0; argv[i]; i++) snprintf(line + strlen(line), sizeof line - strlen(line), " %s", argv[i]);
    assert_string_equal(line, " trident train --lr 0.1 --epochs 3 --output-dir b --seeds 1 --json false");
    free(argv);
}

static tri_sweep sweep_of(const tri_settings *settings, const tri_sweep_options *own) {
    tri_sweep s = {.settings = settings, .own = own};
    assert_int_equal(tri__file_write(own->space, "{\"lr\": [0.1, 0.2]}", 18), TRI_OK);
    assert_int_equal(tri__search_read(own->space, &s.space), TRI_OK);
    assert_int_equal(tri__sweep_draw(&s), TRI_OK);
    assert_int_equal(tri__path_join(s.path, settings->output_dir, "sweep.json"), TRI_OK);
    return s;
}

static void expect_order(const tri_sweep *s, const char *numbers) {
    const tri_sweep_trial **order = tri__sweep_order(s);
    char text[64] = "";
    for (int i = 0; i < s->n; i++) snprintf(text + strlen(text), sizeof text - strlen(text), "%d", order[i]->number);
    assert_string_equal(text, numbers);
    free(order);
}

/* A sweep that is taken up again knows its figures, tries what may succeed again, and is no other sweep. */
TEST(sweeps_are_taken_up) {
    char space[TRI_PATH_MAX];
    assert_int_equal(tri__path_join(space, folder, "space.json"), TRI_OK);
    tri_settings settings = settings_of(4, (const char *const[]){"--output-dir", folder, "--epochs", "9"});
    tri_sweep_options own = {.space = space, .trials = 4, .parallel = 1, .halving = 3};
    tri_sweep s = sweep_of(&settings, &own);
    assert_int_equal(tri__sweep_load(&s), TRI_OK); /* nothing there yet */
    s.trial[0].rungs = s.trial[1].rungs = s.trial[2].rungs = 1;
    s.trial[0].figure[0] = 0.5, s.trial[1].figure[0] = 0.25, s.trial[2].figure[0] = 0.5;
    s.trial[1].code = TRI_USAGE, s.trial[1].why = strdup("wrong");
    s.trial[3].code = 128 + 9, s.trial[3].why = strdup("killed");
    expect_order(&s, "1324"); /* a loss, more rungs first, one that failed last */
    assert_int_equal(tri__sweep_save(&s), TRI_OK);
    tri__sweep_free(&s);

    s = sweep_of(&settings, &own);
    assert_int_equal(tri__sweep_load(&s), TRI_OK);
    assert_int_equal(s.trial[2].rungs, 1);
    assert_true(s.trial[2].figure[0] == 0.5);
    assert_string_equal(s.trial[1].why, "wrong");
    assert_int_equal(s.trial[3].code, 0);
    expect_order(&s, "1342");
    tri__sweep_free(&s);

    own.trials = 5;
    s = sweep_of(&settings, &own);
    assert_int_equal(tri__sweep_load(&s), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "was begun with --trials 4, now it is 5"));
    tri__sweep_free(&s);
    tri__settings_free(&settings);
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
