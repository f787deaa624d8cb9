/* members.c - an ensemble in a server. */
#include "serve/infer/members.h"

#include "engine/evaluate.h"
#include "engine/server_ranks.h"

#include <stdlib.h>
#include <string.h>

/* Whether a row becomes the same ids and numbers for both. */
static tri_status compare(const tri_opened *a, const tri_opened *b) {
    tri_json *one = tri__preprocess_json(a->preprocess), *other = tri__preprocess_json(b->preprocess);
    tri_windows x = tri__assets_windows(&a->settings.model, &a->assets),
                y = tri__assets_windows(&b->settings.model, &b->assets);
    tri_status status = tri__json_is_whole(one) && tri__json_is_whole(other) ? TRI_OK
                                                                             : tri__fail(TRI_RESOURCE, "out of memory");
    int same = a->assets.n_texts == b->assets.n_texts && a->assets.shares == b->assets.shares && x.most == y.most &&
               x.max_len == y.max_len && x.stride == y.stride;
    for (int t = 0; t < a->assets.n_texts && same; t++)
        same = tri__tokenizer_hash(a->assets.tokenizer[t]) == tri__tokenizer_hash(b->assets.tokenizer[t]);
    if (status == TRI_OK && !(same && tri__json_equal(one, other)))
        status = tri__fail(TRI_DATA,
                           "%s and %s read rows in different ways (columns, vocabularies, means of columns): an "
                           "ensemble that is served has members of the same data; predict and eval take these",
                           tri__checkpoint_path(a->checkpoint), tri__checkpoint_path(b->checkpoint));
    tri__json_decref(one);
    tri__json_decref(other);
    return status;
}

tri_status tri__members_read(const tri_run_set *ensemble, const tri_settings *asked, tri_crew *crew,
                             const tri_opened *first, tri_members *out) {
    if (ensemble->n < 2) return TRI_OK;
    out->at = calloc((size_t)ensemble->n - 1, sizeof *out->at);
    if (!out->at) return tri__fail(TRI_RESOURCE, "out of memory");
    tri__decision_add(&first->decision, 0, &out->decision);
    for (int i = 1; i < ensemble->n; i++) {
        tri_settings one = *asked; /* borrows its texts */
        tri_member *member = &out->at[out->n++];
        one.checkpoint = ensemble->folder[i];
        member->slot = -1;
        TRI_TRY(tri__opened_read(&one, crew ? tri__crew_world(crew) : NULL, &member->opened));
        TRI_TRY(compare(first, &member->opened));
        tri__decision_add(&member->opened.decision, i, &out->decision);
    }
    tri__decision_take(ensemble->n, &out->decision);
    out->n_classes = first->preprocess->n_classes;
    return TRI_OK;
}

tri_status tri__members_load(tri_members *m, tri_crew *crew, const tri_batching *batching) {
    if (!m->n) return TRI_OK;
    m->parts = tri__batching_parts(&m->at[0].opened), m->rows = batching->max_batch_rows;
    size_t n = (size_t)m->parts * (size_t)m->rows * (size_t)m->n_classes;
    m->sum = malloc(n * sizeof *m->sum);
    m->mean = malloc(n * sizeof *m->mean);
    if (!m->sum || !m->mean) return tri__fail(TRI_RESOURCE, "out of memory for the answers of an ensemble");
    for (int i = 0; i < m->n; i++) {
        tri_opened *o = &m->at[i].opened;
        tri_counts max = tri__batching_counts(batching, o);
        TRI_TRY(crew ? tri__crew_add(crew, o, batching, &m->at[i].slot) : tri__opened_load(o, &max, 0));
    }
    return TRI_OK;
}

static tri_status run_member(tri_member *member, tri_crew *crew, int parts, const tri_micro *micro, tri_feed *feed) {
    static const double inv = 1;
    tri_engine *engine = &member->opened.engine;
    for (int part = 0; part < parts; part++) tri__feed(&micro[part], engine, &inv, NULL, &feed[part]);
    return crew ? tri__crew_run(crew, member->slot, feed) : tri__engine_lead(engine, TRI_ORDER_RUN, 0, feed);
}

/* A member's probabilities of a part [rows, classes]. */
static const float *calibrated(tri_members *m, int member, int part, int64_t rows) {
    const tri_opened *o = &m->at[member].opened;
    float *to = m->mean + part * m->rows * m->n_classes;
    memcpy(to, tri__infer_probs(&o->engine, part), (size_t)(rows * m->n_classes) * sizeof *to);
    tri__decision_apply(&o->decision, to, rows, m->n_classes);
    return to;
}

tri_status tri__members_run(tri_members *m, tri_crew *crew, const tri_micro *micro, tri_feed *feed,
                            const float **probs) {
    int64_t room = m->rows * m->n_classes;
    if (!m->n) return TRI_OK;
    memset(m->sum, 0, (size_t)(m->parts * room) * sizeof *m->sum);
    for (int i = -1; i < m->n; i++) {
        if (i >= 0) TRI_TRY(run_member(&m->at[i], crew, m->parts, micro, feed));
        for (int part = 0; part < m->parts; part++)
            tri__mean_add(i < 0 ? probs[part] : calibrated(m, i, part, micro[part].n), micro[part].n * m->n_classes,
                          m->sum + part * room);
    }
    for (int part = 0; part < m->parts; part++) {
        tri__mean_take(m->sum + part * room, micro[part].n * m->n_classes, m->n + 1, m->mean + part * room);
        probs[part] = m->mean + part * room;
    }
    return TRI_OK;
}

void tri__members_close(tri_members *m, tri_crew *crew) {
    for (int i = m->n - 1; i >= 0; i--)
        if (m->at[i].slot >= 0) tri__crew_drop(crew, m->at[i].slot, &m->at[i].opened);
        else tri__opened_close(&m->at[i].opened);
    free(m->at);
    free(m->sum);
    free(m->mean);
    *m = (tri_members){0};
}
