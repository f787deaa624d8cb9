/* stage.c - cuts the model into pipeline stages: sets of units, chosen to make the slowest stage as fast as possible,
 * or as the user says.
 *
 * A chain is cut from the units in the model's order. In a branch shape the ranks are split between the two encoders;
 * the table and the fusion follow the encoder that leaves the slowest stage faster. Costs are those of one microbatch's
 * template, in the mean of all steps where some leave layers out, or measured. */
#include "plan/pass.h"

static const double SAME = 1e-9; /* times that differ by less, relative to the larger, are the same */

typedef struct cutter {
    tri_arena *arena;
    const tri_plan_in *in;
    const tri_network *model;
    const tri_schedule_row *row;
    int n_stages, branches;      /* branches: two encoders side by side */
    tri_stage_time *time;        /* [n_units] */
    int (*edge)[2];              /* unit edge[i][1] reads what edge[i][0] computes forward; each once */
    int n_edges, cap_edges;
    int *place; /* [n_units] its set of units, in the model's or the user's order; -1: none yet */
} cutter;

static double total(const tri_stage_time *time) { return time->forward + time->input + time->weight; }

static int loss_at(const tri_program *program) {
    for (int i = 0; i < program->n_instrs; i++)
        if (program->instr[i].op == TRI_OP_cross_entropy || program->instr[i].op == TRI_OP_regress) return i;
    TRI_ASSERT(!"a template without a loss");
    return -1;
}

/* ---- Costs of units, and edges between them ---- */

static void weigh(cutter *c, const tri_program *program) {
    const tri_target *target = c->in->target;
    int by_rate = target->flops > 0 && target->bytes > 0, loss = loss_at(program);
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        if (tri__op_queue(instr->op) != TRI_QUEUE_COMPUTE) continue;
        tri_cost cost = tri__instr_cost(program, instr, &c->in->max);
        double time = by_rate ? cost.flops / target->flops + cost.bytes / target->bytes : cost.flops;
        time *= tri__instr_share(program, instr);
        tri_stage_time *unit = &c->time[instr->unit];
        if (i <= loss) unit->forward += time;
        else if (tri__instr_row(instr)->phase == TRI_PHASE_W) unit->weight += time;
        else unit->input += time;
    }
}

/* Adds a pair to a list, [*n], unless it is there. */
static void add_pair(tri_arena *arena, int (**pairs)[2], int *n, int *cap, int from, int to) {
    for (int i = 0; i < *n; i++)
        if ((*pairs)[i][0] == from && (*pairs)[i][1] == to) return;
    int *pair = *TRI_PUSH(arena, *pairs, *n, *cap);
    pair[0] = from, pair[1] = to;
}

static void find_edges(cutter *c, const tri_program *program) {
    int *maker = tri__none_yet(c->arena, program->n_slots); /* unit that computes a slot; -1 */
    for (int i = 0, loss = loss_at(program); i <= loss; i++) {
        const tri_instr *instr = &program->instr[i];
        if (tri__instr_row(instr)->phase == TRI_PHASE_I) continue;
        for (int k = TRI_MAX_ARGS - 1; k >= 0; k--) { /* outputs come first */
            int slot = instr->slot[k];
            if (tri__reads(instr, k) && maker[slot] >= 0 && maker[slot] != instr->unit)
                add_pair(c->arena, &c->edge, &c->n_edges, &c->cap_edges, maker[slot], instr->unit);
            if (tri__writes(instr, k)) maker[slot] = instr->unit;
        }
    }
}

/* ---- A run of units in n parts ---- */

/* Best cuts of a run of units, by dynamic programming: entry [n][u] is for its first u units in n parts. */
typedef struct cuts {
    const int *unit;     /* [n_units] of the run */
    int n_units;
    /* [(n_units + 1) * (n_units + 1)] the slowest part, at best; infinite where a part would be empty */
    double *slowest;
} cuts;

static double *best_of(const cuts *cuts, double *table, int parts, int units) {
    return &table[parts * (cuts->n_units + 1) + units];
}

/* Fills a table: the minimum of `join`(rest, part) over the choices of the last part. Parts over `most` are not
 * allowed. */
static void fill(const cutter *c, const cuts *run, double *table, double most, double (*join)(double, double)) {
    int n = run->n_units;
    for (int i = 0; i < (n + 1) * (n + 1); i++) table[i] = INFINITY;
    *best_of(run, table, 0, 0) = 0;
    for (int parts = 1; parts <= n; parts++)
        for (int end = parts; end <= n; end++) {
            if (end < n && c->model->unit[run->unit[end]].experts) continue; /* with their layer */
            double part = 0, *best = best_of(run, table, parts, end);
            for (int begin = end - 1; begin >= parts - 1; begin--) {
                part += total(&c->time[run->unit[begin]]);
                if (part > most) break;
                *best = fmin(*best, join(*best_of(run, table, parts - 1, begin), part));
            }
        }
}

static double slower(double rest, double part) { return fmax(rest, part); }
static double squares(double rest, double part) { return rest + part * part; }

static cuts cut_run(const cutter *c, const int *unit, int n) {
    cuts run = {.unit = unit, .n_units = n};
    run.slowest = tri__arena_alloc(c->arena, (size_t)((n + 1) * (n + 1)) * sizeof *run.slowest);
    fill(c, &run, run.slowest, INFINITY, slower);
    return run;
}

/* Gives the run's units places from `first` on, in `parts` parts: of the cuts whose slowest part is fastest, the most
 * even one. */
static void place_run(cutter *c, const cuts *run, int parts, int first) {
    size_t n = (size_t)run->n_units + 1;
    double *even = tri__arena_alloc(c->arena, n * n * sizeof *even),
           most = *best_of(run, run->slowest, parts, run->n_units) * (1 + SAME);
    fill(c, run, even, most, squares);
    for (int end = run->n_units; parts > 0; parts--) {
        double part = 0, want = *best_of(run, even, parts, end) * (1 + SAME);
        int begin = end;
        do {
            part += total(&c->time[run->unit[--begin]]);
            c->place[run->unit[begin]] = first + parts - 1;
        } while (squares(*best_of(run, even, parts - 1, begin), part) > want);
        end = begin;
    }
}

static void cut_chain(cutter *c) {
    int n = c->model->n_units, *unit = tri__arena_alloc(c->arena, (size_t)n * sizeof *unit);
    for (int u = 0; u < n; u++) unit[u] = u;
    cuts run = cut_run(c, unit, n);
    place_run(c, &run, c->n_stages, 0);
}

/* The units of an encoder, and after them the table and the fusion where `tail` is set. */
static cuts cut_branch(const cutter *c, int branch, int tail) {
    int n = 0, *unit = tri__arena_alloc(c->arena, (size_t)c->model->n_units * sizeof *unit);
    for (int u = 0; u < c->model->n_units; u++) {
        const char *name = c->model->unit[u].name;
        int of = strncmp(name, "primary.", 8) == 0 ? 0 : strncmp(name, "secondary.", 10) == 0 ? 1 : -1;
        if (of == branch || (of < 0 && tail)) unit[n++] = u;
    }
    return cut_run(c, unit, n);
}

/* Primary stages come first. In a tie, what follows the encoders goes with the secondary, which keeps routes short. */
static void cut_branches(cutter *c) {
    double least = INFINITY;
    int ranks = c->n_stages, best_first = 0, best_depth = 0;
    cuts best[2] = {{0}};
    for (int with = 1; with >= 0; with--) {
        cuts run[2] = {cut_branch(c, 0, with == 0), cut_branch(c, 1, with == 1)};
        for (int first = 1; first < ranks; first++) {
            if (first > run[0].n_units || ranks - first > run[1].n_units) continue;
            double slowest = fmax(*best_of(&run[0], run[0].slowest, first, run[0].n_units),
                                  *best_of(&run[1], run[1].slowest, ranks - first, run[1].n_units));
            int depth = first > ranks - first ? first : ranks - first, same = fabs(slowest - least) <= SAME * slowest;
            if (same ? depth >= best_depth : slowest > least) continue;
            least = slowest, best_first = first, best_depth = depth;
            memcpy(best, run, sizeof best);
        }
    }
    place_run(c, &best[0], best_first, 0);
    place_run(c, &best[1], ranks - best_first, best_first);
}

/* ---- As the user says ---- */

/* A word of `stages` as a range, "primary.layer.0-5": returns the length before the numbers; 0: it is not a range. */
static size_t range_of(const char *word, size_t length, long *first, long *last) {
    size_t stem = length;
    while (stem > 0 && strchr("0123456789-", word[stem - 1])) stem--;
    char *dash, *end;
    if (stem == length) return 0;
    *first = strtol(word + stem, &dash, 10);
    if (*dash != '-' || dash + 1 >= word + length) return 0;
    *last = strtol(dash + 1, &end, 10);
    return end == word + length ? stem : 0;
}

/* Whether a word of `stages` means a unit: its name, what its name begins with up to a dot, or a range. */
static int means(const char *word, size_t length, const char *unit) {
    long first, last;
    if (strncmp(word, unit, length) == 0 && (unit[length] == '\0' || unit[length] == '.')) return 1;
    size_t stem = range_of(word, length, &first, &last);
    if (stem == 0 || strncmp(word, unit, stem) != 0 || unit[stem] < '0' || unit[stem] > '9') return 0;
    long number = strtol(unit + stem, NULL, 10);
    return first <= number && number <= last;
}

static tri_status place_word(cutter *c, const char *word, size_t length, int place) {
    int found = 0;
    long first, last;
    for (int u = 0; u < c->model->n_units; u++) {
        const char *unit = c->model->unit[u].name;
        if (!means(word, length, unit)) continue;
        int is_again = c->place[u] == place && c->model->unit[u].experts; /* their layer brought them */
        if (c->place[u] >= 0 && !is_again)
            return tri__fail(TRI_USAGE, "stages: %s is in stage %d and again in stage %d: each unit belongs to one",
                             unit, c->place[u], place);
        c->place[u] = place;
        found += !c->model->unit[u].experts || length == strlen(unit);
    }
    if (found && range_of(word, length, &first, &last) && found != last - first + 1)
        return tri__fail(TRI_USAGE, "stages: \"%.*s\": this model has only %d of these", (int)length, word, found);
    if (found) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "stages: \"%.*s\" is not a unit of this model: give names as %s, %s or primary.layer.0-5",
                     (int)length, word, c->model->unit[0].name, c->model->unit[c->model->n_units - 1].name);
}

static tri_status place_given(cutter *c) {
    const tri_texts *stages = &c->in->staging.stages;
    if (stages->n != c->n_stages)
        return tri__fail(TRI_USAGE,
                         "stages names %d stages, but %d ranks of a pipeline have %d: give one list of units for each",
                         stages->n, c->in->mesh.pp, c->n_stages);
    for (int place = 0; place < stages->n; place++) {
        const char *word = stages->at[place];
        int words = 0;
        for (size_t length; *(word += strspn(word, " ,")); word += length, words++) {
            length = strcspn(word, " ,");
            TRI_TRY(place_word(c, word, length, place));
        }
        if (!words) return tri__fail(TRI_USAGE, "stages: stage %d has no unit", place);
    }
    for (int u = 0; u < c->model->n_units; u++)
        if (c->place[u] < 0)
            return tri__fail(TRI_USAGE, "stages: %s is in no stage: each unit belongs to one", c->model->unit[u].name);
    return TRI_OK;
}

/* ---- From sets of units to numbered stages ---- */

/* Whether a set of units can be the next stage: all sets that feed it are numbered. */
static int is_next(const cutter *c, const int *number, int place) {
    for (int i = 0; i < c->n_edges; i++) {
        int from = c->place[c->edge[i][0]], to = c->place[c->edge[i][1]];
        if (to == place && from != place && number[from] < 0) return 0;
    }
    return 1;
}

/* Numbers sets so that each comes after those that feed it: number [n_stages]. A chain keeps its order. */
static tri_status number_places(const cutter *c, int *number) {
    for (int place = 0; place < c->n_stages; place++) number[place] = -1;
    for (int stage = 0; stage < c->n_stages; stage++) {
        int place = c->branches ? 0 : stage;
        while (c->branches && place < c->n_stages && (number[place] >= 0 || !is_next(c, number, place))) place++;
        if (place == c->n_stages || !is_next(c, number, place)) {
            for (place = 0; number[place] >= 0; place++) {}
            for (int i = 0; i < c->n_edges; i++)
                if (c->place[c->edge[i][1]] == place && number[c->place[c->edge[i][0]]] < 0 &&
                    c->place[c->edge[i][0]] != place)
                    return tri__fail(TRI_USAGE, "stages: %s needs %s, which only a later stage computes",
                                     c->model->unit[c->edge[i][1]].name, c->model->unit[c->edge[i][0]].name);
        }
        number[place] = stage;
    }
    return TRI_OK;
}

static void find_feeds(const cutter *c, const int *of_unit, tri_pipeline *pipeline) {
    int (*feed)[2] = NULL, cap = 0;
    for (int s = 0; s + 1 < c->n_stages && !c->branches; s++)
        add_pair(c->arena, &feed, &pipeline->n_feeds, &cap, s, s + 1);
    for (int i = 0; i < c->n_edges && c->branches; i++) {
        int from = of_unit[c->edge[i][0]], to = of_unit[c->edge[i][1]];
        if (from != to) add_pair(c->arena, &feed, &pipeline->n_feeds, &cap, from, to);
    }
    int *depth = tri__arena_alloc(c->arena, (size_t)c->n_stages * sizeof *depth);
    for (int s = c->n_stages - 1; s >= 0; s--) /* those fed by s have higher numbers */
        for (int k = 0; k < pipeline->n_feeds; k++)
            if (feed[k][0] == s && depth[feed[k][1]] + 1 > depth[s]) depth[s] = depth[feed[k][1]] + 1;
    pipeline->feed = (const int(*)[2])feed;
    pipeline->depth = depth;
}

static tri_status finish(cutter *c, tri_stages *out) {
    size_t n = (size_t)c->n_stages;
    int *number = tri__arena_alloc(c->arena, n * sizeof *number), *rank = tri__arena_alloc(c->arena, n * sizeof *rank);
    TRI_TRY(number_places(c, number));
    *out = (tri_stages){.branches = c->branches, .head = c->n_stages - 1};
    out->of_unit = tri__arena_alloc(c->arena, (size_t)c->model->n_units * sizeof *out->of_unit);
    for (int u = 0; u < c->model->n_units; u++) out->of_unit[u] = number[c->place[u]];
    for (int place = 0; place < c->n_stages; place++)
        rank[number[place]] =
            c->branches ? place : tri__schedule_rank(c->row, number[place], c->in->mesh.pp, c->n_stages);
    out->pipeline = (tri_pipeline){
        .n_ranks = c->in->mesh.pp, .n_stages = c->n_stages, .n_mb = c->in->n_mb, .rank = rank};
    find_feeds(c, out->of_unit, &out->pipeline);
    return TRI_OK;
}

/* ---- How many stages ---- */

static tri_status count_stages(cutter *c) {
    const tri_staging *how = &c->in->staging;
    int pp = c->in->mesh.pp, fixed = c->row->chunks,
        chunks = how->chunks ? how->chunks
                 : fixed     ? fixed
                             : c->row->fewest;
    if (pp == 1) chunks = 1;
    else if (chunks < c->row->fewest || (fixed && chunks != fixed))
        return tri__fail(TRI_USAGE, "--schedule %s has %s%d stage%s a rank, not %d: leave --virtual-stages out",
                         c->row->name, fixed ? "" : "at least ", fixed ? fixed : c->row->fewest, fixed == 1 ? "" : "s",
                         chunks);
    c->n_stages = pp * chunks;
    c->branches = how->shape == TRI_SHAPE_BRANCH && c->model->n_encoders > 1 && pp > 1;
    char names[TRI_SCHEDULE_NAMES];
    if (c->branches && (c->row->chain || chunks > 1))
        return tri__fail(TRI_USAGE,
                         "--schedule %s with %d stages a rank is for stages in a row: give --pipeline-shape chain, or "
                         "a schedule with one stage a rank (%s)",
                         c->row->name, chunks, tri__schedule_names(1, names));
    int most = c->model->n_units - (int)tri__model_expert_layers(c->model); /* experts stay with their layer */
    if (c->n_stages <= most) return TRI_OK;
    if (chunks == 1)
        return tri__fail(TRI_USAGE,
                         "--pp-size %d: the model has only %d units to share out among stages; give %d at most", pp,
                         most, most);
    return tri__fail(TRI_USAGE,
                     "--pp-size %d with %d stages a rank makes %d stages, but the model has only %d units to share "
                     "out: give a smaller --pp-size, "
                     "or another --schedule",
                     pp, chunks, c->n_stages, most);
}

/* program: the template; its unit i is unit i of in->model. */
static tri_status cut(tri_arena *arena, const tri_plan_in *in, const tri_program *program, tri_stages *out) {
    cutter c = {.arena = arena, .in = in, .model = in->model, .row = tri__schedule_row(in->staging.schedule)};
    TRI_TRY(count_stages(&c));
    size_t bytes = (size_t)in->model->n_units * sizeof *c.time;
    c.time = tri__arena_alloc(arena, bytes);
    c.place = tri__none_yet(arena, in->model->n_units);
    if (in->staging.time) memcpy(c.time, in->staging.time, bytes);
    else weigh(&c, program);
    find_edges(&c, program);
    if (in->staging.stages.n && in->mesh.pp > 1) TRI_TRY(place_given(&c));
    else if (c.branches) cut_branches(&c);
    else cut_chain(&c);
    return finish(&c, out);
}

const tri_actions *tri__stages_orders(tri_arena *arena, const tri_plan_in *in, const tri_stages *stages) {
    tri_schedule_kind kind = stages->pipeline.n_ranks == 1 ? TRI_SCHEDULE_1F1B : in->staging.schedule;
    return tri__schedule_orders(arena, tri__schedule_row(kind), &stages->pipeline);
}

tri_status tri__stages_plan(tri_arena *arena, const tri_plan_in *in, tri_stages *out) {
    tri_plan_in rounded = *in;
    tri_pass pass = {.arena = arena, .in = &rounded, .training = 1, .model = in->model};
    rounded.max = tri__counts_rounded(&in->max, tri__plan_granule(in));
    tri__plan_experts(in->model, &rounded.max);
    TRI_TRY(tri__pass_forward(&pass));
    TRI_TRY(tri__pass_backward(&pass));
    if (in->recompute != TRI_RECOMPUTE_NONE) TRI_TRY(tri__pass_recompute(&pass));
    return cut(arena, &rounded, pass.program, out);
}

void tri__stages_one(tri_arena *arena, const tri_plan_in *in, tri_stages *out) {
    static const int zero[1];
    *out = (tri_stages){.pipeline = {.n_ranks = 1, .n_stages = 1, .n_mb = in->n_mb, .rank = zero, .depth = zero}};
    out->of_unit = tri__arena_alloc(arena, (size_t)in->model->n_units * sizeof *out->of_unit);
}
