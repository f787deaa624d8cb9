/* compare.c - comparisons as the C library makes them. libFuzzer has its own, which take notes for its mutations and up
 * to a sixth of the time: the fast build, which traces no comparisons, leaves them out (--wrap). */
#include <dlfcn.h>
#include <stddef.h>

#define WRAPPED(name, parameters, arguments) \
    static int(*plain_##name) parameters; \
    int __wrap_##name parameters; \
    int __wrap_##name parameters { \
        if (!plain_##name) *(void **)&plain_##name = dlsym(RTLD_NEXT, #name); \
        return plain_##name arguments; \
    }

WRAPPED(strcmp, (const char *a, const char *b), (a, b))
WRAPPED(strncmp, (const char *a, const char *b, size_t n), (a, b, n))
WRAPPED(memcmp, (const void *a, const void *b, size_t n), (a, b, n))
