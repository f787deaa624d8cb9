/* tensor_job.h - a small model trained by tensor-parallel ranks, which are threads: the plans of all ranks, and the
 * results assembled as one rank would have them. */
#ifndef TESTS_TENSOR_JOB_H
#define TESTS_TENSOR_JOB_H

#include "tests/lib/tiny.h"

enum { JOB_RANKS = 8, JOB_STEPS = 100, JOB_HEAP = 8 << 20 };

/* Zeroed fields: one rank, two texts, pooler, fp32. */
typedef struct job_what {
    int pp, tp, dp, n_mb, steps;
    int sequence;              /* parallelism */
    int heads[2], texts, pooling, no_table;
    double dropout;
    tri_sharding sharding;
    tri_staging staging;
    tri_recompute recompute;
    tri_dtype precision, quantize;
    tri_texts float_layers;
    int lanes;                 /* of the target */
    tri_averaging average;
    int64_t sync_every;        /* 0, 1: no local steps */
    int fed;                   /* forward programs get their inputs from rank 0 */
    const char *plan;          /* of layers, as --tp-plan; NULL: the model's */
    int vectors;               /* columns of each kind become vectors, and branches are gated */
} job_what;

typedef struct job {
    job_what is;
    int n;                               /* ranks */
    tiny *rank;                          /* [n] */
    double loss[JOB_RANKS][JOB_STEPS], norm[JOB_RANKS][JOB_STEPS];
    float *weights;                      /* [n_elements] by parameter of the whole model; NaN: no rank has it */
    int *writers;                        /* [n_elements] ranks that would save it */
    float *probs[JOB_RANKS];             /* of the replica's first microbatch, from the forward program after the last
                                            step */
} job;

const job_what *job_filled(job_what *is);

/* A plan of layers, as --tp-plan has it. */
tri_status job_split(tri_network *model, const char *plan);
/* Plans one rank of a model whose vocabulary size is not divisible by any number of ranks. */
void job_plan(tiny *t, const job_what *is, int rank);
void job_open(job *j, job_what is);
void job_close(job *j);

/* Initial weights by parameter and element of the whole. */
void job_fill(const tri_param *param, tri_range held, tri_dtype dtype, void *flat);
void job_init(const tiny *t, tri_exec *exec);

/* Runs and expects success, equal losses and norms on all ranks, and every element saved by exactly one rank. */
void job_run(job *j);

#endif
