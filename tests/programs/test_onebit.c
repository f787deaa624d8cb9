/* test_onebit.c - 1-bit optimizers: the programs of all ranks fit together on every mesh; what each rank sends, and the
 * weights, are those of a simulation of all ranks in numpy (tools/golden_onebit.py), bit by bit; elements without a
 * gradient stay masked; a step that is not finite changes nothing. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "base/json.h"
#include "plan/optimizer.h"
#include "plan/step_kinds.h"

#include <math.h>
#include <sys/mman.h>

enum { MAX_RANKS = 4, COPIES = 3, STEPS = 50, FULL = 20, FREEZE = 30, SCALER = 4, LATE = 9, LOCAL_SCALER = 6 };
enum { ELEMENTS = 5647, HEAP = 8 << 20 };
enum { MAX_PARAMS = 64 };

static const tri_optimizer_kind kinds[] = {TRI_ONEBIT_ADAM, TRI_ONEBIT_LAMB, TRI_ZERO_ONE_ADAM};
static const char *const kind_names[] = {"none", "zero1", "zero2", "zero3", "hybrid"};

static uint32_t crc_of(const void *data, size_t bytes) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= ((const uint8_t *)data)[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xEDB88320u & -(crc & 1));
    }
    return ~crc;
}

/* As in tools/golden_onebit.py. */
static uint32_t mix(int copy, int step, int64_t element) {
    uint32_t x = 0x9E3779B9u * (uint32_t)(copy * 64 + step + 1) + 0x85EBCA6Bu * (uint32_t)element;
    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    return x ^ x >> 12;
}

static int is_masked(int64_t k) { return k % 8 == 5 || (k >= 2000 && k < 2300); }
static int is_late(int64_t k) { return k >= 3000 && k < 3300; } /* in runs of 0/1 Adam */

static float gradient(int copy, int step, int64_t k, int late) {
    if (is_masked(k) || (step < late && is_late(k))) return 0;
    return ((float)(mix(copy, step, k) % 2001) - 1000 + (float)(k % 97)) / 4096;
}

static float first_weight(int64_t k) { return ((float)(mix(9, 9, k) % 4001) - 2000) / 8192; }

typedef struct job {
    int dp, steps;
    tri_optimizer_kind kind;
    tiny rank[MAX_RANKS];
    uint32_t local[MAX_RANKS][STEPS];                        /* and of its weights after a step */
    uint32_t sent[MAX_RANKS][STEPS], sums[MAX_RANKS][STEPS]; /* CRC-32 of what a rank sends to owners, and to all */
    float weights[ELEMENTS], m[MAX_RANKS][ELEMENTS], e[MAX_RANKS][ELEMENTS], s[ELEMENTS];
    float fresh[ELEMENTS], average[MAX_RANKS][MAX_PARAMS], factor[MAX_RANKS][MAX_PARAMS]; /* 1-bit LAMB's */
    int spoiled;          /* the step in which rank 1 has a gradient that is not a number; -1: none */
    int changed;          /* bytes of weights and states that this step changed */
} job;

static const tri_state *state_of(const tiny *t, const char *prefix) {
    const tri_planned *p = &t->plan.train;
    for (int i = 0; i < p->n_states; i++)
        if (strcmp(p->state[i].prefix, prefix) == 0) return &p->state[i];
    return NULL;
}

static int is_of(const job *j, int step, uint32_t kinds) {
    return (tri__step_gate(&j->rank[0].in.optimizer, step) & kinds) != 0;
}

static int has_signs(const job *j, int step) {
    return is_of(j, step, TRI_GATE(turn) | TRI_GATE(signs) | TRI_GATE(sync));
}

static void set_optimizer(tri_optimizing *how, tri_optimizer_kind kind, int clipper) {
    how->kind = kind, how->steps = STEPS, how->full_steps = FULL;
    how->var_freeze_step = FREEZE, how->var_update_scaler = SCALER, how->local_step_scaler = LOCAL_SCALER;
    how->local_step_clipper = clipper;
}

static void open_rank(tiny *t, int dp, int rank, tri_optimizer_kind kind, int clipper, tri_sharding sharding) {
    tiny_open(t, "reference", 1, 0, 0, 1);
    tri_texts none = {0}; /* all decay */
    tri__model_make(&t->arena, &t->config, t->encoder, (tri_columns){0}, none, &t->model);
    t->in.mesh.dp = dp, t->in.rank = rank, t->in.sharding = sharding;
    set_optimizer(&t->in.optimizer, kind, clipper);
    tiny_plan(t);
}

static void job_alone(job *j, tri_optimizer_kind kind, int clipper, int dp, int steps, tri_sharding sharding) {
    const tri_program *program[TRI_PROGRAMS][MAX_RANKS];
    memset(j, 0, sizeof *j);
    j->dp = dp, j->steps = steps, j->kind = kind, j->spoiled = -1;
    for (int r = 0; r < dp; r++) {
        open_rank(&j->rank[r], dp, r, kind, clipper, sharding);
        for (int i = 0; i < TRI_PROGRAMS; i++) program[i][r] = j->rank[r].program[i];
    }
    for (int i = 0; i < TRI_PROGRAMS; i++) OK(tri__check(program[i], dp));
    assert_int_equal(j->rank[0].model.n_elements, ELEMENTS);
}

static void job_open(job *j, tri_optimizer_kind kind, int dp, int steps, tri_sharding sharding) {
    job_alone(j, kind, 1, dp, steps, sharding);
}

static void job_close(job *j) {
    for (int r = 0; r < j->dp; r++) tiny_close(&j->rank[r]);
}

/* This rank's gradients; without signs those summed over the copies, as the transfers before the update leave them. */
static void fill_gradients(const job *j, int rank, int step, tri_exec *exec) {
    const tiny *t = &j->rank[rank];
    const tri_state *error = state_of(t, j->kind == TRI_ZERO_ONE_ADAM ? "momentum_error." : "error.");
    int is_full = is_of(j, step, TRI_GATE(full) | TRI_GATE(variance)), late = j->kind == TRI_ZERO_ONE_ADAM ? LATE : 0;
    int64_t at = 0;
    for (int u = 0; u < t->model.n_units; at += t->model.unit[u++].count) {
        char name[128];
        snprintf(name, sizeof name, "g.%s", t->model.unit[u].name);
        int slot = tri__program_find(t->program[0], name);
        TRI_ASSERT(slot >= 0);
        float *g = tri__exec_slot(exec, 0, slot); /* [held] */
        for (int64_t k = error->held[u].begin; k < error->held[u].end; k++, g++) {
            *g = gradient(is_full ? 0 : error->copy, step, at + k, late);
            for (int c = 1; c < error->copies && is_full; c++) *g += gradient(c, step, at + k, late);
            if (step == j->spoiled && rank == 1 && u == 2 && k == 3) *g = NAN;
        }
    }
}

/* The update of a step, instruction by instruction, with the bytes of each code. */
static tri_status take_update(job *j, int rank, int step, tri_exec *exec) {
    tiny *t = &j->rank[rank];
    const tri_program *p = t->program[0];
    int packs = 0;
    t->hyper[0] = 1e-3f, t->hyper[1] = (float)(1 - pow((float)0.9, step + 1));
    t->hyper[2] = (float)(1 - pow((float)0.999, (double)tri__variance_steps(&t->in.optimizer, step + 1)));
    int64_t begin, end;
    tri__step_window(&t->in.optimizer, step, &begin, &end);
    t->hyper[3] = j->kind == TRI_ZERO_ONE_ADAM ? 1 / (float)(end - begin) /* of rates that are the same in all steps */
                                               : (float)(1 - pow((float)0.999, step + 1));
    t->feed[0].gates.kind = tri__step_gate(&t->in.optimizer, step);
    for (int i = t->plan.train.update; i < p->n_instrs; i++) {
        TRI_TRY(tri__exec_run(exec, 0, i, i + 1, (uint32_t)step + 1, t->feed, NULL));
        if (p->instr[i].op != TRI_OP_pack || !tri__is_open(&p->instr[i], &t->feed[0].gates)) continue;
        int q = TRI_SLOT(&p->instr[i], pack, q);
        uint32_t crc = crc_of(tri__exec_slot(exec, 0, q), (size_t)tri__slot_bytes(&p->slot[q], &p->max));
        *(packs++ ? &j->sums[rank][step] : &j->sent[rank][step]) = crc;
    }
    return TRI_OK;
}

/* Bytes of weights and states. */
static unsigned char *snapshot(tri_exec *exec, int64_t *bytes) {
    int64_t weights, states;
    void *w = tri__exec_memory(exec, TRI_MEM_PARAM, &weights), *s = tri__exec_memory(exec, TRI_MEM_STATE, &states);
    unsigned char *copy = malloc((size_t)(*bytes = weights + states));
    TRI_ASSERT(copy);
    memcpy(copy, w, (size_t)weights);
    memcpy(copy + weights, s, (size_t)states);
    return copy;
}

static void each_weight(const tiny *t, tri_exec *exec, float *whole, int sets);

static tri_status take_step(job *j, int rank, int step, tri_exec *exec) {
    static _Thread_local float weights[ELEMENTS];
    int64_t bytes;
    fill_gradients(j, rank, step, exec);
    unsigned char *before = snapshot(exec, &bytes);
    tri_status status = take_update(j, rank, step, exec);
    unsigned char *after = snapshot(exec, &bytes);
    for (int64_t i = 0; i < bytes && step == j->spoiled; i++) j->changed += before[i] != after[i];
    free(before), free(after);
    each_weight(&j->rank[rank], exec, weights, 0);
    j->local[rank][step] = crc_of(weights, sizeof weights);
    return status;
}

/* What a state has of the whole vector. */
static void keep_state(const tiny *t, const tri_exec *exec, const char *prefix, float *whole) {
    const tri_state *s = state_of(t, prefix);
    int64_t at = 0;
    if (!s) return;
    for (int u = 0; u < t->model.n_units; at += t->model.unit[u++].count) {
        const float *x = tri__exec_slot(exec, 0, s->slot[u]); /* [held] */
        memcpy(whole + at + s->held[u].begin, x, (size_t)tri__range_count(s->held[u]) * sizeof *x);
    }
}

/* The numbers of all parameters: every rank has them. */
static void keep_numbers(const tiny *t, const tri_exec *exec, const char *prefix, float *all) {
    const tri_state *s = state_of(t, prefix);
    for (int u = 0; s && u < t->model.n_units; u++) {
        TRI_ASSERT(s->each.n && tri__range_count(s->held[u]) == t->model.unit[u].n);
        memcpy(all + t->model.unit[u].first, tri__exec_slot(exec, 0, s->slot[u]),
               (size_t)t->model.unit[u].n * sizeof *all);
    }
}

static void each_weight(const tiny *t, tri_exec *exec, float *whole, int sets) {
    int64_t at = 0;
    for (int u = 0; u < t->model.n_units; at += t->model.unit[u++].count) {
        tri_range held = t->plan.train.param_part[u];
        float *p = tri__exec_slot(exec, 0, t->plan.train.param[u]); /* [held] */
        float *anchor = t->plan.train.shown ? tri__exec_slot(exec, 0, t->plan.train.shown[u]) : p;
        for (int64_t k = held.begin; k < held.end; k++) {
            if (sets) p[k - held.begin] = anchor[k - held.begin] = first_weight(at + k);
            else whole[at + k] = p[k - held.begin];
        }
    }
}

static tri_status rank_main(tri_world *world, void *argument) {
    job *j = argument;
    int rank = tri_world_rank(world);
    tiny *t = &j->rank[rank];
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("reference"), .program = t->program,
                                            .n = TRI_PROGRAMS, .seed = 7, .guard = TINY_GUARD, .world = world}, &exec));
    tiny_guards(exec, 1);
    each_weight(t, exec, NULL, 1);
    tri_status status = TRI_OK;
    for (int step = 0; step < j->steps && status == TRI_OK; step++) status = take_step(j, rank, step, exec);
    each_weight(t, exec, j->weights, 0);
    keep_state(t, exec, "exp_avg.", j->m[rank]);
    int plain = j->kind == TRI_ZERO_ONE_ADAM; /* its momenta are coded as they are */
    keep_state(t, exec, plain ? "momentum_error." : "error.", j->e[rank]);
    keep_state(t, exec, plain ? "momentum_error_sum." : "error_sum.", j->s);
    keep_state(t, exec, "exp_avg_sq_fresh.", j->fresh);
    keep_numbers(t, exec, "lamb_coeff_freeze.", j->average[rank]);
    keep_numbers(t, exec, "last_factor.", j->factor[rank]);
    if (status == TRI_OK && !tiny_guards(exec, 0))
        status = tri__fail(TRI_INTERNAL, "rank %d wrote beyond what the plan gave it", rank);
    tri__exec_close(exec);
    return status;
}

static void job_run(job *j, int forks) {
    OK(tri_ranks_run(&(tri_ranks){.n = j->dp, .heap_bytes = HEAP, .forks = forks}, rank_main, j));
}

static uint32_t number(const tri_json *list, size_t at) {
    return (uint32_t)tri__json_integer_value(tri__json_at(list, at));
}

static void expect_crc(const tri_json *golden, const char *name, const float *x) {
    assert_int_equal(crc_of(x, ELEMENTS * sizeof *x), (uint32_t)tri__json_integer_value(tri__json_get(golden, name)));
}

static void expect_golden(const job *j, const tri_json *golden, const char *kind) {
    const tri_json *sent = tri__json_get(golden, "sent"), *sums = tri__json_get(golden, "sums");
    size_t at = 0; /* steps with signs so far */
    for (int step = 0; step < STEPS; at += (size_t)has_signs(j, step++))
        for (int r = 0; r < COPIES && has_signs(j, step); r++) {
            if (j->sent[r][step] != number(tri__json_at(sent, at), (size_t)r))
                fail_msg("%s: rank %d sends other signs in step %d", kind, r, step);
            if (j->sums[r][step] != number(tri__json_at(sums, at), (size_t)r))
                fail_msg("%s: rank %d sends other signs of its sum in step %d", kind, r, step);
        }
    assert_int_equal(at, tri__json_size(sent));
    const tri_json *local = tri__json_get(golden, "local");
    size_t steps = 0;
    for (int step = 0; step < STEPS; step++)
        for (int r = 0; r < COPIES && is_of(j, step, TRI_GATE(alone)); r++, steps += r == COPIES)
            if (j->local[r][step] != number(tri__json_at(local, steps), (size_t)r))
                fail_msg("%s: copy %d has other weights after step %d, alone", kind, r, step);
    assert_int_equal(steps, tri__json_size(local));
    if (j->kind != TRI_ONEBIT_LAMB) expect_crc(golden, "weights", j->weights);
    expect_crc(golden, "error_sum", j->s);
    for (int r = 0; r < COPIES; r++) {
        expect_crc(golden, "momentum", j->m[r]);
        assert_int_equal(crc_of(j->e[r], sizeof j->e[r]), number(tri__json_get(golden, "error"), (size_t)r));
    }
}

/* Weights, momentum and both errors of every rank after 50 steps, and all bytes sent: whether replicas hold everything
 * or shards of it. */
TEST(the_simulation_s_bits) {
    static const struct {
        tri_optimizer_kind kind;
        int clipper, last; /* the last kind of shards */
        const char *file;
    } cases[] = {{TRI_ONEBIT_ADAM, 1, TRI_SHARD_ZERO3, "tests/golden/onebit.json"},
                 {TRI_ZERO_ONE_ADAM, 1, TRI_SHARD_ZERO3, "tests/golden/zero_one.json"},
                 {TRI_ZERO_ONE_ADAM, 4, TRI_SHARD_NONE, "tests/golden/zero_one_alone.json"}};
    job *j = malloc(sizeof *j);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_json *golden;
        OK(tri__json_load(cases[i].file, TRI_DATA, &golden));
        for (int kind = TRI_SHARD_NONE; kind <= cases[i].last; kind++) {
            job_alone(j, cases[i].kind, cases[i].clipper, COPIES, STEPS, (tri_sharding){.kind = kind, .prefetch = 1});
            job_run(j, 0);
            expect_golden(j, golden, kind_names[kind]);
            job_close(j);
        }
        tri__json_decref(golden);
    }
    free(j);
}

static void expect_numbers(const job *j, const tri_json *want, const float have[][MAX_PARAMS], const char *kind) {
    for (int r = 0; r < j->dp; r++) {
        assert_memory_equal(have[r], have[0], sizeof have[0]);
        for (int i = 0; i < j->rank[0].model.n_params; i++) {
            double value = tri__json_number_value(tri__json_at(want, (size_t)i));
            if (!(fabs(have[r][i] - value) <= 1e-6 * fabs(value)))
                fail_msg("%s: %s has %.9g, not %.9g", kind, j->rank[0].model.param[i].name, have[r][i], value);
        }
    }
}

/* lamb: what 1-bit LAMB's simulation has beyond 1-bit Adam's. */
static void expect_lamb(const job *j, const tri_json *lamb, const char *kind) {
    const tri_json *sizes = tri__json_get(lamb, "sizes");
    assert_int_equal(j->rank[0].model.n_params, tri__json_size(sizes));
    for (size_t i = 0; i < tri__json_size(sizes); i++)
        assert_int_equal(j->rank[0].model.param[i].count, number(sizes, i));
    expect_crc(lamb, "fresh", j->fresh);
    expect_numbers(j, tri__json_get(lamb, "average"), j->average, kind);
    expect_numbers(j, tri__json_get(lamb, "factor"), j->factor, kind);
}

/* Gradients do not depend on weights here, so that signs are 1-bit Adam's. Norms are sums over shards: where there are
 * some, weights may differ in the last bit. */
TEST(lamb_s_simulation) {
    tri_json *golden, *lamb;
    job *none = malloc(sizeof *none), *j = malloc(sizeof *j);
    OK(tri__json_load("tests/golden/onebit.json", TRI_DATA, &golden));
    OK(tri__json_load("tests/golden/onebit_lamb.json", TRI_DATA, &lamb));
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_ZERO3; kind++) {
        job *at = kind ? j : none;
        job_open(at, TRI_ONEBIT_LAMB, COPIES, STEPS, (tri_sharding){.kind = kind, .prefetch = 1});
        job_run(at, 0);
        expect_golden(at, golden, kind_names[kind]);
        expect_lamb(at, lamb, kind_names[kind]);
        if (!kind) expect_crc(lamb, "p", at->weights);
        for (int64_t k = 0; k < ELEMENTS; k++)
            if (!(fabsf(at->weights[k] - none->weights[k]) <= 2e-7f))
                fail_msg("%s: weight %lld is %.9g, not %.9g", kind_names[kind], (long long)k, at->weights[k],
                         none->weights[k]);
        job_close(at);
    }
    tri__json_decref(golden), tri__json_decref(lamb);
    free(none), free(j);
}

/* Ranks as processes send the same. First of all tests, while this process has no threads. */
FIRST_TEST(processes_or_threads) {
    job *forks = mmap(NULL, sizeof *forks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    job *threads = malloc(sizeof *threads);
    const tri_sharding how = {.kind = TRI_SHARD_HYBRID, .size = 2, .prefetch = 1};
    assert_true(forks != MAP_FAILED);
    for (int i = 0; i < 2; i++) {
        job_open(forks, kinds[i], 4, FULL + 4, how), job_open(threads, kinds[i], 4, FULL + 4, how);
        job_run(forks, 1), job_run(threads, 0);
        assert_memory_equal(forks->sent, threads->sent, sizeof forks->sent);
        assert_memory_equal(forks->sums, threads->sums, sizeof forks->sums);
        assert_memory_equal(forks->weights, threads->weights, sizeof forks->weights);
        assert_true(forks->sent[0][FULL + 3] != forks->sent[0][FULL + 2]);
        job_close(forks), job_close(threads);
    }
    munmap(forks, sizeof *forks);
    free(threads);
}

TEST(masked_elements_only_decay) {
    job *j = malloc(sizeof *j);
    job_open(j, TRI_ONEBIT_ADAM, 2, FULL + 6, (tri_sharding){.kind = TRI_SHARD_ZERO1});
    job_run(j, 0);
    int64_t moved = 0;
    for (int64_t k = 0; k < ELEMENTS; k++) {
        double decayed = first_weight(k) * pow(1 - 1e-3 * 0.01, FULL + 6), off = fabs(j->weights[k] - decayed);
        if (is_masked(k) && !(off < 1e-6 && j->m[0][k] == 0 && j->m[1][k] == 0 && j->e[0][k] == 0 && j->s[k] == 0))
            fail_msg("element %lld, which has no gradient, is off by %g", (long long)k, off);
        moved += off > 1e-3;
    }
    assert_true(moved > ELEMENTS / 2);
    job_close(j);
    free(j);
}

/* In a step in which one copy's gradient is not a number nothing changes on any rank, errors included; later steps are
 * as usual. */
TEST(a_step_that_is_not_finite) {
    static const tri_sharding shards[] = {{.kind = TRI_SHARD_NONE}, {.kind = TRI_SHARD_ZERO3, .prefetch = 1}};
    for (int i = 0; i < 4; i++) {
        job *j = malloc(sizeof *j);
        job_open(j, kinds[i / 2], 2, FULL + 5, shards[i % 2]);
        j->spoiled = FULL + 3;
        job_run(j, 0);
        assert_int_equal(j->changed, 0);
        for (int64_t k = 0; k < ELEMENTS; k++)
            if (!isfinite(j->weights[k]) || !isfinite(j->e[0][k]) || !isfinite(j->e[1][k]) || !isfinite(j->s[k]))
                fail_msg("element %lld is not finite", (long long)k);
        assert_true(j->sent[0][FULL + 4] != j->sent[0][FULL + 2]);
        job_close(j);
        free(j);
    }
}

/* Whether ranks along an axis sum a slot, or take its largest elements. */
static int is_common(const tri_program *p, const char *name, tri_axis axis) {
    int slot = tri__program_find(p, name), found = 0;
    for (int i = 0; i < p->n_instrs; i++)
        found |= p->instr[i].op == TRI_OP_all_reduce_post &&
                 tri__transfer_whole(&p->instr[i]) == slot && (p->instr[i].attr.axes & TRI_AXIS_SET(axis));
    return found;
}

/* Norms, ratios and factors are those of whole gradients and parameters, whoever has their elements. */
static void expect_common(const tri_program *p, const tri_plan_in *in, const char *what) {
    tri_shard_kind kind = in->sharding.kind;
    int sharded = kind == TRI_SHARD_HYBRID ? in->sharding.size > 1 : kind != TRI_SHARD_NONE;
    const struct {
        const char *name;
        int dp, tp, pp;
    } slots[] = {{"grad.sumsq.each", in->mesh.dp > 1, in->mesh.tp > 1, in->mesh.pp > 1},
                 {"lamb.sums", sharded, in->mesh.tp > 1, 0},
                 {"lamb.frozen", sharded, in->mesh.tp > 1, 0},
                 {"lamb.most", sharded, in->mesh.tp > 1, 0}};
    for (int i = 0; i < (in->optimizer.kind == TRI_ONEBIT_LAMB ? 4 : 1); i++) {
        if (!slots[i].dp && is_common(p, slots[i].name, TRI_AXIS_DP))
            fail_msg("%s: %s, which all replicas have, is summed over them", what, slots[i].name);
        if (in->mesh.dp > 1 && ((slots[i].dp && !is_common(p, slots[i].name, TRI_AXIS_DP)) ||
                                (slots[i].tp && !is_common(p, slots[i].name, TRI_AXIS_TP)) ||
                                (slots[i].pp && !is_common(p, slots[i].name, TRI_AXIS_PP))))
            fail_msg("%s: %s is not that of all ranks that have a part of it", what, slots[i].name);
    }
}

/* By classes and rank by rank. */
static void check_mesh(const tri_plan_in *in, tiny *t, const char *what) {
    tri_classes all[TRI_PROGRAMS];
    t->in = *in;
    if (tri__plan_ranks(&t->arena, &t->in, 1, all) != TRI_OK) fail_msg("%s: %s", what, tri_error());
    for (int i = 0; i < TRI_PROGRAMS; i++)
        if (tri__check_all(&all[i]) != TRI_OK) fail_msg("%s, program %d: %s", what, i, tri_error());
    for (int rank = 0; rank < all[0].world; rank++) {
        tri_rank_plan plan;
        t->in.rank = rank;
        OK(tri__plan(&t->arena, &t->in, 1, &plan));
        if (!tri__program_equal(tri__classes_program(&all[TRI_TRAIN], &t->arena, rank), plan.train.program))
            fail_msg("%s: rank %d has another program than its class", what, rank);
        expect_common(plan.train.program, &t->in, what);
    }
}

TEST(every_mesh_passes_the_checker) {
    static const int meshes[][3] = {{1, 1, 1}, {1, 1, 2}, {1, 1, 5}, {2, 1, 2}, {1, 2, 2}, {2, 2, 4}};
    static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};
    static char *no_decay[] = {"bias", "LayerNorm.weight", "norm.weight"};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++) {
            tiny t;
            char what[96];
            int dp = meshes[m][2];
            tiny_open(&t, "cpu", 2, 3, 0.1, 2);
            t.encoder[1].num_attention_heads = 4; /* two ranks share a layer */
            tri__model_make(&t.arena, &t.config, t.encoder, (tri_columns){.n = 3}, (tri_texts){no_decay, 3}, &t.model);
            tri_plan_in in = t.in;
            in.mesh = (tri_mesh){.pp = meshes[m][0], .tp = meshes[m][1], .dp = dp};
            in.sequence_parallel = in.mesh.tp > 1;
            in.sharding = (tri_sharding){.kind = (tri_shard_kind)kind, .size = dp == 4 ? 2 : 1, .prefetch = 1,
                                         .bucket_mb = kind % 2 ? 0.01 : 0};
            if (kind == TRI_SHARD_ZERO2) in.sharding.wrap = TRI_WRAP_SIZE, in.sharding.wrap_min_params = 3000;
            in.staging = (tri_staging){.schedule = TRI_SCHEDULE_1F1B, .shape = TRI_SHAPE_BRANCH};
            in.precision = types[kind % 3], in.reduce_dtype = kind == TRI_SHARD_HYBRID ? TRI_BF16 : TRI_F32;
            int copies = kind == TRI_SHARD_NONE || (kind == TRI_SHARD_HYBRID && dp > 1);
            for (int one = 0; one < 3 + copies; one++) {
                tri_optimizer_kind which = kinds[one < 3 ? one : 2];
                set_optimizer(&in.optimizer, which, one == 3 ? 4 : 1);
                snprintf(what, sizeof what, "%s pp %d tp %d dp %d %s", tri__optimizer_row(which)->name, in.mesh.pp,
                         in.mesh.tp, dp, kind_names[kind]);
                check_mesh(&in, &t, what);
            }
            tiny_close(&t);
        }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
