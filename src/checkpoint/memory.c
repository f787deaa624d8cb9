/* memory.c - a checkpoint in shared memory. */
#include "checkpoint/memory.h"

#include "checkpoint/checkpoint_parts.h"

#include <fcntl.h>
#include <stdatomic.h>

enum { ALIGNED = 4096, FILES = 2 /* weights, optimizer */ };
static const char MAGIC[8] = "TRIKEPT";
static const char NAME[] = "the state that ranks kept";

typedef struct head {
    char magic[8];
    uint64_t bytes;
    uint64_t table_at, table_bytes;
    uint64_t state_at;
    uint64_t state_bytes[2][2]; /* of each copy's two texts */
    _Atomic uint32_t state[2];  /* which text of each copy is in force */
    uint64_t data_at[2];
} head;

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- writing ---- */

/* [name, dtype, elements, offset of the data] of each piece. */
static int add_entries(tri_json *into, const tri_piece *stored, int n, const size_t *at) {
    tri_json *list = tri__json_array();
    int failed = list == NULL;
    for (int i = 0; i < n && !failed; i++) {
        failed = tri__json_append_new(list, tri__json_pack("[s, s, I, I]", stored[i].name,
                                                           tri__dtype_file_name(stored[i].dtype),
                                                           (tri_json_int)(stored[i].slice.end - stored[i].slice.begin),
                                                           (tri_json_int)at[i]));
    }
    return tri__json_append_new(into, list) || failed;
}

static tri_status add_file(const char *form, int rank, const tri_piece *pieces, int n, const size_t *at,
                           tri_json *table) {
    TRI_OWNED(tri__arena_close) tri_arena arena = {0};
    const char *file = TRI_TEXT(64, form, rank);
    TRI_TRY(tri__arena_open(&arena, tri__stored_bytes(pieces, n) + 4096));
    const tri_piece *stored = tri__stored_pieces(&arena, pieces, n);
    TRI_TRY(tri__tensor_rows(file, pieces, stored, NULL, n, tri__json_get(table, "tensors")));
    if (tri__json_append_new(tri__json_get(table, "names"), tri__json_string(file)) ||
        add_entries(tri__json_get(table, "entries"), stored, n, at))
        return tri__fail(TRI_RESOURCE, "out of memory for replicated state");
    return TRI_OK;
}

/* The table's text, which the caller frees. */
static tri_status make_table(int rank, const tri_memory_pieces *p, char **text) {
    *text = NULL;
    TRI_OWNED(tri__json_drop) tri_json *table = tri__json_pack("{s:[], s:[], s:[], s:[]}",
                                                               "tensors", "files", "names", "entries");
    if (!table) return tri__fail(TRI_RESOURCE, "out of memory for replicated state");
    TRI_TRY(add_file(TRI_FILE_WEIGHTS, rank, p->weights, p->n_weights, p->at, table));
    TRI_TRY(add_file(TRI_FILE_OPTIMIZER, rank, p->optimizer, p->n_optimizer, p->at + p->n_weights, table));
    if (!(*text = tri__json_line(table))) return tri__fail(TRI_RESOURCE, "out of memory for replicated state");
    return TRI_OK;
}

static head lay_out(size_t table, const tri_memory_pieces *p) {
    head h = {.table_at = sizeof(head), .table_bytes = table};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    h.state_at = up(h.table_at + table, ALIGNED);
    h.data_at[0] = h.state_at + (uint64_t)4 * TRI_MEMORY_STATE;
    h.data_at[1] = h.data_at[0] + p->bytes;
    h.bytes = h.data_at[1] + p->bytes;
    return h;
}

tri_status tri__memory_size(int rank, const tri_memory_pieces *pieces, size_t *bytes) {
    TRI_OWNED(tri__free_at) char *table = NULL;
    TRI_TRY(make_table(rank, pieces, &table));
    *bytes = lay_out(strlen(table), pieces).bytes;
    return TRI_OK;
}

tri_status tri__memory_format(void *area, size_t bytes, int rank, const tri_memory_pieces *pieces) {
    TRI_OWNED(tri__free_at) char *table = NULL;
    TRI_TRY(make_table(rank, pieces, &table));
    head h = lay_out(strlen(table), pieces);
    TRI_ASSERT(h.bytes <= bytes);
    memcpy((char *)area + h.table_at, table, h.table_bytes);
    memcpy(area, &h, sizeof h);
    return TRI_OK;
}

void *tri__memory_data(void *area, int copy, size_t *bytes) {
    const head *h = area;
    *bytes = h->data_at[1] - h->data_at[0];
    return (char *)area + h->data_at[copy];
}

void tri__memory_put_text(void *area, int copy, const char *text, size_t bytes) {
    head *h = area;
    uint32_t next = !atomic_load(&h->state[copy]);
    TRI_ASSERT(bytes <= TRI_MEMORY_STATE);
    memcpy((char *)area + h->state_at + (size_t)(2 * copy + (int)next) * TRI_MEMORY_STATE, text, bytes);
    h->state_bytes[copy][next] = bytes;
    atomic_store(&h->state[copy], next);
}

tri_status tri__memory_state(void *area, int copy, const tri_json *state) {
    TRI_OWNED(tri__free_at) char *text = tri__json_text(state, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(17));
    if (!text) return tri__fail(TRI_RESOURCE, "out of memory for the text of a state");
    size_t n = strlen(text);
    if (n <= TRI_MEMORY_STATE) tri__memory_put_text(area, copy, text, n);
    if (n <= TRI_MEMORY_STATE) return TRI_OK;
    return tri__fail(TRI_RESOURCE, "the text of a step's state has %zu bytes, and room for %d: run without "
                     "--replicate-state", n, TRI_MEMORY_STATE);
}

/* ---- reading ---- */

static tri_status damaged(void) { return tri__fail(TRI_DATA, "%s is damaged", NAME); }

static int within(uint64_t at, uint64_t bytes, uint64_t all) { return at <= all && bytes <= all - at; }

/* A copy of an area's head whose parts lie inside it. */
static tri_status read_head(const tri_memory_area *area, head *h) {
    if (area->bytes < sizeof *h) return damaged();
    memcpy(h, area->base, sizeof *h);
    if (memcmp(h->magic, MAGIC, sizeof MAGIC) || h->bytes > area->bytes ||
        !within(h->table_at, h->table_bytes, h->bytes) ||
        !within(h->state_at, (uint64_t)4 * TRI_MEMORY_STATE, h->bytes) ||
        !within(h->data_at[0], 0, h->bytes) || !within(h->data_at[1], 0, h->bytes) || h->state[0] > 1 ||
        h->state[1] > 1)
        return damaged();
    return TRI_OK;
}

/* ---- bringing an area elsewhere ---- */

tri_status tri__memory_extent(const tri_memory_area *area, tri_memory_extent *out) {
    head h;
    TRI_TRY(read_head(area, &h));
    if (h.data_at[0] > h.data_at[1] || h.data_at[0] < sizeof h ||
        !within(h.table_at, h.table_bytes, h.data_at[0]) ||
        !within(h.state_at, (uint64_t)4 * TRI_MEMORY_STATE, h.data_at[0]))
        return damaged();
    *out = (tri_memory_extent){.begin = h.data_at[0], .data = h.bytes - h.data_at[1],
                               .data_at = {h.data_at[0], h.data_at[1]}};
    return TRI_OK;
}

const char *tri__memory_text(const void *area, int copy, size_t *bytes) {
    const head *h = area;
    uint32_t text = h->state[copy] & 1;
    *bytes = h->state_bytes[copy][text] <= TRI_MEMORY_STATE ? h->state_bytes[copy][text] : 0;
    return (const char *)area + h->state_at + (size_t)(2 * copy + (int)text) * TRI_MEMORY_STATE;
}

void tri__memory_pack(void *area, const tri_memory_extent *extent) {
    head *h = area;
    h->data_at[0] = h->data_at[1] = extent->begin;
    h->bytes = extent->begin + extent->data;
}

/* ---- opening ---- */

/* The entries of one file: its tensors by name. */
static tri_status read_entries(const tri_json *list, const tri_memory_area *area, const head *h, int copy,
                               tri_st_file *file) {
    size_t n = tri__json_size(list);
    *file = (tri_st_file){.path = strdup(NAME), .fd = fcntl(area->fd, F_DUPFD_CLOEXEC, 0), .size = area->bytes,
                          .data = area->at + h->data_at[copy], .entry = calloc(n + 1, sizeof *file->entry),
                          .header = tri__json_object()};
    if (!file->path || !file->entry || !file->header || file->fd < 0)
        return tri__fail(TRI_RESOURCE, "out of memory or of open files for %s", NAME);
    tri__json_each(list, i, row) {
        const char *name = tri__json_string_value(tri__json_at(row, 0)),
                   *dtype = tri__json_string_value(tri__json_at(row, 1));
        int type = dtype ? tri__dtype_find(dtype) : -1;
        int64_t count = tri__json_integer_value(tri__json_at(row, 2)),
                at = tri__json_integer_value(tri__json_at(row, 3));
        if (!name || type < 0 || count < 0 || at < 0 || count > (int64_t)area->bytes) return damaged();
        int64_t bytes = count * (int64_t)tri__dtype_bytes((tri_dtype)type);
        if (!within(h->data_at[copy] + (uint64_t)at, (uint64_t)bytes, h->bytes)) return damaged();
        file->entry[i] = (tri_st_entry){.name = name, .dtype = (tri_dtype)type, .shape = tri__shape_1d(count),
                                        .begin = at, .end = at + bytes};
        if (tri__json_set_new(file->header, name, tri__json_integer((tri_json_int)i)))
            return tri__fail(TRI_RESOURCE, "out of memory for %s", NAME);
        file->n++;
    }
    return TRI_OK;
}

/* What is read of all areas. */
typedef struct reading {
    tri_json **table;   /* [n] */
    tri_json *manifest;
    tri_st_file *file;  /* [FILES * n] */
    const char **name;  /* [FILES * n] */
    int n_files;
} reading;

static tri_status read_area(const tri_memory_area *area, int i, int copy, reading *r) {
    head h;
    TRI_TRY(read_head(area, &h));
    TRI_TRY(tri__json_parse((const char *)area->base + h.table_at, h.table_bytes, NAME, TRI_DATA, &r->table[i]));
    const tri_json *names = tri__json_get(r->table[i], "names"), *entries = tri__json_get(r->table[i], "entries");
    for (int k = 0; k < FILES; k++) {
        r->name[r->n_files] = tri__json_string_value(tri__json_at(names, (size_t)k));
        if (!r->name[r->n_files]) return damaged();
        TRI_TRY(read_entries(tri__json_at(entries, (size_t)k), area, &h, copy, &r->file[r->n_files++]));
    }
    if (i > 0) { /* the manifest keeps the table, whose names are used */
        TRI_TRY(tri__checkpoint_join(r->manifest, r->table[i]));
        return tri__json_append(tri__json_get(r->manifest, "areas"), r->table[i])
                   ? tri__fail(TRI_RESOURCE, "out of memory for %s", NAME)
                   : TRI_OK;
    }
    tri_json *state = NULL;
    uint32_t text = h.state[copy];
    if (h.state_bytes[copy][text] > TRI_MEMORY_STATE) return damaged();
    TRI_TRY(tri__json_parse((const char *)area->base + h.state_at + (size_t)(2 * copy + (int)text) * TRI_MEMORY_STATE,
                            h.state_bytes[copy][text], NAME, TRI_DATA, &state));
    r->manifest = tri__json_pack("{s:O, s:O, s:o, s:[O]}", "tensors", tri__json_get(r->table[0], "tensors"), "files",
                                 tri__json_get(r->table[0], "files"), "state", state, "areas", r->table[0]);
    return r->manifest ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for %s", NAME);
}

tri_status tri__memory_open(const tri_memory_area *areas, int n, int copy, int64_t step, tri_json *config,
                            tri_checkpoint **out) {
    size_t files = (size_t)n * FILES;
    reading r = {.table = calloc((size_t)n, sizeof *r.table), .file = calloc(files, sizeof *r.file),
                 .name = calloc(files, sizeof *r.name)};
    tri_status status = r.table && r.file && r.name ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for %s", NAME);
    *out = NULL;
    for (int i = 0; i < n && status == TRI_OK; i++) status = read_area(&areas[i], i, copy, &r);
    if (status == TRI_OK) {
        status = tri__checkpoint_assemble(NAME, step, r.manifest, config, r.file, r.name, r.n_files, out);
    } else {
        for (int i = 0; i < r.n_files; i++) tri__st_close(&r.file[i]);
        tri__json_decref(r.manifest);
        tri__json_decref(config);
    }
    for (int i = 0; r.table && i < n; i++) tri__json_decref(r.table[i]);
    TRI_FREE(r.table, r.file, r.name);
    return status;
}
