/* test.c - the list of a program's tests. Constructors of a file run in no certain order, so that tests are sorted by
 * their line. */
#include "tests/lib/test.h"

enum { MOST_TESTS = 128 };
static struct CMUnitTest tests[MOST_TESTS];
static int lines[MOST_TESTS], n_tests;

void list_test(struct CMUnitTest test, int line) {
    if (n_tests == MOST_TESTS) abort();
    int at = n_tests++;
    for (; at > 0 && lines[at - 1] > line; at--) {
        tests[at] = tests[at - 1];
        lines[at] = lines[at - 1];
    }
    tests[at] = test;
    lines[at] = line;
}

int run_listed(int argc, char **argv, CMFixtureFunction setup, CMFixtureFunction teardown) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests(argv[0], tests, (size_t)n_tests, setup, teardown);
}
