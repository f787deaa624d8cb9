/* recorder.c - records steps; all memory is allocated when the profile is opened. */
#include "train/recorder.h"
#include "base/clock.h"
#include "settings/forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tri_status tri__recorder_open(tri_recorder *p, const char *text, tri_session *session) {
    tri_profile_steps steps;
    *p = (tri_recorder){0};
    if (!text) return TRI_OK;
    TRI_TRY(tri__profile_parse(text, &steps));
    p->wait = steps.wait, p->warmup = steps.warmup, p->active = steps.active;
    size_t n = (size_t)session->engine.plan.train.program->n_instrs;
    p->times = calloc(n, sizeof *p->times);
    p->spans = calloc((n + 1) * (size_t)p->active, sizeof *p->spans);
    return p->times && p->spans
               ? TRI_OK
               : tri__fail(TRI_RESOURCE, "out of memory for a profile of %lld steps", (long long)p->active);
}

void tri__recorder_close(tri_recorder *p) {
    for (int64_t i = 0; i < p->n_spans; i++) free((char *)p->spans[i].shape);
    free(p->times);
    free(p->spans);
    *p = (tri_recorder){0};
}

void tri__recorder_before(tri_recorder *p, tri_session *session) {
    int64_t first = p->wait + p->warmup;
    session->times = p->active && p->seen >= p->wait && p->seen < first + p->active ? p->times : NULL;
    p->begin = tri__clock();
    if (p->active && p->seen == first) p->origin = p->begin - session->waited;
}

/* "[1024,384]": the first operand given (a send has no output), as bound. */
static char *shape_text(const tri_program *program, const tri_instr *instr, const tri_counts *counts) {
    int first = 0;
    while (first + 1 < TRI_MAX_ARGS && instr->slot[first] < 0) first++;
    if (instr->slot[first] < 0) return strdup("");
    const tri_slot *slot = &program->slot[instr->slot[first]];
    char *text = NULL;
    if (asprintf(&text, "[%lld,%lld]", (long long)tri__slot_rows(slot, counts), (long long)slot->cols) < 0) return NULL;
    return text;
}

/* Posts begin in program order, so a transfer overlaps earlier ones of its kind if it begins before the latest end. The
 * hosts' control, in flight during the whole update, does not count. */
static void add_transfers(tri_recorder *p, const tri_program *program, int aside) {
    double until[TRI_COLLECTIVE_COUNT] = {0};
    for (int i = 0; i < program->n_instrs; i++) {
        if (!tri__is_post(program->instr[i].op) || tri__on_host(program->instr[i].op)) continue;
        tri_collective_kind kind = tri__post_kind(program->instr[i].op);
        int wait = tri__transfer_wait_of(program, i);
        double begin = p->times[i].begin > until[kind] ? p->times[i].begin : until[kind], end = p->times[wait].end;
        if (end > begin) p->transfer[kind].seconds += end - begin, until[kind] = end;
        /* An asynchronous device does not wait while a transfer is on its queue. */
        p->transfer[kind].exposed += (aside ? 0 : p->times[i].end - p->times[i].begin) + end - p->times[wait].begin;
    }
    p->kept++;
}

tri_status tri__recorder_after(tri_recorder *p, tri_session *session) {
    int64_t first = p->wait + p->warmup, seen = p->seen++;
    if (!p->active || seen < first || seen >= first + p->active) return TRI_OK;
    const tri_program *program = session->engine.plan.train.program;
    enum { TRACK_DATA = 1, TRACK_COMM = 2 };
    int aside = tri__exec_runs_on(session->engine.exec);
    add_transfers(p, program, aside);
    p->spans[p->n_spans++] = (tri_span){.name = "wait for the batch",
                                        .unit = "",
                                        .shape = strdup(""),
                                        .begin = p->begin - session->waited - p->origin,
                                        .end = p->begin - p->origin,
                                        .step = session->at.step,
                                        .mb = -1,
                                        .track = TRACK_DATA};
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        const tri_counts *counts = &session->feed[instr->mb < 0 ? 0 : instr->mb].counts;
        tri_cost cost = tri__instr_cost(program, instr, counts);
        p->spans[p->n_spans++] = (tri_span){.name = tri__op_row(instr->op)->name,
                                            .unit = instr->unit >= 0 ? program->unit[instr->unit] : "",
                                            .shape = shape_text(program, instr, counts),
                                            .begin = p->times[i].begin - p->origin,
                                            .end = p->times[i].end - p->origin,
                                            .flops = cost.flops,
                                            .bytes = cost.bytes,
                                            .step = session->at.step,
                                            .mb = instr->mb,
                                            .track = aside && tri__is_post(instr->op) ? TRACK_COMM : 0};
    }
    if (p->seen < first + p->active) return TRI_OK;
    return tri__session_emit(session,
                             &(tri_event){.kind = TRI_EVENT_PROFILE, .spans = p->spans, .n_spans = p->n_spans});
}
