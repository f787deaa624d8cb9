/* formats.h - the formats of tables. Each is a `const tri_format tri__format_NAME` in a file of its own; files are
 * recognised by the endings of their names, and a file with any other ending is CSV. */
#pragma once

#include "data/table/table_parts.h"

#define TRI_FORMATS(X) X(csv) X(jsonl) X(arrow) X(parquet)

/* The format of a file, by the first `length` bytes of its name: without the ending of a compressed file. */
const tri_format *tri__format_of(const char *path, size_t length);
/* The binary format whose files begin like this; NULL: none. */
const tri_format *tri__format_by_magic(const char *bytes, size_t size);
/* The usual ending of its files: ".csv". */
const char *tri__format_ending(const tri_format *format, char out[static TRI_ENDING_BYTES]);
