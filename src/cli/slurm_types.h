/* slurm_types.h - what `srun --mpi` can be told on this machine. */
#ifndef TRI_CLI_SLURM_TYPES_H
#define TRI_CLI_SLURM_TYPES_H

#include <stddef.h>

/* The types that `SRUN --mpi=list` offers, with a blank between them; "" when it says none within a few seconds. */
void tri__slurm_types(const char *srun, char *out, size_t size);
/* The same from its output, which differs between versions of Slurm. */
void tri__slurm_types_parse(const char *text, char *out, size_t size);

#endif
