/* file_parts.h - what file.c and folder.c share. */
#pragma once

#include "base/file.h"

#include <sys/types.h>

/* openat() that retries after signals; close-on-exec. */
int tri__open_at(int at, const char *name, int flags, mode_t mode);

/* The open folder that holds `path`, and the name in it, so that checking, creating, renaming and removing all refer to
 * the same place. Links on the way to the folder are followed, the last name itself is not. */
typedef struct tri_spot {
    int at;
    char name[256];
} tri_spot;
tri_status tri__spot_open(const char *path, tri_status missing, tri_spot *spot); /* missing: where the folder is */
void tri__spot_close(tri_spot *spot);
