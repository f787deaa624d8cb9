/* test_checkpoint.c - saving, opening, resharding, the digest; an interrupted or damaged checkpoint is never taken for
 * a valid one. */
#include "checkpoint/checkpoint.h"

#include "base/file.h"
#include "checkpoint/reshard.h"
#include "checkpoint/safetensors.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/saved.h"
#include "tests/lib/test.h"

enum { N = 3 };

static char run[] = "/tmp/trident-test-??????";

typedef struct model {
    float weight[6], bias[2], scalar[1];
    float exp_avg[6];
    tri_piece weights[N], optimizer[1];
} model;

static tri_piece whole(const char *name, tri_shape shape, void *data) {
    return (tri_piece){.name = name, .dtype = TRI_F32, .shape = shape, .slice = tri__slice_whole(&shape), .data = data};
}

static void make_model(model *m, float base) {
    for (int i = 0; i < 6; i++) m->weight[i] = base + (float)i, m->exp_avg[i] = base - (float)i;
    m->bias[0] = base, m->bias[1] = -base, m->scalar[0] = 2 * base;
    m->weights[0] = whole("primary.dense.weight", tri__shape_2d(2, 3), m->weight);
    m->weights[1] = whole("primary.dense.bias", tri__shape_1d(2), m->bias);
    m->weights[2] = whole("scale", (tri_shape){0}, m->scalar);
    m->optimizer[0] = whole("exp_avg.primary.dense.weight", tri__shape_2d(2, 3), m->exp_avg);
}

static tri_status extras(void *context, const char *folder) {
    char path[TRI_PATH_MAX];
    if (context) return tri__fail(TRI_IO, "no vocabulary today");
    TRI_TRY(tri__path_join(path, folder, "primary"));
    TRI_TRY(tri__folder_make(path));
    TRI_TRY(tri__path_join(path, folder, "primary/vocab.txt"));
    return tri__file_write(path, "[PAD]\n[UNK]\n", 12);
}

static tri_status save(model *m, int64_t step, void *fail) {
    tri_json *config = tri__json_pack("{s:s, s:f}", "label_name", "y", "lr", 2e-5);
    tri_json *preprocessing = tri__json_pack("{s:[f, f]}", "mean", 0.1, 1.0 / 3.0);
    tri_json *state = tri__json_pack("{s:I, s:f}", "samples", (tri_json_int)step * 8, "best", 2.0 / 3.0);
    tri_checkpoint_out out = {.folder = run,
                              .step = step,
                              .weights = m->weights,
                              .n_weights = N,
                              .optimizer = m->optimizer,
                              .n_optimizer = 1,
                              .config = config,
                              .preprocessing = preprocessing,
                              .state = state,
                              .extras = extras,
                              .context = fail};
    tri_status status = save_checkpoint(&out);
    tri__json_decref(config);
    tri__json_decref(preprocessing);
    tri__json_decref(state);
    return status;
}

static int setup(void **state) {
    (void)state;
    memset(run + strlen(run) - 6, 'X', 6);
    return mkdtemp(run) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    if (tri__checkpoint_prune(run, 0, INT64_MAX) != TRI_OK) return -1;
    char best[TRI_PATH_MAX];
    if (tri__path_join(best, run, "best_checkpoint.json") == TRI_OK && tri__is_file(best)) {
        unlink(best);
        if (tri__checkpoint_prune(run, 0, INT64_MAX) != TRI_OK) return -1;
    }
    return tri__folder_remove(run) == TRI_OK ? 0 : -1;
}

static int64_t newest(void) {
    tri_checkpoint *checkpoint;
    if (tri__checkpoint_open(run, 0, &checkpoint) != TRI_OK) return -1;
    int64_t step = tri__checkpoint_step(checkpoint);
    tri__checkpoint_close(checkpoint);
    return step;
}

static int entries(void) {
    int n = 0;
    DIR *dir = opendir(run);
    while (readdir(dir)) n++;
    closedir(dir);
    return n - 2;
}

TEST_IN(round_trip, setup, teardown) {
    model m, back;
    make_model(&m, 1.25f);
    make_model(&back, 0);
    assert_int_equal(save(&m, 7, NULL), TRI_OK);
    tri_checkpoint *checkpoint;
    assert_int_equal(tri__checkpoint_open(run, 1, &checkpoint), TRI_OK);
    assert_int_equal(tri__checkpoint_step(checkpoint), 7);
    assert_int_equal(tri__checkpoint_count(checkpoint), 4);
    for (int i = 0; i < N; i++) assert_int_equal(tri__checkpoint_read(checkpoint, &back.weights[i]), TRI_OK);
    assert_int_equal(tri__checkpoint_read(checkpoint, &back.optimizer[0]), TRI_OK);
    assert_memory_equal(m.weight, back.weight, sizeof m.weight);
    assert_memory_equal(m.bias, back.bias, sizeof m.bias);
    assert_memory_equal(m.scalar, back.scalar, sizeof m.scalar);
    assert_memory_equal(m.exp_avg, back.exp_avg, sizeof m.exp_avg);
    const tri_json *mean = tri__json_get(tri__checkpoint_preprocessing(checkpoint), "mean");
    assert_true(tri__json_real_value(tri__json_at(mean, 1)) == 1.0 / 3.0);
    assert_true(tri__json_real_value(tri__json_get(tri__checkpoint_state(checkpoint), "best")) == 2.0 / 3.0);
    assert_string_equal(tri__json_string_value(tri__json_get(tri__checkpoint_config(checkpoint), "label_name")), "y");
    assert_true(tri__checkpoint_has(checkpoint, "scale"));
    assert_false(tri__checkpoint_has(checkpoint, "secondary.dense.weight"));

    tri_piece wrong = whole("primary.dense.weight", tri__shape_2d(3, 2), back.weight);
    assert_int_equal(tri__checkpoint_read(checkpoint, &wrong), TRI_DATA);
    assert_non_null(strstr(tri_error(), "[2, 3]"));
    wrong = whole("other", tri__shape_1d(2), back.bias);
    assert_int_equal(tri__checkpoint_read(checkpoint, &wrong), TRI_DATA);
    wrong = whole("primary.dense.bias", tri__shape_1d(2), back.bias);
    wrong.dtype = TRI_BF16;
    assert_int_equal(tri__checkpoint_read(checkpoint, &wrong), TRI_DATA);
    tri__checkpoint_close(checkpoint);
    assert_int_equal(entries(), 1);
}

/* Any slice can be read: rows, columns, and a flat range of a block of columns. */
TEST_IN(slices, setup, teardown) {
    model m;
    make_model(&m, 0);
    assert_int_equal(save(&m, 1, NULL), TRI_OK);
    tri_checkpoint *checkpoint;
    assert_int_equal(tri__checkpoint_open(run, 0, &checkpoint), TRI_OK);
    static const struct {
        tri_slice slice;
        int n;
        float value[4];
    } rows[] = {
        {{.start = {1, 0}, .extent = {1, 3}, .begin = 0, .end = 3}, 3, {3, 4, 5}},
        {{.start = {0, 1}, .extent = {2, 2}, .begin = 0, .end = 4}, 4, {1, 2, 4, 5}},
        {{.start = {0, 1}, .extent = {2, 2}, .begin = 1, .end = 3}, 2, {2, 4}},
        {{.start = {0, 2}, .extent = {2, 1}, .begin = 1, .end = 2}, 1, {5}},
        {{.start = {0, 0}, .extent = {2, 3}, .begin = 2, .end = 5}, 3, {2, 3, 4}},
        {{.start = {0, 0}, .extent = {2, 0}, .begin = 0, .end = 0}, 0, {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float out[4] = {-1, -1, -1, -1};
        tri_piece piece = whole("primary.dense.weight", tri__shape_2d(2, 3), out);
        piece.slice = rows[i].slice;
        assert_int_equal(tri__checkpoint_read(checkpoint, &piece), TRI_OK);
        assert_memory_equal(out, rows[i].value, (size_t)rows[i].n * sizeof *out);
    }
    tri__checkpoint_close(checkpoint);
}

/* A tensor saved as two blocks of columns, one of them cut in a flat range, is the same state as the whole. */
TEST_IN(resharded, setup, teardown) {
    model m;
    make_model(&m, 0);
    float left[2] = {0, 3}, right[4] = {1, 2, 4, 5};
    tri_piece pieces[3];
    for (int i = 0; i < 3; i++)
        pieces[i] = whole("primary.dense.weight", tri__shape_2d(2, 3), i == 0 ? left : i == 1 ? right : right + 1);
    pieces[0].slice = (tri_slice){.start = {0, 0}, .extent = {2, 1}, .begin = 0, .end = 2};
    pieces[1].slice = (tri_slice){.start = {0, 1}, .extent = {2, 2}, .begin = 0, .end = 1};
    pieces[2].slice = (tri_slice){.start = {0, 1}, .extent = {2, 2}, .begin = 1, .end = 4};
    tri_checkpoint_out out = {.folder = run, .step = 3, .weights = pieces, .n_weights = 3};
    assert_int_equal(save_checkpoint(&out), TRI_OK);
    tri_checkpoint *checkpoint;
    assert_int_equal(tri__checkpoint_open(run, 0, &checkpoint), TRI_OK);
    float back[6];
    tri_piece piece = whole("primary.dense.weight", tri__shape_2d(2, 3), back);
    assert_int_equal(tri__checkpoint_read(checkpoint, &piece), TRI_OK);
    assert_memory_equal(back, m.weight, sizeof back);
    char a[33], b[33];
    assert_int_equal(tri__checkpoint_digest(checkpoint, a), TRI_OK);
    assert_int_equal(tri__pieces_digest(m.weights, 1, b), TRI_OK);
    assert_string_equal(a, b);
    tri__checkpoint_close(checkpoint);

    /* What a reader would refuse is not committed: the older one stays. */
    out.n_weights = 2; /* a hole */
    assert_int_equal(save_checkpoint(&out), TRI_IO);
    assert_non_null(strstr(tri_error(), "cannot be read back"));
    assert_non_null(strstr(tri_error(), "do not cover it"));

    out.n_weights = 3; /* a hole as large as an overlap */
    pieces[1].slice = (tri_slice){.start = {0, 0}, .extent = {2, 2}, .begin = 0, .end = 1};
    assert_int_equal(save_checkpoint(&out), TRI_IO);
    assert_non_null(strstr(tri_error(), "two of its slices overlap"));
    assert_int_equal(newest(), 3);
    assert_int_equal(entries(), 1);
}

/* A manifest that is whole by its checksum, but whose slice names another tensor of the same shape: both are refused,
 * neither is read. */
TEST_IN(a_slice_of_another_tensor, setup, teardown) {
    model m;
    make_model(&m, 1);
    assert_int_equal(save(&m, 1, NULL), TRI_OK);
    char folder[TRI_PATH_MAX];
    tri_json *manifest;
    assert_int_equal(tri__path_join(folder, run, "checkpoint-1"), TRI_OK);
    assert_int_equal(tri__manifest_load(folder, &manifest), TRI_OK);
    tri_json *rows = tri__json_get(manifest, "tensors");
    tri__json_items(rows, row) {
        tri_json *slice = tri__json_at(tri__json_get(row, "slices"), 0);
        if (strcmp(tri__json_string_value(tri__json_get(row, "name")), "primary.dense.weight") != 0) continue;
        tri__json_set_new(slice, "tensor", tri__json_string("exp_avg.primary.dense.weight"));
        tri__json_set_new(slice, "file", tri__json_string("optimizer-00000.safetensors"));
    }
    assert_int_equal(tri__manifest_save(folder, manifest), TRI_OK);
    tri__json_decref(manifest);
    tri_checkpoint *checkpoint;
    assert_int_equal(tri__checkpoint_open(folder, 0, &checkpoint), TRI_DATA);
    assert_non_null(strstr(tri_error(), "a slice is of another tensor"));
}

/* Counting on from it would overflow. */
TEST_IN(a_step_beyond_all_counting, setup, teardown) {
    model m;
    make_model(&m, 1);
    assert_int_equal(save(&m, 1, NULL), TRI_OK);
    char folder[TRI_PATH_MAX];
    tri_json *manifest;
    tri_checkpoint *checkpoint;
    assert_int_equal(tri__path_join(folder, run, "checkpoint-1"), TRI_OK);
    assert_int_equal(tri__manifest_load(folder, &manifest), TRI_OK);
    assert_int_equal(tri__json_set_new(manifest, "step", tri__json_integer(INT64_MAX)), 0);
    assert_int_equal(tri__manifest_save(folder, manifest), TRI_OK);
    tri__json_decref(manifest);
    assert_int_equal(tri__checkpoint_open(folder, 0, &checkpoint), TRI_DATA);
    assert_non_null(strstr(tri_error(), "names no step"));
}

enum { ROWS = 7, COLS = 11, CUTS = 20 };

/* Cuts `all` [ROWS, COLS] as ranks do: into blocks of rows or of columns, the last smaller or empty, and each into
 * ranges, some empty. Their elements lie in `room` [ROWS, COLS], one piece after the other. Returns how many pieces
 * there are. */
static int cut(const float *all, float *room, tri_piece pieces[static CUTS]) {
    int n = 0, columns = rand() % 2, blocks = 1 + rand() % 5, dim = columns ? COLS : ROWS,
        each = (dim + blocks - 1) / blocks;
    for (int b = 0; b < blocks; b++) {
        int from = b * each < dim ? b * each : dim, to = from + each < dim ? from + each : dim,
            width = columns ? to - from : COLS;
        int64_t count = (int64_t)(to - from) * (columns ? ROWS : COLS), at = 0;
        for (int left = 1 + rand() % 4; left > 0; left--) {
            tri_piece *piece = &pieces[n++];
            *piece = whole("t", tri__shape_2d(ROWS, COLS), room);
            piece->slice = (tri_slice){.start = {columns ? 0 : from, columns ? from : 0},
                                       .extent = {columns ? ROWS : to - from, width},
                                       .begin = at,
                                       .end = left == 1 ? count : at + rand() % (count - at + 1)};
            for (; at < piece->slice.end; at++)
                *room++ = all[(at / width + piece->slice.start[0]) * COLS + at % width + piece->slice.start[1]];
        }
    }
    return n;
}

/* However ranks cut a tensor when they save it, ranks that cut it otherwise get theirs. */
TEST_IN(any_cut_reads_any_other, setup, teardown) {
    float all[ROWS * COLS], out[ROWS * COLS], want[ROWS * COLS], got[ROWS * COLS];
    tri_piece saved[CUTS], read[CUTS];
    for (int i = 0; i < ROWS * COLS; i++) all[i] = (float)i;
    srand(1);
    for (int round = 0; round < 30; round++) {
        tri_checkpoint *checkpoint;
        int n = cut(all, out, saved);
        for (int i = n - 1; i > 0; i--) { /* in any order */
            int other = rand() % (i + 1);
            tri_piece piece = saved[i];
            saved[i] = saved[other], saved[other] = piece;
        }
        tri_checkpoint_out what = {.folder = run, .step = 1, .weights = saved, .n_weights = n};
        assert_int_equal(save_checkpoint(&what), TRI_OK);
        assert_int_equal(tri__checkpoint_open(run, 0, &checkpoint), TRI_OK);
        for (int other = 0; other < 20; other++) {
            n = cut(all, want, read);
            memset(got, 0, sizeof got);
            for (int i = 0; i < n; i++) {
                read[i].data = got + ((float *)read[i].data - want);
                assert_int_equal(tri__checkpoint_read(checkpoint, &read[i]), TRI_OK);
            }
            assert_memory_equal(got, want, sizeof got);
        }
        tri__checkpoint_close(checkpoint);
    }
}

/* As many slices as thousands of replicas write, ranges of one box or rows of their own, in any order, are compared in
 * a moment; slices without order are refused. */
TEST_IN(thousands_of_slices, setup, teardown) {
    enum { SLICES = 20000 };
    static float data[SLICES];
    tri_piece *pieces = calloc(SLICES, sizeof *pieces);
    for (int i = 0; i < SLICES; i++) {
        int64_t at = (int64_t)i * 7919 % SLICES;
        pieces[i] = whole("t", tri__shape_1d(SLICES), &data[at]);
        pieces[i].slice.begin = at, pieces[i].slice.end = at + 1;
    }
    tri_checkpoint_out what = {.folder = run, .step = 1, .weights = pieces, .n_weights = SLICES};
    tri_checkpoint *checkpoint;
    assert_int_equal(save_checkpoint(&what), TRI_OK);
    assert_int_equal(tri__checkpoint_open(run, 0, &checkpoint), TRI_OK);
    tri__checkpoint_close(checkpoint);
    for (int i = 0; i < SLICES; i++)
        pieces[i].slice = (tri_slice){.start = {(int64_t)i * 7919 % SLICES}, .extent = {1}, .end = 1};
    assert_int_equal(save_checkpoint(&what), TRI_OK);
    for (int i = 0; i < SLICES; i++) {
        pieces[i].shape = tri__shape_2d(1, SLICES);
        pieces[i].slice = (tri_slice){.start = {0, i}, .extent = {1, 1}, .end = 1};
    }
    assert_int_equal(save_checkpoint(&what), TRI_IO);
    assert_non_null(strstr(tri_error(), "too many slices"));
    free(pieces);
}

/* A manifest that no reader would accept is not written: the save fails, not a resume weeks later. */
TEST_IN(too_long_a_manifest, setup, teardown) {
    enum { MANY = 100, EACH = 1000 * 1000 };
    char *text = malloc(EACH + 1);
    memset(text, 'x', EACH);
    text[EACH] = 0;
    tri_json *string = tri__json_string(text), *list = tri__json_array(), *out = tri__json_pack("{s:o}", "list", list);
    for (int i = 0; i < MANY; i++) tri__json_append(list, string); /* the same one */
    tri_checkpoint_out what = {.folder = run, .step = 1, .state = out};
    assert_int_equal(save_checkpoint(&what), TRI_RESOURCE);
    assert_non_null(strstr(tri_error(), "too many slices"));
    assert_int_equal(entries(), 0);
    tri__json_decref(out);
    tri__json_decref(string);
    free(text);
}

TEST_IN(digests, setup, teardown) {
    model m;
    char a[33], b[33];
    make_model(&m, 1);
    assert_int_equal(tri__pieces_digest(m.weights, N, a), TRI_OK);
    assert_int_equal(strlen(a), 32);
    tri_piece turned[N] = {m.weights[2], m.weights[0], m.weights[1]};
    assert_int_equal(tri__pieces_digest(turned, N, b), TRI_OK);
    assert_string_equal(a, b);
    turned[1].shape = tri__shape_2d(3, 2);
    turned[1].slice = tri__slice_whole(&turned[1].shape);
    assert_int_equal(tri__pieces_digest(turned, N, b), TRI_OK);
    assert_string_not_equal(a, b);
    m.bias[1] = 1.0000001f;
    assert_int_equal(tri__pieces_digest(m.weights, N, b), TRI_OK);
    assert_string_not_equal(a, b);
    /* Two fp32 zeros named a: a value worked out by another implementation of xxh3-128. */
    float zero[2] = {0, 0};
    tri_piece piece = whole("a", tri__shape_1d(2), zero);
    assert_int_equal(tri__pieces_digest(&piece, 1, a), TRI_OK);
    assert_string_equal(a, "a4a1d0f97739baa44824f0262c57b5a9");
}

TEST_IN(replaced, setup, teardown) {
    model m, back;
    make_model(&m, 1);
    assert_int_equal(save(&m, 5, NULL), TRI_OK);
    make_model(&m, 2);
    assert_int_equal(save(&m, 5, NULL), TRI_OK);
    assert_int_equal(entries(), 1);
    make_model(&back, 0);
    tri_checkpoint *checkpoint;
    assert_int_equal(tri__checkpoint_open(run, 0, &checkpoint), TRI_OK);
    assert_int_equal(tri__checkpoint_read(checkpoint, &back.weights[0]), TRI_OK);
    assert_memory_equal(m.weight, back.weight, sizeof m.weight);
    tri__checkpoint_close(checkpoint);
}

TEST_IN(failed_save, setup, teardown) {
    model m;
    make_model(&m, 1);
    assert_int_equal(save(&m, 5, NULL), TRI_OK);
    assert_int_equal(save(&m, 6, "fail"), TRI_IO);
    assert_non_null(strstr(tri_error(), "no vocabulary today"));
    assert_int_equal(entries(), 1);
    assert_int_equal(newest(), 5);
}

TEST_IN(best_and_prune, setup, teardown) {
    model m;
    make_model(&m, 1);
    char stray[TRI_PATH_MAX];
    tri_checkpoint *checkpoint;
    for (int step = 10; step <= 50; step += 10) assert_int_equal(save(&m, step, NULL), TRI_OK);
    assert_int_equal(tri__checkpoint_mark_best(run, 20), TRI_OK);
    assert_int_equal(tri__path_join(stray, run, "checkpoint-60.tmp.123"), TRI_OK);
    assert_int_equal(tri__folder_make(stray), TRI_OK);
    assert_int_equal(newest(), 50);
    assert_int_equal(tri__checkpoint_prune(run, 2, INT64_MAX), TRI_OK);
    assert_int_equal(entries(), 4); /* 50, 40, the best, and its mark */
    assert_int_equal(tri__checkpoint_open(run, 1, &checkpoint), TRI_OK);
    assert_int_equal(tri__checkpoint_step(checkpoint), 20);
    tri__checkpoint_close(checkpoint);
    assert_int_equal(newest(), 50);
    assert_int_equal(tri__checkpoint_mark_best(run, 999), TRI_OK); /* gone: the newest stands in */
    assert_int_equal(tri__checkpoint_open(run, 1, &checkpoint), TRI_OK);
    assert_int_equal(tri__checkpoint_step(checkpoint), 50);
    tri__checkpoint_close(checkpoint);
    /* One cut short does not count among the newest. */
    assert_int_equal(tri__path_join(stray, run, "checkpoint-50/weights-00000.safetensors"), TRI_OK);
    assert_int_equal(truncate(stray, 10), 0);
    assert_int_equal(tri__checkpoint_prune(run, 1, INT64_MAX), TRI_OK);
    assert_int_equal(newest(), 40);
}

/* Each file cut, changed and removed: the older checkpoint is found, and the newer one says why not. */
TEST_IN(damaged, setup, teardown) {
    static const char *const files[] = {"manifest.json",     "weights-00000.safetensors", "optimizer-00000.safetensors",
                                        "config.json",       "preprocessing.json",        "primary/vocab.txt"};
    model m;
    make_model(&m, 1);
    char folder[TRI_PATH_MAX], path[TRI_PATH_MAX];
    tri_checkpoint *checkpoint;
    assert_int_equal(save(&m, 1, NULL), TRI_OK);
    assert_int_equal(tri__path_join(folder, run, "checkpoint-2"), TRI_OK);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        assert_int_equal(save(&m, 2, NULL), TRI_OK);
        assert_int_equal(newest(), 2);
        assert_int_equal(tri__path_join(path, folder, files[f]), TRI_OK);
        char *text;
        size_t size;
        assert_int_equal(tri__file_read(path, 1 << 20, &text, &size), TRI_OK);
        size_t cuts[] = {0, 1, size / 2, size - 1};
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(tri__file_write(path, text, cuts[i]), TRI_OK);
            assert_int_equal(tri__checkpoint_open(folder, 0, &checkpoint), TRI_DATA);
            assert_int_equal(newest(), 1);
        }
        for (size_t at = 0; at < size; at += 1 + size / 16) {
            text[at] ^= 1;
            assert_int_equal(tri__file_write(path, text, size), TRI_OK);
            text[at] ^= 1;
            if (tri__checkpoint_open(folder, 0, &checkpoint) != TRI_DATA)
                fail_msg("%s: byte %zu may change", files[f], at);
        }
        unlink(path);
        assert_int_equal(newest(), 1);
        free(text);
    }
    unlink(path);
    assert_int_equal(tri__path_join(path, run, "checkpoint-1/weights-00000.safetensors"), TRI_OK);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(tri__checkpoint_open(run, 0, &checkpoint), TRI_DATA);
    assert_non_null(strstr(tri_error(), "none of its 2 checkpoints is valid"));
    assert_non_null(strstr(tri_error(), "checkpoint-2"));
}

/* Files that the manifest lists, replaced by links to the same bytes outside of the checkpoint, and a folder
 * likewise. */
TEST_IN(links, setup, teardown) {
    static const char *const names[] = {"weights-00000.safetensors", "config.json", "primary/vocab.txt", "primary"};
    model m;
    make_model(&m, 1);
    char folder[TRI_PATH_MAX], path[TRI_PATH_MAX], away[TRI_PATH_MAX];
    tri_checkpoint *checkpoint;
    assert_int_equal(save(&m, 2, NULL), TRI_OK);
    assert_int_equal(tri__path_join(folder, run, "checkpoint-2"), TRI_OK);
    assert_int_equal(tri__path_join(away, run, "away"), TRI_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(tri__path_join(path, folder, names[i]), TRI_OK);
        assert_int_equal(rename(path, away), 0);
        assert_int_equal(symlink(away, path), 0);
        assert_int_equal(tri__checkpoint_open(folder, 0, &checkpoint), TRI_DATA);
        if (!strstr(tri_error(), "symbolic link") || !strstr(tri_error(), names[i]))
            fail_msg("%s: \"%s\"", names[i], tri_error());
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rename(away, path), 0);
        assert_int_equal(newest(), 2);
    }
}

TEST_IN(nothing_there, setup, teardown) {
    tri_checkpoint *checkpoint;
    assert_int_equal(tri__checkpoint_open(run, 0, &checkpoint), TRI_NOINPUT);
    assert_int_equal(tri__checkpoint_open("/nowhere/at/all", 0, &checkpoint), TRI_NOINPUT);
}

/* A process saves steps 1, 2, 3, ..., each of them twice, and prunes; some time after its first commit it is killed.
 * There is always a checkpoint, and it is whole: its tensors are those of its step. */
TEST_IN(killed, setup, teardown) {
    for (int round = 0; round < 24; round++) {
        model m;
        int pipes[2], status;
        char byte = 0;
        assert_int_equal(pipe(pipes), 0);
        pid_t child = fork();
        if (child == 0) {
            for (int step = 1;; step++) {
                make_model(&m, (float)step);
                if (save(&m, step, NULL) != TRI_OK || write(pipes[1], &byte, 1) != 1 ||
                    save(&m, step, NULL) != TRI_OK || tri__checkpoint_prune(run, 2, INT64_MAX) != TRI_OK)
                    _exit(1);
            }
        }
        assert_int_equal(read(pipes[0], &byte, 1), 1);
        usleep((useconds_t)(700 * round));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        close(pipes[0]);
        close(pipes[1]);
        assert_true(WIFSIGNALED(status));
        tri_checkpoint *checkpoint;
        assert_int_equal(tri__checkpoint_open(run, 0, &checkpoint), TRI_OK);
        float back[6];
        tri_piece piece = whole("primary.dense.weight", tri__shape_2d(2, 3), back);
        assert_int_equal(tri__checkpoint_read(checkpoint, &piece), TRI_OK);
        assert_true(back[0] == (float)tri__checkpoint_step(checkpoint));
        tri__checkpoint_close(checkpoint);
        assert_int_equal(tri__checkpoint_prune(run, 0, INT64_MAX), TRI_OK);
        assert_int_equal(entries(), 0);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
