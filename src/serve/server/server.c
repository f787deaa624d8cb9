/* server.c - models on the wire: start, reload, close. */
#include "serve/server/server_parts.h"

/* ---- models ---- */

tri_live *tri__server_use(tri_server *server, tri_served *served) {
    TRI_LOCKED(&server->mutex);
    served->live->users++;
    return served->live;
}

tri_live *tri__server_find(tri_server *server, tri_exchange *exchange, const char *name) {
    if (!name || !*name) return tri__server_use(server, &server->served[0]);
    for (int i = 0; i < server->options.n_models; i++)
        if (!strcmp(server->served[i].name, name)) return tri__server_use(server, &server->served[i]);
    const char *near = tri__text_nearest(name, server->options.name, server->options.n_models);
    tri__exchange_error(exchange, 404, "Validation", "there is no model \"%.100s\"; %s \"%s\"", name,
                        near ? "did you mean" : "there is", near ? near : server->served[0].name);
    return NULL;
}

void tri__server_release(tri_server *server, tri_live *live) {
    TRI_LOCKED(&server->mutex);
    if (--live->users == 0) pthread_cond_broadcast(&server->unused);
}

static void unload(tri_live *live) {
    if (!live) return;
    tri__model_close(live->model);
    TRI_FREE(live->unseen, live);
}

static void live_drop(tri_live **at) { unload(*at); }

/* polite: other models run meanwhile. */
static tri_status load(const tri_server *server, const tri_served *served, int polite, tri_live **out) {
    tri_settings asked = *server->options.asked;
    tri_batching batching = server->options.batching;
    TRI_OWNED(live_drop) tri_live *live = NULL;
    *out = NULL;
    TRI_TRY(TRI_NEW(live, 1, "a model"));
    asked.checkpoint = (char *)served->run, batching.polite = polite, live->name = served->name;
    TRI_TRY(tri__model_open(&asked, &batching, server->log, &live->model));
    const tri_model_facts *facts = live->facts = tri__model_facts(live->model);
    if (facts->n_texts == 1 && facts->text->n == 1) live->text_column = facts->text->at[0];
    TRI_TRY(TRI_NEW(live->unseen, facts->n_columns + 1, "a model"));
    *out = TRI_GIVE(live);
    return TRI_OK;
}

/* ---- start ---- */

static void done(void *context, const tri_http_record *record) {
    tri_server *server = context;
    tri__metrics_request(&server->metrics, record);
    tri__access_add(&server->access, record);
}

static void tick(void *context) { tri__access_tick(&((tri_server *)context)->access); }

static tri_status start(tri_server *server) {
    const tri_server_options *options = &server->options;
    for (int i = 0; i < options->n_models; i++) {
        server->served[i] = (tri_served){.name = options->name[i], .run = options->run[i]};
        for (int k = 0; k < i; k++)
            if (!strcmp(options->name[i], options->name[k]))
                return tri__fail(TRI_USAGE, "two models are named \"%s\"; name them: name=RUN", options->name[i]);
        TRI_TRY(load(server, &server->served[i], 0, &server->served[i].live));
    }
    TRI_TRY(tri__routes_make(&server->routes));
    tri_http_options *http = &server->options.http;
    http->routes = server->routes, http->context = server, http->done = done, http->tick = tick;
    TRI_TRY(tri__http_start(http, &server->http));
    server->address = tri__http_url(server->http);
    return server->address ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__server_open(const tri_server_options *options, const tri_log *log, tri_server **out) {
    tri_server *server = calloc(1, sizeof *server);
    tri_served *served = calloc((size_t)options->n_models, sizeof *served);
    *out = NULL;
    if (!server || !served) {
        TRI_FREE(server, served);
        return tri__fail(TRI_RESOURCE, "out of memory");
    }
    server->options = *options, server->log = log, server->served = served, server->started = tri__clock();
    pthread_mutex_init(&server->mutex, NULL);
    pthread_cond_init(&server->unused, NULL);
    tri__access_open(&server->access, options->access_log);
    tri_status status = start(server);
    if (status == TRI_OK) *out = server;
    else tri__server_close(server, 0);
    return status;
}

const char *tri__server_address(const tri_server *server) { return server->address; }

/* -d '{"inputs": {...}}', and what the server needs besides. */
char *tri__server_example(const tri_server *server) {
    const tri_server_options *options = &server->options;
    tri_json *body = tri__json_pack("{s:o}", "inputs", tri__example_row(server->served[0].live->facts));
    char *text = body ? tri__json_line(body) : NULL, *quoted = text ? tri__text_quoted(text) : NULL;
    char *file = options->key_file ? tri__text_quoted(options->key_file) : NULL, *line = NULL;
    if (quoted && (file || !options->key_file) &&
        asprintf(&line, "curl -s%s %s/predict%s%s%s -H 'Content-Type: application/json' -d %s",
                 options->http.certificate ? "k" : "", server->address,
                 file ? " -H \"Authorization: Bearer $(grep -v '^#' " : "", file ? file : "",
                 file ? " | head -n 1)\"" : "", quoted) < 0)
        line = NULL;
    tri__json_decref(body);
    TRI_FREE(text, quoted, file);
    return line;
}

/* ---- reload and close ---- */

static tri_status reload(tri_server *server, tri_served *served) {
    tri_live *fresh, *old;
    double begin = tri__clock();
    TRI_TRY(load(server, served, 1, &fresh));
    pthread_mutex_lock(&server->mutex);
    old = served->live, served->live = fresh;
    while (old->users) pthread_cond_wait(&server->unused, &server->mutex);
    pthread_mutex_unlock(&server->mutex);
    tri__say(server->log, TRI_LOG_INFO, "model %s is now %s, step %lld, loaded in %.2f s (before: step %lld)",
             served->name, fresh->facts->path, (long long)fresh->facts->step, tri__clock() - begin,
             (long long)old->facts->step);
    unload(old);
    return TRI_OK;
}

tri_status tri__server_reload(tri_server *server) {
    tri_status first = TRI_OK;
    for (int i = 0; i < server->options.n_models; i++) {
        tri_status status = reload(server, &server->served[i]);
        atomic_fetch_add(status == TRI_OK ? &server->metrics.reloads : &server->metrics.failed_reloads, 1);
        if (status == TRI_OK) continue;
        tri__say(server->log, TRI_LOG_WARN, "model %s stays at step %lld, since the new one does not load: %s",
                 server->served[i].name, (long long)server->served[i].live->facts->step, tri_error());
        if (first == TRI_OK) first = status;
    }
    return first;
}

int64_t tri__server_close(tri_server *server, double seconds) {
    if (!server) return 0;
    int left = server->http ? tri__http_drain(server->http, seconds) : 0;
    if (left) tri__say(server->log, TRI_LOG_WARN, "%d requests were not answered within %g seconds", left, seconds);
    /* What a model has got it will answer: waits for it, however long. Under the mutex: who uses a model afterwards
     * sees it. */
    pthread_mutex_lock(&server->mutex);
    atomic_store(&server->closing, 1);
    for (int i = 0; i < server->options.n_models; i++)
        while (server->served[i].live && server->served[i].live->users)
            pthread_cond_wait(&server->unused, &server->mutex);
    pthread_mutex_unlock(&server->mutex);
    tri__http_stop(server->http);
    int64_t answered = tri__metrics_answered(&server->metrics);
    for (int i = 0; i < server->options.n_models; i++) unload(server->served[i].live);
    tri__access_close(&server->access);
    pthread_cond_destroy(&server->unused);
    pthread_mutex_destroy(&server->mutex);
    TRI_FREE(server->address, server->routes, server->served, server);
    return answered;
}
