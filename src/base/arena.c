/* arena.c - bump allocation in chunks of address space; each chunk is as large as all earlier ones together, within
 * limits. Inside tri__arena_reuse, chunks that arenas drop are kept by the thread, and cleared where they were written
 * when an arena takes them. */
#include "base/arena.h"

#include <errno.h>
#include <setjmp.h>
#include <sys/mman.h>

enum { ALIGN = 16, LEAST_CHUNK = 1 << 16, MOST_CHUNK = 1 << 26, MOST_KEPT = 1 << 29 }; /* bytes */

typedef struct tri_arena_chunk {
    struct tri_arena_chunk *before;
    size_t mapped;       /* bytes, including this header */
    size_t first, where; /* arena->used of its first byte, and before the chunk was added */
} tri_arena_chunk;

_Static_assert(sizeof(tri_arena_chunk) % ALIGN == 0, "what follows the header is aligned");

/* The innermost guard of each thread, where out of memory jumps to: planning is single-threaded, and its functions
 * cannot return failures. */
static _Thread_local struct guard {
    jmp_buf place;
    struct guard *outer;
} *innermost;

/* The chunks that a thread keeps for its arenas. */
static _Thread_local struct kept_chunks {
    tri_arena_chunk *chunk; /* linked by `before`; `where` is the number of bytes that were written */
    size_t bytes;
} *kept;

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

static size_t room_of(const tri_arena_chunk *chunk) { return chunk->mapped - sizeof *chunk; }

/* A kept chunk of `mapped` bytes or somewhat more, zeroed; NULL: none. */
static tri_arena_chunk *take_kept(size_t mapped) {
    for (tri_arena_chunk **at = kept ? &kept->chunk : NULL; at && *at; at = &(*at)->before) {
        tri_arena_chunk *chunk = *at;
        if (chunk->mapped < mapped || chunk->mapped / 4 > mapped) continue;
        *at = chunk->before;
        kept->bytes -= chunk->mapped;
        memset(chunk + 1, 0, chunk->where);
        return chunk;
    }
    return NULL;
}

/* Gives up a chunk of which `written` bytes were written. */
static void release(tri_arena_chunk *chunk, size_t written) {
    if (!kept || kept->bytes + chunk->mapped > MOST_KEPT) {
        munmap(chunk, chunk->mapped);
        return;
    }
    chunk->before = kept->chunk, chunk->where = written;
    kept->chunk = chunk, kept->bytes += chunk->mapped;
}

void tri__arena_reuse(void (*work)(void *data), void *data) {
    struct kept_chunks own = {0}, *outer = kept;
    if (!outer) kept = &own;
    work(data);
    kept = outer;
    for (tri_arena_chunk *before; own.chunk; own.chunk = before) {
        before = own.chunk->before;
        munmap(own.chunk, own.chunk->mapped);
    }
}

/* Adds a chunk of at least `bytes`. */
static tri_status add_chunk(tri_arena *arena, size_t bytes) {
    size_t first = aligned(arena->used), want = first < LEAST_CHUNK  ? LEAST_CHUNK
                                                : first > MOST_CHUNK ? MOST_CHUNK
                                                                     : first;
    if (bytes > SIZE_MAX / 2) return tri__fail(TRI_RESOURCE, "no memory to plan with: %zu bytes in one piece", bytes);
    if (want < bytes) want = bytes;
    want += sizeof *arena->chunk;
    tri_arena_chunk *chunk = take_kept(want);
    if (chunk) want = chunk->mapped;
    else chunk = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (chunk == MAP_FAILED)
        return tri__fail(TRI_RESOURCE,
                         "no memory to plan with: %zu bytes after %zu are refused (%s); `ulimit -v` says how much is "
                         "allowed", want, arena->used, strerror(errno));
    *chunk = (tri_arena_chunk){.before = arena->chunk, .mapped = want, .first = first, .where = arena->used};
    arena->chunk = chunk;
    arena->end = first + room_of(chunk);
    return TRI_OK;
}

static void drop_chunk(tri_arena *arena) {
    tri_arena_chunk *chunk = arena->chunk, *before = chunk->before;
    size_t written = arena->used > chunk->first ? arena->used - chunk->first : 0;
    arena->used = chunk->where;
    arena->end = before ? before->first + room_of(before) : 0;
    arena->chunk = before;
    release(chunk, written);
}

static char *byte_at(const tri_arena *arena, size_t at) {
    return (char *)(arena->chunk + 1) + (at - arena->chunk->first);
}

tri_status tri__arena_open(tri_arena *arena, size_t reserve) {
    *arena = (tri_arena){0};
    return add_chunk(arena, reserve);
}

void tri__arena_close(tri_arena *arena) {
    while (arena->chunk) drop_chunk(arena);
    *arena = (tri_arena){0};
}

tri_status tri__arena_guard(tri_status (*work)(void *data), void *data) {
    struct guard here = {.outer = innermost};
    tri_status status = TRI_RESOURCE; /* the failed allocation has set the text */
    if (setjmp(here.place) == 0) {
        innermost = &here;
        status = work(data);
    }
    innermost = here.outer;
    return status;
}

typedef struct scratch_work {
    tri_status (*work)(tri_arena *scratch, void *data);
    void *data;
    tri_arena arena;
} scratch_work;

static tri_status run_scratch(void *data) {
    scratch_work *s = data;
    return s->work(&s->arena, s->data);
}

tri_status tri__arena_scratch(tri_status (*work)(tri_arena *scratch, void *data), void *data) {
    scratch_work s = {.work = work, .data = data};
    TRI_TRY(tri__arena_open(&s.arena, LEAST_CHUNK));
    tri_status status = tri__arena_guard(run_scratch, &s);
    tri__arena_close(&s.arena);
    return status;
}

void tri__arena_rewind(tri_arena *arena, size_t used) {
    TRI_ASSERT(used <= arena->used);
    while (arena->chunk->before && used <= arena->chunk->where) drop_chunk(arena);
    memset(byte_at(arena, used), 0, arena->used - used);
    arena->used = used;
}

tri_status tri__arena_room(tri_arena *arena, size_t bytes) {
    return bytes > arena->end - arena->used ? add_chunk(arena, bytes) : TRI_OK;
}

void *tri__arena_alloc(tri_arena *arena, size_t bytes) {
    size_t at = aligned(arena->used);
    if (at > arena->end || bytes > arena->end - at) {
        if (add_chunk(arena, bytes) != TRI_OK) {
            TRI_ASSERT(innermost);
            longjmp(innermost->place, 1);
        }
        at = arena->chunk->first;
    }
    arena->used = at + bytes;
    return byte_at(arena, at);
}

char *tri__arena_print(tri_arena *arena, const char *format, ...) {
    char text[256]; /* names and labels are shorter: formatted in one pass */
    int length = TRI_FORMAT(text, sizeof text, format);
    TRI_ASSERT(length >= 0);
    if (length < (int)sizeof text) return tri__arena_copy(arena, text);
    char *longer = tri__arena_alloc(arena, (size_t)length + 1);
    TRI_FORMAT(longer, (size_t)length + 1, format);
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
