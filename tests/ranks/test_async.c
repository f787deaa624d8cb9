/* test_async.c - a device with memory that the host cannot access, built on the CPU's kernels: with copies only, the
 * executor gets the same bits, in order, and within its announced sizes; also for offload memory that kernels cannot
 * access. Needs no GPU. */
#include "device/plugin.h"
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

enum { MOST_COPIES = 4096 };

/* A copy between memories that may be done at any time from its post to its wait. */
typedef struct offload_copy {
    void *to;
    const void *from;
    size_t bytes;
    int is_open;
} offload_copy;

typedef struct fake {
    char *box[2];            /* [inputs] what was staged: for the run in hand, to the next */
    size_t inputs;           /* bytes that `open` announced */
    size_t staged, here, taken; /* bytes: to the next run; to the run in hand; of these, what inputs have asked for */
    uint32_t step;           /* of the run in hand */
    int starts, copies, finishes;
    int marks, timed;
    tri_status next;         /* what the next finish says */
    offload_copy copy[MOST_COPIES];   /* by number */
    int posted[2];           /* to the device, and back */
    void *offload[TRI_MEM_COUNT];
    size_t offload_bytes[TRI_MEM_COUNT];
    int n_offload;
} fake;
static fake *last; /* opened */
static int copies_late; /* 1: copies between memories are done when they are waited for, 0: when they are posted */

static void fake_kernels(tri_kernel_table *table) { tri__device_find("cpu")->kernels(table); }

static tri_status fake_open(const tri_core *core, int local, size_t inputs, void **context) {
    fake *f = calloc(1, sizeof *f);
    assert_ptr_equal(core->fail, tri__fail);
    assert_int_equal(local, 0);
    f->inputs = inputs;
    for (int i = 0; i < 2; i++) f->box[i] = malloc(inputs + 1);
    *context = last = f;
    return TRI_OK;
}
static void fake_close(void *context) {
    for (int i = 0; i < 2; i++) free(((fake *)context)->box[i]);
    free(context);
}
static tri_status fake_room(const tri_core *core, int local, int64_t *bytes) {
    return (void)core, (void)local, *bytes = 1 << 30, TRI_OK;
}
static tri_status fake_alloc(void *context, size_t bytes, void **out) {
    assert_non_null(context);
    return tri__device_find("cpu")->alloc(NULL, bytes, out);
}
static tri_status fake_offload(void *context, const char *folder, size_t bytes, void **out) {
    (void)folder;
    fake *f = context;
    tri_status status = fake_alloc(context, bytes, out);
    f->offload[f->n_offload] = *out, f->offload_bytes[f->n_offload++] = bytes;
    return status;
}
static int in_offload(const fake *f, const void *at) {
    for (int i = 0; i < f->n_offload; i++)
        if ((const char *)at >= (const char *)f->offload[i] &&
            (const char *)at < (const char *)f->offload[i] + f->offload_bytes[i])
            return 1;
    return 0;
}
static void fake_copy_post(void *context, void *to, const void *from, size_t bytes, int out, int number) {
    fake *f = context;
    assert_true(number >= 0 && number < MOST_COPIES && !f->copy[number].is_open);
    assert_int_equal(in_offload(f, to), out);
    assert_int_equal(in_offload(f, from), !out);
    f->copy[number] = (offload_copy){to, from, bytes, 1};
    f->posted[out]++;
    if (!copies_late) memcpy(to, from, bytes);
}
static void fake_copy_wait(void *context, int number) {
    offload_copy *m = &((fake *)context)->copy[number];
    assert_true(m->is_open);
    if (copies_late) memcpy(m->to, m->from, m->bytes);
    m->is_open = 0;
}
static void fake_free(void *context, void *memory, size_t bytes) {
    assert_non_null(context);
    tri__device_find("cpu")->free(NULL, memory, bytes);
}
static const char *fake_describe(void *context) { return context ? "a box" : "no box"; }
static tri_status fake_finish(void *context) {
    fake *f = context;
    tri_status status = f->next;
    f->finishes++;
    f->next = TRI_OK;
    return status;
}
static tri_status fake_copy(void *context, void *to, const void *from, size_t bytes) {
    ((fake *)context)->copies++;
    memcpy(to, from, bytes);
    return fake_finish(context);
}
static tri_status fake_fill(void *context, void *to, size_t bytes, tri_make *make, void *maker) {
    enum { PART = 4096 };
    for (size_t at = 0; at < bytes; at += PART) {
        size_t part = bytes - at < PART ? bytes - at : PART;
        char *here = malloc(part);
        make(maker, at, part, here);
        memcpy((char *)to + at, here, part);
        free(here);
    }
    return fake_finish(context);
}
static void fake_stage_input(void *context, const void *from, size_t bytes) {
    fake *f = context;
    size_t padded = tri__input_bytes(bytes);
    assert_true(bytes > 0 && f->staged + padded <= f->inputs);
    memcpy(f->box[1] + f->staged, from, bytes);
    f->staged += padded;
}
static void fake_begin_run(void *context, uint32_t step) {
    fake *f = context;
    char *next = f->box[1];
    assert_int_equal(f->taken, f->here); /* the last run asked for all that was staged */
    f->box[1] = f->box[0], f->box[0] = next;
    f->here = f->staged, f->staged = f->taken = 0;
    f->step = step, f->starts++;
}
static void fake_next_input(void *context, void *to, size_t bytes) {
    fake *f = context;
    memcpy(to, f->box[0] + f->taken, bytes);
    f->taken += tri__input_bytes(bytes);
    assert_true(f->taken <= f->here);
}
static void fake_mark(void *context, int index) { assert_int_equal(index, ((fake *)context)->marks++); }
static void fake_times(void *context, int n, tri_time *times) {
    for (int i = 0; i < n; i++) times[i] = (tri_time){i, i + 1};
    ((fake *)context)->timed++;
}

static double fake_busy_seconds(void *context) { return ((fake *)context)->finishes; }

static void fake_transfer_time(void *context, int number, tri_time *time) {
    (void)context, (void)number, (void)time;
    fail_msg("one rank has no transfers");
}
static int fake_is_idle(void *context, uint64_t *passed) { return (void)context, *passed = 0, 1; }
static void fake_mark_progress(void *context) { (void)context; }

static const tri_async async = {.copy = fake_copy,
                                .fill = fake_fill,
                                .stage_input = fake_stage_input,
                                .begin_run = fake_begin_run,
                                .next_input = fake_next_input,
                                .finish = fake_finish,
                                .is_idle = fake_is_idle,
                                .mark_progress = fake_mark_progress};
static const tri_offload copies = {.copy_post = fake_copy_post, .copy_wait = fake_copy_wait};
static const tri_timing timing = {.mark = fake_mark,
                                  .times = fake_times,
                                  .transfer_time = fake_transfer_time,
                                  .busy_seconds = fake_busy_seconds};
static const tri_device box = {.name = "box",
                               .granule = 1,
                               .kernels = fake_kernels,
                               .open = fake_open,
                               .close = fake_close,
                               .room = fake_room,
                               .alloc = fake_alloc,
                               .free = fake_free,
                               .alloc_offload = fake_offload,
                               .describe = fake_describe,
                               .async = &async,
                               .offload = &copies,
                               .timing = &timing};

enum { STEPS = 3 };

TEST(the_same_bits) {
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0.1, 2);
    tri_exec *here = tiny_exec(&t, "cpu", 1, 0), *there = tiny_exec_on(&t, &box, 1, 0);
    assert_string_equal(tri__exec_describe(there), "a box");
    assert_false(tri__exec_runs_on(here));
    assert_true(tri__exec_runs_on(there));
    int end = t.program[0]->n_instrs;
    for (int step = 1; step <= STEPS; step++) {
        double before = tiny_loss(&t, there);
        OK(tri__exec_run(here, 0, 0, end, (uint32_t)step, t.feed, NULL));
        OK(tri__exec_run(there, 0, 0, end, (uint32_t)step, t.feed, NULL));
        assert_true(tiny_loss(&t, there) == before); /* it has not been asked for */
        assert_int_equal(last->step, step);
        assert_int_equal(last->starts, step);
        OK(tri__exec_finish(there));
        assert_true(tiny_loss(&t, there) == tiny_loss(&t, here));
    }
    for (int i = 0; i < 2; i++) {
        int64_t bytes;
        tri_mem mem = i ? TRI_MEM_STATE : TRI_MEM_PARAM;
        const void *want = tri__exec_memory(here, mem, &bytes);
        const int *slots = i ? t.plan.train.state[0].slot : t.plan.train.param;
        enum { BEYOND_PADDING = 1024 }; /* whose row has no moments */
        assert_memory_not_equal(tri__exec_slot(there, 0, slots[0]), tri__exec_slot(here, 0, slots[0]), BEYOND_PADDING);
        OK(tri__exec_pull(there, mem));
        assert_memory_equal((const char *)tri__exec_slot(there, 0, slots[0]) - t.program[0]->slot[slots[0]].offset,
                            want, (size_t)bytes);
    }
    tri__exec_close(here);
    tri__exec_close(there);
    tiny_close(&t);
}

TEST(failures_and_times_come_with_finish) {
    tiny t;
    tiny_open(&t, "cpu", 1, 0, 0, 1);
    tri_exec *exec;
    OK(tri__exec_open(&(tri_exec_spec){.device = &box, .program = t.program, .n = 1, .seed = 7}, &exec));
    tiny_init(&t, exec);
    tiny_push(&t, exec);
    int end = t.program[0]->n_instrs;
    tri_time *times = calloc((size_t)end, sizeof *times);
    OK(tri__exec_run(exec, 0, 0, end, 1, t.feed, times));
    assert_true(times[end - 1].end == 0);
    OK(tri__exec_finish(exec));
    assert_true(times[0].begin == 0 && times[end - 1].end == end);
    assert_int_equal(last->marks, end + 1);
    OK(tri__exec_finish(exec));
    assert_int_equal(last->timed, 1);
    OK(tri__exec_run(exec, 0, 0, end, 2, t.feed, NULL));
    last->next = TRI_INTERNAL;
    assert_int_equal(tri__exec_finish(exec), TRI_INTERNAL);
    OK(tri__exec_finish(exec));
    free(times);
    tri__exec_close(exec);
    tiny_close(&t);
}

TEST(bad_numbers_are_found_there) {
    tiny t;
    int line, slot;
    tiny_open(&t, "cpu", 1, 0, 0, 1);
    tri_exec *exec;
    OK(tri__exec_open(&(tri_exec_spec){.device = &box, .program = t.program, .n = 1, .seed = 7}, &exec));
    tiny_init(&t, exec);
    tiny_push(&t, exec);
    OK(tri__exec_find_bad(exec, 0, 1, t.feed, &line, &slot));
    assert_int_equal(line, -1);
    float *weight = tri__exec_slot(exec, 0, t.plan.train.param[1]);
    weight[0] = NAN;
    tiny_push(&t, exec);
    OK(tri__exec_find_bad(exec, 0, 1, t.feed, &line, &slot));
    assert_true(line >= 0 && slot >= 0);
    tri__exec_close(exec);
    tiny_close(&t);
}

static void count_up(void *maker, size_t at, size_t bytes, void *out) {
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        ((float *)out)[i] = *(const float *)maker + (float)(at / sizeof(float) + i);
}

/* A slot's new content goes past the host's copy; from there the start program rounds it. */
TEST(slots_are_made_there) {
    tiny t;
    tri_exec *exec;
    float first = 0.5f;
    tiny_open(&t, "cpu", 2, 3, 0, 1);
    t.in.precision = TRI_BF16;
    tiny_plan(&t);
    OK(tri__exec_open(&(tri_exec_spec){.device = &box, .program = t.program, .n = TRI_PROGRAMS, .seed = 7}, &exec));
    int unit = 1, master = t.plan.train.master[unit], param = t.plan.train.param[unit];
    int64_t n = t.program[0]->slot[master].cols;
    assert_true(n > 1024);
    OK(tri__exec_fill(exec, 0, master, count_up, &first));
    OK(tiny_start(&t, exec));
    const float *copy = tri__exec_slot(exec, 0, master); /* [n] */
    for (int64_t i = 0; i < n; i++) assert_true(copy[i] == 0);
    OK(tri__exec_pull(exec, TRI_MEM_STATE));
    OK(tri__exec_pull(exec, TRI_MEM_PARAM));
    const uint16_t *rounded = tri__exec_slot(exec, 0, param); /* [n] */
    for (int64_t i = 0; i < n; i++) {
        assert_true(copy[i] == first + (float)i);
        assert_int_equal(rounded[i], tri__to_bf16(copy[i]));
    }
    tri__exec_close(exec);
    tiny_close(&t);
}

#define CLASS(name) (1u << TRI_MEM_##name)

/* How a model is planned, and how its offload memory is used. */
typedef struct layout {
    unsigned offload;
    tri_dtype precision;
    tri_recompute recompute;
    int n_mb;
    int64_t ahead;  /* bytes; small: many tiles */
    tri_dtype quantize;
    tri_optimizer_kind optimizer;
    int plain;      /* sgd without momentum */
    tri_averaging average;
} layout;

/* No kernel has an operand in offload memory; staging memory stays small. */
static void expect_reach(const tri_program *p) {
    for (int i = 0; i < p->n_instrs; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (p->instr[i].slot[k] >= 0 && p->instr[i].op != TRI_OP_copy_post && p->instr[i].op != TRI_OP_copy_wait)
                assert_false(p->offload >> p->slot[p->instr[i].slot[k]].mem & 1);
}

static void same_bits_through_second_memory(const layout *how) {
    tiny t, offloaded;
    tri_exec *here, *there;
    tiny_open(&t, "cpu", 2, 3, 0.1, how->n_mb);
    tiny_open(&offloaded, "cpu", 2, 3, 0.1, how->n_mb);
    t.in.precision = offloaded.in.precision = how->precision,
    t.in.reduce_dtype = offloaded.in.reduce_dtype = how->precision;
    t.in.recompute = offloaded.in.recompute = how->recompute;
    t.in.quantize = offloaded.in.quantize = how->quantize;
    t.in.optimizer.kind = offloaded.in.optimizer.kind = how->optimizer;
    t.in.average = offloaded.in.average = how->average;
    if (how->plain) t.in.optimizer.beta1 = offloaded.in.optimizer.beta1 = 0;
    offloaded.in.offload = how->offload, offloaded.target.ahead = how->ahead;
    tiny_plan(&t);
    tiny_plan(&offloaded);
    for (int i = 0; i < TRI_PROGRAMS; i++) expect_reach(offloaded.program[i]);
    here = tiny_exec(&t, "cpu", 1, 0);
    there = tiny_exec_on(&offloaded, &box, 1, 0);
    for (int step = 1; step <= STEPS; step++) {
        int update = offloaded.plan.train.update;
        OK(tri__exec_run(here, 0, 0, t.program[0]->n_instrs, (uint32_t)step, t.feed, NULL));
        OK(tri__exec_run(there, 0, 0, update, (uint32_t)step, offloaded.feed, NULL));
        OK(tri__exec_run(there, 0, update, offloaded.program[0]->n_instrs, (uint32_t)step, offloaded.feed, NULL));
        OK(tri__exec_finish(there));
        assert_true(tiny_loss(&offloaded, there) == tiny_loss(&t, here));
        for (int i = 0; i < 3; i++) { /* predictions between steps change nothing, exchanges around them either */
            int program = i == 1 ? TRI_INFER : TRI_EXCHANGE;
            OK(tri__exec_run(there, program, 0, offloaded.program[program]->n_instrs, 0, offloaded.feed, NULL));
        }
    }
    OK(tri__exec_pull(there, TRI_MEM_PARAM));
    OK(tri__exec_pull(there, TRI_MEM_STATE));
    const tri_planned *const planned[2] = {&t.plan.train, &offloaded.plan.train};
    const int *slots[2][6] = {{NULL}};
    for (int i = 0, n; i < 2; i++) {
        slots[i][0] = planned[i]->param;
        for (n = 0; n < planned[i]->n_states; n++) slots[i][1 + n] = planned[i]->state[n].slot;
        if (planned[i]->shown) slots[i][1 + n++] = planned[i]->shown;
        slots[i][1 + n] = planned[i]->master;
    }
    for (int unit = 0; unit < t.model.n_units; unit++)
        for (int k = 0; k < 6 && slots[0][k]; k++)
            assert_memory_equal(tri__exec_slot(here, 0, slots[0][k][unit]), tri__exec_slot(there, 0, slots[1][k][unit]),
                                (size_t)tri__slot_bytes(&t.program[0]->slot[slots[0][k][unit]], &t.in.max));
    assert_true(last->posted[0] > 0 && last->posted[1] > 0);
    for (int i = 0; i < MOST_COPIES; i++) assert_false(last->copy[i].is_open);
    tri__exec_close(here);
    tri__exec_close(there);
    tiny_close(&t);
    tiny_close(&offloaded);
}

TEST(offload_memory) {
    static const unsigned sets[] = {CLASS(STATE), CLASS(GRAD), CLASS(PARAM), CLASS(ACT), CLASS(STATE) | CLASS(GRAD),
                                    CLASS(STATE) | CLASS(GRAD) | CLASS(PARAM) | CLASS(ACT)};
    static const layout ways[] = {
        {.precision = TRI_F32, .recompute = TRI_RECOMPUTE_NONE, .n_mb = 1, .ahead = 4096, .quantize = TRI_F32},
        {.precision = TRI_F32, .recompute = TRI_RECOMPUTE_NONE, .n_mb = 2, .ahead = 1 << 20, .quantize = TRI_F32},
        {.precision = TRI_BF16, .recompute = TRI_RECOMPUTE_FULL, .n_mb = 2, .ahead = 1024, .quantize = TRI_F32},
        {.precision = TRI_BF16, .recompute = TRI_RECOMPUTE_SELECTIVE, .n_mb = 2, .ahead = 4096, .quantize = TRI_I8}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (copies_late = 0; copies_late < 2; copies_late++)
            for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
                layout how = ways[k];
                how.offload = sets[i];
                same_bits_through_second_memory(&how);
            }
}

TEST(offload_of_averages) {
    static const unsigned sets[] = {CLASS(STATE), CLASS(PARAM), CLASS(STATE) | CLASS(PARAM)};
    static const tri_dtype types[] = {TRI_F32, TRI_BF16};
    copies_late = 1;
    for (int i = 0; i < 6; i++)
        same_bits_through_second_memory(&(layout){.offload = sets[i / 2], .precision = types[i % 2], .n_mb = 1,
                                                  .recompute = TRI_RECOMPUTE_NONE, .ahead = 1024, .quantize = TRI_F32,
                                                  .average = TRI_AVERAGE_EMA});
}

TEST(offload_of_every_optimizer) {
    static const struct {
        tri_optimizer_kind kind;
        int plain;
    } some[] = {{TRI_ADAM, 0}, {TRI_SGD, 0}, {TRI_SGD, 1}, {TRI_LAMB, 0}};
    copies_late = 1;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        layout how = {.offload = CLASS(STATE), .precision = TRI_BF16, .recompute = TRI_RECOMPUTE_NONE, .n_mb = 2,
                      .ahead = 1024, .quantize = TRI_F32, .optimizer = some[i].kind, .plain = some[i].plain};
        same_bits_through_second_memory(&how);
        how.precision = TRI_F32, how.offload |= CLASS(GRAD);
        same_bits_through_second_memory(&how);
    }
}

/* A unit whose weights are made for a slot. */
typedef struct unit_maker {
    const tri_rank_plan *plan;
    int unit;
} unit_maker;

static void make_unit(void *maker, size_t at, size_t bytes, void *out) {
    const unit_maker *m = maker;
    const tri_network *model = m->plan->model;
    const tri_unit *u = &model->unit[m->unit];
    int64_t begin = (int64_t)(at / sizeof(float));
    memset(out, 0, bytes);
    for (int i = u->first; i < u->first + u->n; i++)
        tiny_fill(&model->param[i], (tri_range){begin, begin + (int64_t)(bytes / sizeof(float))}, out);
}

/* Fills a served plan's weights unit by unit, and copies its probabilities after one batch. */
static void serve_on(const tri_device *device, tiny *t, const tri_rank_plan *plan, float *probs) {
    const tri_program *programs[] = {plan->infer.program, plan->start};
    const tri_feed none = {0};
    tri_exec *exec;
    OK(tri__exec_open(&(tri_exec_spec){.device = device, .program = programs, .n = 2, .seed = 7}, &exec));
    for (int u = 0; u < plan->model->n_units; u++) {
        unit_maker maker = {plan, u};
        OK(tri__exec_fill(exec, 1, plan->filling.slot[u], make_unit, &maker));
        OK(tri__exec_run(exec, 1, u ? plan->filling.end[u - 1] : 0, plan->filling.end[u], 0, &none, NULL));
        OK(tri__exec_finish(exec));
    }
    OK(tri__exec_run(exec, 0, 0, programs[0]->n_instrs, 0, t->feed, NULL));
    OK(tri__exec_finish(exec));
    memcpy(probs, tri__exec_slot(exec, 0, plan->infer.probs), TINY_SAMPLES * 3 * sizeof *probs);
    tri__exec_close(exec);
}

/* Weights of fewer bits than fp32, in the device's memory or in its offload memory: the host has no copy to fill. */
TEST(served_weights) {
    static const struct { tri_dtype precision, quantize; unsigned offload; } rows[] = {
        {TRI_BF16, TRI_F32, 0}, {TRI_F32, TRI_I8, 0}, {TRI_BF16, TRI_I8, 0}, {TRI_F16, TRI_F8_E4M3, 0},
        {TRI_BF16, TRI_F32, CLASS(PARAM)}, {TRI_BF16, TRI_I8, CLASS(PARAM)}, {TRI_F32, TRI_I8, CLASS(PARAM)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tiny t;
        tri_rank_plan here, there;
        float want[TINY_SAMPLES * 3], got[TINY_SAMPLES * 3];
        tiny_open(&t, "cpu", 2, 3, 0, 1);
        t.in.precision = rows[i].precision, t.in.quantize = rows[i].quantize;
        OK(tri__plan(&t.arena, &t.in, 0, &here));
        t.in.offload = rows[i].offload, t.target.ahead = rows[i].offload ? 4096 : 0;
        OK(tri__plan(&t.arena, &t.in, 0, &there));
        const tri_program *checked[] = {there.infer.program, there.start};
        for (int k = 0; k < 2; k++) OK(tri__check(checked + k, 1));
        serve_on(tri__device_find("cpu"), &t, &here, want);
        serve_on(&box, &t, &there, got);
        assert_memory_equal(want, got, sizeof want);
        tiny_close(&t);
    }
}

/* A plug-in that was built from other tables is refused, whatever differs: its version, or a size. */
TEST(plugins_of_another_layout) {
    const tri_cuda_plugin here = {
        .version = TRI_CUDA_PLUGIN_VERSION, .layout = TRI_PLUGIN_LAYOUT, .device = tri__device_find("cpu")};
    OK(tri__plugin_check(&here));
    assert_int_equal(tri__plugin_check(NULL), TRI_USAGE);
    tri_cuda_plugin other = here;
    other.version--;
    assert_int_equal(tri__plugin_check(&other), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "another version"));
    for (size_t i = 0; i < sizeof here.layout / sizeof(uint32_t); i++) {
        other = here;
        ((uint32_t *)&other.layout)[i] += sizeof(void *);
        assert_int_equal(tri__plugin_check(&other), TRI_USAGE);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
