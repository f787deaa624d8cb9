/* link_parts.h - shared by link.c (messages) and link_alive.c (failures, liveness). */
#pragma once

#include "comm/link/link.h"

typedef enum tri_note_kind {
    TRI_NOTE_MESSAGE = 1, TRI_NOTE_FAILURE, TRI_NOTE_ASK, TRI_NOTE_ANSWER, TRI_NOTE_FILES
} tri_note_kind;

/* The header of every note; a message's data or a failure's text follows. */
typedef struct tri_note {
    int32_t kind;           /* tri_note_kind */
    int32_t channel, tag;   /* MESSAGE. tag -1: the data is in this note; FAILURE: channel is the phase */
    /* FAILURE: as in tri_failure; ANSWER: code 1 when the rank closes its world; FILES: 1 when work on files begins, in
     * which it may not answer, 0 when it ends */
    int32_t rank, code;
    int32_t follow;         /* MESSAGE: a tag for later messages; -1: none. ANSWER: 1 inside a file call */
    uint64_t number;        /* MESSAGE; ANSWER: the rank's beats; FAILURE: the step */
    int64_t bytes;          /* of the data, in this note or under the tag */
    tri_descriptor what;    /* MESSAGE */
} tri_note;
enum { TRI_NOTE_INLINE = TRI_NOTE_BYTES - sizeof(tri_note) };

/* A note of a message that has not been matched yet. */
typedef struct tri_arrived {
    struct tri_arrived *next;
    tri_note note;
    char data[];            /* [note.bytes] when the tag is -1 */
} tri_arrived;

/* State of one rank on another machine. */
typedef struct tri_far {
    tri_arrived *first, **last;   /* in the order of arrival; last is NULL before the first */
    uint64_t *tags; /* [TRI_REMOTE_TAGS / 64] bits: tags of sends to it; NULL before the first */
    double waited;                /* tri__clock() of this rank's last poll while waiting for it; 0: never */
    double sign, asked;           /* last sign of life (or when the wait began); last query */
    double probed;                /* when it began to be asked about its machine; 0: never */
    uint64_t beats;               /* as last answered */
    int files;                    /* 1: it works on files, and may not answer for as long as a file call may take */
    double left;                  /* when it reported that it closed its world; 0: not yet */
    tri_descriptor what;          /* the operation waited for, in a group of `members` */
    int members;
} tri_far;

struct tri_link {
    tri_world *world;
    const tri_remote *remote;
    void *state;
    double looked;                /* tri__clock() of the last check of the ranks waited for */
    int leaving;                  /* the world is being closed */
    int left;                     /* all ranks leave it in order */
    int dropped;                  /* a failure is known and forwarded: the remote is no longer used */
    int mine;                     /* the failure was found by this rank and is about one of another machine */
    tri_far far[];                /* [size of the world] */
};

/* A call of the remote, as a status and message. */
tri_status tri__link_try(tri_link *link, int error, int rank);
/* Takes the notes that have arrived, at most some hundreds. */
tri_status tri__link_hear(tri_link *link);
/* Handles one note that is not a message. */
void tri__link_take(tri_link *link, int from, const tri_note *note, const char *text);
/* Records that this rank waits for another one, in an operation of a group of `members`. */
void tri__link_waits(tri_link *link, int rank, const tri_descriptor *what, int members);
/* Queries the ranks waited for, and reports those without a sign of life for too long. */
tri_status tri__link_watch(tri_link *link);
/* Forwards a failure of this machine to the others and abandons the remote. */
void tri__link_drop(tri_link *link);
