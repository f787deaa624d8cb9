/* test_table_parquet.c - Parquet files: each of tests/golden/parquet has the fields of the CSV file beside it, for any
 * room and from several threads, and the numbers that those are read as; damage, wherever it is, is TRI_DATA or rows;
 * what is refused says what and where. */
#include "data/table/unpack.h"
#include "data/table/value_text.h"
#include "tests/lib/test.h"
#include "tests/lib/table_numbers.h"
#include "tests/lib/table_text.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>

enum { FILES = 64, BYTES = 1 << 16 };

static const char folder[] = "tests/golden/parquet";

/* Files that need a library which is not here. */
static int left_out(const char *name) {
    return (strstr(name, "gzip") && !tri__codec_known(TRI_CODEC_GZIP)) ||
           (strstr(name, "zstd") && !tri__codec_known(TRI_CODEC_ZSTD)) ||
           (strstr(name, "lz4") && !tri__codec_known(TRI_CODEC_LZ4)) ||
           (strstr(name, "brotli") && !tri__codec_known(TRI_CODEC_BROTLI));
}

/* The names of the golden files, without endings. */
static int golden(char names[FILES][64]) {
    DIR *files = opendir(folder);
    assert_non_null(files);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(files));) {
        char *dot = strstr(entry->d_name, ".parquet");
        if (!dot || left_out(entry->d_name)) continue;
        assert_true(n < FILES);
        snprintf(names[n++], 64, "%.*s", (int)(dot - entry->d_name), entry->d_name);
    }
    closedir(files);
    assert_true(n > 15);
    return n;
}

static size_t read_golden(const char *name, char bytes[BYTES]) {
    char path[256];
    snprintf(path, sizeof path, "%s/%.60s.parquet", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, BYTES, file);
    fclose(file);
    assert_true(size > 0 && size < BYTES);
    return size;
}

static void assert_same(const tri_table *table, const tri_table *want, const char *name) {
    assert_int_equal(tri__table_columns(table), tri__table_columns(want));
    for (int c = 0; c < tri__table_columns(want); c++)
        assert_string_equal(tri__table_name(table, c), tri__table_name(want, c));
    if (tri__table_rows(table) != tri__table_rows(want)) fail_msg("%s: other rows", name);
    for (int64_t row = 0; row < tri__table_rows(want); row++) {
        for (int c = 0; c < tri__table_columns(want); c++) {
            tri_field_text a = tri__table_field(table, row, c), b = tri__table_field(want, row, c);
            if (a.length != b.length || memcmp(a.text, b.text, a.length))
                fail_msg("%s: row %d, column %s: \"%.*s\", not \"%.*s\"", name, (int)row, tri__table_name(want, c),
                         (int)a.length, a.text, (int)b.length, b.text);
        }
        if (row % 3 == 2) tri__table_done(table, row - 2, 3);
    }
    if (tri__table_check(table) != TRI_OK) fail_msg("%s: %s", name, tri_error());
}

TEST(has_the_fields_of_csv) {
    char names[FILES][64], path[256];
    int n = golden(names), compared = 0;
    for (int i = 0; i < n; i++) {
        tri_table *table, *want;
        snprintf(path, sizeof path, "%s/%.60s.csv", folder, names[i]);
        if (!tri__is_file(path)) continue;
        assert_int_equal(tri__table_open(path, &(tri_table_options){.separator = ','}, &want), TRI_OK);
        snprintf(path, sizeof path, "%s/%.60s.parquet", folder, names[i]);
        for (size_t keep = 0; keep < 2; keep++) {
            tri_status status = tri__table_open(path, &(tri_table_options){.keep = keep}, &table);
            if (status != TRI_OK) fail_msg("%s", tri_error());
            assert_same(table, want, names[i]);
            assert_same(table, want, names[i]);
            assert_int_equal(tri__table_separator(table), 0);
            tri__table_close(table);
        }
        tri__table_close(want);
        compared++;
    }
    assert_true(compared > 15);
}

/* Columns that hold numbers are given by them, with and without the text beside it in memory. */
TEST(has_the_numbers_of_its_texts) {
    static const struct {
        const char *name;
        int numbers; /* 1: all columns have some; 0: some do; -1: none does */
    } cases[] = {{"numbers_plain_snappy", 1}, {"numbers_dictionary_zstd_v2", 1}, {"numbers_delta_lz4", 1},
                 {"decimals", 1}, {"decimals_integers", 1}, {"half", 1}, {"required", -1}, {"fallback", -1},
                 {"booleans_v1", -1}, {"times", -1}, {"times_int96", -1}, {"texts_plain", -1},
                 {"table-*", 0}};
    char path[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (left_out(cases[i].name)) continue;
        tri_table *table, *texts;
        snprintf(path, sizeof path, "%s/%s.parquet", folder, cases[i].name);
        for (size_t keep = 0; keep < 2; keep++) {
            assert_int_equal(tri__table_open(path, &(tri_table_options){.keep = keep}, &table), TRI_OK);
            assert_int_equal(tri__table_open(path, NULL, &texts), TRI_OK);
            int64_t numbers = table_numbers_compare(table, texts, cases[i].name);
            assert_int_equal(table_numbers_compare(table, table, cases[i].name), numbers);
            assert_int_equal(numbers > 0, cases[i].numbers >= 0);
            for (int c = 0; c < tri__table_columns(table) && cases[i].numbers > 0; c++)
                if (table_has_numbers(table, c) != 1) fail_msg("%s: %s", path, tri__table_name(table, c));
            assert_int_equal(tri__table_check(table), TRI_OK);
            tri__table_close(table);
            tri__table_close(texts);
        }
    }
}

/* Values are converted as their texts are read, to the bit. */
TEST(converts_values) {
    char out[TRI_VALUE_TEXT + 1];
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        size_t n = tri__half_text((uint16_t)bits, out);
        expect_number(tri__half_number((uint16_t)bits), out, n);
    }
    for (uint32_t i = 0, bits = 1; i < 200000; i++) {
        bits = bits * 1664525u + 1013904223u;
        float value = (float)(int32_t)bits / (float)(1 << i % 30); /* also those of usual sizes */
        if (i % 2) memcpy(&value, &bits, sizeof value);
        size_t n = tri__float_text(value, out);
        expect_number(tri__float_number(value), out, n);
        uint8_t bytes[TRI_DECIMAL_BYTES];
        for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)(bits >> k % 4 * 8) ^ (uint8_t)(k * i);
        size_t size = i % 33;
        for (size_t k = 0; k + i / 33 % 12 < size; k++) bytes[k] = i % 3 ? 0 : 0xFF; /* small in many bytes */
        int scale = (int)(i / 7 % 153) - TRI_DECIMAL_SCALE;
        if (i % 2) scale = (int)(i % 24);
        n = tri__decimal_text(bytes, size, scale, out);
        expect_number(tri__decimal_number(bytes, size, scale), out, n);
    }
    assert_true(tri__float_number(0.1f) == 0.1 && (double)0.1f != 0.1);
}

enum { THREADS = 4 };

typedef struct reading {
    const tri_table *table, *want;
    int own, wrong;
} reading;

/* Reads every fourth row again and again, and ends each, so that chunks come and go. */
static void *read_rows(void *data) {
    reading *r = data;
    int64_t rows = tri__table_rows(r->want);
    for (int i = 0; i < 2000; i++)
        for (int64_t row = r->own; row < rows; row += THREADS) {
            for (int c = 0; c < tri__table_columns(r->want); c++) {
                tri_field_text a = tri__table_field(r->table, row, c), b = tri__table_field(r->want, row, c);
                r->wrong += a.length != b.length || memcmp(a.text, b.text, a.length) != 0;
                r->wrong += !table_number_agrees(r->table, row, c, b);
            }
            tri__table_done(r->table, row, 1);
        }
    return NULL;
}

TEST(serves_threads) {
    tri_table *table, *want;
    char path[256];
    snprintf(path, sizeof path, "%s/numbers_plain_snappy.csv", folder);
    assert_int_equal(tri__table_open(path, &(tri_table_options){.separator = ','}, &want), TRI_OK);
    snprintf(path, sizeof path, "%s/numbers_plain_snappy.parquet", folder);
    assert_int_equal(tri__table_open(path, &(tri_table_options){.keep = 1}, &table), TRI_OK);
    pthread_t thread[THREADS];
    reading part[THREADS];
    for (int t = 0; t < THREADS; t++) {
        part[t] = (reading){table, want, t, 0};
        assert_int_equal(pthread_create(&thread[t], NULL, read_rows, &part[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        assert_int_equal(part[t].wrong, 0);
    }
    assert_int_equal(tri__table_check(table), TRI_OK);
    tri__table_close(table);
    tri__table_close(want);
}

/* Opens and reads all of table_path: TRI_OK, or TRI_DATA with the file's name. */
static tri_status read_all(void) {
    tri_table *table;
    tri_status status = tri__table_open(table_path, NULL, &table);
    size_t bytes = 0;
    if (status == TRI_OK) {
        for (int64_t row = 0; row < tri__table_rows(table) && row < 1000; row++)
            for (int c = 0; c < tri__table_columns(table); c++) {
                double value;
                table_cell cell = table_number(table, row, c, &value);
                bytes += tri__table_field(table, row, c).length + (cell == CELL_NUMBER && value == 1);
            }
        status = tri__table_check(table);
        tri__table_close(table);
    }
    assert_true(bytes < (1 << 24));
    if (status != TRI_OK && (status != TRI_DATA || !strstr(tri_error(), table_path)))
        fail_msg("status %d: %s", status, tri_error());
    return status;
}

TEST(survives_any_damage) {
    static char bytes[BYTES];
    char names[FILES][64];
    int n = golden(names), good = 0, bad = 0;
    for (int i = 0; i < n; i++) {
        size_t size = read_golden(names[i], bytes);
        table_write(bytes, size);
        int file = open(table_path, O_WRONLY); /* changed in place: a file written anew costs a disk's time */
        assert_true(file >= 0);
        for (size_t at = 0; at < size; at++) {
            char other = (char)(bytes[at] ^ (at % 3 == 0 ? 0xFF : at % 3 == 1 ? 0x01 : 0x80));
            assert_int_equal(pwrite(file, &other, 1, (off_t)at), 1);
            read_all() == TRI_OK ? good++ : bad++;
            assert_int_equal(pwrite(file, &bytes[at], 1, (off_t)at), 1);
        }
        for (size_t cut = size - 1; cut < size; cut = cut < 7 ? size : cut - 7) {
            assert_int_equal(ftruncate(file, (off_t)cut), 0);
            assert_int_equal(read_all(), TRI_DATA);
        }
        close(file);
    }
    assert_true(good > 500 && bad > 5000);
}

/* Damage in a page that has a checksum is found, whatever it is. */
TEST(verifies_checksums) {
    static char bytes[BYTES];
    size_t size = read_golden("texts_plain", bytes);
    char *at = memmem(bytes, size, "bad, or not", 11);
    assert_non_null(at);
    at[0] = 'm'; /* as good a text */
    table_write(bytes, size);
    assert_int_equal(read_all(), TRI_DATA);
    if (!strstr(tri_error(), "column \"review\", row group 1: the checksum of a page is wrong"))
        fail_msg("%s", tri_error());
}

TEST(refuses_only_what_is_used) {
    tri_table *table;
    int column;
    assert_int_equal(tri__table_open("tests/golden/parquet/nested.parquet", NULL, &table), TRI_OK);
    assert_int_equal(tri__table_rows(table), 2);
    assert_int_equal(tri__table_find(table, "after", &column), TRI_OK);
    tri_field_text field = tri__table_field(table, 1, column);
    assert_true(field.length == 1 && field.text[0] == '2');
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tri__table_find(table, i ? "group" : "list", &column), TRI_DATA);
        assert_non_null(strstr(tri_error(), i ? "column \"group\" is nested" : "column \"list\" is nested"));
    }
    assert_int_equal(tri__table_check(table), TRI_OK);
    tri__table_close(table);
    static char bytes[BYTES];
    size_t size = read_golden("required", bytes);
    for (char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), "\x15\x02\x16", 3));) at[1] = 6;
    table_write(bytes, size); /* snappy, 1, became LZO, 3 */
    assert_int_equal(tri__table_open(table_path, NULL, &table), TRI_OK);
    assert_int_equal(tri__table_find(table, "text", &column), TRI_DATA);
    assert_non_null(strstr(tri_error(), "column \"text\" is compressed by codec 3 (LZO) in row group 1"));
    tri__table_close(table);
}

/* has_the_fields_of_csv compares the files; this says when it could not. */
TEST(reads_brotli) {
    if (!tri__codec_known(TRI_CODEC_BROTLI)) {
        print_message("libbrotlidec.so.1 does not load: apt-get install libbrotli1\n");
        skip();
    }
    static const uint8_t text[] = {0x0b, 0x02, 0x80, 'h', 'e', 'l', 'l', 'o', 0x03}; /* stored */
    char out[6];
    assert_int_equal(tri__unpack(TRI_CODEC_BROTLI, text, sizeof text, out, 5), TRI_OK);
    assert_memory_equal(out, "hello", 5);
    assert_int_equal(tri__unpack(TRI_CODEC_BROTLI, text, sizeof text, out, 4), TRI_DATA);
    assert_int_equal(tri__unpack(TRI_CODEC_BROTLI, text, sizeof text, out, 6), TRI_DATA);
    assert_int_equal(tri__unpack(TRI_CODEC_BROTLI, text, sizeof text - 1, out, 5), TRI_DATA);
    assert_non_null(strstr(tri_error(), "its brotli data are damaged"));
}

TEST(names_what_is_wrong) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *what;
    } cases[] = {{"PAR1\x15\x04\0\0\0\0\0\0", 12, "its end is missing"},
                 {"PARE\x15\x04\0\0\0\0\0\0", 12, "an encrypted Parquet file"},
                 {"PAR1PAR1", 8, "it has 8 bytes"},
                 {"a,b\n1,2\n3,4\n", 12, "does not begin as a Parquet file"},
                 {"PAR1\xFF\0\0\0PAR1", 12, "its footer would have 255 of the file's 12 bytes"},
                 {"PAR1\0\0\0\0\0\0\0\0PAR1", 16, "its footer cannot be read"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        table_write(cases[i].bytes, cases[i].n);
        assert_int_equal(read_all(), TRI_DATA);
        if (!strstr(tri_error(), cases[i].what)) fail_msg("case %zu: %s", i, tri_error());
    }
}

/* Literals and copies of every form; copies that overlap what they write. */
TEST(unpacks_snappy) {
    enum { REST = 100, SIZE = 187 };
    uint8_t packed[24 + REST] = {0xBB, 0x01, 0x04, 'a', 'b', 0x19, 2, 0x08, 'x', 'y', 'z', 0x0B, 3, 0, 0, 0,
                                 0x00, 'q',  0xFE, 1,   0,   0x01, 1, 0xF0};
    uint8_t bytes[sizeof packed + 1], out[SIZE];
    char want[SIZE];
    for (int i = 0; i < 12; i++) want[i] = "ab"[i % 2];
    memcpy(want + 12, "xyzxyz", 6);
    memset(want + 18, 'q', 69);
    memset(want + 87, 'z', REST);
    memcpy(bytes, packed, 24);
    bytes[24] = REST - 1;
    memset(bytes + 25, 'z', REST);
    assert_int_equal(tri__snappy_unpack(bytes, sizeof bytes, out, SIZE), 1);
    assert_memory_equal(out, want, SIZE);
    assert_int_equal(tri__snappy_unpack(bytes, sizeof bytes, out, SIZE - 1), 0);
    for (size_t cut = 0; cut < sizeof bytes; cut++) assert_int_equal(tri__snappy_unpack(bytes, cut, out, SIZE), 0);
    bytes[6] = 3; /* from before the beginning */
    assert_int_equal(tri__snappy_unpack(bytes, sizeof bytes, out, SIZE), 0);
}

TEST(renders_values) {
    static const struct {
        double value;
        const char *want;
    } cases[] = {{1, "1.0"}, {0.1, "0.1"}, {-0.0, "-0.0"}, {1e15, "1000000000000000.0"}, {1e16, "1e+16"},
                 {1e-4, "0.0001"}, {1e-5, "1e-05"}, {1.5e-7, "1.5e-07"}, {5e-324, "5e-324"},
                 {2.0 / 3, "0.6666666666666666"}, {9007199254740993.0, "9007199254740992.0"},
                 {1.7976931348623157e308, "1.7976931348623157e+308"}};
    char out[TRI_VALUE_TEXT + 1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        out[tri__double_text(cases[i].value, out)] = 0;
        assert_string_equal(out, cases[i].want);
    }
    out[tri__float_text(0.1f, out)] = 0;
    assert_string_equal(out, "0.1");
    out[tri__half_text(0x2E66, out)] = 0;
    assert_string_equal(out, "0.1");
    out[tri__date_text(-719529, out)] = 0;
    assert_string_equal(out, "-0001-12-31");
    out[tri__timestamp_text(-1, TRI_UNIT_MICRO, 1, out)] = 0;
    assert_string_equal(out, "1969-12-31 23:59:59.999999Z");
    out[tri__decimal_text((const uint8_t[]){0x80, 0}, 2, 3, out)] = 0;
    assert_string_equal(out, "-32.768");
    out[tri__decimal_text((const uint8_t[]){5}, 1, -2, out)] = 0;
    assert_string_equal(out, "500");
    for (uint32_t i = 1, bits = 1; i < 200000; i++) { /* what is printed reads back as the same bits */
        bits = bits * 1664525u + 1013904223u;
        uint64_t wide = (uint64_t)bits << 32 | bits * 2654435761u;
        double value, back;
        memcpy(&value, &wide, sizeof value);
        if (value != value || value - value != 0) continue;
        out[tri__double_text(value, out)] = 0;
        back = strtod(out, NULL);
        if (memcmp(&back, &value, sizeof value)) fail_msg("%a is printed as %s", value, out);
    }
}

static int make_path(void **state) {
    (void)state;
    table_name_file(".parquet");
    return 0;
}

static int remove_path(void **state) {
    (void)state;
    unlink(table_path);
    return 0;
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_path, remove_path); }
