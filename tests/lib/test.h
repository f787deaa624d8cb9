/* test.h - what every test program includes: cmocka, and tests that enter themselves in the list.
 *
 *     TEST(adds) { assert_int_equal(1 + 1, 2); }
 *     int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
 *
 * Tests run in the order of the file. Inside a test, `state` is cmocka's. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) LISTED_TEST(name, NULL, NULL, __LINE__)
/* A test with `before` and `after` it. */
#define TEST_IN(name, before, after) LISTED_TEST(name, before, after, __LINE__)
/* A test that forks: it runs before others that start threads. */
#define FIRST_TEST(name) LISTED_TEST(name, NULL, NULL, 0)

#define LISTED_TEST(name, before, after, line) \
    static void name(void **state); \
    __attribute__((constructor)) static void name##_is_listed(void) { \
        list_test((struct CMUnitTest){#name, name, before, after, NULL}, line); \
    } \
    static void name(__attribute__((unused)) void **state)

void list_test(struct CMUnitTest test, int line);

/* Runs the listed tests, between `setup` and `teardown` of the program if they are not NULL; argv[1], if given, selects
 * tests by name (* and ? are wildcards). Returns the number that failed. */
int run_listed(int argc, char **argv, CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
