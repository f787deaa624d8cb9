/* test_fp8_gathers.c - FP8 training with sharded weights, as planned: layers in 8 bits are gathered with half the
 * bytes, biases and gains in 16; shards are cast once a step; a layer's weights are cast, or transposed, by one
 * instruction. Programs of two ranks print as the committed text. Runs: test_fp8_runs.c. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "tests/lib/program_text.h"

static void open_texts(tiny *t, int texts, int fp8, int layers, int rank, int dp, tri_sharding sharding) {
    tiny_open_rank(t, "cpu", texts, 0, 0.1, 1, &(tiny_rank){.dp = dp, .rank = rank, .sharding = sharding});
    t->encoder[0].num_hidden_layers = layers, t->encoder[0].intermediate_size = 32;
    t->encoder[1] = t->encoder[0];
    tri__model_make(&t->arena, &t->config, t->encoder, (tri_columns){0}, (tri_texts){0}, &t->model);
    t->in.fp8 = fp8, t->in.precision = TRI_BF16;
    tiny_plan(t);
}

static void open_plan(tiny *t, int fp8, int layers, int rank, int dp, tri_sharding sharding) {
    open_texts(t, 1, fp8, layers, rank, dp, sharding);
}

/* The bytes of weights that posts bring to a rank, of one unit or (-1) of blocks of several. */
static int64_t gathered(const tri_program *p, int unit, int *posts) {
    int64_t bytes = 0;
    *posts = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        if (instr->op != TRI_OP_all_gather_post && instr->op != TRI_OP_broadcast_post) continue;
        const tri_slot *whole = &p->slot[tri__transfer_whole(instr)];
        if (whole->mem != TRI_MEM_GATHER || instr->unit != unit) continue;
        bytes += tri__slot_bytes(whole, &p->max);
        *posts += instr->op == TRI_OP_all_gather_post;
    }
    return bytes;
}

static int count_of(const tri_program *p, tri_op op) {
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) n += p->instr[i].op == op;
    return n;
}

/* Elements of a unit's vectors: what is read in 16 bits. */
static int64_t vectors_of(const tri_network *model, const tri_unit *unit) {
    int64_t n = 0;
    for (int i = unit->first; i < unit->first + unit->n; i++)
        if (model->param[i].shape.n == 1) n += model->param[i].count;
    return n;
}

TEST(half_the_bytes) {
    static const struct {
        int dp;
        tri_sharding how;
    } rows[] = {{2, {.kind = TRI_SHARD_ZERO3, .prefetch = 1}},
                {3, {.kind = TRI_SHARD_ZERO3, .prefetch = 0, .reshard = TRI_RESHARD_YES}},
                {5, {.kind = TRI_SHARD_ZERO3, .prefetch = 2, .reshard = TRI_RESHARD_NO}},
                {8, {.kind = TRI_SHARD_HYBRID, .size = 4, .prefetch = 1}},
                {64, {.kind = TRI_SHARD_ZERO3, .prefetch = 1}}}; /* several ranks have vectors alone */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int rank = 0; rank < rows[i].dp; rank += 1 + rows[i].dp / 5) {
            tiny half, eight;
            open_plan(&half, 0, 4, rank, rows[i].dp, rows[i].how);
            open_plan(&eight, 1, 4, rank, rows[i].dp, rows[i].how);
            const tri_program *p = half.program[TRI_TRAIN], *q = eight.program[TRI_TRAIN];
            for (int u = 0; u < half.model.n_units; u++) {
                const tri_unit *unit = &half.model.unit[u];
                int at = 0, n, m;
                while (strcmp(p->unit[at], unit->name) != 0) at++;
                int64_t before = gathered(p, at, &n), now = gathered(q, at, &m);
                int is_8_bits = strstr(unit->name, "layer.1") || strstr(unit->name, "layer.2");
                assert_int_equal(n, m);
                assert_int_equal(before, n * 2 * unit->count);
                assert_int_equal(now, is_8_bits ? n * (unit->count + 2 * vectors_of(&half.model, unit)) : before);
                if (is_8_bits) assert_true(n > 0 && now < before * 6 / 10);
            }
            tiny_close(&half), tiny_close(&eight);
        }
}

/* One instruction for each of the two layers: on one rank casts, on ranks with shards a cast before the first gather
 * and a transposition after the last. */
TEST(by_one_instruction) {
    tiny t;
    open_plan(&t, 1, 4, 0, 1, (tri_sharding){0});
    assert_int_equal(count_of(t.program[TRI_TRAIN], TRI_OP_fp8_cast_weights), 2);
    assert_int_equal(count_of(t.program[TRI_TRAIN], TRI_OP_fp8_turn), 0);
    tiny_close(&t);
    for (int rank = 0; rank < 2; rank++) {
        open_plan(&t, 1, 4, rank, 2, (tri_sharding){.kind = TRI_SHARD_ZERO3, .reshard = TRI_RESHARD_YES});
        assert_int_equal(count_of(t.program[TRI_TRAIN], TRI_OP_fp8_cast_weights), 2);
        assert_int_equal(count_of(t.program[TRI_TRAIN], TRI_OP_fp8_turn), 2);
        tiny_close(&t);
    }
}

static int count_8_bit_gathers(const tri_program *p) {
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++)
        n += p->instr[i].op == TRI_OP_all_gather_post &&
             p->slot[TRI_SLOT(&p->instr[i], all_gather_post, y)].dtype == TRI_F8_E4M3;
    return n;
}

/* Blocks of several units are in 8 bits if most of them is read so. */
TEST(blocks_of_several_units) {
    static const struct {
        int layers;
        int64_t least;
        int is_8_bits;
    } rows[] = {{6, 3000, 1}, {6, 1000000, 1}, {4, 1000000, 0}}; /* two layers; whole models: more and less than half */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tiny t;
        tri_sharding how = {.kind = TRI_SHARD_ZERO3, .wrap = TRI_WRAP_SIZE, .wrap_min_params = rows[i].least};
        open_plan(&t, 1, rows[i].layers, 1, 3, how);
        assert_int_equal(count_8_bit_gathers(t.program[TRI_TRAIN]) > 0, rows[i].is_8_bits);
        tiny_close(&t);
    }
}

/* Products read vectors of 16 bytes: a block in which weights of the second text begin elsewhere stays as it was. */
TEST(weights_begin_at_vectors) {
    int kept = 0, blocks = 0;
    for (int64_t least = 2000; least < 20000; least += 2000) {
        tiny t;
        tri_sharding how = {.kind = TRI_SHARD_ZERO3, .wrap = TRI_WRAP_SIZE, .wrap_min_params = least};
        open_texts(&t, 2, 1, 6, 1, 3, how);
        const tri_program *p = t.program[TRI_TRAIN];
        for (int i = 0; i < p->n_instrs; i++)
            if (p->instr[i].op == TRI_OP_linear && p->instr[i].attr.factors == TRI_FACTORS_SCALED)
                assert_int_equal(tri__slot_offset(p, TRI_SLOT(&p->instr[i], linear, w)) % 16, 0);
        kept += count_of(p, TRI_OP_fp8_turn) > 0 && count_of(p, TRI_OP_fp8_cast_weights) > count_8_bit_gathers(p);
        blocks += count_8_bit_gathers(p);
        tiny_close(&t);
    }
    assert_true(blocks > 0 && kept > 0); /* both occurred */
}

TEST(golden_program) {
    tiny t[2];
    for (int rank = 0; rank < 2; rank++)
        open_plan(&t[rank], 1, 3, rank, 2, (tri_sharding){.kind = TRI_SHARD_ZERO3, .prefetch = 1});
    program_text_check("tests/programs/fp8-zero3.txt",
                       (const tri_program *const[]){t[0].program[TRI_TRAIN], t[1].program[TRI_TRAIN]}, 2);
    tiny_close(&t[0]), tiny_close(&t[1]);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
