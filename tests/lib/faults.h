/* faults.h - system calls that fail on demand: this program's definitions override those of the C library. The n-th
 * call of this process after fault_arm() fails, is cut short, or kills the process. */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* FAULT_CAUSE: the errno that a test has put into fault.cause. */
typedef enum fault_kind {
    FAULT_NONE,
    FAULT_KILL,
    FAULT_EIO,
    FAULT_ENOSPC,
    FAULT_SHORT,
    FAULT_KINDS,
    FAULT_CAUSE
} fault_kind;
static const char *const fault_names[] = {"nothing", "kill", "EIO", "ENOSPC", "short write"};

static struct {
    _Atomic int armed, count; /* count: calls since it was armed */
    int at;                   /* the call that is hit; from 1 */
    fault_kind kind;
    int cause;
    const char *hit;          /* its name; NULL: not yet */
} fault;

static inline void fault_arm(int at, fault_kind kind) {
    fault.at = at, fault.kind = kind, fault.hit = NULL;
    atomic_store(&fault.count, 0);
    atomic_store(&fault.armed, 1);
}

static inline void fault_disarm(void) { atomic_store(&fault.armed, 0); }

/* 1: this call fails, errno is set. *cut: 1: it does half of its work; NULL: it cannot be cut short. */
static inline int fault_here(const char *name, int *cut) {
    if (!atomic_load(&fault.armed) || atomic_fetch_add(&fault.count, 1) + 1 != fault.at || fault.kind == FAULT_NONE)
        return 0;
    fault.hit = name;
    if (fault.kind == FAULT_KILL) kill(getpid(), SIGKILL);
    if (fault.kind == FAULT_SHORT) {
        if (cut) *cut = 1;
        return 0;
    }
    errno = fault.kind == FAULT_CAUSE ? fault.cause : fault.kind == FAULT_EIO ? EIO : ENOSPC;
    return 1;
}

#define FAULT_CALL(name, call) return fault_here(name, NULL) ? -1 : (int)(call)

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    FAULT_CALL("open", syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int openat(int at, const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    FAULT_CALL("openat", syscall(SYS_openat, at, path, flags, mode));
}

ssize_t write(int fd, const void *data, size_t size) {
    int cut = 0;
    if (fault_here("write", &cut)) return -1;
    return syscall(SYS_write, fd, data, cut && size > 1 ? size / 2 : size);
}

/* A descriptor is closed even when close() reports an error. */
int close(int fd) {
    int failed = fault_here("close", NULL), cause = errno;
    int result = (int)syscall(SYS_close, fd);
    errno = failed ? cause : errno;
    return failed ? -1 : result;
}

int fsync(int fd) { FAULT_CALL("fsync", syscall(SYS_fsync, fd)); }
int mkdir(const char *path, mode_t mode) { FAULT_CALL("mkdir", syscall(SYS_mkdirat, AT_FDCWD, path, mode)); }
int rename(const char *from, const char *to) {
    FAULT_CALL("rename", syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int mkdirat(int at, const char *path, mode_t mode) { FAULT_CALL("mkdirat", syscall(SYS_mkdirat, at, path, mode)); }
int renameat(int a, const char *from, int b, const char *to) {
    FAULT_CALL("renameat", syscall(SYS_renameat2, a, from, b, to, 0));
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    FAULT_CALL("renameat2", syscall(SYS_renameat2, a, from, b, to, flags));
}
int unlink(const char *path) { FAULT_CALL("unlink", syscall(SYS_unlinkat, AT_FDCWD, path, 0)); }
int unlinkat(int at, const char *path, int flags) { FAULT_CALL("unlinkat", syscall(SYS_unlinkat, at, path, flags)); }
int rmdir(const char *path) { FAULT_CALL("rmdir", syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)); }

#ifdef FAULTS_OF_READING /* where reading and examining files may fail too */
ssize_t read(int fd, void *data, size_t size) { FAULT_CALL("read", syscall(SYS_read, fd, data, size)); }
int stat(const char *path, struct stat *info) { FAULT_CALL("stat", syscall(SYS_newfstatat, AT_FDCWD, path, info, 0)); }
int fstat(int fd, struct stat *info) { FAULT_CALL("fstat", syscall(SYS_newfstatat, fd, "", info, AT_EMPTY_PATH)); }
#endif

#endif
