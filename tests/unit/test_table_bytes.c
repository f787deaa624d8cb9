/* test_table_bytes.c - vector code against plain code: UTF-8, exhaustively, and records of CSV. */
#include "data/table/csv.h"
#include "data/text/utf8.h"
#include "tests/lib/test.h"
#include "tests/lib/table_text.h"

/* RFC 3629, section 4: the bytes of a character. Its length; 0 when none begins here. */
static int rfc3629(const unsigned char *b, size_t n) {
    static const struct {
        unsigned char first[2], second[2];
        int length;
    } forms[] = {{{0x00, 0x7F}, {0, 0}, 1},       {{0xC2, 0xDF}, {0x80, 0xBF}, 2}, {{0xE0, 0xE0}, {0xA0, 0xBF}, 3},
                 {{0xE1, 0xEC}, {0x80, 0xBF}, 3}, {{0xED, 0xED}, {0x80, 0x9F}, 3}, {{0xEE, 0xEF}, {0x80, 0xBF}, 3},
                 {{0xF0, 0xF0}, {0x90, 0xBF}, 4}, {{0xF1, 0xF3}, {0x80, 0xBF}, 4}, {{0xF4, 0xF4}, {0x80, 0x8F}, 4}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (b[0] < forms[i].first[0] || b[0] > forms[i].first[1]) continue;
        int good = n >= (size_t)forms[i].length &&
                   (forms[i].length == 1 || (b[1] >= forms[i].second[0] && b[1] <= forms[i].second[1]));
        for (int k = 2; good && k < forms[i].length; k++) good = b[k] >= 0x80 && b[k] <= 0xBF;
        return good ? forms[i].length : 0;
    }
    return 0;
}

static size_t first_fault(const unsigned char *b, size_t n) {
    size_t at = 0;
    for (int length; at < n && (length = rfc3629(b + at, n - at)); at += (size_t)length) {}
    return at;
}

/* All sequences of one to three bytes, alone and across the border of two blocks. */
TEST(utf8_exhaustively) {
    unsigned char text[160];
    memset(text, 'x', sizeof text);
    for (int n = 1; n <= 3; n++)
        for (uint32_t code = 0; code < 1u << 8 * n; code++) {
            size_t at = 60 + code % 8;
            for (int i = 0; i < n; i++) text[at + (size_t)i] = (unsigned char)(code >> 8 * i);
            size_t alone = first_fault(text + at, (size_t)n), got = tri__utf8_fault((char *)text + at, (size_t)n);
            if (got != alone) fail_msg("%06x of %d bytes: %zu, not %zu", code, n, got, alone);
            size_t want = at + alone < at + (size_t)n ? at + alone : 128;
            if ((code & 3) == 0 && (got = tri__utf8_fault((char *)text, 128)) != want)
                fail_msg("%06x of %d bytes at %zu: %zu, not %zu", code, n, at, got, want);
            memset(text + at, 'x', (size_t)n);
        }
}

/* Four bytes, around every border of their rules. */
TEST(utf8_of_four_bytes) {
    static const unsigned char edges[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0,
                                          0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5, 0xFF};
    enum { N = sizeof edges };
    unsigned char text[256];
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++)
            for (int c = 0; c < N; c++)
                for (int d = 0; d < N; d++)
                    for (size_t at = 58; at < 68; at += 3) {
                        memset(text, 'x', sizeof text);
                        text[at] = edges[a], text[at + 1] = edges[b], text[at + 2] = edges[c], text[at + 3] = edges[d];
                        size_t want = first_fault(text, 200), got = tri__utf8_fault((char *)text, 200);
                        if (want != got)
                            fail_msg("%02x %02x %02x %02x at %zu: %zu, not %zu", edges[a], edges[b], edges[c], edges[d],
                                     at, got, want);
                    }
}

/* A single quote inside the quotes: where its row ends depends on what follows. */
static int swallows(int code) { return ((code & 255) == '"') != (code >> 8 == '"'); }

/* Every pair of bytes as a field: the rows that are left are the right ones, and none holds invalid UTF-8 or a 0
 * byte. */
TEST(utf8_in_tables) {
    table_name_file(".csv");
    FILE *file = fopen(table_path, "wb");
    fprintf(file, "bytes,code\n");
    for (int code = 0; code < 1 << 16; code++)
        if (!swallows(code)) fprintf(file, "\"%c%c\",%04x\n", code >> 8, code & 255, code);
    fclose(file);
    tri_table_options options = {.threads = 2, .bad_rows = TRI_BAD_ROWS_SKIP};
    tri_table *table;
    assert_int_equal(tri__table_open(table_path, &options, &table), TRI_OK);
    int64_t row = 0, bad = 0;
    for (int code = 0; code < 1 << 16; code++) {
        if (swallows(code)) continue;
        unsigned char b[2] = {(unsigned char)(code >> 8), (unsigned char)code};
        int good = b[0] && b[1] && first_fault(b, 2) == 2;
        if (!good) {
            bad++;
            continue;
        }
        char hex[8];
        snprintf(hex, sizeof hex, "%04x", code);
        tri_field_text field = tri__table_field(table, row, 1), bytes = tri__table_field(table, row, 0);
        if (field.length != 4 || memcmp(field.text, hex, 4))
            fail_msg("row %d is %.*s, not %s", (int)row, (int)field.length, field.text, hex);
        if (b[0] == '"') assert_true(bytes.length == 1 && bytes.text[0] == '"');
        else assert_true(bytes.length == 2 && !memcmp(bytes.text, b, 2));
        row++;
    }
    const tri_bad_row *rows;
    int described;
    assert_int_equal(tri__table_rows(table), row);
    assert_int_equal(tri__table_bad(table, &rows, &described), bad);
    tri__table_close(table);
    unlink(table_path);
}

static void free_piece(tri_table_piece *piece) {
    free(piece->row);
    free(piece->count);
    free(piece->value);
    free(piece->fault);
    free(piece->bad_after);
}

/* Long random records, most of them plain: each way of scanning finds the same. */
TEST(vectors_see_what_plain_code_sees) {
    static tri_csv_scan *const scans[] = {
#if defined(__aarch64__)
        tri__csv_scan_neon,
#elif defined(__x86_64__)
        tri__csv_scan_sse2, tri__csv_scan_avx2,
#endif
        tri__csv_scan_plain};
    static const char *const parts[] = {"word ",
                                        "a longer run of plain words, as texts have it",
                                        ",",
                                        ",",
                                        ",",
                                        "\n",
                                        "\r\n",
                                        "\"\"",
                                        "\"",
                                        "\",\"",
                                        "\n\"",
                                        "\"\n",
                                        ",,,,",
                                        "\xC3\xA9",
                                        "\xE4\xB8\xAD\xE6\x96\x87",
                                        "\xF0\x9F\x98\x80",
                                        "\xC3",
                                        "\r",
                                        "\x01",
                                        "0"};
    enum { SIZE = 6000 };
    char *text = malloc(SIZE + TRI_TABLE_PAD);
    assert_non_null(text);
    uint32_t random = 1;
    int64_t rows = 0;
    for (int round = 0; round < 400; round++) {
        size_t size = 0, kinds = sizeof parts / sizeof *parts - (size_t)(round % 2 ? 4 : 0);
        while (size < SIZE - 64) {
            random = random * 1664525 + 1013904223;
            const char *part = parts[(random >> 8) % kinds];
            if (round % 4 < 2 && (random >> 20) % 2) part = "\"quoted, \n text\",1,\"2\"\n";
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
        }
        memset(text + size, 0, TRI_TABLE_PAD);
        tri_table table = {.delimiter = ',', .columns = 3};
        tri_window window = {.text = text, .size = size, .base = 1000, .last = round % 3 == 0};
        tri_table_piece want = {.end = 1000 + size};
        tri__csv_scan_plain(&table, &window, 0, &want);
        rows += want.rows;
        for (size_t i = 0; i + 1 < sizeof scans / sizeof *scans; i++) {
#if defined(__x86_64__)
            if (scans[i] == tri__csv_scan_avx2 && !__builtin_cpu_supports("avx2")) continue;
#endif
            tri_table_piece got = {.end = want.end};
            scans[i](&table, &window, 0, &got);
            assert_int_equal(got.rows, want.rows);
            assert_int_equal(got.values, want.values);
            assert_int_equal(got.bad, want.bad);
            assert_int_equal(got.next, want.next);
            assert_int_equal(got.cut, want.cut);
            if (want.rows) assert_memory_equal(got.row, want.row, (size_t)want.rows * sizeof *want.row);
            if (want.values) assert_memory_equal(got.value, want.value, want.values * sizeof *want.value);
            for (int64_t k = 0; k < want.bad && k < TRI_TABLE_DESCRIBED; k++)
                assert_string_equal(got.fault[k].why, want.fault[k].why);
            free_piece(&got);
        }
        /* And as one record after the other, byte by byte. */
        tri_table_piece slow = {.end = want.end};
        size_t next = 0;
        tri_csv_end end = TRI_CSV_GOOD;
        while (end != TRI_CSV_CUT && next < size) end = tri__csv_record(&table, &window, next, &slow, &next);
        assert_int_equal(slow.rows, want.rows);
        assert_int_equal(slow.bad, want.bad);
        if (want.rows) assert_memory_equal(slow.row, want.row, (size_t)want.rows * sizeof *want.row);
        if (want.values) assert_memory_equal(slow.value, want.value, want.values * sizeof *want.value);
        free_piece(&slow);
        free_piece(&want);
    }
    assert_true(rows > 1000);
    free(text);
}

/* A character that is cut short at every place of a long record, which is otherwise ASCII, or is not. */
TEST(cut_characters_are_seen_anywhere) {
    static const char *const cuts[] = {"\xC3", "\xE4\xB8", "\xF0\x9F\x98", "\x80", "\xC3\xA9\xA9"};
    table_name_file(".csv");
    for (int quoted = 0; quoted < 2; quoted++)
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            FILE *file = fopen(table_path, "wb");
            assert_non_null(file);
            fprintf(file, "a\n");
            char text[301] = "";
            memset(text, quoted ? 'x' : ' ', 300);
            for (int at = 1; at < 200; at++) {
                fprintf(file, "\"%.*s%s%.*s\"\n\"%s\"\n", at, text, cuts[i], 299 - at, text,
                        quoted ? "\xC3\xA9" : "good");
            }
            fclose(file);
            tri_table_options options = {.bad_rows = TRI_BAD_ROWS_SKIP};
            tri_table *table;
            assert_int_equal(tri__table_open(table_path, &options, &table), TRI_OK);
            const tri_bad_row *rows;
            int described;
            assert_int_equal(tri__table_rows(table), 199);
            assert_int_equal(tri__table_bad(table, &rows, &described), 199);
            for (int k = 0; k < described; k++) assert_int_equal(rows[k].column, k + 3 + (i == 4 ? 2 : 0));
            tri__table_close(table);
        }
    unlink(table_path);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
