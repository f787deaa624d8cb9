/* cost.c - kernels by their measured curves or, without them, by a roofline. */
#include "sim/cost.h"
#include "sim/sizes.h"

#define LONG 50e-6 /* seconds; of longer kernels lanes saved less on an H200, little at the power limit */

enum { PHASES = 3 }; /* forward, gradients of inputs, of weights */

static tri_op_rate rate_of(const tri_op_row *row) {
    return row->rate || row->like < 0 ? row->rate : rate_of(tri__variant_row(row->like));
}

static double flops_of(const tri_hardware *h, const tri_program *program, const tri_instr *instr) {
    tri_op_rate kind = rate_of(tri__instr_row(instr));
    if (tri__row_is_fp8(tri__instr_row(instr))) return h->half / TRI_FP8_TIME;
    double rate = tri__instr_dtype(program, instr) == TRI_F32 ? h->f32 : h->half;
    return kind == TRI_RATE_ATTENTION ? rate * h->attention : rate;
}

/* Seconds that an operation occupies the device, without the minimum of a launch. */
static double work_of(const tri_hardware *h, const tri_program *program, const tri_instr *instr,
                      const tri_counts *counts) {
    tri_cost cost = tri__instr_cost(program, instr, counts);
    return fmax(cost.flops / flops_of(h, program, instr), cost.bytes / h->bytes);
}

/* Calls that were timed last: layers and microbatches repeat the same ones. */
enum { REMEMBERED = 256 };
typedef struct timed {
    tri_kernel_call call;
    double seconds;
} timed;

static size_t place_of(const tri_kernel_call *call) {
    double mix = (double)call->variant * 31 + (double)call->dtype * 7 + call->adds + 3 * (double)call->code;
    for (int k = 0; k < TRI_SIZES; k++) mix = mix * 1.7 + call->size[k];
    return (size_t)fmod(mix, REMEMBERED);
}

/* A kernel's time by its curve; -1: there is none. */
static double curve_of(const tri_costs *costs, const tri_program *program, const tri_instr *instr,
                       const tri_counts *counts, timed *known) {
    const tri_hardware *h = costs->hardware;
    tri_kernel_call call;
    if (!h->n_kernels) return -1;
    memset(&call, 0, sizeof call); /* calls are compared by their bytes */
    call.variant = tri__variant((tri_op)instr->op, &instr->attr), call.dtype = tri__instr_dtype(program, instr);
    call.threads = tri__hardware_threads(h, tri__mesh_world(&program->mesh), costs->threads);
    call.adds = tri__instr_adds(instr), call.code = tri__instr_code(instr);
    tri__instr_sizes(program, instr, counts, call.size);
    timed *at = &known[place_of(&call)];
    if (at->seconds == 0 || memcmp(&at->call, &call, sizeof call) != 0)
        *at = (timed){.call = call, .seconds = tri__curve_seconds(h, &call)};
    return at->seconds;
}

static double seconds_of(const tri_costs *costs, const tri_program *program, const tri_instr *instr,
                         const tri_counts *counts, timed *known) {
    const tri_hardware *h = costs->hardware;
    tri_queue queue = tri__op_queue(instr->op);
    if (queue == TRI_QUEUE_COMM || instr->op == TRI_OP_copy_wait) return 0;
    if (queue == TRI_QUEUE_COPY) {
        double bytes = tri__instr_cost(program, instr, counts).bytes;
        /* one memory is read, the other written */
        return h->launch + (instr->op == TRI_OP_copy_post ? bytes / 2 : bytes) / h->copy;
    }
    double measured = curve_of(costs, program, instr, counts, known);
    return measured > 0 ? measured : fmax(h->launch, work_of(h, program, instr, counts));
}

/* 0 forward, 1 gradients of inputs, 2 of weights; -1: other. */
static int phase_of(const tri_instr *instr) {
    tri_op_phase phase = tri__instr_row(instr)->phase;
    return phase == TRI_PHASE_F ? 0 : phase == TRI_PHASE_B ? 1 : phase == TRI_PHASE_W ? 2 : -1;
}

/* Scales a unit's seconds so that its first microbatch takes the measured time. */
static void scale_unit(const tri_program *program, const tri_unit_seconds *measured, double *seconds) {
    const double want[PHASES] = {measured->forward, measured->input, measured->weight};
    double have[PHASES] = {0};
    int first = -1;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < program->n_instrs; i++) {
            const tri_instr *instr = &program->instr[i];
            int phase = phase_of(instr);
            if (phase < 0 || instr->unit < 0 || strcmp(program->unit[instr->unit], measured->unit) != 0) continue;
            if (first < 0) first = instr->mb;
            if (pass == 0) have[phase] += instr->mb == first ? seconds[i] : 0;
            else if (have[phase] > 0) seconds[i] *= want[phase] / have[phase];
        }
}

double *tri__program_seconds(tri_arena *arena, const tri_program *program, const tri_costs *costs) {
    double *seconds = tri__arena_alloc(arena, (size_t)program->n_instrs * sizeof *seconds);
    timed *known = tri__arena_alloc(arena, REMEMBERED * sizeof *known);
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        seconds[i] = seconds_of(costs, program, instr, tri__costs_counts(costs, program, instr), known);
    }
    for (int u = 0; u < costs->n_measured; u++) scale_unit(program, &costs->measured[u], seconds);
    for (int i = 0; i < program->n_instrs; i++) seconds[i] *= tri__layer_share(program, &program->instr[i]);
    return seconds;
}

double tri__instr_work(const tri_program *program, const tri_instr *instr, double seconds, const tri_costs *costs) {
    if (costs->hardware->n_kernels) return fmax(0, seconds - costs->hardware->launch * fmin(1, LONG / seconds));
    double work = work_of(costs->hardware, program, instr, tri__costs_counts(costs, program, instr));
    return work > 0 ? seconds * work / fmax(costs->hardware->launch, work) : 0;
}
