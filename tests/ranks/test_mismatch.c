/* test_mismatch.c - ranks that post different operations. A program of 50 operations, changed in one place on one rank:
 * every rank gets TRI_DISAGREE with both descriptors in its text, and no output byte is written. */
#include "base/status.h"
#include "comm/ops/kind.h"
#include "comm/world/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/comm_cases.h"
#include "tests/lib/soak.h"

enum {
    LENGTH = 50,
    RANKS = 4,
    ROUNDS = 5,
    ROOM = 4096 /* elements, of which programs use at most 1000 */,
    CANARY = 0x5A
};

typedef enum mutation { KIND, DTYPE, COUNT, REDUCTION, ROOT, COUNTS, TAG, ORDER, MISSING, MUTATIONS } mutation;
static const char *const names[] = {"kind", "dtype", "count", "reduction", "root", "counts", "tag", "order", "missing"};

typedef struct step {
    tri_collective what;      /* buffers are filled in when it runs */
    int64_t counts[RANKS];
    int uneven;
    int from, to;             /* of a send: only these two take part */
} step;

typedef struct program {
    step step[LENGTH];
    mutation mutation;
    int rank, at;             /* where it is changed */
    tri_status got[RANKS];
    char words[RANKS][512];
    int written[RANKS];       /* bytes of the output of the failing operation that are not the canary */
} program;

/* Neighbours differ in their counts. Every fifth is a message. */
static void make_program(program *program, uint64_t *state) {
    for (int i = 0; i < LENGTH; i++) {
        step *s = &program->step[i];
        *s = (step){
            .what = {.kind = (tri_collective_kind)(TRI_BROADCAST + comm_random(state) % (TRI_BARRIER - TRI_BROADCAST)),
                     .dtype = (tri_dtype)(comm_random(state) % TRI_DTYPE_COUNT),
                     .reduction = (tri_reduction)(comm_random(state) % TRI_REDUCTION_COUNT),
                     .root = (int)(comm_random(state) % RANKS),
                     .count = 1 + (int64_t)(comm_random(state) % 80) * 3 + i % 3}};
        s->uneven = tri__kind(s->what.kind)->uneven && i % 2;
        for (int m = 0; m < RANKS; m++) s->counts[m] = s->what.count + m;
        s->from = (int)(comm_random(state) % RANKS),
        s->to = (s->from + 1 + (int)(comm_random(state) % (RANKS - 1))) % RANKS;
        if (i % 5 == 4) s->what.kind = TRI_SEND, s->uneven = 0, s->what.tag = i;
    }
}

static int is_message(const step *s) { return s->what.kind == TRI_SEND; }

/* Whether changing this means a different operation. */
static int applies(const program *program, mutation mutation, int at, int rank) {
    const step *s = &program->step[at];
    const tri_kind_row *kind = tri__kind(s->what.kind);
    int message = is_message(s), ours = !message || rank == s->from || rank == s->to;
    switch (mutation) {
    case REDUCTION: return kind->reduces;
    case ROOT: return kind->rooted && !message;
    case COUNTS: return s->uneven;
    case TAG: return message && ours;
    case ORDER: return !message && at + 1 < LENGTH && !is_message(s + 1);
    case KIND:
    case MISSING: return !message && at + 1 < LENGTH && !is_message(s + 1);
    default: return ours;
    }
}

static void mutate(step *s, mutation mutation) {
    switch (mutation) {
    case KIND: s->what.kind = s->what.kind == TRI_ALL_REDUCE ? TRI_REDUCE : TRI_ALL_REDUCE, s->uneven = 0; break;
    case DTYPE: s->what.dtype = (tri_dtype)((s->what.dtype + 1) % TRI_DTYPE_COUNT); break;
    case COUNT: s->what.count++, s->counts[0]++; break;
    case REDUCTION: s->what.reduction = (tri_reduction)((s->what.reduction + 1) % TRI_REDUCTION_COUNT); break;
    case ROOT: s->what.root = (s->what.root + 1) % RANKS; break;
    case COUNTS: s->counts[1]--, s->counts[2]++; break;
    case TAG: s->what.tag++; break;
    default: break;
    }
}

/* Step i. Counts bytes written by a step that failed, from the changed one on: a rank may still be inside an earlier,
 * matching step, with its output written, when other ranks find the change. */
static tri_status run_step(tri_world *world, program *program, int i, step s) {
    static _Thread_local char in[8 * ROOM], out[8 * ROOM];
    int me = tri_world_rank(world);
    tri_request request;
    memset(in, 0, sizeof in), memset(out, CANARY, sizeof out);
    if (is_message(&s)) {
        if (me != s.from && me != s.to) return TRI_OK;
        s.what.kind = me == s.from ? TRI_SEND : TRI_RECV;
        s.what.root = me == s.from ? s.to : s.from;
    }
    s.what.in = in, s.what.out = out, s.what.counts = s.uneven ? s.counts : NULL;
    tri_status status = tri_post(tri_group_world(world), &s.what, &request);
    if (status == TRI_OK) status = tri_wait(world, request);
    if (status == TRI_OK) return TRI_OK;
    for (size_t k = 0; k < sizeof out && i >= program->at; k++) program->written[me] += out[k] != CANARY;
    return status;
}

static tri_status run_program(tri_world *world, void *argument) {
    program *program = argument;
    int me = tri_world_rank(world);
    tri_status status = TRI_OK;
    for (int i = 0; i < LENGTH && status == TRI_OK; i++) {
        step s = program->step[i];
        if (me == program->rank && program->mutation < MUTATIONS) {
            if (i == program->at && program->mutation == MISSING) continue;
            if (i == program->at) mutate(&s, program->mutation);
            if (program->mutation == ORDER && i == program->at) s = program->step[i + 1];
            if (program->mutation == ORDER && i == program->at + 1) s = program->step[i - 1];
        }
        status = run_step(world, program, i, s);
    }
    if (status == TRI_OK) status = tri_barrier(tri_group_world(world)); /* nobody leaves while two still differ */
    program->got[me] = status;
    if (status != TRI_OK) strncpy(program->words[me], tri_error(), sizeof program->words[me] - 1);
    return status;
}

static void unchanged_program_runs(void **unused) {
    (void)unused;
    uint64_t state = 1;
    program *program = calloc(1, sizeof *program);
    tri_ranks how = {.n = RANKS, .heap_bytes = 1 << 20};
    for (int i = 0; i < 3; i++) {
        make_program(program, &state);
        program->mutation = MUTATIONS;
        tri_status status = tri_ranks_run(&how, run_program, program);
        if (status != TRI_OK) fail_msg("%s", tri_error());
    }
    free(program);
}

/* Both descriptors: the words name two ranks, and what each asked for. */
static int has_both(const char *words) {
    const char *first = strstr(words, "(group of 4, operation ");
    return first && strstr(first + 1, "(group of 4, operation ") && strstr(words, "asked for");
}

static void check_outcome(const program *program, tri_status status) {
    const char *name = names[program->mutation];
    if (status != TRI_DISAGREE)
        fail_msg("%s of rank %d at %d: status %d, not %d", name, program->rank, program->at, (int)status, TRI_DISAGREE);
    for (int r = 0; r < RANKS; r++) {
        if (program->got[r] != TRI_DISAGREE)
            fail_msg("%s of rank %d at %d: rank %d got %d", name, program->rank, program->at, r, (int)program->got[r]);
        if (!has_both(program->words[r]))
            fail_msg("%s of rank %d at %d: rank %d has the words: %s", name, program->rank, program->at, r,
                     program->words[r]);
        if (program->written[r])
            fail_msg("%s of rank %d at %d: %d bytes of rank %d's output were written", name, program->rank, program->at,
                     program->written[r], r);
    }
}

/* Every kind of change, on every rank, in five places each. */
static void every_change_on_every_rank_is_caught(void **unused) {
    (void)unused;
    uint64_t state = 2;
    int caught = 0;
    program *program = calloc(1, sizeof *program);
    tri_ranks how = {.n = RANKS, .heap_bytes = 1 << 20};
    for (int mutation = 0; mutation < MUTATIONS; mutation++)
        for (int rank = 0; rank < RANKS; rank++)
            for (int round = 0; round < ROUNDS; round++) {
                do {
                    memset(program, 0, sizeof *program);
                    make_program(program, &state);
                    program->mutation = (enum mutation)mutation, program->rank = rank,
                    program->at = (int)(comm_random(&state) % LENGTH);
                } while (!applies(program, program->mutation, program->at, rank));
                check_outcome(program, tri_ranks_run(&how, run_program, program));
                caught++;
            }
    assert_int_equal(caught, MUTATIONS * RANKS * ROUNDS);
    free(program);
}

/* As processes there is no shared array: status and words are those of the runner. */
static void caught_between_processes(void **unused) {
    (void)unused;
    uint64_t state = 3;
    program *program = calloc(1, sizeof *program);
    tri_ranks how = {.n = RANKS, .forks = 1, .heap_bytes = 1 << 20};
    for (int mutation = 0; mutation < MUTATIONS; mutation++) {
        do {
            make_program(program, &state);
            program->mutation = (enum mutation)mutation, program->rank = mutation % RANKS,
            program->at = (int)(comm_random(&state) % LENGTH);
        } while (!applies(program, program->mutation, program->at, program->rank));
        assert_int_equal(tri_ranks_run(&how, run_program, program), TRI_DISAGREE);
        if (!has_both(tri_error())) fail_msg("%s: the words are: %s", names[mutation], tri_error());
    }
    free(program);
}

/* Large operations, which peers' memory takes part in: still nothing is written. */
static tri_status large_mismatch(tri_world *world, void *argument) {
    int *written = argument, me = tri_world_rank(world);
    static const int64_t count = 100000;
    float *in, *out;
    TRI_TRY(tri_heap_alloc(world, (size_t)count * 4, (void **)&in));
    TRI_TRY(tri_heap_alloc(world, (size_t)count * 4, (void **)&out));
    tri_status status = tri_all_reduce(tri_group_world(world), in, out, count - (me == 2), TRI_F32, TRI_SUM);
    for (int64_t i = 0; i < count; i++) written[me] += out[i] != 0;
    return status;
}

static void large_operations_too(void **unused) {
    (void)unused;
    int written[RANKS] = {0};
    tri_ranks how = {.n = RANKS, .heap_bytes = 2 << 20};
    assert_int_equal(tri_ranks_run(&how, large_mismatch, written), TRI_DISAGREE);
    assert_non_null(strstr(tri_error(), "rank 2: "));
    assert_non_null(strstr(tri_error(), "all_reduce sum f32 x 99999"));
    assert_non_null(strstr(tri_error(), "all_reduce sum f32 x 100000"));
    for (int r = 0; r < RANKS; r++) assert_int_equal(written[r], 0);
}

/* Rank 2 leaves where rank 0 still counts on it: in an operation, small and large, and at either end of a message. */
static tri_status leave_early(tri_world *world, void *argument) {
    static const int64_t count = 50000;
    tri_group *all = tri_group_world(world);
    int how = *(const int *)argument, me = tri_world_rank(world);
    float *data;
    TRI_TRY(tri_heap_alloc(world, (size_t)count * sizeof *data, (void **)&data));
    TRI_TRY(tri_barrier(all));
    if (me == 2 || (me != 0 && how > 1)) return TRI_OK;
    switch (how) {
    case 0: return tri_all_reduce(all, NULL, data, 3, TRI_F32, TRI_SUM);
    case 1: return tri_all_reduce(all, NULL, data, count, TRI_F32, TRI_SUM);
    case 2: return tri_recv(all, data, count, TRI_F32, 2, 0);
    default: return tri_send(all, data, count, TRI_F32, 2, 0);
    }
}

static void one_who_left_is_missed(void **unused) {
    (void)unused;
    for (int form = 0; form < 8; form++) {
        int how = form % 4;
        tri_ranks spec = {.n = RANKS, .forks = form / 4, .heap_bytes = 1 << 20, .progress_timeout = 60};
        assert_int_equal(tri_ranks_run(&spec, leave_early, &how), TRI_DISAGREE);
        if (!strstr(tri_error(), how < 2 ? "rank 2: left without taking part in all_reduce"
                                         : "rank 2: left without completing its end of "))
            fail_msg("form %d: the words are: %s", form, tri_error());
    }
}

int main(int argc, char **argv) {
    soak_select(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caught_between_processes),
        cmocka_unit_test(unchanged_program_runs),
        cmocka_unit_test(every_change_on_every_rank_is_caught),
        cmocka_unit_test(large_operations_too),
        cmocka_unit_test(one_who_left_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
