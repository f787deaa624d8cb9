/* canary.h - checks that a rank uses exactly its planned memory, class by class: all of it is painted, a step of the
 * largest planned microbatches runs, and then the paint must be overwritten up to the last slot, with guard bytes after
 * it intact. Scratch memory (WORK) is the exception: a kernel's formula is an upper bound, so only the guard is
 * checked. Runs in a rank's thread, where cmocka's asserts are not allowed. Destroys the session's weights. */
#ifndef TESTS_CANARY_H
#define TESTS_CANARY_H

#include "train/session.h"

enum {
    CANARY_GUARD = 256,
    CANARY_ALIGN = 64,
    CANARY_PAINT = 0xA5
}; /* bytes; slots begin at multiples of CANARY_ALIGN */

void canary_guard(const tri_engine *e);

/* Weights cannot be painted, since the step computes with them: their last bytes are compared instead. Everything else
 * is painted; a painted second moment is a small negative number, which turns weights into NaN, but only in the
 * update. */
tri_status canary_check(const tri_session *s);

#endif
