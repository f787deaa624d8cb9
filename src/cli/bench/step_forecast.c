/* step_forecast.c - a step's program, timed with the row counts that its batch had. */
#include "cli/bench/step_forecast.h"

#include "sim/timeline.h"

typedef struct predicting {
    const tri_session *session;
    const tri_hardware *hardware;
    double *seconds;
} predicting;

static tri_status predict(tri_arena *arena, void *data) {
    const predicting *p = data;
    const tri_engine *engine = &p->session->engine;
    const tri_program *program = engine->plan.train.program;
    tri_counts *counts = tri__arena_alloc(arena, (size_t)engine->n_mb * sizeof *counts);
    tri_classes ranks;
    tri_timeline line;
    for (int mb = 0; mb < engine->n_mb; mb++) counts[mb] = p->session->feed[mb].counts;
    tri_costs costs = {
        .hardware = p->hardware, .counts = counts, .n_counts = engine->n_mb, .threads = engine->threads};
    TRI_TRY(tri__classes_list(&ranks, arena, &program, 1));
    TRI_TRY(tri__timeline(arena, &ranks, &costs, &line));
    *p->seconds = line.seconds + p->hardware->host.step;
    return TRI_OK;
}

tri_status tri__step_predict(const tri_session *session, const tri_hardware *hardware, double *seconds) {
    predicting p = {session, hardware, seconds};
    return tri__arena_scratch(predict, &p);
}
