/* read_at.h - parts of an open file, by position. Files that other processes may truncate are read this way and not
 * mapped, so that missing bytes are an error and not a SIGBUS. */
#pragma once

#include "base/base.h"

/* Reads all of bytes [at, at + bytes) or fails: TRI_IO if the file is shorter; `path` is for the message. */
tri_status tri__read_at(int fd, uint64_t at, void *out, size_t bytes, const char *path);
