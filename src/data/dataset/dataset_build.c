/* dataset_build.c - builds the sections in passes over a table: one for numbers and labels, which also finds bad rows,
 * then one for each text. A pass processes a piece of rows at a time, divided into blocks of a fixed size; threads
 * process blocks, whose results are written in order, so nothing depends on the number of threads. */
#include "data/dataset/dataset_build.h"

#include "data/dataset/unseen.h"
#include "data/dataset/field_values.h"

enum { BLOCK = 64, PIECE_BLOCKS = 64, PIECE = BLOCK * PIECE_BLOCKS }; /* rows; blocks; rows */

/* A thread's result for one block of rows. */
typedef struct block {
    int32_t *ids;     /* [used] of one text, row after row */
    int64_t used;
    size_t room;
    tri_joined joined; /* texts of several columns */
    int64_t cut;      /* texts of the block with more windows than are kept */
    int failed;       /* out of memory */
} block;

typedef struct build {
    const tri_dataset_spec *spec;
    tri_fields fields;
    tri_store_writer *writer;
    tri_bad_list *bad;
    int64_t *cut;             /* of tri_built */
    int64_t room;             /* ids of a text at most */
    int64_t table_rows, rows; /* rows: kept so far */
    uint8_t *skip;            /* [table_rows] */
    const uint8_t *part;      /* [table_rows] tri_rows_for; NULL: the table is not divided */
    uint8_t *parts;           /* [rows] of kept rows; NULL likewise */
    int32_t *labels;          /* [table_rows, words], compacted: kept rows first; NULL: none */
    size_t words;             /* of a row's label */
    tri_unseen *unseen;       /* [parts, n_columns] */
    int weight;               /* column of the rows' weights; -1: none */
    size_t width;             /* numbers of a row, and its weight */
    float *numbers;           /* [PIECE, width] */
    int64_t *start;           /* [texts, rows + 1] of a section */
    block *blocks;            /* [PIECE_BLOCKS] */
} build;

static tri_status no_memory(const build *b) {
    return tri__fail(TRI_RESOURCE, "%s: out of memory while tokenising", b->spec->path);
}

void tri__bad_list_free(tri_bad_list *bad) {
    for (int i = 0; i < bad->n; i++) free((char *)bad->row[i].why);
    *bad = (tri_bad_list){0};
}

/* Keeps the list in file order and within its size. */
static tri_status list_bad(tri_bad_list *bad, int64_t line, int64_t column, const char *why) {
    int at = bad->n;
    for (const tri_bad_row *row = bad->row; at > 0; at--)
        if (row[at - 1].line < line || (row[at - 1].line == line && row[at - 1].column <= column)) break;
    if (at == TRI_BAD_DESCRIBED) return TRI_OK;
    char *copy = strdup(why);
    if (!copy) return tri__fail(TRI_RESOURCE, "out of memory");
    if (bad->n == TRI_BAD_DESCRIBED) free((char *)bad->row[--bad->n].why);
    memmove(bad->row + at + 1, bad->row + at, (size_t)(bad->n++ - at) * sizeof *bad->row);
    bad->row[at] = (tri_bad_row){line, column, copy};
    return TRI_OK;
}

/* A row with a bad field: fails, or records it. `described` counts those of this kind. */
static tri_status refuse(build *b, int64_t row, const tri_bad_field *field, int *described) {
    const tri_table *table = b->fields.table;
    if (b->spec->bad_rows == TRI_BAD_ROWS_FAIL) return tri__field_fail(table, row, field->column, field->what);
    b->skip[row] = 1;
    b->bad->count++;
    if (++*described > TRI_BAD_DESCRIBED) return TRI_OK;
    int64_t line, at;
    char text[1800];
    tri__table_where(table, row, field->column, &line, &at);
    return list_bad(b->bad, line, at, tri__field_words(table, row, field->column, field->what, text, sizeof text));
}

/* A row's weight. 0: it is not one. */
static int read_weight(const build *b, int64_t row, float *out) {
    double value = 0;
    tri_field_text field = tri__table_field(b->fields.table, row, b->weight);
    tri_number kind = tri__field_number(&b->fields.preprocess->reading, field, &value);
    int good = kind == TRI_NUMBER_GOOD && value >= 0 && value <= FLT_MAX;
    *out = good ? (float)value : 0;
    return good;
}

/* Diagnoses a row that the parallel pass marked. The piece's numbers are already written, so their buffer is free. */
static tri_bad_field explain(const build *b, int64_t row, char text[static 1100]) {
    tri_bad_field bad = {0};
    float weight;
    if (!tri__fields_numbers(&b->fields, row, b->numbers, &bad)) return bad;
    if (b->weight >= 0 && !read_weight(b, row, &weight))
        return (tri_bad_field){b->weight, "is not a weight: a number from 0"};
    return tri__label_fault(&b->fields, row, text, 1100);
}

/* Whether every row has a label; where labels are not required, a table may lack them altogether. */
static int has_labels(const build *b) {
    if (b->fields.label < 0) return 0;
    int64_t unknown = 0;
    for (int64_t row = 0; row < b->table_rows && !b->spec->need_labels && !unknown; row++) {
        unknown = !tri__label_read(&b->fields, row, NULL);
        tri__rows_passed(b->fields.table, row);
    }
    return !unknown;
}

/* Numbers and labels of the piece at `first`. */
static void read_piece(build *b, int64_t first, int64_t count) {
    size_t width = b->width;
#pragma omp parallel for schedule(static, BLOCK) num_threads(b->spec->threads)
    for (int64_t i = 0; i < count; i++) {
        tri_bad_field bad;
        int64_t row = first + i;
        float *numbers = b->numbers + (size_t)i * width; /* [width] */
        int good = tri__fields_numbers(&b->fields, row, numbers, &bad);
        if (b->weight >= 0) good &= read_weight(b, row, &numbers[width - 1]);
        if (b->labels) good &= tri__label_read(&b->fields, row, b->labels + (size_t)row * b->words);
        b->skip[row] = !good;
    }
}

/* Compacts the kept rows of a piece and writes their numbers. */
static tri_status write_piece(build *b, int64_t first, int64_t count) {
    size_t width = b->width;
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (b->skip[first + i]) continue;
        if (kept != i)
            memmove(b->numbers + (size_t)kept * width, b->numbers + (size_t)i * width, width * sizeof *b->numbers);
        if (b->labels)
            memmove(b->labels + (size_t)(b->rows + kept) * b->words, b->labels + (size_t)(first + i) * b->words,
                    b->words * sizeof *b->labels);
        if (b->parts) b->parts[b->rows + kept] = b->part[first + i];
        kept++;
    }
    b->rows += kept;
    return tri__store_append(b->writer, b->numbers, (size_t)kept * width * sizeof *b->numbers);
}

/* Counts the piece's values that training did not have, before its rows are compacted. */
static void count_unseen(build *b, int64_t first, int64_t count) {
    const tri_preprocess *p = b->fields.preprocess;
    for (int c = 0, at = 0; c < p->n_columns; at += p->column[c++].width)
        for (int64_t i = 0, row = first; i < count && p->column[c].category; i++, row++) {
            if (b->skip[row]) continue;
            tri_unseen *to = &b->unseen[(b->part ? b->part[row] : 0) * p->n_columns + c];
            int known = tri__category_known(&p->column[c], b->numbers + (size_t)i * b->width + at);
            to->values += known;
            if (known) continue;
            tri_field_text field = tri__table_field(b->fields.table, row, b->fields.column[c]);
            if (!tri__field_missing(&p->reading, field)) tri__unseen_add(to, field);
        }
}

static tri_status list_unseen(const build *b, tri_json **out) {
    const tri_preprocess *p = b->fields.preprocess;
    tri_json *parts = *out = tri__json_array();
    for (int k = 0; k < (b->part ? TRI_ROWS_PARTS : 1); k++) {
        tri_json *list = tri__json_array();
        for (int c = 0; c < p->n_columns; c++) {
            const tri_unseen *unseen = &b->unseen[k * p->n_columns + c];
            if (unseen->unseen) tri__json_append_new(list, tri__unseen_json(p->column[c].name, unseen));
        }
        tri__json_append_new(parts, list);
    }
    return tri__json_is_whole(parts) ? TRI_OK : no_memory(b);
}

static tri_status number_pass(build *b) {
    int described = 0;
    TRI_TRY(tri__store_begin(b->writer, TRI_SECTION_NUMBERS));
    for (int64_t first = 0; first < b->table_rows; first += PIECE) {
        int64_t count = b->table_rows - first < PIECE ? b->table_rows - first : PIECE;
        TRI_TRY(tri__stop_check(b->spec->stop, "%s was being read", b->spec->path));
        read_piece(b, first, count);
        count_unseen(b, first, count);
        TRI_TRY(write_piece(b, first, count));
        for (int64_t row = first; row < first + count; row++) {
            char text[1100];
            if (!b->skip[row]) continue;
            tri_bad_field bad = explain(b, row, text);
            TRI_TRY(refuse(b, row, &bad, &described));
        }
        tri__table_done(b->fields.table, first, count);
    }
    TRI_TRY(tri__table_check(b->fields.table));
    TRI_TRY(tri__store_begin(b->writer, TRI_SECTION_LABELS));
    if (b->labels) TRI_TRY(tri__store_append(b->writer, b->labels, (size_t)b->rows * b->words * sizeof *b->labels));
    TRI_TRY(tri__store_begin(b->writer, TRI_SECTION_PARTS));
    return b->parts ? tri__store_append(b->writer, b->parts, (size_t)b->rows) : TRI_OK;
}

/* The ids of a text. With windows, one more than there is room for shows that it is cut. */
static int encode(const build *b, int text, tri_field_text field, block *out) {
    const tri_tokenizer *tokenizer = b->spec->tokenizer[tri__reader(&b->spec->windows.readers, text)];
    int room = (int)b->room, counts = b->spec->windows.most > 1;
    int n = tri__tokenizer_encode(tokenizer, field.text, field.length, room + counts, out->ids + out->used);
    if (n <= room) return n;
    out->cut++;
    return tri__tokenizer_encode(tokenizer, field.text, field.length, room, out->ids + out->used);
}

/* Tokens of kept rows [begin, end) of the table; their counts go to lengths, by table row. */
static void tokenise_block(const build *b, int text, int64_t begin, int64_t end, block *out, int32_t *lengths) {
    out->used = out->cut = 0;
    for (int64_t row = begin; row < end; row++) {
        if (b->skip[row]) continue;
        tri_field_text field = tri__fields_text(&b->fields, row, text, &out->joined);
        size_t need = (size_t)(out->used + b->room + 1);
        int good = field.text && tri__grow(&out->ids, &out->room, need, sizeof *out->ids);
        int n = good ? encode(b, text, field, out) : -1;
        if ((out->failed = n < 0)) return;
        lengths[row - begin] = n;
        out->used += n;
    }
}

/* start [rows + 1] */
static tri_status text_pass(build *b, int text, int64_t *start) {
    int32_t lengths[PIECE];
    int64_t at = start[0] = 0;
    for (int64_t first = 0; first < b->table_rows; first += PIECE) {
        int64_t end = b->table_rows - first < PIECE ? b->table_rows : first + PIECE,
                count = (end - first + BLOCK - 1) / BLOCK;
        TRI_TRY(tri__stop_check(b->spec->stop, "%s was being tokenised", b->spec->path));
#pragma omp parallel for schedule(dynamic) num_threads(b->spec->threads)
        for (int64_t k = 0; k < count; k++) {
            int64_t from = first + k * BLOCK, to = from + BLOCK < end ? from + BLOCK : end;
            tokenise_block(b, text, from, to, &b->blocks[k], lengths + k * BLOCK);
        }
        for (const block *from = b->blocks; from < b->blocks + count; from++) {
            if (from->failed) return no_memory(b);
            b->cut[text] += from->cut;
            TRI_TRY(tri__store_append(b->writer, from->ids, (size_t)from->used * sizeof *from->ids));
        }
        for (int64_t row = first; row < end; row++)
            if (!b->skip[row]) start[at + 1] = start[at] + lengths[row - first], at++;
        tri__table_done(b->fields.table, first, end - first);
    }
    return tri__table_check(b->fields.table);
}

/* Texts [begin, end) as two sections. */
static tri_status write_texts(build *b, int begin, int end, tri_section ids, tri_section starts) {
    size_t each = (size_t)b->rows + 1;
    TRI_TRY(tri__store_begin(b->writer, ids));
    for (int text = begin; text < end; text++) TRI_TRY(text_pass(b, text, b->start + (size_t)(text - begin) * each));
    TRI_TRY(tri__store_begin(b->writer, starts));
    return tri__store_append(b->writer, b->start, (size_t)(end - begin) * each * sizeof *b->start);
}

/* Adds the rows that the table itself skipped. */
static tri_status take_bad(build *b) {
    const tri_bad_row *rows;
    int described;
    b->bad->count = tri__table_bad(b->fields.table, &rows, &described);
    for (int i = 0; i < described; i++) TRI_TRY(list_bad(b->bad, rows[i].line, rows[i].column, rows[i].why));
    return TRI_OK;
}

static tri_status run(build *b) {
    size_t rows = (size_t)b->table_rows;
    b->weight = -1;
    if (b->spec->weight) TRI_TRY(tri__table_find(b->fields.table, b->spec->weight, &b->weight));
    b->width = (size_t)b->fields.preprocess->width + (b->weight >= 0);
    TRI_TRY(take_bad(b));
    b->skip = calloc(rows + 1, 1);
    b->numbers = malloc((PIECE * b->width + 1) * sizeof *b->numbers);
    b->blocks = calloc(PIECE_BLOCKS, sizeof *b->blocks);
    b->unseen = calloc((size_t)b->fields.preprocess->n_columns * TRI_ROWS_PARTS + 1, sizeof *b->unseen);
    if (!b->skip || !b->numbers || !b->blocks || !b->unseen) return no_memory(b);
    if (b->part && !(b->parts = malloc(rows + 1))) return no_memory(b);
    b->words = (size_t)tri__target_words(b->fields.preprocess);
    if (has_labels(b) && !(b->labels = malloc((rows + 1) * b->words * sizeof *b->labels))) return no_memory(b);
    TRI_TRY(number_pass(b));
    int texts = tri__preprocess_texts(b->fields.preprocess->text);
    b->start = malloc((size_t)texts * ((size_t)b->rows + 1) * sizeof *b->start);
    if (!b->start) return no_memory(b);
    TRI_TRY(write_texts(b, 0, 1, TRI_SECTION_IDS0, TRI_SECTION_START0));
    return texts > 1 ? write_texts(b, 1, texts, TRI_SECTION_IDS1, TRI_SECTION_START1) : TRI_OK;
}

tri_status tri__dataset_build(const tri_dataset_spec *spec, const tri_preprocess *preprocess, const tri_table *table,
                              const uint8_t *part, tri_store_writer *writer, tri_built *built) {
    build b = {.spec = spec, .writer = writer, .bad = &built->bad, .cut = built->cut, .room = spec->max_len,
               .part = part, .table_rows = tri__table_rows(table)};
    if (spec->windows.most > 1) b.room = tri__windows_room(&spec->windows);
    if (b.table_rows > INT32_MAX)
        return tri__fail(TRI_DATA, "%s: %lld rows; at most %d are read", spec->path, (long long)b.table_rows,
                         INT32_MAX);
    TRI_TRY(tri__fields_find(table, preprocess, spec->need_labels, &b.fields));
    tri_status status = run(&b);
    if (status == TRI_OK) status = list_unseen(&b, &built->unseen);
    built->rows = b.rows;
    for (int k = 0; b.blocks && k < PIECE_BLOCKS; k++) TRI_FREE(b.blocks[k].ids, b.blocks[k].joined.at);
    TRI_FREE(b.blocks, b.start, b.parts, b.labels, b.numbers, b.skip, b.unseen);
    tri__fields_free(&b.fields);
    return status;
}
