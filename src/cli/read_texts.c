/* read_texts.c - reads texts in batches, so that a file of any size needs little memory. */
#include "cli/read_texts.h"

#include "data/text/utf8.h"
#include "engine/inputs.h"
#include "report/text/stream.h"

#include <errno.h>
#include <unistd.h>

enum { BATCH_TEXTS = 4096, BATCH_BYTES = 4 << 20 };

static tri_status no_memory(const char *path) { return tri__fail(TRI_RESOURCE, "%s: out of memory", path); }

static tri_status add(tri_text_batch *batch, const char *path, const char *text, size_t length) {
    if (!tri__grow(&batch->start, &batch->room, (size_t)batch->n + 2, sizeof *batch->start)) return no_memory(path);
    batch->start[batch->n++] = batch->data.size;
    tri__buffer_add(&batch->data, text, length);
    tri__buffer_add(&batch->data, "", 1);
    batch->start[batch->n] = batch->data.size;
    return batch->data.failed ? no_memory(path) : TRI_OK;
}

typedef tri_status taker(void *to, const tri_text_batch *batch);

static tri_status give(tri_text_batch *batch, int last, taker *take, void *to) {
    if (!batch->n || (!last && batch->n < BATCH_TEXTS && batch->data.size < BATCH_BYTES)) return TRI_OK;
    tri_status status = take(to, batch);
    batch->n = 0, batch->data.size = 0;
    return status;
}

static tri_status add_line(const tri_texts_from *from, tri_text_batch *batch, const char *path, long long number,
                           const char *line, size_t length) {
    if (length && !from->null && line[length - 1] == '\r') length--;
    size_t fault = tri__utf8_fault(line, length);
    if (fault < length)
        return tri__fail(TRI_DATA, "%s:%lld:%zu: invalid UTF-8 byte 0x%02x", path, number, fault + 1,
                         (unsigned char)line[fault]);
    return add(batch, path, line, length);
}

/* A text being read. */
typedef struct line {
    char *text;   /* [capacity] */
    size_t length, room;
} line;

static void free_line(line *l) { free(l->text); }

/* The next text, without its terminator. *more: 0 at the end of the file. A text over the limit is refused before it is
 * in memory: /dev/zero never ends. */
static tri_status read_line(FILE *in, int end, const char *path, long long number, line *l, int *more) {
    int byte;
    l->length = 0;
    while ((byte = getc_unlocked(in)) != EOF && byte != end) {
        if (l->length == TRI_LIMIT_CSV_ROW)
            return tri__fail(TRI_DATA, "%s:%lld: a text of more than %d bytes, the most that are accepted", path,
                             number, TRI_LIMIT_CSV_ROW);
        if (!tri__grow(&l->text, &l->room, l->length + 1, 1)) return no_memory(path);
        l->text[l->length++] = (char)byte;
    }
    *more = byte != EOF || l->length;
    return ferror(in) ? tri__fail(TRI_IO, "cannot read %s: %s", path, strerror(errno)) : TRI_OK;
}

static tri_status read_lines(const tri_texts_from *from, FILE *in, const char *path, tri_text_batch *batch, taker *take,
                             void *to) {
    TRI_OWNED(free_line) line l = {0};
    int more = 1;
    for (long long number = 1; more; number++) {
        TRI_TRY(read_line(in, from->null ? 0 : '\n', path, number, &l, &more));
        if (more) TRI_TRY(add_line(from, batch, path, number, l.text ? l.text : "", l.length));
        if (more) TRI_TRY(give(batch, 0, take, to));
    }
    return TRI_OK;
}

static tri_status read_column(const tri_table *table, const char *name, tri_text_batch *batch, taker *take, void *to) {
    int column;
    int64_t rows = tri__table_rows(table), done = 0;
    TRI_TRY(tri__table_find(table, name, &column));
    for (int64_t row = 0; row < rows; row++) {
        tri_field_text field = tri__table_field(table, row, column);
        TRI_TRY(add(batch, tri__table_path(table), field.text, field.length));
        TRI_TRY(give(batch, 0, take, to));
        if (batch->n) continue;
        tri__table_done(table, done, row + 1 - done);
        done = row + 1;
    }
    return tri__table_check(table);
}

static tri_status read_columns(const tri_texts_from *from, const char *path, tri_text_batch *batch, taker *take,
                               void *to) {
    TRI_OWNED(tri__table_drop) tri_table *table = NULL;
    tri_table_options options = {.threads = from->threads, .separator = from->separator, .tables = from->tables};
    TRI_TRY(tri__table_open(path, &options, &table));
    for (int i = 0; i < from->column.n; i++) TRI_TRY(read_column(table, from->column.at[i], batch, take, to));
    return TRI_OK;
}

static tri_status read_one(const tri_texts_from *from, const char *path, tri_text_batch *batch, taker *take, void *to) {
    int standard = !strcmp(path, "-");
    if (from->column.n && standard) return tri__fail(TRI_USAGE, "--column needs tables; stdin is read by lines");
    if (from->column.n) return read_columns(from, path, batch, take, to);
    int fd = STDIN_FILENO;
    if (!standard) TRI_TRY(tri__file_open_any(path, &fd));
    FILE *in = standard ? stdin : tri__stream_open(fd, "r");
    if (!in) {
        close(fd);
        return no_memory(path);
    }
    tri_status status = read_lines(from, in, standard ? "stdin" : path, batch, take, to);
    if (!standard) fclose(in);
    return status;
}

tri_status tri__texts_from(const tri_command_call *call, tri_texts_from *out) {
    const tri_settings *settings = &call->settings;
    *out = (tri_texts_from){.file = call->words, .n = call->n_words, .column = settings->column,
                            .tables = settings->tables, .null = settings->null, .threads = tri__threads(settings)};
    return tri__separator_parse(settings->separator, &out->separator);
}

tri_status tri__texts_read(const tri_texts_from *from, taker *take, void *to) {
    tri_text_batch batch = {0};
    tri_status status = from->n ? TRI_OK : read_one(from, "-", &batch, take, to);
    for (int i = 0; i < from->n && status == TRI_OK; i++) status = read_one(from, from->file[i], &batch, take, to);
    if (status == TRI_OK) status = give(&batch, 1, take, to);
    tri__buffer_free(&batch.data);
    free(batch.start);
    return status;
}
