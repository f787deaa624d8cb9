/* http_connection.c - bytes of a connection become requests, one after the other, and replies become bytes. */
#include "web/http_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

enum { PIECE = 16 << 10, IN_A_ROW = 256 }; /* bytes of one reading; steps until others have their turn */
/* SLOW: after which a body counts as slow: one that comes in two pieces does not. */
static const double LINGER_SECONDS = 1, SLOW_SECONDS = 1;

static void enter(tri_http_connection *c, tri_http_state state) { c->state = state, c->since = tri__clock(); }

/* ---- reading ---- */

/* The bytes that are not used yet: text [*n]. */
static char *rest(const tri_http_connection *c, size_t *n) {
    *n = c->n_in - c->at;
    return *n ? c->in + c->at : NULL;
}

static void use(tri_http_connection *c, size_t n) { c->at += n, c->seen = 0; }

/* Room for a reading, in front of which the unused bytes stand. 0: no memory. */
static int make_room(tri_http_connection *c) {
    if (c->at) memmove(c->in, c->in + c->at, c->n_in - c->at);
    c->n_in -= c->at, c->at = 0;
    if (c->room - c->n_in >= PIECE / 4) return 1;
    size_t room = c->room ? c->n_in + PIECE : PIECE / 2;
    char *in = realloc(c->in, room);
    if (in) c->in = in, c->room = room;
    return in != NULL;
}

/* Reads once. 1: there are more bytes; 0: none now; -1: there will be none. */
static int receive(tri_http_connection *c) {
    if (!c->readable) return 0;
    if (!make_room(c)) return -1;
    size_t wanted = c->room - c->n_in;
    char *to = c->in + c->n_in;
    ssize_t n;
    do n = c->tls ? tri__tls_receive(c->tls, to, wanted) : recv(c->fd, to, wanted, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return c->readable = 0;
    if (n <= 0) return c->readable = 0, -1;
    if ((size_t)n < wanted && !c->tls && !c->leaving) c->readable = 0; /* more bytes are a new event */
    c->n_in += (size_t)n;
    return 1;
}

static void settle_body(tri_http_connection *c) {
    if (c->is_slow) tri__http_address_slow(&c->loop->http->addresses, c->address, -1, 0);
    c->is_slow = 0;
}

/* ---- replying ---- */

static void end_exchange(tri_http_connection *c, int was_sent) {
    if (c->exchange) tri__exchange_end(c->exchange, was_sent);
    c->exchange = NULL;
}

/* To be looked at when the events of this turn are done: freed, or run again. */
static void make_due(tri_http_connection *c) {
    if (c->is_due) return;
    c->is_due = 1, c->next_due = c->loop->due, c->loop->due = c;
}

static void close_now(tri_http_connection *c) {
    end_exchange(c, 0);
    settle_body(c);
    c->state = TRI_HTTP_CLOSED;
    make_due(c);
}

static void reply(tri_http_connection *c) {
    settle_body(c);
    c->close_after |= !c->exchange->head.keep_alive || atomic_load(&c->loop->http->draining);
    c->sent = 0;
    if (tri__exchange_write(c->exchange, c->close_after, &c->out)) enter(c, TRI_HTTP_SEND);
    else close_now(c);
}

/* A reply to a request of which bytes may still come: nothing after it on this connection can be trusted. */
static void refuse(tri_http_connection *c, int status, const char *kind, const char *why) {
    c->close_after = 1;
    tri__exchange_error(c->exchange, status, kind, "%s", why);
    reply(c);
}

/* The reply is sent. */
static void sent(tri_http_connection *c) {
    end_exchange(c, 1);
    tri__buffer_free(&c->out);
    if (!c->close_after) {
        enter(c, TRI_HTTP_HEAD);
        if (c->at < c->n_in) return;
        free(c->in); /* an idle connection holds no memory */
        c->in = NULL, c->at = c->n_in = c->room = 0;
        return;
    }
    if (c->tls) tri__tls_finish(c->tls);
    else shutdown(c->fd, SHUT_WR);
    enter(c, TRI_HTTP_LINGER);
}

/* 0: the client takes no more bytes now. */
static int send_some(tri_http_connection *c) {
    const char *text = c->out.text + c->sent;
    size_t left = c->out.size - c->sent;
    ssize_t n = c->tls ? tri__tls_send(c->tls, text, left) : send(c->fd, text, left, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (n < 0 && errno != EINTR) return close_now(c), 1;
    if (n > 0) c->sent += (size_t)n, c->since = tri__clock();
    if (c->sent == c->out.size) sent(c);
    return 1;
}

/* ---- a request ---- */

/* Whether all of the body is there already, for a reply that does not need it: then the connection can be kept. */
static int skip_body(tri_http_connection *c) {
    if (c->exchange->head.chunked || c->n_in - c->at < c->exchange->head.length) return 0;
    use(c, (size_t)c->exchange->head.length);
    return 1;
}

/* The head is there: refuses, or begins to read the body. */
static void begin_body(tri_http_connection *c) {
    const tri_http_head *head = &c->exchange->head;
    if (c->exchange->status) {
        if (!skip_body(c)) c->close_after = 1;
        reply(c);
        return;
    }
    c->chunks = (tri_http_chunks){0}, c->left = head->length;
    enter(c, TRI_HTTP_BODY);
    if (head->expects && (head->chunked || head->length) && c->at == c->n_in) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        ssize_t n = c->tls ? tri__tls_send(c->tls, go_on, sizeof go_on - 1)
                           : send(c->fd, go_on, sizeof go_on - 1, MSG_NOSIGNAL);
        if (n != (ssize_t)sizeof go_on - 1) close_now(c); /* a client that takes 25 bytes not even now */
    }
}

/* 0: more bytes are needed. */
static int take_head(tri_http_connection *c) {
    size_t n;
    char *in;
    while (in = rest(c, &n), n >= 2 && !memcmp(in, "\r\n", 2)) use(c, 2); /* RFC 9112, 2.2 */
    ptrdiff_t size = tri__http_head_size(in, n, &c->seen);
    int too_long = size > TRI_HTTP_HEADER || (!size && n > TRI_HTTP_HEADER), whole = size > 0 && !too_long;
    if (!size && !too_long) return 0;
    char *text = whole ? malloc((size_t)size) : NULL;
    if (text) {
        memcpy(text, in, (size_t)size);
        use(c, (size_t)size);
    }
    c->exchange = whole && !text ? NULL : tri__exchange_begin(c, text, whole ? (size_t)size : 0);
    if (!c->exchange) close_now(c);
    else if (too_long) refuse(c, 431, "Validation", "the header has more than 32 KiB");
    else if (!whole)
        refuse(c, 400, "Validation",
               "a line of the header ends without CR and LF, or has a NUL or another control character");
    else begin_body(c);
    return 1;
}

/* Takes a piece of the body. 1: it is complete; 0: more bytes are needed; -1: go on; or the status of a refusal. */
static int take_piece(tri_http_connection *c) {
    tri_exchange *e = c->exchange;
    size_t n, size = 0;
    const char *in = rest(c, &n), *data = in;
    ptrdiff_t used;
    if (e->head.chunked) used = tri__http_chunks_read(&c->chunks, in, n, &data, &size);
    else used = (ptrdiff_t)(size = n < c->left ? n : (size_t)c->left), c->left -= size;
    if (used < 0) return 400;
    if (e->body.size + size > c->loop->http->options.max_body) return 413;
    if (size) tri__buffer_add(&e->body, data, size);
    if (e->body.failed) return 500;
    use(c, (size_t)used);
    if (e->head.chunked ? c->chunks.state == TRI_CHUNKS_DONE : !c->left) return 1;
    return used ? -1 : 0;
}

/* 0: more bytes are needed. */
static int take_body(tri_http_connection *c) {
    int done = take_piece(c);
    if (done <= 0) return done;
    if (done == 400) refuse(c, 400, "Validation", "a chunk of the body is malformed");
    else if (done == 413) refuse(c, 413, "Validation", "the body has more bytes than are taken (--max-body)");
    else if (done == 500) refuse(c, 500, "Backend", "out of memory");
    else {
        settle_body(c);
        enter(c, TRI_HTTP_HELD);
        tri__exchange_answer(c->exchange);
        if (!c->exchange->held) reply(c);
    }
    return 1;
}

/* The client sends nothing more. */
static void left(tri_http_connection *c) {
    if (c->state == TRI_HTTP_BODY)
        refuse(c, 400, "Validation", "the body is cut short: it has fewer bytes than the header says");
    else close_now(c);
}

/* ---- a connection ---- */

static void name_peer(const struct sockaddr *address, char *out, size_t size) {
    char text[INET6_ADDRSTRLEN] = "";
    int port = 0;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof text), port = ntohs(in->sin_port);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)address;
        inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text), port = ntohs(in->sin6_port);
    }
    snprintf(out, size, "%s:%d", text, port);
}

/* One more than its address may have. */
static void turn_away(const tri_http *http, int fd) {
    static const char why[] = "{\"error\":\"your address has as many connections as are taken\",\"error_type\":"
                              "\"Overloaded\"}";
    char text[400];
    int n = snprintf(text, sizeof text, "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nRetry-After: 1\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", sizeof why - 1, why);
    if (!http->tls && send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) shutdown(fd, SHUT_WR);
    close(fd);
}

tri_http_connection *tri__connection_open(tri_http_loop *loop, int fd, const struct sockaddr *address) {
    tri_http *http = loop->http;
    tri_http_connection *c = calloc(1, sizeof *c);
    tri_http_address *from = tri__http_address_add(&http->addresses, address, http->options.max_per_address);
    tri_tls_session *tls = c && from && http->tls ? tri__tls_begin(http->tls, fd) : NULL;
    if (!c || !from || (http->tls && !tls)) {
        if (from) tri__http_address_remove(&http->addresses, from);
        free(c);
        turn_away(http, fd);
        return NULL;
    }
    *c = (tri_http_connection){.loop = loop, .fd = fd, .tls = tls, .address = from, .next = loop->first};
    name_peer(address, c->peer, sizeof c->peer);
    enter(c, TRI_HTTP_HEAD);
    if (c->next) c->next->previous = c;
    loop->first = c;
    atomic_fetch_add(&http->connections, 1);
    return c;
}

void tri__connection_free(tri_http_connection *c) {
    tri_http *http = c->loop->http;
    if (c->state != TRI_HTTP_CLOSED) close_now(c);
    if (c->previous) c->previous->next = c->next;
    else c->loop->first = c->next;
    if (c->next) c->next->previous = c->previous;
    tri__tls_end(c->tls);
    close(c->fd);
    tri__http_address_remove(&http->addresses, c->address);
    tri__buffer_free(&c->out);
    TRI_FREE(c->in, c);
    atomic_fetch_sub(&http->connections, 1);
}

/* 0: waits for an event. */
static int step(tri_http_connection *c) {
    switch (c->state) {
    case TRI_HTTP_HEAD: return take_head(c);
    case TRI_HTTP_BODY: return take_body(c);
    case TRI_HTTP_SEND: return send_some(c);
    case TRI_HTTP_LINGER: c->at = c->n_in = 0; return 0;
    default: return 0;
    }
}

static int reads(const tri_http_connection *c) {
    return c->state == TRI_HTTP_HEAD || c->state == TRI_HTTP_BODY || c->state == TRI_HTTP_LINGER;
}

void tri__connection_run(tri_http_connection *c) {
    for (int turn = 0; turn < IN_A_ROW; turn++) {
        if (step(c)) continue;
        if (!reads(c)) return;
        int more = receive(c);
        if (more < 0) left(c);
        else if (!more) return;
    }
    make_due(c); /* it has more to do; others have their turn first */
}

void tri__connection_reply(tri_http_connection *c) {
    reply(c);
    tri__connection_run(c);
}

void tri__connection_look(tri_http_connection *c, double now) {
    const tri_http_options *options = &c->loop->http->options;
    double waited = now - c->since;
    if (c->state == TRI_HTTP_BODY && waited >= options->request_seconds) {
        refuse(c, 408, "Timeout", "the body did not arrive in time");
        tri__connection_run(c);
    } else if (c->state == TRI_HTTP_BODY && waited >= SLOW_SECONDS && !c->is_slow) {
        c->is_slow = tri__http_address_slow(&c->loop->http->addresses, c->address, 1, options->max_requests);
        if (c->is_slow) return;
        refuse(c, 429, "Overloaded", "your address sends as many slow bodies at once as are taken; try again later");
        tri__connection_run(c);
    } else if (((c->state == TRI_HTTP_HEAD || c->state == TRI_HTTP_SEND) && waited >= options->idle_seconds) ||
               (c->state == TRI_HTTP_LINGER && waited >= LINGER_SECONDS)) {
        close_now(c);
    }
}
