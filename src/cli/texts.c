/* texts.c - reading texts in batches, so that a file of any size takes little memory. */
#include "cli/texts.h"

#include "base/limits.h"
#include "data/table.h"
#include "data/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH_TEXTS = 4096, BATCH_BYTES = 4 << 20 };

static tri_status no_memory(const char *path) { return tri__fail(TRI_RESOURCE, "%s: out of memory", path); }

static tri_status add(tri_batch *batch, const char *path, const char *text, size_t length) {
    if (batch->n + 2 > batch->starts) {
        int starts = batch->starts ? 2 * batch->starts : 1024;
        size_t *start = realloc(batch->start, (size_t)starts * sizeof *start);
        if (!start) return no_memory(path);
        batch->start = start, batch->starts = starts;
    }
    if (batch->room - batch->used < length + 1) {
        size_t room = 2 * batch->room + length + 4096;
        char *data = realloc(batch->data, room);
        if (!data) return no_memory(path);
        batch->data = data, batch->room = room;
    }
    batch->start[batch->n++] = batch->used;
    memcpy(batch->data + batch->used, text, length);
    batch->data[batch->used + length] = 0;
    batch->used += length + 1;
    batch->start[batch->n] = batch->used;
    return TRI_OK;
}

typedef tri_status taker(void *to, const tri_batch *batch);

static tri_status give(tri_batch *batch, int last, taker *take, void *to) {
    if (!batch->n || (!last && batch->n < BATCH_TEXTS && batch->used < BATCH_BYTES)) return TRI_OK;
    tri_status status = take(to, batch);
    batch->n = 0, batch->used = 0;
    return status;
}

static tri_status add_line(const tri_texts_from *from, tri_batch *batch, const char *path, long long number, char *line, size_t length) {
    if (length && line[length - 1] == (from->null ? 0 : '\n')) length--;
    if (length && !from->null && line[length - 1] == '\r') length--;
    if (length > TRI_LIMIT_CSV_ROW)
        return tri__fail(TRI_DATA, "%s:%lld: a text of %zu bytes; at most %d are accepted", path, number, length, TRI_LIMIT_CSV_ROW);
    size_t fault = tri__utf8_fault(line, length);
    if (fault < length)
        return tri__fail(TRI_DATA, "%s:%lld:%zu: invalid UTF-8 byte 0x%02x", path, number, fault + 1, (unsigned char)line[fault]);
    return add(batch, path, line, length);
}

static tri_status read_lines(const tri_texts_from *from, FILE *in, const char *path, tri_batch *batch, taker *take, void *to) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length = 0;
    long long number = 0;
    tri_status status = TRI_OK;
    while (status == TRI_OK && (errno = 0, length = getdelim(&line, &room, from->null ? 0 : '\n', in)) >= 0) {
        status = add_line(from, batch, path, ++number, line, (size_t)length);
        if (status == TRI_OK) status = give(batch, 0, take, to);
    }
    if (status == TRI_OK && (ferror(in) || errno == ENOMEM))
        status = errno == ENOMEM ? no_memory(path) : tri__fail(TRI_IO, "cannot read %s: %s", path, strerror(errno));
    free(line);
    return status;
}

static tri_status read_column(const tri_texts_from *from, const char *path, tri_batch *batch, taker *take, void *to) {
    tri_table *table;
    int column;
    tri_table_options options = {.threads = from->threads};
    TRI_TRY(tri__table_open(path, &options, &table));
    tri_status status = tri__table_find(table, from->column, &column);
    int64_t rows = tri__table_rows(table), done = 0;
    for (int64_t row = 0; row < rows && status == TRI_OK; row++) {
        tri_field_text field = tri__table_field(table, row, column);
        status = add(batch, path, field.text, field.length);
        if (status == TRI_OK) status = give(batch, 0, take, to);
        if (batch->n) continue;
        tri__table_done(table, done, row + 1 - done);
        done = row + 1;
    }
    if (status == TRI_OK) status = tri__table_check(table);
    tri__table_close(table);
    return status;
}

static tri_status read_one(const tri_texts_from *from, const char *path, tri_batch *batch, taker *take, void *to) {
    int standard = !strcmp(path, "-");
    if (from->column && standard) return tri__fail(TRI_USAGE, "--column needs tables; stdin is read by lines");
    if (from->column) return read_column(from, path, batch, take, to);
    int fd = STDIN_FILENO;
    if (!standard) TRI_TRY(tri__file_open_any(path, &fd));
    FILE *in = standard ? stdin : fdopen(fd, "r");
    if (!in) {
        close(fd);
        return no_memory(path);
    }
    tri_status status = read_lines(from, in, standard ? "stdin" : path, batch, take, to);
    if (!standard) fclose(in);
    return status;
}

tri_status tri__texts_read(const tri_texts_from *from, taker *take, void *to) {
    tri_batch batch = {0};
    tri_status status = from->n ? TRI_OK : read_one(from, "-", &batch, take, to);
    for (int i = 0; i < from->n && status == TRI_OK; i++) status = read_one(from, from->file[i], &batch, take, to);
    if (status == TRI_OK) status = give(&batch, 1, take, to);
    free(batch.data);
    free(batch.start);
    return status;
}
