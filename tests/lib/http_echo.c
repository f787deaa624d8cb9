/* http_echo.c - see http_echo.h. */
#include "tests/lib/http_echo.h"

#include "tests/lib/test.h"

static void reply_text(tri_exchange *exchange, const char *text, size_t length) {
    char *copy = malloc(length + 1);
    memcpy(copy, text, length);
    tri__exchange_reply(exchange, 200, "text/plain", copy, length);
}

static void say_body(void *context, tri_exchange *exchange) {
    size_t length;
    const char *body = tri__exchange_body(exchange, &length);
    (void)context;
    reply_text(exchange, body, length);
}

static void say_part(void *context, tri_exchange *exchange) {
    char text[600];
    const char *query = tri__exchange_query(exchange, "q"), *header = tri__exchange_header(exchange, "X-Word");
    (void)context;
    snprintf(text, sizeof text, "%s|%s|%s", tri__exchange_part(exchange), query ? query : "", header ? header : "");
    reply_text(exchange, text, strlen(text));
}

static void say_ok(void *context, tri_exchange *exchange) {
    (void)context;
    tri__exchange_reply_const(exchange, 200, "text/plain", "ok", 2);
}

static void finish(void *context, tri_exchange *exchange) {
    atomic_fetch_add(&((echo *)context)->finished, 1);
    say_body(context, exchange);
}

static void *resume_soon(void *context) {
    tri__exchange_resume(context);
    return NULL;
}

/* Answered by a thread of its own, at once. */
static void say_later(void *context, tri_exchange *exchange) {
    pthread_t thread;
    atomic_fetch_add(&((echo *)context)->held_ever, 1);
    tri__exchange_hold(exchange, finish, context);
    pthread_create(&thread, NULL, resume_soon, exchange);
    pthread_detach(thread);
}

static void *resume_when_asked(void *context) {
    echo *e = context;
    while (!atomic_load(&e->release)) tri__clock_sleep(tri__clock() + 0.002);
    tri__exchange_resume(e->held);
    return NULL;
}

/* Answered when the test says so. */
static void say_when_asked(void *context, tri_exchange *exchange) {
    echo *e = context;
    e->held = exchange;
    tri__exchange_hold(exchange, finish, context);
    pthread_create(&e->later, NULL, resume_when_asked, e);
    atomic_store(&e->holding, 1);
}

const tri_http_route routes[] = {
    {"POST", "/echo", say_body, 0, 0},         {"GET", "/things/*/name", say_part, 0, 0},
    {"GET", "/health", say_ok, 1, 1},          {"POST", "/later", say_later, 0, 0},
    {"POST", "/asked", say_when_asked, 0, 0},  {0},
};

static void count(void *context, const tri_http_record *record) {
    echo *e = context;
    atomic_store(&e->last, record->status);
    atomic_fetch_add(&e->done, 1);
    if (record->status == 408) atomic_fetch_add(&e->late, 1);
}

int start_with(echo *e, tri_http_options options) {
    options.host = "127.0.0.1", options.routes = routes, options.context = e, options.done = count;
    if (!options.max_body) options.max_body = 4096;
    if (!options.max_connections) options.max_connections = 2000;
    if (!options.max_requests) options.max_requests = 100;
    if (options.idle_seconds == 0) options.idle_seconds = 30;
    if (options.request_seconds == 0) options.request_seconds = 30;
    if (!options.threads) options.threads = 2;
    if (tri__http_start(&options, &e->http) != TRI_OK) fail_msg("%s", tri_error());
    return tri__http_port(e->http);
}

void stop(echo *e) {
    assert_int_equal(tri__http_drain(e->http, 5), 0);
    tri__http_stop(e->http);
    tri__keys_file_free(&e->keys);
}

int wait_for(atomic_int *value, int least) {
    for (double until = tri__clock() + 5; tri__clock() < until; tri__clock_sleep(tri__clock() + 0.002))
        if (atomic_load(value) >= least) return 1;
    return 0;
}

int alive(int port) {
    http_answer a;
    http_once(port, "GET", "/health", "", NULL, &a);
    return a.status == 200;
}
