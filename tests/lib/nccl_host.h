/* nccl_host.h - streams of a GPU that is not there: a thread each, which works off what is queued in order. Memory is
 * the host's. */
#ifndef TESTS_NCCL_HOST_H
#define TESTS_NCCL_HOST_H

#include "tests/lib/nccl_gpu.h"

gpu_stream *host_stream_open(void);
void host_stream_finish(gpu_stream *stream); /* returns once all that was queued is done */
void host_stream_close(gpu_stream *stream);

#endif
