/* keep.c - copies of weights and optimizer state into memory that outlives the rank (the class kept). An asynchronous
 * device makes them beside its kernels, on a queue of its own, and the host waits for them: it tells others that they
 * are complete. What is in host memory already is copied at once. */
#include "base/copy.h"
#include "exec/exec_parts.h"

enum { RUN_BYTES = 1 << 20 };

static void copy_here(void *to, const void *from, size_t bytes, int threads) {
    (void)threads; /* of a build without OpenMP */
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t at = 0; at < bytes; at += RUN_BYTES)
        tri__copy_large((char *)to + at, (const char *)from + at, bytes - at < RUN_BYTES ? bytes - at : RUN_BYTES);
}

static size_t half(const tri_exec *exec) { return (size_t)exec->bytes[TRI_MEM_KEPT] / 2; }

tri_status tri__exec_keep_in(tri_exec *exec, void *area, size_t bytes, size_t at, int *direct) {
    const tri_keeping *keeping = exec->device->keeping;
    TRI_ASSERT(!exec->keep.at && bytes - at >= 2 * half(exec));
    if (exec->device->async && !keeping)
        return tri__fail(TRI_USAGE, "device %s does not copy to the host beside its kernels: leave out "
                         "--replicate-state", exec->device->name);
    exec->keep.at = (char *)area + at;
    *direct = !keeping || keeping->pin(exec->context, area, bytes);
    if (keeping && *direct) exec->keep.pinned = area;
    return *direct ? TRI_OK : exec->device->alloc_offload(exec->context, NULL, half(exec), (void **)&exec->keep.staged);
}

void tri__exec_keep_close(tri_exec *exec) {
    tri_keep *keep = &exec->keep;
    if (keep->to && exec->device->keeping) (void)exec->device->keeping->finish(exec->context);
    if (keep->pinned) exec->device->keeping->unpin(exec->context, keep->pinned);
    if (keep->staged) exec->device->free(exec->context, keep->staged, half(exec));
    *keep = (tri_keep){0};
}

static tri_status wait(tri_exec *exec) {
    tri_keep *keep = &exec->keep;
    char *to = keep->to;
    if (!to) return TRI_OK;
    keep->to = NULL;
    if (exec->device->keeping) TRI_TRY(exec->device->keeping->finish(exec->context));
    if (keep->staged) copy_here(to, keep->staged, half(exec), exec->threads);
    return TRI_OK;
}

tri_status tri__exec_keep(tri_exec *exec, int program, int i, uint32_t step) {
    const tri_program *p = exec->program[program];
    const tri_instr *instr = &p->instr[i];
    int y = TRI_SLOT(instr, copy_post, y), x = TRI_SLOT(instr, copy_post, x);
    tri_keep *keep = &exec->keep;
    size_t bytes = (size_t)tri__slot_bytes(&p->slot[x], &p->max);
    TRI_ASSERT(keep->at);
    if (instr->op == TRI_OP_copy_wait) return wait(exec);
    keep->to = keep->at + (step & 1 ? 0 : half(exec));
    char *to = (keep->staged ? keep->staged : keep->to) + tri__slot_offset(p, y);
    const char *from = exec->memory[p->slot[x].mem] + tri__slot_offset(p, x);
    if (exec->host[p->slot[x].mem] == exec->memory[p->slot[x].mem]) copy_here(to, from, bytes, exec->threads);
    else exec->device->keeping->post(exec->context, to, from, bytes);
    return TRI_OK;
}
