/* csv.c - CSV as in RFC 4180, and TSV, which is the same with tabs. A quote inside an unquoted field is data, as in
 * Python's csv; a carriage return outside quotes must end a line. A record ends at the first line feed outside quotes,
 * even if it is malformed: after a closing quote that does not end its field, the rest of the field counts as
 * unquoted. */
#include "data/table/csv.h"

/* Parser states within a record. Not 0: tri_table_piece.skipping stores one. */
enum { START = 1, UNQUOTED, QUOTED, CLOSED };

/* A record being parsed. */
typedef struct record {
    const tri_table *table;
    const tri_window *window;
    size_t row, at;
    size_t character;   /* start of the character at `at` */
    int state;
    size_t quote;       /* start of the quoted field */
    int64_t fields;     /* ended so far */
    uint32_t *end;      /* [limit], ends of fields, relative to the row's start */
    int64_t limit;
    tri_fault fault;    /* the first; why[0] = 0: none */
} record;

__attribute__((format(printf, 3, 4))) static void blame(record *r, size_t at, const char *format, ...) {
    if (r->fault.why[0]) return;
    r->fault.at = r->window->base + at;
    TRI_FORMAT(r->fault.why, sizeof r->fault.why, format);
}

static void end_field(record *r, size_t at) {
    if (r->fields < r->limit) r->end[r->fields] = (uint32_t)(at - r->row);
    r->fields++;
    r->state = START;
}

/* Handles a byte that is neither quoted nor plain text. 1: the record ends before it, and *next is the start of the
 * next one. 2: the window ends before that is known. */
static int special(record *r, char byte, size_t *next) {
    const tri_window *w = r->window;
    if (byte == r->table->delimiter) {
        end_field(r, r->at);
    } else if (byte == '\n') {
        end_field(r, r->at);
        *next = r->at + 1;
        return 1;
    } else if (byte == '\r') {
        if (r->at + 1 == w->size && !w->last) {
            r->state = UNQUOTED; /* for a skipped row: a line feed still ends it */
            return 2;
        }
        if (r->at + 1 < w->size && w->text[r->at + 1] == '\n') {
            end_field(r, r->at);
            *next = r->at + 2;
            return 1;
        }
        blame(r, r->at, "carriage return without a line feed; quote the field or use LF or CRLF line ends");
        r->state = UNQUOTED;
    } else if (r->state == CLOSED) {
        blame(r, r->character, "characters after the closing quote; quotes inside a field are doubled");
        r->state = UNQUOTED;
    } else {
        r->state = UNQUOTED;
    }
    return 0;
}

/* Checks 0 bytes and non-ASCII characters, and advances past them. 2: the window ends before the result is known. */
static int check_byte(record *r, char byte) {
    const tri_window *w = r->window;
    if (byte == 0) {
        blame(r, r->at, "NUL byte at byte offset %llu; is this a text file?", (unsigned long long)(w->base + r->at));
        return 0;
    }
    size_t next = r->at;
    if (tri__utf8_next(w->text, w->size, &next) >= 0) {
        r->at = next - 1; /* the caller advances past a character's last byte */
        return 0;
    }
    if (w->size - r->at < 4 && !w->last) return 2;
    blame(r, r->at, "invalid UTF-8 byte 0x%02x at byte offset %llu; save the file as UTF-8", (unsigned char)byte,
          (unsigned long long)(w->base + r->at));
    return 0;
}

static void check_length(record *r) {
    if (r->at - r->row < TRI_LIMIT_CSV_ROW || r->fault.why[0]) return;
    if (r->state == QUOTED)
        blame(r, r->quote, "quoted field is not closed within %d MiB, the longest row; it begins here",
              TRI_LIMIT_CSV_ROW >> 20);
    else blame(r, r->row, "row is longer than %d MiB", TRI_LIMIT_CSV_ROW >> 20);
}

/* Continues to the record's end. 1: *next is the start of the next record; 2: the window ends first. */
static int walk(record *r, size_t *next) {
    const tri_window *w = r->window;
    for (; r->at < w->size; r->at++) {
        check_length(r);
        r->character = r->at;
        if ((signed char)w->text[r->at] <= 0 && !r->fault.why[0] && check_byte(r, w->text[r->at])) return 2;
        char byte = w->text[r->at];
        if (r->state == QUOTED) {
            if (byte == '"') r->state = CLOSED;
        } else if (byte == '"' && r->state == START) {
            r->state = QUOTED, r->quote = r->at;
        } else if (byte == '"' && r->state == CLOSED) {
            r->state = QUOTED;
        } else {
            int done = special(r, byte, next);
            if (done) return done;
        }
    }
    if (!w->last) return 2;
    check_length(r);
    if (r->state == QUOTED) blame(r, r->quote, "quoted field is never closed; it begins here");
    end_field(r, r->at);
    *next = r->at;
    return 1;
}

tri_csv_end tri__csv_record(const tri_table *table, const tri_window *window, size_t row, tri_table_piece *piece,
                            size_t *next) {
    size_t columns = (size_t)table->columns;
    *next = row;
    if (!tri__piece_room(piece, 1, columns)) return TRI_CSV_BAD;
    record r = {.table = table, .window = window, .row = row, .at = row, .state = START,
                .end = piece->value + piece->values, .limit = table->columns};
    if (walk(&r, next) == 2) {
        /* Eight bytes beyond the limit, in case the window ends within a character: the fault is certain. */
        if (window->size - row < TRI_LIMIT_CSV_ROW + 8) return TRI_CSV_CUT;
        tri__piece_bad(piece, r.fault.at, "%s", r.fault.why);
        piece->skipping = r.state;
        *next = window->size;
        return TRI_CSV_CUT;
    }
    if (r.fields != table->columns)
        blame(&r, row, "row has %lld field%s, the header has %d", (long long)r.fields, r.fields == 1 ? "" : "s",
              table->columns);
    if (r.fault.why[0]) {
        tri__piece_bad(piece, r.fault.at, "%s", r.fault.why);
        return TRI_CSV_BAD;
    }
    piece->row[piece->rows++] = window->base + row;
    piece->values += columns;
    return TRI_CSV_GOOD;
}

static size_t skip(const tri_table *table, const tri_window *window, int *state) {
    record r = {.table = table, .window = window, .state = *state, .fault.why = "known"};
    size_t next;
    if (walk(&r, &next) == 1) return next;
    *state = r.state;
    return SIZE_MAX;
}

/* Parses from the window's front, assuming that it is inside or outside quotes: counts misplaced quotes, and finds the
 * first record's start. */
static int try_from(const tri_table *table, const tri_window *window, size_t size, int state, size_t *first) {
    int doubts = 0;
    *first = SIZE_MAX;
    for (size_t at = 0; at < size; at++) {
        char byte = window->text[at];
        if (byte == '"') {
            doubts += state == UNQUOTED;
            state = state == QUOTED ? CLOSED : state == UNQUOTED ? UNQUOTED : QUOTED;
        } else if (state != QUOTED) {
            if (byte == '\n' && *first == SIZE_MAX) *first = at + 1;
            doubts += state == CLOSED && byte != table->delimiter && byte != '\n' && byte != '\r';
            state = byte == table->delimiter || byte == '\n' ? START : byte == '\r' ? state : UNQUOTED;
        }
    }
    return doubts;
}

/* The wrong one of the two assumptions soon finds a quote that opens or closes in the middle of text. */
static size_t guess(const tri_table *table, const tri_window *window, size_t end) {
    enum { ENOUGH = 8192 };
    size_t size = window->size < ENOUGH ? window->size : ENOUGH, first[2];
    int outside = try_from(table, window, size, UNQUOTED, &first[0]);
    int inside = try_from(table, window, size, QUOTED, &first[1]);
    size_t found = first[inside < outside];
    if (found == SIZE_MAX) try_from(table, window, window->size, inside < outside ? QUOTED : UNQUOTED, &found);
    return found <= end ? found : SIZE_MAX;
}

static void parse(const tri_table *table, const tri_window *window, size_t from, tri_table_piece *piece) {
#if defined(__aarch64__)
    tri__csv_scan_neon(table, window, from, piece);
#elif defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) tri__csv_scan_avx2(table, window, from, piece);
    else tri__csv_scan_sse2(table, window, from, piece);
#else
    tri__csv_scan_plain(table, window, from, piece);
#endif
}

static void copy(const tri_table_piece *piece, uint32_t *to) { memcpy(to, piece->value, piece->values * sizeof *to); }

static int span(const tri_table *table, int64_t row, int column, uint32_t *begin, uint32_t *end) {
    const uint32_t *ends = table->value + (uint64_t)row * (uint64_t)table->columns;
    *begin = column ? ends[column - 1] + 1 : 0;
    *end = ends[column];
    return 1;
}

static size_t length(const tri_table *table, int64_t row) {
    return table->value[(uint64_t)row * (uint64_t)table->columns + (uint64_t)table->columns - 1];
}

/* Removes the second quote of each doubled quote in a quoted field. */
static void decode_field(char *text, uint32_t begin, uint32_t end) {
    if (end - begin < 2 || text[begin] != '"') return;
    char *stop = text + end - 1, *to = memchr(text + begin + 1, '"', (size_t)(stop - text - begin - 1));
    if (!to) return;
    /* Copies each run up to and including a quote; skips the second quote. */
    for (const char *from = to; from < stop;) {
        const char *quote = memchr(from, '"', (size_t)(stop - from));
        size_t run = quote ? (size_t)(quote + 1 - from) : (size_t)(stop - from);
        memmove(to, from, run);
        to += run, from += run + (quote != NULL);
    }
    memset(to, 0, (size_t)(stop + 1 - to));
}

static void decode(const tri_table *table, int64_t row, char *text) {
    const uint32_t *end = table->value + (uint64_t)row * (uint64_t)table->columns;
    for (int c = 0; c < table->columns; c++) decode_field(text, c ? end[c - 1] + 1 : 0, end[c]);
}

/* Of names that occur twice, the first by their bytes is told. end: [columns], ends of the names. */
static tri_status check_names(const tri_table *table, const uint32_t *end) {
    for (int c = 1; c < table->columns; c++)
        if (!table->name[c][0])
            return tri__table_fail(table, table->top + end[c - 1] + 1,
                                   "column %d has no name; only the first may have none", c + 1);
    TRI_OWNED(tri__keys_free) tri_keys keys = {0};
    int twice = -1, failed = 0;
    for (int c = 0; c < table->columns; c++) {
        int before = keys.n;
        failed |= tri__keys_add(&keys, table->name[c], strlen(table->name[c])) < 0;
        if (keys.n == before && (twice < 0 || strcmp(table->name[c], table->name[twice]) < 0)) twice = c;
    }
    if (failed) return tri__table_no_memory(table);
    if (twice < 0) return TRI_OK;
    return tri__table_fail(table, table->top + end[twice - 1] + 1, "column name \"%.80s\" appears twice in the header",
                           table->name[twice]);
}

/* The column names from the header's text; end: [columns], where each ends. */
static tri_status take_names(tri_table *table, char *text, const uint32_t *end, int64_t fields) {
    if (fields > TRI_LIMIT_COLUMNS)
        return tri__table_fail(table, table->top + end[TRI_LIMIT_COLUMNS - 1] + 1, "more than %d columns",
                               TRI_LIMIT_COLUMNS);
    TRI_TRY(tri__table_make_columns(table, (size_t)fields));
    for (uint32_t begin = 0; table->columns < fields; begin = end[table->columns - 1] + 1) {
        decode_field(text, begin, end[table->columns]);
        tri_field_text name = tri__table_text(text + begin, end[table->columns] - begin);
        TRI_TRY(tri__table_add_column(table, name.text, name.length));
    }
    return check_names(table, end);
}

/* The header is a record of any number of fields; more of the file is read until the header is complete. */
static tri_status read_header(tri_table *table) {
    for (size_t room = 1 << 16;; room *= 4) {
        uint64_t left = table->source.size - table->top;
        tri_window window = {.size = left < room ? (size_t)left : room, .base = table->top, .last = left <= room};
        size_t fields_most = window.size < TRI_LIMIT_COLUMNS ? window.size + 1 : TRI_LIMIT_COLUMNS;
        TRI_OWNED(tri__free_at) char *text = malloc(window.size + 1);
        TRI_OWNED(tri__free_at) uint32_t *end = malloc(fields_most * sizeof *end);
        if (!text || !end) return tri__table_no_memory(table);
        TRI_TRY(tri__source_read(table, table->top, text, window.size));
        window.text = text;
        record r = {.table = table, .window = &window, .state = START, .end = end, .limit = (int64_t)fields_most};
        size_t next = 0;
        int cut = walk(&r, &next) == 2;
        if (cut && window.size < TRI_LIMIT_CSV_ROW + 8) continue;
        if (r.fault.why[0]) return tri__table_faulty(table, &r.fault);
        table->begin = table->top + next;
        TRI_TRY(take_names(table, text, end, r.fields));
        break;
    }
    /* In a table with one column, an empty line is a row with an empty field. */
    return table->columns > 1 ? tri__table_trim(table, &table->end) : TRI_OK;
}

/* The separator is what the caller says, or the ending .tsv, or what is detected. */
static tri_status open_csv(tri_table *table) {
    size_t stem;
    tri__packed_name(table->path, &stem);
    int tabs = stem >= 4 && !memcmp(table->path + stem - 4, ".tsv", 4);
    table->delimiter = table->options.separator ? table->options.separator : tabs ? '\t' : 0;
    TRI_TRY(tri__text_begin(table));
    if (!table->delimiter) TRI_TRY(tri__table_separate(table));
    TRI_TRY(read_header(table));
    TRI_TRY(tri__table_read(table));
    return tri__text_ready(table);
}

const tri_format tri__format_csv = {TRI_TEXT_TABLE, .endings = " .csv .tsv", .expected = "a header row was expected",
                                    .open = open_csv, .guess = guess, .parse = parse, .skip = skip, .copy = copy,
                                    .length = length, .span = span, .decode = decode};
