/* groups.c - the groups that programs name, made on the transport and, if devices carry transfers themselves, on the
 * devices.
 *
 * Devices run a group's transfers in the order in which they are queued, and a receive blocks until its send. To avoid
 * deadlock, each group has its own queue, and so has each direction between two members that send to each other:
 *
 *     rank 0:  send x   recv dx   send y
 *     rank 1:  recv x   recv y    send dx
 *
 * With one queue, rank 0 has recv dx before send y, and rank 1 recv y before send dx: a deadlock. */
#include "exec/groups.h"

#include "comm/ops/request.h"

/* Time to learn which rank failed first, when a device only reports lost peers. A killed process closes its connections
 * at once, but is dead only when the driver has taken its GPU memory back: seconds, where many contexts share a GPU. At
 * most a quarter of the progress timeout: ranks that all wait for a cause are no deadlock. */
static double blame_seconds(const tri_group_table *table) {
    double quarter = table->world->segment.control->progress_timeout / 4;
    return quarter < 15 ? quarter : 15;
}

/* ---- Devices that wait for other ranks ---- */

/* Like every wait: the rank polls, learns of failures, and is subject to the progress timeout. */
static tri_status ask(void *argument) {
    tri_group_table *table = argument;
    int left;
    TRI_TRY(tri__announced(table->world, &left));
    if (!table->waits) tri__world_waits(table->world, table->waits = 1);
    tri__idle(table->world->segment.control, table->world->local, &table->idle);
    return TRI_OK;
}

void tri__groups_wait(tri_group_table *table, int begins) {
    if (begins) table->idle = (tri_idle){.awake = 1};
    else if (table->waits) tri__world_waits(table->world, table->waits = 0);
}

/* A device's failure may be the consequence of another rank's: if that rank's error arrives in time, report it
 * instead. */
static tri_status find_cause(tri_group_table *table, tri_status status) {
    char words[512];
    double begin = tri__clock();
    if (status != TRI_INTERNAL) return status; /* reported by another rank, or certainly this rank's own */
    snprintf(words, sizeof words, "%s", tri_error());
    tri__groups_wait(table, 1);
    while (tri__clock() - begin < blame_seconds(table) && ask(table) == TRI_OK) {}
    tri__groups_wait(table, 0);
    TRI_TRY(tri__world_check(table->world));
    tri_world_fail(table->world, status, words); /* at once: to leave the groups may take this rank seconds */
    return tri__fail(status, "%s", words);
}

static int pairs_of(const tri_named_group *entry) { return entry->pair ? 2 * tri_group_size(entry->group) : 0; }

tri_status tri__groups_check(tri_group_table *table, int *left) {
    TRI_TRY(tri__announced(table->world, left));
    for (int i = 0; i < table->n; i++) {
        const tri_named_group *entry = &table->entry[i];
        tri_status status = entry->far ? table->peers->check(table->context, entry->far) : TRI_OK;
        for (int k = 0; k < pairs_of(entry) && status == TRI_OK; k++)
            if (entry->pair[k]) status = table->peers->check(table->context, entry->pair[k]);
        if (status != TRI_OK) return find_cause(table, status);
    }
    return TRI_OK;
}

/* ---- Groups that programs name ---- */

static int compare(const void *a, const void *b) {
    const tri_attr *x = &((const tri_named_group *)a)->attr, *y = &((const tri_named_group *)b)->attr;
    if (x->axes != y->axes) return x->axes < y->axes ? -1 : 1;
    if (x->within != y->within) return x->within - y->within;
    return x->across - y->across;
}

tri_named_group *tri__group_find(const tri_group_table *table, const tri_attr *attr) {
    const tri_named_group key = {.attr = *attr};
    for (int i = 0; i < table->n; i++)
        if (compare(&table->entry[i], &key) == 0) return &table->entry[i];
    return NULL;
}

static int count_posts(const tri_program *program) {
    int n = 0;
    for (int i = 0; i < program->n_instrs; i++) n += tri__is_post(program->instr[i].op);
    return n;
}

static void list_groups(const tri_program *program, tri_group_table *out) {
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_attr *attr = &program->instr[i].attr;
        if (tri__is_post(program->instr[i].op) && !tri__group_find(out, attr))
            out->entry[out->n++].attr = (tri_attr){.axes = attr->axes, .within = attr->within, .across = attr->across};
    }
}

/* ---- Groups of devices ---- */

/* One member creates the group's name and broadcasts it over the transport. */
static tri_status join(tri_group_table *table, const char *name, int n, int me, int oneway, void **far) {
    tri__groups_wait(table, 1);
    tri_status status = table->peers->join(table->context, name, n, me, oneway, &table->poll, far);
    tri__groups_wait(table, 0);
    return status == TRI_OK ? TRI_OK : find_cause(table, status);
}

static tri_status join_all(tri_group_table *table, tri_named_group *entry) {
    char name[TRI_GROUP_NAME] = "";
    int me = tri_group_rank(entry->group);
    if (me == 0) TRI_TRY(table->peers->name(table->context, name));
    TRI_TRY(tri_broadcast(entry->group, name, TRI_GROUP_NAME, TRI_U8, 0));
    return join(table, name, tri_group_size(entry->group), me, 0, &entry->far);
}

static tri_status join_pair(tri_group_table *table, tri_named_group *entry, int from, int to) {
    char name[TRI_GROUP_NAME] = "";
    int receives = tri_group_rank(entry->group) == to, n = tri_group_size(entry->group);
    if (receives) {
        TRI_TRY(tri_recv(entry->group, name, TRI_GROUP_NAME, TRI_U8, from, 0));
        return join(table, name, 2, 1, 1, &entry->pair[n + from]);
    }
    TRI_TRY(table->peers->name(table->context, name));
    TRI_TRY(tri_send(entry->group, name, TRI_GROUP_NAME, TRI_U8, to, 0));
    return join(table, name, 2, 0, 1, &entry->pair[to]);
}

static void mark_used(const tri_program *program, tri_named_group *entry) {
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        const tri_named_group key = {.attr = instr->attr};
        if (!tri__is_post(instr->op) || tri__on_host(instr->op) || compare(entry, &key) != 0) continue;
        tri_collective_kind kind = tri__post_kind(instr->op);
        if (kind == TRI_SEND || kind == TRI_RECV)
            entry->used[(kind == TRI_RECV) * tri_group_size(entry->group) + instr->attr.root] = 1;
        else entry->collects = 1;
    }
}

/* Pairs in the same order on every rank: both ends of the first pair not yet made are waiting for it. */
static tri_status join_pairs(tri_group_table *table, tri_named_group *entry) {
    int n = tri_group_size(entry->group), me = tri_group_rank(entry->group);
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++)
            if ((from == me && entry->used[to]) || (to == me && entry->used[n + from]))
                TRI_TRY(join_pair(table, entry, from, to));
    return TRI_OK;
}

static tri_status join_devices(tri_group_table *table, tri_named_group *entry, const tri_program *const *programs,
                               int n) {
    size_t size = 2 * (size_t)tri_group_size(entry->group);
    if (!table->peers) return TRI_OK;
    TRI_TRY(TRI_NEW(entry->used, size, "groups of ranks"));
    TRI_TRY(TRI_NEW(entry->pair, size, "groups of ranks"));
    for (int i = 0; i < n; i++) mark_used(programs[i], entry);
    if (entry->collects) TRI_TRY(join_all(table, entry));
    return join_pairs(table, entry);
}

/* ---- Making and freeing ---- */

tri_status tri__groups_make(const tri_program *const *programs, int n, tri_group_table *out) {
    const tri_program *p = programs[0];
    tri_world *world = out->world;
    int posts = 0;
    for (int i = 0; i < n; i++) posts += count_posts(programs[i]);
    if (!posts) return TRI_OK;
    if (!world || tri_world_size(world) != tri__mesh_world(&p->mesh) || tri_world_rank(world) != p->rank)
        return tri__fail(TRI_INTERNAL, "a program of rank %d of %d was given to rank %d of %d", p->rank,
                         tri__mesh_world(&p->mesh), world ? tri_world_rank(world) : 0,
                         world ? tri_world_size(world) : 1);
    TRI_OWNED(tri__free_at) int *ranks = malloc((size_t)tri_world_size(world) * sizeof *ranks);
    out->entry = calloc((size_t)posts, sizeof *out->entry);
    if (!ranks || !out->entry) return tri__fail(TRI_RESOURCE, "out of memory for groups of ranks");
    out->poll = (tri_wait_poll){.ask = ask, .argument = out};
    for (int i = 0; i < n; i++) list_groups(programs[i], out);
    qsort(out->entry, (size_t)out->n, sizeof *out->entry, compare);
    for (int i = 0; i < out->n; i++) {
        int size = tri__transfer_members(&p->mesh, p->rank, &out->entry[i].attr, ranks);
        TRI_TRY(tri_group_make(world, size, ranks, &out->entry[i].group));
        TRI_TRY(join_devices(out, &out->entry[i], programs, n));
    }
    return TRI_OK;
}

/* All at once. If memory for the list runs out, the groups end with the process. */
static void leave_devices(tri_group_table *table, int abort) {
    int n = 0, room = table->n;
    for (int i = 0; i < table->n; i++) room += pairs_of(&table->entry[i]);
    TRI_OWNED(tri__free_at) void **far = calloc((size_t)room, sizeof *far);
    if (!far) return;
    for (int i = 0; i < table->n; i++) {
        const tri_named_group *entry = &table->entry[i];
        if (entry->far) far[n++] = entry->far;
        for (int k = 0; k < pairs_of(entry); k++)
            if (entry->pair[k]) far[n++] = entry->pair[k];
    }
    tri__groups_wait(table, 1);
    if (n) table->peers->leave(table->context, far, n, abort);
    tri__groups_wait(table, 0);
}

void tri__groups_free(tri_group_table *table, int abort) {
    if (table->n && table->peers) leave_devices(table, abort);
    for (int i = 0; i < table->n; i++) TRI_FREE(table->entry[i].used, table->entry[i].pair);
    free(table->entry);
    *table = (tri_group_table){0};
}
