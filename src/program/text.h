/* text.h - a program as text, one slot or instruction a line, and back. Printing what was parsed gives the same
 * text. */
#pragma once

#include "program/program.h"

/* "[T0/2+1,64]": rows and columns of a slot, into `text`, which is returned. */
enum { TRI_SIZE_TEXT = 80 };
const char *tri__slot_size(const tri_slot *slot, char text[static TRI_SIZE_TEXT]);
void tri__program_print(const tri_program *program, FILE *out);
/* The same into memory; the caller frees it. */
tri_status tri__program_text(const tri_program *program, char **text);

/* A parsed program, and the lines of its parts in the text, counted from 1. */
typedef struct tri_parsed {
    tri_program *program;
    int line;                 /* of its first word, `program` */
    int *slot_line;           /* [n_slots] */
    int *instr_line;          /* [n_instrs] */
    int cap_slots, cap_instrs;
} tri_parsed;

/* All programs of a text, [*n], at least one. Messages begin with `name`:line. TRI_DATA for any text that is not a list
 * of programs. tri__check proves that they can run. */
tri_status tri__programs_parse(tri_arena *arena, const char *name, const char *text, tri_parsed **out, int *n);
/* The same for a text with one program. */
tri_status tri__program_parse(tri_arena *arena, const char *name, const char *text, tri_program **out);
