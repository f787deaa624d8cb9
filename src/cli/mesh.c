/* mesh.c - `trident mesh`: the grid of ranks as tables, ranks first and then groups, or as one JSON object. A group is
 * identified by its axis and its first rank. */
#include "cli/cli.h"

#include "report/text/text_table.h"
#include "sim/hardware.h"

enum {
    SHOWN = 16,          /* members of a group that a table lists; of more, it prints the count */
    MEMBERS_MAX = 1 << 27 /* limit for JSON, over all groups of all ranks: about 1 GB of text */
};

/* A mesh and how its ranks are spread over machines. */
typedef struct grid {
    tri_mesh mesh;
    int world, per_node;
    int island;   /* ranks of an island inside a machine; 0: there are none */
    int *members; /* [world], members of the group last queried */
} grid;

static const char *rank_text(int rank, const char *none, char out[static 16]) {
    snprintf(out, 16, rank < 0 ? none : "%d", rank);
    return out;
}

static tri_status print_ranks(const tri_cli *cli, const grid *g) {
    tri_text_table table = {0};
    char previous[16], next[16], island[16] = "";
    tri__text_table_add(&table, "rank\tmachine%s\tcoordinates\tpp group\ttp group\tdp group\tprevious stage\t"
                        "next stage", g->island ? "\tisland" : "");
    for (int rank = 0; rank < g->world; rank++) {
        tri_coords at = tri__mesh_coords(&g->mesh, rank);
        int first[TRI_AXIS_COUNT];
        for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
            first[axis] = tri__mesh_beside(&g->mesh, rank, (tri_axis)axis, 0);
        char more[32] = "";
        if (g->mesh.cp > 1) snprintf(more, sizeof more, " cp=%d/%d", tri__mesh_context(&g->mesh, rank), g->mesh.cp);
        if (g->mesh.ep > 1) snprintf(more, sizeof more, " ep=%d/%d", tri__mesh_expert(&g->mesh, rank), g->mesh.ep);
        if (g->island) snprintf(island, sizeof island, "\t%d", rank % g->per_node / g->island);
        tri__text_table_add(&table, "%d\t%d%s\tpp=%d/%d tp=%d/%d dp=%d/%d%s\t%d\t%d\t%d\t%s\t%s", rank,
                            rank / g->per_node, island, at.pp, g->mesh.pp, at.tp, g->mesh.tp,
                            tri__mesh_reader(&g->mesh, rank), tri__mesh_readers(&g->mesh), more, first[TRI_AXIS_PP],
                            first[TRI_AXIS_TP], first[TRI_AXIS_DP],
                            rank_text(tri__mesh_step(&g->mesh, rank, TRI_AXIS_PP, -1), "-", previous),
                            rank_text(tri__mesh_step(&g->mesh, rank, TRI_AXIS_PP, 1), "-", next));
    }
    return tri__print_table(cli, &table);
}

/* "{0, 4, 8}", truncated after SHOWN members. */
static const char *members_text(const int *members, int n, char out[static 256]) {
    strcpy(out, "{");
    for (int i = 0; i < n && i < SHOWN; i++) tri__text_append(out, 256, i ? ", " : "", "%d", members[i]);
    if (n > SHOWN) tri__text_append(out, 256, ", ", "... %d", members[n - 1]);
    tri__text_append(out, 256, "", "}");
    return out;
}

/* Ranks that share tokens, or experts: runs of the dp axis. */
static void add_runs(const grid *g, tri_text_table *table, const char *name, int size) {
    const tri_attr group = {.axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = size};
    char text[256];
    for (int rank = 0; rank < g->world && size > 1; rank++) {
        if (tri__transfer_place(&g->mesh, rank, &group)) continue;
        int n = tri__transfer_members(&g->mesh, rank, &group, g->members);
        tri__text_table_add(table, "%s\t%d\t%d\t%s", name, rank, n, members_text(g->members, n, text));
    }
}

static tri_status print_groups(const tri_cli *cli, const grid *g) {
    tri_text_table table = {0};
    char text[256];
    tri__text_table_add(&table, "group\tfirst rank\tsize\tranks");
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
        for (int rank = 0; rank < g->world; rank++) {
            if (tri__mesh_coords(&g->mesh, rank).of[axis]) continue; /* not the first of its group */
            int n = tri__mesh_group(&g->mesh, rank, TRI_AXIS_SET(axis), g->members);
            tri__text_table_add(&table, "%s\t%d\t%d\t%s", tri__axis_name((tri_axis)axis), rank, n,
                                members_text(g->members, n, text));
        }
    add_runs(g, &table, "cp", g->mesh.cp);
    add_runs(g, &table, "ep", g->mesh.ep);
    return tri__print_table(cli, &table);
}

static tri_status print_tables(const tri_cli *cli, const grid *g) {
    char order[TRI_MESH_ORDER_TEXT], cp[32] = "", ep[32] = "";
    int machines = (g->world + g->per_node - 1) / g->per_node;
    if (g->mesh.cp > 1) snprintf(cp, sizeof cp, " x cp %d", g->mesh.cp);
    if (g->mesh.ep > 1) snprintf(ep, sizeof ep, " (ep %d)", g->mesh.ep);
    fprintf(cli->out, "%d rank%s: pp %d x tp %d%s x dp %d%s, order %s, ", g->world, g->world == 1 ? "" : "s",
            g->mesh.pp, g->mesh.tp, cp, tri__mesh_readers(&g->mesh), ep, tri__mesh_order(&g->mesh, order));
    fprintf(cli->out, "%d machine%s of %d; a group is named by its first rank\n\n", machines,
            machines == 1 ? "" : "s", g->per_node);
    TRI_TRY(print_ranks(cli, g));
    fputc('\n', cli->out);
    return print_groups(cli, g);
}

static void put_json_rank(FILE *out, const grid *g, int rank) {
    char previous[16], next[16];
    tri_coords at = tri__mesh_coords(&g->mesh, rank);
    fprintf(out, "{\"rank\":%d", rank);
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
        fprintf(out, ",\"%s\":%d", tri__axis_name((tri_axis)axis),
                axis == TRI_AXIS_DP ? tri__mesh_reader(&g->mesh, rank) : at.of[axis]);
    if (g->mesh.cp > 1) fprintf(out, ",\"cp\":%d", tri__mesh_context(&g->mesh, rank));
    if (g->mesh.ep > 1) fprintf(out, ",\"ep\":%d", tri__mesh_expert(&g->mesh, rank));
    if (g->island) fprintf(out, ",\"island\":%d", rank % g->per_node / g->island);
    fprintf(out, ",\"node\":%d,\"local_rank\":%d,\"groups\":{", rank / g->per_node, rank % g->per_node);
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++) {
        int n = tri__mesh_group(&g->mesh, rank, TRI_AXIS_SET(axis), g->members);
        fprintf(out, "%s\"%s\":[", axis ? "," : "", tri__axis_name((tri_axis)axis));
        for (int i = 0; i < n; i++) fprintf(out, "%s%d", i ? "," : "", g->members[i]);
        fputc(']', out);
    }
    fputs("},\"first\":{", out);
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
        fprintf(out, "%s\"%s\":%d", axis ? "," : "", tri__axis_name((tri_axis)axis),
                tri__mesh_beside(&g->mesh, rank, (tri_axis)axis, 0));
    fprintf(out, "},\"previous\":%s,\"next\":%s}",
            rank_text(tri__mesh_step(&g->mesh, rank, TRI_AXIS_PP, -1), "null", previous),
            rank_text(tri__mesh_step(&g->mesh, rank, TRI_AXIS_PP, 1), "null", next));
}

/* Written rank by rank: the groups of thousands of ranks are millions of numbers. */
static tri_status print_json(const tri_cli *cli, const grid *g) {
    char order[TRI_MESH_ORDER_TEXT], count[32];
    int64_t members = (int64_t)g->world * ((int64_t)g->mesh.pp + g->mesh.tp + g->mesh.dp);
    if (members > MEMBERS_MAX)
        return tri__fail(TRI_USAGE,
                         "%s group members are too many to list for each rank; leave out --json for a short form",
                         tri__text_count(members, count));
    fprintf(cli->out, "{\"world_size\":%d", g->world);
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
        fprintf(cli->out, ",\"%s\":%d", tri__axis_name((tri_axis)axis),
                axis == TRI_AXIS_DP ? tri__mesh_readers(&g->mesh) : g->mesh.size[axis]);
    if (g->mesh.cp > 1) fprintf(cli->out, ",\"cp\":%d", g->mesh.cp);
    if (g->mesh.ep > 1) fprintf(cli->out, ",\"ep\":%d", g->mesh.ep);
    fprintf(cli->out, ",\"order\":\"%s\",\"nproc_per_node\":%d,\"tensor_groups_crossing\":%d,\"ranks\":[",
            tri__mesh_order(&g->mesh, order), g->per_node, tri__mesh_crossing(&g->mesh, TRI_AXIS_TP, g->per_node));
    for (int rank = 0; rank < g->world; rank++) {
        if (rank) fputc(',', cli->out);
        put_json_rank(cli->out, g, rank);
    }
    fputs("]}\n", cli->out);
    return TRI_OK;
}

static tri_status read_islands(tri_arena *arena, void *data) {
    const tri_settings *settings = ((void **)data)[0];
    grid *g = ((void **)data)[1];
    tri_hardware hardware;
    TRI_TRY(tri__hardware_open(arena, settings->hardware, &hardware));
    g->island = hardware.islands.ranks;
    if (!tri__settings_given(settings, &settings->nproc_per_node)) g->per_node = hardware.ranks_per_node;
    if (!g->island || g->per_node % g->island == 0) return TRI_OK;
    return tri__fail(TRI_USAGE, "--nproc-per-node %d: machines of %s have islands of %d ranks each", g->per_node,
                     hardware.name, g->island);
}

/* Tensor groups communicate several times a layer. */
static void advise(const tri_cli *cli, const grid *g) {
    char advice[TRI_MESH_ADVICE];
    if (*tri__mesh_advice(&g->mesh, g->per_node, "machine", advice) ||
        (g->island && *tri__mesh_advice(&g->mesh, g->island, "island", advice)))
        fprintf(cli->err, "%s\n", advice);
}

tri_status tri__command_mesh(tri_cli *cli, tri_command_call *call) {
    const tri_settings *settings = &call->settings;
    grid g = {.world = (int)settings->world_size, .per_node = (int)settings->nproc_per_node};
    const void *reading[] = {settings, &g};
    if (!tri__settings_given(settings, &settings->world_size) &&
        !tri__settings_given(settings, &settings->nproc_per_node))
        return tri__fail(TRI_USAGE, "mesh needs --world-size, e.g. `trident mesh --world-size 8 --pp-size 2`");
    if (settings->hardware) TRI_TRY(tri__arena_scratch(read_islands, (void *)reading));
    TRI_TRY(tri__settings_mesh(settings, &g.mesh));
    TRI_OWNED(tri__free_at) int *members = g.members = malloc((size_t)g.world * sizeof *members);
    if (!members) return tri__fail(TRI_RESOURCE, "no memory for a group of %d ranks", g.world);
    TRI_TRY(settings->json ? print_json(cli, &g) : print_tables(cli, &g));
    fflush(cli->out);
    if (!settings->quiet) advise(cli, &g);
    return TRI_OK;
}
