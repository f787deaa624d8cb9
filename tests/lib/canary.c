/* canary.c - see canary.h. */
#include "tests/lib/canary.h"

#include <stdlib.h>
#include <string.h>

void canary_guard(const tri_engine *e) {
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        int64_t bytes;
        if (mem == TRI_MEM_KEPT) continue; /* the executor has none by itself */
        unsigned char *at = tri__exec_memory(e->exec, (tri_mem)mem, &bytes);
        memset(at + bytes, CANARY_PAINT, CANARY_GUARD);
    }
}

static tri_status canary_guard_whole(const tri_engine *e, const char *when) {
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        int64_t bytes;
        if (mem == TRI_MEM_KEPT) continue; /* the executor has none by itself */
        const unsigned char *at = tri__exec_memory(e->exec, (tri_mem)mem, &bytes);
        for (int i = 0; i < CANARY_GUARD; i++)
            if (at[bytes + i] != CANARY_PAINT)
                return tri__fail(TRI_INTERNAL, "rank %d wrote beyond its %lld bytes of memory class %d %s",
                                 e->place.rank, (long long)bytes, mem, when);
    }
    return TRI_OK;
}

/* One microbatch of the program's largest size, with its tokens spread over its samples. */
typedef struct canary_batch {
    tri_feed feed;
    int32_t *zero, *place[2], *seq[2]; /* [most] zeros: ids, labels; [T] places, as positions; [N + 1] */
    int32_t *key[2];                   /* [T,2] */
    float *numbers, hyper[4], scale;   /* [N,F] */
    double inv;
} canary_batch;

static void canary_text(canary_batch *b, int text, int64_t rows, int64_t samples, int base) {
    b->place[text] = calloc((size_t)rows + 1, sizeof(int32_t)),
    b->key[text] = calloc((size_t)rows + 1, 2 * sizeof(int32_t));
    b->seq[text] = calloc((size_t)samples + 1, sizeof(int32_t));
    for (int64_t s = 0; s <= samples; s++) b->seq[text][s] = (int32_t)(samples ? rows * s / samples : 0);
    for (int64_t s = 0; s < samples; s++)
        for (int32_t t = b->seq[text][s]; t < b->seq[text][s + 1]; t++) {
            b->place[text][t] = t - b->seq[text][s] + base;
            b->key[text][2 * t] = (int32_t)s, b->key[text][2 * t + 1] = t - b->seq[text][s];
        }
    int at = text ? TRI_FIELD_ids1 : 0;
    b->feed.field[TRI_FIELD_ids0 + at] = b->zero, b->feed.field[TRI_FIELD_pos0 + at] = b->place[text];
    b->feed.field[TRI_FIELD_key0 + at] = b->key[text], b->feed.field[TRI_FIELD_seq0 + at] = b->seq[text];
}

static void canary_open(canary_batch *b, const tri_session *s, const tri_program *program) {
    const int64_t *of = program->max.of, samples = of[TRI_SYM_N];
    int64_t most = of[TRI_SYM_T0] + of[TRI_SYM_T1] + 2 * samples + 2;
    *b = (canary_batch){
        .feed.counts = program->max, .hyper = {0.1f, 0.5f, 0.5f, 0}, .scale = 1, .inv = 1.0 / (double)(samples + 1)};
    b->zero = calloc((size_t)most, sizeof *b->zero);
    b->numbers = calloc((size_t)(samples * s->preprocess->width) + 1, sizeof *b->numbers);
    for (int text = 0; text < s->assets.n_encoders; text++)
        canary_text(b, text, of[text ? TRI_SYM_T1 : TRI_SYM_T0], samples,
                    tri__encoder_position_base(&s->assets.encoder[text]));
    const void **field = b->feed.field;
    field[TRI_FIELD_numbers] = b->numbers, field[TRI_FIELD_labels] = field[TRI_FIELD_keyn] = b->zero;
    field[TRI_FIELD_class_weights] = s->engine.class_weights, field[TRI_FIELD_loss_inv] = &b->inv,
    field[TRI_FIELD_hyper] = b->hyper;
    field[TRI_FIELD_loss_scale] = &b->scale;
}

static void canary_close(canary_batch *b) {
    for (int text = 0; text < 2; text++) free(b->place[text]), free(b->key[text]), free(b->seq[text]);
    free(b->zero), free(b->numbers);
}

static tri_status canary_run(const tri_session *s, int program) {
    const tri_program *p = s->engine.program[program];
    canary_batch b;
    canary_open(&b, s, p);
    tri_feed feeds[16];
    if (p->n_mb > 16) return tri__fail(TRI_INTERNAL, "more microbatches than a canary has");
    for (int mb = 0; mb < p->n_mb; mb++) feeds[mb] = b.feed;
    tri_status status = tri__exec_run(s->engine.exec, program, 0, p->n_instrs, 1, feeds, NULL);
    canary_close(&b);
    return status;
}

tri_status canary_check(const tri_session *s) {
    const tri_engine *e = &s->engine;
    unsigned char last[CANARY_ALIGN];
    int64_t bytes;
    TRI_TRY(canary_guard_whole(e, "in training"));
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        if (mem == TRI_MEM_KEPT) continue;
        unsigned char *at = tri__exec_memory(e->exec, (tri_mem)mem, &bytes);
        if (mem != TRI_MEM_PARAM) memset(at, CANARY_PAINT, (size_t)bytes);
        else memcpy(last, at + bytes - CANARY_ALIGN, sizeof last);
    }
    TRI_TRY(canary_run(s, e->train));
    unsigned char *weights = tri__exec_memory(e->exec, TRI_MEM_PARAM, &bytes);
    if (memcmp(weights + bytes - CANARY_ALIGN, last, sizeof last) == 0)
        return tri__fail(TRI_INTERNAL, "rank %d never updates the last of its weights", e->place.rank);
    TRI_TRY(canary_run(s, e->infer));
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        const unsigned char *at = tri__exec_memory(e->exec, (tri_mem)mem, &bytes);
        int64_t used = bytes;
        while (used > 0 && at[used - 1] == CANARY_PAINT) used--;
        if (mem != TRI_MEM_WORK && bytes - used >= CANARY_ALIGN)
            return tri__fail(TRI_INTERNAL, "rank %d uses %lld of %lld planned bytes of memory class %d", e->place.rank,
                             (long long)used, (long long)bytes, mem);
    }
    return canary_guard_whole(e, "with the largest microbatch");
}
