/* environment.h - which launcher started this process, and its settings: torchrun's variables, Open MPI's, MPICH's and
 * Slurm's, or our own supervisor's. Read through a lookup function, so that nothing here accesses the environment
 * directly. */
#pragma once

#include "base/log.h"

typedef enum tri_launcher {
    TRI_LAUNCHER_NONE,      /* one process, without a launcher */
    /* our supervisor: TRIDENT_FD holds the shared memory's descriptor, TRIDENT_SOCKET that of the socket on which the
     * memory of later worlds comes */
    TRI_LAUNCHER_OWN,
    TRI_LAUNCHER_TORCHRUN,  /* RANK and WORLD_SIZE: torchrun, or set by hand */
    TRI_LAUNCHER_OPENMPI,
    TRI_LAUNCHER_MPICH,     /* PMI: MPICH, Intel MPI, MVAPICH */
    TRI_LAUNCHER_SLURM,
    TRI_LAUNCHER_COUNT
} tri_launcher;

/* The MPI that the launcher's variables are for: Open MPI uses PMIx, MPICH (Intel MPI, MVAPICH) PMI. */
typedef enum tri_mpi_kind { TRI_MPI_ANY, TRI_MPI_OPENMPI, TRI_MPI_MPICH } tri_mpi_kind;

enum { TRI_RUN_ID_BYTES = 95 }; /* longer ones are rejected */

typedef struct tri_launch {
    tri_launcher launcher;
    tri_mpi_kind mpi;             /* TRI_MPI_ANY: unknown, or not an MPI launcher */
    int rank, size;               /* in the world */
    int local, local_size;        /* on this machine; all ranks unless specified otherwise */
    int node, nodes;              /* this machine's number; number of machines */
    int fd;                       /* TRIDENT_FD; -1: none, so this rank waits on its socket for its first world */
    int socket;                   /* TRIDENT_SOCKET, of a rank of an elastic run (comm/link/regroup.h); -1: none */
    int port;                     /* MASTER_PORT; by default torchrun's and Slurm's own rule; 0: none */
    int slurm;                    /* a Slurm step, whose --mpi says for which MPI it is */
    int batch;                    /* a Slurm batch script or salloc shell: no tasks have been started yet */
    char host[256]; /* MASTER_ADDR; 127.0.0.1 on one machine, Slurm's first machine otherwise; "": unknown */
    char run[TRI_RUN_ID_BYTES + 1]; /* run id: TORCHELASTIC_RUN_ID, job and step id; "" */
    /* Set by the caller, not by the launcher: */
    const tri_stop *stop; /* ends the wait for other ranks early; NULL: none */
    tri_log log;          /* told of a file call that takes long, where this rank watches its machine */
    int *reported;        /* set to 1 where joining fails, and another rank says why; NULL: not told */
} tri_launch;

/* "torchrun or by hand (RANK, WORLD_SIZE)", for the first line of a run. */
const char *tri__launcher_text(tri_launcher launcher);
/* 1 for launchers whose processes may use MPI between machines. */
int tri__launcher_has_mpi(tri_launcher launcher);
/* Precedence: our own supervisor, then torchrun's variables, Open MPI's, MPICH's, Slurm's. If two are present:
 *    they agree about rank and size: the first is used, but an MPI launcher before variables set by hand, as it reaches
 *    other machines;
 *    one of them has one process: it only started the other launcher, which is used;
 *    torchrun or an MPI launcher inside a Slurm job: Slurm started the launcher, which is used;
 *    otherwise TRI_USAGE with both values.
 * TRI_USAGE also if numbers are missing, malformed or out of range, and (with `batch` set and one process in `out`) in
 * a Slurm batch script of more than one task: run it with srun. */
tri_status tri__launch_detect(char *(*lookup)(const char *name), tri_launch *out);
