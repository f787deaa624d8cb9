/* cuda.h - shared by the files of the CUDA plug-in. C for the host side, CUDA C for kernels; one file per operation
 * family, each with its rows of the kernel table, as on the CPU (TRI_CUDA_FAMILY of common.cuh). */
#ifndef TRI_DEVICE_CUDA_RUNTIME_CUDA_H /* tests/ranks/test_nccl_peers.c defines it, to put its own in this place */
#define TRI_DEVICE_CUDA_RUNTIME_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "device/device.h"
#include "device/wisdom.h"

/* One GPU of one rank: call->context of every kernel row. */
typedef struct tri_cuda {
    int device;
    cudaStream_t compute;      /* of the current lane */
    cudaStream_t copy[2];      /* from offload memory, and back to it */
    cublasLtHandle_t blas;
    void *blas_work;           /* [blas_bytes] on the device, of the current lane */
    size_t blas_bytes;
    struct {
        cudaStream_t compute;
        void *blas_work;       /* [blas_bytes] */
    } lane[TRI_LANES];         /* queues of kernels */
    uint32_t *step;            /* [1] on the device: of the current run, for random numbers */
    cudaEvent_t *signal;       /* [n_signals] by number: points of lanes, created on first use */
    int n_signals;
    struct tri_cuda_choices *choices; /* algorithms of products, by shape (product.cu) */
    void *encode;              /* the driver's cuTensorMapEncodeTiled, looked up on first use (fused_product.cu) */
    tri_wisdom *tuned;         /* while products are timed: the results; else NULL */
    cudaError_t error;         /* the first of a launch; checked after the step */
    const char *where;         /* the row where it occurred */
    /* private to the host side (device.c) */
    const tri_core *core;
    char name[160];            /* for users */
    char kind[TRI_WISDOM_KIND];/* what algorithms are valid for; filled on first use */
    struct {
        char *at;              /* [stage_bytes] of host memory that the GPU reads */
        cudaEvent_t done;      /* when it has been read */
    } stage[2];                /* runs alternate; a run's step, then its staged inputs */
    char *inbox;               /* [stage_bytes] on the device: of the current run */
    size_t stage_bytes, stage_used,
        inbox_taken; /* staged for the next run, 0: nothing yet; of the current run, consumed by inputs */
    int turn;
    struct tri_cuda_graphs *graphs; /* captured runs (graph.c) */
    struct {
        char *at;              /* pinned, as `stage`; allocated for the first large copy */
        cudaEvent_t done;
    } pinned[2];               /* large copies alternate between both */
    cudaEvent_t *mark;         /* [n_marks]; created when first used by a profile */
    int n_marks, last_mark;
    int marking;               /* 1: marks were set since the last times */
    double marked;             /* seconds on tri__clock of the last mark */
    cudaEvent_t span[2];       /* the first work queued since a finish; the finish */
    int spanning;              /* 1: the first has been queued */
    double worked;             /* seconds */
    cudaEvent_t *pulse;        /* [n_pulses] points between kernels, created on first use */
    int n_pulses, pulses, reached; /* their number; set since the last idle time; of these, reached */
    uint64_t passed;           /* those reached before the last idle time */
    struct tri_nvml *nvml;     /* NVML's functions, loaded with the first reading; NULL */
    struct tri_nccl *nccl;     /* NCCL's functions, loaded with the first group; NULL */
    struct {
        cudaEvent_t begin, end;
    } *posted;                 /* [n_posted] each numbered transfer; begin only in a profile */
    int n_posted;
    cudaEvent_t ready;         /* position of kernels when the last transfer was posted */
    cudaEvent_t *copied;       /* [n_copied] completion of each numbered copy to or from offload memory */
    int n_copied;
    cudaEvent_t used;          /* position of kernels when the last such copy was posted */
    cudaStream_t keep;         /* copies to the host beside runs, created on first use */
    cudaEvent_t keep_from;     /* position of kernels when the last ones began */
    cudaError_t keep_error;    /* the first of them; checked when they are waited for */
} tri_cuda;

/* The exit code of an error: memory of the GPU, or of the host, that the runtime did not get, is no defect. */
static inline tri_status tri__cuda_status(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? TRI_RESOURCE : TRI_INTERNAL;
}

/* Stores the first error of a queued call; the next finish reports it. */
static inline void tri__cuda_note(tri_cuda *cuda, cudaError_t error, const char *where) {
    if (error == cudaSuccess || cuda->error != cudaSuccess) return;
    cuda->error = error;
    cuda->where = where;
}

static inline tri_cuda *tri__cuda(const tri_call *call) { return (tri_cuda *)call->context; }

/* copy.c: copies between host and GPU memory, completed on return; those of tri_offload; zeroing host memory by several
 * threads. host_copies.c: tri_keeping. product.cu: tri_tuner. graph.c: tri_graphs, and dropping all graphs when the
 * choice of kernels changes. device.c: the time from one event to another on the host's clock, relative to the last
 * marks; events that were not recorded leave *time unchanged. And whether events [*n] contain that number, creating
 * events up to it and some more on first use. hold.cu: tri_timing's. gauges.c: tri_gauges. nccl.c: tri_peers. */
#ifdef __cplusplus
extern "C" {
#endif
cudaError_t tri__cuda_copy(tri_cuda *cuda, void *to, const void *from, size_t bytes);
cudaError_t tri__cuda_fill(tri_cuda *cuda, void *to, size_t bytes, tri_make *make, void *maker);
void tri__cuda_copy_close(tri_cuda *cuda);
int tri__cuda_products_open(tri_cuda *cuda); /* 0: out of memory */
void tri__cuda_products_close(tri_cuda *cuda);
void tri__cuda_follow(void *context, const tri_wisdom *wisdom);
void tri__cuda_tune(void *context, const tri_call *call, tri_kernel *row, tri_wisdom *wisdom);
int tri__cuda_graphs_open(tri_cuda *cuda); /* 0: out of memory */
void tri__cuda_graphs_close(tri_cuda *cuda);
tri_capture tri__cuda_capture(void *context, const int64_t *key, int n);
int tri__cuda_end_capture(void *context);
void tri__cuda_forget(tri_cuda *cuda);
void tri__cuda_clear(void *memory, size_t bytes);
void tri__cuda_copy_post(void *context, void *to, const void *from, size_t bytes, int out, int number);
void tri__cuda_copy_wait(void *context, int number);
int tri__cuda_pin(void *context, void *memory, size_t bytes);
void tri__cuda_unpin(void *context, void *memory);
void tri__cuda_keep_begin(void *context);
void tri__cuda_keep(void *context, void *to, const void *from, size_t bytes);
tri_status tri__cuda_keep_finish(void *context);
void tri__cuda_keep_close(tri_cuda *cuda);
void tri__cuda_hold(void *context, double seconds);
int tri__cuda_gauge(void *context, tri_gauge *out);
void tri__cuda_gauges_close(tri_cuda *cuda);
void tri__cuda_time(tri_cuda *cuda, cudaEvent_t begin, cudaEvent_t end, tri_time *time);
int tri__cuda_has_event(cudaEvent_t **events, int *n, int number, unsigned flags);
tri_status tri__nccl_name(void *context, char *name);
tri_status tri__nccl_join(void *context, const char *name, int n, int me, int oneway, const tri_wait_poll *poll,
                          void **group);
void tri__nccl_leave(void *context, void *const *groups, int n, int abort);
tri_status tri__nccl_check(void *context, void *group);
void tri__nccl_post(void *context, void *group, const tri_collective *what, int number);
void tri__nccl_wait(void *context, int number);
void tri__nccl_time(void *context, int number, tri_time *time);
void tri__nccl_close(tri_cuda *cuda);
#ifdef __cplusplus
}
#endif

#endif
