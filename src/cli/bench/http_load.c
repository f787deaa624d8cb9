/* http_load.c - a client that loads an HTTP server. epoll; a timer wakes it when the next request is due. */
#include "cli/bench/http_load.h"
#include "cli/bench/bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { ANSWER = 1 << 16, EVENTS = 256, PAUSE_MS = 5 };
static const double PATIENCE = 30; /* seconds without any answer after which the load ends */

typedef struct client {
    int fd;                    /* -1: not connected */
    int busy;                  /* a request is on its way */
    int64_t request;           /* of in->request */
    double due;                /* tri__clock() */
    size_t sent, got;
    char answer[ANSWER];
} client;

typedef struct load {
    const tri_load_in *in;
    tri_load_out *out;
    client *client;            /* [in->clients] */
    int epoll, timer, open;    /* open: clients in use so far (open loop) */
    double *waiting;           /* [room], due times that no client was free for: a ring */
    int64_t first, n_waiting, room, sent;
    tri_buffer latencies;      /* doubles: out->latency */
    uint64_t *first_answer;    /* [in->n] hash of the first answer's body; 0: none yet */
    double begin, next, last;  /* next: when the next request is due; last: the last answer */
    int busy;
} load;

static void watch(load *l, client *c, int op) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(l->epoll, op, c->fd, &event);
}

static int connect_to(const tri_load_in *in) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)in->port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, in->host, &to.sin_addr);
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    close(fd);
    return -1;
}

/* Sends the client's request; a connection that fails is made again, until the server answers or patience ends. */
static void send_request(load *l, client *c) {
    c->sent = c->got = 0;
    while (tri__clock() - l->last < PATIENCE) {
        if (c->fd < 0 && (c->fd = connect_to(l->in)) >= 0) watch(l, c, EPOLL_CTL_ADD);
        size_t length = l->in->length[c->request];
        while (c->fd >= 0 && c->sent < length) {
            ssize_t n = send(c->fd, l->in->request[c->request] + c->sent, length - c->sent, MSG_NOSIGNAL);
            if (n <= 0) tri__fd_drop(&c->fd);
            else c->sent += (size_t)n;
        }
        if (c->fd >= 0) return;
        c->sent = 0;
        l->out->retried++;
        tri__clock_sleep(tri__clock() + PAUSE_MS * 1e-3);
    }
}

static void start(load *l, client *c, double due) {
    c->due = due, c->request = l->sent++ % l->in->n;
    if (!c->busy) l->busy++;
    c->busy = 1;
    send_request(l, c);
}

static int is_over(const load *l, double now) {
    return now - l->begin >= l->in->seconds || (l->in->requests && l->sent >= l->in->requests);
}

static uint64_t hash_of(const char *text, size_t n) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)text[i]) * 1099511628211u;
    return h | 1;
}

static tri_status count(load *l, client *c, const char *body, size_t length, double now) {
    tri_load_out *out = l->out;
    int status = atoi(c->answer + 9);
    l->last = now;
    if (status == 429 || status == 503) out->refused++;
    else if (status != 200) out->failed++;
    if (status != 200) return TRI_OK;
    double latency = now - c->due;
    tri__buffer_add(&l->latencies, (const char *)&latency, sizeof latency);
    if (l->latencies.failed) return tri__fail(TRI_RESOURCE, "out of memory");
    out->latency = (void *)l->latencies.text, out->answered++;
    uint64_t hash = hash_of(body, length), *first = &l->first_answer[c->request];
    out->wrong += *first && *first != hash;
    if (!*first) *first = hash;
    return TRI_OK;
}

/* 1: the answer is complete, *body and *length are its. */
static int is_complete(client *c, char **body, size_t *length) {
    c->answer[c->got] = 0;
    char *end = strstr(c->answer, "\r\n\r\n"), *said = strcasestr(c->answer, "\r\nContent-Length:");
    if (!end) return 0;
    *body = end + 4;
    *length = said && said < end ? strtoul(said + 17, NULL, 10) : 0;
    return c->got >= (size_t)(*body - c->answer) + *length;
}

static void next_of(load *l, client *c) {
    double now = tri__clock();
    c->busy = 0, l->busy--;
    if (strcasestr(c->answer, "\r\nConnection: close")) tri__fd_drop(&c->fd);
    if (l->in->rate > 0) {
        if (!l->n_waiting) return;
        double due = l->waiting[l->first];
        l->first = (l->first + 1) % l->room, l->n_waiting--;
        start(l, c, due);
    } else if (!is_over(l, now)) start(l, c, now);
}

static tri_status receive(load *l, client *c) {
    char *body;
    size_t length;
    ssize_t n = recv(c->fd, c->answer + c->got, ANSWER - 1 - c->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return TRI_OK;
    if (n <= 0) {
        int was_busy = c->busy;
        tri__fd_drop(&c->fd);
        if (!was_busy) return TRI_OK;
        l->out->retried++;
        send_request(l, c);
        return TRI_OK;
    }
    c->got += (size_t)n;
    if (!is_complete(c, &body, &length)) {
        if (c->got < ANSWER - 1) return TRI_OK;
        return tri__fail(TRI_DATA, "an answer of more than %d bytes", ANSWER);
    }
    TRI_TRY(count(l, c, body, length, tri__clock()));
    next_of(l, c);
    return TRI_OK;
}

/* ---- open loop ---- */

/* Times between requests are exponential: arrivals of many independent users. */
static double gap(const load *l, int64_t k) {
    tri_random random = tri__philox(7, tri__random_id("load"), (uint32_t)k, 0, 0, 0);
    return -log((random.word[0] + 1.0) / 4294967297.0) / l->in->rate;
}

static client *free_client(load *l) {
    for (int i = 0; i < l->open; i++)
        if (!l->client[i].busy) return &l->client[i];
    return l->open < l->in->clients ? &l->client[l->open++] : NULL;
}

static tri_status wait_in_ring(load *l, double due) {
    if (l->n_waiting == l->room) {
        int64_t room = 2 * l->room + 256;
        double *more = malloc((size_t)room * sizeof *more);
        if (!more) return tri__fail(TRI_RESOURCE, "out of memory");
        for (int64_t i = 0; i < l->n_waiting; i++) more[i] = l->waiting[(l->first + i) % l->room];
        free(l->waiting);
        l->waiting = more, l->room = room, l->first = 0;
    }
    l->waiting[(l->first + l->n_waiting++) % l->room] = due;
    return TRI_OK;
}

/* Starts what is due by now, and sets the timer for what comes next. */
static tri_status start_due(load *l, int64_t *k) {
    double now = tri__clock();
    while (l->next <= now && !is_over(l, l->next)) {
        client *c = free_client(l);
        if (c) start(l, c, l->next);
        else TRI_TRY(wait_in_ring(l, l->next));
        l->next += gap(l, ++*k);
        now = tri__clock();
    }
    double left = l->next > now ? l->next - now : 1e-6;
    struct itimerspec when = {.it_value = {(time_t)left, (long)(fmod(left, 1) * 1e9)}};
    if (is_over(l, l->next)) when = (struct itimerspec){0};
    timerfd_settime(l->timer, 0, &when, NULL);
    return TRI_OK;
}

/* ---- the loop ---- */

static tri_status run(load *l) {
    struct epoll_event event[EVENTS];
    int64_t k = 0;
    l->begin = l->last = tri__clock();
    l->next = l->in->rate > 0 ? l->begin + gap(l, 0) : INFINITY;
    if (l->in->rate > 0) TRI_TRY(start_due(l, &k));
    for (int i = 0; l->in->rate <= 0 && i < l->in->clients && !is_over(l, l->begin); i++)
        start(l, &l->client[i], tri__clock());
    while (l->busy || l->n_waiting || (l->in->rate > 0 && !is_over(l, l->next))) {
        int n = epoll_wait(l->epoll, event, EVENTS, 1000);
        if (l->busy && tri__clock() - l->last > PATIENCE)
            return tri__fail(TRI_IO, "the server has answered nothing for %g seconds", PATIENCE);
        for (int i = 0; i < n; i++) {
            uint64_t ticks;
            if (event[i].data.ptr) TRI_TRY(receive(l, event[i].data.ptr));
            else (void)!read(l->timer, &ticks, sizeof ticks);
        }
        if (l->in->rate > 0) TRI_TRY(start_due(l, &k));
    }
    l->out->seconds = l->last - l->begin;
    return TRI_OK;
}

tri_status tri__http_load(const tri_load_in *in, tri_load_out *out) {
    load l = {.in = in, .out = out, .epoll = epoll_create1(EPOLL_CLOEXEC),
              .timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
              .client = calloc((size_t)in->clients, sizeof *l.client),
              .first_answer = calloc((size_t)in->n, sizeof *l.first_answer)};
    struct epoll_event event = {.events = EPOLLIN};
    *out = (tri_load_out){.cpu = -tri__bench_cpu(1)};
    tri_status status = TRI_OK;
    if (l.epoll < 0 || l.timer < 0 || !l.client || !l.first_answer)
        status = tri__fail(TRI_RESOURCE, "no memory or descriptors for the load");
    for (int i = 0; l.client && i < in->clients; i++) l.client[i].fd = -1;
    if (status == TRI_OK && epoll_ctl(l.epoll, EPOLL_CTL_ADD, l.timer, &event))
        status = tri__fail(TRI_RESOURCE, "epoll: %s", strerror(errno));
    if (status == TRI_OK) status = run(&l);
    out->cpu += tri__bench_cpu(1);
    if (out->answered) tri__bench_median(out->latency, out->answered); /* sorts them */
    for (int i = 0; l.client && i < in->clients; i++) tri__fd_drop(&l.client[i].fd);
    if (l.epoll >= 0) close(l.epoll);
    if (l.timer >= 0) close(l.timer);
    TRI_FREE(l.client, l.first_answer, l.waiting);
    return status;
}

void tri__load_free(tri_load_out *out) {
    free(out->latency);
    *out = (tri_load_out){0};
}

tri_status tri__http_get(const char *host, int port, const char *path, char **body) {
    const tri_load_in in = {.host = host, .port = port};
    TRI_OWNED(tri__free_at) client *c = calloc(1, sizeof *c);
    char request[512], *at = NULL;
    size_t length = 0;
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host);
    *body = NULL;
    if (!c) return tri__fail(TRI_RESOURCE, "out of memory");
    c->fd = connect_to(&in);
    if (c->fd >= 0 && send(c->fd, request, (size_t)n, MSG_NOSIGNAL) == n)
        for (ssize_t got = 1; got > 0 && c->got < ANSWER - 1 && !is_complete(c, &at, &length);) {
            got = recv(c->fd, c->answer + c->got, ANSWER - 1 - c->got, 0);
            if (got > 0) c->got += (size_t)got;
        }
    if (c->fd >= 0 && is_complete(c, &at, &length) && atoi(c->answer + 9) == 200) *body = strndup(at, length);
    tri__fd_drop(&c->fd);
    return *body ? TRI_OK : tri__fail(TRI_NOINPUT, "http://%s:%d%s does not answer", host, port, path);
}
