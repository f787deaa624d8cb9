/* accept.c - checks settings against one another and against what this build can plan, before anything is opened. */
#include "engine/accept.h"

#include "base/file.h"
#include "plan/schedule/schedule.h"
#include "settings/forms.h"

#include <string.h>

/* The schedule and the shape of a pipeline; the planner checks what depends on the model. */
static tri_status check_pipeline(const tri_settings *s) {
    const tri_schedule_row *schedule = tri__schedule_row((tri_schedule_kind)s->schedule);
    if (schedule->chain && s->pipeline_shape == TRI_SHAPE_ASKED_BRANCH && s->pp_size > 1)
        return tri__fail(
            TRI_USAGE,
            "--schedule %s needs stages in a row, --pipeline-shape branch puts the encoders side by side: take "
            "--pipeline-shape chain, or one of the schedules gpipe, 1f1b, zb-h1",
            schedule->name);
    if (s->virtual_stages && schedule->chunks && s->virtual_stages != schedule->chunks)
        return tri__fail(TRI_USAGE,
                         "--virtual-stages %lld: with --schedule %s each rank holds %d; --schedule interleaved takes "
                         "any number from 2 on",
                         (long long)s->virtual_stages, schedule->name, schedule->chunks);
    return TRI_OK;
}

tri_status tri__accept_precision(const tri_settings *s) {
    static const char *const names[] = {[TRI_PRECISION_INT8] = "int8", [TRI_PRECISION_FP8] = "fp8"};
    if (s->precision > TRI_PRECISION_FP16)
        return tri__fail(TRI_USAGE,
                         "--precision %s: training computes in fp32, bf16 or fp16; --quantize int8 beside one of them "
                         "trains for int8 products",
                         names[s->precision]);
    if (s->quantize == TRI_QUANTIZE_FP8)
        return tri__fail(TRI_USAGE, "--quantize fp8: training is for int8 products only; eval and predict take fp8");
    if (s->float_layers.n && s->quantize == TRI_QUANTIZE_NONE)
        return tri__fail(TRI_USAGE, "--float-layers: nothing is quantised without --quantize int8");
    return TRI_OK;
}

/* Texts with a syntax, and folders that must exist. */
static tri_status check_texts(const tri_settings *s) {
    uint8_t ranks[TRI_RANKS_PER_NODE];
    int n = s->nproc_per_node < TRI_RANKS_PER_NODE ? (int)s->nproc_per_node : TRI_RANKS_PER_NODE;
    TRI_TRY(tri__streams_parse("--redirects", s->redirects ? s->redirects : "0", n, ranks));
    TRI_TRY(tri__streams_parse("--tee", s->tee ? s->tee : "0", n, ranks));
    TRI_TRY(tri__streams_filter("--local-ranks-filter", s->local_ranks_filter ? s->local_ranks_filter : "", n, ranks));
    for (int i = 0; i < s->offload.n && s->offload.n > 1; i++)
        if (strcmp(s->offload.at[i], "none") == 0)
            return tri__fail(TRI_USAGE, "--offload: give none, or some of optimizer, gradients, params, activations");
    if (strcmp(s->resume, "auto") && strcmp(s->resume, "never") && !tri__is_folder(s->resume))
        return tri__fail(TRI_NOINPUT, "--resume %s: no such folder; give a checkpoint, a run folder, auto or never",
                         s->resume);
    return TRI_OK;
}

/* Microbatches of a replica have at least a sample each. */
static tri_status check_microbatches(const tri_settings *settings) {
    if (settings->num_microbatches <= settings->batch_size) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "--num-microbatches %lld is more than the %lld sample%s of a replica's batch: give %lld at "
                     "most, or a larger --batch-size",
                     (long long)settings->num_microbatches, (long long)settings->batch_size,
                     settings->batch_size == 1 ? "" : "s", (long long)settings->batch_size);
}

tri_status tri__infer_accept(const tri_settings *settings) {
    static const char *const trained[] = {"optimizer", "gradients"};
    tri_mesh mesh;
    TRI_TRY(check_texts(settings));
    for (int i = 0; i < settings->offload.n; i++)
        for (int k = 0; k < 2; k++)
            if (strcmp(settings->offload.at[i], trained[k]) == 0)
                return tri__fail(TRI_USAGE,
                                 "--offload %s: a prediction has none; give some of params, activations", trained[k]);
    TRI_TRY(tri__settings_mesh(settings, &mesh));
    TRI_TRY(check_pipeline(settings));
    return check_microbatches(settings);
}

tri_status tri__engine_accept(const tri_settings *settings) {
    tri_mesh mesh;
    int64_t global = settings->global_batch_size;
    TRI_TRY(check_texts(settings));
    TRI_TRY(tri__accept_precision(settings));
    TRI_TRY(tri__settings_mesh(settings, &mesh));
    TRI_TRY(check_pipeline(settings));
    if (global && settings->batch_size != (global + mesh.dp - 1) / mesh.dp)
        return tri__fail(TRI_USAGE, "global_batch_size %lld is not batch_size %lld x %d replica%s; give one of them",
                         (long long)global, (long long)settings->batch_size, mesh.dp, mesh.dp == 1 ? "" : "s");
    return check_microbatches(settings);
}
