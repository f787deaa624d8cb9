/* link_alive.c - failures and liveness between machines.
 *
 * A rank that waits for one of another machine periodically asks for its progress. Ranks answer whenever they poll: in
 * waits, and between instructions. An answer that shows progress counts as this rank's own, so that a machine whose
 * ranks all wait for a busy remote rank is not reported as deadlocked; an answer without progress leaves the report to
 * that machine's watcher; a missing answer is reported here. A rank inside a file call cannot answer: before it loads
 * or saves, it says so, and then has the I/O timeout, as long as another rank of its machine answers (if there is one
 * that is not at its files as well): a machine that is gone is known after the progress timeout. */
#include "comm/link/link_parts.h"

#include "comm/ops/describe.h"

#include <unistd.h>

static const double LOOK_SECONDS = 0.02;    /* between checks of the ranks waited for */
static const double FRESH_SECONDS = 0.5;    /* a wait that was not polled for longer is a new one */
/* Times the progress timeout: that machine's own watcher, which knows more, reports first. */
static const double SILENCE = 1.25;
static const double TELL_SECONDS = 0.1;     /* for sending notes of a failure */
static const double LISTEN_SECONDS = 0.1;   /* for those of other machines, which may have failed alike */

static int elsewhere(const tri_world *world, int rank) {
    return world->nodes.node_of[rank] != world->nodes.node_of[world->rank];
}

static void beat(tri_rank_line *line) { atomic_fetch_add_explicit(&line->beats, 1, memory_order_relaxed); }

void tri__link_files(tri_link *link, int begins) {
    tri_note note = {.kind = TRI_NOTE_FILES, .code = begins};
    for (int r = 0; r < link->world->size && !link->dropped; r++)
        if (elsewhere(link->world, r)) link->remote->note(link->state, r, &note, sizeof note);
}

void tri__link_take(tri_link *link, int from, const tri_note *note, const char *text) {
    tri_control *control = link->world->segment.control;
    tri_rank_line *own = tri__own_line(link->world);
    tri_far *far = &link->far[from];
    if (note->kind == TRI_NOTE_FAILURE) {
        tri_failure failure = {.rank = note->rank, .code = note->code, .phase = (uint32_t)note->channel,
                               .step = (int64_t)note->number};
        snprintf(failure.text, sizeof failure.text, "%s", text);
        tri__control_record(control, &failure);
    } else if (note->kind == TRI_NOTE_ASK) {
        tri_note answer = {.kind = TRI_NOTE_ANSWER, .code = link->leaving, .follow = tri__calls_now(&own->calls, NULL),
                           .number = atomic_load(&own->beats)};
        link->remote->note(link->state, from, &answer, sizeof answer);
    } else if (note->kind == TRI_NOTE_ANSWER) {
        far->left = note->code ? tri__clock() : 0;
        if (note->number != far->beats || note->follow) beat(own);
        far->beats = note->number;
    } else if (note->kind == TRI_NOTE_FILES) {
        far->files = note->code == 1;
    }
}

void tri__link_waits(tri_link *link, int rank, const tri_descriptor *what, int members) {
    tri_far *far = &link->far[rank];
    double now = tri__clock();
    if (now - far->waited > FRESH_SECONDS) far->sign = far->asked = now;
    far->waited = now;
    far->what = *what;
    far->members = members;
}

static tri_status report(tri_link *link, int rank, double silent) {
    char what[160];
    tri_control *control = link->world->segment.control;
    tri__describe(&link->far[rank].what, link->far[rank].members, what, sizeof what);
    link->mine = 1;
    if (link->far[rank].left)
        tri__control_fail(control, rank, TRI_DISAGREE, "has ended, and rank %d on another machine waits for it in %s",
                          link->world->rank, what);
    else
        tri__control_fail(control, rank, TRI_DISAGREE,
                          "gave no sign of life for %.2f s, and rank %d on another machine waits for it in %s. It "
                          "hangs, died, or its "
                          "machine cannot be reached; or raise %s",
                          silent, link->world->rank, what,
                          link->far[rank].files ? "--io-timeout: it loads or saves files" : "--progress-timeout");
    return tri__world_check(link->world);
}

static tri_status ask(tri_link *link, int rank, double now) {
    tri_note note = {.kind = TRI_NOTE_ASK};
    link->far[rank].asked = now;
    return tri__link_try(link, link->remote->note(link->state, rank, &note, sizeof note), rank);
}

/* Asks those of the rank's machine that are not at their files. *gone: one of them gives no answer either. */
static tri_status ask_machine(tri_link *link, int rank, double limit, double now, int *gone) {
    const int *node = link->world->nodes.node_of;
    *gone = 0;
    for (int q = 0; q < link->world->size; q++) {
        tri_far *far = &link->far[q];
        if (q == rank || node[q] != node[rank] || far->files) continue;
        if (now - far->asked > limit) far->probed = now; /* not asked lately: its time begins now */
        double since = far->sign > far->probed ? far->sign : far->probed;
        *gone |= now - since > limit * SILENCE;
        if (now - far->asked > limit / 8) TRI_TRY(ask(link, q, now));
    }
    return TRI_OK;
}

tri_status tri__link_watch(tri_link *link) {
    const tri_control *control = link->world->segment.control;
    double now = tri__clock(), limit = control->progress_timeout, stood = now - link->looked - 10 * LOOK_SECONDS;
    if (now - link->looked < LOOK_SECONDS) return TRI_OK;
    for (int r = 0; r < link->world->size; r++) {
        tri_far *far = &link->far[r];
        if (far->waited == 0 || now - far->waited > FRESH_SECONDS) continue;
        if (link->looked > 0 && stood > 0) far->sign += stood; /* this rank itself did not poll */
        /* all its messages arrived before its answer, and have been polled since */
        int gone = far->left && far->waited > far->left;
        double most = far->files && control->io_timeout > limit ? control->io_timeout : limit;
        int silent = 0;
        if (far->files) TRI_TRY(ask_machine(link, r, limit, now, &silent));
        if (gone || silent || now - far->sign > most * SILENCE) return report(link, r, now - far->sign);
        if (now - far->sign < limit / 8 || now - far->asked < limit / 8) continue;
        if (far->files) beat(tri__own_line(link->world)); /* else all here seem to wait for nothing */
        TRI_TRY(ask(link, r, now));
    }
    link->looked = now;
    return TRI_OK;
}

/* Forwards the failure if it is one of this machine's ranks, or found by this rank: other machines do not know
 * those. */
void tri__link_drop(tri_link *link) {
    tri_world *world = link->world;
    tri_failure failure;
    char bytes[sizeof(tri_note) + TRI_FAILURE_TEXT];
    if (link->dropped) return;
    link->dropped = 1;
    if (tri__control_failure(world->segment.control, &failure) &&
        (link->mine || failure.rank < 0 || !elsewhere(world, failure.rank))) {
        int n = (int)strlen(failure.text);
        tri_note note = {.kind = TRI_NOTE_FAILURE, .rank = failure.rank, .code = failure.code, .bytes = n,
                         .channel = (int32_t)failure.phase, .number = (uint64_t)failure.step};
        memcpy(bytes, &note, sizeof note);
        memcpy(bytes + sizeof note, failure.text, (size_t)n);
        for (int r = 0; r < world->size; r++)
            if (elsewhere(world, r)) link->remote->note(link->state, r, bytes, (int)sizeof note + n);
        if (failure.rank == world->rank) /* who has failed speaks, but one for all (job/failure.h) */
            for (double end = tri__clock() + LISTEN_SECONDS;
                 tri__clock() < end && tri__link_hear(link) == TRI_OK; usleep(1000)) {}
    }
    link->remote->drop(link->state, TELL_SECONDS);
}
