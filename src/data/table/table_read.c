/* table_read.c - finds a table's rows with several threads (see table_parts.h). A thread takes the next piece, parses
 * it, stores the result in a slot, and joins all pieces that are next in order, its own or not. So no thread waits for
 * a slow one until all slots are full. Joining is a copy: about a tenth of the work. */
#include "data/table/table_parts.h"

enum {
    PIECE = 4 << 20,     /* bytes, at most */
    LEAST_PIECE = 64 << 10,
    WINDOW = 512 << 10,  /* half of a common second-level cache */
    LEAST_WINDOW = 64,
    EACH = 4             /* slots for each of several threads */
};

/* One thread's memory. */
typedef struct reader {
    const tri_table *table;
    char *text;          /* [room] the window's bytes */
    size_t room;
    tri_window window;
    size_t step;         /* bytes to read at a time */
} reader;

/* A piece that is parsed or waits to be joined. */
typedef struct slot {
    tri_table_piece piece;
    uint64_t first;      /* start of its first row; UINT64_MAX: none */
    tri_status status;
    int ready;           /* to be joined */
} slot;

/* What the threads share. */
typedef struct pass {
    tri_table *table;
    uint64_t piece;      /* bytes */
    int64_t pieces;
    _Atomic int64_t taken, joined; /* pieces, from the front */
    slot *slots;         /* [n_slots] piece i uses slot i % n_slots */
    int n_slots;
    pthread_mutex_t lock; /* of `ready` and all below */
    pthread_cond_t room; /* some piece was joined */
    uint64_t next;       /* where the first row after the joined pieces starts */
    _Atomic int full;    /* the table has as many rows as its budget allows */
    _Atomic int status;  /* TRI_OK, or the first failure */
    char error[2048];    /* its text: error texts are per thread */
} pass;

int tri__piece_room(tri_table_piece *piece, size_t rows, size_t values) {
    size_t need = (size_t)piece->rows + rows, room = piece->room_rows;
    if (tri__grow(&piece->count, &room, need, sizeof *piece->count) &&
        tri__grow(&piece->row, &piece->room_rows, need, sizeof *piece->row) &&
        tri__grow(&piece->value, &piece->room_values, piece->values + values, sizeof *piece->value))
        return 1;
    piece->no_memory = 1;
    return 0;
}

void tri__piece_bad(tri_table_piece *piece, uint64_t at, const char *format, ...) {
    size_t n = (size_t)piece->bad, described = n < TRI_TABLE_DESCRIBED ? n + 1 : TRI_TABLE_DESCRIBED;
    if (!tri__grow(&piece->bad_after, &piece->room_after, n + 1, sizeof *piece->bad_after) ||
        !tri__grow(&piece->fault, &piece->room_bad, described, sizeof *piece->fault)) {
        piece->no_memory = 1;
        return;
    }
    piece->bad_after[piece->bad++] = piece->rows;
    if (n >= TRI_TABLE_DESCRIBED) return;
    tri_fault *fault = &piece->fault[n];
    fault->at = at;
    TRI_FORMAT(fault->why, sizeof fault->why, format);
}

static void free_piece(tri_table_piece *piece) {
    TRI_FREE(piece->row, piece->count, piece->value, piece->fault, piece->bad_after, piece->column);
    tri__keys_free(&piece->keys);
}

/* Keeps the window's bytes from text[from] on and appends `step` more. */
static tri_status move_window(reader *r, size_t from) {
    const tri_table *table = r->table;
    tri_window *w = &r->window;
    size_t kept = w->size - from;
    uint64_t at = w->base + w->size, left = table->end - at;
    size_t fresh = left < r->step ? (size_t)left : r->step;
    if (from) memmove(r->text, r->text + from, kept);
    if (!tri__grow(&r->text, &r->room, kept + fresh + TRI_TABLE_PAD, 1)) return tri__table_no_memory(table);
    *w = (tri_window){.text = r->text, .size = kept + fresh, .base = w->base + from, .last = fresh == left};
    memset(r->text + w->size, 0, TRI_TABLE_PAD);
    return tri__source_read(table, at, r->text + kept, fresh);
}

static tri_status begin_window(reader *r, uint64_t at) {
    r->window = (tri_window){.base = at};
    size_t piece = r->table->options.piece;
    r->step = !piece || piece > WINDOW ? WINDOW : piece < LEAST_WINDOW ? LEAST_WINDOW : piece;
    return move_window(r, 0);
}

/* Parses the piece's rows from text[from] of the window on, which is the start of one. */
static tri_status parse_rows(reader *r, size_t from, tri_table_piece *piece) {
    const tri_format *format = r->table->format;
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
        if (piece->next == r->window.base) r->step *= 2; /* a long row, perhaps beyond the limit */
        TRI_TRY(move_window(r, (size_t)(piece->next - r->window.base)));
        from = 0;
    }
}

static void clear(tri_table_piece *piece) {
    piece->rows = piece->bad = 0;
    piece->values = 0;
    piece->cut = piece->skipping = 0;
    tri__keys_cut(&piece->keys, 0);
}

/* Parses piece `index`, from the end of the previous rows if known; pieces of a given size (tests) always guess. */
static tri_status parse_piece(pass *pass, reader *r, int64_t index, slot *to) {
    const tri_table *table = pass->table;
    tri_table_piece *piece = &to->piece;
    clear(piece);
    piece->begin = table->begin + (uint64_t)index * pass->piece;
    piece->end = table->end - piece->begin > pass->piece ? piece->begin + pass->piece : table->end;
    piece->only_first_bad = table->options.bad_rows == TRI_BAD_ROWS_FAIL;
    to->first = UINT64_MAX;
    if (atomic_load(&pass->status) != TRI_OK || atomic_load(&pass->full)) return TRI_OK;
    if (index == 0 || (atomic_load(&pass->joined) == index && !table->options.piece)) {
        if (pass->next > piece->end) return TRI_OK;
        to->first = pass->next;
        TRI_TRY(begin_window(r, to->first));
        return parse_rows(r, 0, piece);
    }
    TRI_TRY(begin_window(r, piece->begin));
    size_t from = table->format->guess(table, &r->window, (size_t)(piece->end - piece->begin));
    if (from == SIZE_MAX) return TRI_OK;
    to->first = piece->begin + from;
    return parse_rows(r, from, piece);
}

/* Describes the bad rows of a piece, or fails with the first. */
static tri_status take_bad(tri_table *table, const tri_table_piece *piece) {
    if (piece->bad && piece->only_first_bad) return tri__table_faulty(table, &piece->fault[0]);
    if (!piece->bad) return TRI_OK;
    int64_t *after = realloc(table->bad_after, (size_t)(table->bad + piece->bad + 1) * sizeof *after);
    if (!after) return tri__table_no_memory(table);
    table->bad_after = after;
    for (int64_t i = 0; i < piece->bad; i++) after[table->bad + i] = table->rows + piece->bad_after[i];
    table->bad += piece->bad;
    for (int64_t i = 0; i < piece->bad && table->described < TRI_TABLE_DESCRIBED; i++) {
        const tri_fault *fault = &piece->fault[i];
        tri_bad_row *rows = realloc(table->bad_row, (size_t)(table->described + 1) * sizeof *rows);
        if (!rows) return tri__table_no_memory(table);
        table->bad_row = rows;
        TRI_TRY(tri__source_line(table, fault->at, &table->line));
        char *why = strdup(fault->why);
        if (!why) return tri__table_no_memory(table);
        rows[table->described++] = (tri_bad_row){table->line.number, (int64_t)(fault->at - table->line.begin) + 1, why};
    }
    return TRI_OK;
}

static tri_status copy_rows(tri_table *table, const tri_table_piece *piece) {
    size_t need = (size_t)(table->rows + piece->rows) + 1, room = table->room_rows;
    uint64_t **first = &table->first_value;
    if ((*first && !tri__grow(first, &room, need, sizeof **first)) ||
        !tri__grow(&table->row, &table->room_rows, need, sizeof *table->row) ||
        !tri__grow(&table->value, &table->room_values, table->values + piece->values, sizeof *table->value))
        return tri__table_no_memory(table);
    for (int64_t i = table->rows; *first && i < table->rows + piece->rows; i++)
        (*first)[i + 1] = (*first)[i] + piece->count[i - table->rows];
    if (piece->rows) memcpy(table->row + table->rows, piece->row, (size_t)piece->rows * sizeof *table->row);
    if (piece->values) table->format->copy(piece, table->value + table->values);
    table->rows += piece->rows;
    table->values += piece->values;
    return TRI_OK;
}

/* Drops rows beyond the budget, and all that follow. Columns of JSON lines are those seen so far. */
static void cut_rows(pass *pass) {
    tri_table *table = pass->table;
    int64_t most = tri__table_most(table, table->columns ? table->columns : table->keys.n);
    if (table->rows < most || (table->rows == most && pass->next >= table->end)) return;
    table->rows = most, table->cut = 1;
    pass->next = table->end;
    atomic_store(&pass->full, 1);
}

/* Adds the next piece in order to the table. Parses it again if it did not start where the previous one ended. */
static tri_status join_piece(pass *pass, reader *r, slot *from) {
    tri_table_piece *piece = &from->piece;
    if (pass->next > piece->end || pass->next == pass->table->end) return TRI_OK;
    if (from->first != pass->next) {
        clear(piece);
        TRI_TRY(begin_window(r, pass->next));
        from->status = parse_rows(r, 0, piece);
    }
    TRI_TRY(from->status);
    TRI_TRY(take_bad(pass->table, piece));
    if (pass->table->format->join) TRI_TRY(pass->table->format->join(pass->table, piece));
    pass->next = piece->next;
    TRI_TRY(copy_rows(pass->table, piece));
    cut_rows(pass);
    return TRI_OK;
}

/* Marks a slot as ready and joins all pieces that are next in order. */
static void hand_in(pass *pass, reader *r, slot *done) {
    TRI_LOCKED(&pass->lock);
    done->ready = 1;
    for (slot *next; (next = &pass->slots[atomic_load(&pass->joined) % pass->n_slots])->ready;
         atomic_fetch_add(&pass->joined, 1)) {
        next->ready = 0;
        if (atomic_load(&pass->status) != TRI_OK) continue;
        tri_status status = join_piece(pass, r, next);
        if (status == TRI_OK) continue;
        atomic_store(&pass->status, status);
        snprintf(pass->error, sizeof pass->error, "%s", tri_error());
    }
    pthread_cond_broadcast(&pass->room);
}

/* One thread's work: piece after piece. No deadlock: the first piece not joined always belongs to a thread that does
 * not wait. */
static void work(pass *pass) {
    reader r = {.table = pass->table};
    for (int64_t i; (i = atomic_fetch_add(&pass->taken, 1)) < pass->pieces;) {
        pthread_mutex_lock(&pass->lock);
        while (i - atomic_load(&pass->joined) >= pass->n_slots) pthread_cond_wait(&pass->room, &pass->lock);
        pthread_mutex_unlock(&pass->lock);
        slot *to = &pass->slots[i % pass->n_slots];
        to->status = parse_piece(pass, &r, i, to);
        hand_in(pass, &r, to);
    }
    free(r.text);
}

/* Small enough for the threads to share the work evenly. */
static uint64_t piece_bytes(const tri_table *table) {
    uint64_t share = (table->end - table->begin) / (8 * (uint64_t)table->options.threads);
    if (table->options.piece) share = table->options.piece;
    else if (share < LEAST_PIECE) share = LEAST_PIECE;
    return share < PIECE ? share : PIECE;
}

tri_status tri__table_read(tri_table *table) {
    int threads = table->options.threads;
    pass pass = {
        .table = table, .piece = piece_bytes(table), .next = table->begin, .n_slots = threads > 1 ? EACH * threads : 1};
    pass.pieces = (int64_t)((table->end - table->begin + pass.piece - 1) / pass.piece);
    pass.slots = calloc((size_t)pass.n_slots, sizeof *pass.slots);
    if (!pass.slots) return tri__table_no_memory(table);
    pthread_mutex_init(&pass.lock, NULL);
    pthread_cond_init(&pass.room, NULL);
#pragma omp parallel num_threads(threads) if (threads > 1 && pass.pieces > 1)
    work(&pass);
    for (int i = 0; i < pass.n_slots; i++) free_piece(&pass.slots[i].piece);
    free(pass.slots);
    pthread_cond_destroy(&pass.room);
    pthread_mutex_destroy(&pass.lock);
    tri_status status = (tri_status)atomic_load(&pass.status);
    return status == TRI_OK ? TRI_OK : tri__fail(status, "%s", pass.error);
}
