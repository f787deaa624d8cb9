/* programs.c - printed programs: reads them, sorts them by rank, checks them. */
#include "study/programs.h"

#include "base/file.h"

#include <errno.h>
#include <unistd.h>

enum { MOST_RANKS = 1 << 20, SHOWN_RANKS = 8 };
static const size_t FILE_LIMIT = (size_t)1 << 30; /* bytes: lines are counted as int */

typedef struct reading {
    const char *const *paths; /* [n] */
    char **text;              /* [n]; owned */
    int n;
    tri_status (*use)(tri_arena *arena, const tri_program_sets *sets, void *data);
    void *data;
} reading;

/* The end of a long path: messages are short. */
static const char *short_path(const char *path) {
    size_t length = strlen(path);
    return length > 200 ? path + length - 200 : path;
}

static const char *line_of(const void *data, int rank, int instr, int slot, char text[static TRI_ORIGIN_TEXT]) {
    const tri_program_set *set = data;
    const tri_parsed *parsed = set->rank[rank].parsed;
    int line = instr >= 0 ? parsed->instr_line[instr] : slot >= 0 ? parsed->slot_line[slot] : parsed->line;
    snprintf(text, TRI_ORIGIN_TEXT, "%s:%d", short_path(set->rank[rank].path), line);
    return text;
}

static tri_program_set *find_set(tri_arena *arena, tri_program_sets *sets, const tri_read_program *one) {
    const tri_program *p = one->parsed->program;
    for (int i = 0; i < sets->n; i++)
        if (strcmp(sets->at[i].title, p->title) == 0) return &sets->at[i];
    int world = tri__mesh_world(&p->mesh);
    tri_program_set *set = TRI_PUSH(arena, sets->at, sets->n, sets->cap);
    *set = (tri_program_set){.title = p->title, .first = *one, .world = world};
    set->rank = tri__arena_alloc(arena, (size_t)world * sizeof *set->rank);
    return set;
}

/* Checks a program's header. */
static tri_status check_head(const tri_read_program *one) {
    const tri_program *p = one->parsed->program;
    const tri_mesh *mesh = &p->mesh;
    const char *path = short_path(one->path);
    int line = one->parsed->line;
    if (mesh->pp < 1 || mesh->tp < 1 || mesh->dp < 1 || (double)mesh->pp * mesh->tp * mesh->dp > MOST_RANKS)
        return tri__fail(TRI_DATA, "%s:%d: a mesh of pp=%d tp=%d dp=%d is not possible", path, line, mesh->pp, mesh->tp,
                         mesh->dp);
    if (p->rank >= tri__mesh_world(mesh))
        return tri__fail(TRI_DATA, "%s:%d: rank %d of a mesh of %d ranks", path, line, p->rank, tri__mesh_world(mesh));
    return p->n_mb > 0 ? TRI_OK : tri__fail(TRI_DATA, "%s:%d: a step of 0 microbatches", path, line);
}

/* Two programs of one step agree on mesh, microbatches and the rows of the largest one. */
static tri_status check_same(const tri_read_program *first, const tri_read_program *one) {
    const tri_program *a = first->parsed->program, *b = one->parsed->program;
    const char *what = memcmp(&a->mesh, &b->mesh, sizeof a->mesh) != 0 ? "mesh"
                       : a->n_mb != b->n_mb                            ? "number of microbatches"
                       : memcmp(&a->max, &b->max, sizeof a->max) != 0  ? "largest microbatch"
                       : a->gates != b->gates                          ? "list of kinds of steps"
                       : !tri__same_layers(a, b)                       ? "list of layers that steps leave out"
                                                                       : NULL;
    if (!what) return TRI_OK;
    return tri__fail(TRI_DATA, "%s:%d: has another %s than %s:%d", short_path(one->path), one->parsed->line, what,
                     short_path(first->path), first->parsed->line);
}

static tri_status add_program(tri_arena *arena, tri_program_sets *sets, tri_read_program one) {
    TRI_TRY(check_head(&one));
    tri_program_set *set = find_set(arena, sets, &one);
    TRI_TRY(check_same(&set->first, &one));
    tri_read_program *at = &set->rank[one.parsed->program->rank];
    if (at->parsed)
        return tri__fail(TRI_DATA, "%s:%d: a second program of rank %d: the first is %s:%d", short_path(one.path),
                         one.parsed->line, one.parsed->program->rank, short_path(at->path), at->parsed->line);
    *at = one;
    set->n++;
    return TRI_OK;
}

static tri_status check_all_there(const tri_program_set *set) {
    char missing[128] = "";
    int listed = 0;
    for (int rank = 0; rank < set->world && listed < SHOWN_RANKS; rank++) {
        if (set->rank[rank].parsed) continue;
        snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%d", listed++ ? ", " : "", rank);
    }
    if (!listed) return TRI_OK;
    int lacks = set->world - set->n;
    return tri__fail(TRI_DATA,
                     "%s:%d: one of %d ranks; there %s no program of rank%s %s%s (\"%s\"): give those of all ranks, as "
                     "`trident plan --print-program all` prints them",
                     short_path(set->first.path), set->first.parsed->line, set->world, lacks == 1 ? "is" : "are",
                     lacks == 1 ? "" : "s", missing, lacks > listed ? ", ..." : "", set->title);
}

/* All ranks have a program, and they pass the checker together. */
static tri_status prove(tri_arena *arena, tri_program_set *set) {
    TRI_TRY(check_all_there(set));
    const tri_program **program = tri__arena_alloc(arena, (size_t)set->world * sizeof *program);
    for (int rank = 0; rank < set->world; rank++) program[rank] = set->rank[rank].parsed->program;
    TRI_TRY(tri__classes_list(&set->classes, arena, program, set->world));
    return tri__check_read(&set->classes, &(tri_origin){line_of, set});
}

static tri_status bring_together(tri_arena *arena, void *data) {
    const reading *r = data;
    tri_program_sets sets = {0};
    for (int i = 0; i < r->n; i++) {
        tri_parsed *parsed;
        int n;
        TRI_TRY(tri__programs_parse(arena, short_path(r->paths[i]), r->text[i], &parsed, &n));
        for (int k = 0; k < n; k++) TRI_TRY(add_program(arena, &sets, (tri_read_program){r->paths[i], &parsed[k]}));
    }
    for (int i = 0; i < sets.n; i++) TRI_TRY(prove(arena, &sets.at[i]));
    return r->use(arena, &sets, r->data);
}

/* All bytes of a descriptor, which may be a pipe, and a final 0. */
static tri_status read_whole(const char *path, int fd, char **text, size_t *size) {
    size_t room = 0;
    for (ssize_t got = 1; got != 0;) {
        if (*size + 1 >= room) {
            char *more = realloc(*text, room = room ? 2 * room : (size_t)1 << 20);
            if (!more) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
            *text = more;
        }
        got = read(fd, *text + *size, room - 1 - *size);
        if (got < 0 && errno != EINTR) return tri__fail(TRI_IO, "cannot read %s: %s", path, strerror(errno));
        if (got > 0) *size += (size_t)got;
        if (*size > FILE_LIMIT) return tri__fail(TRI_DATA, "%s: larger than any file of programs", path);
    }
    (*text)[*size] = 0;
    return TRI_OK;
}

static tri_status read_text(const char *path, char **text) {
    size_t size = 0;
    TRI_OWNED(tri__fd_drop) int fd = -1;
    TRI_TRY(tri__file_open_any(path, &fd));
    TRI_TRY(read_whole(path, fd, text, &size));
    if (strlen(*text) != size) return tri__fail(TRI_DATA, "%s: not a printed program: it contains NUL bytes", path);
    return TRI_OK;
}

tri_status tri__programs_read(const char *const *paths, int n,
                              tri_status (*use)(tri_arena *arena, const tri_program_sets *sets, void *data),
                              void *data) {
    reading r = {.paths = paths, .text = calloc((size_t)n + 1, sizeof *r.text), .n = n, .use = use, .data = data};
    tri_status status = r.text ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    for (int i = 0; i < n && status == TRI_OK; i++) status = read_text(paths[i], &r.text[i]);
    if (status == TRI_OK) status = tri__arena_scratch(bring_together, &r);
    for (int i = 0; i < n && r.text; i++) free(r.text[i]);
    free(r.text);
    return status;
}
