/* keep.c - copies of weights and optimizer state in host memory, made while an asynchronous device computes: begun
 * after an update, complete before the next one. They are posted once the next run is queued: a GPU makes one copy over
 * the bus at a time, and the run's inputs would wait for all of them. What is in host memory already is copied at once.
 */
#include "base/copy.h"
#include "exec/exec_parts.h"
#include "program/transfer.h"

#include <stdlib.h>

enum { RUN_BYTES = 1 << 20, GAP = 64 /* bytes: less than this lies between things of an aligned layout */ };

static void copy_here(void *to, const void *from, size_t bytes, int threads) {
    (void)threads; /* of a build without OpenMP */
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t at = 0; at < bytes; at += RUN_BYTES)
        tri__copy_large((char *)to + at, (const char *)from + at, bytes - at < RUN_BYTES ? bytes - at : RUN_BYTES);
}

int tri__exec_can_keep(const tri_exec *exec) { return exec->device->keeping != NULL; }

/* The class that has a host address. */
static int class_of(const tri_exec *exec, const void *at) {
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (exec->host[mem] && (const char *)at >= exec->host[mem] &&
            (const char *)at < exec->host[mem] + exec->bytes[mem])
            return mem;
    TRI_ASSERT(!"not a slot's memory");
    return -1;
}

/* Whether b follows a, as far apart here as there, so that one copy takes both. */
static int follows(const tri_copied *a, const tri_copied *b) {
    return b->at >= a->at + a->bytes && b->at - a->at - a->bytes < GAP &&
           (const char *)b->from - (const char *)a->from == (ptrdiff_t)(b->at - a->at);
}

/* Appends to a list, or to its last entry. */
static void add(tri_copied *list, int *n, int joins, tri_copied what) {
    if (joins && *n && follows(&list[*n - 1], &what)) list[*n - 1].bytes = what.at + what.bytes - list[*n - 1].at;
    else list[(*n)++] = what;
}

/* Whether an instruction writes to one of these, whose addresses are the host's. */
static int writes_any(const tri_exec *exec, int program, int i, const tri_copied *what, int n) {
    const tri_program *p = exec->program[program];
    const tri_instr *instr = &p->instr[i];
    const tri_op_row *row = tri__instr_row(instr);
    for (int k = 0; k < row->n_args; k++) {
        int slot = instr->slot[k];
        if (slot < 0 || tri__ends(instr->op) || !tri__access_writes(row->arg[k].access)) continue;
        int mem = p->slot[slot].mem;
        if (mem != TRI_MEM_PARAM && mem != TRI_MEM_STATE) continue;
        const char *begin = tri__exec_slot(exec, program, slot),
                   *end = begin + tri__slot_bytes(&p->slot[slot], &p->max);
        for (int j = 0; j < n; j++)
            if (begin < (const char *)what[j].from + what[j].bytes && (const char *)what[j].from < end) return 1;
    }
    return 0;
}

tri_status tri__exec_keep_open(tri_exec *exec, const tri_copied *what, int n, void *into, size_t bytes, size_t each,
                               int *direct) {
    tri_keep *keep = &exec->keep;
    TRI_ASSERT(tri__exec_can_keep(exec) && !keep->into);
    keep->there = calloc((size_t)n + 1, sizeof *keep->there);
    keep->here = calloc((size_t)n + 1, sizeof *keep->here);
    if (!keep->there || !keep->here) return tri__fail(TRI_RESOURCE, "out of memory for copies of a step's state");
    keep->each = each;
    for (int p = 0; p < exec->n; p++)
        for (int i = 0; i < exec->program[p]->n_instrs; i++)
            exec->bound[p][i].writes_kept = writes_any(exec, p, i, what, n);
    for (int i = 0, before = -1; i < n; i++) {
        int mem = class_of(exec, what[i].from), joins = mem == before; /* classes are allocated one by one */
        tri_copied one = what[i];
        one.from = exec->memory[mem] + ((const char *)what[i].from - exec->host[mem]);
        if (tri__exec_has_copy(exec, mem)) add(keep->there, &keep->n_there, joins, one);
        else add(keep->here, &keep->n_here, joins, one);
        before = mem;
    }
    *direct = exec->device->keeping->pin(exec->context, into, bytes);
    if (*direct) keep->into = into;
    return *direct ? TRI_OK : exec->device->alloc_offload(exec->context, NULL, each, (void **)&keep->staged);
}

void tri__exec_keep_close(tri_exec *exec) {
    tri_keep *keep = &exec->keep;
    if (keep->to) (void)exec->device->keeping->finish(exec->context);
    if (keep->into) exec->device->keeping->unpin(exec->context, keep->into);
    if (keep->staged) exec->device->free(exec->context, keep->staged, keep->each);
    free(keep->there);
    free(keep->here);
    *keep = (tri_keep){0};
}

void tri__exec_keep_begin(tri_exec *exec, void *to) {
    tri_keep *keep = &exec->keep;
    TRI_ASSERT(!keep->to);
    keep->to = to, keep->is_posted = 0;
    exec->device->keeping->begin(exec->context);
    for (int i = 0; i < keep->n_here; i++)
        copy_here((keep->staged ? keep->staged : keep->to) + keep->here[i].at, keep->here[i].from,
                  keep->here[i].bytes, exec->threads);
}

void tri__exec_keep_post(tri_exec *exec) {
    tri_keep *keep = &exec->keep;
    if (!keep->to || keep->is_posted) return;
    keep->is_posted = 1;
    exec->device->keeping->post(exec->context, keep->staged ? keep->staged : keep->to, keep->there, keep->n_there);
}

void tri__exec_keep_order(tri_exec *exec) {
    if (!exec->keep.to) return;
    tri__exec_keep_post(exec);
    exec->device->keeping->order(exec->context);
}

void tri__exec_keep_before(tri_exec *exec, int program, int begin, int end) {
    int i = begin;
    while (exec->keep.to && i < end && !exec->bound[program][i].writes_kept) i++;
    if (exec->keep.to && i < end) tri__exec_keep_order(exec);
}

tri_status tri__exec_keep_finish(tri_exec *exec) {
    tri_keep *keep = &exec->keep;
    char *to = keep->to;
    if (!to) return TRI_OK;
    tri__exec_keep_post(exec);
    keep->to = NULL;
    TRI_TRY(exec->device->keeping->finish(exec->context));
    if (keep->staged) copy_here(to, keep->staged, keep->each, exec->threads);
    return TRI_OK;
}
