/* model.c - a model as a value: an opened checkpoint, or those of an ensemble, the form of its rows, and a batcher over
 * the forward program. */
#include "serve/infer/model.h"

#include "serve/infer/batcher.h"
#include "serve/infer/encode.h"
#include "serve/infer/members.h"
#include "serve/infer/polite_work.h"

struct tri_model {
    tri_members members;
    const tri_opened *first; /* of them */
    tri_row_form form;
    tri_batching batching;   /* with the defaults resolved */
    tri_batcher *batcher;
    tri_drift *drift;
    tri_model_facts facts;
    const tri_column_stats **column; /* of the facts */
    char **names;            /* of the facts' labels */
};

/* What opening takes. */
typedef struct opening {
    tri_model *model;
    const tri_settings *asked;
    const tri_batching *batching;
    const tri_log *log;
} opening;

/* What one rank does alone. */
static tri_status read_model(const opening *a) {
    tri_model *m = a->model;
    TRI_TRY(tri__members_read(a->asked, a->batching ? a->batching->crew : NULL, &m->members));
    const tri_opened *o = m->first = &m->members.at[0].opened;
    TRI_TRY(tri__opened_positive(o, NULL, a->log, &m->facts.positive));
    TRI_TRY(tri__batching_resolve(a->batching, o, &m->batching));
    tri_windows windows = tri__assets_windows(&o->settings.model, &o->assets);
    TRI_TRY(tri__row_form_make(o->preprocess, o->assets.tokenizer, &windows, &m->form));
    m->form.outputs = m->members.n_classes;
    TRI_TRY(tri__drift_open(o, &m->members.decision, m->members.n, &m->drift));
    m->form.drift = m->drift;
    return TRI_OK;
}

static tri_status load_model(tri_model *m) { return tri__members_load(&m->members, &m->batching); }

/* Loading with a crew is not polite: other models of the crew wait meanwhile. */
static tri_status open_politely(void *context) {
    const opening *a = context;
    TRI_TRY(read_model(a));
    return a->model->members.crew ? TRI_OK : load_model(a->model);
}

static tri_status open_members(opening *a) {
    tri_polite_work work;
    if (!a->batching || !a->batching->polite) {
        TRI_TRY(read_model(a));
        return load_model(a->model);
    }
    tri__polite_begin(&work, open_politely, a);
    TRI_TRY(tri__polite_end(&work));
    return a->model->members.crew ? load_model(a->model) : TRI_OK;
}

static tri_status find_facts(tri_model *m) {
    const tri_opened *o = m->first;
    const tri_preprocess *p = o->preprocess;
    int n = 0;
    TRI_TRY(tri__output_names(o, &m->names));
    m->column = malloc(((size_t)p->n_columns + 1) * sizeof *m->column);
    if (!m->column) return tri__fail(TRI_RESOURCE, "out of memory");
    for (int c = 0; c < p->n_columns; c = tri__preprocess_next(p, c)) m->column[n++] = &p->column[c];
    m->facts = (tri_model_facts){.path = tri__checkpoint_path(o->checkpoint), .members = m->members.n,
                                 .step = tri__checkpoint_step(o->checkpoint),
                                 .precision = tri__settings_products(&o->settings), .device = o->settings.device,
                                 .max_len = m->form.max_len, .n_texts = m->form.n_texts, .n_columns = n,
                                 .n_classes = m->members.n_classes, .is_number = tri__preprocess_is_number(p),
                                 .attends = o->engine.model.shows_attention && o->engine.model.tokens,
                                 .separator = !p->separator || *p->separator ? p->separator : ";", .text = p->text,
                                 .column = m->column, .label = (const char *const *)m->names,
                                 .positive = m->facts.positive, .decision = &m->members.decision, .preprocess = p,
                                 .drift = m->drift};
    for (int i = 0; i < m->members.n; i++) {
        const tri_engine *engine = &m->members.at[i].opened.engine;
        m->facts.parameters += engine->model.n_elements, m->facts.bytes += tri__exec_bytes(engine->exec);
    }
    return TRI_OK;
}

/* tri_compute */
static tri_status run(void *context, const tri_micro *micro, const float **probs) {
    return tri__members_run(&((tri_model *)context)->members, micro, probs);
}

/* tri_batcher_spec.finish: the stacked head's answer, calibrated. */
static tri_status finish(void *context, const tri_encoded *rows, int64_t r, const float *computed, float *answer) {
    const tri_model *m = context;
    const tri_opened *o = m->first;
    const int32_t *ids[TRI_TEXTS_MAX];
    int64_t n[TRI_TEXTS_MAX];
    float made[TRI_STACK_CLASSES];
    for (int t = 0; t < m->form.n_texts; t++) n[t] = tri__encoded_ids(rows, r, t, &ids[t]);
    memcpy(made, computed, (size_t)o->preprocess->n_classes * sizeof *made);
    const tri_stack_row row = {made, rows->numbers + r * o->preprocess->width, ids, n};
    TRI_TRY(tri__stack_answer(o->stack, &row));
    if (m->facts.is_number) tri__output_rows(o, made, 1, answer);
    else memcpy(answer, made, (size_t)m->members.n_classes * sizeof *answer);
    if (!m->facts.is_number) tri__decision_apply(&o->decision, answer, 1, m->members.n_classes);
    return TRI_OK;
}

static tri_status start_batcher(tri_model *m) {
    const tri_engine *engine = &m->first->engine;
    const tri_micro_spec micro = {.n_texts = m->form.n_texts, .n_columns = m->form.preprocess->width,
                                  .rows = m->batching.max_batch_rows, .windows = m->form.windows,
                                  .granule = tri__plan_granule(&engine->in), .words = engine->model.n_targets,
                                  .fused = engine->model.tokens};
    tri_batcher_spec spec = {.max_tokens = m->batching.max_batch_tokens, .max_rows = m->batching.max_batch_rows,
                             .parts = m->members.parts, .micro = micro,
                             .n_classes = m->members.n_classes, .queue_rows = m->batching.queue_rows,
                             .max_wait = m->batching.max_wait, .compute = run, .context = m, .drift = m->drift};
    const tri_counts max = tri__batching_counts(&m->batching, m->first);
    for (int t = 0; t < engine->model.n_encoders; t++) {
        spec.micro.tokens[t] = tri__batching_tokens(&m->batching, m->first);
        spec.micro.sequences[t] = max.of[TRI_SYM_W0 + t];
        spec.micro.position_base[t] = tri__encoder_position_base(&engine->model.encoder[t]);
        spec.micro.capacity[t] = tri__encoder_capacity(&engine->model.encoder[t]);
    }
    if (m->first->stack) spec.finish = finish, spec.n_computed = m->form.preprocess->n_classes;
    return tri__batcher_open(&spec, &m->batcher);
}

tri_status tri__model_open(const tri_settings *asked, const tri_batching *batching, const tri_log *log,
                           tri_model **out) {
    *out = NULL;
    tri_model *m = calloc(1, sizeof *m);
    if (!m) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = open_members(&(opening){m, asked, batching, log});
    if (status == TRI_OK) status = find_facts(m);
    if (status == TRI_OK) status = start_batcher(m);
    if (status == TRI_OK) *out = m;
    else tri__model_close(m);
    return status;
}

void tri__model_close(tri_model *m) {
    if (!m) return;
    tri__batcher_close(m->batcher);
    tri__row_form_free(&m->form);
    tri__drift_close(m->drift);
    for (int c = 0; m->names && c < m->members.n_classes; c++) free(m->names[c]);
    tri__members_close(&m->members);
    TRI_FREE(m->column, m->names, m);
}

const tri_model_facts *tri__model_facts(const tri_model *m) { return &m->facts; }

const char *tri__model_column(const tri_model *m, int index) {
    return index >= 0 && index < m->form.n_names ? m->form.name[index] : NULL;
}

tri_status tri__model_encode(const tri_model *m, const tri_row *rows, int64_t n, tri_overlong overlong,
                             tri_encoded **out) {
    return tri__row_form_encode(&m->form, rows, n, 0, overlong, out);
}

tri_status tri__model_submit(tri_model *m, tri_encoded *encoded, tri_answered *answered, void *context) {
    return tri__batcher_submit(m->batcher, encoded, answered, context, 0);
}

void tri__model_load(const tri_model *m, tri_model_load *out) { tri__batcher_load(m->batcher, out); }

/* A call of tri__model_predict: two parts of its rows at a time, one computed while the next is encoded. */
typedef struct part {
    struct call *call;
    int busy;
    float *probs;            /* [rows of the part, classes] */
    size_t count;            /* of its elements */
} part;

typedef struct call {
    pthread_mutex_t lock;    /* guards all below, and parts */
    pthread_cond_t changed;
    tri_status status;       /* the first failure */
    tri_words why;
    part part[2];
} call;

/* tri_answered */
static void take_answer(void *context, const tri_answer *answer) {
    part *p = context;
    call *c = p->call;
    if (answer->status == TRI_OK) memcpy(p->probs, answer->probs, p->count * sizeof *p->probs);
    TRI_LOCKED(&c->lock);
    if (answer->status != TRI_OK && c->status == TRI_OK) {
        c->status = answer->status;
        snprintf(c->why.text, sizeof c->why.text, "%s", answer->error);
    }
    p->busy = 0;
    pthread_cond_signal(&c->changed);
}

/* Waits until the part is not busy; the call's status. */
static tri_status wait_part(call *c, const part *p) {
    TRI_LOCKED(&c->lock);
    while (p->busy) pthread_cond_wait(&c->changed, &c->lock);
    return c->status == TRI_OK ? TRI_OK : tri__fail(c->status, "%s", c->why.text);
}

/* Encodes and submits rows [at, at + n) of a call. */
static tri_status submit_part(tri_model *m, part *p, const tri_row *rows, int64_t at, int64_t n, float *probs) {
    tri_encoded *encoded;
    size_t classes = (size_t)m->facts.n_classes;
    TRI_TRY(tri__row_form_encode(&m->form, rows + at, n, at, TRI_OVERLONG_TRUNCATE, &encoded));
    p->probs = probs + (size_t)at * classes, p->count = (size_t)n * classes, p->busy = 1;
    tri_status status = tri__batcher_submit(m->batcher, encoded, take_answer, p, 1);
    if (status == TRI_OK) return TRI_OK;
    p->busy = 0;
    tri__encoded_free(encoded);
    return status;
}

tri_status tri__model_predict(tri_model *m, const tri_row *rows, int64_t n, float *probs) {
    call c = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    int64_t most = m->batching.max_batch_rows < m->batching.queue_rows ? m->batching.max_batch_rows
                                                                       : m->batching.queue_rows;
    tri_status status = TRI_OK;
    c.part[0].call = c.part[1].call = &c;
    for (int64_t at = 0, k = 0; at < n && status == TRI_OK; at += most, k = !k) {
        status = wait_part(&c, &c.part[k]);
        if (status == TRI_OK) status = submit_part(m, &c.part[k], rows, at, n - at < most ? n - at : most, probs);
    }
    tri_words why;
    tri__words_keep(&why);
    for (int k = 0; k < 2; k++) {
        tri_status last = wait_part(&c, &c.part[k]);
        if (status == TRI_OK) status = last;
        else tri__words_restore(&why);
    }
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.lock);
    return status;
}

/* Adds what the first of n tokens attends to: qkv [n, 3 * heads * d]. */
static void add_attention(const float *qkv, int n, int64_t heads, int64_t d, double share, float *out) {
    int64_t H = heads * d;
    for (int64_t h = 0; h < heads; h++) {
        const float *q = qkv + h * d;
        double most = -INFINITY, sum = 0;
        for (int pass = 0; pass < 3; pass++)
            for (int t = 0; t < n; t++) {
                const float *k = q + (3 * t + 1) * H;
                double score = 0;
                for (int64_t i = 0; i < d; i++) score += (double)q[i] * (double)k[i];
                score /= sqrt((double)d);
                if (pass == 0) most = fmax(most, score);
                else if (pass == 1) sum += exp(score - most);
                else out[t] += (float)(share * exp(score - most) / sum);
            }
    }
}

void tri__model_attention(const tri_model *m, float *out) {
    memset(out, 0, (size_t)m->first->engine.model.tokens * sizeof *out);
    for (int i = 0; i < m->members.n; i++) {
        const tri_engine *engine = &m->members.at[i].opened.engine;
        const tri_network *net = &engine->model;
        int slot = tri__program_find(engine->plan.infer.program, TRI_ATTENTION_SLOT);
        add_attention(tri__exec_slot(engine->exec, engine->infer, slot), net->tokens, net->fusion_heads,
                      net->common / net->fusion_heads, 1.0 / (double)(net->fusion_heads * m->members.n), out);
    }
}
