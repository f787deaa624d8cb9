/* check_parts.h - the state of the checker's dry run, for its files. */
#pragma once

#include "program/check.h"
#include "program/transfer.h"

/* A number that is linear in the member's index and in its run: its value for the first, and the increments. */
typedef struct tri_linear {
    int64_t at, each, run;
} tri_linear;

typedef struct tri_linear_range {
    tri_linear begin, end; /* of a root's elements */
} tri_linear_range;

typedef struct tri_check_root {
    tri_linear_range *known; /* elements that hold a value; sorted, disjoint */
    int n;
    int taken_by;      /* the slot that overwrote this root's memory; -1 */
    int is_read;       /* read since it was written: its sum is complete */
    int is_live;       /* it is in `live` */
    tri_mem mem;
    int64_t begin, end; /* bytes of its class */
} tri_check_root;

/* A transfer, or a copy between memories, that was posted and not yet waited for. */
typedef struct tri_flight {
    tri_ends ends;
    int line, copies; /* copies 1: between memories */
} tri_flight;

/* Members of a class: n of them from index `first` on, in each of `copies` runs of replicas from run `copy` on. */
typedef struct tri_check_members {
    int first, n, copy, copies;
    int period;        /* replicas of a run; 0: the program's rank alone, whose mesh may be anything */
} tri_check_members;

typedef struct tri_checker {
    const tri_program *program;
    const tri_class *class;
    tri_check_members of;
    int varies;        /* a comparison is not the same for all members */
    tri_open_gates now; /* the step that runs dry */
    tri_arena *arena;
    int *root_of;      /* [n_slots] */
    tri_linear_range *range; /* [n_slots] a slot's elements of its root */
    tri_check_root *root; /* [n_slots], used for roots */
    int *live[TRI_MEM_COUNT]; /* non-empty roots of each class that hold a value, by offset; no two overlap */
    int n_live[TRI_MEM_COUNT];
    tri_flight *flight;
    int n_flights, cap_flights;
    int *post;         /* [n_instrs] of each wait: the post that it ends */
    int line;          /* instruction; n_instrs: before the first, or at the end */
    int slot;          /* the slot being checked */
    const tri_origin *origin; /* NULL: planned */
} tri_checker;

static inline tri_linear tri__fixed(int64_t value) { return (tri_linear){.at = value}; }
static inline tri_linear tri__sum(tri_linear a, tri_linear b) {
    return (tri_linear){a.at + b.at, a.each + b.each, a.run + b.run};
}

/* check.c: */
/* -1, 0, 1: a < b, a = b, a > b. Members for which that differs are split (checker.varies). */
int tri__check_compare(tri_checker *c, tri_linear a, tri_linear b);
/* The rank of a member (0: the first) of one of the runs. */
int tri__check_rank(const tri_checker *c, int member, int copy);
/* Fails at the current line. */
tri_status tri__defect(const tri_checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* check_layers.c: what a closed layer leaves behind is its input. */
tri_status tri__check_layers(tri_checker *c);

/* check_transfer.c: the ends of posts, copies between memories, and waits. */
tri_status tri__check_post(tri_checker *c, const tri_instr *instr);
tri_status tri__check_copy(tri_checker *c, const tri_instr *instr);
tri_status tri__check_wait(tri_checker *c, const tri_instr *instr);
/* Whether a transfer's smaller end is this rank's own part of the larger one, as in in-place gathers and scatters. */
int tri__check_own_part(tri_checker *c, const tri_instr *instr);
