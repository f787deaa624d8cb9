/* test_batcher.c - the queue of encoded rows, with a computation that a test can hold back or let fail: every row gets
 * its own answer whatever it is batched with; batches keep to their limits; full, closing and failing are told apart;
 * a large submission does not keep a small one waiting. */
#include "tests/lib/test.h"
#include "tests/lib/allocations.h"

#include "base/clock.h"
#include "base/random.h"
#include "serve/infer/batcher.h"
#include "serve/infer/encode.h"

#include <math.h>
#include <pthread.h>

enum { TEXTS = 2, WIDTH = 3, CLASSES = 2, ROWS = 8, TOKENS = 64, QUEUE = 200, PARTS = 3 };

/* What the computation does. */
typedef struct fake {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int held;               /* computations wait while it is set */
    int begun;              /* batches */
    int fail_at;            /* the batch that fails, from 1; 0: none */
    int wrong;              /* batches that break a rule */
    int64_t most_rows, most_tokens;
    int parts;
    float probs[PARTS][ROWS * CLASSES];
} fake;

/* A row's first probability, from everything that it consists of; its second is 1 minus it. */
static float value_of(const int32_t *ids0, int64_t n0, const int32_t *ids1, int64_t n1, const float *numbers) {
    uint32_t hash = (uint32_t)(n0 * 31 + n1);
    for (int64_t i = 0; i < n0; i++) hash = hash * 16777619u ^ (uint32_t)ids0[i];
    for (int64_t i = 0; i < n1; i++) hash = hash * 16777619u ^ (uint32_t)ids1[i] ^ 7u;
    for (int i = 0; i < WIDTH; i++) hash = hash * 16777619u ^ (uint32_t)(int)numbers[i];
    return numbers[0] < 0 ? NAN : (float)(hash >> 8) / 16777216.0f;
}

static int check_micro(const tri_micro *m) {
    int good = m->n >= 0 && m->n <= ROWS;
    for (int t = 0; t < TEXTS; t++) {
        good = good && m->seq[t][0] == 0 && m->seq[t][m->n] == m->tokens[t];
        for (int64_t r = 0; r < m->n && good; r++)
            for (int32_t i = m->seq[t][r]; i < m->seq[t][r + 1]; i++) good = good && m->pos[t][i] == i - m->seq[t][r];
    }
    return good;
}

static void compute_part(const tri_micro *m, float *probs) {
    for (int64_t r = 0; r < m->n; r++) {
        const int32_t *seq0 = m->seq[0] + r, *seq1 = m->seq[1] + r;
        probs[r * CLASSES] = value_of(m->ids[0] + seq0[0], seq0[1] - seq0[0], m->ids[1] + seq1[0], seq1[1] - seq1[0],
                                      m->numbers + r * WIDTH);
        probs[r * CLASSES + 1] = 1 - probs[r * CLASSES];
    }
}

static tri_status compute(void *context, const tri_micro *m, const float **probs) {
    fake *f = context;
    int64_t rows = 0, tokens = 0;
    pthread_mutex_lock(&f->lock);
    int number = ++f->begun;
    pthread_cond_broadcast(&f->changed);
    while (f->held) pthread_cond_wait(&f->changed, &f->lock);
    for (int p = 0; p < f->parts; p++) {
        f->wrong += !check_micro(&m[p]);
        rows += m[p].n, tokens += m[p].tokens[0] + m[p].tokens[1];
    }
    f->wrong += rows < 1 || rows > ROWS || tokens > TOKENS;
    if (rows > f->most_rows) f->most_rows = rows;
    if (tokens > f->most_tokens) f->most_tokens = tokens;
    int fails = number == f->fail_at;
    pthread_mutex_unlock(&f->lock);
    if (fails) return tri__fail(TRI_IO, "batch %d is lost", number);
    for (int p = 0; p < f->parts; p++) {
        compute_part(&m[p], f->probs[p]);
        probs[p] = f->probs[p];
    }
    return TRI_OK;
}

static void hold(fake *f, int held) {
    pthread_mutex_lock(&f->lock);
    f->held = held;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

/* Waits until `n` batches have begun. */
static void await_begun(fake *f, int n) {
    pthread_mutex_lock(&f->lock);
    while (f->begun < n) pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

static fake *make_fake(void) {
    fake *f = calloc(1, sizeof *f);
    assert_non_null(f);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    return f;
}

static tri_batcher *open_parts(fake *f, double max_wait, int parts) {
    tri_batcher *b;
    int64_t tokens = tri__part_tokens(TOKENS, parts, TOKENS);
    tri_batcher_spec spec = {
        .max_tokens = TOKENS,
        .max_rows = ROWS,
        .micro = {.n_texts = TEXTS, .n_columns = WIDTH, .rows = ROWS,
                  .tokens = {tokens, tokens}, .granule = 4},
        .parts = parts,
        .n_classes = CLASSES,
        .queue_rows = QUEUE,
        .max_wait = max_wait,
        .compute = compute,
        .context = f};
    f->parts = parts;
    if (tri__batcher_open(&spec, &b) != TRI_OK) fail_msg("%s", tri_error());
    return b;
}

static tri_batcher *open_batcher(fake *f, double max_wait) { return open_parts(f, max_wait, 1); }

static void close_all(fake *f, tri_batcher *b) {
    tri__batcher_close(b);
    assert_int_equal(f->wrong, 0);
    free(f);
}

/* From start, which has a text's tokens as they are: no windows. */
static void count_tokens(tri_encoded *e) {
    for (int64_t r = 0; r <= e->n; r++) e->tokens_to[r] = e->start[r * TEXTS];
    e->tokens = e->tokens_to[e->n];
}

/* Rows of 1 to `longest` tokens in each text. */
static tri_encoded *make_rows(int64_t n, int longest, uint32_t seed) {
    size_t starts = (size_t)n * TEXTS + 1;
    tri_encoded *e = malloc(sizeof *e + (starts + (size_t)n + 1) * sizeof *e->start +
                            (size_t)n * (WIDTH + CLASSES) * sizeof(float));
    *e = (tri_encoded){.n = n, .n_texts = TEXTS, .start = (int64_t *)(e + 1)};
    e->tokens_to = e->start + starts;
    e->numbers = (float *)(e->tokens_to + n + 1);
    e->probs = e->numbers + n * WIDTH;
    e->ids = malloc((size_t)(n * TEXTS * longest) * sizeof *e->ids);
    e->start[0] = 0;
    for (int64_t k = 0; k < n * TEXTS; k++) {
        tri_random r = tri__philox(seed, 3, (uint32_t)k, 0, 0, 0);
        int length = 1 + (int)(r.word[0] % (uint32_t)longest);
        for (int i = 0; i < length; i++) e->ids[e->tokens + i] = (int32_t)(r.word[1] % 5000) + i;
        e->tokens += length;
        e->start[k + 1] = e->tokens;
    }
    count_tokens(e);
    for (int64_t i = 0; i < n * WIDTH; i++) e->numbers[i] = (float)(i + seed % 97);
    return e;
}

/* A submission and what it should get. */
typedef struct asked {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int answers;
    tri_status status;
    char error[64];
    int64_t n, batch_rows;
    float want[QUEUE];      /* of each row */
    int wrong;              /* answers that are not the row's */
    double at, queued;
} asked;

static void take(void *context, const tri_answer *answer) {
    asked *a = context;
    pthread_mutex_lock(&a->lock);
    a->answers++;
    a->status = answer->status;
    strncpy(a->error, answer->error, sizeof a->error - 1);
    a->batch_rows = answer->batch_rows;
    a->at = tri__clock(), a->queued = answer->queued;
    for (int64_t r = 0; r < a->n && answer->status == TRI_OK; r++)
        a->wrong += answer->probs[r * CLASSES] != a->want[r] || answer->probs[r * CLASSES + 1] != 1 - a->want[r];
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static void expect_of(asked *a, const tri_encoded *e) {
    *a = (asked){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .n = e->n};
    for (int64_t r = 0; r < e->n; r++) {
        const int32_t *ids[2];
        int n0 = tri__encoded_ids(e, r, 0, &ids[0]), n1 = tri__encoded_ids(e, r, 1, &ids[1]);
        a->want[r] = value_of(ids[0], n0, ids[1], n1, e->numbers + r * WIDTH);
    }
}

static void submit(tri_batcher *b, asked *a, tri_encoded *e) {
    expect_of(a, e);
    if (tri__batcher_submit(b, e, take, a, 0) != TRI_OK) fail_msg("%s", tri_error());
}

static void await(asked *a) {
    pthread_mutex_lock(&a->lock);
    while (!a->answers) pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

static void expect_good(asked *a) {
    await(a);
    assert_int_equal(a->status, TRI_OK);
    assert_string_equal(a->error, "");
    assert_int_equal(a->wrong, 0);
    assert_int_equal(a->answers, 1);
}

enum { THREADS = 64, EACH = 60 };

typedef struct client {
    tri_batcher *batcher;
    uint32_t seed;
    int good;
} client;

static void *run_client(void *context) {
    client *c = context;
    for (int i = 0; i < EACH; i++) {
        asked a;
        tri_random r = tri__philox(c->seed, 5, (uint32_t)i, 0, 0, 0);
        tri_encoded *e = make_rows(1 + r.word[0] % 20, 1 + (int)(r.word[1] % 30), r.word[2]);
        expect_of(&a, e);
        if (tri__batcher_submit(c->batcher, e, take, &a, 1) != TRI_OK) return NULL;
        await(&a);
        c->good += a.status == TRI_OK && a.wrong == 0 && a.answers == 1;
    }
    return NULL;
}

TEST(many_threads_get_their_own_rows) {
    for (int kind = 0; kind < 3; kind++) { /* at once; with a deadline; in parts */
        fake *f = make_fake();
        tri_batcher *b = open_parts(f, kind == 1 ? 0.0005 : 0, kind == 2 ? PARTS : 1);
        pthread_t thread[THREADS];
        client clients[THREADS];
        for (int i = 0; i < THREADS; i++) {
            clients[i] = (client){.batcher = b, .seed = (uint32_t)(i + 1)};
            assert_int_equal(pthread_create(&thread[i], NULL, run_client, &clients[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(clients[i].good, EACH);
        }
        tri_model_load load;
        tri__batcher_load(b, &load);
        assert_int_equal(load.queued_rows, 0);
        print_message("    %d batches, up to %lld rows and %lld tokens\n", f->begun, (long long)f->most_rows,
                      (long long)f->most_tokens);
        close_all(f, b);
    }
}

TEST(a_full_queue_is_busy) {
    static asked first, many[QUEUE], more;
    fake *f = make_fake();
    tri_batcher *b = open_batcher(f, 0);
    tri_model_load load;
    hold(f, 1);
    submit(b, &first, make_rows(1, 4, 1));
    await_begun(f, 1); /* its row no longer waits */
    for (int i = 0; i < QUEUE; i++) submit(b, &many[i], make_rows(1, 4, (uint32_t)i));
    tri__batcher_load(b, &load);
    assert_int_equal(load.queued_rows, QUEUE);
    assert_int_equal(load.running_rows, 1);
    tri_encoded *refused = make_rows(1, 4, 9);
    expect_of(&more, refused);
    assert_int_equal(tri__batcher_submit(b, refused, take, &more, 0), TRI_BUSY);
    assert_non_null(strstr(tri_error(), "200 rows wait already"));
    hold(f, 0);
    assert_int_equal(tri__batcher_submit(b, refused, take, &more, 1), TRI_OK); /* waits for room */
    expect_good(&more);
    expect_good(&first);
    for (int i = 0; i < QUEUE; i++) expect_good(&many[i]);
    tri_encoded *huge = make_rows(QUEUE + 1, 2, 3);
    assert_int_equal(tri__batcher_submit(b, huge, take, &more, 1), TRI_USAGE);
    tri__encoded_free(huge);
    close_all(f, b);
}

/* 100 rows take at least 13 batches of 8; a row that comes later is in the second one. */
TEST(a_large_submission_lets_small_ones_pass) {
    static asked large, small;
    fake *f = make_fake();
    tri_batcher *b = open_batcher(f, 0);
    hold(f, 1);
    submit(b, &large, make_rows(100, 2, 1));
    await_begun(f, 1);
    submit(b, &small, make_rows(1, 2, 2));
    hold(f, 0);
    expect_good(&large);
    expect_good(&small);
    assert_true(small.at < large.at);
    assert_true(f->begun >= 13);
    close_all(f, b);
}

/* Two submissions of full-size rows that the round robin interleaves: neither starves. */
TEST(rows_of_the_full_budget_take_turns) {
    static asked a, c, tiny[20];
    fake *f = make_fake();
    tri_batcher *b = open_batcher(f, 0);
    hold(f, 1);
    tri_encoded *full[2] = {make_rows(10, TOKENS / 2, 1), make_rows(10, TOKENS / 2, 2)};
    for (int i = 0; i < 2; i++) { /* every text as long as it may be */
        tri_encoded *e = full[i];
        for (int64_t k = 0; k <= e->n * TEXTS; k++) e->start[k] = k * (TOKENS / 2);
        count_tokens(e);
        for (int64_t k = 0; k < e->tokens; k++) e->ids[k] = (int32_t)k;
    }
    submit(b, &a, full[0]);
    submit(b, &c, full[1]);
    for (int i = 0; i < 20; i++) submit(b, &tiny[i], make_rows(1, 2, (uint32_t)i));
    hold(f, 0);
    expect_good(&a);
    expect_good(&c);
    for (int i = 0; i < 20; i++) {
        expect_good(&tiny[i]);
        assert_true(tiny[i].at < a.at && tiny[i].at < c.at);
    }
    assert_true(f->begun >= 20);
    close_all(f, b);
}

TEST(a_batch_waits_until_full_or_its_deadline) {
    static asked eight[ROWS], alone;
    fake *f = make_fake();
    tri_batcher *b = open_batcher(f, 1000); /* seconds: only a full batch goes */
    for (int i = 0; i < ROWS; i++) submit(b, &eight[i], make_rows(1, 2, (uint32_t)i));
    for (int i = 0; i < ROWS; i++) {
        expect_good(&eight[i]);
        assert_int_equal(eight[i].batch_rows, ROWS);
    }
    assert_int_equal(f->begun, 1);
    close_all(f, b);
    f = make_fake();
    b = open_batcher(f, 0.02);
    double begin = tri__clock();
    submit(b, &alone, make_rows(1, 2, 1));
    expect_good(&alone);
    assert_true(alone.at - begin >= 0.02);
    assert_true(alone.queued >= 0.02);
    close_all(f, b);
}

typedef struct closing {
    tri_batcher *batcher;
    fake *fake;
} closing;

static void *close_it(void *context) {
    closing *c = context;
    tri__batcher_close(c->batcher);
    return NULL;
}

TEST(closing_answers_what_waits) {
    static asked many[50], later[QUEUE];
    fake *f = make_fake();
    tri_batcher *b = open_batcher(f, 1000); /* closing ends the wait for a full batch too */
    hold(f, 1);
    for (int i = 0; i < 50; i++) submit(b, &many[i], make_rows(1 + i % 3, 2, (uint32_t)i));
    await_begun(f, 1); /* it is held inside a batch until the test is done with it */
    pthread_t thread;
    closing c = {b, f};
    assert_int_equal(pthread_create(&thread, NULL, close_it, &c), 0);
    int taken = 0;
    for (tri_status status = TRI_OK; status != TRI_STOPPED;) {
        tri_encoded *e = make_rows(1, 2, 1);
        expect_of(&later[taken], e);
        status = tri__batcher_submit(b, e, take, &later[taken], 0);
        if (status == TRI_OK) taken++;
        else tri__encoded_free(e);
        assert_true(taken < QUEUE);
    }
    hold(f, 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < 50; i++) expect_good(&many[i]);
    for (int i = 0; i < taken; i++) expect_good(&later[i]);
    assert_int_equal(f->wrong, 0);
    free(f);
    f = make_fake(); /* without anything to do */
    close_all(f, open_batcher(f, 0));
}

/* The second of 13 batches fails: its submission is answered once, what follows is computed. */
TEST(a_failed_batch_fails_its_submissions_only) {
    static asked first, large, last;
    fake *f = make_fake();
    tri_batcher *b = open_batcher(f, 0);
    hold(f, 1);
    f->fail_at = 3;
    submit(b, &first, make_rows(1, 2, 1));
    await_begun(f, 1);
    submit(b, &large, make_rows(100, 2, 2));
    hold(f, 0);
    await(&large);
    assert_int_equal(large.status, TRI_IO);
    assert_string_equal(large.error, "batch 3 is lost");
    expect_good(&first);
    submit(b, &last, make_rows(20, 2, 3));
    expect_good(&last);
    assert_int_equal(large.answers, 1);
    assert_int_equal(f->begun, 6); /* 1; two of the large one; 20 rows */
    tri_model_load load;
    tri__batcher_load(b, &load);
    assert_int_equal(load.queued_rows, 0);
    close_all(f, b);
}

TEST(a_probability_that_is_not_finite_is_an_error) {
    static asked first, bad, good;
    fake *f = make_fake();
    tri_batcher *b = open_batcher(f, 0);
    hold(f, 1);
    submit(b, &first, make_rows(1, 2, 1));
    await_begun(f, 1);
    tri_encoded *e = make_rows(2, 2, 2);
    e->numbers[WIDTH] = -1; /* of its second row: the computation gives NaN */
    submit(b, &bad, e);
    submit(b, &good, make_rows(2, 2, 3));
    hold(f, 0);
    await(&bad);
    assert_int_equal(bad.status, TRI_NOTFINITE);
    expect_good(&good);
    assert_int_equal(good.batch_rows, 4); /* they were in one batch */
    close_all(f, b);
}

/* Between submitting and the answer nothing is allocated, so nothing can fail for want of memory. */
TEST(submitting_allocates_nothing) {
    static asked a[40];
    tri_encoded *e[40];
    fake *f = make_fake();
    tri_batcher *b = open_batcher(f, 0);
    submit(b, &a[0], make_rows(1, 2, 1));
    expect_good(&a[0]);
    for (int i = 0; i < 40; i++) expect_of(&a[i], e[i] = make_rows(1 + i % 30, 3, (uint32_t)i));
    long before = atomic_load(&allocations);
    for (int i = 0; i < 40; i++)
        if (tri__batcher_submit(b, e[i], take, &a[i], 1) != TRI_OK) fail();
    for (int i = 0; i < 40; i++) await(&a[i]);
    assert_int_equal(atomic_load(&allocations), before);
    for (int i = 0; i < 40; i++) expect_good(&a[i]);
    close_all(f, b);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
