/* signals.c - the handler, and the one place that it can reach: a signal comes without any context of ours. */
#include "cli/signals.h"

#include "base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Process groups, control groups and launchers may each pass on one and the same wish. */
static const double SAME_WISH = 0.5; /* seconds */

static struct {
    tri_stop stop;
    _Atomic double first;      /* tri__clock() of the first signal */
} taken;

static void note(int signal) {
    int none = 0;
    if (atomic_compare_exchange_strong(&taken.stop.signal, &none, signal)) atomic_store(&taken.first, tri__clock());
    else if (tri__clock() - atomic_load(&taken.first) > SAME_WISH) _exit(128 + signal);
}

void tri__signals_take(tri_cli *cli) {
    static const int wishes[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    const char *end = cli->lookup("SLURM_JOB_END_TIME");
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    taken.stop.deadline = end ? strtod(end, NULL) : 0;
    atomic_store(&taken.first, tri__clock());
    cli->stop = &taken.stop;
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        struct sigaction before;
        sigaction(wishes[i], NULL, &before);
        int ignored = before.sa_handler == SIG_IGN; /* by nohup: a closed terminal is no wish */
        if (wishes[i] != SIGHUP || !ignored) sigaction(wishes[i], &action, NULL);
    }
}
