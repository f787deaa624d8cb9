/* table.c - a command of `trident` on a table in memory: 400 rows of a text, a number and a label, in arrays of this
 * program. Its arguments are the command's words, for example
 *   table inspect memory:rows --json
 *   table train --config config.json --data-path memory:rows --output-dir run */
#include <trident_table.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 400, COLUMNS = 3 };

static char text[ROWS * 64];
static int32_t text_offset[ROWS + 1];
static double number[ROWS];
static int32_t label[ROWS];

static void fill(void) {
    static const char *const words[] = {"poor", "fine", "good", "warm", "thin", "soft", "torn", "neat"};
    for (int i = 0, at = 0; i < ROWS; i++) {
        number[i] = (i * 37 % 100) / 10.0;
        label[i] = number[i] + i % 8 > 8;
        at += sprintf(text + at, "a %s and %s coat", words[i % 8], words[i / 8 % 8]);
        text_offset[i + 1] = at;
    }
}

/* The arrays belong to the program: there is nothing to free. */
static void release_schema(struct ArrowSchema *schema) { schema->release = NULL; }
static void release_array(struct ArrowArray *array) { array->release = NULL; }
static void release_stream(struct ArrowArrayStream *stream) { stream->release = NULL; }

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    static struct ArrowSchema column[COLUMNS] = {{.format = "u", .name = "review", .release = release_schema},
                                                 {.format = "g", .name = "price", .release = release_schema},
                                                 {.format = "i", .name = "bought", .release = release_schema}};
    static struct ArrowSchema *columns[COLUMNS] = {&column[0], &column[1], &column[2]};
    (void)stream;
    *out = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = COLUMNS, .children = columns, .release = release_schema};
    return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    static const void *texts[] = {NULL, text_offset, text}, *numbers[] = {NULL, number}, *labels[] = {NULL, label},
                      *none[] = {NULL};
    static struct ArrowArray column[COLUMNS] = {
        {.length = ROWS, .n_buffers = 3, .buffers = texts, .release = release_array},
        {.length = ROWS, .n_buffers = 2, .buffers = numbers, .release = release_array},
        {.length = ROWS, .n_buffers = 2, .buffers = labels, .release = release_array}};
    static struct ArrowArray *columns[COLUMNS] = {&column[0], &column[1], &column[2]};
    int *given = (int *)stream->private_data;
    memset(out, 0, sizeof *out); /* the end of the stream */
    if ((*given)++) return 0;
    *out = (struct ArrowArray){.length = ROWS, .n_buffers = 1, .n_children = COLUMNS, .buffers = none,
                               .children = columns, .release = release_array};
    return 0;
}

static void put(void *context, tri_output_kind kind, const char *bytes, size_t n) {
    (void)context;
    fwrite(bytes, 1, n, kind == TRI_OUTPUT_RESULT ? stdout : stderr);
}

int main(int argc, char **argv) {
    int given = 0;
    struct ArrowArrayStream stream = {.get_schema = get_schema, .get_next = get_next, .release = release_stream,
                                      .private_data = &given};
    tri_tables *tables = NULL;
    fill();
    tri_status status = tri_tables_open(&tables);
    if (status == TRI_OK) status = tri_tables_add(tables, "rows", NULL, &stream);
    tri_caller caller = {.tables = tables, .output = put};
    if (status == TRI_OK) status = tri_run_command(argc - 1, (const char *const *)argv + 1, &caller);
    if (status != TRI_OK) fprintf(stderr, "table: %s\n", tri_error());
    tri_tables_close(tables);
    return status;
}
