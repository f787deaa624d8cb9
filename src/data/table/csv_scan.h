/* csv_scan.h - parses records of CSV 64 bytes at a time: the body that is compiled for each vector instruction set. The
 * including file defines `look`, which returns bit masks of the quotes, delimiters and line feeds in 64 bytes.
 *
 * The prefix exclusive-or of the quote mask marks bytes inside quotes. This is valid only if every opening quote is at
 * the start of a field (or directly after a closing one: a doubled quote) and every closing quote is at the end of one.
 * For any record that is not so plain, tri__csv_record takes over. After Langdale and Lemire, Parsing gigabytes of JSON
 * per second (2019), and simdcsv. */
#include "data/table/csv.h"
#include "data/text/utf8_block.h"

typedef struct marks {
    uint64_t quote, delimiter, feed;
    int rare; /* the block contains a carriage return, a 0 byte or a non-ASCII byte */
} marks;

typedef struct rare_marks {
    uint64_t carriage, zero, high;
} rare_marks;

static inline void look(const char *text, char delimiter, marks *out);
static inline void look_closer(const char *text, rare_marks *out);

/* State carried over from earlier blocks; single bits are the lowest. */
typedef struct carry {
    uint64_t inside;    /* all bits: within quotes */
    uint64_t ended;     /* the last byte ended a field */
    uint64_t closed;    /* the last byte was a closing quote */
    uint64_t carriage;  /* the last byte was a carriage return outside of quotes */
    int high;           /* the last block was not all ASCII */
    size_t over;        /* bytes of the next block that complete a character of the last */
} carry;

static inline uint64_t running_xor(uint64_t bits) {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    return bits ^ bits << 32;
}

/* Mask of bytes that are not UTF-8. `first`: nothing precedes the block. */
static inline uint64_t wrong_utf8(const char *text, int first, carry *c) {
#ifdef TRI_UTF8_VECTOR
    static const char nothing[16];
    (void)c;
    return tri_utf8_wrong(text, first ? nothing : text - 16);
#else
    (void)first;
    size_t at = c->over;
    while (at < 64)
        if (tri__utf8_next(text, 64 + 3, &at) < 0) return (uint64_t)1 << (at - 1);
    c->over = at - 64;
    return 0;
#endif
}

/* Mask of faults in a block with rare bytes, or after one: each is at or after the faulty byte. */
static __attribute__((noinline)) uint64_t wrong_rarely(const char *text, int first, const marks *m, uint64_t inside,
                                                       uint64_t close, carry *c) {
    rare_marks r;
    look_closer(text, &r);
    uint64_t loose = r.carriage & ~inside, wrong = r.zero | ((loose << 1 | c->carriage) & ~m->feed);
    wrong |= (close << 1 | c->closed) & ~(m->delimiter | m->feed | m->quote | r.carriage);
    if (r.high || c->high) wrong |= wrong_utf8(text, first, c);
    c->carriage = loose >> 63;
    c->high = r.high != 0;
    return wrong;
}

/* Adds complete plain records from text[row] on. Returns the start of the first that is not plain, not complete, or
 * starts after text[last]. */
static size_t plain_records(const tri_table *table, const tri_window *window, size_t row, size_t last,
                            tri_table_piece *piece) {
    const size_t start = row, size = window->size, columns = (size_t)table->columns;
    const char *text = window->text;
    size_t k = piece->values;
    carry c = {.ended = 1};
    for (size_t block = start; block < size; block += 64) {
        if (piece->room_values < k + 64 || piece->room_rows < (size_t)piece->rows + 64)
            if (!tri__piece_room(piece, 64, k - piece->values + 64)) return row;
        uint32_t *value = piece->value;
        marks m;
        look(text + block, table->delimiter, &m);
        uint64_t inside = running_xor(m.quote) ^ c.inside, open = m.quote & inside, close = m.quote & ~inside;
        uint64_t ends = (m.delimiter | m.feed) & ~inside;
        uint64_t wrong = open & ~((ends | close) << 1 | c.ended | c.closed);
        if (m.rare | c.high | (int)c.carriage)
            wrong |= wrong_rarely(text + block, block == start, &m, inside, close, &c);
        else wrong |= (close << 1 | c.closed) & ~(m.delimiter | m.feed | m.quote);
        if (size - block < 64) wrong &= ((uint64_t)1 << (size - block)) - 1;
        for (uint64_t todo = ends & ((wrong & -wrong) - 1); todo; todo &= todo - 1) {
            int bit = __builtin_ctzll(todo);
            size_t at = block + (size_t)bit;
            value[k++] = (uint32_t)(at - row);
            if (!(m.feed >> bit & 1)) continue;
            if (k - piece->values != columns || at - row >= TRI_LIMIT_CSV_ROW) return row;
            if (at > row && text[at - 1] == '\r') value[k - 1]--;
            piece->row[piece->rows++] = window->base + row;
            piece->values = k;
            row = at + 1;
            if (row > last) return row;
        }
        if (wrong) return row;
        if (k - piece->values > columns) k = piece->values + columns + 1; /* already too many: no need to keep them */
        c.inside = (uint64_t)((int64_t)inside >> 63), c.ended = ends >> 63, c.closed = close >> 63;
    }
    return row;
}

static inline void scan_records(const tri_table *table, const tri_window *window, size_t row, tri_table_piece *piece) {
    size_t last = piece->end - window->base < window->size ? (size_t)(piece->end - window->base) : window->size;
    tri_csv_end end = TRI_CSV_GOOD;
    while (end == TRI_CSV_GOOD || (end == TRI_CSV_BAD && !piece->only_first_bad)) {
        row = plain_records(table, window, row, last, piece);
        if (row > last || row >= window->size || piece->no_memory) break;
        end = tri__csv_record(table, window, row, piece, &row);
    }
    piece->cut = end == TRI_CSV_CUT;
    piece->next = window->base + row;
}
