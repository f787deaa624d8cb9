/* mesh_cases.h - runs on many meshes, each against the run of one rank of its family. For tests of ranks that share
 * tokens or experts. SOAK_STEPS=100: every case, else those that are sampled. */
#ifndef TESTS_MESH_CASES_H
#define TESTS_MESH_CASES_H

#include "tests/lib/session_runs.h"

#include "tests/lib/soak.h"

enum { MESH_STEPS = 6, MESH_OPTIONS = 4 };

/* What a run and the run of one rank that it is compared with share. */
typedef struct mesh_family {
    const char *config;
    const char *option[MESH_OPTIONS + 1]; /* %s: the folder of the test */
    double bound;                         /* of losses; 0: DESIGN 3's */
} mesh_family;

typedef struct mesh_case {
    int family;
    int shared;      /* ranks that share tokens, or experts */
    int tp, pp, dp;
    int mb;
    int sampled;     /* 1: in `make test`, too */
    const char *more[3];
} mesh_case;

typedef struct mesh_cases {
    const char *axis;           /* cp, which is beside dp, or ep, which is part of it */
    const mesh_family *families;
    const char *split_option;   /* of runs with tp > 1; NULL: none */
    const mesh_case *at;
    int n;
    /* What else is compared, `most` being the bound of losses; NULL: nothing. */
    void (*also)(const mesh_case *c, const char *name, double most, const run *one, const run *have);
} mesh_cases;

/* Options of a case as text. */
typedef struct mesh_words {
    char mesh[5][48], data[96];
} mesh_words;

run mesh_run(const mesh_cases *all, const mesh_case *c, mesh_words *text);

/* DESIGN 3: |dloss| <= 2e-6 max(loss, 0.1), 1e-5 where ranks share layers. */
double mesh_bound(const mesh_cases *all, const mesh_case *c);
void mesh_like_one_rank(const mesh_cases *all);

/* Texts of `least` to `most` words, for patterns of several blocks. */
void mesh_write_long(const char *name, int rows, int least, int most);

/* Programs of all ranks fit together. */
void mesh_expect_fit(tiny *t, const char *name);

#endif
