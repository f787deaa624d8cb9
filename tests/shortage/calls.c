/* calls.c - loaded before a program (LD_PRELOAD), it lets one of its system calls fail: stacks.h says which,
 *   SHORTAGE_HOW=ERROR   an error's name: the call fails with it, and does nothing
 *                ERROR+  so do all later calls that the same cause would hit: a full disk, no more descriptors
 *                SHORT   it reads, writes, sends or receives half of what it was asked to
 * A seccomp filter turns each system call that libc makes, for whomever, into a SIGSYS; the handler makes the call, or
 * not. The filter goes by the instruction's address: it outlasts exec, but libc is then elsewhere, and that program
 * installs one for itself. New threads would come back into the handler, so pthread_create is wrapped instead. */
#define _GNU_SOURCE
#include "stacks.h"

#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <ucontext.h>

#if defined __x86_64__
#define NUMBER(context) ((context)->uc_mcontext.gregs[REG_RAX])
#define RESULT(context) NUMBER(context)
#define REGISTER(context, name) (context)->uc_mcontext.gregs[REG_##name]
#define ARGUMENTS(context)                                                                            \
    {REGISTER(context, RDI), REGISTER(context, RSI), REGISTER(context, RDX), REGISTER(context, R10), \
     REGISTER(context, R8), REGISTER(context, R9)}
#else
#define NUMBER(context) ((context)->uc_mcontext.regs[8])
#define RESULT(context) ((context)->uc_mcontext.regs[0])
#define REGISTER(context, n) (long)(context)->uc_mcontext.regs[n]
#define ARGUMENTS(context)                                                                  \
    {REGISTER(context, 0), REGISTER(context, 1), REGISTER(context, 2), REGISTER(context, 3), \
     REGISTER(context, 4), REGISTER(context, 5)}
#endif

/* What a call uses up, or touches: decides which calls fail together for ever. */
enum { NOTHING, FILES = 1, DISK = 2, MEMORY = 4, PROCESSES = 8 };

static const struct call {
    long number;
    const char *name;
    int uses;
} calls[] = {
    {SYS_openat, "openat", FILES},
    {SYS_read, "read", NOTHING},
    {SYS_pread64, "pread", NOTHING},
    {SYS_readv, "read", NOTHING},
    {SYS_write, "write", DISK},
    {SYS_pwrite64, "pwrite", DISK},
    {SYS_writev, "write", DISK},
    {SYS_fsync, "fsync", DISK},
    {SYS_fdatasync, "fsync", DISK},
    {SYS_sync_file_range, "fsync", DISK},
    {SYS_renameat, "rename", DISK},
    {SYS_renameat2, "rename", DISK},
    {SYS_mkdirat, "mkdir", DISK},
    {SYS_unlinkat, "unlink", NOTHING},
    {SYS_ftruncate, "ftruncate", DISK},
    {SYS_fallocate, "fallocate", DISK},
    {SYS_mmap, "mmap", MEMORY},
    {SYS_mprotect, "mprotect", MEMORY},
    {SYS_brk, "brk", MEMORY},
    {SYS_madvise, "madvise", NOTHING},
    {SYS_memfd_create, "memfd_create", FILES},
    {SYS_pipe2, "pipe", FILES},
    {SYS_dup, "dup", FILES},
    {SYS_dup3, "dup", NOTHING},
    {SYS_fcntl, "fcntl", FILES},
    {SYS_close, "close", NOTHING},
    {SYS_newfstatat, "stat", NOTHING},
    {SYS_fstat, "stat", NOTHING},
    {SYS_statx, "stat", NOTHING},
    {SYS_readlinkat, "readlink", NOTHING},
    {SYS_faccessat, "access", NOTHING},
    {SYS_getdents64, "getdents", NOTHING},
    {SYS_statfs, "statfs", NOTHING},
    {SYS_fchmod, "fchmod", DISK},
    {SYS_getcwd, "getcwd", NOTHING},
    {SYS_flock, "flock", NOTHING},
    {SYS_ppoll, "poll", NOTHING},
    {SYS_epoll_create1, "epoll_create", FILES},
    {SYS_epoll_ctl, "epoll_ctl", MEMORY},
    {SYS_epoll_pwait, "poll", NOTHING},
    {SYS_eventfd2, "eventfd", FILES},
    {SYS_timerfd_create, "timerfd", FILES},
    {SYS_signalfd4, "signalfd", FILES},
    {SYS_pidfd_open, "pidfd_open", FILES},
    {SYS_socket, "socket", FILES},
    {SYS_socketpair, "socket", FILES},
    {SYS_bind, "bind", NOTHING},
    {SYS_listen, "listen", NOTHING},
    {SYS_connect, "connect", NOTHING},
    {SYS_accept4, "accept", FILES},
    {SYS_sendto, "send", NOTHING},
    {SYS_sendmsg, "send", NOTHING},
    {SYS_recvfrom, "receive", NOTHING},
    {SYS_recvmsg, "receive", NOTHING},
    {SYS_clone, "fork", PROCESSES},
    {SYS_execve, "execve", NOTHING},
    {SYS_wait4, "wait", NOTHING},
    {SYS_futex, "futex", NOTHING},
    {SYS_clock_nanosleep, "sleep", NOTHING},
    {SYS_getrandom, "getrandom", NOTHING},
    {SYS_sched_setaffinity, "sched_setaffinity", NOTHING},
    {SYS_setpgid, "setpgid", NOTHING},
#ifdef SYS_open
    {SYS_rename, "rename", DISK},
    {SYS_mkdir, "mkdir", DISK},
    {SYS_unlink, "unlink", NOTHING},
    {SYS_rmdir, "unlink", NOTHING},
    {SYS_dup2, "dup", NOTHING},
    {SYS_lstat, "stat", NOTHING},
    {SYS_stat, "stat", NOTHING},
    {SYS_readlink, "readlink", NOTHING},
    {SYS_access, "access", NOTHING},
    {SYS_poll, "poll", NOTHING},
    {SYS_epoll_wait, "poll", NOTHING},
#endif
};
enum { CALLS = sizeof calls / sizeof *calls };

static uintptr_t libc_range[3]; /* its instructions: from, to, one of them */
static int cause;         /* the errno; 0: SHORT */
static int for_ever, hit; /* bits of `uses` that fail from now on */

/* ---- what a call is about ---- */

static mode_t kind_of(long fd) {
    struct stat info = {0};
    return direct(SYS_fstat, fd, (long)&info, 0, 0, 0, 0) ? 0 : info.st_mode & S_IFMT;
}

/* Whether libc's streams made this call, not the program itself: then more than write() lies between. */
static int by_stream(void) {
    void *frame[16];
    uintptr_t from = (uintptr_t)libc_range[0], to = (uintptr_t)libc_range[1];
    int n = backtrace(frame, 16), i = 0, between = 0;
    while (i < n && !((uintptr_t)frame[i] >= from && (uintptr_t)frame[i] < to)) i++; /* the handler */
    while (i < n && (uintptr_t)frame[i] >= from && (uintptr_t)frame[i] < to) i++, between++;
    return between > 2; /* the signal's return, write() */
}

/* The name with what decides which errors make sense: "write.file", "openat.create"; NULL: it cannot sensibly fail. */
static const char *full_name(const struct call *call, const long *a) {
    static const struct { const char *plain, *file, *nonblocking; } many[] = {
        {"read", "read.file", "read.nonblocking"},
        {"write", "write.file", "write.nonblocking"},
        {"pread", "pread.file", "pread"},
        {"pwrite", "pwrite.file", "pwrite"}};
    if (call->number == SYS_write && a[0] <= STDERR_FILENO && by_stream()) return "write.stream";
    for (int i = 0; i < 4; i++)
        if (!strcmp(call->name, many[i].plain))
            return kind_of(a[0]) == S_IFREG                              ? many[i].file
                   : direct(SYS_fcntl, a[0], F_GETFL, 0, 0, 0, 0) & O_NONBLOCK ? many[i].nonblocking
                                                                               : many[i].plain;
    switch (call->number) {
    case SYS_openat: return (a[2] & O_CREAT) || (a[2] & O_TMPFILE) == O_TMPFILE ? "openat.create" : "openat";
    case SYS_futex: {
        int operation = (int)a[1] & FUTEX_CMD_MASK;
        return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ? "futex" : NULL;
    }
    case SYS_fcntl: return a[1] == F_DUPFD || a[1] == F_DUPFD_CLOEXEC ? "dup" : NULL;
    default: return call->name;
    }
}

/* For ever: is this call hit by the same cause? Files without a name are memory. */
static int hit_again(const struct call *call, const char *name, const long *a) {
    struct stat info = {.st_nlink = 1};
    if (!(call->uses & hit)) return !strcmp(name, "openat.create") && (hit & DISK);
    if (call->uses == DISK) direct(SYS_fstat, a[0], (long)&info, 0, 0, 0, 0);
    if (!info.st_nlink) return 0;
    return call->uses != DISK || strncmp(name, "write", 5) || !strcmp(name, "write.file"); /* pipes are not full */
}

/* Half of the bytes; of parts (readv), half of the parts; messages stay whole. */
static long shortened(long number, const long *a) {
    long n = number == SYS_sendmsg || number == SYS_recvmsg || a[2] <= 1 ? a[2] : (a[2] + 1) / 2;
    return direct(number, a[0], a[1], n, a[3], a[4], a[5]);
}

static long perform(const struct call *call, const long *a) {
    if (inside) return direct(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
    inside = 1;
    int saved = errno, fail = 0;
    const char *name = full_name(call, a);
    if (name) {
        if (hit && hit_again(call, name, a)) fail = 1;
        else if (!atomic_load(&spent)) {
            uint64_t kind = 0;
            for (const char *c = name; *c; c++) kind = mix(kind, (unsigned char)*c);
            fail = point_fails(kind, name);
            if (fail && for_ever)
                hit = cause == EMFILE || cause == ENFILE ? FILES : cause == ENOMEM ? MEMORY : DISK;
        }
    }
    errno = saved;
    inside = 0;
    if (!fail) return direct(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (call->number == SYS_close) direct(SYS_close, a[0], 0, 0, 0, 0, 0); /* an error comes after closing */
    if (call->number == SYS_brk) return direct(SYS_brk, 0, 0, 0, 0, 0, 0); /* fails by staying where it is */
    return cause ? -cause : shortened(call->number, a);
}

/* ---- signals: the handler's own must never be blocked ---- */

static const uint64_t OWN = 1ull << (SIGSYS - 1);

/* rt_sigprocmask, for when the handler has returned. */
static long change_mask(ucontext_t *context, const long *a) {
    uint64_t *mask = (uint64_t *)&context->uc_sigmask, set = a[1] ? *(uint64_t *)a[1] : 0, before = *mask;
    if (a[1]) *mask = (a[0] == SIG_BLOCK ? before | set : a[0] == SIG_UNBLOCK ? before & ~set : set) & ~OWN;
    if (a[2]) *(uint64_t *)a[2] = before;
    return 0;
}

/* rt_sigaction */
static long change_action(const long *a) {
    struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } action;
    if (a[0] == SIGSYS) return 0;
    if (a[1]) memcpy(&action, (void *)a[1], sizeof action), action.mask &= ~OWN;
    return direct(SYS_rt_sigaction, a[0], a[1] ? (long)&action : 0, a[2], a[3], 0, 0);
}

static void on_call(int signal, siginfo_t *info, void *user) {
    (void)signal;
    ucontext_t *context = user;
    long number = info->si_syscall;
    const long a[] = ARGUMENTS(context);
    if (number == SYS_rt_sigprocmask) RESULT(context) = change_mask(context, a);
    else if (number == SYS_rt_sigaction) RESULT(context) = change_action(a);
    else
        for (int i = 0; i < CALLS; i++)
            if (calls[i].number == number) {
                RESULT(context) = perform(&calls[i], a);
                return;
            }
}

/* ---- threads ---- */

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    int fail = 0;
    if (ready && !inside && !atomic_load(&spent)) {
        inside = 1;
        fail = point_fails(1, "thread");
        inside = 0;
    }
    return fail ? EAGAIN : real(thread, how, run, argument);
}

/* ---- start ---- */

static int find_libc(struct dl_phdr_info *info, size_t size, void *context) {
    uintptr_t *range = context;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) && range[2] >= from && range[2] < to)
            range[0] = from, range[1] = to;
    }
    return 0;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(field))
#define IP offsetof(struct seccomp_data, instruction_pointer)

static void filter(void) {
    static struct sock_filter code[2 * CALLS + 32];
    uintptr_t *range = libc_range;
    unsigned short n = 0;
    range[2] = (uintptr_t)dlsym(RTLD_NEXT, "syscall");
    dl_iterate_phdr(find_libc, range);
    if (range[0] >> 32 != range[1] >> 32) return; /* comparisons are of 32 bits; so it is one time in 2000 */
    const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                             trap = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
#define ADD(...) code[n++] = (struct sock_filter)__VA_ARGS__
    ADD(LOAD(IP + 4));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(range[0] >> 32), 1, 0));
    code[n++] = allow;
    ADD(LOAD(IP));
    ADD(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)range[0], 1, 0));
    code[n++] = allow;
    ADD(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)range[1], 0, 1));
    code[n++] = allow;
    ADD(LOAD(offsetof(struct seccomp_data, nr)));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4)); /* a process, not a thread */
    ADD(LOAD(offsetof(struct seccomp_data, args[0])));
    ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VM, 0, 1));
    code[n++] = allow;
    code[n++] = trap;
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1));
    code[n++] = trap;
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 1));
    code[n++] = trap;
    for (int i = 0; i < CALLS; i++) {
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].number, 0, 1));
        code[n++] = trap;
    }
    code[n++] = allow;
    struct sock_fprog program = {.len = n, .filter = code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int error_named(const char *name) {
    size_t length = strcspn(name, "+");
    for (int i = 1; i < 134; i++) {
        const char *known = strerrorname_np(i);
        if (known && strlen(known) == length && !strncmp(known, name, length)) return i;
    }
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    inside = 1;
    const char *how = getenv("SHORTAGE_HOW");
    if (points_begin()) {
        cause = how ? error_named(how) : 0;
        for_ever = how && strchr(how, '+') != NULL;
        struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
        sigaction(SIGSYS, &action, NULL);
        sigset_t own;
        sigemptyset(&own);
        sigaddset(&own, SIGSYS);
        sigprocmask(SIG_UNBLOCK, &own, NULL);
        ready = 1;
        filter();
    }
    inside = 0;
}
