/* http_loop.c - the server's threads. Each has an epoll of its own with the connections it has accepted, all of them
 * edge-triggered: an event is remembered in the connection, which then goes on until it would block. A few times a
 * second each connection is looked at for its deadlines, which are those of a whole head or body: a client that sends a
 * byte now and then does not put them off. */
#include "web/http_parts.h"

#include "base/thread.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS = 64, ACCEPTED = 16, LOOK_MS = 200 };

/* ---- new connections ---- */

/* Those that are too many wait in the system's queue. */
static void listen_or_not(tri_http_loop *loop, int failed) {
    tri_http *http = loop->http;
    int wanted = !failed && !atomic_load(&http->draining) &&
                 atomic_load(&http->connections) < http->options.max_connections;
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = http};
    if (wanted != loop->listening && !epoll_ctl(loop->epoll, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, http->fd, &event))
        loop->listening = wanted;
}

static void accept_some(tri_http_loop *loop) {
    tri_http *http = loop->http;
    for (int i = 0; i < ACCEPTED && atomic_load(&http->connections) < http->options.max_connections; i++) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof from;
        int one = 1, fd = accept4(http->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            listen_or_not(loop, errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
            return;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        tri_http_connection *c = tri__connection_open(loop, fd, (struct sockaddr *)&from);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
        if (c && epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event)) tri__connection_free(c);
    }
    listen_or_not(loop, 0);
}

/* ---- a turn ---- */

/* Goes on with what was held. */
static void finish_resumed(tri_http_loop *loop) {
    uint64_t count;
    (void)!read(loop->event, &count, sizeof count);
    pthread_mutex_lock(&loop->mutex);
    tri_exchange *all = loop->resumed;
    loop->resumed = NULL;
    pthread_mutex_unlock(&loop->mutex);
    while (all) {
        tri_exchange *e = all;
        all = e->next, e->held = 0;
        e->finish(e->context, e);
        TRI_ASSERT(e->status);
        tri__connection_reply(e->connection);
    }
}

/* After the events of a turn, so that none of them is of a connection that is gone. */
static void settle_due(tri_http_loop *loop) {
    tri_http_connection *all = loop->due;
    loop->due = NULL;
    for (tri_http_connection *c = all, *next; c; c = next) {
        next = c->next_due, c->is_due = 0;
        if (c->state == TRI_HTTP_CLOSED) {
            tri__connection_free(c);
            listen_or_not(loop, 0);
        } else tri__connection_run(c);
    }
}

static void take_event(tri_http_loop *loop, const struct epoll_event *event) {
    tri_http_connection *c = event->data.ptr;
    if (event->data.ptr == loop) finish_resumed(loop);
    else if (event->data.ptr == loop->http) accept_some(loop);
    else {
        c->leaving |= (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        c->readable |= c->leaving || (event->events & EPOLLIN);
        tri__connection_run(c);
    }
}

static void *work(void *context) {
    tri_http_loop *loop = context;
    struct epoll_event events[EVENTS];
    double next_look = 0;
    while (!atomic_load(&loop->http->stop)) {
        int n = epoll_wait(loop->epoll, events, EVENTS, loop->due ? 0 : LOOK_MS);
        for (int i = 0; i < n; i++) take_event(loop, &events[i]);
        double now = tri__clock();
        if (now >= next_look) {
            for (tri_http_connection *c = loop->first; c; c = c->next) tri__connection_look(c, now);
            listen_or_not(loop, 0);
            next_look = now + LOOK_MS / 1e3;
        }
        settle_due(loop);
    }
    while (loop->first) tri__connection_free(loop->first);
    return NULL;
}

/* Calls `tick`, which may block, where it keeps nobody waiting. */
static void *tick(void *context) {
    tri_http *http = context;
    struct pollfd stop = {.fd = http->tick_event, .events = POLLIN};
    while (poll(&stop, 1, LOOK_MS) == 0) http->options.tick(http->options.context);
    return NULL;
}

/* ---- start and stop ---- */

static int start_loop(tri_http *http, tri_http_loop *loop) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = loop};
    loop->http = http, loop->epoll = epoll_create1(EPOLL_CLOEXEC), loop->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&loop->mutex, NULL);
    if (loop->epoll < 0 || loop->event < 0 || epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->event, &event)) return 0;
    listen_or_not(loop, 0);
    return loop->started = !tri__thread_start(&loop->thread, work, loop);
}

tri_status tri__http_loops_open(tri_http *http) {
    const tri_http_options *options = &http->options;
    int n = options->threads < options->max_connections ? options->threads : options->max_connections, started = 1;
    http->tick_event = -1;
    TRI_TRY(TRI_NEW(http->loop, n > 1 ? n : 1, "threads"));
    while (started && http->n_loops < (n > 1 ? n : 1)) started = start_loop(http, &http->loop[http->n_loops++]);
    if (started && options->tick)
        started = (http->tick_event = eventfd(0, EFD_CLOEXEC)) >= 0 &&
                  (http->ticking = !tri__thread_start(&http->ticker, tick, http));
    return started ? TRI_OK : tri__fail(TRI_RESOURCE, "no threads or descriptors for the HTTP server");
}

static void wake(int event) {
    const uint64_t one = 1;
    (void)!write(event, &one, sizeof one);
}

void tri__http_loops_close(tri_http *http) {
    atomic_store(&http->stop, 1);
    for (int i = 0; i < http->n_loops; i++) {
        tri_http_loop *loop = &http->loop[i];
        if (loop->started) wake(loop->event), pthread_join(loop->thread, NULL);
        if (loop->event >= 0) close(loop->event);
        if (loop->epoll >= 0) close(loop->epoll);
        pthread_mutex_destroy(&loop->mutex);
    }
    if (http->ticking) wake(http->tick_event), pthread_join(http->ticker, NULL);
    if (http->tick_event >= 0) close(http->tick_event);
    free(http->loop);
}

void tri__exchange_resume(tri_exchange *exchange) {
    tri_http_loop *loop = exchange->connection->loop;
    TRI_LOCKED(&loop->mutex);
    int first = !loop->resumed;
    exchange->next = loop->resumed, loop->resumed = exchange;
    if (first) wake(loop->event); /* under the mutex: afterwards the exchange, and the server, may be gone */
}
