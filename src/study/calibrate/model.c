/* model.c - a model to be timed: one or two texts of sequences of equal or of ragged lengths, three columns,
 * random weights. Plans are those of a run, so kernels, fusion and the reuse of memory are those of a run, too. */
#include "study/calibrate/calibrate_parts.h"

#include "program/check.h"

enum {
    COLUMNS = 3,
    CLASSES = 2,
    COMMON = 128,          /* width of branches and fusion */
    TABLE_BYTES = 4 << 20,
    LONGEST = 4            /* times the mean length */
};
#define DROPOUT 0.1 /* as models train with */

static int longest_of(const tri_trial_case *at) { return at->ragged > 0 ? LONGEST * at->length : at->length; }

/* Lengths are a power of evenly spread, exponentially distributed numbers, in no order: many are short, few long. The
 * mean of (-ln u)^r, u from 0 to 1, is gamma(1 + r). */
static int length_of(const tri_trial_case *at, int sample) {
    double even = fmod((sample + 0.5) * 0.41421356237309505, 1),
           length = at->length * pow(-log(even), at->ragged) / tgamma(1 + at->ragged);
    return (int)fmax(1, fmin(longest_of(at), round(length)));
}

static void make_sequences(tri_trial *t, const tri_trial_case *at) {
    t->samples = at->tokens / at->length;
    t->seq = tri__arena_alloc(&t->arena, ((size_t)t->samples + 1) * sizeof *t->seq);
    for (int s = 0; s < t->samples; s++) t->seq[s + 1] = t->seq[s] + length_of(at, s);
}

static void make_model(tri_trial *t, const tri_trial_case *at) {
    char *no_decay[] = {"bias", "LayerNorm.weight", "norm.weight"};
    const tri_model_config config = {.label_name = "label", .primary_text_name = "text",
                                     .secondary_text_name = at->texts > 1 ? "other" : NULL, .hidden_common_dim = COMMON,
                                     .fusion_hidden_dim = COMMON, .fusion_dropout = DROPOUT, .num_classes = CLASSES,
                                     .max_sen_len = longest_of(at)};
    const tri_encoder one = {.vocab_size = at->words, .hidden_size = at->width, .num_hidden_layers = at->layers,
                             .num_attention_heads = at->heads, .intermediate_size = at->inner,
                             .max_position_embeddings = longest_of(at), .type_vocab_size = 2, .pad_token_id = -1,
                             .hidden_dropout_prob = DROPOUT, .attention_probs_dropout_prob = DROPOUT,
                             .initializer_range = 0.02, .layer_norm_eps = 1e-12},
                      encoder[2] = {one, one};
    tri__model_make(&t->arena, &config, encoder, (tri_columns){.n = COLUMNS}, (tri_texts){no_decay, 3}, &t->model);
}

static tri_counts counts_of(const tri_trial *t, const tri_trial_case *at) {
    int second = at->texts > 1, tokens = t->seq[t->samples];
    double squares = 0;
    for (int s = 0; s < t->samples; s++) squares += pow(t->seq[s + 1] - t->seq[s], 2);
    return (tri_counts){.of = {[TRI_SYM_T0] = tokens, [TRI_SYM_T1] = second ? tokens : 0, [TRI_SYM_N] = t->samples},
                        .squares = {[TRI_SYM_T0] = squares, [TRI_SYM_T1] = second ? squares : 0}};
}

static void make_plan_in(tri_trial *t, const tri_trial_case *at) {
    t->in = (tri_plan_in){
        .model = &t->model, .mesh = {.pp = 1, .tp = 1, .dp = 1}, .n_mb = at->microbatches, .n_mb_infer = 1,
        .max = counts_of(t, at), .max_infer = counts_of(t, at), .target = &t->target,
        .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .sync_every = 1},
        .max_grad_norm = 1, .precision = at->precision, .quantize = at->quantize, .reduce_dtype = TRI_F32};
    int granule = tri__plan_granule(&t->in);
    t->in.max = t->in.max_infer = tri__counts_rounded(&t->in.max, granule);
}

/* Words are spread over the vocabulary, labels over the classes; rows behind the last sequence belong to none. */
static void make_feed(tri_trial *t, const tri_trial_case *at) {
    int tokens = (int)t->in.max.of[TRI_SYM_T0], samples = t->samples;
    int32_t *ids = tri__arena_alloc(&t->arena, 4 * (size_t)tokens * sizeof *ids), *pos = ids + tokens,
            *key = pos + tokens, *labels = tri__arena_alloc(&t->arena, 3 * (size_t)samples * sizeof *labels),
            *keyn = labels + samples;
    float *numbers = tri__arena_alloc(&t->arena, (size_t)samples * COLUMNS * sizeof *numbers),
          *fixed = tri__arena_alloc(&t->arena, 8 * sizeof *fixed), *weights = fixed + 4, *scale = fixed + 6;
    double *inv = tri__arena_alloc(&t->arena, sizeof *inv);
    for (int i = 0, s = 0; i < tokens; i++) {
        while (s < samples - 1 && i >= t->seq[s + 1]) s++;
        ids[i] = (int32_t)(((uint32_t)i * 2654435761u >> 8) % (uint32_t)at->words);
        pos[i] = i < t->seq[samples] ? i - t->seq[s] : 0, key[2 * i] = s, key[2 * i + 1] = pos[i];
    }
    for (int s = 0; s < samples; s++) labels[s] = s % CLASSES, keyn[2 * s] = s;
    for (int i = 0; i < samples * COLUMNS; i++) numbers[i] = (float)(i % 7) - 3;
    fixed[0] = 1e-5f, fixed[1] = 0.1f, fixed[2] = 1e-3f, weights[0] = weights[1] = 1, *scale = 1024;
    *inv = 1.0 / samples / at->microbatches;
    t->feed = tri__arena_alloc(&t->arena, (size_t)at->microbatches * sizeof *t->feed);
    for (int mb = 0; mb < at->microbatches; mb++) {
        const void **field = t->feed[mb].field;
        t->feed[mb].counts = t->in.max;
        field[TRI_FIELD_ids0] = ids, field[TRI_FIELD_pos0] = pos, field[TRI_FIELD_key0] = key;
        field[TRI_FIELD_ids1] = ids, field[TRI_FIELD_pos1] = pos, field[TRI_FIELD_key1] = key;
        field[TRI_FIELD_seq0] = field[TRI_FIELD_seq1] = t->seq, field[TRI_FIELD_numbers] = numbers,
        field[TRI_FIELD_labels] = labels;
        field[TRI_FIELD_keyn] = keyn, field[TRI_FIELD_class_weights] = weights, field[TRI_FIELD_loss_inv] = inv;
        field[TRI_FIELD_hyper] = fixed, field[TRI_FIELD_loss_scale] = scale;
    }
}

/* A table of random numbers, over and over: kernels, and a GPU's power, do not know the difference. */
static void make_weights(void *maker, size_t at, size_t bytes, void *out) {
    const float *table = maker;
    for (size_t i = 0, n; i < bytes; i += n) {
        size_t from = (at + i) % TABLE_BYTES;
        n = bytes - i < TABLE_BYTES - from ? bytes - i : TABLE_BYTES - from;
        memcpy((char *)out + i, (const char *)table + from, n);
    }
}

static tri_status set_weights(tri_trial *t) {
    const tri_planned *train = &t->plan.train;
    const int *slot = train->master ? train->master : train->param;
    const tri_feed none = {0};
    for (int unit = 0; unit < t->plan.model->n_units; unit++)
        TRI_TRY(tri__exec_fill(t->exec, TRI_TRAIN, slot[unit], make_weights, t->table));
    TRI_TRY(tri__exec_run(t->exec, TRI_START, 0, t->program[TRI_START]->n_instrs, 0, &none, NULL));
    return tri__exec_finish(t->exec);
}

typedef struct opening {
    tri_trial *trial;
    const tri_device *device;
    const tri_trial_case *at;
} opening;

static tri_status plan_trial(void *data) {
    const opening *o = data;
    tri_trial *t = o->trial;
    TRI_TRY(tri__device_target(o->device, &t->target));
    make_sequences(t, o->at);
    make_model(t, o->at);
    make_plan_in(t, o->at);
    make_feed(t, o->at);
    t->table = tri__arena_alloc(&t->arena, TABLE_BYTES);
    tri__random_normal(1, 0, 0.02f, 0, TABLE_BYTES / sizeof *t->table, t->table);
    TRI_TRY(tri__plan(&t->arena, &t->in, 1, &t->plan));
    t->program[TRI_TRAIN] = t->plan.train.program;
    t->program[TRI_INFER] = t->plan.infer.program;
    t->program[TRI_START] = t->plan.start;
    t->program[TRI_EXCHANGE] = t->plan.exchange;
    for (int i = 0; i < TRI_PROGRAMS; i++) TRI_TRY(tri__check(&t->program[i], 1));
    return TRI_OK;
}

tri_status tri__trial_open(const tri_device *device, const tri_trial_case *at, int threads, tri_trial **out) {
    tri_trial *t = *out = calloc(1, sizeof *t);
    opening o = {t, device, at};
    if (!t) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__arena_open(&t->arena, TRI_PLAN_ARENA));
    TRI_TRY(tri__arena_guard(plan_trial, &o));
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = device, .program = t->program, .n = TRI_PROGRAMS,
                                            .threads = threads, .seed = 1}, &t->exec));
    return set_weights(t);
}

tri_status tri__trial_queue(tri_trial *t, tri_time *times) {
    return tri__exec_run(t->exec, TRI_TRAIN, 0, t->program[TRI_TRAIN]->n_instrs, ++t->step, t->feed, times);
}

tri_status tri__trial_run_step(tri_trial *t) {
    int update = t->plan.train.update, n = t->program[TRI_TRAIN]->n_instrs;
    TRI_TRY(tri__exec_run(t->exec, TRI_TRAIN, 0, update, ++t->step, t->feed, NULL));
    TRI_TRY(tri__exec_run(t->exec, TRI_TRAIN, update, n, t->step, t->feed, NULL));
    return tri__exec_finish(t->exec);
}

/* A range that was never run is queued instruction by instruction, not as a graph. */
tri_status tri__trial_queueing(tri_trial *t, int without, double *seconds) {
    int n = t->program[TRI_TRAIN]->n_instrs - without;
    double begin = tri__clock();
    TRI_TRY(tri__exec_run(t->exec, TRI_TRAIN, 0, n, ++t->step, t->feed, NULL));
    *seconds = (tri__clock() - begin) / n;
    return tri__exec_finish(t->exec);
}

void tri__trial_close(tri_trial *t) {
    if (!t) return;
    tri__exec_close(t->exec);
    tri__arena_close(&t->arena);
    free(t);
}

double tri__trial_flops(const tri_trial_case *at) {
    double h = at->width, layer = 8 * h * h + 4 * h * at->inner + 4.0 * at->length * h;
    return 3 * layer * at->layers * at->tokens * at->microbatches * (at->texts > 1 ? 2 : 1);
}

double tri__trial_bytes(const tri_trial_case *at) {
    double h = at->width, weights = at->layers * (4 * h * h + 2 * h * at->inner) + h * (at->words + at->length);
    return 20 * weights + 4.0 * at->tokens * at->layers * (16 * h + 3.0 * at->inner);
}
