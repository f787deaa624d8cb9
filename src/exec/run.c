/* run.c - runs instructions one after another, in program order. */
#include "comm/ops/request.h"
#include "exec/exec_parts.h"

/* The bytes of its microbatch that an input instruction copies. */
const char *tri__exec_input_of(const tri_program *p, const tri_instr *instr, const tri_feed *feed, size_t *bytes) {
    const char *field = feed->field[instr->attr.field];
    *bytes = instr->attr.field == TRI_FIELD_weights
                 ? 0 /* in the slot already */
                 : (size_t)tri__slot_bytes(&p->slot[instr->slot[0]], &feed->counts);
    TRI_ASSERT(field || !*bytes);
    return *bytes ? field + (size_t)instr->attr.part * *bytes : NULL;
}

const tri_feed *tri__exec_feed_of(const tri_instr *instr, const tri_feed *feed) {
    return &feed[instr->mb < 0 ? 0 : instr->mb];
}

int tri__exec_opens(const tri_exec *exec, int program, int i, const tri_feed *feed) {
    return tri__is_open(&exec->program[program]->instr[i], &feed->gates);
}

static void run_input(const tri_exec *exec, const tri_bound *b, const tri_program *p, const tri_instr *instr,
                      const tri_feed *feed) {
    size_t bytes;
    const char *from = tri__exec_input_of(p, instr, feed, &bytes);
    if (!bytes) return;
    if (exec->device->async)
        exec->device->async->next_input(exec->context, b->call.t[0].data, bytes); /* tri__exec_start has staged it */
    else memcpy(b->call.t[0].data, from, bytes);
}

/* Half of a copy to or from offload memory; synchronous devices copy at once. */
static void run_copy(const tri_exec *exec, const tri_bound *b, const tri_program *program, const tri_instr *instr) {
    const tri_offload *offload = exec->device->offload;
    const tri_tensor *y = &b->call.t[0], *x = &b->call.t[1];
    const tri_slot *to = &program->slot[instr->slot[0]];
    size_t bytes = (size_t)(y->rows * y->cols) * tri__dtype_bytes(to->dtype);
    if (instr->op == TRI_OP_copy_wait) {
        if (offload) offload->copy_wait(exec->context, b->copy);
    } else if (offload) {
        offload->copy_post(exec->context, y->data, x->data, bytes, program->offload >> to->mem & 1, b->copy);
    } else {
        memcpy(y->data, x->data, bytes);
    }
}

tri_status tri__exec_run_one(tri_exec *exec, int program, int i, uint32_t step, const tri_feed *feed) {
    const tri_program *p = exec->program[program];
    const tri_instr *instr = &p->instr[i];
    tri_bound *b = &exec->bound[program][i];
    const tri_feed *from = tri__exec_feed_of(instr, feed);
    if (exec->world) tri__requests_progress(exec->world);
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (instr->slot[k] >= 0) b->call.t[k].rows = tri__slot_rows(&p->slot[instr->slot[k]], &from->counts);
    if (instr->op == TRI_OP_wait) return tri__transfer_wait(exec->world, b->transfer);
    if (instr->op == TRI_OP_control_post) tri__exec_bring_record(b, from);
    if (b->transfer) return tri__transfer_post(b->transfer, &from->counts);
    if (tri__op_queue(instr->op) == TRI_QUEUE_COPY && tri__is_keeping(p, instr))
        return tri__exec_keep(exec, program, i, step);
    b->call.step = step;
    if (b->run) b->run(&b->call);
    else if (instr->op != TRI_OP_input) run_copy(exec, b, p, instr);
    else run_input(exec, b, p, instr, from);
    return TRI_OK;
}

void tri__exec_note_idle(tri_exec *exec, double *idle) { exec->idle = idle; }

static tri_status run_timed(tri_exec *exec, int program, int i, uint32_t step, const tri_feed *feed, tri_time *time) {
    double idle = exec->world ? exec->world->idle_seconds : 0;
    time->begin = tri__clock();
    tri_status status = tri__exec_opens(exec, program, i, feed) ? tri__exec_run_one(exec, program, i, step, feed)
                                                                : TRI_OK;
    time->end = tri__clock();
    if (exec->idle) exec->idle[i] = exec->world ? exec->world->idle_seconds - idle : 0;
    return status;
}

static tri_status keep_all(tri_exec *exec, int program, int begin, int end, uint32_t step, tri_time *times) {
    tri_time ignored;
    for (int i = begin; i < end; i++) {
        tri_time *time = times ? &times[i] : &ignored;
        time->begin = tri__clock();
        TRI_TRY(tri__exec_keep(exec, program, i, step));
        time->end = tri__clock();
    }
    return TRI_OK;
}

/* Copies into the class kept are not queued with what runs between them, which may be captured. They are of what the
 * runs before have given, but posted once those behind them are queued: a GPU makes one copy over the bus at a time,
 * and the inputs would wait for all of them. */
static tri_status run_parts(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                            tri_time *times) {
    const tri_program *p = exec->program[program];
    while (begin < end) {
        int waits = begin, posts, next;
        while (waits < end && p->instr[waits].op == TRI_OP_copy_wait && tri__is_keeping(p, &p->instr[waits])) waits++;
        TRI_TRY(keep_all(exec, program, begin, waits, step, times));
        for (posts = waits; posts < end && tri__is_keeping(p, &p->instr[posts]);) posts++;
        for (next = posts; next < end && !tri__is_keeping(p, &p->instr[next]);) next++;
        if (posts > waits) exec->device->keeping->begin(exec->context);
        tri_status status = next > posts ? tri__exec_queue(exec, program, posts, next, step, feed, times) : TRI_OK;
        TRI_TRY(keep_all(exec, program, waits, posts, step, times)); /* also where another rank has failed */
        TRI_TRY(status);
        begin = next;
    }
    return TRI_OK;
}

tri_status tri__exec_run(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                         tri_time *times) {
    const tri_program *p = exec->program[program];
    if (begin == end) return TRI_OK;
    uint32_t kind = feed->gates.kind;
    TRI_ASSERT(!p->gates || (kind & p->gates && !(kind & (kind - 1)))); /* one kind */
    if (exec->device->async) return run_parts(exec, program, begin, end, step, feed, times);
    for (int i = begin; i < end; i++) {
        if (times) TRI_TRY(run_timed(exec, program, i, step, feed, &times[i]));
        else if (tri__exec_opens(exec, program, i, feed)) TRI_TRY(tri__exec_run_one(exec, program, i, step, feed));
    }
    return TRI_OK;
}
