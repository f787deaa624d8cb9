/* programs.h - printed programs read back from files: one for each rank of a mesh. */
#ifndef TRI_STUDY_PROGRAMS_H
#define TRI_STUDY_PROGRAMS_H

#include "program/check.h"
#include "program/text.h"

/* A rank's program and where it stands. */
typedef struct tri_read_program {
    const char *path;        /* of its file */
    const tri_parsed *parsed; /* NULL: not yet there */
} tri_read_program;

/* Programs of one title: those of all ranks of a mesh. */
typedef struct tri_program_set {
    const char *title;
    tri_read_program first;  /* the one that was read first: the others fit it */
    tri_read_program *rank;  /* [world] */
    int world, n;            /* ranks; those that were read */
    tri_classes classes;     /* every rank by itself */
} tri_program_set;

typedef struct tri_program_sets {
    tri_program_set *at;
    int n, cap;
} tri_program_sets;

/* Reads n files, each of one program or several, calls use(arena, sets, data) with the sets that they make up, each
 * whole, and proven to run together. TRI_DATA with file and line where they are not. */
tri_status tri__programs_read(const char *const *paths, int n,
                              tri_status (*use)(tri_arena *arena, const tri_program_sets *sets, void *data),
                              void *data);

#endif
