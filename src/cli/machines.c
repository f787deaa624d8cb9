/* machines.c - the mpirun and srun command lines for the same run on several machines. */
#include "cli/launch.h"
#include "job/trainings.h"

#include "base/text.h"
#include "comm/mpi/load.h"
#include "comm/launchers/slurm.h"

#include <stdlib.h>
#include <string.h>

/* Options that set hosts and rank counts: the launcher sets these instead. */
static const char *const dropped[] = {"nnodes",    "nproc_per_node", "node_rank",     "standalone",  "rdzv_backend",
                                      "rdzv_id",   "rdzv_endpoint",  "rdzv_conf",     "master_addr", "master_port",
                                      "redirects", "tee",            "local_ranks_filter", "log_dir", "bind_cores"};

/* The row of an argument that is dropped; NULL: it is kept. */
static const tri_option *is_dropped(const char *argument) {
    const tri_option *row = tri__argument_row(argument);
    for (size_t i = 0; row && i < sizeof dropped / sizeof *dropped; i++)
        if (!strcmp(row->name, dropped[i])) return row;
    return NULL;
}

/* Quotes the word for a shell. Out of memory, it is omitted: the line is only advice. */
static void print_word(FILE *out, const char *word) {
    char *quoted = tri__text_quoted(word);
    fprintf(out, " %s", quoted ? quoted : "...");
    free(quoted);
}

static void print_command(tri_cli *cli) {
    char *const *argv = cli->argv;
    fputs(" trident", cli->err);
    for (int i = 1; argv[i]; i++) {
        const tri_option *row = is_dropped(argv[i]);
        if (!row) print_word(cli->err, argv[i]);
        else if (!strchr(argv[i], '=') && row->kind != TRI_OPTION_BOOL && argv[i + 1]) i++;
    }
    fputc('\n', cli->err);
}

/* Prints the host names that are known: from Slurm's allocation, or the rendezvous host. */
static void print_hosts(tri_cli *cli, const tri_settings *s) {
    const char *list = cli->lookup("SLURM_JOB_NODELIST"), *first = s->master_addr ? s->master_addr : s->rdzv_endpoint;
    for (int i = 0; i < s->nodes; i++) {
        char host[256];
        int known = list && tri__slurm_host(list, i, host, sizeof host);
        if (!known && i == 0 && first) snprintf(host, sizeof host, "%.*s", (int)strcspn(first, ":"), first);
        else if (!known) snprintf(host, sizeof host, "HOST%d", i + 1);
        fprintf(cli->err, "%s%s:%lld", i ? "," : "", host, (long long)s->nproc_per_node);
    }
}

void tri__print_machines(tri_cli *cli, const tri_settings *s) {
    long long here = (long long)s->nproc_per_node, all = (long long)s->world_size;
    char plugins[200];
    fprintf(cli->err, "mpirun -np %lld -H ", all);
    print_hosts(cli, s);
    print_command(cli);
    tri__mpi_list(plugins, sizeof plugins);
    fprintf(cli->err, "srun -N %lld -n %lld --ntasks-per-node=%lld --mpi=%s", (long long)s->nodes, all, here,
            tri__mpi_srun_type(plugins));
    print_command(cli);
}
