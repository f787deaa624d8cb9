/* session_data.h - a small generated data set in a temporary folder, a model for it, and sessions on it; shared by
 * tests of training. */
#ifndef TESTS_SESSION_DATA_H
#define TESTS_SESSION_DATA_H

#include "tests/lib/tiny.h"

#include "train/session.h"

#include <unistd.h>

extern char root[64];

void write_file(const char *name, const char *text);

/* Words w0..w19; the label depends on the first, so that there is something to learn. */
void write_table(const char *name, int rows, uint32_t seed);
int make_data(void **state);
int remove_data(void **state);

/* As a rank of `world`; NULL: alone. extra: further options, ended by NULL. guard: bytes after each class of memory. */
tri_status join_guarded(tri_world *world, size_t guard, tri_session **session, const char *output,
                        const char *const *extra);

tri_status join_status(tri_world *world, tri_session **session, const char *output, const char *const *extra);

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})
tri_session *open_session(const char *output, const char *const *extra);

/* *more is 0 after the last step. */
tri_status take_step(tri_session *session, double *loss, int *more);

/* Of all weights and the optimizer's state that this rank holds. */
tri_status session_digest(const tri_session *s, char hex[static 33]);

#endif
