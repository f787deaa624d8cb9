/* members.c - one model, or an ensemble, in a server. */
#include "serve/infer/members.h"

#include "engine/evaluate.h"
#include "engine/server_ranks.h"

/* Whether a row becomes the same ids and numbers for both. */
static tri_status compare(const tri_opened *a, const tri_opened *b) {
    TRI_OWNED(tri__json_drop) tri_json *one = tri__preprocess_json(a->preprocess),
                                       *other = tri__preprocess_json(b->preprocess);
    tri_windows x = tri__assets_windows(&a->settings.model, &a->assets),
                y = tri__assets_windows(&b->settings.model, &b->assets);
    if (!tri__json_is_whole(one) || !tri__json_is_whole(other)) return tri__fail(TRI_RESOURCE, "out of memory");
    int same = a->assets.n_texts == b->assets.n_texts && x.most == y.most && x.max_len == y.max_len &&
               x.stride == y.stride && !memcmp(&x.readers, &y.readers, sizeof x.readers);
    for (int t = 0; t < a->assets.n_encoders && same; t++)
        same = tri__tokenizer_hash(a->assets.tokenizer[t]) == tri__tokenizer_hash(b->assets.tokenizer[t]);
    if (!(same && tri__json_equal(one, other)))
        return tri__fail(TRI_DATA, "%s and %s read rows in different ways (columns, vocabularies, means of columns): "
                         "an ensemble that is served has members of the same data; predict and eval take these",
                         tri__checkpoint_path(a->checkpoint), tri__checkpoint_path(b->checkpoint));
    return TRI_OK;
}

static tri_status read_member(tri_members *m, const tri_settings *asked, const char *checkpoint) {
    tri_settings one = *asked; /* borrows its texts */
    tri_member *member = &m->at[m->n++];
    one.checkpoint = (char *)checkpoint, member->slot = -1;
    TRI_TRY(tri__opened_read(&one, m->crew ? tri__crew_world(m->crew) : NULL, &member->opened));
    return m->n > 1 ? compare(&m->at[0].opened, &member->opened) : TRI_OK;
}

/* Of several labels: those of the first member become their mean. NULL: there are none. */
static const float *mean_thresholds(tri_members *m) {
    float *from = m->at[0].opened.from;
    for (int c = 0; from && c < m->at[0].opened.preprocess->n_classes; c++) {
        double sum = 0;
        for (int i = 0; i < m->n; i++) sum += (double)m->at[i].opened.from[c];
        from[c] = (float)(sum / m->n);
    }
    return from;
}

tri_status tri__members_read(const tri_settings *asked, tri_crew *crew, tri_members *m) {
    TRI_OWNED(tri__run_set_free) tri_run_set ensemble = {0};
    *m = (tri_members){.crew = crew};
    TRI_TRY(tri__ensemble_read(asked->checkpoint, &ensemble));
    int n = ensemble.n ? ensemble.n : 1;
    TRI_TRY(TRI_NEW(m->at, n, "members"));
    for (int i = 0; i < n; i++) TRI_TRY(read_member(m, asked, ensemble.n ? ensemble.folder[i] : asked->checkpoint));
    for (int i = 0; i < n && n > 1; i++)
        if (m->at[i].opened.stack)
            return tri__fail(TRI_USAGE, "%s has a stacked head (--stack), and members of an ensemble have none",
                             ensemble.folder[i]);
    m->decision = m->at[0].opened.decision;
    for (int i = 0; i < n && n > 1; i++) tri__decision_add(&m->at[i].opened.decision, i, &m->decision);
    if (n > 1) tri__decision_take(n, &m->decision);
    m->decision.from = mean_thresholds(m), m->n_classes = tri__outputs(&m->at[0].opened);
    return TRI_OK;
}

tri_status tri__members_load(tri_members *m, const tri_batching *batching) {
    const tri_opened *first = &m->at[0].opened;
    int copied = m->n > 1 || first->decision.temperature != 1 || tri__preprocess_is_number(first->preprocess);
    m->parts = tri__batching_parts(first), m->rows = batching->max_batch_rows;
    size_t n = (size_t)m->parts * (size_t)m->rows * (size_t)m->n_classes;
    m->feed = calloc((size_t)m->parts, sizeof *m->feed);
    if (copied) m->probs = malloc(n * sizeof *m->probs);
    if (m->n > 1) m->sum = malloc(n * sizeof *m->sum);
    if (!m->feed || (copied && !m->probs) || (m->n > 1 && !m->sum))
        return tri__fail(TRI_RESOURCE, "out of memory%s", m->n > 1 ? " for the answers of an ensemble" : "");
    for (int i = 0; i < m->n; i++) {
        tri_opened *o = &m->at[i].opened;
        tri_counts max = tri__batching_counts(batching, o);
        TRI_TRY(m->crew ? tri__crew_add(m->crew, o, batching, &m->at[i].slot) : tri__opened_load(o, &max, 0));
    }
    return TRI_OK;
}

/* A member's probabilities of a part [rows, classes], calibrated. */
static const float *calibrated(tri_members *m, int member, int part, int64_t rows) {
    const tri_opened *o = &m->at[member].opened;
    const float *from = tri__infer_probs(&o->engine, part);
    float *to = m->probs + part * m->rows * m->n_classes;
    if (o->stack) return from;
    if (tri__preprocess_is_number(o->preprocess)) return tri__output_rows(o, (float *)from, rows, to), to;
    if (o->decision.temperature == 1) return from;
    memcpy(to, from, (size_t)(rows * m->n_classes) * sizeof *to);
    tri__decision_apply(&o->decision, to, rows, m->n_classes);
    return to;
}

tri_status tri__members_run(tri_members *m, const tri_micro *micro, const float **probs) {
    static const double inv = 1;
    int64_t room = m->rows * m->n_classes;
    if (m->sum) memset(m->sum, 0, (size_t)(m->parts * room) * sizeof *m->sum);
    for (int i = 0; i < m->n; i++) {
        tri_engine *engine = &m->at[i].opened.engine;
        for (int part = 0; part < m->parts; part++) tri__feed(&micro[part], engine, &inv, NULL, &m->feed[part]);
        TRI_TRY(m->crew ? tri__crew_run(m->crew, m->at[i].slot, m->feed)
                        : tri__engine_lead(engine, TRI_ORDER_RUN, 0, m->feed));
        for (int part = 0; part < m->parts; part++) {
            probs[part] = calibrated(m, i, part, micro[part].n);
            if (m->sum) tri__mean_add(probs[part], micro[part].n * m->n_classes, m->sum + part * room);
        }
    }
    for (int part = 0; part < m->parts && m->sum; part++) {
        tri__mean_take(m->sum + part * room, micro[part].n * m->n_classes, m->n, m->probs + part * room);
        probs[part] = m->probs + part * room;
    }
    return TRI_OK;
}

void tri__members_close(tri_members *m) {
    for (int i = m->n - 1; i >= 0; i--)
        if (m->at[i].slot >= 0) tri__crew_drop(m->crew, m->at[i].slot, &m->at[i].opened);
        else tri__opened_close(&m->at[i].opened);
    TRI_FREE(m->at, m->feed, m->probs, m->sum);
    *m = (tri_members){0};
}
