/* remote.h - carries bytes between machines, as plain C functions: implemented by the MPI plug-in and by tests. All
 * calls return at once and are made by the rank's own thread. Functions that return int return 0, or an error for
 * `words`. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRI_NOTE_BYTES = 4352,   /* longest note: 4 KiB and its header */
    TRI_REMOTE_TAGS = 16384, /* tags are 0 to this - 1; MPI promises 32768 */
    /* several transfers of at most so many bytes may be in flight under one tag: they match in the order in which they
     * were begun */
    TRI_REMOTE_PIECE = 512 << 10,
    TRI_REMOTE_NO_MEMORY = INT_MAX /* the error of every remote that gets no memory */
};

typedef struct tri_remote {
    const char *name; /* "mpi" */
    /* After a failure the first process that exits may cause the launcher to kill the others: seconds that it waits for
     * them to report. */
    double report_seconds;
    /* A note: a small message that is copied, arrives in order, and needs no posted receive. */
    int (*note)(void *state, int rank, const void *bytes, int n);
    /* Bytes of the next note, from any rank; 0: none now; below 0: an error. */
    int (*hear)(void *state, int *rank, void *bytes, int room);
    /* Bytes of any length, directly from and to the caller's memory. A send completes only after its receive has begun:
     * its tag may then be reused for that rank. */
    int (*send)(void *state, int rank, int tag, const void *data, int64_t bytes, void **request);
    int (*receive)(void *state, int rank, int tag, void *data, int64_t bytes, void **request);
    int (*test)(void *state, void *request, int *done); /* done: the request has been freed */
    /* After a failure: sends the notes that can be sent within `seconds`, cancels all requests, and no longer accesses
     * the caller's memory. Only close may follow. */
    void (*drop)(void *state, double seconds);
    /* Begins to leave, or polls again: *done when all ranks leave. */
    int (*leave)(void *state, int *done);
    /* failed: 0, or the code that the process will exit with: the others may be gone, and are not waited for. */
    void (*close)(void *state, int failed);
    /* Where ranks outlive one that dies (else NULL). `died`: whether an error means that a rank is dead (*rank), or
     * that ranks left because of that (-1). `revoke`: interrupts all ranks' requests; this one's are over when it
     * returns. */
    int (*died)(void *state, int error, int *rank);
    int (*revoke)(void *state);
    void (*words)(int error, char *out, size_t size);
} tri_remote;
