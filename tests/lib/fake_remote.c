/* fake_remote.c - see fake_remote.h. */
#include "tests/lib/fake_remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_CHANGED = 99 }; /* an error: they did not */

void fake_hub_open(fake_hub *hub, int size) {
    *hub = (fake_hub){.size = size};
    pthread_mutex_init(&hub->lock, NULL);
    for (int r = 0; r < size; r++) hub->state[r] = (struct fake_state){.hub = hub, .rank = r};
}

void fake_hub_close(fake_hub *hub) {
    for (int r = 0; r < hub->size; r++)
        for (fake_note *next; hub->inbox[r]; hub->inbox[r] = next) {
            next = hub->inbox[r]->next;
            free(hub->inbox[r]);
        }
    for (fake_transfer *next; hub->transfer; hub->transfer = next) {
        next = hub->transfer->next;
        free(hub->transfer);
    }
    pthread_mutex_destroy(&hub->lock);
}

static int fake_note_send(void *of, int rank, const void *bytes, int n) {
    struct fake_state *s = of;
    fake_note *note = malloc(sizeof *note), **at;
    note->next = NULL, note->from = s->rank, note->n = n;
    memcpy(note->bytes, bytes, (size_t)n);
    pthread_mutex_lock(&s->hub->lock);
    s->hub->notes++;
    for (at = &s->hub->inbox[rank]; *at; at = &(*at)->next) {}
    if (s->hub->silent[s->rank]) free(note);
    else *at = note;
    pthread_mutex_unlock(&s->hub->lock);
    return 0;
}

static int fake_hear(void *of, int *rank, void *bytes, int room) {
    struct fake_state *s = of;
    pthread_mutex_lock(&s->hub->lock);
    fake_note *note = s->hub->inbox[s->rank];
    if (note) s->hub->inbox[s->rank] = note->next;
    pthread_mutex_unlock(&s->hub->lock);
    if (!note) return 0;
    int n = note->n <= room ? note->n : -1;
    *rank = note->from;
    if (n > 0) memcpy(bytes, note->bytes, (size_t)n);
    free(note);
    return n;
}

static int fake_transfer_begin(struct fake_state *s, fake_transfer it, void **request) {
    fake_transfer *kept = malloc(sizeof it), **at;
    *kept = it;
    pthread_mutex_lock(&s->hub->lock);
    s->hub->transfers++;
    if (s->hub->rate > 0 && !it.receive) {
        double now = tri__clock(), *busy = &s->hub->busy[s->rank];
        kept->end = *busy = (*busy > now ? *busy : now) + (double)it.bytes / s->hub->rate;
    }
    for (at = &s->hub->transfer; *at; at = &(*at)->next) {}
    *at = kept;
    pthread_mutex_unlock(&s->hub->lock);
    *request = kept;
    return 0;
}

uint64_t fake_sum(const char *data, int64_t bytes) {
    uint64_t sum = 0xCBF29CE484222325u, word = 0;
    for (int64_t i = 0; i < bytes; i += 8) {
        memcpy(&word, data + i, bytes - i < 8 ? (size_t)(bytes - i) : 8);
        sum = (sum ^ word) * 0x100000001B3u;
    }
    return sum;
}

static int fake_send(void *of, int rank, int tag, const void *data, int64_t bytes, void **request) {
    struct fake_state *s = of;
    fake_transfer it = {.from = s->rank, .to = rank, .tag = tag, .data = (char *)data, .bytes = bytes,
                        .sum = fake_sum(data, bytes)};
    return fake_transfer_begin(s, it, request);
}

int fake_receive(void *of, int rank, int tag, void *data, int64_t bytes, void **request) {
    struct fake_state *s = of;
    fake_transfer it = {.from = rank, .to = s->rank, .tag = tag, .receive = 1, .data = data, .bytes = bytes};
    return fake_transfer_begin(s, it, request);
}

/* The first open send, or receive, of a tag. */
static fake_transfer *fake_first(fake_hub *hub, const fake_transfer *like, int receive) {
    for (fake_transfer *it = hub->transfer; it; it = it->next)
        if (it->receive == receive && !it->done && it->from == like->from && it->to == like->to && it->tag == like->tag)
            return it;
    return NULL;
}

/* The first open send and the first open receive of a tag match, as in MPI; the side that polls copies. */
static int fake_test(void *of, void *request, int *done) {
    struct fake_state *s = of;
    fake_transfer *it = request, *other, **at;
    pthread_mutex_lock(&s->hub->lock);
    other = fake_first(s->hub, it, it->receive) == it ? fake_first(s->hub, it, !it->receive) : NULL;
    int open = !it->done && other, error = open && other->bytes != it->bytes;
    const fake_transfer *send = it->receive ? other : it, *receive = it->receive ? it : other;
    if (open && s->hub->rate > 0 && tri__clock() < send->end) open = 0;
    if (open && !error && fake_sum(send->data, send->bytes) != send->sum) error = FAKE_CHANGED;
    if (open && !error) {
        memcpy(receive->data, send->data, (size_t)it->bytes);
        s->hub->bytes[it->from][it->to] += it->bytes;
        it->done = other->done = 1;
    }
    *done = it->done;
    if (it->done) {
        for (at = &s->hub->transfer; *at != it; at = &(*at)->next) {}
        *at = it->next;
        free(it);
    }
    pthread_mutex_unlock(&s->hub->lock);
    return error;
}

static void fake_drop(void *of, double seconds) {
    struct fake_state *s = of;
    (void)seconds;
    pthread_mutex_lock(&s->hub->lock);
    for (fake_transfer *it = s->hub->transfer; it; it = it->next)
        if ((it->receive ? it->to : it->from) == s->rank) it->done = 1;
    pthread_mutex_unlock(&s->hub->lock);
}

static int fake_leave(void *of, int *done) {
    struct fake_state *s = of;
    pthread_mutex_lock(&s->hub->lock);
    if (!s->left) s->left = 1, s->hub->leaving++;
    *done = s->hub->leaving == s->hub->size;
    pthread_mutex_unlock(&s->hub->lock);
    return 0;
}

static void fake_close(void *of, int failed) { (void)of, (void)failed; }

static void fake_words(int error, char *out, size_t size) {
    if (error == FAKE_CHANGED) snprintf(out, size, "bytes were changed while they were sent");
    else snprintf(out, size, "fake error %d", error);
}

const tri_remote fake_remote = {.name = "fake",
                                       .note = fake_note_send,
                                       .hear = fake_hear,
                                       .send = fake_send,
                                       .receive = fake_receive,
                                       .test = fake_test,
                                       .drop = fake_drop,
                                       .leave = fake_leave,
                                       .close = fake_close,
                                       .words = fake_words};
