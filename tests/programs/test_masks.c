/* test_masks.c - pass `masks`: attention keeps dropout's decisions where the target asks for it, and each gradient
 * reads those of the attention that was computed last before it; losses stay the same to the bit. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "layout/mask_bits.h"

static int count_of(const tri_program *p, const char *name) {
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) n += strcmp(tri__instr_row(&p->instr[i])->name, name) == 0;
    return n;
}

static void plan_as(tiny *t, int mask_tokens, tri_dtype precision, tri_recompute recompute, int tp) {
    tiny_open(t, "reference", tp > 1 ? 1 : 2, 3, 0.1, 2);
    t->target.mask_tokens = mask_tokens;
    t->in.precision = precision, t->in.recompute = recompute, t->in.mesh.tp = tp;
    if (tp == 1) {
        tiny_plan(t);
        return;
    }
    OK(tri__plan(&t->arena, &t->in, 1, &t->plan)); /* a checker would want the other rank's program, too */
    t->program[TRI_TRAIN] = t->plan.train.program, t->program[TRI_INFER] = t->plan.infer.program;
}

/* The bits that a gradient reads were written by the last attention of its operation and microbatch. */
TEST(gradients_read_them) {
    static const tri_recompute kinds[] = {TRI_RECOMPUTE_NONE, TRI_RECOMPUTE_SELECTIVE, TRI_RECOMPUTE_FULL};
    for (int i = 0; i < 6; i++) {
        tiny t;
        plan_as(&t, 20, TRI_BF16, kinds[i % 3], 1 + i / 3);
        const tri_program *p = t.program[TRI_TRAIN];
        int seen = 0;
        for (int at = 0; at < p->n_instrs; at++) {
            const tri_instr *din = &p->instr[at];
            if (din->op != TRI_OP_attention_din || din->attr.first) continue;
            int bits = TRI_SLOT(din, attention_din, bits), from = at;
            while (from-- > 0)
                if (p->instr[from].op == TRI_OP_attention && p->instr[from].attr.mask &&
                    p->instr[from].attr.id == din->attr.id && p->instr[from].mb == din->mb)
                    break;
            assert_true(from >= 0);
            assert_int_equal(TRI_SLOT(&p->instr[from], attention, bits), bits);
            assert_int_equal(p->slot[bits].cols, tri__mask_width(din->attr.heads, 20));
            seen++;
        }
        assert_true(seen > 0);
        assert_int_equal(count_of(p, "attention"), 0);
        assert_int_equal(count_of(t.program[TRI_INFER], "attention_bits"), 0);
        tiny_close(&t);
    }
}

TEST(only_where_asked_for) {
    static const struct { int tokens; tri_dtype precision; } cases[] = {{0, TRI_BF16}, {21, TRI_BF16}, {20, TRI_F32}};
    for (int i = 0; i < 3; i++) {
        tiny t;
        plan_as(&t, cases[i].tokens, cases[i].precision, TRI_RECOMPUTE_NONE, 1);
        assert_int_equal(count_of(t.program[TRI_TRAIN], "attention_bits"), 0);
        tiny_close(&t);
    }
}

TEST(same_losses) {
    double loss[2][4];
    for (int kept = 0; kept < 2; kept++) {
        tiny t;
        plan_as(&t, kept, TRI_BF16, TRI_RECOMPUTE_NONE, 1);
        tri_exec *exec = tiny_exec(&t, "reference", 1, 0);
        for (uint32_t step = 1; step <= 4; step++) {
            OK(tri__exec_run(exec, 0, 0, t.program[TRI_TRAIN]->n_instrs, step, t.feed, NULL));
            loss[kept][step - 1] = tiny_loss(&t, exec);
        }
        tri__exec_close(exec);
        tiny_close(&t);
    }
    assert_true(loss[0][0] != loss[0][3]);
    assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
