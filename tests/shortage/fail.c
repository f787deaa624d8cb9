/* fail.c - loaded before a program (LD_PRELOAD), it lets one of its allocations fail: stacks.h says which. Allocations
 * are malloc and its kin and mmap, by the program or any library. Under AddressSanitizer it stands in front of the
 * sanitizer's allocator. */
#define _GNU_SOURCE
#include "stacks.h"

#include <dlfcn.h>
#include <sys/mman.h>

#define SANITIZED(name) __interceptor_##name
#define REAL(name) (SANITIZED(name) ? SANITIZED(name) : __libc_##name)
void *__libc_malloc(size_t), *SANITIZED(malloc)(size_t) __attribute__((weak));
void *__libc_calloc(size_t, size_t), *SANITIZED(calloc)(size_t, size_t) __attribute__((weak));
void *__libc_realloc(void *, size_t), *SANITIZED(realloc)(void *, size_t) __attribute__((weak));
void *__libc_memalign(size_t, size_t), *SANITIZED(memalign)(size_t, size_t) __attribute__((weak));
void *SANITIZED(mmap)(void *, size_t, int, int, int, off_t) __attribute__((weak));

__attribute__((constructor)) static void begin(void) {
    inside = 1;
    int concerned = points_begin();
    inside = 0;
    ready = concerned;
}

/* 1 when this allocation is to fail. */
static int fails(const char *name) {
    if (!ready || inside) return 0;
    inside = 1;
    int saved = errno, fail = point_fails(0, name);
    if (fail) ready = 0;
    errno = fail ? ENOMEM : saved;
    inside = 0;
    return fail;
}

void *malloc(size_t n) { return fails("malloc") ? NULL : REAL(malloc)(n); }
void *calloc(size_t n, size_t size) { return fails("calloc") ? NULL : REAL(calloc)(n, size); }
void *realloc(void *p, size_t n) { return fails("realloc") ? NULL : REAL(realloc)(p, n); }
void *reallocarray(void *p, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return errno = ENOMEM, NULL;
    return fails("reallocarray") ? NULL : REAL(realloc)(p, bytes);
}
void *aligned_alloc(size_t alignment, size_t n) { return fails("aligned_alloc") ? NULL : REAL(memalign)(alignment, n); }
void *memalign(size_t alignment, size_t n) { return fails("memalign") ? NULL : REAL(memalign)(alignment, n); }
int posix_memalign(void **out, size_t alignment, size_t n) {
    void *made = fails("posix_memalign") ? NULL : REAL(memalign)(alignment, n);
    if (!made) return ENOMEM;
    *out = made;
    return 0;
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    if (SANITIZED(mmap)) return SANITIZED(mmap)(at, n, protection, flags, fd, offset); /* its own memory too */
    if (fails("mmap")) return MAP_FAILED;
    long result = direct(SYS_mmap, (long)at, (long)n, protection, flags, fd, offset);
    return result < 0 && result > -4096 ? (errno = (int)-result, MAP_FAILED) : (void *)result;
}
