/* read_at.h - parts of an open file, by position. Files that others may cut short are read this way and not mapped:
 * what is no longer there is an error, and not a SIGBUS. */
#ifndef TRI_BASE_READ_AT_H
#define TRI_BASE_READ_AT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* All of bytes [at, at + bytes) or an error: TRI_IO when the file ends before; `path` stands in the message. */
tri_status tri__read_at(int fd, uint64_t at, void *out, size_t bytes, const char *path);

#endif
