/* nccl_gpu.c - nccl_gpu.h with CUDA: of libnccl.so.2, the double that `make test-cuda` puts in NCCL's place. Waits are
 * the stream's own (cuStreamWaitValue32): no thread of the host stands in a stream, and ranks that wait leave the GPU
 * to the others. */
#include "tests/lib/nccl_gpu.h"

#include <cuda.h>
#include <cuda_runtime.h>

int gpu_current(void) {
    int device = 0;
    return cudaGetDevice(&device) == cudaSuccess ? device : 0;
}

void gpu_use(int device) { cudaSetDevice(device); }

const char *gpu_words(int error) {
    return error < 0 ? "the driver lacks cuStreamWaitValue32" : cudaGetErrorString((cudaError_t)error);
}

int gpu_pin(void *memory, size_t bytes) { return (int)cudaHostRegister(memory, bytes, cudaHostRegisterMapped); }
void gpu_unpin(void *memory) { cudaHostUnregister(memory); }

int gpu_owns(const void *memory) {
    struct cudaPointerAttributes about;
    if (cudaPointerGetAttributes(&about, memory) == cudaSuccess) return about.type == cudaMemoryTypeDevice;
    cudaGetLastError();
    return 0;
}

int gpu_copy(void *to, const void *from, size_t bytes, gpu_stream *stream) {
    return (int)cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, (cudaStream_t)stream);
}

int gpu_fill(void *to, int byte, size_t bytes, gpu_stream *stream) {
    return (int)cudaMemsetAsync(to, byte, bytes, (cudaStream_t)stream);
}

typedef CUresult on_word(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned flags);

static int queue(const char *name, uint32_t *word, uint32_t value, gpu_stream *stream, unsigned flags) {
    void *function = NULL, *at = NULL;
    enum cudaDriverEntryPointQueryResult found;
    cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
    if (error == cudaSuccess && !function) return -1;
    if (error == cudaSuccess) error = cudaHostGetDevicePointer(&at, word, 0);
    if (error != cudaSuccess) return (int)error;
    /* Its numbers are those of the runtime. */
    return (int)((on_word *)function)((CUstream)stream, (CUdeviceptr)at, value, flags);
}

int gpu_write(uint32_t *word, uint32_t value, gpu_stream *stream) {
    return queue("cuStreamWriteValue32", word, value, stream, CU_STREAM_WRITE_VALUE_DEFAULT);
}

int gpu_wait(uint32_t *word, uint32_t value, gpu_stream *stream) {
    return queue("cuStreamWaitValue32", word, value, stream, CU_STREAM_WAIT_VALUE_GEQ);
}
