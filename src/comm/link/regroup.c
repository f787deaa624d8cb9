/* regroup.c - messages between a rank and its supervisor, and the way from one world into the next. */
#include "comm/link/regroup.h"

#include "comm/world/packet.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAGIC = 0x54524752, LOOK_MS = 50 /* between looks at the stop request */ };

/* What a socket carries; descriptors are counted, their numbers are the receiver's. */
typedef struct words {
    uint32_t magic;
    int32_t kind, local, n, descriptors;
} words;

tri_status tri__regroup_open(int end[2]) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end) == 0) return TRI_OK;
    return tri__fail(TRI_RESOURCE, "cannot make a socket for a rank: %s; raise `ulimit -n`", strerror(errno));
}

int tri__regroup_say(int socket, const tri_regroup_message *message) {
    int fd[] = {message->next, message->before}, n = message->next < 0 ? 0 : message->before < 0 ? 1 : 2;
    words text = {MAGIC, message->kind, message->local, message->n, n};
    return tri__packet_send(socket, &text, sizeof text, fd, n);
}

int tri__regroup_hear(int socket, tri_regroup_message *message) {
    words text = {0};
    int fd[TRI_PACKET_DESCRIPTORS], n;
    ssize_t got = tri__packet_receive(socket, &text, sizeof text, fd, &n);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    int wanted = text.kind == TRI_REGROUP_WORLD;
    if (got == (ssize_t)sizeof text && text.magic == MAGIC && n == text.descriptors && (n > 0) == wanted) {
        *message = (tri_regroup_message){text.magic, text.kind, text.local, text.n, fd[0], fd[1]};
        return 1;
    }
    for (int i = 0; i < n; i++) close(fd[i]);
    return -1;
}

/* ---- a rank's way ---- */

/* Until the supervisor answers. */
static tri_status await(int socket, const tri_stop *stop, tri_regroup_message *message) {
    for (;;) {
        struct pollfd readable = {.fd = socket, .events = POLLIN};
        TRI_TRY(tri__stop_check(stop, "the ranks regrouped"));
        if (poll(&readable, 1, LOOK_MS) <= 0) continue;
        int heard = tri__regroup_hear(socket, message);
        if (heard > 0) return TRI_OK;
        if (heard < 0)
            return tri__fail(TRI_INTERNAL, "the process that started this rank is gone, or did not say what to join");
    }
}

/* Maps what came with the message; takes its descriptors. */
static tri_status attach(const tri_regroup_message *message, tri_segment *next, tri_segment *before) {
    *before = (tri_segment){.fd = -1};
    tri_status status = tri__segment_attach(message->next, next);
    if (status != TRI_OK && message->before >= 0) close(message->before);
    TRI_TRY(status);
    if (message->before >= 0) status = tri__segment_attach(message->before, before);
    if (status == TRI_OK && (message->n != next->n || message->local < 0 || message->local >= next->n))
        status = tri__fail(TRI_DISAGREE, "place %d of %d in a world of %d ranks", message->local, message->n, next->n);
    if (status == TRI_OK) return TRI_OK;
    tri__segment_close(next);
    tri__segment_close(before);
    return status;
}

/* Joins the next world and meets its ranks. *other 1: another rank's failure ended it. */
static tri_status enter(const tri_regroup_message *message, double seconds, const tri_stop *stop, tri_world **world,
                        int *other) {
    tri_segment next, before;
    *other = 0;
    TRI_TRY(attach(message, &next, &before));
    tri_status status = tri__world_open(&next, message->local, NULL, NULL, NULL, world);
    if (status != TRI_OK) {
        tri__control_fail(next.control, message->local, status, "%s", tri_error());
        tri__segment_close(&next);
        tri__segment_close(&before);
        return status;
    }
    (*world)->owns_segment = 1;
    (*world)->before[0] = before;
    status = tri__world_meet(*world, seconds, stop);
    if (status == TRI_OK) return TRI_OK;
    *other = tri__world_abandon(world, status);
    return status;
}

tri_status tri__regroup_next(int socket, double seconds, const tri_stop *stop, tri_world **world, int *again) {
    const tri_regroup_message ready = {.kind = TRI_REGROUP_READY, .next = -1, .before = -1};
    *world = NULL, *again = 0;
    for (int other = 1; other;) {
        tri_regroup_message message;
        tri__regroup_say(socket, &ready); /* a supervisor that is gone does not answer */
        TRI_TRY(await(socket, stop, &message));
        if (message.kind != TRI_REGROUP_WORLD) return TRI_OK;
        tri_status status = enter(&message, seconds, stop, world, &other);
        *again = status == TRI_OK;
        if (*again || !other) return status;
    }
    return TRI_OK;
}
