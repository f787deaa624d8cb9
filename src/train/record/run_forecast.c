/* run_forecast.c - a run's forecast, made by its first rank before the first step. */
#include "train/session.h"

#include "base/sort.h"
#include "engine/cost/outlook.h"
#include "engine/staging.h"

typedef struct prediction_job {
    tri_session *session;
    tri_sampler *valid; /* NULL: none */
} prediction_job;

static tri_status predict(tri_arena *arena, void *data) {
    const prediction_job *job = data;
    tri_session *s = job->session;
    const tri_engine *engine = &s->engine;
    tri_run_prediction *out = &s->prediction;
    tri_hardware hardware;
    TRI_TRY(tri__staging_hardware(s->settings, arena, &hardware));
    if (hardware.device && strcmp(hardware.device, engine->device->name) != 0) return TRI_USAGE; /* of other plans */
    hardware.ranks_per_node = engine->place.world ? engine->place.world->segment.n : 1;
    tri_outlook look = {.facts = {.steps = s->steps - s->at.step, .epoch_steps = s->batches,
                                  .threads = engine->threads}};
    tri__outlook_data(arena, s->settings, engine, &s->sampler, job->valid, &look);
    TRI_TRY(tri__outlook_run(s->settings, arena, engine, &s->programs, &hardware, &look, NULL, &out->forecast));
    snprintf(out->hardware, sizeof out->hardware, "%s", hardware.name);
    out->is_measured = tri__hardware_is_measured(&hardware), out->is_made = 1;
    return TRI_OK;
}

void tri__prediction_make(tri_session *s) {
    tri_run_prediction *out = &s->prediction;
    TRI_OWNED(tri__sampler_close) tri_sampler valid = {0};
    prediction_job job = {.session = s};
    double begin = tri__clock();
    int dp = tri__mesh_readers(&s->engine.in.mesh), parts = dp * s->engine.in.n_mb_infer;
    *out = (tri_run_prediction){0};
    if (s->valid && tri__sampler_open(&valid, s->valid, s->settings->batch_size * dp, parts, 0, 0) == TRI_OK)
        job.valid = &valid;
    tri_status status = tri__arena_scratch(predict, &job);
    if (status != TRI_OK) *out = (tri_run_prediction){0};
    if (status == TRI_DATA) tri__say(&s->log, TRI_LOG_WARN, "the run is not predicted: %s", tri_error());
    out->made_in = tri__clock() - begin;
    if (!out->is_made || !out->is_measured) return;
    tri__say(&s->log, TRI_LOG_INFO, "predicted %.4g ms a step, %s in all (%s)", 1e3 * out->forecast.step,
             tri__text_seconds(out->forecast.run, (char[32]){0}), out->hardware);
}

void tri__prediction_step(tri_run_prediction *p, double seconds) {
    if (p->is_made) p->seconds[p->n++ % TRI_PREDICTED_STEPS] = seconds;
}

/* The median step; the first ones, which warm up, are left out where there are others. 0: none was taken. */
static double median(const tri_run_prediction *p) {
    double kept[TRI_PREDICTED_STEPS];
    int n = p->n < TRI_PREDICTED_STEPS ? (int)p->n : TRI_PREDICTED_STEPS;
    int first = p->n > TRI_PREDICTED_STEPS ? 0 : n > 8 ? 4 : n > 1 ? 1 : 0;
    if (!n) return 0;
    n -= first;
    memcpy(kept, p->seconds + first, (size_t)n * sizeof *kept);
    tri__sort_doubles(kept, n);
    return (kept[(n - 1) / 2] + kept[n / 2]) / 2;
}

static void set(tri_json *json, const char *key, double value) { tri__json_set_new(json, key, tri__json_real(value)); }

tri_json *tri__prediction_json(const tri_run_prediction *p, double measured) {
    if (!p->is_made) return NULL;
    tri_json *json = tri__forecast_json(&p->forecast);
    double step = median(p), run = p->forecast.run - p->forecast.start_up;
    tri__json_set_new(json, "hardware", tri__json_string(p->hardware));
    tri__json_set_new(json, "origin", tri__json_string(p->is_measured ? "measured" : "assumed"));
    set(json, "run_seconds", run); /* from the first step on, as what is measured */
    set(json, "made_in_seconds", p->made_in);
    if (!(measured > 0) || !(step > 0)) return json;
    set(json, "measured_step_seconds", step);
    set(json, "error", p->forecast.step / step - 1);
    set(json, "measured_seconds", measured);
    set(json, "run_error", run / measured - 1);
    return json;
}
