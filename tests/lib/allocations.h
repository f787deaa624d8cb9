/* allocations.h - counts every allocation of the process, through any library. Sanitizers replace malloc; with them the
 * count stays 0. */
#ifndef TESTS_ALLOCATIONS_H
#define TESTS_ALLOCATIONS_H

#include <stdatomic.h>
#include <stdlib.h>

static atomic_long allocations;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
static void count_allocation(void) { atomic_fetch_add(&allocations, 1); }
void *malloc(size_t n) { return count_allocation(), __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return count_allocation(), __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return count_allocation(), __libc_realloc(p, n); }
#endif

#endif
