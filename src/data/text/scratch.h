/* scratch.h - memory that encoding one text needs: made on the caller's stack as {0}, grown as needed, freed at the
 * end. */
#ifndef TRI_DATA_TEXT_SCRATCH_H
#define TRI_DATA_TEXT_SCRATCH_H

#include "base/status.h"

typedef struct tri_bytes {
    char *at;
    size_t room; /* bytes */
} tri_bytes;

typedef struct tri_scratch {
    tri_bytes text[2];  /* normalisation goes back and forth between them */
    tri_bytes run;      /* a character and the marks on it */
    tri_bytes lead;     /* a word that got a blank in front */
    tri_bytes symbols, heap; /* of a word under merging */
} tri_scratch;

/* At least `room` bytes; what they held is kept. TRI_RESOURCE when out of memory. */
tri_status tri__bytes_room(tri_bytes *bytes, size_t room);
void tri__scratch_free(tri_scratch *scratch);

#endif
