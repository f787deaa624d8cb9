/* link.c - messages between machines: announced by notes, found by key, transferred under tags. */
#include "comm/link/link_parts.h"

#include "comm/ops/describe.h"

#include <sched.h>
#include <unistd.h>

enum { NOTES_A_TURN = 256 };

/* The remote knows that a rank died: it is that one's failure. */
static tri_status died(tri_link *link, int rank) {
    tri_control *control = link->world->segment.control;
    if (rank >= link->world->size) return TRI_OK; /* a spare, which has no part in this world */
    link->mine = 1;
    if (rank < 0) tri__control_fail(control, -1, TRI_KILLED, "ranks of other machines left, since a rank died");
    else tri__control_fail(control, rank, TRI_KILLED, "its process ended, as %s reports; its launcher knows how",
                           link->remote->name);
    return tri__world_check(link->world);
}

tri_status tri__link_try(tri_link *link, int error, int rank) {
    char words[256];
    int dead;
    if (!error) return TRI_OK;
    if (link->remote->died && link->remote->died(link->state, error, &dead)) return died(link, dead);
    if (error == TRI_REMOTE_NO_MEMORY)
        return tri__fail(TRI_RESOURCE, "no memory for bytes between this rank and rank %d", rank);
    link->remote->words(error, words, sizeof words);
    return tri__fail(TRI_IO,
                     "%s could not carry bytes between this rank and rank %d: %s. Is that machine up, and the network?",
                     link->remote->name, rank, words);
}

tri_status tri__link_open(tri_world *world) {
    tri_link *link = calloc(1, sizeof *link + (size_t)world->size * sizeof link->far[0]);
    if (!link) return tri__fail(TRI_RESOURCE, "no memory for a link to %d ranks", world->size);
    link->world = world;
    link->remote = world->remote;
    link->state = world->remote_state;
    world->link = link;
    return TRI_OK;
}

/* After a failure: ranks of this machine get the time that the remote specifies, those of others half of it. */
static void let_others_report(const tri_world *world) {
    double limit = world->remote->report_seconds;
    for (double begun = tri__clock(); tri__clock() - begun < limit; usleep(1000)) {
        int left = world->nodes.n == 1 || tri__clock() - begun > limit / 2;
        for (int i = 0; i < world->segment.n; i++) left &= tri__world_left(world, i);
        if (left) return;
    }
}

static int code_of(tri_world *world) {
    tri_status status = tri__world_check(world);
    return status == TRI_OK ? TRI_IO : status;
}

tri_status tri__link_leave(tri_world *world) {
    tri_link *link = world->link;
    int error = 0;
    link->leaving = 1;
    while (!link->left && !error && tri__remote_poll(world) == TRI_OK) {
        error = link->remote->leave(link->state, &link->left);
        if (!link->left) sched_yield();
    }
    if (error && world->outlives) TRI_TRY(tri__link_try(link, error, -1)); /* it becomes the world's failure */
    return tri__world_check(world);
}

void tri__link_close(tri_world *world) {
    tri_link *link = world->link;
    if (!link) return;
    (void)tri__link_leave(world);
    int done = link->left;
    if (!done && world->outlives) world->outlives = !link->remote->revoke(link->state);
    if (!done && !world->outlives) let_others_report(world);
    if (done || !world->outlives) link->remote->close(link->state, done ? 0 : code_of(world));
    for (int r = 0; r < world->size; r++) {
        for (tri_arrived *it = link->far[r].first, *next; it; it = next) {
            next = it->next;
            free(it);
        }
        free(link->far[r].tags);
    }
    free(link);
    world->link = NULL;
}

/* ---- Tags: one for each send in flight to a rank, or for all of an operation ----
 *
 * The sender owns a tag until its transfers have completed, which they do only after their receives have begun: so a
 * receive that is posted under a tag never gets an earlier message's bytes. */

static int tag_take(tri_far *far) {
    enum { WORDS = TRI_REMOTE_TAGS / 64 };
    if (!far->tags) far->tags = calloc(WORDS, sizeof far->tags[0]);
    for (int w = 0; w < WORDS && far->tags; w++)
        if (~far->tags[w]) {
            int bit = __builtin_ctzll(~far->tags[w]);
            far->tags[w] |= (uint64_t)1 << bit;
            return 64 * w + bit;
        }
    return -1;
}

static void tag_give(tri_far *far, int tag) { far->tags[tag / 64] &= ~((uint64_t)1 << tag % 64); }

void tri__link_release(tri_group *group, int peer, int tag) {
    tag_give(&group->world->link->far[group->rank[peer]], tag);
}

/* ---- Messages ---- */

static tri_status keep(tri_link *link, int from, const tri_note *note, const char *data, int64_t bytes) {
    tri_far *far = &link->far[from];
    if (bytes != (note->tag < 0 ? note->bytes : 0))
        return tri__fail(TRI_DISAGREE,
                         "rank %d sent a note of %lld bytes that says %lld: do all machines run the same build?", from,
                         (long long)bytes, (long long)note->bytes);
    tri_arrived *it = malloc(sizeof *it + (size_t)bytes);
    if (!it)
        return tri__fail(TRI_RESOURCE, "no memory for a message of %lld bytes from rank %d", (long long)bytes, from);
    it->next = NULL;
    it->note = *note;
    memcpy(it->data, data, (size_t)bytes);
    if (!far->first) far->last = &far->first;
    *far->last = it;
    far->last = &it->next;
    return TRI_OK;
}

/* Removes a message's note from those that arrived; NULL: not arrived yet. */
static tri_arrived *find(tri_far *far, const tri_message *message) {
    for (tri_arrived **at = &far->first; *at; at = &(*at)->next) {
        tri_arrived *it = *at;
        const tri_note *note = &it->note;
        if (note->what.group != message->what.group || note->channel != message->channel ||
            note->number != message->number)
            continue;
        *at = it->next;
        if (far->last == &it->next) far->last = at;
        return it;
    }
    return NULL;
}

/* Hands the data to the remote, under the message's tag. */
static tri_status start(tri_link *link, int rank, tri_message *m) {
    const tri_remote *remote = link->remote;
    m->stage = 1;
    int error = m->receive ? remote->receive(link->state, rank, m->tag, m->data, m->bytes, &m->state)
                           : remote->send(link->state, rank, m->tag, m->data, m->bytes, &m->state);
    return tri__link_try(link, error, rank);
}

static tri_status begin_send(tri_link *link, int rank, tri_message *message) {
    char bytes[TRI_NOTE_BYTES];
    if (message->agreed) return start(link, rank, message);
    if (message->follow && *message->follow < 0 && (*message->follow = tag_take(&link->far[rank])) < 0)
        return TRI_OK; /* all in use: retried at the next poll */
    tri_note note = {.kind = TRI_NOTE_MESSAGE, .channel = message->channel, .tag = -1,
                     .follow = message->follow ? *message->follow : -1, .number = message->number,
                     .bytes = message->bytes, .what = message->what};
    int small = message->bytes <= TRI_NOTE_INLINE;
    if (!small && (note.tag = message->tag = tag_take(&link->far[rank])) < 0)
        return TRI_OK;
    memcpy(bytes, &note, sizeof note);
    if (small && message->bytes) memcpy(bytes + sizeof note, message->data, (size_t)message->bytes);
    TRI_TRY(tri__link_try(
        link, link->remote->note(link->state, rank, bytes, (int)sizeof note + (small ? (int)message->bytes : 0)),
        rank));
    if (!small) return start(link, rank, message);
    message->stage = 2;
    return TRI_OK;
}

static tri_status begin_receive(tri_link *link, int rank, tri_group *group, tri_message *message) {
    if (message->agreed) return start(link, rank, message);
    tri_arrived *it = find(&link->far[rank], message);
    if (!it) return TRI_OK;
    int same = tri__describe_same(&it->note.what, &message->what) && it->note.bytes == message->bytes &&
               (it->note.follow >= 0) == (message->follow != NULL);
    link->mine |= !same;
    tri_status status = same ? TRI_OK : tri__disagree(group, rank, 0, &message->what, message->peer, &it->note.what);
    if (message->follow) *message->follow = it->note.follow;
    message->tag = it->note.tag;
    message->stage = 2;
    if (status == TRI_OK && message->tag >= 0) status = start(link, rank, message);
    else if (status == TRI_OK && message->bytes) memcpy(message->data, it->data, (size_t)message->bytes);
    free(it);
    return status;
}

tri_status tri__link_progress(tri_group *group, tri_message *message, int *moved) {
    tri_link *link = group->world->link;
    int rank = group->rank[message->peer], stage = message->stage, done = 0;
    if (link->dropped || stage == 2) return TRI_OK;
    if (stage == 0) {
        TRI_TRY(message->receive ? begin_receive(link, rank, group, message) : begin_send(link, rank, message));
    } else {
        TRI_TRY(tri__link_try(link, link->remote->test(link->state, message->state, &done), rank));
        if (done) message->stage = 2;
        if (done && !message->receive && !message->agreed) tag_give(&link->far[rank], message->tag);
    }
    if (message->stage != stage) *moved = 1;
    if (message->stage != 2) tri__link_waits(link, rank, &message->what, group->n);
    return TRI_OK;
}

/* ---- Polling ---- */

tri_status tri__link_hear(tri_link *link) {
    char bytes[TRI_NOTE_BYTES];
    tri_note note;
    for (int i = 0; i < NOTES_A_TURN; i++) {
        int from = -1, n = link->remote->hear(link->state, &from, bytes, sizeof bytes);
        if (n == 0) return TRI_OK;
        if (n < 0) return tri__link_try(link, -n, from);
        if (n < (int)sizeof note)
            return tri__fail(TRI_DISAGREE, "rank %d sent a note of %d bytes: do all machines run the same build?", from,
                             n);
        memcpy(&note, bytes, sizeof note);
        link->far[from].sign = tri__clock();
        if (note.kind == TRI_NOTE_MESSAGE) {
            TRI_TRY(keep(link, from, &note, bytes + sizeof note, n - (int)sizeof note));
        } else {
            bytes[n < TRI_NOTE_BYTES ? n : TRI_NOTE_BYTES - 1] = 0;
            tri__link_take(link, from, &note, bytes + sizeof note);
        }
    }
    return TRI_OK;
}

tri_status tri__remote_poll(tri_world *world) {
    tri_link *link = world->link;
    tri_control *control = world->segment.control;
    if (!link || link->dropped || world->nodes.n == 1) return tri__world_check(world);
    tri_status status = atomic_load_explicit(&control->abort, memory_order_relaxed) ? TRI_OK
                                                                                       : tri__link_hear(link);
    if (status == TRI_OK) status = tri__link_watch(link);
    if (status != TRI_OK && !atomic_load(&control->abort))
        tri__control_fail(control, world->rank, status, "%s", tri_error());
    if (atomic_load(&control->abort)) tri__link_drop(link);
    return tri__world_check(world);
}
