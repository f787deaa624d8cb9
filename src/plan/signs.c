/* signs.c - emits the exchange of momenta as signs: buckets of units, their slots and states, the instructions. */
#include "plan/signs.h"

static tri_pass *pass_of(const tri_signs *s) { return s->up->pass; }

static int64_t local_count(const tri_pass *pass, int unit) { return tri__range_count(pass->local_part[unit]); }

static const char *bucket_name(const tri_signs *s, const tri_sign_bucket *b) {
    tri_pass *pass = pass_of(s);
    return b->n == 1 ? pass->model->unit[b->first].name
                     : tri__arena_print(pass->arena, "bucket.%d", (int)(b - s->bucket));
}

/* The unit of the program of instructions on a bucket; -1: several. */
static int unit_of(const tri_signs *s, const tri_sign_bucket *b) {
    const tri_pass *pass = pass_of(s);
    return b->n == 1 ? pass->program->slot[pass->out.param[b->first]].unit : -1;
}

/* Whole blocks, which the turn gathers, joined up to the size of buckets of gradients. A frozen block, of which nothing
 * travels, is part of the bucket before it. */
static void make_buckets(tri_signs *s) {
    tri_pass *pass = pass_of(s);
    double mb = pass->sharding.bucket_mb > 0 ? pass->sharding.bucket_mb : 25, most = mb * (1 << 20) / sizeof(float);
    int n_units = pass->model->n_units;
    s->unit_at = tri__arena_alloc(pass->arena, (size_t)n_units * sizeof *s->unit_at);
    for (int first = 0, end; first < n_units; first = end) {
        int64_t count = 0;
        for (end = first; end < n_units && pass->block_of[end] == pass->block_of[first]; end++)
            count += local_count(pass, end);
        tri_sign_bucket *b = s->n_buckets ? &s->bucket[s->n_buckets - 1] : NULL;
        int frozen = pass->model->unit[first].frozen;
        if (!b && frozen) continue;
        if (!b || (!frozen && (pass->in->mesh.tp > 1 || (double)(b->count + count) > most))) {
            b = TRI_PUSH(pass->arena, s->bucket, s->n_buckets, s->cap_buckets);
            *b = (tri_sign_bucket){.first = first};
        }
        for (int u = first; u < end; u++) {
            s->unit_at[u] = b->count;
            b->count += local_count(pass, u);
            b->n++;
        }
    }
}

static void add_message(tri_signs *s, int bucket, tri_range part, int state) {
    tri_pass *pass = pass_of(s);
    if (!tri__range_count(part)) return;
    tri_range own = tri__shard(tri__range_count(part), s->n, s->place);
    *TRI_PUSH(pass->arena, s->message, s->n_messages, s->cap_messages) = (tri_sign_message){
        .bucket = bucket, .part = part, .own = own, .state = state};
}

/* errors: states of the sums' errors, of split and of replicated elements. A state has one range of a unit. */
static void make_messages(tri_signs *s, const int errors[2]) {
    tri_pass *pass = pass_of(s);
    for (int i = 0; i < s->n_buckets; i++) {
        const tri_sign_bucket *b = &s->bucket[i];
        if (pass->in->mesh.tp == 1) add_message(s, i, (tri_range){0, b->count}, errors[0]);
        for (int u = b->first; u < b->first + b->n && pass->in->mesh.tp > 1; u++) {
            tri_range held = pass->local_part[u];
            int64_t split = pass->model->unit[u].split, at = s->unit_at[u], all = tri__range_count(held);
            int64_t cut = split < held.begin ? 0 : split > held.end ? all : split - held.begin;
            add_message(s, i, (tri_range){at, at + cut}, errors[0]);
            add_message(s, i, (tri_range){at + cut, at + all}, errors[1]);
        }
    }
}

/* The slot of a bucket for a state, and each unit's view of it. */
static int bucket_slot(tri_signs *s, const tri_sign_bucket *b, int state) {
    tri_pass *pass = pass_of(s);
    tri_builder *to = &s->up->build;
    const tri_state *of = &pass->out.state[state];
    to->unit = unit_of(s, b);
    int slot = TRI_BUILD_FLAT(to, TRI_MEM_STATE, TRI_F32, b->count, "%s.%s", of->name, bucket_name(s, b));
    for (int u = b->first; u < b->first + b->n; u++)
        if (!pass->model->unit[u].frozen)
            of->slot[u] = b->n == 1 ? slot
                                    : tri__build_view(to, slot, s->unit_at[u], 1, local_count(pass, u), "%s.%s",
                                                      of->name, pass->model->unit[u].name);
    return slot;
}

/* The elements of `part`, of a bucket, that belong to a unit: as elements of the unit. */
static tri_range unit_part(const tri_signs *s, tri_range part, int unit) {
    tri_range held = pass_of(s)->local_part[unit];
    int64_t at = s->unit_at[unit] - held.begin;
    return tri__range_both((tri_range){part.begin - at, part.end - at}, held);
}

static tri_range own_of(const tri_sign_message *message) {
    return (tri_range){message->part.begin + message->own.begin, message->part.begin + message->own.end};
}

/* The slots of an exchange. Rows of coded parts are multiples of 64 bytes, so that they are equal shards. */
static void make_slots(tri_signs *s, tri_sign_message *message) {
    tri_pass *pass = pass_of(s);
    tri_builder *to = &s->up->build;
    const tri_sign_bucket *b = &s->bucket[message->bucket];
    const tri_state *error = &pass->out.state[message->state];
    const tri_rows each = {.add = s->n};
    int64_t row = tri__coded_row(TRI_CODE_SIGNS, tri__range_count(message->part), s->n);
    const char *name = tri__arena_print(pass->arena, "%s.+%lld", bucket_name(s, b), (long long)message->part.begin);
    to->unit = unit_of(s, b);
    message->sum = TRI_BUILD_FLAT(to, TRI_MEM_STATE, TRI_F32, tri__range_count(message->own), "%s.%s", error->name,
                                  name);
    message->out = tri__build_slot(to, TRI_MEM_COMM, TRI_U8, each, row, "signs.%s", name);
    message->in = tri__build_slot(to, TRI_MEM_COMM, TRI_U8, each, row, "signs.%s.own", name);
    message->code = TRI_BUILD_FLAT(to, TRI_MEM_COMM, TRI_U8, row, "sum.%s", name);
    message->all = TRI_BUILD_FLAT(to, TRI_MEM_COMM, TRI_U8, s->n * row, "sums.%s", name);
    for (int u = b->first; u < b->first + b->n; u++) {
        tri_range part = unit_part(s, own_of(message), u), held = pass->local_part[u];
        int64_t count = tri__range_count(part), at = s->unit_at[u] + part.begin - held.begin - own_of(message).begin;
        if (!count) continue;
        error->held[u] = part, error->save[u] = tri__tensor_once(pass, u, part);
        error->slot[u] = b->n == 1 && count == tri__range_count(message->own)
                             ? message->sum
                             : tri__build_view(to, message->sum, at, 1, count, "%s.%s.of.%s", error->name,
                                               pass->model->unit[u].name, name);
    }
}

/* A copy's own error; their sum is what has not been sent. */
static int add_error(tri_signs *s) {
    tri_pass *pass = pass_of(s);
    int index = tri__add_state(pass, "e", s->v < 0 ? "momentum_error." : "error.");
    tri__state_of_copies(pass, index, TRI_STATE_SUMMED, s->place, s->n, pass->local_part);
    pass->out.state[index].absent = TRI_ABSENT_ZERO; /* a single copy has none */
    return index;
}

static int add_sum_error(tri_signs *s, const char *name) {
    tri_pass *pass = pass_of(s);
    int index = tri__add_state(pass, name, s->v < 0 ? "momentum_error_sum." : "error_sum.");
    size_t ranges = (size_t)pass->model->n_units * sizeof(tri_range);
    pass->out.state[index].held = tri__arena_alloc(pass->arena, ranges);
    pass->out.state[index].save = tri__arena_alloc(pass->arena, ranges);
    pass->out.state[index].absent = TRI_ABSENT_ZERO;
    return index;
}

void tri__signs_open(tri_signs *s, tri_updating *up, int m, int v) {
    tri_pass *pass = up->pass;
    *s = (tri_signs){.up = up, .m = m, .v = v, .n = pass->n_copies};
    s->place = tri__transfer_place(&pass->in->mesh, pass->in->rank, &pass->copies);
    pass->out.state[m].held = pass->local_part;
    if (v >= 0) pass->out.state[v].held = pass->local_part;
    int e = add_error(s), errors[2] = {add_sum_error(s, "s"), -1};
    if (pass->in->mesh.tp > 1) errors[1] = add_sum_error(s, "s.whole");
    make_buckets(s);
    make_messages(s, errors);
    for (int i = 0; i < s->n_buckets; i++) {
        s->bucket[i].m = bucket_slot(s, &s->bucket[i], m);
        s->bucket[i].v = v < 0 ? -1 : bucket_slot(s, &s->bucket[i], v);
        s->bucket[i].e = bucket_slot(s, &s->bucket[i], e);
    }
    for (int i = 0; i < s->n_messages; i++) make_slots(s, &s->message[i]);
}

/* Gathers `count` elements, from unit `first` on, of a state's slot for a bucket. */
static tri_ends gather(tri_signs *s, int state, int slot, int first, int64_t count) {
    const tri_pass *pass = pass_of(s);
    tri_builder *to = &s->up->build;
    tri_sharers among = tri__unit_sharers(pass, first);
    const char *of = pass->out.state[state].name, *name = pass->model->unit[first].name;
    tri_range own = tri__shard(count, among.n, among.place);
    int whole = tri__build_view(to, slot, s->unit_at[first], 1, count, "%s.%s.block", of, name);
    int part = tri__build_view(to, whole, own.begin, 1, tri__range_count(own), "%s.%s.block.own", of, name);
    tri__build_post(to, TRI_OP_all_gather_post, among.group, (tri_ends){whole, part});
    return (tri_ends){whole, part};
}

void tri__signs_gather(tri_signs *s) {
    tri_pass *pass = pass_of(s);
    tri_builder *to = &s->up->build;
    if (pass->sharding.kind == TRI_SHARD_NONE || pass->sharding.kind == TRI_SHARD_HYBRID) return;
    int n_units = pass->model->n_units, n = 0;
    tri_ends *ends = tri__arena_alloc(pass->arena, 2 * (size_t)n_units * sizeof *ends);
    for (int first = 0, end; first < n_units; first = end) {
        int64_t count = 0;
        for (end = first; end < n_units && pass->block_of[end] == pass->block_of[first]; end++)
            count += local_count(pass, end);
        if (pass->model->unit[first].frozen) continue;
        const tri_sign_bucket *b = s->bucket;
        while (b->first + b->n <= first) b++;
        to->unit = end - first == 1 ? pass->program->slot[pass->out.param[first]].unit : -1;
        ends[n++] = gather(s, s->m, b->m, first, count);
        if (b->v >= 0) ends[n++] = gather(s, s->v, b->v, first, count);
    }
    for (int i = 0; i < n; i++) {
        to->unit = pass->program->slot[ends[i].y].unit;
        tri__build_wait(to, ends[i]);
    }
}

/* A view of elements `part` of a slot, which instructions of another kind of step may have made. */
static int part_of(tri_signs *s, int slot, tri_range part, const char *label) {
    tri_builder *to = &s->up->build;
    const char *name = tri__arena_print(pass_of(s)->arena, "%s.%s.+%lld", to->program->slot[slot].name, label,
                                        (long long)part.begin);
    int known = tri__program_find(to->program, name);
    if (known >= 0) return known;
    return tri__build_view(to, slot, part.begin, 1, tri__range_count(part), "%s", name);
}

/* A view of elements `part` of a bucket's slot. */
static int view_of(tri_signs *s, const tri_sign_bucket *b, int slot, tri_range part, const char *label) {
    if (part.begin == 0 && part.end == b->count) return slot;
    return part_of(s, slot, part, label);
}

static const tri_attr code = {.code = TRI_CODE_SIGNS}, sum = {.code = TRI_CODE_SIGNS, .sums = 1};

static float unit_eps(const tri_signs *s) { return s->v < 0 ? 0 : (float)pass_of(s)->in->optimizer.eps; }

/* Adds a copy's part of the next momentum, or its own momentum, to what it has to send. */
static void emit_add(tri_signs *s, const tri_sign_message *message, uint32_t gates, int alone) {
    tri_pass *pass = pass_of(s);
    tri_builder *to = &s->up->build;
    uint32_t before = to->gates;
    if (!gates) return;
    to->gates = gates;
    const tri_sign_bucket *b = &s->bucket[message->bucket];
    tri_attr momentum = {.sent = 1 + alone, .beta1 = (float)pass->in->optimizer.beta1, .members = s->n,
                         .eps = unit_eps(s)};
    for (int u = b->first; u < b->first + b->n; u++) {
        tri_range part = unit_part(s, message->part, u), held = pass->local_part[u];
        int64_t at = s->unit_at[u] + part.begin - held.begin;
        if (!tri__range_count(part)) continue;
        to->unit = pass->program->slot[pass->out.param[u]].unit;
        tri_range here = {at, at + tri__range_count(part)};
        int e = view_of(s, b, b->e, here, "in"), m = view_of(s, b, b->m, here, "in");
        int v = alone || b->v < 0 ? -1 : view_of(s, b, b->v, here, "in");
        int g = pass->local_grad[u];
        if (tri__range_count(part) < tri__range_count(held))
            g = part_of(s, g, (tri_range){part.begin - held.begin, part.end - held.begin}, "in");
        TRI_BUILD(to, momentum, momentum, e, m, g, s->up->hyper, v, s->up->coef, pass->out.apply);
    }
    to->gates = before;
}

/* The signs of what a copy has not sent yet go to the owners. */
static void emit_out(tri_signs *s, const tri_sign_message *message, uint32_t own) {
    tri_pass *pass = pass_of(s);
    tri_builder *to = &s->up->build;
    const tri_sign_bucket *b = &s->bucket[message->bucket];
    emit_add(s, message, to->gates & ~own, 0);
    emit_add(s, message, own, 1);
    to->unit = unit_of(s, b);
    int e = view_of(s, b, b->e, message->part, "out"), m = view_of(s, b, b->m, message->part, "out");
    TRI_BUILD(to, pack, code, message->out, e, -1, m, -1, pass->out.apply);
    tri__build_post(to, TRI_OP_all_to_all_post, pass->copies, (tri_ends){message->in, message->out});
}

/* The copies' signs of the own part are added to what the owner has not sent yet; the signs of this go to all. */
static void emit_sum(tri_signs *s, const tri_sign_message *message) {
    tri_pass *pass = pass_of(s);
    tri_builder *to = &s->up->build;
    const tri_sign_bucket *b = &s->bucket[message->bucket];
    to->unit = unit_of(s, b);
    TRI_BUILD(to, wait, (tri_attr){0}, message->in, message->out);
    TRI_BUILD(to, unpack, sum, message->sum, message->in, pass->out.apply)->acc = 1;
    tri_range own = own_of(message);
    if (!tri__range_count(own)) own = (tri_range){0, 0};
    int m = view_of(s, b, b->m, own, "own");
    TRI_BUILD(to, pack, code, message->code, message->sum, -1, m, -1, pass->out.apply);
    tri__build_post(to, TRI_OP_all_gather_post, pass->copies, (tri_ends){message->all, message->code});
}

static void emit_in(tri_signs *s, const tri_sign_message *message) {
    tri_builder *to = &s->up->build;
    const tri_sign_bucket *b = &s->bucket[message->bucket];
    to->unit = unit_of(s, b);
    TRI_BUILD(to, wait, (tri_attr){0}, message->all, message->code);
    int rows = tri__build_view(to, message->all, 0, s->n, to->program->slot[message->code].cols, "%s.rows",
                               to->program->slot[message->all].name);
    int m = view_of(s, b, b->m, message->part, "new");
    int v = b->v < 0 ? -1 : view_of(s, b, b->v, message->part, "new");
    tri_attr attr = {.code = TRI_CODE_SIGNS, .eps = unit_eps(s)};
    TRI_BUILD(to, momentum_out, attr, m, rows, v, pass_of(s)->out.apply);
}

void tri__signs_exchange(tri_signs *s, uint32_t own) {
    for (int i = 0; i < s->n_messages; i++) emit_out(s, &s->message[i], own);
    for (int i = 0; i < s->n_messages; i++) emit_sum(s, &s->message[i]);
    for (int i = 0; i < s->n_messages; i++) emit_in(s, &s->message[i]);
}

enum { MEAN, VARIANCE }; /* states of Adam */

void tri__run_momentum(tri_updating *up, const tri_run *run) {
    tri_attr attr = {.beta1 = (float)up->pass->in->optimizer.beta1};
    int m = tri__run_state(up, MEAN, run), g = tri__run_gradient(up, run);
    TRI_BUILD(&up->build, momentum, attr, -1, m, g, -1, -1, up->coef, up->pass->out.apply);
}

void tri__run_frozen(tri_updating *up, const tri_run *run) {
    int p = tri__run_weights(up, run), m = tri__run_state(up, MEAN, run), v = tri__run_state(up, VARIANCE, run);
    TRI_BUILD(&up->build, adamw_frozen, tri__run_step(up, run), -1, p, m, v, up->hyper, up->pass->out.apply);
}
