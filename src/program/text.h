/* text.h - a program as text, one slot or instruction a line, and back. Printing what was parsed gives the same
 * text. */
#ifndef TRI_PROGRAM_TEXT_H
#define TRI_PROGRAM_TEXT_H

#include "program/program.h"

#include <stdio.h>

void tri__program_print(const tri_program *program, FILE *out);
/* The same into memory; the caller frees it. */
tri_status tri__program_text(const tri_program *program, char **text);
/* `name` stands in messages: name:line: what is wrong. */
tri_status tri__program_parse(tri_arena *arena, const char *name, const char *text, tri_program **out);

#endif
