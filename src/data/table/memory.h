/* memory.h - tables in memory, found by paths "memory:NAME" (trident_table.h has the public functions). */
#pragma once

#include "data/table/arrow_image.h"

#define TRI_MEMORY_PREFIX "memory:"

/* What follows "memory:"; NULL: it is a path of a file. */
const char *tri__memory_name(const char *path);
/* TRI_NOINPUT, naming those that there are. tables may be NULL. */
tri_status tri__memory_find(const tri_tables *tables, const char *name, const tri_image **out);
