/* slurm_types.h - the values that `srun --mpi` accepts on this machine. */
#pragma once

#include <stddef.h>

/* The types that `SRUN --mpi=list` prints, separated by blanks; "" if it prints none within a few seconds. */
void tri__slurm_types(const char *srun, char *out, size_t size);
