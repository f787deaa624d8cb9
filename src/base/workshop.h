/* workshop.h - a temporary folder in which an output is made before it gets its name. One that a killed process left is
 * removed by the next that is opened in the same place. */
#pragma once

#include "base/file.h"

typedef struct tri_workshop {
    char folder[TRI_PATH_MAX]; /* "PARENT/.trident-", and six letters */
    int lock;                  /* held while it is open */
} tri_workshop;

tri_status tri__workshop_open(const char *parent, tri_workshop *workshop); /* nothing to close after a failure */
void tri__workshop_close(tri_workshop *workshop); /* removes it and what is still in it */
