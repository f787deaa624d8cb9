/* lane_device.c - see lane_device.h. */
#include "tests/lib/lane_device.h"

struct lane_device lanes_now;

static lane_item *lane_push(int queue, lane_kind kind) {
    struct lane_device *d = &lanes_now;
    TRI_ASSERT(d->n[queue] < LANE_ITEMS);
    lane_item *item = &d->item[queue][d->n[queue]++];
    *item = (lane_item){.kind = kind};
    return item;
}

static int lane_new_point(void) {
    struct lane_device *d = &lanes_now;
    if (d->n_points == d->cap_points) d->is_set = realloc(d->is_set, (size_t)(d->cap_points = 2 * d->cap_points + 64));
    d->is_set[d->n_points] = 0;
    return d->n_points++;
}

static int lane_point(int queue) { return lane_push(queue, LANE_POINT)->point = lane_new_point(); }

static void lane_await(int queue, int point) { lane_push(queue, LANE_AWAIT)->point = point; }

static void lane_do(lane_item *item) {
    if (item->kind == LANE_POINT) lanes_now.is_set[item->point] = 1;
    if (item->kind == LANE_COPY) memcpy(item->to, item->from, item->bytes);
    if (item->kind == LANE_STEP) lanes_now.step = item->step;
    if (item->owned) free(item->from);
    if (item->kind != LANE_KERNEL) return;
    tri_dtype dtype = TRI_F32;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (item->call.t[k].data && tri__dtype_bytes((tri_dtype)item->call.dtype[k]) == 2)
            dtype = (tri_dtype)item->call.dtype[k];
    item->call.table = &lanes_now.real;
    if (!lanes_now.order.stale) item->call.step = lanes_now.step;
    lanes_now.real.run[tri__variant(item->call.op, item->call.attr)][dtype](&item->call);
}

static int lane_can(int queue) {
    const struct lane_device *d = &lanes_now;
    if (d->done[queue] == d->n[queue]) return 0;
    const lane_item *item = &d->item[queue][d->done[queue]];
    return item->kind != LANE_AWAIT || d->is_set[item->point];
}

/* The next item of some queue; 0: there is none that can be done. */
static int lane_advance(void) {
    struct lane_device *d = &lanes_now;
    int queue = -1;
    d->random = d->random * 1664525u + 1013904223u;
    for (int i = 0; i < LANE_QUEUES && queue < 0; i++) {
        int at = d->order.first[0] < 0 ? (int)((d->random >> 16) + (uint32_t)i) % LANE_QUEUES : d->order.first[i];
        if (lane_can(at)) queue = at;
    }
    if (queue >= 0) lane_do(&d->item[queue][d->done[queue]++]);
    return queue >= 0;
}

/* Until all queues are empty. */
static void lane_drain(void) {
    struct lane_device *d = &lanes_now;
    while (lane_advance()) continue;
    for (int i = 0; i < LANE_QUEUES; i++) {
        if (d->done[i] != d->n[i]) fail_msg("queue %d stands still at %d of %d", i, d->done[i], d->n[i]);
        d->n[i] = d->done[i] = 0;
    }
    d->n_points = 0;
}

static void lane_kernel(const tri_call *call) { lane_push(lanes_now.lane, LANE_KERNEL)->call = *call; }
static void lane_kernels(tri_kernel_table *table) {
    tri__device_find("cpu")->kernels(table);
    lanes_now.real = *table;
    for (int v = 0; v < tri__variant_count(); v++)
        for (int dtype = 0; dtype < TRI_DTYPE_COUNT; dtype++)
            if (table->run[v][dtype]) table->run[v][dtype] = lane_kernel;
}

static tri_status lane_open(const tri_core *core, int local, size_t inputs, void **context) {
    (void)core, (void)local;
    lane_order order = lanes_now.order;
    lanes_now = (struct lane_device){.order = order, .random = 1, .inputs = inputs,
                                     .inbox = malloc(inputs + 1), .staged = malloc(inputs + 1)};
    for (int i = 0; i < LANE_QUEUES; i++) lanes_now.item[i] = malloc(LANE_ITEMS * sizeof(lane_item));
    *context = &lanes_now;
    return TRI_OK;
}
static void lane_close(void *context) {
    (void)context;
    for (int i = 0; i < LANE_QUEUES; i++) free(lanes_now.item[i]);
    for (int i = 0; i < LANE_RUNS; i++)
        for (int queue = 0; queue < LANE_QUEUES; queue++) free(lanes_now.run[i].item[queue]);
    free(lanes_now.is_set);
    free(lanes_now.inbox);
    free(lanes_now.staged);
}
static tri_status lane_room(const tri_core *core, int local, int64_t *bytes) {
    return (void)core, (void)local, *bytes = 1 << 30, TRI_OK;
}
static tri_status lane_alloc(void *context, size_t bytes, void **out) {
    return (void)context, tri__device_find("cpu")->alloc(NULL, bytes, out);
}
static tri_status lane_offload(void *context, const char *folder, size_t bytes, void **out) {
    return (void)folder, lane_alloc(context, bytes, out);
}
static void lane_free(void *context, void *memory, size_t bytes) {
    (void)context, tri__device_find("cpu")->free(NULL, memory, bytes);
}
static const char *lane_describe(void *context) { return (void)context, "lanes"; }

static tri_status lane_finish(void *context) {
    return (void)context, assert_int_equal(lanes_now.lane, 0), lane_drain(), TRI_OK;
}
static tri_status lane_copy(void *context, void *to, const void *from, size_t bytes) {
    TRI_TRY(lane_finish(context));
    return memcpy(to, from, bytes), TRI_OK;
}
static void lane_stage_input(void *context, const void *from, size_t bytes) {
    (void)context;
    assert_true(lanes_now.used + bytes <= lanes_now.inputs);
    memcpy(lanes_now.staged + lanes_now.used, from, bytes);
    lanes_now.used += bytes;
}
static void lane_begin_run(void *context, uint32_t step) {
    (void)context;
    assert_int_equal(lanes_now.lane, 0);
    lane_push(0, LANE_STEP)->step = step;
    lane_item *item = lane_push(0, LANE_COPY);
    item->to = lanes_now.inbox, item->from = malloc(lanes_now.used + 1), item->bytes = lanes_now.used, item->owned = 1;
    memcpy(item->from, lanes_now.staged, lanes_now.used);
    lanes_now.used = lanes_now.taken = 0;
}
static void lane_next_input(void *context, void *to, size_t bytes) {
    (void)context;
    lane_item *item = lane_push(lanes_now.lane, LANE_COPY);
    item->to = to, item->from = lanes_now.inbox + lanes_now.taken, item->bytes = bytes;
    lanes_now.taken += bytes;
}

static void lane_replay(const lane_run *run) {
    struct lane_device *d = &lanes_now;
    int base = d->n_points;
    for (int i = 0; i < run->n_points; i++) lane_new_point();
    for (int queue = 0; queue < LANE_QUEUES; queue++)
        for (int i = 0; i < run->n[queue]; i++) {
            lane_item *item = lane_push(queue, LANE_KERNEL);
            *item = run->item[queue][i];
            item->point += base;
        }
    d->replays++;
}
static tri_capture lane_capture(void *context, const int64_t *key, int n) {
    (void)context;
    struct lane_device *d = &lanes_now;
    assert_true(n <= LANE_KEY);
    d->asked++;
    if (!d->order.captures) return TRI_LAUNCH;
    lane_run *run = d->run;
    while (run < d->run + d->n_runs && (run->n_key != n || memcmp(run->key, key, (size_t)n * sizeof *key))) run++;
    assert_true(run < d->run + LANE_RUNS);
    if (run == d->run + d->n_runs) d->n_runs++, memcpy(run->key, key, (size_t)n * sizeof *key), run->n_key = n;
    if (run->captured) return lane_replay(run), TRI_REPLAY;
    if (++run->times < 2) return TRI_LAUNCH;
    d->capturing = run;
    memcpy(d->from, d->n, sizeof d->n);
    d->from_points = d->n_points;
    return TRI_CAPTURE;
}
static int lane_end_capture(void *context) {
    (void)context;
    struct lane_device *d = &lanes_now;
    lane_run *run = d->capturing;
    d->capturing = NULL;
    if (d->order.fails) {
        memcpy(d->n, d->from, sizeof d->n);
        d->taken = 0;
        return 0;
    }
    run->captured = 1, run->n_points = d->n_points - d->from_points;
    for (int queue = 0; queue < LANE_QUEUES; queue++) {
        run->n[queue] = d->n[queue] - d->from[queue];
        run->item[queue] = malloc((size_t)(run->n[queue] + 1) * sizeof *run->item[queue]);
        for (int i = 0; i < run->n[queue]; i++) {
            lane_item *item = &run->item[queue][i];
            *item = d->item[queue][d->from[queue] + i];
            assert_false(item->owned);
            if (item->kind != LANE_POINT && item->kind != LANE_AWAIT) continue;
            item->point -= d->from_points;
            assert_true(item->point >= 0); /* of this run, not of one before it */
        }
    }
    return 1;
}
static void lane_use(void *context, int lane) {
    (void)context, lanes_now.switches += lane != lanes_now.lane, lanes_now.lane = lane;
}
static void lane_signal(void *context, int number) {
    (void)context, lanes_now.signal[number] = lane_point(lanes_now.lane);
}
static void lane_wait(void *context, int number) {
    (void)context;
    if (number && lanes_now.order.deaf) return;
    lanes_now.awaits += number > 0;
    lane_await(lanes_now.lane, lanes_now.signal[number]);
}
static void lane_copy_post(void *context, void *to, const void *from, size_t bytes, int out, int number) {
    (void)context;
    lane_await(TRI_LANES + out, lane_point(lanes_now.lane));
    lane_item *item = lane_push(TRI_LANES + out, LANE_COPY);
    item->to = to, item->from = (void *)from, item->bytes = bytes;
    lanes_now.moved[number] = lane_point(TRI_LANES + out);
}
static void lane_copy_wait(void *context, int number) {
    (void)context, lane_await(lanes_now.lane, lanes_now.moved[number]);
}
static int lane_pin(void *context, void *memory, size_t bytes) {
    return (void)context, (void)memory, (void)bytes, !lanes_now.order.aloof;
}
static void lane_unpin(void *context, void *memory) { (void)context, (void)memory; }
static void lane_keep_begin(void *context) { (void)context, lane_await(LANE_KEEP, lane_point(lanes_now.lane)); }
static void lane_keep(void *context, void *to, const void *from, size_t bytes) {
    (void)context;
    lane_item *item = lane_push(LANE_KEEP, LANE_COPY);
    item->to = to, item->from = (void *)from, item->bytes = bytes;
    lanes_now.n_kept++;
}
static tri_status lane_keep_finish(void *context) {
    (void)context;
    while (lanes_now.done[LANE_KEEP] < lanes_now.n[LANE_KEEP] && lane_advance()) continue;
    return TRI_OK;
}
static void lane_mark(void *context, int index) { (void)context, (void)index; }
static void lane_times(void *context, int n, tri_time *times) { (void)context, (void)n, (void)times; }

static void lane_transfer_time(void *context, int number, tri_time *time) { (void)context, (void)number, (void)time; }
static double lane_busy_seconds(void *context) { return (void)context, 0; }
static tri_status lane_fill(void *context, void *to, size_t bytes, tri_make *make, void *maker) {
    TRI_TRY(lane_finish(context));
    return make(maker, 0, bytes, to), TRI_OK;
}
static int lane_is_idle(void *context, uint64_t *passed) {
    return (void)context, *passed = 0, 1;
} /* one rank: unasked */
static void lane_mark_progress(void *context) { (void)context; }

static const tri_async lane_async = {.copy = lane_copy,
                                     .fill = lane_fill,
                                     .stage_input = lane_stage_input,
                                     .begin_run = lane_begin_run,
                                     .next_input = lane_next_input,
                                     .finish = lane_finish,
                                     .is_idle = lane_is_idle,
                                     .mark_progress = lane_mark_progress};
static const tri_queues lane_queues = {.use = lane_use, .signal = lane_signal, .await = lane_wait};
static const tri_offload lane_copies = {.copy_post = lane_copy_post, .copy_wait = lane_copy_wait};
static const tri_keeping lane_keeping = {.pin = lane_pin,
                                         .unpin = lane_unpin,
                                         .begin = lane_keep_begin,
                                         .post = lane_keep,
                                         .finish = lane_keep_finish};
static const tri_graphs lane_graphs = {.begin = lane_capture, .end = lane_end_capture};
static const tri_timing lane_timing = {.mark = lane_mark,
                                       .times = lane_times,
                                       .transfer_time = lane_transfer_time,
                                       .busy_seconds = lane_busy_seconds};
const tri_device lane_device = {.name = "lanes",
                                       .granule = 1,
                                       .lanes = TRI_LANES,
                                       .kernels = lane_kernels,
                                       .open = lane_open,
                                       .close = lane_close,
                                       .room = lane_room,
                                       .alloc = lane_alloc,
                                       .free = lane_free,
                                       .alloc_offload = lane_offload,
                                       .describe = lane_describe,
                                       .async = &lane_async,
                                       .queues = &lane_queues,
                                       .offload = &lane_copies,
                                       .keeping = &lane_keeping,
                                       .graphs = &lane_graphs,
                                       .timing = &lane_timing};
