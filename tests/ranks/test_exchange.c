/* test_exchange.c - groups that span machines: the same bits as shared memory; mismatches and failures are reported on
 * both sides. "Machines" are segments of this process here, linked by fake_remote.h, so that sanitizers see everything.
 * The same program also runs under mpirun, started by tests/cli/cli_mpi.sh:
 *
 *   test_exchange local N               digests of the program on N forks that share memory, one line per rank
 *   test_exchange join WHAT [SECONDS]   joins the ranks that a launcher started and does WHAT (see `acts`);
 *                                       SECONDS: progress timeout */
#include "base/clock.h"
#include "comm/world/group.h"
#include "comm/link/link.h"
#include "comm/ops/request.h"
#include "comm/mpi/load.h"
#include "comm/mpi/mpi.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/collective_program.h"
#include "tests/lib/fake_remote.h"
#include "tests/lib/soak.h"
#include "comm/link/message.h"

enum { RANKS = 4, HEAP = 32 << 20 };

/* ---- One machine ---- */

typedef struct digests {
    uint64_t of[FAKE_RANKS];
    program_group *make;
    int rounds;
} digests;

static tri_status make_exchange(tri_world *world, int n, const int *ranks, tri_group **group) {
    return tri__group_make_on(world, n, ranks, &tri__transport_exchange, group);
}

/* A sum and an exchange that take more pieces than a transfer between machines has in flight, both in flight at
 * once. */
static tri_status run_large(tri_world *world, uint64_t *digest) {
    enum { SUMMED = 600001, EACH = 300000, WHOLE = RANKS * EACH };
    tri_group *all = tri_group_world(world);
    float *sum = malloc(SUMMED * sizeof *sum), *in = malloc(WHOLE * sizeof *in), *out = malloc(WHOLE * sizeof *out);
    tri_collective what[2] = {{.kind = TRI_ALL_REDUCE, .in = sum, .out = sum, .count = SUMMED},
                              {.kind = TRI_ALL_TO_ALL, .in = in, .out = out, .count = EACH}};
    tri_request request[2];
    program_fill(TRI_F32, sum, SUMMED, (uint64_t)tri_world_rank(world));
    program_fill(TRI_F32, in, WHOLE, 100 + (uint64_t)tri_world_rank(world));
    tri_status status = TRI_OK;
    for (int i = 0; i < 2 && status == TRI_OK; i++) status = tri_post(all, &what[i], &request[i]);
    for (int i = 1; i >= 0 && status == TRI_OK; i--) status = tri_wait(world, request[i]);
    for (size_t i = 0; i < SUMMED * sizeof *sum; i++) *digest = (*digest ^ ((uint8_t *)sum)[i]) * 0x100000001B3u;
    for (size_t i = 0; i < WHOLE * sizeof *out; i++) *digest = (*digest ^ ((uint8_t *)out)[i]) * 0x100000001B3u;
    free(sum);
    free(in);
    free(out);
    return status;
}

static tri_status run_program(tri_world *world, void *context) {
    digests *all = context;
    uint64_t *digest = &all->of[tri_world_rank(world)];
    TRI_TRY(program_run(world, all->make, all->rounds, digest));
    return tri_world_size(world) == RANKS ? run_large(world, digest) : TRI_OK;
}

static digests *shared_digests(program_group *make, int rounds) {
    digests *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(made != MAP_FAILED);
    *made = (digests){.make = make, .rounds = rounds};
    return made;
}

/* Over shared memory, `n` ranks. */
static digests *expected(int n, int rounds) {
    digests *all = shared_digests(tri_group_make, rounds);
    tri_ranks how = {.n = n, .heap_bytes = HEAP};
    tri_status status = tri_ranks_run(&how, run_program, all);
    if (status != TRI_OK) fail_msg("%s", tri_error());
    return all;
}

static void exchange_gives_the_bits_of_shm(void **state) {
    (void)state;
    for (int n = 1; n <= 5; n += 2)
        for (int forks = 0; forks < 2; forks++) {
            digests *want = expected(n, 1), *have = shared_digests(make_exchange, 1);
            tri_ranks how = {.n = n, .heap_bytes = HEAP, .forks = forks};
            tri_status status = tri_ranks_run(&how, run_program, have);
            if (status != TRI_OK) fail_msg("%s", tri_error());
            for (int r = 0; r < n; r++) assert_int_equal(want->of[r], have->of[r]);
            munmap(want, sizeof *want);
            munmap(have, sizeof *have);
        }
}

/* ---- Two machines of threads ---- */

typedef struct job job;
typedef tri_status act(tri_world *world, job *job);

struct job {
    fake_hub hub;
    tri_segment segment[2];
    tri_nodes nodes;
    int node_of[RANKS], local_of[RANKS];
    act *act;
    uint64_t digest[RANKS];
    tri_status status[RANKS];
    char words[RANKS][600];
    double begun, took[RANKS];
    _Atomic int arrived;
    int difference, odd, big;          /* of a mismatch */
    _Atomic int written;
};

typedef struct one {
    job *job;
    int rank;
} one;

static void *rank_thread(void *context) {
    one *me = context;
    job *job = me->job;
    tri_world *world;
    tri_segment *segment = &job->segment[job->node_of[me->rank]];
    tri_status status = tri__world_open(segment, job->local_of[me->rank], &job->nodes, &fake_remote,
                                        &job->hub.state[me->rank], &world);
    if (status == TRI_OK) status = job->act(world, job);
    if (status != TRI_OK) snprintf(job->words[me->rank], sizeof job->words[0], "%s", tri_error());
    if (status != TRI_OK && world) tri_world_fail(world, status, tri_error());
    job->took[me->rank] = tri__clock() - job->begun;
    job->status[me->rank] = status;
    tri_world_close(world);
    return NULL;
}

/* 4 ranks that will `act`, two a machine; `mixed`: ranks 0 and 2 share one, else 0 and 1. */
static job *make_job(act *act, int mixed, double timeout) {
    job *job = calloc(1, sizeof *job);
    fake_hub_open(&job->hub, RANKS);
    job->act = act;
    for (int m = 0; m < 2; m++) {
        int ranks[2] = {mixed ? m : 2 * m, mixed ? m + 2 : 2 * m + 1};
        tri_segment_spec spec = {
            .n = 2, .world = RANKS, .world_rank = ranks, .heap_bytes = HEAP, .progress_timeout = timeout, .flat = 1};
        assert_int_equal(tri__segment_create(&spec, &job->segment[m]), TRI_OK);
        for (int i = 0; i < 2; i++) job->node_of[ranks[i]] = m, job->local_of[ranks[i]] = i;
    }
    job->nodes = (tri_nodes){.node_of = job->node_of, .local_of = job->local_of, .n = 2};
    return job;
}

static void run_made(job *job) {
    one each[RANKS];
    pthread_t thread[RANKS];
    job->begun = tri__clock();
    for (int r = 0; r < RANKS; r++) {
        each[r] = (one){job, r};
        assert_int_equal(pthread_create(&thread[r], NULL, rank_thread, &each[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) pthread_join(thread[r], NULL);
    for (int m = 0; m < 2; m++) tri__segment_close(&job->segment[m]);
    fake_hub_close(&job->hub);
}

static job *run_job(act *act, int mixed, double timeout) {
    job *job = make_job(act, mixed, timeout);
    run_made(job);
    return job;
}

static tri_status act_program(tri_world *world, job *job) {
    uint64_t *digest = &job->digest[tri_world_rank(world)];
    TRI_TRY(program_run(world, tri_group_make, 1, digest));
    return run_large(world, digest);
}

static void machines_give_the_bits_of_shm(void **state) {
    (void)state;
    digests *want = expected(RANKS, 1);
    for (int mixed = 0; mixed < 2; mixed++) {
        job *job = run_job(act_program, mixed, 20);
        for (int r = 0; r < RANKS; r++) {
            if (job->status[r] != TRI_OK) fail_msg("rank %d: %s", r, job->words[r]);
            assert_int_equal(job->digest[r], want->of[r]);
        }
        assert_true(job->hub.notes > 500 && job->hub.transfers > 100); /* they did talk, both ways */
        free(job);
    }
    munmap(want, sizeof *want);
}

/* ---- Mismatches ---- */

static tri_status all_reduce(tri_world *world, int64_t count, tri_dtype dtype, void *data) {
    return tri_all_reduce(tri_group_world(world), data, data, count, dtype, TRI_SUM);
}

/* What the odd rank asks for otherwise. */
static const char *const differences[] = {"count", "dtype", "reduction", "kind", "root", "counts"};
enum { DIFFERENCES = sizeof differences / sizeof differences[0], BIG = 20000 };

static tri_status act_mismatch(tri_world *world, job *job) {
    int rank = tri_world_rank(world), odd = rank == job->odd, d = job->difference;
    int64_t count = job->big ? BIG : 5, even[RANKS] = {count, count, count, count},
            uneven[RANKS] = {count + 1, count - 1, count, count};
    size_t bytes = (size_t)(RANKS + 1) * (size_t)count * 8;
    tri_collective what = {.kind = d == 4   ? TRI_REDUCE
                                   : d == 5 ? TRI_ALL_GATHER
                                            : TRI_ALL_REDUCE,
                           .dtype = TRI_F32,
                           .count = count};
    if (odd && d == 0) what.count--;
    if (odd && d == 1) what.dtype = TRI_I32;
    if (odd && d == 2) what.reduction = TRI_MAX;
    if (odd && d == 3) what.kind = TRI_BROADCAST;
    if (odd && d == 4) what.root = 2;
    if (d == 5) what.counts = odd ? uneven : even;
    char *in = malloc(bytes), *out = malloc(bytes);
    memset(in, 7, bytes);
    memset(out, 7, bytes);
    what.in = in, what.out = out;
    tri_request request;
    tri_status status = tri_post(tri_group_world(world), &what, &request);
    if (status == TRI_OK) status = tri_wait(world, request);
    for (size_t i = 0; i < bytes; i++)
        if (out[i] != 7) job->written = 1;
    free(in);
    free(out);
    return status;
}

static void every_mismatch_is_known_before_a_byte_is_written(void **state) {
    (void)state;
    for (int k = 0; k < DIFFERENCES * RANKS * 2; k++) {
        job *job = make_job(act_mismatch, k % 2, 20);
        job->difference = k % DIFFERENCES, job->odd = k / DIFFERENCES % RANKS, job->big = k / DIFFERENCES / RANKS;
        run_made(job);
        for (int r = 0; r < RANKS; r++)
            if (job->status[r] != TRI_DISAGREE || job->written || !strstr(job->words[r], "asked for"))
                fail_msg("another %s on rank %d: rank %d says %d (%s), written: %d", differences[job->difference],
                         job->odd, r, job->status[r], job->words[r], job->written);
        free(job);
    }
}

static tri_status act_send_mismatch(tri_world *world, job *job) {
    int rank = tri_world_rank(world);
    (void)job;
    float data[3] = {0};
    if (rank == 0) return tri_send(tri_group_world(world), data, 3, TRI_F32, 3, 5);
    if (rank == 3) return tri_recv(tri_group_world(world), data, 3, TRI_F32, 0, 6);
    return TRI_OK;
}

static void a_send_that_differs_from_its_receive_is_refused(void **state) {
    (void)state;
    job *job = run_job(act_send_mismatch, 0, 20);
    assert_int_equal(job->status[3], TRI_DISAGREE);
    assert_non_null(strstr(job->words[3], "tag 5"));
    assert_non_null(strstr(job->words[3], "tag 6"));
    free(job);
}

/* ---- Progress without waits: a rank computes, and calls tri__requests_progress between its instructions ---- */

/* Computes until its operation is done or has failed: at most 20 s. */
static void compute(tri_world *world, tri_group *all, tri_collective *what, tri_request *request, job *job) {
    tri_status status = tri_post(all, what, request);
    for (double begun = tri__clock(); status == TRI_OK && tri__clock() - begun < 20; usleep(200)) {
        if (tri__world_check(world) != TRI_OK || world->pending[0].done) break;
        tri__requests_progress(world);
    }
    if (world->n_pending && world->pending[0].done) atomic_fetch_add(&job->arrived, 1);
}

static tri_status act_compute(tri_world *world, job *job) {
    static const int64_t size[] = {3, BIG};
    float *data = calloc(BIG, sizeof *data);
    tri_status status = TRI_OK;
    for (int i = 0; i < 2 && status == TRI_OK; i++) {
        tri_request request;
        tri_collective what = {.kind = TRI_ALL_REDUCE, .in = data, .out = data, .count = size[i]};
        if (job->odd == tri_world_rank(world)) what.count--;
        data[0] = 1;
        compute(world, tri_group_world(world), &what, &request, job);
        status = tri_wait(world, request);
        if (status == TRI_OK && data[0] != RANKS) status = tri__fail(TRI_INTERNAL, "the sum is %g", (double)data[0]);
    }
    free(data);
    return status;
}

static void operations_get_on_while_ranks_compute(void **state) {
    (void)state;
    job *job = make_job(act_compute, 0, 20);
    job->odd = -1;
    run_made(job);
    for (int r = 0; r < RANKS; r++)
        if (job->status[r] != TRI_OK) fail_msg("rank %d: %s", r, job->words[r]);
    assert_int_equal(job->arrived, 2 * RANKS);
    free(job);
}

static void a_mismatch_met_while_computing_is_returned_by_the_wait(void **state) {
    (void)state;
    job *job = make_job(act_compute, 0, 20);
    job->odd = 2;
    run_made(job);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(job->status[r], TRI_DISAGREE);
        assert_non_null(strstr(job->words[r], "asked for"));
    }
    assert_int_equal(job->arrived, 0);
    free(job);
}

/* ---- Failures ---- */

static tri_status act_error(tri_world *world, job *job) {
    (void)job;
    float data[2] = {1, 2};
    TRI_TRY(all_reduce(world, 2, TRI_F32, data));
    if (tri_world_rank(world) == 1) return tri__fail(TRI_NOTFINITE, "the loss is not finite");
    return all_reduce(world, 2, TRI_F32, data);
}

static void an_error_is_known_on_all_machines(void **state) {
    (void)state;
    job *job = run_job(act_error, 0, 20);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(job->status[r], TRI_NOTFINITE);
        assert_non_null(strstr(job->words[r], "the loss is not finite"));
        if (r != 1) assert_non_null(strstr(job->words[r], "rank 1"));
        assert_true(job->took[r] < 5);
    }
    free(job);
}

/* From now on nothing that `rank` sends arrives; until the two others have ended. */
static tri_status fall_silent(job *job, int rank) {
    pthread_mutex_lock(&job->hub.lock);
    job->hub.silent[rank] = 1;
    pthread_mutex_unlock(&job->hub.lock);
    while (atomic_load(&job->arrived) < 2) usleep(1000);
    return TRI_OK;
}

/* Rank 3's machine goes away: nothing that it sends arrives, and nobody there polls. */
static tri_status act_silence(tri_world *world, job *job) {
    float data[2] = {1, 2};
    int rank = tri_world_rank(world);
    TRI_TRY(all_reduce(world, 2, TRI_F32, data));
    if (rank < 2) {
        tri_status status = all_reduce(world, 2, TRI_F32, data);
        atomic_fetch_add(&job->arrived, 1);
        return status;
    }
    return fall_silent(job, rank);
}

static void a_machine_that_is_silent_is_reported(void **state) {
    (void)state;
    job *job = run_job(act_silence, 0, 0.4);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(job->status[r], TRI_DISAGREE);
        assert_non_null(strstr(job->words[r], "gave no sign of life"));
        assert_non_null(strstr(job->words[r], "all_reduce sum f32 x 2"));
        assert_true(job->took[r] > 0.4);
    }
    free(job);
}

/* Rank 3 is busy for several timeouts, but gets on. */
static tri_status act_busy(tri_world *world, job *job) {
    float data[2] = {1, 2};
    (void)job;
    if (tri_world_rank(world) == 3)
        for (double begun = tri__clock(); tri__clock() - begun < 1.5;) {
            usleep(1000);
            tri__world_beat(world);
        }
    return all_reduce(world, 2, TRI_F32, data);
}

static void a_busy_rank_is_no_failure(void **state) {
    (void)state;
    job *job = run_job(act_busy, 0, 0.4);
    for (int r = 0; r < RANKS; r++)
        if (job->status[r] != TRI_OK) fail_msg("rank %d: %s", r, job->words[r]);
    free(job);
}

/* Rank 3 works on files, and answers nobody for several timeouts. */
static tri_status act_load(tri_world *world, job *job) {
    float data[2] = {1, 2};
    (void)job;
    if (tri_world_rank(world) == 3) {
        tri__world_doing(world, TRI_DOING_LOAD, -1);
        for (double begun = tri__clock(); tri__clock() - begun < 2;) usleep(1000);
        tri__world_doing(world, TRI_DOING_FORWARD, 0);
    }
    return all_reduce(world, 2, TRI_F32, data);
}

static void a_rank_that_loads_has_the_io_timeout(void **state) {
    (void)state;
    job *job = run_job(act_load, 0, 0.4);
    for (int r = 0; r < RANKS; r++)
        if (job->status[r] != TRI_OK) fail_msg("rank %d: %s", r, job->words[r]);
    free(job);
    job = make_job(act_load, 0, 0.4);
    for (int m = 0; m < 2; m++) job->segment[m].control->io_timeout = 0.8;
    run_made(job);
    assert_int_equal(job->status[0], TRI_DISAGREE);
    assert_non_null(strstr(job->words[0], "rank 3"));
    assert_non_null(strstr(job->words[0], "--io-timeout: it loads or saves files"));
    assert_true(job->took[0] > 0.9);
    free(job);
}

/* Rank 3 says that it loads, and then its machine goes away: the silence of rank 2, which nobody waits for, tells. */
static tri_status act_load_and_vanish(tri_world *world, job *job) {
    float data[2] = {1, 2};
    int rank = tri_world_rank(world);
    if (rank == 3) tri__world_doing(world, TRI_DOING_LOAD, -1);
    TRI_TRY(all_reduce(world, 2, TRI_F32, data));
    if (rank < 2) {
        tri_status status = tri_recv(tri_group_world(world), data, 2, TRI_F32, 3, 0);
        atomic_fetch_add(&job->arrived, 1);
        return status;
    }
    return fall_silent(job, rank);
}

static void a_machine_that_vanishes_while_it_loads_is_reported(void **state) {
    (void)state;
    job *job = run_job(act_load_and_vanish, 0, 0.4);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(job->status[r], TRI_DISAGREE);
        assert_non_null(strstr(job->words[r], "gave no sign of life"));
        assert_true(job->took[r] > 0.4);
    }
    free(job);
}

/* Rank 0 has ended while rank 3 still waits for it. */
static tri_status act_left(tri_world *world, job *job) {
    float data[2];
    (void)job;
    return tri_world_rank(world) == 3 ? tri_recv(tri_group_world(world), data, 2, TRI_F32, 0, 0) : TRI_OK;
}

static void waiting_for_a_rank_that_left_is_an_error(void **state) {
    (void)state;
    job *job = run_job(act_left, 0, 1);
    assert_int_equal(job->status[3], TRI_DISAGREE);
    assert_non_null(strstr(job->words[3], "has ended"));
    free(job);
}

static void short_shared_memory_is_refused(void **state) {
    (void)state;
    assert_int_equal(tri__mpi_check_shared("/nonexistent", 4), TRI_OK);
    assert_int_equal(tri__mpi_check_shared("/tmp", 100 * 1000 * 1000), TRI_RESOURCE);
    assert_non_null(strstr(tri_error(), "--shm-size"));
}

/* ---- Under a launcher ---- */

static tri_status print_digest(tri_world *world) {
    uint64_t digest;
    TRI_TRY(program_run(world, tri_group_make, 1, &digest));
    TRI_TRY(run_large(world, &digest));
    printf("rank %d digest %016llx\n", tri_world_rank(world), (unsigned long long)digest);
    return TRI_OK;
}

static tri_status print_machines(tri_world *world) {
    printf("rank %d machines %d\n", tri_world_rank(world), world->nodes.n);
    return TRI_OK;
}

static tri_status native(tri_world *world) {
    float in[3] = {1, 2, (float)tri_world_rank(world)}, out[3] = {0};
    tri_collective what = {.kind = TRI_ALL_REDUCE, .in = in, .out = out, .count = 3};
    TRI_TRY(tri__mpi_native(world, &what));
    printf("rank %d native %g %g %g\n", tri_world_rank(world), out[0], out[1], out[2]);
    return TRI_OK;
}

/* A round together, and then the last rank does something else than the others, who wait for it. */
static tri_status last_one(tri_world *world, void (*does)(tri_world *world)) {
    float data[2] = {1, 2};
    TRI_TRY(all_reduce(world, 2, TRI_F32, data));
    if (tri_world_rank(world) == tri_world_size(world) - 1) does(world);
    double begun = tri__clock();
    tri_status status = all_reduce(world, 2, TRI_F32, data);
    printf("rank %d waited %.3f s\n", tri_world_rank(world), tri__clock() - begun);
    return status;
}

static void does_fail(tri_world *world) { tri_world_fail(world, TRI_DATA, "row 17 of the table is bad"); }
static void does_die(tri_world *world) {
    (void)world;
    raise(SIGKILL);
}
static void does_stop(tri_world *world) {
    (void)world;
    raise(SIGSTOP);
}
static void does_work(tri_world *world) {
    for (double begun = tri__clock(); tri__clock() - begun < 2; usleep(1000)) tri__world_beat(world);
}
static tri_status act_fail(tri_world *world) { return last_one(world, does_fail); }
static tri_status act_die(tri_world *world) { return last_one(world, does_die); }
static tri_status act_stop(tri_world *world) { return last_one(world, does_stop); }
static tri_status act_work(tri_world *world) { return last_one(world, does_work); }


/* Everyone waits for the next rank, which sends nothing. */
static tri_status act_deadlock(tri_world *world) {
    float data[2];
    return tri_recv(tri_group_world(world), data, 2, TRI_F32, (tri_world_rank(world) + 1) % tri_world_size(world), 0);
}

static const struct {
    const char *name;
    tri_status (*run)(tri_world *world);
} acts[] = {{"digest", print_digest}, {"machines", print_machines}, {"native", native}, {"fail", act_fail},
            {"die", act_die}, {"stop", act_stop}, {"work", act_work}, {"deadlock", act_deadlock}};

static int join_and_run(const char *name, double timeout) {
    tri_world *world = NULL;
    tri_ranks how = {.heap_bytes = HEAP, .progress_timeout = timeout};
    int rank = -1;
    tri_status status = tri_world_join(&how, getenv, &world);
    if (world) rank = tri_world_rank(world);
    for (size_t i = 0; i < sizeof acts / sizeof acts[0] && status == TRI_OK; i++)
        if (strcmp(acts[i].name, name) == 0) status = acts[i].run(world);
    if (status != TRI_OK) printf("rank %d failed %d: %s\n", rank, status, tri_error());
    fflush(stdout);
    tri_world_close(world);
    return status;
}

static int run_local(int n) {
    digests *all = shared_digests(tri_group_make, 1);
    tri_ranks how = {.n = n, .heap_bytes = HEAP, .forks = 1};
    tri_status status = tri_ranks_run(&how, run_program, all);
    if (status != TRI_OK) fprintf(stderr, "%s\n", tri_error());
    for (int r = 0; r < n; r++) printf("rank %d digest %016llx\n", r, (unsigned long long)all->of[r]);
    return status;
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "local") == 0) return run_local(atoi(argv[2]));
    if (argc >= 3 && strcmp(argv[1], "join") == 0) return join_and_run(argv[2], argc > 3 ? atof(argv[3]) : 0);
    soak_select(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchange_gives_the_bits_of_shm),
        cmocka_unit_test(machines_give_the_bits_of_shm),
        cmocka_unit_test(every_mismatch_is_known_before_a_byte_is_written),
        cmocka_unit_test(a_send_that_differs_from_its_receive_is_refused),
        cmocka_unit_test(operations_get_on_while_ranks_compute),
        cmocka_unit_test(a_mismatch_met_while_computing_is_returned_by_the_wait),
        cmocka_unit_test(an_error_is_known_on_all_machines),
        cmocka_unit_test(a_machine_that_is_silent_is_reported),
        cmocka_unit_test(a_busy_rank_is_no_failure),
        cmocka_unit_test(a_rank_that_loads_has_the_io_timeout),
        cmocka_unit_test(a_machine_that_vanishes_while_it_loads_is_reported),
        cmocka_unit_test(waiting_for_a_rank_that_left_is_an_error),
        cmocka_unit_test(short_shared_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
