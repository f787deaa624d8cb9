/* plan_facts.c - a plan without a run: exact memory, instructions and cost of a step, from the data's lengths or,
 * without data, from batch size times max_sen_len. */
#include "engine/accept_settings.h"
#include "engine/coded_report.h"
#include "engine/cost/program_facts.h"
#include "engine/cost/memory_fit.h"
#include "engine/staging.h"
#include "study/study.h"

static tri_status describe(const tri_settings *s, tri_engine *engine, const tri_programs *all, tri_json **facts,
                           char **program) {
    tri_program_kind step = engine->train < 0 ? TRI_INFER : TRI_TRAIN;
    const tri_counts *max = &all->of[step].at[0].program->max;
    *facts = tri__json_pack("{s:i, s:I, s:i, s:b, s:{s:I, s:I, s:I}, s:o, s:o, s:o}", "world_size", all->world,
                            "parameters", (tri_json_int)engine->model.n_elements, "microbatches", engine->n_mb,
                            "checked", 1, "largest_microbatch", "primary_tokens", (tri_json_int)max->of[TRI_SYM_T0],
                            "secondary_tokens", (tri_json_int)max->of[TRI_SYM_T1], "samples",
                            (tri_json_int)max->of[TRI_SYM_N], "ranks", tri__programs_json(all->of, step), "infer",
                            tri__program_json(all->of[TRI_INFER].at[0].program), "start",
                            tri__program_json(all->of[TRI_START].at[0].program));
    if (!*facts) return tri__fail(TRI_RESOURCE, "out of memory");
    if (s->replicate_state && engine->train >= 0) {
        tri__json_set_new(*facts, "kept_bytes", tri__json_integer(tri__kept_bytes(s, all)));
        tri__json_set_new(*facts, "kept_sent", tri__json_integer(tri__kept_sent(s, all)));
    }
    int64_t trained = tri__model_trained(&engine->model);
    if (trained < engine->model.n_elements) tri__json_set_new(*facts, "trained", tri__json_integer(trained));
    if (max->of[TRI_SYM_W0]) {
        tri_json *largest = tri__json_get(*facts, "largest_microbatch");
        tri__json_set_new(largest, "primary_windows", tri__json_integer((tri_json_int)max->of[TRI_SYM_W0]));
        tri__json_set_new(largest, "secondary_windows", tri__json_integer((tri_json_int)max->of[TRI_SYM_W1]));
    }
    if (tri__model_expert_layers(&engine->model)) {
        const tri_json_int layers = (tri_json_int)tri__model_expert_layers(&engine->model);
        tri__json_set_new(*facts, "experts",
                          tri__json_pack("{s:I, s:I, s:I, s:I}", "layers", layers, "active_parameters",
                                         (tri_json_int)tri__model_active(&engine->model), "primary_rows",
                                         (tri_json_int)max->of[TRI_SYM_X0], "secondary_rows",
                                         (tri_json_int)max->of[TRI_SYM_X1]));
    }
    tri_json *form;
    TRI_TRY(tri__context_json(&engine->context_form, &engine->in, &form));
    if (form) tri__json_set_new(*facts, "context", form);
    return s->print_program == TRI_PRINT_NONE
               ? TRI_OK
               : tri__view_programs(s, engine, &all->of[s->print_kind], program);
}

static int is_simulated(const tri_settings *s, const tri_engine *engine) {
    return (s->timeline || s->svg || s->hardware) && engine->train >= 0;
}

/* Adds the views that were requested in addition to the figures. */
static tri_status add_views(const tri_settings *s, const tri_log *log, tri_study *p, tri_json *facts) {
    const tri_engine *engine = &p->engine;
    tri_json *view = NULL;
    if (is_simulated(s, engine)) {
        TRI_TRY(tri__rows_valid(s, &p->assets, log, &p->rows));
        TRI_TRY(tri__view_simulation(s, engine, &p->all, &p->rows, log, &view));
        tri__json_set_new(facts, "simulation", view);
    }
    if (s->csv) {
        TRI_TRY(tri__view_order(engine, &view));
        tri__json_set_new(facts, "csv", view);
    }
    if (s->params) {
        TRI_TRY(tri__view_params(engine, &view));
        tri__json_set_new(facts, "params", view);
    }
    return TRI_OK;
}

/* Advises on tensor groups that cross machines, of --nproc-per-node ranks or else of the simulated hardware's. */
static void advise_order(const tri_settings *s, const tri_hardware *hardware, const tri_mesh *mesh,
                         const tri_log *log) {
    char advice[TRI_MESH_ADVICE];
    int here = s->hardware && !tri__settings_given(s, &s->nproc_per_node) ? hardware->ranks_per_node
                                                                          : (int)s->nproc_per_node;
    if (*tri__mesh_advice(mesh, here, "machine", advice) ||
        (s->hardware && hardware->islands.ranks &&
         *tri__mesh_advice(mesh, hardware->islands.ranks, "island", advice)))
        tri__say(log, TRI_LOG_WARN, "%s", advice);
}

/* Products of 8 bits and the computing type of inference; nothing shows a step of training. */
static tri_status choose_inference(tri_settings *s) {
    const tri_device *device = tri__device_find(s->device); /* NULL: a plug-in's, which is asynchronous */
    int products = s->precision == TRI_PRECISION_INT8 ? TRI_QUANTIZE_INT8 : TRI_QUANTIZE_FP8;
    int prints = s->print_program != TRI_PRINT_NONE || s->print_after;
    const char *trains = s->timeline                              ? "--timeline"
                         : s->svg                                 ? "--svg"
                         : s->csv                                 ? "--csv"
                         : s->hardware                            ? "--hardware"
                         : prints && s->print_kind == TRI_TRAIN ? "--print-kind train"
                                                                  : NULL;
    if (trains)
        return tri__fail(TRI_USAGE,
                         "%s: shows a step of training, and --precision int8 is of inference: --print-kind infer, or "
                         "--quantize int8 for a step that trains for it",
                         trains);
    if (tri__settings_given(s, &s->quantize) && s->quantize != products)
        return tri__fail(TRI_USAGE, "--precision and --quantize name different types of products: give one of them");
    s->quantize = products;
    s->precision = !device || device->async ? TRI_PRECISION_BF16 : TRI_PRECISION_FP32;
    return TRI_OK;
}

tri_status tri__study_accept(tri_settings *s, int *serves) {
    int prints = s->print_program != TRI_PRINT_NONE || s->print_after;
    *serves = s->precision == TRI_PRECISION_INT8 ||
              (s->precision == TRI_PRECISION_FP8 && prints && s->print_kind != TRI_TRAIN);
    if (!*serves) return tri__engine_accept(s);
    TRI_TRY(choose_inference(s));
    return tri__infer_accept(s);
}

/* The described hardware's, if it is of this device. */
static const tri_target *target_of(const tri_settings *s, const tri_study *p) {
    const tri_target *target = p->hardware.target;
    return target && strcmp(target->name, s->device) == 0 ? target : NULL;
}

static tri_status open_planning(const tri_settings *asked, const tri_log *log, const tri_stop *stop,
                                const char *beside, tri_study *p) {
    tri_counts max;
    tri_place place;
    tri_settings resolved = *asked; /* only read */
    const tri_settings *settings = &resolved;
    int serves = 0;
    TRI_TRY(tri__model_config_check(&settings->model));
    TRI_TRY(tri__study_hardware(&resolved, p, log));
    TRI_TRY(tri__study_accept(&resolved, &serves));
    TRI_TRY(tri__place_make(settings, NULL, (int)settings->world_size, 0, &place));
    place.target = target_of(settings, p);
    advise_order(settings, &p->hardware, &place.mesh, log);
    TRI_TRY(tri__assets_open(settings, settings->data_path != NULL, log, &p->assets));
    if (settings->data_path && !serves) TRI_TRY(tri__engine_try(settings, &place, &p->assets));
    TRI_TRY(tri__rows_open(settings, &p->assets, log, stop, beside, &p->rows));
    TRI_TRY(tri__rows_largest(&p->rows, settings, place.batch,
                              settings->num_microbatches * tri__mesh_readers(&place.mesh), &max));
    place.steps = tri__rows_steps(&p->rows, settings, place.batch);
    if (!serves) TRI_TRY(tri__accept_steps(settings, place.steps));
    TRI_TRY(tri__stop_check(stop, "the run was being prepared"));
    return tri__engine_plan(&(tri_engine_spec){.settings = settings, .place = &place, .assets = &p->assets,
                                               .columns = tri__rows_columns(&p->rows), .train = !serves, .max = &max,
                                               .max_infer = &max}, &p->engine);
}

tri_status tri__study_open(const tri_settings *settings, const tri_log *log, const tri_stop *stop, const char *beside,
                           tri_study *out) {
    TRI_TRY(open_planning(settings, log, stop, beside, out));
    TRI_TRY(tri__engine_plan_all(&out->engine, &out->all));
    if (out->engine.train >= 0) tri__coding_say(&out->engine.in, &out->all.of[TRI_TRAIN], log);
    tri__products_say(&out->engine.in, NULL, log);
    tri__context_say(&out->engine.context_form, &out->engine.in, log);
    if (out->engine.train < 0 || is_simulated(settings, &out->engine)) return TRI_OK; /* the simulation says it */
    return tri__staging_say(settings, &out->engine.in, &out->all.of[TRI_TRAIN], NULL, log);
}

void tri__study_close(tri_study *study) {
    tri__engine_close(&study->engine);
    tri__rows_close(&study->rows);
    tri__assets_close(&study->assets);
    tri__arena_close(&study->arena);
}

void tri__study_drop(tri_study **at) {
    if (*at) tri__study_close(*at);
    free(*at);
}

tri_status tri__study_plan(const tri_settings *settings, const tri_log *log, tri_json **facts, char **program) {
    TRI_OWNED(tri__study_drop) tri_study *p = calloc(1, sizeof *p); /* large */
    *facts = NULL;
    *program = NULL;
    if (!p) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_OWNED(tri__json_drop) tri_json *made = NULL;
    TRI_TRY(tri__study_open(settings, log, NULL, NULL, p));
    if (settings->memory_limit)
        TRI_TRY(tri__room_check(settings, &p->engine, &p->all, (int)settings->nproc_per_node, NULL));
    TRI_TRY(describe(settings, &p->engine, &p->all, &made, program));
    TRI_TRY(add_views(settings, log, p, made));
    if (!tri__json_is_whole(made)) return tri__fail(TRI_RESOURCE, "out of memory"); /* commands also draw it */
    *facts = TRI_GIVE(made);
    return TRI_OK;
}

tri_status tri__study_passes(const tri_settings *settings, const tri_log *log, char **program) {
    TRI_OWNED(tri__study_drop) tri_study *p = calloc(1, sizeof *p);
    *program = NULL;
    if (!p) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(open_planning(settings, log, NULL, NULL, p));
    return tri__view_programs(settings, &p->engine, NULL, program);
}

tri_status tri__study_prepare(const tri_settings *settings, const tri_stop *stop) {
    TRI_OWNED(tri__study_drop) tri_study *p = calloc(1, sizeof *p);
    tri_log silent = {0};
    if (!p) return tri__fail(TRI_RESOURCE, "out of memory");
    p->runs = 1;
    TRI_TRY(tri__study_open(settings, &silent, stop, settings->output_dir, p));
    /* A GPU's free memory is checked by its rank: a query from this process would itself use some. */
    if (!settings->memory_limit && p->engine.device->async) return TRI_OK;
    return tri__room_check(settings, &p->engine, &p->all, (int)settings->nproc_per_node, NULL);
}
