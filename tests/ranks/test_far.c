/* test_far.c - ranks whose devices transfer data themselves, on a model of their queues: programs of every layout
 * complete; a program that differs on one rank is reported on all, with both ranks and descriptors; a failing rank or
 * broken link ends all waits in time. Needs no GPU. */
#include "tests/lib/tensor_job.h"

#include "base/clock.h"
#include "comm/world/group.h"
#include "comm/ops/request.h"
#include "tests/lib/far_device.h"
#include "program/transfer.h"
#include "tests/lib/rank_waits.h"
#include "comm/link/message.h"
#include "comm/shm/shm.h"

enum { STEPS = 3 };

/* What happens to a rank on its way. */
typedef struct trouble {
    int rank;               /* who has it; -1: nobody */
    int before_open;        /* 1: fails instead of opening its programs; 0: after its first step */
    double after;           /* seconds */
} trouble;

typedef struct far_job {
    job *job;
    trouble trouble;
    tri_status got[JOB_RANKS];
    char words[JOB_RANKS][512];
} far_job;

static tri_status fail_here(tri_world *world, const trouble *t) {
    pause_seconds(t->after);
    return tri__fail(TRI_DATA, "rank %d was told to fail", tri_world_rank(world));
}

/* The device moves nothing: what ranks tell each other is there all the same. */
static tri_status expect_told(const far_job *f, const tri_exec *exec, const tri_program *p) {
    int control = tri__exec_control_of(p), n = f->job->n;
    const double *sum = tri__exec_slot(exec, 0, p->instr[control].slot[0]); /* [1, TRI_TOLD_COUNT] */
    return sum[TRI_TOLD_IDLE] == n * (n + 1) / 2 ? TRI_OK : tri__fail(TRI_INTERNAL, "%g was told", sum[TRI_TOLD_IDLE]);
}

static tri_status take_steps(tri_world *world, far_job *f, tri_exec *exec) {
    int rank = tri_world_rank(world);
    tiny *t = &f->job->rank[rank];
    const double told[TRI_TOLD_COUNT] = {[TRI_TOLD_IDLE] = rank + 1};
    t->feed[0].field[TRI_FIELD_control] = told;
    TRI_TRY(tiny_start(t, exec));
    for (int step = 0; step < STEPS; step++) {
        if (step == 1 && rank == f->trouble.rank) return fail_here(world, &f->trouble);
        TRI_TRY(tri__exec_run(exec, 0, 0, t->program[0]->n_instrs, (uint32_t)step + 1, t->feed, NULL));
        TRI_TRY(tri__exec_finish(exec));
        TRI_TRY(expect_told(f, exec, t->program[0]));
    }
    TRI_TRY(tri__exec_run(exec, 1, 0, t->program[1]->n_instrs, 0, t->feed, NULL));
    return tri__exec_finish(exec);
}

static tri_status far_main(tri_world *world, void *argument) {
    far_job *f = argument;
    int rank = tri_world_rank(world), left;
    tri_exec *exec = NULL;
    tri_status status = rank == f->trouble.rank && f->trouble.before_open ? fail_here(world, &f->trouble) : TRI_OK;
    if (status == TRI_OK)
        status = tri__exec_open(&far_device, f->job->rank[rank].program, TRI_PROGRAMS, 1, 7, 0, world, NULL, &exec);
    if (status == TRI_OK) status = take_steps(world, f, exec);
    if (status == TRI_OK && (tri__announced(world, &left) != TRI_OK || left))
        status = tri__fail(TRI_INTERNAL, "%d are not compared", left);
    f->got[rank] = status;
    if (status != TRI_OK) snprintf(f->words[rank], sizeof f->words[rank], "%s", tri_error());
    if (status != TRI_OK && world->failed == TRI_OK) tri_world_fail(world, status, tri_error());
    tri__exec_close(exec);
    return status;
}

static tri_status run_far(far_job *f, double timeout, double *seconds) {
    double begin = tri__clock();
    tri_status status = tri_ranks_run(&(tri_ranks){.n = f->job->n, .heap_bytes = JOB_HEAP, .progress_timeout = timeout},
                                      far_main, f);
    *seconds = tri__clock() - begin;
    return status;
}

static void every_layout_ends(void **state) {
    (void)state;
    const job_what layouts[] = {
        {.dp = 2},
        {.dp = 4, .sharding.kind = TRI_SHARD_ZERO1, .n_mb = 2},
        {.dp = 4, .sharding.kind = TRI_SHARD_ZERO1, .precision = TRI_BF16},
        {.tp = 2,
         .dp = 3,
         .sharding = {.kind = TRI_SHARD_ZERO2, .wrap = TRI_WRAP_SIZE, .wrap_min_params = 2000},
         .precision = TRI_F16},
        {.dp = 2, .sharding.kind = TRI_SHARD_ZERO2},
        {.dp = 3, .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1}},
        {.tp = 2},
        {.tp = 2, .sequence = 1, .dp = 2},
        {.pp = 4, .n_mb = 4},
        {.pp = 2, .n_mb = 4, .staging.schedule = TRI_SCHEDULE_1F1B},
        {.pp = 4, .n_mb = 6, .staging.schedule = TRI_SCHEDULE_1F1B},
        {.pp = 3, .n_mb = 6, .staging = {.schedule = TRI_SCHEDULE_INTERLEAVED, .chunks = 2}},
        {.pp = 3, .n_mb = 6, .staging.schedule = TRI_SCHEDULE_ZB_H1},
        {.pp = 3, .n_mb = 6, .staging.schedule = TRI_SCHEDULE_ZBV},
        {.pp = 4, .n_mb = 4, .staging = {.schedule = TRI_SCHEDULE_1F1B, .shape = TRI_SHAPE_BRANCH}},
        {.pp = 2, .tp = 2, .dp = 2, .n_mb = 2, .staging.schedule = TRI_SCHEDULE_1F1B, .sharding.kind = TRI_SHARD_ZERO1},
    };
    for (size_t i = 0; i < 2 * sizeof layouts / sizeof *layouts; i++) {
        job j;
        double seconds;
        job_what layout = layouts[i / 2];
        layout.lanes = 1 + i % 2;
        if (layout.pp && layout.lanes > 1) continue; /* pipelines have one */
        job_open(&j, layout);
        far_reset();
        far_job f = {.job = &j, .trouble.rank = -1};
        tri_status status = run_far(&f, 10, &seconds);
        if (status != TRI_OK) fail_msg("layout %d in %d lanes: %s", (int)i / 2, layout.lanes, tri_error());
        for (int r = 0; r < j.n; r++) {
            const far_rank *at = &far.rank[r];
            assert_true(at->n[0] > 0 && at->reached[0] == at->n[0] && at->reached[1] == at->n[1]);
            assert_int_equal(at->n[1] > 0, layout.lanes > 1);
        }
        job_close(&j);
    }
}

/* What the model would show if there were one queue for all: the schedule's sends and receives cross. */
static void one_queue_would_not_do(void **state) {
    (void)state;
    job j;
    double seconds;
    job_open(&j, (job_what){.pp = 2, .n_mb = 4, .staging.schedule = TRI_SCHEDULE_1F1B});
    far_reset();
    far.one_queue = 1;
    far_job f = {.job = &j, .trouble.rank = -1};
    assert_int_equal(run_far(&f, 0.5, &seconds), TRI_DISAGREE);
    assert_non_null(strstr(tri_error(), "wait for one another"));
    assert_true(seconds < 5);
    job_close(&j);
}

/* A device that has no transfers among ranks is refused, instead of memory that the transport does not reach. */
static tri_status open_without_peers(tri_world *world, void *argument) {
    const job *j = argument;
    tri_device device = far_device;
    tri_exec *exec = NULL;
    device.peers = NULL;
    return tri__exec_open(&device, j->rank[tri_world_rank(world)].program, 2, 1, 7, 0, world, NULL, &exec);
}

static void devices_without_peers_are_refused(void **state) {
    (void)state;
    job j;
    job_open(&j, (job_what){.dp = 2});
    far_reset();
    tri_ranks ranks = {.n = j.n, .heap_bytes = JOB_HEAP, .progress_timeout = 10};
    assert_int_equal(tri_ranks_run(&ranks, open_without_peers, &j), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "device far carries no transfers among ranks"));
    job_close(&j);
}

/* ---- Announcements alone, on one machine and as between machines ---- */

enum { MANY = 200 /* more than may be under way */ };

typedef struct announcing {
    const tri_transport *transport;
    int odd;                /* this one of rank 1 differs; -1: none */
} announcing;

/* Any kind, with buffers that nobody may touch. A message goes around. */
static tri_status announce(tri_group *group, int i, int odd) {
    static const tri_collective_kind kinds[] = {TRI_ALL_REDUCE, TRI_ALL_GATHER, TRI_SEND, TRI_REDUCE_SCATTER,
                                                TRI_BROADCAST};
    const int64_t counts[] = {5 + i, 1 + odd, 7};
    int n = tri_group_size(group), me = tri_group_rank(group);
    tri_collective what = {
        .kind = kinds[i % 5], .dtype = TRI_F32, .count = 100000 * i + odd, .in = (void *)8, .out = (void *)16};
    if (what.kind == TRI_ALL_GATHER) what.counts = counts;
    if (what.kind != TRI_SEND) return tri__announce(group, &what);
    what.root = (me + 1) % n;
    TRI_TRY(tri__announce(group, &what));
    what.kind = TRI_RECV, what.root = (me + n - 1) % n;
    return tri__announce(group, &what);
}

static tri_status announce_many(tri_world *world, void *argument) {
    const announcing *a = argument;
    tri_group *group;
    tri_idle idle = {0};
    int ranks[] = {2, 0, 1}, left = 1;
    TRI_TRY(tri__group_make_on(world, 3, ranks, a->transport, &group));
    if (tri_world_rank(world) == 2) pause_seconds(0.05);
    for (int i = 0; i < MANY; i++) TRI_TRY(announce(group, i, i == a->odd && tri_world_rank(world) == 1));
    tri__world_waits(world, 1);
    while (left) {
        TRI_TRY(tri__announced(world, &left));
        tri__idle(world->segment.control, world->local, &idle);
    }
    tri__world_waits(world, 0);
    double sum = 1;
    TRI_TRY(tri_all_reduce(group, &sum, &sum, 1, TRI_F64, TRI_SUM)); /* others go on as before */
    return sum == 3 ? TRI_OK : tri__fail(TRI_INTERNAL, "a sum of %g", sum);
}

static void announcements_are_compared(void **state) {
    (void)state;
    const tri_ranks how = {.n = 3, .heap_bytes = 1 << 20, .progress_timeout = 10};
    for (int which = 0; which < 2; which++) {
        announcing a = {.transport = which ? &tri__transport_exchange : &tri__transport_shm, .odd = -1};
        OK(tri_ranks_run(&how, announce_many, &a));
        for (a.odd = 150; a.odd < 155; a.odd++) {
            assert_int_equal(tri_ranks_run(&how, announce_many, &a), TRI_DISAGREE);
            if (!strstr(tri_error(), "rank 1 ") || !strstr(tri_error(), "asked for"))
                fail_msg("%d: %s", a.odd, tri_error());
        }
    }
}

/* ---- Programs that differ ---- */

typedef enum mutation { KIND, DTYPE, COUNT, ORDER, MISSING, MUTATIONS } mutation;
static const char *const names[] = {"kind", "dtype", "count", "order", "missing"};

/* The next post of a program from `at` on whose kind is `kind`; -1. */
static int next_post(const tri_program *p, int at, int kind) {
    while (++at < p->n_instrs)
        if (tri__is_post(p->instr[at].op) && (int)tri__post_kind(p->instr[at].op) == kind) return at;
    return -1;
}

static void drop(tri_program *p, int at) {
    memmove(&p->instr[at], &p->instr[at + 1], (size_t)(--p->n_instrs - at) * sizeof *p->instr);
}

/* Posts change places, and so do their waits. */
static void swap(tri_program *p, int a, int b) {
    int waits[2] = {tri__transfer_wait_of(p, a), tri__transfer_wait_of(p, b)};
    tri_instr post = p->instr[a], wait = p->instr[waits[0]];
    p->instr[a] = p->instr[b], p->instr[b] = post;
    p->instr[waits[0]] = p->instr[waits[1]], p->instr[waits[1]] = wait;
}

/* 0 where it would change nothing that others see. */
static int mutate(tri_program *p, mutation what, int at) {
    int kind = (int)tri__post_kind(p->instr[at].op), message = kind == TRI_SEND || kind == TRI_RECV;
    int whole = tri__transfer_whole(&p->instr[at]), next = next_post(p, at, kind), wait = tri__transfer_wait_of(p, at);
    if (what == KIND && kind != TRI_ALL_REDUCE) return 0;
    if ((what == ORDER || what == MISSING) && (message || next < 0)) return 0;
    if (what == KIND) p->instr[at].op = TRI_OP_broadcast_post;
    if (what == DTYPE) p->slot[whole].dtype = p->slot[whole].dtype == TRI_F64 ? TRI_I64 : TRI_F64;
    if (what == COUNT) p->slot[whole].cols++;
    if (what == ORDER) swap(p, at, next);
    if (what == MISSING) drop(p, wait), drop(p, at);
    return 1;
}

static void expect_both(const far_job *f, const char *what) {
    for (int r = 0; r < f->job->n; r++) {
        const char *words = f->words[r];
        if (f->got[r] != TRI_DISAGREE) fail_msg("%s: rank %d got %d: %s", what, r, (int)f->got[r], words);
        if (!strstr(words, "rank 0 ") || !strstr(words, "rank 1 ") || !strstr(words, "asked for") ||
            !strstr(words, "operation "))
            fail_msg("%s: rank %d has the words %s", what, r, words);
    }
}

static void differences_are_told(void **state) {
    (void)state;
    const struct {
        job_what layout;
        int kind;
    } cases[] = {{{.dp = 2}, TRI_ALL_REDUCE},
                 {{.dp = 2, .sharding.kind = TRI_SHARD_ZERO2}, TRI_REDUCE_SCATTER},
                 {{.dp = 2, .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1}}, TRI_ALL_GATHER},
                 {{.pp = 2, .n_mb = 4, .staging.schedule = TRI_SCHEDULE_1F1B}, TRI_RECV},
                 {{.pp = 2, .n_mb = 4, .staging.schedule = TRI_SCHEDULE_1F1B}, TRI_SEND}};
    int tried = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int m = 0; m < MUTATIONS; m++) {
            job j;
            double seconds;
            job_open(&j, cases[i].layout);
            tri_program *p = j.rank[1].plan.train.program;
            int at = next_post(p, -1, cases[i].kind);
            assert_true(at >= 0);
            if (mutate(p, (mutation)m, at)) {
                far_reset();
                far_job f = {.job = &j, .trouble.rank = -1};
                assert_int_equal(run_far(&f, 10, &seconds), TRI_DISAGREE);
                expect_both(&f, names[m]);
                if (seconds > 3) fail_msg("%s in case %d took %.1f s", names[m], (int)i, seconds);
                tried++;
            }
            job_close(&j);
        }
    assert_int_equal(tried, 17);
}

/* ---- Ranks and ways that fail ---- */

static void failures_end_all_waits(void **state) {
    (void)state;
    static const struct {
        trouble trouble;
        int broken;
        tri_status status;
        const char *words;
    } cases[] = {{{.rank = 1, .before_open = 1, .after = 0.2}, 0, TRI_DATA, "rank 1 was told to fail"},
                 {{.rank = 2, .after = 0.2}, 0, TRI_DATA, "rank 2 was told to fail"},
                 {{.rank = 2, .before_open = 1, .after = 0.5},
                  1,
                  TRI_DATA,
                  "rank 2 was told to fail"}, /* known before the way is blamed */
                 {{.rank = -1}, 1, TRI_INTERNAL, "the way is broken"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job j;
        double seconds;
        job_open(&j, (job_what){.pp = 2, .dp = 2, .n_mb = 2, .staging.schedule = TRI_SCHEDULE_1F1B});
        far_reset();
        far.broken = cases[i].broken;
        far_job f = {.job = &j, .trouble = cases[i].trouble};
        assert_int_equal(run_far(&f, 10, &seconds), cases[i].status);
        for (int r = 0; r < j.n; r++)
            if (!strstr(f.words[r], cases[i].words))
                fail_msg("case %d: rank %d has the words %s", (int)i, r, f.words[r]);
        if (seconds > cases[i].trouble.after + 4) fail_msg("case %d took %.1f s", (int)i, seconds);
        job_close(&j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_ends),
        cmocka_unit_test(one_queue_would_not_do),
        cmocka_unit_test(devices_without_peers_are_refused),
        cmocka_unit_test(announcements_are_compared),
        cmocka_unit_test(differences_are_told),
        cmocka_unit_test(failures_end_all_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
