/* nccl_parts.h - private to the files of the double (nccl_double.h).
 *
 * Members of a communicator share a segment: an unnamed file of memory, of whoever made the id, which holds its process
 * and descriptor. Each member has a part of it, pinned for its device. An operation is cut into rounds. The stream of a
 * member does for each round, without the host:
 *
 *     copy the input into in[];  ready = round;  wait for go >= round
 *     copy the input again, into again[];  copy out[] into the output;  done = round
 *
 * and a thread of the host, the helper, one a communicator, for each round: waits for ready, meets the helpers of the
 * others (`arrived`), computes its out[] from their in[], meets them again (`consumed`: now in[] may be written), sets
 * go, waits for done, and compares in[] with again[]. Rounds alternate between two halves of all three. */
#ifndef TESTS_NCCL_PARTS_H
#define TESTS_NCCL_PARTS_H

#include "tests/lib/nccl_double.h"

#include <pthread.h>
#include <stdatomic.h>

enum { NCCL_RANKS = 8, NCCL_SLOT = 512 << 10, NCCL_WORDS = 400, NCCL_LINE = 64 };

typedef enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, SEND, RECV } kind;

/* What members compare. */
typedef struct op {
    kind kind;
    int type, reduction, root; /* of a send or receive: the peer */
    uint64_t count, number;    /* number: of the collectives of this communicator; of the messages to that peer */
} op;

typedef struct transfer {
    op what;
    const char *in;
    char *out;
    struct nccl_comm *comm;
    gpu_stream *stream;
} transfer;

/* A collective; or the messages of a group, that move at the same time. */
typedef struct batch {
    struct batch *next;
    uint64_t rounds;
    uint32_t first;            /* its rounds are first, first + 1, ... of the stream */
    int n, stalled;            /* stalled: by a fault */
    transfer part[2 * NCCL_RANKS];
} batch;

/* A piece of a transfer in one round: bytes of a buffer, and where they stand in in[] or out[]. */
typedef struct span {
    size_t at, offset, bytes;
} span;

typedef struct message {
    _Alignas(NCCL_LINE) _Atomic uint32_t sent;
    _Atomic uint32_t taken, offered, asked; /* offered, asked: 1 once the hosts have posted the first */
    int half;                  /* of the sender's in[] */
    op what;
} message;

typedef struct member {
    _Alignas(4096) uint32_t ready;                /* written by the stream */
    _Alignas(NCCL_LINE) uint32_t done;            /* by the stream */
    _Alignas(NCCL_LINE) uint32_t go;              /* by the helper, read by the stream */
    _Alignas(NCCL_LINE) _Atomic uint32_t joined, posted, arrived, consumed;
    _Atomic uint32_t gone, left;                  /* gone: aborted; left: at the end */
    int half;                                     /* of its in[]; as `now`, written before `arrived` counts on */
    op now;
    message to[NCCL_RANKS];
    _Alignas(4096) char in[2][NCCL_SLOT], again[2][NCCL_SLOT], out[2][NCCL_SLOT];
} member;

typedef struct segment {
    uint64_t nonce;
    _Atomic uint32_t closed, failed;              /* failed: 1 while the words are written, then 2 */
    atomic_int n;
    int code;
    char words[NCCL_WORDS];
    member of[NCCL_RANKS];                        /* [n] in use */
} segment;

/* What an id holds. */
typedef struct nccl_name {
    int process, fd;
    uint64_t nonce;
} nccl_name;

struct nccl_comm {
    int n, me, device, blocking, pinned;
    nccl_id id;
    segment *shared;
    pthread_t helper;
    pthread_mutex_t lock;
    pthread_cond_t change;
    batch *first, **last;                         /* under the lock */
    int leaving;                                  /* under the lock: 1: finalize, 2: end; once idle */
    atomic_int stop, state;
    _Atomic uint32_t awaits, awaits_to, awaits_from; /* first uses: all members; bits of peers */
    int operations;                               /* this and the next: of this host */
    uint32_t rounds, collectives;
    uint32_t messages[2][NCCL_RANKS];             /* of this host: sent to, received from */
    uint32_t met, sent[NCCL_RANKS], got[NCCL_RANKS]; /* of the helper */
    gpu_stream *stream;
    struct nccl_comm *aborted_before;
    double patience;
    char words[NCCL_WORDS];                       /* of its error; written before `state` */
};

/* nccl_meet.c */
extern _Thread_local char nccl_said[NCCL_WORDS];
/* The error of a call, in words. */
__attribute__((format(printf, 2, 3))) int nccl_refuse(int code, const char *format, ...);
/* Ends the communicator for all its members; the first of them decides the words. */
__attribute__((format(printf, 3, 4))) void nccl_fail(nccl_comm *c, int code, const char *format, ...);
size_t nccl_width(int type);
const char *nccl_describe(const op *what, char text[NCCL_WORDS]);
/* Rounds that a transfer needs; and its pieces in one of them, [n]: of its input and of its output. */
uint64_t nccl_rounds(const op *what, int n);
int nccl_spans(const op *what, int n, int me, uint64_t round, int is_out, span *spans);
/* Lets other threads work; `turn` begins with 0. */
void nccl_nap(int *turn);
double nccl_clock(void);
/* The helper's thread: it joins the segment, serves rounds and leaves. */
void *nccl_help(void *comm);

#endif
