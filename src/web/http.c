/* http.c - the HTTP server: which requests are answered, by whom, and which are refused; start and stop. */
#include "web/http_parts.h"

#include "web/http_hosts.h"

#include <errno.h>
#include <netdb.h>
#include <unistd.h>

/* ---- routes ---- */

/* Whether `path` is of that pattern; a part * of it goes to `part`. */
static int matches(const char *pattern, const char *path, char part[static 256]) {
    const char *star = strchr(pattern, '*');
    if (!star) return strcmp(pattern, path) == 0;
    size_t before = (size_t)(star - pattern), length = strlen(path), after = strlen(star + 1);
    if (length < before + after + 1 || strncmp(pattern, path, before)) return 0;
    size_t n = length - before - after;
    if (strcmp(path + before + n, star + 1) || memchr(path + before, '/', n) || n >= 256) return 0;
    memcpy(part, path + before, n);
    part[n] = 0;
    return 1;
}

static int method_fits(const tri_http_route *route, const char *method) {
    return strcmp(route->method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* The route of the method and the path; without one, the method that the path allows, if any. */
static const tri_http_route *find_route(tri_exchange *e, const char **allowed) {
    *allowed = NULL;
    for (const tri_http_route *route = e->http->options.routes; route->path; route++) {
        if (!matches(route->path, e->head.path, e->part)) continue;
        if (method_fits(route, e->head.method)) return route;
        *allowed = route->method;
    }
    return NULL;
}

static void refuse_path(tri_exchange *e, const char *allowed) {
    if (allowed) {
        tri__exchange_add(e, "Allow", allowed);
        tri__exchange_error(e, 405, "Validation", "%.16s is not possible for %.200s, only %s", e->head.method,
                            e->head.path, allowed);
        return;
    }
    int listed = 0;
    for (const tri_http_route *route = e->http->options.routes; route->path; route++)
        listed |= !strcmp(route->path, "/docs");
    tri__exchange_error(e, 404, "Validation", "there is nothing at %.200s%s", e->head.path,
                        listed ? "; GET /docs lists what there is" : "");
}

/* ---- one request ---- */

/* Foreign names and foreign pages. */
static int refuse_site(tri_exchange *e) {
    const tri_http_options *options = &e->http->options;
    const char *host = tri__exchange_header(e, "Host"), *origin = tri__exchange_header(e, "Origin");
    if (options->check_host && !tri__host_is_own(host, options->host, options->allow_host))
        tri__exchange_error(e, 403, "Validation",
                            "the request is for \"%.100s\", which is not a name of this machine; use its address or "
                            "localhost, or start the server with --allow-host and that name", host ? host : "");
    else if (origin && !tri__origin_is_own(origin, host, options->allow_host))
        tri__exchange_error(e, 403, "Validation", "the request comes from a page of another site, %.100s; if it may, "
                            "start the server with --allow-host and the site's name", origin);
    else return 0;
    return 1;
}

/* What can be refused before the body is read. */
static void check_header(tri_exchange *e) {
    tri_http *http = e->http;
    const char *allowed;
    e->route = find_route(e, &allowed);
    if (refuse_site(e)) return;
    if (atomic_load(&http->draining) && !(e->route && e->route->control))
        tri__exchange_error(e, 503, "Unhealthy", "the server is shutting down and takes no further requests");
    else if (http->options.keys && !(e->route && e->route->open) &&
             !tri__keys_accept(http->options.keys, tri__exchange_header(e, "Authorization"))) {
        tri__exchange_add(e, "WWW-Authenticate", "Bearer");
        tri__exchange_error(e, 401, "Unauthorized", "a key is needed: Authorization: Bearer KEY");
    } else if (!e->route) refuse_path(e, allowed); /* without a key nothing is said about paths */
    else if (e->head.length > http->options.max_body)
        tri__exchange_error(e, 413, "Validation", "the body has %llu bytes; at most %zu are taken",
                            (unsigned long long)e->head.length, http->options.max_body);
}

tri_exchange *tri__exchange_begin(tri_http_connection *connection, char *text, size_t size) {
    tri_exchange *e = calloc(1, sizeof *e);
    const char *why;
    if (!e) return free(text), NULL;
    e->http = connection->loop->http, e->connection = connection, e->text = text;
    e->begun = tri__clock_wall(), e->clock = tri__clock();
    atomic_fetch_add(&e->http->in_flight, 1);
    int status = text ? tri__http_head_read(text, size, &e->head, &why) : 0;
    if (!e->head.method) e->head.method = "-";
    if (!e->head.path) e->head.path = "-";
    if (status) tri__exchange_error(e, status, "Validation", "%s", why);
    else if (text) check_header(e);
    return e;
}

/* A request has a place from here on: one whose body comes slowly takes none from others. */
void tri__exchange_answer(tri_exchange *e) {
    tri_http *http = e->http;
    e->placed = !e->route->control;
    if (e->placed && atomic_fetch_add(&http->placed, 1) >= http->options.max_requests)
        tri__exchange_error(e, 429, "Overloaded", "%d requests are in flight, the most that are taken; try again later",
                            http->options.max_requests);
    else e->route->handle(http->options.context, e);
    TRI_ASSERT(e->status || e->held);
}

void tri__exchange_end(tri_exchange *e, int was_sent) {
    tri_http *http = e->http;
    const tri_http_record record = {.method = e->head.method, .path = e->head.path, .peer = e->connection->peer,
                                    .route = e->route ? (int)(e->route - http->options.routes) : -1,
                                    .status = was_sent ? e->status : 0, .bytes_in = e->body.size, .bytes_out = e->size,
                                    .begun = e->begun, .seconds = tri__clock() - e->clock};
    if (http->options.done) http->options.done(http->options.context, &record);
    if (!e->is_const) free(e->reply);
    tri__buffer_free(&e->body);
    free(e->text);
    atomic_fetch_sub(&http->placed, e->placed);
    free(e);
    atomic_fetch_sub(&http->in_flight, 1);
}

/* ---- start and stop ---- */

static tri_status listen_at(const tri_http_options *options, tri_http *http) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    const char *port = TRI_TEXT(16, "%d", options->port), *host = TRI_TEXT(200, "%s", options->host);
    int code = getaddrinfo(host, port, &hints, &found), one = 1;
    int resource = code == EAI_MEMORY || (code == EAI_SYSTEM && (errno == EMFILE || errno == ENOMEM));
    if (code) return tri__fail(resource ? TRI_RESOURCE : TRI_USAGE, "--host %s: %s", host, gai_strerror(code));
    http->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (http->fd >= 0) setsockopt(http->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int failed = http->fd < 0 || bind(http->fd, found->ai_addr, found->ai_addrlen) || listen(http->fd, 4096) ||
                 getsockname(http->fd, (struct sockaddr *)&bound, &size);
    int why = errno;
    freeaddrinfo(found);
    if (failed)
        return tri__fail(TRI_USAGE, "cannot listen at %s, port %s: %s%s", host, port, strerror(why),
                         why == EADDRINUSE ? "; --port 0 picks a free one"
                         : why == EACCES   ? "; ports below 1024 need privileges: take another --port" : "");
    http->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                   : ((struct sockaddr_in *)&bound)->sin_port);
    return TRI_OK;
}

tri_status tri__http_start(const tri_http_options *options, tri_http **out) {
    tri_http *http = calloc(1, sizeof *http);
    tri_status status = TRI_OK;
    *out = NULL;
    if (!http) return tri__fail(TRI_RESOURCE, "out of memory");
    http->options = *options, http->fd = -1;
    if (!http->options.max_per_address) http->options.max_per_address = http->options.max_connections;
    pthread_mutex_init(&http->addresses.mutex, NULL);
    if (options->certificate) status = tri__tls_open(options->certificate, options->private_key, &http->tls);
    if (status == TRI_OK) status = listen_at(options, http);
    if (status == TRI_OK) status = tri__http_loops_open(http);
    if (status == TRI_OK) *out = http;
    else tri__http_stop(http);
    return status;
}

int tri__http_port(const tri_http *http) { return http->port; }

char *tri__http_url(const tri_http *http) {
    const char *host = http->options.host;
    char *url;
    int is_v6 = strchr(host, ':') != NULL, any = !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
    int n = asprintf(&url, "%s://%s%s%s:%d", http->tls ? "https" : "http", is_v6 && !any ? "[" : "",
                     any ? "localhost" : host, is_v6 && !any ? "]" : "", http->port);
    return n < 0 ? NULL : url;
}

int tri__http_in_flight(const tri_http *http) { return atomic_load(&http->in_flight); }
int tri__http_draining(const tri_http *http) { return atomic_load(&http->draining); }

int tri__http_drain(tri_http *http, double seconds) {
    double until = tri__clock() + seconds;
    /* The socket is closed with the server: until then a thread may still hold its number. */
    if (!atomic_exchange(&http->draining, 1)) shutdown(http->fd, SHUT_RDWR); /* connections are refused from now on */
    while (atomic_load(&http->in_flight) && tri__clock() < until) tri__clock_sleep(tri__clock() + 0.005);
    return atomic_load(&http->in_flight);
}

void tri__http_stop(tri_http *http) {
    if (!http) return;
    if (http->loop) tri__http_loops_close(http);
    if (http->fd >= 0) close(http->fd);
    tri__tls_close(http->tls);
    pthread_mutex_destroy(&http->addresses.mutex);
    free(http);
}
