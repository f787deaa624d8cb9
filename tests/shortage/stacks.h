/* stacks.h - what fail.c and calls.c share: points of a program, told apart by their call stacks. Environment:
 *   SHORTAGE_LIST=FILE   a line "WHO HASH NAME" is appended for every distinct stack; nothing fails. WHO: the rank of
 *                        the process, "-" for one that is no rank; NAME: the call
 *   SHORTAGE_FAIL=HASH   the first call at that stack fails, once in each process
 *   SHORTAGE_WHO=WHO     only in that process; otherwise in all, so that ranks fail together
 *   SHORTAGE_OURS=1      only calls that Trident itself makes, not those of libraries: MPI and CUDA crash
 *   SHORTAGE_TRACE=FILE  the stack that failed is written there
 * A stack is hashed by module and offset, so that a hash means the same place in each run of the same program. */
#ifndef SHORTAGE_STACKS_H
#define SHORTAGE_STACKS_H
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FRAMES = 48, MODULES = 256, SEEN = 1 << 16 };

enum { LIBC, LOADER, OURS, OTHER };
static struct { uintptr_t begin, end; uint64_t name; int whose; } module[MODULES];
static _Atomic int n_modules;
static unsigned long long scanned; /* loads of libraries that `module` knows of */
static int list = -1, ready, only_ours;
static uint64_t wanted;
static _Atomic uint64_t seen[SEEN];
static _Atomic int spent;
static char who[16];
static const char *trace;
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

/* A system call by an instruction of this library: calls.c does not see it. */
static long direct(long number, long a, long b, long c, long d, long e, long f) {
#if defined __x86_64__
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined __aarch64__
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
                  x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "x86-64 or arm64"
#endif
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    if (scanned == info->dlpi_adds) return 1; /* nothing was loaded since */
    for (int i = 0; i < info->dlpi_phnum && n_modules < MODULES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        if ((uintptr_t)add_module >= from && (uintptr_t)add_module < from + part->p_memsz) continue; /* this one */
        int known = 0;
        for (int m = 0; m < n_modules; m++) known |= module[m].begin == from;
        if (known) continue;
        const char *slash = strrchr(info->dlpi_name, '/'), *base = slash ? slash + 1 : info->dlpi_name;
        uint64_t name = 1;
        for (const char *c = base; *c; c++) name = mix(name, (unsigned char)*c);
        module[n_modules].whose = !*base || !strncmp(base, "libtrident", 10)                     ? OURS
                                  : !strncmp(base, "libc.so", 7) || !strncmp(base, "libasan", 7) ? LIBC
                                  : !strncmp(base, "ld-", 3)                                     ? LOADER
                                                                                                 : OTHER;
        module[n_modules].begin = from;
        module[n_modules].end = from + part->p_memsz;
        module[n_modules++].name = name;
    }
    return 0;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    *(unsigned long long *)context = info->dlpi_adds;
    return 1;
}

static void scan_modules(void) {
    unsigned long long loads = 0;
    dl_iterate_phdr(add_module, NULL);
    dl_iterate_phdr(count_loads, &loads);
    scanned = loads;
}

/* 0: a call of a library, where only ours are asked for. */
static uint64_t stack_hash(uint64_t start) {
    void *frame[FRAMES];
    int n = backtrace(frame, FRAMES), caller = LIBC, loading = 0;
    uint64_t hash = mix(1, start);
    for (int i = 0; i < n; i++) {
        uintptr_t at = (uintptr_t)frame[i];
        for (int m = 0; m < n_modules; m++)
            if (at >= module[m].begin && at < module[m].end) {
                hash = mix(hash, mix(module[m].name, at - module[m].begin));
                if (caller == LIBC) caller = module[m].whose;
                loading |= module[m].whose == LOADER; /* a library's constructor, of CUDA's runtime in our plug-in */
                break;
            }
    }
    return only_ours && (caller != OURS || loading) ? 0 : hash | 1;
}

static void write_trace(void) {
    void *frame[FRAMES];
    int fd = open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    backtrace_symbols_fd(frame, backtrace(frame, FRAMES), fd);
    close(fd);
}

/* Adds a line to the list, once for each hash. */
static void note(uint64_t hash, const char *name) {
    char text[96];
    size_t at = hash % SEEN;
    for (int tries = 0; tries < SEEN; tries++, at = (at + 1) % SEEN) {
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&seen[at], &there, hash)) break;
        if (there == hash) return;
    }
    int n = snprintf(text, sizeof text, "%s %016llx %s\n", who, (unsigned long long)hash, name);
    direct(SYS_write, list, (long)text, n, 0, 0, 0);
}

/* 1: the call `name` at this stack is to fail. The caller has set `inside`. */
static int point_fails(uint64_t kind, const char *name) {
    unsigned long long loads = 0;
    dl_iterate_phdr(count_loads, &loads);
    if (loads != scanned) scan_modules();
    uint64_t hash = stack_hash(kind);
    if (!hash) return 0;
    if (list >= 0) note(hash, name);
    else if (hash == wanted && !atomic_exchange(&spent, 1)) {
        if (trace) write_trace();
        return 1;
    }
    return 0;
}

/* Reads the environment; 1: this process is concerned. */
static int points_begin(void) {
    void *frame[4];
    const char *path = getenv("SHORTAGE_LIST"), *hash = getenv("SHORTAGE_FAIL"), *only = getenv("SHORTAGE_WHO");
    const char *rank = getenv("RANK");
    if (!rank) rank = getenv("OMPI_COMM_WORLD_RANK");
    snprintf(who, sizeof who, "%s", rank ? rank : "-");
    backtrace(frame, 4); /* loads what it needs now */
    scan_modules();
    if (path) {
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        list = fcntl(fd, F_DUPFD_CLOEXEC, 200);
        close(fd);
    }
    if (hash) wanted = strtoull(hash, NULL, 16);
    trace = getenv("SHORTAGE_TRACE");
    only_ours = getenv("SHORTAGE_OURS") != NULL;
    return (path || hash) && !(only && strcmp(only, who));
}

#endif
