/* nccl_meet.c - the helper of a communicator: joining, rounds, what its members compare (nccl_parts.h). */
#include "tests/lib/nccl_parts.h"

#include "comm/ops/reduce.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

_Thread_local char nccl_said[NCCL_WORDS];

int nccl_refuse(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(nccl_said, sizeof nccl_said, format, arguments);
    va_end(arguments);
    return code;
}

/* The state becomes an error once; its words are there before. */
static void end(nccl_comm *c, int code, const char *words) {
    pthread_mutex_lock(&c->lock);
    int state = atomic_load(&c->state);
    if (state == NCCL_OK || state == NCCL_IN_PROGRESS) {
        snprintf(c->words, sizeof c->words, "%s", words);
        atomic_store(&c->state, code);
    }
    pthread_mutex_unlock(&c->lock);
}

void nccl_fail(nccl_comm *c, int code, const char *format, ...) {
    char words[NCCL_WORDS];
    va_list arguments;
    uint32_t none = 0;
    int turn = 0;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    if (!c->shared) {
        end(c, code, words);
        return;
    }
    if (atomic_compare_exchange_strong(&c->shared->failed, &none, 1)) {
        c->shared->code = code;
        memcpy(c->shared->words, words, sizeof words);
        atomic_store(&c->shared->failed, 2);
    }
    while (atomic_load(&c->shared->failed) != 2) nccl_nap(&turn);
    end(c, c->shared->code, c->shared->words);
}

/* ---- What is asked for ---- */

size_t nccl_width(int type) {
    static const size_t width[] = {[NCCL_I8] = 1,  [NCCL_U8] = 1,  [NCCL_I32] = 4, [NCCL_I64] = 8,
                                   [NCCL_F16] = 2, [NCCL_F32] = 4, [NCCL_F64] = 8, [NCCL_BF16] = 2};
    return type >= 0 && type < (int)(sizeof width / sizeof *width) ? width[type] : 0;
}

const char *nccl_describe(const op *what, char text[NCCL_WORDS]) {
    static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                        "send",       "recv"};
    static const char *const types[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                        "uint64", "float16", "float32", "float64", "bfloat16"};
    static const char *const reductions[] = {"sum", "product", "max", "min", "average"};
    int reduces = what->kind == ALL_REDUCE || what->kind == REDUCE_SCATTER || what->kind == REDUCE;
    int n = snprintf(text, NCCL_WORDS, "%s number %llu of %llu x %s", kinds[what->kind],
                     (unsigned long long)what->number, (unsigned long long)what->count, types[what->type]);
    if (reduces) n += snprintf(text + n, (size_t)(NCCL_WORDS - n), ", %s", reductions[what->reduction]);
    if (what->kind >= BROADCAST)
        snprintf(text + n, (size_t)(NCCL_WORDS - n), what->kind >= SEND ? ", peer %d" : ", root %d", what->root);
    return text;
}

static size_t share_of(int n) { return (size_t)(NCCL_SLOT / n) & ~(size_t)(NCCL_LINE - 1); }

uint64_t nccl_rounds(const op *what, int n) {
    uint64_t most = share_of(n) / nccl_width(what->type);
    return what->count ? (what->count + most - 1) / most : 1;
}

int nccl_spans(const op *what, int n, int me, uint64_t round, int is_out, span *spans) {
    size_t width = nccl_width(what->type), share = share_of(n), most = share / width, begin = (size_t)round * most;
    size_t count = (size_t)what->count, length = begin >= count ? 0 : count - begin < most ? count - begin : most;
    int parts = 1, place = 0, root = what->root == me;
    switch (what->kind) {
    case ALL_REDUCE: break;
    case ALL_GATHER: parts = is_out ? n : 1; break;
    case REDUCE_SCATTER: parts = is_out ? 1 : n; break;
    case BROADCAST: parts = is_out || root; break;
    case REDUCE: parts = !is_out || root; break;
    case SEND: parts = !is_out, place = what->root; break;
    case RECV: parts = is_out, place = what->root; break;
    }
    for (int k = 0; k < parts; k++)
        spans[k] = (span){.at = ((size_t)k * count + begin) * width,
                          .offset = (size_t)(place + k) * share,
                          .bytes = length * width};
    return length ? parts : 0;
}

/* ---- Waiting ---- */

double nccl_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void nccl_nap(int *turn) {
    struct timespec nap = {0, 30000};
    if (++*turn > 2000) nap.tv_nsec = 300000;
    if (*turn < 50) sched_yield();
    else nanosleep(&nap, NULL);
}

/* Whether the wait for an operation is over, though nothing has come. */
static int is_over(nccl_comm *c, const op *what, double begun) {
    char text[NCCL_WORDS];
    if (atomic_load(&c->stop)) return 1;
    if (atomic_load(&c->shared->failed)) return nccl_fail(c, 0, "%s", ""), 1;
    for (int k = 0; k < c->n; k++) {
        if (!atomic_load(&c->shared->of[k].gone)) continue;
        nccl_fail(c, NCCL_REMOTE, "rank %d has left the group", k);
        return 1;
    }
    if (!(c->patience > 0) || nccl_clock() - begun < c->patience) return 0;
    nccl_fail(c, NCCL_SYSTEM, "rank %d has waited %g s %s%s", c->me, c->patience, what ? "in " : "for the others",
              what ? nccl_describe(what, text) : "");
    return 1;
}

static int has_left(const nccl_comm *c) {
    for (int k = 0; k < c->n; k++)
        if (atomic_load(&c->shared->of[k].left)) return k + 1;
    return 0;
}

/* For something of others, or of the member's own stream. They return 0 from the function when the wait ends otherwise:
 * what others did before they left may have come meanwhile. */
#define UNTIL(c, what, condition) \
    do { \
        int turn = 0, k; \
        for (double begun = nccl_clock(); !(condition); nccl_nap(&turn)) { \
            if (is_over(c, what, begun)) return 0; \
            if ((k = has_left(c)) && !(condition)) \
                return nccl_fail(c, NCCL_REMOTE, "rank %d has left the group", k - 1), 0; \
        } \
    } while (0)
#define UNTIL_OWN(c, what, condition) \
    do { \
        int turn = 0; \
        for (double begun = nccl_clock(); !(condition); nccl_nap(&turn)) \
            if (is_over(c, what, begun)) return 0; \
    } while (0)

static int reached(const uint32_t *word, uint32_t value) {
    return (int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0;
}

static int have_all(const nccl_comm *c, size_t counter, uint32_t value) {
    for (int k = 0; k < c->n; k++) {
        const char *of = (const char *)&c->shared->of[k];
        if ((int32_t)(atomic_load((const _Atomic uint32_t *)(const void *)(of + counter)) - value) < 0) return 0;
    }
    return 1;
}
#define ALL(c, counter, value) have_all(c, offsetof(member, counter), value)

/* ---- Rounds ---- */

static int agree(nccl_comm *c, const op *mine) {
    char text[2][NCCL_WORDS];
    for (int k = 0; k < c->n; k++) {
        const op *his = &c->shared->of[k].now;
        if (his->kind == mine->kind && his->type == mine->type && his->reduction == mine->reduction &&
            his->root == mine->root && his->count == mine->count && his->number == mine->number)
            continue;
        nccl_fail(c, NCCL_USAGE, "rank %d asks for %.150s, and rank %d for %.150s", c->me, nccl_describe(mine, text[0]),
                  k, nccl_describe(his, text[1]));
        return 0;
    }
    return 1;
}

static tri_dtype dtype_of(int type) {
    static const tri_dtype types[] = {[NCCL_I8] = TRI_I8,   [NCCL_U8] = TRI_U8,   [NCCL_I32] = TRI_I32,
                                      [NCCL_I64] = TRI_I64, [NCCL_F16] = TRI_F16, [NCCL_F32] = TRI_F32,
                                      [NCCL_F64] = TRI_F64, [NCCL_BF16] = TRI_BF16};
    return types[type];
}

static void compute(nccl_comm *c, const op *what, size_t bytes, char *out) {
    static const tri_reduction reductions[] = {
        [NCCL_SUM] = TRI_SUM, [NCCL_PRODUCT] = TRI_PRODUCT, [NCCL_MAX] = TRI_MAX, [NCCL_MIN] = TRI_MIN};
    size_t share = share_of(c->n);
    const void *in[NCCL_RANKS];
    void *to = out;
    for (int k = 0; k < c->n; k++) {
        const member *of = &c->shared->of[k];
        in[k] = of->in[of->half] + (what->kind == REDUCE_SCATTER ? (size_t)c->me * share : 0);
    }
    if (what->kind == ALL_GATHER) {
        for (int k = 0; k < c->n; k++) memcpy(out + (size_t)k * share, in[k], bytes);
    } else if (what->kind == BROADCAST) {
        memcpy(out, in[what->root], bytes);
    } else if (what->kind != REDUCE || what->root == c->me) {
        tri__reduce(dtype_of(what->type), reductions[what->reduction], c->n, in, 1, &to,
                    (int64_t)(bytes / nccl_width(what->type)));
    }
}

static int collect(nccl_comm *c, const op *what, uint64_t round, int half) {
    member *me = &c->shared->of[c->me];
    op whole = *what;
    span piece = {0};
    whole.kind = ALL_REDUCE; /* the same length, whatever the kind */
    nccl_spans(&whole, c->n, c->me, round, 0, &piece);
    me->now = *what;
    me->half = half;
    atomic_store(&me->arrived, ++c->met);
    UNTIL(c, what, ALL(c, arrived, c->met));
    if (round == 0 && !agree(c, what)) return 0;
    if (piece.bytes) compute(c, what, piece.bytes, me->out[half]);
    atomic_store(&me->consumed, c->met);
    UNTIL(c, what, ALL(c, consumed, c->met));
    return 1;
}

static int receive(nccl_comm *c, const op *what, uint64_t round, int half) {
    int from = what->root;
    message *m = &c->shared->of[from].to[c->me];
    size_t share = share_of(c->n);
    char text[2][NCCL_WORDS];
    span piece = {0};
    UNTIL(c, what, (int32_t)(atomic_load(&m->sent) - c->got[from]) > 0);
    if (m->what.type != what->type || m->what.count != what->count || m->what.number != what->number) {
        nccl_fail(c, NCCL_USAGE, "rank %d asks for %.150s, and rank %d for %.150s", c->me, nccl_describe(what, text[0]),
                  from, nccl_describe(&m->what, text[1]));
        return 0;
    }
    nccl_spans(what, c->n, c->me, round, 1, &piece);
    memcpy(c->shared->of[c->me].out[half] + piece.offset, c->shared->of[from].in[m->half] + (size_t)c->me * share,
           piece.bytes);
    atomic_store(&m->taken, ++c->got[from]);
    return 1;
}

/* All that is sent is offered before the first is received, and has been received at the end. */
static int exchange(nccl_comm *c, const batch *b, uint64_t round, int half) {
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < b->n; i++) {
            const op *what = &b->part[i].what;
            message *m = &c->shared->of[c->me].to[what->root];
            if (round >= nccl_rounds(what, c->n)) continue;
            if (pass == 0 && what->kind == SEND) {
                m->what = *what, m->half = half;
                atomic_store(&m->sent, ++c->sent[what->root]);
            } else if (pass == 1 && what->kind == RECV) {
                if (!receive(c, what, round, half)) return 0;
            } else if (pass == 2 && what->kind == SEND) {
                UNTIL(c, what, (int32_t)(atomic_load(&m->taken) - c->sent[what->root]) >= 0);
            }
        }
    return 1;
}

static int unchanged(nccl_comm *c, const batch *b, uint64_t round, int half) {
    const member *me = &c->shared->of[c->me];
    char text[NCCL_WORDS];
    span spans[NCCL_RANKS];
    for (int i = 0; i < b->n; i++) {
        int n = nccl_spans(&b->part[i].what, c->n, c->me, round, 0, spans);
        for (int k = 0; k < n; k++) {
            if (!memcmp(me->in[half] + spans[k].offset, me->again[half] + spans[k].offset, spans[k].bytes)) continue;
            nccl_fail(c, NCCL_USAGE, "the input of rank %d's %s has changed while it was in flight", c->me,
                      nccl_describe(&b->part[i].what, text));
            return 0;
        }
    }
    return 1;
}

static int serve(nccl_comm *c, const batch *b) {
    member *me = &c->shared->of[c->me];
    const op *what = &b->part[0].what;
    for (uint64_t round = 0; round < b->rounds; round++) {
        uint32_t number = b->first + (uint32_t)round;
        int half = number & 1;
        UNTIL_OWN(c, what, reached(&me->ready, number) && !b->stalled);
        if (!(what->kind < SEND ? collect(c, what, round, half) : exchange(c, b, round, half))) return 0;
        __atomic_store_n(&me->go, number, __ATOMIC_RELEASE);
        UNTIL_OWN(c, what, reached(&me->done, number));
        if (!unchanged(c, b, round, half)) return 0;
    }
    return 1;
}

/* ---- Joining and leaving ---- */

static int refuse_id(nccl_comm *c) {
    nccl_fail(c, NCCL_SYSTEM, "the group's id is of a process that has ended, or not of this library");
    return 0;
}

static int join(nccl_comm *c) {
    nccl_name name;
    char path[64];
    int none = 0;
    memcpy(&name, c->id.bytes, sizeof name);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", name.process, name.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return refuse_id(c);
    void *at = mmap(NULL, sizeof(segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return refuse_id(c);
    if (((segment *)at)->nonce != name.nonce) return munmap(at, sizeof(segment)), refuse_id(c);
    pthread_mutex_lock(&c->lock);
    c->shared = at;
    pthread_mutex_unlock(&c->lock);
    if (!atomic_compare_exchange_strong(&c->shared->n, &none, c->n) && none != c->n)
        return nccl_fail(c, NCCL_ARGUMENT, "rank %d has a group of %d ranks, and others of %d", c->me, c->n, none), 0;
    if (atomic_exchange(&c->shared->of[c->me].joined, 1))
        return nccl_fail(c, NCCL_ARGUMENT, "two ranks of a group have number %d", c->me), 0;
    UNTIL(c, NULL, ALL(c, joined, 1));
    if (name.process == getpid() && !atomic_exchange(&c->shared->closed, 1)) close(name.fd);
    gpu_use(c->device);
    int error = gpu_pin(&c->shared->of[c->me], sizeof(member));
    if (error) return nccl_fail(c, NCCL_GPU_ERROR, "cannot pin memory: %s", gpu_words(error)), 0;
    c->pinned = 1;
    return 1;
}

static void settle(nccl_comm *c) {
    pthread_mutex_lock(&c->lock);
    if (atomic_load(&c->state) == NCCL_IN_PROGRESS) atomic_store(&c->state, NCCL_OK);
    pthread_mutex_unlock(&c->lock);
}

void *nccl_help(void *argument) {
    nccl_comm *c = argument;
    if (!join(c)) return NULL;
    settle(c);
    for (int finalized = 0;;) {
        pthread_mutex_lock(&c->lock);
        while (!c->first && c->leaving <= finalized && !atomic_load(&c->stop)) pthread_cond_wait(&c->change, &c->lock);
        batch *b = c->first;
        int leaving = c->leaving;
        pthread_mutex_unlock(&c->lock);
        if (atomic_load(&c->stop)) return NULL;
        if (b) {
            if (!serve(c, b)) return NULL;
            pthread_mutex_lock(&c->lock);
            if (!(c->first = b->next)) c->last = &c->first;
            pthread_mutex_unlock(&c->lock);
            free(b);
        } else if (leaving == 2) {
            return NULL;
        } else {
            finalized = 1;
            settle(c);
        }
    }
}
