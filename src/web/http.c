/* http.c - the HTTP server over libmicrohttpd: epoll, a few threads, connections that are suspended while another
 * thread computes. The library calls `access` several times for a request: when its header is there, for each piece of
 * its body, when the body is complete, and again after a suspended connection was resumed. */
#include "web/http_parts.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
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
        if (!matches(route->path, e->path, e->part)) continue;
        if (method_fits(route, e->method)) return route;
        *allowed = route->method;
    }
    return NULL;
}

static void refuse_path(tri_exchange *e, const char *allowed) {
    if (allowed) {
        tri__exchange_add(e, "Allow", allowed);
        tri__exchange_error(e, 405, "Validation", "%.16s is not possible for %.200s, only %s", e->method, e->path,
                            allowed);
        return;
    }
    int listed = 0;
    for (const tri_http_route *route = e->http->options.routes; route->path; route++)
        listed |= !strcmp(route->path, "/docs");
    tri__exchange_error(e, 404, "Validation", "there is nothing at %.200s%s", e->path,
                        listed ? "; GET /docs lists what there is" : "");
}

/* ---- one request ---- */

static tri_exchange *begin(tri_http *http, struct MHD_Connection *connection, const char *url, const char *method) {
    const union MHD_ConnectionInfo *info =
        http->calls.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    tri_exchange *e = calloc(1, sizeof *e);
    if (e) e->path = strdup(url);
    if (!e || !e->path || !info || !info->socket_context) {
        free(e ? e->path : NULL);
        free(e);
        return NULL;
    }
    e->http = http, e->connection = connection, e->client = info->socket_context, e->method = method;
    e->begun = tri__clock_wall(), e->clock = tri__clock();
    return e;
}

/* Headers that say where a body ends. If a proxy in front reads them differently, the rest of one request becomes
 * another one, of somebody else: what is ambiguous is refused. */
typedef struct framing {
    int said;                  /* how often */
    const char *why;           /* NULL: it is clear */
} framing;

static enum MHD_Result look_at_header(void *context, enum MHD_ValueKind kind, const char *name, const char *value) {
    framing *f = context;
    int is_coding = !strcasecmp(name, "Transfer-Encoding");
    (void)kind;
    f->said += is_coding || !strcasecmp(name, "Content-Length");
    if (f->said > 1) f->why = "the length of the body is said more than once (Content-Length, Transfer-Encoding)";
    else if (strpbrk(name, " \t")) f->why = "a blank in the name of a header";
    else if (is_coding && (!value || strcasecmp(value, "chunked")))
        f->why = "Transfer-Encoding: only chunked is read";
    return MHD_YES;
}

/* 1: refused. */
static int refuse_framing(tri_exchange *e) {
    framing f = {0};
    e->http->calls.get_connection_values(e->connection, MHD_HEADER_KIND, look_at_header, &f);
    if (!f.why) return 0;
    tri__exchange_add(e, "Connection", "close");
    tri__exchange_error(e, 400, "Validation", "%s", f.why);
    return 1;
}

/* What can be refused before the body is read. */
static void check_header(tri_exchange *e) {
    tri_http *http = e->http;
    const char *length = tri__exchange_header(e, "Content-Length"), *allowed;
    e->route = find_route(e, &allowed);
    if (refuse_framing(e)) return;
    int is_control = e->route && e->route->control;
    if (atomic_load(&http->draining) && !is_control) {
        tri__exchange_error(e, 503, "Unhealthy", "the server is shutting down and takes no further requests");
        return;
    }
    if (http->options.keys && !(e->route && e->route->open) &&
        !tri__keys_accept(http->options.keys, tri__exchange_header(e, "Authorization"))) {
        tri__exchange_add(e, "WWW-Authenticate", "Bearer");
        tri__exchange_error(e, 401, "Unauthorized", "a key is needed: Authorization: Bearer KEY");
        return;
    }
    if (!e->route) { /* without a key nothing is said about paths */
        refuse_path(e, allowed);
        return;
    }
    if (atomic_load(&http->in_flight) > http->options.max_requests && !is_control) {
        tri__exchange_error(e, 429, "Overloaded", "%d requests are in flight, the most that are taken; try again later",
                            http->options.max_requests);
        return;
    }
    if (length && strtoull(length, NULL, 10) > http->options.max_body)
        tri__exchange_error(e, 413, "Validation", "the body has %.20s bytes; at most %zu are taken", length,
                            http->options.max_body);
}

static int keep_body(tri_exchange *e, const char *data, size_t size) {
    if (e->too_large) return 1;
    if (e->length + size > e->http->options.max_body) {
        e->too_large = 1;
        return 1;
    }
    if (e->length + size + 1 > e->room) {
        size_t room = e->length + size + 1 > 2 * e->room ? e->length + size + 1 : 2 * e->room;
        char *larger = realloc(e->body, room);
        if (!larger) return 0;
        e->body = larger, e->room = room;
    }
    memcpy(e->body + e->length, data, size);
    e->length += size;
    e->body[e->length] = 0;
    return 1;
}

static enum MHD_Result send_reply(tri_exchange *e) {
    const tri_http_calls *calls = &e->http->calls;
    struct MHD_Response *response = calls->create_response_from_buffer(
        e->size, e->text, e->is_const ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
    if (!response) return MHD_NO;
    if (!e->is_const) e->text = NULL; /* the response owns it */
    calls->add_response_header(response, "Content-Type", e->type);
    for (int i = 0; i < e->n_headers; i++)
        calls->add_response_header(response, e->header[i].name, e->header[i].value);
    if (atomic_load(&e->http->draining)) calls->add_response_header(response, "Connection", "close");
    enum MHD_Result queued = calls->queue_response(e->connection, (unsigned)e->status, response);
    calls->destroy_response(response);
    return queued;
}

/* The request is complete. */
static enum MHD_Result answer(tri_exchange *e) {
    if (!tri__http_client_change(e->client, TRI_CLIENT_BODY, TRI_CLIENT_ANSWERING)) return MHD_NO;
    if (e->too_large)
        tri__exchange_error(e, 413, "Validation", "the body has more than %zu bytes, the most that are taken",
                            e->http->options.max_body);
    else e->route->handle(e->http->options.context, e);
    if (e->held) return MHD_YES;
    TRI_ASSERT(e->status);
    return send_reply(e);
}

static enum MHD_Result access_request(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *data, size_t *size,
                                      void **request) {
    tri_http *http = context;
    tri_exchange *e = *request;
    (void)version;
    if (!e) {
        *request = e = begin(http, connection, url, method);
        if (!e) return MHD_NO;
        atomic_fetch_add(&http->in_flight, 1);
        if (!tri__http_client_change(e->client, TRI_CLIENT_IDLE, TRI_CLIENT_BODY)) return MHD_NO;
        check_header(e);
        if (!e->status) return MHD_YES;
        return tri__http_client_change(e->client, TRI_CLIENT_BODY, TRI_CLIENT_ANSWERING) ? send_reply(e) : MHD_NO;
    }
    if (e->held) { /* resumed */
        e->held = 0;
        e->finish(e->context, e);
        TRI_ASSERT(e->status);
        return send_reply(e);
    }
    if (*size) {
        size_t n = *size;
        *size = 0;
        return keep_body(e, data, n) ? MHD_YES : MHD_NO;
    }
    return e->status ? MHD_YES : answer(e);
}

static void completed(void *context, struct MHD_Connection *connection, void **request,
                      enum MHD_RequestTerminationCode code) {
    tri_http *http = context;
    tri_exchange *e = *request;
    (void)connection;
    if (!e) return;
    if (e->held) e->finish(e->context, e); /* resumed, but the client had left: nothing is sent, its owner frees it */
    const tri_http_record record = {
        .method = e->method, .path = e->path, .peer = e->client->peer,
        .route = e->route ? (int)(e->route - http->options.routes) : -1,
        .status = code == MHD_REQUEST_TERMINATED_COMPLETED_OK ? e->status : atomic_load(&e->client->told),
        .bytes_in = e->length, .bytes_out = e->size, .begun = e->begun, .seconds = tri__clock() - e->clock,
    };
    if (http->options.done) http->options.done(http->options.context, &record);
    (void)tri__http_client_change(e->client, TRI_CLIENT_ANSWERING, TRI_CLIENT_IDLE);
    if (!e->is_const) free(e->text);
    free(e->body);
    free(e->path);
    free(e);
    *request = NULL;
    atomic_fetch_sub(&http->in_flight, 1);
}

static void connected(void *context, struct MHD_Connection *connection, void **socket,
                      enum MHD_ConnectionNotificationCode code) {
    tri_http *http = context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        tri__http_client_remove(&http->clients, *socket);
        *socket = NULL;
        return;
    }
    const union MHD_ConnectionInfo *fd = http->calls.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *at = http->calls.get_connection_info(connection,
                                                                         MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *socket = tri__http_client_add(&http->clients, fd ? fd->connect_fd : -1, at ? at->client_addr : NULL);
}

/* ---- start and stop ---- */

static void silent(void *context, const char *format, va_list args) {
    (void)context, (void)format, (void)args;
}

static tri_status listen_at(const tri_http_options *options, tri_http *http) {
    char port[16], host[200];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    snprintf(port, sizeof port, "%d", options->port);
    snprintf(host, sizeof host, "%s", options->host);
    int code = getaddrinfo(host, port, &hints, &found), one = 1;
    int resource = code == EAI_MEMORY || (code == EAI_SYSTEM && (errno == EMFILE || errno == ENOMEM));
    if (code) return tri__fail(resource ? TRI_RESOURCE : TRI_USAGE, "--host %s: %s", host, gai_strerror(code));
    http->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (http->fd >= 0) setsockopt(http->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int failed = http->fd < 0 || bind(http->fd, found->ai_addr, found->ai_addrlen) || listen(http->fd, 4096) ||
                 getsockname(http->fd, (struct sockaddr *)&bound, &size);
    int why = errno;
    freeaddrinfo(found);
    if (failed)
        return tri__fail(TRI_USAGE, "cannot listen at %s, port %s: %s%s", host, port, strerror(why),
                         why == EADDRINUSE ? "; --port 0 picks a free one"
                         : why == EACCES   ? "; ports below 1024 need privileges: take another --port"
                                           : "");
    http->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                   : ((struct sockaddr_in *)&bound)->sin_port);
    return TRI_OK;
}

static tri_status start(tri_http *http) {
    const tri_http_options *options = &http->options;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    int threads = options->threads < options->max_connections ? options->threads : options->max_connections;
    TRI_TRY(tri__http_calls_find(&http->calls));
    int tls = options->certificate != NULL;
    if (tls && http->calls.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return tri__fail(TRI_USAGE,
                         "--tls-cert: this libmicrohttpd (%s) was built without TLS; put a proxy with TLS in "
                         "front, or install one that has it",
                         http->calls.get_version());
    TRI_TRY(listen_at(options, http));
    http->clients.idle_seconds = options->idle_seconds, http->clients.request_seconds = options->request_seconds;
    http->clients.plain = !tls, http->clients.tick = options->tick, http->clients.context = options->context;
    TRI_TRY(tri__http_clients_open(&http->clients));
    struct MHD_OptionItem secure[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)options->certificate},
                                      {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)options->private_key},
                                      {MHD_OPTION_END, 0, NULL}};
    http->daemon = http->calls.start_daemon(
        flags | (tls ? MHD_USE_TLS : 0), 0, NULL, NULL, access_request, http,
        MHD_OPTION_EXTERNAL_LOGGER, silent, NULL, MHD_OPTION_LISTEN_SOCKET, http->fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->max_connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(2 * TRI_HTTP_HEADER),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(options->idle_seconds + 1),
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)(threads > 1 ? threads : 0),
        MHD_OPTION_NOTIFY_COMPLETED, completed, http, MHD_OPTION_NOTIFY_CONNECTION, connected, http,
        MHD_OPTION_ARRAY, tls ? secure : secure + 2, MHD_OPTION_END);
    if (!http->daemon)
        return tri__fail(tls ? TRI_USAGE : TRI_RESOURCE, "the HTTP server does not start%s",
                         tls ? ": are --tls-cert and --tls-key PEM files that belong together?" : "");
    return TRI_OK;
}

tri_status tri__http_start(const tri_http_options *options, tri_http **out) {
    tri_http *http = calloc(1, sizeof *http);
    *out = NULL;
    if (!http) return tri__fail(TRI_RESOURCE, "out of memory");
    http->options = *options, http->fd = -1;
    tri_status status = start(http);
    if (status == TRI_OK) *out = http;
    else tri__http_stop(http);
    return status;
}

int tri__http_port(const tri_http *http) { return http->port; }
int tri__http_in_flight(const tri_http *http) { return atomic_load(&http->in_flight); }
int tri__http_draining(const tri_http *http) { return atomic_load(&http->draining); }

int tri__http_drain(tri_http *http, double seconds) {
    double until = tri__clock() + seconds;
    /* The socket is closed with the server: until then a thread of the library may still hold its number. */
    if (!atomic_exchange(&http->draining, 1) && http->calls.quiesce_daemon(http->daemon) != MHD_INVALID_SOCKET)
        shutdown(http->fd, SHUT_RDWR); /* connections are refused from now on */
    while (atomic_load(&http->in_flight) && tri__clock() < until) tri__clock_sleep(tri__clock() + 0.005);
    return atomic_load(&http->in_flight);
}

void tri__http_stop(tri_http *http) {
    if (!http) return;
    int listening = http->daemon && !atomic_load(&http->draining);
    if (http->daemon) http->calls.stop_daemon(http->daemon); /* closes the socket, unless it was taken back */
    if (!listening && http->fd >= 0) close(http->fd);
    if (http->clients.watching) tri__http_clients_close(&http->clients);
    free(http);
}
