/* nccl_double.c - the calls of the double: communicators, groups, and what is queued on streams (nccl_parts.h). */
#include "tests/lib/nccl_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { GROUPED = 256 };
static const double ABORT_SECONDS = 3; /* for streams to run dry */

/* Between ncclGroupStart and ncclGroupEnd. */
static _Thread_local struct {
    int depth, n, error;
    transfer of[GROUPED];
} group;

/* ---- Faults ---- */

/* Whether this operation of a communicator is to fail in that way. */
static int is_faulty(const char *kind, int number) {
    const char *asked = getenv("NCCL_DOUBLE"), *rank = getenv("RANK"), *at;
    char text[32];
    snprintf(text, sizeof text, "fault=%s", kind);
    if (!asked || !strstr(asked, text) || !(at = strstr(asked, "rank=")) || atoi(at + 5) != (rank ? atoi(rank) : 0))
        return 0;
    return (at = strstr(asked, "at=")) && atoi(at + 3) == number;
}

static double patience(void) {
    const char *asked = getenv("NCCL_DOUBLE"), *at = asked ? strstr(asked, "patience=") : NULL;
    return at ? atof(at + 9) : 0;
}

/* ---- Communicators ---- */

int ncclGetVersion(int *version) { return *version = 21400, NCCL_OK; }

int ncclGetUniqueId(nccl_id *id) {
    nccl_name name = {.process = getpid(), .fd = memfd_create("nccl-double", MFD_CLOEXEC)};
    if (name.fd < 0 || ftruncate(name.fd, (off_t)sizeof(segment)) ||
        getrandom(&name.nonce, sizeof name.nonce, 0) != sizeof name.nonce ||
        pwrite(name.fd, &name.nonce, sizeof name.nonce, 0) != sizeof name.nonce) {
        if (name.fd >= 0) close(name.fd);
        return nccl_refuse(NCCL_SYSTEM, "no memory to share: %m");
    }
    memset(id, 0, sizeof *id);
    memcpy(id->bytes, &name, sizeof name);
    return NCCL_OK;
}

/* Those that were aborted. Their segments stay: a stream may still touch one, and unpinning it would wait for all
 * streams of the GPU, of which others wait for members of communicators that have yet to be aborted. */
static _Atomic(nccl_comm *) aborted;

static void free_batches(nccl_comm *c) {
    for (batch *b = c->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
}

static void free_comm(nccl_comm *c) {
    free_batches(c);
    if (c->pinned) gpu_unpin(&c->shared->of[c->me]);
    if (c->shared) munmap(c->shared, sizeof *c->shared);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->change);
    free(c);
}

int ncclCommGetAsyncError(nccl_comm *c, int *state) {
    *state = atomic_load(&c->state);
    if (*state != NCCL_OK) return NCCL_OK;
    if (atomic_load(&c->shared->failed)) { /* another member */
        nccl_fail(c, NCCL_INTERNAL, "%s", "");
        *state = atomic_load(&c->state);
        return NCCL_OK;
    }
    uint32_t left[3] = {0};
    for (int k = 0; k < c->n; k++) {
        const message *to = &c->shared->of[c->me].to[k], *from = &c->shared->of[k].to[c->me];
        if (atomic_load(&c->awaits) && !atomic_load(&c->shared->of[k].posted)) left[0] = 1;
        if (!atomic_load(&to->asked)) left[1] |= 1u << k;
        if (!atomic_load(&from->offered)) left[2] |= 1u << k;
    }
    atomic_fetch_and(&c->awaits, left[0]);
    atomic_fetch_and(&c->awaits_to, left[1]);
    atomic_fetch_and(&c->awaits_from, left[2]);
    if (atomic_load(&c->awaits) | atomic_load(&c->awaits_to) | atomic_load(&c->awaits_from)) *state = NCCL_IN_PROGRESS;
    return NCCL_OK;
}

/* The result of a call that has begun something. */
static int begun(nccl_comm *c) {
    int state, turn = 0;
    while (ncclCommGetAsyncError(c, &state), state == NCCL_IN_PROGRESS && c->blocking) nccl_nap(&turn);
    return state;
}

int ncclCommInitRankConfig(nccl_comm **comm, int n, nccl_id id, int me, const nccl_config *config) {
    *comm = NULL;
    if (n < 1 || n > NCCL_RANKS || me < 0 || me >= n)
        return nccl_refuse(NCCL_ARGUMENT, "rank %d of %d: the double has groups of at most %d", me, n, NCCL_RANKS);
    if (config && (config->magic != 0xcafebeef || config->size < sizeof *config))
        return nccl_refuse(NCCL_ARGUMENT, "a configuration that nobody has initialised");
    nccl_comm *c = calloc(1, sizeof *c);
    if (!c) return nccl_refuse(NCCL_SYSTEM, "out of memory");
    c->n = n, c->me = me, c->id = id;
    c->device = gpu_current();
    c->blocking = !config || config->blocking != 0;
    c->last = &c->first;
    c->patience = patience();
    atomic_store(&c->state, NCCL_IN_PROGRESS);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->change, NULL);
    if (pthread_create(&c->helper, NULL, nccl_help, c)) {
        free_comm(c);
        return nccl_refuse(NCCL_SYSTEM, "no thread for a group");
    }
    *comm = c;
    return begun(c);
}

static void tell(nccl_comm *c, int leaving) {
    pthread_mutex_lock(&c->lock);
    if (leaving > c->leaving) c->leaving = leaving;
    pthread_cond_broadcast(&c->change);
    pthread_mutex_unlock(&c->lock);
}

int ncclCommFinalize(nccl_comm *c) {
    int state = NCCL_OK;
    if (!atomic_compare_exchange_strong(&c->state, &state, NCCL_IN_PROGRESS)) return state;
    tell(c, 1);
    return begun(c);
}

int ncclCommAbort(nccl_comm *c) {
    int turn = 0;
    atomic_store(&c->stop, 1);
    tell(c, 0);
    pthread_join(c->helper, NULL);
    if (!c->shared) return free_comm(c), NCCL_OK;
    member *me = &c->shared->of[c->me];
    double from = nccl_clock();
    atomic_store(&me->gone, 1);
    __atomic_store_n(&me->go, c->rounds, __ATOMIC_RELEASE); /* lets the streams go on */
    while (__atomic_load_n(&me->done, __ATOMIC_ACQUIRE) != c->rounds && nccl_clock() - from < ABORT_SECONDS)
        nccl_nap(&turn);
    free_batches(c);
    c->aborted_before = atomic_exchange(&aborted, c);
    return NCCL_OK;
}

int ncclCommDestroy(nccl_comm *c) {
    int state, turn = 0;
    if (c->leaving == 0) ncclCommFinalize(c);
    while (ncclCommGetAsyncError(c, &state), state == NCCL_IN_PROGRESS) nccl_nap(&turn);
    if (state != NCCL_OK) return ncclCommAbort(c);
    tell(c, 2);
    pthread_join(c->helper, NULL);
    atomic_store(&c->shared->of[c->me].left, 1);
    free_comm(c);
    return NCCL_OK;
}

const char *ncclGetErrorString(int error) {
    static const char *const words[] = {"no error",          "unhandled cuda error", "unhandled system error",
                                        "internal error",    "invalid argument",     "invalid usage",
                                        "remote process exited or there was a network error", "operation in progress"};
    return error >= 0 && error < (int)(sizeof words / sizeof *words) ? words[error] : "unknown result code";
}

const char *ncclGetLastError(nccl_comm *c) {
    return c && atomic_load(&c->state) != NCCL_OK && c->words[0] ? c->words : nccl_said;
}

/* ---- Queueing a batch on its stream ---- */

static size_t in_bytes(const transfer *t) {
    int used = t->what.kind == BROADCAST ? t->what.root == t->comm->me : t->what.kind != RECV;
    return t->what.count * nccl_width(t->what.type) * (size_t)(t->what.kind == REDUCE_SCATTER ? t->comm->n : 1) *
           (size_t)used;
}

static size_t out_bytes(const transfer *t) {
    int used = t->what.kind == REDUCE ? t->what.root == t->comm->me : t->what.kind != SEND;
    return t->what.count * nccl_width(t->what.type) * (size_t)(t->what.kind == ALL_GATHER ? t->comm->n : 1) *
           (size_t)used;
}

static int overlap(const char *a, size_t n, const char *b, size_t m) { return n && m && a < b + m && b < a + n; }

/* What will be received is not a number until then; but for inputs in the same place. */
static int poison(const batch *b) {
    int error = 0;
    for (int i = 0; i < b->n && !error; i++) {
        const transfer *t = &b->part[i], *over = NULL;
        size_t bytes = out_bytes(t), before = bytes;
        int n = 0;
        for (int k = 0; k < b->n; k++)
            if (overlap(t->out, bytes, b->part[k].in, in_bytes(&b->part[k]))) over = &b->part[k], n++;
        if (n > 1) continue;
        if (over) before = over->in > t->out ? (size_t)(over->in - t->out) : 0;
        if (before) error = gpu_fill(t->out, 0xff, before, t->stream);
        if (!over || error) continue;
        const char *end = over->in + in_bytes(over);
        if (end < t->out + bytes) error = gpu_fill((char *)end, 0xff, (size_t)(t->out + bytes - end), t->stream);
    }
    return error;
}

typedef enum stage { INPUT, AGAIN, OUTPUT } stage;

static int copy(const batch *b, uint64_t round, int half, stage what) {
    span spans[NCCL_RANKS];
    int error = 0;
    for (int i = 0; i < b->n && !error; i++) {
        const transfer *t = &b->part[i];
        const nccl_comm *c = t->comm;
        member *me = &c->shared->of[c->me];
        int n = nccl_spans(&t->what, c->n, c->me, round, what == OUTPUT, spans);
        for (int k = 0; k < n && !error; k++) {
            const span *s = &spans[k];
            if (what == OUTPUT) error = gpu_copy(t->out + s->at, me->out[half] + s->offset, s->bytes, t->stream);
            else
                error = gpu_copy((what == INPUT ? me->in : me->again)[half] + s->offset, t->in + s->at, s->bytes,
                                 t->stream);
        }
    }
    return error;
}

static int queue(nccl_comm *c, batch *b) {
    member *me = &c->shared->of[c->me];
    gpu_stream *s = b->part[0].stream;
    int error = 0;
    for (int i = 0; i < b->n; i++) {
        uint64_t rounds = nccl_rounds(&b->part[i].what, c->n);
        if (rounds > b->rounds) b->rounds = rounds;
    }
    uint64_t rounds = b->rounds;
    b->first = c->rounds + 1;
    for (uint64_t round = 0; round < rounds && !error; round++) {
        uint32_t number = ++c->rounds;
        int half = number & 1;
        error = copy(b, round, half, INPUT);
        if (!error && round == 0) error = poison(b);
        if (!error) error = gpu_write(&me->ready, number, s);
        if (!error) error = gpu_wait(&me->go, number, s);
        if (!error) error = copy(b, round, half, AGAIN);
        if (!error) error = copy(b, round, half, OUTPUT);
        if (!error) error = gpu_write(&me->done, number, s);
    }
    pthread_mutex_lock(&c->lock);
    *c->last = b;
    c->last = &b->next;
    pthread_cond_broadcast(&c->change);
    pthread_mutex_unlock(&c->lock);
    return error ? nccl_refuse(NCCL_GPU_ERROR, "a transfer could not be queued: %s", gpu_words(error)) : NCCL_OK;
}

/* ---- Groups ---- */

/* Numbers an operation, and notes what its first use has to wait for. */
static void number(nccl_comm *c, op *what) {
    member *of = c->shared->of;
    int peer = what->root, bit = 1 << peer, receives = what->kind == RECV;
    if (what->kind < SEND) {
        what->number = ++c->collectives;
        if (c->collectives > 1) return;
        atomic_store(&of[c->me].posted, 1);
        atomic_store(&c->awaits, 1);
        return;
    }
    what->number = ++c->messages[receives][peer];
    if (what->number > 1) return;
    atomic_store(receives ? &of[peer].to[c->me].asked : &of[c->me].to[peer].offered, 1);
    atomic_fetch_or(receives ? &c->awaits_from : &c->awaits_to, (unsigned)bit);
}

static int launch_batch(nccl_comm *c, const transfer *parts, int n) {
    batch *b = calloc(1, sizeof *b);
    if (!b) return nccl_refuse(NCCL_SYSTEM, "out of memory");
    int failed = 0, late = 0;
    for (int i = 0; i < n; i++) {
        int at = ++c->operations;
        b->part[b->n] = parts[i];
        if (is_faulty("count", at) && parts[i].what.count) b->part[b->n].what.count--;
        failed |= is_faulty("error", at), late |= is_faulty("async", at), b->stalled |= is_faulty("stall", at);
        number(c, &b->part[b->n++].what);
    }
    if (failed) return free(b), nccl_refuse(NCCL_SYSTEM, "a fault that the test asked for");
    int error = queue(c, b);
    if (late) nccl_fail(c, NCCL_SYSTEM, "a fault that the test asked for, later");
    return error;
}

/* The collectives of a communicator one by one, then its messages together. */
static int launch(nccl_comm *c) {
    transfer messages[2 * NCCL_RANKS];
    unsigned used[2] = {0, 0};
    int n = 0, error = NCCL_OK;
    for (int i = 0; i < group.n && !error; i++) {
        const transfer *t = &group.of[i];
        if (t->comm != c) continue;
        if (t->what.kind < SEND) {
            error = launch_batch(c, t, 1);
            continue;
        }
        unsigned *bits = &used[t->what.kind == RECV], bit = 1u << t->what.root;
        if (*bits & bit) error = nccl_refuse(NCCL_USAGE, "two messages of a group to or from rank %d", t->what.root);
        *bits |= bit;
        if (!error) messages[n++] = *t;
    }
    return n && !error ? launch_batch(c, messages, n) : error;
}

int ncclGroupStart(void) { return group.depth++, NCCL_OK; }

int ncclGroupEnd(void) {
    if (group.depth < 1) return nccl_refuse(NCCL_USAGE, "the end of a group that has no beginning");
    if (--group.depth) return NCCL_OK;
    int error = group.error, state = NCCL_OK, now;
    for (int i = 0; i < group.n && !error; i++) {
        int k = 0;
        while (group.of[k].comm != group.of[i].comm) k++;
        if (k == i) error = launch(group.of[i].comm);
    }
    for (int i = 0; i < group.n && !error && (state == NCCL_OK || state == NCCL_IN_PROGRESS); i++)
        if ((now = begun(group.of[i].comm)) != NCCL_OK) state = now;
    group.n = 0, group.error = NCCL_OK;
    return error ? error : state;
}

static int check(const transfer *t) {
    nccl_comm *c = t->comm;
    const op *what = &t->what;
    int state = atomic_load(&c->state);
    size_t in = in_bytes(t), out = out_bytes(t), width = nccl_width(what->type);
    char text[NCCL_WORDS];
    if (state == NCCL_IN_PROGRESS) return nccl_refuse(NCCL_USAGE, "a group is used before it is made");
    if (state != NCCL_OK) return state;
    if (!width) return nccl_refuse(NCCL_ARGUMENT, "no type has number %d", what->type);
    if (what->reduction < 0 || what->reduction > NCCL_MIN || what->root < 0 || what->root >= c->n)
        return nccl_refuse(NCCL_ARGUMENT, "reduction %d, root %d", what->reduction, what->root);
    if ((in && !gpu_owns(t->in)) || (out && !gpu_owns(t->out)))
        return nccl_refuse(NCCL_ARGUMENT, "a buffer of %.300s is not the GPU's", nccl_describe(what, text));
    if (!t->stream || (c->stream && c->stream != t->stream))
        return nccl_refuse(NCCL_USAGE, "%.300s is on another stream than what came before", nccl_describe(what, text));
    size_t place = what->count * width * (size_t)c->me;
    const char *expected = what->kind == ALL_GATHER ? t->out + place : t->out;
    const char *input = what->kind == REDUCE_SCATTER ? t->in + place : t->in;
    if (overlap(t->in, in, t->out, out) && expected != input)
        return nccl_refuse(NCCL_ARGUMENT, "the buffers of %.300s overlap", nccl_describe(what, text));
    return NCCL_OK;
}

static int post(op what, const void *in, void *out, nccl_comm *c, gpu_stream *stream) {
    transfer t = {.what = what, .in = in, .out = out, .comm = c, .stream = stream};
    ncclGroupStart();
    int error = c ? check(&t) : nccl_refuse(NCCL_ARGUMENT, "a transfer without a group");
    if (!error && group.n == GROUPED) error = nccl_refuse(NCCL_USAGE, "more than %d operations in a group", GROUPED);
    if (!error) c->stream = stream, group.of[group.n++] = t;
    else if (!group.error) group.error = error;
    int ended = ncclGroupEnd();
    return error ? error : ended;
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int how, nccl_comm *c, gpu_stream *s) {
    return post((op){.kind = ALL_REDUCE, .count = count, .type = type, .reduction = how}, in, out, c, s);
}

int ncclAllGather(const void *in, void *out, size_t count, int type, nccl_comm *c, gpu_stream *s) {
    return post((op){.kind = ALL_GATHER, .count = count, .type = type}, in, out, c, s);
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int how, nccl_comm *c, gpu_stream *s) {
    return post((op){.kind = REDUCE_SCATTER, .count = count, .type = type, .reduction = how}, in, out, c, s);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, nccl_comm *c, gpu_stream *s) {
    return post((op){.kind = BROADCAST, .count = count, .type = type, .root = root}, in, out, c, s);
}

int ncclReduce(const void *in, void *out, size_t count, int type, int how, int root, nccl_comm *c, gpu_stream *s) {
    return post((op){.kind = REDUCE, .count = count, .type = type, .reduction = how, .root = root}, in, out, c, s);
}

int ncclSend(const void *in, size_t count, int type, int peer, nccl_comm *c, gpu_stream *s) {
    return post((op){.kind = SEND, .count = count, .type = type, .root = peer}, in, NULL, c, s);
}

int ncclRecv(void *out, size_t count, int type, int peer, nccl_comm *c, gpu_stream *s) {
    return post((op){.kind = RECV, .count = count, .type = type, .root = peer}, NULL, out, c, s);
}
