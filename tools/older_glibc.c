/* older_glibc.c - what the sources take from the C library and glibc 2.28 does not have. Linked into wheels alone
 * (tools/wheel): a system call that the kernel does not know fails, as it does with a newer glibc. */
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <unistd.h>

int pidfd_open(pid_t pid, unsigned flags) { return (int)syscall(SYS_pidfd_open, pid, flags); }

int pidfd_send_signal(int pidfd, int number, siginfo_t *info, unsigned flags) {
    return (int)syscall(SYS_pidfd_send_signal, pidfd, number, info, flags);
}

#define SIGNALS(X) \
    X(HUP) X(INT) X(QUIT) X(ILL) X(TRAP) X(ABRT) X(BUS) X(FPE) X(KILL) X(USR1) X(SEGV) X(USR2) X(PIPE) X(ALRM) X(TERM) \
    X(STKFLT) X(CHLD) X(CONT) X(STOP) X(TSTP) X(TTIN) X(TTOU) X(URG) X(XCPU) X(XFSZ) X(VTALRM) X(PROF) X(WINCH) \
    X(POLL) X(PWR) X(SYS)

const char *sigabbrev_np(int number) {
    static const char *const names[] = {
#define X(name) [SIG##name] = #name,
        SIGNALS(X)
#undef X
    };
    return number > 0 && number < (int)(sizeof names / sizeof *names) ? names[number] : NULL;
}
