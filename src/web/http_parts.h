/* http_parts.h - internals of the HTTP server: http.c (start, requests, drain), http_loop.c (threads, epoll,
 * deadlines), http_connection.c (bytes in and out), http_address.c (how much one client's address has), http_exchange.c
 * (what a handler sees). A connection belongs to one thread; only `resumed` is reached from others. */
#pragma once

#include "web/http.h"
#include "web/http_head.h"
#include "web/http_tls.h"

#include <netinet/in.h>
#include <stdatomic.h>

/* ---- clients' addresses ---- */

/* What the clients of one address have open: an IPv4 address, or the first half of an IPv6 one. */
typedef struct tri_http_address {
    struct tri_http_address *next;
    unsigned char key[8];
    int connections, slow;     /* slow: bodies that have not arrived completely for a while */
} tri_http_address;
typedef struct tri_http_addresses {
    pthread_mutex_t mutex;
    tri_http_address *bucket[1024];
} tri_http_addresses;
/* One more connection. NULL: there are `most` of them, or no memory. */
tri_http_address *tri__http_address_add(tri_http_addresses *all, const struct sockaddr *address, int most);
void tri__http_address_remove(tri_http_addresses *all, tri_http_address *address);
/* One more slow body, or one fewer; 0: there are `most`. */
int tri__http_address_slow(tri_http_addresses *all, tri_http_address *address, int change, int most);

/* ---- connections ---- */

/* The next thing that a connection does. LINGER: the reply is sent; what still comes is dropped for a while, since
 * closing at once would reset the connection and the client might lose the reply. */
typedef enum tri_http_state {
    TRI_HTTP_HEAD, TRI_HTTP_BODY, TRI_HTTP_HELD, TRI_HTTP_SEND, TRI_HTTP_LINGER, TRI_HTTP_CLOSED
} tri_http_state;

typedef struct tri_http_connection {
    struct tri_http_connection *next, *previous;
    struct tri_http_loop *loop;
    int fd;
    tri_tls_session *tls;      /* NULL: none */
    tri_http_address *address;
    tri_http_state state;
    double since;              /* tri__clock() of the last change of state; sending: of the last progress */
    int readable, leaving;     /* bytes or the end may be there; the client has closed its side */
    struct tri_http_connection *next_due;
    int is_due;                /* in the loop's list of those that wait for no event */
    char *in;                  /* [n_in], [room] bytes, of which those before `at` are used */
    size_t at, n_in, room, seen; /* seen: by tri__http_head_size */
    tri_http_chunks chunks;
    uint64_t left;             /* of a body with a length */
    int is_slow;               /* its body is counted as one of the slow ones of its address */
    int close_after;           /* the reply */
    tri_buffer out;
    size_t sent;
    tri_exchange *exchange;    /* NULL: none */
    char peer[INET6_ADDRSTRLEN + 8];
} tri_http_connection;

typedef struct tri_http_loop {
    tri_http *http;
    pthread_t thread;
    int started, epoll, event; /* event: an eventfd that wakes it */
    int listening;             /* the listening socket is in its epoll */
    tri_http_connection *first, *due;
    pthread_mutex_t mutex;     /* of resumed */
    tri_exchange *resumed;
} tri_http_loop;

/* Starts as many threads as the options say, and one for `tick`. */
tri_status tri__http_loops_open(tri_http *http);
void tri__http_loops_close(tri_http *http);

/* Takes over the socket; NULL: refused or no memory, and it is closed. */
tri_http_connection *tri__connection_open(tri_http_loop *loop, int fd, const struct sockaddr *address);
/* Goes on as far as it can. In the end it is TRI_HTTP_CLOSED, to be freed. */
void tri__connection_run(tri_http_connection *connection);
/* Its exchange, which was held, has its reply. */
void tri__connection_reply(tri_http_connection *connection);
void tri__connection_look(tri_http_connection *connection, double now); /* at its deadlines */
void tri__connection_free(tri_http_connection *connection);

/* ---- exchanges ---- */

enum { TRI_EXCHANGE_HEADERS = 8 };

struct tri_exchange {
    tri_http *http;
    tri_http_connection *connection;
    tri_exchange *next;        /* of those that are resumed */
    char *text;                /* the head's; owned */
    tri_http_head head;
    const tri_http_route *route; /* NULL: none */
    char part[256];            /* what * matched */
    tri_buffer body;
    double begun, clock;       /* since 1970; tri__clock() */
    int placed;                /* counted against max_requests */
    /* the reply */
    int status;                /* 0: none yet */
    const char *type;
    char *reply;               /* owned unless is_const */
    size_t size;
    int is_const;
    int n_headers;
    tri_http_pair header[TRI_EXCHANGE_HEADERS];
    char copied[64];           /* the value of a header */
    /* held */
    tri_http_handler *finish;
    void *context;
    int held;
};

/* A request whose head is there; NULL: no memory. text [size]: taken over. A malformed one has its refusal already. */
tri_exchange *tri__exchange_begin(tri_http_connection *connection, char *text, size_t size);
/* Its body is complete: calls the handler, unless it is refused. */
void tri__exchange_answer(tri_exchange *exchange);
/* The reply as bytes; 0: no memory. */
int tri__exchange_write(tri_exchange *exchange, int close, tri_buffer *out);
/* The reply was sent, or the client has left before. Frees it. */
void tri__exchange_end(tri_exchange *exchange, int was_sent);

struct tri_http {
    tri_http_options options;
    tri_tls *tls;              /* NULL: none */
    int fd, port;              /* fd: the listening socket; -1: none */
    _Atomic int in_flight, placed, draining, connections, stop;
    tri_http_addresses addresses;
    tri_http_loop *loop;       /* [n_loops] */
    int n_loops;
    pthread_t ticker;
    int ticking, tick_event;   /* tick_event: an eventfd that ends it */
};
