/* plugin.c - MPI behind the table of plugin.h. A separate shared library, built with the MPI that was found, and loaded
 * only under an MPI launcher. It handles ranks, bytes and tags, and is independent of the rest of Trident. */
#include "comm/mpi/plugin.h"

#include <limits.h>
#include <mpi.h>
#if defined OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* MPICH's MPI_STATUSES_IGNORE is an invalid address, which gcc takes for an array that is too small. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* A transfer is cut into pieces, and few of them are in flight at once. MPI sends a piece only after the receiver has
 * granted it, and over TCP a grant queues behind all data already granted in its own direction: messages of several
 * operations, sent whole, would often travel in one direction at a time. More receives than sends are posted, so that a
 * piece finds its receive posted. */
enum {
    PIECE = TRI_REMOTE_PIECE,
    SENDS = 2, RECEIVES = 4 /* pieces in flight */
};

/* ULFM. MPICH declares it too, but its ch4 device ends the job when a rank dies (tried: 5.0.2). */
#if defined OMPI_HAVE_MPI_EXT_FTMPI && OMPI_HAVE_MPI_EXT_FTMPI
#define ULFM 1
enum { OTHERS_FAILED = MPIX_ERR_REVOKED };
static const double REVOKED_SECONDS = 5;  /* for requests to be interrupted */
static const double QUIET_SECONDS = 0.03; /* without news of another death */
#else
enum { OTHERS_FAILED = MPI_ERR_OTHER };
#endif

typedef enum what { NOTE, SEND, RECEIVE } what;

/* A transfer or a note in flight. The pieces of a transfer are MPI messages with one tag, which MPI keeps in order. */
typedef struct item {
    struct item *next, *prev;
    what what;
    int n, rank, tag;
    char *data;             /* a note's copy, inside this block; a transfer's memory, */
    int64_t bytes;          /* ... its length, */
    int64_t posted, done;   /* ... and how much of it has been handed to MPI, and has completed */
    MPI_Request request[];  /* [n] a transfer's piece k is at k % n */
} item;

typedef struct state {
    MPI_Comm notes, data, other; /* duplicates of the world: tags of different uses never match */
    int size, dropped, leaving;
    int shrunk;                  /* 1: ranks have died */
    MPI_Request agree;           /* on whether all ranks leave in order, */
    int agreeing, flag, why;     /* ... 1: it has begun; what this rank says, then the answer; why it says no */
    int members;                 /* ranks of the world; those after them are spares */
    MPI_Request leave, gather;   /* MPI_REQUEST_NULL: not in progress */
    item list;                   /* head of a ring; last, as it has a flexible array of requests */
} state;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static item *item_new(state *s, what what, int n, int copy) {
    size_t head = sizeof(item) + (size_t)n * sizeof(MPI_Request);
    item *it = malloc(head + (size_t)copy);
    if (!it) return NULL;
    *it = (item){.next = &s->list, .prev = s->list.prev, .what = what, .n = n, .data = (char *)it + head};
    for (int i = 0; i < n; i++) it->request[i] = MPI_REQUEST_NULL;
    it->prev->next = s->list.prev = it;
    return it;
}

static void item_free(item *it) {
    it->prev->next = it->next;
    it->next->prev = it->prev;
    free(it);
}

/* Frees the notes that have been sent. */
static int reap(state *s) {
    for (item *it = s->list.next, *next; it != &s->list; it = next) {
        next = it->next;
        if (it->what != NOTE) continue;
        int done, error = MPI_Test(it->request, &done, MPI_STATUS_IGNORE);
        if (error) return error;
        if (done) item_free(it);
    }
    return 0;
}

static int note(void *of, int rank, const void *bytes, int n) {
    state *s = of;
    if (s->dropped) return 0;
    item *it = item_new(s, NOTE, 1, n);
    if (!it) return TRI_REMOTE_NO_MEMORY;
    memcpy(it->data, bytes, (size_t)n);
    return MPI_Isend(it->data, n, MPI_BYTE, rank, 0, s->notes, it->request);
}

static int hear(void *of, int *rank, void *bytes, int room) {
    state *s = of;
    MPI_Status status;
    int there, n;
    if (s->dropped) return 0;
    int error = reap(s);
    if (!error) error = MPI_Iprobe(MPI_ANY_SOURCE, 0, s->notes, &there, &status);
    if (error) return -error;
    if (!there) return 0;
    *rank = status.MPI_SOURCE;
    error = MPI_Recv(bytes, room, MPI_BYTE, status.MPI_SOURCE, 0, s->notes, &status);
    if (!error) error = MPI_Get_count(&status, MPI_BYTE, &n);
    return error ? -error : n;
}

static int64_t piece_at(const item *it, int64_t at) { return it->bytes - at < PIECE ? it->bytes - at : PIECE; }

/* Hands pieces to MPI until as many are in flight as may be. */
static int post_pieces(state *s, item *it) {
    int error = 0;
    while (!error && it->posted < it->bytes && it->posted - it->done < (int64_t)it->n * PIECE) {
        MPI_Request *request = it->request + it->posted / PIECE % it->n;
        char *at = it->data + it->posted;
        int part = (int)piece_at(it, it->posted);
        error = it->what == RECEIVE ? MPI_Irecv(at, part, MPI_BYTE, it->rank, it->tag, s->data, request)
                                    : MPI_Issend(at, part, MPI_BYTE, it->rank, it->tag, s->data, request);
        it->posted += part;
    }
    return error;
}

static int transfer(state *s, int rank, int tag, char *data, int64_t bytes, what what, void **request) {
    int64_t pieces = (bytes + PIECE - 1) / PIECE, most = what == RECEIVE ? RECEIVES : SENDS;
    item *it = item_new(s, what, (int)(pieces < most ? pieces : most), 0);
    if (!it) return TRI_REMOTE_NO_MEMORY;
    it->rank = rank, it->tag = tag, it->data = data, it->bytes = bytes;
    *request = it;
    return post_pieces(s, it);
}

static int send(void *of, int rank, int tag, const void *data, int64_t bytes, void **request) {
    return transfer(of, rank, tag, (char *)data, bytes, SEND, request);
}

static int receive(void *of, int rank, int tag, void *data, int64_t bytes, void **request) {
    return transfer(of, rank, tag, data, bytes, RECEIVE, request);
}

static int test(void *of, void *request, int *done) {
    item *it = request;
    int error = 0, one = 1;
    *done = 0;
    if (((state *)of)->dropped) return 0;
    while (!error && one && it->done < it->bytes) {
        error = MPI_Test(it->request + it->done / PIECE % it->n, &one, MPI_STATUS_IGNORE);
        if (error || !one) break;
        it->done += piece_at(it, it->done);
        error = post_pieces(of, it);
    }
    *done = !error && it->done == it->bytes;
    if (*done) item_free(it);
    return error;
}

/* Whether any item of this kind is still in flight. */
static int any(state *s, what what) {
    int left = 0;
    for (item *it = s->list.next; it != &s->list; it = it->next) {
        int done = 0;
        if (it->what == what)
            left |= MPI_Testall(it->n, it->request, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS && !done;
    }
    return left;
}

/* Sends as many notes as possible; then cancels receives that have not matched. A receive that has matched cannot be
 * cancelled: it gets the rest of the time to complete. */
static void drop(void *of, double seconds) {
    state *s = of;
    double end = now() + seconds;
    if (s->dropped) return;
    while (any(s, NOTE) && now() < end) {}
    for (item *it = s->list.next; it != &s->list; it = it->next)
        for (int i = 0; i < it->n && it->what == RECEIVE; i++)
            if (it->request[i] != MPI_REQUEST_NULL) MPI_Cancel(it->request + i);
    while (any(s, RECEIVE) && now() < end) {}
    s->dropped = 1;
}

/* An error is for us to handle, also one of the communicator that the others come from. */
static int duplicate(state *s, MPI_Comm from) {
    MPI_Comm *const comm[] = {&s->notes, &s->data, &s->other};
    int error = MPI_Comm_set_errhandler(from, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3 && !error; i++) {
        error = MPI_Comm_dup(from, comm[i]);
        if (!error) error = MPI_Comm_set_errhandler(*comm[i], MPI_ERRORS_RETURN);
    }
    return error;
}

/* ---- ULFM ---- */

#ifdef ULFM

static int tolerates(void) {
    int there = 0, *value;
    return MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, &value, &there) == MPI_SUCCESS && there && *value;
}

static int outlives(void *of) {
    (void)of;
    return tolerates();
}

/* The lowest rank that is dead; -1: none is known here. The dead are acknowledged: receives from any rank go on. */
static int first_dead(state *s) {
    MPI_Group dead, all;
    int n = 0, first = -1;
    if (MPIX_Comm_failure_ack(s->notes) || MPIX_Comm_failure_get_acked(s->notes, &dead)) return -1;
    MPI_Comm_group(s->notes, &all);
    MPI_Group_size(dead, &n);
    for (int i = 0; i < n; i++) {
        int rank;
        MPI_Group_translate_ranks(dead, 1, &i, all, &rank);
        if (first < 0 || rank < first) first = rank;
    }
    MPI_Group_free(&all);
    MPI_Group_free(&dead);
    return first;
}

static int died(void *of, int error, int *rank) {
    int class;
    *rank = -1;
    if (error == TRI_REMOTE_NO_MEMORY || MPI_Error_class(error, &class)) return 0;
    if (class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING) *rank = first_dead(of);
    else if (class != MPIX_ERR_REVOKED) return 0;
    return 1;
}

/* Whether it is only ranks outside the world that died. */
static int spares_only(state *s, int error) {
    int rank;
    return died(s, error, &rank) && rank >= s->members;
}

/* Whether all living ranks say ok: the same answer for all of them, also if one exits as soon as it has it. */
static int agree(MPI_Comm comm, int ok) {
    MPIX_Comm_agree(comm, &ok); /* its error only says that ranks have died */
    return ok;
}

/* The same, once in each world, when a rank leaves it: s->flag has the answer when this returns 1. */
static int agree_once(state *s, int ok) {
    int done = 0;
    if (!s->agreeing) {
        s->flag = ok, s->agreeing = 1;
        MPIX_Comm_iagree(s->other, &s->flag, &s->agree);
    }
    return MPI_Test(&s->agree, &done, MPI_STATUS_IGNORE) || done;
}

/* The request of a revoked communicator, which completes, with or without an error. */
static int finish(MPI_Request *request, double end) {
    int done = *request == MPI_REQUEST_NULL;
    while (!done && now() < end)
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE)) done = 1;
    return done;
}

/* Everything in flight is over: memory that it used may be freed. The communicators stay: freeing them would be
 * collective. */
static int revoke(void *of) {
    state *s = of;
    const MPI_Comm comm[] = {s->notes, s->data, s->other};
    double end = now() + REVOKED_SECONDS;
    int done = 1;
    for (int i = 0; i < 3; i++) MPIX_Comm_revoke(comm[i]);
    for (item *it = s->list.next, *next; it != &s->list && done; it = next) {
        next = it->next;
        for (int i = 0; i < it->n; i++) done &= finish(it->request + i, end);
        item_free(it);
    }
    done &= finish(&s->leave, end) & finish(&s->gather, end);
    return done ? 0 : MPI_ERR_PENDING;
}

/* The ranks of a machine that fails die within moments. A death that Open MPI 5.0.11 hears of inside MPIX_Comm_shrink
 * may crash it (ompi_comm_revoke_local), so those are awaited before. */
static void await_deaths(void) {
    double since = now();
    for (int dead = 0, before = -1, there; now() - since < QUIET_SECONDS; before = dead) {
        MPI_Group group;
        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &there, MPI_STATUS_IGNORE); /* lets MPI look around */
        if (!MPIX_Comm_failure_ack(MPI_COMM_WORLD) && !MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &group)) {
            MPI_Group_size(group, &dead);
            MPI_Group_free(&group);
        }
        if (dead != before) since = now();
    }
}

static int shrink(void *of, double seconds, int *rank, int *size) {
    const struct timespec pause = {.tv_nsec = 50 * 1000};
    state *s = of;
    MPI_Comm from = s->other, next;
    int error = revoke(s), whole = 0;
    double end = now() + seconds;
    while (!error && !agree_once(s, 0)) { /* those that leave in order learn there that not all do */
        if (now() > end) error = MPI_ERR_PENDING;
        nanosleep(&pause, NULL);
    }
    await_deaths();
    while (!error && !whole) { /* again when another rank dies on the way */
        error = MPIX_Comm_shrink(from, &next);
        if (error) break;
        int failed = duplicate(s, next);
        if (failed) MPIX_Comm_revoke(next); /* others may wait in there */
        whole = agree(next, !failed);
        from = next;
    }
    if (error) return error;
    s->dropped = s->leaving = s->agreeing = 0, s->shrunk = 1;
    error = MPI_Comm_rank(s->other, rank);
    if (!error) error = MPI_Comm_size(s->other, &s->size);
    *size = s->members = s->size;
    return error;
}

static void limit(void *of, int members) { ((state *)of)->members = members; }

#else

static int tolerates(void) { return 0; }

static int agree_once(state *s, int ok) {
    (void)s, (void)ok;
    return 1;
}

static int spares_only(state *s, int error) {
    (void)s, (void)error;
    return 0;
}

#endif

/* Where ranks outlive others, all of them agree on it: after a barrier, or as soon as that fails. */
static int leave(void *of, int *done) {
    state *s = of;
    *done = 0;
    if (!s->agreeing) {
        int error = reap(s);
        if (!error && !s->leaving) error = MPI_Ibarrier(s->other, &s->leave);
        if (!error) s->leaving = 1;
        if (!error) error = MPI_Test(&s->leave, done, MPI_STATUS_IGNORE);
        if ((!error && !*done) || !tolerates()) return error;
        s->why = error && !spares_only(s, error) ? error : 0;
    }
    *done = 0;
    if (!agree_once(s, !s->why)) return 0;
    *done = s->flag;
    return *done ? 0 : s->why ? s->why : OTHERS_FAILED;
}

/* With ULFM the exit of a process does not end the others. By then it has said why. */
static int exit_code;

static void end_job(void) {
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

/* After a failure without MPI_Finalize, which would wait for ranks that are gone. The exit of this process ends the
 * job. Where ranks have died, Open MPI 5.0's MPI_Finalize sometimes waits for them. */
static void state_close(void *of, int failed) {
    state *s = of;
    if (failed && tolerates() && !exit_code) {
        exit_code = failed;
        atexit(end_job);
    }
    if (!failed && !s->shrunk) {
        MPI_Comm_free(&s->notes);
        MPI_Comm_free(&s->data);
        MPI_Comm_free(&s->other);
        MPI_Finalize();
    }
    while (s->list.next != &s->list) item_free(s->list.next);
    free(s);
}

static void words(int error, char *out, size_t size) {
    char text[MPI_MAX_ERROR_STRING] = "no memory";
    int n;
    if (error != TRI_REMOTE_NO_MEMORY) MPI_Error_string(error, text, &n);
    strncpy(out, text, size);
    out[size - 1] = 0;
}

static int state_open(void **of, int *rank, int *size) {
    int level, error = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    state *s = calloc(1, sizeof *s);
    if (!s) return TRI_REMOTE_NO_MEMORY;
    s->list.next = s->list.prev = &s->list;
    s->leave = s->gather = s->agree = MPI_REQUEST_NULL;
    if (!error) error = duplicate(s, MPI_COMM_WORLD);
    if (!error) error = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    if (!error) error = MPI_Comm_size(MPI_COMM_WORLD, &s->size);
    *size = s->members = s->size;
    *of = s;
    return error;
}

static int gather(void *of, const void *mine, void *all, int bytes, int (*go_on)(void *context), void *context) {
    const struct timespec pause = {.tv_nsec = 200 * 1000};
    state *s = of;
    int done = 0, error = MPI_Iallgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, s->other, &s->gather);
    if (!error) error = MPI_Test(&s->gather, &done, MPI_STATUS_IGNORE);
    while (!error && !done) {
        if (!go_on(context)) return -1;
        nanosleep(&pause, NULL);
        error = MPI_Test(&s->gather, &done, MPI_STATUS_IGNORE);
    }
    return error;
}

static int native(void *of, const char *name, const void *in, void *out, int64_t count, int root) {
    state *s = of;
    const void *place = in == out ? MPI_IN_PLACE : in;
    int n = (int)count, me;
    if (count > INT_MAX) return -1;
    MPI_Comm_rank(s->other, &me);
    if (!strcmp(name, "all_reduce")) return MPI_Allreduce(place, out, n, MPI_FLOAT, MPI_SUM, s->other);
    if (!strcmp(name, "reduce")) return MPI_Reduce(me == root ? place : in, out, n, MPI_FLOAT, MPI_SUM, root, s->other);
    if (!strcmp(name, "broadcast")) return MPI_Bcast(me == root ? (void *)in : out, n, MPI_FLOAT, root, s->other);
    if (!strcmp(name, "all_gather")) return MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, s->other);
    if (!strcmp(name, "gather")) return MPI_Gather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, root, s->other);
    if (!strcmp(name, "scatter")) return MPI_Scatter(in, n, MPI_FLOAT, out, n, MPI_FLOAT, root, s->other);
    if (!strcmp(name, "reduce_scatter")) return MPI_Reduce_scatter_block(in, out, n, MPI_FLOAT, MPI_SUM, s->other);
    if (!strcmp(name, "all_to_all")) return MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, s->other);
    if (!strcmp(name, "barrier")) return MPI_Barrier(s->other);
    return -1;
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#if defined OMPI_MAJOR_VERSION
#define BUILT_WITH "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION)
#elif defined I_MPI_VERSION
#define BUILT_WITH "Intel MPI " I_MPI_VERSION
#elif defined MVAPICH2_VERSION
#define BUILT_WITH "MVAPICH2 " MVAPICH2_VERSION
#elif defined MPICH_VERSION
#define BUILT_WITH "MPICH " MPICH_VERSION
#else
#define BUILT_WITH "an MPI of version " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#endif

__attribute__((visibility("default"))) extern const tri_mpi_plugin tri_mpi_plugin_table;
const tri_mpi_plugin tri_mpi_plugin_table = {
    .version = TRI_MPI_PLUGIN_VERSION, .built_with = BUILT_WITH,
    .remote = {.name = "mpi", .report_seconds = 0.5, .note = note, .hear = hear, .send = send, .receive = receive,
               .test = test, .drop = drop, .leave = leave, .close = state_close,
#ifdef ULFM
               .died = died, .revoke = revoke,
#endif
               .words = words},
    .open = state_open, .gather = gather, .native = native,
#ifdef ULFM
    .outlives = outlives, .shrink = shrink, .limit = limit,
#endif
};
