/* model.c - a model as a value: an opened checkpoint, or those of an ensemble, the form of its rows, and a batcher over
 * the forward program. */
#include "serve/infer/model.h"

#include "engine/evaluate.h"
#include "engine/server_ranks.h"
#include "serve/infer/batcher.h"
#include "serve/infer/crew.h"
#include "serve/infer/encode.h"
#include "serve/infer/members.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct tri_model {
    tri_opened opened;
    tri_row_form form;
    tri_batching batching;   /* with the defaults resolved */
    tri_crew *crew;          /* the other ranks; NULL: none */
    int slot;                /* of the crew; -1: none */
    tri_members members;     /* of an ensemble, without the first, which `opened` is */
    int parts;               /* microbatches of a batch */
    tri_feed *feed;          /* [parts] */
    float *probs;            /* [parts, max_batch_rows, classes] calibrated; NULL: they stay the engine's */
    tri_batcher *batcher;
    tri_model_facts facts;
    void *lists;             /* arrays of the facts */
};

/* The checkpoint, or those of an ensemble. */
static tri_status read_members(tri_model *m, const tri_settings *asked) {
    tri_settings one = *asked; /* borrows its texts */
    tri_run_set ensemble;
    TRI_TRY(tri__ensemble_read(asked->checkpoint, &ensemble));
    if (ensemble.n) one.checkpoint = ensemble.folder[0];
    tri_status status = tri__opened_read(&one, m->crew ? tri__crew_world(m->crew) : NULL, &m->opened);
    if (status == TRI_OK) status = tri__members_read(&ensemble, asked, m->crew, &m->opened, &m->members);
    tri__run_set_free(&ensemble);
    return status;
}

/* What one rank does alone. */
static tri_status read_model(tri_model *m, const tri_settings *asked, const tri_batching *batching,
                             const tri_log *log) {
    tri_opened *o = &m->opened;
    TRI_TRY(read_members(m, asked));
    TRI_TRY(tri__opened_positive(o, NULL, log, &m->facts.positive));
    TRI_TRY(tri__batching_resolve(batching, o, &m->batching));
    tri_windows windows = tri__assets_windows(&o->settings.model, &o->assets);
    return tri__row_form_make(o->preprocess, o->assets.tokenizer, &windows, &m->form);
}

static tri_status load_model(tri_model *m) {
    tri_counts max = tri__batching_counts(&m->batching, &m->opened);
    TRI_TRY(m->crew ? tri__crew_add(m->crew, &m->opened, &m->batching, &m->slot)
                    : tri__opened_load(&m->opened, &max, 0));
    return tri__members_load(&m->members, m->crew, &m->batching);
}

/* An opening on a thread of its own, which has a lower priority: a thread may not raise it again. */
typedef struct opening {
    tri_model *model;
    const tri_settings *asked;
    const tri_batching *batching;
    const tri_log *log;
    tri_status status;
    tri_words why;
} opening;

static void *open_politely(void *context) {
    opening *a = context;
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + TRI_POLITE); /* of this thread, in Linux */
    a->status = read_model(a->model, a->asked, a->batching, a->log);
    if (a->status == TRI_OK && !a->model->crew) a->status = load_model(a->model);
    tri__words_keep(&a->why);
    return NULL;
}

static tri_status open_aside(tri_model *m, const tri_settings *asked, const tri_batching *batching,
                             const tri_log *log) {
    opening a = {.model = m, .asked = asked, .batching = batching, .log = log};
    pthread_t thread;
    if (pthread_create(&thread, NULL, open_politely, &a))
        return tri__fail(TRI_RESOURCE, "cannot start a thread to open a model");
    pthread_join(thread, NULL);
    if (a.status != TRI_OK) return tri__fail(a.status, "%s", a.why.text);
    return m->crew ? load_model(m) : TRI_OK; /* other models of the crew wait meanwhile */
}

static tri_status open_here(tri_model *m, const tri_settings *asked, const tri_batching *batching,
                            const tri_log *log) {
    TRI_TRY(read_model(m, asked, batching, log));
    return load_model(m);
}

static tri_status find_facts(tri_model *m) {
    const tri_opened *o = &m->opened;
    const tri_preprocess *p = o->preprocess;
    size_t columns = (size_t)p->n_columns;
    m->lists = malloc(columns * (sizeof(char *) + sizeof(char **) + sizeof(void *) + sizeof(int)) + 1);
    if (!m->lists) return tri__fail(TRI_RESOURCE, "out of memory");
    const char **name = m->lists;
    const char *const **category = (const char *const **)(name + columns);
    const tri_value_form **form = (const tri_value_form **)(category + columns);
    int *n_categories = (int *)(form + columns);
    int n = 0;
    for (int c = 0; c < p->n_columns; c = tri__preprocess_next(p, c), n++) {
        name[n] = p->column[c].name;
        category[n] = (const char *const *)p->column[c].category;
        n_categories[n] = p->column[c].n_categories;
        form[n] = &p->column[c].read_as;
    }
    m->facts = (tri_model_facts){.path = tri__checkpoint_path(o->checkpoint),
                                 .members = m->members.n + 1,
                                 .step = tri__checkpoint_step(o->checkpoint),
                                 .precision = tri__settings_products(&o->settings),
                                 .device = o->settings.device,
                                 .max_len = m->form.max_len,
                                 .n_texts = m->form.n_texts,
                                 .n_columns = n,
                                 .n_classes = p->n_classes,
                                 .column = name,
                                 .category = category,
                                 .n_categories = n_categories,
                                 .form = form,
                                 .label = (const char *const *)p->label,
                                 .positive = m->facts.positive,
                                 .decision = m->members.n ? &m->members.decision : &m->opened.decision,
                                 .parameters = o->engine.model.n_elements,
                                 .bytes = tri__exec_bytes(o->engine.exec)};
    for (int i = 0; i < m->members.n; i++) {
        const tri_engine *engine = &m->members.at[i].opened.engine;
        m->facts.parameters += engine->model.n_elements, m->facts.bytes += tri__exec_bytes(engine->exec);
    }
    for (int t = 0; t < m->form.n_texts; t++) {
        m->facts.text[t] = (const char *const *)p->text[t].at;
        m->facts.n_text_columns[t] = p->text[t].n;
    }
    return TRI_OK;
}

/* The probabilities of a part [rows, classes], calibrated. */
static const float *probs_of(tri_model *m, int part, int64_t rows) {
    const float *from = tri__infer_probs(&m->opened.engine, part);
    int classes = m->facts.n_classes;
    if (!m->probs) return from;
    float *to = m->probs + part * m->batching.max_batch_rows * classes;
    memcpy(to, from, (size_t)(rows * classes) * sizeof *to);
    tri__decision_apply(&m->opened.decision, to, rows, classes);
    return to;
}

/* tri_compute */
static tri_status run(void *context, const tri_micro *micro, const float **probs) {
    static const double inv = 1;
    tri_model *m = context;
    tri_engine *engine = &m->opened.engine;
    for (int part = 0; part < m->parts; part++) tri__feed(&micro[part], engine, &inv, NULL, &m->feed[part]);
    TRI_TRY(m->crew ? tri__crew_run(m->crew, m->slot, m->feed)
                    : tri__engine_lead(engine, TRI_ORDER_RUN, 0, m->feed));
    for (int part = 0; part < m->parts; part++) probs[part] = probs_of(m, part, micro[part].n);
    return tri__members_run(&m->members, m->crew, micro, m->feed, probs);
}

static tri_status start_batcher(tri_model *m) {
    const tri_engine *engine = &m->opened.engine;
    m->parts = tri__batching_parts(&m->opened);
    m->feed = calloc((size_t)m->parts, sizeof *m->feed);
    int calibrated = m->opened.decision.temperature != 1;
    if (calibrated)
        m->probs = malloc((size_t)(m->parts * m->batching.max_batch_rows * m->facts.n_classes) * sizeof *m->probs);
    if (!m->feed || (calibrated && !m->probs)) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_batcher_spec spec = {.max_tokens = m->batching.max_batch_tokens,
                             .max_rows = m->batching.max_batch_rows,
                             .parts = m->parts,
                             .micro = {.n_texts = m->form.n_texts,
                                       .n_columns = m->form.preprocess->width,
                                       .rows = m->batching.max_batch_rows,
                                       .windows = m->form.windows,
                                       .granule = tri__plan_granule(&engine->in)},
                             .n_classes = engine->model.n_classes,
                             .queue_rows = m->batching.queue_rows,
                             .max_wait = m->batching.max_wait,
                             .compute = run,
                             .context = m};
    const tri_counts max = tri__batching_counts(&m->batching, &m->opened);
    for (int t = 0; t < m->form.n_texts; t++) {
        spec.micro.tokens[t] = tri__batching_tokens(&m->batching, &m->opened);
        spec.micro.sequences[t] = max.of[TRI_SYM_W0 + t];
        spec.micro.position_base[t] = tri__encoder_position_base(&engine->model.encoder[t]);
        spec.micro.capacity[t] = tri__encoder_capacity(&engine->model.encoder[t]);
    }
    return tri__batcher_open(&spec, &m->batcher);
}

tri_status tri__model_open(const tri_settings *asked, const tri_batching *batching, const tri_log *log,
                           tri_model **out) {
    *out = NULL;
    tri_model *m = calloc(1, sizeof *m);
    if (!m) return tri__fail(TRI_RESOURCE, "out of memory");
    m->crew = batching ? batching->crew : NULL;
    m->slot = -1;
    tri_status status = batching && batching->polite ? open_aside(m, asked, batching, log)
                                                     : open_here(m, asked, batching, log);
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
    free(m->lists);
    tri__members_close(&m->members, m->crew);
    if (m->slot >= 0) tri__crew_drop(m->crew, m->slot, &m->opened);
    else tri__opened_close(&m->opened);
    free(m->feed);
    free(m->probs);
    free(m);
}

const tri_model_facts *tri__model_facts(const tri_model *m) { return &m->facts; }

const tri_preprocess *tri__model_preprocess(const tri_model *m) { return m->opened.preprocess; }

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
    pthread_mutex_lock(&c->lock);
    if (answer->status != TRI_OK && c->status == TRI_OK) {
        c->status = answer->status;
        snprintf(c->why.text, sizeof c->why.text, "%s", answer->error);
    }
    p->busy = 0;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* Waits until the part is not busy; the call's status. */
static tri_status wait_part(call *c, const part *p) {
    pthread_mutex_lock(&c->lock);
    while (p->busy) pthread_cond_wait(&c->changed, &c->lock);
    tri_status status = c->status;
    pthread_mutex_unlock(&c->lock);
    return status == TRI_OK ? TRI_OK : tri__fail(status, "%s", c->why.text);
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
