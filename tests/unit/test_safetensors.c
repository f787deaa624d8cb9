/* test_safetensors.c - the format: bytes equal to the reference writer's; every truncated or changed file is handled.
 * tests/unit/test_foreign.c has hostile files. */
#include "checkpoint/safetensors.h"
#include "tests/lib/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char golden[] = "tests/golden/reference.safetensors"; /* tools/golden_safetensors.py */

static char path[128];

static int setup_path(void **state) {
    if (setup(state)) return -1;
    snprintf(path, sizeof path, "%s/t.safetensors", folder);
    return 0;
}

static tri_piece whole(const char *name, tri_dtype dtype, tri_shape shape, void *data) {
    return (tri_piece){.name = name, .dtype = dtype, .shape = shape, .slice = tri__slice_whole(&shape), .data = data};
}

static void assert_same_files(const char *a, const char *b) {
    char *x, *y;
    size_t x_size, y_size;
    assert_int_equal(tri__file_read(a, 1 << 20, &x, &x_size), TRI_OK);
    assert_int_equal(tri__file_read(b, 1 << 20, &y, &y_size), TRI_OK);
    assert_int_equal(x_size, y_size);
    assert_memory_equal(x, y, x_size);
    free(x);
    free(y);
}

static void contract_bytes(void **state) {
    (void)state;
    float a[2] = {1, 2};
    tri_piece piece = whole("a", TRI_F32, tri__shape_1d(2), a);
    tri_json *metadata = tri__json_pack("{s:s}", "format", "pt");
    unlink(path);
    assert_int_equal(tri__st_write(path, &piece, 1, metadata, NULL), TRI_OK);
    tri__json_decref(metadata);
    char *text;
    size_t size;
    assert_int_equal(tri__file_read(path, 1000, &text, &size), TRI_OK);
    assert_int_equal(size, 104);
    assert_memory_equal(text, "\x58\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",", 56);
    assert_memory_equal(text + 96, a, 8);
    free(text);
    assert_int_equal(tri__st_write(path, &piece, 1, NULL, NULL), TRI_IO); /* it exists */
}

/* All of the golden file's tensors, read and written again. */
static void reference_bytes(void **state) {
    (void)state;
    tri_st_file file;
    assert_int_equal(tri__st_open(golden, &file), TRI_OK);
    assert_int_equal(file.n, 10);
    assert_null(tri__st_find(&file, "nothing"));
    assert_null(tri__st_find(&file, "__metadata__"));
    tri_piece piece[10];
    for (int i = 0; i < 10; i++) { /* in another order than the file's */
        const tri_st_entry *entry = &file.entry[(7 * i + 3) % 10];
        void *data = malloc((size_t)(entry->end - entry->begin) + 1);
        assert_int_equal(tri__st_read(&file, entry, 0, tri__shape_count(&entry->shape), data), TRI_OK);
        piece[i] = whole(entry->name, entry->dtype, entry->shape, data);
    }
    tri_json *metadata = tri__json_pack("{s:s}", "format", "pt");
    unlink(path);
    assert_int_equal(tri__st_write(path, piece, 10, metadata, NULL), TRI_OK);
    tri__json_decref(metadata);
    assert_same_files(path, golden);
    for (int i = 0; i < 10; i++) free(piece[i].data);
    tri__st_close(&file);
}

/* Somebody cuts the file short while it is open: an error, where a map would be a SIGBUS. */
static void cut_short_in_use(void **state) {
    (void)state;
    static float values[1 << 16], out[1 << 16];
    tri_piece piece = whole("x", TRI_F32, (tri_shape){.n = 1, .dim = {1 << 16}}, values);
    tri_st_file file;
    unlink(path);
    assert_int_equal(tri__st_write(path, &piece, 1, NULL, NULL), TRI_OK);
    assert_int_equal(tri__st_open(path, &file), TRI_OK);
    assert_int_equal(truncate(path, 4096), 0);
    const tri_st_entry *entry = tri__st_find(&file, "x");
    assert_int_equal(tri__st_read_f32(&file, entry, 0, 16, out), TRI_OK);
    assert_int_equal(tri__st_read_f32(&file, entry, 0, 1 << 16, out), TRI_IO);
    assert_non_null(strstr(tri_error(), "was cut short while it is in use"));
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

static void write_plain(const char *bytes, size_t size) {
    FILE *out = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(out);
}

/* Every prefix of a good file, and every byte changed: an answer, never a crash; a prefix is never accepted. */
static void mutations(void **state) {
    (void)state;
    char *good;
    size_t size;
    assert_int_equal(tri__file_read(golden, 1 << 20, &good, &size), TRI_OK);
    char *bytes = malloc(size);
    tri_st_file file;
    for (size_t n = 0; n < size; n++) {
        write_plain(good, n);
        assert_int_equal(tri__st_open(path, &file), TRI_DATA);
    }
    for (size_t i = 0; i < size - 93; i++) { /* the data itself may hold anything */
        memcpy(bytes, good, size);
        bytes[i] = (char)(bytes[i] + 1 + (int)(i % 7));
        write_plain(bytes, size);
        if (tri__st_open(path, &file) == TRI_OK) tri__st_close(&file);
    }
    free(bytes);
    free(good);
}

static void missing(void **state) {
    (void)state;
    tri_st_file file;
    assert_int_equal(tri__st_open("/nowhere/x.safetensors", &file), TRI_NOINPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract_bytes), cmocka_unit_test(reference_bytes), cmocka_unit_test(cut_short_in_use),
        cmocka_unit_test(conversions),    cmocka_unit_test(mutations),       cmocka_unit_test(missing),
    };
    return cmocka_run_group_tests_name("safetensors", tests, setup_path, teardown);
}
