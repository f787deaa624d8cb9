/* program_text.h - compares programs with their committed texts. A change to a pass shows as a text difference: run
 * with TRIDENT_UPDATE_GOLDEN=1 and review it. */
#ifndef TESTS_PROGRAM_TEXT_H
#define TESTS_PROGRAM_TEXT_H

#include "program/text.h"

/* A text with its first `find`, which is there, replaced by `put`; find NULL: as it is. */
const char *program_text_edited(tri_arena *arena, const char *text, const char *find, const char *put);

/* Parses such a text. `name` stands in messages. */
const tri_program *program_text_parse(tri_arena *arena, const char *name, const char *text, const char *find,
                                      const char *put);

/* n programs, one after the other. */
void program_text_check(const char *path, const tri_program *const *programs, int n);

/* A program whose text has the line `line`, printed, parsed and printed again: the same text, the same program. Returns
 * the parsed one. */
tri_program *program_text_again(tri_arena *arena, const tri_program *program, const char *line);

#endif
