#!/usr/bin/env bash
# table_format.sh - a table format: fields of 512 bytes each, filled with blanks, after a line of names. Its file, and
# its name in formats.h.
most=2

add() {
    sed -i 's/^#define TRI_FORMATS(X) /&X(fixed) /; s/X(fixed) X(csv)/X(csv) X(fixed)/' src/data/table/formats.h
    cat >src/data/table/fixed.c <<'END'
/* fixed.c - FIXED1, a blank, the columns' names with a blank after each, and a line feed; then fields of 512 bytes. */
#include "data/table/columnar.h"

#include <stdlib.h>
#include <string.h>

enum { FIELD = 512, HEAD = 4096, ROWS = 1024 };

static tri_status load(const tri_table *table, void *state, const tri_column_group *group, int column, int as_numbers,
                       tri_column_text *out) {
    (void)state, (void)as_numbers;
    size_t rows = (size_t)group->rows;
    out->text = malloc(rows * FIELD), out->field = malloc(rows * sizeof *out->field);
    if (!out->text || !out->field) return tri__table_no_memory(table);
    out->bytes = rows * (FIELD + sizeof *out->field);
    for (size_t i = 0; i < rows; i++) {
        uint64_t at = ((uint64_t)group->from + i) * (uint64_t)table->columns + (uint64_t)column;
        char *text = out->text + i * FIELD;
        TRI_TRY(tri__source_read(table, table->begin + at * FIELD, text, FIELD));
        uint32_t length = FIELD;
        while (length && text[length - 1] == ' ') length--;
        out->field[i] = (tri_field_span){(uint32_t)(i * FIELD), length};
        if (!tri__bytes_are_text(text, length)) return tri__fail(TRI_DATA, "%s: not UTF-8", table->path);
    }
    return TRI_OK;
}

static int has_numbers(const void *state, int column) { return (void)state, (void)column, 0; }

static tri_status open_fixed(tri_table *table) {
    char head[HEAD + 1] = "";
    size_t n = table->source.size < HEAD ? (size_t)table->source.size : HEAD;
    TRI_TRY(tri__columns_begin(table, calloc(1, 1)));
    TRI_TRY(tri__source_read(table, 0, head, n));
    char *end = strchr(head, '\n');
    if (!end) return tri__fail(TRI_DATA, "%s: a line of names was expected", table->path);
    TRI_TRY(tri__table_make_columns(table, HEAD));
    *end = 0;
    table->begin = (uint64_t)(end + 1 - head);
    for (char *name = strchr(head, ' '), *next; name && (next = strchr(name + 1, ' ')); name = next)
        TRI_TRY(tri__table_add_column(table, name + 1, (size_t)(next - name - 1)));
    int64_t rows = table->columns ? (int64_t)(table->source.size - table->begin) / FIELD / table->columns : 0;
    for (int64_t from = 0; from < rows; from += ROWS)
        TRI_TRY(tri__columns_add(table, rows - from < ROWS ? rows - from : ROWS, 0, from));
    return TRI_OK;
}

const tri_format tri__format_fixed = {TRI_COLUMN_TABLE, .endings = " .fixed", .magic = "FIXED1",
                                      .called = "a table of fixed fields", .open = open_fixed, .load = load,
                                      .has_numbers = has_numbers, .free = free};
END
}

# The same rows in both forms, found in a folder: the same run to the bit.
use() {
    local split
    mkdir fixed
    for split in train valid; do
        awk -F, 'NR == 1 { printf "FIXED1 "; for (i = 1; i <= NF; i++) printf "%s ", $i; print ""; next }
            { for (i = 1; i <= NF; i++) printf "%-512s", $i }' data/$split.csv >fixed/$split.fixed
    done
    train csv
    train fixed_run --data-path fixed
    [ "$("$trident" digest csv --quiet)" = "$("$trident" digest fixed_run --quiet)" ] || exit 1
    cp fixed/train.fixed named.csv
    "$trident" inspect named.csv 2>&1 | grep -q 'is a table of fixed fields, which is read from files that end in .fix'
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
