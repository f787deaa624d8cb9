/* scratch.h - a temporary folder for a test program: created before its tests, removed with its files after them. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

#ifndef SCRATCH_IN
#define SCRATCH_IN "/tmp" /* where it is made */
#endif
static char folder[] = SCRATCH_IN "/trident-test-??????";

static inline int setup(void **state) {
    (void)state;
    memset(folder + strlen(folder) - 6, 'X', 6);
    return mkdtemp(folder) ? 0 : -1;
}

static inline int teardown(void **state) {
    (void)state;
    return tri__folder_remove(folder) == TRI_OK ? 0 : -1;
}

#endif
