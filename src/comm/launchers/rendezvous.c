/* rendezvous.c - over an abstract local socket, every rank identifies itself to local rank 0, which answers all at
 * once, with the descriptor of the shared memory or with the error. */
#include "comm/launchers/rendezvous.h"

#include "base/file.h"
#include "comm/world/packet.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const char MAGIC[8] = "TRIMEET";
static const double HELLO_SECONDS = 1;    /* for a connected process to identify itself */
static const double ANSWER_SECONDS = 1;   /* extra time for the answer after the rendezvous' deadline */
enum { LOOK_MS = 50 };                    /* how often a wait checks for a stop signal */

typedef struct hello {
    char magic[8];
    uint32_t version;
    int32_t local, n, world;
    uint64_t heap_bytes;
    uint64_t run[2]; /* proves that the sender knows the key */
} hello;

typedef struct answer {
    int32_t status; /* TRI_OK: a descriptor is attached */
    char text[512];
} answer;

enum { NAME, PROOF }; /* seeds */

static void hash_key(const tri_rendezvous *meeting, uint64_t seed, uint64_t out[static 2]) {
    size_t length = strlen(meeting->key);
    out[0] = tri__hash64(seed, meeting->key, length);
    out[1] = tri__hash64(out[0], meeting->key, length);
}

static hello own_hello(const tri_rendezvous *meeting, const tri_segment_spec *spec) {
    hello said = {.version = TRI_SEGMENT_VERSION, .local = meeting->local, .n = meeting->n, .world = spec->world,
                  .heap_bytes = spec->heap_bytes};
    memcpy(said.magic, MAGIC, sizeof MAGIC);
    hash_key(meeting, PROOF, said.run);
    return said;
}

/* Names are listed for everybody (/proc/net/unix): it has a hash of the key, and not the one that proves it. */
static socklen_t name_socket(const tri_rendezvous *meeting, struct sockaddr_un *name) {
    uint64_t hash[2];
    hash_key(meeting, NAME, hash);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX}; /* sun_path[0] = 0: abstract, without a file */
    int used = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "trident.%u.%016llx%016llx",
                        (unsigned)geteuid(), (unsigned long long)hash[1], (unsigned long long)hash[0]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used);
}

/* Nonblocking: connecting to a listener that accepts no one would block indefinitely. */
static tri_status open_socket(int *fd) {
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *fd >= 0 ? TRI_OK
                    : tri__fail(TRI_RESOURCE, "cannot make a local socket for the ranks to meet: %s (see ulimit -n)",
                                strerror(errno));
}

static tri_status check_stop(const tri_rendezvous *meeting) {
    return tri__stop_check(meeting->stop, "the %d ranks of this machine met", meeting->n);
}

/* The process at the other end; its user is -1 if that is not known, which is nobody's. */
static struct ucred peer_of(int fd) {
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) peer = (struct ucred){.uid = (uid_t)-1};
    return peer;
}

static int same_user(int fd) { return peer_of(fd).uid == geteuid(); }

/* Waits until the descriptor is readable; 0 at the deadline, or when a signal asked to stop. A signal may reach another
 * thread, so the wait is in short intervals. */
static int readable(int fd, double deadline, const tri_stop *stop) {
    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        double left = deadline - tri__clock();
        if (poll(&poll_fd, 1, left <= 0 ? 0 : left * 1e3 < LOOK_MS ? (int)(left * 1e3) + 1 : LOOK_MS) > 0) return 1;
        if (tri__stop_signalled(stop) || tri__clock() >= deadline) return 0;
    }
}

static void short_pause(void) {
    struct timespec time = {.tv_nsec = 5 * 1000 * 1000};
    nanosleep(&time, NULL);
}

/* ---- Local rank 0 ---- */

static tri_status listen_on(const tri_rendezvous *meeting, double deadline, int *out) {
    struct sockaddr_un name;
    socklen_t length = name_socket(meeting, &name);
    int fd;
    TRI_TRY(open_socket(&fd));
    while (bind(fd, (struct sockaddr *)&name, length) != 0 || listen(fd, meeting->n) != 0) {
        int cause = errno;
        if (cause == EADDRINUSE && tri__clock() < deadline && !tri__stop_signalled(meeting->stop)) {
            short_pause(); /* a previous job may be just ending */
            continue;
        }
        close(fd);
        TRI_TRY(check_stop(meeting));
        return cause == EADDRINUSE
                   ? tri__fail(TRI_USAGE,
                               "another job uses the name \"%s\" on this machine: give each its own MASTER_PORT",
                               meeting->key)
                   : tri__fail(TRI_RESOURCE, "the ranks cannot meet under \"%s\": %s", meeting->key, strerror(cause));
    }
    *out = fd;
    return TRI_OK;
}

static tri_status name_missing(const tri_rendezvous *meeting, const int *fds) {
    char text[256] = "", time[32];
    for (int i = 1; i < meeting->n; i++)
        if (fds[i] < 0) tri__text_append(text, sizeof text, ", ", "%d", i);
    return tri__fail(
        TRI_RESOURCE,
        "waited %s for the %d ranks of this machine; missing: local rank %s. Were all of them started, with the same "
        "MASTER_PORT?",
        tri__text_seconds(meeting->seconds, time), meeting->n, text);
}

static tri_status compare(const hello *theirs, const hello *own) {
    if (theirs->version != own->version)
        return tri__fail(TRI_DISAGREE,
                         "a rank is of another build (version %u, local rank 0 has %u): start all with the same binary",
                         theirs->version, own->version);
    if (theirs->local < 1 || theirs->local >= own->n)
        return tri__fail(TRI_DISAGREE, "a rank says that it is local rank %d, but local rank 0 expects %d ranks",
                         theirs->local, own->n);
    if (theirs->n != own->n || theirs->world != own->world)
        return tri__fail(TRI_DISAGREE,
                         "local rank %d counts %d ranks here and %d in all, local rank 0 counts %d and %d",
                         theirs->local, theirs->n, theirs->world, own->n, own->world);
    if (theirs->heap_bytes != own->heap_bytes)
        return tri__fail(TRI_DISAGREE, "local rank %d asks for a shared heap of %llu bytes, local rank 0 one of %llu",
                         theirs->local, (unsigned long long)theirs->heap_bytes, (unsigned long long)own->heap_bytes);
    return TRI_OK;
}

/* A process that is no rank of this run: it is told so, and the ranks go on meeting. */
static void refuse(int fd, const tri_rendezvous *meeting, int user) {
    struct ucred peer = peer_of(fd);
    answer words = {.status = TRI_USAGE};
    snprintf(words.text, sizeof words.text, "refused: %s",
             user ? "the ranks that meet here are of another run; give each run its own MASTER_PORT or run id"
                  : "the ranks that meet here belong to another user");
    tri__packet_send(fd, &words, sizeof words, NULL, 0);
    tri__say(meeting->log, TRI_LOG_WARN, "process %d of %s user %u wanted to join the ranks of this run: refused",
             (int)peer.pid, user ? "the same" : "another", (unsigned)peer.uid);
}

/* Handles one connection. *place is the index of its socket; 0: it was refused. */
static tri_status greet(int fd, const tri_rendezvous *meeting, const hello *own, const int *fds, double deadline,
                        int *place) {
    hello theirs = {0};
    double soon = tri__clock() + HELLO_SECONDS;
    int user = same_user(fd);
    *place = 0;
    if (!user || !readable(fd, soon < deadline ? soon : deadline, meeting->stop) ||
        recv(fd, &theirs, sizeof theirs, MSG_DONTWAIT) < (ssize_t)offsetof(hello, local) ||
        memcmp(theirs.magic, MAGIC, sizeof MAGIC) != 0 ||
        (theirs.version == own->version && memcmp(theirs.run, own->run, sizeof own->run) != 0)) {
        refuse(fd, meeting, user);
        return TRI_OK;
    }
    TRI_TRY(compare(&theirs, own));
    if (fds[theirs.local] >= 0)
        return tri__fail(TRI_DISAGREE, "two ranks say that they are local rank %d", theirs.local);
    *place = theirs.local;
    return TRI_OK;
}

/* Collects every rank's socket in fds[1..n-1]. A rank with a wrong greeting gets the answer too: its socket is in
 * fds[0]. */
static tri_status collect(int listener, const tri_rendezvous *meeting, const hello *own, double deadline, int *fds) {
    for (int came = 1; came < meeting->n;) {
        int place;
        int there = readable(listener, deadline, meeting->stop);
        TRI_TRY(check_stop(meeting));
        if (!there) return name_missing(meeting, fds);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == ECONNABORTED || errno == EINTR || errno == EAGAIN)) continue;
        if (fd < 0)
            return tri__fail(TRI_RESOURCE, "cannot accept a rank of this machine: %s (see ulimit -n)", strerror(errno));
        tri_status status = greet(fd, meeting, own, fds, deadline, &place);
        if (status != TRI_OK) fds[0] = fd;
        else if (!place) close(fd);
        else fds[place] = fd, came++;
        TRI_TRY(status);
    }
    return TRI_OK;
}

static tri_status host(const tri_rendezvous *meeting, const tri_segment_spec *spec, tri_segment *segment) {
    double deadline = tri__clock() + meeting->seconds;
    hello own = own_hello(meeting, spec);
    int listener = -1, fds[TRI_RANKS_PER_NODE];
    answer words = {0};
    for (int i = 0; i < meeting->n; i++) fds[i] = -1;
    TRI_TRY(listen_on(meeting, deadline, &listener));
    words.status = collect(listener, meeting, &own, deadline, fds);
    if (words.status == TRI_OK) words.status = tri__segment_create(spec, segment);
    if (words.status != TRI_OK) snprintf(words.text, sizeof words.text, "%s", tri_error());
    for (int i = 0; i < meeting->n; i++)
        if (fds[i] >= 0) {
            /* a process that has ended will be missed when all join */
            tri__packet_send(fds[i], &words, sizeof words, &segment->fd, segment->fd >= 0);
            close(fds[i]);
        }
    close(listener);
    return (tri_status)words.status;
}

/* ---- The other ranks ---- */

/* cause: of the last attempt. Distinguishes no listener from a listener that does not accept. */
static tri_status no_host(const tri_rendezvous *meeting, int cause) {
    char time[32];
    tri__text_seconds(meeting->seconds, time);
    if (cause == EAGAIN)
        return tri__fail(TRI_RESOURCE,
                         "waited %s to meet under \"%s\": a process of this machine holds that name and accepts "
                         "no connections. Is it local rank 0, "
                         "and stopped? Otherwise give the job another MASTER_PORT",
                         time, meeting->key);
    return tri__fail(
        TRI_RESOURCE,
        "waited %s for local rank 0 of this machine; missing: local rank 0. Was it started, with the same MASTER_PORT?",
        time);
}

static tri_status connect_to(const tri_rendezvous *meeting, double deadline, int *out) {
    struct sockaddr_un name;
    socklen_t length = name_socket(meeting, &name);
    for (;;) {
        int fd;
        TRI_TRY(open_socket(&fd));
        if (connect(fd, (struct sockaddr *)&name, length) == 0) {
            *out = fd;
            if (same_user(fd)) return TRI_OK;
            close(fd);
            return tri__fail(TRI_USAGE,
                             "a process of another user holds the name \"%s\": give the job another MASTER_PORT",
                             meeting->key);
        }
        int cause = errno;
        close(fd);
        if (cause != ECONNREFUSED && cause != EAGAIN && cause != EINTR)
            return tri__fail(TRI_RESOURCE, "cannot meet the other ranks under \"%s\": %s", meeting->key,
                             strerror(cause));
        TRI_TRY(check_stop(meeting));
        if (tri__clock() >= deadline) return no_host(meeting, cause);
        short_pause();
    }
}

/* Receives the answer, and its descriptor or -1. */
static tri_status hear(int fd, answer *words, int *segment_fd) {
    int came[TRI_PACKET_DESCRIPTORS], n;
    ssize_t got = tri__packet_receive(fd, words, sizeof *words, came, &n);
    words->text[sizeof words->text - 1] = 0;
    *segment_fd = came[0];
    if (got == (ssize_t)sizeof *words && n < 2 && (words->status != TRI_OK || n)) return TRI_OK;
    for (int i = 0; i < n; i++) close(came[i]);
    return tri__fail(TRI_RESOURCE, "local rank 0 of this machine ended while the ranks met: see its messages");
}

static tri_status guest(const tri_rendezvous *meeting, const tri_segment_spec *spec, tri_segment *segment) {
    double deadline = tri__clock() + meeting->seconds;
    hello own = own_hello(meeting, spec);
    TRI_OWNED(tri__fd_drop) int fd = -1;
    int segment_fd = -1;
    answer words = {0};
    TRI_TRY(connect_to(meeting, deadline, &fd));
    ssize_t sent = send(fd, &own, sizeof own, MSG_NOSIGNAL);
    int answered =
        sent == (ssize_t)sizeof own && readable(fd, tri__clock() + meeting->seconds + ANSWER_SECONDS, meeting->stop);
    if (!answered) TRI_TRY(check_stop(meeting));
    if (!answered) return tri__fail(TRI_RESOURCE, "local rank 0 of this machine does not answer: is it stopped?");
    TRI_TRY(hear(fd, &words, &segment_fd));
    if (words.status != TRI_OK) return tri__fail((tri_status)words.status, "%s", words.text);
    return tri__segment_attach(segment_fd, segment);
}

tri_status tri__rendezvous(const tri_rendezvous *meeting, const tri_segment_spec *spec, tri_segment *segment) {
    *segment = (tri_segment){.fd = -1};
    if (meeting->n < 1 || meeting->n > TRI_RANKS_PER_NODE || meeting->local < 0 || meeting->local >= meeting->n)
        return tri__fail(TRI_USAGE, "local rank %d of %d: there can be 1 to %d, counted from 0", meeting->local,
                         meeting->n, TRI_RANKS_PER_NODE);
    if (meeting->n == 1) return tri__segment_create(spec, segment);
    return meeting->local == 0 ? host(meeting, spec, segment) : guest(meeting, spec, segment);
}
