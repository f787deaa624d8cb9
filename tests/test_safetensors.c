/* test_safetensors.c - the format: bytes equal to the reference writer's, and every malformed header refused. */
#include "checkpoint/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char golden[] = "tests/golden/reference.safetensors"; /* tools/golden_safetensors.py */

static char folder[] = "/tmp/trident-test-??????";
static char path[128];

static int setup(void **state) {
    (void)state;
    memset(folder + strlen(folder) - 6, 'X', 6);
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/t.safetensors", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return tri__folder_remove(folder) == TRI_OK ? 0 : -1;
}

static tri_piece whole(const char *name, tri_dtype dtype, tri_shape shape, void *data) {
    return (tri_piece){.name = name, .dtype = dtype, .shape = shape, .slice = tri__slice_whole(&shape), .data = data};
}

static void assert_same_files(const char *a, const char *b) {
    tri_map x, y;
    assert_int_equal(tri__file_map(a, &x), TRI_OK);
    assert_int_equal(tri__file_map(b, &y), TRI_OK);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    tri__file_unmap(&x);
    tri__file_unmap(&y);
}

static void contract_bytes(void **state) {
    (void)state;
    float a[2] = {1, 2};
    tri_piece piece = whole("a", TRI_F32, tri__shape_1d(2), a);
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    unlink(path);
    assert_int_equal(tri__st_write(path, &piece, 1, metadata, NULL), TRI_OK);
    json_decref(metadata);
    tri_map map;
    assert_int_equal(tri__file_map(path, &map), TRI_OK);
    assert_int_equal(map.size, 104);
    assert_memory_equal(map.data, "\x58\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",", 56);
    assert_memory_equal(map.data + 96, a, 8);
    tri__file_unmap(&map);
    assert_int_equal(tri__st_write(path, &piece, 1, NULL, NULL), TRI_IO); /* it exists */
}

/* All of the golden file's tensors, read and written again. */
static void reference_bytes(void **state) {
    (void)state;
    tri_st_file file;
    assert_int_equal(tri__st_open(golden, &file), TRI_OK);
    assert_int_equal(file.n, 10);
    assert_string_equal(tri__st_metadata(&file, "format"), "pt");
    assert_null(tri__st_metadata(&file, "nothing"));
    assert_null(tri__st_find(&file, "nothing"));
    assert_null(tri__st_find(&file, "__metadata__"));
    tri_piece piece[10];
    for (int i = 0; i < 10; i++) { /* in another order than the file's */
        const tri_st_entry *entry = &file.entry[(7 * i + 3) % 10];
        piece[i] = whole(entry->name, entry->dtype, entry->shape, (void *)(file.data + entry->begin));
    }
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    unlink(path);
    assert_int_equal(tri__st_write(path, piece, 10, metadata, NULL), TRI_OK);
    json_decref(metadata);
    assert_same_files(path, golden);
    tri__st_close(&file);
}

static void conversions(void **state) {
    (void)state;
    tri_st_file file;
    assert_int_equal(tri__st_open(golden, &file), TRI_OK);
    static const struct {
        const char *name;
        int n;
        float value[6];
    } rows[] = {
        {"b.weight", 6, {0, 1, 2, 3, 4, 5}},
        {"scalar", 1, {42}},
        {"half", 5, {1, -2, 65504, 0x1p-24f, __builtin_inff()}},
        {"brain", 3, {1, -2, 3.140625f}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float out[6];
        const tri_st_entry *entry = tri__st_find(&file, rows[i].name);
        assert_non_null(entry);
        assert_int_equal(tri__st_read_f32(&file, entry, 0, rows[i].n, out), TRI_OK);
        assert_memory_equal(out, rows[i].value, (size_t)rows[i].n * sizeof *out);
        assert_int_equal(tri__st_read_f32(&file, entry, rows[i].n - 1, 1, out), TRI_OK);
        assert_true(out[0] == rows[i].value[rows[i].n - 1]);
    }
    float out[2];
    assert_int_equal(tri__st_read_f32(&file, tri__st_find(&file, "ids"), 0, 2, out), TRI_DATA);
    assert_non_null(strstr(tri_error(), "I64"));
    tri__st_close(&file);
}

/* Writes a header and `data_bytes` zero bytes; the stated length is the header's plus `lie`. */
static tri_status open_text(const char *header, size_t data_bytes, int64_t lie) {
    FILE *out = fopen(path, "wb");
    uint64_t length = strlen(header) + (uint64_t)lie;
    fwrite(&length, 8, 1, out);
    fputs(header, out);
    for (size_t i = 0; i < data_bytes; i++) fputc(0, out);
    fclose(out);
    tri_st_file file;
    tri_status status = tri__st_open(path, &file);
    if (status == TRI_OK) tri__st_close(&file);
    return status;
}

#define A4 "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
#define TENSOR(dtype, shape, offsets) "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const struct {
    const char *header;
    size_t data;
    const char *word; /* in the message; NULL: it is well-formed */
} headers[] = {
    {"{" A4 "}", 4, NULL},
    {"{" A4 "}   ", 4, NULL},
    {"{}", 0, NULL},
    {"{\"__metadata__\":{}}", 0, NULL},
    {TENSOR("F32", "[]", "[0,4]"), 4, NULL},
    {TENSOR("F32", "[0]", "[0,0]"), 0, NULL},
    {"{" A4 ",\"z\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[4,4]}}", 4, NULL},
    {" {" A4 "}", 4, "begin with '{'"},
    {"[]", 0, "begin with '{'"},
    {"", 0, "begin with '{'"},
    {"{" A4, 4, ".safetensors:1"},
    {"{" A4 "}x", 4, ".safetensors:1"},
    {"{" A4 "," A4 "}", 4, "duplicate"},
    {"{\"\xff\":{}}", 4, ".safetensors:"},
    {"{" A4 "}", 3, "cut short"},
    {"{" A4 "}", 5, "cut short"},
    {"{\"a\":3}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
    {TENSOR("F8_E4M3", "[4]", "[0,4]"), 4, "F8_E4M3"},
    {TENSOR("f32", "[1]", "[0,4]"), 4, "dtype f32"},
    {TENSOR("F32", "[1]", "[4,8]"), 8, "a hole"},
    {TENSOR("F32", "[1]", "[4,0]"), 4, "do not fit"},
    {TENSOR("F32", "[1]", "[0,8]"), 8, "do not fit"},
    {TENSOR("F32", "[2]", "[0,4]"), 4, "do not fit"},
    {TENSOR("F32", "[-1]", "[0,4]"), 4, "no size"},
    {TENSOR("F32", "[1.0]", "[0,4]"), 4, "no size"},
    {TENSOR("F32", "[1]", "[0,4,4]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[-4,0]"), 4, "data_offsets"},
    {TENSOR("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "9 dims"},
    {TENSOR("F32", "[4294967296,4294967296]", "[0,0]"), 0, "overflows"},
    {TENSOR("F32", "[4611686018427387904]", "[0,0]"), 0, "overflows"},
    {TENSOR("F32", "[1]", "[9223372036854775804,9223372036854775807]"), 4, "do not fit"},
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "an overlap"},
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "a hole"},
    {"{\"__metadata__\":{\"step\":1}," A4 "}", 4, "no string"},
    {"{\"__metadata__\":[]," A4 "}", 4, "no object"},
    {"{\"__metadata__\":null," A4 "}", 4, "no object"},
    {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}," A4 "}", 4, "no string"},
    {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}," A4 "}", 4, "duplicate"},
    {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, NULL}, /* a name may be empty */
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":null,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":[]}", 4, "no dtype"},
    {"{\"a\":null}", 4, "no dtype"},
    {TENSOR("", "[1]", "[0,4]"), 4, "dtype"},
    {TENSOR("F32 ", "[1]", "[0,4]"), 4, "dtype"},
    {TENSOR("BOOL", "[4]", "[0,4]"), 4, "BOOL"},
    {TENSOR("F4", "[8]", "[0,4]"), 4, "F4"},
    {TENSOR("F32", "1", "[0,4]"), 4, "no list"},
    {TENSOR("F32", "null", "[0,4]"), 4, "no list"},
    {TENSOR("F32", "[[1]]", "[0,4]"), 4, "no size"},
    {TENSOR("F32", "[null]", "[0,4]"), 4, "no size"},
    {TENSOR("F32", "[true]", "[0,4]"), 4, "no size"},
    {TENSOR("F32", "[\"1\"]", "[0,4]"), 4, "no size"},
    {TENSOR("U8", "[1e3]", "[0,1000]"), 1000, "no size"},
    {TENSOR("F32", "[01]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[0x1]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[9223372036854775808]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[NaN]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[9223372036854775807]", "[0,4]"), 4, "overflows"},
    {TENSOR("F32", "[2305843009213693953]", "[0,4]"), 4, "overflows"}, /* 4 bytes each: 2^63 + 4 */
    {TENSOR("F64", "[4294967296,536870912]", "[0,0]"), 0, "overflows"},
    {TENSOR("U8", "[1099511627776,1099511627776]", "[0,0]"), 0, "overflows"},
    {TENSOR("U8", "[4294967297,4294967295,3]", "[0,3]"), 3, "overflows"},
    {TENSOR("U8", "[1099511627776]", "[0,1099511627776]"), 4, "cut short"},
    {TENSOR("F32", "[1]", "[0]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "{}"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "4"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[0.0,4.0]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[\"0\",\"4\"]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[null,4]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[0,18446744073709551620]"), 4, ".safetensors:1"},
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6, "an overlap"},
    {"{" A4 ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 4, "an overlap"},
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[2,2]}}", 4, "an overlap"}, /* empty, inside another */
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 4, NULL},         /* empty, at its edge */
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[9,9]}}", 4, "a hole"},
    {"{\"a\\u0000\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ".safetensors:1"},
    {"{\"\\ud800\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ".safetensors:1"},
    {"{" A4 ",}", 4, ".safetensors:1"},
    {"{" A4 "}{}", 4, ".safetensors:1"},
    {"\xef\xbb\xbf{" A4 "}", 4, "begin with '{'"},
    {"{'a':1}", 4, ".safetensors:1"},
    {"{", 4, ".safetensors:1"},
};

static void malformed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        tri_status status = open_text(headers[i].header, headers[i].data, 0);
        if (status != (headers[i].word ? TRI_DATA : TRI_OK) || (headers[i].word && !strstr(tri_error(), headers[i].word)))
            fail_msg("row %zu, %s: status %d, \"%s\", expected \"%s\"", i, headers[i].header, status, tri_error(),
                     headers[i].word ? headers[i].word : "");
    }
    assert_int_equal(open_text("{" A4 "}", 4, 5), TRI_DATA);
    assert_non_null(strstr(tri_error(), "cut short"));
    const uint64_t n = sizeof "{" A4 "}" - 1,
                   lengths[] = {UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 8, INT64_MAX, 1ull << 63, 100000001, n + 5};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        assert_int_equal(open_text("{" A4 "}", 4, (int64_t)(lengths[i] - n)), TRI_DATA);
    assert_int_equal(open_text("{" A4 "}", 4, -200), TRI_DATA);
    assert_int_equal(open_text("{" A4 "}", 4, -1), TRI_DATA);
}

static void write_plain(const char *bytes, size_t size) {
    FILE *out = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(out);
}

/* Every prefix of a good file, and every byte changed: an answer, never a crash; a prefix is never accepted. */
static void mutations(void **state) {
    (void)state;
    tri_map map;
    assert_int_equal(tri__file_map(golden, &map), TRI_OK);
    char *bytes = malloc(map.size);
    tri_st_file file;
    for (size_t n = 0; n < map.size; n++) {
        write_plain(map.data, n);
        assert_int_equal(tri__st_open(path, &file), TRI_DATA);
    }
    for (size_t i = 0; i < map.size - 93; i++) { /* the data itself may hold anything */
        memcpy(bytes, map.data, map.size);
        bytes[i] = (char)(bytes[i] + 1 + (int)(i % 7));
        write_plain(bytes, map.size);
        if (tri__st_open(path, &file) == TRI_OK) tri__st_close(&file);
    }
    free(bytes);
    tri__file_unmap(&map);
}

/* A header is read whole, so its strings are bounded. */
static void giant_metadata(void **state) {
    (void)state;
    enum { LONG = (1 << 20) + 1 };
    static const char begin[] = "{\"__metadata__\":{\"a\":\"", end[] = "\"}," A4 "}";
    char *header = malloc(LONG + sizeof begin + sizeof end);
    memcpy(header, begin, sizeof begin - 1);
    memset(header + sizeof begin - 1, 'x', LONG);
    memcpy(header + sizeof begin - 1 + LONG, end, sizeof end);
    assert_int_equal(open_text(header, 4, 0), TRI_DATA);
    assert_non_null(strstr(tri_error(), "a string of more than"));
    memcpy(header + sizeof begin - 1 + LONG - 1, end, sizeof end);
    assert_int_equal(open_text(header, 4, 0), TRI_OK);
    free(header);
}

static void missing(void **state) {
    (void)state;
    tri_st_file file;
    assert_int_equal(tri__st_open("/nowhere/x.safetensors", &file), TRI_NOINPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract_bytes), cmocka_unit_test(reference_bytes), cmocka_unit_test(conversions),
        cmocka_unit_test(malformed),      cmocka_unit_test(mutations),       cmocka_unit_test(missing),
        cmocka_unit_test(giant_metadata),
    };
    return cmocka_run_group_tests_name("safetensors", tests, setup, teardown);
}
