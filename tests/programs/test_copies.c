/* test_copies.c - tensors of which each copy of the model has its own: rows written by several ranks, read by as many
 * copies, by others, and by none. */
#include "checkpoint/copies.h"

#include "tests/lib/saved.h"
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include <unistd.h>

enum { ROWS = 5, COLS = 7, COUNT = ROWS * COLS, COPIES = 3, BIG = 10000 };

static char run[] = "/tmp/trident-test-??????";

static tri_shape shape_of(void) { return tri__shape_2d(ROWS, COLS); }

static tri_piece piece_of(const char *name, float *data) {
    tri_shape shape = shape_of();
    return (tri_piece){.name = name, .dtype = TRI_F32, .shape = shape, .slice = tri__slice_whole(&shape), .data = data};
}

/* Element e of a copy's error, of no exact sum in fp32. */
static float value_of(int copy, int e) { return (float)(1000 * (1 + copy) + e) * 1e-3f; }

static void fill(float *data, int copy) {
    for (int e = 0; e < COUNT; e++) data[e] = value_of(copy, e);
}

static int make_folder(void **state) {
    (void)state;
    memset(run + strlen(run) - 6, 'X', 6);
    return mkdtemp(run) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", run);
    return system(command);
}

static const char *const names[] = {"error.w", "exp_avg.w"};

/* What rank `rank` of two a copy writes: the copy's first 11 elements, or the others. */
static int pieces_of_rank(int rank, float *data, tri_piece *out) {
    for (int i = 0; i < 2; i++) {
        out[i] = piece_of(names[i], data);
        out[i].slice.begin = rank % 2 ? 11 : 0, out[i].slice.end = rank % 2 ? COUNT : 11;
        out[i].data = data + out[i].slice.begin;
        tri__piece_of_copy(&out[i], rank / 2, COPIES);
    }
    return 2;
}

/* Three copies, each on two ranks; and a plain tensor. */
static void save_all(void) {
    float weight[COUNT] = {0}, data[COUNT];
    tri_piece plain = piece_of("w", weight), pieces[2];
    tri_json *all = NULL, *part;
    char made[TRI_PATH_MAX];
    tri_checkpoint_out out = {.folder = run, .step = 4, .weights = &plain, .n_weights = 1, .optimizer = pieces};
    fill(weight, 8);
    OK(tri__checkpoint_begin(&out, made));
    for (int rank = 0; rank < 2 * COPIES; rank++) {
        fill(data, rank / 2);
        out.n_optimizer = pieces_of_rank(rank, data, pieces);
        out.n_weights = rank == 0;
        OK(tri__checkpoint_write(&out, made, rank, &part));
        if (all) OK(tri__checkpoint_join(all, part));
        if (all) tri__json_decref(part);
        else all = part;
    }
    OK(tri__checkpoint_end(&out, made, all));
    tri__json_decref(all);
}

static tri_checkpoint *open_saved(void) {
    tri_checkpoint *checkpoint;
    save_all();
    OK(tri__checkpoint_open(run, 0, &checkpoint));
    return checkpoint;
}

TEST_IN(keeps_its_own, make_folder, remove_folder) {
    tri_checkpoint *checkpoint = open_saved();
    for (int copy = 0; copy < COPIES; copy++)
        for (int sum = 0; sum < 2; sum++) {
            float want[COUNT], got[COUNT] = {0};
            tri_piece piece = piece_of(names[sum], got);
            tri__piece_of_copy(&piece, copy, COPIES);
            OK(tri__copies_read(checkpoint, &piece, COPIES, sum ? TRI_MERGE_SUM : TRI_MERGE_MEAN));
            fill(want, copy);
            assert_memory_equal(want, got, sizeof want);
        }
    tri__checkpoint_close(checkpoint);
}

/* The sum or mean over the writers, rounded once, on `readers` copies (0: shared). A part of the elements suffices. */
static void reads(const tri_checkpoint *checkpoint, int readers, tri_merging merging) {
    int begin = 3, end = 29;
    float got[COUNT] = {0};
    tri_piece piece = piece_of("error.w", got + begin);
    piece.slice.begin = begin, piece.slice.end = end;
    if (readers) tri__piece_of_copy(&piece, readers - 1, readers);
    OK(tri__copies_read(checkpoint, &piece, readers, merging));
    double divisor = merging == TRI_MERGE_MEAN ? COPIES : readers ? readers : 1;
    for (int e = 0; e < COUNT; e++) {
        double sum = 0;
        for (int copy = 0; copy < COPIES; copy++) sum += (double)value_of(copy, e);
        float want = e < begin || e >= end ? 0 : (float)(sum / divisor);
        assert_memory_equal(&got[e], &want, sizeof want);
    }
}

TEST_IN(others_share_the_sum, make_folder, remove_folder) {
    tri_checkpoint *checkpoint = open_saved();
    for (int readers = 0; readers < 6; readers++) {
        if (readers != COPIES) reads(checkpoint, readers, TRI_MERGE_SUM);
        if (readers != COPIES) reads(checkpoint, readers, TRI_MERGE_MEAN);
    }
    tri__checkpoint_close(checkpoint);
}

/* A tensor of the parameter's shape is one writer's. */
TEST_IN(from_one, make_folder, remove_folder) {
    tri_checkpoint *checkpoint = open_saved();
    float got[COUNT], mean[COUNT];
    tri_piece sum = piece_of("w", got), same = piece_of("w", mean);
    tri__piece_of_copy(&sum, 1, 4);
    tri__piece_of_copy(&same, 1, 4);
    OK(tri__copies_read(checkpoint, &sum, 4, TRI_MERGE_SUM));
    OK(tri__copies_read(checkpoint, &same, 4, TRI_MERGE_MEAN));
    for (int e = 0; e < COUNT; e++) assert_true(got[e] == value_of(8, e) / 4 && mean[e] == value_of(8, e));
    tri__checkpoint_close(checkpoint);
}

TEST_IN(refuses, make_folder, remove_folder) {
    tri_checkpoint *checkpoint = open_saved();
    float got[COUNT];
    tri_piece absent = piece_of("error.v", got), other = piece_of("error.w", got);
    tri__piece_of_copy(&absent, 0, 2);
    assert_int_equal(tri__copies_read(checkpoint, &absent, 2, TRI_MERGE_SUM), TRI_DATA);
    other.shape = tri__shape_2d(COLS, ROWS);
    other.slice = tri__slice_whole(&other.shape);
    tri__piece_of_copy(&other, 0, 2);
    assert_int_equal(tri__copies_read(checkpoint, &other, 2, TRI_MERGE_SUM), TRI_DATA);
    assert_non_null(strstr(tri_error(), "[3, 5, 7]"));
    tri__checkpoint_close(checkpoint);
}

/* Rows of more copies than slices of a box may be, and more elements than are merged at a time. */
TEST_IN(many_copies, make_folder, remove_folder) {
    enum { MANY = 400, LONG = 3 };
    static float all[MANY][LONG], got[BIG], big[2][BIG];
    tri_piece pieces[MANY + 2];
    tri_shape shape = tri__shape_1d(LONG), long_shape = tri__shape_1d(BIG);
    for (int c = 0; c < MANY; c++) {
        for (int e = 0; e < LONG; e++) all[c][e] = (float)(c * e);
        pieces[c] = (tri_piece){.name = "error.b", .dtype = TRI_F32, .shape = shape, .data = all[c]};
        pieces[c].slice = tri__slice_whole(&shape);
        tri__piece_of_copy(&pieces[c], c, MANY);
    }
    for (int c = 0; c < 2; c++) {
        for (int e = 0; e < BIG; e++) big[c][e] = (float)(e + c);
        pieces[MANY + c] = (tri_piece){.name = "error.c", .dtype = TRI_F32, .shape = long_shape, .data = big[c]};
        pieces[MANY + c].slice = tri__slice_whole(&long_shape);
        tri__piece_of_copy(&pieces[MANY + c], c, 2);
    }
    tri_checkpoint *checkpoint;
    OK(save_checkpoint(
        &(tri_checkpoint_out){.folder = run, .step = 5, .optimizer = pieces, .n_optimizer = MANY + 2}));
    OK(tri__checkpoint_open(run, 0, &checkpoint));
    tri_piece sum = {.name = "error.b", .dtype = TRI_F32, .shape = shape, .slice = tri__slice_whole(&shape),
                     .data = got};
    OK(tri__copies_read(checkpoint, &sum, 0, TRI_MERGE_SUM));
    for (int e = 0; e < LONG; e++) assert_true(got[e] == (float)(e * MANY * (MANY - 1) / 2));
    tri_piece mean = {.name = "error.c", .dtype = TRI_F32, .shape = long_shape, .slice = tri__slice_whole(&long_shape),
                      .data = got};
    OK(tri__copies_read(checkpoint, &mean, 0, TRI_MERGE_MEAN));
    for (int e = 0; e < BIG; e++) assert_true(got[e] == (float)e + 0.5f);
    tri__checkpoint_close(checkpoint);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
