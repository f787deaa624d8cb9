/* bind.c - one allocation per memory class, one prepared call per instruction. Classes that transfers touch are in the
 * rank's shared memory, so that peers access them without a copy. An asynchronous device keeps the classes in its own
 * memory; the host holds copies of those that it reads or fills. */
#include "comm/shm/helper.h"
#include "exec/exec_parts.h"

/* The address that kernels use; slot -1: none. */
static void *memory_of(const tri_exec *exec, int program, int slot) {
    const tri_program *p = exec->program[program];
    if (slot < 0 || p->slot[slot].mem == TRI_MEM_KEPT) return NULL; /* it is another in each step */
    return exec->memory[p->slot[slot].mem] + tri__slot_offset(p, slot);
}

void *tri__exec_slot(const tri_exec *exec, int program, int slot) {
    const tri_program *p = exec->program[program];
    int mem = p->slot[slot].mem;
    TRI_ASSERT(exec->host[mem] || exec->bytes[mem] == 0);
    return exec->host[mem] ? exec->host[mem] + tri__slot_offset(p, slot) : NULL;
}

int tri__exec_has_copy(const tri_exec *exec, int mem) {
    return exec->host[mem] && exec->host[mem] != exec->memory[mem];
}

tri_status tri__exec_push(tri_exec *exec, int program, int slot) {
    const tri_program *p = exec->program[program];
    if (!tri__exec_has_copy(exec, p->slot[slot].mem)) return TRI_OK;
    return exec->device->async->copy(exec->context, memory_of(exec, program, slot),
                                     tri__exec_slot(exec, program, slot),
                                     (size_t)tri__slot_bytes(&p->slot[slot], &p->max));
}

tri_status tri__exec_pull(tri_exec *exec, tri_mem mem) {
    if (!tri__exec_has_copy(exec, mem)) return tri__exec_finish(exec);
    return exec->device->async->copy(exec->context, exec->host[mem], exec->memory[mem], (size_t)exec->bytes[mem]);
}

tri_status tri__exec_fill(tri_exec *exec, int program, int slot, tri_make *make, void *maker) {
    const tri_program *p = exec->program[program];
    size_t bytes = (size_t)tri__slot_bytes(&p->slot[slot], &p->max);
    if (!bytes) return TRI_OK;
    void *to = memory_of(exec, program, slot);
    if (exec->device->async && exec->host[p->slot[slot].mem] != exec->memory[p->slot[slot].mem])
        return exec->device->async->fill(exec->context, to, bytes, make, maker);
    make(maker, 0, bytes, to);
    return TRI_OK;
}

const char *tri__exec_describe(const tri_exec *exec) { return exec->device->describe(exec->context); }

void *tri__exec_memory(const tri_exec *exec, tri_mem mem, int64_t *bytes) {
    *bytes = exec->bytes[mem];
    return exec->memory[mem];
}

int64_t tri__exec_bytes(const tri_exec *exec) {
    int64_t bytes = 0;
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) bytes += exec->bytes[mem];
    return bytes;
}

static void bind_program(tri_exec *exec, int index, int threads, uint32_t seed) {
    const tri_program *p = exec->program[index];
    const tri_kernel_table *table = exec->table;
    int64_t work = p->bytes[TRI_MEM_WORK] / tri__program_lanes(p); /* per lane */
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        tri_bound *b = &exec->bound[index][i];
        b->run = tri__kernel(table, (tri_op)instr->op, &instr->attr, tri__instr_dtype(p, instr));
        TRI_ASSERT(b->run || tri__op_queue(instr->op) != TRI_QUEUE_COMPUTE);
        b->call = (tri_call){.op = (tri_op)instr->op, .acc = instr->acc, .attr = &instr->attr, .seed = seed,
                             .threads = threads, .table = table,
                             .work = exec->memory[TRI_MEM_WORK] + instr->lane * work, .context = exec->context};
        for (int k = 0; k < TRI_MAX_ARGS; k++) {
            if (instr->slot[k] < 0) continue;
            const tri_slot *slot = &p->slot[instr->slot[k]];
            b->call.dtype[k] = (uint8_t)slot->dtype;
            b->call.t[k] = (tri_tensor){memory_of(exec, index, instr->slot[k]), slot->rows.add, slot->cols};
        }
    }
}

/* Transfers, and copies to and from offload memory. */
static tri_status bind_transfers(tri_exec *exec) {
    int copies = 0;
    size_t posts = 0, used = 0, world = exec->world ? (size_t)tri_world_size(exec->world) : 1;
    for (int p = 0; p < exec->n; p++)
        for (int i = 0; i < exec->program[p]->n_instrs; i++)
            posts += (size_t)tri__is_post(exec->program[p]->instr[i].op);
    TRI_TRY(TRI_NEW(exec->transfer, posts + 1, "an executor's transfers"));
    TRI_TRY(TRI_NEW(exec->counts, posts * world + 1, "an executor's transfers"));
    for (int p = 0; p < exec->n; p++)
        for (int i = 0; i < exec->program[p]->n_instrs; i++) {
            const tri_instr *instr = &exec->program[p]->instr[i];
            tri_bound *b = &exec->bound[p][i];
            if (tri__ends(instr->op)) {
                int post = tri__transfer_post_of(exec->program[p], i);
                TRI_ASSERT(post >= 0); /* the checker rejects a wait without a post */
                b->transfer = exec->bound[p][post].transfer, b->copy = exec->bound[p][post].copy;
            }
            if (instr->op == TRI_OP_copy_post) b->copy = copies++;
            if (!tri__is_post(instr->op)) continue;
            tri_ends ends = tri__transfer_ends(instr);
            b->transfer = &exec->transfer[used];
            tri__transfer_bind(&exec->groups, exec->program[p], instr, memory_of(exec, p, ends.y),
                               memory_of(exec, p, ends.x), exec->counts + used * world, (int)used, b->transfer);
            used++;
        }
    return TRI_OK;
}

/* Numbers the signals of instructions that another lane waits for. */
static void bind_lanes(tri_exec *exec) {
    for (int p = 0; p < exec->n; p++) {
        const tri_program *program = exec->program[p];
        int signals = 0;
        exec->in_lanes[p] = exec->device->lanes > 1 && tri__program_lanes(program) > 1;
        for (int i = 0; i < program->n_instrs && exec->in_lanes[p]; i++) {
            int *signal = program->instr[i].await < 0 ? NULL : &exec->bound[p][program->instr[i].await].signal;
            if (signal && !*signal) *signal = ++signals;
        }
    }
}

/* Peers access the heap directly; asynchronous devices use their own transfers. */
static int in_heap(const tri_exec *exec, int mem) { return !exec->device->async && exec->shared >> mem & 1; }

static tri_status alloc_memory(tri_exec *exec, int mem, size_t bytes, const char *folder) {
    void **out = (void **)&exec->memory[mem];
    if (mem == TRI_MEM_HOST) return tri__device_find("cpu")->alloc(NULL, bytes, out);
    if (exec->program[0]->offload >> mem & 1) return exec->device->alloc_offload(exec->context, folder, bytes, out);
    if (in_heap(exec, mem)) return tri_heap_alloc(exec->world, bytes, out);
    return exec->device->alloc(exec->context, bytes, out);
}

static tri_status alloc_class(tri_exec *exec, int mem, const char *folder) {
    size_t bytes = (size_t)exec->bytes[mem] + exec->guard;
    if (!bytes || mem == TRI_MEM_KEPT) return TRI_OK; /* tri__exec_keep_in */
    TRI_TRY(alloc_memory(exec, mem, bytes, folder));
    if (!exec->device->async || mem == TRI_MEM_HOST || exec->program[0]->offload >> mem & 1)
        exec->host[mem] = exec->memory[mem];
    else if (mem == TRI_MEM_PARAM || mem == TRI_MEM_STATE || mem == TRI_MEM_RESULT)
        return tri__device_find("cpu")->alloc(NULL, bytes, (void **)&exec->host[mem]);
    return TRI_OK;
}

/* The largest total of input bytes that one run stages. */
static size_t input_bytes(const tri_program *const *programs, int n) {
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        size_t bytes = 0;
        for (int k = 0; k < programs[i]->n_instrs; k++) {
            const tri_instr *instr = &programs[i]->instr[k];
            if (instr->op == TRI_OP_input && instr->attr.field != TRI_FIELD_weights)
                bytes += tri__input_bytes(
                    (size_t)tri__slot_bytes(&programs[i]->slot[instr->slot[0]], &programs[i]->max));
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

static tri_status bind_all(tri_exec *exec, const tri_exec_spec *spec) {
    const tri_device *device = exec->device;
    const tri_program *const *programs = exec->program;
    tri_world *world = exec->world;
    int n = exec->n;
    TRI_TRY(TRI_NEW(exec->table, 1, "an executor"));
    TRI_TRY(TRI_NEW(exec->bound, n, "an executor"));
    TRI_TRY(TRI_NEW(exec->in_lanes, n, "an executor"));
    for (int i = 0; i < n; i++) {
        TRI_TRY(TRI_NEW(exec->bound[i], programs[i]->n_instrs + 1, "an executor"));
        exec->shared |= tri__program_shared(programs[i]);
        for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
            if (programs[i]->bytes[mem] > exec->bytes[mem]) exec->bytes[mem] = programs[i]->bytes[mem];
    }
    TRI_TRY(device->open(&tri__core, world ? world->local : 0, input_bytes(programs, n), &exec->context));
    exec->groups = (tri_group_table){.peers = device->peers, .context = exec->context, .world = world};
    TRI_TRY(tri__groups_make(programs, n, &exec->groups));
    if (device->async && !device->peers && exec->groups.n)
        return tri__fail(TRI_USAGE, "device %s carries no transfers among ranks; run one rank, or take another "
                         "--device", device->name);
    if (exec->groups.n && !device->async) TRI_TRY(tri__helper_share(world, exec->threads));
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) TRI_TRY(alloc_class(exec, mem, spec->folder));
    device->kernels(exec->table);
    for (int i = 0; i < n; i++) bind_program(exec, i, exec->threads, spec->seed);
    TRI_TRY(bind_transfers(exec));
    bind_lanes(exec);
    return tri__replay_open(programs, n, &exec->replay);
}

tri_status tri__exec_open(const tri_exec_spec *spec, tri_exec **out) {
    tri_exec *exec;
    TRI_TRY(TRI_NEW(exec, 1, "an executor"));
    *exec = (tri_exec){.device = spec->device, .world = spec->world, .program = spec->program, .n = spec->n,
                       .threads = spec->threads ? spec->threads : 1, .guard = spec->guard};
    tri_status status = bind_all(exec, spec);
    if (status == TRI_OK) *out = exec;
    if (status == TRI_OK) return TRI_OK;
    tri__groups_free(&exec->groups, 1); /* other ranks may not be leaving: do not wait for them */
    tri__exec_close(exec);
    return status;
}

void tri__exec_close(tri_exec *exec) {
    if (!exec) return;
    tri__groups_free(&exec->groups, exec->world && exec->world->failed != TRI_OK);
    tri__exec_keep_close(exec); /* may wait for all kernels, and those of a group with a dead rank end with the group */
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        size_t bytes = (size_t)exec->bytes[mem] + exec->guard;
        if (mem == TRI_MEM_KEPT) continue;
        if (tri__exec_has_copy(exec, mem)) tri__device_find("cpu")->free(NULL, exec->host[mem], bytes);
        if (mem == TRI_MEM_HOST) tri__device_find("cpu")->free(NULL, exec->memory[mem], bytes);
        else if (in_heap(exec, mem)) tri_heap_free(exec->world, exec->memory[mem]);
        else exec->device->free(exec->context, exec->memory[mem], bytes);
    }
    exec->device->close(exec->context);
    TRI_FREE(exec->transfer, exec->counts);
    for (int i = 0; exec->bound && i < exec->n; i++) free(exec->bound[i]);
    tri__replay_free(&exec->replay);
    TRI_FREE(exec->bound, exec->in_lanes, exec->table, exec);
}
