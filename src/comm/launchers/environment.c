/* environment.c - one row per launcher: the variables with rank and size, on this machine and in the world. Slurm gives
 * some of it as lists. */
#include "comm/launchers/environment.h"

#include "comm/launchers/slurm.h"

#include <errno.h>

enum { NAMES_MAX = 3, SIZE_MAX_RANKS = 1 << 20, PORT_TORCHRUN = 29500, PORT_SLURM = 15000 };

/* The first variable of a list that is set is used. */
typedef const char *names[NAMES_MAX];

typedef struct source {
    tri_launcher launcher;
    const char *text;
    int mpi;                                    /* its processes may use MPI */
    names rank, size, local, local_size, node, nodes, run;
} source;

static const source sources[] = {
    {.launcher = TRI_LAUNCHER_OWN, .text = "trident", .rank = {"RANK"}, .size = {"WORLD_SIZE"}, .local = {"LOCAL_RANK"},
     .local_size = {"LOCAL_WORLD_SIZE"}},
    {.launcher = TRI_LAUNCHER_TORCHRUN, .text = "torchrun or by hand (RANK, WORLD_SIZE)", .rank = {"RANK"},
     .size = {"WORLD_SIZE"}, .local = {"LOCAL_RANK"}, .local_size = {"LOCAL_WORLD_SIZE"},
     .node = {"GROUP_RANK", "NODE_RANK"}, .nodes = {"GROUP_WORLD_SIZE"}, .run = {"TORCHELASTIC_RUN_ID"}},
    {.launcher = TRI_LAUNCHER_OPENMPI, .text = "Open MPI (mpirun)", .mpi = 1, .rank = {"OMPI_COMM_WORLD_RANK"},
     .size = {"OMPI_COMM_WORLD_SIZE"}, .local = {"OMPI_COMM_WORLD_LOCAL_RANK"},
     .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"}, .run = {"OMPI_MCA_ess_base_jobid"}},
    {.launcher = TRI_LAUNCHER_MPICH, .text = "MPICH or Intel MPI (PMI)", .mpi = 1, .rank = {"PMI_RANK"},
     .size = {"PMI_SIZE"}, .local = {"MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK"},
     .local_size = {"MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"}},
    {.launcher = TRI_LAUNCHER_SLURM, .text = "Slurm (srun)", .mpi = 1, .rank = {"SLURM_PROCID"},
     .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, .local = {"SLURM_LOCALID"},
     .node = {"SLURM_NODEID"}, .nodes = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}},
};
enum { SOURCES = sizeof sources / sizeof *sources };

typedef char *lookup_function(const char *name);

const char *tri__launcher_text(tri_launcher launcher) {
    for (int i = 0; i < SOURCES; i++)
        if (sources[i].launcher == launcher) return sources[i].text;
    return "none";
}

int tri__launcher_has_mpi(tri_launcher launcher) {
    for (int i = 0; i < SOURCES; i++)
        if (sources[i].launcher == launcher) return sources[i].mpi;
    return 0;
}

/* The value of the first name that is set and not empty, and that name in *name; NULL if there is none. */
static const char *value_of(lookup_function *lookup, const char *const *list, const char **name) {
    if (name) *name = list[0];
    for (int i = 0; i < NAMES_MAX && list[i]; i++) {
        const char *text = lookup(list[i]);
        if (text && *text) {
            if (name) *name = list[i];
            return text;
        }
    }
    return NULL;
}

/* A whole number from least to most; `missing` if no name of the list is set. */
static tri_status number_of(lookup_function *lookup, const char *const *list, int least, int most, int missing,
                            int *out) {
    const char *name, *text = value_of(lookup, list, &name);
    *out = missing;
    if (!text) return TRI_OK;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end)
        return tri__fail(
            TRI_USAGE,
            "the environment says %s=%.80s, which is not a whole number; unset it, or start through a launcher", name,
            text);
    if (value < least || value > most)
        return tri__fail(TRI_USAGE, "the environment says %s=%ld; it must be from %d to %d", name, value, least, most);
    *out = (int)value;
    return TRI_OK;
}

/* Rank and size from one launcher's variables. *there 0: none of them is set. */
static tri_status read_place(lookup_function *lookup, const source *from, tri_launch *out, int *there) {
    const char *rank_name = from->rank[0], *size_name = from->size[0];
    int rank = value_of(lookup, from->rank, &rank_name) != NULL,
        size = value_of(lookup, from->size, &size_name) != NULL;
    *there = rank && size;
    /* Slurm sets the size in every shell of a job, so a number of tasks alone means nothing. */
    if (rank == size || from->launcher == TRI_LAUNCHER_SLURM) {
        if (!*there) return TRI_OK;
    } else {
        const char *set = rank ? rank_name : size_name, *other = rank ? size_name : rank_name;
        return tri__fail(TRI_USAGE, "the environment has %s but not %s; set both, or neither", set, other);
    }
    out->launcher = from->launcher;
    TRI_TRY(number_of(lookup, from->size, 1, SIZE_MAX_RANKS, 0, &out->size));
    return number_of(lookup, from->rank, 0, out->size - 1, 0, &out->rank);
}

/* First SLURM_STEP_ID of the steps that Slurm creates itself, for a batch script or a shell. */
#define SLURM_OWN_STEPS 4294967280.0

static int in_batch(lookup_function *lookup) {
    static const names step_names = {"SLURM_STEP_ID", "SLURM_STEPID"};
    const char *step = value_of(lookup, step_names, NULL);
    char *end;
    double number = step ? strtod(step, &end) : 0;
    return !step || *end || number >= SLURM_OWN_STEPS;
}

/* This machine's entry in Slurm's list of tasks. */
static tri_status slurm_local_size(lookup_function *lookup, tri_launch *out) {
    static const names list = {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"};
    const char *name, *tasks = value_of(lookup, list, &name);
    if (!tasks && out->nodes > 1)
        return tri__fail(
            TRI_USAGE,
            "Slurm started %d tasks on %d machines, but SLURM_STEP_TASKS_PER_NODE is missing; start through srun",
            out->size, out->nodes);
    out->local_size = tasks ? tri__slurm_tasks(tasks, out->node) : out->size;
    if (out->local_size > out->size) out->local_size = out->size; /* the list may be the job's, not the step's */
    if (out->local_size) return TRI_OK;
    return tri__fail(TRI_USAGE, "the environment says %s=%.80s, which does not say how many tasks machine %d has", name,
                     tasks, out->node);
}

/* Rejects long ids: truncated ids of different jobs could be equal. */
static tri_status set_run(tri_launch *out, const char *name, const char *first, const char *dot, const char *second) {
    size_t n = strlen(first) + strlen(dot) + strlen(second);
    if (n > TRI_RUN_ID_BYTES)
        return tri__fail(
            TRI_USAGE,
            "the run id in the environment's %s has %zu bytes; at most %d are accepted: choose a shorter one", name, n,
            TRI_RUN_ID_BYTES);
    snprintf(out->run, sizeof out->run, "%s%s%s", first, dot, second);
    return TRI_OK;
}

static tri_status slurm_names(lookup_function *lookup, tri_launch *out) {
    static const names lists = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"};
    const char *list = value_of(lookup, lists, NULL), *job = lookup("SLURM_JOB_ID"), *step = lookup("SLURM_STEP_ID");
    if (list && !out->host[0] && !tri__slurm_host(list, 0, out->host, sizeof out->host)) out->host[0] = 0;
    if (!job || !*job) return TRI_OK;
    size_t digits = strlen(job);
    if (!out->port) out->port = PORT_SLURM + atoi(digits > 4 ? job + digits - 4 : job);
    return set_run(out, "SLURM_JOB_ID", job, ".", step ? step : "");
}

/* srun's --mpi=pmix and --mpi=pmi2 set different variables; --mpi=none sets none, and then MPI sees every task as a
 * world of one. */
static tri_mpi_kind find_mpi(lookup_function *lookup, tri_launcher launcher) {
    static const names pmix = {"PMIX_RANK"}, pmi = {"PMI_RANK"};
    if (launcher == TRI_LAUNCHER_OPENMPI) return TRI_MPI_OPENMPI;
    if (launcher == TRI_LAUNCHER_MPICH) return TRI_MPI_MPICH;
    if (launcher != TRI_LAUNCHER_SLURM) return TRI_MPI_ANY;
    return value_of(lookup, pmix, NULL) ? TRI_MPI_OPENMPI : value_of(lookup, pmi, NULL) ? TRI_MPI_MPICH : TRI_MPI_ANY;
}

/* The machine's variables; if absent, all ranks are on this machine. */
static tri_status read_machine(lookup_function *lookup, const source *from, tri_launch *out) {
    TRI_TRY(number_of(lookup, from->local_size, 1, out->size, 0, &out->local_size));
    TRI_TRY(number_of(lookup, from->node, 0, SIZE_MAX_RANKS - 1, -1, &out->node));
    TRI_TRY(number_of(lookup, from->nodes, 1, SIZE_MAX_RANKS, 0, &out->nodes));
    if (from->launcher == TRI_LAUNCHER_SLURM) {
        if (out->node < 0) out->node = 0;
        TRI_TRY(slurm_local_size(lookup, out));
    }
    const char *local_name, *local = value_of(lookup, from->local, &local_name);
    if (!out->local_size) {
        out->local_size = out->size;
        TRI_TRY(number_of(lookup, from->local, 0, out->size - 1, out->rank, &out->local));
        if (out->local != out->rank)
            return tri__fail(TRI_USAGE,
                             "the environment says %s=%d and %s=%d, so there are several machines; %s is needed too",
                             from->rank[0], out->rank, local_name, out->local, from->local_size[0]);
    }
    TRI_TRY(number_of(lookup, from->local, 0, out->local_size - 1, out->rank % out->local_size, &out->local));
    if (!local && out->local_size != out->size && from->launcher == TRI_LAUNCHER_SLURM)
        return tri__fail(TRI_USAGE, "Slurm started this task without SLURM_LOCALID; start through srun");
    if (out->node < 0) out->node = out->rank / out->local_size;
    if (!out->nodes) out->nodes = (out->size + out->local_size - 1) / out->local_size;
    if (out->local_size == out->size) out->node = 0, out->nodes = 1;
    return TRI_OK;
}

static tri_status read_rest(lookup_function *lookup, const source *from, tri_launch *out) {
    static const names port = {"MASTER_PORT"}, fd = {"TRIDENT_FD"}, socket = {"TRIDENT_SOCKET"};
    TRI_TRY(number_of(lookup, port, 1, 65535, 0, &out->port));
    if (from->launcher == TRI_LAUNCHER_OWN) {
        TRI_TRY(number_of(lookup, fd, 0, 1 << 20, -1, &out->fd));
        TRI_TRY(number_of(lookup, socket, 0, 1 << 20, -1, &out->socket));
    }
    const char *host = lookup("MASTER_ADDR"), *name, *run = value_of(lookup, from->run, &name);
    if (host && strlen(host) >= sizeof out->host)
        return tri__fail(TRI_USAGE, "the environment's MASTER_ADDR is too long to be the name of a machine");
    snprintf(out->host, sizeof out->host, "%s", host ? host : "");
    if (run) TRI_TRY(set_run(out, name, run, "", ""));
    if (from->launcher == TRI_LAUNCHER_SLURM) TRI_TRY(slurm_names(lookup, out));
    if (from->launcher == TRI_LAUNCHER_TORCHRUN && !out->port) out->port = PORT_TORCHRUN;
    if (!out->host[0] && out->nodes == 1) snprintf(out->host, sizeof out->host, "127.0.0.1");
    return TRI_OK;
}

static tri_status disagree(const source *a, const tri_launch *x, const source *b, const tri_launch *y) {
    return tri__fail(
        TRI_USAGE,
        "two launchers disagree: %s says rank %d of %d, %s says rank %d of %d; unset the variables of one of them",
        a->text, x->rank, x->size, b->text, y->rank, y->size);
}

/* Which of two sources takes precedence, 0 or 1 (see the header); -1: they disagree. */
static int stronger(lookup_function *lookup, const source *a, const tri_launch *x, const source *b,
                    const tri_launch *y) {
    const char *elastic = lookup("TORCHELASTIC_RUN_ID");
    int by_hand = a->launcher == TRI_LAUNCHER_TORCHRUN && !(elastic && *elastic);
    if (x->rank == y->rank && x->size == y->size) return by_hand && b->mpi;
    if (x->size == 1 || y->size == 1) return x->size == 1;
    return b->launcher == TRI_LAUNCHER_SLURM && !by_hand ? 0 : -1;
}

tri_status tri__launch_detect(char *(*lookup)(const char *name), tri_launch *out) {
    static const names own_names = {"TRIDENT_FD", "TRIDENT_SOCKET"};
    const char *own_name, *own = value_of(lookup, own_names, &own_name);
    int first = own ? 0 : 1, last = own ? 1 : SOURCES;
    const source *from = NULL;
    tri_launch none = {.size = 1, .local_size = 1, .nodes = 1, .fd = -1, .socket = -1};
    *out = none;
    for (int i = first; i < last; i++) {
        tri_launch found = none;
        int there;
        TRI_TRY(read_place(lookup, &sources[i], &found, &there));
        if (!there) continue;
        if (sources[i].launcher == TRI_LAUNCHER_SLURM && in_batch(lookup)) {
            out->batch = 1;
            if (!from && found.size > 1)
                return tri__fail(
                    TRI_USAGE,
                    "a Slurm batch script has %d tasks, but only srun starts them: run `srun --mpi=pmix "
                    "trident ...` (--mpi=pmi2 for MPICH), or start ranks on this machine with --nproc-per-node",
                    found.size);
            continue;
        }
        int second = from ? stronger(lookup, from, out, &sources[i], &found) : 1;
        if (second < 0) return disagree(from, out, &sources[i], &found);
        if (second) *out = found, from = &sources[i];
    }
    if (!from && first == 0)
        return tri__fail(TRI_USAGE, "the environment has %s but not RANK and WORLD_SIZE; unset it", own_name);
    if (!from) return TRI_OK;
    out->mpi = find_mpi(lookup, from->launcher);
    out->slurm = from->launcher == TRI_LAUNCHER_SLURM || (from->launcher == TRI_LAUNCHER_MPICH && !in_batch(lookup));
    TRI_TRY(read_machine(lookup, from, out));
    return read_rest(lookup, from, out);
}
