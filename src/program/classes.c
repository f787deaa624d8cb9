/* classes.c - classes of ranks: finds a rank's class, derives a class from two members, expands a member's program. */
#include "program/classes.h"

#include <ctype.h>

int tri__classes_row(const tri_mesh *mesh, tri_coords at) { return at.tp * mesh->pp + at.pp; }

void tri__classes_open(tri_classes *r, tri_arena *arena, const tri_mesh *mesh, int period) {
    *r = (tri_classes){.mesh = *mesh, .world = tri__mesh_world(mesh), .period = period};
    r->first = tri__arena_alloc(arena, (size_t)(mesh->pp * mesh->tp + 1) * sizeof *r->first);
}

void tri__classes_add(tri_classes *r, tri_arena *arena, int row, tri_class added) {
    *TRI_PUSH(arena, r->at, r->n, r->cap) = added;
    for (int next = row + 1; next <= r->mesh.pp * r->mesh.tp; next++) r->first[next] = r->n;
}

void tri__classes_alias(tri_classes *r, tri_arena *arena, int row, int other) {
    int n = r->mesh.pp * r->mesh.tp;
    if (!r->like) {
        r->like = tri__arena_alloc(arena, (size_t)n * sizeof *r->like);
        for (int i = 0; i < n; i++) r->like[i] = i;
    }
    r->like[row] = other;
}

tri_status tri__classes_list(tri_classes *r, tri_arena *arena, const tri_program *const *programs, int n) {
    for (int i = 0; i < n; i++)
        if (programs[i]->rank != i || tri__mesh_world(&programs[i]->mesh) != n ||
            memcmp(&programs[i]->mesh, &programs[0]->mesh, sizeof(tri_mesh)) != 0)
            return tri__fail(TRI_INTERNAL,
                             "program %d of %d is of rank %d of a mesh of %d: not all ranks of one mesh, in order", i,
                             n, programs[i]->rank, tri__mesh_world(&programs[i]->mesh));
    const tri_mesh *mesh = &programs[0]->mesh;
    tri__classes_open(r, arena, mesh, mesh->dp);
    tri_coords at = {{0}};
    for (at.tp = 0; at.tp < mesh->tp; at.tp++)
        for (at.pp = 0; at.pp < mesh->pp; at.pp++)
            for (at.dp = 0; at.dp < mesh->dp; at.dp++)
                tri__classes_add(r, arena, tri__classes_row(mesh, at),
                                 (tri_class){.program = programs[tri__mesh_rank(mesh, at)], .begin = at.dp, .n = 1});
    return TRI_OK;
}

tri_status tri__classes_check(const tri_classes *r) {
    const tri_mesh *mesh = &r->mesh;
    tri_coords at = {{0}};
    for (at.tp = 0; at.tp < mesh->tp; at.tp++)
        for (at.pp = 0; at.pp < mesh->pp; at.pp++) {
            int row = tri__classes_row(mesh, at), place = 0;
            for (int i = r->first[row]; i < r->first[row + 1]; i++) {
                const tri_class *class = &r->at[i];
                const tri_program *p = class->program;
                at.dp = place;
                if (class->begin != place || class->n < 1 || memcmp(&p->mesh, mesh, sizeof *mesh) ||
                    p->rank != tri__mesh_rank(mesh, at))
                    return tri__fail(TRI_INTERNAL, "class %d of rank %d does not begin at rank %d", i, p->rank,
                                     tri__mesh_rank(mesh, at));
                place += class->n;
            }
            if (place != r->period || mesh->dp % r->period)
                return tri__fail(TRI_INTERNAL, "the classes of pp %d, tp %d are of %d replicas, not of %d", at.pp,
                                 at.tp, place, r->period);
        }
    return TRI_OK;
}

const tri_class *tri__class_of(const tri_classes *r, int rank, int *member) {
    tri_coords at = tri__mesh_coords(&r->mesh, rank);
    int row = tri__classes_row(&r->mesh, at), place = at.dp % r->period;
    if (r->like) row = r->like[row];
    int first = r->first[row];
    for (int step = r->first[row + 1] - first; step > 1;) { /* the last that begins at or before `place` */
        int half = step / 2;
        if (r->at[first + half].begin <= place) first += half, step -= half;
        else step = half;
    }
    if (member) *member = place - r->at[first].begin;
    return &r->at[first];
}

/* The name of a view of member `member`. */
static const char *moved_name(tri_arena *arena, const char *name, const tri_shift *shift, int member) {
    if (shift->digit < 0) return name;
    char *rest;
    long long number = strtoll(name + shift->digit, &rest, 10) + shift->number_each * member;
    return tri__arena_print(arena, "%.*s%lld%s", shift->digit, name, number, rest);
}

const tri_program *tri__classes_program(const tri_classes *r, tri_arena *arena, int rank) {
    int member;
    const tri_class *class = tri__class_of(r, rank, &member);
    if (class->program->rank == rank) return class->program;
    tri_program *p = tri__arena_alloc(arena, sizeof *p);
    *p = *class->program;
    p->rank = rank;
    if (!class->n_shifts || !member) return p;
    size_t bytes = (size_t)p->n_slots * sizeof *p->slot;
    p->slot = memcpy(tri__arena_alloc(arena, bytes), p->slot, bytes);
    for (int i = 0; i < class->n_shifts; i++) {
        const tri_shift *shift = &class->shift[i];
        tri_slot *slot = &p->slot[shift->slot];
        slot->parent_at += shift->each * member;
        slot->name = moved_name(arena, slot->name, shift, member);
    }
    return p;
}

int tri__same_units(const tri_program *a, const tri_program *b) {
    int same = a->n_units == b->n_units;
    for (int i = 0; i < a->n_units && same; i++)
        same = a->unit[i] == b->unit[i] || strcmp(a->unit[i], b->unit[i]) == 0;
    return same;
}

int tri__same_layers(const tri_program *a, const tri_program *b) {
    int same = a->n_layers == b->n_layers;
    for (int k = 0; k < a->n_layers && same && a->layer != b->layer; k++)
        same = a->layer[k].keep == b->layer[k].keep && strcmp(a->layer[k].name, b->layer[k].name) == 0;
    return same;
}

/* Equal except for the rank and the slots. */
static int same_frame(const tri_program *a, const tri_program *b) {
    return strcmp(a->title, b->title) == 0 && memcmp(&a->mesh, &b->mesh, sizeof a->mesh) == 0 && a->n_mb == b->n_mb &&
           memcmp(&a->max, &b->max, sizeof a->max) == 0 && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0 &&
           a->gates == b->gates && memcmp(a->share, b->share, sizeof a->share) == 0 && a->offload == b->offload &&
           tri__same_layers(a, b) && tri__same_units(a, b) && a->n_slots == b->n_slots && a->n_instrs == b->n_instrs &&
           (a->instr == b->instr || memcmp(a->instr, b->instr, (size_t)a->n_instrs * sizeof *a->instr) == 0);
}

/* Equal except for their begin in the parent and their names. */
static int same_shape(const tri_slot *a, const tri_slot *b) {
    return a->dtype == b->dtype && a->mem == b->mem && tri__same_rows(a->rows, b->rows) && a->cols == b->cols &&
           a->unit == b->unit && a->parent == b->parent && a->offset == b->offset;
}

int tri__program_equal(const tri_program *a, const tri_program *b) {
    if (a->rank != b->rank || !same_frame(a, b)) return 0;
    for (int s = 0; s < a->n_slots; s++) {
        const tri_slot *x = &a->slot[s], *y = &b->slot[s];
        if (!same_shape(x, y) || x->parent_at != y->parent_at || (x->name != y->name && strcmp(x->name, y->name) != 0))
            return 0;
    }
    return 1;
}

/* Whether `to` is `from` + steps * each, for a whole number `each`. */
static int step_of(int64_t from, int64_t to, int steps, int64_t *each) {
    *each = (to - from) / steps;
    return from + *each * steps == to;
}

/* Two names that differ at most in one number. */
static int rule_of_names(const char *a, const char *b, int steps, tri_shift *shift) {
    int at = 0;
    char *rest_a, *rest_b;
    shift->digit = -1;
    if (a == b || strcmp(a, b) == 0) return 1;
    while (a[at] && a[at] == b[at]) at++;
    while (at > 0 && isdigit((unsigned char)a[at - 1])) at--;
    if (!isdigit((unsigned char)a[at]) || !isdigit((unsigned char)b[at])) return 0;
    long long from = strtoll(a + at, &rest_a, 10), to = strtoll(b + at, &rest_b, 10);
    shift->digit = at;
    return strcmp(rest_a, rest_b) == 0 && step_of(from, to, steps, &shift->number_each);
}

int tri__class_rule(tri_arena *arena, const tri_program *first, const tri_program *last, int n, tri_class *out) {
    int cap = 0;
    out->shift = NULL, out->n_shifts = 0;
    if (!same_frame(first, last)) return 0;
    for (int s = 0; s < first->n_slots; s++) {
        const tri_slot *a = &first->slot[s], *b = &last->slot[s];
        tri_shift shift = {.slot = s};
        if (!same_shape(a, b) || !rule_of_names(a->name, b->name, n - 1, &shift)) return 0;
        if (!step_of(a->parent_at, b->parent_at, n - 1, &shift.each)) return 0;
        if (shift.each || shift.digit >= 0) *TRI_PUSH(arena, out->shift, out->n_shifts, cap) = shift;
    }
    return 1;
}
