/* fake_remote.h - a tri_remote between threads of one process, so that sanitizers see the traffic between "machines".
 * One hub per job; it can drop the notes of a rank, like a machine that disappears. */
#ifndef FAKE_REMOTE_H
#define FAKE_REMOTE_H

#include "base/clock.h"
#include "comm/link/remote.h"

#include <pthread.h>

enum { FAKE_RANKS = 8 };

typedef struct fake_note {
    struct fake_note *next;
    int from, n;
    char bytes[TRI_NOTE_BYTES];
} fake_note;

typedef struct fake_transfer {
    struct fake_transfer *next;
    int from, to, tag, receive, done;
    char *data;
    int64_t bytes;
    double end;     /* of a send: when its last byte arrives */
    uint64_t sum;   /* of a send's bytes when it was posted: they stay as they are until it is done */
} fake_transfer;

typedef struct fake_hub {
    pthread_mutex_t lock;
    int size, leaving, silent[FAKE_RANKS]; /* silent: its notes are lost */
    fake_note *inbox[FAKE_RANKS];
    fake_transfer *transfer;               /* in the order of posting */
    int64_t notes, transfers;              /* counted */
    int64_t bytes[FAKE_RANKS][FAKE_RANKS]; /* of transfers that arrived, from and to each rank */
    double rate, busy[FAKE_RANKS];         /* bytes a second of each rank's sends, 0: at once; busy until then */
    struct fake_state {
        struct fake_hub *hub;
        int rank, left;
    } state[FAKE_RANKS];
} fake_hub;

void fake_hub_open(fake_hub *hub, int size);
void fake_hub_close(fake_hub *hub);
uint64_t fake_sum(const char *data, int64_t bytes);
int fake_receive(void *of, int rank, int tag, void *data, int64_t bytes, void **request);

extern const tri_remote fake_remote;

#endif
