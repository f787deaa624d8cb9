/* cgroup.c - /proc/self/cgroup names the process's group in each hierarchy, /proc/self/mountinfo where a hierarchy, or
 * the part of it that a container sees, is mounted. From the group's folder up to the mount every group is read. */
#include "base/cgroup.h"

#include "base/file.h"

enum { PROC_BYTES = 1 << 20 }; /* a host of many containers has many mounts */

/* Files of one version. */
typedef struct version {
    const char *limit, *used, *inactive, *active, *events, *kills;
} version;

static const version versions[2] = {
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file ", "\ntotal_active_file ",
     "memory.oom_control", "\noom_kill "},
    {"memory.max", "memory.current", "\ninactive_file ", "\nactive_file ", "memory.events", "\noom_kill "},
};
/* v1's word for "no limit" is the largest number of whole pages. */
static const int64_t UNLIMITED = (int64_t)1 << 60;

/* A file of a group, with a line break before its first line; "\n" if it cannot be read. */
static const char *read_file(const char *folder, const char *name, char *text, size_t size) {
    char path[TRI_PATH_MAX];
    text[0] = '\n', text[1] = 0;
    if (tri__path_join(path, folder, name) == TRI_OK) tri__file_start(path, text + 1, size - 1);
    return text;
}

/* The number after `key`; -1 if there is none ("max"). */
static int64_t number_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    char *end;
    if (!at) return -1;
    long long value = strtoll(at + strlen(key), &end, 10);
    return end == at + strlen(key) ? -1 : value;
}

static int64_t number_in(const char *folder, const char *name) {
    char text[64];
    return number_after(read_file(folder, name, text, sizeof text), "\n");
}

static void add_memory(const char *folder, const version *v, tri_cgroup *out) {
    char text[8192];
    int64_t limit = number_in(folder, v->limit), used = number_in(folder, v->used);
    if (limit < 0 || limit >= UNLIMITED || used < 0) return;
    read_file(folder, "memory.stat", text, sizeof text);
    int64_t inactive = number_after(text, v->inactive), active = number_after(text, v->active), free = limit - used;
    free += (inactive > 0 ? inactive : 0) + (active > 0 ? active : 0);
    if (free < 0) free = 0;
    if (free > limit) free = limit;
    if (free < out->memory_free || out->memory_limit == INT64_MAX) out->memory_free = free, out->memory_limit = limit;
}

static void add_quota(const char *folder, int v2, tri_cgroup *out) {
    char text[64];
    int64_t quota, period;
    if (v2) {
        read_file(folder, "cpu.max", text, sizeof text);
        quota = number_after(text, "\n");
        period = number_after(text + 1, " ");
    } else {
        quota = number_in(folder, "cpu.cfs_quota_us");
        period = number_in(folder, "cpu.cfs_period_us");
    }
    if (quota <= 0 || period <= 0) return;
    double cpus = (double)quota / (double)period;
    if (!out->cpus || cpus < out->cpus) out->cpus = cpus;
}

/* One hierarchy that is mounted: its version, and the part of it that is seen at `at`. */
typedef struct mounted {
    int v2, memory, cpu;
    char part[TRI_PATH_MAX], at[TRI_PATH_MAX];
} mounted;

/* Whether a list "a,b,c" has a word. */
static int lists(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, word, n) && (!at[n] || at[n] == ',')) return 1;
    return 0;
}

/* A line of mountinfo: "34 33 0:31 /part /mount/point options... - cgroup source rw,cpu"; 0: of something else. */
static int read_mount(const char *line, mounted *m) {
    char kind[16], options[256];
    const char *rest = strstr(line, " - ");
    *m = (mounted){0};
    if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", m->part, m->at) != 2 ||
        sscanf(rest, " - %15s %*s %255s", kind, options) != 2)
        return 0;
    m->v2 = !strcmp(kind, "cgroup2");
    m->memory = m->v2 || lists(options, "memory"), m->cpu = m->v2 || lists(options, "cpu");
    return m->v2 || (!strcmp(kind, "cgroup") && (m->memory || m->cpu));
}

/* The process's group in the hierarchy of a mount, from /proc/self/cgroup; "" if it is not there. Lines are
 * "0::/group" of version 2, "4:cpu,cpuacct:/group" of version 1. */
static void find_group(const char *groups, const mounted *m, char out[static TRI_PATH_MAX]) {
    out[0] = 0;
    for (const char *line = groups; *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : "") {
        char controllers[256] = "", *path;
        const char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        size_t n = second ? (size_t)(second - first - 1) : sizeof controllers;
        if (n >= sizeof controllers) continue;
        memcpy(controllers, first + 1, n);
        int mine = m->v2 ? !n : (m->memory && lists(controllers, "memory")) || (m->cpu && lists(controllers, "cpu"));
        if (!mine) continue;
        snprintf(out, TRI_PATH_MAX, "%.*s", (int)strcspn(second + 1, "\n"), second + 1);
        if ((path = strstr(out, "/.."))) *path = 0; /* outside what this process sees */
        return;
    }
}

/* Reads all groups from the process's own up to the mount. */
static void add_groups(const char *root, const mounted *m, const char *group, tri_cgroup *out) {
    char folder[TRI_PATH_MAX], text[1024];
    size_t part = strcmp(m->part, "/") ? strlen(m->part) : 0;
    int inside = !strncmp(group, m->part, part) && (!group[part] || group[part] == '/');
    const char *below = inside ? group + part : "";
    if (!strcmp(below, "/")) below = "";
    int n = snprintf(folder, sizeof folder, "%s%s%s", root, m->at, below);
    if (n < 0 || n >= (int)sizeof folder) return;
    size_t top = strlen(root) + strlen(m->at);
    const version *v = &versions[m->v2];
    if (m->memory) {
        int64_t kills = number_after(read_file(folder, v->events, text, sizeof text), v->kills);
        if (kills > out->oom_kills) out->oom_kills = kills;
    }
    for (;;) {
        if (m->memory) add_memory(folder, v, out);
        if (m->cpu) add_quota(folder, m->v2, out);
        char *slash = strrchr(folder + top, '/');
        if (!slash) return;
        *slash = 0;
    }
}

tri_cgroup tri__cgroup_read(const char *root) {
    tri_cgroup out = {.memory_limit = INT64_MAX, .memory_free = INT64_MAX};
    char *groups = malloc(2 * PROC_BYTES), *mounts = groups ? groups + PROC_BYTES : NULL, path[TRI_PATH_MAX], *rest;
    if (!groups) return out;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    tri__file_start(path, groups, PROC_BYTES);
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    tri__file_start(path, mounts, PROC_BYTES);
    for (char *line = strtok_r(mounts, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        mounted m;
        char group[TRI_PATH_MAX];
        if (!read_mount(line, &m)) continue;
        find_group(groups, &m, group);
        add_groups(root, &m, group, &out);
    }
    free(groups);
    return out;
}
