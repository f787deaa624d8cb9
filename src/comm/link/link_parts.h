/* link_parts.h - what link.c (messages) and link_alive.c (failures, signs of life) share. */
#ifndef TRI_COMM_LINK_LINK_PARTS_H
#define TRI_COMM_LINK_LINK_PARTS_H

#include "comm/link/link.h"

typedef enum tri_note_kind { TRI_NOTE_MESSAGE = 1, TRI_NOTE_FAILURE, TRI_NOTE_ASK, TRI_NOTE_ANSWER } tri_note_kind;

/* What every note begins with; a message's data or a failure's words follow. */
typedef struct tri_note {
    int32_t kind;           /* tri_note_kind */
    int32_t channel, tag;   /* MESSAGE. tag -1: the data follows in this note */
    int32_t rank, code;     /* FAILURE: as in tri_failure; ANSWER: code 1 when the rank closes its world */
    int32_t unused;
    uint64_t number;        /* MESSAGE; ANSWER: the rank's beats */
    int64_t bytes;          /* of what follows, here or under the tag */
    tri_descriptor what;    /* MESSAGE */
} tri_note;
enum { TRI_NOTE_INLINE = TRI_NOTE_BYTES - sizeof(tri_note) };

/* A note of a message that nobody has asked for yet. */
typedef struct tri_arrived {
    struct tri_arrived *next;
    tri_note note;
    char data[];            /* [note.bytes] when the tag is -1 */
} tri_arrived;

/* What this rank knows of one on another machine. */
typedef struct tri_far {
    tri_arrived *first, **last;   /* in the order of arrival; last is NULL before the first */
    uint64_t *tags; /* [TRI_REMOTE_TAGS / 64] bits: tags of sends under way to it; NULL before the first */
    double waited;                /* tri__clock() when this rank last found that it waits for it; 0: never */
    double sign, asked;           /* last sign of life (or when the wait began); last question */
    uint64_t beats;               /* as last answered */
    double left;                  /* when it said that it has closed its world; 0: it has not */
    tri_descriptor what;          /* what is waited for, in a group of so many members */
    int members;
} tri_far;

struct tri_link {
    tri_world *world;
    const tri_remote *remote;
    void *state;
    double looked;                /* tri__clock() of the last look at those waited for */
    int leaving;                  /* the world is being closed */
    int dropped;                  /* a failure is known and told: the remote is used no more */
    int mine;                     /* the failure was found by this rank and is about one of another machine */
    tri_far far[];                /* [size of the world] */
};

/* A call of the remote, as a status and words. */
tri_status tri__link_try(tri_link *link, int error, int rank);
/* Takes one note that is not a message. */
void tri__link_take(tri_link *link, int from, const tri_note *note, const char *text);
/* This rank waits for another one in an operation of a group of so many members. */
void tri__link_waits(tri_link *link, int rank, const tri_descriptor *what, int members);
/* Asks those waited for, and reports those who gave no sign for too long. */
tri_status tri__link_watch(tri_link *link);
/* Tells a failure of this machine to the others and gives up the remote. */
void tri__link_drop(tri_link *link);

#endif
