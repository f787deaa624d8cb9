/* machine.h - the machine's resources that this process may use. */
#pragma once

#include <stdint.h>

/* Bytes that this process may still allocate: the lesser of MemAvailable and what its control groups leave
 * (cgroup.h). */
int64_t tri__memory_available(void);
int64_t tri__memory_limit(void); /* of its control groups, in bytes; INT64_MAX: none */
/* Bytes of memory of this process, counting its proportional share of shared pages (PSS), so that processes add up. 0
 * if unknown. */
int64_t tri__memory_held(void);
/* Processes of the control group that the OOM killer has killed so far; 0 if unknown. */
int64_t tri__oom_kills(void);
int64_t tri__memory_total(void); /* bytes of the machine's memory, rounded up to GiB; the same for all its processes */
/* CPU time of a process so far, in clock ticks; 0 if unknown. */
uint64_t tri__process_ticks(int pid);
/* R running, S sleeping, D in the kernel, T stopped, t held by a debugger, Z ended; 0 if unknown. */
char tri__process_state(int pid);
int64_t tri__process_peak(int pid); /* its peak memory in bytes; 0: there is no such process */
/* Cores that this process may use: those of its affinity, at most as many as its control groups' quota of CPU time
 * allows, rounded. */
int tri__cores(void);
int tri__cores_limit(void); /* by the quota alone, which all processes of a group share; INT_MAX: none */
/* NVIDIA GPUs that this machine has device files for. */
int tri__gpus(void);
