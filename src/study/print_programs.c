/* print_programs.c - programs as text, fully planned or between two passes. */
#include "study/study.h"

#include "program/text.h"

typedef struct printing {
    tri_plan_in in;
    const tri_classes *all;    /* NULL: after pass `last` */
    const tri_pass_row *last;
    tri_plan_part part;        /* with last */
    int first, end;            /* ranks */
    tri_buffer text;
} printing;

static tri_status append_program(printing *p, const tri_program *program) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    TRI_TRY(tri__program_text(program, &text));
    tri__buffer_add(&p->text, text, strlen(text));
    return p->text.failed ? tri__fail(TRI_RESOURCE, "out of memory for a program's text") : TRI_OK;
}

static tri_status append_after(tri_arena *arena, printing *p, int rank) {
    const tri_pass_row *last = p->last;
    tri_program *program;
    int ran;
    p->in.rank = rank;
    TRI_TRY(tri__plan_until(arena, &p->in, p->part, last, &ran, &program));
    tri__buffer_put(&p->text, "# after pass %s: %s\n", last->name, last->does);
    if (!ran)
        tri__buffer_put(&p->text, "# it was not needed here, only for %s: the program is as before\n", last->needs);
    return append_program(p, program);
}

static tri_status print_ranks(tri_arena *scratch, void *data) {
    printing *p = data;
    for (int rank = p->first; rank < p->end; rank++) {
        if (p->last) TRI_TRY(append_after(scratch, p, rank));
        else TRI_TRY(append_program(p, tri__classes_program(p->all, scratch, rank)));
        tri__arena_rewind(scratch, 0);
    }
    return TRI_OK;
}

tri_status tri__view_programs(const tri_settings *s, const tri_engine *engine, const tri_classes *all, char **text) {
    const tri_plan_in *in = &engine->in;
    int world = tri__mesh_world(&in->mesh), first = s->print_program < 0 ? 0 : (int)s->print_program;
    printing p = {.in = *in, .all = all, .last = s->print_after ? tri__pass_find(s->print_after) : NULL,
                  .part = engine->train < 0              ? TRI_PART_SERVE
                          : s->print_kind == TRI_TRAIN ? TRI_PART_TRAIN
                                                       : TRI_PART_INFER,
                  .first = first, .end = s->print_program == TRI_PRINT_ALL ? world : first + 1};
    if (p.end > world) return tri__fail(TRI_USAGE, "--print-program %d: there are ranks 0 to %d", first, world - 1);
    if (p.last && (s->print_kind == TRI_START || s->print_kind == TRI_EXCHANGE))
        return tri__fail(TRI_USAGE,
                         "--print-after: the %s program is not made by passes; --print-kind train or infer",
                         s->print_kind == TRI_START ? "start" : "exchange");
    tri_status status = tri__arena_scratch(print_ranks, &p);
    if (status == TRI_OK) *text = p.text.text;
    else tri__buffer_free(&p.text);
    return status;
}
