/* test_program_text.c - programs as text. Printing and parsing gives the same program, for every mesh of up to 16
 * ranks, also between any two passes; invalid texts are refused with their line.
 * timeout: 240 */
#include "tests/lib/soak.h"
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "plan/pass.h"
#include "program/text.h"

enum { WORLD = 16, OFFLOAD_BYTES = 1 << 12 };

/* A job of tests. What is not in it follows from `number`: it differs from job to job. */
typedef struct job {
    tri_mesh mesh;
    tri_schedule_kind schedule;
    tri_shard_kind kind;
    int number;
} job;

static int choice(const job *j, int prime, int n) { return j->number / prime % n; }

/* Layers enough for every rank to hold a stage or two, and heads that ranks of a layer can share out. */
static void open_job(tiny *t, const job *j) {
    static const unsigned offloads[] = {0, 1u << TRI_MEM_STATE, 0, 1u << TRI_MEM_STATE | 1u << TRI_MEM_GRAD, 0,
                                        1u << TRI_MEM_PARAM};
    static char *no_decay[] = {"bias", "LayerNorm.weight", "norm.weight"};
    int pp = j->mesh.pp, layers = pp > 3 ? pp - 2 : 1;
    tiny_open(t, "cpu", 2, 3, 0.1, 2);
    for (int b = 0; b < 2; b++) {
        t->encoder[b].num_hidden_layers = layers;
        t->encoder[b].num_attention_heads = j->mesh.tp, t->encoder[b].hidden_size = 4 * j->mesh.tp;
        t->encoder[b].intermediate_size = 2 * j->mesh.tp;
    }
    t->config.windows = choice(j, 5, 3) ? 1 : 3;
    for (int b = 0; b < 2 && t->config.windows > 1; b++) t->in.max.of[TRI_SYM_W0 + b] = 3 * t->in.max.of[TRI_SYM_N];
    t->in.max_infer = t->in.max;
    tri__model_make(&t->arena, &t->config, t->encoder, (tri_columns){.n = 3}, (tri_texts){no_decay, 3}, &t->model);
    t->in.mesh = j->mesh;
    t->in.n_mb = t->in.n_mb_infer = pp < 4 ? 2 : 3;
    t->in.staging = (tri_staging){.schedule = j->schedule};
    t->in.sharding = (tri_sharding){.kind = j->kind,
                                    .size = j->mesh.dp % 2 ? j->mesh.dp : 2,
                                    .prefetch = 1,
                                    .wrap = choice(j, 2, 3) ? TRI_WRAP_LAYER : TRI_WRAP_SIZE,
                                    .wrap_min_params = 3000};
    t->in.sequence_parallel = j->mesh.tp > 1 && choice(j, 1, 3);
    t->in.precision = (tri_dtype[]){TRI_F32, TRI_BF16, TRI_F16}[choice(j, 3, 3)];
    t->in.reduce_dtype = choice(j, 1, 2) ? TRI_F32 : t->in.precision;
    t->in.recompute = (tri_recompute)choice(j, 1, 3);
    t->in.fed = choice(j, 2, 2);
    t->in.offload = offloads[choice(j, 1, 6)];
    t->target.ahead = t->in.offload ? OFFLOAD_BYTES : 0;
    t->target.lanes = choice(j, 1, 4) ? 1 : TRI_LANES;
    if (choice(j, 1, 5) == 0) OK(tri__mesh_set_order(&t->in.mesh, "dp,pp,tp", 1));
}

static void fail_job(const job *j, const char *pass, const char *what) {
    fail_msg("job %d: pp %d tp %d dp %d, schedule %s, sharding %d, after %s: %s", j->number, j->mesh.pp, j->mesh.tp,
             j->mesh.dp, tri__schedule_row(j->schedule)->name, j->kind, pass, what);
}

/* What is read is what was printed; `printed`: and it is printed again. */
static void same_again(tri_arena *arena, const job *j, const char *pass, const tri_program *program, int printed) {
    char *first, *second = NULL;
    tri_program *parsed;
    size_t used = arena->used;
    OK(tri__program_text(program, &first));
    if (tri__program_parse(arena, "program", first, &parsed) != TRI_OK) fail_job(j, pass, tri_error());
    if (printed) OK(tri__program_text(parsed, &second));
    if (printed && strcmp(first, second) != 0) fail_job(j, pass, "it prints as another text");
    if (!tri__program_equal(parsed, program)) fail_job(j, pass, "the same text, but not the same program");
    free(first), free(second);
    tri__arena_rewind(arena, used);
}

/* One program of each class of ranks. */
static int classes_again(const job *j) {
    tiny t;
    tri_classes all[TRI_PROGRAMS];
    int n = 0;
    open_job(&t, j);
    tri_status status = tri__plan_ranks(&t.arena, &t.in, 1, all);
    if (status == TRI_OK) {
        for (int kind = TRI_TRAIN; kind < TRI_PROGRAMS; kind++)
            for (int i = 0; i < all[kind].n && (kind == TRI_TRAIN || j->number % 4 == 0); i++, n++)
                same_again(&t.arena, j, "all passes", all[kind].at[i].program, i == 0);
    } else if (status != TRI_USAGE) { /* what cannot be asked for has no program */
        fail_job(j, "no pass", tri_error());
    }
    tiny_close(&t);
    return n;
}

/* All meshes; where there is a pipeline every schedule, where there are replicas every kind of sharding: each of one
 * with one of the other. A sample: half of them, others of each mesh. */
TEST(every_mesh) {
    int meshes = 0, programs = 0, refused = 0, number = 0, step = soak_count("SOAK_STEPS", 0) ? 1 : 2;
    for (int pp = 1; pp <= WORLD; pp++)
        for (int tp = 1; pp * tp <= WORLD; tp++)
            for (int dp = 1; pp * tp * dp <= WORLD; dp++, meshes++) {
                int schedules = pp > 1 ? TRI_SCHEDULE_COUNT : 1, kinds = dp > 1 ? TRI_SHARD_HYBRID + 1 : 1;
                int both = schedules > kinds ? schedules : kinds;
                for (int i = both > 1 ? meshes % step : 0; i < both; i += step) {
                    int n = classes_again(&(job){.mesh = {.pp = pp, .tp = tp, .dp = dp},
                                                 .schedule = (tri_schedule_kind)(i % schedules),
                                                 .kind = (tri_shard_kind)((i + meshes) % kinds),
                                                 .number = number++});
                    programs += n, refused += !n;
                }
            }
    print_message("%d meshes, %d programs, %d of %d layouts refused\n", meshes, programs, refused, number);
    assert_true(meshes == 110 && refused == 0);
}

/* Templates, and programs whose slots have no offsets yet. */
TEST(between_passes) {
    static const job jobs[] = {{.mesh = {.pp = 1, .tp = 1, .dp = 1}, .number = 0},
                               {.mesh = {.pp = 2, .tp = 2, .dp = 2}, .kind = TRI_SHARD_ZERO3, .number = 3},
                               {.mesh = {.pp = 1, .tp = 2, .dp = 2}, .kind = TRI_SHARD_ZERO1, .number = 11}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        tiny t;
        open_job(&t, &jobs[i]);
        int placed = 0; /* from the memory pass on */
        for (const tri_pass_row *row = tri__passes; row->name; row++) {
            tri_program *program;
            int ran;
            OK(tri__plan_until(&t.arena, &t.in, TRI_PART_TRAIN, row, &ran, &program));
            assert_true(program->n_instrs > 0);
            same_again(&t.arena, &jobs[i], row->name, program, 1);
            placed |= row->run == tri__pass_memory;
            for (int s = 0; s < program->n_slots; s++)
                if (program->slot[s].parent < 0) assert_true((program->slot[s].offset >= 0) == placed);
            if (placed) continue;
            assert_int_not_equal(tri__check((const tri_program *const[]){program}, 1), TRI_OK);
            assert_non_null(strstr(tri_error(), "no offset"));
        }
        tiny_close(&t);
    }
}

#define HEAD                                                       \
    "program two\nmesh pp=1 tp=1 dp=1 rank=0 microbatches=1\n"     \
    "max T0=4 T1=0 N=1 Q0=16 Q1=0\nbytes act=128\nunit u\n"        \
    "slot a act f32 [4,4] @0 u\nslot b act f32 [4,4] @64 u\n"

/* Each is refused, with what is wrong and its line. */
TEST(texts_that_are_not_programs) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "x: has no program"},
        {"# only words\n\n", "x: has no program"},
        {"slot a act f32 [4,4] @0\n", "x:1: not a printed program"},
        {"\x7f" "ELF\x02\x01\x01\n", "x:1: not a printed program"},
        {HEAD "program three\n", "x:8: a second program"},
        {HEAD "slot a act f32 [4,4] @0\n", "x:8: slot a already exists, at line 6"},
        {HEAD "unit u\n", "x:8: a unit that already exists"},
        {HEAD "slot c act f32 [4,4] @-1\n", "x:8: not a whole number"},
        {HEAD "slot c act f32\n", "x:8: expected: slot name"},
        {HEAD "slot c heap f32 [4,4]\n", "x:8: unknown memory class: \"heap\""},
        {HEAD "slot c act f31 [4,4]\n", "x:8: unknown element type"},
        {HEAD "slot c act f32 [4,4] @0 v\n", "x:8: unknown unit"},
        {HEAD "slot @c act f32 [4,4] @0\n", "x:8: not a name"},
        {HEAD "slot c act f32 [999999999,999999999999] @0\n", "x:8: expected [rows,cols] of a size"},
        {HEAD "view c of d +0 [1,4]\n", "x:8: unknown slot: \"d\""},
        {HEAD "0 linear a <- b\n", "x:8: operand is missing"},
        {HEAD "0 lineer a <- b\n", "x:8: unknown operation: \"lineer\""},
        {HEAD "\n# words\n0 cast a <- c\n", "x:10: unknown slot: \"c\""},
        {HEAD "0 cast a <- b id=-1\n", "x:8: not a whole number"},
        {HEAD "0 cast a <- b axes=pp+xp\n", "x:8: not an axis of the mesh"},
        {HEAD "0 cast a <- b  mb\n", "x:8: expected a number after"},
        {"program p\nmesh pp=1 tp=1\n", "x:2: expected a value named: \"dp\""},
        {"program p\nmesh pp=1 tp=1 dp=1 rank=0 microbatches=1 order=pp,pp,dp\n", "x:2: not an order of the axes"},
        {"program p\nmax T0=1 T1=1 N=1 Q0=-1 Q1=0\n", "x:2: not a sum of squares"},
        {"program p\nmax T0=1 T1=1 N=1 Q0=nan Q1=0\n", "x:2: not a number"},
        {"program p\nbytes act=999999999999999999999\n", "x:2: not a whole number"},
        {"program p\n\x1b[31mred\n", "x:2: unknown line: \"?[31mred\""},
    };
    tri_arena arena;
    OK(tri__arena_open(&arena, (size_t)1 << 20));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_program *parsed;
        if (tri__program_parse(&arena, "x", cases[i].text, &parsed) != TRI_DATA)
            fail_msg("case %zu is not refused", i);
        if (!strstr(tri_error(), cases[i].error)) fail_msg("\"%s\" does not say \"%s\"", tri_error(), cases[i].error);
    }
    tri__arena_close(&arena);
}

/* What an editor may do to a text does not change it; lines are those of the text. */
TEST(edited_texts) {
    static const char text[] =
        "# both ranks\n" HEAD "7 cast b <- a\n"
        "program  three \t\r\n\r\nmesh pp=1\ttp=1 dp=2 rank=1 microbatches=1 order=dp,tp,pp\r\n"
        "slot c act f32 [1,4]\r\nview c.d of c +2 [1,2]\r\n\r\n0 cast c <- c  \r\n3 cast c <- c\n";
    tri_arena arena;
    tri_parsed *parsed;
    int n;
    OK(tri__arena_open(&arena, (size_t)1 << 20));
    OK(tri__programs_parse(&arena, "x", text, &parsed, &n));
    assert_int_equal(n, 2);
    assert_int_equal(parsed[0].line, 2);
    assert_int_equal(parsed[0].slot_line[1], 8);
    assert_int_equal(parsed[0].instr_line[0], 9);
    assert_int_equal(parsed[1].line, 10);
    assert_string_equal(parsed[1].program->title, "three");
    assert_int_equal(parsed[1].program->mesh.order[0], TRI_AXIS_DP);
    assert_int_equal(parsed[1].slot_line[1], 14);
    assert_int_equal(parsed[1].instr_line[0], 16);
    assert_int_equal(parsed[1].instr_line[1], 17);
    assert_int_equal(parsed[1].program->slot[0].offset, -1);
    tri__arena_close(&arena);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
