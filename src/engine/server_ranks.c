/* server_ranks.c - ranks of a server: orders as records of the program's control, then the program itself. */
#include "engine/evaluate.h"
#include "engine/server_ranks.h"

static const double inv = 1; /* the factor of the loss, which nothing reads */

int tri__engine_parts(const tri_engine *engine) {
    return tri__mesh_readers(&engine->place.mesh) * engine->in.n_mb_infer;
}

static double *part_of(double *record, int part) { return record + TRI_ORDERED_PARTS + part * TRI_SYM_COUNT; }

/* The instruction after the order. */
static int first_of(const tri_program *program) {
    return tri__transfer_wait_of(program, tri__exec_control_of(program)) + 1;
}

static tri_status run(tri_engine *engine, int begin, const tri_feed *feed) {
    int end = engine->plan.infer.program->n_instrs;
    TRI_TRY(tri__exec_run(engine->exec, engine->infer, begin, end, 0, feed, NULL));
    return tri__exec_finish(engine->exec);
}

tri_status tri__engine_lead(tri_engine *engine, tri_order order, int64_t value, const tri_feed *feed) {
    const tri_program *program = engine->plan.infer.program;
    int parts = tri__engine_parts(engine);
    for (int part = 0; part < parts && order == TRI_ORDER_RUN; part++)
        TRI_TRY(tri__feed_check(engine, &feed[part].counts));
    if (tri__exec_control_of(program) < 0) return order == TRI_ORDER_RUN ? run(engine, 0, feed) : TRI_OK;
    TRI_OWNED(tri__free_at) double *record = NULL;
    TRI_TRY(TRI_NEW(record, TRI_ORDERED_PARTS + TRI_SYM_COUNT * parts, "an order"));
    record[TRI_ORDERED_WHAT] = order;
    record[TRI_ORDERED_VALUE] = (double)value;
    for (int part = 0; part < parts && order == TRI_ORDER_RUN; part++)
        for (int sym = TRI_SYM_T0; sym < TRI_SYM_COUNT; sym++)
            part_of(record, part)[sym] = (double)feed[part].counts.of[sym];
    const tri_feed told = {.field = {[TRI_FIELD_control] = record}};
    TRI_TRY(tri__exec_control(engine->exec, engine->infer, &told));
    return order == TRI_ORDER_RUN ? run(engine, first_of(program), feed) : TRI_OK;
}

/* The counts of all parts; fields that no batch changes. */
static void read_order(const tri_engine *engine, double *record, tri_feed *feed) {
    for (int part = 0; part < tri__engine_parts(engine); part++) {
        tri__feed_fixed(engine, &inv, &feed[part]);
        for (int sym = TRI_SYM_T0; sym < TRI_SYM_COUNT; sym++)
            feed[part].counts.of[sym] = (int64_t)part_of(record, part)[sym];
    }
}

static tri_status follow(tri_engine *engine, tri_feed *feed, tri_order *order, int64_t *value) {
    const tri_program *program = engine->plan.infer.program;
    const tri_feed nothing = {0};
    double *record = tri__exec_slot(engine->exec, engine->infer, program->instr[tri__exec_control_of(program)].slot[0]);
    for (;;) {
        TRI_TRY(tri__exec_control(engine->exec, engine->infer, &nothing));
        *order = (tri_order)record[TRI_ORDERED_WHAT];
        *value = (int64_t)record[TRI_ORDERED_VALUE];
        if (*order == TRI_ORDER_RELOAD || *order == TRI_ORDER_STOP) return TRI_OK;
        if (*order == TRI_ORDER_IDLE) continue;
        read_order(engine, record, feed);
        TRI_TRY(run(engine, first_of(program), feed));
    }
}

tri_status tri__engine_follow(tri_engine *engine, tri_order *order, int64_t *value) {
    TRI_OWNED(tri__free_at) tri_feed *feed = calloc((size_t)tri__engine_parts(engine), sizeof *feed);
    if (!feed) return tri__fail(TRI_RESOURCE, "out of memory for a feed");
    return follow(engine, feed, order, value);
}
