/* weight_copies.c - copies of weights between the host and the GPU, weights produced during their copy, and copies
 * between the GPU's memory and its offload memory, which is pinned host memory. The driver copies pageable memory
 * through small buffers with one thread; large copies here go through two pinned buffers: several threads fill or empty
 * one while the GPU copies the other. */
#include "device/cuda/runtime/cuda.h"

enum { PART = 32 << 20, SLICE = 1 << 20, SMALL = 8 << 20, THREADS = 8 }; /* bytes; threads */

static cudaError_t make_pinned(tri_cuda *c) {
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < 2 && error == cudaSuccess; i++) {
        if (!c->pinned[i].at) error = cudaMallocHost((void **)&c->pinned[i].at, PART);
        if (error == cudaSuccess && !c->pinned[i].done)
            error = cudaEventCreateWithFlags(&c->pinned[i].done, cudaEventDisableTiming);
    }
    return error;
}

void tri__cuda_copy_close(tri_cuda *c) {
    for (int i = 0; i < 2; i++) {
        if (c->pinned[i].at) cudaFreeHost(c->pinned[i].at);
        if (c->pinned[i].done) cudaEventDestroy(c->pinned[i].done);
    }
    for (int i = 0; i < c->n_copied; i++) cudaEventDestroy(c->copied[i]);
    free(c->copied);
}

static void move(char *to, const char *from, size_t bytes) {
#pragma omp parallel for num_threads(THREADS)
    for (size_t at = 0; at < bytes; at += SLICE) memcpy(to + at, from + at, bytes - at < SLICE ? bytes - at : SLICE);
}

void tri__cuda_clear(void *memory, size_t bytes) {
#pragma omp parallel for num_threads(THREADS)
    for (size_t at = 0; at < bytes; at += SLICE)
        memset((char *)memory + at, 0, bytes - at < SLICE ? bytes - at : SLICE);
}

static size_t part(size_t bytes, size_t at) { return bytes - at < PART ? bytes - at : PART; }

static void move_part(void *from, size_t at, size_t bytes, void *out) { move(out, (const char *)from + at, bytes); }

static cudaError_t send(tri_cuda *c, char *to, size_t bytes, tri_make *make, void *maker) {
    cudaError_t error = cudaSuccess;
    for (size_t at = 0, turn = 0; at < bytes && error == cudaSuccess; at += PART, turn = !turn) {
        error = cudaEventSynchronize(c->pinned[turn].done); /* the GPU has read the previous contents */
        make(maker, at, part(bytes, at), c->pinned[turn].at);
        if (error == cudaSuccess)
            error = cudaMemcpyAsync(to + at, c->pinned[turn].at, part(bytes, at), cudaMemcpyHostToDevice, c->compute);
        if (error == cudaSuccess) error = cudaEventRecord(c->pinned[turn].done, c->compute);
    }
    return error;
}

/* Each iteration requests the next part before it empties the last one. */
static cudaError_t fetch(tri_cuda *c, char *to, const char *from, size_t bytes) {
    cudaError_t error = cudaSuccess;
    for (size_t at = 0, turn = 0; at < bytes + PART && error == cudaSuccess; at += PART, turn = !turn) {
        if (at < bytes) {
            error = cudaMemcpyAsync(c->pinned[turn].at, from + at, part(bytes, at), cudaMemcpyDefault,
                                    c->compute); /* also from offload memory */
            if (error == cudaSuccess) error = cudaEventRecord(c->pinned[turn].done, c->compute);
        }
        if (at == 0 || error != cudaSuccess) continue;
        error = cudaEventSynchronize(c->pinned[!turn].done);
        move(to + at - PART, c->pinned[!turn].at, part(bytes, at - PART));
    }
    return error;
}

cudaError_t tri__cuda_copy(tri_cuda *c, void *to, const void *from, size_t bytes) {
    struct cudaPointerAttributes about;
    if (bytes < SMALL) return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, c->compute);
    cudaError_t error = make_pinned(c);
    if (error == cudaSuccess) error = cudaPointerGetAttributes(&about, to);
    if (error != cudaSuccess) return error;
    return about.type == cudaMemoryTypeDevice ? send(c, to, bytes, move_part, (void *)from) : fetch(c, to, from, bytes);
}

cudaError_t tri__cuda_fill(tri_cuda *c, void *to, size_t bytes, tri_make *make, void *maker) {
    cudaError_t error = make_pinned(c);
    return error == cudaSuccess ? send(c, to, bytes, make, maker) : error;
}

void tri__cuda_copy_post(void *context, void *to, const void *from, size_t bytes, int out, int number) {
    tri_cuda *c = context;
    if (!tri__cuda_has_event(&c->copied, &c->n_copied, number, cudaEventDisableTiming)) {
        tri__cuda_note(c, cudaErrorMemoryAllocation, "an event of offload memory");
        return;
    }
    tri__cuda_note(c, cudaEventRecord(c->used, c->compute), "a copy of offload memory");
    tri__cuda_note(c, cudaStreamWaitEvent(c->copy[out], c->used, 0), "a copy of offload memory");
    if (bytes)
        tri__cuda_note(
            c, cudaMemcpyAsync(to, from, bytes, out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, c->copy[out]),
            "a copy of offload memory");
    tri__cuda_note(c, cudaEventRecord(c->copied[number], c->copy[out]), "a copy of offload memory");
}

void tri__cuda_copy_wait(void *context, int number) {
    tri_cuda *c = context;
    if (number < c->n_copied)
        tri__cuda_note(c, cudaStreamWaitEvent(c->compute, c->copied[number], 0), "a wait for offload memory");
}
