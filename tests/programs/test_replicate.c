/* test_replicate.c - copies of replicated state in programs: every element of a checkpoint once over all ranks; the
 * checker sees an update that overwrites what is being copied, and a copy that other ranks do not wait for. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "tests/lib/program_text.h"
#include "sim/timeline.h"

static void open_job(tiny *t, int dp, tri_shard_kind kind) {
    tiny_open_rank(t, "cpu", 1, 0, 0.1, 1, &(tiny_rank){.dp = dp, .sharding = {.kind = kind, .size = 2}});
    t->in.replicate = 1;
    tiny_plan(t);
}

TEST(golden_program) {
    tiny t;
    open_job(&t, 2, TRI_SHARD_ZERO1);
    program_text_check("tests/programs/replicated.txt", t.program, 1);
    tiny_close(&t);
}

/* Parameters and Adam's two states: as many elements as the model has three times, on all ranks together; and nothing
 * where it is not asked for. */
TEST(every_element_is_copied_once) {
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++) {
        tiny t;
        tri_classes all[TRI_PROGRAMS];
        int64_t copied = 0;
        open_job(&t, 4, (tri_shard_kind)kind);
        OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
        for (int i = 0; i < TRI_PROGRAMS; i++) OK(tri__check_all(&all[i]));
        for (int rank = 0; rank < 4; rank++) {
            const tri_program *p = tri__classes_program(&all[TRI_TRAIN], &t.arena, rank);
            int64_t bytes = 0;
            for (int i = 0; i < p->n_instrs; i++)
                if (p->instr[i].op == TRI_OP_copy_post)
                    bytes += tri__slot_bytes(&p->slot[TRI_SLOT(&p->instr[i], copy_post, y)], &p->max);
            assert_true(p->bytes[TRI_MEM_KEPT] >= 2 * bytes && p->bytes[TRI_MEM_KEPT] < 2 * bytes + 64 * p->n_instrs);
            copied += bytes;
        }
        assert_int_equal(copied, 3 * t.model.n_elements * 4);
        t.in.replicate = 0;
        OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
        assert_int_equal(all[TRI_TRAIN].at[0].program->bytes[TRI_MEM_KEPT], 0);
        tiny_close(&t);
    }
}

/* Two queues of kernels, gathers of the shards that are copied, sums over steps: all is in order. */
TEST(copies_fit_other_plans) {
    static const tri_optimizer_kind optimizers[] = {TRI_LAMB, TRI_ZERO_ONE_ADAM};
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++)
        for (int k = 0; k < 2; k++)
            for (int lanes = 1; lanes <= TRI_LANES; lanes++) {
                tiny t;
                tri_classes all[TRI_PROGRAMS];
                tiny_open_rank(&t, "cpu", 2, 3, 0.1, 2, &(tiny_rank){.dp = 4});
                t.in.replicate = 1, t.target.lanes = lanes;
                t.in.sharding = (tri_sharding){.kind = (tri_shard_kind)kind, .size = 2, .prefetch = 1};
                t.in.optimizer.kind = kind % TRI_SHARD_HYBRID && optimizers[k] != TRI_LAMB ? TRI_ADAM : optimizers[k];
                t.in.optimizer.steps = 19, t.in.optimizer.var_freeze_step = 8, t.in.optimizer.var_update_scaler = 2;
                t.in.optimizer.local_step_scaler = 4, t.in.optimizer.local_step_clipper = 4;
                OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
                for (int i = 0; i < TRI_PROGRAMS; i++) OK(tri__check_all(&all[i]));
                tiny_close(&t);
            }
}

/* The programs of two ranks, with instruction `from` of the first moved to `to`. */
static void check_moved(const tri_program *const *both, int from, int to, const char *says) {
    tri_program p = *both[0];
    const tri_program *moved[2] = {&p, both[1]};
    size_t size = (size_t)p.n_instrs * sizeof *p.instr;
    tri_instr one = p.instr[from];
    p.instr = memcpy(malloc(size), both[0]->instr, size);
    if (from < to) memmove(p.instr + from, p.instr + from + 1, (size_t)(to - from) * sizeof one);
    else memmove(p.instr + to + 1, p.instr + to, (size_t)(from - to) * sizeof one);
    p.instr[to] = one;
    tri_status status = tri__check(moved, 2);
    if (says && (status != TRI_INTERNAL || !strstr(tri_error(), says)))
        fail_msg("instruction %d at %d: not \"%s\" but \"%s\"", from, to, says, status == TRI_OK ? "" : tri_error());
    if (!says && status != TRI_OK) fail_msg("instruction %d at %d: %s", from, to, tri_error());
    free(p.instr);
}

static int find_op(const tri_program *p, tri_op op) {
    for (int i = 0; i < p->n_instrs; i++)
        if (p->instr[i].op == op) return i;
    return -1;
}

TEST(the_checker_sees_copies) {
    tiny t[2];
    const tri_program *both[2];
    for (int rank = 0; rank < 2; rank++) {
        tiny_open_rank(&t[rank], "cpu", 1, 0, 0.1, 1, &(tiny_rank){.dp = 2, .rank = rank});
        t[rank].in.replicate = 1;
        OK(tri__plan(&t[rank].arena, &t[rank].in, 1, &t[rank].plan));
        both[rank] = t[rank].plan.train.program;
    }
    OK(tri__check(both, 2));
    const tri_planned *plan = &t[0].plan.train;
    int control = find_op(both[0], TRI_OP_control_post), last = both[0]->n_instrs - 1;
    assert_true(plan->posted > 10 && plan->waited + plan->posted == plan->update && control == plan->update);
    assert_int_equal(both[0]->instr[last].op, TRI_OP_wait);
    for (int i = 0; i < plan->posted; i++) {
        check_moved(both, i, plan->waited - 1, NULL);            /* posted late */
        check_moved(both, plan->waited + i, plan->posted, NULL); /* waited for early */
        check_moved(both, plan->waited + i, plan->update, "it tells all ranks that copies of replicated state");
        check_moved(both, i, plan->waited + i, "no transfer of these slots is in flight");
    }
    check_moved(both, control, 0, "is overwritten before all ranks have the copy of the step before");
    for (int rank = 0; rank < 2; rank++) tiny_close(&t[rank]);
}

/* Where no control tells others, the update overwrites what is being copied; only what lasts is copied, to one half. */
TEST(the_checker_sees_what_is_copied) {
    tiny t;
    int late = 0, n = 0;
    open_job(&t, 1, TRI_SHARD_NONE);
    tri_program p = *t.program[0];
    const tri_program *one = &p;
    const tri_instr *all = p.instr;
    p.instr = malloc((size_t)p.n_instrs * sizeof *p.instr);
    for (int i = 0; i < p.n_instrs; i++)
        if (all[i].op != TRI_OP_copy_wait) p.instr[n++] = all[i];
    for (int i = 0; i < p.n_instrs; i++)
        if (all[i].op == TRI_OP_copy_wait) p.instr[n++] = all[i], late++;
    assert_true(late > 10 && n == p.n_instrs);
    assert_int_equal(tri__check(&one, 1), TRI_INTERNAL);
    assert_non_null(strstr(tri_error(), "is used before the transfer posted at instruction"));
    memcpy(p.instr, all, (size_t)n * sizeof *all);
    OK(tri__check(&one, 1));
    tri_slot *y = &p.slot[TRI_SLOT(&all[0], copy_post, y)];
    assert_int_equal(y->mem, TRI_MEM_KEPT);
    y->offset += p.bytes[TRI_MEM_KEPT] / 2;
    assert_int_equal(tri__check(&one, 1), TRI_INTERNAL);
    assert_non_null(strstr(tri_error(), "is outside the memory of class kept"));
    y->offset -= p.bytes[TRI_MEM_KEPT] / 2;
    p.instr[0].slot[TRI_ARG(copy_post, x)] = t.plan.train.norm;
    assert_int_equal(tri__check(&one, 1), TRI_INTERNAL);
    free(p.instr);
    tiny_close(&t);
}

/* Hardware that copies beside its kernels hides the copies; other ranks take their time for them. */
TEST(simulated_times_have_them) {
    for (int hides = 0; hides < 2; hides++) {
        tiny t;
        double seconds[2];
        open_job(&t, 2, TRI_SHARD_NONE);
        for (int k = 0; k < 2; k++) {
            tri_classes all[TRI_PROGRAMS];
            tri_hardware hardware;
            tri_timeline line;
            t.in.replicate = k;
            OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
            OK(tri__hardware_open(&t.arena, "cpu", &hardware));
            hardware.overlap = hides, hardware.copy = 1e8;
            OK(tri__timeline(&t.arena, &all[TRI_TRAIN], &(tri_costs){.hardware = &hardware}, &line));
            seconds[k] = line.seconds;
        }
        double copies = (double)t.plan.train.program->bytes[TRI_MEM_KEPT] / 2 / 1e8;
        if (!hides) assert_true(seconds[1] > seconds[0] + copies * 0.9);
        else assert_true(seconds[1] > copies * 0.9 && seconds[1] < seconds[0] + copies);
        tiny_close(&t);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
