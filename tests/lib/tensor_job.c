/* tensor_job.c - see tensor_job.h. */
#include "tests/lib/tensor_job.h"

#include <math.h>

const job_what *job_filled(job_what *is) {
    if (!is->pp) is->pp = 1;
    if (!is->tp) is->tp = 1;
    if (!is->dp) is->dp = 1;
    if (!is->n_mb) is->n_mb = 1;
    if (!is->steps) is->steps = 20;
    if (!is->texts) is->texts = 2;
    if (!is->heads[0]) is->heads[0] = 4, is->heads[1] = 4;
    return is;
}

tri_status job_split(tri_network *model, const char *plan) {
    char copy[512], *save = NULL, *entry[8];
    tri_texts texts = {.at = entry};
    snprintf(copy, sizeof copy, "%s", plan);
    for (char *at = strtok_r(copy, ",", &save); at; at = strtok_r(NULL, ",", &save)) entry[texts.n++] = at;
    return tri__model_split(model, &texts);
}

void job_plan(tiny *t, const job_what *is, int rank) {
    static char *no_decay[] = {"bias", "LayerNorm.weight", "norm.weight"};
    tri_coords at;
    tiny_open(t, "cpu", is->texts, 3, is->dropout, is->n_mb);
    for (int b = 0; b < 2; b++) {
        t->encoder[b].num_attention_heads = is->heads[b];
        t->encoder[b].hidden_size = (b ? 2 : 4) * is->heads[b];
        t->encoder[b].intermediate_size = 6 * is->heads[b];
        t->encoder[b].vocab_size = 41 + 2 * b;
    }
    t->config.pooling = is->pooling;
    static const tri_column columns[] = {{TRI_COLUMN_PIECEWISE, 3, 1}, {TRI_COLUMN_HASHED, 2, 0},
                                         {TRI_COLUMN_CATEGORY, 3, 0}, {.kind = TRI_COLUMN_PERIODIC}};
    if (is->vectors) t->config.fusion = TRI_FUSION_GATED;
    t->config.column_dim = 5, t->config.numeric_frequencies = 4;
    tri_columns table = {.n = is->no_table ? 0 : is->vectors ? 5 : 3, .at = is->vectors ? columns : NULL, .n_at = 4};
    tri__model_make(&t->arena, &t->config, t->encoder, table, (tri_texts){no_decay, 3}, &t->model);
    if (is->plan) OK(job_split(&t->model, is->plan));
    t->in.mesh = (tri_mesh){.pp = is->pp, .tp = is->tp, .dp = is->dp};
    t->in.rank = rank;
    t->in.staging = is->staging, t->in.sharding = is->sharding, t->in.recompute = is->recompute,
    t->in.sequence_parallel = is->sequence;
    t->in.precision = is->precision, t->in.reduce_dtype = TRI_F32;
    t->in.quantize = is->quantize, t->in.float_layers = is->float_layers;
    t->target.lanes = is->lanes;
    t->in.fed = is->fed, t->in.average = is->average;
    if (is->sync_every) t->in.optimizer.sync_every = is->sync_every;
    at = tri__mesh_coords(&t->in.mesh, rank);
    tiny_feed(t, is->n_mb, is->dp, at.dp);
    for (int mb = 0; mb < is->n_mb; mb++)
        t->feed[mb].counts = tri__counts_rounded(&t->feed[mb].counts, tri__plan_granule(&t->in));
    tiny_plan(t);
}

void job_open(job *j, job_what is) {
    const tri_program *program[TRI_PROGRAMS][JOB_RANKS];
    *j = (job){.is = *job_filled(&is), .n = is.pp * is.tp * is.dp};
    j->rank = calloc((size_t)j->n, sizeof *j->rank);
    for (int r = 0; r < j->n; r++) {
        job_plan(&j->rank[r], &j->is, r);
        for (int i = 0; i < TRI_PROGRAMS; i++) program[i][r] = j->rank[r].program[i];
    }
    for (int i = 0; i < TRI_PROGRAMS; i++) OK(tri__check(program[i], j->n));
    int64_t n = j->rank[0].model.n_elements;
    j->weights = malloc((size_t)n * sizeof *j->weights);
    j->writers = calloc((size_t)n, sizeof *j->writers);
    for (int64_t i = 0; i < n; i++) j->weights[i] = NAN;
}

void job_close(job *j) {
    for (int r = 0; r < j->n; r++) tiny_close(&j->rank[r]), free(j->probs[r]);
    free(j->rank), free(j->weights), free(j->writers);
}

/* Maps element e of the held part of a parameter to an element of the whole. */
static int64_t job_element(const tri_param *param, int64_t e) {
    int last = param->shape.n - 1;
    int64_t width = param->part.extent[last], row = e / width + (last ? param->part.start[0] : 0);
    return row * param->shape.dim[last] + param->part.start[last] + e % width;
}

void job_fill(const tri_param *param, tri_range held, tri_dtype dtype, void *flat) {
    tri_range part = tri__range_both(held, (tri_range){param->at, param->at + param->count});
    for (int64_t k = part.begin; k < part.end; k++) {
        float w;
        tri__random_normal(1, tri__random_id(param->name), 0.2f, job_element(param, k - param->at), 1, &w);
        if (param->init == TRI_INIT_ONE) w += 1;
        if (dtype == TRI_F32) ((float *)flat)[k - held.begin] = w;
        else ((uint16_t *)flat)[k - held.begin] = dtype == TRI_BF16 ? tri__to_bf16(w) : tri__to_f16(w);
    }
}

void job_init(const tiny *t, tri_exec *exec) {
    const tri_planned *train = &t->plan.train;
    const int *slot = train->master ? train->master : train->param;
    const tri_range *held = train->master ? train->state_part : train->param_part;
    for (int i = 0; i < t->plan.model->n_params; i++) {
        const tri_param *param = &t->plan.model->param[i];
        job_fill(param, held[param->unit], TRI_F32, tri__exec_slot(exec, 0, slot[param->unit]));
    }
}

/* Copies what this rank would save to job.weights, and counts writers of each element. */
static void job_collect(job *j, const tiny *t, const tri_exec *exec) {
    const tri_planned *train = &t->plan.train;
    for (int i = 0; i < t->plan.model->n_params; i++) {
        const tri_param *param = &t->plan.model->param[i];
        int64_t at = 0;
        for (int k = 0; strcmp(t->model.param[k].name, param->name) != 0; k++) at += t->model.param[k].count;
        const int *base = train->master ? train->master : train->param;
        tri_range held = train->master ? train->state_part[param->unit] : train->param_part[param->unit];
        tri_range part = tri__range_both(train->save_part[param->unit],
                                         (tri_range){param->at, param->at + param->count});
        const float *w = tri__exec_slot(exec, 0, base[param->unit]); /* [held] */
        for (int64_t k = part.begin; k < part.end; k++) {
            int64_t to = at + job_element(param, k - param->at);
            j->weights[to] = w[k - held.begin];
            __atomic_add_fetch(&j->writers[to], 1, __ATOMIC_RELAXED);
        }
    }
}

static tri_status job_step(job *j, tiny *t, tri_exec *exec, int rank, int step) {
    t->hyper[0] = 1e-2f, t->hyper[1] = (float)(1 - pow(0.9, step + 1)), t->hyper[2] = (float)(1 - pow(0.999, step + 1));
    TRI_TRY(tri__exec_run(exec, 0, 0, t->program[0]->n_instrs, (uint32_t)step + 1, t->feed, NULL));
    j->loss[rank][step] = tiny_loss(t, exec);
    j->norm[rank][step] = *(const double *)tri__exec_slot(exec, 0, t->plan.train.norm);
    return TRI_OK;
}

/* Runs in the rank's own thread, where nothing may be asserted. */
static tri_status job_main(tri_world *world, void *argument) {
    job *j = argument;
    int rank = world ? tri_world_rank(world) : 0;
    tiny *t = &j->rank[rank];
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = TRI_PROGRAMS,
                                            .seed = 7, .guard = TINY_GUARD, .world = world}, &exec));
    tiny_guards(exec, 1);
    job_init(t, exec);
    tri_status status = tiny_start(t, exec);
    for (int step = 0; step < j->is.steps && status == TRI_OK; step++) status = job_step(j, t, exec, rank, step);
    job_collect(j, t, exec);
    if (status == TRI_OK) status = tri__exec_run(exec, 1, 0, t->program[1]->n_instrs, 0, t->feed, NULL);
    size_t probs = (size_t)(t->feed[0].counts.of[TRI_SYM_N] * t->model.n_classes) * sizeof(float);
    j->probs[rank] = malloc(probs + 1);
    memcpy(j->probs[rank], tiny_probs(t, exec, tri__mesh_coords(&t->in.mesh, rank).dp * j->is.n_mb), probs);
    if (status == TRI_OK && !tiny_guards(exec, 0))
        status = tri__fail(TRI_INTERNAL, "rank %d wrote beyond what the plan gave it", rank);
    tri__exec_close(exec);
    return status;
}

void job_run(job *j) {
    if (j->n == 1) OK(job_main(NULL, j));
    else OK(tri_ranks_run(&(tri_ranks){.n = j->n, .heap_bytes = JOB_HEAP, .progress_timeout = 120}, job_main, j));
    for (int r = 1; r < j->n; r++) {
        assert_memory_equal(j->loss[r], j->loss[0], sizeof j->loss[0]);
        assert_memory_equal(j->norm[r], j->norm[0], sizeof j->norm[0]);
    }
    for (int64_t i = 0; i < j->rank[0].model.n_elements; i++)
        if (j->writers[i] != 1) fail_msg("element %lld would be saved by %d ranks", (long long)i, j->writers[i]);
}
