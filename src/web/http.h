/* http.h - an HTTP/1.1 server: a table of routes, requests with their bodies in memory, replies at once or later, from
 * any thread. It knows no model.
 *
 *   an exchange     a request and its reply. Its handler runs on one of the server's threads when the whole body is
 *                   there, and either replies before it returns or holds the exchange: some other thread resumes it
 *                   later, exactly once, and `finish` then replies, again on a thread of the server, exactly once,
 *                   even if the client has left
 *   limits          a header over its limit is 431, a malformed one 400; a body over its limit 413; a client that is
 *                   slower than its time 408, one that leaves in the middle of a body 400, and the connection ends;
 *                   more complete requests at once than allowed 429, more slow ones of one address likewise
 *   sites           a page of another site is refused by its Origin, and where check_host says so, a name that is not
 *                   this machine's by its Host: 403
 *   drain           new connections are refused, requests on kept ones get 503, those that have begun are answered
 *
 * Errors are JSON: {"error": "what and why", "error_type": "..."}. */
#pragma once

#include "web/keys.h"

typedef struct tri_http tri_http;
typedef struct tri_exchange tri_exchange;
typedef void tri_http_handler(void *context, tri_exchange *exchange);

/* A path may have one part *, which matches any name: "/v2/models/<*>/infer" without the angle brackets. */
typedef struct tri_http_route {
    const char *method, *path; /* "GET" also answers HEAD */
    tri_http_handler *handle;
    int open;                  /* needs no key */
    int control;               /* answered beyond the limit of requests at once, and while draining: health */
} tri_http_route;

/* A finished exchange, for logs and metrics. */
typedef struct tri_http_record {
    const char *method, *path, *peer; /* peer: the client's address */
    int route;                 /* index into the table; -1: none */
    int status;                /* 0: the client went away before a reply */
    size_t bytes_in, bytes_out; /* of the bodies */
    double begun, seconds;     /* since 1970; from the header's end until the reply was sent */
} tri_http_record;

typedef struct tri_http_options {
    const char *host;          /* name or address */
    int port;                  /* 0: the system picks one */
    const tri_http_route *routes; /* ends with a NULL path */
    void *context;             /* of handlers and `done` */
    void (*done)(void *context, const tri_http_record *record); /* on the server's threads */
    void (*tick)(void *context); /* a few times a second, on a thread of its own; NULL: not called */
    const tri_keys_file *keys; /* accepted bearer keys; NULL: none is needed */
    const char *certificate, *private_key; /* texts of PEM files; NULL: no TLS */
    int check_host;            /* only names of this machine are answered, and those of allow_host */
    const char *allow_host;    /* names, separated by commas; NULL: none; *: all */
    size_t max_body;           /* bytes */
    int max_connections, max_requests; /* max_requests: complete ones; and slow ones of one address */
    int max_per_address;       /* connections of one address; 0: max_connections */
    double idle_seconds;       /* a connection without a complete request header is closed after them */
    double request_seconds;    /* the body must be there after them */
    int threads;
} tri_http_options;

/* TRI_USAGE: there is no TLS, or the address cannot be used; TRI_RESOURCE. What `options` points to is used until
 * tri__http_stop. */
tri_status tri__http_start(const tri_http_options *options, tri_http **out);
int tri__http_port(const tri_http *http);
/* http://HOST:PORT, as a client of this machine says it; the caller frees it. NULL: out of memory. */
char *tri__http_url(const tri_http *http);
enum { TRI_HTTP_HEADER = 32 << 10 }; /* bytes of a request line and header; more are refused */
/* From now on refuses connections and requests; returns when none is in flight, or after so many seconds: how many
 * are left. */
int tri__http_drain(tri_http *http, double seconds);
/* No exchange may be held. Closes every connection. Accepts NULL. */
void tri__http_stop(tri_http *http);
int tri__http_in_flight(const tri_http *http);
int tri__http_draining(const tri_http *http);

/* ---- in a handler ---- */

const char *tri__exchange_part(const tri_exchange *exchange);  /* what * matched; "" */
const char *tri__exchange_header(const tri_exchange *exchange, const char *name); /* NULL: none */
const char *tri__exchange_query(const tri_exchange *exchange, const char *name);  /* of ?name=value; NULL: none */
const char *tri__exchange_body(const tri_exchange *exchange, size_t *length);     /* a 0 byte after it */

/* A further header of the reply; both texts must last until the exchange is over. At most eight. */
void tri__exchange_add(tri_exchange *exchange, const char *name, const char *value);
/* The same for a value that is copied: one for an exchange, less than 64 bytes. */
void tri__exchange_add_copy(tri_exchange *exchange, const char *name, const char *value);
/* Takes `body`, which was allocated; NULL: out of memory, a reply of 500. `type`: a constant. */
void tri__exchange_reply(tri_exchange *exchange, int status, const char *type, char *body, size_t length);
/* The same for a body that is a constant. */
void tri__exchange_reply_const(tri_exchange *exchange, int status, const char *type, const char *body, size_t length);
void tri__exchange_error(tri_exchange *exchange, int status, const char *type, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The last thing that a handler does with the exchange. */
void tri__exchange_hold(tri_exchange *exchange, tri_http_handler *finish, void *context);
/* From any thread, even before the handler returned. */
void tri__exchange_resume(tri_exchange *exchange);
