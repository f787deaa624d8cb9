/* test_layout.c - dtypes, shapes, slices and buckets of distances. */
#include "numbers/distance.h"
#include "layout/dtype.h"
#include "layout/slice.h"

#include "tests/lib/test.h"

TEST(test_dtypes) {
    static const struct {
        tri_dtype dtype;
        const char *name, *file_name;
        size_t bytes;
    } cases[] = {{TRI_F32, "f32", "F32", 4}, {TRI_F64, "f64", "F64", 8}, {TRI_BF16, "bf16", "BF16", 2},
                 {TRI_F16, "f16", "F16", 2}, {TRI_I32, "i32", "I32", 4}, {TRI_I64, "i64", "I64", 8},
                 {TRI_U8, "u8", "U8", 1},   {TRI_I8, "i8", "I8", 1},
                 {TRI_F8_E4M3, "f8", "F8_E4M3", 1}, {TRI_F8_E5M2, "f8e5", "F8_E5M2", 1}};
    assert_int_equal(sizeof cases / sizeof *cases, TRI_DTYPE_COUNT);
    for (size_t i = 0; i < TRI_DTYPE_COUNT; i++) {
        assert_string_equal(tri__dtype_name(cases[i].dtype), cases[i].name);
        assert_string_equal(tri__dtype_file_name(cases[i].dtype), cases[i].file_name);
        assert_int_equal(tri__dtype_bytes(cases[i].dtype), cases[i].bytes);
        assert_int_equal(tri__dtype_find(cases[i].name), cases[i].dtype);
        assert_int_equal(tri__dtype_find(cases[i].file_name), cases[i].dtype);
    }
    static const char *const unknown[] = {"", "f", "F8", "Bf16", "f32 ", "float32", "f322"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) assert_int_equal(tri__dtype_find(unknown[i]), -1);
}

TEST(test_shapes) {
    static const struct {
        tri_shape shape;
        int64_t count;
        const char *text;
    } cases[] = {
        {{.n = 0}, 1, "[]"},
        {{.n = 1, .dim = {7}}, 7, "[7]"},
        {{.n = 2, .dim = {768, 3072}}, 768 * 3072, "[768, 3072]"},
        {{.n = 3, .dim = {5, 0, 9}}, 0, "[5, 0, 9]"},
        {{.n = 2, .dim = {INT64_MAX, 2}}, -1, "[9223372036854775807, 2]"},
        {{.n = 3, .dim = {1ll << 31, 1ll << 31, 2}}, -1, "[2147483648, 2147483648, 2]"},
        {{.n = 1, .dim = {-1}}, -1, "[-1]"},
        {{.n = 8, .dim = {2, 2, 2, 2, 2, 2, 2, 2}}, 256, "[2, 2, 2, 2, 2, 2, 2, 2]"},
    };
    char text[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tri__shape_count(&cases[i].shape), cases[i].count);
        assert_string_equal(tri__shape_text(&cases[i].shape, text), cases[i].text);
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++)
            assert_int_equal(tri__shape_equal(&cases[i].shape, &cases[j].shape), i == j);
    }
    tri_shape long_one = {.n = 8};
    for (int i = 0; i < 8; i++) long_one.dim[i] = INT64_MAX;
    assert_true(strlen(tri__shape_text(&long_one, text)) < sizeof text); /* cut, not overrun */
    tri_shape two = tri__shape_2d(3, 4), one = tri__shape_1d(12);
    assert_true(two.n == 2 && two.dim[0] == 3 && two.dim[1] == 4 && one.n == 1 && one.dim[0] == 12);
    two.dim[2] = 9; /* beyond n: not part of it */
    assert_true(tri__shape_equal(&two, &(tri_shape){.n = 2, .dim = {3, 4}}));
}

TEST(test_slices) {
    tri_shape shape = tri__shape_2d(6, 8);
    tri_slice whole = tri__slice_whole(&shape);
    assert_true(whole.start[0] == 0 && whole.extent[0] == 6 && whole.extent[1] == 8);
    assert_true(whole.begin == 0 && whole.end == 48);
    assert_true(tri__slice_is_whole(&whole, &shape));
    tri_slice columns = whole, rows = whole, shard = whole, later = whole;
    columns.extent[1] = 4, columns.end = 24;
    rows.start[0] = 3, rows.extent[0] = 3, rows.end = 24;
    shard.end = 47;
    later.begin = 1;
    assert_false(tri__slice_is_whole(&columns, &shape));
    assert_false(tri__slice_is_whole(&rows, &shape));
    assert_false(tri__slice_is_whole(&shard, &shape));
    assert_false(tri__slice_is_whole(&later, &shape));
    tri_shape scalar = {.n = 0};
    whole = tri__slice_whole(&scalar);
    assert_int_equal(whole.end, 1);
    assert_true(tri__slice_is_whole(&whole, &scalar));
}

/* Digests (FNV-1a over whole numbers) of transformers 5.22's own buckets for distances -8192 to 8192: MPNetEncoder's
 * relative_position_bucket, and make_log_bucket_position plus half the buckets, clamped to the rows. */
TEST(test_distances) {
    static const struct {
        int32_t (*bucket)(int32_t, int32_t, int32_t);
        int32_t buckets, reach;
        uint64_t digest;
    } cases[] = {{tri__bucket_t5, 32, 128, 0x189dadab400f8a57},   {tri__bucket_t5, 64, 256, 0xcf4127a68321fd97},
                 {tri__bucket_log, 512, 512, 0xc84b0b226975e020}, {tri__bucket_log, 48, 8192, 0x5b0c1fbd4ad45b8c},
                 {tri__bucket_log, 16, 40, 0x2033aa5b95249c68}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t digest = 0xcbf29ce484222325;
        for (int32_t d = -8192; d <= 8192; d++)
            digest = (digest ^ (uint64_t)cases[i].bucket(d, cases[i].buckets, cases[i].reach)) * 0x100000001b3;
        assert_true(digest == cases[i].digest);
    }
    for (int32_t d = -30; d <= 30; d++) /* without a reach, every distance has its own row, up to the last */
        assert_int_equal(tri__bucket_log(d, 40, 0), d < -20 ? 0 : d > 19 ? 39 : d + 20);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
