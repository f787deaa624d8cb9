/* rank_streams.h - where the stdout and stderr of ranks go: to the console in whole lines, to separate files in
 * torchrun's directory layout, to both, or nowhere. By default rank 0 writes to the console directly, and the stderr of
 * others is forwarded in lines that name the rank. */
#pragma once

#include "base/file.h"
#include "base/log.h"
#include "settings/forms.h"

enum { TRI_STREAM_LINE = 2048, TRI_LAST_WORDS = 256 };

/* The requested redirections. Zeroed: no files. */
typedef struct tri_rank_logs {
    const char *folder;                          /* root of the directory tree; NULL: no files */
    const char *run; /* prefix of the run's folder in it; NULL: "none", as in torchrun */
    uint8_t redirect[TRI_RANKS_PER_NODE];        /* TRI_STDOUT | TRI_STDERR that go to a file only */
    uint8_t tee[TRI_RANKS_PER_NODE];             /* ... to a file and to the console */
    uint8_t hidden[TRI_RANKS_PER_NODE];          /* 1: this rank writes nothing to the console */
    int elastic; /* 1: any rank may become rank 0, whose output is the console's, and may be started again */
} tri_rank_logs;

/* One rank's stream. */
typedef struct tri_stream {
    int child; /* the descriptor that the rank gets; -1: the console itself. Closed once it has started */
    int from;                     /* our end of its pipe; -1: none */
    int file, console;            /* destinations of lines; -1: none */
    size_t used;                  /* bytes of line that were read and not yet forwarded */
    int begun;                    /* 1: the first part of a long line was written */
    int erase;                    /* 1: the console redraws a progress line: erase it first */
    int number;                   /* the rank's number, at the beginning of lines on the console */
    int tee;                      /* 1: rank 0's lines, too, begin with its number */
    int first;                    /* 1: only rank 0's lines reach the console */
    char line[TRI_STREAM_LINE];
    char last[TRI_LAST_WORDS];    /* the last nonempty line */
} tri_stream;

typedef struct tri_streams {
    int n;
    tri_stream (*rank)[2];        /* [n] stdout, stderr */
    char folder[TRI_PATH_MAX];    /* of the log files; "" */
    const tri_log *log;
} tri_streams;

/* Number of descriptors that open will use. */
int tri__streams_need(const tri_rank_logs *logs, int n);
/* out, err: the console's descriptors. Creates the folders. On failure everything is closed. */
tri_status tri__streams_open(const tri_rank_logs *logs, int n, int out, int err, const tri_log *log,
                             tri_streams *streams);
/* For a rank that is started again, after its streams were drained: new pipes, the same files. */
tri_status tri__streams_reopen(tri_streams *streams, const tri_rank_logs *logs, int rank, int out, int err);
/* A rank has another number now; lines so far had the old one. */
void tri__streams_number(tri_streams *streams, int rank, int number);
void tri__streams_close(tri_streams *streams); /* forwards what is left; accepts a zeroed one */
/* Reads a rank's output and forwards whole lines. Never waits: if the console is not writable, a later call retries. */
void tri__stream_pump(tri_streams *streams, int rank, int stream);
/* 1: the buffer has space to read more, so poll is useful. */
int tri__stream_can_read(const tri_stream *stream);
/* After the rank's end: forwards everything, including a last line without a newline. */
void tri__stream_drain(tri_streams *streams, int rank, int stream);
