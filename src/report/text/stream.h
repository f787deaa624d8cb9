/* stream.h - a stdio stream that goes on after signals. A stream of fdopen() fails when a signal interrupts a call, and
 * drops what it had buffered. */
#pragma once

#include <stdio.h>

/* `mode` as for fdopen(). The stream owns the descriptor; NULL and errno: it is still the caller's. fileno() does not
 * work on it. */
FILE *tri__stream_open(int fd, const char *mode);
