/* crew.c - commands to the other ranks of a server, and what they do with them. */
#include "serve/crew.h"

#include "base/clock.h"
#include "engine/follow.h"
#include "engine/memory_fit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 256, NOBODY = -1 };
static const double IDLE_SECONDS = 1;

typedef enum command_kind { COMMAND_OPEN, COMMAND_LISTEN, COMMAND_CLOSE, COMMAND_END } command_kind;

/* Broadcast by rank 0. */
typedef struct command {
    int32_t what, slot;
    char path[TRI_PATH_MAX]; /* COMMAND_OPEN: of the checkpoint */
} command;

struct tri_crew {
    tri_world *world;
    pthread_t thread;        /* gives idle orders */
    int started;
    pthread_mutex_t lock;    /* guards the world and all below */
    pthread_cond_t changed;
    tri_engine *engine[SLOTS]; /* NULL: free */
    int listening;           /* the slot whose orders the others wait for; NOBODY: for a command */
    double last;             /* when they got the last order */
    int closing;
    tri_status failed;
    tri_words why;
};

static tri_status share(tri_world *world, command *c) {
    return tri_broadcast(tri_group_world(world), c, (int64_t)sizeof *c, TRI_U8, 0);
}

/* Whether all ranks are well so far. */
static tri_status agree(tri_world *world, tri_status here, int *good) {
    int32_t all = here == TRI_OK;
    tri_words why;
    tri__words_keep(&why);
    TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, &all, 1, TRI_I32, TRI_MIN));
    *good = all;
    tri__words_restore(&why);
    return TRI_OK;
}

/* ---- rank 0; with the lock held ---- */

/* Keeps the first failure. */
static tri_status note(tri_crew *crew, tri_status status) {
    crew->last = tri__clock();
    if (status == TRI_OK || crew->failed != TRI_OK) return status;
    crew->failed = status;
    tri__words_keep(&crew->why);
    tri_world_fail(crew->world, status, crew->why.text);
    return status;
}

static tri_status failed(const tri_crew *crew) {
    return crew->failed == TRI_OK ? TRI_OK : tri__fail(crew->failed, "%s", crew->why.text);
}

static tri_status send(tri_crew *crew, command_kind what, int slot, const char *path) {
    command c = {.what = what, .slot = slot};
    TRI_TRY(failed(crew));
    if (path && snprintf(c.path, sizeof c.path, "%s", path) >= (int)sizeof c.path)
        return tri__fail(TRI_USAGE, "%s: its path is too long", path);
    if (crew->listening != NOBODY)
        TRI_TRY(note(crew, tri__engine_lead(crew->engine[crew->listening], TRI_ORDER_RELOAD, 0, NULL)));
    crew->listening = NOBODY;
    return note(crew, share(crew->world, &c));
}

/* Lets the others listen to some engine, if there is any, so that idle orders reach them. */
static void listen_to_any(tri_crew *crew) {
    int slot = SLOTS - 1;
    while (slot >= 0 && !crew->engine[slot]) slot--;
    if (slot >= 0 && send(crew, COMMAND_LISTEN, slot, NULL) == TRI_OK) crew->listening = slot;
}

static void *give_idle_orders(void *context) {
    tri_crew *crew = context;
    pthread_mutex_lock(&crew->lock);
    while (!crew->closing) {
        double until = tri__clock() + IDLE_SECONDS / 2;
        struct timespec at = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
        (void)pthread_cond_timedwait(&crew->changed, &crew->lock, &at);
        if (crew->closing || crew->failed != TRI_OK || tri__clock() - crew->last < IDLE_SECONDS) continue;
        if (crew->listening != NOBODY)
            (void)note(crew, tri__engine_lead(crew->engine[crew->listening], TRI_ORDER_IDLE, 0, NULL));
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

tri_status tri__crew_open(tri_world *world, tri_crew **out) {
    pthread_condattr_t monotonic;
    sigset_t all, before;
    tri_crew *crew = calloc(1, sizeof *crew);
    *out = NULL;
    if (!crew) return tri__fail(TRI_RESOURCE, "out of memory");
    *crew = (tri_crew){.world = world, .listening = NOBODY, .last = tri__clock()};
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* tri__clock's */
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    crew->started = !pthread_create(&crew->thread, NULL, give_idle_orders, crew);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (crew->started) *out = crew;
    else tri__crew_close(crew);
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "cannot start a thread for the ranks of a server");
}

void tri__crew_close(tri_crew *crew) {
    if (!crew) return;
    pthread_mutex_lock(&crew->lock);
    (void)send(crew, COMMAND_END, 0, NULL);
    crew->closing = 1;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
    if (crew->started) pthread_join(crew->thread, NULL);
    pthread_cond_destroy(&crew->changed);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}

tri_world *tri__crew_world(const tri_crew *crew) { return crew->world; }

tri_status tri__crew_failed(tri_crew *crew) {
    pthread_mutex_lock(&crew->lock);
    tri_status status = failed(crew);
    pthread_mutex_unlock(&crew->lock);
    return status;
}

/* Plans all ranks without opening anything, so that a plan that does not fit is refused before others hear of it. */
static tri_status check_plan(const tri_opened *o, const tri_counts *max) {
    tri_engine engine;
    tri_programs all;
    tri_place alone = o->place;
    alone.world = NULL;
    tri_status status = tri__engine_plan(&o->settings, &alone, &o->assets, o->preprocess->width, 0, max, max, &engine);
    if (status == TRI_OK) status = tri__engine_plan_all(&engine, &all);
    if (status == TRI_OK)
        status = tri__room_check(&o->settings, &engine, &all, (int)o->settings.nproc_per_node);
    tri__engine_close(&engine);
    return status;
}

/* What every rank does with a model that it has read. */
static tri_status load(tri_opened *o, const tri_batching *batching) {
    tri_counts max = tri__batching_counts(batching, o);
    return tri__opened_load(o, &max, 0);
}

static tri_status add(tri_crew *crew, tri_opened *o, const tri_batching *batching, int *slot) {
    int good, at = 0;
    while (at < SLOTS && crew->engine[at]) at++;
    if (at == SLOTS) return tri__fail(TRI_RESOURCE, "%d models are open already", SLOTS);
    TRI_TRY(send(crew, COMMAND_OPEN, at, tri__checkpoint_path(o->checkpoint)));
    TRI_TRY(note(crew, agree(crew->world, TRI_OK, &good)));
    if (!good) {
        listen_to_any(crew);
        return tri__fail(TRI_DATA, "%s: another rank cannot read it; its own output says why",
                         tri__checkpoint_path(o->checkpoint));
    }
    TRI_TRY(note(crew, load(o, batching)));
    crew->engine[at] = &o->engine, crew->listening = at, *slot = at;
    return TRI_OK;
}

tri_status tri__crew_add(tri_crew *crew, tri_opened *o, const tri_batching *batching, int *slot) {
    tri_counts max = tri__batching_counts(batching, o);
    o->place.fed = 1;
    TRI_TRY(check_plan(o, &max));
    pthread_mutex_lock(&crew->lock);
    tri_status status = add(crew, o, batching, slot);
    pthread_mutex_unlock(&crew->lock);
    return status;
}

void tri__crew_drop(tri_crew *crew, int slot, tri_opened *o) {
    pthread_mutex_lock(&crew->lock);
    (void)send(crew, COMMAND_CLOSE, slot, NULL);
    crew->engine[slot] = NULL;
    tri__opened_close(o); /* its memory may be the world's */
    listen_to_any(crew);
    pthread_mutex_unlock(&crew->lock);
}

static tri_status run(tri_crew *crew, int slot, const tri_feed *feed) {
    TRI_TRY(failed(crew));
    if (crew->listening != slot) TRI_TRY(send(crew, COMMAND_LISTEN, slot, NULL));
    crew->listening = slot;
    return note(crew, tri__engine_lead(crew->engine[slot], TRI_ORDER_RUN, 0, feed));
}

tri_status tri__crew_run(tri_crew *crew, int slot, const tri_feed *feed) {
    pthread_mutex_lock(&crew->lock);
    tri_status status = run(crew, slot, feed);
    pthread_mutex_unlock(&crew->lock);
    return status;
}

/* ---- the other ranks ---- */

typedef struct follower {
    tri_world *world;
    tri_settings asked;      /* borrows the command's */
    const tri_batching *batching;
    tri_opened *model[SLOTS]; /* NULL: free */
    int listening;
} follower;

static void drop(follower *f, int slot) {
    if (f->model[slot]) tri__opened_close(f->model[slot]);
    free(f->model[slot]);
    f->model[slot] = NULL;
}

static tri_status read_model(follower *f, const command *c, tri_batching *batching) {
    tri_opened *o = f->model[c->slot] = calloc(1, sizeof *o);
    if (!o) return tri__fail(TRI_RESOURCE, "out of memory");
    f->asked.checkpoint = (char *)c->path;
    TRI_TRY(tri__opened_read(&f->asked, f->world, o));
    o->place.fed = 1;
    return tri__batching_resolve(f->batching, o, batching);
}

/* A model that cannot be read here is refused on all ranks. */
static tri_status open_model(follower *f, const command *c) {
    int good;
    tri_batching batching;
    TRI_TRY(agree(f->world, read_model(f, c, &batching), &good));
    if (!good) {
        drop(f, c->slot);
        f->listening = NOBODY;
        return TRI_OK;
    }
    f->listening = c->slot;
    return load(f->model[c->slot], &batching);
}

static tri_status obey(follower *f, const command *c, int *end) {
    if (c->slot < 0 || c->slot >= SLOTS) return tri__fail(TRI_INTERNAL, "slot %d of a server's models", (int)c->slot);
    f->listening = NOBODY;
    if (c->what == COMMAND_OPEN) return open_model(f, c);
    if (c->what == COMMAND_LISTEN) f->listening = c->slot;
    if (c->what == COMMAND_CLOSE) drop(f, c->slot);
    *end = c->what == COMMAND_END;
    return TRI_OK;
}

static tri_status follow(follower *f) {
    for (int end = 0; !end;) {
        command c;
        TRI_TRY(share(f->world, &c));
        TRI_TRY(obey(f, &c, &end));
        tri_order order = TRI_ORDER_RELOAD;
        int64_t value;
        if (f->listening != NOBODY) TRI_TRY(tri__engine_follow(&f->model[f->listening]->engine, &order, &value));
    }
    return TRI_OK;
}

tri_status tri__crew_follow(tri_world *world, const tri_settings *asked, const tri_batching *batching) {
    follower *f = calloc(1, sizeof *f);
    if (!f) return tri__fail(TRI_RESOURCE, "out of memory");
    *f = (follower){.world = world, .asked = *asked, .batching = batching, .listening = NOBODY};
    tri_status status = follow(f);
    tri_words why;
    tri__words_keep(&why);
    for (int slot = 0; slot < SLOTS; slot++) drop(f, slot);
    free(f);
    tri__words_restore(&why);
    return status;
}
