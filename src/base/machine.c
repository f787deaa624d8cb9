/* machine.c - the machine's resources that this process may use. */
#include "base/machine.h"

#include "base/file.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tri__cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* The number that a file consists of; -1 if it is not a number ("max"). */
static int64_t number_in(const char *path) {
    char text[32], *end;
    tri__file_start(path, text, sizeof text);
    long long value = strtoll(text, &end, 10);
    return end == text ? -1 : value;
}

int64_t tri__memory_available(void) {
    int64_t available = INT64_MAX;
    char text[1024];
    tri__file_start("/proc/meminfo", text, sizeof text);
    const char *at = strstr(text, "MemAvailable:");
    if (at) available = strtoll(at + strlen("MemAvailable:"), NULL, 10) * 1024;
    int64_t limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
    if (limit >= 0 && used >= 0 && limit - used < available) available = limit - used;
    return available;
}

int64_t tri__memory_held(void) {
    char text[1024];
    tri__file_start("/proc/self/smaps_rollup", text, sizeof text);
    const char *at = strstr(text, "\nPss:");
    return at ? strtoll(at + strlen("\nPss:"), NULL, 10) * 1024 : 0;
}

int64_t tri__oom_kills(void) {
    char text[1024];
    tri__file_start("/sys/fs/cgroup/memory.events", text, sizeof text);
    const char *at = strstr(text, "oom_kill ");
    return at ? strtoll(at + strlen("oom_kill "), NULL, 10) : 0;
}

int64_t tri__memory_total(void) {
    int64_t gib = (int64_t)1 << 30, bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    return bytes <= 0 ? gib : (bytes + gib - 1) / gib * gib;
}

/* What follows the name in /proc/PID/stat; NULL if there is no such process. */
static const char *process_figures(int pid, char *text, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    tri__file_start(path, text, size);
    const char *at = strrchr(text, ')'); /* the process name before it may contain anything */
    return at ? at + 1 : NULL;
}

char tri__process_state(int pid) {
    char text[1024], state = 0;
    const char *at = process_figures(pid, text, sizeof text);
    return at && sscanf(at, " %c", &state) == 1 ? state : 0;
}

uint64_t tri__process_ticks(int pid) {
    char text[1024];
    unsigned long long user, system;
    const char *at = process_figures(pid, text, sizeof text);
    if (!at || sscanf(at, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2) return 0;
    return user + system;
}

int tri__gpus(void) {
    enum { MOST = 64 };
    int n = 0;
    for (int i = 0; i < MOST; i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/nvidia%d", i);
        n += access(path, F_OK) == 0;
    }
    return n;
}
