/* accept_settings.c - checks settings against one another and against what this build can plan, before anything is
 * opened. */
#include "engine/accept_settings.h"

#include "base/file.h"
#include "plan/optimizer.h"
#include "plan/step_kinds.h"
#include "score/best.h"
#include "settings/forms.h"

/* The schedule and the shape of a pipeline; the planner checks what depends on the model. */
static tri_status check_pipeline(const tri_settings *s) {
    const tri_schedule_row *schedule = tri__schedule_row((tri_schedule_kind)s->schedule);
    char names[TRI_SCHEDULE_NAMES];
    if (schedule->chain && s->pipeline_shape == TRI_SHAPE_ASKED_BRANCH && s->pp_size > 1)
        return tri__fail(TRI_USAGE, "--schedule %s needs stages in a row, --pipeline-shape branch puts the encoders "
                         "side by side: take --pipeline-shape chain, or one of the schedules %s", schedule->name,
                         tri__schedule_names(1, names));
    if (s->virtual_stages && schedule->chunks && s->virtual_stages != schedule->chunks)
        return tri__fail(TRI_USAGE, "--virtual-stages %lld: with --schedule %s each rank holds %d; --schedule "
                         "interleaved takes any number from 2 on", (long long)s->virtual_stages, schedule->name,
                         schedule->chunks);
    return TRI_OK;
}

/* What FP8 training is not built for. Copies that take local steps would each have maxima of their own. */
static tri_status check_fp8(const tri_settings *s) {
    const char *option = s->quantize != TRI_QUANTIZE_NONE    ? "--quantize"
                         : s->sync_every > 1                 ? "--sync-every"
                         : s->optimizer == TRI_ZERO_ONE_ADAM ? "--optimizer zero-one-adam"
                                                             : NULL;
    if (s->precision != TRI_PRECISION_FP8 || !option) return TRI_OK;
    return tri__fail(TRI_USAGE, "--precision fp8 does not go with %s: leave that out, or take --precision bf16",
                     option);
}

tri_status tri__accept_precision(const tri_settings *s) {
    if (s->precision == TRI_PRECISION_INT8)
        return tri__fail(TRI_USAGE, "--precision int8: training computes in fp32, bf16, fp16 or fp8; --quantize int8 "
                         "beside one of the first three trains for int8 products");
    TRI_TRY(check_fp8(s));
    if (s->quantize == TRI_QUANTIZE_FP8)
        return tri__fail(TRI_USAGE, "--quantize fp8: training is for int8 products only; eval and predict take fp8, "
                         "and --precision fp8 trains with fp8 products");
    if (s->float_layers.n && s->quantize == TRI_QUANTIZE_NONE && s->precision != TRI_PRECISION_FP8)
        return tri__fail(TRI_USAGE, "--float-layers: nothing is quantised without --quantize int8 or --precision fp8");
    return TRI_OK;
}

/* A loss is one of the task's, and so is what only classes have. */
static tri_status check_loss(const tri_settings *s) {
    static const struct {
        const char *word;
        int task;
    } losses[] = {
#define TRI_LOSS(id, word, task, ...) {word, task},
#include "settings/losses.def"
    };
    char words[120] = "";
    enum { LOSSES = sizeof losses / sizeof *losses };
    for (int i = 0; i < LOSSES; i++)
        if (losses[i].task == s->model.task) tri__text_append(words, sizeof words, ", ", "%s", losses[i].word);
    if (losses[s->loss].task != s->model.task)
        return tri__fail(TRI_USAGE, "--loss %s is not a loss of this task; it has: %s", losses[s->loss].word, words);
    if (s->label_smoothing > 0 && s->model.task != TRI_TASK_CLASSES)
        return tri__fail(TRI_USAGE, "--label-smoothing %g: only classes can be smoothed; this task has none",
                         s->label_smoothing);
    if (!tri__best_of_task((tri_best_by)s->best_by, (int)s->model.task))
        return tri__fail(TRI_USAGE, "--best-by %s is not a figure of this task; loss is one of all tasks",
                         tri__best_name((tri_best_by)s->best_by));
    /* Both move weight from samples that are right already, in ways that do not compose: the focal factor would be of a
     * probability that the smoothed target does not want at 1. */
    if (s->loss != TRI_LOSS_FOCAL || s->label_smoothing == 0) return TRI_OK;
    return tri__fail(TRI_USAGE, "--label-smoothing %g: --loss focal has no smoothed form: give one of them, or --loss "
                     "cross_entropy", s->label_smoothing);
}

/* Of --optimizer. */
static const char *word_of(const tri_settings *s) { return tri__optimizer_row((tri_optimizer_kind)s->optimizer)->name; }

/* Two ways to say what travels in which step. */
static tri_status check_kinds(const tri_settings *s) {
    if (!tri__is_onebit((tri_optimizer_kind)s->optimizer)) return TRI_OK;
    if (s->sync_every > 1)
        return tri__fail(TRI_USAGE, "--optimizer %s exchanges momentum in its own steps, --sync-every %lld weights in "
                         "others: give one of them", word_of(s), (long long)s->sync_every);
    if (s->compress_gradients)
        return tri__fail(TRI_USAGE, "--optimizer %s sends momentum as signs, not gradients: leave out "
                         "--compress-gradients, or take --optimizer adamw or lamb with it", word_of(s));
    return tri__accept_steps(s, s->max_steps);
}

/* 1-bit optimizers in a run of `steps`; 0: not known yet. */
static tri_status check_warmup(const tri_settings *s, int64_t steps) {
    long long warmup = (long long)tri__warmup_steps(s, steps);
    if (s->full_steps && s->full_steps < warmup)
        return tri__fail(TRI_USAGE, "--full-steps %lld ends within the learning rate's warm-up of %lld steps "
                         "(--warmup-steps): there is no stable momentum yet. Give --full-steps %lld or more, or a "
                         "shorter warm-up", (long long)s->full_steps, warmup, warmup);
    if (s->var_freeze_step && s->var_freeze_step < warmup)
        return tri__fail(TRI_USAGE, "--var-freeze-step %lld is within the learning rate's warm-up of %lld steps "
                         "(--warmup-steps): the variance is not stable yet. Give --var-freeze-step %lld or more, or a "
                         "shorter warm-up", (long long)s->var_freeze_step, warmup, warmup);
    return TRI_OK;
}

/* 0/1 Adam: not every step updates the variance. */
static tri_status accept_intervals(const tri_settings *s, const tri_optimizing *how) {
    if (tri__steps_of_kind(how, TRI_GATE(variance), how->steps) < how->steps) return TRI_OK;
    return tri__fail(TRI_USAGE, "--optimizer zero-one-adam: the first %lld steps update the variance "
                     "(--var-update-scaler), and the run has %lld: momentum would never travel as signs. Give a "
                     "smaller --var-update-scaler, or a longer run", (long long)s->var_update_scaler,
                     (long long)how->steps);
}

/* What is given by name is done wherever a step is left; the default also wants enough of them to be worth it. */
tri_status tri__accept_steps(const tri_settings *s, int64_t steps) {
    tri_optimizing how = {.kind = (tri_optimizer_kind)s->optimizer, .beta2 = s->adam_beta2, .steps = steps,
                          .full_steps = s->full_steps, .var_freeze_step = s->var_freeze_step,
                          .var_update_scaler = s->var_update_scaler, .local_step_scaler = 1, .local_step_clipper = 1};
    if (!tri__is_onebit(how.kind)) return TRI_OK;
    TRI_TRY(check_warmup(s, steps));
    if (!steps) return TRI_OK;
    tri__step_kinds_resolve(&how, tri__warmup_steps(s, steps));
    if (how.kind == TRI_ZERO_ONE_ADAM) return accept_intervals(s, &how);
    int64_t full = how.full_steps, window = tri__variance_window(&how);
    if (s->full_steps && full >= steps)
        return tri__fail(TRI_USAGE, "--optimizer %s: momentum would travel as signs after %lld full steps "
                         "(--full-steps), but the run has %lld: give a smaller --full-steps, or a longer run",
                         word_of(s), (long long)full, (long long)steps);
    if (s->full_steps || steps - full >= (steps + 4) / 5) return TRI_OK;
    if (full > window)
        return tri__fail(TRI_USAGE, "--optimizer %s: momentum would travel as signs after %lld full steps (as many as "
                         "--warmup-steps), but the run has %lld: give fewer --warmup-steps, or a longer run",
                         word_of(s), (long long)full, (long long)steps);
    return tri__fail(TRI_USAGE, "--optimizer %s: the run has %lld steps, and its variance is stable, and can be "
                     "frozen, after 1 / (1 - %g) = %lld (--adam-beta2): give a longer run (%lld steps or more), "
                     "--full-steps N to freeze it earlier at the expense of the loss, --optimizer zero-one-adam, or "
                     "--compress-gradients int8 with another optimizer", word_of(s), (long long)steps, how.beta2,
                     (long long)window, (long long)(5 * window + 3) / 4);
}

/* Texts with a syntax, and folders that must exist. */
static tri_status check_texts(const tri_settings *s) {
    uint8_t ranks[TRI_RANKS_PER_NODE];
    int64_t layers;
    int embeddings, n = s->nproc_per_node < TRI_RANKS_PER_NODE ? (int)s->nproc_per_node : TRI_RANKS_PER_NODE;
    TRI_TRY(tri__streams_parse("--redirects", s->redirects ? s->redirects : "0", n, ranks));
    TRI_TRY(tri__streams_parse("--tee", s->tee ? s->tee : "0", n, ranks));
    TRI_TRY(tri__streams_filter("--local-ranks-filter", s->local_ranks_filter ? s->local_ranks_filter : "", n, ranks));
    for (int i = 0; i < s->offload.n && s->offload.n > 1; i++)
        if (strcmp(s->offload.at[i], "none") == 0)
            return tri__fail(TRI_USAGE, "--offload: give none, or some of optimizer, gradients, params, activations");
    TRI_TRY(tri__freeze_parse(&s->freeze, &embeddings, &layers));
    int there = 1;
    if (strcmp(s->resume, "auto") && strcmp(s->resume, "never")) TRI_TRY(tri__folder_there(s->resume, &there));
    if (!there)
        return tri__fail(TRI_NOINPUT, "--resume %s: no such folder; give a checkpoint, a run folder, auto or never",
                         s->resume);
    return TRI_OK;
}

/* A mean of the last epochs needs to know which they are. */
static tri_status check_average(const tri_settings *s) {
    tri_average_form form;
    TRI_TRY(tri__average_parse(s->average_weights, &form));
    if (!form.epochs) return TRI_OK;
    if (s->early_stopping)
        return tri__fail(TRI_USAGE, "--average-weights last:%lld with --early-stopping %lld: which epochs are the last "
                         "is not known before the run ends: take --average-weights ema, or leave out --early-stopping",
                         (long long)form.epochs, (long long)s->early_stopping);
    if (form.epochs <= s->epochs) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "--average-weights last:%lld: the run has %lld epoch%s (--epochs): give last:%lld, or more epochs",
                     (long long)form.epochs, (long long)s->epochs, s->epochs == 1 ? "" : "s", (long long)s->epochs);
}

/* Microbatches of a replica have at least a sample each. */
static tri_status check_microbatches(const tri_settings *settings) {
    if (settings->num_microbatches <= settings->batch_size) return TRI_OK;
    return tri__fail(TRI_USAGE, "--num-microbatches %lld is more than the %lld sample%s of a replica's batch: give "
                     "%lld at most, or a larger --batch-size", (long long)settings->num_microbatches,
                     (long long)settings->batch_size, settings->batch_size == 1 ? "" : "s",
                     (long long)settings->batch_size);
}

tri_status tri__infer_accept(const tri_settings *settings) {
    static const char *const trained[] = {"optimizer", "gradients"};
    tri_mesh mesh;
    TRI_TRY(check_texts(settings));
    for (int i = 0; i < settings->offload.n; i++)
        if (tri__text_index(settings->offload.at[i], trained, 2) >= 0)
            return tri__fail(TRI_USAGE, "--offload %s: a prediction has none; give some of params, activations",
                             settings->offload.at[i]);
    TRI_TRY(tri__settings_mesh(settings, &mesh));
    TRI_TRY(check_pipeline(settings));
    return check_microbatches(settings);
}

static tri_status check_threshold(const tri_settings *s) {
    tri_threshold asked;
    TRI_TRY(tri__threshold_parse(s->threshold, &asked));
    if (asked.kind == TRI_THRESHOLD_NUMBER)
        return tri__fail(TRI_USAGE, "--threshold %s: training chooses it on validation, for f1, precision=P, recall=R "
                         "or cost=A:B; a number is for eval, predict and serve", s->threshold);
    if (s->model.task == TRI_TASK_LABELS) return TRI_OK; /* each label has its own */
    if (asked.kind != TRI_THRESHOLD_NONE && s->model.task != TRI_TASK_CLASSES)
        return tri__fail(TRI_USAGE, "--threshold %s: this task learns numbers, which have no threshold: leave it out",
                         s->threshold);
    if (asked.kind != TRI_THRESHOLD_NONE && s->model.num_classes > 2)
        return tri__fail(TRI_USAGE, "--threshold %s: only models of two classes have a threshold, and num_classes is "
                         "%lld: leave it out, and the likeliest class is predicted", s->threshold,
                         (long long)s->model.num_classes);
    return TRI_OK;
}

/* Parts of one table. */
static tri_status check_parts(const tri_settings *s) {
    if (s->stratify && s->model.task != TRI_TASK_CLASSES)
        return tri__fail(TRI_USAGE,
                         "--stratify: it spreads classes evenly, and the rows of this task have none: leave it out");
    if (s->folds == 1) return tri__fail(TRI_USAGE, "--folds 1: at least 2 are needed, one for validation");
    if (s->fold > s->folds)
        return tri__fail(TRI_USAGE, s->folds ? "--fold %lld: there are %lld (--folds)"
                                             : "--fold %lld: say how many there are, with --folds",
                         (long long)s->fold, (long long)s->folds);
    return TRI_OK;
}

tri_status tri__accept_single(const tri_settings *s) {
    if (s->folds && !s->fold)
        return tri__fail(TRI_USAGE, "--folds %lld is several runs: name one of them with --fold", (long long)s->folds);
    if (s->stack)
        return tri__fail(TRI_USAGE, "--stack is several runs, which `trident train` makes: leave it out here");
    if (s->seeds > 1)
        return tri__fail(TRI_USAGE, "--seeds %lld is several runs: open one for each --seed", (long long)s->seeds);
    return TRI_OK;
}

tri_status tri__engine_accept(const tri_settings *settings) {
    tri_mesh mesh;
    int64_t global = settings->global_batch_size;
    TRI_TRY(check_texts(settings));
    TRI_TRY(check_parts(settings));
    TRI_TRY(tri__settings_needs(settings));
    TRI_TRY(tri__accept_precision(settings));
    TRI_TRY(tri__settings_mesh(settings, &mesh));
    TRI_TRY(check_pipeline(settings));
    TRI_TRY(check_kinds(settings));
    if (settings->head_lr > 0 && settings->lr <= 0)
        return tri__fail(TRI_USAGE, "--head-lr %g with --lr 0: its rate is a multiple of --lr. To train only what is "
                         "above the layers, give --lr %g --freeze embeddings,layers=all", settings->head_lr,
                         settings->head_lr);
    TRI_TRY(check_loss(settings));
    TRI_TRY(check_average(settings));
    TRI_TRY(check_threshold(settings));
    int readers = tri__mesh_readers(&mesh);
    if (global && settings->batch_size != (global + readers - 1) / readers)
        return tri__fail(TRI_USAGE, "global_batch_size %lld is not batch_size %lld x %d replica%s; give one of them",
                         (long long)global, (long long)settings->batch_size, readers, readers == 1 ? "" : "s");
    return check_microbatches(settings);
}
