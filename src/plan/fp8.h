/* fp8.h - common to the files of the fp8 pass: values that are factors of marked products, and their 8-bit forms. */
#pragma once

#include "plan/pass.h"

/* Rows of history of a product, in the order of tri_fp8_kind; weights of one instruction (ops_fp8.def). */
enum { TRI_FP8_KINDS = 3, TRI_FP8_AT_ONCE = 4 };
typedef enum tri_fp8_kind { TRI_FP8_WEIGHT, TRI_FP8_INPUT, TRI_FP8_GRADIENT } tri_fp8_kind;

/* How marked instructions use a slot as a factor. */
typedef struct tri_fp8_use {
    int writers, others;            /* instructions that write it; reads in other ways */
    int again;                      /* instruction from which on it is cast again: its forward is repeated; INT32_MAX */
    uint8_t rows[2], transposed[2]; /* 1: read in this form, before `again` and from then on */
    int row;                        /* of history; -1: not a factor */
    const tri_instr *first;         /* reads it */
    int differs;                    /* 1: not all that read it run in the same steps */
} tri_fp8_use;

/* The 8-bit form of a slot. */
typedef struct tri_fp8_form {
    int q, transposed; /* slots; -1: none */
    int is_again;      /* made from use.again on */
    int is_gathered;   /* 1: a weight whose q comes from a gather in 8 bits; only `transposed` is made here */
    uint32_t gates;    /* of the instruction that made it */
    int layer;
} tri_fp8_form;

typedef struct tri_fp8 {
    tri_pass *pass;
    tri_builder to;
    tri_instr *from;       /* [n_from] the program before this pass */
    int n_from, n_slots;
    uint32_t *id;          /* [n_params] attr.id of the product whose weight begins with it */
    int *product;          /* [n_params] its number; -1: none */
    int *weight;           /* [n_products] the first parameter of its weight */
    int n_products;
    int *first_slot;       /* [n_products] a slot with its weight; -1 */
    int *next_slot;        /* [n_slots] the next one with the same; -1 */
    tri_fp8_use *use;      /* [n_slots] */
    tri_fp8_form *form;    /* [n_slots] */
    int s, most, history;  /* slots [1,K] [1,K] [K,STEPS] */
    int *numbers[2];       /* [TRI_FP8_AT_ONCE, K] views of s and of most; -1: not made */
    int clip;              /* the last clip of the program; -1: none */
    int waited;            /* 1: most is that of all ranks */
    struct tri_fp8_gathers *gathers; /* of weights, in 8 bits */
} tri_fp8;

/* fp8_forms.c: the view of s, or of most, with the numbers of one kind of n products; the first has row `row`. */
int tri__fp8_scales(tri_fp8 *z, int row, int n);
int tri__fp8_most(tri_fp8 *z, int row, int n);
/* New slots for the forms of a slot that are read, which instruction i, that is being rewritten, is the first to need
 * or writes. */
tri_fp8_form *tri__fp8_open(tri_fp8 *z, int slot, int i);
/* Whether a slot has the form that instruction i, which is being rewritten, may read. */
int tri__fp8_is_made(const tri_fp8 *z, int slot, int i);

/* fp8_weights.c: makes the forms of a weight that instruction i and later ones read, and with them those of the
 * other weights of its unit. */
void tri__fp8_make_weights(tri_fp8 *z, int slot, int i);
/* Appends casts of parts of n weights to q, without transposing them; [n] by row of history, which `row` has. */
void tri__fp8_cast_parts(tri_fp8 *z, int n, const int *row, const int *q, const int *x);

/* fp8_gathers.c: finds the gathers that can be in 8 bits, and replaces their results in the program before this
 * pass. Then appends what takes the place of instruction i; 0: it is not of such a gather. */
void tri__fp8_gathers_plan(tri_fp8 *z);
int tri__fp8_gathers_append(tri_fp8 *z, int i);
