/* machine.c - the machine's resources that this process may use. */
#include "base/machine.h"

#include "base/cgroup.h"
#include "base/file.h"

#include <limits.h>
#include <sched.h>
#include <unistd.h>

int tri__cores_limit(void) {
    double cpus = tri__cgroup_read("").cpus;
    return cpus <= 0 || cpus >= INT_MAX ? INT_MAX : cpus < 1.5 ? 1 : (int)(cpus + 0.5);
}

int tri__cores(void) {
    cpu_set_t set;
    int limit = tri__cores_limit(), n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                                                   : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > limit ? limit : n;
}

/* The KiB that a file gives after `key`, in bytes; `missing` if it does not. */
static int64_t kib_after(const char *path, const char *key, int64_t missing) {
    char text[2048];
    tri__file_start(path, text, sizeof text);
    const char *at = strstr(text, key);
    return at ? strtoll(at + strlen(key), NULL, 10) * 1024 : missing;
}

int64_t tri__memory_limit(void) { return tri__cgroup_read("").memory_limit; }

int64_t tri__memory_available(void) {
    int64_t available = kib_after("/proc/meminfo", "MemAvailable:", INT64_MAX), free = tri__cgroup_read("").memory_free;
    return free < available ? free : available;
}

int64_t tri__memory_held(void) { return kib_after("/proc/self/smaps_rollup", "\nPss:", 0); }

int64_t tri__oom_kills(void) { return tri__cgroup_read("").oom_kills; }

int64_t tri__memory_total(void) {
    int64_t gib = (int64_t)1 << 30, bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    return bytes <= 0 ? gib : (bytes + gib - 1) / gib * gib;
}

/* What follows the name in /proc/PID/stat; NULL if there is no such process. */
static const char *process_figures(int pid, char *text, size_t size) {
    tri__file_start(TRI_TEXT(64, "/proc/%d/stat", pid), text, size);
    const char *at = strrchr(text, ')'); /* the process name before it may contain anything */
    return at ? at + 1 : NULL;
}

char tri__process_state(int pid) {
    char text[1024], state = 0;
    const char *at = process_figures(pid, text, sizeof text);
    return at && sscanf(at, " %c", &state) == 1 ? state : 0;
}

int64_t tri__process_peak(int pid) { return kib_after(TRI_TEXT(64, "/proc/%d/status", pid), "\nVmHWM:", 0); }

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
    for (int i = 0; i < MOST; i++) n += access(TRI_TEXT(32, "/dev/nvidia%d", i), F_OK) == 0;
    return n;
}
