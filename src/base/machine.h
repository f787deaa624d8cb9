/* machine.h - what this process may use of the machine. */
#ifndef TRI_BASE_MACHINE_H
#define TRI_BASE_MACHINE_H

#include <stdint.h>

/* Bytes that this process may still take: the least of MemAvailable and the control group's limit less its usage. */
int64_t tri__memory_available(void);
/* Cores that this process may use. */
int tri__cores(void);

#endif
