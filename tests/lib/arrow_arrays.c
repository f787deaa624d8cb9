/* arrow_arrays.c - see arrow_arrays.h. */
#include "tests/lib/arrow_arrays.h"

#include <errno.h>
#include <stdlib.h>

long made_held;

static void release_schema(struct ArrowSchema *schema) {
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    if (schema->dictionary && schema->dictionary->release) schema->dictionary->release(schema->dictionary);
    if (schema->n_children) free(schema->children[0]);
    free(schema->children);
    free(schema->dictionary);
    schema->release = NULL;
    made_held--;
}

static void release_array(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release) array->children[i]->release(array->children[i]);
    if (array->dictionary && array->dictionary->release) array->dictionary->release(array->dictionary);
    if (array->n_children) free(array->children[0]);
    free(array->children);
    free(array->dictionary);
    array->release = NULL;
    made_held--;
}

static void fill_schema(const made_column *column, struct ArrowSchema *out) {
    made_held++;
    *out = (struct ArrowSchema){.format = column->format, .name = column->name, .flags = 2, .release = release_schema};
    if (!column->dictionary) return;
    out->dictionary = malloc(sizeof *out->dictionary);
    fill_schema(column->dictionary, out->dictionary);
}

static void fill_array(const made_column *column, int64_t offset, int64_t length, struct ArrowArray *out) {
    made_held++;
    *out = (struct ArrowArray){.length = length, .null_count = column->nulls, .offset = offset,
                               .n_buffers = column->n_buffers, .buffers = (const void **)column->buffer,
                               .release = release_array};
    if (!column->dictionary) return;
    out->dictionary = malloc(sizeof *out->dictionary);
    fill_array(column->dictionary, 0, column->dictionary->length, out->dictionary);
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    const made_stream *made = stream->private_data;
    if (made->bare) {
        fill_schema(&made->column[0], out);
        return 0;
    }
    made_held++;
    *out = (struct ArrowSchema){.format = "+s", .name = "", .n_children = made->n, .release = release_schema};
    out->children = malloc((size_t)made->n * sizeof *out->children);
    struct ArrowSchema *child = malloc((size_t)made->n * sizeof *child);
    for (int c = 0; c < made->n; c++) fill_schema(&made->column[c], out->children[c] = &child[c]);
    return 0;
}

/* Of structures the rows to skip are divided between the offset of the structure and those of its columns. */
static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    made_stream *made = stream->private_data;
    int64_t left = made->rows - made->row, n = left < made->batch ? left : made->batch, from = made->skip + made->row;
    *out = (struct ArrowArray){0};
    if (made->fails_at >= 0 && made->row >= made->fails_at) return EIO;
    if (!n) return 0;
    made->row += n;
    if (made->bare) {
        fill_array(&made->column[0], from, n, out);
        return 0;
    }
    int64_t outer = from / 2;
    made_held++;
    *out = (struct ArrowArray){.length = n, .offset = outer, .n_buffers = 1, .n_children = made->n,
                               .buffers = (const void **)made->column[MADE_COLUMNS - 1].buffer,
                               .release = release_array};
    out->children = malloc((size_t)made->n * sizeof *out->children);
    struct ArrowArray *child = malloc((size_t)made->n * sizeof *child);
    for (int c = 0; c < made->n; c++)
        fill_array(&made->column[c], from - outer, n + outer, out->children[c] = &child[c]);
    return 0;
}

static const char *last_error(struct ArrowArrayStream *stream) {
    (void)stream;
    return "the producer is tired";
}

static void release_stream(struct ArrowArrayStream *stream) {
    stream->release = NULL;
    made_held--;
}

void make_stream(made_stream *made, struct ArrowArrayStream *out) {
    made->row = 0;
    made_held++;
    *out = (struct ArrowArrayStream){get_schema, get_next, last_error, release_stream, made};
}
