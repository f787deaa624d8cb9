/* exec.c - one allocation per memory class, one prepared call per instruction; running walks them in order. Classes
 * that transfers touch lie in the rank's shared memory, so that peers reach into them and nothing is copied. A device
 * apart from the host has the same classes in its own memory, and the host copies of those that it fills and reads. */
#include "exec/exec.h"
#include "base/clock.h"
#include "comm/world/world.h"
#include "exec/lanes.h"
#include "exec/replay.h"
#include "exec/transfer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An instruction bound to memory: what does not change from step to step. */
typedef struct bound {
    tri_kernel *run;               /* NULL: done here */
    tri_call call;
    tri_bound_transfer *transfer;  /* of a post and of its wait; NULL */
    int copy;                      /* number of a copy between memories, of its post and of its wait */
} bound;

struct tri_exec {
    const tri_device *device;
    void *context;              /* the device's */
    tri_kernel_table *table;
    tri_world *world;           /* NULL: one rank */
    const tri_program *const *program;
    bound **bound;              /* [n] arrays of n_instrs */
    tri_lanes *lanes;           /* [n] */
    tri_replay replay;
    tri_group_table groups;
    tri_bound_transfer *transfer;
    int64_t *counts;            /* of all transfers */
    unsigned shared;            /* classes in shared memory, a bit each */
    int n, threads;
    int64_t bytes[TRI_MEM_COUNT];
    size_t guard;
    char *memory[TRI_MEM_COUNT];
    char *host[TRI_MEM_COUNT];  /* as the host reaches it: the same, or a copy; NULL where a device apart needs none */
    tri_time *times;            /* of a run that is not finished; NULL */
    int n_times, timed;         /* how many; of which program */
};

/* As kernels see it. */
static void *slot_memory(const tri_exec *exec, int program, int slot) {
    const tri_program *p = exec->program[program];
    return exec->memory[p->slot[slot].mem] + tri__slot_offset(p, slot);
}

void *tri__exec_slot(const tri_exec *exec, int program, int slot) {
    const tri_program *p = exec->program[program];
    int mem = p->slot[slot].mem;
    TRI_ASSERT(exec->host[mem] || exec->bytes[mem] == 0);
    return exec->host[mem] ? exec->host[mem] + tri__slot_offset(p, slot) : NULL;
}

static int has_copy(const tri_exec *exec, int mem) { return exec->host[mem] && exec->host[mem] != exec->memory[mem]; }

tri_status tri__exec_push(tri_exec *exec, int program, int slot) {
    const tri_program *p = exec->program[program];
    if (!has_copy(exec, p->slot[slot].mem)) return TRI_OK;
    return exec->device->apart->copy(exec->context, slot_memory(exec, program, slot),
                                     tri__exec_slot(exec, program, slot),
                                     (size_t)tri__slot_bytes(&p->slot[slot], &p->max));
}

tri_status tri__exec_pull(tri_exec *exec, tri_mem mem) {
    if (!has_copy(exec, mem)) return tri__exec_finish(exec);
    return exec->device->apart->copy(exec->context, exec->host[mem], exec->memory[mem], (size_t)exec->bytes[mem]);
}

tri_status tri__exec_fill(tri_exec *exec, int program, int slot, tri_make *make, void *maker) {
    const tri_program *p = exec->program[program];
    size_t bytes = (size_t)tri__slot_bytes(&p->slot[slot], &p->max);
    if (!bytes) return TRI_OK;
    void *to = slot_memory(exec, program, slot);
    if (has_copy(exec, p->slot[slot].mem)) return exec->device->apart->fill(exec->context, to, bytes, make, maker);
    make(maker, 0, bytes, to);
    return TRI_OK;
}

void tri__exec_cast(tri_exec *exec, int program, int y, int64_t at, int x) {
    const tri_program *p = exec->program[program];
    const tri_slot *to = &p->slot[y], *from = &p->slot[x];
    const tri_instr like = {.op = TRI_OP_cast, .slot = {y, x}};
    tri_call call = {.op = TRI_OP_cast, .attr = &like.attr, .threads = exec->threads, .table = exec->table,
                     .work = exec->memory[TRI_MEM_WORK], .context = exec->context,
                     .dtype = {(uint8_t)to->dtype, (uint8_t)from->dtype}};
    call.t[0] = (tri_tensor){(char *)slot_memory(exec, program, y) + at * (int64_t)tri__dtype_bytes(to->dtype), 1,
                             from->cols};
    call.t[1] = (tri_tensor){slot_memory(exec, program, x), 1, from->cols};
    exec->table->run[TRI_OP_cast][tri__instr_dtype(p, &like)](&call);
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
    int64_t work = p->bytes[TRI_MEM_WORK] / tri__program_lanes(p); /* of a lane */
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        bound *b = &exec->bound[index][i];
        b->run = table->run[instr->op][tri__instr_dtype(p, instr)];
        TRI_ASSERT(b->run || tri__op_queue(instr->op) != TRI_QUEUE_COMPUTE);
        b->call = (tri_call){.op = (tri_op)instr->op,
                             .acc = instr->acc,
                             .attr = &instr->attr,
                             .seed = seed,
                             .threads = threads,
                             .table = table,
                             .work = exec->memory[TRI_MEM_WORK] + tri__instr_lane(p, i) * work,
                             .context = exec->context};
        for (int k = 0; k < TRI_MAX_ARGS; k++) {
            if (instr->slot[k] < 0) continue;
            const tri_slot *slot = &p->slot[instr->slot[k]];
            b->call.dtype[k] = (uint8_t)slot->dtype;
            b->call.t[k] = (tri_tensor){slot_memory(exec, index, instr->slot[k]), slot->rows.add, slot->cols};
        }
    }
}

static void *memory_of(const tri_exec *exec, int program, int slot) {
    return slot < 0 ? NULL : slot_memory(exec, program, slot);
}

static tri_bound_transfer *posted(const tri_exec *exec, int program, int wait) {
    int post = tri__transfer_post_of(exec->program[program], wait);
    TRI_ASSERT(post >= 0); /* the checker refuses a wait for nothing */
    return exec->bound[program][post].transfer;
}

static tri_status bind_transfers(tri_exec *exec) {
    size_t posts = 0, used = 0, world = exec->world ? (size_t)tri_world_size(exec->world) : 1;
    for (int p = 0; p < exec->n; p++)
        for (int i = 0; i < exec->program[p]->n_instrs; i++)
            posts += (size_t)tri__is_post(exec->program[p]->instr[i].op);
    exec->transfer = calloc(posts + 1, sizeof *exec->transfer);
    exec->counts = calloc(posts * world + 1, sizeof *exec->counts);
    if (!exec->transfer || !exec->counts) return tri__fail(TRI_RESOURCE, "out of memory for an executor's transfers");
    for (int p = 0; p < exec->n; p++)
        for (int i = 0; i < exec->program[p]->n_instrs; i++) {
            const tri_instr *instr = &exec->program[p]->instr[i];
            if (instr->op == TRI_OP_wait) exec->bound[p][i].transfer = posted(exec, p, i);
            if (!tri__is_post(instr->op)) continue;
            tri_ends ends = tri__transfer_ends(instr);
            tri_bound_transfer *to = exec->bound[p][i].transfer = &exec->transfer[used];
            tri__transfer_bind(&exec->groups, exec->program[p], instr, memory_of(exec, p, ends.y),
                               memory_of(exec, p, ends.x), exec->counts + used * world, (int)used, to);
            used++;
        }
    return TRI_OK;
}

static void bind_copies(tri_exec *exec) {
    int used = 0;
    for (int p = 0; p < exec->n; p++)
        for (int i = 0; i < exec->program[p]->n_instrs; i++) {
            bound *b = &exec->bound[p][i];
            if (exec->program[p]->instr[i].op == TRI_OP_copy_post) b->copy = used++;
            if (exec->program[p]->instr[i].op == TRI_OP_copy_wait)
                b->copy = exec->bound[p][tri__transfer_post_of(exec->program[p], i)].copy;
        }
}

/* Where the device has lanes and a program uses them. */
static tri_status bind_lanes(tri_exec *exec) {
    for (int p = 0; p < exec->n && exec->device->lanes > 1; p++)
        if (tri__program_lanes(exec->program[p]) > 1) TRI_TRY(tri__lanes_find(exec->program[p], &exec->lanes[p]));
    return TRI_OK;
}

/* Peers reach into the heap; devices apart have ways of their own. */
static int in_heap(const tri_exec *exec, int mem) { return !exec->device->apart && exec->shared >> mem & 1; }

static tri_status alloc_memory(tri_exec *exec, int mem, size_t bytes, const char *folder) {
    void **out = (void **)&exec->memory[mem];
    if (exec->program[0]->second >> mem & 1) return exec->device->alloc_second(exec->context, folder, bytes, out);
    if (in_heap(exec, mem)) return tri_heap_alloc(exec->world, bytes, out);
    return exec->device->alloc(exec->context, bytes, out);
}

static tri_status alloc_class(tri_exec *exec, int mem, const char *folder) {
    size_t bytes = (size_t)exec->bytes[mem] + exec->guard;
    if (!bytes) return TRI_OK;
    TRI_TRY(alloc_memory(exec, mem, bytes, folder));
    if (!exec->device->apart || exec->program[0]->second >> mem & 1) exec->host[mem] = exec->memory[mem];
    else if (mem == TRI_MEM_PARAM || mem == TRI_MEM_STATE || mem == TRI_MEM_RESULT)
        return tri__device_find("cpu")->alloc(NULL, bytes, (void **)&exec->host[mem]);
    return TRI_OK;
}

/* The most bytes that the host brings to a run. */
static size_t input_bytes(const tri_program *const *programs, int n) {
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        size_t bytes = 0;
        for (int k = 0; k < programs[i]->n_instrs; k++) {
            const tri_instr *instr = &programs[i]->instr[k];
            if (instr->op == TRI_OP_input)
                bytes += tri__input_bytes(
                    (size_t)tri__slot_bytes(&programs[i]->slot[instr->slot[0]], &programs[i]->max));
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

tri_status tri__exec_open(const tri_device *device, const tri_program *const *programs, int n, int threads,
                          uint32_t seed, size_t guard, tri_world *world, const char *folder, tri_exec **out) {
    tri_exec *exec = calloc(1, sizeof *exec);
    tri_status status = tri__fail(TRI_RESOURCE, "out of memory for an executor");
    if (!exec) goto fail;
    *exec = (tri_exec){
        .device = device, .world = world, .program = programs, .n = n, .threads = threads, .guard = guard};
    exec->table = calloc(1, sizeof *exec->table);
    exec->bound = calloc((size_t)n, sizeof *exec->bound);
    exec->lanes = calloc((size_t)n, sizeof *exec->lanes);
    if (!exec->table || !exec->bound || !exec->lanes) goto fail;
    for (int i = 0; i < n; i++) {
        exec->bound[i] = calloc((size_t)programs[i]->n_instrs + 1, sizeof **exec->bound);
        if (!exec->bound[i]) goto fail;
        exec->shared |= tri__program_shared(programs[i]);
        for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
            if (programs[i]->bytes[mem] > exec->bytes[mem]) exec->bytes[mem] = programs[i]->bytes[mem];
    }
    status = device->open(&tri__core, world ? world->local : 0, input_bytes(programs, n), &exec->context);
    if (status != TRI_OK) goto fail;
    exec->groups = (tri_group_table){.apart = device->apart, .context = exec->context, .world = world};
    if ((status = tri__groups_make(programs, n, &exec->groups)) != TRI_OK) goto fail;
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if ((status = alloc_class(exec, mem, folder)) != TRI_OK) goto fail;
    device->kernels(exec->table);
    for (int i = 0; i < n; i++) bind_program(exec, i, threads, seed);
    if ((status = bind_transfers(exec)) != TRI_OK) goto fail;
    bind_copies(exec);
    if ((status = bind_lanes(exec)) != TRI_OK) goto fail;
    if ((status = tri__replay_open(programs, n, &exec->replay)) != TRI_OK) goto fail;
    *out = exec;
    return TRI_OK;
fail:
    if (exec) tri__groups_free(&exec->groups, 1); /* the others may be far from leaving */
    tri__exec_close(exec);
    return status;
}

void tri__exec_close(tri_exec *exec) {
    if (!exec) return;
    tri__groups_free(&exec->groups, exec->world && exec->world->failed != TRI_OK);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        size_t bytes = (size_t)exec->bytes[mem] + exec->guard;
        if (has_copy(exec, mem)) tri__device_find("cpu")->free(NULL, exec->host[mem], bytes);
        if (in_heap(exec, mem)) tri_heap_free(exec->world, exec->memory[mem]);
        else exec->device->free(exec->context, exec->memory[mem], bytes);
    }
    exec->device->close(exec->context);
    free(exec->transfer);
    free(exec->counts);
    for (int i = 0; exec->bound && i < exec->n; i++) free(exec->bound[i]);
    for (int i = 0; exec->lanes && i < exec->n; i++) tri__lanes_free(&exec->lanes[i]);
    tri__replay_free(&exec->replay);
    free(exec->bound);
    free(exec->lanes);
    free(exec->table);
    free(exec);
}

/* What an input instruction copies of its microbatch. */
static const char *input_of(const tri_program *p, const tri_instr *instr, const tri_feed *feed, size_t *bytes) {
    const char *field = feed->field[instr->attr.field];
    *bytes = (size_t)tri__slot_bytes(&p->slot[instr->slot[0]], &feed->counts);
    TRI_ASSERT(field || !*bytes);
    return *bytes ? field + (size_t)instr->attr.part * *bytes : NULL;
}

static const tri_feed *feed_of(const tri_instr *instr, const tri_feed *feed) {
    return &feed[instr->mb < 0 ? 0 : instr->mb];
}

static void run_input(const tri_exec *exec, const bound *b, const tri_program *p, const tri_instr *instr,
                      const tri_feed *feed) {
    size_t bytes;
    const char *from = input_of(p, instr, feed, &bytes);
    if (!bytes) return;
    if (exec->device->apart)
        exec->device->apart->input(exec->context, b->call.t[0].data, bytes); /* `start_apart` has brought it */
    else memcpy(b->call.t[0].data, from, bytes);
}

/* Begins a run of a device apart: with all that its inputs will ask for. */
static void start_apart(const tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed) {
    const tri_program *p = exec->program[program];
    for (int i = begin; i < end; i++) {
        size_t bytes;
        if (p->instr[i].op != TRI_OP_input) continue;
        const char *from = input_of(p, &p->instr[i], feed_of(&p->instr[i], feed), &bytes);
        if (bytes) exec->device->apart->bring(exec->context, from, bytes);
    }
    exec->device->apart->start(exec->context, step);
}

/* Half of a copy between memories; done at once where kernels are. */
static void run_copy(const tri_exec *exec, const bound *b, const tri_program *program, const tri_instr *instr) {
    const tri_apart *apart = exec->device->apart;
    const tri_tensor *y = &b->call.t[0], *x = &b->call.t[1];
    const tri_slot *to = &program->slot[instr->slot[0]];
    size_t bytes = (size_t)(y->rows * y->cols) * tri__dtype_bytes(to->dtype);
    if (instr->op == TRI_OP_copy_wait) {
        if (apart) apart->moved(exec->context, b->copy);
    } else if (apart) {
        apart->move(exec->context, y->data, x->data, bytes, program->second >> to->mem & 1, b->copy);
    } else {
        memcpy(y->data, x->data, bytes);
    }
}

static tri_status run_one(tri_exec *exec, int program, int i, uint32_t step, const tri_feed *feed) {
    const tri_program *p = exec->program[program];
    const tri_instr *instr = &p->instr[i];
    bound *b = &exec->bound[program][i];
    const tri_feed *from = feed_of(instr, feed);
    if (exec->world) tri__world_beat(exec->world);
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (instr->slot[k] >= 0) b->call.t[k].rows = tri__slot_rows(&p->slot[instr->slot[k]], &from->counts);
    if (instr->op == TRI_OP_wait) return tri__transfer_wait(exec->world, b->transfer);
    if (b->transfer) return tri__transfer_post(b->transfer, &from->counts);
    b->call.step = step;
    if (b->run) b->run(&b->call);
    else if (instr->op != TRI_OP_input) run_copy(exec, b, p, instr);
    else run_input(exec, b, p, instr, from);
    return TRI_OK;
}

enum { PULSE = 32 }; /* instructions */

static tri_status queue_one(tri_exec *exec, int program, int i, uint32_t step, const tri_feed *feed) {
    if (exec->groups.n && i % PULSE == 0) exec->device->apart->pulse(exec->context);
    return run_one(exec, program, i, step, feed);
}

/* In several lanes, where the program has them. */
static tri_status queue_all(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed) {
    const tri_apart *apart = exec->device->apart;
    const tri_lanes *lanes = exec->lanes[program].lane ? &exec->lanes[program] : NULL;
    tri_status status = TRI_OK;
    if (lanes) tri__lanes_begin(apart, exec->context);
    for (int i = begin; i < end && status == TRI_OK; i++) {
        if (lanes) tri__lanes_before(lanes, i, begin, apart, exec->context);
        status = queue_one(exec, program, i, step, feed);
        if (lanes) tri__lanes_after(lanes, i, apart, exec->context);
    }
    if (lanes) tri__lanes_end(apart, exec->context);
    return status;
}

/* The device's own marks say when kernels ran. All are in one lane, where each has its own time. */
static tri_status queue_marked(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                               tri_time *times) {
    const tri_apart *apart = exec->device->apart;
    for (int i = begin; i < end; i++) {
        apart->mark(exec->context, i);
        TRI_TRY(queue_one(exec, program, i, step, feed));
    }
    apart->mark(exec->context, end);
    exec->times = times, exec->n_times = end, exec->timed = program;
    return TRI_OK;
}

/* Kernels are only queued here. */
static tri_status run_apart(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                            tri_time *times) {
    const tri_apart *apart = exec->device->apart;
    start_apart(exec, program, begin, end, step, feed);
    if (times) return queue_marked(exec, program, begin, end, step, feed, times);
    tri_again again = exec->groups.n ? TRI_AGAIN_QUEUE /* the host looks how they get on */
                                     : tri__replay_ask(&exec->replay, exec->program, program, begin, end, feed, apart,
                                                       exec->context);
    if (again == TRI_AGAIN_DONE) return TRI_OK;
    tri_status status = queue_all(exec, program, begin, end, step, feed);
    if (again == TRI_AGAIN_KEEP && !apart->kept(exec->context) && status == TRI_OK)
        status = queue_all(exec, program, begin, end, step, feed);
    return status;
}

tri_status tri__exec_run(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                         tri_time *times) {
    if (exec->device->apart) return run_apart(exec, program, begin, end, step, feed, times);
    for (int i = begin; i < end; i++) {
        if (times) times[i].begin = tri__clock();
        TRI_TRY(run_one(exec, program, i, step, feed));
        if (times) times[i].end = tri__clock();
    }
    return TRI_OK;
}

const char *tri__exec_kind(const tri_exec *exec) {
    const tri_apart *apart = exec->device->apart;
    return apart && apart->tune ? apart->kind(exec->context) : NULL;
}

tri_status tri__exec_tune(tri_exec *exec, tri_wisdom *wisdom) {
    for (int n = 0; n < exec->n; n++) {
        const tri_program *p = exec->program[n];
        for (int i = 0; i < p->n_instrs; i++) {
            tri_call call = exec->bound[n][i].call;
            if (exec->world) tri__world_beat(exec->world);
            for (int k = 0; k < TRI_MAX_ARGS; k++)
                if (p->instr[i].slot[k] >= 0) call.t[k].rows = tri__slot_rows(&p->slot[p->instr[i].slot[k]], &p->max);
            if (exec->bound[n][i].run) exec->device->apart->tune(exec->context, &call, exec->bound[n][i].run, wisdom);
        }
    }
    return exec->device->apart->finish(exec->context);
}

void tri__exec_follow(tri_exec *exec, const tri_wisdom *wisdom) { exec->device->apart->follow(exec->context, wisdom); }

double tri__exec_worked(tri_exec *exec) { return exec->device->apart ? exec->device->apart->worked(exec->context) : 0; }

int64_t tri__exec_used(const tri_exec *exec) {
    return exec->device->apart ? exec->device->apart->used(exec->context) : 0;
}

int tri__exec_runs_on(const tri_exec *exec) { return exec->device->apart != NULL; }

/* Until the device is done with what it was told, and at the end of a step others with the comparison of its transfers;
 * or some rank failed: then its own transfers may never end, and are given up. */
static tri_status await(tri_exec *exec, int compared) {
    tri_world *world = exec->world;
    tri_idle idle = {.awake = 1};
    uint64_t passed, last = 0;
    int left, before = 0;
    if (!world || !exec->groups.n) return TRI_OK;
    tri__world_waits(world, 1);
    tri_status status;
    while ((status = tri__groups_check(&exec->groups, &left)) == TRI_OK) {
        if (exec->device->apart->idle(exec->context, &passed) && !(compared && left)) break;
        if (passed != last || left != before) tri__world_beat(world); /* else it may be found to stand still */
        last = passed, before = left;
        tri__idle(world->segment.control, world->local, &idle);
    }
    tri__world_waits(world, 0);
    if (status != TRI_OK) tri__groups_free(&exec->groups, 1);
    return status;
}

/* Kernels by their marks; transfers are elsewhere between theirs. */
static void take_times(tri_exec *exec) {
    const tri_apart *apart = exec->device->apart;
    const tri_program *p = exec->program[exec->timed];
    apart->times(exec->context, exec->n_times, exec->times);
    for (int i = 0; i < exec->n_times && exec->groups.n; i++)
        if (tri__is_post(p->instr[i].op))
            apart->transfer_time(exec->context, exec->bound[exec->timed][i].transfer->number, &exec->times[i]);
}

tri_status tri__exec_finish(tri_exec *exec) {
    const tri_apart *apart = exec->device->apart;
    if (!apart) return TRI_OK;
    TRI_TRY(await(exec, 1));
    tri_status status = has_copy(exec, TRI_MEM_RESULT) ? tri__exec_pull(exec, TRI_MEM_RESULT)
                                                       : apart->finish(exec->context);
    if (status == TRI_OK && exec->times) take_times(exec);
    exec->times = NULL;
    return status;
}

static int is_finite(const tri_tensor *t, tri_dtype dtype) {
    int64_t n = t->rows * t->cols;
    if (dtype == TRI_F32) {
        const float *x = t->data; /* [rows, cols] */
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(x[i])) return 0;
    }
    if (dtype == TRI_BF16 || dtype == TRI_F16) {
        const uint16_t *x = t->data, infinite = dtype == TRI_BF16 ? 0x7F80 : 0x7C00; /* [rows, cols] */
        for (int64_t i = 0; i < n; i++)
            if ((x[i] & infinite) == infinite) return 0;
    }
    if (dtype == TRI_F64) {
        const double *x = t->data; /* [rows, cols] */
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(x[i])) return 0;
    }
    return 1;
}

/* The same of an operand wherever it lies. */
static tri_status look_at(tri_exec *exec, const tri_tensor *t, tri_dtype dtype, int *finite) {
    const tri_apart *apart = exec->device->apart;
    *finite = 1;
    size_t bytes = (size_t)(t->rows * t->cols) * tri__dtype_bytes(dtype);
    if (!apart || !bytes) {
        *finite = is_finite(t, dtype);
        return TRI_OK;
    }
    TRI_TRY(await(exec, 0));
    tri_tensor here = {malloc(bytes), t->rows, t->cols};
    if (!here.data) return tri__fail(TRI_RESOURCE, "out of memory to look for numbers that are not finite");
    tri_status status = apart->copy(exec->context, here.data, t->data, bytes);
    if (status == TRI_OK) *finite = is_finite(&here, dtype);
    free(here.data);
    return status;
}

tri_status tri__exec_find_bad(tri_exec *exec, int program, uint32_t step, const tri_feed *feed, int *line, int *slot) {
    const tri_program *p = exec->program[program];
    *line = *slot = -1;
    if (exec->device->apart) start_apart(exec, program, 0, p->n_instrs, step, feed);
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_op_row *row = tri__op_row(p->instr[i].op);
        if (p->instr[i].op == TRI_OP_adamw || p->instr[i].op == TRI_OP_adamw_copy) continue;
        TRI_TRY(run_one(exec, program, i, step, feed));
        if (tri__begins(p->instr[i].op)) continue; /* looked at when it has ended */
        for (int k = 0; k < row->n_args && *line < 0; k++) {
            int at = p->instr[i].slot[k], finite = 1;
            if (at >= 0) TRI_TRY(look_at(exec, &exec->bound[program][i].call.t[k], p->slot[at].dtype, &finite));
            if (!finite) *line = i, *slot = at;
        }
    }
    return exec->device->apart ? await(exec, 1) : TRI_OK;
}
