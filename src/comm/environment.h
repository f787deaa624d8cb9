/* environment.h - which launcher started this process, and what it said: torchrun's variables, Open MPI's, MPICH's and Slurm's, or our own
 * supervisor's. Read through a lookup function, so that nothing here touches the environment itself. */
#ifndef TRI_COMM_ENVIRONMENT_H
#define TRI_COMM_ENVIRONMENT_H

#include "base/status.h"

typedef enum tri_launcher {
    TRI_LAUNCHER_NONE,      /* one process, not launched */
    TRI_LAUNCHER_OWN,       /* our supervisor: TRIDENT_FD holds the shared memory's descriptor */
    TRI_LAUNCHER_TORCHRUN,  /* RANK and WORLD_SIZE: torchrun, or set by hand */
    TRI_LAUNCHER_OPENMPI,
    TRI_LAUNCHER_MPICH,     /* PMI: MPICH, Intel MPI, MVAPICH */
    TRI_LAUNCHER_SLURM,
    TRI_LAUNCHER_COUNT
} tri_launcher;

typedef struct tri_launch {
    tri_launcher launcher;
    int rank, size;               /* in the world */
    int local, local_size;        /* on this machine */
    int node, nodes;              /* this machine's number; machines (1 when unknown) */
    int fd;                       /* TRIDENT_FD; -1 */
    int port;                     /* MASTER_PORT; 0: none */
    char host[256];               /* MASTER_ADDR; "" */
    char run[64];                 /* run id: TORCHELASTIC_RUN_ID, job and step id, ...; "" */
} tri_launch;

/* "torchrun or by hand (RANK, WORLD_SIZE)", for the first line of a run. */
const char *tri__launcher_text(tri_launcher launcher);
/* In the order of contracts.md 2.9. TRI_USAGE with both values where two launchers disagree, where numbers are missing, no numbers or out of range,
 * and for a Slurm batch step with more than one task (run it with srun). */
tri_status tri__launch_detect(char *(*lookup)(const char *name), tri_launch *out);

#endif
