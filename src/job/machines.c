/* machines.c - the mpirun and srun command lines for the same run on several machines. */
#include "job/ranks.h"
#include "job/trainings.h"

#include "comm/mpi/load.h"
#include "comm/launchers/slurm.h"

/* Options that set hosts and rank counts: the launcher sets these instead. */
static const char *const dropped[] = {"nnodes",    "nproc_per_node", "node_rank",     "standalone",  "rdzv_backend",
                                      "rdzv_id",   "rdzv_endpoint",  "rdzv_conf",     "master_addr", "master_port",
                                      "redirects", "tee",            "local_ranks_filter", "log_dir", "bind_cores"};

/* The row of an argument that is dropped; NULL: it is kept. */
static const tri_option *is_dropped(const char *argument) {
    const tri_option *row = tri__argument_row(argument);
    return row && tri__text_index(row->name, dropped, sizeof dropped / sizeof *dropped) >= 0 ? row : NULL;
}

/* Quotes the word for a shell. Out of memory, it is omitted: the line is only advice. */
static void add_word(tri_buffer *out, const char *word) {
    TRI_OWNED(tri__free_at) char *quoted = tri__text_quoted(word);
    tri__buffer_put(out, " %s", quoted ? quoted : "...");
}

static void add_command(tri_buffer *out, char *const *argv) {
    tri__buffer_put(out, " trident");
    for (int i = 1; argv[i]; i++) {
        const tri_option *row = is_dropped(argv[i]);
        if (!row) add_word(out, argv[i]);
        else if (!strchr(argv[i], '=') && row->kind != TRI_OPTION_BOOL && argv[i + 1]) i++;
    }
}

/* The host names that are known: from Slurm's allocation, or the rendezvous host. */
static void add_hosts(tri_buffer *out, const tri_settings *s, const char *list) {
    const char *first = s->master_addr ? s->master_addr : s->rdzv_endpoint;
    for (int i = 0; i < s->nodes; i++) {
        char host[256];
        int known = list && tri__slurm_host(list, i, host, sizeof host);
        if (!known && i == 0 && first) snprintf(host, sizeof host, "%.*s", (int)strcspn(first, ":"), first);
        else if (!known) snprintf(host, sizeof host, "HOST%d", i + 1);
        tri__buffer_put(out, "%s%s:%lld", i ? "," : "", host, (long long)s->nproc_per_node);
    }
}

void tri__tell_machines(const tri_parent *parent, const tri_settings *s) {
    TRI_OWNED(tri__buffer_free) tri_buffer out = {0};
    char plugins[200];
    tri__mpi_list(plugins, sizeof plugins);
    tri__buffer_put(&out, "mpirun -np %lld -H ", (long long)s->world_size);
    add_hosts(&out, s, parent->lookup("SLURM_JOB_NODELIST"));
    add_command(&out, parent->argv);
    tri__buffer_put(&out, "\nsrun -N %lld -n %lld --ntasks-per-node=%lld --mpi=%s", (long long)s->nodes,
                    (long long)s->world_size, (long long)s->nproc_per_node, tri__mpi_srun_type(plugins));
    add_command(&out, parent->argv);
    if (!out.failed) parent->log.say(parent->log.context, TRI_LOG_PLAIN, out.text); /* however long */
}
