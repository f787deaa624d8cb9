/* search_space.h - what a search varies: keys of the configuration and the values that each may have, from a JSON
 * file. A trial's values depend on the seed, the trial's number and the key's name only. */
#pragma once

#include "settings/settings.h"

typedef struct tri_search_key {
    const tri_option *row;
    const tri_json *values; /* a list, of the file; NULL: a range */
    double from, to;        /* both included */
    int log, integer;       /* of a range */
} tri_search_key;

typedef struct tri_search_space {
    tri_search_key *key; /* [n] */
    int n;
    tri_json *file;     /* as read */
} tri_search_space;

/* Every value is checked by its option's own bounds: TRI_USAGE with file, line, key and value. */
tri_status tri__search_read(const char *path, tri_search_space *out);
void tri__search_free(tri_search_space *space); /* accepts a zeroed one */
/* The key of an option's row; NULL: the space leaves it alone. */
const tri_search_key *tri__search_find(const tri_search_space *space, const tri_option *row);
/* A trial's (from 1) value of each key: {"lr": 0.000123}; a new reference, NULL when out of memory. */
tri_json *tri__search_draw(const tri_search_space *space, uint32_t seed, int64_t trial);
