/* recorder.c - records steps; all memory is allocated when the recorder is opened. */
#include "train/record/recorder.h"

#include "program/live.h"
#include "train/record/profile.h"
#include "comm/ops/describe.h"

enum { SKIPPED = 3, RECORDED = 3 }; /* without --profile: caches and branch predictors are warm after a few steps */
static const double tell_seconds = 60;

const char *tri__transfer_name(int kind) {
    if (kind == TRI_TRANSFER_CONTROL) return "control";
    return kind == TRI_TRANSFER_COPY ? "copy" : tri__collective_name((tri_collective_kind)kind);
}

int tri__transfer_kind(const tri_instr *post) {
    if (post->op == TRI_OP_copy_post) return TRI_TRANSFER_COPY;
    return tri__on_host(post->op) ? TRI_TRANSFER_CONTROL : (int)tri__post_kind(post->op);
}

/* ---- Opening ---- */

/* Each post with its wait. A wait names its post's slots, and no other post of its kinds of steps may own them in
 * between. */
static tri_status find_partners(tri_recorder *r) {
    const tri_program *p = r->program;
    /* the last post that names a slot */
    TRI_OWNED(tri__free_at) int *open = malloc(((size_t)p->n_slots + 1) * sizeof *open);
    if (!open) return tri__fail(TRI_RESOURCE, "out of memory for the profile");
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        r->partner[i] = -1;
        if (!tri__begins(instr->op) && !tri__ends(instr->op)) continue;
        tri_ends ends = tri__transfer_ends(instr);
        int slot = ends.y >= 0 ? ends.y : ends.x;
        if (tri__begins(instr->op)) open[slot] = i;
        else {
            int post = tri__same_gates(&p->instr[open[slot]], instr) ? open[slot] : tri__transfer_post_of(p, i);
            r->partner[i] = post, r->partner[post] = i;
        }
    }
    return TRI_OK;
}

static tri_status make_room(tri_recorder *r) {
    size_t n = (size_t)r->program->n_instrs;
    r->times = calloc(n, sizeof *r->times);
    r->idle = calloc(n, sizeof *r->idle);
    r->partner = calloc(n, sizeof *r->partner);
    if (r->traced) r->spans = calloc((n + 1) * (size_t)r->active, sizeof *r->spans);
    return r->times && r->idle && r->partner && (!r->traced || r->spans)
               ? find_partners(r)
               : tri__fail(TRI_RESOURCE, "out of memory for a profile of %lld steps", (long long)r->active);
}

static tri_status find_live(tri_arena *scratch, void *data) {
    tri_recorder *r = data;
    size_t n = (size_t)r->program->n_instrs * TRI_MEM_COUNT;
    const int64_t *live = tri__program_live(scratch, r->program);
    TRI_TRY(TRI_NEW(r->live, n, "the profile"));
    memcpy(r->live, live, n * sizeof *live);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) r->classes[mem] = tri__mem_name((tri_mem)mem);
    return TRI_OK;
}

tri_status tri__recorder_open(tri_recorder *r, const char *text, tri_session *session) {
    tri_profile_steps steps;
    *r = (tri_recorder){.session = session, .program = session->engine.plan.train.program, .traced = text != NULL,
                        .async = tri__exec_runs_on(session->engine.exec)};
    if (text) {
        TRI_TRY(tri__profile_parse(text, &steps));
        r->first = steps.wait + steps.warmup, r->active = steps.active;
    } else if (tri__exec_can_time(session->engine.exec)) { /* of a run too short for the usual ones, steps at its end */
        int64_t left = session->steps - session->at.step;
        r->active = left < RECORDED ? left : RECORDED;
        r->first = left < SKIPPED + RECORDED ? left - r->active : SKIPPED;
    }
    TRI_TRY(make_room(r));
    if (r->traced) TRI_TRY(tri__arena_scratch(find_live, r));
    TRI_TRY(tri__modules_open(&r->modules, &session->engine.model, r->program));
    return tri__clocks_compare(session->place.world, &r->clock, &r->zero);
}

void tri__recorder_close(tri_recorder *r) {
    for (int64_t i = 0; i < r->n_spans; i++) free((char *)r->spans[i].shape);
    TRI_FREE(r->times, r->idle, r->partner, r->spans, r->live);
    tri__modules_close(&r->modules);
    tri__json_decref(r->profile);
    *r = (tri_recorder){0};
}

/* ---- Recording ---- */

static int is_recorded(const tri_recorder *r, int64_t seen) { return seen >= r->first && seen < r->first + r->active; }

void tri__recorder_before(tri_recorder *r) {
    tri_session *session = r->session;
    int now = is_recorded(r, r->seen);
    session->times = now ? r->times : NULL;
    tri__exec_note_idle(session->engine.exec, now ? r->idle : NULL);
    if (!now) return;
    memset(r->idle, 0, (size_t)r->program->n_instrs * sizeof *r->idle);
    r->waited = session->waited;
    r->begin = tri__clock();
    if (r->seen == r->first) r->origin = r->begin - r->waited;
}

static const tri_counts *counts_of(const tri_recorder *r, const tri_instr *instr) {
    return &r->session->feed[instr->mb < 0 ? 0 : instr->mb].counts;
}

/* Whether an instruction runs in the current step. */
/* Before the first step there is nothing to copy. */
static int runs(const tri_recorder *r, const tri_instr *instr) {
    int copied = !tri__is_keeping(r->program, instr) || r->times[instr - r->program->instr].end > 0;
    return copied && tri__is_open(instr, &r->session->feed[0].gates);
}

static void add_operation(tri_recorder *r, int i) {
    const tri_instr *instr = &r->program->instr[i];
    tri_cost cost = tri__instr_cost(r->program, instr, counts_of(r, instr));
    double seconds = r->times[i].end - r->times[i].begin;
    tri_op_time *op = &r->op[tri__variant((tri_op)instr->op, &instr->attr)];
    op->calls++, op->seconds += seconds, op->flops += cost.flops, op->bytes += cost.bytes;
    if (tri__op_queue(instr->op) == TRI_QUEUE_COMPUTE) tri__modules_add(&r->modules, instr, cost.flops, seconds);
}

/* Posts begin in program order, so a transfer overlaps earlier ones of its kind if it begins before the latest end;
 * until: [TRI_TRANSFER_KINDS]. */
static void add_transfer(tri_recorder *r, int post, double *until) {
    const tri_program *p = r->program;
    const tri_instr *instr = &p->instr[post];
    int kind = tri__transfer_kind(instr), wait = r->partner[post];
    tri_transfer_time *t = &r->transfer[kind];
    const tri_counts *counts = counts_of(r, instr);
    double begin = r->times[post].begin > until[kind] ? r->times[post].begin : until[kind], end = r->times[wait].end;
    t->count++;
    t->bytes += kind == TRI_TRANSFER_COPY ? (double)tri__slot_bytes(&p->slot[tri__transfer_ends(instr).y], counts)
                                          : tri__transfer_sent(p, instr, counts);
    if (end > begin) t->seconds += end - begin, until[kind] = end;
    /* An asynchronous device computes while a transfer is on its queue. */
    t->exposed += (r->async ? 0 : r->times[post].end - r->times[post].begin) + end - r->times[wait].begin;
    t->waiting += r->idle[post] + r->idle[wait];
}

static void add_step(tri_recorder *r) {
    const tri_program *p = r->program;
    double until[TRI_TRANSFER_KINDS] = {0};
    for (int i = 0; i < p->n_instrs; i++) {
        if (!runs(r, &p->instr[i])) continue;
        add_operation(r, i);
        if (tri__begins(p->instr[i].op)) add_transfer(r, i, until);
    }
    r->last_step = r->session->at.step;
    if (!r->kept++) r->first_step = r->last_step;
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++) r->of_kind[gate] += r->session->feed[0].gates.kind >> gate & 1;
    r->seconds += r->end - r->begin + r->waited, r->loader += r->waited;
}

/* ---- Spans ---- */

/* "[1024,384]": the first operand given (a send has no output), as bound. */
static char *shape_text(const tri_program *program, const tri_instr *instr, const tri_counts *counts) {
    int first = 0;
    while (first + 1 < TRI_MAX_ARGS && instr->slot[first] < 0) first++;
    if (instr->slot[first] < 0) return strdup("");
    const tri_slot *slot = &program->slot[instr->slot[first]];
    char *text = NULL;
    if (asprintf(&text, "[%lld,%lld]", (long long)tri__slot_rows(slot, counts), (long long)slot->cols) < 0) return NULL;
    return text;
}

static tri_track track_of(const tri_recorder *r, const tri_instr *instr) {
    tri_queue queue = tri__op_queue(instr->op);
    /* An asynchronous device's lane waits; otherwise the rank does, and it has one thread. */
    if (queue == TRI_QUEUE_COMPUTE || (r->async && tri__ends(instr->op)))
        return instr->lane ? TRI_TRACK_LANE : TRI_TRACK_COMPUTE;
    return queue == TRI_QUEUE_COMM ? TRI_TRACK_COMM : TRI_TRACK_COPY;
}

/* The two ranks of a message; the same on both. Returns 0 without memory. */
static int name_message(const tri_program *p, const tri_instr *post, tri_span *span) {
    int first, peer = 0, size = tri__transfer_size(&p->mesh, &post->attr);
    TRI_OWNED(tri__free_at) int *ranks = malloc((size_t)size * sizeof *ranks);
    if (!ranks) return 0;
    tri__transfer_members(&p->mesh, p->rank, &post->attr, ranks);
    peer = ranks[post->attr.root], first = post->op == TRI_OP_send_post;
    span->sender = first ? p->rank : peer, span->receiver = first ? peer : p->rank, span->id = post->attr.id;
    return 1;
}

/* What a trace says of a transfer's two ends. A message is drawn from its post at the sender to its wait at the
 * receiver. Returns 0 without memory. */
static int mark_transfer(const tri_recorder *r, int i, tri_span *span) {
    const tri_program *p = r->program;
    int posts = tri__begins(p->instr[i].op), post = posts ? i : r->partner[i];
    const tri_instr *instr = &p->instr[post];
    span->transfer = post + 1, span->posts = posts;
    if (instr->op == TRI_OP_copy_post) return 1;
    if (posts) span->sent = tri__transfer_sent(p, instr, counts_of(r, instr));
    int named = (posts && instr->op == TRI_OP_send_post) || (!posts && instr->op == TRI_OP_recv_post);
    return !named || name_message(p, instr, span);
}

static tri_status keep_spans(tri_recorder *r) {
    const tri_program *program = r->program;
    r->spans[r->n_spans++] = (tri_span){.name = "wait for the batch", .unit = "", .shape = strdup(""),
                                        .begin = r->begin - r->waited - r->origin, .end = r->begin - r->origin,
                                        .step = r->last_step, .mb = -1, .track = TRI_TRACK_LOADER};
    int whole = r->spans[r->n_spans - 1].shape != NULL;
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        const tri_counts *counts = counts_of(r, instr);
        if (!runs(r, instr)) continue;
        tri_cost cost = tri__instr_cost(program, instr, counts);
        tri_span *span = &r->spans[r->n_spans++];
        *span = (tri_span){.name = tri__instr_row(instr)->name,
                           .unit = instr->unit >= 0 ? program->unit[instr->unit] : "",
                           .shape = shape_text(program, instr, counts), .begin = r->times[i].begin - r->origin,
                           .end = r->times[i].end - r->origin, .flops = cost.flops, .bytes = cost.bytes,
                           .step = r->last_step, .mb = instr->mb, .track = track_of(r, instr),
                           .live = &r->live[(int64_t)i * TRI_MEM_COUNT]};
        whole &= (r->partner[i] < 0 || mark_transfer(r, i, span)) && span->shape;
    }
    return whole ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory for the trace of step %lld", (long long)r->last_step);
}

/* ---- Telling ---- */

static tri_status tell(tri_recorder *r) {
    const tri_shares *of = &r->shares;
    double safe = of->seconds > 0 ? of->seconds : 1;
    tri__json_set_new(r->profile, "shares",
                      tri__json_pack("{s:I, s:f, s:f, s:f, s:f}", "steps", (tri_json_int)of->steps, "seconds",
                                     of->seconds, "loader", of->loader / safe, "transfers", of->transfers / safe,
                                     "waiting", of->waiting / safe));
    r->written = tri__clock();
    return tri__session_emit(r->session, &(tri_event){.kind = TRI_EVENT_PROFILE, .facts = r->profile});
}

/* What was recorded, with its spans. */
static tri_status tell_first(tri_recorder *r) {
    const tri_session *session = r->session;
    const tri_world *world = session->place.world;
    if (!r->traced && session->place.rank >= TRI_PROFILED_RANKS) return TRI_OK;
    TRI_TRY(tri__profile_json(r, &r->profile));
    if (r->traced)
        TRI_TRY(tri__session_emit(session, &(tri_event){.kind = TRI_EVENT_PROFILE, .facts = r->profile,
                                                        .spans = r->spans, .n_spans = r->n_spans, .classes = r->classes,
                                                        .n_classes = TRI_MEM_COUNT, .zero = r->origin - r->zero,
                                                        .uncertainty = r->clock.uncertainty,
                                                        .machine = world ? world->nodes.node_of[world->rank] : 0}));
    return tell(r);
}

static void add_shares(tri_shares *to, const tri_session *session) {
    const double *told = session->told, span = session->span;
    to->steps++, to->seconds += span, to->loader += told[TRI_TOLD_LOADER] * span;
    to->transfers += told[TRI_TOLD_COMM] * span, to->waiting += told[TRI_TOLD_IDLE] * span;
}

tri_status tri__recorder_after(tri_recorder *r) {
    int now = is_recorded(r, r->seen++);
    add_shares(&r->shares, r->session);
    if (!now) return r->profile && tri__clock() - r->written > tell_seconds ? tell(r) : TRI_OK;
    r->end = tri__clock();
    add_step(r);
    if (r->traced) TRI_TRY(keep_spans(r));
    return r->kept < r->active ? TRI_OK : tell_first(r);
}

tri_status tri__recorder_finish(tri_recorder *r) {
    tri_clock_offset end;
    double zero, at = tri__clock() - r->zero;
    tri_world *world = r->session->place.world;
    if (r->kept && !r->profile) TRI_TRY(tell_first(r)); /* the run ended before all steps were recorded */
    if (world && world->nodes.n > 1) {
        TRI_TRY(tri__clocks_compare(world, &end, &zero));
        if (r->profile)
            tri__json_set_new(tri__json_get(r->profile, "clock"), "end",
                              tri__json_pack("{s:f, s:f, s:f}", "at", at, "drift", end.offset - r->clock.offset,
                                             "uncertainty", end.uncertainty));
    }
    return r->profile ? tell(r) : TRI_OK;
}
