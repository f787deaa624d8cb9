/* test_crew.c - a server's models on several ranks, which are threads here: rank 0 predicts, the others follow. The
 * probabilities are those of one rank, to the bit for replicas and pipelines, within 1e-5 for tensor parallelism; a
 * second model is opened beside the first while it answers; one that cannot be read leaves the first as it was. */
#include "tests/lib/test.h"
#include "tests/lib/model_rows.h"

#include "base/clock.h"
#include "serve/infer/crew.h"

#include <math.h>
#include <pthread.h>

enum { CLIENTS = 8, EACH = 6 };

/* A job, on all of its ranks. */
typedef struct job {
    int ranks;
    const char *options[4];  /* [n] of the mesh */
    int n;
    double tolerance;
    tri_batching batching;
    int refuse;              /* 1: the others refuse the model */
} job;

static tri_status ask(const job *j, tri_world *world, const char *model, tri_settings *asked) {
    const char *options[8] = {model, "--threads=1"};
    int words;
    for (int i = 0; i < j->n; i++) options[2 + i] = j->options[i];
    TRI_TRY(tri__settings_init(asked));
    TRI_TRY(tri__settings_parse(asked, "predict", 2 + j->n, options, NULL, 0, &words));
    return tri__settings_launched(asked, tri_world_size(world), tri_world_size(world));
}

static int is_close(const job *j, const float *have, int first, int n) {
    for (int i = 0; i < n * CLASSES; i++)
        if (fabs((double)have[i] - (double)want[first * CLASSES + i]) > j->tolerance) return 0;
    return 1;
}

typedef struct client {
    const job *job;
    tri_model *model;
    int place, good;
} client;

static void *run_client(void *context) {
    client *c = context;
    for (int i = 0; i < EACH; i++) {
        float have[30 * CLASSES];
        int n = 1 + (c->place * 5 + i * 3) % 30, r = (c->place * 7 + i * 11) % (ROWS - n);
        c->good += tri__model_predict(c->model, rows + r, n, have) == TRI_OK && is_close(c->job, have, r, n);
    }
    return NULL;
}

/* Clients ask both models, which share the ranks. */
static tri_status run_clients(const job *j, tri_model *a, tri_model *b) {
    pthread_t thread[CLIENTS];
    client clients[CLIENTS];
    int good = 0;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.job = j, .model = i % 2 ? b : a, .place = i};
        if (pthread_create(&thread[i], NULL, run_client, &clients[i])) return tri__fail(TRI_RESOURCE, "no thread");
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(thread[i], NULL);
        good += clients[i].good;
    }
    return good == CLIENTS * EACH ? TRI_OK
                                  : tri__fail(TRI_INTERNAL, "%d of %d answers are right", good, CLIENTS * EACH);
}

static tri_status expect_all(const job *j, tri_model *model) {
    float have[ROWS * CLASSES];
    TRI_TRY(tri__model_predict(model, rows, ROWS, have));
    if (!is_close(j, have, 0, ROWS)) return tri__fail(TRI_INTERNAL, "other probabilities than those of one rank");
    TRI_TRY(tri__model_predict(model, rows + 3, 1, have));
    return is_close(j, have, 3, 1) ? TRI_OK : tri__fail(TRI_INTERNAL, "another probability for a row alone");
}

/* A folder that is not there is refused, and the crew goes on. */
static tri_status try_missing(const job *j, tri_crew *crew, tri_world *world) {
    char path[128];
    tri_settings asked;
    tri_model *none;
    snprintf(path, sizeof path, "--checkpoint=%s/nothing", root);
    TRI_TRY(ask(j, world, path, &asked));
    tri_batching batching = j->batching;
    batching.crew = crew;
    tri_status status = tri__model_open(&asked, &batching, NULL, &none);
    tri__settings_free(&asked);
    return status == TRI_NOINPUT ? TRI_OK : tri__fail(TRI_INTERNAL, "a missing folder: status %d", (int)status);
}

static tri_status lead(const job *j, tri_world *world, const tri_settings *asked, tri_crew *crew) {
    tri_model *model, *second = NULL;
    tri_batching batching = j->batching;
    batching.crew = crew;
    TRI_TRY(tri__model_open(asked, &batching, NULL, &model));
    tri_status status = expect_all(j, model);
    batching.polite = 1;
    if (status == TRI_OK) status = try_missing(j, crew, world);
    if (status == TRI_OK) status = tri__model_open(asked, &batching, NULL, &second);
    if (status == TRI_OK) status = run_clients(j, model, second);
    tri_words why;
    tri__words_keep(&why);
    tri__model_close(model);
    if (status == TRI_OK) status = expect_all(j, second);
    else tri__words_restore(&why);
    tri__words_keep(&why);
    tri__model_close(second);
    tri__words_restore(&why);
    return status;
}

/* What the others cannot open, rank 0 does not get either, as often as it asks; nobody fails. */
static tri_status lead_in_vain(const job *j, const tri_settings *asked, tri_crew *crew) {
    tri_batching batching = j->batching;
    batching.crew = crew;
    for (int i = 0; i < 3; i++) {
        tri_model *none;
        tri_status status = tri__model_open(asked, &batching, NULL, &none);
        if (status != TRI_DATA || !strstr(tri_error(), "another rank cannot read it"))
            return tri__fail(TRI_INTERNAL, "a model that others refuse: status %d", (int)status);
    }
    return TRI_OK;
}

static tri_status rank_main(tri_world *world, void *context) {
    const job *j = context;
    tri_settings asked;
    tri_crew *crew;
    tri_status status = ask(j, world, checkpoint, &asked);
    static const tri_batching too_small = {.max_batch_tokens = 1};
    if (status == TRI_OK && tri_world_rank(world) > 0)
        status = tri__crew_follow(world, &asked, j->refuse ? &too_small : &j->batching);
    else if (status == TRI_OK) {
        status = tri__crew_open(world, &crew);
        if (status == TRI_OK) {
            tri_words why;
            status = j->refuse ? lead_in_vain(j, &asked, crew) : lead(j, world, &asked, crew);
            tri__words_keep(&why);
            tri__crew_close(crew);
            tri__words_restore(&why);
        }
    }
    tri__settings_free(&asked);
    return status;
}

static void serve_on(job j) {
    tri_ranks how = {.n = j.ranks, .heap_bytes = 64 << 20, .progress_timeout = 60};
    OK(tri_ranks_run(&how, rank_main, &j));
}

static const tri_batching SMALL = {.max_batch_tokens = 120, .max_batch_rows = 16};

TEST(replicas) {
    serve_on((job){.ranks = 2, .batching = SMALL});
    serve_on((job){.ranks = 3});
}

TEST(pipelines) {
    serve_on((job){.ranks = 2, .options = {"--pp-size=2"}, .n = 1, .batching = SMALL});
    serve_on((job){.ranks = 2, .options = {"--pp-size=2", "--num-microbatches=4", "--batch-size=8"}, .n = 3,
                   .batching = SMALL});
}

TEST(tensor_parallel) {
    serve_on((job){.ranks = 2, .options = {"--tp-size=2"}, .n = 1, .tolerance = 1e-5, .batching = SMALL});
}

TEST(all_axes) {
    serve_on((job){.ranks = 8, .options = {"--tp-size=2", "--pp-size=2"}, .n = 2, .tolerance = 1e-5,
                   .batching = SMALL});
}

TEST(a_model_that_another_rank_refuses) {
    serve_on((job){.ranks = 3, .refuse = 1});
}

/* An idle order a second keeps the others from giving up, although they wait for longer than --progress-timeout. */
static tri_status idle_main(tri_world *world, void *context) {
    const job *j = context;
    tri_settings asked;
    tri_crew *crew;
    TRI_TRY(ask(j, world, checkpoint, &asked));
    tri_status status;
    if (tri_world_rank(world) > 0) status = tri__crew_follow(world, &asked, &j->batching);
    else if ((status = tri__crew_open(world, &crew)) == TRI_OK) {
        tri_model *model = NULL;
        tri_batching batching = j->batching;
        batching.crew = crew;
        status = tri__model_open(&asked, &batching, NULL, &model);
        if (status == TRI_OK) tri__clock_sleep(tri__clock() + 4);
        if (status == TRI_OK) status = expect_all(j, model);
        tri__model_close(model);
        tri__crew_close(crew);
    }
    tri__settings_free(&asked);
    return status;
}

TEST(an_idle_server_stays_alive) {
    job j = {.ranks = 2, .batching = SMALL};
    tri_ranks how = {.n = j.ranks, .heap_bytes = 64 << 20, .progress_timeout = 3};
    OK(tri_ranks_run(&how, idle_main, &j));
}

int main(int argc, char **argv) { return run_listed(argc, argv, train, clean); }
