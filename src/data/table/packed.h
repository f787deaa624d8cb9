/* packed.h - text tables that are compressed as a whole: train.csv.gz, train.jsonl.zst. They are unpacked once, when
 * they are opened, and read like any other text: into memory up to the size that is kept there, larger ones into a file
 * without a name. */
#pragma once

#include "data/table/unpack.h"
#include "data/table/table_parts.h"

/* The library that a name's ending (.gz, .zst) asks for; TRI_PACKERS: it is not compressed. *stem: the name's length
 * without the ending. */
tri_packer tri__packed_name(const char *path, size_t *stem);
/* ".gz"; NULL: names of tables do not end like that. */
const char *tri__packed_ending(tri_packer packer);
/* The program that unpacks it: "gunzip -k". */
const char *tri__packed_program(tri_packer packer);
/* Unpacks the source; it then holds the text. TRI_DATA "file: damaged at byte N: ..."; TRI_USAGE: this build lacks the
 * library. */
tri_status tri__packed_open(tri_table *table, tri_packer packer);
