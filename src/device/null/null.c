/* null.c - two devices that compute nothing, in host memory: "null", whose kernels return at once, for planning,
 * checking and simulating; and "timed", whose kernels sleep as long as the cost model predicts, so that programs,
 * transports and schedules of many ranks can be timed on few cores. Kernels write nothing, so results are zeros; only
 * `clip` reports that its step was applied. */
#include "device/null/null.h"

#include "device/cpu/cpu.h"

#define GIGA_RATE 5 /* of "timed" */
#define RATE (1e9 * GIGA_RATE) /* operations, or bytes, per second */
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
static const double NAP =
    100e-6; /* seconds; wake-up latency of the system. Shorter sleeps are deferred to the next kernel */

static void nothing(const tri_call *call) {
    if (call->op == TRI_OP_clip) *(int32_t *)call->t[TRI_ARG(clip, apply)].data = 1;
}

/* The sum over sequences of length squared; 0 for operations without sequences. */
static double squares(const tri_call *call) {
    int at = tri__row_arg(tri__call_row(call), "seq");
    const int32_t *seq = at < 0 ? NULL : call->t[at].data; /* [N+1] */
    double sum = 0;
    for (int64_t i = 0; seq && i + 1 < call->t[at].rows; i++)
        sum += (double)(seq[i + 1] - seq[i]) * (seq[i + 1] - seq[i]);
    return sum;
}

static double seconds_of(const tri_call *call) {
    tri_extent arg[TRI_MAX_ARGS];
    tri_dims dims;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        arg[k] = (tri_extent){call->t[k].rows, call->t[k].cols, (tri_dtype)call->dtype[k], call->t[k].data != NULL};
    tri__op_bind(tri__call_row(call), arg, &dims);
    dims.of['Q' - 'A'] = squares(call);
    tri_cost cost = tri__op_cost(tri__call_row(call), arg, call->acc, &dims);
    return (cost.flops > cost.bytes ? cost.flops : cost.bytes) / RATE;
}

/* State that kernels of one executor keep in its scratch space: when the last one returned, and when it was due. */
typedef struct pace {
    double end, due;
} pace;

/* A kernel that overslept makes the next one shorter, so that delays do not accumulate. */
static void pass_time(const tri_call *call) {
    pace *p = call->work;
    double late = p->end - p->due;
    nothing(call);
    p->end = tri__clock();
    p->due = p->end - late + seconds_of(call);
    if (p->due < p->end + NAP) return;
    tri__clock_sleep(p->due);
    p->end = tri__clock();
}

static void fill(tri_kernel_table *table, tri_kernel *run, tri_workspace work) {
    static const tri_dtype dtypes[] = {TRI_F32, TRI_BF16, TRI_F16};
    memset(table, 0, sizeof *table);
    for (int v = 0; v < tri__variant_count(); v++)
        for (int i = 0; i < 3 && tri__variant_computes(v); i++)
            table->run[v][dtypes[i]] = run, table->work[v][dtypes[i]] = work;
}

static void null_kernels(tri_kernel_table *table) { fill(table, nothing, (tri_workspace){0}); }
static void timed_kernels(tri_kernel_table *table) { fill(table, pass_time, (tri_workspace){.fixed = sizeof(pace)}); }

static const char *describe_null(void *context) {
    (void)context;
    return "computes nothing";
}

static const char *describe_timed(void *context) {
    (void)context;
    return "computes nothing, in the time of " TEXT(GIGA_RATE) " GFLOP/s and " TEXT(GIGA_RATE) " GB/s";
}

const tri_device tri__device_null = {TRI_CPU_MEMORY, .name = "null", .is_stub = 1, .kernels = null_kernels,
                                     .describe = describe_null};

const tri_device tri__device_timed = {
    TRI_CPU_MEMORY, .name = "timed", .is_stub = 1, .kernels = timed_kernels, .describe = describe_timed,
    .flops = RATE,  .bytes = RATE};
