/* test_served.c - plans without training, for inference: weights of fewer bits are filled unit by unit in little
 * memory, and give bitwise the probabilities that the forward program of a training plan gives; rows have the same bits
 * for every number of replicas and stages. Ranks are threads. */
#include "tests/lib/test.h"
#include "tests/lib/tensor_job.h"

#include "numbers/quantized.h"
#include "tests/lib/program_text.h"

enum { CLASSES = 3 };

typedef struct serving {
    job_what is;
    int n;                                     /* ranks */
    tiny *rank;                                /* [n] */
    tri_rank_plan *plan;                       /* [n] without training */
    float probs[2][TINY_SAMPLES * CLASSES];    /* by sample: of the training plan's forward program, of `plan` */
    int rows[2];                               /* samples that ranks have given */
    int changed;                               /* a slot of `plan` whose first number is another; 0: none */
    const tri_network *model;
} serving;

/* The probabilities of this rank's replica, by sample. */
static void collect(serving *v, int rank, const tri_exec *exec, int program, const tri_planned *infer, int which) {
    const tiny *t = &v->rank[rank];
    tri_coords at = tri__mesh_coords(&t->in.mesh, rank);
    if (at.pp > 0 || at.tp > 0) return; /* all ranks have them */
    const float *probs = tri__exec_slot(exec, program, infer->probs);
    int64_t n = t->feed[0].counts.of[TRI_SYM_N];
    probs += at.dp * infer->program->max.of[TRI_SYM_N] * CLASSES;
    for (int64_t i = 0; i < n; i++)
        memcpy(v->probs[which] + (at.dp + i * v->is.dp) * CLASSES, probs + i * CLASSES, CLASSES * sizeof *probs);
    __atomic_add_fetch(&v->rows[which], (int)n, __ATOMIC_RELAXED);
}

static tri_status run_trained(serving *v, tri_world *world, int rank) {
    tiny *t = &v->rank[rank];
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = TRI_PROGRAMS,
                                            .seed = 7, .guard = TINY_GUARD, .world = world}, &exec));
    job_init(t, exec);
    tri_status status = tiny_start(t, exec);
    if (status == TRI_OK)
        status = tri__exec_run(exec, TRI_INFER, 0, t->program[TRI_INFER]->n_instrs, 0, t->feed, NULL);
    if (status == TRI_OK) collect(v, rank, exec, TRI_INFER, &t->plan.infer, 0);
    tri__exec_close(exec);
    return status;
}

/* As engine/weights.c does: quantised weights are made from numbers of the computing type. */
static tri_status fill(const tri_rank_plan *plan, tri_dtype through, tri_exec *exec) {
    const tri_feed none = {0};
    const tri_network *model = plan->model;
    for (int u = 0; u < model->n_units; u++) {
        int direct = !plan->filling.slot, slot = direct ? plan->infer.param[u] : plan->filling.slot[u];
        tri_range held = plan->infer.param_part[u];
        float *flat = slot >= 0 ? tri__exec_slot(exec, direct ? 0 : 1, slot) : NULL; /* [held] */
        for (int i = model->unit[u].first; flat && i < model->unit[u].first + model->unit[u].n; i++)
            job_fill(&model->param[i], held, TRI_F32, flat);
        for (int64_t i = 0; flat && i < tri__range_count(held); i++) flat[i] = tri__rounded(through, flat[i]);
        if (!direct)
            TRI_TRY(tri__exec_run(exec, 1, u ? plan->filling.end[u - 1] : 0, plan->filling.end[u], 0, &none, NULL));
    }
    return TRI_OK;
}

/* The first integer, or scale, becomes another one. */
static void change(tri_exec *exec, const tri_slot *slot, int index) {
    void *data = tri__exec_slot(exec, 0, index);
    if (slot->dtype == TRI_I8) ((int8_t *)data)[0] = (int8_t)(((int8_t *)data)[0] > 0 ? -127 : 127);
    else ((float *)data)[0] *= 1.5f;
}

static tri_status run_served(serving *v, tri_world *world, int rank) {
    tiny *t = &v->rank[rank];
    const tri_rank_plan *plan = &v->plan[rank];
    const tri_program *programs[] = {plan->infer.program, plan->start};
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = programs, .n = 2, .seed = 7,
                                            .guard = TINY_GUARD, .world = world}, &exec));
    tiny_guards(exec, 1);
    tri_status status = fill(plan, v->is.precision, exec);
    if (v->changed) change(exec, &programs[0]->slot[v->changed], v->changed);
    if (status == TRI_OK) status = tri__exec_run(exec, 0, 0, programs[0]->n_instrs, 0, t->feed, NULL);
    if (status == TRI_OK) collect(v, rank, exec, 0, &plan->infer, 1);
    if (status == TRI_OK && !tiny_guards(exec, 0)) status = tri__fail(TRI_INTERNAL, "rank %d wrote too far", rank);
    tri__exec_close(exec);
    return status;
}

/* Runs in the rank's own thread, where nothing may be asserted. */
static tri_status serve_main(tri_world *world, void *argument) {
    serving *v = argument;
    int rank = world ? tri_world_rank(world) : 0;
    if (v->is.quantize != TRI_F8_E4M3) TRI_TRY(run_trained(v, world, rank)); /* training has no fp8 */
    return run_served(v, world, rank);
}

static void serve(serving *v, job_what is) {
    const tri_program *program[2][JOB_RANKS];
    job_what trained = *job_filled(&is);
    *v = (serving){.is = is, .n = is.pp * is.tp * is.dp};
    v->rank = calloc((size_t)v->n, sizeof *v->rank);
    v->plan = calloc((size_t)v->n, sizeof *v->plan);
    if (is.quantize == TRI_F8_E4M3) trained.quantize = TRI_F32;
    for (int r = 0; r < v->n; r++) {
        tiny *t = &v->rank[r];
        job_plan(t, &trained, r);
        t->in.quantize = is.quantize;
        OK(tri__plan(&t->arena, &t->in, 0, &v->plan[r]));
        program[0][r] = v->plan[r].infer.program, program[1][r] = v->plan[r].start;
    }
    for (int i = 0; i < 2; i++) OK(tri__check(program[i], v->n));
    tri_classes all[TRI_PROGRAMS];
    OK(tri__plan_ranks(&v->rank[0].arena, &v->rank[0].in, 0, all));
    for (int i = TRI_INFER; i <= TRI_START; i++) OK(tri__check_all(&all[i]));
    if (v->n == 1) OK(serve_main(NULL, v));
    else OK(tri_ranks_run(&(tri_ranks){.n = v->n, .heap_bytes = JOB_HEAP, .progress_timeout = 60}, serve_main, v));
    v->model = &v->rank[0].model;
    assert_int_equal(v->rows[1], TINY_SAMPLES);
    for (int i = 0; i < TINY_SAMPLES * CLASSES; i++) assert_true(v->probs[1][i] > 0 && v->probs[1][i] < 1);
}

static void serving_close(serving *v) {
    for (int r = 0; r < v->n; r++) tiny_close(&v->rank[r]);
    free(v->rank), free(v->plan);
}

static const job_what meshes[] = {{.dp = 1},
                                  {.dp = 3},
                                  {.pp = 2, .dp = 2},
                                  {.tp = 2, .sequence = 1},
                                  {.tp = 2, .dp = 2},
                                  {.pp = 2, .tp = 2, .dp = 2, .sequence = 1}};
enum { MESHES = sizeof meshes / sizeof *meshes };

static double farthest(const float *a, const float *b) {
    double most = 0;
    for (int i = 0; i < TINY_SAMPLES * CLASSES; i++)
        if (fabs((double)a[i] - (double)b[i]) > most) most = fabs((double)a[i] - (double)b[i]);
    return most;
}

/* All meshes and shardings: served equals trained; without tp equals one rank, with it to within `close`. */
static void try_all(tri_dtype precision, tri_dtype quantize, double close) {
    serving one;
    serve(&one, (job_what){.precision = precision, .quantize = quantize});
    for (int m = 0; m < MESHES; m++)
        for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++) {
            serving v;
            job_what is = meshes[m];
            is.sharding = (tri_sharding){.kind = (tri_shard_kind)kind,
                                         .size = is.dp % 2 ? 1 : 2,
                                         .prefetch = 1,
                                         .wrap = (m + kind) % 2 ? TRI_WRAP_SIZE : TRI_WRAP_LAYER,
                                         .wrap_min_params = 2000};
            is.precision = precision, is.quantize = quantize;
            if (is.dp <= 1 && kind) continue;
            serve(&v, is);
            double most = farthest(v.probs[1], one.probs[1]);
            if (most > (is.tp > 1 ? close : 0))
                fail_msg("%s %s, pp %d tp %d dp %d, shard %d: probabilities differ by %g from those of one rank",
                         tri__dtype_name(precision), tri__dtype_name(quantize), is.pp, is.tp, is.dp, kind, most);
            if (v.rows[0]) assert_memory_equal(v.probs[0], v.probs[1], sizeof v.probs[0]);
            serving_close(&v);
        }
    serving_close(&one);
}

TEST(half_on_every_mesh) {
    try_all(TRI_BF16, TRI_F32, 0.01);
    try_all(TRI_F16, TRI_F32, 0.002);
}

/* Resident: 16-bit weights. For a while: the largest unit in fp32. Nothing else. */
/* Rows quantise activations by themselves, and sums are of integers: without tp there is no tolerance. With it, partial
 * sums are added in the computing type, and where that moves an activation across a boundary of its rounding, it moves
 * by a whole scale. */
TEST(int8_on_every_mesh) {
    try_all(TRI_F32, TRI_I8, 1e-5);
    try_all(TRI_BF16, TRI_I8, 0.01);
}

TEST(fp8_on_every_mesh) {
    try_all(TRI_F32, TRI_F8_E4M3, 1e-5);
    try_all(TRI_F16, TRI_F8_E4M3, 0.01);
}

TEST(half_takes_little_memory) {
    serving v;
    serve(&v, (job_what){.precision = TRI_BF16});
    const tri_program *start = v.plan[0].start, *infer = v.plan[0].infer.program;
    int64_t weights = 0, largest = 0;
    for (int u = 0; u < v.plan[0].model->n_units; u++) {
        int64_t count = v.plan[0].model->unit[u].count;
        weights += (2 * count + 63) / 64 * 64;
        if (count > largest) largest = count;
    }
    assert_int_equal(infer->bytes[TRI_MEM_PARAM], weights);
    assert_int_equal(start->bytes[TRI_MEM_PARAM], weights);
    assert_int_equal(start->bytes[TRI_MEM_STAGING], (4 * largest + 63) / 64 * 64);
    assert_int_equal(tri__program_bytes(start), weights + start->bytes[TRI_MEM_STAGING] + start->bytes[TRI_MEM_WORK]);
    serving_close(&v);
}

/* A quantised weight takes a byte an element and 4 a row; what is not quantised takes what it did. */
TEST(int8_takes_less_memory) {
    static const tri_dtype types[] = {TRI_F32, TRI_BF16};
    for (int i = 0; i < 2; i++) {
        serving wide, v;
        serve(&wide, (job_what){.precision = types[i]});
        serve(&v, (job_what){.precision = types[i], .quantize = TRI_I8});
        const tri_program *p = v.plan[0].infer.program;
        int64_t elements = 0, scales = 0, tables = 0, quantized = 0;
        for (int s = 0; s < p->n_slots; s++) {
            if (p->slot[s].dtype == TRI_I8 && p->slot[s].mem == TRI_MEM_PARAM)
                elements += p->slot[s].rows.add * p->slot[s].cols, scales += p->slot[s].rows.add, quantized++;
            if (strstr(p->slot[s].name, "embeddings.word") && p->slot[s].parent < 0) tables++;
        }
        assert_int_equal(quantized, 3 * 4 + 2 * 2); /* three layers, two poolers and projections */
        assert_int_equal(tables, i ? 2 : 0);        /* they keep fp32 beside 16 bits */
        int64_t size = (int64_t)tri__dtype_bytes(types[i]), more = 0;
        for (int u = 0; u < v.model->n_params && i; u++)
            if (strstr(v.model->param[u].name, "_embeddings.weight")) more += 2 * v.model->param[u].count;
        int64_t want = wide.plan[0].infer.program->bytes[TRI_MEM_PARAM] - elements * (size - 1) + scales * 4 + more;
        int64_t got = p->bytes[TRI_MEM_PARAM];
        assert_true(got >= want - 64 * 60 && got <= want + 64 * 60); /* alignment of 50 slots */
        assert_true(v.plan[0].start->bytes[TRI_MEM_PARAM] == got);
        serving_close(&v), serving_close(&wide);
    }
}

/* Nothing computes around the integers: another one, or another scale, is another answer. */
TEST(integers_count) {
    serving v;
    float plain[TINY_SAMPLES * CLASSES];
    serve(&v, (job_what){.quantize = TRI_I8});
    memcpy(plain, v.probs[1], sizeof plain);
    const tri_program *p = v.plan[0].infer.program;
    for (int s = 0; s < p->n_slots; s++) {
        int scale = strstr(p->slot[s].name, ".scale") != NULL;
        if (p->slot[s].mem != TRI_MEM_PARAM || !(scale || p->slot[s].dtype == TRI_I8)) continue;
        v.changed = s;
        OK(run_served(&v, NULL, 0));
        if (memcmp(plain, v.probs[1], sizeof plain) == 0) fail_msg("%s does not count", p->slot[s].name);
    }
    v.changed = 0;
    OK(run_served(&v, NULL, 0));
    assert_memory_equal(plain, v.probs[1], sizeof plain);
    serving_close(&v);
}

static int count_ops(const tri_program *p, tri_op op) {
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) n += p->instr[i].op == op;
    return n;
}

/* Layers by the names of their weights; query, key and value are one product, tables one embedding. */
TEST(float_layers) {
    static char *names[] = {"primary.encoder.layer.0.attention.self.key.weight", "secondary.pooler.dense.weight",
                            "primary.embeddings.position_embeddings.weight"};
    serving v;
    serve(&v, (job_what){.quantize = TRI_I8, .float_layers = {names, 3}});
    const tri_program *p = v.plan[0].infer.program;
    int quantised = 0, int8 = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        quantised += instr->op == TRI_OP_linear && instr->attr.factors == TRI_FACTORS_INT8;
        int8 += instr->op == TRI_OP_embed && instr->attr.int8;
    }
    assert_int_equal(quantised, 16 - 2);
    assert_int_equal(count_ops(p, TRI_OP_linear) - quantised, 2 + 3); /* and tabular and fusion */
    assert_int_equal(int8, 1);
    assert_int_equal(count_ops(p, TRI_OP_embed), 2);
    assert_memory_equal(v.probs[0], v.probs[1], sizeof v.probs[0]);
    serving_close(&v);
}

TEST(golden_programs) {
    static const struct {
        const char *name;
        job_what is;
    } cases[] = {
        {"bf16", {.precision = TRI_BF16}},
        {"int8", {.quantize = TRI_I8}},
        {"tp2-bf16-int8", {.tp = 2, .precision = TRI_BF16, .quantize = TRI_I8}},
        {"zero3-bf16-fp8",
         {.dp = 2,
          .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1},
          .precision = TRI_BF16,
          .quantize = TRI_F8_E4M3}},
        {"zero3-bf16", {.dp = 4, .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1}, .precision = TRI_BF16}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job_what is = cases[i].is;
        tiny t;
        char path[64];
        is.texts = 1, is.no_table = 1;
        tri_dtype quantize = is.quantize;
        is.quantize = TRI_F32; /* training has no fp8 */
        job_plan(&t, job_filled(&is), 0);
        t.in.quantize = quantize;
        tri_rank_plan plan;
        OK(tri__plan(&t.arena, &t.in, 0, &plan));
        snprintf(path, sizeof path, "tests/programs/served-%s.txt", cases[i].name);
        program_text_check(path, (const tri_program *[]){plan.start, plan.infer.program}, 2);
        tiny_close(&t);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
