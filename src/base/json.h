/* json.h - JSON files by jansson, with our limits (depth 64, strings of 1 MiB) and errors that say file, line, column. */
#ifndef TRI_BASE_JSON_H
#define TRI_BASE_JSON_H

#include "base/status.h"

#include <jansson.h>

/* The root must be an object. Duplicate keys are refused. Syntax errors are TRI_USAGE or TRI_DATA, as `bad` says. */
tri_status tri__json_load(const char *path, tri_status bad, json_t **out);
tri_status tri__json_parse(const char *text, size_t length, const char *name, tri_status bad, json_t **out);
/* The line, from 1, on which a key of the root stands in the text of a file; 0: it is not written there letter by letter. */
int tri__json_line_of(const char *text, size_t length, const char *key);
/* Numbers with 9 significant digits, so that a float comes back the same. Written beside, then renamed. */
tri_status tri__json_save(const char *path, const json_t *value);
/* One line, no newline at its end; the caller frees it. NULL when out of memory. */
char *tri__json_line(const json_t *value);

#endif
