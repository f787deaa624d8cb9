/* table_read.c - finds a table's rows with several threads, window by window (table_parts.h says how). The only serial work is
 * to add up what the pieces found; a wrong guess of where a piece's first row starts costs a second look at that piece. */
#include "base/limits.h"
#include "data/table_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 512 << 10,  /* half of a common second-level cache */
    LEAST_WINDOW = 256  /* bytes, for pieces of a few bytes */
};

typedef struct reader {
    tri_table *table;
    char *text;         /* [room] the window's bytes */
    size_t room;
    size_t kept;        /* bytes of a cut row, at its front */
    size_t piece, fresh; /* bytes of a piece, new bytes of a window */
    tri_window window;
    tri_piece *pieces;  /* [room_pieces] */
    size_t n, room_pieces;
    int skipping;       /* not 0: the window begins inside a row too long, in this state of its parser */
} reader;

static void *grow(void *array, size_t *room, size_t need, size_t element) {
    if (need <= *room && array) return array;
    size_t more = *room + *room / 2 > need ? *room + *room / 2 : need, bytes;
    if (more < 64) more = 64;
    if (__builtin_mul_overflow(more, element, &bytes)) return NULL;
    void *larger = realloc(array, bytes);
    if (larger) *room = more;
    return larger;
}

int tri__piece_room(tri_piece *piece, size_t rows, size_t values) {
    size_t need = (size_t)piece->rows + rows, room_row = piece->room_rows, room_count = piece->room_rows;
    uint32_t *row = grow(piece->row, &room_row, need, sizeof *row);
    if (row) piece->row = row;
    uint32_t *count = grow(piece->count, &room_count, need, sizeof *count);
    if (count) piece->count = count;
    uint32_t *value = grow(piece->value, &piece->room_values, piece->values + values, sizeof *value);
    if (value) piece->value = value;
    if (row && count && value) {
        piece->room_rows = room_row;
        return 1;
    }
    piece->no_memory = 1;
    return 0;
}

void tri__piece_bad(tri_piece *piece, uint64_t at, const char *format, ...) {
    if (piece->bad++ >= TRI_TABLE_DESCRIBED) return;
    size_t room = (size_t)piece->room_bad;
    tri_fault *fault = grow(piece->fault, &room, (size_t)piece->bad, sizeof *fault);
    if (!fault) {
        piece->bad--, piece->no_memory = 1;
        return;
    }
    piece->fault = fault, piece->room_bad = (int)room;
    fault += piece->bad - 1;
    fault->at = at;
    va_list args;
    va_start(args, format);
    vsnprintf(fault->why, sizeof fault->why, format, args);
    va_end(args);
}

void tri__piece_clear(tri_piece *piece) {
    piece->rows = piece->bad = 0;
    piece->values = 0;
    piece->cut = piece->skipping = 0;
    piece->first = SIZE_MAX, piece->next = piece->end;
    tri__keys_cut(&piece->keys, 0);
}

void tri__piece_free(tri_piece *piece) {
    free(piece->row);
    free(piece->count);
    free(piece->value);
    free(piece->fault);
    free(piece->column);
    tri__keys_free(&piece->keys);
}

/* Cuts the window into pieces; the first begins with the kept bytes. */
static tri_status cut(reader *r) {
    size_t fresh = r->window.size - r->kept, n = r->skipping || fresh == 0 ? 1 : (fresh + r->piece - 1) / r->piece;
    if (n > r->room_pieces) {
        tri_piece *more = realloc(r->pieces, n * sizeof *more);
        if (!more) return tri__table_no_memory(r->table);
        memset(more + r->room_pieces, 0, (n - r->room_pieces) * sizeof *more);
        r->pieces = more, r->room_pieces = n;
    }
    r->n = n;
    for (size_t i = 0; i < n; i++) {
        tri_piece *piece = &r->pieces[i];
        piece->begin = i ? r->kept + i * r->piece : 0;
        piece->end = i + 1 < n ? r->kept + (i + 1) * r->piece : r->window.size;
        piece->only_first_bad = r->table->options.bad_rows == TRI_BAD_ROWS_FAIL;
        tri__piece_clear(piece);
    }
    return TRI_OK;
}

/* Parity of the quotes among bytes; the compiler turns the inner loop into vectors. */
static int odd_quotes(const char *text, size_t size) {
    unsigned char odd[64] = {0}, all = 0;
    size_t at = 0;
    for (; size - at >= 64; at += 64)
        for (int i = 0; i < 64; i++) odd[i] ^= text[at + (size_t)i] == '"';
    for (; at < size; at++) all ^= text[at] == '"';
    for (int i = 0; i < 64; i++) all ^= odd[i];
    return all;
}

/* Reads the window's new bytes and counts each piece's quotes. */
static tri_status fill(reader *r) {
    const tri_table *table = r->table;
    uint64_t at = r->window.base + r->kept, left = table->end - at;
    size_t fresh = left < r->fresh ? (size_t)left : r->fresh;
    if (r->kept + fresh + TRI_TABLE_PAD > r->room) {
        size_t room = r->kept + fresh + TRI_TABLE_PAD;
        char *text = realloc(r->text, room);
        if (!text) return tri__table_no_memory(table);
        r->text = text, r->room = room;
    }
    r->window.text = r->text, r->window.size = r->kept + fresh, r->window.last = fresh == left;
    TRI_TRY(cut(r));
    int failed = 0, count = r->n > 1 && table->format->speculates;
#pragma omp parallel for schedule(static) num_threads(table->options.threads) reduction(|: failed) if (r->n > 1)
    for (size_t i = 0; i < r->n; i++) {
        tri_piece *piece = &r->pieces[i];
        size_t from = i ? piece->begin : r->kept;
        failed |= tri__source_read(&table->source, table->path, r->window.base + from, r->text + from, piece->end - from) != TRI_OK;
        if (count) piece->quotes = odd_quotes(r->text + piece->begin, piece->end - piece->begin);
    }
    memset(r->text + r->window.size, 0, TRI_TABLE_PAD);
    /* A thread's message stays with that thread: read the failing part again here. */
    for (size_t i = 0; failed && i < r->n; i++) {
        size_t from = i ? r->pieces[i].begin : r->kept;
        TRI_TRY(tri__source_read(&table->source, table->path, r->window.base + from, r->text + from, r->pieces[i].end - from));
    }
    return TRI_OK;
}

static void parse_pieces(reader *r, size_t from) {
    const tri_table *table = r->table;
    int inside = 0;
    for (size_t i = 0; i < r->n; i++) {
        int quotes = r->pieces[i].quotes;
        r->pieces[i].quotes = inside; /* from here on: whether it begins inside quotes */
        inside ^= quotes;
    }
#pragma omp parallel for schedule(static) num_threads(table->options.threads) if (r->n > 1)
    for (size_t i = 0; i < r->n; i++) {
        tri_piece *piece = &r->pieces[i];
        piece->first = i ? table->format->start(table, &r->window, piece->begin, piece->end, piece->quotes) : from;
        if (piece->first != SIZE_MAX) table->format->parse(table, &r->window, piece->first, piece);
    }
}

/* Describes the bad rows of a piece, or fails with the first. */
static tri_status take_bad(tri_table *table, const tri_piece *piece) {
    if (piece->bad && piece->only_first_bad) return tri__table_fail(table, piece->fault[0].at, "%s", piece->fault[0].why);
    table->bad += piece->bad;
    for (int64_t i = 0; i < piece->bad && table->described < TRI_TABLE_DESCRIBED; i++) {
        const tri_fault *fault = &piece->fault[i];
        tri_bad_row *rows = realloc(table->bad_row, (size_t)(table->described + 1) * sizeof *rows);
        if (!rows) return tri__table_no_memory(table);
        table->bad_row = rows;
        TRI_TRY(tri__source_line(&table->source, table->path, fault->at, &table->line));
        char *why = strdup(fault->why);
        if (!why) return tri__table_no_memory(table);
        rows[table->described++] = (tri_bad_row){table->line.number, (int64_t)(fault->at - table->line.begin) + 1, why};
    }
    return TRI_OK;
}

/* Goes through the pieces in order; *next: where the window's first row starts, then where the first one after it does. */
static tri_status join_pieces(reader *r, size_t *next) {
    tri_table *table = r->table;
    int over = 0; /* the rest of the window belongs to one row */
    for (size_t i = 0; i < r->n; i++) {
        tri_piece *piece = &r->pieces[i];
        if (over || *next > piece->end) {
            tri__piece_clear(piece);
            continue;
        }
        if (piece->first != *next) {
            tri__piece_clear(piece);
            table->format->parse(table, &r->window, *next, piece);
        }
        if (piece->no_memory) return tri__table_no_memory(table);
        TRI_TRY(take_bad(table, piece));
        if (table->format->join) TRI_TRY(table->format->join(table, &r->window, piece));
        *next = piece->next;
        r->skipping = piece->skipping;
        over = piece->cut || piece->skipping;
    }
    return TRI_OK;
}

/* Makes room in the table for what the pieces found, and copies it. */
static tri_status copy_pieces(reader *r) {
    tri_table *table = r->table;
    int64_t rows = table->rows;
    uint64_t values = table->values;
    for (size_t i = 0; i < r->n; i++) {
        tri_piece *piece = &r->pieces[i];
        piece->row_at = rows, piece->value_at = values;
        rows += piece->rows, values += piece->values;
    }
    size_t room = table->room_rows;
    uint64_t *row = grow(table->row, &room, (size_t)rows + 1, sizeof *row);
    if (!row) return tri__table_no_memory(table);
    table->row = row;
    if (table->first_value) {
        size_t room_first = table->room_rows;
        uint64_t *first = grow(table->first_value, &room_first, (size_t)rows + 1, sizeof *first);
        if (!first) return tri__table_no_memory(table);
        table->first_value = first;
    }
    table->room_rows = room;
    uint32_t *value = grow(table->value, &table->room_values, values, sizeof *value);
    if (!value) return tri__table_no_memory(table);
    table->value = value;
#pragma omp parallel for schedule(static) num_threads(table->options.threads) if (r->n > 1)
    for (size_t i = 0; i < r->n; i++) {
        const tri_piece *piece = &r->pieces[i];
        for (int64_t k = 0; k < piece->rows; k++) row[piece->row_at + k] = r->window.base + piece->row[k];
        uint64_t first = piece->value_at;
        for (int64_t k = 0; table->first_value && k < piece->rows; k++) {
            table->first_value[piece->row_at + k] = first;
            first += piece->count[k];
        }
        if (piece->values) table->format->copy(piece, value + piece->value_at);
    }
    if (table->first_value) table->first_value[rows] = values;
    table->rows = rows, table->values = values;
    return TRI_OK;
}

/* One window: *next is where the first row after it starts. */
static tri_status read_window(reader *r, size_t *next) {
    TRI_TRY(fill(r));
    *next = 0;
    if (r->skipping) {
        *next = r->table->format->skip(r->table, &r->window, &r->skipping);
        if (*next == SIZE_MAX) {
            *next = r->window.size;
            return TRI_OK;
        }
        r->skipping = 0;
    }
    parse_pieces(r, *next);
    TRI_TRY(join_pieces(r, next));
    return copy_pieces(r);
}

tri_status tri__table_read(tri_table *table) {
    reader r = {.table = table, .piece = table->options.piece ? table->options.piece : PIECE, .window.base = table->begin};
    if (__builtin_mul_overflow(r.piece, (size_t)table->options.threads, &r.fresh)) r.fresh = r.piece;
    if (r.fresh < LEAST_WINDOW) r.fresh = LEAST_WINDOW;
    tri_status status = TRI_OK;
    while (status == TRI_OK && !r.window.last) {
        size_t next;
        status = read_window(&r, &next);
        if (status != TRI_OK) break;
        if (next == 0) r.fresh *= 2; /* a long row; it is a fault before the window can become larger than memory */
        r.kept = r.window.size - next;
        memmove(r.text, r.text + next, r.kept);
        r.window.base += next;
    }
    for (size_t i = 0; i < r.room_pieces; i++) tri__piece_free(&r.pieces[i]);
    free(r.pieces);
    free(r.text);
    return status;
}
