/* crew.c - commands to the other ranks of a server, and what they do with them. */
#include "serve/infer/crew.h"

#include "base/thread.h"
#include "engine/server_ranks.h"
#include "engine/infer.h"
#include "engine/cost/memory_fit.h"
#include "serve/infer/polite_work.h"

enum { SLOTS = 256, NOBODY = -1 };
static const double IDLE_SECONDS = 1;

/* A model is opened in steps, between which others are computed: READ and LOAD begin what each rank does alone, in the
 * background; BIND and FINISH are what all do together, and are short. ASK: whether all are ready. */
typedef enum command_kind {
    COMMAND_READ, COMMAND_BIND, /* and LOAD */
    COMMAND_FINISH, COMMAND_ASK, COMMAND_LISTEN, COMMAND_CLOSE, COMMAND_END
} command_kind;

/* Broadcast by rank 0. */
typedef struct command {
    int32_t what, slot;
    char path[TRI_PATH_MAX]; /* COMMAND_READ: of the checkpoint */
} command;

/* A rank's work in the background; in the order of what is asked for, of which the least counts. */
typedef enum work_state { WORK_FAILED, WORK_BUSY, WORK_DONE } work_state;

struct tri_crew {
    tri_world *world;
    pthread_t thread;        /* gives idle orders */
    int started;
    pthread_mutex_t lock;    /* guards the world and all below */
    pthread_cond_t changed;
    tri_engine *engine[SLOTS]; /* NULL: none that orders can be given to */
    uint8_t taken[SLOTS];
    int listening;           /* the slot whose orders the others wait for; NOBODY: for a command */
    double last;             /* when they got the last order */
    int closing;
    tri_status failed;
    tri_words why;
};

static tri_status share(tri_world *world, command *c) {
    return tri_broadcast(tri_group_world(world), c, (int64_t)sizeof *c, TRI_U8, 0);
}

static work_state state_of(tri_polite_work *w) {
    if (!atomic_load(&w->ended)) return WORK_BUSY;
    return w->status == TRI_OK ? WORK_DONE : WORK_FAILED;
}

/* The state of the rank that is behind all others. */
static tri_status compare(tri_world *world, work_state here, work_state *all) {
    int32_t least = (int32_t)here;
    TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, &least, 1, TRI_I32, TRI_MIN));
    *all = (work_state)least;
    return TRI_OK;
}

/* The weights, which each rank reads by itself. */
static tri_status load_weights(void *context) {
    tri_opened *o = context;
    return tri__engine_load(&o->engine, o->checkpoint);
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
    TRI_LOCKED(&crew->lock);
    while (!crew->closing) {
        double until = tri__clock() + IDLE_SECONDS / 2;
        struct timespec at = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
        (void)pthread_cond_timedwait(&crew->changed, &crew->lock, &at);
        if (crew->closing || crew->failed != TRI_OK || tri__clock() - crew->last < IDLE_SECONDS) continue;
        if (crew->listening != NOBODY)
            (void)note(crew, tri__engine_lead(crew->engine[crew->listening], TRI_ORDER_IDLE, 0, NULL));
    }
    return NULL;
}

tri_status tri__crew_open(tri_world *world, tri_crew **out) {
    pthread_condattr_t monotonic;
    tri_crew *crew = calloc(1, sizeof *crew);
    *out = NULL;
    if (!crew) return tri__fail(TRI_RESOURCE, "out of memory");
    *crew = (tri_crew){.world = world, .listening = NOBODY, .last = tri__clock()};
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* tri__clock's */
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    crew->started = !tri__thread_start(&crew->thread, give_idle_orders, crew);
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

/* Plans all ranks without opening anything, so that a plan that does not fit is refused before others hear of it. */
static tri_status check_plan(const tri_opened *o, const tri_counts *max) {
    TRI_OWNED(tri__engine_drop) tri_engine *engine = calloc(1, sizeof *engine); /* large */
    tri_programs all;
    tri_place alone = o->place;
    if (!engine) return tri__fail(TRI_RESOURCE, "out of memory");
    alone.world = NULL;
    const tri_engine_spec spec = {.settings = &o->settings, .place = &alone, .assets = &o->assets,
                                  .columns = o->preprocess->vectors, .max = max, .max_infer = max};
    TRI_TRY(tri__engine_plan(&spec, engine));
    TRI_TRY(tri__engine_plan_all(engine, &all));
    return tri__room_check(&o->settings, engine, &all, (int)o->settings.nproc_per_node, NULL);
}

/* One command, and what rank 0 does at the same time; then the others listen to the new model or to whatever is open.
 * all: of COMMAND_ASK. */
static tri_status tell(tri_crew *crew, command_kind what, int slot, tri_opened *o, const tri_counts *max,
                       work_state *all) {
    TRI_LOCKED(&crew->lock);
    TRI_TRY(send(crew, what, slot, what == COMMAND_READ ? tri__checkpoint_path(o->checkpoint) : NULL));
    if (what == COMMAND_ASK) TRI_TRY(note(crew, compare(crew->world, WORK_DONE, all)));
    if (what == COMMAND_BIND) TRI_TRY(note(crew, tri__opened_bind(o, max)));
    if (what == COMMAND_FINISH) TRI_TRY(note(crew, tri__engine_ready_infer(&o->engine)));
    if (what == COMMAND_FINISH) crew->engine[slot] = &o->engine, crew->listening = slot;
    else listen_to_any(crew);
    return TRI_OK;
}

/* Asks until the others have ended what they do in the background. */
static tri_status await_others(tri_crew *crew, int slot, tri_opened *o) {
    static const double PERIOD = 0.005; /* seconds */
    for (work_state all = WORK_BUSY; all != WORK_DONE;) {
        TRI_TRY(tell(crew, COMMAND_ASK, slot, o, NULL, &all));
        if (all == WORK_FAILED)
            return tri__fail(TRI_DATA, "%s: another rank cannot read it; its own output says why",
                             tri__checkpoint_path(o->checkpoint));
        if (all == WORK_BUSY) tri__clock_sleep(tri__clock() + PERIOD);
    }
    return TRI_OK;
}

static tri_status add(tri_crew *crew, tri_opened *o, const tri_counts *max, int slot) {
    tri_polite_work mine;
    TRI_TRY(tell(crew, COMMAND_READ, slot, o, NULL, NULL));
    TRI_TRY(await_others(crew, slot, o));
    TRI_TRY(tell(crew, COMMAND_BIND, slot, o, max, NULL)); /* all ranks allocate; then each reads its weights */
    tri__polite_begin(&mine, load_weights, o);
    TRI_TRY(tri__polite_end(&mine));
    TRI_TRY(await_others(crew, slot, o));
    return tell(crew, COMMAND_FINISH, slot, o, NULL, NULL);
}

/* A slot that nobody else will take. */
static int take_slot(tri_crew *crew) {
    int slot = 0;
    TRI_LOCKED(&crew->lock);
    while (slot < SLOTS && crew->taken[slot]) slot++;
    if (slot < SLOTS) crew->taken[slot] = 1;
    return slot;
}

tri_status tri__crew_add(tri_crew *crew, tri_opened *o, const tri_batching *batching, int *slot) {
    tri_counts max = tri__batching_counts(batching, o);
    o->place.fed = 1;
    TRI_TRY(check_plan(o, &max));
    int at = take_slot(crew);
    if (at == SLOTS) return tri__fail(TRI_RESOURCE, "%d models are open already", SLOTS);
    tri_status status = add(crew, o, &max, at);
    if (status == TRI_OK) *slot = at;
    else tri__crew_drop(crew, at, o);
    return status;
}

void tri__crew_drop(tri_crew *crew, int slot, tri_opened *o) {
    TRI_KEEP_WORDS(); /* a model is often closed because something failed; collectives that succeed erase the reason */
    TRI_LOCKED(&crew->lock);
    (void)send(crew, COMMAND_CLOSE, slot, NULL);
    crew->engine[slot] = NULL, crew->taken[slot] = 0;
    tri__opened_close(o); /* its memory may be the world's */
    listen_to_any(crew);
}

tri_status tri__crew_run(tri_crew *crew, int slot, const tri_feed *feed) {
    TRI_LOCKED(&crew->lock);
    TRI_TRY(failed(crew));
    if (crew->listening != slot) TRI_TRY(send(crew, COMMAND_LISTEN, slot, NULL));
    crew->listening = slot;
    return note(crew, tri__engine_lead(crew->engine[slot], TRI_ORDER_RUN, 0, feed));
}

/* ---- the other ranks ---- */

/* A model, or a part of one that is being opened. */
typedef struct held {
    tri_opened opened;
    tri_settings asked;      /* borrows the command's */
    tri_world *world;
    const tri_batching *asked_batching;
    tri_batching batching;
    char path[TRI_PATH_MAX];
    tri_polite_work work;
} held;

typedef struct follower {
    tri_world *world;
    const tri_settings *asked;
    const tri_batching *batching;
    held *model[SLOTS];      /* NULL: free */
    int listening;
} follower;

static void drop(follower *f, int slot) {
    held *h = f->model[slot];
    if (!h) return;
    (void)tri__polite_end(&h->work);
    tri__opened_close(&h->opened);
    free(h);
    f->model[slot] = NULL;
}

/* Uses nothing of the world but this rank's place in it. */
static tri_status read_model(void *context) {
    held *h = context;
    TRI_TRY(tri__opened_read(&h->asked, h->world, &h->opened));
    h->opened.place.fed = 1;
    return tri__batching_resolve(h->asked_batching, &h->opened, &h->batching);
}

static tri_status begin_reading(follower *f, const command *c) {
    held *h = f->model[c->slot] = calloc(1, sizeof *h);
    if (!h) return tri__fail(TRI_RESOURCE, "out of memory");
    *h = (held){.asked = *f->asked, .world = f->world, .asked_batching = f->batching};
    memcpy(h->path, c->path, sizeof h->path);
    h->asked.checkpoint = h->path;
    tri__polite_begin(&h->work, read_model, h);
    return TRI_OK;
}

static tri_status bind_model(held *h) {
    TRI_TRY(tri__polite_end(&h->work));
    tri_counts max = tri__batching_counts(&h->batching, &h->opened);
    TRI_TRY(tri__opened_bind(&h->opened, &max));
    tri__polite_begin(&h->work, load_weights, &h->opened);
    return TRI_OK;
}

static tri_status finish_model(held *h) {
    TRI_TRY(tri__polite_end(&h->work));
    return tri__engine_ready_infer(&h->opened.engine);
}

static tri_status obey(follower *f, const command *c, int *end) {
    work_state all;
    if (c->slot < 0 || c->slot >= SLOTS) return tri__fail(TRI_INTERNAL, "slot %d of a server's models", (int)c->slot);
    held *h = f->model[c->slot];
    f->listening = c->what == COMMAND_LISTEN || c->what == COMMAND_FINISH ? c->slot : NOBODY;
    switch ((command_kind)c->what) {
    case COMMAND_READ: return begin_reading(f, c);
    case COMMAND_ASK: return compare(f->world, state_of(&h->work), &all);
    case COMMAND_BIND: return bind_model(h);
    case COMMAND_FINISH: return finish_model(h);
    case COMMAND_CLOSE: drop(f, c->slot); break;
    case COMMAND_LISTEN: break;
    case COMMAND_END: *end = 1;
    }
    return TRI_OK;
}

static tri_status follow(follower *f) {
    for (int end = 0; !end;) {
        command c;
        TRI_TRY(share(f->world, &c));
        TRI_TRY(obey(f, &c, &end));
        tri_order order = TRI_ORDER_RELOAD;
        int64_t value;
        if (f->listening != NOBODY) TRI_TRY(tri__engine_follow(&f->model[f->listening]->opened.engine, &order, &value));
    }
    return TRI_OK;
}

tri_status tri__crew_follow(tri_world *world, const tri_settings *asked, const tri_batching *batching) {
    TRI_OWNED(tri__free_at) follower *f = calloc(1, sizeof *f);
    if (!f) return tri__fail(TRI_RESOURCE, "out of memory");
    f->world = world, f->asked = asked, f->batching = batching, f->listening = NOBODY;
    tri_status status = follow(f);
    TRI_KEEP_WORDS();
    for (int slot = 0; slot < SLOTS; slot++) drop(f, slot);
    return status;
}
