/* tiny.c - see tiny.h. */
#include "tests/lib/tiny.h"

void assert_int_equal_or_say(tri_status status, const char *file, int line) {
    if (status != TRI_OK) fail_msg("%s:%d: status %d: %s", file, line, status, tri_error());
}

static const int tiny_length[2][TINY_SAMPLES] = {{5, 1, 9, 2, 7, 3}, {2, 4, 1, 3, 2, 6}};

void tiny_feed(tiny *t, int n_mb, int dp, int replica) {
    double weight = 0;
    for (int mb = 0; mb < n_mb; mb++) {
        tri_feed *feed = &t->feed[mb];
        *feed = (tri_feed){0};
        int n = 0;
        for (int s = replica + mb * dp; s < TINY_SAMPLES; s += n_mb * dp, n++) {
            for (int b = 0; b < t->model.n_texts; b++) {
                int64_t *T = &feed->counts.of[b ? TRI_SYM_T1 : TRI_SYM_T0];
                t->seq[mb][b][n] = (int32_t)*T;
                int next = tri__encoder_position_base(&t->encoder[b]), pad = next - 1;
                for (int i = 0; i < tiny_length[b][s]; i++, ++*T) {
                    t->ids[mb][b][*T] = (s * 7 + i * 3 + 34 * b) % (int)t->encoder[b].vocab_size;
                    t->pos[mb][b][*T] = t->ids[mb][b][*T] == pad ? pad : next++;
                    t->key[mb][b][2 * *T] = s;
                    t->key[mb][b][2 * *T + 1] = i;
                }
                t->seq[mb][b][n + 1] = (int32_t)*T;
                feed->counts.squares[b ? TRI_SYM_T1 : TRI_SYM_T0] += tiny_length[b][s] * tiny_length[b][s];
            }
            for (int c = 0, F = t->model.n_numbers; c < F; c++)
                t->numbers[mb][n * F + c] = (float)((s * 5 + c * 3) % 7) - 3;
            t->labels[mb][n] = s % (int)t->model.n_classes;
            t->keyn[mb][2 * n] = s;
            t->keyn[mb][2 * n + 1] = 0;
        }
        feed->counts.of[TRI_SYM_N] = n;
    }
    for (int s = 0; s < TINY_SAMPLES; s++) weight += t->class_weights[s % (int)t->model.n_classes];
    t->inv = 1 / weight;
    for (int mb = 0; mb < n_mb; mb++) {
        const void **field = t->feed[mb].field;
        for (int b = 0; b < 2; b++) {
            int at = b ? TRI_FIELD_ids1 : 0;
            field[TRI_FIELD_ids0 + at] = t->ids[mb][b], field[TRI_FIELD_pos0 + at] = t->pos[mb][b];
            field[TRI_FIELD_key0 + at] = t->key[mb][b], field[TRI_FIELD_seq0 + at] = t->seq[mb][b];
        }
        field[TRI_FIELD_columns] = t->model.columns.word;
        field[TRI_FIELD_numbers] = t->numbers[mb], field[TRI_FIELD_labels] = t->labels[mb],
        field[TRI_FIELD_keyn] = t->keyn[mb];
        field[TRI_FIELD_class_weights] = t->class_weights, field[TRI_FIELD_loss_inv] = &t->inv,
        field[TRI_FIELD_hyper] = t->hyper;
        field[TRI_FIELD_loss_scale] = &t->loss_scale, field[TRI_FIELD_average] = &t->average;
    }
}

void tiny_plan(tiny *t) {
    OK(tri__plan(&t->arena, &t->in, 1, &t->plan));
    t->program[TRI_TRAIN] = t->plan.train.program;
    t->program[TRI_INFER] = t->plan.infer.program;
    t->program[TRI_START] = t->plan.start;
    t->program[TRI_EXCHANGE] = t->plan.exchange;
    for (int i = 0; i < TRI_PROGRAMS; i++) OK(tri__check(t->program + i, 1));
}

void tiny_open_rank(tiny *t, const char *device, int texts, int columns, double p, int n_mb, const tiny_rank *rank) {
    int dp = rank->dp ? rank->dp : 1, pp = rank->pp ? rank->pp : 1;
    static char *no_decay[] = {"bias", "LayerNorm.weight", "norm.weight"};
    *t = (tiny){0};
    OK(tri__arena_open(&t->arena, (size_t)1 << 30));
    t->config = (tri_model_config){.label_name = "label",
                                   .primary_text_name = "a",
                                   .secondary_text_name = texts > 1 ? "b" : NULL,
                                   .hidden_common_dim = 12,
                                   .fusion_hidden_dim = 10,
                                   .fusion_dropout = p,
                                   .num_classes = 3,
                                   .max_sen_len = 20};
    t->encoder[0] = (tri_encoder){.vocab_size = 40, .hidden_size = 16, .num_hidden_layers = 2, .num_attention_heads = 4,
                                  .intermediate_size = 24, .max_position_embeddings = 24, .type_vocab_size = 2,
                                  .hidden_dropout_prob = p, .attention_probs_dropout_prob = p, .initializer_range = 0.1,
                                  .layer_norm_eps = 1e-12};
    t->encoder[1] = t->encoder[0];
    t->encoder[1].hidden_size = 12, t->encoder[1].num_attention_heads = 3, t->encoder[1].num_hidden_layers = 1;
    assert_int_equal(tri__family_find("roberta", "", &t->encoder[1].family), TRI_OK);
    t->encoder[1].pad_token_id = 1, t->encoder[1].type_vocab_size = 1;
    tri__model_make(&t->arena, &t->config, t->encoder, (tri_columns){.n = columns}, (tri_texts){no_decay, 3},
                    &t->model);
    const tri_device *d = tri__device_find(device);
    assert_non_null(d);
    tri__device_target(d, &t->target);
    const float weights[3] = {1, 2, 0.5f}, hyper[4] = {1e-3f, 0.1f, 0.001f, 0};
    memcpy(t->class_weights, weights, sizeof weights);
    memcpy(t->hyper, hyper, sizeof hyper);
    t->loss_scale = 65536, t->average = 0.25f;
    t->in = (tri_plan_in){
        .model = &t->model,
        .mesh = {.pp = pp, .tp = 1, .dp = dp},
        .rank = rank->rank,
        .sharding = rank->sharding,
        .staging = rank->staging,
        .n_mb = n_mb,
        .n_mb_infer = n_mb,
        .target = &t->target,
        .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .sync_every = 1},
        .max_grad_norm = 1};
    for (int replica = 0; replica < dp; replica++) {
        tiny_feed(t, n_mb, dp, replica);
        for (int mb = 0; mb < n_mb; mb++)
            for (int s = 0; s < TRI_SYM_COUNT; s++) {
                if (t->feed[mb].counts.of[s] > t->in.max.of[s]) t->in.max.of[s] = t->feed[mb].counts.of[s];
                if (t->feed[mb].counts.squares[s] > t->in.max.squares[s])
                    t->in.max.squares[s] = t->feed[mb].counts.squares[s];
            }
    }
    tiny_feed(t, n_mb, dp, tri__mesh_coords(&t->in.mesh, rank->rank).dp);
    t->in.max_infer = t->in.max;
    tiny_plan(t);
}

const float *tiny_probs(const tiny *t, const tri_exec *exec, int part) {
    const float *all = tri__exec_slot(exec, 1, t->plan.infer.probs);
    return all + part * t->plan.infer.program->max.of[TRI_SYM_N] * t->model.n_classes;
}

void tiny_fill(const tri_param *param, tri_range held, float *flat) {
    tri_range part = tri__range_both(held, (tri_range){param->at, param->at + param->count});
    int64_t n = part.end - part.begin;
    if (!n) return;
    float *w = malloc((size_t)n * sizeof *w); /* [n] */
    TRI_ASSERT(w); /* a rank's thread must not use cmocka's asserts */
    tri__random_normal(1, tri__random_id(param->name), 0.2f, part.begin - param->at, n, w);
    for (int64_t k = 0; k < n; k++) {
        if (param->init == TRI_INIT_ONE) w[k] += 1;
        flat[part.begin - held.begin + k] = w[k];
    }
    free(w);
}

void tiny_init(const tiny *t, tri_exec *exec) {
    const tri_planned *train = &t->plan.train;
    const int *slot = train->master ? train->master : train->param;
    const tri_range *held = train->master ? train->state_part : train->param_part;
    for (int i = 0; i < t->plan.model->n_params; i++) {
        const tri_param *param = &t->plan.model->param[i];
        tiny_fill(param, held[param->unit], tri__exec_slot(exec, 0, slot[param->unit]));
    }
}

tri_status tiny_start(const tiny *t, tri_exec *exec) {
    const tri_feed none = {0};
    TRI_TRY(tri__exec_run(exec, TRI_START, 0, t->program[TRI_START]->n_instrs, 0, &none, NULL));
    return tri__exec_finish(exec);
}

void tiny_push(const tiny *t, tri_exec *exec) {
    const tri_planned *train = &t->plan.train;
    for (int unit = 0; unit < t->plan.model->n_units; unit++) {
        OK(tri__exec_push(exec, 0, train->param[unit]));
        if (train->master) OK(tri__exec_push(exec, 0, train->master[unit]));
    }
}

tri_exec *tiny_exec_on(const tiny *t, const tri_device *device, int threads, size_t guard) {
    tri_exec *exec;
    OK(tri__exec_open(&(tri_exec_spec){.device = device, .program = t->program, .n = TRI_PROGRAMS, .threads = threads,
                                       .seed = 7, .guard = guard}, &exec));
    tiny_init(t, exec);
    tiny_push(t, exec);
    OK(tiny_start(t, exec));
    return exec;
}

int tiny_same_weights(const tiny *here, const tri_exec *want, const tiny *there, tri_exec *got) {
    const int *a = here->plan.train.param, *b = there->plan.train.param;
    int same = 1;
    OK(tri__exec_pull(got, TRI_MEM_PARAM));
    for (int unit = 0; unit < here->model.n_units; unit++)
        same &= memcmp(tri__exec_slot(want, 0, a[unit]), tri__exec_slot(got, 0, b[unit]),
                       (size_t)tri__slot_bytes(&here->program[0]->slot[a[unit]], &here->in.max)) == 0;
    return same;
}

int tiny_guards(const tri_exec *exec, int set) {
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        int64_t bytes;
        if (mem == TRI_MEM_KEPT) continue; /* the executor has none by itself */
        unsigned char *at = tri__exec_memory(exec, (tri_mem)mem, &bytes);
        if (set) memset(at + bytes, 0xA5, TINY_GUARD);
        for (int i = 0; i < TINY_GUARD; i++)
            if (at[bytes + i] != 0xA5) return 0;
    }
    return 1;
}
