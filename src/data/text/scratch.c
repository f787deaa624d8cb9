/* scratch.c - growing byte arrays. */
#include "data/text/scratch.h"

tri_status tri__bytes_room(tri_bytes *bytes, size_t room) {
    if (room <= bytes->room) return TRI_OK;
    size_t grown = room < 4096 ? 4096 : room > SIZE_MAX / 2 ? room : room + room / 2;
    char *at = realloc(bytes->at, grown);
    if (!at) return tri__fail(TRI_RESOURCE, "out of memory: a text needs %zu bytes to be tokenised", grown);
    bytes->at = at, bytes->room = grown;
    return TRI_OK;
}

void tri__scratch_free(tri_scratch *scratch) {
    TRI_FREE(scratch->text[0].at, scratch->text[1].at, scratch->run.at, scratch->lead.at, scratch->symbols.at);
    free(scratch->heap.at);
    *scratch = (tri_scratch){0};
}
