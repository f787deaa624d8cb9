/* limits.c - limits of a model's batches. */
#include "serve/infer/limits.h"

#include "engine/evaluate.h"
#include "serve/infer/batcher.h"

static int64_t row_tokens(const tri_opened *o) {
    return o->assets.n_texts * o->settings.model.windows * o->settings.model.max_sen_len;
}

tri_status tri__batching_resolve(const tri_batching *asked, const tri_opened *o, tri_batching *out) {
    int64_t row = row_tokens(o);
    *out = asked ? *asked : (tri_batching){0};
    if (!out->max_batch_tokens) out->max_batch_tokens = row > 16384 ? row : 16384;
    if (!out->max_batch_rows) out->max_batch_rows = 512;
    if (!out->queue_rows) out->queue_rows = 4096;
    if (out->max_batch_tokens < row)
        return tri__fail(TRI_USAGE, "a batch of %lld tokens: one row of this model may have %lld; give at least that",
                         (long long)out->max_batch_tokens, (long long)row);
    return TRI_OK;
}

int tri__batching_parts(const tri_opened *o) {
    return tri__mesh_readers(&o->place.mesh) * tri__infer_microbatches(&o->settings, 0);
}

int64_t tri__batching_tokens(const tri_batching *batching, const tri_opened *o) {
    return tri__part_tokens(batching->max_batch_tokens, tri__batching_parts(o), row_tokens(o));
}

/* All windows of a text but the last are full. */
static int64_t most_windows(const tri_model_config *m, int64_t texts, int64_t tokens) {
    int64_t all = texts * m->windows, full = texts + tokens / m->max_sen_len;
    return all < full ? all : full;
}

tri_counts tri__batching_counts(const tri_batching *batching, const tri_opened *o) {
    const tri_model_config *m = &o->settings.model;
    int64_t tokens = tri__batching_tokens(batching, o);
    const tri_readers *readers = &o->assets.readers;
    tri_counts max = {.of[TRI_SYM_N] = batching->max_batch_rows};
    for (int e = 0; e < o->assets.n_encoders; e++) {
        int texts = 0;
        for (int t = 0; t < o->assets.n_texts; t++) texts += tri__reader(readers, t) == e;
        max.of[TRI_SYM_T0 + e] = tokens;
        max.squares[TRI_SYM_T0 + e] = (double)tokens * (double)m->max_sen_len;
        if (m->windows > 1 || readers->joined)
            max.of[TRI_SYM_W0 + e] = most_windows(m, batching->max_batch_rows * texts, tokens);
    }
    return max;
}
