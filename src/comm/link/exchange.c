/* exchange.c - all collectives of groups that span machines, as messages between pairs of members. Nothing blocks.
 *
 * First every member sends its descriptor to every other, and no output is written before all descriptors agree. Small
 * inputs travel with the descriptor, and each member computes its own output alone. Otherwise each member sends each
 * other the part of its input that the other's output needs. All-reduce, reduce and broadcast of larger vectors take
 * two steps, so that no member moves more than about twice the vector: member k's slice of every input is sent to k;
 * k's result is sent to the members that need it.
 *
 * Where a machine has several members, larger vectors cross its card once instead, and go from machine to machine
 * (relay.c).
 *
 * With its descriptor a member also gives each other a tag of the link for what follows. So every receive is posted as
 * soon as its step begins, and after the sends: a sender that is granted its data has then granted the other's before,
 * and data travels both ways at once. (Over TCP a grant queues behind data that travels the same way.)
 *
 * Every element is reduced in one place, over all inputs in the group's order, by the function that shm also uses:
 * results are bitwise equal.
 *
 * An operation that has begun holds a receive buffer for reductions (as large as its input, in slices; all inputs if
 * small), from malloc; at most WINDOW operations of a group have begun and not completed. */
#include "comm/ops/kind.h"
#include "comm/ops/reduce.h"
#include "comm/link/relay.h"
#include "comm/link/message.h"

enum {
    WINDOW = 8,
    SMALL = 4096,            /* bytes from one member to another ... */
    SMALL_IN_ALL = 32768,    /* ... and in total */
    CARDS = 1, FIRST, SECOND /* steps, and channels of messages */
};

typedef struct state {
    int begun;               /* operations that have begun and not completed */
    tri_relay_hosts hosts;
} state;

/* Elements [at, at + count) of a vector. */
typedef struct span {
    int64_t at, count;
} span;

/* One operation that has begun. */
typedef struct job {
    int step, left;          /* messages of this step that are not done */
    int small, n_messages;
    const void **in;         /* [n] inputs of the reduction, in the group's order */
    int *to, *from;          /* [n] tags of messages to and from members of other machines; -1: none yet */
    char *room;              /* [n][part] received parts of other members' inputs */
    int64_t part;            /* bytes */
    tri_relay *relay;        /* takes over after the cards; NULL: member by member */
    tri_message message[];   /* [2 n] */
} job;

static const span NONE = {0, 0};

static int reduces(const tri_pending *p) { return tri__kind(p->what.kind)->reduces; }

static int in_slices(const tri_pending *p) {
    return p->what.kind == TRI_ALL_REDUCE || p->what.kind == TRI_REDUCE || p->what.kind == TRI_BROADCAST;
}

static span shard(const tri_pending *p, int k) {
    if (p->shard) return (span){p->shard[k], p->shard[k + 1] - p->shard[k]};
    return (span){k * p->what.count, p->what.count};
}

/* Member k's slice of a vector of `count`: sizes differ by at most one. */
static span slice(const tri_pending *p, int k) {
    int64_t n = p->group->n, each = p->what.count / n, more = p->what.count % n;
    return (span){k * each + (k < more ? k : more), each + (k < more)};
}

/* The part of member from's input that member to's output needs. */
static span wanted(const tri_pending *p, int from, int to) {
    int root = p->what.root;
    if (p->bare) return NONE;
    switch (p->what.kind) {
    case TRI_ALL_REDUCE: return (span){0, p->what.count};
    case TRI_REDUCE: return to == root ? (span){0, p->what.count} : NONE;
    case TRI_BROADCAST: return from == root ? (span){0, p->what.count} : NONE;
    case TRI_ALL_GATHER: return (span){0, shard(p, from).count};
    case TRI_GATHER: return to == root ? (span){0, shard(p, from).count} : NONE;
    case TRI_SCATTER: return from == root ? shard(p, to) : NONE;
    case TRI_REDUCE_SCATTER:
    case TRI_ALL_TO_ALL: return shard(p, to);
    default: return NONE;
    }
}

/* The part of `from`'s input that it sends in the first step; and, for sliced kinds, the part of its result that it
 * sends in the second. */
static span first(const tri_pending *p, int from, int to) {
    if (!in_slices(p)) return wanted(p, from, to);
    return p->what.kind == TRI_BROADCAST && from != p->what.root ? NONE : slice(p, to);
}

static span second(const tri_pending *p, int from, int to) {
    int root = p->what.root;
    if (!in_slices(p) || (p->what.kind == TRI_REDUCE && to != root) || (p->what.kind == TRI_BROADCAST && to == root))
        return NONE;
    return slice(p, from);
}

/* Position of member from's part in this rank's output, for kinds that move parts. */
static int64_t place(const tri_pending *p, int from) {
    int gathers = p->what.kind == TRI_ALL_GATHER || p->what.kind == TRI_GATHER || p->what.kind == TRI_ALL_TO_ALL;
    return gathers ? shard(p, from).at : 0;
}

static int64_t bytes_of(const tri_pending *p, int64_t elements) {
    return elements * (int64_t)tri__dtype_bytes(p->what.dtype);
}
static char *at_in(const tri_pending *p, int64_t element) {
    return p->in ? (char *)p->in + bytes_of(p, element) : NULL;
}
static char *at_out(const tri_pending *p, int64_t element) {
    return p->out ? (char *)p->out + bytes_of(p, element) : NULL;
}

/* The same on every member: it depends on the descriptor alone. */
static int is_small(const tri_pending *p) {
    int n = p->group->n;
    if (p->bare) return 1;
    int64_t most = in_slices(p) ? p->what.count : 0;
    for (int k = 0; k < n && !in_slices(p); k++)
        if (shard(p, k).count > most) most = shard(p, k).count;
    return bytes_of(p, most) <= SMALL && bytes_of(p, most) * n <= SMALL_IN_ALL;
}

/* Whether received data stays in the buffer `room` until the step ends, because it is reduced, or because pending sends
 * still read its destination. Bare operations receive none. */
static int through_room(const tri_pending *p, int small) {
    return small || reduces(p) || (p->what.kind == TRI_ALL_TO_ALL && p->in == p->out);
}

/* ---- Steps: their messages, and the work when these have arrived ---- */

static void add(tri_pending *p, int peer, int receive, void *data, span part, int always) {
    job *j = p->state;
    int *tag = receive ? &j->from[peer] : &j->to[peer], far = p->group->local[peer] < 0;
    if (!part.count && !always) return;
    j->message[j->n_messages++] = (tri_message){.peer = peer, .channel = j->step, .number = p->what.sequence,
                                                .what = p->what, .data = data, .bytes = bytes_of(p, part.count),
                                                .receive = receive, .tag = *tag, .agreed = far && j->step != CARDS,
                                                .follow = far && j->step == CARDS && !j->small ? tag : NULL};
    j->left++;
}

/* Where this rank receives member from's part in the first step. */
static void *target(const tri_pending *p, int from) {
    const job *j = p->state;
    if (through_room(p, 0)) return j->room + from * j->part;
    return at_out(p, in_slices(p) ? slice(p, p->group->me).at : place(p, from));
}

/* This rank's result of the first step, which the second sends: its slice of the output or, on a rank without output,
 * in `room`. */
static char *made(const tri_pending *p) {
    const job *j = p->state;
    int me = p->group->me;
    return p->what.kind == TRI_REDUCE && me != p->what.root ? j->room + me * j->part : at_out(p, slice(p, me).at);
}

static void begin_step(tri_pending *p, int step) {
    job *j = p->state;
    int me = p->group->me;
    j->step = step;
    j->n_messages = j->left = 0;
    for (int i = 1; i < p->group->n; i++) {
        int to = (me + i) % p->group->n;
        if (step == CARDS) add(p, to, 0, at_in(p, wanted(p, me, to).at), j->small ? wanted(p, me, to) : NONE, 1);
        else if (step == FIRST) add(p, to, 0, at_in(p, first(p, me, to).at), first(p, me, to), 0);
        else add(p, to, 0, made(p), second(p, me, to), 0);
    }
    for (int i = 1; i < p->group->n; i++) {
        int from = (me - i + p->group->n) % p->group->n;
        if (step == CARDS) add(p, from, 1, j->room + from * j->part, j->small ? wanted(p, from, me) : NONE, 1);
        else if (step == FIRST) add(p, from, 1, target(p, from), first(p, from, me), 0);
        else add(p, from, 1, at_out(p, slice(p, from).at), second(p, from, me), 0);
    }
}

/* Copies this rank's part of the input, and other members' if they are in `room`, to the output. */
static void move_parts(tri_pending *p, int from_room) {
    job *j = p->state;
    for (int from = 0; from < p->group->n; from++) {
        span part = wanted(p, from, p->group->me);
        char *source = from == p->group->me ? at_in(p, part.at) : j->room + from * j->part,
             *to = at_out(p, place(p, from));
        if (part.count && source != to && (from == p->group->me || from_room))
            memcpy(to, source, (size_t)bytes_of(p, part.count));
    }
}

/* Reduces all inputs of `part`: this rank's in place, the others' in `room`. */
static void reduce_parts(tri_pending *p, span part, void *out) {
    job *j = p->state;
    for (int from = 0; from < p->group->n; from++)
        j->in[from] = from == p->group->me ? at_in(p, part.at) : j->room + from * j->part;
    if (part.count) tri__reduce(p->what.dtype, p->what.reduction, p->group->n, j->in, 1, &out, part.count);
}

static void end_step(tri_pending *p) {
    job *j = p->state;
    int me = p->group->me;
    if (j->step == CARDS && j->small) {
        if (reduces(p)) reduce_parts(p, wanted(p, me, me), p->out);
        else move_parts(p, 1);
    } else if (j->step == FIRST) {
        if (p->what.kind == TRI_REDUCE_SCATTER) reduce_parts(p, wanted(p, me, me), p->out);
        else if (reduces(p)) reduce_parts(p, slice(p, me), made(p));
        else move_parts(p, through_room(p, 0));
    }
}

/* ---- The transport ---- */

static tri_status exchange_open(tri_group *group) {
    state *own = group->state = calloc(1, sizeof *own);
    if (!own) return tri__fail(TRI_RESOURCE, "no memory for a group of %d ranks", group->n);
    return tri__relay_hosts_open(group, &own->hosts);
}

static void exchange_close(tri_group *group) {
    if (group->state) free(((state *)group->state)->hosts.of);
    free(group->state);
}

static int relayed(const tri_group *group, const tri_pending *p) {
    return !is_small(p) && tri__relay_takes(&((const state *)group->state)->hosts, p);
}

static tri_status begin(tri_pending *p) {
    const tri_relay_hosts *hosts = &((const state *)p->group->state)->hosts;
    int n = p->group->n, me = p->group->me, small = is_small(p), relay = relayed(p->group, p);
    int64_t part = 0;
    for (int from = 0; from < n && !relay && through_room(p, small); from++) {
        int64_t bytes = bytes_of(p, small ? wanted(p, from, me).count : first(p, from, me).count);
        if (bytes > part) part = bytes;
    }
    part = (part + 63) / 64 * 64;
    size_t lists = 2 * (size_t)n * sizeof(tri_message) + (size_t)n * sizeof(void *) + 2 * (size_t)n * sizeof(int),
           head = (sizeof(job) + lists + 63) / 64 * 64;
    size_t room = relay ? tri__relay_bytes(p, hosts) : (size_t)(n * part);
    job *j = aligned_alloc(64, head + room);
    if (!j) return tri__fail(TRI_RESOURCE, "no memory to receive %zu bytes from %d ranks", room, n - 1);
    *j = (job){.small = small, .part = part, .in = (const void **)(j->message + 2 * n), .room = (char *)j + head};
    j->to = (int *)(j->in + n), j->from = j->to + n;
    for (int k = 0; k < 2 * n; k++) j->to[k] = -1;
    if (relay) j->relay = tri__relay_open(j->room, p, hosts, j->to, j->from);
    p->state = j;
    begin_step(p, CARDS);
    return TRI_OK;
}

/* The messages of a step; its end, and the next. */
static tri_status step_on(tri_group *group, tri_pending *p, int *moved) {
    job *j = p->state;
    for (int i = 0; i < j->n_messages; i++) {
        tri_message *message = &j->message[i];
        if (message->stage == 2) continue;
        TRI_TRY(tri__message_progress(group, message, moved));
        j->left -= message->stage == 2;
    }
    if (j->left) return TRI_OK;
    end_step(p);
    *moved = 1;
    p->done = j->step == SECOND || (j->step == CARDS && j->small) || (j->step == FIRST && !in_slices(p));
    if (p->done) return TRI_OK;
    if (j->relay) j->step = FIRST;
    else begin_step(p, j->step + 1);
    return TRI_OK;
}

/* Operations begin in the order of posting, which is the same on all members: so the window of one member never holds
 * up an operation that another member needs to end its own. */
static tri_status progress(tri_group *group, tri_pending *p, int *moved) {
    state *own = group->state;
    if (!p->state) {
        if (own->begun >= WINDOW) return TRI_OK;
        TRI_TRY(begin(p));
        ++own->begun;
        *moved = 1;
    }
    for (job *j = p->state; !p->done;) {
        int relay = j->relay && j->step != CARDS, step = j->step;
        TRI_TRY(relay ? tri__relay_progress(j->relay, p, moved, &p->done) : step_on(group, p, moved));
        if (!p->done && (relay || j->step == step)) return TRI_OK;
    }
    for (int k = 0; k < group->n; k++) tri__message_release(group, k, ((job *)p->state)->to[k]);
    free(p->state);
    p->state = NULL;
    --own->begun;
    return TRI_OK;
}

static void cancel(tri_group *group, tri_pending *p) {
    job *j = p->state;
    for (int i = 0; j && i < j->n_messages; i++)
        if (j->message[i].stage == 1) tri__message_cancel(group, &j->message[i]);
    if (j && j->relay) tri__relay_cancel(j->relay, group);
}

const tri_transport tri__transport_exchange = {
    .open = exchange_open, .close = exchange_close, .progress = progress, .shares = relayed, .cancel = cancel};
