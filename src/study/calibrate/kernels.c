/* kernels.c - which models are timed, by how many ranks and threads, and their instructions' times as curves.
 *
 * On a CPU the ranks of a calibration are threads of this process that each train the same model at the same time, as
 * many as fill all cores, each on its own cores: so caches and memory are shared as in a run. A step during which the
 * system ran something else on these cores is repeated. */
#include "study/calibrate/calibrate_parts.h"

#include <sys/resource.h>

enum { MOST_STEPS = 8, FEWEST_STEPS = 2, MOST_RUNS = 16 };
#define CODES_SHARE 0.08 /* of the time, for coded numbers */
#define SWITCHES 30 /* a second and core, involuntary: more of them are another process */

/* width, heads, layers, words, tokens, length, microbatches: small models first, because the last ones are left out
 * where time is short. A layer's weights have 3, 1, 4 and 1/4 times as many rows as columns; sizes between are
 * interpolated. Second microbatches add to gradients. */
static const struct model_row {
    int width, heads, layers, words, tokens, length, microbatches;
} models[] = {
    {64, 4, 3, 512, 32, 8, 2},       {64, 2, 3, 2048, 256, 32, 2},     {64, 1, 2, 512, 1024, 128, 2},
    {128, 2, 3, 2048, 16, 16, 2},    {128, 4, 3, 8192, 128, 64, 2},    {128, 2, 2, 512, 512, 128, 2},
    {96, 3, 3, 2048, 384, 24, 2},    {256, 4, 3, 2048, 32, 16, 2},     {256, 8, 3, 8192, 128, 128, 2},
    {384, 12, 2, 2048, 64, 32, 2},   {512, 8, 2, 8192, 32, 32, 2},     {768, 12, 1, 2048, 64, 64, 2},
    {64, 4, 2, 8192, 2048, 512, 1},  {256, 4, 2, 30000, 512, 32, 1},   {128, 2, 2, 2048, 2048, 256, 1},
    {384, 6, 2, 30000, 256, 128, 1}, {1024, 16, 2, 2048, 32, 16, 1},   {512, 16, 2, 2048, 256, 64, 1},
    {640, 10, 2, 2048, 96, 48, 1},   {768, 12, 2, 30000, 192, 96, 1},  {384, 12, 2, 2048, 1024, 256, 1},
    {1024, 16, 2, 2048, 128, 128, 1}, {256, 4, 2, 2048, 2048, 512, 1}, {512, 8, 2, 2048, 1024, 512, 1},
    {768, 12, 2, 2048, 512, 256, 1}, {1024, 16, 2, 2048, 512, 512, 1},
};
enum { MODELS = sizeof models / sizeof *models };

/* Runs of one number of threads and one precision. */
typedef struct run_kind {
    tri_dtype precision, quantize;
    int threads;               /* of each rank */
    double seconds;            /* that they may take */
} run_kind;

typedef struct member {
    void (*be)(tri_team *team, int rank);
    tri_team *team;
    int rank;
    pthread_t thread;
} member;

/* The cores of a rank: its share of those that this process may use. */
static void pin(const tri_team *c, int rank) {
    cpu_set_t all, own;
    int seen = 0;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof all, &all)) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all)) continue;
        if (seen / c->threads == rank) CPU_SET(cpu, &own);
        seen++;
    }
    if (CPU_COUNT(&own)) sched_setaffinity(0, sizeof own, &own);
}

int tri__team_goes_on(tri_team *c) {
    int failed = 0;
    pthread_barrier_wait(&c->together);
    for (int i = 0; i < c->ranks; i++) failed |= c->status[i] != TRI_OK;
    pthread_barrier_wait(&c->together);
    return !failed;
}

static long switches(void) {
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) ? 0 : use.ru_nivcsw;
}

static tri_status step(tri_trial *trial, tri_time *times) {
    TRI_TRY(tri__trial_queue(trial, times));
    return tri__exec_finish(trial->exec);
}

/* The first step touches memory for the first time; the second says how many fit. */
static void warm_up(tri_team *c, int rank, tri_trial *trial) {
    double begin = 0;
    for (int i = 0; i < 2 && c->status[rank] == TRI_OK; i++) {
        begin = tri__clock();
        c->status[rank] = step(trial, NULL);
    }
    if (rank) return;
    double most = c->seconds / fmax(tri__clock() - begin, 1e-6) - 2;
    c->steps = most < FEWEST_STEPS ? FEWEST_STEPS : most > MOST_STEPS ? MOST_STEPS : (int)most;
}

/* One step of all ranks; rank 0 says whether the system interrupted it. */
static int step_together(tri_team *c, int rank, tri_trial *trial, tri_time *times) {
    long before = rank ? 0 : switches();
    double begin = tri__clock();
    c->status[rank] = step(trial, times);
    int ok = tri__team_goes_on(c);
    if (rank == 0)
        c->disturbed = (double)(switches() - before) >
                       2 + SWITCHES * c->ranks * c->threads * (tri__clock() - begin);
    return tri__team_goes_on(c) && ok;
}

static void time_steps(tri_team *c, int rank, tri_trial *trial) {
    size_t n = (size_t)trial->program[TRI_TRAIN]->n_instrs;
    TRI_OWNED(tri__free_at) tri_time *times = calloc(n * (size_t)c->steps, sizeof *times);
    int done = 0, left = 2 * c->steps;
    if (!times) c->status[rank] = tri__fail(TRI_RESOURCE, "out of memory");
    for (int ok = tri__team_goes_on(c); ok && done < c->steps; left--) {
        ok = step_together(c, rank, trial, times + n * (size_t)done);
        if (!c->disturbed || left <= c->steps - done) done++;
        else if (rank == 0) c->repeated++;
    }
    if (tri__team_goes_on(c)) {
        TRI_LOCKED(&c->adding);
        c->status[rank] = tri__samples_add(c->samples, trial, c->asked->cores ? c->threads : 0, times, c->steps);
    }
}

static void time_model(tri_team *c, int rank) {
    TRI_OWNED(tri__trial_drop) tri_trial *trial = NULL;
    c->status[rank] = tri__trial_open(c->asked->device, &c->at, c->threads, &trial);
    if (tri__team_goes_on(c)) {
        warm_up(c, rank, trial);
        if (tri__team_goes_on(c)) time_steps(c, rank, trial);
    }
}

static void *be_member(void *data) {
    const member *m = data;
    if (m->team->asked->cores) pin(m->team, m->rank);
    m->be(m->team, m->rank);
    if (m->team->status[m->rank] != TRI_OK) tri__words_keep(&m->team->words[m->rank]);
    return NULL;
}

static tri_status first_failure(const tri_team *c) {
    for (int i = 0; i < c->ranks; i++) {
        if (c->status[i] == TRI_OK) continue;
        tri__words_restore(&c->words[i]);
        return c->status[i];
    }
    return TRI_OK;
}

/* Fresh threads for each model, so that those of OpenMP are on the same cores. */
static tri_status run_team(tri_team *c, void (*be)(tri_team *team, int rank)) {
    member members[TRI_TEAM];
    int started = 0;
    c->words = calloc(TRI_TEAM, sizeof *c->words);
    if (!c->words || pthread_barrier_init(&c->together, NULL, (unsigned)c->ranks)) {
        free(c->words);
        return tri__fail(TRI_RESOURCE, "out of memory");
    }
    pthread_mutex_init(&c->adding, NULL);
    for (; started < c->ranks; started++) {
        members[started] = (member){.be = be, .team = c, .rank = started};
        if (pthread_create(&members[started].thread, NULL, be_member, &members[started])) break;
    }
    TRI_ASSERT(started == c->ranks); /* those that started wait for all */
    for (int i = 0; i < started; i++) pthread_join(members[i].thread, NULL);
    pthread_barrier_destroy(&c->together);
    pthread_mutex_destroy(&c->adding);
    tri_status status = first_failure(c);
    free(c->words);
    return status;
}

static tri_team team_of(const tri_calibration *asked, int threads, tri_samples *samples) {
    int ranks = asked->cores / threads;
    return (tri_team){.asked = asked, .ranks = ranks < TRI_TEAM ? ranks : TRI_TEAM, .threads = threads,
                      .samples = samples};
}

static tri_trial_case case_of(const struct model_row *row, const run_kind *kind) {
    return (tri_trial_case){.width = row->width, .heads = row->heads, .inner = 4 * row->width, .layers = row->layers,
                            .words = row->words, .tokens = row->tokens, .length = row->length,
                            .microbatches = row->microbatches, .precision = kind->precision,
                            .quantize = kind->quantize};
}

/* The models that fit into the time and into memory: the first ones, by their FLOPs and the best rate so far. */
static tri_status run_models(const tri_calibration *asked, const run_kind *kind, tri_samples *samples,
                             int *repeated) {
    double begin = tri__clock(), rate = 0;
    for (int i = 0; i < MODELS; i++) {
        tri_team c = team_of(asked, kind->threads, samples);
        c.at = case_of(&models[i], kind);
        double now = tri__clock(), rest = kind->seconds - (now - begin), work = tri__trial_flops(&c.at);
        TRI_TRY(tri__stop_check(asked->stop, "the machine was being measured"));
        if (i > 2 && (2 + FEWEST_STEPS) * work / rate > rest) continue; /* later ones may be shorter */
        if (tri__trial_bytes(&c.at) * c.ranks > 0.5 * (double)tri__memory_available()) continue;
        c.seconds = rest / (MODELS - i) / 2; /* later ones take longer */
        TRI_TRY(run_team(&c, time_model));
        rate = fmax(rate, work * (c.steps + c.repeated + 2) / (tri__clock() - now));
        *repeated += c.repeated;
    }
    return TRI_OK;
}

/* Numbers of threads in powers of two; 16-bit and quantised products with one thread and with all. Shares of the time
 * are in the order of use. */
static int list_kinds(const tri_calibration *asked, run_kind kind[static MOST_RUNS]) {
    int n = 0;
    double all = 0;
    for (int threads = 1; threads <= asked->cores && n < MOST_RUNS / 2; threads *= 2)
        kind[n++] = (run_kind){.threads = threads, .seconds = 1};
    for (int threads = 1; threads <= asked->cores; threads = threads < asked->cores ? asked->cores : threads + 1) {
        kind[n++] = (run_kind){.threads = threads, .precision = TRI_BF16, .seconds = 0.3};
        kind[n++] = (run_kind){.threads = threads, .quantize = TRI_I8, .seconds = 0.25};
    }
    for (int i = 0; i < n; i++) all += kind[i].seconds;
    for (int i = 0; i < n; i++) kind[i].seconds *= (1 - CODES_SHARE) * asked->seconds / all;
    return n;
}

/* Coding and expanding numbers, which a rank alone never does. */
static tri_status run_codes(const tri_calibration *asked, tri_samples *samples) {
    int runs = 0;
    for (int threads = 1; threads <= asked->cores; threads *= 2) runs++;
    for (int threads = 1; threads <= asked->cores; threads *= 2) {
        tri_team c = team_of(asked, threads, samples);
        c.seconds = CODES_SHARE * asked->seconds / runs;
        TRI_TRY(tri__stop_check(asked->stop, "the machine was being measured"));
        tri__say(asked->log, TRI_LOG_INFO, "kernels: coded numbers, %d thread%s a rank, %.1f s", threads,
                 threads == 1 ? "" : "s", c.seconds);
        TRI_TRY(run_team(&c, tri__time_codes));
    }
    return TRI_OK;
}

static tri_status run_kinds(const tri_calibration *asked, tri_samples *samples) {
    run_kind kind[MOST_RUNS];
    int n = list_kinds(asked, kind), repeated = 0;
    for (int i = 0; i < n; i++) {
        tri__say(asked->log, TRI_LOG_INFO, "kernels: %s%s, %d thread%s a rank, %.1f s",
                 tri__dtype_name(kind[i].precision), kind[i].quantize ? " with int8 products" : "", kind[i].threads,
                 kind[i].threads == 1 ? "" : "s", kind[i].seconds);
        TRI_TRY(run_models(asked, &kind[i], samples, &repeated));
    }
    if (repeated)
        tri__say(asked->log, TRI_LOG_WARN,
                 "other processes used the cores meanwhile: %d step%s repeated; measure on an idle machine", repeated,
                 repeated == 1 ? " was" : "s were");
    return run_codes(asked, samples);
}

typedef struct keeping {
    const tri_calibration *asked;
    tri_samples samples;
    tri_arena *arena;
    tri_hardware *out;
    char machine[TRI_MACHINE]; /* of an asynchronous device */
} keeping;

static tri_status keep(void *data) {
    keeping *k = data;
    tri_target *target = tri__arena_alloc(k->arena, sizeof *target);
    double launch = k->out->launch; /* an asynchronous device's, which does not follow from curves */
    TRI_TRY(tri__device_target(k->asked->device, target));
    k->out->device = k->asked->device->name, k->out->target = target, k->out->cores = k->asked->cores;
    tri__samples_curves(&k->samples, k->arena, k->out);
    tri__curves_rates(k->out);
    tri__curves_tiles(k->out);
    if (!k->asked->device->async) return TRI_OK;
    k->out->launch = launch;
    k->out->origin.machine = tri__arena_copy(k->arena, k->machine);
    return TRI_OK;
}

tri_status tri__calibrate_kernels(const tri_calibration *asked, tri_arena *arena, tri_hardware *out) {
    keeping k = {.asked = asked, .arena = arena, .out = out};
    tri_status status = asked->device->async ? tri__calibrate_async(asked, &k.samples, k.machine, out)
                                             : run_kinds(asked, &k.samples);
    if (status == TRI_OK) status = tri__arena_guard(keep, &k);
    free(k.samples.at);
    return status;
}
