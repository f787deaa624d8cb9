/* replay.c - two runs queue the same work when they have the same instructions (the range, the kind of the step and its
 * open layers) and row counts: operands keep their addresses, and all other kernel arguments follow from these two. (An
 * update has no row counts: it is the same for all runs of a kind.) Inputs and the step are in the device's memory.
 * Runs with transfers or offload copies are not captured, because the host tracks those while they are in flight;
 * copies into the class kept are no part of a run (run.c). */
#include "exec/replay.h"
#include "program/transfer.h"

/* Words: program, begin, end, the kind of the step; its closed layers, if it may have any; then the counts of each
 * microbatch. */
enum { KEY_HEAD = 4, KEY_LAYERS = TRI_MAX_LAYERS / 64, KEY_EACH = TRI_SYM_COUNT - 1 };

static int counted(const tri_program *program) {
    int end = 0;
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        if (tri__begins(instr->op) && !tri__is_keeping(program, instr)) return -1;
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (instr->slot[k] >= 0 && program->slot[instr->slot[k]].rows.sym != TRI_SYM_NONE) end = i + 1;
    }
    return end;
}

tri_status tri__replay_open(const tri_program *const *programs, int n, tri_replay *out) {
    int most = 1;
    TRI_ASSERT(n > 0);
    for (int i = 0; i < n; i++)
        if (programs[i]->n_mb > most) most = programs[i]->n_mb;
    *out = (tri_replay){.counted = calloc((size_t)n, sizeof *out->counted),
                         .key = calloc((size_t)(KEY_HEAD + KEY_LAYERS + most * KEY_EACH), sizeof *out->key)};
    if (!out->counted || !out->key) return tri__fail(TRI_RESOURCE, "out of memory for an executor's runs");
    for (int i = 0; i < n; i++) out->counted[i] = counted(programs[i]);
    return TRI_OK;
}

void tri__replay_free(tri_replay *replay) {
    TRI_FREE(replay->counted, replay->key);
    *replay = (tri_replay){0};
}

tri_capture tri__replay_ask(tri_replay *replay, const tri_program *const *programs, int program, int begin, int end,
                          const tri_feed *feed, const tri_graphs *graphs, void *context) {
    int n = 0;
    if (!graphs || replay->counted[program] < 0) return TRI_LAUNCH;
    replay->key[n++] = program;
    replay->key[n++] = begin;
    replay->key[n++] = end;
    replay->key[n++] = feed->gates.kind;
    for (int i = 0; i < KEY_LAYERS && programs[program]->n_layers; i++)
        replay->key[n++] = (int64_t)feed->gates.closed[i];
    for (int mb = 0; mb < programs[program]->n_mb && begin < replay->counted[program]; mb++)
        for (int sym = 1; sym < TRI_SYM_COUNT; sym++) replay->key[n++] = feed[mb].counts.of[sym];
    return graphs->begin(context, replay->key, n);
}
