/* classes.h - the programs of all ranks of a mesh, without duplicates.
 *
 * Replicas that differ only in their place on the dp axis compute the same; only their shards begin elsewhere. Such
 * ranks form a class: the program of its first member, and a rule for the others. From each member to the next, the
 * views listed in `shift` begin a fixed number of elements further in their parents, and the numbers in their names
 * grow by the same amount. Everything else except the rank is the same: groups and peers of transfers are named by axes
 * and places, not by ranks. */
#pragma once

#include "program/program.h"

/* A view that moves from member to member. */
typedef struct tri_shift {
    int slot;
    int64_t each; /* elements of the parent; may be negative */
    int digit;    /* where a number in the name begins; -1: the name stays */
    int64_t number_each;
} tri_shift;

typedef struct tri_class {
    const tri_program *program; /* of its first member, in the first run of `period` replicas */
    int begin, n; /* its members' places on the dp axis: [begin, begin + n), in each run of `period` replicas */
    tri_shift *shift;
    int n_shifts;
} tri_class;

typedef struct tri_classes {
    tri_mesh mesh;
    int world;
    int period;    /* divides mesh.dp: replica d has the program of replica d % period */
    tri_class *at; /* by row, then by `begin` */
    int n, cap;
    int *first; /* [pp * tp + 1] index of the first class of each row */
    /* [pp * tp] the row whose classes stand for each, in plans for figures only (plan/plan.h); NULL: every row has its
     * own */
    int *like;
} tri_classes;

/* A row: all ranks of one place on pp and tp; numbered with pp fastest. */
int tri__classes_row(const tri_mesh *mesh, tri_coords at);
/* No classes yet: they are added row by row. */
void tri__classes_open(tri_classes *ranks, tri_arena *arena, const tri_mesh *mesh, int period);
void tri__classes_add(tri_classes *ranks, tri_arena *arena, int row, tri_class added);
/* A row gets no classes: those of `other`, an earlier one, stand for it. */
void tri__classes_alias(tri_classes *ranks, tri_arena *arena, int row, int other);
/* One program for each rank, in order: every rank is a class. TRI_INTERNAL when they are not all ranks of one mesh. */
tri_status tri__classes_list(tri_classes *ranks, tri_arena *arena, const tri_program *const *programs, int n);
/* Whether the classes make up the mesh: every rank is a member of one, and the first member's program says so. */
tri_status tri__classes_check(const tri_classes *ranks);

/* The class of a rank; *member: its index among the members of a run, unless NULL. */
const tri_class *tri__class_of(const tri_classes *ranks, int rank, int *member);
/* A rank's program, in the arena; parts that do not differ are shared with the class. */
const tri_program *tri__classes_program(const tri_classes *ranks, tri_arena *arena, int rank);

/* Finds the shifts (in the arena) that lead from `first`, member 0, to `last`, member n - 1, n > 1. 0: there are none,
 * so they are not members of one class. */
int tri__class_rule(tri_arena *arena, const tri_program *first, const tri_program *last, int n, tri_class *out);
/* Whether two programs have the same units, or gates of layers. */
int tri__same_units(const tri_program *a, const tri_program *b);
int tri__same_layers(const tri_program *a, const tri_program *b);
/* Whether two programs are identical. */
int tri__program_equal(const tri_program *a, const tri_program *b);
