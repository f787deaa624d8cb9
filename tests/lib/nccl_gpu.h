/* nccl_gpu.h - the few calls of a GPU that the double of NCCL makes: nccl_host.c has them for streams that are threads
 * and memory of the host, tests/cuda/nccl_gpu.c for CUDA. Calls that return int return 0, or an error whose words
 * gpu_words() has. Those with a stream are queued and take effect in the stream's order. */
#ifndef TESTS_NCCL_GPU_H
#define TESTS_NCCL_GPU_H

#include <stddef.h>
#include <stdint.h>

typedef struct gpu_stream gpu_stream;

int gpu_current(void); /* the calling thread's device */
void gpu_use(int device);
const char *gpu_words(int error);
/* Memory of the host that the device reads and writes from now on. */
int gpu_pin(void *memory, size_t bytes);
void gpu_unpin(void *memory);
int gpu_owns(const void *memory); /* 1: of the device */
int gpu_copy(void *to, const void *from, size_t bytes, gpu_stream *stream);
int gpu_fill(void *to, int byte, size_t bytes, gpu_stream *stream);
/* Of a word in pinned memory: it is written; what follows in the stream waits until the word has reached the value,
 * counted cyclically. */
int gpu_write(uint32_t *word, uint32_t value, gpu_stream *stream);
int gpu_wait(uint32_t *word, uint32_t value, gpu_stream *stream);

#endif
