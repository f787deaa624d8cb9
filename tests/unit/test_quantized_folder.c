/* test_quantized_folder.c - weights of 8 bits in model folders: quantised once, read exactly by any slice, quantised
 * again without change; damage is named. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/quantized_weights.h"
#include "numbers/quantized.h"

#include "base/random.h"

#include <math.h>

#include "tests/lib/test.h"
#include "tests/lib/scratch.h"

enum { O = 13, I = 37, COUNT = O * I, N = 4 };
static const char weight_name[] = "primary.dense.weight", scale_name[] = "primary.dense.weight.scale";

/* Rows of very different sizes; row 4 is 0, row 5 practically 0. */
static void draw(float *w) {
    for (int o = 0; o < O; o++) {
        tri__random_normal(7, 1, 1, o * I, I, w + o * I);
        for (int i = 0; i < I; i++) w[o * I + i] *= ldexpf(1, 3 * o - 26) * (o == 4 ? 0 : o == 5 ? 0x1p-110f : 1);
    }
}

TEST(quantising_again) {
    static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};
    float w[COUNT], back[COUNT], scale[O], scale2[O];
    int8_t q[COUNT], q2[COUNT];
    draw(w);
    for (int t = 0; t < 3; t++) {
        assert_int_equal(tri__quantize_rows("w", w, O, I, types[t], q, scale), TRI_OK);
        for (int k = 0; k < COUNT; k++) {
            float x = tri__rounded(types[t], w[k]);
            back[k] = scale[k / I] * (float)q[k];
            assert_true((double)back[k] == (double)scale[k / I] * q[k]); /* exact in fp32 */
            assert_true(scale[k / I] == 0 || fabs((double)back[k] - (double)x) <= 0.5001 * (double)scale[k / I]);
        }
        assert_true(scale[4] == 0 && q[4 * I] == 0);
        assert_int_equal(tri__quantize_rows("w", back, O, I, TRI_F32, q2, scale2), TRI_OK);
        assert_memory_equal(q, q2, sizeof q);
        assert_memory_equal(scale, scale2, sizeof scale);
    }
    for (int bad = 0; bad < 3; bad++) {
        draw(w);
        w[3 * I + 5] = (const float[]){NAN, INFINITY, -INFINITY}[bad];
        assert_int_equal(tri__quantize_rows("the name", w, O, I, TRI_F32, q, scale), TRI_DATA);
        assert_non_null(strstr(tri_error(), "tensor 'the name': row 3"));
    }
    draw(w);
    w[3 * I + 5] = 70000; /* infinite in fp16 */
    assert_int_equal(tri__quantize_rows("w", w, O, I, TRI_F16, q, scale), TRI_DATA);
}

/* ---- A folder ---- */

typedef struct model {
    int8_t q[COUNT];
    float scale[O], floats[COUNT], bias[O];
    uint16_t half[COUNT];
    tri_piece piece[N + 1]; /* q, scale, half, floats, and further */
    int n;
    tri_json *state;
} model;

static tri_piece whole(const char *name, tri_dtype dtype, tri_shape shape, void *data) {
    return (tri_piece){.name = name, .dtype = dtype, .shape = shape, .slice = tri__slice_whole(&shape), .data = data};
}

static void make_model(model *m) {
    float w[COUNT];
    draw(w);
    draw(m->floats);
    assert_int_equal(tri__quantize_rows("w", w, O, I, TRI_F32, m->q, m->scale), TRI_OK);
    for (int k = 0; k < COUNT; k++) m->half[k] = tri__to_bf16(w[k]);
    m->piece[0] = whole(weight_name, TRI_I8, tri__shape_2d(O, I), m->q);
    m->piece[1] = whole(scale_name, TRI_F32, tri__shape_1d(O), m->scale);
    m->piece[2] = whole("primary.output.weight", TRI_BF16, tri__shape_2d(O, I), m->half);
    m->piece[3] = whole("fusion.dense.weight", TRI_F32, tri__shape_2d(O, I), m->floats);
    m->n = N;
    m->state = tri__json_pack("{s:{s:i}}", "quantized", "version", TRI_QUANTIZED_VERSION);
}

static char out_path[TRI_PATH_MAX];

/* Writes the folder anew. */
static void write_model(const model *m) {
    tri_json *config = tri__json_pack("{s:s}", "label_name", "y");
    assert_int_equal(tri__path_join(out_path, folder, "model"), TRI_OK);
    assert_int_equal(tri__folder_remove_all(out_path), TRI_OK);
    tri_checkpoint_out out = {
        .folder = out_path, .weights = m->piece, .n_weights = m->n, .config = config, .state = m->state};
    tri_status status = tri__checkpoint_export(&out);
    if (status != TRI_OK) fail_msg("%s", tri_error());
    tri__json_decref(config);
}

static void expect_same(const tri_piece *piece, const float *all) {
    const tri_slice *s = &piece->slice;
    for (int64_t e = s->begin; e < s->end; e++) {
        int64_t row = s->start[0] + e / s->extent[1], col = s->start[1] + e % s->extent[1];
        float want = all[row * I + col];
        assert_memory_equal((const float *)piece->data + e - s->begin, &want, sizeof want);
    }
}

/* Every box of tensor parallelism over 1 to 3 ranks, by rows and by columns, and flat ranges of each. */
static void read_slices(const tri_checkpoint *checkpoint, const char *name, const float *all) {
    float data[COUNT + 1];
    for (int dim = 0; dim < 2; dim++)
        for (int tp = 1; tp <= 3; tp++)
            for (int rank = 0; rank < tp; rank++) {
                int64_t extent[2] = {O, I}, start[2] = {0, 0};
                start[dim] = extent[dim] * rank / tp;
                extent[dim] = extent[dim] * (rank + 1) / tp - start[dim];
                for (int64_t begin = 0; begin < extent[0] * extent[1]; begin += 29) {
                    int64_t end = begin + 101 < extent[0] * extent[1] ? begin + 101 : extent[0] * extent[1];
                    tri_piece piece = {.name = name, .shape = tri__shape_2d(O, I), .data = data};
                    piece.slice = (tri_slice){.start = {start[0], start[1]}, .extent = {extent[0], extent[1]},
                                              .begin = begin, .end = end};
                    data[end - begin] = 3;
                    assert_int_equal(tri__checkpoint_read(checkpoint, &piece), TRI_OK);
                    assert_true(data[end - begin] == 3);
                    expect_same(&piece, all);
                }
            }
}

TEST(any_slice) {
    model m;
    float all[COUNT], back[COUNT];
    int8_t q[COUNT];
    tri_checkpoint *checkpoint;
    make_model(&m);
    write_model(&m);
    assert_int_equal(tri__checkpoint_open(out_path, 1, &checkpoint), TRI_OK);
    assert_non_null(tri__checkpoint_quantized(checkpoint));
    for (int k = 0; k < COUNT; k++) all[k] = m.scale[k / I] * (float)m.q[k];
    read_slices(checkpoint, weight_name, all);
    for (int k = 0; k < COUNT; k++) all[k] = tri__from_bf16(m.half[k]);
    read_slices(checkpoint, "primary.output.weight", all);
    read_slices(checkpoint, "fusion.dense.weight", m.floats);
    /* As stored. */
    tri_piece stored = whole(weight_name, TRI_I8, tri__shape_2d(O, I), q);
    assert_int_equal(tri__checkpoint_read(checkpoint, &stored), TRI_OK);
    assert_memory_equal(q, m.q, sizeof q);
    /* Through another type: floats are rounded, integers are not. */
    for (int t = 0; t < 2; t++) {
        tri_dtype type = t ? TRI_F16 : TRI_BF16;
        tri_piece piece = whole("fusion.dense.weight", TRI_F32, tri__shape_2d(O, I), back);
        piece.through = type;
        assert_int_equal(tri__checkpoint_read(checkpoint, &piece), TRI_OK);
        for (int k = 0; k < COUNT; k++) all[k] = tri__rounded(type, m.floats[k]);
        expect_same(&piece, all);
        piece.name = weight_name;
        assert_int_equal(tri__checkpoint_read(checkpoint, &piece), TRI_OK);
        for (int k = 0; k < COUNT; k++) all[k] = m.scale[k / I] * (float)m.q[k];
        expect_same(&piece, all);
    }
    /* Other types than f32 are not converted. */
    tri_piece wrong = whole(weight_name, TRI_BF16, tri__shape_2d(O, I), back);
    assert_int_equal(tri__checkpoint_read(checkpoint, &wrong), TRI_DATA);
    assert_non_null(strstr(tri_error(), "is i8 [13, 37], the model has bf16"));
    tri__checkpoint_close(checkpoint);
    tri__json_decref(m.state);
}

/* The digest is of what is stored: one integer or one scale changes it. */
TEST(digest) {
    char hex[3][33];
    for (int change = 0; change < 3; change++) {
        model m;
        tri_checkpoint *checkpoint;
        make_model(&m);
        if (change == 1) m.q[9 * I + 3] = (int8_t)(m.q[9 * I + 3] > 0 ? m.q[9 * I + 3] - 1 : m.q[9 * I + 3] + 1);
        if (change == 2) m.scale[9] *= 2;
        write_model(&m);
        assert_int_equal(tri__checkpoint_open(out_path, 1, &checkpoint), TRI_OK);
        assert_int_equal(tri__checkpoint_digest(checkpoint, hex[change]), TRI_OK);
        tri__checkpoint_close(checkpoint);
        tri__json_decref(m.state);
    }
    assert_string_not_equal(hex[0], hex[1]);
    assert_string_not_equal(hex[0], hex[2]);
    assert_string_not_equal(hex[1], hex[2]);
}

/* ---- Damage that the hashes do not show: the writer was wrong, or the hashes were made anew ---- */

static void no_scale(model *m) { m->piece[1] = m->piece[3], m->n = 3; }
static void short_scale(model *m) { m->piece[1] = whole(scale_name, TRI_F32, tri__shape_1d(O - 1), m->scale); }
static void double_scale(model *m) { m->piece[1] = whole(scale_name, TRI_I32, tri__shape_1d(O), m->scale); }
static void nan_scale(model *m) { m->scale[6] = NAN; }
static void infinite_scale(model *m) { m->scale[6] = INFINITY; }
static void negative_scale(model *m) { m->scale[6] = -m->scale[6]; }
static void long_scale(model *m) { m->scale[6] = nextafterf(m->scale[6], 1); }
static void large_scale(model *m) { m->scale[6] = 0x1p125f; }
static void small_scale(model *m) { m->scale[6] = 0x1p-120f; }
static void least_integer(model *m) { m->q[6 * I + 2] = -128; }
static void last_integer(model *m) { m->q[COUNT - 1] = -128; }
static void zero_scale(model *m) { m->scale[6] = 0; }
static void no_largest(model *m) {
    for (int i = 0; i < I; i++) m->q[6 * I + i] /= 2;
}
static void one_dim(model *m) { m->piece[0] = whole(weight_name, TRI_I8, tri__shape_1d(COUNT), m->q); }
static void newer(model *m) {
    tri__json_set_new(tri__json_get(m->state, "quantized"), "version", tri__json_integer(2));
}
static void no_state(model *m) { tri__json_del(m->state, "quantized"); }

static const struct {
    void (*change)(model *m);
    const char *text[2];
} damages[] = {
    {no_scale, {"tensor 'primary.dense.weight' is I8", "'primary.dense.weight.scale', are missing"}},
    {short_scale, {"'primary.dense.weight.scale' is F32 [12]", "F32 [13]"}},
    {double_scale, {"'primary.dense.weight.scale' is I32 [13]", "F32 [13]"}},
    {nan_scale, {"'primary.dense.weight.scale': the scale of row 6, nan", "is not finite"}},
    {infinite_scale, {"the scale of row 6, inf", "is not finite"}},
    {negative_scale, {"the scale of row 6", "is negative"}},
    {long_scale, {"the scale of row 6", "more than 16 significant bits"}},
    {large_scale, {"the scale of row 6", "is out of range"}},
    {small_scale, {"the scale of row 6", "is out of range"}},
    {least_integer, {"tensor 'primary.dense.weight': row 6", "-128"}},
    {last_integer, {"tensor 'primary.dense.weight': row 12", "-128"}},
    {zero_scale, {"tensor 'primary.dense.weight': row 6", "has the scale 0"}},
    {no_largest, {"tensor 'primary.dense.weight': row 6", "neither 127 nor -127"}},
    {one_dim, {"tensor 'primary.dense.weight'", "two dims"}},
    {newer, {"version 2", "this build reads version 1"}},
    {no_state, {"tensor 'primary.dense.weight'", "state.quantized is missing"}},
};

static tri_status change_file(const char *name, int64_t at, const char *byte) {
    char path[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(path, out_path, name));
    FILE *file = fopen(path, "r+b");
    if (!file) return tri__fail(TRI_IO, "cannot open %s", path);
    fseek(file, (long)at, SEEK_END);
    fwrite(byte, 1, 1, file);
    fclose(file);
    return TRI_OK;
}

/* What the writer reads back before it commits, and what only a reader of the integers sees. */
TEST(damage) {
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        model m;
        tri_checkpoint *checkpoint = NULL;
        make_model(&m);
        damages[i].change(&m);
        tri_json *config = tri__json_pack("{s:s}", "label_name", "y");
        assert_int_equal(tri__path_join(out_path, folder, "model"), TRI_OK);
        assert_int_equal(tri__folder_remove_all(out_path), TRI_OK);
        tri_checkpoint_out out = {
            .folder = out_path, .weights = m.piece, .n_weights = m.n, .config = config, .state = m.state};
        tri_status status = tri__checkpoint_export(&out);
        if (status == TRI_OK) status = tri__checkpoint_open(out_path, 1, &checkpoint);
        assert_true(status == TRI_DATA || status == TRI_IO); /* IO: what was written cannot be read back */
        for (int k = 0; k < 2; k++)
            if (!strstr(tri_error(), damages[i].text[k])) fail_msg("no \"%s\" in: %s", damages[i].text[k], tri_error());
        assert_null(checkpoint);
        tri__json_decref(config);
        tri__json_decref(m.state);
    }
    model m; /* and what the hashes show */
    tri_checkpoint *checkpoint;
    make_model(&m);
    write_model(&m);
    assert_int_equal(change_file("model.safetensors", -1, "U"), TRI_OK); /* integers are written last */
    assert_int_equal(tri__checkpoint_open(out_path, 1, &checkpoint), TRI_DATA);
    assert_non_null(strstr(tri_error(), "damaged in tensor 'primary.dense.weight'"));
    tri__json_decref(m.state);
    assert_int_equal(tri__folder_remove_all(out_path), TRI_OK);
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
