/* test_gates.c - kinds of steps: which steps are of which kind; programs whose instructions run in some kinds only are
 * printed, parsed, proven kind by kind, and run. */
#include "tests/lib/test.h"
#include "tests/lib/lane_device.h"

#include "engine/accept_settings.h"
#include "plan/step_kinds.h"
#include "tests/lib/program_text.h"
#include "sim/timeline.h"

#include <math.h>

enum { HEAP = 1 << 20, ARGS = 8 };

/* ---- Which steps are of which kind ---- */

/* The kinds of the first steps, a letter each: f, t, s, v, a; y: sync. */
static const char *letters_of(const tri_optimizing *how, int n, char *out) {
    static const char letter[] = "ftsvay";
    for (int step = 0; step < n; step++) {
        uint32_t gate = tri__step_gate(how, step);
        assert_true(gate && !(gate & (gate - 1)));
        for (int k = 0; k < TRI_GATE_COUNT; k++)
            if (gate == 1u << k) out[step] = letter[k];
    }
    out[n] = 0;
    return out;
}

TEST(steps_have_their_kinds) {
    char text[64];
    tri_optimizing plain = {.kind = TRI_ADAMW, .sync_every = 1};
    assert_int_equal(tri__step_gate(&plain, 0), 0);
    assert_int_equal(tri__variance_steps(&plain, 7), 7);
    tri_optimizing onebit = {.kind = TRI_ONEBIT_ADAM, .steps = 10, .sync_every = 1};
    tri__step_kinds_resolve(&onebit, 0); /* a fifth of the run */
    assert_string_equal(letters_of(&onebit, 10, text), "fftsssssss");
    assert_int_equal(tri__variance_steps(&onebit, 10), 2);
    onebit.full_steps = 0;
    tri__step_kinds_resolve(&onebit, 5); /* the warm-up is longer */
    assert_string_equal(letters_of(&onebit, 10, text), "ffffftssss");
    onebit.full_steps = 0, onebit.beta2 = 0.75;
    tri__step_kinds_resolve(&onebit, 3); /* the variance takes longer to be stable */
    assert_string_equal(letters_of(&onebit, 10, text), "fffftsssss");
    tri_optimizing usual = {.kind = TRI_ONEBIT_ADAM, .beta2 = 0.999};
    assert_int_equal(tri__variance_window(&usual), 1000);
    tri_optimizing sync = {.kind = TRI_ADAMW, .steps = 8, .sync_every = 3};
    assert_string_equal(letters_of(&sync, 8, text), "aayaayay"); /* the last one, too */
    /* the variance at an interval that doubles after 2 updates, until step 8; then exchanges, every 2nd, then every 4th
     */
    tri_optimizing zero_one = {.kind = TRI_ZERO_ONE_ADAM, .steps = 19, .var_freeze_step = 8, .var_update_scaler = 2,
                               .local_step_scaler = 3, .local_step_clipper = 4, .sync_every = 1};
    assert_string_equal(letters_of(&zero_one, 19, text), "vvsvsvsvsssyayayaay");
    static const int64_t windows[][3] = {{2, 2, 3},    {11, 11, 12}, {12, 12, 14},
                                         {13, 12, 14}, {17, 16, 19}, {18, 16, 19}};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        int64_t begin, end;
        tri__step_window(&zero_one, windows[i][0], &begin, &end);
        assert_int_equal(begin, windows[i][1]);
        assert_int_equal(end, windows[i][2]);
    }
    zero_one.met = 17; /* where a shorter run ended */
    int64_t begin, end;
    tri__step_window(&zero_one, 18, &begin, &end);
    assert_int_equal(begin, 17);
    zero_one.local_step_clipper = 1;
    assert_string_equal(letters_of(&zero_one, 19, text), "vvsvsvsvsssssssssss");
    zero_one.var_freeze_step = 0;
    tri__step_kinds_resolve(&zero_one, 14); /* not half of the run: the warm-up is longer */
    assert_int_equal(zero_one.var_freeze_step, 14);
}

/* Counts in closed form are those of a walk over the steps; shares are theirs. */
TEST(kinds_are_counted) {
    const tri_optimizing cases[] = {
        {.kind = TRI_ONEBIT_LAMB, .steps = 300, .full_steps = 60, .sync_every = 1},
        {.kind = TRI_ZERO_ONE_ADAM, .steps = 300, .var_freeze_step = 131, .var_update_scaler = 5,
         .local_step_scaler = 17, .local_step_clipper = 16, .sync_every = 1},
        {.kind = TRI_ZERO_ONE_ADAM, .steps = 300, .var_freeze_step = 299, .var_update_scaler = 1,
         .local_step_scaler = 1, .local_step_clipper = 64, .sync_every = 1},
        {.kind = TRI_SGD, .steps = 300, .sync_every = 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tri_optimizing *how = &cases[i];
        int64_t count[TRI_GATE_COUNT] = {0};
        double sum = 0;
        tri_program program = {0};
        tri__step_kinds_set(how, &program);
        for (int64_t step = 0; step < how->steps; step++) {
            uint32_t gate = tri__step_gate(how, step), seen = 0;
            for (int k = 0; k < TRI_GATE_COUNT; k++) {
                assert_int_equal(tri__steps_of_kind(how, 1u << k, step), count[k]);
                count[k] += gate >> k & 1, seen += gate >> k & 1;
            }
            assert_int_equal(seen, 1);
        }
        for (int k = 0; k < TRI_GATE_COUNT; k++) {
            assert_true(count[k] == 0 || program.gates >> k & 1);
            assert_true(fabs(program.share[k] - (double)count[k] / (double)how->steps) < 1e-12);
            sum += program.share[k];
        }
        assert_true(fabs(sum - 1) < 1e-12);
    }
}

/* Options that contradict each other about kinds of steps. */
TEST(contradictions_are_refused) {
    static const struct {
        int optimizer;
        const char *args[ARGS], *error;
    } cases[] = {
        {TRI_ONEBIT_ADAM, {"--max-steps", "1250"}, NULL},
        {TRI_ONEBIT_ADAM, {"--max-steps", "10", "--adam-beta2", "0.75"}, NULL},
        {TRI_ONEBIT_ADAM,
         {"--max-steps", "1249"},
         "the run has 1249 steps, and its variance is stable, and can be frozen, after 1 / (1 - 0.999) = 1000 "
         "(--adam-beta2): give a longer run (1250 steps or more), --full-steps N"},
        {TRI_ONEBIT_ADAM, {"--full-steps", "4", "--warmup-steps", "4", "--max-steps", "5"}, NULL},
        {TRI_ONEBIT_LAMB,
         {"--full-steps", "3", "--warmup-steps", "4"},
         "no stable momentum yet. Give --full-steps 4 or more"},
        {TRI_ONEBIT_LAMB,
         {"--full-steps", "10", "--max-steps", "10"},
         "but the run has 10: give a smaller --full-steps"},
        {TRI_ONEBIT_ADAM, {"--warmup-steps", "1001", "--max-steps", "1251"}, "give fewer --warmup-steps"},
        {TRI_ZERO_ONE_ADAM, {"--sync-every", "4"}, "zero-one-adam exchanges momentum in its own steps, --sync-every 4"},
        {TRI_ZERO_ONE_ADAM, {"--var-freeze-step", "3", "--warmup-steps", "4"}, "the variance is not stable yet"},
        {TRI_ZERO_ONE_ADAM,
         {"--var-freeze-step", "9", "--max-steps", "9"},
         "momentum would never travel as signs. Give a smaller --var-update-scaler"},
        {TRI_ADAMW, {"--local-step-clipper", "4"}, "has a meaning with --optimizer zero-one-adam only"},
        {TRI_ONEBIT_ADAM, {"--compress-gradients", "int8"}, "leave out --compress-gradients"},
        {TRI_ADAMW,
         {"--full-steps", "5"},
         "--full-steps: has a meaning with --optimizer onebit-adam or onebit-lamb only"},
        {TRI_ADAMW, {"--outer-lr", "0.5"}, "with --sync-every above 1 only"},
        {TRI_ADAMW, {"--momentum", "0.5"}, "--momentum: has a meaning with --optimizer sgd only"},
        {TRI_SGD, {"--momentum", "0.5", "--nesterov"}, NULL},
        {TRI_SGD, {"--momentum", "0", "--nesterov"}, "--nesterov: has a meaning with --optimizer sgd and a --momentum"},
        {TRI_SGD, {"--adam-eps", "1e-6"}, "--adam-eps: has a meaning with an --optimizer other than sgd only"},
        {TRI_ADAMW, {"--error-feedback"}, "--error-feedback: has a meaning with --compress-gradients only"},
        {TRI_ADAMW, {"--outer-lr", "0.5", "--sync-every", "2", "--compress-gradients", "int8"}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_settings s;
        int n = 0, n_words;
        while (cases[i].args[n]) n++;
        tri__settings_init(&s);
        assert_int_equal(tri__settings_parse(&s, "train", n, cases[i].args, NULL, 0, &n_words),
                         TRI_OK);
        s.optimizer = cases[i].optimizer;
        tri_status status = tri__engine_accept(&s);
        if (status != (cases[i].error ? TRI_USAGE : TRI_OK) || (cases[i].error && !strstr(tri_error(), cases[i].error)))
            fail_msg("case %zu: got %d \"%s\"", i, status, tri_error());
        tri__settings_free(&s);
    }
    tri_settings s;
    tri__settings_init(&s); /* with the steps that epochs and data give */
    s.optimizer = TRI_ONEBIT_ADAM, s.full_steps = 20;
    assert_int_equal(tri__accept_steps(&s, 21), TRI_OK);
    assert_int_equal(tri__accept_steps(&s, 20), TRI_USAGE);
    tri__settings_free(&s);
}

/* ---- Programs written by hand ---- */

/* In full steps the ranks' numbers are summed; in the others each keeps its own, and adds its state. */
static const char text_of[] =
    "program kinds\nmesh pp=1 tp=1 dp=2 rank=%d microbatches=1\nmax T0=4 T1=0 N=0 Q0=0 Q1=0\n"
    "kinds full=0.25 signs=0.75\nbytes state=64 act=128 result=64\n"
    "slot h act f32 [1,4] @0\nslot t act f32 [1,4] @64\nslot st state f32 [1,4] @0\nslot s result f32 [1,4] @0\n"
    "0 input h field=13\n"
    "1 all_reduce_post h id=1 axes=dp gates=full\n"
    "2 accumulate t <- st gates=signs\n"
    "3 accumulate +t <- h gates=signs\n"
    "4 wait h <- _ gates=full\n"
    "5 accumulate st <- h gates=full\n"
    "6 accumulate s <- t gates=signs\n"
    "7 accumulate s <- h gates=full\n";

static const tri_program *parse(tri_arena *arena, int rank, const char *find, const char *put) {
    return program_text_parse(arena, "kinds", tri__arena_print(arena, text_of, rank), find, put);
}

TEST(text_is_printed_and_parsed) {
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 24));
    const tri_program *both[2] = {parse(&arena, 0, NULL, NULL), parse(&arena, 1, NULL, NULL)};
    assert_int_equal(both[0]->gates, TRI_GATE(full) | TRI_GATE(signs));
    assert_int_equal(both[0]->instr[0].gates, 0);
    assert_int_equal(both[0]->instr[1].gates, TRI_GATE(full));
    OK(tri__check(both, 2));
    tri_program *parsed = program_text_again(&arena, both[0], "\nkinds full=0.25 signs=0.75\n");
    parsed->share[TRI_GATE_full] = 0.5; /* kinds are part of a program */
    assert_false(tri__program_equal(both[0], parsed));
    static const char *const bad[][2] = {{"gates=full\n2", "gates=\n2"},
                                         {"gates=full\n2", "gates=later\n2"},
                                         {"kinds full=0.25", "kinds full=2"},
                                         {"kinds full=0.25", "kinds 0.25"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *text = tri__arena_print(&arena, text_of, 0);
        text = program_text_edited(&arena, text, bad[i][0], bad[i][1]);
        assert_int_equal(tri__program_parse(&arena, "bad", text, &parsed), TRI_DATA);
    }
    tri__arena_close(&arena);
}

TEST(breaks_are_named) {
    static const struct {
        const char *find, *put, *words;
    } cases[] = {
        {"6 accumulate s <- t gates=signs", "6 accumulate s <- t",
         "t is read before it is written, in a step of kind full"},
        {"0 input h field=13", "0 input h field=13 gates=full", "read before it is written, in a step of kind signs"},
        {"4 wait h <- _ gates=full", "4 wait h <- _", "no transfer of these slots is in flight"},
        {"4 wait h <- _ gates=full\n", "", "has ended, in a step of kind full"},
        {"gates=signs\n4", "gates=sync\n4", "a kind of step that the program does not have"},
        {"signs=0.75", "signs=0.5", "the shares of its kinds of steps are not 1"},
        {"kinds full=0.25 signs=0.75", "kinds full=0.25 signs=0.7 sync=0.05", "plan different kinds of steps"},
        {"axes=dp gates=full\n2 accumulate t <- st gates=signs\n3 accumulate +t <- h gates=signs\n4 wait h <- _ "
         "gates=full",
         "axes=dp gates=signs\n2 accumulate t <- st gates=signs\n3 wait h <- _ gates=signs\n4 accumulate +t <- h "
         "gates=signs",
         "rank 1 has ended"},
    };
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 24));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tri_program *both[2] = {parse(&arena, 0, NULL, NULL), parse(&arena, 1, cases[i].find, cases[i].put)};
        assert_int_equal(tri__check(both, 2), TRI_INTERNAL);
        if (!strstr(tri_error(), cases[i].words)) fail_msg("case %zu: %s", i, tri_error());
    }
    tri__arena_close(&arena);
}

/* ---- Running them ---- */

static tri_status run_kinds(tri_world *world, void *argument) {
    const tri_program *const *both = argument;
    int rank = tri_world_rank(world), line, slot;
    float hyper[4] = {1, 2, 3, (float)rank};
    tri_time times[8];
    tri_exec *exec;
    tri_feed feed = {.field[TRI_FIELD_hyper] = hyper};
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = &both[rank], .n = 1,
                                            .seed = 1, .world = world}, &exec));
    const float *s = tri__exec_slot(exec, 0, tri__program_find(both[rank], "s")); /* [4] */
    feed.gates.kind = TRI_GATE(full);
    TRI_TRY(tri__exec_run(exec, 0, 0, 8, 1, &feed, times));
    int right = s[0] == 2 && s[2] == 6 && s[3] == 1 && times[3].begin > 0 && times[7].end >= times[7].begin;
    feed.gates.kind = TRI_GATE(signs);
    TRI_TRY(tri__exec_run(exec, 0, 0, 8, 2, &feed, NULL));
    right &= s[0] == 3 && s[2] == 9 && s[3] == (float)(1 + rank);
    hyper[1] = NAN; /* found where it is first read in a step of the kind */
    TRI_TRY(tri__exec_find_bad(exec, 0, 2, &feed, &line, &slot));
    right &= line == 0;
    tri__exec_close(exec);
    return right ? TRI_OK : tri__fail(TRI_DATA, "rank %d: wrong numbers", rank);
}

TEST(only_the_steps_kind_runs) {
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 24));
    const tri_program *both[2] = {parse(&arena, 0, NULL, NULL), parse(&arena, 1, NULL, NULL)};
    OK(tri_ranks_run(&(tri_ranks){.n = 2, .heap_bytes = HEAP}, run_kinds, (void *)both));
    double sent[TRI_COLLECTIVE_COUNT];
    tri__kind_sent(both[0], TRI_GATE(full), sent);
    assert_true(sent[TRI_ALL_REDUCE] == 16);
    tri__kind_sent(both[0], TRI_GATE(signs), sent);
    assert_true(sent[TRI_ALL_REDUCE] == 0);
    tri__program_sent(both[0], sent);
    assert_true(sent[TRI_ALL_REDUCE] == 4);
    tri__arena_close(&arena);
}

/* ---- Lanes, and runs that are captured ---- */

/* Lane 1 waits for an instruction of lane 0 that runs in full steps only, and by that for those before it. */
static const char lanes_text[] =
    "program lanes\nmesh pp=1 tp=1 dp=1 rank=0 microbatches=1\nmax T0=4 T1=0 N=0 Q0=0 Q1=0\n"
    "kinds full=0.5 signs=0.5\nbytes act=192 result=64\n"
    "slot h act f32 [1,4] @0\nslot a act f32 [1,4] @64\nslot b act f32 [1,4] @128\nslot s result f32 [1,4] @0\n"
    "0 input h field=13\n"
    "1 accumulate a <- h\n"
    "2 accumulate +a <- h gates=full\n"
    "3 accumulate s <- a  lane 1  after 2\n";

TEST(lanes_keep_their_order_in_every_kind) {
    static const lane_order orders[] = {{.first = {1, 0, 2, 3}}, {.first = {0, 1, 2, 3}},
                                        {.first = {1, 0, 2, 3}, .captures = 1}};
    tri_arena arena;
    tri_program *p;
    OK(tri__arena_open(&arena, (size_t)1 << 24));
    OK(tri__program_parse(&arena, "lanes", lanes_text, &p));
    OK(tri__check((const tri_program *const[]){p}, 1));
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        float hyper[4] = {0};
        const tri_program *one = p;
        tri_feed feed = {.field[TRI_FIELD_hyper] = hyper};
        tri_exec *exec;
        lanes_now.order = orders[i];
        OK(tri__exec_open(&(tri_exec_spec){.device = &lane_device, .program = &one, .n = 1, .seed = 1}, &exec));
        for (int step = 1; step <= 8; step++) {
            hyper[0] = (float)step;
            feed.gates.kind = step % 2 ? TRI_GATE(full) : TRI_GATE(signs);
            OK(tri__exec_run(exec, 0, 0, p->n_instrs, (uint32_t)step, &feed, NULL));
            OK(tri__exec_finish(exec));
            float got = *(const float *)tri__exec_slot(exec, 0, tri__program_find(p, "s"));
            assert_true(got == (float)(step % 2 ? 2 * step : step));
        }
        assert_true(lanes_now.replays == (orders[i].captures ? 4 : 0)); /* the third and fourth step of each kind */
        tri__exec_close(exec);
    }
    tri__arena_close(&arena);
}

/* ---- Timing them ---- */

/* A text without the lines of instructions of another kind, and without what says that there are kinds. */
static const char *text_of_kind(tri_arena *arena, const char *text, const char *gates) {
    char *out = tri__arena_alloc(arena, strlen(text) + 1), *end = out;
    for (const char *line = text; *line;) {
        int length = (int)strcspn(line, "\n") + 1;
        const char *at = memmem(line, (size_t)length, " gates=", 7);
        int open = !at || strncmp(at + 7, gates, strlen(gates)) == 0, header = strncmp(line, "kinds", 5) == 0;
        if (open && !header) memcpy(end, line, (size_t)length), end += length;
        if (at && open) { /* without the word */
            char *word = end - (line + length - at);
            size_t rest = strlen(" gates=") + strlen(gates);
            memmove(word, word + rest, (size_t)(end - word) - rest);
            end -= rest;
        }
        line += length;
    }
    *end = 0;
    return out;
}

static double time_of(tri_arena *arena, const char *const *texts, int n, tri_timeline *line) {
    const tri_program *programs[2];
    tri_classes ranks;
    tri_hardware hardware = {.name = "clockwork", .f32 = 1e21, .half = 1e21, .attention = 1, .bytes = 16, .copy = 1e18,
                             .launch = 0.5, .ranks_per_node = 2, .near = {0, 1}, .far = {0, 1}, .overlap = 1};
    for (int i = 0; i < n; i++) {
        tri_program *parsed;
        OK(tri__program_parse(arena, "timed", texts[i], &parsed));
        programs[i] = parsed;
    }
    OK(tri__classes_list(&ranks, arena, programs, n));
    OK(tri__timeline(arena, &ranks, &(tri_costs){.hardware = &hardware}, line));
    return line->seconds;
}

/* A kind's time is that of the program without the other kinds' instructions; the mean goes by shares. */
TEST(kinds_are_timed) {
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 24));
    const char *both[2], *full[2], *signs[2];
    tri_timeline line, alone;
    for (int rank = 0; rank < 2; rank++) {
        both[rank] = tri__arena_print(&arena, text_of, rank);
        full[rank] = text_of_kind(&arena, both[rank], "full");
        signs[rank] = text_of_kind(&arena, both[rank], "signs");
    }
    double shown = time_of(&arena, both, 2, &line), a = time_of(&arena, full, 2, &alone),
           b = time_of(&arena, signs, 2, &alone);
    assert_int_equal(line.n_kinds, 2);
    assert_int_equal(alone.n_kinds, 0);
    assert_int_equal(line.drawn, TRI_GATE(signs));
    assert_true(a > b + 10 && line.kind[0].seconds == a && line.kind[1].seconds == b && shown == b);
    assert_true(fabs(line.mean - (0.25 * a + 0.75 * b)) < 1e-12 && alone.mean == b);
    assert_int_equal(line.role[0].program->n_instrs, 4);
    /* lane 1 waits for what runs before the instruction that is left out */
    const char *lanes = lanes_text;
    time_of(&arena, &lanes, 1, &line);
    assert_true(line.kind[0].seconds > line.kind[1].seconds);
    const tri_rank_timeline *rank = &line.role[0];
    int last = rank->program->n_instrs - 1;
    for (int i = 0; i < last; i++) assert_true(rank->begin[last] >= rank->end[i]);
    tri__arena_close(&arena);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
