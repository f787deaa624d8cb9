/* fail.c - loaded before a program (LD_PRELOAD), it tells the program's allocations apart by their call stacks.
 *   SHORTAGE_LIST=FILE   writes the hash of every distinct stack, in the order of their first allocation; nothing fails
 *   SHORTAGE_FAIL=HASH   the first allocation at that stack fails, once; with SHORTAGE_TRACE its stack is written to
 * stderr A stack is hashed by module and offset, so that a hash means the same place in each run of the same
 * program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

enum { FRAMES = 40, MODULES = 64, SEEN = 1 << 16 };

static struct { uintptr_t begin, end; uint64_t name; } module[MODULES];
static int n_modules, list = -1, ready, trace;
static uint64_t wanted, seen[SEEN];
static pid_t owner; /* a child that a program starts is not counted */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum && n_modules < MODULES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        if ((uintptr_t)add_module >= from && (uintptr_t)add_module < from + part->p_memsz) continue; /* this one */
        uint64_t name = 1;
        for (const char *c = info->dlpi_name; *c; c++) name = mix(name, (unsigned char)*c);
        module[n_modules].begin = from;
        module[n_modules].end = from + part->p_memsz;
        module[n_modules++].name = name;
    }
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    void *frame[4];
    const char *path = getenv("SHORTAGE_LIST"), *hash = getenv("SHORTAGE_FAIL");
    inside = 1;
    backtrace(frame, 4); /* loads what it needs now */
    dl_iterate_phdr(add_module, NULL);
    if (path) list = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (path) list = fcntl(list, F_DUPFD_CLOEXEC, 200);
    if (hash) wanted = strtoull(hash, NULL, 16);
    trace = getenv("SHORTAGE_TRACE") != NULL;
    owner = getpid();
    unsetenv("LD_PRELOAD");
    inside = 0;
    ready = path || hash;
}

static uint64_t stack_hash(void) {
    void *frame[FRAMES];
    int n = backtrace(frame, FRAMES);
    uint64_t hash = 1;
    for (int i = 0; i < n; i++) {
        uintptr_t at = (uintptr_t)frame[i];
        for (int m = 0; m < n_modules; m++)
            if (at >= module[m].begin && at < module[m].end)
                hash = mix(hash, mix(module[m].name, at - module[m].begin));
    }
    return hash ? hash : 1;
}

/* 1 when this allocation is to fail. */
static int fails(void) {
    if (!ready || inside) return 0;
    inside = 1;
    int fail = 0, saved = errno;
    uint64_t hash = getpid() == owner ? stack_hash() : 0;
    if (hash && wanted) {
        pthread_mutex_lock(&lock);
        if (hash == wanted) fail = 1, wanted = 1, ready = 0;
        if (fail && trace) {
            void *frame[FRAMES];
            backtrace_symbols_fd(frame, backtrace(frame, FRAMES), STDERR_FILENO);
        }
        pthread_mutex_unlock(&lock);
    } else if (hash && list >= 0) {
        pthread_mutex_lock(&lock);
        size_t at = hash % SEEN, tries = 0;
        while (seen[at] && seen[at] != hash && tries++ < SEEN) at = (at + 1) % SEEN;
        if (!seen[at]) {
            char text[24];
            seen[at] = hash;
            (void)!write(list, text, (size_t)snprintf(text, sizeof text, "%016llx\n", (unsigned long long)hash));
        }
        pthread_mutex_unlock(&lock);
    }
    errno = fail ? ENOMEM : saved;
    inside = 0;
    return fail;
}

void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
void *reallocarray(void *p, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return errno = ENOMEM, NULL;
    return fails() ? NULL : __libc_realloc(p, bytes);
}
void *aligned_alloc(size_t alignment, size_t n) { return fails() ? NULL : __libc_memalign(alignment, n); }
void *memalign(size_t alignment, size_t n) { return fails() ? NULL : __libc_memalign(alignment, n); }
int posix_memalign(void **out, size_t alignment, size_t n) {
    void *made = fails() ? NULL : __libc_memalign(alignment, n);
    if (!made) return ENOMEM;
    *out = made;
    return 0;
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    static void *(*real)(void *, size_t, int, int, int, off_t);
    if (!real) real = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
    return fails() ? MAP_FAILED : real(at, n, protection, flags, fd, offset);
}
