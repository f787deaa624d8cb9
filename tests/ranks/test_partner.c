/* test_partner.c - replicated state on several machines: what the next machine holds of it, while steps are sent and
 * after; and what a new world collects when ranks or machines have died. "Machines" are segments of this process and
 * ranks its threads, linked by fake_remote.h, so that sanitizers see everything. */
#include "comm/ops/request.h"
#include "comm/world/kept.h"
#include "train/state/held.h"

#include <fcntl.h>
#include <math.h>

#include "tests/lib/kept_pieces.h"
#include "tests/lib/test.h"
#include "tests/lib/fake_remote.h"
#include "tests/lib/session_data.h"

enum { ROWS = 96, COLS = 50, N = ROWS * COLS, BIAS = 7, MACHINES = 3, HEAP = 24 << 20 }; /* more than goes in a note */

/* In threads, where cmocka's own cannot be used. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) return tri__fail(TRI_INTERNAL, "line %d: not %s", __LINE__, #condition);                     \
    } while (0)

/* ---- What ranks keep ---- */

/* Rank r's range of the weight [ROWS, COLS], and of its momentum; the last rank has the bias as a whole. */
typedef struct rank_state {
    int r, ranks;
    float w[N], m[N], bias[BIAS];
    tri_piece weights[2], optimizer[1];
    tri_memory_pieces pieces;
    size_t at[3];
} rank_state;

static void make_state(int r, int ranks, rank_state *s) {
    const tri_shape shape = tri__shape_2d(ROWS, COLS), flat = tri__shape_1d(BIAS);
    s->r = r, s->ranks = ranks;
    s->weights[0] = (tri_piece){.name = "w", .dtype = TRI_F32, .shape = shape, .slice = tri__slice_whole(&shape),
                                .data = s->w};
    s->weights[0].slice.begin = N * r / ranks, s->weights[0].slice.end = N * (r + 1) / ranks;
    s->weights[1] = (tri_piece){.name = "b", .dtype = TRI_F32, .shape = flat, .slice = tri__slice_whole(&flat),
                                .data = s->bias};
    s->optimizer[0] = s->weights[0];
    s->optimizer[0].name = "exp_avg.w", s->optimizer[0].data = s->m;
    s->pieces = (tri_memory_pieces){.weights = s->weights, .optimizer = s->optimizer,
                                    .n_weights = r == ranks - 1 ? 2 : 1, .n_optimizer = 1};
    kept_lay_out(&s->pieces, s->at);
}

/* Numbers of a step, by the element of the whole tensor. */
static void fill(rank_state *s, int64_t step) {
    int64_t begin = s->weights[0].slice.begin, end = s->weights[0].slice.end;
    for (int64_t e = begin; e < end; e++)
        s->w[e - begin] = (float)(10000 * step + e), s->m[e - begin] = (float)(-10000 * step - e);
    for (int i = 0; i < BIAS; i++) s->bias[i] = (float)(100 * step + i);
}

static tri_status put_state(void *area, int64_t step, int done) {
    tri_json *state = tri__json_pack("{s:i, s:b}", "samples", (int)(10 * step), "done", done);
    tri_status status = tri__memory_state(area, (int)(step & 1), state);
    tri__json_decref(state);
    return status;
}

/* Whether an area of rank r has the data of a step. */
static tri_status check_data(const void *area, int r, int ranks, int64_t step) {
    rank_state s;
    size_t bytes, have, want;
    make_state(r, ranks, &s);
    fill(&s, step);
    TRI_TRY(tri__memory_size(r, &s.pieces, &bytes));
    void *like = calloc(1, bytes);
    tri_status status = tri__memory_format(like, bytes, r, &s.pieces);
    kept_copy(like, (int)(step & 1), &s.pieces);
    const void *data = tri__memory_data((void *)(uintptr_t)area, (int)(step & 1), &have),
               *expected = tri__memory_data(like, (int)(step & 1), &want);
    if (status == TRI_OK && (have != want || memcmp(data, expected, want)))
        status = tri__fail(TRI_INTERNAL, "the area of rank %d has other data than those of step %lld", r,
                           (long long)step);
    free(like);
    return status;
}

/* Whether the state of a copy is of that step. */
static tri_status check_text(const void *area, int64_t step, int done) {
    size_t bytes;
    tri_json *state = NULL;
    const char *text = tri__memory_text(area, (int)(step & 1), &bytes);
    TRI_TRY(tri__json_parse(text, bytes, "a held state", TRI_INTERNAL, &state));
    int64_t samples = tri__json_integer_value(tri__json_get(state, "samples"));
    int is_done = tri__json_is_true(tri__json_get(state, "done"));
    tri__json_decref(state);
    CHECK(samples == 10 * step && is_done == done);
    return TRI_OK;
}

/* ---- Machines of threads ---- */

typedef struct job job;
typedef tri_status act(tri_world *world, job *job);

struct job {
    fake_hub hub;
    int n;                          /* ranks */
    tri_segment segment[MACHINES];
    tri_nodes nodes;
    int node_of[FAKE_RANKS], local_of[FAKE_RANKS], ranks_of[MACHINES];
    act *act;
    int64_t first, last;            /* steps that ranks keep */
    int odd, copied;                /* the rank that dies in the last one; whether it has kept it by then. -1: none */
    _Atomic int arrived;            /* ranks that have kept the last one */
    const job *before[2];           /* earlier worlds, the newest first */
    const char *memory[2];          /* by rank: the machine whose memory of that world it has; '-': none */
    int64_t step;                   /* that is to be collected; -1: none */
    int taken;                      /* of `before` */
    double loss[FAKE_RANKS][9];     /* of a session's steps */
    tri_status status[FAKE_RANKS];
    char words[FAKE_RANKS][300];
};

typedef struct one {
    job *job;
    int rank;
} one;

/* A copy into which bytes may come is of no step by then: they come at any moment. */
static int watched_receive(void *of, int rank, int tag, void *data, int64_t bytes, void **request) {
    const struct fake_state *s = of;
    const job *job = (const void *)s->hub; /* which it begins with */
    size_t size;
    int64_t kept[2];
    const void *area = tri__kept_find(&job->segment[job->node_of[s->rank]], rank, &size, kept);
    for (int copy = 0; copy < 2 && area; copy++)
        if (data == tri__memory_data((void *)(uintptr_t)area, copy, &size) && kept[copy]) return -1;
    return fake_receive(of, rank, tag, data, bytes, request);
}

static void *rank_thread(void *context) {
    one *me = context;
    job *job = me->job;
    tri_world *world;
    tri_remote remote = fake_remote;
    remote.receive = watched_receive;
    tri_status status = tri__world_open(&job->segment[job->node_of[me->rank]], job->local_of[me->rank], &job->nodes,
                                        &remote, &job->hub.state[me->rank], &world);
    if (world) atomic_store(&world->segment.control->spin, 0); /* all machines share these cores */
    if (status == TRI_OK) status = job->act(world, job);
    if (status != TRI_OK) snprintf(job->words[me->rank], sizeof job->words[0], "%s", tri_error());
    if (status != TRI_OK && world) tri_world_fail(world, status, tri_error());
    job->status[me->rank] = status;
    tri_world_close(world);
    return NULL;
}

/* layout: the machine of each rank, "0011". */
static job *make_job(act *act, const char *layout, int generation, int64_t committed) {
    job *job = calloc(1, sizeof *job);
    int ranks[MACHINES][FAKE_RANKS];
    assert_non_null(job);
    job->act = act, job->n = (int)strlen(layout), job->odd = -1;
    fake_hub_open(&job->hub, job->n);
    job->nodes = (tri_nodes){.node_of = job->node_of, .local_of = job->local_of};
    for (int r = 0; r < job->n; r++) {
        int m = job->node_of[r] = layout[r] - '0';
        job->local_of[r] = job->ranks_of[m]++;
        ranks[m][job->local_of[r]] = r;
        if (m >= job->nodes.n) job->nodes.n = m + 1;
    }
    for (int m = 0; m < job->nodes.n; m++) {
        tri_segment_spec spec = {.n = job->ranks_of[m],
                                 .world = job->n,
                                 .world_rank = ranks[m],
                                 .heap_bytes = HEAP,
                                 .progress_timeout = 20,
                                 .generation = generation,
                                 .committed = committed};
        assert_int_equal(tri__segment_create(&spec, &job->segment[m]), TRI_OK);
    }
    return job;
}

/* Fails if a rank did; if one was to die, all have. Memory stays. */
static void run_job(job *job) {
    one each[FAKE_RANKS];
    pthread_t thread[FAKE_RANKS];
    for (int r = 0; r < job->n; r++) {
        each[r] = (one){job, r};
        assert_int_equal(pthread_create(&thread[r], NULL, rank_thread, &each[r]), 0);
    }
    for (int r = 0; r < job->n; r++) pthread_join(thread[r], NULL);
    fake_hub_close(&job->hub);
    for (int r = 0; r < job->n; r++) {
        if (job->odd < 0 && job->status[r] != TRI_OK) fail_msg("rank %d: %s", r, job->words[r]);
        if (job->odd >= 0 && !strstr(job->words[r], "dies")) fail_msg("rank %d: \"%s\"", r, job->words[r]);
    }
}

static void free_job(job *job) {
    for (int m = 0; m < job->nodes.n; m++) tri__segment_close(&job->segment[m]);
    free(job);
}

/* The machine and the place there of the rank that holds r's area. */
static int holder_machine(const job *job, int r) { return (job->node_of[r] + 1) % job->nodes.n; }
static int holder_local(const job *job, int r) { return job->local_of[r] % job->ranks_of[holder_machine(job, r)]; }

/* ---- Keeping ---- */

/* While a step is sent, and after: what this rank holds of others. */
static tri_status check_held(const tri_world *world, const job *job, int64_t step, int complete) {
    for (int r = 0; r < job->n; r++) {
        size_t bytes;
        int64_t kept[2], before = step > job->first ? step : 0;
        if (holder_machine(job, r) != job->node_of[world->rank] || holder_local(job, r) != world->local) continue;
        const void *area = tri__kept_find(&world->segment, r, &bytes, kept);
        CHECK(kept[step & 1] == (complete ? step + 1 : 0));
        CHECK(kept[!(step & 1)] == before);
        if (before) TRI_TRY(check_data(area, r, job->n, step - 1));
        if (before && r == 0) TRI_TRY(check_text(area, step - 1, 0));
        if (complete) TRI_TRY(check_data(area, r, job->n, step));
        if (complete && r == 0) TRI_TRY(check_text(area, step, 0));
    }
    return TRI_OK;
}

/* Dies as soon as all others have kept the last step. */
static tri_status die(const tri_world *world, job *job) {
    for (int i = 0; i < 20000 && atomic_load(&job->arrived) < job->n - 1; i++) usleep(1000);
    return tri__fail(TRI_INTERNAL, "rank %d dies", world->rank);
}

/* As a session's (replicate.c): the text of the state is replaced while the step is sent. */
static tri_status keep_step(tri_world *world, job *job, int64_t step, rank_state *s, void *area,
                            tri_held_peers *peers) {
    int dies = step == job->last && world->rank == job->odd;
    int32_t sum = 1;
    fill(s, step);
    tri__kept_begin(world, step);
    if (dies && !job->copied) return die(world, job);
    if (world->rank == 0) TRI_TRY(put_state(area, step, 0));
    kept_copy(area, (int)(step & 1), &s->pieces);
    tri__kept_end(world, step);
    if (dies) return die(world, job);
    if (step == job->last) atomic_fetch_add(&job->arrived, 1);
    if (world->rank & 1) usleep(500), tri__world_beat(world); /* and so hears of what others send before it begins */
    TRI_TRY(tri__held_peers_begin(peers, step));
    if (world->rank == 0) TRI_TRY(put_state(area, step, 1));
    TRI_TRY(check_held(world, job, step, 0));
    for (int i = 0; i < 4; i++, usleep(200)) tri__requests_progress(world);
    TRI_TRY(check_held(world, job, step, 0));
    TRI_TRY(tri__held_peers_finish(peers));
    TRI_TRY(tri__held_peers_finish(peers)); /* nothing is in flight any more */
    TRI_TRY(check_held(world, job, step, 1));
    return tri_all_reduce(tri_group_world(world), NULL, &sum, 1, TRI_I32, TRI_SUM);
}

static tri_status act_keep(tri_world *world, job *job) {
    rank_state s;
    size_t bytes;
    void *area;
    tri_held_peers *peers;
    make_state(world->rank, world->size, &s);
    TRI_TRY(tri__memory_size(world->rank, &s.pieces, &bytes));
    TRI_TRY(tri_heap_alloc(world, bytes, &area));
    TRI_TRY(tri__memory_format(area, bytes, world->rank, &s.pieces));
    tri__kept_place(world, area, bytes);
    TRI_TRY(tri__held_peers_open(world, area, bytes, &peers));
    tri_status status = TRI_OK;
    for (int64_t step = job->first; step <= job->last && status == TRI_OK; step++)
        status = keep_step(world, job, step, &s, area, peers);
    tri__held_peers_close(peers);
    return status;
}

/* A world whose ranks have kept some steps; in the last one, rank `odd` died, with a complete copy of its own or
 * without; -1: none did. */
static job *keep(const char *layout, int generation, int64_t first, int64_t last, int odd, int copied) {
    job *job = make_job(act_keep, layout, generation, 0);
    job->first = first, job->last = last, job->odd = odd, job->copied = copied;
    run_job(job);
    return job;
}

/* Afterwards the holder has the same bytes as the owner: data of both copies; its text is the one of the sending. */
TEST(the_next_machine_holds_every_area) {
    static const char *const layouts[] = {"01",   "0011", "0101",  "0001",   "0111",    "0100",
                                          "0112", "0122", "01212", "012012", "0011122", "00111222"};
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        job *job = keep(layouts[k], 0, 1, 6, -1, 0);
        for (int r = 0; r < job->n; r++) {
            size_t bytes[2], data[2];
            int64_t kept[2][2];
            const tri_segment *segment[2] = {&job->segment[job->node_of[r]], &job->segment[holder_machine(job, r)]};
            const void *area[2];
            for (int i = 0; i < 2; i++) assert_non_null(area[i] = tri__kept_find(segment[i], r, &bytes[i], kept[i]));
            assert_int_equal(bytes[0], bytes[1]);
            assert_memory_equal(kept[0], kept[1], sizeof kept[0]);
            assert_true(kept[0][0] == 7 && kept[0][1] == 6);
            for (int copy = 0; copy < 2; copy++) {
                const void *mine = tri__memory_data((void *)(uintptr_t)area[0], copy, &data[0]),
                           *held = tri__memory_data((void *)(uintptr_t)area[1], copy, &data[1]);
                assert_int_equal(data[0], data[1]);
                assert_memory_equal(mine, held, data[0]);
            }
            for (int64_t step = 5; step <= 6 && r == 0; step++)
                for (int i = 0; i < 2; i++) assert_int_equal(check_text(area[i], step, i == 0), TRI_OK);
        }
        free_job(job);
    }
}

/* ---- Collecting ---- */

static tri_status read_all(const tri_collected *got) {
    tri_checkpoint *c;
    float w[N], m[N], b[BIAS];
    int wrong = 0;
    const tri_shape shape = tri__shape_2d(ROWS, COLS), flat = tri__shape_1d(BIAS);
    tri_piece p[] = {{.name = "w", .dtype = TRI_F32, .shape = shape, .slice = tri__slice_whole(&shape), .data = w},
                     {.name = "exp_avg.w", .dtype = TRI_F32, .shape = shape, .slice = tri__slice_whole(&shape),
                      .data = m},
                     {.name = "b", .dtype = TRI_F32, .shape = flat, .slice = tri__slice_whole(&flat), .data = b}};
    TRI_TRY(tri__memory_open(got->areas, got->n, (int)(got->step & 1), got->step, tri__json_object(), &c));
    tri_status status = TRI_OK;
    for (int i = 0; i < 3 && status == TRI_OK; i++) status = tri__checkpoint_read(c, &p[i]);
    for (int e = 0; e < N && status == TRI_OK; e++)
        wrong += w[e] != (float)(10000 * got->step + e) || m[e] != (float)(-10000 * got->step - e);
    for (int i = 0; i < BIAS && status == TRI_OK; i++) wrong += b[i] != (float)(100 * got->step + i);
    wrong += tri__json_integer_value(tri__json_get(tri__checkpoint_state(c), "samples")) != 10 * got->step;
    tri__checkpoint_close(c);
    if (status == TRI_OK) CHECK(wrong == 0);
    return status;
}

static tri_status attach(tri_world *world, const job *job, int i) {
    char machine = job->before[i] ? job->memory[i][world->rank] : '-';
    if (machine == '-') return TRI_OK;
    int fd = fcntl(job->before[i]->segment[machine - '0'].fd, F_DUPFD_CLOEXEC, 0);
    return tri__segment_attach(fd, &world->before[i]);
}

static tri_status act_collect(tri_world *world, job *job) {
    tri_collected got;
    for (int i = 0; i < 2; i++) TRI_TRY(attach(world, job, i));
    const int has[2] = {world->before[0].base != NULL, world->before[1].base != NULL};
    TRI_TRY(tri__collect(world, &got));
    if (got.step != job->step)
        return tri__fail(TRI_INTERNAL, "step %lld was collected, not %lld", (long long)got.step, (long long)job->step);
    for (int i = 0; i < 2; i++) /* the others are let go */
        CHECK((world->before[i].base != NULL) == (has[i] && got.step >= 0 && i == job->taken));
    if (got.step < 0) return TRI_OK;
    CHECK(got.n == job->before[job->taken]->n);
    tri_status status = read_all(&got); /* and all have the same text, the owner's if its machine is left */
    const struct job *from = job->before[job->taken];
    int owner = strchr(job->memory[job->taken], '0' + from->node_of[0]) && (from->odd || got.step < from->last);
    if (status == TRI_OK) status = check_text(got.areas[0].base, got.step, owner);
    tri__collected_free(&got);
    return status;
}

/* A world of `layout` whose ranks have the memory of such machines: all find `step`, and read it. */
static void collect(const job *before, const char *layout, const char *memory, int64_t committed, int64_t step) {
    job *job = make_job(act_collect, layout, 1, committed);
    job->before[0] = before, job->memory[0] = memory, job->step = step;
    run_job(job);
    free_job(job);
}

/* Whoever is left, on the machines that are left. */
TEST(the_machines_left_have_all_of_it) {
    static const struct {
        const char *old, *layout, *memory;
        int lost;
    } cases[] = {
        {"0011", "00", "11", 0},         /* machine 0 died */
        {"0011", "00", "00", 0},         /* machine 1 */
        {"0011", "011", "011", 0},       /* rank 0 or 1: its machine has its area */
        {"0011", "001", "001", 0},       /* rank 2 or 3 */
        {"0011", "10", "01", 0},         /* one of each, and the machines in another order */
        {"0001", "0", "1", 0},
        {"0001", "000", "000", 0},
        {"0111", "0", "0", 0},
        {"0111", "000", "111", 0},
        {"0112", "001", "112", 0},
        {"0112", "01", "02", 0},
        {"0112", "011", "011", 0},
        {"012012", "0101", "0101", 0},
        {"012012", "0101", "2121", 0},
        {"00111222", "000111", "000222", 0},
        {"0112", "0", "0", 1},           /* two neighbours died */
        {"0112", "00", "11", 1},
        {"0112", "0", "2", 1},
        {"0011", "0011", "0-11", 0},     /* a spare, on the machine of a rank that has memory */
        {"0011", "0011", "-011", 0},
        {"0011", "0012", "001-", 0},     /* on another one */
        {"0011", "00", "0-", 0},         /* on the only one that is left */
        {"0011", "00", "-1", 0},
        {"0011", "01", "--", 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        job *before = keep(cases[k].old, 0, 1, 3 + (int64_t)(k & 1), -1, 0);
        collect(before, cases[k].layout, cases[k].memory, 0, cases[k].lost ? -1 : before->last);
        free_job(before);
    }
}

/* Ranks died while others had kept a step that not all of them had. */
TEST(a_step_that_not_all_have_is_not_taken) {
    for (int odd = 0; odd < 4; odd++) {
        job *before = keep("0011", 0, 1, 5, odd, 0);
        collect(before, "0011", "0011", 0, 4);
        collect(before, "00", odd < 2 ? "11" : "00", 0, 4);
        free_job(before);
    }
}

/* All have kept the step, but the copies on other machines were still on their way. */
TEST(a_copy_that_was_on_its_way_is_not_read) {
    for (int odd = 0; odd < 4; odd++) {
        job *before = keep("0011", 0, 1, 5, odd, 1);
        collect(before, "0011", "0011", 0, 5);
        collect(before, "00", odd < 2 ? "11" : "00", 0, 4);
        free_job(before);
    }
}

/* What was kept must not be older than the last checkpoint. */
TEST(a_newer_checkpoint_wins) {
    job *before = keep("0011", 0, 1, 4, -1, 0);
    collect(before, "01", "01", 4 + 1, 4);
    collect(before, "01", "01", 5 + 1, -1);
    free_job(before);
}

/* A world that failed before all had kept a step: the one before it. One that had: no other. */
TEST(the_newest_complete_world_is_taken) {
    for (int complete = 0; complete < 2; complete++) {
        job *old = keep("0011", 1, 1, 4, -1, 0), *newer = keep("011", 2, 5, 5, complete ? -1 : 1, 0);
        job *job = make_job(act_collect, "011", 3, 0);
        job->before[0] = newer, job->memory[0] = "011";
        job->before[1] = old, job->memory[1] = "0-1";
        job->step = complete ? 5 : 4, job->taken = !complete;
        run_job(job);
        free_job(job);
        free_job(newer);
        free_job(old);
    }
}

/* ---- Sessions ---- */

static tri_status act_train(tri_world *world, job *job) {
    tri_session *session = NULL;
    int more = 1;
    if (world) TRI_TRY(attach(world, job, 0));
    TRI_TRY(join_status(world, &session, "out", OPTIONS("--replicate-state", "--resume=never", "--epochs=60",
                                                        "--max-steps=40", "--lr=0.005", "--threads=1")));
    tri_status status = TRI_OK;
    for (int64_t k = job->first; k <= job->last && status == TRI_OK; k++)
        status = take_step(session, &job->loss[world ? world->rank : 0][k], &more);
    if (status == TRI_OK && session->at.step != job->last) status = tri__fail(TRI_INTERNAL, "it is at another step");
    tri_session_close(session);
    return status;
}

static job *train(const char *layout, const job *before, const char *memory, int64_t first, int64_t last) {
    job *job = make_job(act_train, layout, before != NULL, 0);
    job->before[0] = before, job->memory[0] = memory, job->first = first, job->last = last;
    run_job(job);
    return job;
}

/* One of three machines dies after 4 steps, then one of two after 6: the losses are those of one rank. */
TEST(a_session_goes_on_without_a_machine) {
    job *alone = calloc(1, sizeof *alone);
    alone->first = 1, alone->last = 8;
    OK(act_train(NULL, alone));
    job *three = train("012", NULL, NULL, 1, 4), *two = train("01", three, "02", 5, 6);
    job *last = train("0", two, "1", 7, 8), *of[] = {three, two, last};
    for (int i = 0; i < 3; i++)
        for (int64_t k = of[i]->first; k <= of[i]->last; k++)
            for (int r = 0; r < of[i]->n; r++)
                assert_true(fabs(of[i]->loss[r][k] - alone->loss[0][k]) <= 2e-6 * fmax(alone->loss[0][k], 0.1));
    for (int i = 0; i < 3; i++) free_job(of[i]);
    free(alone);
}

/* ---- Damage ---- */

/* A copy that claims a step of the other parity: the other copy is taken. */
TEST(a_step_of_the_other_parity_is_not_believed) {
    job *before = keep("0011", 0, 1, 5, -1, 0);
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < 2; i++) atomic_store(&before->segment[m].control->line[i].kept[0], 99 + 1);
    collect(before, "01", "01", 0, 5);
    free_job(before);
}

/* Words of an area's head: magic, bytes, table at, table bytes, state at, 4 sizes of states, 2 states in force, data of
 * both copies at. */
TEST(damaged_areas_are_refused) {
    enum { BYTES = 1, TABLE_AT, TABLE_BYTES, STATE_AT, STATES = 9, DATA_AT };
    static const struct {
        int word;
        uint64_t value;
    } wrong[] = {{0, 0}, {BYTES, UINT64_MAX}, {BYTES, 0}, {TABLE_AT, UINT64_MAX}, {TABLE_BYTES, UINT64_MAX - 4096},
                 {STATE_AT, UINT64_MAX}, {STATE_AT, UINT64_MAX - 4 * TRI_MEMORY_STATE}, {STATES, 2},
                 {STATES, UINT64_MAX}, {DATA_AT, UINT64_MAX}, {DATA_AT, 0}, {DATA_AT, 4096}, {DATA_AT + 1, UINT64_MAX},
                 {DATA_AT + 1, 0}};
    rank_state s;
    tri_memory_extent extent;
    tri_memory_area area;
    make_state(0, 1, &s);
    assert_int_equal(tri__memory_size(0, &s.pieces, &area.bytes), TRI_OK);
    uint64_t *head = calloc(1, area.bytes);
    assert_int_equal(tri__memory_format(head, area.bytes, 0, &s.pieces), TRI_OK);
    area.base = head;
    assert_int_equal(tri__memory_extent(&area, &extent), TRI_OK);
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        uint64_t was = head[wrong[k].word];
        head[wrong[k].word] = wrong[k].value;
        if (tri__memory_extent(&area, &extent) != TRI_DATA) fail_msg("wrong value %zu is accepted", k);
        head[wrong[k].word] = was;
    }
    for (size_t bytes = 0; bytes < 200; bytes += 8)
        assert_int_equal(tri__memory_extent(&(tri_memory_area){.base = head, .bytes = bytes}, &extent), TRI_DATA);
    for (size_t bit = 0; bit < 8 * 12 * sizeof *head; bit++) { /* refused, or inside the area */
        head[bit / 64] ^= (uint64_t)1 << bit % 64;
        if (tri__memory_extent(&area, &extent) == TRI_OK)
            for (int i = 0; i < 2; i++)
                assert_true(extent.begin <= extent.data_at[i] && extent.data_at[i] <= area.bytes &&
                            extent.data <= area.bytes - extent.data_at[i]);
        head[bit / 64] ^= (uint64_t)1 << bit % 64;
    }
    free(head);
}

/* Words of what is before a held area: the next one, its rank, its bytes. */
TEST(wild_places_are_not_followed) {
    enum { NEXT, RANK, BYTES };
    job *job = keep("0001", 0, 1, 2, -1, 0); /* rank 3 holds three areas: 2, 1, 0 in this order */
    tri_segment *segment = &job->segment[1];
    _Atomic uint64_t *held_at = &segment->control->line[0].held_at;
    const uint64_t at = atomic_load(held_at), page = 4096;
    const uint64_t wild[] = {1, at + 8, page - 1, segment->bytes, segment->bytes - page + 1, segment->bytes + page,
                             UINT64_MAX, UINT64_MAX - page + 1};
    uint64_t *first = (void *)(segment->base + at), next = first[NEXT];
    size_t bytes;
    int64_t kept[2];
    for (size_t k = 0; k < sizeof wild / sizeof wild[0]; k++) {
        atomic_store(held_at, wild[k]);
        assert_null(tri__kept_find(segment, 2, &bytes, kept));
        assert_true(kept[0] == 0 && kept[1] == 0);
        atomic_store(held_at, at);
        first[NEXT] = wild[k];
        assert_non_null(tri__kept_find(segment, 2, &bytes, kept));
        assert_null(tri__kept_find(segment, 1, &bytes, kept));
    }
    first[NEXT] = at; /* a loop */
    assert_null(tri__kept_find(segment, 0, &bytes, kept));
    first[NEXT] = next;
    const uint64_t large[] = {segment->bytes, segment->bytes - at - page + 1, UINT64_MAX, UINT64_MAX - at};
    for (size_t k = 0; k < sizeof large / sizeof large[0]; k++) {
        uint64_t was = first[BYTES];
        first[BYTES] = large[k];
        assert_null(tri__kept_find(segment, 2, &bytes, kept));
        first[BYTES] = was;
    }
    first[RANK] = UINT64_MAX;
    assert_null(tri__kept_find(segment, 2, &bytes, kept));
    assert_non_null(tri__kept_find(segment, 0, &bytes, kept));
    tri_rank_line *line = &job->segment[0].control->line[1]; /* rank 1's own, which nobody else on its machine has */
    atomic_store(&line->kept_bytes, UINT64_MAX);
    assert_null(tri__kept_find(&job->segment[0], 1, &bytes, kept));
    free_job(job);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_data, remove_data); }
