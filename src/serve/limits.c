/* limits.c - limits of a model's batches. */
#include "serve/limits.h"

#include "engine/evaluate.h"
#include "serve/batcher.h"

static int64_t row_tokens(const tri_opened *o) { return o->assets.n_texts * o->settings.model.max_sen_len; }

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

int tri__batching_parts(const tri_opened *o) { return o->place.mesh.dp * tri__infer_microbatches(&o->settings, 0); }

int64_t tri__batching_tokens(const tri_batching *batching, const tri_opened *o) {
    return tri__part_tokens(batching->max_batch_tokens, tri__batching_parts(o), row_tokens(o));
}

tri_counts tri__batching_counts(const tri_batching *batching, const tri_opened *o) {
    int64_t tokens = tri__batching_tokens(batching, o);
    tri_counts max = {.of = {0, tokens, o->assets.n_texts > 1 ? tokens : 0, batching->max_batch_rows}};
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_T1; sym++)
        max.squares[sym] = (double)max.of[sym] * (double)o->settings.model.max_sen_len;
    return max;
}
