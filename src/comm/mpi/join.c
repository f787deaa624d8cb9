/* join.c - the ranks of an MPI job become a world: those of one machine share a segment, MPI connects the machines. */
#include "comm/mpi/mpi.h"

#include "base/clock.h"
#include "base/file.h"
#include "comm/link/link.h"
#include "comm/mpi/load.h"
#include "comm/start/rendezvous.h"
#include "comm/world/watcher.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const double MEET_SECONDS = 30;

/* What ranks exchange first. */
typedef struct card {
    char machine[160];   /* equal if a descriptor can be passed and a process be watched */
    uint64_t random;
    int32_t failed;      /* in the second round */
} card;

typedef struct joining {
    const tri_mpi_plugin *plugin;
    const tri_stop *stop;
    double deadline;     /* of the current gather */
    void *state;
    int rank, size, opened; /* opened: a world has taken ownership of the plug-in's state */
    card *all;           /* [size] */
    tri_nodes nodes;
    int *here, n_here;   /* world ranks of this machine */
} joining;

static tri_status mpi_try(const joining *join, int error, const char *what) {
    char words[256];
    if (!error) return TRI_OK;
    join->plugin->remote.words(error, words, sizeof words);
    return tri__fail(TRI_IO, "MPI failed to %s: %s", what, words);
}

static int go_on(void *context) {
    const joining *join = context;
    return !tri__stop_signalled(join->stop) && tri__clock() < join->deadline;
}

/* Gathers all ranks' cards into join->all. */
static tri_status gather(joining *join, const card *mine, const char *what) {
    join->deadline = tri__clock() + MEET_SECONDS;
    int error = join->plugin->gather(join->state, mine, join->all, sizeof *mine, go_on, join);
    if (error >= 0) return mpi_try(join, error, what);
    TRI_TRY(tri__stop_check(join->stop, "the %d ranks met", join->size));
    return tri__fail(
        TRI_RESOURCE,
        "waited %g s for the %d ranks to meet through MPI; some have not joined. See their machines' messages",
        MEET_SECONDS, join->size);
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

static tri_status exchange_cards(joining *join) {
    card mine = {.failed = 0};
    size_t n = (size_t)join->size;
    name_machine(mine.machine, sizeof mine.machine);
    if (getrandom(&mine.random, sizeof mine.random, 0) != sizeof mine.random) mine.random = (uint64_t)getpid();
    join->all = calloc(n, sizeof(card));
    join->nodes = (tri_nodes){.node_of = calloc(n, sizeof(int)), .local_of = calloc(n, sizeof(int))};
    join->here = calloc(n, sizeof(int));
    if (!join->all || !join->here || !join->nodes.node_of || !join->nodes.local_of)
        return tri__fail(TRI_RESOURCE, "no memory for a world of %d ranks", join->size);
    return gather(join, &mine, "gather the names of machines");
}

/* Machines are numbered by their first rank; ranks of a machine by their order in the world. */
static void find_machines(joining *join) {
    tri_nodes *nodes = &join->nodes;
    for (int r = 0; r < join->size; r++) {
        int node = nodes->n;
        for (int q = 0; q < r; q++)
            if (strcmp(join->all[q].machine, join->all[r].machine) == 0) {
                node = nodes->node_of[q];
                nodes->local_of[r] = nodes->local_of[q] + 1;
            }
        nodes->node_of[r] = node;
        if (node == nodes->n) nodes->n++;
    }
    for (int r = 0; r < join->size; r++)
        if (nodes->node_of[r] == nodes->node_of[join->rank]) join->here[join->n_here++] = r;
}

static tri_status meet(joining *join, const tri_ranks *how, const tri_launch *launch, tri_segment *segment) {
    char key[64];
    if (join->n_here > TRI_RANKS_PER_NODE)
        return tri__fail(TRI_USAGE, "%d ranks on one machine; at most %d", join->n_here, TRI_RANKS_PER_NODE);
    snprintf(key, sizeof key, "mpi-%016llx-%d", (unsigned long long)join->all[0].random,
             join->nodes.node_of[join->rank]);
    tri_rendezvous meeting = {.key = key,
                           .local = join->nodes.local_of[join->rank],
                           .n = join->n_here,
                           .seconds = MEET_SECONDS,
                           .stop = launch->stop,
                           .log = &launch->log};
    tri_segment_spec spec = {.n = join->n_here,
                             .world = join->size,
                             .world_rank = join->here,
                             .heap_bytes = how->heap_bytes,
                             .progress_timeout = how->progress_timeout,
                             .io_timeout = how->io_timeout};
    return tri__rendezvous(&meeting, &spec, segment);
}

/* Either all machines have their segment, or no rank continues. */
static tri_status agree(joining *join, tri_status mine) {
    card *all = join->all;
    card said = {.failed = mine};
    snprintf(said.machine, sizeof said.machine, "%s", mine == TRI_OK ? "" : tri_error());
    tri_status status = gather(join, &said, "agree that all machines are ready");
    if (mine != TRI_OK || status != TRI_OK) return mine != TRI_OK ? mine : status;
    for (int r = 0; r < join->size; r++)
        if (all[r].failed) return tri__fail((tri_status)all[r].failed, "rank %d could not join: %s", r, all[r].machine);
    return TRI_OK;
}

/* Names the launcher that would work. A Slurm step selects it by --mpi. */
static tri_status wrong_launcher(const joining *join, const tri_launch *launch) {
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

static tri_status join_world(joining *join, const tri_ranks *how, const tri_launch *launch, tri_world **world) {
    tri_segment segment = {.fd = -1};
    if (join->size != launch->size || join->rank != launch->rank)
        return wrong_launcher(join, launch);
    TRI_TRY(exchange_cards(join));
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
    join->opened = 1;
    status = tri__watcher_open(*world, &launch->log);
    if (status == TRI_OK) status = tri__world_meet(*world, MEET_SECONDS, launch->stop);
    if (status == TRI_OK) return TRI_OK;
    if ((*world)->failed != status) tri_world_fail(*world, status, tri_error());
    tri_world_close(*world);
    *world = NULL;
    return status;
}

tri_status tri__mpi_join(const tri_ranks *how, const tri_launch *launch, tri_world **world) {
    joining join = {.stop = launch->stop};
    const char *library = "";
    *world = NULL;
    TRI_TRY(tri__mpi_check_shared("/dev/shm", launch->local_size));
    TRI_TRY(tri__mpi_load(tri__launcher_text(launch->launcher), launch->mpi, &join.plugin));
    TRI_TRY(mpi_try(&join, join.plugin->open(&join.state, &join.rank, &join.size, &library), "start"));
    tri_status status = join_world(&join, how, launch, world);
    if (!join.opened) join.plugin->remote.close(join.state, 1);
    free(join.all);
    free(join.here);
    free(join.nodes.node_of);
    free(join.nodes.local_of);
    return status;
}

tri_status tri__mpi_native(tri_world *world, const tri_collective *what) {
    if (!world->remote || strcmp(world->remote->name, "mpi") != 0)
        return tri__fail(TRI_USAGE, "MPI's own collectives need ranks that an MPI launcher started");
    const char *name = tri__collective_name(what->kind);
    const tri_mpi_plugin *plugin = (const void *)((const char *)world->remote - offsetof(tri_mpi_plugin, remote));
    joining join = {.plugin = plugin};
    if (what->dtype != TRI_F32 || what->reduction != TRI_SUM || what->counts)
        return tri__fail(TRI_USAGE, "MPI's own %s is run with f32, sum and equal counts only", name);
    int error = plugin->native(world->remote_state, name, what->in, what->out, what->count, what->root);
    if (error < 0)
        return tri__fail(TRI_USAGE, "MPI's own %s of %lld elements cannot be compared", name,
                         (long long)what->count);
    return mpi_try(&join, error, name);
}
