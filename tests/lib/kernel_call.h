/* kernel_call.h - one call of one kernel on random operands, with guard bytes around each, poison in outputs, and
 * copies of inputs. */
#ifndef TESTS_KERNEL_CALL_H
#define TESTS_KERNEL_CALL_H

#include "device/device.h"
#include "tests/lib/kernel_cases.h"
#include "numbers/float8.h"

#include <math.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { GUARD = 72, GUARD_BYTE = 0xA5 }; /* 72: operands start at a multiple of 8, not of a vector */

typedef struct kernel_call {
    kernel_case at;
    tri_dtype type;  /* of operands of the computing type */
    tri_dtype loose; /* of operands of any type */
    tri_attr attr;
    tri_call call;
    char *block[TRI_MAX_ARGS], *before[TRI_MAX_ARGS]; /* GUARD + bytes + GUARD; the same as filled */
    size_t bytes[TRI_MAX_ARGS];
    uint64_t random;
} kernel_call;

static inline int kernel_arg(const kernel_call *k, const char *name) { return kernel_case_arg(&k->at, name); }
uint64_t next_random(uint64_t *state);
static inline double uniform(uint64_t *state, double low, double high) {
    return low + (high - low) * (double)(next_random(state) >> 11) * 0x1p-53;
}

tri_dtype operand_dtype(const kernel_call *k, int arg);
static inline int64_t operand_count(const kernel_call *k, int arg) { return k->call.t[arg].rows * k->call.t[arg].cols; }
static inline int64_t extent(const kernel_call *k, char letter) { return k->at.dim[letter - 'A']; }

/* acc and left_out are bit masks over operands. Operands that are written and not read are poisoned: NaN, or -1. */
void kernel_call_open_mixed(kernel_call *k, const kernel_case *at, tri_dtype type, tri_dtype loose, float p,
                            unsigned acc, unsigned left_out);

void kernel_call_open_as(kernel_call *k, const kernel_case *at, tri_dtype type, float p, unsigned acc,
                         unsigned left_out);

static inline void kernel_call_open(kernel_call *k, const kernel_case *at, float p, unsigned acc, unsigned left_out) {
    kernel_call_open_as(k, at, TRI_F32, p, acc, left_out);
}

void kernel_call_close(kernel_call *k);

/* Another call with the same operands, which has not run. */
void kernel_call_copy(kernel_call *k, const kernel_call *from);
void kernel_call_fail(const kernel_call *k, int arg, const char *what);

/* The type of the row that runs a call, and the scratch bytes that it needs. */
tri_dtype kernel_call_row(const kernel_call *k, const tri_kernel_table *table, size_t *scratch);

/* Checks guards and inputs. `space`: the end of the scratch memory. */
void kernel_call_check(const kernel_call *k, const char *space);

/* Runs with exactly as much scratch memory as the table specifies: that of many threads may be megabytes, of which both
 * ends are poisoned. */
void kernel_call_run(kernel_call *k, const tri_kernel_table *table, int threads);

/* Gives both calls the same numbers: those of `wide` (fp32), rounded to the other's types. */
void kernel_call_equalise(kernel_call *wide, kernel_call *half);

/* Element i of operand arg, converted from any type. */
double kernel_value(const kernel_call *k, int arg, int64_t i);

/* The distance of 8-bit floating-point numbers at `value`, by which results differ where what is rounded differs in its
 * last bits; 0 for operands of other types. */
double kernel_step_8_bits(const kernel_call *k, int arg, double value);

/* Operands are of the order of 1: a result whose largest value, or norm, is below this comes from sums that cancel,
 * with the error of their terms. Tolerances are relative to at least this value. */
#define KERNEL_SMALL 0.05

/* Fills one operand with NaN; returns its index. */
int kernel_call_spoil(kernel_call *k);
void kernel_call_expect_spoilt(const kernel_call *k, int arg);

#endif
