/* scratch.h - scratch memory for encoding one text: initialised with {0} on the caller's stack, grown as needed, freed
 * at the end. */
#pragma once

#include "base/base.h"

typedef struct tri_bytes {
    char *at;
    size_t room; /* bytes */
} tri_bytes;

typedef struct tri_scratch {
    tri_bytes text[2];  /* normalisation alternates between them */
    tri_bytes run;      /* a character and the marks on it */
    tri_bytes lead;     /* a word with a prepended blank */
    tri_bytes symbols, heap; /* of the word being merged */
} tri_scratch;

/* Grows to at least `room` bytes, keeping the content. TRI_RESOURCE if out of memory. */
tri_status tri__bytes_room(tri_bytes *bytes, size_t room);
void tri__scratch_free(tri_scratch *scratch);
