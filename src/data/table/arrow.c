/* arrow.c - finds the batches of an Arrow file by its footer, those of a stream one after the other, and reads where
 * their buffers are. Values are read later, a column of a batch at a time. Sizes are checked against the file's before
 * anything is allocated for them. */
#include "data/table/arrow.h"

enum {
    METADATA = 256 << 20,    /* most bytes of a message's metadata, or of the footer */
    CHUNK = 4096,            /* rows that are read at once, where buffers are not compressed; of more than */
    CHUNKS = 1024            /* so many times that, this part of a batch */
};

/* Slots of the tables of File.fbs. */
enum { FOOTER_VERSION, FOOTER_SCHEMA, FOOTER_DICTIONARIES, FOOTER_BATCHES };
enum { BLOCK_BYTES = 24 };

static const char magic[8] = "ARROW1";

/* A message, its metadata in memory. */
typedef struct message {
    uint8_t *metadata;
    tri_flat flat;
    tri_flat_table header;
    int kind;
    uint64_t body, end;      /* in the file; end: of the body, where the next message may begin */
} message;

typedef struct opening {
    tri_table *table;
    tri_arrow *arrow;
} opening;

static tri_status damaged(const tri_table *table, uint64_t at, const char *what) {
    return tri__fail(TRI_DATA, "%s: damaged at byte %llu: %s", table->path, (unsigned long long)at, what);
}

/* Reads bytes [at, at + size) into memory that the caller frees. */
static tri_status read_bytes(const tri_table *table, uint64_t at, uint64_t size, uint8_t **out) {
    *out = NULL;
    if (at > table->source.size || size > table->source.size - at || size > METADATA)
        return damaged(table, at, "its metadata are longer than the file or 256 MiB");
    if (!(*out = malloc((size_t)size + 1))) return tri__table_no_memory(table);
    return tri__source_read(table, at, (char *)*out, (size_t)size);
}

static void free_message(message *m) { free(m->metadata); }

/* Reads the metadata of the message at `at`. kind 0: the stream ends here. */
static tri_status read_message(const tri_table *table, uint64_t at, message *m) {
    uint32_t word[2] = {0};
    uint64_t left = table->source.size - at;
    *m = (message){.end = at};
    if (left == 0) return TRI_OK;
    if (left < 4) return damaged(table, at, "the file is cut off in a message");
    TRI_TRY(tri__source_read(table, at, (char *)word, left < 8 ? 4 : 8));
    size_t prefix = word[0] == UINT32_MAX ? 8 : 4; /* before 0.15 the first word was missing */
    uint32_t size = prefix == 8 ? word[1] : word[0];
    if (left < prefix || (size && size > left - prefix)) return damaged(table, at, "the file is cut off in a message");
    if (size == 0) return TRI_OK;
    TRI_TRY(read_bytes(table, at + prefix, size, &m->metadata));
    m->flat = (tri_flat){m->metadata, size, 0};
    tri_flat_table root = tri__flat_root(&m->flat);
    int64_t body = tri__flat_number(&m->flat, root, TRI_MESSAGE_BODY, 8, 0);
    m->kind = (int)tri__flat_number(&m->flat, root, TRI_MESSAGE_HEADER_TYPE, 1, 0);
    m->header = tri__flat_child(&m->flat, root, TRI_MESSAGE_HEADER);
    m->body = at + prefix + size;
    if (m->flat.bad || !m->header || m->kind == TRI_HEADER_NONE) return damaged(table, at, "a message cannot be read");
    if (body < 0 || (uint64_t)body > table->source.size - m->body)
        return damaged(table, at, "the file is cut off in a message's body");
    m->end = m->body + (uint64_t)body;
    return TRI_OK;
}

static int version_of(tri_flat *flat, tri_flat_table root) { return (int)tri__flat_number(flat, root, 0, 2, 0); }

static void free_batch(tri_arrow_batch *batch) { TRI_FREE(batch->nulls, batch->buffer, batch->views); }

static void free_arrow(void *state) {
    tri_arrow *arrow = state;
    for (size_t i = 0; i < arrow->batches; i++) free_batch(&arrow->batch[i]);
    for (size_t i = 0; i < arrow->dictionaries; i++) {
        free_batch(&arrow->dictionary[i].values);
        TRI_OWNED(tri__free_at) tri_column_text *text = atomic_load(&arrow->dictionary[i].text);
        if (text) free(text->text), free(text->field);
    }
    TRI_FREE(arrow->batch, arrow->dictionary, arrow->column);
    pthread_mutex_destroy(&arrow->lock);
    free(arrow);
}

/* Reads the counts of buffers that views have, and sums them up. 0: damaged. */
static int read_views(tri_flat *flat, tri_flat_table header, const tri_arrow_counts *counts, tri_arrow_batch *out) {
    size_t n, at = tri__flat_vector(flat, header, TRI_BATCH_VIEWS, 8, &n);
    if (n != counts->views) return 0;
    out->views[0] = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t buffers = tri__flat_read(flat, at + 8 * i, 8);
        if (buffers > flat->size) return 0;
        out->views[i + 1] = out->views[i] + (size_t)buffers;
    }
    return !flat->bad;
}

/* Where a batch's nodes and buffers are. 0: damaged, or *memory is 0. */
static int read_batch(message *m, tri_flat_table header, const tri_arrow_counts *counts, tri_arrow_batch *out,
                      int *memory) {
    tri_flat *flat = &m->flat;
    size_t nodes, buffers, node = tri__flat_vector(flat, header, TRI_BATCH_NODES, TRI_NODE_BYTES, &nodes),
                           buffer = tri__flat_vector(flat, header, TRI_BATCH_BUFFERS, TRI_BUFFER_BYTES, &buffers);
    uint64_t size = m->end - m->body;
    out->body = m->body, out->rows = tri__flat_number(flat, header, TRI_BATCH_LENGTH, 8, 0);
    if (out->rows < 0 || out->rows > INT32_MAX || nodes != counts->nodes || flat->bad) return 0;
    out->nulls = malloc((nodes + 1) * sizeof *out->nulls);
    out->buffer = malloc((buffers + 1) * sizeof *out->buffer);
    out->views = malloc((counts->views + 1) * sizeof *out->views);
    *memory = out->nulls && out->buffer && out->views;
    if (!*memory || !read_views(flat, header, counts, out)) return 0;
    if (buffers != counts->buffers + out->views[counts->views]) return 0;
    for (size_t i = 0; i < nodes; i++) out->nulls[i] = (int64_t)tri__flat_read(flat, node + TRI_NODE_BYTES * i + 8, 8);
    for (size_t i = 0; i < buffers; i++) {
        uint64_t at = tri__flat_read(flat, buffer + TRI_BUFFER_BYTES * i, 8),
                 bytes = tri__flat_read(flat, buffer + TRI_BUFFER_BYTES * i + 8, 8);
        out->buffer[i] = (struct tri_arrow_buffer){at, bytes};
        if (bytes && (at > size || bytes > size - at)) return 0;
    }
    return 1;
}

/* The compression of a batch's buffers. */
static tri_status read_codec(const tri_table *table, message *m, tri_flat_table header, tri_arrow_batch *out) {
    tri_flat_table compression = tri__flat_child(&m->flat, header, TRI_BATCH_COMPRESSION);
    out->codec = TRI_CODEC_NONE;
    if (!compression) return TRI_OK;
    int64_t codec = tri__flat_number(&m->flat, compression, 0, 1, 0),
            method = tri__flat_number(&m->flat, compression, 1, 1, 0);
    if (codec < 0 || codec > 1 || method != 0)
        return damaged(table, m->body, "its compression is neither lz4 nor zstd of whole buffers");
    out->codec = codec ? TRI_CODEC_ZSTD : TRI_CODEC_LZ4_FRAME;
    if (tri__codec_known(out->codec)) return TRI_OK;
    return tri__packer_missing(codec ? TRI_PACKER_ZSTD : TRI_PACKER_LZ4, TRI_USAGE, table->path);
}

/* Reads a batch, of the table's columns or of a dictionary's values. */
static tri_status take_batch(const tri_table *table, message *m, tri_flat_table header, const tri_arrow_counts *counts,
                             tri_arrow_batch *out) {
    int memory = 1;
    *out = (tri_arrow_batch){0};
    int good = header && read_batch(m, header, counts, out, &memory);
    if (!memory) return tri__table_no_memory(table);
    if (!good || m->flat.bad) return damaged(table, m->body, "a batch does not have what its columns need");
    return read_codec(table, m, header, out);
}

/* Whether buffers are as long as their rows need, of columns that are read; of compressed ones that is seen later. */
static tri_status check_sizes(const tri_table *table, const tri_arrow *arrow, const tri_arrow_batch *batch) {
    for (int c = 0; c < table->columns && batch->codec == TRI_CODEC_NONE && batch->rows; c++) {
        const tri_arrow_column *column = &arrow->column[c];
        tri_arrow_layout layout = column->type.layout;
        uint64_t rows = (uint64_t)batch->rows, width = (uint64_t)column->type.values.width;
        if (layout == TRI_ARROW_NESTED || (layout == TRI_ARROW_NULL && !column->encoded)) continue;
        size_t buffer = column->buffer + batch->views[column->view];
        uint64_t need = column->encoded            ? rows * (uint64_t)column->index.width
                        : layout == TRI_ARROW_BITS ? (rows + 7) / 8
                        : layout == TRI_ARROW_TEXT ? (rows + 1) * width
                                                   : rows * width;
        if (batch->buffer[buffer + 1].size < need)
            return tri__fail(TRI_DATA, "%s: column \"%.80s\", batch %zu: a buffer is shorter than its values",
                             table->path, table->name[c], arrow->batches);
    }
    return TRI_OK;
}

static tri_status add_batch(opening *o, message *m) {
    tri_arrow *arrow = o->arrow;
    if (!tri__grow(&arrow->batch, &arrow->room_batches, arrow->batches + 1, sizeof *arrow->batch))
        return tri__table_no_memory(o->table);
    tri_arrow_batch *batch = &arrow->batch[arrow->batches++];
    *batch = (tri_arrow_batch){0};
    TRI_TRY(take_batch(o->table, m, m->header, &arrow->counts, batch));
    TRI_TRY(check_sizes(o->table, arrow, batch));
    batch->dictionaries = arrow->dictionaries;
    int64_t chunk = batch->rows / CHUNKS > CHUNK ? batch->rows / CHUNKS : CHUNK;
    if (batch->codec) chunk = batch->rows;
    for (int64_t from = 0, left; (left = batch->rows - from) > 0; from += chunk)
        TRI_TRY(tri__columns_add(o->table, left < chunk ? left : chunk, batch - arrow->batch, from));
    return TRI_OK;
}

/* Reads a dictionary that a column needs; others belong to columns that are not read. */
static tri_status add_dictionary(opening *o, message *m) {
    tri_arrow *arrow = o->arrow;
    if (!tri__grow(&arrow->dictionary, &arrow->room_dictionaries, arrow->dictionaries + 1, sizeof *arrow->dictionary))
        return tri__table_no_memory(o->table);
    tri_arrow_dictionary *d = &arrow->dictionary[arrow->dictionaries++];
    *d = (tri_arrow_dictionary){.id = tri__flat_number(&m->flat, m->header, TRI_DICTIONARY_ID, 8, 0),
                                .delta = tri__flat_number(&m->flat, m->header, TRI_DICTIONARY_DELTA, 1, 0) != 0};
    for (int c = 0; c < o->table->columns; c++) {
        const tri_arrow_column *column = &arrow->column[c];
        if (!column->encoded || column->dictionary != d->id || column->type.layout == TRI_ARROW_NESTED) continue;
        if (d->used && memcmp(&d->type, &column->type, sizeof d->type))
            return tri__fail(TRI_DATA, "%s: damaged: column \"%.80s\" shares a dictionary with one of another type",
                             o->table->path, o->table->name[c]);
        d->used = 1, d->type = column->type;
    }
    if (!d->used) return TRI_OK;
    tri_arrow_counts counts = tri__arrow_counts(&d->type);
    return take_batch(o->table, m, tri__flat_child(&m->flat, m->header, TRI_DICTIONARY_DATA), &counts, &d->values);
}

/* ---- streams ---- */

static tri_status take_message(opening *o, message *m, int *schema) {
    if ((m->kind == TRI_HEADER_SCHEMA) == *schema)
        return damaged(o->table, m->body, *schema ? "it has a second schema" : "the first message is not a schema");
    if (m->kind == TRI_HEADER_SCHEMA) {
        *schema = 1;
        o->arrow->version = version_of(&m->flat, tri__flat_root(&m->flat));
        return tri__arrow_schema(o->table, o->arrow, &m->flat, m->header);
    }
    if (m->kind == TRI_HEADER_DICTIONARY) return add_dictionary(o, m);
    if (m->kind == TRI_HEADER_BATCH) return add_batch(o, m);
    return damaged(o->table, m->body, "a tensor, not a table");
}

static tri_status read_stream(opening *o) {
    int schema = 0, ends = 0;
    for (uint64_t at = 0; !ends;) {
        TRI_OWNED(free_message) message m = {0};
        TRI_TRY(read_message(o->table, at, &m));
        ends = !m.kind;
        if (!ends) TRI_TRY(take_message(o, &m, &schema));
        at = m.end;
    }
    return schema ? TRI_OK : damaged(o->table, 0, "no schema");
}

/* ---- files ---- */

/* Reads the messages of the footer's blocks. */
static tri_status take_blocks(opening *o, tri_flat *flat, tri_flat_table footer, int slot, int kind) {
    size_t n, at = tri__flat_vector(flat, footer, slot, BLOCK_BYTES, &n);
    if (flat->bad) return damaged(o->table, o->table->source.size, "its footer");
    for (size_t i = 0; i < n; i++) {
        uint64_t from = tri__flat_read(flat, at + BLOCK_BYTES * i, 8);
        if (from < sizeof magic || from >= o->table->source.size)
            return damaged(o->table, o->table->source.size, "its footer names a block outside the file");
        TRI_OWNED(free_message) message m = {0};
        TRI_TRY(read_message(o->table, from, &m));
        if (m.kind != kind) return damaged(o->table, from, "a block is not what the footer says");
        TRI_TRY(kind == TRI_HEADER_BATCH ? add_batch(o, &m) : add_dictionary(o, &m));
    }
    return TRI_OK;
}

static tri_status take_footer(opening *o, tri_flat *flat) {
    tri_flat_table footer = tri__flat_root(flat);
    o->arrow->version = version_of(flat, footer);
    TRI_TRY(tri__arrow_schema(o->table, o->arrow, flat, tri__flat_child(flat, footer, FOOTER_SCHEMA)));
    TRI_TRY(take_blocks(o, flat, footer, FOOTER_DICTIONARIES, TRI_HEADER_DICTIONARY));
    return take_blocks(o, flat, footer, FOOTER_BATCHES, TRI_HEADER_BATCH);
}

static tri_status read_file(opening *o) {
    struct {
        uint32_t size;
        char magic[6];
    } __attribute__((packed)) end;
    uint64_t size = o->table->source.size;
    TRI_OWNED(tri__free_at) uint8_t *bytes = NULL;
    if (size < sizeof magic + sizeof end) return damaged(o->table, size, "the file is cut off");
    TRI_TRY(tri__source_read(o->table, size - sizeof end, (char *)&end, sizeof end));
    if (memcmp(end.magic, magic, sizeof end.magic))
        return damaged(o->table, size, "an Arrow file ends in ARROW1, this one does not: it is cut off, or is still "
                                       "being written");
    if (end.size > size - sizeof magic - sizeof end) return damaged(o->table, size, "the size of its footer is wrong");
    TRI_TRY(read_bytes(o->table, size - sizeof end - end.size, end.size, &bytes));
    tri_flat flat = {bytes, end.size, 0};
    return take_footer(o, &flat);
}

static tri_status open_arrow(tri_table *table) {
    char head[sizeof magic] = "";
    size_t n = table->source.size < sizeof head ? (size_t)table->source.size : sizeof head;
    tri_arrow *arrow = calloc(1, sizeof *arrow);
    if (arrow) pthread_mutex_init(&arrow->lock, NULL);
    TRI_TRY(tri__columns_begin(table, arrow));
    opening o = {table, arrow};
    if (!n) return tri__fail(TRI_DATA, "%s: the file is empty; an Arrow file or stream was expected", table->path);
    TRI_TRY(tri__source_read(table, 0, head, n));
    if (n == sizeof head && !memcmp(head, "FEA1", 4))
        return tri__fail(TRI_DATA, "%s is Feather version 1, which is not read; write it again: pyarrow.feather."
                         "write_feather(pyarrow.feather.read_table(FILE), OTHER)", table->path);
    return n == sizeof head && !memcmp(head, magic, 6) ? read_file(&o) : read_stream(&o);
}

const tri_format tri__format_arrow = {TRI_COLUMN_TABLE, .endings = " .arrow .feather", .magic = "ARROW1",
                                      .called = "an Arrow or Feather file", .open = open_arrow,
                                      .load = tri__arrow_load, .has_numbers = tri__arrow_has_numbers,
                                      .free = free_arrow};
