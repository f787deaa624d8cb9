/* soak.h - repetition counts of tests: a sample in `make test`, as set by the environment in `make soak`. */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include "tests/lib/test.h"

/* name: SOAK_KILLS etc. (tests/soak/run). */
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

#endif
