/* programs.h - printed programs read back from files: one for each rank of a mesh. */
#pragma once

#include "program/check.h"
#include "program/text.h"

/* A rank's program and its source. */
typedef struct tri_read_program {
    const char *path;        /* of its file */
    const tri_parsed *parsed; /* NULL: not read yet */
} tri_read_program;

/* Programs of one title: those of all ranks of a mesh. */
typedef struct tri_program_set {
    const char *title;
    tri_read_program first;  /* the first one read, which the others must match */
    tri_read_program *rank;  /* [world] */
    int world, n;            /* ranks; those that were read */
    tri_classes classes;     /* every rank is a class */
} tri_program_set;

typedef struct tri_program_sets {
    tri_program_set *at;
    int n, cap;
} tri_program_sets;

/* Reads n files, each of one program or several, and calls use(arena, sets, data) with the sets that they form, each
 * complete and checked. TRI_DATA with file and line where one is not. */
tri_status tri__programs_read(const char *const *paths, int n,
                              tri_status (*use)(tri_arena *arena, const tri_program_sets *sets, void *data),
                              void *data);
