/* table_read.c - finds a table's rows with several threads (table_parts.h says how). Pieces are independent of each other until
 * they are joined, which costs a copy of what they found: about a tenth of the work. */
#include "base/limits.h"
#include "data/table_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 4 << 20,     /* bytes, at most */
    LEAST_PIECE = 64 << 10,
    WINDOW = 512 << 10,  /* half of a common second-level cache */
    LEAST_WINDOW = 64
};

/* One thread's memory. */
typedef struct reader {
    const tri_table *table;
    char *text;          /* [room] the window's bytes */
    size_t room;
    tri_window window;
    size_t step;         /* bytes to read at a time */
    tri_piece piece;
    uint64_t first;      /* where the piece's first row starts; UINT64_MAX: no row does */
    tri_status status;
} reader;

/* What the threads share. */
typedef struct pass {
    tri_table *table;
    uint64_t piece;      /* bytes */
    _Atomic int64_t joined; /* pieces */
    uint64_t next;       /* where the first row after them starts */
    tri_status status;
    char error[2048];    /* its text: a thread's own stays with the thread */
} pass;

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
    uint64_t *row = grow(piece->row, &room_row, need, sizeof *row);
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
    tri_fault *fault = grow(piece->fault, &piece->room_bad, (size_t)piece->bad, sizeof *fault);
    if (!fault) {
        piece->bad--, piece->no_memory = 1;
        return;
    }
    piece->fault = fault;
    fault += piece->bad - 1;
    fault->at = at;
    va_list args;
    va_start(args, format);
    vsnprintf(fault->why, sizeof fault->why, format, args);
    va_end(args);
}

static void free_reader(reader *r) {
    free(r->text);
    free(r->piece.row);
    free(r->piece.count);
    free(r->piece.value);
    free(r->piece.fault);
    free(r->piece.column);
    tri__keys_free(&r->piece.keys);
}

/* Keeps the window's bytes from text[from] on and reads `step` more behind them. */
static tri_status move_window(reader *r, size_t from) {
    const tri_table *table = r->table;
    tri_window *w = &r->window;
    size_t kept = w->size - from;
    uint64_t at = w->base + w->size, left = table->end - at;
    size_t fresh = left < r->step ? (size_t)left : r->step;
    if (from) memmove(r->text, r->text + from, kept);
    char *text = grow(r->text, &r->room, kept + fresh + TRI_TABLE_PAD, 1);
    if (!text) return tri__table_no_memory(table);
    r->text = text;
    *w = (tri_window){.text = text, .size = kept + fresh, .base = w->base + from, .last = fresh == left};
    memset(text + w->size, 0, TRI_TABLE_PAD);
    return tri__source_read(&table->source, table->path, at, text + kept, fresh);
}

static tri_status begin_window(reader *r, uint64_t at) {
    r->window = (tri_window){.base = at};
    size_t piece = r->table->options.piece;
    r->step = !piece || piece > WINDOW ? WINDOW : piece < LEAST_WINDOW ? LEAST_WINDOW : piece;
    return move_window(r, 0);
}

/* Parses the piece's rows from text[from] of the window on, which is the start of one. */
static tri_status parse_rows(reader *r, size_t from) {
    const tri_format *format = r->table->format;
    tri_piece *piece = &r->piece;
    for (;;) {
        if (piece->skipping) {
            from = format->skip(r->table, &r->window, &piece->skipping);
            piece->next = r->window.base + (from == SIZE_MAX ? r->window.size : from);
            if (from != SIZE_MAX) piece->skipping = 0;
        }
        if (!piece->skipping && r->window.base + from <= piece->end) format->parse(r->table, &r->window, from, piece);
        if (piece->no_memory) return tri__table_no_memory(r->table);
        if (r->window.last || (piece->bad && piece->only_first_bad)) return TRI_OK;
        if (piece->next > piece->end && !piece->skipping) return TRI_OK;
        if (piece->next == r->window.base) r->step *= 2; /* a long row, or one too long soon */
        TRI_TRY(move_window(r, (size_t)(piece->next - r->window.base)));
        from = 0;
    }
}

static void clear(tri_piece *piece) {
    piece->rows = piece->bad = 0;
    piece->values = 0;
    piece->cut = piece->skipping = 0;
    tri__keys_cut(&piece->keys, 0);
}

/* Parses piece `index`, from where the rows before it end if that is known; pieces of a given size (tests) always guess. */
static tri_status parse_piece(pass *pass, reader *r, int64_t index) {
    const tri_table *table = pass->table;
    tri_piece *piece = &r->piece;
    clear(piece);
    piece->begin = table->begin + (uint64_t)index * pass->piece;
    piece->end = table->end - piece->begin > pass->piece ? piece->begin + pass->piece : table->end;
    piece->only_first_bad = table->options.bad_rows == TRI_BAD_ROWS_FAIL;
    r->first = UINT64_MAX;
    int64_t joined = atomic_load_explicit(&pass->joined, memory_order_acquire);
    if (index == 0 || (joined == index && !table->options.piece)) {
        if (pass->next > piece->end || pass->status != TRI_OK) return TRI_OK;
        r->first = pass->next;
        TRI_TRY(begin_window(r, r->first));
        return parse_rows(r, 0);
    }
    TRI_TRY(begin_window(r, piece->begin));
    size_t from = table->format->guess(table, &r->window, (size_t)(piece->end - piece->begin));
    if (from == SIZE_MAX) return TRI_OK;
    r->first = piece->begin + from;
    return parse_rows(r, from);
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

static tri_status copy_rows(tri_table *table, const tri_piece *piece) {
    size_t need = (size_t)(table->rows + piece->rows) + 1, room_row = table->room_rows, room_first = table->room_rows;
    uint64_t *row = grow(table->row, &room_row, need, sizeof *row);
    if (row) table->row = row;
    if (row && table->first_value) {
        uint64_t *first = grow(table->first_value, &room_first, need, sizeof *first);
        if (!first) return tri__table_no_memory(table);
        table->first_value = first;
        for (int64_t i = 0; i < piece->rows; i++) first[table->rows + i + 1] = first[table->rows + i] + piece->count[i];
    }
    uint32_t *value = grow(table->value, &table->room_values, table->values + piece->values, sizeof *value);
    if (value) table->value = value;
    if (!row || !value) return tri__table_no_memory(table);
    table->room_rows = room_row;
    if (piece->rows) memcpy(row + table->rows, piece->row, (size_t)piece->rows * sizeof *row);
    if (piece->values) table->format->copy(piece, value + table->values);
    table->rows += piece->rows;
    table->values += piece->values;
    return TRI_OK;
}

/* Adds a piece to the table; all before it have been. Parses it again if it did not begin where they end. */
static tri_status join_piece(pass *pass, reader *r) {
    tri_piece *piece = &r->piece;
    if (pass->next > piece->end || pass->next == pass->table->end) return TRI_OK;
    if (r->first != pass->next) {
        clear(piece);
        r->status = begin_window(r, pass->next);
        if (r->status == TRI_OK) r->status = parse_rows(r, 0);
    }
    TRI_TRY(r->status);
    TRI_TRY(take_bad(pass->table, piece));
    if (pass->table->format->join) TRI_TRY(pass->table->format->join(pass->table, piece));
    pass->next = piece->next;
    return copy_rows(pass->table, piece);
}

/* Small enough for the threads to share the work evenly. */
static uint64_t piece_bytes(const tri_table *table) {
    uint64_t share = (table->end - table->begin) / (8 * (uint64_t)table->options.threads);
    if (table->options.piece) share = table->options.piece;
    else if (share < LEAST_PIECE) share = LEAST_PIECE;
    return share < PIECE ? share : PIECE;
}

tri_status tri__table_read(tri_table *table) {
    pass pass = {.table = table, .piece = piece_bytes(table), .next = table->begin};
    int64_t pieces = (int64_t)((table->end - table->begin + pass.piece - 1) / pass.piece);
#pragma omp parallel num_threads(table->options.threads) if (pieces > 1)
    {
        reader r = {.table = table};
#pragma omp for schedule(dynamic, 1) ordered
        for (int64_t i = 0; i < pieces; i++) {
            r.status = parse_piece(&pass, &r, i);
#pragma omp ordered
            {
                if (pass.status == TRI_OK) {
                    pass.status = join_piece(&pass, &r);
                    if (pass.status != TRI_OK) snprintf(pass.error, sizeof pass.error, "%s", tri_error());
                }
                atomic_store_explicit(&pass.joined, i + 1, memory_order_release);
            }
        }
        free_reader(&r);
    }
    return pass.status == TRI_OK ? TRI_OK : tri__fail(pass.status, "%s", pass.error);
}
