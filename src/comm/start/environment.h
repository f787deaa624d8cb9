/* environment.h - which launcher started this process, and what it said: torchrun's variables, Open MPI's, MPICH's and
 * Slurm's, or our own supervisor's. Read through a lookup function, so that nothing here touches the environment
 * itself. */
#ifndef TRI_COMM_START_ENVIRONMENT_H
#define TRI_COMM_START_ENVIRONMENT_H

#include "base/stop.h"

typedef enum tri_launcher {
    TRI_LAUNCHER_NONE,      /* one process, not launched */
    TRI_LAUNCHER_OWN,       /* our supervisor: TRIDENT_FD holds the shared memory's descriptor */
    TRI_LAUNCHER_TORCHRUN,  /* RANK and WORLD_SIZE: torchrun, or set by hand */
    TRI_LAUNCHER_OPENMPI,
    TRI_LAUNCHER_MPICH,     /* PMI: MPICH, Intel MPI, MVAPICH */
    TRI_LAUNCHER_SLURM,
    TRI_LAUNCHER_COUNT
} tri_launcher;

/* Whose ranks the launcher's variables are for: Open MPI speaks PMIx, MPICH (Intel MPI, MVAPICH) PMI. */
typedef enum tri_mpi_kind { TRI_MPI_ANY, TRI_MPI_OPENMPI, TRI_MPI_MPICH } tri_mpi_kind;

enum { TRI_RUN_ID_BYTES = 95 }; /* longer ones are refused */

typedef struct tri_launch {
    tri_launcher launcher;
    tri_mpi_kind mpi;             /* TRI_MPI_ANY: it does not say, or is no MPI launcher */
    int rank, size;               /* in the world */
    int local, local_size;        /* on this machine; all ranks are on it where nobody said otherwise */
    int node, nodes;              /* this machine's number; machines */
    int fd;                       /* TRIDENT_FD; -1 */
    int port;                     /* MASTER_PORT; torchrun's and Slurm's own rule where it is left out; 0: none */
    int slurm;                    /* a step of Slurm, whose --mpi says for which MPI it is */
    int batch;                    /* a Slurm batch script or salloc shell: nobody has started tasks here yet */
    char host[256]; /* MASTER_ADDR; 127.0.0.1 on one machine, Slurm's first machine otherwise; "": unknown */
    char run[TRI_RUN_ID_BYTES + 1]; /* run id: TORCHELASTIC_RUN_ID, job and step id; "" */
    const tri_stop *stop; /* ends the wait for other ranks early; NULL: nobody asks. Not the launcher's: whoever joins
                             sets it */
} tri_launch;

/* "torchrun or by hand (RANK, WORLD_SIZE)", for the first line of a run. */
const char *tri__launcher_text(tri_launcher launcher);
/* 1 for the launchers whose processes may use MPI between machines. */
int tri__launcher_has_mpi(tri_launcher launcher);
/* Our own supervisor first, then torchrun's variables, Open MPI's, MPICH's, Slurm's. Where two are there:
 *   they agree about rank and size: the first counts, but an MPI launcher before variables set by hand: it reaches
 * other machines; one of them has one process: it only started the other one, which counts; torchrun or an MPI launcher
 * inside a Slurm job: Slurm started the launcher, which counts; otherwise TRI_USAGE with both values. TRI_USAGE also
 * where numbers are missing, no numbers or out of range, and (with `batch` set and one process in `out`) in a Slurm
 * batch script of more than one task: run it with srun. */
tri_status tri__launch_detect(char *(*lookup)(const char *name), tri_launch *out);

#endif
