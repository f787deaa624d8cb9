/* machine.h - what this process may use of the machine. */
#ifndef TRI_BASE_MACHINE_H
#define TRI_BASE_MACHINE_H

#include <stdint.h>

/* Bytes that this process may still take: the least of MemAvailable and the control group's limit less its usage. */
int64_t tri__memory_available(void);
/* Bytes that this process holds now, of shared pages its share: over the processes that share them it adds up. 0 when
 * it cannot be seen. */
int64_t tri__memory_held(void);
/* Processes of the control group that the system has killed for want of memory so far; 0 where that is not counted. */
int64_t tri__oom_kills(void);
int64_t tri__memory_total(void); /* bytes of the machine's memory, rounded up to GiB; the same for all its processes */
/* Computing time that a process has taken so far, in the system's ticks; 0 when it cannot be seen. */
uint64_t tri__process_ticks(int pid);
/* Cores that this process may use. */
int tri__cores(void);
/* NVIDIA GPUs that this machine has device files for. */
int tri__gpus(void);

#endif
