/* machine.c - what this process may use of the machine. */
#include "train/engine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int tri__cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* A number in a file of its own; -1 when there is none ("max" included). */
static int64_t number_in(const char *path) {
    long long value = -1;
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    if (fscanf(file, "%lld", &value) != 1) value = -1;
    fclose(file);
    return value;
}

int64_t tri__memory_available(void) {
    int64_t available = INT64_MAX;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        long long kib;
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) available = kib * 1024;
    }
    if (file) fclose(file);
    int64_t limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
    if (limit >= 0 && used >= 0 && limit - used < available) available = limit - used;
    return available;
}
