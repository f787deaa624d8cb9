/* join.c - the ranks of an MPI job become a world: those of one machine share a segment, MPI connects the machines. */
#include "comm/mpi/join_parts.h"

#include "base/file.h"
#include "comm/mpi/load.h"
#include "comm/launchers/rendezvous.h"
#include "comm/ops/watcher.h"
#include "comm/ops/describe.h"

#include <sys/random.h>
#include <unistd.h>

static const double MEET_SECONDS = 30;

tri_status tri__mpi_try(const tri_mpi_plugin *plugin, int error, const char *what) {
    char words[256];
    if (!error) return TRI_OK;
    plugin->remote.words(error, words, sizeof words);
    return tri__fail(error == TRI_REMOTE_NO_MEMORY ? TRI_RESOURCE : TRI_IO, "MPI failed to %s: %s", what, words);
}

static int go_on(void *context) {
    const tri_joining *join = context;
    return !tri__stop_signalled(join->stop) && tri__clock() < join->deadline;
}

static void set_reported(const tri_launch *launch, int reported) {
    if (launch && launch->reported) *launch->reported |= reported;
}

/* Gathers all ranks' cards into join->all. */
static tri_status gather(tri_joining *join, const tri_card *mine, const char *what) {
    join->deadline = tri__clock() + join->seconds;
    int error = join->plugin->gather(join->state, mine, join->all, sizeof *mine, go_on, join);
    if (error >= 0) return tri__mpi_try(join->plugin, error, what);
    TRI_TRY(tri__stop_check(join->stop, "the %d ranks met", join->size));
    set_reported(join->launch, join->launch && join->launch->local > 0);
    return tri__fail(
        TRI_DISAGREE,
        "waited %g s for the %d ranks to meet through MPI; some have not joined. See their machines' messages",
        join->seconds, join->size);
}

static int fails_alike(const tri_card *a, const tri_card *b) {
    return a->failed == b->failed && !strcmp(a->text, b->text);
}

/* After a round: this rank's failure, or that of the first rank that failed; TRI_OK if none did. It is said by the
 * first of those that failed alike. */
static tri_status first_failure(const tri_joining *join) {
    const tri_card *all = join->all, *own = &all[join->rank];
    char more[64] = "";
    int first = 0, alike = 0;
    while (first < join->size && !(own->failed ? fails_alike(&all[first], own) : all[first].failed)) first++;
    if (first == join->size) return TRI_OK;
    const tri_card *one = &all[first];
    for (int r = 0; r < join->size; r++) alike += fails_alike(&all[r], one);
    set_reported(join->launch, !own->failed || first < join->rank);
    if (alike == join->size) return tri__fail((tri_status)one->failed, "%s", one->text);
    if (alike > 1) snprintf(more, sizeof more, " (the same on %d of %d ranks)", alike, join->size);
    return tri__fail((tri_status)one->failed, "rank %d on %.*s: %s%s", first, (int)strcspn(one->machine, "/"),
                     one->machine, one->text, more);
}

static void say_failed(tri_card *card, tri_status status) {
    card->failed = status;
    snprintf(card->text, sizeof card->text, "%s", status == TRI_OK ? "" : tri_error());
}

/* Host name, boot and the namespaces of local sockets and processes. */
static void name_machine(char *out, size_t size) {
    char host[65] = "", boot[40] = "";
    uint64_t net = tri__file_number("/proc/self/ns/net"), pid = tri__file_number("/proc/self/ns/pid");
    gethostname(host, sizeof host - 1);
    tri__file_start("/proc/sys/kernel/random/boot_id", boot, 37);
    if (!net || !pid) boot[0] = 0;
    memset(out, 0, size);
    snprintf(out, size, "%s/%s/%llu/%llu", host, boot, (unsigned long long)net, (unsigned long long)pid);
}

tri_status tri__joining_cards(tri_joining *join) {
    tri_card *mine = &join->mine;
    size_t n = (size_t)join->size;
    name_machine(mine->machine, sizeof mine->machine);
    if (getrandom(&mine->random, sizeof mine->random, 0) != sizeof mine->random) mine->random = (uint64_t)getpid();
    join->all = calloc(n, sizeof(tri_card));
    join->nodes = (tri_nodes){.node_of = calloc(n, sizeof(int)), .local_of = calloc(n, sizeof(int)),
                              .host = calloc(n, TRI_HOST_NAME)};
    join->here = calloc(n, sizeof(int));
    if (!join->all || !join->here || !join->nodes.node_of || !join->nodes.local_of || !join->nodes.host)
        return tri__fail(TRI_RESOURCE, "no memory for a world of %d ranks", join->size);
    TRI_TRY(gather(join, mine, "gather the names of machines"));
    return first_failure(join);
}

/* Machines are numbered by their first rank; ranks of a machine by their order in the world. */
static void find_machines(tri_joining *join) {
    tri_nodes *nodes = &join->nodes;
    for (int r = 0; r < join->members; r++) {
        int node = nodes->n;
        for (int q = 0; q < r; q++)
            if (strcmp(join->all[q].machine, join->all[r].machine) == 0) {
                node = nodes->node_of[q];
                nodes->local_of[r] = nodes->local_of[q] + 1;
            }
        nodes->node_of[r] = node;
        if (node < nodes->n) continue;
        snprintf(nodes->host[nodes->n++], TRI_HOST_NAME, "%.*s", (int)strcspn(join->all[r].machine, "/"),
                 join->all[r].machine);
    }
    if (nodes->n == 1) {
        free(nodes->host);
        nodes->host = NULL;
    }
    for (int r = 0; r < join->members; r++)
        if (nodes->node_of[r] == nodes->node_of[join->rank]) join->here[join->n_here++] = r;
}

static tri_status meet(tri_joining *join, const tri_ranks *how, const tri_launch *launch, tri_segment *segment) {
    const tri_card *first = &join->all[0];
    char key[64];
    if (join->n_here > TRI_RANKS_PER_NODE)
        return tri__fail(TRI_USAGE, "%d ranks on one machine; at most %d", join->n_here, TRI_RANKS_PER_NODE);
    snprintf(key, sizeof key, "mpi-%016llx-%d", (unsigned long long)first->random,
             join->nodes.node_of[join->rank]);
    tri_rendezvous meeting = {.key = key,
                           .local = join->nodes.local_of[join->rank], .n = join->n_here, .seconds = join->seconds,
                           .stop = launch->stop, .log = &launch->log};
    tri_segment_spec spec = tri__ranks_spec(how, join->n_here, 0);
    spec.world = join->members, spec.world_rank = join->here;
    spec.generation = first->generation, spec.committed = first->committed;
    spec.stages = first->stages, spec.replicas = first->replicas;
    return tri__rendezvous(&meeting, &spec, segment);
}

/* Either all machines have their segment, or no rank continues. */
static tri_status agree(tri_joining *join, tri_status mine) {
    join->said = join->mine;
    say_failed(&join->said, mine);
    tri_status status = gather(join, &join->said, "agree that all machines are ready");
    return status == TRI_OK ? first_failure(join) : mine != TRI_OK ? mine : status;
}

/* Names the launcher that would work. A Slurm step selects it by --mpi. */
static tri_status wrong_launcher(const tri_joining *join, const tri_launch *launch) {
    const char *built_with = join->plugin->built_with;
    char way[256];
    if (launch->slurm)
        snprintf(way, sizeof way, "start it with `srun --mpi=%s` (`srun --mpi=list` says what this Slurm has)",
                 tri__mpi_srun_type(built_with));
    else snprintf(way, sizeof way, "start it with the mpirun of that MPI");
    return tri__fail(TRI_USAGE,
                     "%s says rank %d of %d, MPI says rank %d of %d: the plug-in was built with %s, which that "
                     "launcher is not for; %s, or "
                     "build with the other MPI's mpicc",
                     tri__launcher_text(launch->launcher), launch->rank, launch->size, join->rank, join->size,
                     built_with, way);
}

tri_status tri__joining_world(tri_joining *join, const tri_ranks *how, const tri_launch *launch, tri_world **world) {
    tri_segment segment = {.fd = -1};
    *world = NULL;
    if (join->rank >= join->members) return agree(join, TRI_OK);
    find_machines(join);
    tri_status status = agree(join, meet(join, how, launch, &segment));
    int local = join->nodes.local_of[join->rank];
    if (status == TRI_OK)
        status = tri__world_open(&segment, local, &join->nodes, &join->plugin->remote, join->state, world);
    if (status != TRI_OK) {
        tri__segment_close(&segment);
        return status;
    }
    (*world)->owns_segment = 1;
    (*world)->outlives = join->outlives;
    join->opened = 1;
    status = tri__watcher_open(*world, &launch->log);
    if (status == TRI_OK) status = tri__world_meet(*world, join->seconds, launch->stop);
    if (status == TRI_OK) return TRI_OK;
    int other = tri__world_abandon(world, status); /* which says so, unless it is dead */
    set_reported(join->launch, other && (int)status <= 128);
    return status;
}

void tri__joining_free(tri_joining *join) {
    TRI_FREE(join->all, join->here, join->nodes.node_of, join->nodes.local_of, join->nodes.host);
    join->all = NULL, join->here = NULL, join->n_here = 0;
    join->nodes = (tri_nodes){0};
}

/* Starts MPI, and compares it with the launcher. */
static tri_status begin(tri_joining *join) {
    const tri_launch *launch = join->launch;
    tri_status status = tri__mpi_load(tri__launcher_text(launch->launcher), launch->mpi, &join->plugin);
    if (status == TRI_USAGE) set_reported(launch, launch->local > 0); /* the same for all of this machine */
    TRI_TRY(status);
    TRI_TRY(tri__mpi_try(join->plugin, join->plugin->open(&join->state, &join->rank, &join->size), "start"));
    join->members = join->size;
    return join->size == launch->size && join->rank == launch->rank ? TRI_OK : wrong_launcher(join, launch);
}

/* After a failure the first rank that exits may cause the launcher to kill the others: those that say nothing wait. */
static void end(tri_joining *join, tri_status status) {
    TRI_KEEP_WORDS();
    if (status != TRI_OK && join->state && join->launch->reported && *join->launch->reported)
        tri__clock_sleep(tri__clock() + join->plugin->remote.report_seconds / 2);
    if (join->state && !join->opened) join->plugin->remote.close(join->state, (int)status);
    tri__joining_free(join);
}

tri_status tri__mpi_join(const tri_ranks *how, const tri_launch *launch, tri_world **world) {
    tri_joining join = {.stop = launch->stop, .seconds = MEET_SECONDS, .mine.was = -1, .launch = launch};
    *world = NULL;
    TRI_TRY(tri__mpi_check_shared("/dev/shm", launch->local_size));
    tri_status status = begin(&join);
    if (status == TRI_OK) status = tri__joining_cards(&join);
    if (status == TRI_OK) status = tri__joining_world(&join, how, launch, world);
    end(&join, status);
    return status;
}

int tri__mpi_refuse(const tri_launch *launch, tri_status status) {
    int reported = 0;
    tri_launch own = *launch;
    tri_joining join = {.stop = launch->stop, .seconds = MEET_SECONDS, .mine.was = -1, .launch = &own};
    tri_words words;
    own.reported = &reported;
    tri__words_keep(&words);
    say_failed(&join.mine, status);
    tri_status begun = tri__mpi_check_shared("/dev/shm", launch->local_size);
    if (begun == TRI_OK) begun = begin(&join);
    if (begun == TRI_OK) (void)tri__joining_cards(&join);
    int told = join.all && join.all[join.rank].failed == (int32_t)status; /* its own card is among those it got */
    if (!told) reported = 0;
    end(&join, status);
    if (!told) tri__words_restore(&words);
    return !reported;
}

const tri_mpi_plugin *tri__mpi_plugin_of(const tri_world *world) {
    if (!world->remote || strcmp(world->remote->name, "mpi") != 0) return NULL;
    return (const void *)((const char *)world->remote - offsetof(tri_mpi_plugin, remote));
}

tri_status tri__mpi_native(tri_world *world, const tri_collective *what) {
    const tri_mpi_plugin *plugin = tri__mpi_plugin_of(world);
    if (!plugin) return tri__fail(TRI_USAGE, "MPI's own collectives need ranks that an MPI launcher started");
    const char *name = tri__collective_name(what->kind);
    if (what->dtype != TRI_F32 || what->reduction != TRI_SUM || what->counts)
        return tri__fail(TRI_USAGE, "MPI's own %s is run with f32, sum and equal counts only", name);
    int error = plugin->native(world->remote_state, name, what->in, what->out, what->count, what->root);
    if (error < 0)
        return tri__fail(TRI_USAGE, "MPI's own %s of %lld elements cannot be compared", name,
                         (long long)what->count);
    return tri__mpi_try(plugin, error, name);
}
