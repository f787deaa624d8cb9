/* host_copies.c - copies of the GPU's memory to the host's while the GPU computes: on a stream of their own, so that a
 * finish of kernels does not wait for them, and straight into memory that other processes share. */
#include "device/cuda/runtime/cuda.h"

static cudaError_t make_stream(tri_cuda *c) {
    cudaError_t error = cudaSuccess;
    if (!c->keep) error = cudaStreamCreateWithFlags(&c->keep, cudaStreamNonBlocking);
    if (error == cudaSuccess && !c->keep_from)
        error = cudaEventCreateWithFlags(&c->keep_from, cudaEventDisableTiming);
    return error;
}

void tri__cuda_keep_close(tri_cuda *c) {
    if (c->keep) cudaStreamDestroy(c->keep);
    if (c->keep_from) cudaEventDestroy(c->keep_from);
}

int tri__cuda_pin(void *context, void *memory, size_t bytes) {
    (void)context;
    if (cudaHostRegister(memory, bytes, cudaHostRegisterDefault) == cudaSuccess) return 1;
    cudaGetLastError(); /* the caller does without: clear it, so that the next launch does not report it */
    return 0;
}

void tri__cuda_unpin(void *context, void *memory) {
    (void)context;
    if (cudaHostUnregister(memory) != cudaSuccess) cudaGetLastError();
}

/* Stores the first error of these copies, which `finish` of the kernels does not report. */
static void note(tri_cuda *c, cudaError_t error) {
    if (c->keep_error == cudaSuccess) c->keep_error = error;
}

void tri__cuda_keep_begin(void *context) {
    tri_cuda *c = context;
    note(c, make_stream(c));
    if (c->keep_error != cudaSuccess) return;
    note(c, cudaEventRecord(c->keep_from, c->compute));
    note(c, cudaStreamWaitEvent(c->keep, c->keep_from, 0));
}

void tri__cuda_keep(void *context, void *to, const void *from, size_t bytes) {
    tri_cuda *c = context;
    if (c->keep_error == cudaSuccess) note(c, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, c->keep));
}

tri_status tri__cuda_keep_finish(void *context) {
    tri_cuda *c = context;
    if (c->keep) note(c, cudaStreamSynchronize(c->keep));
    cudaError_t error = c->keep_error;
    c->keep_error = cudaSuccess;
    if (error == cudaSuccess) return TRI_OK;
    return c->core->fail(tri__cuda_status(error), "the GPU failed in copies to the host: %s",
                         cudaGetErrorString(error));
}
