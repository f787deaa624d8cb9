/* routes.c - which path is answered by which function: the server's own, then those of each protocol. */
#include "serve/server/server_parts.h"

#include "web/pages.h"

/* Models are loaded before the server listens: what answers is ready, until it drains. */
void tri__reply_ready(const tri_server *server, tri_exchange *exchange, const char *text) {
    if (tri__http_draining(server->http))
        tri__exchange_error(exchange, 503, "Unhealthy", "the server is shutting down");
    else tri__exchange_reply_const(exchange, 200, "application/json", text, strlen(text));
}

void tri__handle_ready(void *context, tri_exchange *exchange) {
    tri__reply_ready(context, exchange, "{\"status\":\"ready\"}");
}

static void page(void *context, tri_exchange *exchange) {
    size_t size;
    const char *text = tri__page_try(&size);
    (void)context;
    tri__exchange_reply_const(exchange, 200, "text/html; charset=utf-8", text, size);
}

static void docs(void *context, tri_exchange *exchange) {
    size_t size;
    const char *text = tri__page_openapi(&size);
    (void)context;
    tri__exchange_reply_const(exchange, 200, "application/json", text, size);
}

/* The page is a constant; what it shows comes from /info, with a key where one is needed. */
static const tri_http_route own[] = {
    {"POST", "/tokenize", tri__handle_tokenize, 0, 0}, {"GET", "/health", tri__handle_ready, 1, 1},
    {"GET", "/info", tri__handle_info, 0, 0}, {"GET", "/metrics", tri__handle_metrics, 0, 1},
    {"GET", "/docs", docs, 1, 0}, {"GET", "/", page, 1, 0}, {0}};

/* TRI_PROTOCOLS(X) is X(NAME) for each file protocols/NAME.c: the Makefile makes it of the files that there are. */
#define DECLARE(name) extern const tri_http_route tri__routes_##name[];
TRI_PROTOCOLS(DECLARE)
#define LIST(name) tri__routes_##name,
static const tri_http_route *const all[] = {own, TRI_PROTOCOLS(LIST) NULL};

tri_status tri__routes_make(tri_http_route **out) {
    size_t n = 0;
    for (int i = 0; all[i]; i++)
        for (const tri_http_route *route = all[i]; route->path; route++) n++;
    tri_http_route *to = *out = calloc(n + 1, sizeof *to);
    if (!to) return tri__fail(TRI_RESOURCE, "out of memory");
    for (int i = 0; all[i]; i++)
        for (const tri_http_route *route = all[i]; route->path; route++) *to++ = *route;
    return TRI_OK;
}
