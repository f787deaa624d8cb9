/* async.c - curves of an asynchronous device's kernels, as they run in a captured graph.
 *
 * A model's step is replayed without a pause until clock and temperature are those of a long run: that is what a step
 * takes. Between, steps with marks say how it is divided; a mark costs time itself, the same for each instruction.
 * Models at the power limit are measured for longer; marked steps of such took 2 to 3 % less than those without marks,
 * to which their times are scaled. How much of each kernel's time is left to the other lane follows from a model of two
 * texts: its instructions one after the other take longer than its step. */
#include "study/calibrate/calibrate_parts.h"

enum {
    MOST_MARKED = 12,      /* marked steps of a model */
    MOST_WINDOWS = 64,
    WARM_STEPS = 4,        /* a graph is made of the second */
    FEW = 4, MANY = 16,    /* layers: of light models, of others; the last one computes only first tokens */
    WORDS = 1000, MANY_WORDS = 30000, /* of models of few and of many layers */
    STEPS = 24,            /* with a wait each */
    QUEUED = 8,            /* runs that are not graphs */
    FP32_WORK = 800000     /* tokens times width */
};
static const double WINDOW = 0.04,      /* seconds of steps between two looks at the clock */
    LIGHT = 0.12, HEAVY = 1.7,          /* seconds of a model's steps, below the power limit and at it */
    HEAVY_FLOPS = 4e14,                 /* a second, from which on the power limit is reached */
    QUEUE_MARKED = 12e-6,               /* seconds in which the host queues an instruction and its mark, about */
    LEAST = 0.5e-6;                     /* seconds of a kernel */

/* width, heads, tokens, length, layers, ragged; models at the power limit last, and with more layers, as models of that
 * width have. Ragged ones have token counts as they come, also odd ones. */
static const struct async_row {
    int width, heads, tokens, length, layers;
    double ragged;
} rows[] = {
    {64, 4, 64, 16, FEW, 0},              {64, 4, 1024, 32, FEW, 0},            {128, 2, 512, 128, FEW, 0},
    {128, 2, 8192, 512, FEW, 0},          {256, 4, 512, 64, FEW, 0},            {256, 4, 2048, 128, FEW, 0},
    {256, 4, 8192, 512, FEW, 0},          {384, 12, 512, 128, FEW, 0},          {384, 12, 2048, 64, FEW, 0},
    {384, 12, 2048, 256, FEW, 0},         {384, 12, 8192, 256, FEW, 0},         {384, 6, 32768, 256, FEW, 0},
    {512, 8, 512, 32, FEW, 0},            {512, 8, 2048, 128, FEW, 0},          {512, 8, 8192, 512, FEW, 0},
    {640, 10, 4096, 128, FEW, 0},         {768, 12, 512, 128, FEW, 0},          {768, 12, 2048, 128, FEW, 0},
    {768, 12, 4096, 256, FEW, 0},         {1024, 16, 512, 64, FEW, 0},          {1024, 16, 2048, 256, FEW, 0},
    {768, 12, 8192, 32, FEW, 0},          {1536, 24, 2048, 128, FEW, 0},        {2048, 16, 512, 128, FEW, 0},
    {2048, 16, 2048, 512, FEW, 0},        {256, 4, 1024, 32, FEW, 1},           {384, 12, 2048, 64, FEW, 0.5},
    {384, 12, 2048, 80, FEW, 1.2},        {384, 12, 3072, 96, FEW, 1},          {512, 8, 4096, 128, FEW, 1},
    {768, 12, 3000, 100, FEW, 1},         {1024, 16, 2500, 100, FEW, 1},        {768, 12, 6500, 100, FEW, 1.2},
    {768, 12, 8000, 160, FEW, 0.5},       {768, 12, 9000, 150, FEW, 1},         {768, 12, 10000, 180, FEW, 1.2},
    {1024, 16, 7000, 200, FEW, 1},        {512, 8, 20000, 150, FEW, 1},         {768, 12, 24000, 200, MANY, 1},
    {512, 8, 32768, 128, MANY, 0},        {768, 12, 8192, 512, MANY, 0},        {768, 12, 8192, 128, MANY, 0},
    {768, 12, 32768, 128, MANY, 0},       {768, 12, 32768, 512, MANY, 0},       {1024, 16, 8192, 512, MANY, 0},
    {1024, 16, 32768, 512, MANY, 0},      {2048, 16, 8192, 1024, MANY / 2, 0},  {2048, 16, 20480, 512, MANY / 2, 0},
    {768, 12, 32768, 1024, MANY, 0},      {1536, 24, 8192, 256, MANY / 2, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Of two texts, in two lanes. */
static const struct async_row pair = {768, 12, 4096, 256, FEW, 0};
/* Short kernels: what the host needs counts most. */
static const struct async_row brief = {128, 2, 512, 128, FEW, 0};

typedef struct async_run {
    const tri_calibration *asked;
    tri_samples *samples;
    double mark;               /* seconds that a mark adds; of the last model below the power limit */
} async_run;

/* What one model took. */
typedef struct measured {
    double window[MOST_WINDOWS], sum[MOST_MARKED]; /* seconds: of a step without marks; of all instructions with */
    tri_time *times;           /* [MOST_MARKED][n] */
    int windows, marked, n;    /* n: instructions */
} measured;

/* Steps without marks, for about WINDOW seconds. */
static tri_status run_window(tri_trial *trial, int steps, double *step) {
    double begin = tri__clock();
    for (int i = 0; i < steps; i++) TRI_TRY(tri__trial_queue(trial, NULL));
    TRI_TRY(tri__exec_finish(trial->exec));
    *step = (tri__clock() - begin) / steps;
    return TRI_OK;
}

/* A marked step behind two others, so that the device is at work until the host has queued it. */
static tri_status run_marked(tri_trial *trial, measured *m, double step) {
    tri_time *times = m->times + (size_t)m->marked * (size_t)m->n;
    double ahead = QUEUE_MARKED * m->n - step;
    for (int i = 0; i < 2; i++) TRI_TRY(tri__trial_queue(trial, NULL));
    if (ahead > 0) tri__exec_hold(trial->exec, ahead);
    TRI_TRY(tri__trial_queue(trial, times));
    TRI_TRY(tri__exec_finish(trial->exec));
    m->sum[m->marked] = 0;
    for (int i = 0; i < m->n; i++) m->sum[m->marked] += times[i].end - times[i].begin;
    m->marked++;
    return TRI_OK;
}

static tri_status run_steps(tri_trial *trial, double flops, measured *m) {
    double step = 0, begin = tri__clock();
    for (int i = 0; i < WARM_STEPS; i++) TRI_TRY(run_window(trial, 1, &step));
    TRI_TRY(run_window(trial, WARM_STEPS, &step));
    double seconds = flops / step < HEAVY_FLOPS ? LIGHT : HEAVY;
    int steps = step < WINDOW ? (int)(WINDOW / step) : 1, every = (int)(seconds / WINDOW / MOST_MARKED) + 1;
    for (int i = 0; m->windows < MOST_WINDOWS && (i < every + 1 || tri__clock() - begin < seconds); i++) {
        TRI_TRY(run_window(trial, steps, &m->window[m->windows++]));
        if (i % every == every - 1 && m->marked < MOST_MARKED) TRI_TRY(run_marked(trial, m, step));
    }
    return TRI_OK;
}

/* From times between marks to those of a graph's kernels. */
static void correct(async_run *run, measured *m, int heavy, double step) {
    double sum = tri__median(m->sum, m->marked), mark = (sum - step) / m->n, scale = 1;
    if (!heavy && mark > 0) run->mark = mark;
    mark = run->mark;
    double rest = 0;
    for (int i = 0; i < m->marked * m->n; i++) {
        m->times[i] = (tri_time){0, fmax(LEAST, m->times[i].end - m->times[i].begin - mark)};
        rest += m->times[i].end / m->marked;
    }
    if (rest > 0) scale = step / rest;
    for (int i = 0; i < m->marked * m->n; i++) m->times[i].end *= scale;
}

static tri_trial_case case_of(const struct async_row *row, tri_dtype precision, int texts) {
    return (tri_trial_case){.width = row->width, .heads = row->heads, .inner = 4 * row->width, .layers = row->layers,
                            .words = row->layers == FEW ? WORDS : MANY_WORDS, .texts = texts, .tokens = row->tokens,
                            .length = row->length, .ragged = row->ragged, .microbatches = 1, .precision = precision};
}

/* *step: seconds of a step without marks; *marked: of its instructions one after the other. */
static tri_status measure(async_run *run, tri_trial *trial, const tri_trial_case *at, double *step, double *marked) {
    measured m = {.n = trial->program[TRI_TRAIN]->n_instrs};
    double flops = tri__trial_flops(at);
    TRI_OWNED(tri__free_at) void *times = m.times = calloc((size_t)MOST_MARKED * (size_t)m.n, sizeof *m.times);
    if (!times) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(run_steps(trial, flops, &m));
    int heavy = flops / m.window[0] >= HEAVY_FLOPS, first = heavy ? m.windows / 3 : 0;
    *step = tri__median(m.window + first, m.windows - first);
    *marked = tri__median(m.sum, m.marked) - run->mark * m.n;
    if (at->texts != 1) return TRI_OK;
    correct(run, &m, heavy, *step);
    return tri__samples_add(run->samples, trial, 0, m.times, m.marked);
}

static tri_status measure_row(async_run *run, const struct async_row *row, tri_dtype precision) {
    tri_trial_case at = case_of(row, precision, 1);
    TRI_OWNED(tri__trial_drop) tri_trial *trial = NULL;
    double step = 0, marked, begin = tri__clock();
    TRI_TRY(tri__trial_open(run->asked->device, &at, 0, &trial));
    TRI_TRY(measure(run, trial, &at, &step, &marked));
    tri__say(run->asked->log, TRI_LOG_INFO, "%s, %d wide, %lld tokens in sequences of %s%d: %.3f ms a step, %.1f s",
             tri__dtype_name(precision), at.width, (long long)trial->feed[0].counts.of[TRI_SYM_T0],
             at.ragged > 0 ? "about " : "", at.length, 1e3 * step, tri__clock() - begin);
    return TRI_OK;
}

/* ---- Two lanes ---- */

/* Instructions of both lanes overlap two by two. */
static tri_status measure_lanes(async_run *run, double *launch) {
    tri_trial_case at = case_of(&pair, TRI_BF16, 2);
    TRI_OWNED(tri__trial_drop) tri_trial *trial = NULL;
    double step = 0, marked = 0;
    int second = 0;
    TRI_TRY(tri__trial_open(run->asked->device, &at, 0, &trial));
    TRI_TRY(measure(run, trial, &at, &step, &marked));
    for (int i = 0; i < trial->program[TRI_TRAIN]->n_instrs; i++)
        second += trial->program[TRI_TRAIN]->instr[i].lane == 1;
    if (second) *launch = fmax(0, marked - step) / (2 * second);
    return TRI_OK;
}

/* ---- The host ---- */

static tri_status time_host(tri_trial *trial, tri_hardware *out) {
    double alone[STEPS], queueing[QUEUED], step = 0;
    for (int i = 0; i < WARM_STEPS; i++) TRI_TRY(run_window(trial, 1, &step));
    TRI_TRY(run_window(trial, STEPS, &step));
    for (int i = 0; i < STEPS; i++) {
        double begin = tri__clock();
        TRI_TRY(tri__trial_run_step(trial));
        alone[i] = tri__clock() - begin;
    }
    for (int i = 0; i < QUEUED; i++) TRI_TRY(tri__trial_queueing(trial, i + 1, &queueing[i]));
    out->host.step = fmax(0, tri__median(alone, STEPS) - step), out->queue = tri__median(queueing, QUEUED);
    return TRI_OK;
}

static tri_status measure_host(async_run *run, char machine[static TRI_MACHINE], tri_hardware *out) {
    tri_trial_case at = case_of(&brief, TRI_BF16, 1);
    TRI_OWNED(tri__trial_drop) tri_trial *trial = NULL;
    TRI_TRY(tri__trial_open(run->asked->device, &at, 0, &trial));
    TRI_TRY(time_host(trial, out));
    snprintf(machine, TRI_MACHINE, "%s", tri__exec_describe(trial->exec));
    return TRI_OK;
}

/* 16 bits in all sizes; fp32, whose attention is slow, in small ones. */
static tri_status measure_rows(async_run *run) {
    double begin = tri__clock();
    for (int i = 0; i < ROWS; i++) {
        if (run->asked->stop) TRI_TRY(tri__stop_check(run->asked->stop, "the device was being measured"));
        if (tri__clock() - begin > run->asked->seconds) break;
        TRI_TRY(measure_row(run, &rows[i], TRI_BF16));
        if ((int64_t)rows[i].width * rows[i].tokens <= FP32_WORK) TRI_TRY(measure_row(run, &rows[i], TRI_F32));
    }
    return TRI_OK;
}

tri_status tri__calibrate_async(const tri_calibration *asked, tri_samples *samples, char machine[static TRI_MACHINE],
                                tri_hardware *out) {
    async_run run = {.asked = asked, .samples = samples};
    int64_t bytes = 0;
    TRI_TRY(asked->device->room(&tri__core, 0, &bytes));
    out->memory = (double)bytes, out->launch = 0;
    TRI_TRY(tri__calibrate_copies(asked->device, out));
    TRI_TRY(measure_host(&run, machine, out));
    TRI_TRY(measure_rows(&run));
    return measure_lanes(&run, &out->launch);
}
