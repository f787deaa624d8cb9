/* http_clients.c - connections and their deadlines. The library's own limit is one of inactivity, which a client that
 * sends a byte now and then never reaches. So a thread looks at every connection four times a second and ends those
 * that take too long for a header or a body, or have gone in the middle of one. The client of a body is told why (408,
 * 400): no reply has begun, and the state's compare-and-exchange keeps the library from beginning one. */
#include "web/http_parts.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static const double LEFT_SECONDS = 1; /* after which a client that closed its side in the middle of a body is gone */

int tri__http_client_change(tri_http_client *client, int from, int to) {
    int was = from;
    if (!atomic_compare_exchange_strong(&client->state, &was, to)) return 0;
    atomic_store(&client->since, tri__clock());
    return 1;
}

/* Says a last word, if no reply can have begun, and closes. */
static void end(const tri_http_clients *clients, tri_http_client *client, int status, const char *why) {
    char body[256], all[512];
    int n = snprintf(body, sizeof body, "{\"error\":\"%s\",\"error_type\":\"%s\"}", why,
                     status == 408 ? "Timeout" : "Validation");
    int size = snprintf(all, sizeof all,
                        "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                        "Content-Length: %d\r\n\r\n%s",
                        status == 408 ? "408 Request Timeout" : "400 Bad Request", n, body);
    if (clients->plain && status && send(client->fd, all, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL) == size)
        atomic_store(&client->told, status);
    shutdown(client->fd, SHUT_RDWR);
}

/* Whether a client that owes the rest of a body has closed its side for a while. The library may miss it, if the end
 * came with the last bytes; and these bytes may still be on their way through it. */
static int has_left(tri_http_client *client, double now) {
    char byte;
    if (recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0) client->left = 0;
    else if (client->left == 0) client->left = now;
    return client->left > 0 && now - client->left >= LEFT_SECONDS;
}

static void look_at(const tri_http_clients *clients, tri_http_client *client, double now) {
    int state = atomic_load(&client->state);
    double waited = now - atomic_load(&client->since);
    if (state == TRI_CLIENT_IDLE && waited >= clients->idle_seconds) {
        if (tri__http_client_change(client, state, TRI_CLIENT_ENDED)) end(clients, client, 0, "");
    } else if (state == TRI_CLIENT_BODY && waited >= clients->request_seconds) {
        if (tri__http_client_change(client, state, TRI_CLIENT_ENDED))
            end(clients, client, 408, "the body did not arrive in time");
    } else if (state == TRI_CLIENT_BODY && has_left(client, now)) {
        if (tri__http_client_change(client, state, TRI_CLIENT_ENDED))
            end(clients, client, 400, "the body is cut short: it has fewer bytes than the header says");
    }
}

static void look(tri_http_clients *clients) {
    double now = tri__clock();
    for (tri_http_client *client = clients->first; client; client = client->next) look_at(clients, client, now);
}

static void *watch(void *context) {
    tri_http_clients *clients = context;
    pthread_mutex_lock(&clients->mutex);
    while (!clients->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 250 * 1000 * 1000;
        if (until.tv_nsec >= 1000 * 1000 * 1000) until.tv_sec++, until.tv_nsec -= 1000 * 1000 * 1000;
        pthread_cond_timedwait(&clients->wake, &clients->mutex, &until);
        look(clients);
        pthread_mutex_unlock(&clients->mutex); /* connections come and go meanwhile */
        if (clients->tick) clients->tick(clients->context);
        pthread_mutex_lock(&clients->mutex);
    }
    pthread_mutex_unlock(&clients->mutex);
    return NULL;
}

tri_status tri__http_clients_open(tri_http_clients *clients) {
    pthread_condattr_t monotonic;
    pthread_mutex_init(&clients->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&clients->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    clients->watching = pthread_create(&clients->watcher, NULL, watch, clients) == 0;
    return clients->watching ? TRI_OK : tri__fail(TRI_RESOURCE, "no thread for the server's deadlines");
}

void tri__http_clients_close(tri_http_clients *clients) {
    if (clients->watching) {
        pthread_mutex_lock(&clients->mutex);
        clients->stop = 1;
        pthread_cond_signal(&clients->wake);
        pthread_mutex_unlock(&clients->mutex);
        pthread_join(clients->watcher, NULL);
    }
    TRI_ASSERT(!clients->first); /* the library has closed every connection */
    pthread_cond_destroy(&clients->wake);
    pthread_mutex_destroy(&clients->mutex);
}

static void name_peer(const struct sockaddr *address, char *out, size_t size) {
    char text[INET6_ADDRSTRLEN] = "";
    int port = 0;
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof text), port = ntohs(in->sin_port);
    } else if (address && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)address;
        inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text), port = ntohs(in->sin6_port);
    }
    snprintf(out, size, "%s:%d", text, port);
}

tri_http_client *tri__http_client_add(tri_http_clients *clients, int fd, const struct sockaddr *address) {
    tri_http_client *client = calloc(1, sizeof *client);
    if (!client) return NULL;
    client->fd = fd;
    atomic_store(&client->since, tri__clock());
    name_peer(address, client->peer, sizeof client->peer);
    pthread_mutex_lock(&clients->mutex);
    client->next = clients->first;
    if (client->next) client->next->previous = client;
    clients->first = client;
    pthread_mutex_unlock(&clients->mutex);
    return client;
}

void tri__http_client_remove(tri_http_clients *clients, tri_http_client *client) {
    if (!client) return;
    pthread_mutex_lock(&clients->mutex);
    if (client->previous) client->previous->next = client->next;
    else clients->first = client->next;
    if (client->next) client->next->previous = client->previous;
    pthread_mutex_unlock(&clients->mutex);
    free(client);
}
