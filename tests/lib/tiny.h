/* tiny.h - a small Trimodal BERT with packed ragged inputs, planned for a device: the model of tests of programs. */
#ifndef TESTS_TINY_H
#define TESTS_TINY_H

#include "model/family.h"
#include "base/random.h"
#include "device/device.h"
#include "exec/exec.h"
#include "numbers/float16.h"
#include "plan/plan.h"
#include "program/check.h"

#include "tests/lib/test.h"

#define OK(call) assert_int_equal_or_say((call), __FILE__, __LINE__)
void assert_int_equal_or_say(tri_status status, const char *file, int line);

enum { TINY_MAX_MB = 8, TINY_SAMPLES = 6, TINY_TOKENS = 64, TINY_GUARD = 256 };

/* Which rank is planned, among how many replicas and stages, and how. Zeroed: one rank. */
typedef struct tiny_rank {
    int dp, rank;
    tri_sharding sharding;
    int pp;
    tri_staging staging;
} tiny_rank;

typedef struct tiny {
    tri_arena arena;
    tri_model_config config;
    tri_encoder encoder[2];
    tri_network model;
    tri_target target;
    tri_plan_in in;
    tri_rank_plan plan;
    const tri_program *program[TRI_PROGRAMS];
    /* one batch of samples, split over microbatches */
    tri_feed feed[TINY_MAX_MB];
    int32_t ids[TINY_MAX_MB][2][TINY_TOKENS], pos[TINY_MAX_MB][2][TINY_TOKENS], key[TINY_MAX_MB][2][2 * TINY_TOKENS];
    int32_t seq[TINY_MAX_MB][2][TINY_SAMPLES + 1], labels[TINY_MAX_MB][TINY_SAMPLES],
        keyn[TINY_MAX_MB][2 * TINY_SAMPLES];
    float numbers[TINY_MAX_MB][5 * TINY_SAMPLES], class_weights[3], hyper[4];
    double inv;
    float loss_scale, average;
} tiny;

/* Sample s goes to microbatch s / dp % n_mb of replica s % dp; its data row is s. Some get none. */
void tiny_feed(tiny *t, int n_mb, int dp, int replica);

/* Plans and checks according to t->in. */
void tiny_plan(tiny *t);

/* texts 1 or 2, columns 0 to 3, dropout p. */
void tiny_open_rank(tiny *t, const char *device, int texts, int columns, double p, int n_mb, const tiny_rank *rank);

static inline void tiny_open(tiny *t, const char *device, int texts, int columns, double p, int n_mb) {
    tiny_open_rank(t, device, texts, columns, p, n_mb, &(tiny_rank){0});
}

/* Probabilities [samples, classes] of a microbatch: part = replica * microbatches + microbatch. */
const float *tiny_probs(const tiny *t, const tri_exec *exec, int part);

static inline void tiny_close(tiny *t) { tri__arena_close(&t->arena); }

/* Fills the elements of a parameter that a flat slot holds, the range `held` of its unit. */
void tiny_fill(const tri_param *param, tri_range held, float *flat);

/* Initial weights by parameter name: those that this rank holds, or their masters if it has any, from which the start
 * program then computes weights. */
void tiny_init(const tiny *t, tri_exec *exec);
tri_status tiny_start(const tiny *t, tri_exec *exec);

/* Copies them to a device with separate memory; no-op for other devices. */
void tiny_push(const tiny *t, tri_exec *exec);
tri_exec *tiny_exec_on(const tiny *t, const tri_device *device, int threads, size_t guard);

static inline tri_exec *tiny_exec(const tiny *t, const char *device, int threads, size_t guard) {
    return tiny_exec_on(t, tri__device_find(device), threads, guard);
}

/* Whether two executors of the same model, each with its plan, have the same weights, bit by bit; pulls those of
 * `got`. */
int tiny_same_weights(const tiny *here, const tri_exec *want, const tiny *there, tri_exec *got);

static inline double tiny_loss(const tiny *t, const tri_exec *exec) {
    return *(const double *)tri__exec_slot(exec, 0, t->plan.train.loss);
}

/* Bytes after each class, which no instruction of any rank may write. */
int tiny_guards(const tri_exec *exec, int set);

#endif
