/* roles.c - roles by partition refinement: begins with the classes, and splits a role while the roles in its ranks'
 * groups differ. Hashes find the roles; a comparison of groups role by role then proves that they are what roles.h
 * says. */
#include "program/roles.h"
#include "program/transfer.h"

typedef struct finder {
    tri_arena *arena;
    const tri_classes *ranks;
    const tri_role_facts *facts;
    tri_roles *out;
    int *members;   /* [world] of the current group */
    uint64_t *seen; /* [world] hash of what distinguishes a rank's role */
    /* [world] of the current group: role of each member, and whether it is on the same machine, and in the same island,
     * as the one before it */
    int *pattern;
} finder;

int tri__roles_span(const tri_roles *r, const tri_attr *attr) {
    for (int i = 0; i < r->n_spans; i++) {
        const tri_attr *a = &r->span[i].attr;
        if (a->axes == attr->axes && a->within == attr->within && a->across == attr->across) return i;
    }
    return -1;
}

static void find_spans(finder *f) {
    tri_roles *r = f->out;
    const tri_instr *seen = NULL; /* programs may share their instructions */
    for (int i = 0; i < f->ranks->n; i++) {
        const tri_program *p = f->ranks->at[i].program;
        for (int k = 0; k < p->n_instrs && p->instr != seen; k++) {
            const tri_instr *instr = &p->instr[k];
            if (!tri__is_post(instr->op)) continue;
            int span = tri__roles_span(r, &instr->attr);
            if (span < 0) {
                span = r->n_spans;
                *TRI_PUSH(f->arena, r->span, r->n_spans, r->cap_spans) = (tri_group_span){
                    .attr = {.axes = instr->attr.axes, .within = instr->attr.within, .across = instr->attr.across}};
            }
            r->span[span].pairs |= instr->op == TRI_OP_send_post || instr->op == TRI_OP_recv_post;
        }
        seen = p->instr;
    }
}

/* The ranks of a rank's machine, into f->members; returns how many. */
static int list_node(finder *f, int rank) {
    int per_node = f->facts->per_node, first = rank / per_node * per_node, n = 0;
    while (n < per_node && first + n < f->ranks->world) f->members[n] = first + n, n++;
    return n;
}

/* Spans, and machines as one more where they count. */
static int n_kinds(const finder *f) { return f->out->n_spans + f->facts->whole_nodes; }

static int has_pairs(const finder *f, int kind) { return kind < f->out->n_spans && f->out->span[kind].pairs; }

/* The group of a rank, into f->members, and its pattern; returns how many. */
static int look_at(finder *f, int rank, int kind) {
    int per_node = f->facts->per_node, per_island = f->facts->per_island;
    int n = kind == f->out->n_spans
                ? list_node(f, rank)
                : tri__transfer_members(&f->ranks->mesh, rank, &f->out->span[kind].attr, f->members);
    for (int i = 0; i < n; i++) {
        int before = i ? f->members[i - 1] : -1;
        int beside = i && per_node && f->members[i] / per_node == before / per_node;
        int close = i && per_island && f->members[i] / per_island == before / per_island;
        f->pattern[i] = 4 * f->out->of[f->members[i]] + 2 * beside + close;
    }
    return n;
}

/* Calls `look` once for each group of a kind. */
static void each_group(finder *f, int kind, void (*look)(finder *f, int kind, int n)) {
    uint8_t *done = tri__arena_alloc(f->arena, (size_t)f->ranks->world);
    for (int rank = 0; rank < f->ranks->world; rank++) {
        if (done[rank]) continue;
        int n = look_at(f, rank, kind);
        for (int i = 0; i < n; i++) done[f->members[i]] = 1;
        look(f, kind, n);
    }
}

static void tell_apart(finder *f, int kind, int n) {
    uint64_t hash = tri__hash64((uint64_t)kind, f->pattern, (size_t)n * sizeof *f->pattern);
    for (int i = 0; i < n; i++) {
        const uint64_t facts[] = {hash, has_pairs(f, kind) ? (uint64_t)i : 0};
        f->seen[f->members[i]] = tri__hash64(f->seen[f->members[i]], facts, sizeof facts);
    }
}

typedef struct sighting {
    uint64_t seen;
    int rank;
} sighting;

static int by_sight(const void *a, const void *b) {
    const sighting *x = a, *y = b;
    return x->seen != y->seen ? (x->seen < y->seen ? -1 : 1) : x->rank - y->rank;
}

/* Roles by f->seen, numbered in the order of their first ranks. */
static void number(finder *f) {
    int world = f->ranks->world;
    tri_roles *r = f->out;
    sighting *all = tri__arena_alloc(f->arena, (size_t)world * sizeof *all);
    int *first = tri__arena_alloc(f->arena, (size_t)world * sizeof *first); /* rank with the same `seen`, of each */
    for (int rank = 0; rank < world; rank++) all[rank] = (sighting){f->seen[rank], rank};
    qsort(all, (size_t)world, sizeof *all, by_sight);
    for (int i = 0; i < world; i++)
        first[all[i].rank] = i && all[i].seen == all[i - 1].seen ? first[all[i - 1].rank] : all[i].rank;
    r->n = 0;
    for (int rank = 0; rank < world; rank++) r->of[rank] = first[rank] == rank ? r->n++ : r->of[first[rank]];
}

static const char *replica_of(const finder *f, int rank) {
    return (const char *)f->facts->replica + (size_t)tri__mesh_reader(&f->ranks->mesh, rank) * f->facts->bytes;
}

/* The groups of each role's first rank, which those of all its other ranks must equal. */
typedef struct proof {
    finder find;       /* must be first: each_group passes a pointer to it */
    int **pattern;     /* [n] of the role's group in the current span; NULL: not seen yet */
    int *size, *place; /* [n] */
} proof;

static void compare_group(finder *f, int kind, int n) {
    proof *p = (proof *)f;
    int *kept = NULL; /* the pattern */
    size_t bytes = (size_t)n * sizeof *kept;
    for (int i = 0; i < n; i++) {
        int role = f->out->of[f->members[i]];
        if (!p->pattern[role]) {
            if (!kept) kept = memcpy(tri__arena_alloc(f->arena, bytes), f->pattern, bytes);
            p->pattern[role] = kept, p->size[role] = n, p->place[role] = i;
        }
        int same = p->size[role] == n && (p->pattern[role] == kept || memcmp(p->pattern[role], f->pattern, bytes) == 0);
        TRI_ASSERT(same && (!has_pairs(f, kind) || p->place[role] == i));
        if (same && !kept) kept = p->pattern[role];
    }
}

static void prove(const finder *f) {
    proof p = {.find = *f};
    size_t n = (size_t)f->out->n;
    p.size = tri__arena_alloc(f->arena, n * sizeof *p.size);
    p.place = tri__arena_alloc(f->arena, n * sizeof *p.place);
    p.pattern = tri__arena_alloc(f->arena, n * sizeof *p.pattern);
    for (int kind = 0; kind < n_kinds(f); kind++) {
        memset(p.pattern, 0, n * sizeof *p.pattern);
        each_group(&p.find, kind, compare_group);
    }
    for (int rank = 0; rank < f->ranks->world; rank++) {
        int first = f->out->rank[f->out->of[rank]];
        TRI_ASSERT(tri__class_of(f->ranks, rank, NULL) == tri__class_of(f->ranks, first, NULL));
        TRI_ASSERT(!f->facts->replica || memcmp(replica_of(f, rank), replica_of(f, first), f->facts->bytes) == 0);
    }
}

void tri__roles_find(tri_roles *r, tri_arena *arena, const tri_classes *ranks, const tri_role_facts *facts) {
    size_t world = (size_t)ranks->world;
    finder f = {.arena = arena, .ranks = ranks, .facts = facts, .out = r};
    *r = (tri_roles){.of = tri__arena_alloc(arena, world * sizeof *r->of)};
    f.members = tri__arena_alloc(arena, world * sizeof *f.members);
    f.pattern = tri__arena_alloc(arena, world * sizeof *f.pattern);
    f.seen = tri__arena_alloc(arena, world * sizeof *f.seen);
    find_spans(&f);
    for (int rank = 0; rank < ranks->world; rank++) {
        f.seen[rank] = (uint64_t)(tri__class_of(ranks, rank, NULL) - ranks->at);
        if (facts->replica) f.seen[rank] = tri__hash64(f.seen[rank], replica_of(&f, rank), facts->bytes);
    }
    number(&f);
    for (int before = 0; before < r->n;) {
        before = r->n;
        for (int rank = 0; rank < ranks->world; rank++) f.seen[rank] = (uint64_t)r->of[rank];
        for (int kind = 0; kind < n_kinds(&f); kind++) each_group(&f, kind, tell_apart);
        number(&f);
    }
    r->rank = tri__arena_alloc(arena, (size_t)r->n * sizeof *r->rank);
    for (int rank = ranks->world - 1; rank >= 0; rank--) r->rank[r->of[rank]] = rank;
    prove(&f);
}
