/* table_parts.h - internals of a table: the file's bytes (table_source.c), the formats (formats.h); of text, the
 * parallel pass that finds the rows (table_read.c), and the text of rows (table_text.c).
 *
 * The file is divided into pieces. Each piece yields the rows that start in it, and reads past its end to finish the
 * last. A thread parses a piece window by window; a window fits in its cache. The start of a piece's first row is
 * guessed from its own bytes; pieces are then joined in order, and a piece whose guess was wrong is parsed again from
 * where the previous row really ended. So the result equals that of one thread, whatever the pieces and guesses. */
#pragma once

#include "data/table/table.h"
#include "data/table/unpack.h"

#include <stdatomic.h>
#include <sys/stat.h>

enum {
    TRI_TABLE_PAD = 64,       /* bytes that may be read beyond a window's end */
    TRI_TABLE_DESCRIBED = 100, /* bad rows that are described */
    TRI_TABLE_BLOCK = 64,     /* rows whose text is read and freed together */
    TRI_TABLE_WHY = 192       /* bytes of a fault's description */
};

/* A file that is read by position, never mapped: a map of a file that shrinks is a SIGBUS. */
typedef struct tri_source {
    int fd;
    uint64_t size;
    struct stat info;        /* when it was opened */
    const char *memory;      /* its bytes, where they are no file's; else NULL */
    const struct tri_image *image; /* likewise, of a table in memory */
    void *own;               /* freed with it; may be NULL */
} tri_source;

tri_status tri__source_open(tri_source *source, const char *path);
void tri__source_close(tri_source *source);
/* Reads exactly `size` bytes from `at`: TRI_IO if the file has shrunk. */
tri_status tri__source_read(const tri_table *table, uint64_t at, char *to, size_t size);
/* TRI_IO if its size or modification time has changed since it was opened. */
tri_status tri__source_check(const tri_table *table);
/* A line, by number from 1, and its first byte. */
typedef struct tri_table_line {
    int64_t number;
    uint64_t begin;
} tri_table_line;
/* Advances *line to the line of byte `at`, which must not be before it. */
tri_status tri__source_line(const tri_table *table, uint64_t at, tri_table_line *line);

/* A part of the file in memory; its first byte begins a row. */
typedef struct tri_window {
    const char *text;        /* [size + TRI_TABLE_PAD] */
    size_t size;
    uint64_t base;           /* offset of text[0] in the file */
    int last;                /* the table ends with the window */
} tri_window;

/* A malformed row. */
typedef struct tri_fault {
    uint64_t at;             /* offset in the file, for the message */
    char why[TRI_TABLE_WHY];
} tri_fault;

/* Distinct names, numbered in order of insertion. */
typedef struct tri_keys {
    int n;
    size_t room;
    struct {
        size_t at, length;   /* in text */
        uint64_t hash;
    } *key;                  /* [n] */
    char *text;
    size_t used, room_text;
    uint32_t *slot; /* [slots], a key's number + 1, 0: free; slots is a power of two, at most half are used */
    size_t slots;
} tri_keys;

/* The number of a name, which is added if new; -1 if out of memory. */
int tri__keys_add(tri_keys *keys, const char *text, size_t length);
/* Removes all but the first n. */
void tri__keys_cut(tri_keys *keys, int n);
void tri__keys_free(tri_keys *keys);

/* A piece and the rows found in it so far. */
typedef struct tri_table_piece {
    uint64_t begin, end;     /* the file's bytes: rows that start in (begin, end], the table's first also at begin */
    uint64_t next;           /* where the row after the last one starts */
    int cut;                 /* the row at `next` does not end in the window */
    int skipping;            /* not 0: `next` is the window's end, inside a row too long, in this state of its parser */
    int only_first_bad;      /* stop at the first bad row */
    int64_t rows;
    size_t room_rows, values, room_values;
    uint64_t *row;           /* [rows] where each starts in the file */
    uint32_t *count;         /* [rows] values of each, where they differ in that */
    uint32_t *value;         /* [values] as the format has them */
    int64_t bad;             /* rows */
    size_t room_bad;
    tri_fault *fault;        /* [min(bad, TRI_TABLE_DESCRIBED)] */
    int64_t *bad_after;      /* [bad] rows before each */
    size_t room_after;
    tri_keys keys;           /* JSON lines: the names of its rows' values */
    uint32_t *column;        /* [keys.n] the table's number of each */
    int no_memory;
} tri_table_piece;

/* Reserves space for more rows and values. 0, and no_memory is set, if out of memory. */
int tri__piece_room(tri_table_piece *piece, size_t rows, size_t values);
/* Records a malformed row. */
void tri__piece_bad(tri_table_piece *piece, uint64_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct tri_column_group;
struct tri_column_text;

/* A format of tables: one file, and its name in formats.h. Formats of text find rows with the functions of the second
 * group, formats of columns decode with those of the third; TRI_TEXT_TABLE and TRI_COLUMN_TABLE are what tables of each
 * can be asked for. */
typedef struct tri_format {
    const char *endings;     /* of its files' names, each with a blank before it, the usual one first: " .csv .tsv" */
    const char *shared;      /* such that files of other kinds have too: the last to be looked for; may be NULL */
    const char *magic, *called; /* of binary files: their first bytes; "a Parquet file" */
    const char *expected;    /* of text: what was expected, for the message on an empty file */
    int objects;             /* of text: a row may lack columns, and numbers stand without quotes */
    /* Sets columns and names, and finds the rows. */
    tri_status (*open)(tri_table *table);
    /* Rows and columns were checked by the caller. */
    tri_field_text (*field)(const tri_table *table, int64_t row, int column);
    int (*numbers)(const tri_table *table, int64_t first, int64_t count, int column, double *value); /* NULL: none */
    tri_status (*check)(const tri_table *table);
    void (*done)(const tri_table *table, int64_t first, int64_t count);
    /* Of several files, the one that has the row, and the row and column of that (-1: it has no such column); NULL: it
     * is one file. */
    const tri_table *(*within)(const tri_table *table, int64_t *row, int *column);
    void (*close)(tri_table *table); /* frees table->state, which may be NULL */

    /* ---- text ---- */
    /* Guesses where the first row after text[0] starts, at most `end`; text[0] may be anywhere in a row. SIZE_MAX:
     * none. */
    size_t (*guess)(const tri_table *table, const tri_window *window, size_t end);
    /* Adds the rows that start in text[from] up to piece->end, text[from] being the start of one. Sets next, cut,
     * skipping. */
    void (*parse)(const tri_table *table, const tri_window *window, size_t from, tri_table_piece *piece);
    /* Continues inside a row that is too long, in *state: returns where the next row starts; SIZE_MAX: not in this
     * window. */
    size_t (*skip)(const tri_table *table, const tri_window *window, int *state);
    /* Called for each piece in order, before its values are copied: numbers its new columns. NULL: nothing to do. */
    tri_status (*join)(tri_table *table, tri_table_piece *piece);
    /* Copies the piece's values to the table's `to`. */
    void (*copy)(const tri_table_piece *piece, uint32_t *to);
    /* Bytes of a row, up to its last field's end. */
    size_t (*length)(const tri_table *table, int64_t row);
    /* A field's position, relative to its row's start; 0 if the row has none. */
    int (*span)(const tri_table *table, int64_t row, int column, uint32_t *begin, uint32_t *end);
    /* Decodes a row's text in place: each quoted field's content stays after its opening quote, and 0 bytes fill the
     * rest of its span. A field without escapes stays unchanged. */
    void (*decode)(const tri_table *table, int64_t row, char *text);

    /* ---- columns (columnar.h); `state` is what tri__columns_begin was given ---- */
    /* Decodes a column of a group into out->text, field and bytes, all 0 before; what they point to is freed also if
     * this fails. May be called by several threads. A failure is reported by tri__table_check, with its words. */
    tri_status (*load)(const tri_table *table, void *state, const struct tri_column_group *group, int column,
                       int as_numbers, struct tri_column_text *out);
    int (*has_numbers)(const void *state, int column); /* whether the texts of a column are numbers */
    void (*free)(void *state);
} tri_format;

/* table_text.c */
tri_field_text tri__text_field(const tri_table *table, int64_t row, int column);
tri_status tri__text_check(const tri_table *table);
void tri__text_done(const tri_table *table, int64_t first, int64_t count);
void tri__text_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at);
void tri__text_close(tri_table *table);
#define TRI_TEXT_TABLE \
    .field = tri__text_field, .check = tri__text_check, .done = tri__text_done, .close = tri__text_close

/* columnar.c */
tri_field_text tri__columns_field(const tri_table *table, int64_t row, int column);
int tri__columns_numbers(const tri_table *table, int64_t first, int64_t count, int column, double *value);
tri_status tri__columns_check(const tri_table *table);
void tri__columns_done(const tri_table *table, int64_t first, int64_t count);
void tri__columns_close(tri_table *table);
#define TRI_COLUMN_TABLE \
    .field = tri__columns_field, .numbers = tri__columns_numbers, .check = tri__columns_check, \
    .done = tri__columns_done, .close = tri__columns_close

/* The text of some rows, read on first use. */
typedef struct tri_table_block {
    char **row;              /* [TRI_TABLE_BLOCK], each row's text; stored after this array */
    _Atomic int state;       /* 1: it is in memory */
} tri_table_block;

struct tri_table {
    char *path;
    tri_source source;
    const tri_format *format; /* NULL before it is known */
    void *state;             /* of columnar.c, parts.c */
    tri_table_options options;
    char delimiter;          /* of CSV; 0: JSON lines */
    int recognised;          /* the delimiter was detected, and is not a comma */
    uint64_t top;            /* the first byte after a byte-order mark: line 1 */
    uint64_t begin, end;     /* the rows' bytes in the file */
    int columns;
    char **name;             /* [columns] */
    char **unread;           /* [columns] why a column cannot be read, NULL: it can */
    const char **type;       /* [columns] what its values are, in words that last, NULL: text */
    int64_t rows;
    int cut;                 /* rows beyond the budget were not read */
    size_t room_rows, room_values;
    uint64_t *row;           /* [rows] where each starts in the file */
    uint64_t *first_value;   /* [rows + 1] of each; NULL where a row has `columns` values (CSV) */
    uint64_t values;
    uint32_t *value;         /* CSV: [rows, columns] where each field ends, from its row's start */
    tri_keys keys;           /* JSON lines: the names of the columns */
    tri_table_block *block;        /* [rows / TRI_TABLE_BLOCK, rounded up] */
    pthread_mutex_t lock;    /* for reading blocks */
    _Atomic int lost;        /* some row's text could not be read again */
    int64_t bad;
    int64_t *bad_after;      /* [bad] rows before each, in file order */
    int described;
    tri_bad_row *bad_row;    /* [described] */
    tri_table_line line;           /* of the last one described */
};

/* Makes room for n columns, and adds one by its name. */
tri_status tri__table_make_columns(tri_table *table, size_t n);
tri_status tri__table_add_column(tri_table *table, const char *name, size_t length);
/* Its columns are those of the keys, in their order. */
tri_status tri__table_take_keys(tri_table *table, const tri_keys *keys);
/* TRI_DATA if two columns have the same name; `advice` ends the message. */
tri_status tri__table_check_names(const tri_table *table, const char *advice);
/* Rows of so many columns that its budget allows. */
int64_t tri__table_most(const tri_table *table, int columns);
/* Where a format's text begins and ends, and whether it is one at all. */
tri_status tri__text_begin(tri_table *table);
/* Finds the rows between begin and end. */
tri_status tri__table_read(tri_table *table);
/* Makes the rows' text available, once rows and columns are known. */
tri_status tri__text_ready(tri_table *table);
/* The text of a field's decoded span. */
tri_field_text tri__table_text(const char *text, size_t length);
tri_status tri__table_no_memory(const tri_table *table);
/* TRI_DATA with the place of byte `at`. */
tri_status tri__table_fail(const tri_table *table, uint64_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* TRI_DATA for a malformed row: tri__table_fail, plus advice if the file is not UTF-8. */
tri_status tri__table_faulty(const tri_table *table, const tri_fault *fault);
/* TRI_DATA, naming the file's format, if it is not a table. */
tri_status tri__table_form(const tri_table *table);
/* Detects the delimiter of CSV. */
tri_status tri__table_separate(tri_table *table);
/* The end of the rows' bytes without trailing line ends of the file. */
tri_status tri__table_trim(const tri_table *table, uint64_t *end);

/* ---- packed.c: text tables that are compressed as a whole: train.csv.gz, train.jsonl.zst. They are unpacked once,
 * when they are opened, and read like any other text: into memory up to the size that is kept there, larger ones into a
 * file without a name. ---- */

/* The library that a name's ending (.gz, .zst) asks for; TRI_PACKERS: it is not compressed. *stem: the name's length
 * without the ending. */
tri_packer tri__packed_name(const char *path, size_t *stem);
/* ".gz"; NULL: names of tables do not end like that. */
const char *tri__packed_ending(tri_packer packer);
/* The program that unpacks it: "gunzip -k". */
const char *tri__packed_program(tri_packer packer);
/* Unpacks the source; it then holds the text. TRI_DATA "file: damaged at byte N: ..."; TRI_USAGE: this build lacks the
 * library. */
tri_status tri__packed_open(tri_table *table, tri_packer packer);
