/* arena.c - bump allocation in a reserved range of addresses. */
#include "base/arena.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 16 };

tri_status tri__arena_open(tri_arena *arena, size_t reserve) {
    *arena = (tri_arena){0};
    void *base = mmap(NULL, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return tri__fail(TRI_RESOURCE, "cannot reserve %zu bytes of address space: %s", reserve, strerror(errno));
    *arena = (tri_arena){.base = base, .reserved = reserve};
    return TRI_OK;
}

void tri__arena_close(tri_arena *arena) {
    if (arena->base) munmap(arena->base, arena->reserved);
    *arena = (tri_arena){0};
}

void tri__arena_rewind(tri_arena *arena, size_t used) {
    TRI_ASSERT(used <= arena->used);
    memset(arena->base + used, 0, arena->used - used);
    arena->used = used;
}

void *tri__arena_alloc(tri_arena *arena, size_t bytes) {
    size_t at = (arena->used + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    TRI_ASSERT(bytes <= arena->reserved && at <= arena->reserved - bytes);
    arena->used = at + bytes;
    return arena->base + at;
}

char *tri__arena_print(tri_arena *arena, const char *format, ...) {
    char text[256]; /* names and labels are shorter: they are formatted once */
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    TRI_ASSERT(length >= 0);
    if (length < (int)sizeof text) return tri__arena_copy(arena, text);
    char *longer = tri__arena_alloc(arena, (size_t)length + 1);
    va_start(args, format);
    vsnprintf(longer, (size_t)length + 1, format, args);
    va_end(args);
    return longer;
}

char *tri__arena_copy(tri_arena *arena, const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(tri__arena_alloc(arena, bytes), text, bytes);
}

void *tri__arena_grow(tri_arena *arena, void *array, int count, int *capacity, size_t element) {
    if (count < *capacity) return array;
    int larger = *capacity ? 2 * *capacity : 16;
    void *grown = tri__arena_alloc(arena, (size_t)larger * element);
    if (count) memcpy(grown, array, (size_t)count * element);
    *capacity = larger;
    return grown;
}
