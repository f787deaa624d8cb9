/* test_check.c - the checker over all ranks: it reports every class of error with its message; random mutations of
 * valid programs are either caught or give the same bits as before. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "tests/lib/program_text.h"

#include <math.h>

enum { MUTATIONS = 1000, MAX_RANKS = 4, HEAP = 4 << 20 };

/* ---- Programs written by hand: two ranks that talk in pairs, broadcast and gather ---- */

static const char head[] =
    "program pair\nmesh pp=2 tp=1 dp=1 rank=%d microbatches=1\nmax T0=4 T1=0 N=0 Q0=0 Q1=0\n"
    "bytes act=2048 result=64\nslot a act i32 [T0,1] @0\nslot b act i32 [T0,1] @256\n"
    "slot c act f64 [1,1] @512\nslot whole act f64 [1,20] @1024\nslot part act f64 [1,%d] @1536\n"
    "slot sum result f64 [1,1] @0\n";
static const char *const body[2] = {
    "0 input a  mb 0\n"
    "1 send_post <- a id=1 axes=pp root=1  mb 0\n"
    "2 recv_post b id=2 axes=pp root=1  mb 0\n"
    "3 wait _ <- a  mb 0\n"
    "4 wait b <- _  mb 0\n"
    "5 input c field=12  mb 0\n"
    "6 broadcast_post sum <- c id=3 axes=pp  mb 0\n"
    "7 wait sum <- c  mb 0\n"
    "8 all_reduce_post sum id=4 axes=pp\n"
    "9 wait sum <- _\n",
    "0 recv_post b id=1 axes=pp  mb 0\n"
    "1 wait b <- _  mb 0\n"
    "2 send_post <- b id=2 axes=pp  mb 0\n"
    "3 wait _ <- b  mb 0\n"
    "4 broadcast_post sum <- _ id=3 axes=pp  mb 0\n"
    "5 wait sum <- _  mb 0\n"
    "6 all_reduce_post sum id=4 axes=pp\n"
    "7 wait sum <- _\n",
};

/* The program of a rank with `find` replaced; NULL: as it is. */
static const tri_program *parse(tri_arena *arena, int rank, const char *find, const char *put) {
    const char *text = tri__arena_print(arena, "%s%s", tri__arena_print(arena, head, rank, rank ? 4 : 16), body[rank]);
    return program_text_parse(arena, "pair", text, find, put);
}

TEST(pairs_fit) {
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 28));
    const tri_program *both[2] = {parse(&arena, 0, NULL, NULL), parse(&arena, 1, NULL, NULL)};
    OK(tri__check(both, 2));
    for (int i = 0; i < 2; i++) {
        char *first, *second;
        tri_program *parsed;
        OK(tri__program_text(both[i], &first));
        OK(tri__program_parse(&arena, "again", first, &parsed));
        OK(tri__program_text(parsed, &second));
        assert_string_equal(first, second);
        free(first), free(second);
    }
    tri__arena_close(&arena);
}

static tri_status run_pair(tri_world *world, void *argument) {
    const tri_program *const *both = argument;
    int rank = tri_world_rank(world);
    static const int32_t tokens[4] = {7, -3, 5, 11};
    static const double number = 2.5;
    tri_feed feed = {.counts.of[TRI_SYM_T0] = 3};
    feed.field[TRI_FIELD_ids0] = tokens, feed.field[TRI_FIELD_loss_inv] = &number;
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = &both[rank], .n = 1,
                                            .seed = 1, .world = world}, &exec));
    tri_status status = tri__exec_run(exec, 0, 0, both[rank]->n_instrs, 1, &feed, NULL);
    const int32_t *b = tri__exec_slot(exec, 0, tri__program_find(both[rank], "b")); /* [4] */
    double sum = *(const double *)tri__exec_slot(exec, 0, tri__program_find(both[rank], "sum"));
    int right = memcmp(b, tokens, 3 * sizeof *b) == 0 && b[3] == 0 && sum == 5;
    if (status == TRI_OK && !right) status = tri__fail(TRI_DATA, "rank %d: wrong data", rank);
    tri__exec_close(exec);
    return status;
}

/* The executor runs sends, receives and broadcasts, of as many rows as the microbatch has. */
TEST(pairs_run) {
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 28));
    const tri_program *both[2] = {parse(&arena, 0, NULL, NULL), parse(&arena, 1, NULL, NULL)};
    OK(tri_ranks_run(&(tri_ranks){.n = 2, .heap_bytes = HEAP}, run_pair, both));
    tri_exec *exec;
    assert_int_equal(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = both, .n = 1,
                                                     .seed = 1}, &exec), TRI_INTERNAL);
    tri__arena_close(&arena);
}

/* A view without elements may be read before its root is written, and while its root travels; one of an element not. */
TEST(empty_slots_touch_nothing) {
    static const char text[] =
        "program empty\nmesh pp=1 tp=1 dp=2 rank=%d microbatches=1\nmax T0=4 T1=0 N=0 Q0=0 Q1=0\n"
        "bytes act=128 result=64\nslot h act f32 [1,8] @0\nview none of h +3 [1,%d]\nslot g act f32 [1,2] @64\n"
        "view a of g +0 [1,1]\nview b of g +1 [1,1]\nview hole of g +1 [1,%d]\nslot sum result f64 [1,1] @0\n"
        "slot norm result f64 [1,1] @8\nslot other result f64 [1,1] @16\nslot apply result i32 [1,1] @24\n"
        "0 sumsq sum <- none\n1 clip a apply norm <- sum _\n2 clip b apply norm <- sum _\n"
        "3 all_reduce_post g id=4 axes=dp\n4 sumsq other <- hole\n5 wait g <- _\n";
    static const char *const words[] = {NULL, "none is read before it is written",
                                        "hole is used before the transfer posted at instruction 3 has ended"};
    for (int i = 0; i < 3; i++) {
        tri_arena arena;
        const tri_program *both[2];
        OK(tri__arena_open(&arena, (size_t)1 << 28));
        for (int r = 0; r < 2; r++)
            both[r] = program_text_parse(&arena, "empty", tri__arena_print(&arena, text, r, i == 1, i == 2), NULL,
                                         NULL);
        if (tri__check(both, 2) != (i ? TRI_INTERNAL : TRI_OK)) fail_msg("%s", tri_error());
        if (words[i] && !strstr(tri_error(), words[i])) fail_msg("said: %s", tri_error());
        tri__arena_close(&arena);
    }
}

TEST(breaks_are_named) {
    static const struct {
        int rank;
        const char *find, *put, *words;
    } cases[] = {
        {0, "3 wait _ <- a  mb 0\n", "", "never waited for"},
        {0, "1 send_post <- a", "1 send_post <- b", "read before it is written"},
        {0, "3 wait _ <- a", "3 wait _ <- c", "no transfer of these slots"},
        {0, "5 input c field=12  mb 0\n",
         "5 input c field=12  mb 0\n5 send_post <- a id=9 axes=pp root=1  mb 0\n5 input a  mb 0\n",
         "before the transfer posted at instruction 6 has ended"},
        {0, "slot b act i32 [T0,1] @256", "slot b act i32 [T0,1] @0", "before the transfer posted at"},
        {0, "axes=pp root=1  mb 0\n2", "axes=pp  mb 0\n2", "to itself"},
        {0, "axes=pp root=1  mb 0\n2", "axes=pp root=2  mb 0\n2", "no such place"},
        {0, "id=4 axes=pp", "id=4", "do not name a group"},
        {0, "id=4 axes=pp", "id=4 axes=pp within=3", "do not name a group"},
        {0, "6 broadcast_post sum <- c", "6 broadcast_post sum <- _", "another rank than the root"},
        {0, "rank=0", "rank=2", "no such rank"},
        {0, "8 all_reduce_post",
         "8 all_gather_post whole <- part id=8 axes=pp\n8 wait whole <- part\n8 all_reduce_post", "read before"},
        {1, "6 all_reduce_post",
         "6 reduce_scatter_post part <- whole id=9 axes=pp\n6 wait part <- whole\n6 all_reduce_post", "read b"},
        /* the two together */
        {1, "id=2 axes=pp", "id=7 axes=pp", "do not fit together"},
        {1, "slot sum result f64", "slot sum result i64", "do not fit together"},
        {1, "slot b act i32 [T0,1] @256", "slot b act i32 [T0,2] @256", "do not fit together"},
        {1, "6 all_reduce_post sum id=4 axes=pp\n7 wait sum <- _\n", "", "rank 1 has ended"},
        {1, "2 send_post <- b id=2 axes=pp  mb 0\n3 wait _ <- b  mb 0\n", "",
         "rank 0 waits at instruction 4 for rank 1"},
        {0,
         "2 recv_post b id=2 axes=pp root=1  mb 0\n3 wait _ <- a  mb 0\n4 wait b <- _  mb 0\n5 input c field=12  mb "
         "0\n",
         "2 input c field=12  mb 0\n3 wait _ <- a  mb 0\n", "rank 1 waits at instruction 3 for rank 0"},
    };
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 28));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tri_program *both[2];
        for (int r = 0; r < 2; r++) both[r] = parse(&arena, r, r == cases[i].rank ? cases[i].find : NULL, cases[i].put);
        if (tri__check(both, 2) != TRI_INTERNAL) fail_msg("accepted: \"%s\" for \"%s\"", cases[i].put, cases[i].find);
        if (!strstr(tri_error(), cases[i].words))
            fail_msg("\"%s\" for \"%s\": %s", cases[i].put, cases[i].find, tri_error());
    }
    tri__arena_close(&arena);
}

/* Each sends before it receives, and waits for that: nothing is buffered, so nobody gets on. Both are named. */
TEST(nobody_gets_on) {
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 28));
    const tri_program *both[2] = {
        parse(&arena, 0,
              "2 recv_post b id=2 axes=pp root=1  mb 0\n"
              "3 wait _ <- a  mb 0\n",
              "2 wait _ <- a  mb 0\n"
              "3 recv_post b id=2 axes=pp root=1  mb 0\n"),
        parse(&arena, 1,
              "0 recv_post b id=1 axes=pp  mb 0\n"
              "1 wait b <- _  mb 0\n"
              "2 send_post <- b id=2 axes=pp  mb 0\n"
              "3 wait _ <- b  mb 0\n",
              "0 input a  mb 0\n"
              "1 send_post <- a id=2 axes=pp  mb 0\n"
              "2 wait _ <- a  mb 0\n"
              "3 recv_post b id=1 axes=pp  mb 0\n"
              "4 wait b <- _  mb 0\n")};
    assert_int_equal(tri__check(both, 2), TRI_INTERNAL);
    assert_non_null(strstr(tri_error(), "rank 0 waits at instruction 2 for rank 1"));
    assert_non_null(strstr(tri_error(), "rank 1 waits at instruction 2 for rank 0"));
    tri__arena_close(&arena);
}

/* ---- All with all: rows of three ranks ---- */

enum { TRIO = 3, ROW = 70000 }; /* bytes of a row: more than travel with an announcement */

static const char trio_text[] =
    "program trio\nmesh pp=1 tp=1 dp=3 rank=%d microbatches=1\nmax T0=1 T1=0 N=1 Q0=0 Q1=0\n"
    "bytes state=210048 result=210048\nslot x state u8 [3,%d] @0\nslot y result u8 [3,%d] @0\n"
    "0 all_to_all_post y <- x id=7 axes=dp\n1 wait y <- x\n";

static const tri_program *parse_trio(tri_arena *arena, int rank, int row, const char *find, const char *put) {
    return program_text_parse(arena, "trio", tri__arena_print(arena, trio_text, rank, row, row), find, put);
}

static uint8_t byte_of(int from, int to, int k) { return (uint8_t)(17 * from + 5 * to + k); }

static tri_status run_trio(tri_world *world, void *argument) {
    const tri_program *p = ((const tri_program *const *)argument)[tri_world_rank(world)];
    int rank = tri_world_rank(world), right = 1, row = (int)p->slot[0].cols;
    tri_feed feed = {.counts.of[TRI_SYM_T0] = 1};
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = &p, .n = 1, .seed = 1,
                                            .world = world}, &exec));
    uint8_t *x = tri__exec_slot(exec, 0, 0), *y = tri__exec_slot(exec, 0, 1); /* [TRIO, row] */
    for (int to = 0; to < TRIO; to++)
        for (int k = 0; k < row; k++) x[to * row + k] = byte_of(rank, to, k);
    tri_status status = tri__exec_run(exec, 0, 0, p->n_instrs, 1, &feed, NULL);
    for (int from = 0; from < TRIO; from++)
        for (int k = 0; k < row; k++) right &= y[from * row + k] == byte_of(from, rank, k);
    tri__exec_close(exec);
    return status != TRI_OK || right ? status : tri__fail(TRI_DATA, "rank %d: wrong rows", rank);
}

/* Ranks as threads and as processes over shared memory. A rank sends two of its three rows. */
FIRST_TEST(rows_are_exchanged) {
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 28));
    for (int forks = 1; forks >= 0; forks--)
        for (int row = 64; row <= ROW; row += ROW - 64) {
            const tri_program *all[TRIO];
            double sent[TRI_COLLECTIVE_COUNT];
            for (int rank = 0; rank < TRIO; rank++) all[rank] = parse_trio(&arena, rank, row, NULL, NULL);
            OK(tri__check(all, TRIO));
            tri__program_sent(all[0], sent);
            assert_true(sent[TRI_ALL_TO_ALL] == 2.0 * row);
            OK(tri_ranks_run(&(tri_ranks){.n = TRIO, .forks = forks, .heap_bytes = HEAP}, run_trio, all));
        }
    static const struct {
        const char *find, *put, *words;
    } cases[] = {{"slot x state u8 [3,", "slot x state u8 [2,", "fit"},
                 {"slot y result u8 [3,64]", "slot y result u8 [3,128]", "fit"},
                 {"axes=dp", "axes=pp", "for each member"},
                 {"axes=dp\n1 wait y <- x\n",
                  "axes=dp\n1 wait y <- x\n2 all_to_all_post y <- x id=8 axes=dp\n3 wait y <- x\n", "rank 1 has ended"},
                 {"all_to_all_post y <- x", "all_to_all_post y <- y", "overlaps"},
                 {"slot x state u8 [3,64] @0\nslot y result u8 [3,64]",
                  "slot x state u8 [3,128] @0\nslot y result u8 [3,128]", "do not fit together"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tri_program *all[TRIO];
        for (int rank = 0; rank < TRIO; rank++)
            all[rank] = parse_trio(&arena, rank, 64, rank ? NULL : cases[i].find, cases[i].put);
        assert_int_equal(tri__check(all, TRIO), TRI_INTERNAL);
        if (!strstr(tri_error(), cases[i].words)) fail_msg("case %zu: %s", i, tri_error());
    }
    tri__arena_close(&arena);
}

/* ---- Mutations ---- */

typedef struct suite {
    int pp, dp, n_mb, n;                    /* n: ranks */
    tri_sharding sharding;
    tri_staging staging;
    tiny rank[MAX_RANKS];
    const tri_program *program[MAX_RANKS];  /* what is checked and run */
    float *weights[MAX_RANKS];              /* of each rank after a step */
    int64_t weight_bytes[MAX_RANKS];
    double norm[MAX_RANKS], loss[MAX_RANKS];
} suite;

static tri_status run_rank(tri_world *world, void *argument) {
    suite *s = argument;
    int rank = tri_world_rank(world);
    tiny *t = &s->rank[rank];
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = &s->program[rank], .n = 1,
                                            .seed = 7, .world = world}, &exec));
    tiny_init(t, exec);
    tri_status status = tri__exec_run(exec, 0, 0, s->program[rank]->n_instrs, 1, t->feed, NULL);
    s->loss[rank] = tiny_loss(t, exec);
    s->norm[rank] = *(const double *)tri__exec_slot(exec, 0, t->plan.train.norm);
    char *to = (char *)s->weights[rank];
    for (int u = 0; u < t->plan.model->n_units; u++) {
        size_t bytes = (size_t)(t->plan.train.param_part[u].end - t->plan.train.param_part[u].begin) * sizeof(float);
        memcpy(to, tri__exec_slot(exec, 0, t->plan.train.param[u]), bytes);
        to += bytes;
    }
    s->weight_bytes[rank] = to - (char *)s->weights[rank];
    tri__exec_close(exec);
    return status;
}

static tri_status run_suite(suite *s) {
    return tri_ranks_run(&(tri_ranks){.n = s->n, .heap_bytes = HEAP, .progress_timeout = 5}, run_rank, s);
}

/* Numbers below n, one after the other. */
static uint32_t draw(uint32_t *state, int n) { return tri__philox(17, 0, (*state)++, 0, 0, 0).word[0] % (uint32_t)n; }

static void insert_at(tri_program *p, int at, tri_instr instr) {
    memmove(p->instr + at + 1, p->instr + at, (size_t)(p->n_instrs++ - at) * sizeof *p->instr);
    p->instr[at] = instr;
}

static void remove_at(tri_program *p, int at) {
    memmove(p->instr + at, p->instr + at + 1, (size_t)(--p->n_instrs - at) * sizeof *p->instr);
}

/* The k-th transfer, counted from some random place on. */
static int some_transfer(const tri_program *p, uint32_t *state) {
    int at = (int)draw(state, p->n_instrs);
    while (tri__op_queue(p->instr[at].op) != TRI_QUEUE_COMM) at = (at + 1) % p->n_instrs;
    return at;
}

static const tri_op posts[] = {TRI_OP_all_reduce_post, TRI_OP_all_gather_post, TRI_OP_reduce_scatter_post,
                               TRI_OP_broadcast_post,  TRI_OP_send_post,       TRI_OP_recv_post,
                               TRI_OP_control_post};

/* One change of a transfer's attributes. */
static void mutate_attr(tri_attr *attr, uint32_t *state) {
    switch (draw(state, 5)) {
    case 0: attr->axes ^= 1u << draw(state, 4); break;
    case 1: attr->within = (int)draw(state, 4); break;
    case 2: attr->across = (int)draw(state, 4); break;
    case 3: attr->root = (int)draw(state, 3); break;
    case 4: attr->id ^= 1u << draw(state, 32); break;
    }
}

/* One change of a slot; of one that no transfer has, only its type or its place in memory: which elements a kernel
 * takes is not for the checker to know. */
static void mutate_slot(tri_program *p, int transferred, uint32_t *state) {
    int any = (int)draw(state, p->n_slots), change = (int)draw(state, 4), takes = draw(state, 2) == 0;
    tri_slot *slot = &p->slot[takes ? transferred : any];
    switch (takes ? change : change % 2) {
    case 0: slot->dtype = (tri_dtype)draw(state, TRI_DTYPE_COUNT); break;
    case 1: slot->offset = 64 * (int64_t)draw(state, 1 + (int)(p->bytes[slot->mem] / 64)); break;
    case 2: slot->cols += 16 * (1 - 2 * (int)draw(state, 2)); break;
    case 3: slot->parent_at += 16 * (1 - 2 * (int)draw(state, 2)); break;
    }
    if (slot->cols < 0) slot->cols = 0;
}

static void mutate(tri_program *p, uint32_t *state) {
    int at = some_transfer(p, state), other = some_transfer(p, state), any = (int)draw(state, p->n_instrs - 1);
    tri_instr instr = p->instr[at];
    int ends = tri__instr_row(&instr)->n_args;
    switch (draw(state, 9)) {
    case 0: remove_at(p, at); break;
    case 1: insert_at(p, any, instr); break;
    case 2: remove_at(p, at), insert_at(p, any, instr); break;
    case 3: p->instr[at] = p->instr[other], p->instr[other] = instr; break;
    case 4: mutate_attr(&p->instr[at].attr, state); break;
    case 5: p->instr[at].op = (uint16_t)posts[draw(state, 7)]; break;
    case 6: p->instr[at].slot[draw(state, ends)] = (int)draw(state, p->n_slots); break;
    case 7: mutate_slot(p, instr.slot[instr.slot[0] < 0], state); break;
    case 8: instr = p->instr[any], p->instr[any] = p->instr[any + 1], p->instr[any + 1] = instr; break;
    }
}

/* A copy with room for two more instructions. */
static tri_program copy_of(tri_arena *arena, const tri_program *from) {
    tri_program p = *from;
    p.instr = tri__arena_alloc(arena, ((size_t)p.n_instrs + 2) * sizeof *p.instr);
    p.slot = tri__arena_alloc(arena, (size_t)p.n_slots * sizeof *p.slot);
    memcpy(p.instr, from->instr, (size_t)p.n_instrs * sizeof *p.instr);
    memcpy(p.slot, from->slot, (size_t)p.n_slots * sizeof *p.slot);
    return p;
}

static void open_suite(suite *s, int texts) {
    for (int r = 0; r < s->n; r++) {
        tiny_open_rank(&s->rank[r], "cpu", texts, 0, 0.1, s->n_mb,
                       &(tiny_rank){s->dp, r, s->sharding, s->pp, s->staging});
        s->program[r] = s->rank[r].program[0];
        s->weights[r] = calloc((size_t)s->rank[r].model.n_elements, sizeof(float));
    }
    OK(tri__check(s->program, s->n));
    OK(run_suite(s));
}

/* A mutant that the checker accepts does the same as its original. */
static void assert_harmless(const suite *was, suite *is, uint32_t number) {
    if (run_suite(is) != TRI_OK) fail_msg("mutation %u was accepted and fails: %s", number, tri_error());
    for (int r = 0; r < is->n; r++) {
        if (is->loss[r] != was->loss[r] || fabs(is->norm[r] - was->norm[r]) > 1e-14 * was->norm[r] ||
            memcmp(is->weights[r], was->weights[r], (size_t)was->weight_bytes[r]) != 0)
            fail_msg("mutation %u was accepted and changes rank %d", number, r);
    }
}

/* MUTATIONS of the programs of each of n suites, alike many. */
static void mutate_all(const suite *suites, const int *texts, int n) {
    uint32_t number = 0, rng = 0;
    int caught = 0, harmless = 0;
    for (int i = 0; i < n; i++) {
        suite *was = calloc(1, sizeof *was), *is = calloc(1, sizeof *is);
        *was = suites[i];
        was->n = was->pp * was->dp;
        open_suite(was, texts[i]);
        *is = *was;
        for (int r = 0; r < is->n; r++) is->weights[r] = calloc((size_t)was->rank[r].model.n_elements, sizeof(float));
        for (int k = 0; k < MUTATIONS / n; k++, number++) {
            tri_arena arena;
            OK(tri__arena_open(&arena, (size_t)1 << 26));
            int victim = (int)draw(&rng, is->n);
            tri_program mutant = copy_of(&arena, was->program[victim]);
            mutate(&mutant, &rng);
            memcpy(is->program, was->program, sizeof is->program);
            is->program[victim] = &mutant;
            tri_status status = tri__check(is->program, is->n);
            assert_true(status == TRI_OK || status == TRI_INTERNAL);
            if (status == TRI_OK) assert_harmless(was, is, number), harmless++;
            else caught++;
            tri__arena_close(&arena);
        }
        for (int r = 0; r < was->n; r++) tiny_close(&was->rank[r]), free(was->weights[r]), free(is->weights[r]);
        free(was), free(is);
    }
    print_message("    of %d mutations %d were caught, %d change nothing\n", (int)number, caught, harmless);
    assert_true(caught > MUTATIONS / 2 && harmless > 0);
}

TEST(mutations) {
    static const suite cases[] = {
        {.pp = 1, .dp = 2, .n_mb = 2, .sharding = {.bucket_mb = 0.01}},
        {.pp = 1, .dp = 2, .n_mb = 1, .sharding = {.kind = TRI_SHARD_ZERO1}},
        {.pp = 1, .dp = 3, .n_mb = 2, .sharding = {.kind = TRI_SHARD_ZERO2}},
        {.pp = 1, .dp = 2, .n_mb = 1, .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1}},
        {.pp = 1, .dp = 4, .n_mb = 1, .sharding = {.kind = TRI_SHARD_HYBRID, .size = 2, .prefetch = 1}},
    };
    mutate_all(cases, (const int[]){1, 2, 1, 1, 1}, 5);
}

TEST(mutations_of_pipelines) {
    static const suite cases[] = {
        {.pp = 2, .dp = 1, .n_mb = 3, .staging = {.schedule = TRI_SCHEDULE_1F1B}},
        {.pp = 3, .dp = 1, .n_mb = 2, .staging = {.schedule = TRI_SCHEDULE_ZB_H1, .shape = TRI_SHAPE_BRANCH}},
        {.pp = 2, .dp = 1, .n_mb = 3, .staging = {.schedule = TRI_SCHEDULE_ZBV}},
        {.pp = 4, .dp = 1, .n_mb = 2, .staging = {.schedule = TRI_SCHEDULE_GPIPE}},
        {.pp = 2,
         .dp = 2,
         .n_mb = 2,
         .staging = {.schedule = TRI_SCHEDULE_INTERLEAVED},
         .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1}},
    };
    mutate_all(cases, (const int[]){1, 2, 2, 2, 1}, 5);
}

/* ---- Classes: what is proven of them is proven of every member ---- */

enum { CLASS_MUTATIONS = 500, MOST_RANKS = 16 };

/* One change of what a class says: of its program, of what moves from member to member, or of where the next class
 * begins. */
static void mutate_class(tri_arena *arena, tri_classes *all, uint32_t *state) {
    int at = (int)draw(state, all->n);
    tri_class *class = &all->at[at];
    tri_program *p = tri__arena_alloc(arena, sizeof *p);
    switch (draw(state, 4)) {
    case 0: /* one shift is another, or none */
        if (!class->n_shifts) break;
        tri_shift *shift = memcpy(tri__arena_alloc(arena, (size_t)class->n_shifts * sizeof *shift), class->shift,
                                  (size_t)class->n_shifts * sizeof *shift);
        class->shift = shift;
        shift += draw(state, class->n_shifts);
        shift->each = draw(state, 3) ? shift->each + 16 * (1 - 2 * (int)draw(state, 2)) : 0;
        break;
    case 1: /* a class takes the first member of the next one */
        if (at + 1 == all->n || class[1].begin == 0 || class[1].n == 1) break;
        tri_coords next = tri__mesh_coords(&all->mesh, class[1].program->rank);
        next.dp++;
        class[1].program = tri__classes_program(all, arena, tri__mesh_rank(&all->mesh, next));
        class->n++, class[1].begin++, class[1].n--;
        break;
    default:
        *p = copy_of(arena, class->program);
        if (tri__program_lanes(p) > 1 && draw(state, 2)) p->instr[draw(state, p->n_instrs)].lane ^= 1;
        else mutate(p, state);
        class->program = p;
    }
}

/* The verdict on classes is the one on the programs of all their members, checked one by one. */
TEST(mutations_of_classes) {
    static const struct {
        int pp, dp;
        tri_sharding sharding;
        int lanes; /* 2: with two texts */
    } cases[] = {{1, 8, {.bucket_mb = 0.01}, 1},
                 {1, 12, {.kind = TRI_SHARD_ZERO1}, 1},
                 {1, 16, {.kind = TRI_SHARD_ZERO2}, 1},
                 {2, 7, {.kind = TRI_SHARD_ZERO3, .prefetch = 1}, 1},
                 {1, 16, {.kind = TRI_SHARD_HYBRID, .size = 4, .prefetch = 1}, 1},
                 {1, 8, {.kind = TRI_SHARD_ZERO1}, 2},
                 {1, 6, {.kind = TRI_SHARD_ZERO3, .prefetch = 1}, 2}};
    enum { CASES = sizeof cases / sizeof *cases };
    uint32_t rng = 0;
    int caught = 0, fewer = 0;
    for (int i = 0; i < CASES; i++) {
        tiny t;
        tri_classes all[TRI_PROGRAMS];
        tiny_open_rank(&t, "cpu", cases[i].lanes, 0, 0.1, 2,
                       &(tiny_rank){cases[i].dp, 0, cases[i].sharding, cases[i].pp, {0}});
        t.target.lanes = cases[i].lanes;
        OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
        const tri_classes was = all[TRI_TRAIN];
        OK(tri__check_all(&was));
        assert_int_equal(tri__program_lanes(was.at[0].program), cases[i].lanes);
        fewer += was.world - was.n;
        for (int k = 0; k < CLASS_MUTATIONS / CASES; k++) {
            size_t used = t.arena.used;
            const tri_program *each[MOST_RANKS];
            tri_classes is = was;
            is.at = memcpy(tri__arena_alloc(&t.arena, (size_t)was.n * sizeof *is.at), was.at,
                           (size_t)was.n * sizeof *is.at);
            mutate_class(&t.arena, &is, &rng);
            for (int rank = 0; rank < is.world; rank++) each[rank] = tri__classes_program(&is, &t.arena, rank);
            tri_status want = tri__check(each, is.world), got = tri__check_all(&is);
            if (got != want)
                fail_msg("case %d, mutation %d: of classes %d, of their members %d (%s)", i, k, got, want, tri_error());
            caught += got != TRI_OK;
            tri__arena_rewind(&t.arena, used);
        }
        tiny_close(&t);
    }
    print_message("    of %d mutations %d were caught\n", CLASS_MUTATIONS, caught);
    assert_true(fewer > 0 && caught > CLASS_MUTATIONS / 3 && caught < CLASS_MUTATIONS);
}

/* One broken rank of a class is no member of it: among the programs of all ranks it is found, wherever it is. */
TEST(one_of_a_class) {
    tiny t;
    tri_classes all[TRI_PROGRAMS];
    const tri_program *each[MOST_RANKS];
    tiny_open_rank(&t, "cpu", 1, 0, 0.1, 2, &(tiny_rank){.dp = MOST_RANKS, .sharding = {.kind = TRI_SHARD_ZERO1}});
    OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
    for (int victim = 0; victim < MOST_RANKS; victim++) {
        for (int rank = 0; rank < MOST_RANKS; rank++)
            each[rank] = tri__classes_program(&all[TRI_TRAIN], &t.arena, rank);
        OK(tri__check(each, MOST_RANKS));
        tri_program late = copy_of(&t.arena, each[victim]), moved = copy_of(&t.arena, each[victim]);
        int at = 0;
        while (!tri__is_post(late.instr[at].op)) at++;
        late.instr[at].attr.id ^= 1; /* another transfer than the others post */
        for (int s = 0; s < moved.n_slots; s++)
            if (strstr(moved.slot[s].name, ".own")) moved.slot[s].parent_at += 16; /* not its own shard */
        each[victim] = &late;
        assert_int_equal(tri__check(each, MOST_RANKS), TRI_INTERNAL);
        each[victim] = &moved;
        assert_int_equal(tri__check(each, MOST_RANKS), TRI_INTERNAL);
    }
    tiny_close(&t);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
