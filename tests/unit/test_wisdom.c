/* test_wisdom.c - products chosen by timing: the wisdom file, read or refused, and which rank times what when a run
 * opens, on a device that only simulates timing. Needs no GPU. */
#include "comm/start/ranks.h"
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"
#include "tests/lib/tiny.h"
#include "engine/cost/tune.h"

#include <unistd.h>

/* ---- The file ---- */

static tri_wisdom_entry made_entry(int i) {
    tri_wisdom_entry e;
    memset(&e, 0, sizeof e);
    e.shape = (tri_product_shape){.m = 768 + i,
                                  .n = 1 + i,
                                  .k = 3,
                                  .a_transposed = i & 1,
                                  .b_transposed = i >> 1 & 1,
                                  .bias = i >> 2 & 1,
                                  .add = i >> 3 & 1,
                                  .align = 1 << i % 9};
    e.shape.type = i % 3 ? TRI_BF16 : TRI_F32, e.shape.out = i % 2 ? TRI_F16 : TRI_F32;
    for (int w = 0; w < TRI_ALGORITHM_WORDS; w++) e.algorithm[w] = 0x0123456789ABCDEFu * (uint64_t)(i + w);
    e.guess_us = 512.25f, e.best_us = (float)i;
    return e;
}

static tri_wisdom *made_wisdom(int n) {
    tri_wisdom *w = calloc(1, sizeof *w);
    assert_non_null(w);
    strcpy(w->kind, "a box, version 3");
    for (int i = 0; i < n; i++) {
        tri_wisdom_entry e = made_entry(i);
        tri__wisdom_add(w, &e);
    }
    return w;
}

TEST(a_file_says_the_same_again) {
    static const int counts[] = {0, 1, 20, TRI_WISDOM_MAX};
    for (int c = 0; c < 4; c++) {
        tri_wisdom *w = made_wisdom(counts[c]), *again = calloc(1, sizeof *again);
        size_t size;
        assert_int_equal(w->n, counts[c]);
        char *text = tri__wisdom_text(w, &size);
        OK(tri__wisdom_parse(text, size, "file", again));
        assert_memory_equal(w, again, sizeof *w);
        for (int i = 0; i < w->n; i += 7) assert_ptr_equal(tri__wisdom_find(w, &again->entry[i].shape), &w->entry[i]);
        free(text);
        free(again);
        free(w);
    }
}

TEST(the_first_of_a_shape_stays) {
    tri_wisdom *w = made_wisdom(3);
    tri_wisdom_entry e = made_entry(1);
    e.algorithm[0] = 99;
    tri__wisdom_add(w, &e);
    assert_int_equal(w->n, 3);
    assert_true(tri__wisdom_find(w, &e.shape)->algorithm[0] != 99);
    e.shape.add = !e.shape.add;
    assert_null(tri__wisdom_find(w, &e.shape));
    free(w);
}

#define PRODUCT "product 3 4 5 tn bf16 f32 bias set 256 1.500 1.250"
#define WORDS8 \
    " 0000000000000001 0000000000000002 0000000000000003 0000000000000004 0000000000000005 0000000000000006 " \
    "0000000000000007" \
    " 00000000000000ff"
#define HEAD "trident-products 1\nkind a box\n"

/* Bodies without their end, the line that is wrong, and a word of the reason. */
static const struct {
    const char *body;
    int line;
    const char *why;
} refused[] = {
    {"", 1, "not a file"},
    {"trident-products 2\nkind a box\n", 1, "not a file"},
    {"trident-products 1\nsort a box\n", 2, "kind"},
    {HEAD "\n", 3, "neither product"},
    {HEAD "products\n", 3, "neither product"},
    {HEAD PRODUCT "\n", 3, "number of words"},
    {HEAD PRODUCT WORDS8 " 1\n", 3, "number of words"},
    {HEAD PRODUCT WORDS8 "\n" PRODUCT WORDS8 "\n", 4, "listed twice"},
    {HEAD PRODUCT WORDS8 "\n" PRODUCT "\t\n", 4, "plain text"},
    {HEAD "product 0 4 5 tn bf16 f32 bias set 256 1.500 1.250" WORDS8 "\n", 3, "whole numbers"},
    {HEAD "product 3 04 5 tn bf16 f32 bias set 256 1.500 1.250" WORDS8 "\n", 3, "whole numbers"},
    {HEAD "product 3 4 99999999999999999999 tn bf16 f32 bias set 256 1.500 1.250" WORDS8 "\n", 3, "whole numbers"},
    {HEAD "product 3 -4 5 tn bf16 f32 bias set 256 1.500 1.250" WORDS8 "\n", 3, "whole numbers"},
    {HEAD "product 3 4 5 xn bf16 f32 bias set 256 1.500 1.250" WORDS8 "\n", 3, "transposition"},
    {HEAD "product 3 4 5 t bf16 f32 bias set 256 1.500 1.250" WORDS8 "\n", 3, "transposition"},
    {HEAD "product 3 4 5 tn i32 f32 bias set 256 1.500 1.250" WORDS8 "\n", 3, "type"},
    {HEAD "product 3 4 5 tn BF16 f32 bias set 256 1.500 1.250" WORDS8 "\n", 3, "type"},
    {HEAD "product 3 4 5 tn bf16 f32 biased set 256 1.500 1.250" WORDS8 "\n", 3, "bias"},
    {HEAD "product 3 4 5 tn bf16 f32 bias put 256 1.500 1.250" WORDS8 "\n", 3, "set nor add"},
    {HEAD "product 3 4 5 tn bf16 f32 bias set 257 1.500 1.250" WORDS8 "\n", 3, "power of 2"},
    {HEAD "product 3 4 5 tn bf16 f32 bias set 24 1.500 1.250" WORDS8 "\n", 3, "power of 2"},
    {HEAD "product 3 4 5 tn bf16 f32 bias set 256 nan 1.250" WORDS8 "\n", 3, "time"},
    {HEAD "product 3 4 5 tn bf16 f32 bias set 256 1.5 1e9" WORDS8 "\n", 3, "time"},
    {HEAD "product 3 4 5 tn bf16 f32 bias set 256 1.500 1.250" WORDS8 "0\n", 3, "hexadecimal"},
    {HEAD "product 3 4 5 tn bf16 f32 bias set 256 1.500 1.250 000000000000000G" WORDS8 "\n", 3, "number of words"},
};

TEST(bad_files_are_refused_with_the_line) {
    tri_wisdom *w = calloc(1, sizeof *w);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char text[2048], place[32];
        size_t n = strlen(refused[i].body);
        memcpy(text, refused[i].body, n);
        tri__wisdom_end(text, n, text + n);
        snprintf(place, sizeof place, "some/file: line %d:", refused[i].line);
        assert_int_equal(tri__wisdom_parse(text, n + TRI_WISDOM_END - 1, "some/file", w), TRI_DATA);
        if (!strstr(tri_error(), place) || !strstr(tri_error(), refused[i].why))
            fail_msg("case %zu: %s", i, tri_error());
    }
    free(w);
}

/* No byte can be changed, none be left out at the end or added. */
TEST(damage_shows) {
    size_t size;
    tri_wisdom *w = made_wisdom(2), *again = calloc(1, sizeof *again);
    char *text = tri__wisdom_text(w, &size);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(tri__wisdom_parse(text, i, "file", again), TRI_DATA);
        text[i] ^= 1;
        assert_int_equal(tri__wisdom_parse(text, size, "file", again), TRI_DATA);
        text[i] ^= 1;
    }
    assert_int_equal(tri__wisdom_parse(text, size + 1, "file", again), TRI_DATA); /* its 0 */
    free(text);
    free(again);
    free(w);
}

/* ---- Who times what ---- */

typedef struct box {
    int timed, followed;
    uint64_t mark;      /* in what it finds */
    tri_wisdom *known;
} box;
static const char *box_kind_now = "a box, version 3";
static _Thread_local box *opened;

static void box_kernels(tri_kernel_table *table) { tri__device_find("cpu")->kernels(table); }
static tri_status box_open(const tri_core *core, int local, size_t inputs, void **context) {
    (void)core, (void)local, (void)inputs;
    *context = opened = calloc(1, sizeof *opened);
    return TRI_OK;
}
static void box_close(void *context) {
    free(((box *)context)->known);
    free(context);
}
static tri_status box_alloc(void *context, size_t bytes, void **out) {
    (void)context;
    return tri__device_find("cpu")->alloc(NULL, bytes, out);
}
static void box_free(void *context, void *memory, size_t bytes) {
    (void)context;
    tri__device_find("cpu")->free(NULL, memory, bytes);
}
static tri_status box_finish(void *context) { return (void)context, TRI_OK; }
static const char *box_kind(void *context) { return (void)context, box_kind_now; }
static void box_tune(void *context, const tri_call *call, tri_kernel *row, tri_wisdom *wisdom) {
    box *b = context;
    tri_wisdom_entry e;
    memset(&e, 0, sizeof e);
    if (call->op != TRI_OP_linear) return;
    assert_non_null(row);
    const tri_tensor *y = &call->t[TRI_ARG(linear, y)], *x = &call->t[TRI_ARG(linear, x)];
    assert_true(y->rows > 0 && y->data);
    e.shape = (tri_product_shape){.m = y->cols, .n = y->rows, .k = x->cols, .align = 16};
    e.shape.type = e.shape.out = TRI_F32;
    e.algorithm[0] = b->mark;
    e.guess_us = 2, e.best_us = 1;
    if (tri__wisdom_find(wisdom, &e.shape)) return;
    b->timed++;
    tri__wisdom_add(wisdom, &e);
}
static void box_follow(void *context, const tri_wisdom *wisdom) {
    box *b = context;
    b->followed++;
    free(b->known);
    b->known = malloc(sizeof *b->known);
    *b->known = *wisdom;
}

static const tri_async async = {.finish = box_finish}; /* nothing is run */
static const tri_tuner tuner = {.kind = box_kind, .tune = box_tune, .follow = box_follow};
static const tri_device device = {.name = "box",
                                  .granule = 1,
                                  .kernels = box_kernels,
                                  .open = box_open,
                                  .close = box_close,
                                  .alloc = box_alloc,
                                  .free = box_free,
                                  .async = &async,
                                  .tuner = &tuner};

typedef struct said {
    char text[512];
    int warnings;
} said;
static void hear(void *context, tri_log_level level, const char *text) {
    said *s = context;
    s->warnings += level == TRI_LOG_WARN;
    snprintf(s->text, sizeof s->text, "%s", text);
}

/* Opens an engine as a run does, has its products chosen, and leaves what the device then knows in *known. Returns how
 * many it timed. */
static int tuned(tri_world *world, uint64_t mark, tri_status want, tri_wisdom *known, said *words) {
    tiny t;
    tiny_open(&t, "cpu", 1, 3, 0, 1);
    tri_engine engine = {.place = {.world = world, .rank = world ? tri_world_rank(world) : 0}};
    tri_log log = {.say = hear, .context = words};
    OK(tri__exec_open(&(tri_exec_spec){.device = &device, .program = t.program, .n = 2, .seed = 7}, &engine.exec));
    opened->mark = mark;
    tri_status status = tri__engine_tune(&engine, folder, &log);
    if (status != want) fail_msg("status %d: %s", status, tri_error());
    int timed = opened->timed;
    assert_int_equal(opened->followed, want == TRI_OK);
    if (want == TRI_OK) *known = *opened->known;
    tri__exec_close(engine.exec);
    tiny_close(&t);
    return timed;
}

static void wisdom_path(char path[TRI_PATH_MAX]) { OK(tri__path_join(path, folder, TRI_WISDOM_FILE)); }

TEST(a_run_times_once_and_a_later_one_reads) {
    char path[TRI_PATH_MAX], *text;
    size_t size;
    tri_wisdom *first = calloc(1, sizeof *first), *second = calloc(1, sizeof *second);
    said words = {0};
    wisdom_path(path);
    int timed = tuned(NULL, 1, TRI_OK, first, &words);
    assert_true(timed > 3 && first->n == timed && !words.warnings);
    assert_int_equal(tuned(NULL, 2, TRI_OK, second, &words), 0);
    assert_memory_equal(first, second, sizeof *first);
    box_kind_now = "a box, version 4"; /* what another library has found is no use */
    assert_int_equal(tuned(NULL, 3, TRI_OK, second, &words), timed);
    assert_int_equal(words.warnings, 1);
    assert_int_equal(second->entry[0].algorithm[0], 3);
    OK(tri__file_read(path, 1 << 20, &text, &size));
    assert_non_null(strstr(text, "kind a box, version 4\n"));
    text[size / 2] ^= 1;
    OK(tri__file_write(path, text, size));
    tuned(NULL, 4, TRI_DATA, second, &words);
    assert_non_null(strstr(tri_error(), TRI_WISDOM_FILE ": line "));
    box_kind_now = "a box, version 3";
    assert_int_equal(unlink(path), 0);
    free(text);
    free(first);
    free(second);
}

enum { RANKS = 3 };
typedef struct shared_wisdom {
    tri_wisdom known[RANKS];
    int timed[RANKS];
} shared_wisdom;

static tri_status one_rank(tri_world *world, void *context) {
    shared_wisdom *all = context;
    int rank = tri_world_rank(world);
    said words = {0};
    all->timed[rank] = tuned(world, 10 + (uint64_t)rank, TRI_OK, &all->known[rank], &words);
    return TRI_OK;
}

TEST(ranks_use_the_same) {
    char path[TRI_PATH_MAX];
    shared_wisdom *all = calloc(1, sizeof *all);
    wisdom_path(path);
    for (int turn = 0; turn < 2; turn++) {
        tri_ranks how = {.n = RANKS, .heap_bytes = 1 << 20, .progress_timeout = 60};
        OK(tri_ranks_run(&how, one_rank, all));
        for (int r = 0; r < RANKS; r++) {
            assert_memory_equal(&all->known[0], &all->known[r], sizeof *all->known);
            assert_true(turn ? all->timed[r] == 0 : all->timed[r] == all->known[0].n);
        }
        for (int i = 0; i < all->known[0].n; i++)
            assert_int_equal(all->known[0].entry[i].algorithm[0], 10); /* rank 0's */
    }
    assert_int_equal(unlink(path), 0);
    free(all);
}

TEST(devices_without_a_choice_are_left_alone) {
    tiny t;
    tiny_open(&t, "cpu", 1, 0, 0, 1);
    char path[TRI_PATH_MAX];
    tri_log log = {0};
    tri_engine engine = {.exec = tiny_exec(&t, "cpu", 1, 0)};
    OK(tri__engine_tune(&engine, folder, &log));
    wisdom_path(path);
    assert_false(tri__is_file(path));
    tri__exec_close(engine.exec);
    tiny_close(&t);
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
