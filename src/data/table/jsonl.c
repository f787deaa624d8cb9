/* jsonl.c - JSON lines: one flat object per line, strictly RFC 8259 (no NaN, no comments, no trailing commas). A row
 * stores the positions of its values, sorted by column; strings are validated now and decoded when their text is read.
 * Columns are numbered in order of first appearance in good rows: first within a piece, then, piece by piece, in the
 * table. */
#include "data/table/jsonl.h"
#include "data/table/table_parts.h"

/* The position of a value, relative to the row's start: a string including its quotes, anything else as it is. */
typedef struct entry {
    uint32_t column, begin, end;
} entry;

enum { WORDS = sizeof(entry) / sizeof(uint32_t) };

static int by_key(const void *a, const void *b) {
    const tri_jsonl_member *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->key_begin < y->key_begin ? -1 : x->key_begin > y->key_begin;
}

static int by_column(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->column < y->column ? -1 : x->column > y->column;
}

/* The number of a key in the piece; most objects have the keys of the first one, in its order. A key with an escape is
 * decoded before it is compared: undecoded, it may equal another key's decoded text. */
static int number_of(tri_keys *keys, const char *text, size_t length, int likely) {
    if (!memchr(text, '\\', length)) {
        int same = likely < keys->n && keys->key[likely].length == length &&
                   !memcmp(keys->text + keys->key[likely].at, text, length);
        return same ? likely : tri__keys_add(keys, text, length);
    }
    TRI_OWNED(tri__free_at) char *plain = malloc(length);
    if (!plain) return -1;
    memcpy(plain, text, length);
    return tri__keys_add(keys, plain, tri__jsonl_decode(plain, length));
}

/* Numbers the members' keys. A duplicate key is a fault, and the piece's keys are then unchanged. */
static int number_keys(tri_table_piece *piece, tri_jsonl_line *line) {
    int before = piece->keys.n, sorted = 1;
    for (uint32_t i = 0; i < line->n; i++) {
        tri_jsonl_member *m = &line->member[i];
        int number = number_of(&piece->keys, line->text + m->key_begin, m->key_end - m->key_begin, (int)i);
        if (number < 0) {
            piece->no_memory = 1;
            return 0;
        }
        m->key = (uint32_t)number;
        if (i && m->key <= m[-1].key) sorted = 0;
    }
    if (sorted) return 1;
    qsort(line->member, line->n, sizeof *line->member, by_key);
    uint32_t twice = 0;
    for (uint32_t i = 1; i < line->n; i++) {
        const tri_jsonl_member *m = &line->member[i];
        if (m->key == m[-1].key && (!twice || m->key_begin < line->member[twice].key_begin)) twice = i;
    }
    if (!twice) return 1;
    tri__keys_cut(&piece->keys, before);
    const tri_jsonl_member *m = &line->member[twice];
    tri__jsonl_blame(line, m->key_begin - 1, "key \"%.*s\" appears twice in the object", tri__jsonl_shown(line, m),
                     line->text + m->key_begin);
    return 0;
}

/* Adds the line text[row, end) to the piece, as a row or as a fault. */
static void add_line(const tri_window *window, size_t row, size_t end, tri_jsonl_line *line, tri_table_piece *piece) {
    line->text = window->text + row, line->size = end - row, line->base = window->base + row;
    if (!tri__jsonl_line(line)) piece->no_memory = 1;
    if (!line->why[0] && !piece->no_memory) number_keys(piece, line);
    if (piece->no_memory || !tri__piece_room(piece, 1, (size_t)line->n * WORDS)) return;
    if (line->why[0]) {
        tri__piece_bad(piece, line->base + line->wrong, "%s", line->why);
        return;
    }
    entry *to = (entry *)(piece->value + piece->values);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < line->n; i++) {
        const tri_jsonl_member *m = &line->member[i];
        if (m->end) to[kept++] = (entry){m->key, m->begin, m->end};
    }
    piece->row[piece->rows] = window->base + row;
    piece->count[piece->rows++] = kept * WORDS;
    piece->values += (size_t)kept * WORDS;
}

static void parse(const tri_table *table, const tri_window *window, size_t row, tri_table_piece *piece) {
    (void)table;
    size_t last = piece->end - window->base < window->size ? (size_t)(piece->end - window->base) : window->size;
    tri_jsonl_line line = {0};
    piece->cut = 0;
    while (row <= last && row < window->size && !piece->no_memory && !(piece->bad && piece->only_first_bad)) {
        const char *feed = memchr(window->text + row, '\n', window->size - row);
        piece->cut = !feed && !window->last;
        if (piece->cut && window->size - row <= TRI_LIMIT_CSV_ROW) break;
        size_t end = feed ? (size_t)(feed - window->text) : window->size, next = end + (feed != NULL);
        if (next - row > TRI_LIMIT_CSV_ROW)
            tri__piece_bad(piece, window->base + row, "row is longer than %d MiB", TRI_LIMIT_CSV_ROW >> 20);
        else add_line(window, row, end, &line, piece);
        piece->skipping = piece->cut;
        row = next;
    }
    free(line.member);
    piece->next = window->base + row;
}

static size_t skip(const tri_table *table, const tri_window *window, int *state) {
    (void)table, (void)state;
    const char *feed = memchr(window->text, '\n', window->size);
    return feed ? (size_t)(feed - window->text) + 1 : window->last ? window->size : SIZE_MAX;
}

static size_t guess(const tri_table *table, const tri_window *window, size_t end) {
    int state = 1;
    size_t found = skip(table, window, &state);
    return found <= end ? found : SIZE_MAX;
}

static tri_status join(tri_table *table, tri_table_piece *piece) {
    if (piece->keys.n == 0) return TRI_OK;
    uint32_t *column = realloc(piece->column, (size_t)piece->keys.n * sizeof *column);
    if (!column) return tri__table_no_memory(table);
    piece->column = column;
    for (int i = 0; i < piece->keys.n; i++) {
        int number = tri__keys_add(&table->keys, piece->keys.text + piece->keys.key[i].at, piece->keys.key[i].length);
        if (number < 0) return tri__table_no_memory(table);
        if (number >= TRI_LIMIT_COLUMNS)
            return tri__fail(TRI_DATA, "%s: its objects have more than %d different keys", table->path,
                             TRI_LIMIT_COLUMNS);
        column[i] = (uint32_t)number;
    }
    return TRI_OK;
}

static void copy(const tri_table_piece *piece, uint32_t *to) {
    const entry *from = (const entry *)piece->value;
    entry *row = (entry *)to;
    for (int64_t r = 0; r < piece->rows; r++) {
        uint32_t n = piece->count[r] / WORDS, sorted = 1;
        for (uint32_t i = 0; i < n; i++) {
            row[i] = (entry){piece->column[from[i].column], from[i].begin, from[i].end};
            if (i && row[i].column < row[i - 1].column) sorted = 0;
        }
        if (!sorted) qsort(row, n, sizeof *row, by_column);
        from += n, row += n;
    }
}

static const entry *entries(const tri_table *table, int64_t row, uint64_t *n) {
    *n = (table->first_value[row + 1] - table->first_value[row]) / WORDS;
    return (const entry *)(table->value + table->first_value[row]);
}

static int span(const tri_table *table, int64_t row, int column, uint32_t *begin, uint32_t *end) {
    uint64_t n, low = 0, want = (uint64_t)column;
    const entry *e = entries(table, row, &n);
    if (want < n && e[want].column == want) {
        low = want;
    } else {
        for (uint64_t high = n; low < high;) {
            uint64_t middle = (low + high) / 2;
            if (e[middle].column < want) low = middle + 1;
            else high = middle;
        }
        if (low == n || e[low].column != want) return 0;
    }
    *begin = e[low].begin, *end = e[low].end;
    return 1;
}

static size_t length(const tri_table *table, int64_t row) {
    uint64_t n;
    const entry *e = entries(table, row, &n);
    size_t end = 0;
    for (uint64_t i = 0; i < n; i++)
        if (e[i].end > end) end = e[i].end;
    return end;
}

static void decode(const tri_table *table, int64_t row, char *text) {
    uint64_t n;
    const entry *e = entries(table, row, &n);
    for (uint64_t i = 0; i < n; i++) {
        char *string = text + e[i].begin + 1;
        if (e[i].end - e[i].begin < 2 || string[-1] != '"') continue;
        size_t size = e[i].end - e[i].begin - 2;
        if (!memchr(string, '\\', size)) continue;
        size_t kept = tri__jsonl_decode(string, size);
        memset(string + kept, 0, size + 1 - kept);
    }
}

static tri_status open_jsonl(tri_table *table) {
    TRI_TRY(tri__text_begin(table));
    table->first_value = calloc(1, sizeof *table->first_value);
    if (!table->first_value) return tri__table_no_memory(table);
    TRI_TRY(tri__table_trim(table, &table->end));
    TRI_TRY(tri__table_read(table));
    TRI_TRY(tri__table_take_keys(table, &table->keys));
    return tri__text_ready(table);
}

const tri_format tri__format_jsonl = {TRI_TEXT_TABLE, .endings = " .jsonl .ndjson", .shared = " .json", .objects = 1,
                                      .expected = "one JSON object a line was expected", .open = open_jsonl,
                                      .guess = guess, .parse = parse, .skip = skip, .join = join, .copy = copy,
                                      .length = length, .span = span, .decode = decode};
