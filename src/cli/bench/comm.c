/* comm.c - `trident bench comm`: how fast collectives are.
 *
 * Every operation and size is called several times. Before each call every rank rewrites its buffer (else small buffers
 * stay in the cache of the rank that reduced them last and look twice as fast), and a barrier follows. A call takes as
 * long as its slowest rank; the median of the calls is reported, and every result is verified. Interleaved with the
 * calls, so that all are measured under the same conditions, two threads copy 128 MiB (memcpy_ratio), and under an MPI
 * launcher MPI runs the same operation on the same buffers.
 *
 * A size has --seconds: as many calls as fit, at least one; one whose single call would take longer, by the sizes
 * before, is left out. Every line is printed as soon as it is measured.
 *
 * Bandwidths as in nccl-tests: algbw is bytes over time; busbw also accounts for the bytes that an operation must
 * move. */
#include "cli/bench/bench.h"
#include "cli/launch.h"

#include "comm/start/join.h"
#include "comm/mpi/mpi.h"

#include <sys/mman.h>

/* WARM: warm-up calls. A size gets as many calls as add up to CALL_BYTES, within the limits CALLS_MIN and CALLS_MAX.
 * COPIES: least memcpy samples of a size, spread over its calls; one per call up to FEW calls. HEAP_SLACK: for staging
 * the measured times. */
enum { WARM = 3, CALLS_MAX = 500, CALLS_MIN = 11, CALL_BYTES = 512 << 20, COPIES = 5, FEW = 20, COPY_BYTES = 128 << 20,
       HEAP_SLACK = 4 << 20 };
static const int64_t SIZE_LEAST = 4, SIZE_MOST = (int64_t)8 << 30;

typedef struct op_row {
    const char *name;
    tri_collective_kind kind;
    int split;        /* each rank has bytes / ranks, all ranks together have bytes */
    int all_in, all_out; /* `in` / `out` holds the parts of all ranks */
    int in_place;
    int rooted;       /* only rank 0 has a result */
    int steps;        /* busbw = steps * (n - 1) / n * algbw; 0: busbw = algbw */
} op_row;

static const op_row op_rows[] = {
    {.name = "all_reduce", .kind = TRI_ALL_REDUCE, .in_place = 1, .steps = 2},
    {.name = "reduce_scatter", .kind = TRI_REDUCE_SCATTER, .split = 1, .all_in = 1, .steps = 1},
    {.name = "all_gather", .kind = TRI_ALL_GATHER, .split = 1, .all_out = 1, .steps = 1},
    {.name = "broadcast", .kind = TRI_BROADCAST, .in_place = 1},
    {.name = "reduce", .kind = TRI_REDUCE, .in_place = 1, .rooted = 1},
    {.name = "gather", .kind = TRI_GATHER, .split = 1, .all_out = 1, .rooted = 1, .steps = 1},
    {.name = "scatter", .kind = TRI_SCATTER, .split = 1, .all_in = 1, .steps = 1},
    {.name = "all_to_all", .kind = TRI_ALL_TO_ALL, .split = 1, .all_in = 1, .all_out = 1, .steps = 1},
    {.name = "sendrecv", .kind = TRI_SEND}, /* to the next rank, from the previous one */
    {.name = "barrier", .kind = TRI_BARRIER},
};
enum { OPS = sizeof op_rows / sizeof *op_rows };

/* The measurements to take; the same on all ranks. */
typedef struct plan {
    tri_cli *cli;
    const tri_settings *settings;
    int asked[OPS];
    int64_t *bytes; /* [n_sizes] */
    int n_sizes;
    int native;     /* compare with MPI's operations */
    double seconds; /* of an operation and size */
} plan;

/* The state of one rank. */
typedef struct rig {
    const plan *plan;
    tri_world *world;
    tri_group *all;
    int n, me;
    float *in, *out;      /* [largest size] in the shared heap; out NULL where every operation is in place */
    char *from, *to;      /* [COPY_BYTES] on rank 0 */
} rig;

/* Measured times of one operation and size. */
typedef struct samples {
    double own[CALLS_MAX], native[CALLS_MAX], copy[CALLS_MAX];
    int calls, copies;
} samples;

/* ---- The yardstick: a copy by two threads ---- */

static double time_copy(const rig *r) {
    size_t half = COPY_BYTES / 2;
    double begin = tri__clock();
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 2; i++) memcpy(r->to + (size_t)i * half, r->from + (size_t)i * half, half);
    return tri__clock() - begin;
}

/* ---- One call ---- */

static float value(int rank, int call) { return (float)((rank + call + WARM) % 7 + 1); }

/* The exact value that element `part` of the result must have. */
static float expected(const rig *r, const op_row *op, int part, int call) {
    float sum = 0;
    switch (op->kind) {
    case TRI_ALL_GATHER:
    case TRI_GATHER:
    case TRI_ALL_TO_ALL: return value(part, call);
    case TRI_BROADCAST:
    case TRI_SCATTER: return value(0, call);
    case TRI_SEND: return value((r->me + r->n - 1) % r->n, call);
    default: break;
    }
    for (int rank = 0; rank < r->n; rank++) sum += value(rank, call);
    return sum;
}

static tri_status verify(const rig *r, const op_row *op, int64_t count, int call) {
    const float *out = op->in_place ? r->in : r->out; /* [all] */
    int64_t all = op->all_out ? count * r->n : count;
    const int64_t places[] = {0, all / 2, all - 1};
    if (op->rooted && r->me) return TRI_OK;
    for (int i = 0; i < 3 && all; i++) {
        float want = expected(r, op, (int)(places[i] / count), call), got = out[places[i]];
        if (got != want)
            return tri__fail(TRI_INTERNAL, "%s of %lld elements on rank %d: element %lld is %g, not %g", op->name,
                             (long long)count, r->me, (long long)places[i], (double)got, (double)want);
    }
    return TRI_OK;
}

/* Rewrites the inputs and lets all ranks begin together. The second barrier is for ranks that slept in the first. */
static tri_status prepare(const rig *r, const op_row *op, int64_t count, int call) {
    int64_t all = op->all_in ? count * r->n : count;
    float mine = value(r->me, call);
    for (int64_t i = 0; i < all; i++) r->in[i] = mine;
    TRI_TRY(tri_barrier(r->all));
    return tri_barrier(r->all);
}

static tri_collective what(const rig *r, const op_row *op, int64_t count) {
    return (tri_collective){.kind = op->kind, .dtype = TRI_F32, .reduction = TRI_SUM, .in = r->in,
                            .out = op->in_place ? r->in : r->out, .count = count};
}

static tri_status carry_out(const rig *r, const op_row *op, int64_t count) {
    tri_collective first = what(r, op, count);
    tri_request request, receive;
    if (op->kind == TRI_BARRIER) return tri_barrier(r->all);
    if (op->kind == TRI_SEND) {
        tri_collective second = first;
        first.out = NULL, first.root = (r->me + 1) % r->n;
        second.kind = TRI_RECV, second.in = NULL, second.root = (r->me + r->n - 1) % r->n;
        TRI_TRY(tri_post(r->all, &second, &receive));
        TRI_TRY(tri_post(r->all, &first, &request));
        TRI_TRY(tri_wait(r->world, request));
        return tri_wait(r->world, receive);
    }
    TRI_TRY(tri_post(r->all, &first, &request));
    return tri_wait(r->world, request);
}

static tri_status one_call(const rig *r, const op_row *op, int64_t count, int call, int native, double *seconds) {
    tri_collective same = what(r, op, count);
    TRI_TRY(prepare(r, op, count, call));
    double begin = tri__clock();
    TRI_TRY(native ? tri__mpi_native(r->world, &same) : carry_out(r, op, count));
    *seconds = tri__clock() - begin;
    return verify(r, op, count, call);
}

/* ---- One operation and size ---- */

static int has_native(const rig *r, const op_row *op) { return r->plan->native && op->kind != TRI_SEND; }

/* Rank 0's number, for all. */
static tri_status told(const rig *r, double *number) { return tri_broadcast(r->all, number, 1, TRI_F64, 0); }

/* A call of ours and, where there is one, of MPI. */
static tri_status call_both(const rig *r, const op_row *op, int64_t count, int call, double *own, double *native) {
    TRI_TRY(one_call(r, op, count, call, 0, own));
    return has_native(r, op) ? one_call(r, op, count, call, 1, native) : TRI_OK;
}

/* Warm-up calls, within a quarter of the time but one at least, and from the last of them the number of calls that fit.
 * The first sets up connections. */
static tri_status warm_up(const rig *r, const op_row *op, int64_t count, int64_t bytes, samples *s) {
    double begin = tri__clock(), each = 0, again = 1, ignored;
    for (int call = -WARM; call < 0 && again > 0; call++) {
        double since = tri__clock();
        TRI_TRY(call_both(r, op, count, call, &ignored, &ignored));
        each = tri__clock() - since;
        again = tri__clock() - begin < r->plan->seconds / 4;
        TRI_TRY(told(r, &again));
    }
    double by_bytes = fmin(CALLS_MAX, fmax(CALLS_MIN, bytes ? CALL_BYTES / (double)bytes : CALLS_MAX)),
           left = r->plan->seconds - (tri__clock() - begin), calls = fmax(1, fmin(by_bytes, left / each));
    TRI_TRY(told(r, &calls));
    s->calls = (int)calls;
    return TRI_OK;
}

static tri_status take_samples(const rig *r, const op_row *op, int64_t count, int64_t bytes, samples *s) {
    TRI_TRY(warm_up(r, op, count, bytes, s));
    s->copies = 0;
    int every = s->calls > FEW ? s->calls / COPIES : 1;
    for (int call = 0; call < s->calls; call++) {
        TRI_TRY(call_both(r, op, count, call, &s->own[call], &s->native[call]));
        if (call % every) continue;
        if (r->me == 0) s->copy[s->copies] = time_copy(r);
        s->copies++;
    }
    /* a call takes as long as its slowest rank */
    TRI_TRY(tri_all_reduce(r->all, NULL, s->own, s->calls, TRI_F64, TRI_MAX));
    return has_native(r, op) ? tri_all_reduce(r->all, NULL, s->native, s->calls, TRI_F64, TRI_MAX) : TRI_OK;
}

/* Columns of a line of the table, or of its head. */
static void print_line(const rig *r, const char *const *text) {
    static const int width[] = {-14, 11, 7, 13, 12, 12, 11, 13, 12};
    const tri_cli *cli = r->plan->cli;
    int head = !strcmp(text[0], "op"), n = r->plan->native ? 9 : 7;
    if (head && cli->out_color) fputs("\033[1m", cli->out);
    for (int i = 0; i < n; i++) fprintf(cli->out, "%*s", width[i], text[i]);
    fputs(head && cli->out_color ? "\033[0m\n" : "\n", cli->out);
    fflush(cli->out);
}

static tri_status report(const rig *r, const op_row *op, int64_t bytes, samples *s) {
    double seconds = tri__bench_median(s->own, s->calls), rate = (double)bytes / seconds,
           copy_rate = COPY_BYTES / tri__bench_median(s->copy, s->copies);
    double bus = op->steps ? op->steps * (double)(r->n - 1) / r->n : 1,
           native = has_native(r, op) ? tri__bench_median(s->native, s->calls) : 0;
    if (!r->plan->settings->json) {
        char text[8][32];
        const char *row[9] = {op->name};
        const double figures[] = {(double)bytes, r->n, seconds * 1e6, rate / 1e9, bus * rate / 1e9, rate / copy_rate,
                                  native * 1e6, native / seconds};
        static const int digits[] = {0, 0, 2, 2, 2, 3, 2, 2};
        for (int i = 0; i < 8; i++) {
            snprintf(text[i], sizeof text[i], "%.*f", digits[i], figures[i]);
            row[i + 1] = i >= 6 && native == 0 ? "-" : text[i];
        }
        print_line(r, row);
        return TRI_OK;
    }
    tri_json *line = tri__json_pack("{s:s, s:I, s:i, s:f, s:f, s:f, s:f, s:f}", "op", op->name, "bytes",
                                    (tri_json_int)bytes, "ranks", r->n, "time_us", seconds * 1e6, "algbw_gbs",
                                    rate / 1e9, "busbw_gbs", bus * rate / 1e9, "memcpy_ratio", rate / copy_rate,
                                    "memcpy_gbs", copy_rate / 1e9);
    if (native) {
        tri__json_set_new(line, "mpi_time_us", tri__json_real(native * 1e6));
        tri__json_set_new(line, "mpi_ratio", tri__json_real(native / seconds));
    }
    tri__json_set_new(line, "calls", tri__json_integer(s->calls));
    return tri__bench_json(r->plan->cli, line);
}

/* What a call of ours and of MPI took at the largest size so far. Of sizes whose time is mostly latency, and of none,
 * nothing follows. */
enum { TELLING = 128 << 10 };
typedef struct before {
    double bytes, seconds;
} before;

static tri_status measure(const rig *r, const op_row *op, int64_t bytes, samples *s, before *last) {
    int64_t count = op->kind == TRI_BARRIER ? 0 : bytes / 4 / (op->split ? r->n : 1);
    if (count == 0 && op->kind != TRI_BARRIER) count = 1;
    int64_t moved = count * 4 * (op->split ? r->n : 1);
    double expected = last->bytes >= TELLING ? last->seconds * (double)moved / last->bytes : 0,
           leave = expected > r->plan->seconds;
    TRI_TRY(told(r, &leave));
    if (leave > 0) {
        if (r->me == 0)
            fprintf(r->plan->cli->err, "trident: %s of %lld bytes is left out: one call would take about %.2g s; "
                    "--seconds %g is the time of a size\n", op->name, (long long)moved, expected, r->plan->seconds);
        return TRI_OK;
    }
    TRI_TRY(take_samples(r, op, count, moved, s));
    if (r->me) return TRI_OK;
    TRI_TRY(report(r, op, moved, s));
    double both = tri__bench_median(s->own, s->calls);
    if (has_native(r, op)) both += tri__bench_median(s->native, s->calls);
    if ((double)moved > last->bytes) *last = (before){(double)moved, both};
    return TRI_OK;
}

/* ---- A rank from beginning to end ---- */

/* Bytes of one buffer: slightly more than the largest size, because its parts are rounded up. */
static size_t buffer_bytes(const plan *p, int n) {
    int64_t most = 0;
    for (int i = 0; i < p->n_sizes; i++) most = p->bytes[i] > most ? p->bytes[i] : most;
    return (size_t)most + 4 * (size_t)n;
}

static int needs_out(const plan *p) {
    for (int i = 0; i < OPS; i++)
        if (p->asked[i] && !op_rows[i].in_place && op_rows[i].kind != TRI_BARRIER) return 1;
    return 0;
}

static tri_status set_up(rig *r) {
    void *memory;
    TRI_TRY(tri_heap_alloc(r->world, buffer_bytes(r->plan, r->n), &memory));
    r->in = memory;
    if (needs_out(r->plan)) TRI_TRY(tri_heap_alloc(r->world, buffer_bytes(r->plan, r->n), &memory));
    r->out = memory;
    if (r->me) return TRI_OK;
    char *both = mmap(NULL, 2 * (size_t)COPY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                      -1, 0);
    if (both == MAP_FAILED)
        return tri__fail(TRI_RESOURCE, "no memory for two copies of 128 MiB, the measure of memory's speed");
    memset(both, 1, 2 * (size_t)COPY_BYTES);
    r->from = both, r->to = both + COPY_BYTES;
    static const char *const head[] = {"op", "bytes", "ranks", "time us", "algbw GB/s", "busbw GB/s", "of memcpy",
                                       "MPI us", "MPI / ours"};
    (void)time_copy(r); /* starts the second thread */
    if (!r->plan->settings->json) print_line(r, head);
    return TRI_OK;
}

static tri_status run_rank(tri_world *world, const plan *p) {
    rig r = {.plan = p, .world = world, .all = tri_group_world(world), .n = tri_world_size(world),
             .me = tri_world_rank(world)};
    TRI_OWNED(tri__free_at) samples *s = malloc(sizeof *s);
    tri_status status = s ? set_up(&r) : tri__fail(TRI_RESOURCE, "no memory for the times of %d calls", CALLS_MAX);
    for (int i = 0; i < OPS; i++) {
        before last = {0};
        for (int k = 0; p->asked[i] && k < (op_rows[i].kind == TRI_BARRIER ? 1 : p->n_sizes) && status == TRI_OK; k++)
            status = measure(&r, &op_rows[i], p->bytes[k], s, &last);
    }
    if (r.from) munmap(r.from, 2 * (size_t)COPY_BYTES);
    return status;
}

/* ---- What is asked for ---- */

static const char *op_name(int i) { return op_rows[i].name; }

static tri_status read_plan(const tri_bench_options *asked, plan *p) {
    const char *unknown = tri__bench_names(&asked->op, OPS, op_name, p->asked);
    if (unknown)
        return tri__fail(TRI_USAGE, "--op %s: no such operation; trident bench --help all lists them", unknown);
    p->bytes = calloc((size_t)asked->sizes.n + 1, sizeof *p->bytes);
    if (!p->bytes) return tri__fail(TRI_RESOURCE, "no memory for %d sizes", asked->sizes.n);
    for (int k = 0; k < asked->sizes.n; k++) {
        p->bytes[p->n_sizes++] = tri__text_size(asked->sizes.at[k]);
        if (p->bytes[k] < SIZE_LEAST || p->bytes[k] > SIZE_MOST)
            return tri__fail(TRI_USAGE, "--sizes %s: expected bytes from 4 to 8G, e.g. 4096, 64K, 25M",
                             asked->sizes.at[k]);
    }
    return p->n_sizes && asked->op.n ? TRI_OK : tri__fail(TRI_USAGE, "--op and --sizes need a value each");
}

static tri_status run_plan(tri_settings *settings, const tri_bench_options *options, plan *p) {
    tri_launch launch;
    int here;
    TRI_TRY(read_plan(options, p));
    TRI_TRY(tri__launch_resolve(p->cli, settings, &launch));
    TRI_TRY(tri__bench_ranks(settings, &here));
    if (launch.launcher != TRI_LAUNCHER_NONE) here = launch.size;
    tri_ranks how = {.progress_timeout = settings->progress_timeout, .io_timeout = settings->io_timeout,
                     .heap_bytes = (needs_out(p) ? 2 : 1) * (buffer_bytes(p, here) + 4096) + HEAP_SLACK};
    if (launch.launcher == TRI_LAUNCHER_NONE) {
        settings->nproc_per_node = here;
        settings->bind_cores = here <= tri__cores(); /* with two ranks on a core the scheduler would be timed */
        return tri__launch_start(p->cli, settings, NULL, how.heap_bytes);
    }
    p->native = tri__launcher_has_mpi(launch.launcher);
    tri_world *world;
    TRI_TRY(tri__world_join_launch(&how, &launch, &world));
    return tri__rank_leave(tri__cli_parent(p->cli), &launch, world, run_rank(world, p));
}

tri_status tri__bench_comm(tri_cli *cli, tri_settings *settings, const tri_bench_options *options) {
    plan p = {.cli = cli, .settings = settings, .seconds = options->seconds};
    tri_status status = run_plan(settings, options, &p);
    free(p.bytes);
    return status;
}
