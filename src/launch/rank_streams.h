/* rank_streams.h - where the stdout and stderr of started ranks go: to the console, rank by rank in whole lines, to
 * files of their own in torchrun's tree, to both, or nowhere. Left alone: rank 0 has the console itself, others their
 * stderr in lines that say who spoke. */
#ifndef TRI_LAUNCH_RANK_STREAMS_H
#define TRI_LAUNCH_RANK_STREAMS_H

#include "base/file.h"
#include "base/log.h"
#include "settings/forms.h"

enum { TRI_STREAM_LINE = 2048, TRI_LAST_WORDS = 256 };

/* What was asked for. Zeroed: no files. */
typedef struct tri_rank_logs {
    const char *folder;                          /* base of the tree; NULL: no files */
    const char *run; /* first part of the tree's own folder; NULL: "none", as torchrun has it */
    uint8_t redirect[TRI_RANKS_PER_NODE];        /* TRI_STDOUT | TRI_STDERR that go to a file only */
    uint8_t tee[TRI_RANKS_PER_NODE];             /* ... to a file and to the console */
    uint8_t hidden[TRI_RANKS_PER_NODE];          /* 1: nothing of this rank on the console */
} tri_rank_logs;

int tri__streams_any(const tri_rank_logs *logs, int n); /* 1: a file is asked for */

/* One rank's stream. */
typedef struct tri_stream {
    int child;                    /* what the rank gets; -1: the console itself. Closed once it has started */
    int from;                     /* our end of its pipe; -1: none */
    int file, console;            /* where lines go; -1: not */
    size_t used;                  /* of line: read, not yet passed on */
    int begun;                    /* 1: the first part of a long line was written */
    int erase;                    /* 1: the console redraws a progress line: erase it first */
    char line[TRI_STREAM_LINE];
    char last[TRI_LAST_WORDS];    /* the last line that was not empty */
} tri_stream;

typedef struct tri_streams {
    int n;
    tri_stream (*rank)[2];        /* [n] stdout, stderr */
    char folder[TRI_PATH_MAX];    /* of the log files; "" */
    const tri_log *log;
} tri_streams;

/* Descriptors that open will take. */
int tri__streams_need(const tri_rank_logs *logs, int n);
/* out, err: the console's descriptors. Makes the folders. On failure everything is closed. */
tri_status tri__streams_open(const tri_rank_logs *logs, int n, int out, int err, const tri_log *log,
                             tri_streams *streams);
void tri__streams_close(tri_streams *streams); /* passes on what is still there; accepts a zeroed one */
/* Takes what a rank has written and passes on whole lines. Never waits: a console that does not take a line gets it at
 * a later call. */
void tri__stream_pump(tri_streams *streams, int rank, int stream);
/* 1: there is room to read more, so that poll makes sense. */
int tri__stream_can_read(const tri_stream *stream);
/* After the rank's end: passes on all, a last line without its newline too. */
void tri__stream_drain(tri_streams *streams, int rank, int stream);

#endif
