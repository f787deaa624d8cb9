/* safetensors.c - reads safetensors files: an 8-byte length, a JSON header, packed little-endian data. A file is
 * untrusted input, so every rule of docs/reference/formats.md is checked when it is opened, with overflow-checked
 * arithmetic and against the file's length; afterwards an entry's [begin, end) can be used without checks. */
#include "checkpoint/safetensors.h"

#include "base/read_at.h"
#include "numbers/float16.h"

#include <unistd.h>

enum { LENGTH_BYTES = 8 };
static const char metadata_key[] = "__metadata__";

/* Only the format's names: "f32" is ours. */
static int find_dtype(const char *name) {
    int dtype = tri__dtype_find(name);
    return dtype >= 0 && strcmp(name, tri__dtype_file_name((tri_dtype)dtype)) == 0 ? dtype : -1;
}

/* The format has no negative numbers. The reference reader rejects "-0", which an integer parser reads as 0, so the
 * text itself is checked. */
static tri_status check_signs(const char *path, const char *text, size_t length) {
    int quoted = 0;
    for (size_t i = 0; i < length; i++) {
        if (quoted && text[i] == '\\') i++;
        else if (text[i] == '"') quoted = !quoted;
        else if (text[i] == '-' && !quoted)
            return tri__fail(TRI_DATA, "%s: a negative number at byte %zu of the header", path, i);
    }
    return TRI_OK;
}

static int is_size(const tri_json *value) { return tri__json_is_integer(value) && tri__json_integer_value(value) >= 0; }

static tri_status parse_shape(const char *path, const char *name, const tri_json *dims, tri_shape *shape) {
    if (!tri__json_is_array(dims)) return tri__fail(TRI_DATA, "%s: tensor '%s': shape is not a list", path, name);
    if (tri__json_size(dims) > TRI_MAX_DIMS)
        return tri__fail(TRI_DATA, "%s: tensor '%s' has %zu dims, the limit is %d", path, name, tri__json_size(dims),
                         TRI_MAX_DIMS);
    *shape = (tri_shape){.n = (int)tri__json_size(dims)};
    for (int i = 0; i < shape->n; i++) {
        const tri_json *dim = tri__json_at(dims, (size_t)i);
        if (!is_size(dim))
            return tri__fail(TRI_DATA, "%s: tensor '%s': dim %d of its shape is not a size", path, name, i);
        shape->dim[i] = tri__json_integer_value(dim);
    }
    return TRI_OK;
}

static tri_status parse_entry(const char *path, const char *name, const tri_json *value, tri_st_entry *entry) {
    const char *dtype_name = tri__text_in(value, "dtype");
    const tri_json *offsets = tri__json_get(value, "data_offsets");
    if (!dtype_name) return tri__fail(TRI_DATA, "%s: tensor '%s' has no dtype", path, name);
    int dtype = find_dtype(dtype_name);
    if (dtype < 0)
        return tri__fail(TRI_DATA, "%s: tensor '%s' has dtype %s, which Trident does not read; convert it to F32", path,
                         name, dtype_name);
    *entry = (tri_st_entry){.name = name, .dtype = (tri_dtype)dtype};
    TRI_TRY(parse_shape(path, name, tri__json_get(value, "shape"), &entry->shape));
    if (tri__json_size(offsets) != 2 || !is_size(tri__json_at(offsets, 0)) || !is_size(tri__json_at(offsets, 1)))
        return tri__fail(TRI_DATA, "%s: tensor '%s': data_offsets must be two sizes", path, name);
    entry->begin = tri__json_integer_value(tri__json_at(offsets, 0));
    entry->end = tri__json_integer_value(tri__json_at(offsets, 1));
    int64_t bytes = tri__shape_count(&entry->shape);
    char text[128];
    if (bytes < 0 || __builtin_mul_overflow(bytes, (int64_t)tri__dtype_bytes(entry->dtype), &bytes))
        return tri__fail(TRI_DATA, "%s: tensor '%s': the size of shape %s overflows", path, name,
                         tri__shape_text(&entry->shape, text));
    if (entry->end < entry->begin || entry->end - entry->begin != bytes)
        return tri__fail(TRI_DATA, "%s: tensor '%s': data_offsets [%lld, %lld] do not fit %s of shape %s (%lld bytes)",
                         path, name, (long long)entry->begin, (long long)entry->end, dtype_name,
                         tri__shape_text(&entry->shape, text), (long long)bytes);
    return TRI_OK;
}

static tri_status check_metadata(const char *path, const tri_json *metadata) {
    if (!tri__json_is_object(metadata)) return tri__fail(TRI_DATA, "%s: __metadata__ is not an object", path);
    tri__json_members(metadata, m) if (!tri__json_is_string(m->value)) return tri__fail(
        TRI_DATA, "%s: __metadata__: '%s' is not a string", path, m->key);
    return TRI_OK;
}

static int by_offset(const void *a, const void *b) {
    const tri_st_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Ranges must start at 0, be adjacent, and end at the end of the file. */
static tri_status check_ranges(const tri_st_file *file, size_t data_bytes) {
    int64_t cursor = 0;
    for (int i = 0; i < file->n; i++) {
        const tri_st_entry *entry = &file->entry[i];
        if (entry->begin != cursor)
            return tri__fail(TRI_DATA,
                             "%s: tensor '%s' begins at %lld, but the one before it ends at %lld: the data has %s",
                             file->path, entry->name, (long long)entry->begin, (long long)cursor,
                             entry->begin < cursor ? "an overlap" : "a hole");
        cursor = entry->end;
    }
    if ((uint64_t)cursor != data_bytes)
        return tri__fail(TRI_DATA, "%s: the tensors need %lld bytes of data, the file has %zu; is it cut short?",
                         file->path, (long long)cursor, data_bytes);
    return TRI_OK;
}

/* Turns the header into a map from name to index of `entry`, plus __metadata__; it still owns the names. */
static tri_status index_entries(tri_st_file *file) {
    for (int i = 0; i < file->n; i++)
        if (tri__json_set_new(file->header, file->entry[i].name, tri__json_integer(i)))
            return tri__fail(TRI_RESOURCE, "%s: out of memory", file->path);
    return TRI_OK;
}

static tri_status parse_header(tri_st_file *file) {
    const char *path = file->path;
    tri_json *metadata = tri__json_get(file->header, metadata_key);
    if (metadata) TRI_TRY(check_metadata(path, metadata));
    size_t n = tri__json_object_size(file->header) - (metadata != NULL);
    if (n > TRI_LIMIT_TENSORS)
        return tri__fail(TRI_DATA, "%s: %zu tensors, the limit is %d", path, n, TRI_LIMIT_TENSORS);
    file->entry = calloc(n ? n : 1, sizeof *file->entry);
    if (!file->entry) return tri__fail(TRI_RESOURCE, "%s: out of memory for %zu tensors", path, n);
    tri__json_members(file->header, m)
        if (strcmp(m->key, metadata_key) != 0) TRI_TRY(parse_entry(path, m->key, m->value, &file->entry[file->n++]));
    qsort(file->entry, n, sizeof *file->entry, by_offset);
    return TRI_OK;
}

/* text: a buffer for the header and one more byte. */
static tri_status read_header(tri_st_file *file, uint64_t header_bytes, char *text) {
    const char *path = file->path;
    TRI_TRY(tri__read_at(file->fd, LENGTH_BYTES, text, header_bytes, path));
    if (header_bytes == 0 || text[0] != '{') return tri__fail(TRI_DATA, "%s: the header does not begin with '{'", path);
    TRI_TRY(check_signs(path, text, header_bytes));
    TRI_TRY(tri__json_parse(text, header_bytes, path, TRI_DATA, &file->header));
    file->data = LENGTH_BYTES + header_bytes;
    TRI_TRY(parse_header(file));
    TRI_TRY(check_ranges(file, file->size - file->data));
    return index_entries(file);
}

static tri_status check_file(tri_st_file *file) {
    const char *path = file->path;
    if (file->size < LENGTH_BYTES) return tri__fail(TRI_DATA, "%s: too short for a safetensors file", path);
    uint64_t header_bytes;
    TRI_TRY(tri__read_at(file->fd, 0, &header_bytes, LENGTH_BYTES, path));
    if (header_bytes > TRI_LIMIT_JSON_FILE)
        return tri__fail(TRI_DATA, "%s: header of %llu bytes, the limit is %d; is this a safetensors file?", path,
                         (unsigned long long)header_bytes, TRI_LIMIT_JSON_FILE);
    if (header_bytes > file->size - LENGTH_BYTES)
        return tri__fail(TRI_DATA, "%s: header of %llu bytes, but the file has %zu; is it cut short?", path,
                         (unsigned long long)header_bytes, file->size);
    TRI_OWNED(tri__free_at) char *text = malloc(header_bytes + 1);
    if (!text)
        return tri__fail(TRI_RESOURCE, "%s: no memory for its header of %llu bytes", path,
                         (unsigned long long)header_bytes);
    return read_header(file, header_bytes, text);
}

/* Takes ownership of the descriptor. */
static tri_status take(const char *path, int fd, size_t size, tri_st_file *file) {
    *file = (tri_st_file){.path = strdup(path), .fd = fd, .size = size};
    if (!file->path) {
        close(fd);
        return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    tri_status status = check_file(file);
    if (status != TRI_OK) tri__st_close(file);
    return status;
}

tri_status tri__st_open(const char *path, tri_st_file *file) {
    int fd;
    size_t size;
    *file = (tri_st_file){0};
    TRI_TRY(tri__file_open(path, &fd, &size));
    return take(path, fd, size, file);
}

tri_status tri__st_open_listed(const char *folder, const char *name, tri_st_file *file) {
    int fd;
    size_t size;
    *file = (tri_st_file){0};
    TRI_PATH(path, folder, name);
    TRI_TRY(tri__file_open_listed(folder, name, &fd, &size));
    return take(path, fd, size, file);
}

void tri__st_close(tri_st_file *file) {
    free(file->entry);
    tri__json_decref(file->header);
    if (file->path) close(file->fd);
    free(file->path);
    *file = (tri_st_file){0};
}

const tri_st_entry *tri__st_find(const tri_st_file *file, const char *name) {
    const tri_json *index = tri__json_get(file->header, name);
    return tri__json_is_integer(index) ? &file->entry[tri__json_integer_value(index)] : NULL;
}

tri_status tri__st_read(const tri_st_file *file, const tri_st_entry *entry, int64_t begin, int64_t n, void *out) {
    int64_t bytes = (int64_t)tri__dtype_bytes(entry->dtype);
    TRI_ASSERT(begin >= 0 && n >= 0 && begin + n <= (entry->end - entry->begin) / bytes);
    return tri__read_at(file->fd, file->data + (uint64_t)(entry->begin + begin * bytes), out, (size_t)(n * bytes),
                        file->path);
}

tri_status tri__st_read_f32(const tri_st_file *file, const tri_st_entry *entry, int64_t begin, int64_t n, float *out) {
    enum { PIECE = 4096 };
    if (entry->dtype == TRI_F32) return tri__st_read(file, entry, begin, n, out);
    if (entry->dtype != TRI_F16 && entry->dtype != TRI_BF16)
        return tri__fail(TRI_DATA, "%s: tensor '%s' is %s; weights must be F32, F16 or BF16", file->path, entry->name,
                         tri__dtype_file_name(entry->dtype));
    for (int64_t at = 0; at < n;) {
        uint16_t half[PIECE];
        int64_t count = n - at < PIECE ? n - at : PIECE;
        TRI_TRY(tri__st_read(file, entry, begin + at, count, half));
        for (int64_t i = 0; i < count; i++)
            out[at + i] = entry->dtype == TRI_F16 ? tri__from_f16(half[i]) : tri__from_bf16(half[i]);
        at += count;
    }
    return TRI_OK;
}
