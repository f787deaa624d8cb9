/* cgroup.h - what the control groups of this process allow it. A container, a systemd slice and a Slurm step are all
 * groups; the limits of each group apply to those inside it, so the tightest one on the way to the root counts. */
#pragma once

#include <stdint.h>

typedef struct tri_cgroup {
    int64_t memory_limit; /* bytes, of the group with least room; INT64_MAX: none has a limit */
    int64_t memory_free;  /* bytes of it that may still be taken, file pages that the kernel can drop among them */
    int64_t oom_kills;    /* processes of the own group that the OOM killer has killed; 0 if unknown */
    double cpus;          /* processors by the tightest quota of CPU time; 0: none has one */
} tri_cgroup;

/* Both versions of control groups, and mixtures. root: where /proc and /sys are found ("", or a folder in tests). What
 * cannot be read limits nothing. */
tri_cgroup tri__cgroup_read(const char *root);
