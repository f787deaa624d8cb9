/* cuda.h - what the files of the CUDA plug-in share. C for the host side, CUDA C for kernels; one file an operation
 * family, each with its rows of the kernel table, as on the CPU. */
#ifndef TRI_DEVICE_CUDA_CUDA_H
#define TRI_DEVICE_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "device/device.h"
#include "device/wisdom.h"

/* One GPU of one rank: call->context of every kernel row. */
typedef struct tri_cuda {
    int device;
    cudaStream_t compute;      /* of the lane in use */
    cudaStream_t copy[2];      /* from offload memory, and back to it */
    cublasLtHandle_t blas;
    void *blas_work;           /* [blas_bytes] on the device, of the lane in use */
    size_t blas_bytes;
    struct {
        cudaStream_t compute;
        void *blas_work;       /* [blas_bytes] */
    } lane[TRI_LANES];         /* queues of kernels */
    uint32_t *step;            /* [1] on the device: of the run in hand, which random numbers are drawn by */
    cudaEvent_t *signal;       /* [n_signals] by number: points of lanes, made as they are first set */
    int n_signals;
    struct tri_cuda_choices *choices; /* algorithms of products, by shape (product.cu) */
    void *encode;              /* the driver's cuTensorMapEncodeTiled, looked up when first needed (gelu_product.cu) */
    tri_wisdom *tuned;         /* while products are timed: what is found; else NULL */
    cudaError_t error;         /* the first of a launch; looked at after the step */
    const char *where;         /* the row that had it */
    /* the host side's own (device.c) */
    const tri_core *core;
    char name[160];            /* what people read */
    char kind[TRI_WISDOM_KIND];/* what algorithms are good for; filled when it is first asked for */
    struct {
        char *at;              /* [stage_bytes] of the host that the GPU reads */
        cudaEvent_t done;      /* when it has */
    } stage[2];                /* runs take turns; a run's step, then its staged inputs */
    char *inbox;               /* [stage_bytes] on the device: of the run in hand */
    size_t stage_bytes, stage_used,
        inbox_taken; /* staged for the next run, 0: nothing yet; of the run in hand, what inputs have asked for */
    int turn;
    struct tri_cuda_graphs *graphs; /* captured runs (graph.c) */
    struct {
        char *at;              /* pinned, as `stage`; made for the first large copy */
        cudaEvent_t done;
    } pinned[2];               /* large copies go through both in turn */
    cudaEvent_t *mark;         /* [n_marks]; made as a profile first asks for them */
    int n_marks, last_mark;
    int marking;               /* 1: since the last times */
    double marked;             /* seconds on tri__clock of the last mark */
    cudaEvent_t span[2];       /* the first thing queued since a finish; the finish */
    int spanning;              /* 1: the first has been queued */
    double worked;             /* seconds */
    cudaEvent_t *pulse;        /* [n_pulses] points between kernels, made as they are first set */
    int n_pulses, pulses, reached; /* how many there are; are set since it was last idle; of these, reached */
    uint64_t passed;           /* those of before */
    struct tri_nccl *nccl;     /* NCCL's functions, loaded when a group is first made; NULL */
    struct {
        cudaEvent_t begin, end;
    } *posted;                 /* [n_posted] each numbered transfer; begin only in a profile */
    int n_posted;
    cudaEvent_t ready;         /* where kernels were when the last transfer was posted */
    cudaEvent_t *copied;       /* [n_copied] when each numbered copy between memories is done */
    int n_copied;
    cudaEvent_t used;          /* where kernels were when the last such copy was posted */
} tri_cuda;

/* Remembers the first error of a queued call; the next finish reports it. */
static inline void tri__cuda_note(tri_cuda *cuda, cudaError_t error, const char *where) {
    if (error == cudaSuccess || cuda->error != cudaSuccess) return;
    cuda->error = error;
    cuda->where = where;
}

static inline tri_cuda *tri__cuda(const tri_call *call) { return (tri_cuda *)call->context; }

/* copy.c: between the host's memory and the GPU's, done when it returns; those of tri_offload; memory of the host to 0,
 * by several threads. product.cu: tri_tuner. graph.c: tri_graphs, and to drop those so far, when kernels are chosen
 * otherwise. device.c: from one event to another on the
 * host's clock, as of the last marks; what was not recorded leaves *time as it is. And whether events [*n] have one of
 * that number, which are made up to it and some further when it is first asked for. nccl.c: tri_peers. */
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

/* Row families, each a list that ends with an empty row: rows of f32, bf16 and f16. */
#define TRI_CUDA_FAMILIES(X) \
    X(linear) \
    X(activation) X(norm) X(norm_din) X(dropout) X(embed) X(attention) X(attention_first) X(pool) X(fusion) X(loss) \
        X(update) X(cast)
#ifdef __cplusplus
extern "C" {
#endif
#define X(family) extern const tri_kernel_row tri__cuda_##family[];
TRI_CUDA_FAMILIES(X)
#undef X
#ifdef __cplusplus
}
#endif

#endif
