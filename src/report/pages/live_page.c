/* live_page.c - the live page. Answers are made under a mutex, at most one reading of the folder in `least_seconds`
 * and, for long runs, in 20 times what a reading takes. An answer has an ETag, the hash of the run's data, so that a
 * page which asks again gets 304 while nothing has changed. */
#include "report/pages/live_page.h"

#include "report/runs/run_data.h"
#include "web/http.h"
#include "web/svg.h"

struct tri_live_page {
    tri_live_options options;
    tri_http *http;
    char *address;
    pthread_mutex_t mutex;  /* of what follows */
    tri_run_reader *reader;
    tri_json *runs;         /* NULL: there is no run yet */
    char words[512];        /* why */
    char tag[40];           /* ETag of `runs`, in quotes */
    double read, took;      /* tri__clock() of the last reading; its seconds */
};

/* ---- reading ---- */

static void name_tag(tri_live_page *live) {
    TRI_OWNED(tri__free_at) char *text = tri__json_text(live->runs, TRI_JSON_COMPACT);
    uint64_t hash = text ? tri__hash64(1, text, strlen(text)) : 0;
    snprintf(live->tag, sizeof live->tag, "W/\"%016llx\"", (unsigned long long)hash);
}

/* A folder that is missing, or has nothing of a run yet, is waited for. */
static void read_again(tri_live_page *live) {
    const tri_run_data_options options = {0};
    tri_json *run = NULL;
    double begin = tri__clock();
    if (live->read > 0 && begin - live->read < live->options.least_seconds + 20 * live->took) return;
    tri__json_decref(live->runs);
    live->runs = NULL;
    if (tri__run_reader_data(live->reader, &options, &run) == TRI_OK) live->runs = tri__json_pack("[o]", run);
    if (live->runs) name_tag(live);
    else snprintf(live->words, sizeof live->words, "%s", tri_error());
    live->read = tri__clock();
    live->took = live->read - begin;
}

/* ---- answers ---- */

/* 1: the client has this version already, and was told so. */
static int is_known(tri_exchange *exchange, const char *tag) {
    const char *known = tri__exchange_header(exchange, "If-None-Match");
    tri__exchange_add_copy(exchange, "ETag", tag);
    if (!known || !strstr(known, tag)) return 0;
    tri__exchange_reply_const(exchange, 304, "text/plain", "", 0);
    return 1;
}

/* A page that asks again until there is a run. */
static void reply_waiting(const tri_live_page *live, tri_exchange *exchange) {
    tri_buffer page = {0};
    size_t size;
    tri__buffer_put(
        &page, "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2><title>waiting "
               "for a run</title><style>:root{color-scheme:light dark}body{font:16px system-ui;margin:3em}</style>"
               "<p id=waiting>Waiting for a run: ");
    tri__svg_text(&page, live->words);
    tri__buffer_put(&page, "</p></html>");
    char *text = tri__buffer_take(&page, &size);
    tri__exchange_reply(exchange, 200, "text/html; charset=utf-8", text, size);
}

/* Under the mutex. data: data.json, else the page. */
static void reply_run(tri_live_page *live, tri_exchange *exchange, int data) {
    char *text = NULL;
    size_t size = 0;
    if (is_known(exchange, live->tag)) return;
    if (!data) (void)tri__report_page(live->runs, 1, &text, &size);
    else if ((text = tri__report_text(live->runs, 1))) size = strlen(text);
    tri__exchange_reply(exchange, 200, data ? "application/json" : "text/html; charset=utf-8", text, size);
}

static void answer(tri_live_page *live, tri_exchange *exchange, int data) {
    TRI_LOCKED(&live->mutex);
    read_again(live);
    if (live->runs) reply_run(live, exchange, data);
    else if (data) tri__exchange_error(exchange, 503, "Unhealthy", "there is no run yet: %s", live->words);
    else reply_waiting(live, exchange);
}

static void page(void *context, tri_exchange *exchange) { answer(context, exchange, 0); }
static void data(void *context, tri_exchange *exchange) { answer(context, exchange, 1); }

static const tri_http_route routes[] = {{"GET", "/", page, 1, 0}, {"GET", "/data.json", data, 1, 0}, {0}};

/* ---- open and close ---- */

static tri_status start(tri_live_page *live) {
    const tri_http_options options = {.host = live->options.host, .port = live->options.port, .routes = routes,
                                      .context = live, .check_host = 1, .allow_host = live->options.allow_host,
                                      .max_body = 1024, .max_connections = 64, .max_requests = 32, .idle_seconds = 30,
                                      .request_seconds = 10, .threads = 1};
    TRI_TRY(tri__run_reader_open(live->options.folder, &live->reader));
    TRI_TRY(tri__http_start(&options, &live->http));
    live->address = tri__http_url(live->http);
    return live->address ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__live_open(const tri_live_options *options, tri_live_page **out) {
    tri_live_page *live = calloc(1, sizeof *live);
    *out = NULL;
    if (!live) return tri__fail(TRI_RESOURCE, "out of memory");
    live->options = *options;
    pthread_mutex_init(&live->mutex, NULL);
    tri_status status = start(live);
    if (status == TRI_OK) *out = live;
    else tri__live_close(live);
    return status;
}

const char *tri__live_address(const tri_live_page *live) { return live->address; }

void tri__live_close(tri_live_page *live) {
    if (!live) return;
    tri__http_stop(live->http);
    tri__run_reader_close(live->reader);
    tri__json_decref(live->runs);
    pthread_mutex_destroy(&live->mutex);
    TRI_FREE(live->address, live);
}
