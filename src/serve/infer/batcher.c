/* batcher.c - the queue is a list through the submissions themselves, so that nothing is allocated after opening. Only
 * the batcher's thread takes rows out of it; it packs, computes and answers without holding the lock. */
#include "serve/infer/batcher.h"

#include "base/thread.h"
#include "serve/infer/encode.h"

/* What the batcher's thread waits for; closing ends all. */
typedef enum wait_kind { WAITS_NOT, WAITS_ROWS, WAITS_FULL } wait_kind;

/* Rows of a submission in a batch. */
typedef struct span {
    tri_encoded *of;
    int64_t first, n;
} span;

struct tri_batcher {
    tri_batcher_spec spec;
    tri_micro *micro;             /* [parts] the batch, packed */
    const float **probs;          /* [parts] */
    char *block;                  /* the arrays of all parts */
    int64_t batch_rows, batch_tokens;
    span *spans;                  /* [max_rows + 1] of the batch; the last is scratch */
    int n_spans;
    pthread_t thread;
    int started;
    pthread_mutex_t lock;         /* guards all below */
    pthread_cond_t filled, freed; /* rows were added, or it is closing; rows were taken */
    tri_encoded *first, **end;    /* the queue; end: where the next one is linked */
    int64_t rows, tokens;         /* that wait in it */
    int64_t partial;              /* submissions in it of which rows were taken already */
    int64_t running;              /* rows of the batch that is computed */
    int closing;
    wait_kind waits;              /* the thread's */
};

static void append(tri_batcher *b, tri_encoded *e) {
    e->next = NULL, *b->end = e, b->end = &e->next;
}

static tri_encoded *pop(tri_batcher *b) {
    tri_encoded *e = b->first;
    b->first = e->next;
    if (!b->first) b->end = &b->first;
    return e;
}

static void push_back(tri_batcher *b, tri_encoded *e) {
    e->next = b->first;
    if (!b->first) b->end = &e->next;
    b->first = e;
}

/* Tokens of row r, of all texts. */
static int64_t row_tokens(const tri_encoded *e, int64_t r) { return e->tokens_to[r + 1] - e->tokens_to[r]; }

/* Takes the next batch's rows out of the queue. Called with the lock held. */
static void take(tri_batcher *b) {
    int64_t rows = 0, tokens = 0;
    int full = 0;
    b->n_spans = 0;
    while (b->first && !full) {
        tri_encoded *e = pop(b);
        span *s = &b->spans[b->n_spans];
        *s = (span){e, e->taken, 0};
        b->partial -= e->taken > 0;
        for (; e->taken < e->n; e->taken++, s->n++, rows++) {
            int64_t more = row_tokens(e, e->taken);
            full = rows == b->spec.max_rows || tokens + more > b->spec.max_tokens;
            if (full) break;
            tokens += more;
        }
        b->n_spans += s->n > 0;
        if (e->taken == e->n) continue;
        if (s->n > 0) append(b, e);
        else push_back(b, e); /* its turn is next: it always advances */
        b->partial += e->taken > 0;
    }
    b->rows -= rows, b->tokens -= tokens, b->running = b->batch_rows = rows, b->batch_tokens = tokens;
    pthread_cond_broadcast(&b->freed);
}

int64_t tri__part_tokens(int64_t max_tokens, int parts, int64_t row_tokens) {
    return parts == 1 ? max_tokens : (max_tokens + parts - 1) / parts + row_tokens;
}

static void pack_row(const tri_micro_spec *spec, tri_micro *micro, const tri_encoded *e, int64_t r, int64_t row) {
    for (int t = 0; t < spec->n_texts; t++) {
        const int32_t *ids;
        int length = tri__encoded_ids(e, r, t, &ids);
        memcpy(tri__micro_ids(spec, micro, t, length), ids, (size_t)length * sizeof *ids);
        tri__micro_text(spec, micro, t, length, row);
    }
    if (spec->n_columns)
        memcpy(tri__micro_numbers(spec, micro), e->numbers + r * spec->n_columns,
               (size_t)spec->n_columns * sizeof(float));
    tri__micro_row(spec, micro, row, NULL);
}

/* Rows in their order: a part is full when it has its share of the tokens. All parts are then full at the last row. */
static void pack(tri_batcher *b) {
    const tri_micro_spec *spec = &b->spec.micro;
    int64_t share = (b->batch_tokens + b->spec.parts - 1) / b->spec.parts, row = 0;
    tri_micro *micro = b->micro;
    for (int p = 0; p < b->spec.parts; p++) tri__micro_clear(spec, &b->micro[p]);
    for (int i = 0; i < b->n_spans; i++) {
        const span *s = &b->spans[i];
        for (int64_t r = s->first; r < s->first + s->n; r++) {
            int64_t tokens = 0;
            for (int t = 0; t < spec->n_texts; t++) tokens += micro->tokens[t];
            if (tokens >= share) micro++;
            pack_row(spec, micro, s->of, r, row++);
        }
    }
    for (int p = 0; p < b->spec.parts; p++) tri__micro_pad(spec, &b->micro[p]);
}

/* Answers a submission and frees it. */
static void answer(const tri_batcher *b, tri_encoded *e, tri_status status, const char *error, double now) {
    int good = status == TRI_OK;
    tri_answer a = {.status = status, .error = good ? "" : error, .probs = good ? e->probs : NULL,
                    .queued = e->begun - e->since, .computed = now - e->begun, .batch_rows = b->batch_rows,
                    .batch_tokens = b->batch_tokens};
    if (good && b->spec.drift) tri__drift_add(b->spec.drift, e);
    e->answered(e->context, &a);
    tri__encoded_free(e);
}

/* Removes the rest of a failed submission. */
static void unlink_rest(tri_batcher *b, const tri_encoded *e) {
    TRI_LOCKED(&b->lock);
    tri_encoded **at = &b->first;
    while (*at && *at != e) at = &(*at)->next;
    if (!*at) return;
    *at = e->next;
    if (!*at) b->end = at;
    b->rows -= e->n - e->taken, b->tokens -= e->tokens - e->tokens_to[e->taken], b->partial--;
    pthread_cond_broadcast(&b->freed);
}

/* A row's probabilities, from the next row of the parts. Finite weights may be so large that they are not. */
static tri_status take_row(tri_batcher *b, int *part, int64_t *at, const tri_encoded *e, int64_t r) {
    float *out = e->probs + r * b->spec.n_classes;
    while (*at == b->micro[*part].n) ++*part, *at = 0;
    const float *probs = b->probs[*part] + (*at)++ * b->spec.n_computed;
    tri_status status = TRI_OK;
    if (b->spec.finish) status = b->spec.finish(b->spec.context, e, r, probs, out);
    else memcpy(out, probs, (size_t)b->spec.n_classes * sizeof *out);
    for (int64_t i = 0; i < b->spec.n_classes && status == TRI_OK; i++)
        if (!isfinite(out[i])) status = tri__fail(TRI_NOTFINITE, "a probability is not finite");
    return status;
}

/* Gives each submission its rows' probabilities, and answers those that are complete or failed. */
static void give(tri_batcher *b, tri_status status) {
    double now = tri__clock();
    int part = 0;
    int64_t at = 0;
    tri_words why = {0}; /* a callback may record failures of its own */
    if (status != TRI_OK) tri__words_keep(&why);
    for (int i = 0; i < b->n_spans; i++) {
        const span *s = &b->spans[i];
        tri_encoded *e = s->of;
        tri_status here = status;
        for (int64_t r = s->first; r < s->first + s->n && status == TRI_OK; r++) {
            tri_status row = take_row(b, &part, &at, e, r);
            if (row != TRI_OK) here = row, tri__words_keep(&why);
        }
        e->done += s->n;
        if (here != TRI_OK && e->done < e->n) unlink_rest(b, e);
        if (here != TRI_OK || e->done == e->n) answer(b, e, here, why.text, now);
    }
}

static void compute(tri_batcher *b) {
    double now = tri__clock();
    for (int i = 0; i < b->n_spans; i++)
        if (b->spans[i].first == 0) b->spans[i].of->begun = now;
    pack(b);
    give(b, b->spec.compute(b->spec.context, b->micro, b->probs));
}

static int is_full(const tri_batcher *b) { return b->rows >= b->spec.max_rows || b->tokens >= b->spec.max_tokens; }

/* Waits for rows, and then until the batch is full or its first row has waited long enough. 0: closed, and nothing
 * waits. Called with the lock held. */
static int wait_for_batch(tri_batcher *b) {
    while (!b->first && !b->closing) {
        b->waits = WAITS_ROWS;
        pthread_cond_wait(&b->filled, &b->lock);
    }
    while (b->first && !b->closing && !b->partial && !is_full(b)) {
        double until = b->first->since + b->spec.max_wait;
        if (tri__clock() >= until) break;
        struct timespec at = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - floor(until)) * 1e9)};
        b->waits = WAITS_FULL;
        (void)pthread_cond_timedwait(&b->filled, &b->lock, &at);
    }
    b->waits = WAITS_NOT;
    return b->first != NULL;
}

static void *work(void *context) {
    tri_batcher *b = context;
    pthread_mutex_lock(&b->lock);
    while (wait_for_batch(b)) {
        take(b);
        pthread_mutex_unlock(&b->lock);
        compute(b);
        pthread_mutex_lock(&b->lock);
        b->running = 0;
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Carves out the arrays of all parts; returns their bytes. */
static size_t lay_out(tri_batcher *b, char *base) {
    size_t at = 0, parts = (size_t)b->spec.parts;
    b->micro = tri__carve(base, &at, parts * sizeof *b->micro);
    b->probs = tri__carve(base, &at, parts * sizeof *b->probs);
    for (int p = 0; p < b->spec.parts; p++) tri__micro_carve(&b->spec.micro, base, &at, base ? &b->micro[p] : NULL);
    return at;
}

static void drop(tri_batcher **at) { tri__batcher_close(*at); }

tri_status tri__batcher_open(const tri_batcher_spec *spec, tri_batcher **out) {
    *out = NULL;
    TRI_OWNED(drop) tri_batcher *b = calloc(1, sizeof *b);
    if (!b) return tri__fail(TRI_RESOURCE, "out of memory");
    b->spec = *spec;
    if (!spec->n_computed) b->spec.n_computed = spec->n_classes;
    b->end = &b->first;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* tri__clock's */
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->filled, &monotonic);
    pthread_cond_init(&b->freed, NULL);
    pthread_condattr_destroy(&monotonic);
    size_t bytes = lay_out(b, NULL);
    b->spans = malloc(((size_t)spec->max_rows + 1) * sizeof *b->spans);
    if (!b->spans || posix_memalign((void **)&b->block, 64, bytes) != 0) {
        b->block = NULL;
        return tri__fail(TRI_RESOURCE, "out of memory: a batch takes %zu bytes; take fewer tokens", bytes);
    }
    (void)lay_out(b, b->block);
    int failed = tri__thread_start(&b->thread, work, b);
    b->started = !failed;
    if (failed) return tri__fail(TRI_RESOURCE, "cannot start the model's thread: %s", strerror(failed));
    *out = TRI_GIVE(b);
    return TRI_OK;
}

void tri__batcher_close(tri_batcher *b) {
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->closing = 1;
    pthread_cond_broadcast(&b->filled);
    pthread_cond_broadcast(&b->freed);
    pthread_mutex_unlock(&b->lock);
    if (b->started) pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->freed);
    pthread_cond_destroy(&b->filled);
    pthread_mutex_destroy(&b->lock);
    TRI_FREE(b->block, b->spans, b);
}

/* Whether n rows may be added; with the lock held. */
static tri_status admit(tri_batcher *b, int64_t n, int wait) {
    long long most = b->spec.queue_rows;
    if (n > most) return tri__fail(TRI_USAGE, "%lld rows at once; at most %lld may wait", (long long)n, most);
    while (wait && !b->closing && b->rows + n > most) pthread_cond_wait(&b->freed, &b->lock);
    if (b->closing) return tri__fail(TRI_STOPPED, "the model is being closed");
    if (b->rows + n <= most) return TRI_OK;
    return tri__fail(TRI_BUSY, "%lld rows wait already; at most %lld may", (long long)b->rows, most);
}

tri_status tri__batcher_submit(tri_batcher *b, tri_encoded *e, tri_answered *answered, void *context, int wait) {
    e->answered = answered, e->context = context, e->taken = e->done = 0, e->since = tri__clock();
    pthread_mutex_lock(&b->lock);
    tri_status status = admit(b, e->n, wait);
    int wake = 0;
    if (status == TRI_OK) {
        append(b, e);
        b->rows += e->n, b->tokens += e->tokens;
        wake = b->waits == WAITS_ROWS || (b->waits == WAITS_FULL && is_full(b));
        if (wake) b->waits = WAITS_NOT;
    }
    pthread_mutex_unlock(&b->lock);
    if (wake) pthread_cond_signal(&b->filled); /* not before: the thread would wake only to wait for the lock */
    return status;
}

void tri__batcher_load(tri_batcher *b, tri_model_load *out) {
    TRI_LOCKED(&b->lock);
    *out = (tri_model_load){.queued_rows = b->rows, .running_rows = b->running};
}
