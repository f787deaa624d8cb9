/* http_parts.h - internals of the HTTP server: http.c (start, requests, drain), http_clients.c (connections and their
 * deadlines), http_exchange.c (what a handler sees). */
#ifndef TRI_WEB_HTTP_PARTS_H
#define TRI_WEB_HTTP_PARTS_H

#include "web/http.h"
#include "web/http_library.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

/* Where a connection stands. Only the library's thread of the connection and the watcher change it, and each change
 * away from the first two is a compare-and-exchange: either the request goes on, or the watcher ends it. */
enum { TRI_CLIENT_IDLE, TRI_CLIENT_BODY, TRI_CLIENT_ANSWERING, TRI_CLIENT_ENDED };

/* A connection; the library's socket context. */
typedef struct tri_http_client {
    struct tri_http_client *next, *previous;
    int fd;
    _Atomic int state;
    _Atomic double since;      /* tri__clock() of the last change of state */
    _Atomic int told;          /* the status that the watcher has sent; 0: none */
    double left;               /* tri__clock() when its side was first seen closed; 0: open. The watcher's own */
    char peer[INET6_ADDRSTRLEN + 8];
} tri_http_client;

typedef struct tri_http_clients {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    tri_http_client *first;
    pthread_t watcher;
    int watching, stop;        /* the thread exists; it should end */
    int plain;                 /* no TLS: a last word can be sent */
    double idle_seconds, request_seconds;
    void (*tick)(void *context);
    void *context;
} tri_http_clients;

tri_status tri__http_clients_open(tri_http_clients *clients);
void tri__http_clients_close(tri_http_clients *clients);
tri_http_client *tri__http_client_add(tri_http_clients *clients, int fd, const struct sockaddr *address);
void tri__http_client_remove(tri_http_clients *clients, tri_http_client *client);
/* 0: the watcher has ended it. */
int tri__http_client_change(tri_http_client *client, int from, int to);

enum { TRI_EXCHANGE_HEADERS = 8 };

struct tri_exchange {
    tri_http *http;
    struct MHD_Connection *connection;
    tri_http_client *client;
    const char *method;        /* the library's, until the request is over */
    char *path;                /* owned */
    const tri_http_route *route; /* NULL: none */
    char part[256];            /* what * matched */
    char *body;                /* [length], [room]; owned */
    size_t length, room;
    double begun, clock;       /* since 1970; tri__clock() */
    /* the reply */
    int status;                /* 0: none yet */
    const char *type;
    char *text;                /* owned unless is_const */
    size_t size;
    int is_const, too_large;   /* too_large: the body is over its limit, and what follows is dropped */
    int n_headers;
    struct { const char *name, *value; } header[TRI_EXCHANGE_HEADERS];
    char copied[64];           /* the value of a header */
    /* held */
    tri_http_handler *finish;
    void *context;
    int held;                  /* suspended; to be called again */
};

struct tri_http {
    tri_http_options options;
    tri_http_calls calls;
    struct MHD_Daemon *daemon;
    int fd, port;              /* fd: the listening socket; -1: none */
    _Atomic int in_flight, draining;
    tri_http_clients clients;
};

#endif
