/* binding.h - what limits the speed of a run, in one sentence, and what to try. */
#ifndef TRI_REPORT_RUNS_BINDING_H
#define TRI_REPORT_RUNS_BINDING_H

#include "base/json.h"

/* Of one step, mean over ranks unless said otherwise; 0: unknown. */
typedef struct tri_binding_figures {
    double loader, comm, idle; /* shares of the step: waiting for batches, moving data, waiting for other ranks */
    double compute;            /* share of the step */
    char kind[32];             /* the costliest kind of transfer: "all_reduce"; "" */
    double kind_bytes, kind_seconds; /* sent by a rank, and exposed, in that kind */
    int world, pp, tp, dp, machines;
    int64_t microbatches;
    double most_busy, least_busy;    /* seconds computing, of the busiest and of the idlest rank */
    double kernel_seconds;     /* mean of a kernel */
    double small;              /* share of computing in operations with little arithmetic a byte */
    double mfu;                /* above 1 where the peak is too low */
    const char *device, *costliest;  /* "cpu", "cuda"; the costliest operation, or NULL */
    const char *precision, *shard;
} tri_binding_figures;

/* {kind, words}: a new reference; NULL if out of memory. kind: loader, communication, stages, bubble, waiting, launch,
 * memory, compute, unknown. */
tri_json *tri__binding(const tri_binding_figures *figures);
/* Of a run's data (run_data.h), into its `binding`. */
void tri__run_binding(tri_json *run);

#endif
