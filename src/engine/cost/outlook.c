/* outlook.c - batches are sampled, their steps timed, and the run computed from the mean. */
#include "engine/cost/outlook.h"

#include "engine/cost/memory_fit.h"
#include "engine/cost/mfu.h"
#include "engine/staging.h"

/* Bounds of the work: instructions of all ranks, in one timeline and in those of all sampled batches. */
static const double MOST_RAGGED = 4e6, MOST_SAMPLED = 1.5e5;

/* ---- Sampling ---- */

static void count_batch(tri_sampler *sampler, int64_t k, tri_counts *counts) {
    const tri_dataset *data = sampler->data;
    const int64_t *rows;
    int64_t n = tri__sampler_batch(sampler, sampler->epoch < 0 ? 0 : sampler->epoch, k, &rows);
    tri__sampler_split(sampler, rows, n, sampler->part);
    for (int64_t i = 0; i < n; i++) {
        tri_counts *of = &counts[sampler->part[i]];
        of->of[TRI_SYM_N]++;
        for (int text = 0; text < data->n_texts; text++) {
            tri_packed packed = tri__dataset_packed(data, text, rows[i]);
            int at = tri__reader(&data->windows.readers, text);
            of->of[TRI_SYM_T0 + at] += packed.tokens;
            of->squares[TRI_SYM_T0 + at] += packed.squares;
            if (tri__windows_count(&data->windows)) of->of[TRI_SYM_W0 + at] += packed.windows;
        }
    }
}

static void add_means(const tri_engine *engine, tri_sampled *s) {
    for (int i = 0; i < s->n * s->parts; i++) {
        const tri_counts *c = &s->counts[i];
        s->samples += (double)c->of[TRI_SYM_N] / s->n;
        s->tokens += (double)(c->of[TRI_SYM_T0] + c->of[TRI_SYM_T1]) / s->n;
        for (int text = 0; text < engine->model.n_encoders; text++)
            s->flops += tri__nominal_flops(engine, text, (double)c->of[TRI_SYM_T0 + text],
                                           c->squares[TRI_SYM_T0 + text], NULL) / s->n;
    }
}

void tri__sample_rows(tri_arena *arena, tri_sampler *sampler, const tri_engine *engine, tri_sampled *out) {
    int64_t batches = tri__sampler_batches(sampler);
    *out = (tri_sampled){.n = batches < TRI_SAMPLED ? (int)batches : TRI_SAMPLED, .parts = sampler->parts};
    out->counts = tri__arena_alloc(arena, (size_t)(out->n * out->parts) * sizeof *out->counts);
    for (int i = 0; i < out->n; i++)
        count_batch(sampler, (2 * i + 1) * batches / (2 * out->n), &out->counts[i * out->parts]);
    add_means(engine, out);
    for (int i = 0; i < out->n * out->parts; i++) out->counts[i] = tri__plan_counts(&engine->in, &out->counts[i]);
    int readers = tri__mesh_readers(&engine->in.mesh);
    for (int i = 0; i < out->n; i++)
        tri__plan_share_rows(&engine->in, &out->counts[i * out->parts], out->parts / readers);
}

/* Without data: every microbatch is the largest. */
static tri_sampled largest_rows(const tri_engine *engine, const tri_program *p) {
    double parts = (double)p->n_mb * tri__mesh_readers(&p->mesh);
    tri_sampled out = {.samples = (double)engine->place.batch};
    for (int text = 0; text < engine->model.n_encoders; text++) {
        double tokens = (double)p->max.of[TRI_SYM_T0 + text] * parts;
        out.tokens += tokens;
        out.flops += tri__nominal_flops(engine, text, tokens, p->max.squares[TRI_SYM_T0 + text] * parts, NULL);
    }
    return out;
}

/* ---- Timing ---- */

/* Instructions of all ranks, in all kinds of steps. */
static double instructions(const tri_classes *ranks) {
    uint32_t kind[TRI_GATE_COUNT];
    const tri_program *p = ranks->at[0].program;
    return (double)p->n_instrs * tri__program_kinds(p, kind) * ranks->world;
}

/* Each microbatch of a batch as the largest of all replicas', by the nominal cost of its tokens. */
static void keep_largest(const tri_counts *counts, int dp, int n_mb, tri_counts *out) {
    for (int mb = 0; mb < n_mb; mb++) {
        out[mb] = counts[mb];
        for (int replica = 1; replica < dp; replica++) {
            const tri_counts *c = &counts[replica * n_mb + mb];
            if (c->of[TRI_SYM_T0] + c->of[TRI_SYM_T1] > out[mb].of[TRI_SYM_T0] + out[mb].of[TRI_SYM_T1]) out[mb] = *c;
        }
    }
}

/* The mean time over sampled batches. */
static tri_status time_program(tri_arena *arena, const tri_classes *ranks, tri_costs costs, const tri_sampled *rows,
                               tri_timeline *middle, double *seconds) {
    int dp = tri__mesh_readers(&ranks->mesh), n_mb = ranks->at[0].program->n_mb, n = rows->counts ? rows->n : 1;
    double all = instructions(ranks);
    int ragged = rows->parts == dp * n_mb && all < MOST_RAGGED;
    while (n > 1 && all * n > MOST_SAMPLED) n--;
    *seconds = 0;
    for (int i = 0; i < n; i++) {
        int drawn = i == n / 2, at = rows->counts ? (2 * i + 1) * rows->n / (2 * n) * rows->parts : 0;
        size_t mark = arena->used;
        tri_timeline line;
        costs.counts = rows->counts ? &rows->counts[at] : NULL, costs.n_counts = rows->parts;
        if (costs.counts && !ragged && rows->parts == dp * n_mb) {
            tri_counts *kept = tri__arena_alloc(arena, (size_t)n_mb * sizeof *kept);
            keep_largest(costs.counts, dp, n_mb, kept);
            costs.counts = kept, costs.n_counts = n_mb;
        }
        TRI_TRY(tri__timeline(arena, ranks, &costs, &line));
        *seconds += line.mean / n;
        if (middle && drawn) *middle = line;
        if (!middle || !drawn) tri__arena_rewind(arena, mark);
    }
    return TRI_OK;
}

/* ---- The run ---- */

void tri__outlook_data(tri_arena *arena, const tri_settings *s, const tri_engine *engine, tri_sampler *train,
                       tri_sampler *valid, tri_outlook *run) {
    tri_run_facts *facts = &run->facts;
    tri__sample_rows(arena, train, engine, &run->train);
    if (valid) tri__sample_rows(arena, valid, engine, &run->valid);
    if (valid) facts->valid_samples = valid->data->n;
    if (!facts->steps) return;
    int64_t each = facts->epoch_steps ? facts->epoch_steps : facts->steps, epochs = (facts->steps + each - 1) / each;
    facts->validations = facts->valid_samples ? epochs : 0;
    facts->checkpoints = s->save_every ? (epochs + s->save_every - 1) / s->save_every : 0;
    if (s->save_steps) facts->checkpoints += facts->steps / s->save_steps;
}

/* What follows from the engine and the mean batch. */
static void add_facts(const tri_settings *s, const tri_engine *engine, const tri_sampled *train, tri_run_facts *facts) {
    int dp = tri__mesh_readers(&engine->in.mesh);
    int64_t batch = s->batch_size * dp;
    facts->ranks = tri__mesh_world(&engine->in.mesh), facts->workers = engine->workers;
    facts->dtype = engine->in.precision;
    facts->samples = train->samples, facts->tokens = train->tokens, facts->flops = train->flops;
    facts->loaded_samples = train->samples / dp, facts->loaded_tokens = train->tokens / dp;
    facts->valid_batches = (facts->valid_samples + batch - 1) / batch;
    facts->checkpoint_bytes = (double)tri__state_bytes(engine);
}

tri_status tri__outlook_run(const tri_settings *s, tri_arena *arena, const tri_engine *engine, const tri_programs *all,
                            const tri_hardware *hardware, const tri_outlook *run, tri_timeline *step,
                            tri_forecast *out) {
    tri_costs costs = tri__staging_costs(arena, &engine->in, hardware);
    tri_timeline middle, start;
    const tri_program *p = all->of[TRI_TRAIN].at[0].program;
    tri_sampled train = run->train.counts ? run->train : largest_rows(engine, p);
    tri_run_facts facts = run->facts;
    costs.threads = facts.threads;
    add_facts(s, engine, &train, &facts);
    TRI_TRY(time_program(arena, &all->of[TRI_TRAIN], costs, &train, &middle, &facts.step_seconds));
    facts.busy = 1 - tri__timeline_idle(&middle);
    if (step) *step = middle;
    TRI_TRY(tri__timeline(arena, &all->of[TRI_START], &(tri_costs){.hardware = hardware, .threads = facts.threads},
                          &start));
    facts.start_seconds = start.seconds;
    if (facts.valid_samples)
        TRI_TRY(time_program(arena, &all->of[TRI_INFER], costs, &run->valid, NULL, &facts.infer_seconds));
    *out = tri__forecast(hardware, &facts);
    return TRI_OK;
}
