/* planning.c - a plan without a run: exact memory, instructions and cost of a step, from the data's lengths or, without
 * data, from batch size times max_sen_len. */
#include "train/evaluate.h"
#include "train/files.h"
#include "train/inputs.h"
#include "train/run.h"
#include "program/text.h"

static void forward_message(void *context, tri_log_level level, const char *text) {
    const tri_sink *sink = context;
    tri_event event = {.kind = TRI_EVENT_MESSAGE, .level = level, .text = text};
    if (sink && sink->emit) (void)sink->emit(sink->context, &event);
}

/* Row counts of the largest microbatch of the training file, and the numbers of its rows. */
static tri_status count_file(const tri_settings *s, const tri_assets *assets, const tri_log *log, const char *path, tri_counts *max,
                             int *columns) {
    tri_preprocess *preprocess = NULL;
    tri_dataset *data = NULL;
    tri_sampler sampler = {0};
    tri_inputs inputs;
    TRI_TRY(tri__inputs_make(s, assets, log, NULL, &inputs));
    tri_status status = tri__inputs_fit(&inputs, path, &preprocess, &data);
    if (status == TRI_OK)
        status = tri__sampler_open(&sampler, data, s->batch_size, (int)s->num_microbatches, 1, (uint32_t)s->seed);
    if (status == TRI_OK) *max = tri__largest(&sampler, s->epochs, s->max_tokens, s->model.max_sen_len), *columns = preprocess->width;
    tri__sampler_close(&sampler);
    tri__dataset_close(data);
    tri__preprocess_free(preprocess);
    return status;
}

static tri_status count_rows(const tri_settings *s, const tri_assets *assets, const tri_log *log, tri_counts *max, int *columns) {
    if (s->data_path) {
        tri_data_files files;
        TRI_TRY(tri__data_files(s->data_path, &files));
        if (!files.train[0]) return tri__fail(TRI_NOINPUT, "%s: has no training table (train.csv, train.tsv or train.jsonl)", s->data_path);
        return count_file(s, assets, log, files.train, max, columns);
    }
    *columns = s->model.tab_field_list.n;
    if (*columns) tri__say(log, TRI_LOG_INFO, "without --data-path each of the %d columns counts as one number", *columns);
    int64_t rows = (s->batch_size + s->num_microbatches - 1) / s->num_microbatches,
            tokens = s->max_tokens ? s->max_tokens : rows * s->model.max_sen_len;
    *max = (tri_counts){.of = {0, tokens, assets->n_texts > 1 ? tokens : 0, rows}};
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_T1; sym++) max->squares[sym] = (double)max->of[sym] * (double)s->model.max_sen_len;
    return TRI_OK;
}

static json_t *program_json(const tri_program *p) {
    json_t *bytes = json_object();
    tri_cost cost = {0};
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        json_object_set_new(bytes, tri__mem_name((tri_mem)mem), json_integer(p->bytes[mem]));
    json_object_set_new(bytes, "total", json_integer(tri__program_bytes(p)));
    for (int i = 0; i < p->n_instrs; i++) {
        tri_cost one = tri__instr_cost(p, &p->instr[i], &p->max);
        cost.flops += one.flops, cost.bytes += one.bytes;
    }
    return json_pack("{s:i, s:i, s:i, s:f, s:f, s:o}", "rank", p->rank, "instructions", p->n_instrs, "slots", p->n_slots, "flops",
                     cost.flops, "traffic_bytes", cost.bytes, "bytes", bytes);
}

static tri_status describe(const tri_settings *s, const tri_engine *engine, json_t **facts, char **program) {
    const tri_program *train = engine->plan.train.program;
    *facts = json_pack("{s:i, s:I, s:i, s:b, s:{s:I, s:I, s:I}, s:[o], s:o}", "world_size", (int)s->world_size, "parameters",
                       (json_int_t)engine->model.n_elements, "microbatches", engine->n_mb, "checked", 1, "largest_microbatch",
                       "primary_tokens", (json_int_t)train->max.of[TRI_SYM_T0], "secondary_tokens",
                       (json_int_t)train->max.of[TRI_SYM_T1], "samples", (json_int_t)train->max.of[TRI_SYM_N], "ranks",
                       program_json(train), "infer", program_json(engine->plan.infer.program));
    if (!*facts) return tri__fail(TRI_RESOURCE, "out of memory");
    if (s->print_program < 0) return TRI_OK;
    if (s->print_program >= s->world_size)
        return tri__fail(TRI_USAGE, "--print-program %lld: there are ranks 0 to %lld", (long long)s->print_program,
                         (long long)s->world_size - 1);
    return tri__program_text(train, program);
}

tri_status tri__run_plan(const tri_settings *settings, const tri_sink *sink, json_t **facts, char **program) {
    tri_assets assets = {0};
    tri_engine engine = {0};
    tri_counts max;
    tri_log log = {.say = forward_message, .context = (void *)sink};
    *facts = NULL;
    *program = NULL;
    TRI_TRY(tri__model_config_check(&settings->model));
    TRI_TRY(tri__settings_check(settings));
    TRI_TRY(tri__assets_open(settings, settings->data_path != NULL, &log, &assets));
    int columns = 0;
    tri_status status = count_rows(settings, &assets, &log, &max, &columns);
    if (status == TRI_OK) status = tri__engine_plan(settings, &assets, columns, 1, &max, &max, &engine);
    if (status == TRI_OK) status = describe(settings, &engine, facts, program);
    if (status != TRI_OK) {
        json_decref(*facts);
        *facts = NULL;
    }
    tri__engine_close(&engine);
    tri__assets_close(&assets);
    return status;
}
