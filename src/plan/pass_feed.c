/* pass_feed.c - pass: the inputs of a prediction come from one rank. Only rank 0 of a server gets requests; the others
 * learn from it how large the batch is, and receive the batch.
 *
 *   control      an order (tri_ordered) and the row counts of all parts of the batch, before anything else
 *   rank 0       reads the inputs of all parts; sends those of other replicas to their first rank
 *   first ranks  of each replica broadcast its part to the ranks that share it (stages, layers)
 *
 * A part is a microbatch of a replica, numbered replica by replica: microbatch numbers of the program become these, so
 * that both sides of a transfer name the same one. Inputs are small; all ranks of a replica take all of them, a
 * microbatch at a time, before they compute. Inputs that do not depend on the batch (class weights, the factor of the
 * loss, blocks of attention, words of columns) every rank reads itself. */
#include "plan/pass.h"

typedef struct feeder {
    tri_pass *pass;
    tri_builder to;             /* the program itself: instructions are written anew, slots are added */
    const tri_instr *from;      /* [n_from] its instructions before */
    int n_from;
    int n_mb;                   /* microbatches of a replica */
    tri_coords at;
    uint32_t axes;              /* of the ranks that share a replica's part; 0: one */
    int field[TRI_FIELD_COUNT]; /* [n_fields] those that depend on the batch */
    int n_fields;
    int *slot;                  /* [n_mb * n_fields] of this replica's inputs */
} feeder;

static int depends_on_batch(tri_field field) {
    return field != TRI_FIELD_class_weights && field != TRI_FIELD_loss_inv && field != TRI_FIELD_blocks0 &&
           field != TRI_FIELD_blocks1 && field != TRI_FIELD_columns;
}

static int add_slot(feeder *f, int k, int part) {
    tri_dtype dtype;
    tri_rows rows;
    int64_t cols;
    tri__field_shape(f->pass->in->model, (tri_field)f->field[k], &dtype, &rows, &cols);
    return tri__build_slot(&f->to, TRI_MEM_ACT, dtype, rows, cols, "%s#%d", tri__field_name((tri_field)f->field[k]),
                           part);
}

static int find_field(const feeder *f, const tri_instr *instr) {
    for (int k = 0; k < f->n_fields && instr->op == TRI_OP_input; k++)
        if (f->field[k] == instr->attr.field) return k;
    return -1;
}

/* This rank's slots of the inputs; where its stages need one not, a new one. */
static void find_slots(feeder *f) {
    f->slot = tri__none_yet(f->pass->arena, f->n_mb * f->n_fields);
    for (int i = 0; i < f->n_from; i++) {
        int k = find_field(f, &f->from[i]);
        if (k < 0) continue;
        TRI_ASSERT(!f->from[i].attr.part && !f->pass->program->slot[f->from[i].slot[0]].rows.div); /* whole fields */
        f->slot[f->from[i].mb * f->n_fields + k] = f->from[i].slot[0];
    }
    for (int mb = 0; mb < f->n_mb; mb++)
        for (int k = 0; k < f->n_fields; k++) {
            int *slot = &f->slot[mb * f->n_fields + k];
            if (*slot < 0) *slot = add_slot(f, k, mb);
        }
}

static void transfer(feeder *f, tri_op op, int k, int y, int x, tri_attr group) {
    group.id = tri__random_id(tri__field_name((tri_field)f->field[k]));
    tri__build(&f->to, op, (const int[TRI_MAX_ARGS]){y, x}, group);
}

static void read_input(feeder *f, int k, int slot) {
    TRI_BUILD(&f->to, input, ((tri_attr){.field = f->field[k]}), slot);
}

/* Rank 0: reads microbatch mb of another replica and posts it; `sent` [n_fields] are its slots. */
static void send_part(feeder *f, int replica, int mb, int *sent) {
    f->to.mb = replica * f->n_mb + mb;
    for (int k = 0; k < f->n_fields; k++) {
        sent[k] = add_slot(f, k, f->to.mb);
        read_input(f, k, sent[k]);
        transfer(f, TRI_OP_send_post, k, sent[k], -1, (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .root = replica});
    }
}

/* The first rank of a replica: has its microbatch from rank 0, or is that one. */
static void take_part(feeder *f, const int *slot) {
    for (int k = 0; k < f->n_fields; k++) {
        if (f->at.dp == 0) read_input(f, k, slot[k]);
        else transfer(f, TRI_OP_recv_post, k, slot[k], -1, (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP)});
    }
    for (int k = 0; k < f->n_fields && f->at.dp > 0; k++) TRI_BUILD(&f->to, wait, (tri_attr){0}, slot[k], -1);
}

static void share_part(feeder *f, const int *slot, int first) {
    if (!f->axes) return;
    for (int k = 0; k < f->n_fields; k++)
        transfer(f, TRI_OP_broadcast_post, k, slot[k], first ? slot[k] : -1, (tri_attr){.axes = f->axes});
    for (int k = 0; k < f->n_fields; k++) TRI_BUILD(&f->to, wait, (tri_attr){0}, slot[k], first ? slot[k] : -1);
}

static void feed_microbatch(feeder *f, int mb) {
    const int *slot = f->slot + mb * f->n_fields;
    int dp = f->pass->in->mesh.dp, first = f->at.pp == 0 && f->at.tp == 0, sends = first && f->at.dp == 0;
    int *sent = tri__arena_alloc(f->pass->arena, (size_t)(dp * f->n_fields) * sizeof *sent);
    for (int replica = 1; replica < dp && sends; replica++) send_part(f, replica, mb, sent + replica * f->n_fields);
    f->to.mb = f->at.dp * f->n_mb + mb;
    if (first) take_part(f, slot);
    share_part(f, slot, first);
    for (int i = f->n_fields; i < dp * f->n_fields && sends; i++) {
        f->to.mb = i / f->n_fields * f->n_mb + mb;
        TRI_BUILD(&f->to, wait, (tri_attr){0}, -1, sent[i]);
    }
}

static void tell_order(feeder *f) {
    const tri_mesh *mesh = &f->pass->in->mesh;
    const tri_ends told = {TRI_BUILD_FLAT(&f->to, TRI_MEM_HOST, TRI_F64,
                                          TRI_ORDERED_PARTS + TRI_SYM_COUNT * mesh->dp * f->n_mb, "order"), -1};
    uint32_t axes = f->axes | tri__long_axes(mesh, TRI_AXIS_SET(TRI_AXIS_DP));
    tri__build_post(&f->to, TRI_OP_control_post, (tri_attr){.axes = axes}, told);
    tri__build_wait(&f->to, told);
}

/* The instructions of the step, without the inputs that are fed. */
static void append_step(feeder *f) {
    for (int i = 0; i < f->n_from; i++) {
        if (find_field(f, &f->from[i]) >= 0) continue;
        tri_instr *instr = tri__build_copy(&f->to, &f->from[i]);
        if (instr->mb >= 0) instr->mb = (int16_t)(instr->mb + f->at.dp * f->n_mb);
    }
}

tri_status tri__pass_feed(tri_pass *pass) {
    const tri_mesh *mesh = &pass->in->mesh;
    tri_program *program = pass->program;
    feeder f = {.pass = pass, .to = {.arena = pass->arena, .program = program, .unit = -1, .mb = -1},
                .n_mb = program->n_mb, .at = tri__mesh_coords(mesh, pass->in->rank),
                .axes = tri__long_axes(mesh, TRI_AXIS_SET(TRI_AXIS_PP) | TRI_AXIS_SET(TRI_AXIS_TP))};
    for (int field = 0; field < TRI_FIELD_COUNT; field++)
        if (pass->forward.input[field] >= 0 && depends_on_batch((tri_field)field)) f.field[f.n_fields++] = field;
    f.from = tri__take_instrs(program, &f.n_from);
    find_slots(&f);
    program->n_mb *= mesh->dp;
    tell_order(&f);
    for (int mb = 0; mb < f.n_mb; mb++) feed_microbatch(&f, mb);
    append_step(&f);
    return TRI_OK;
}
