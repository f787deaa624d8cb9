/* profile.c - the recorder's sums as JSON. */
#include "train/record/profile.h"

#include "program/live.h"
#include "sim/timeline.h"

#include <sys/resource.h>

typedef struct profile_job {
    const tri_recorder *recorder;
    tri_leg *leg;                   /* [n_legs] */
    int n_legs;
    int64_t peak[TRI_MEM_COUNT + 1]; /* most live bytes of each class, and of all together */
    tri_json **out;
} profile_job;

/* ---- Where the time went ---- */

static tri_json *parts_json(const tri_recorder *r) {
    double n = (double)r->kept, compute = 0, copies = 0, transfers = 0, waiting = 0;
    for (int v = 0; v < tri__variant_count(); v++) {
        tri_op op = tri__variant_row(v)->op;
        if (tri__op_queue(op) == TRI_QUEUE_COMPUTE) compute += r->op[v].seconds;
        else if (op == TRI_OP_input) copies += r->op[v].seconds;
    }
    for (int kind = 0; kind < TRI_TRANSFER_KINDS; kind++) {
        const tri_transfer_time *t = &r->transfer[kind];
        if (kind == TRI_TRANSFER_COPY) copies += t->exposed;
        else transfers += t->exposed - t->waiting, waiting += t->waiting;
    }
    double other = r->seconds - r->loader - compute - copies - transfers - waiting;
    return tri__json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "compute", compute / n, "copies", copies / n, "transfers",
                          transfers / n, "waiting", waiting / n, "loader", r->loader / n, "other", other / n);
}

typedef struct op_row {
    int variant;
    double seconds;
} op_row;

static int costliest_first(const void *a, const void *b) {
    const op_row *x = a, *y = b;
    return x->seconds == y->seconds ? x->variant - y->variant : x->seconds < y->seconds ? 1 : -1;
}

static tri_json *operations_json(const tri_recorder *r) {
    tri_json *list = tri__json_array();
    op_row rows[TRI_VARIANTS];
    int count = 0;
    double n = (double)r->kept;
    for (int v = 0; v < tri__variant_count(); v++)
        if (r->op[v].calls && !tri__begins(tri__variant_row(v)->op) && !tri__ends(tri__variant_row(v)->op))
            rows[count++] = (op_row){v, r->op[v].seconds};
    qsort(rows, (size_t)count, sizeof *rows, costliest_first);
    for (int i = 0; i < count; i++) {
        const tri_op_time *t = &r->op[rows[i].variant];
        const char *name = tri__variant_row(rows[i].variant)->name;
        tri__json_append_new(list, tri__json_pack("{s:s, s:I, s:f, s:f, s:f}", "name", name, "calls",
                                                  (tri_json_int)(t->calls / r->kept), "seconds", t->seconds / n,
                                                  "flops", t->flops / n, "bytes", t->bytes / n));
    }
    return list;
}

static tri_json *transfers_json(const tri_recorder *r) {
    tri_json *list = tri__json_array();
    double n = (double)r->kept;
    for (int kind = 0; kind < TRI_TRANSFER_KINDS; kind++) {
        const tri_transfer_time *t = &r->transfer[kind];
        if (!t->count) continue;
        tri__json_append_new(
            list, tri__json_pack("{s:s, s:I, s:f, s:f, s:f, s:f}", "kind", tri__transfer_name(kind), "count",
                                 (tri_json_int)(t->count / r->kept), "bytes", t->bytes / n, "seconds", t->seconds / n,
                                 "exposed_seconds", t->exposed / n, "waiting_seconds", t->waiting / n));
    }
    return list;
}

/* ---- Memory ---- */

static tri_json *class_json(int64_t planned, int64_t held, int64_t peak) {
    return tri__json_pack("{s:I, s:I, s:I}", "planned", (tri_json_int)planned, "held", (tri_json_int)held, "peak",
                          (tri_json_int)peak);
}

static tri_json *process_json(const tri_session *s) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    tri_json *process = tri__json_pack("{s:I, s:I}", "held", (tri_json_int)tri__memory_held(), "max_rss",
                                       (tri_json_int)usage.ru_maxrss * 1024);
    if (s->used) tri__json_set_new(process, "device", tri__json_integer(s->used));
    return process;
}

static tri_json *memory_json(const profile_job *job) {
    const tri_session *s = job->recorder->session;
    const tri_program *p = job->recorder->program;
    tri_json *memory = tri__json_object();
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        int64_t held;
        tri__exec_memory(s->engine.exec, (tri_mem)mem, &held);
        if (held || p->bytes[mem])
            tri__json_set_new(memory, tri__mem_name((tri_mem)mem), class_json(p->bytes[mem], held, job->peak[mem]));
    }
    tri__json_set_new(memory, "total", class_json(tri__program_bytes(p), tri__exec_bytes(s->engine.exec),
                                                  job->peak[TRI_MEM_COUNT]));
    tri__json_set_new(memory, "process", process_json(s));
    return memory;
}

/* ---- The last recorded step ---- */

static tri_json *flights_json(const tri_recorder *r) {
    tri_json *list = tri__json_array();
    const tri_program *p = r->program;
    for (int i = 0; i < p->n_instrs; i++)
        if (tri__begins(p->instr[i].op) && tri__is_open(&p->instr[i], &r->session->feed[0].gates))
            tri__json_append_new(list, tri__json_pack("[s, f, f]", tri__transfer_name(tri__transfer_kind(&p->instr[i])),
                                                      r->times[i].begin - r->zero,
                                                      r->times[r->partner[i]].end - r->zero));
    return list;
}

static tri_json *timeline_json(const profile_job *job) {
    const tri_recorder *r = job->recorder;
    return tri__json_pack("{s:I, s:f, s:f, s:o, s:o}", "step", (tri_json_int)r->last_step, "begin",
                          r->begin - r->waited - r->zero, "end", r->end - r->zero, "legs",
                          tri__legs_json(job->leg, job->n_legs), "transfers", flights_json(r));
}

static tri_json *coords_json(const tri_place *place) {
    tri_coords at = tri__mesh_coords(&place->mesh, place->rank);
    return tri__json_pack("{s:i, s:i, s:i, s:i}", "pp", at.pp, "tp", at.tp, "cp",
                          tri__mesh_context(&place->mesh, place->rank), "dp",
                          tri__mesh_reader(&place->mesh, place->rank));
}

/* Steps of each kind among the recorded ones: {"full": 3}. */
static tri_json *kinds_json(const tri_recorder *r) {
    tri_json *kinds = tri__json_object();
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++)
        if (r->of_kind[gate])
            tri__json_set_new(kinds, tri__gate_name((tri_gate)gate), tri__json_integer(r->of_kind[gate]));
    return kinds;
}

static tri_status make(const profile_job *job) {
    const tri_recorder *r = job->recorder;
    const tri_engine *e = &r->session->engine;
    double n = (double)r->kept;
    *job->out = tri__json_pack(
        "{s:i, s:i, s:i, s:o, s:s, s:[I, I], s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:f, s:f}}", "format", 1, "rank",
        e->place.rank, "world", tri__mesh_world(&e->place.mesh), "coords", coords_json(&e->place), "device",
        tri__exec_describe(e->exec), "steps", (tri_json_int)r->first_step, (tri_json_int)r->last_step, "seconds",
        r->seconds / n, "parts", parts_json(r), "operations", operations_json(r), "modules",
        tri__modules_json(&e->model, e->plan.model, r->modules.time, n, 0), "transfers", transfers_json(r), "memory",
        memory_json(job), "timeline", timeline_json(job), "clock", "offset", r->clock.offset, "uncertainty",
        r->clock.uncertainty);
    if (*job->out && r->program->gates) tri__json_set_new(*job->out, "kinds", kinds_json(r));
    return *job->out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for the profile");
}

/* A leg ends where the rank waits. Shorter gaps between instructions are closed: they are the host's, or too short to
 * be seen in a picture of the step. */
static void find_legs(profile_job *job, tri_arena *arena) {
    const tri_recorder *r = job->recorder;
    const tri_program *p = r->program;
    tri_rank_timeline line = {.program = p};
    double shortest = (r->end - r->begin) / 200, last = -INFINITY, waited = 0;
    line.begin = tri__arena_alloc(arena, (size_t)p->n_instrs * sizeof *line.begin);
    line.end = tri__arena_alloc(arena, (size_t)p->n_instrs * sizeof *line.end);
    for (int i = 0; i < p->n_instrs; i++) {
        double begin = r->times[i].begin - r->zero, end = r->times[i].end - r->zero;
        if (tri__ends(p->instr[i].op)) waited += end - begin;
        line.begin[i] = begin, line.end[i] = end;
        if (tri__op_queue(p->instr[i].op) != TRI_QUEUE_COMPUTE) continue;
        if (waited < shortest && last > -INFINITY) line.begin[i] = last;
        last = end, waited = 0;
    }
    job->n_legs = tri__timeline_legs(arena, &line, &job->leg);
}

static void find_peaks(profile_job *job, tri_arena *arena) {
    const tri_program *p = job->recorder->program;
    const int64_t *live = tri__program_live(arena, p);
    for (int i = 0; i < p->n_instrs; i++) {
        int64_t all = 0;
        for (int mem = 0; mem <= TRI_MEM_COUNT; mem++) {
            int64_t now = mem < TRI_MEM_COUNT ? live[(int64_t)i * TRI_MEM_COUNT + mem] : all;
            if (now > job->peak[mem]) job->peak[mem] = now;
            all += now;
        }
    }
}

/* All that needs the arena first: an arena that cannot grow would leak what else is owned. */
static tri_status prepare(tri_arena *scratch, void *data) {
    profile_job *job = data;
    find_legs(job, scratch);
    find_peaks(job, scratch);
    return make(job);
}

tri_status tri__profile_json(const tri_recorder *recorder, tri_json **out) {
    profile_job job = {.recorder = recorder, .out = out};
    *out = NULL;
    return tri__arena_scratch(prepare, &job);
}
