/* group.c - groups: ordered lists of ranks. A group's id is computed from its list and from how many groups of that
 * list this rank has made, so that members agree on it without communication. */
#include "comm/world/group.h"

static tri_status no_memory(int n) { return tri__fail(TRI_RESOURCE, "out of memory for a group of %d ranks", n); }

/* Each rank once, all in the world, this one included. */
static tri_status check_ranks(const tri_world *world, int n, const int *ranks) {
    int mine = 0;
    if (n < 1 || !ranks) return tri__fail(TRI_USAGE, "a group needs at least one rank");
    if (n > world->size) return tri__fail(TRI_USAGE, "a group of %d in a world of %d ranks", n, world->size);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= world->size)
            return tri__fail(TRI_USAGE, "rank %d cannot be in a group: ranks of this world are 0 to %d", ranks[i],
                             world->size - 1);
        mine |= ranks[i] == world->rank;
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i]) return tri__fail(TRI_USAGE, "rank %d is twice in a group", ranks[i]);
    }
    return mine ? TRI_OK : tri__fail(TRI_USAGE, "rank %d is not in the group that it makes", world->rank);
}

/* The number of groups of this list so far. */
static int instances(const tri_world *world, int n, const int *ranks) {
    int count = 0;
    for (int i = 0; i < world->n_groups; i++)
        count += world->group[i]->n == n && memcmp(world->group[i]->rank, ranks, (size_t)n * sizeof *ranks) == 0;
    return count;
}

static uint64_t mix(uint64_t state, uint64_t value) {
    uint64_t z = (state ^ value) + 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

static uint64_t id_of(int n, const int *ranks, int instance) {
    uint64_t id = mix((uint64_t)n, (uint64_t)instance);
    for (int i = 0; i < n; i++) id = mix(id, (uint64_t)ranks[i]);
    return id ? id : 1; /* 0 marks a free entry of the table */
}

static void fill_in(tri_group *group, const int *ranks) {
    const tri_world *world = group->world;
    const tri_nodes *nodes = &world->nodes;
    memcpy(group->rank, ranks, (size_t)group->n * sizeof *ranks);
    for (int i = 0; i < group->n; i++) {
        int here = nodes->node_of[ranks[i]] == nodes->node_of[world->rank];
        group->local[i] = here ? nodes->local_of[ranks[i]] : -1;
        group->spans |= !here;
        if (ranks[i] == world->rank) group->me = i;
    }
}

void tri__group_free(tri_group *group) {
    TRI_FREE(group->rank, group->local, group->sent, group->received, group);
}

tri_status tri__group_make_on(tri_world *world, int n, const int *ranks, const tri_transport *transport,
                              tri_group **out) {
    *out = NULL;
    TRI_TRY(check_ranks(world, n, ranks));
    tri_group *group = calloc(1, sizeof *group);
    if (!group) return no_memory(n);
    *group = (tri_group){.world = world, .n = n, .rank = calloc((size_t)n, sizeof(int)),
                         .local = calloc((size_t)n, sizeof(int)), .sent = calloc((size_t)n, sizeof(uint64_t)),
                         .received = calloc((size_t)n, sizeof(uint64_t)), .transport = transport};
    if (!group->rank || !group->local || !group->sent || !group->received ||
        !tri__grow(&world->group, &world->room_groups, (size_t)world->n_groups + 1, sizeof *world->group)) {
        tri__group_free(group);
        return no_memory(n);
    }
    fill_in(group, ranks);
    group->id = id_of(n, ranks, instances(world, n, ranks));
    tri_status status = transport->open(group);
    if (status != TRI_OK) {
        transport->close(group);
        tri__group_free(group);
        return status;
    }
    *out = world->group[world->n_groups++] = group;
    return TRI_OK;
}

static int spans_machines(const tri_world *world, int n, const int *ranks) {
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0 && ranks[i] < world->size &&
            world->nodes.node_of[ranks[i]] != world->nodes.node_of[world->rank])
            return 1;
    return 0;
}

tri_status tri_group_make(tri_world *world, int n, const int *ranks, tri_group **group) {
    if (!world || !group) return tri__fail(TRI_USAGE, "tri_group_make needs a world and a place for the group");
    TRI_TRY(tri__world_check(world));
    int spans = ranks && spans_machines(world, n, ranks);
    return tri__done(
        tri__group_make_on(world, n, ranks, spans ? world->carriers->across : world->carriers->here, group));
}

tri_group *tri_group_world(tri_world *world) { return world->all; }
int tri_group_rank(const tri_group *group) { return group->me; }
int tri_group_size(const tri_group *group) { return group->n; }
