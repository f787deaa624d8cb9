/* test_recompute.c - recomputed activations: bitwise the same numbers, in less memory, for little more work. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

static const tri_recompute kinds[] = {TRI_RECOMPUTE_NONE, TRI_RECOMPUTE_SELECTIVE, TRI_RECOMPUTE_FULL};

typedef struct outcome {
    double loss[5];
    char *weights, *gradients;   /* all bytes of the class */
    int64_t n_weights, n_gradients;
} outcome;

static char *copy_of(const tri_exec *exec, tri_mem mem, int64_t *bytes) {
    const void *memory = tri__exec_memory(exec, mem, bytes);
    char *copy = malloc((size_t)*bytes);
    assert_non_null(copy);
    return memcpy(copy, memory, (size_t)*bytes);
}

static outcome train(const char *device, int texts, int columns, double p, int n_mb, int threads,
                     tri_recompute recompute) {
    outcome out;
    tiny t;
    tiny_open(&t, device, texts, columns, p, n_mb);
    t.in.recompute = recompute;
    tiny_plan(&t);
    tri_exec *exec = tiny_exec(&t, device, threads, 0);
    for (uint32_t step = 1; step <= 5; step++) {
        tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, step, t.feed, NULL);
        out.loss[step - 1] = tiny_loss(&t, exec);
    }
    out.weights = copy_of(exec, TRI_MEM_PARAM, &out.n_weights);
    out.gradients = copy_of(exec, TRI_MEM_GRAD, &out.n_gradients);
    tri__exec_close(exec);
    tiny_close(&t);
    return out;
}

/* Five steps with dropout: losses, weights and the last gradients are those of a run that keeps everything. */
TEST(same_bits) {
    static const struct { const char *device; int texts, columns; double p; int n_mb, threads; } cases[] = {
        {"cpu", 2, 3, 0.1, 1, 2}, {"cpu", 2, 3, 0.1, 3, 1}, {"cpu", 1, 0, 0, 2, 2}, {"reference", 2, 1, 0.2, 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome out[3];
        for (int k = 0; k < 3; k++)
            out[k] = train(cases[i].device, cases[i].texts, cases[i].columns, cases[i].p, cases[i].n_mb,
                           cases[i].threads, kinds[k]);
        assert_true(out[0].loss[0] != out[0].loss[4]);
        for (int k = 1; k < 3; k++) {
            assert_memory_equal(out[k].loss, out[0].loss, sizeof out[0].loss);
            assert_int_equal(out[k].n_weights, out[0].n_weights);
            assert_int_equal(out[k].n_gradients, out[0].n_gradients);
            assert_memory_equal(out[k].weights, out[0].weights, (size_t)out[0].n_weights);
            assert_memory_equal(out[k].gradients, out[0].gradients, (size_t)out[0].n_gradients);
        }
        for (int k = 0; k < 3; k++) {
            free(out[k].weights);
            free(out[k].gradients);
        }
    }
}

/* What one layer repeats, by name. */
static int repeats(const tri_program *program, const char *slot) {
    char name[128];
    snprintf(name, sizeof name, "r.%s#0", slot);
    return tri__program_find(program, name) >= 0;
}

TEST(what_is_repeated) {
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0.1, 1);
    for (int s = 0; s < t.program[0]->n_slots; s++) assert_false(strncmp(t.program[0]->slot[s].name, "r.", 2) == 0);
    t.in.recompute = TRI_RECOMPUTE_FULL;
    tiny_plan(&t);
    assert_true(repeats(t.program[0], "primary.layer.0.qkv"));
    assert_true(repeats(t.program[0], "primary.layer.0.norm1.xhat"));
    assert_false(repeats(t.program[0], "primary.layer.0.norm2.xhat")); /* beside the boundary */
    assert_true(repeats(t.program[0], "secondary.layer.0.ctx"));
    assert_false(repeats(t.program[0], "fusion.logits")); /* nothing backward reads needs them */
    for (int s = 0; s < t.program[1]->n_slots; s++) assert_false(strncmp(t.program[1]->slot[s].name, "r.", 2) == 0);
    tiny_close(&t);
}

static double flops_of(const tri_program *p) {
    double flops = 0;
    for (int i = 0; i < p->n_instrs; i++) flops += tri__instr_cost(p, &p->instr[i], &p->max).flops;
    return flops;
}

/* Six layers of a real size, all alike as all tokens are pooled; 16 sequences of 128 tokens. */
TEST(planned_bytes) {
    tiny t;
    tiny_open(&t, "cpu", 1, 0, 0.1, 1);
    tri_encoder e = t.encoder[0];
    e.vocab_size = 30522, e.hidden_size = 768, e.num_hidden_layers = 6, e.num_attention_heads = 12,
    e.intermediate_size = 3072;
    e.max_position_embeddings = 512;
    t.config.pooling = TRI_POOLING_MEAN;
    tri__model_make(&t.arena, &t.config, (tri_encoder[2]){e, e}, (tri_columns){0}, (tri_texts){0}, &t.model);
    t.in.max = t.in.max_infer = (tri_counts){.of = {0, 2048, 0, 16}, .squares = {0, 16 * 128 * 128, 0, 0}};
    static const struct { const char *name; int repeated; } slots[] = {
        {"primary.layer.0.gelu", 1}, {"primary.layer.0.norm1.xhat", 1}, {"primary.layer.0.ff1", 0},
        {"primary.layer.0.norm2.xhat", 0}, /* rebuilding it would take keeping as much again */
    };
    int64_t bytes[3];
    double flops[3];
    for (int k = 0; k < 3; k++) {
        t.in.recompute = kinds[k];
        tiny_plan(&t);
        for (int i = 0; i < 4; i++)
            if (k == 1 && repeats(t.program[0], slots[i].name) != slots[i].repeated)
                fail_msg("selective: %s", slots[i].name);
        bytes[k] = t.program[0]->bytes[TRI_MEM_ACT];
        flops[k] = flops_of(t.program[0]);
    }
    print_message("activations: none %lld B, selective %.3f, full %.3f of it; operations: selective %.3f, full %.3f\n",
                  (long long)bytes[0], (double)bytes[1] / (double)bytes[0], (double)bytes[2] / (double)bytes[0],
                  flops[1] / flops[0], flops[2] / flops[0]);
    assert_true(bytes[2] * 3 <= bytes[0]);
    assert_true(flops[2] <= 1.35 * flops[0]);
    assert_true(bytes[1] < 0.75 * (double)bytes[0] && bytes[1] > bytes[2]);
    assert_true(flops[1] <= 1.01 * flops[0]);
    tiny_close(&t);
}

/* Rebuilding stands with every way of sharing out, and every type: all ranks' programs fit together. */
TEST(programs_of_many_ranks) {
    enum { MOST = 3 };
    static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_ZERO3; kind++)
        for (int dp = 2; dp <= MOST; dp++)
            for (int k = 0; k < 3; k++)
                for (int type = 0; type < 3; type++) {
                    static tiny t[MOST];
                    const tri_program *train[MOST], *infer[MOST];
                    for (int rank = 0; rank < dp; rank++) {
                        tiny_open_rank(
                            &t[rank], "cpu", 2, 3, 0.1, 2,
                            &(tiny_rank){.dp = dp, .rank = rank, .sharding = {.kind = (tri_shard_kind)kind}});
                        t[rank].in.recompute = kinds[k], t[rank].in.precision = types[type],
                        t[rank].in.reduce_dtype = types[(type + k) % 3];
                        OK(tri__plan(&t[rank].arena, &t[rank].in, 1, &t[rank].plan));
                        train[rank] = t[rank].plan.train.program, infer[rank] = t[rank].plan.infer.program;
                    }
                    OK(tri__check(train, dp));
                    OK(tri__check(infer, dp));
                    for (int rank = 0; rank < dp; rank++) tiny_close(&t[rank]);
                }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
