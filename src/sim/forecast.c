/* forecast.c - the arithmetic of a run. */
#include "sim/forecast.h"

/* FLOP/s of all ranks' devices. Where ranks share cores, the figure is that of all cores of a node. */
static double peak_of(const tri_hardware *h, const tri_run_facts *f) {
    double peak = h->peak[f->dtype], here = tri__hardware_here(h, f->ranks);
    if (!h->cores) return peak * f->ranks;
    double used = fmin(1, here * (f->threads > 0 ? f->threads : 1) / h->cores);
    return peak * used * f->ranks / here;
}

static double loader_of(const tri_hardware *h, const tri_run_facts *f) {
    double one = h->host.row * f->loaded_samples + h->host.token * f->loaded_tokens;
    return one / (f->workers > 0 ? f->workers : 1);
}

tri_forecast tri__forecast(const tri_hardware *h, const tri_run_facts *f) {
    tri_forecast out = {.loader = loader_of(h, f), .start_program = f->start_seconds};
    out.start_up = h->host.start + h->host.rank_start * (tri__hardware_here(h, f->ranks) - 1) + f->start_seconds;
    out.step = fmax(f->step_seconds + h->host.step, out.loader); /* batches are assembled beside the steps */
    out.epoch = (double)f->epoch_steps * out.step;
    out.validation = (double)f->valid_batches * f->infer_seconds + (double)f->valid_samples * h->host.row_result;
    if (h->host.write > 0) out.checkpoint = f->checkpoint_bytes / h->host.write;
    if (f->steps > 0)
        out.run = out.start_up + (double)f->steps * out.step + (double)f->validations * out.validation +
                  (double)f->checkpoints * out.checkpoint;
    out.samples_per_second = out.step > 0 ? f->samples / out.step : 0;
    out.tokens_per_second = out.step > 0 ? f->tokens / out.step : 0;
    double peak = peak_of(h, f);
    if (peak > 0 && out.step > 0) out.mfu = f->flops / out.step / peak;
    double each_second = f->price * f->ranks / 3600;
    out.cost = each_second * out.run, out.cost_of_epoch = each_second * out.epoch;
    if (h->watts.busy > 0)
        out.joules = out.run * f->ranks * (f->busy * h->watts.busy + (1 - f->busy) * h->watts.idle);
    return out;
}

tri_json *tri__forecast_json(const tri_forecast *f) {
    const struct {
        const char *key;
        double value;
    } rows[] = {{"start_up_seconds", f->start_up},
                {"step_seconds", f->step},
                {"loader_seconds", f->loader},
                {"epoch_seconds", f->epoch},
                {"validation_seconds", f->validation},
                {"checkpoint_seconds", f->checkpoint},
                {"run_seconds", f->run},
                {"samples_per_second", f->samples_per_second},
                {"tokens_per_second", f->tokens_per_second},
                {"mfu", f->mfu},
                {"cost", f->cost},
                {"cost_of_epoch", f->cost_of_epoch},
                {"energy_kwh", f->joules / 3.6e6}};
    tri_json *all = tri__json_object();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value > 0) tri__json_set_new(all, rows[i].key, tri__json_real(rows[i].value));
    return all;
}

int tri__hardware_is_measured(const tri_hardware *h) { return h->n_kernels > 0 && h->origin.machine != NULL; }
