/* saver.c - the steps of a checkpoint: begin (first rank) - write (each) - vote - gather the manifest's parts - commit
 * (first rank) - broadcast the result. The two parts with disk work, write and commit, are jobs: done synchronously, or
 * each by a thread. A thread always removes older checkpoints: that takes half as long as writing one (0.25 s for 480
 * MB on ext4), and nothing has to wait for it. */
#include "train/state/saver.h"

#include "base/copy.h"
#include "base/thread.h"

#include <errno.h>
#include <sys/mman.h>

typedef enum stage { IDLE, WRITING, COMMITTING } stage;
enum { PENDING = -1 }; /* as a status: not ended yet */
enum { JOIN_NANOSECONDS = 50 * 1000 * 1000 };

/* Work with files, by the caller or by a thread. */
typedef struct job {
    void (*work)(void *context);
    void *context;
    tri_calls *calls;            /* of this rank: where its threads announce their file calls */
    pthread_t thread;
    int running;                 /* 1: to be joined */
    atomic_int ended;
} job;

struct tri_saver {
    tri_world *world;
    int rank, lead, background;
    const tri_piece *piece[2];   /* of training: weights, optimizer */
    tri_piece *copy[2];          /* [n] the same in `memory`; background only */
    int n[2];
    char *memory;                /* [bytes], pages already touched */
    size_t bytes;
    stage stage;
    tri_save_spec what;
    char made[TRI_PATH_MAX];     /* temporary folder */
    tri_json *part;                /* of the manifest: this rank's; on the first rank, after gathering, all ranks' */
    job job;                     /* of the stage */
    tri_status status;           /* written by its thread until it has ended, as the next */
    char words[1024];
    /* removes older checkpoints, on the first rank; its thread owns its data */
    struct cleaner {
        job job;
        char folder[TRI_PATH_MAX];
        int keep;
        int64_t last;
        tri_proven proven;       /* checkpoints known to be valid */
        char warning[1024];      /* "": all went well */
    } cleaner;
};

/* What the first rank broadcasts. */
typedef struct notice {
    int32_t status;              /* or PENDING */
    char words[1024], path[TRI_PATH_MAX];
} notice;

static size_t piece_bytes(const tri_piece *piece) {
    return (size_t)(piece->slice.end - piece->slice.begin) * tri__dtype_bytes(piece->dtype);
}

/* Bytes in the copy, where each piece begins on a cache line. */
static size_t room_of(const tri_piece *piece) { return (piece_bytes(piece) + 63) & ~(size_t)63; }

static void keep_words(char out[static 1024]) { snprintf(out, 1024, "%s", tri_error()); }

static tri_status tell(tri_saver *saver, notice *note) {
    return saver->world ? tri_broadcast(tri_group_world(saver->world), note, sizeof *note, TRI_U8, 0) : TRI_OK;
}

/* ---- Jobs ---- */

static void run(job *j) {
    j->work(j->context);
    atomic_store(&j->ended, 1);
}

static void *run_beside(void *data) {
    job *j = data;
    tri__calls_help(j->calls);
    run(j);
    tri__calls_leave();
    return NULL;
}

/* Not 0: why there is no thread. */
static int start(job *j) {
    atomic_store(&j->ended, 0);
    int failed = tri__thread_start(&j->thread, run_beside, j);
    j->running = !failed;
    return failed;
}

/* Whether it has ended; with `wait`, waits for that. Its file calls are this rank's meanwhile, which still answers
 * other machines. */
static int has_ended(job *j, int wait) {
    struct timespec until;
    if (!wait && !atomic_load(&j->ended)) return 0;
    if (!j->running) return 1;
    tri__helpers_begin();
    do {
        tri__helpers_poll();
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += JOIN_NANOSECONDS;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    } while (pthread_timedjoin_np(j->thread, NULL, &until) == ETIMEDOUT);
    tri__helpers_end();
    j->running = 0;
    return 1;
}

/* The lines of all steps until this one were written before the save began (TRI_EVENT_SAVE): a run that resumes here
 * does not report them again, so they are brought to disk before the commit. */
static tri_status sync_metrics(const char *folder) {
    TRI_PATH(path, folder, "metrics.jsonl");
    return tri__file_bring(path);
}

static void work(void *context) {
    tri_saver *saver = context;
    const tri_checkpoint_out *out = &saver->what.out;
    if (saver->stage != COMMITTING) {
        saver->status = tri__checkpoint_write(out, saver->made, saver->rank, &saver->part);
        if (saver->status != TRI_OK) keep_words(saver->words);
        return;
    }
    saver->words[0] = 0; /* a failure after the commit does not fail the save: they are then a warning */
    saver->status = sync_metrics(out->folder);
    if (saver->status == TRI_OK) saver->status = tri__checkpoint_end(out, saver->made, saver->part);
    if (saver->status != TRI_OK || (saver->what.best && tri__checkpoint_mark_best(out->folder, out->step) != TRI_OK))
        keep_words(saver->words);
}

static void clean(void *context) {
    struct cleaner *c = context;
    c->warning[0] = 0;
    if (tri__checkpoint_prune_proven(c->folder, c->keep, c->last, &c->proven) != TRI_OK) keep_words(c->warning);
}

static void start_cleaner(tri_saver *saver) {
    struct cleaner *c = &saver->cleaner;
    c->keep = saver->what.keep, c->last = saver->what.out.step;
    tri__proven_add(&c->proven, c->last);
    snprintf(c->folder, sizeof c->folder, "%s", saver->what.out.folder);
    if (start(&c->job)) run(&c->job);
}

/* Reports the cleaner's warning once it has ended; with `wait`, waits for its end. */
static void end_cleaner(tri_saver *saver, int wait, char words[static 1024]) {
    struct cleaner *c = &saver->cleaner;
    if (!has_ended(&c->job, wait)) return;
    if (c->warning[0]) memcpy(words, c->warning, sizeof c->warning);
    c->warning[0] = 0;
}

static void start_job(tri_saver *saver, stage stage) {
    saver->stage = stage;
    if (!saver->background) {
        if (saver->world) tri__world_files(saver->world, 1);
        run(&saver->job);
        if (saver->world) tri__world_files(saver->world, 0);
        return;
    }
    int failed = start(&saver->job);
    if (!failed) return;
    saver->status = TRI_RESOURCE;
    snprintf(saver->words, sizeof saver->words, "cannot start the thread that saves: %s", strerror(failed));
    atomic_store(&saver->job.ended, 1);
}

/* The job's status; without `wait`, PENDING until it has ended. */
static int32_t job_status(tri_saver *saver, int wait) {
    return has_ended(&saver->job, wait) ? (int32_t)saver->status : PENDING;
}

/* ---- Agreement ---- */

static void forget(tri_saver *saver) {
    tri__save_spec_free(&saver->what);
    tri__json_decref(saver->part);
    saver->part = NULL, saver->stage = IDLE;
}

static void give_up(tri_saver *saver, tri_status status, const char *words, tri_saved *saved) {
    saved->result = TRI_SAVE_FAILED, saved->status = status;
    tri__fail(status, "%s", words);
    if (saver->lead && saver->made[0]) tri__checkpoint_drop(saver->made);
    snprintf(saved->words, sizeof saved->words, "checkpoint of step %lld not saved: %.900s", (long long)saved->step,
             words);
    forget(saver);
}

/* All ranks' status after writing: TRI_OK, PENDING while one is not ready, or the first failure with that rank's
 * message. */
static tri_status vote(tri_saver *saver, int wait, int32_t *outcome, char words[static 1024]) {
    tri_world *world = saver->world;
    int32_t own = job_status(saver, wait);
    int n = world ? tri_world_size(world) : 1, failed = -1;
    TRI_OWNED(tri__free_at) int32_t *all = calloc((size_t)n, sizeof *all);
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory for a vote of %d ranks", n);
    all[0] = own;
    tri_status status = world ? tri_all_gather(tri_group_world(world), &own, all, 1, NULL, TRI_I32) : TRI_OK;
    *outcome = TRI_OK;
    for (int r = n - 1; r >= 0 && status == TRI_OK; r--) {
        if (all[r] != TRI_OK && all[r] != PENDING && *outcome != PENDING) *outcome = all[r], failed = r;
        if (all[r] == PENDING) *outcome = PENDING;
    }
    if (status != TRI_OK || *outcome == TRI_OK || *outcome == PENDING) return status;
    memcpy(words, saver->words, sizeof saver->words);
    if (!world) return TRI_OK;
    if (world->rank == failed) snprintf(words, 1024, "rank %d: %.1000s", failed, saver->words);
    return tri_broadcast(tri_group_world(world), words, 1024, TRI_U8, failed);
}

/* All ranks' parts of the manifest, joined on the first. */
static tri_status gather_parts(tri_saver *saver) {
    tri_group *all = tri_group_world(saver->world);
    int n = tri_world_size(saver->world);
    TRI_OWNED(tri__free_at) char *text = tri__json_text(saver->part, TRI_JSON_COMPACT), *texts = NULL;
    TRI_OWNED(tri__free_at) int64_t *counts = calloc((size_t)n, sizeof *counts);
    int64_t own = text ? (int64_t)strlen(text) : 0, total = 0;
    if (!text || !counts) return tri__fail(TRI_RESOURCE, "out of memory for the manifest");
    TRI_TRY(tri_all_gather(all, &own, counts, 1, NULL, TRI_I64));
    for (int r = 0; r < n; r++) total += counts[r];
    if (saver->lead && !(texts = malloc((size_t)total)))
        return tri__fail(TRI_RESOURCE, "out of memory for the manifest");
    TRI_TRY(tri_gather(all, text, texts, 0, counts, TRI_U8, 0));
    int64_t at = own; /* the first rank's own part comes first */
    for (int r = 1; saver->lead && r < n; at += counts[r++]) {
        TRI_OWNED(tri__json_drop) tri_json *more = NULL;
        TRI_TRY(tri__json_parse(texts + at, (size_t)counts[r], "a rank's part of the manifest", TRI_INTERNAL, &more));
        TRI_TRY(tri__checkpoint_join(saver->part, more));
    }
    return TRI_OK;
}

/* From written to committing, once all ranks have written. */
static tri_status end_writing(tri_saver *saver, int wait, tri_saved *saved) {
    int32_t outcome = PENDING;
    char words[1024] = "";
    TRI_TRY(vote(saver, wait, &outcome, words));
    saved->result = TRI_SAVE_PENDING;
    if (outcome == PENDING) return TRI_OK;
    if (outcome != TRI_OK) {
        give_up(saver, (tri_status)outcome, words, saved);
        return TRI_OK;
    }
    if (saver->world) TRI_TRY(gather_parts(saver));
    if (saver->lead) start_job(saver, COMMITTING);
    else saver->stage = COMMITTING;
    return TRI_OK;
}

static tri_status end_commit(tri_saver *saver, int wait, tri_saved *saved) {
    notice note = {.status = PENDING};
    if (saver->lead) {
        note.status = job_status(saver, wait);
        if (note.status != PENDING) memcpy(note.words, saver->words, sizeof note.words);
        if (note.status == TRI_OK)
            snprintf(note.path, sizeof note.path, "%s/checkpoint-%lld", saver->what.out.folder, (long long)saved->step);
    }
    TRI_TRY(tell(saver, &note));
    if (note.status == PENDING) saved->result = TRI_SAVE_PENDING;
    else if (note.status != TRI_OK) give_up(saver, (tri_status)note.status, note.words, saved);
    else {
        saved->result = TRI_SAVE_DONE;
        memcpy(saved->words, note.words, sizeof saved->words);
        memcpy(saved->folder, note.path, sizeof saved->folder);
        if (saver->lead) start_cleaner(saver);
        forget(saver);
    }
    return TRI_OK;
}

tri_status tri__saver_advance(tri_saver *saver, int wait, tri_saved *saved) {
    *saved = (tri_saved){.result = TRI_SAVE_NONE, .step = saver->what.out.step};
    if (saver->stage == IDLE) {
        end_cleaner(saver, wait, saved->words);
        return TRI_OK;
    }
    if (saver->world && wait) tri__world_doing(saver->world, TRI_DOING_SAVE, saver->what.out.step);
    if (saver->stage == WRITING) TRI_TRY(end_writing(saver, wait, saved));
    return saver->stage == COMMITTING ? end_commit(saver, wait, saved) : TRI_OK;
}

/* ---- Beginning ---- */

void tri__save_spec_free(tri_save_spec *what) {
    tri__json_decref((tri_json *)what->out.config);
    tri__json_decref((tri_json *)what->out.preprocessing);
    tri__json_decref((tri_json *)what->out.state);
    *what = (tri_save_spec){0};
}

tri_status tri__saver_begin(tri_saver *saver, const tri_save_spec *what) {
    TRI_ASSERT(saver->stage == IDLE);
    if (saver->world) tri__world_doing(saver->world, TRI_DOING_SAVE, what->out.step);
    end_cleaner(saver, 1, saver->words); /* it would remove the new temporary folder as an old one */
    saver->what = *what;
    const tri_piece *const *from = saver->background ? (const tri_piece *const *)saver->copy : saver->piece;
    tri_checkpoint_out *out = &saver->what.out;
    out->weights = from[0], out->n_weights = saver->n[0], out->optimizer = from[1], out->n_optimizer = saver->n[1];
    notice note = {.status = TRI_OK};
    if (saver->lead) {
        note.status = (int32_t)tri__checkpoint_begin(out, note.path);
        if (note.status != TRI_OK) keep_words(note.words);
    }
    saver->stage = WRITING;
    TRI_TRY(tell(saver, &note));
    snprintf(saver->made, sizeof saver->made, "%s", note.path);
    if (note.status != TRI_OK) { /* reported by tri__saver_advance, like any other failure */
        saver->status = (tri_status)note.status;
        memcpy(saver->words, note.words, sizeof note.words);
        atomic_store(&saver->job.ended, 1);
        return TRI_OK;
    }
    for (int k = 0; k < 2 && saver->background; k++)
        for (int i = 0; i < saver->n[k]; i++)
            tri__copy_large(saver->copy[k][i].data, saver->piece[k][i].data, piece_bytes(&saver->piece[k][i]));
    start_job(saver, WRITING);
    return TRI_OK;
}

/* Allocates the copy and touches its pages now, so that a save causes no page faults. */
static tri_status open_copy(tri_saver *saver) {
    char need[32], have[32];
    int64_t free_bytes = tri__memory_available();
    if ((int64_t)saver->bytes > free_bytes)
        return tri__fail(TRI_RESOURCE, "--async-save needs %s for a copy of weights and optimizer state, %s is free: "
                         "leave it out, or shard more", tri__text_bytes((double)saver->bytes, need),
                         tri__text_bytes((double)free_bytes, have));
    char *at = mmap(NULL, saver->bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED)
        return tri__fail(TRI_RESOURCE, "--async-save: no memory for a copy of %s",
                         tri__text_bytes((double)saver->bytes, need));
    saver->memory = at;
    for (int k = 0; k < 2; k++) {
        TRI_TRY(TRI_NEW(saver->copy[k], (size_t)saver->n[k] + 1, "a saver"));
        for (int i = 0; i < saver->n[k]; at += room_of(&saver->piece[k][i++])) {
            saver->copy[k][i] = saver->piece[k][i];
            saver->copy[k][i].data = at;
        }
    }
    return TRI_OK;
}

tri_status tri__saver_open(tri_world *world, const tri_memory_pieces *pieces, int background, tri_saver **out) {
    tri_saver *saver = calloc(1, sizeof *saver);
    *out = NULL;
    if (!saver) return tri__fail(TRI_RESOURCE, "out of memory for a saver");
    *saver = (tri_saver){.world = world, .rank = world ? tri_world_rank(world) : 0, .background = background,
                         .piece = {pieces->weights, pieces->optimizer}, .n = {pieces->n_weights, pieces->n_optimizer},
                         .job = {.work = work, .context = saver, .calls = tri__calls_mine()}};
    saver->cleaner.job = (job){.work = clean, .context = &saver->cleaner, .calls = saver->job.calls, .ended = 1};
    saver->lead = saver->rank == 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < saver->n[k]; i++) saver->bytes += room_of(&saver->piece[k][i]);
    tri_status status = background ? open_copy(saver) : TRI_OK;
    if (status == TRI_OK) *out = saver;
    else tri__saver_close(saver);
    return status;
}

void tri__saver_close(tri_saver *saver) {
    if (!saver) return;
    if (saver->job.running) (void)has_ended(&saver->job, 1);
    end_cleaner(saver, 1, (char[1024]){0});
    if (saver->lead && saver->stage != IDLE && saver->made[0])
        tri__checkpoint_drop(saver->made); /* the run ends during a save */
    forget(saver);
    tri__proven_free(&saver->cleaner.proven);
    if (saver->memory) munmap(saver->memory, saver->bytes + 1);
    for (int k = 0; k < 2; k++) free(saver->copy[k]);
    free(saver);
}
