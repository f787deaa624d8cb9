/* sweep_devices.c - trials that train at a time on the GPUs of a machine: each gets as many as it has ranks, as far as
 * there are enough for two; else all trials share all of them. */
#include "cli/sweep.h"

#include "base/machine.h"
#include "job/rank_process.h"

#include <stdlib.h>
#include <string.h>

/* Where item `at` of "0,1,2" begins; its end when there are fewer. */
static char *item(char *list, int64_t at) {
    for (; at > 0 && *list; at--) list += strcspn(list, ","), list += *list == ',';
    return list;
}

/* The GPUs that this process may use: "2,3", as CUDA reads it; without the variable those of the machine. The caller
 * frees it. */
static char *visible(const tri_cli *cli) {
    const char *said = cli->lookup("CUDA_VISIBLE_DEVICES");
    int n = tri__gpus();
    char *list = said ? strdup(said) : malloc(16 * (size_t)n + 1), *at = list;
    if (said || !list) return list;
    *at = 0;
    for (int i = 0; i < n; i++) at += sprintf(at, "%s%d", i ? "," : "", i);
    return list;
}

tri_status tri__sweep_environment(const tri_cli *cli, const tri_settings *settings, int64_t slots, int64_t slot,
                                  char ***out) {
    *out = NULL;
    if (slots < 2 || strcmp(settings->device, "cuda") != 0) return TRI_OK;
    char *list = visible(cli);
    if (!list) return tri__fail(TRI_RESOURCE, "out of memory");
    int64_t n = *list ? 1 : 0, ranks = settings->nproc_per_node;
    for (const char *at = list; *at; at++) n += *at == ',';
    int64_t shares = ranks > 0 ? n / ranks : 1; /* auto: a rank for each GPU */
    if (shares >= 2) {
        char *begin = item(list, slot % shares * ranks), *end = item(begin, ranks);
        end[-(end[-1] == ',')] = 0;
        *out = tri__environment_with(cli->environment, &(const char *const[2]){"CUDA_VISIBLE_DEVICES", begin}, 1);
    }
    free(list);
    return shares < 2 || *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}
