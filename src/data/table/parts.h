/* parts.h - one table in several files: a name with an asterisk, "data/train-*.parquet", stands for all files whose
 * names begin and end like it, in the order of the numbers in them. */
#pragma once

#include "data/table/table_parts.h"

/* Whether a path stands for several files: its last name has an asterisk, and there is no such file. */
int tri__parts_named(const char *path);
/* The files of a path, in order: of a plain one itself. TRI_NOINPUT if there are none; TRI_DATA if names like
 * train-00000-of-00003.parquet say that one is missing. */
tri_status tri__parts_list(const char *path, tri_names *out);
/* Opens all of table->path as one table. Their columns must have the same names and kinds of values (of JSON lines any
 * may lack some), in any order. */
tri_status tri__parts_open(tri_table *table);
