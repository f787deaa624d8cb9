/* soak.h - how often a test does what it does: a sample in `make test`, as often as the environment says in `make
 * soak`. */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* name: SOAK_KILLS and the like (tests/soak/run). */
static inline int soak_count(const char *name, int sample) {
    const char *text = getenv(name);
    return text && atoi(text) > 0 ? atoi(text) : sample;
}

/* Steps of each case: SOAK_STEPS of all of them, up to `most`; else `few` of a sample. *whole: whether it is all. */
static inline int soak_steps(int few, int most, int *whole) {
    int steps = soak_count("SOAK_STEPS", 0);
    *whole = steps > 0;
    return !*whole ? few : steps < most ? steps : most;
}

/* A test program's first argument, where there is one, names the tests of it that run; * and ? stand for any. */
static inline void soak_select(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
}

#endif
