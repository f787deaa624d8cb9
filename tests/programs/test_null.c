/* test_null.c - the devices that compute nothing: they have every row, plan like others, leave memory unchanged and
 * count a step as taken; the timed one takes the cost model's time, however it is divided into kernels. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "base/clock.h"

#include <math.h>

TEST(test_every_row_exists) {
    static const char *const devices[] = {"null", "timed"};
    static const tri_dtype dtypes[] = {TRI_F32, TRI_BF16, TRI_F16};
    for (int d = 0; d < 2; d++) {
        tri_target target;
        const tri_device *device = tri__device_find(devices[d]);
        tri__device_target(device, &target);
        assert_true(device->is_stub);
        assert_true(strlen(device->describe(NULL)) > 0);
        for (int v = 0; v < tri__variant_count(); v++)
            for (int i = 0; i < 3; i++)
                if (target.has[v][dtypes[i]] != (tri__variant_computes(v)))
                    fail_msg("device %s and operation %s", devices[d], tri__variant_row(v)->name);
        assert_int_equal(target.flops > 0, d);
    }
    assert_false(tri__device_find("cpu")->is_stub);
}

TEST(test_plans_as_cpu) {
    tiny cpu, null;
    tiny_open(&cpu, "cpu", 2, 3, 0.1, 3);
    tiny_open(&null, "null", 2, 3, 0.1, 3);
    const tri_program *a = cpu.plan.train.program, *b = null.plan.train.program;
    assert_int_equal(a->n_instrs, b->n_instrs);
    for (int i = 0; i < a->n_instrs; i++) assert_int_equal(a->instr[i].op, b->instr[i].op);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (mem != TRI_MEM_WORK) assert_int_equal(a->bytes[mem], b->bytes[mem]);
    assert_int_equal(b->bytes[TRI_MEM_WORK], 0);
    tiny_close(&cpu);
    tiny_close(&null);
}

TEST(test_a_step_changes_nothing) {
    tiny t;
    tri_exec *exec;
    tiny_open(&t, "null", 2, 3, 0.1, 2);
    const tri_planned *p = &t.plan.train;
    OK(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("null"), .program = t.program, .n = 2, .seed = 7},
                      &exec));
    int64_t bytes;
    unsigned char *weights = tri__exec_memory(exec, TRI_MEM_PARAM, &bytes);
    memset(weights, 0x3f, (size_t)bytes);
    OK(tri__exec_run(exec, 0, 0, p->program->n_instrs, 1, t.feed, NULL));
    for (int64_t i = 0; i < bytes; i++) assert_int_equal(weights[i], 0x3f);
    assert_float_equal(*(double *)tri__exec_slot(exec, 0, p->loss), 0, 0);
    assert_float_equal(*(double *)tri__exec_slot(exec, 0, p->norm), 0, 0);
    assert_int_equal(*(int32_t *)tri__exec_slot(exec, 0, p->apply), 1);
    tri__exec_close(exec);
    tiny_close(&t);
}

/* What the cost model says of all that a program computes, at the device's rate; each microbatch with its own rows. */
static double seconds_of(const tiny *t) {
    const tri_program *p = t->program[0];
    double seconds = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        if (tri__op_queue(p->instr[i].op) != TRI_QUEUE_COMPUTE) continue;
        tri_cost cost = tri__instr_cost(p, &p->instr[i], &t->feed[p->instr[i].mb < 0 ? 0 : p->instr[i].mb].counts);
        seconds += fmax(cost.flops / t->target.flops, cost.bytes / t->target.bytes);
    }
    return seconds;
}

enum { RUNS = 40, TRIES = 60 };

/* Seconds of RUNS steps on a device. */
static double time_runs(const tiny *t, tri_exec *exec) {
    double begin = tri__clock();
    for (int i = 0; i < RUNS; i++) OK(tri__exec_run(exec, 0, 0, t->program[0]->n_instrs, 1, t->feed, NULL));
    return tri__clock() - begin;
}

/* Seconds that asking the cost model for RUNS steps takes: the device asks it for each kernel. */
static double time_asking(const tiny *t) {
    double begin = tri__clock(), sum = 0;
    for (int i = 0; i < RUNS; i++) sum += seconds_of(t);
    assert_true(sum > 0);
    return tri__clock() - begin;
}

/* Thousands of kernels, each far shorter than a system can sleep, take together what they should, beside what running
 * them and asking how long they take cost. A busy machine takes longer, never shorter: the best of some tries
 * counts. */
TEST(test_takes_the_time) {
    tiny t;
    tri_exec *timed, *null;
    tiny_open(&t, "timed", 2, 3, 0.1, 2);
    OK(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("timed"), .program = t.program, .n = 2, .seed = 7},
                      &timed));
    OK(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("null"), .program = t.program, .n = 2, .seed = 7},
                      &null));
    double want = RUNS * seconds_of(&t), all = 0, beyond = 1;
    int tries = 0;
    assert_true(want > 0.005);
    while (tries < TRIES && beyond > 0) {
        double around = time_runs(&t, null) + time_asking(&t), taken = time_runs(&t, timed);
        all += taken;
        beyond = taken - 1.2 * want - 2 * around;
        tries++;
    }
    if (beyond > 0) fail_msg("%g s beyond what %g s allow", beyond, want);
    assert_true(all > tries * want - 0.001);
    tri__exec_close(timed);
    tri__exec_close(null);
    tiny_close(&t);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
