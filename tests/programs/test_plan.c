/* test_plan.c - programs: the output of passes can be printed, parsed and checked; broken programs are caught; the
 * plan's memory is the memory used. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "tests/lib/program_text.h"

#include <math.h>

/* Every combination of branches plans and checks (tiny_open asserts it), and its text comes back the same. */
TEST(text_round_trip) {
    for (int texts = 1; texts <= 2; texts++)
        for (int columns = 0; columns <= 3; columns++)
            for (int n_mb = 1; n_mb <= 3; n_mb += 2) {
                tiny t;
                tiny_open(&t, "cpu", texts, columns, 0.1, n_mb);
                for (int i = 0; i < 2; i++) {
                    char *first = NULL, *second = NULL;
                    OK(tri__program_text(t.program[i], &first));
                    tri_program *parsed;
                    OK(tri__program_parse(&t.arena, "program", first, &parsed));
                    const tri_program *again = parsed;
                    OK(tri__check(&again, 1));
                    OK(tri__program_text(parsed, &second));
                    assert_string_equal(first, second);
                    free(first);
                    free(second);
                }
                tiny_close(&t);
            }
}

/* The committed text of a two-layer plan. */
TEST(golden_program) {
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0.1, 2);
    program_text_check("tests/programs/tiny.txt", t.program, 1);
    tiny_close(&t);
}

/* Of FP8 training: one text, three layers, of which the second is in 8 bits. */
TEST(golden_fp8) {
    tiny t;
    tiny_open(&t, "cpu", 1, 0, 0.1, 1);
    t.encoder[0].num_hidden_layers = 3, t.encoder[0].intermediate_size = 32;
    tri__model_make(&t.arena, &t.config, t.encoder, (tri_columns){0}, (tri_texts){0}, &t.model);
    t.in.fp8 = 1, t.in.precision = TRI_BF16;
    tiny_plan(&t);
    assert_int_equal(t.program[TRI_TRAIN]->max.of[TRI_SYM_T0] % 16, 0);
    program_text_check("tests/programs/fp8.txt", t.program, 1);
    tiny_close(&t);
}

static int count_of(const tri_program *p, const char *name) {
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) n += strcmp(tri__instr_row(&p->instr[i])->name, name) == 0;
    return n;
}

/* What an encoder's last layer makes: rows of first tokens where these alone are pooled, else of all; also where ranks
 * share out tokens. */
TEST(last_layer_makes_what_is_read) {
    static const struct { tri_pooling pooling; int tp, shares_tokens, first;
    } rows[] = {
        {TRI_POOLING_POOLER, 1, 0, 1}, {TRI_POOLING_CLS, 1, 0, 1},    {TRI_POOLING_MEAN, 1, 0, 0},
        {TRI_POOLING_POOLER, 2, 0, 1}, {TRI_POOLING_POOLER, 2, 1, 0}, {TRI_POOLING_POOLER, 1, 1, 1},
        {TRI_POOLING_MEAN, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tiny t;
        tiny_open(&t, "cpu", 1, 3, 0.1, 1);
        t.config.pooling = rows[i].pooling;
        tri__model_make(&t.arena, &t.config, t.encoder, (tri_columns){.n = 3}, (tri_texts){0}, &t.model);
        t.in.mesh.tp = rows[i].tp, t.in.sequence_parallel = rows[i].shares_tokens;
        OK(tri__plan(&t.arena, &t.in, 1, &t.plan));
        const tri_program *both[] = {t.plan.train.program, t.plan.infer.program};
        for (int k = 0; k < 2; k++) {
            assert_int_equal(count_of(both[k], "attention_first"), rows[i].first);
            assert_int_equal(count_of(both[k], "attention"), 2 - rows[i].first);
            int made = tri__program_find(both[k], "primary.layer.1.norm2#0");
            assert_true(made >= 0);
            assert_int_equal(both[k]->slot[made].rows.sym, rows[i].first ? TRI_SYM_N : TRI_SYM_T0);
        }
        assert_int_equal(count_of(both[0], "attention_first_din"), rows[i].first);
        tiny_close(&t);
    }
}

/* Dropping, exchanging or redirecting anything that matters must be caught. Counts what was caught. */
TEST(mutations_are_caught) {
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0.1, 2);
    tri_program copy = *t.program[0];
    copy.instr = malloc((size_t)copy.n_instrs * sizeof *copy.instr);
    copy.slot = malloc((size_t)copy.n_slots * sizeof *copy.slot);
    const tri_program *broken = &copy;
    int caught = 0, tried = 0;
    for (int i = 0; i < copy.n_instrs; i++) {
        const tri_op_row *row = tri__instr_row(&t.program[0]->instr[i]);
        for (int kind = 0; kind < 4; kind++) {
            memcpy(copy.instr, t.program[0]->instr, (size_t)copy.n_instrs * sizeof *copy.instr);
            memcpy(copy.slot, t.program[0]->slot, (size_t)copy.n_slots * sizeof *copy.slot);
            tri_instr *instr = &copy.instr[i];
            int last = row->n_args - 1;
            if (kind == 0) instr->slot[0] = copy.n_slots;                     /* no such slot */
            if (kind == 1) instr->slot[0] = -1;                               /* a needed output left out */
            if (kind == 2 && row->phase == TRI_PHASE_F) instr->slot[0] = instr->slot[last]; /* output on an input */
            else if (kind == 2) continue;
            if (kind == 3) {                                                  /* reads something written only later */
                int later = -1;
                for (int j = copy.n_instrs - 1; j > i && later < 0; j--)
                    if (copy.slot[copy.instr[j].slot[0]].mem == TRI_MEM_ACT && row->phase == TRI_PHASE_F)
                        later = copy.instr[j].slot[0];
                if (later < 0 || row->n_args < 2 || i > copy.n_instrs / 4) continue;
                instr->slot[row->n_args > 1 ? 1 : 0] = later;
            }
            tried++;
            caught += tri__check(&broken, 1) == TRI_INTERNAL;
        }
    }
    print_message("%d of %d broken programs caught\n", caught, tried);
    assert_int_equal(caught, tried);
    /* Memory that two live slots share. */
    memcpy(copy.instr, t.program[0]->instr, (size_t)copy.n_instrs * sizeof *copy.instr);
    memcpy(copy.slot, t.program[0]->slot, (size_t)copy.n_slots * sizeof *copy.slot);
    for (int s = 0; s < copy.n_slots; s++)
        if (copy.slot[s].mem == TRI_MEM_ACT) copy.slot[s].offset = 0;
    assert_int_equal(tri__check(&broken, 1), TRI_INTERNAL);
    free(copy.instr);
    free(copy.slot);
    tiny_close(&t);
}

/* Poison every class and what follows it: a step at the largest microbatch writes up to the planned end, never past
 * it. */
TEST(plan_is_the_memory_used) {
    enum { GUARD = 4096, POISON = 0xA5 };
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0.1, 1);
    tri_exec *exec;
    OK(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t.program, .n = 1, .threads = 2,
                                       .seed = 7, .guard = GUARD}, &exec));
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        int64_t bytes;
        if (mem == TRI_MEM_KEPT) continue; /* the executor has none by itself */
        unsigned char *at = tri__exec_memory(exec, (tri_mem)mem, &bytes);
        if (mem == TRI_MEM_ACT || mem == TRI_MEM_GRAD) memset(at, POISON, (size_t)bytes);
        memset(at + bytes, POISON, GUARD);
    }
    tiny_init(&t, exec);
    OK(tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, 1, t.feed, NULL));
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        int64_t bytes, used;
        if (mem == TRI_MEM_KEPT) continue;
        const unsigned char *at = tri__exec_memory(exec, (tri_mem)mem, &bytes);
        for (int i = 0; i < GUARD; i++) assert_int_equal(at[bytes + i], POISON);
        if (mem != TRI_MEM_ACT && mem != TRI_MEM_GRAD) continue;
        for (used = bytes; used > 0 && at[used - 1] == POISON;) used--;
        assert_true(bytes - used < 64); /* the rest of the last slot's alignment */
    }
    tri__exec_close(exec);
    tiny_close(&t);
}

/* Rows of padding have no gradient: g is 0 there, and a direction leaves them alone. Returns how many there are. */
static int leave_padding(const tri_network *model, int unit, const float *g, float *direction) {
    const tri_unit *u = &model->unit[unit];
    int rows = 0;
    for (int i = u->first; i < u->first + u->n; i++) {
        const tri_param *param = &model->param[i];
        if (!param->zero_row) continue;
        int64_t width = param->shape.dim[1], at = param->at + (param->zero_row - 1) * width;
        for (int64_t k = at; k < at + width; k++) {
            assert_true(g[k] == 0);
            direction[k] = 0;
        }
        rows++;
    }
    return rows;
}

/* The whole model's gradient along random directions against central differences of the loss. */
TEST(gradient_of_the_whole) {
    for (int texts = 1; texts <= 2; texts++) {
        tiny t;
        tiny_open(&t, "reference", texts, 3, 0.2, 2);
        tri_exec *exec = tiny_exec(&t, "reference", 1, 0);
        int end = 0;
        while (t.program[0]->instr[end].op != TRI_OP_clip) end++;
        int n_units = t.model.n_units, padded = 0;
        for (int u = 0; u < n_units; u++) {
            int64_t count = t.model.unit[u].count;
            float *w = tri__exec_slot(exec, 0, t.plan.train.param[u]),
                  *saved = malloc((size_t)count * sizeof *saved);         /* [count] */
            float *direction = malloc((size_t)count * sizeof *direction); /* [count] */
            tri__random_normal(3, (uint32_t)u, 1, 0, count, direction);
            memcpy(saved, w, (size_t)count * sizeof *w);
            OK(tri__exec_run(exec, 0, 0, end, 1, t.feed, NULL));
            char name[128];
            snprintf(name, sizeof name, "g.%s", t.model.unit[u].name);
            const float *g = tri__exec_slot(exec, 0, tri__program_find(t.program[0], name)); /* [count] */
            double slope = 0, scale = 0, loss[2], h = 1e-3;
            padded += leave_padding(&t.model, u, g, direction);
            for (int64_t k = 0; k < count; k++) slope += (double)g[k] * direction[k], scale += (double)g[k] * g[k];
            for (int side = 0; side < 2; side++) {
                for (int64_t k = 0; k < count; k++) w[k] = saved[k] + (float)((side ? h : -h) * direction[k]);
                OK(tri__exec_run(exec, 0, 0, end, 1, t.feed, NULL));
                loss[side] = tiny_loss(&t, exec);
            }
            memcpy(w, saved, (size_t)count * sizeof *w);
            double numeric = (loss[1] - loss[0]) / (2 * h);
            if (fabs(numeric - slope) > 2e-3 * (sqrt(scale) + fabs(slope)) + 1e-5)
                fail_msg("%s: slope %g, differences say %g", t.model.unit[u].name, slope, numeric);
            free(saved);
            free(direction);
        }
        assert_int_equal(padded, texts == 1 ? 1 : 3); /* words of both, positions of the RoBERTa */
        tri__exec_close(exec);
        tiny_close(&t);
    }
}

/* The loss and all gradients do not depend on how many microbatches a step has, dropout on. */
TEST(microbatches_do_not_matter) {
    double loss[3];
    float *all[3] = {0};
    int64_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        tiny t;
        tiny_open(&t, "cpu", 2, 3, 0.1, i + 1);
        tri_exec *exec = tiny_exec(&t, "cpu", 2, 0);
        OK(tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, 5, t.feed, NULL));
        loss[i] = tiny_loss(&t, exec);
        const void *grad = tri__exec_memory(exec, TRI_MEM_GRAD, &bytes);
        all[i] = malloc((size_t)bytes);
        memcpy(all[i], grad, (size_t)bytes);
        tri__exec_close(exec);
        tiny_close(&t);
    }
    for (int i = 1; i < 3; i++) {
        double difference = 0, norm = 0;
        for (int64_t k = 0; k < bytes / 4; k++) {
            difference += pow((double)all[i][k] - all[0][k], 2);
            norm += pow((double)all[0][k], 2);
        }
        assert_true(fabs(loss[i] - loss[0]) <= 2e-6 * fmax(loss[0], 0.1));
        assert_true(sqrt(difference) <= 2e-6 * sqrt(norm));
    }
    for (int i = 0; i < 3; i++) free(all[i]);
}

/* Fused and fast rows against the plain ones on a whole step; threads change no bit. */
TEST(devices_agree) {
    double loss[4];
    float *weights[4];
    int64_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        tiny t;
        const char *device = i == 0 ? "reference" : "cpu";
        tiny_open(&t, device, 2, 3, 0.1, 2);
        tri_exec *exec = tiny_exec(&t, device, i ? i : 1, 0);
        for (uint32_t step = 1; step <= 3; step++)
            OK(tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, step, t.feed, NULL));
        loss[i] = tiny_loss(&t, exec);
        const void *memory = tri__exec_memory(exec, TRI_MEM_PARAM, &bytes);
        weights[i] = malloc((size_t)bytes);
        memcpy(weights[i], memory, (size_t)bytes);
        tri__exec_close(exec);
        tiny_close(&t);
    }
    assert_true(fabs(loss[0] - loss[1]) <= 1e-5);
    for (int i = 2; i < 4; i++) {
        assert_memory_equal(&loss[1], &loss[i], sizeof loss[1]);
        assert_memory_equal(weights[1], weights[i], (size_t)bytes);
    }
    for (int i = 0; i < 4; i++) free(weights[i]);
}

/* A weight that is not a number is found at the first instruction that it spoils, and named. */
TEST(bad_numbers_are_named) {
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0, 1);
    tri_exec *exec = tiny_exec(&t, "cpu", 1, 0);
    const tri_param *param = tri__model_find(&t.model, "primary.encoder.layer.1.intermediate.dense.bias");
    ((float *)tri__exec_slot(exec, 0, t.plan.train.param[param->unit]))[param->at] = NAN;
    OK(tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, 1, t.feed, NULL));
    assert_int_equal(*(int32_t *)tri__exec_slot(exec, 0, t.plan.train.apply), 0);
    int slot, at;
    OK(tri__exec_find_bad(exec, 0, 1, t.feed, &at, &slot));
    assert_true(at >= 0);
    assert_non_null(strstr(t.program[0]->slot[slot].name, "primary.layer.1"));
    tri__exec_close(exec);
    tiny_close(&t);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
