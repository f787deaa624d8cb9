/* remote.h - what carries bytes between machines, as plain functions of plain C types: the MPI plug-in fills one in,
 * tests another. All calls return at once and are made by the rank's own thread. An int that is returned is 0, or an
 * error for `words`. */
#ifndef TRI_COMM_LINK_REMOTE_H
#define TRI_COMM_LINK_REMOTE_H

#include <stddef.h>
#include <stdint.h>

enum {
    TRI_NOTE_BYTES = 4352,  /* most of a note: 4 KiB and what says where it belongs */
    TRI_REMOTE_TAGS = 16384 /* tags are 0 to this - 1; MPI promises 32768 */
};

typedef struct tri_remote {
    const char *name; /* "mpi" */
    /* After a failure the first process that ends may have the launcher kill the others: for how long it lets them say
     * what they know. */
    double report_seconds;
    /* A note: a small message that is copied, arrives in order, and need not be expected. */
    int (*note)(void *state, int rank, const void *bytes, int n);
    /* Bytes of the next note, from any rank; 0: none now; below 0: an error. */
    int (*hear)(void *state, int *rank, void *bytes, int room);
    /* Bytes of any length, straight from and to the caller's memory. A send has ended only when its receive has begun:
     * its tag is then free for the next one to that rank. */
    int (*send)(void *state, int rank, int tag, const void *data, int64_t bytes, void **request);
    int (*receive)(void *state, int rank, int tag, void *data, int64_t bytes, void **request);
    int (*test)(void *state, void *request, int *done); /* done: the request is gone */
    /* After a failure: what can still be sent of the notes within `seconds` is, all requests are given up, and no
     * caller's memory is touched any more. Only close may follow. */
    void (*drop)(void *state, double seconds);
    /* Begins to leave, or looks again: *done when all ranks do. */
    int (*leave)(void *state, int *done);
    void (*close)(void *state, int failed); /* failed: the others may be gone; never waits for them */
    void (*words)(int error, char *out, size_t size);
} tri_remote;

#endif
