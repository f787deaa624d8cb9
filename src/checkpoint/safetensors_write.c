/* safetensors_write.c - writes whole tensors, byte-identical to the reference writer: wide dtypes first, then by name,
 * so that data stays aligned; the header is padded with spaces to a multiple of 8. */
#include "checkpoint/safetensors.h"

#include "base/file_call.h"
#include "checkpoint/content_hash.h"

#include <errno.h>
#include <fcntl.h>

/* Position in the reference's list of dtypes; higher ones are written first. */
static const int dtype_order[TRI_DTYPE_COUNT] = {
    [TRI_U8] = 4, [TRI_I8] = 5, [TRI_F8_E5M2] = 6, [TRI_F8_E4M3] = 7, [TRI_F16] = 13, [TRI_BF16] = 14, [TRI_I32] = 15,
    [TRI_F32] = 17, [TRI_F64] = 19, [TRI_I64] = 20,
};

static int by_dtype_and_name(const void *a, const void *b) {
    const tri_piece *x = *(const tri_piece *const *)a, *y = *(const tri_piece *const *)b;
    if (x->dtype != y->dtype) return dtype_order[y->dtype] - dtype_order[x->dtype];
    return strcmp(x->name, y->name);
}

static size_t piece_bytes(const tri_piece *piece) {
    return (size_t)tri__shape_count(&piece->shape) * tri__dtype_bytes(piece->dtype);
}

static tri_json *entry_json(const tri_piece *piece, tri_json_int begin) {
    tri_json *shape = tri__json_array();
    for (int i = 0; i < piece->shape.n; i++) tri__json_append_new(shape, tri__json_integer(piece->shape.dim[i]));
    return tri__json_pack("{s:s, s:o, s:[I, I]}", "dtype", tri__dtype_file_name(piece->dtype), "shape", shape,
                          "data_offsets", begin, begin + (tri_json_int)piece_bytes(piece));
}

/* The padded header text, preceded by the 8 bytes of its length; NULL if out of memory. */
static char *header_text(const tri_piece *const *order, int n, const tri_json *metadata, size_t *size) {
    TRI_OWNED(tri__json_drop) tri_json *header = tri__json_object();
    int failed = header == NULL;
    if (tri__json_object_size(metadata)) failed |= tri__json_set(header, "__metadata__", (tri_json *)metadata);
    tri_json_int offset = 0;
    for (int i = 0; i < n && !failed; i++) {
        TRI_ASSERT(!tri__json_get(header, order[i]->name));
        failed |= tri__json_set_new(header, order[i]->name, entry_json(order[i], offset));
        offset += (tri_json_int)piece_bytes(order[i]);
    }
    TRI_OWNED(tri__free_at) char *json = failed ? NULL : tri__json_text(header, TRI_JSON_COMPACT);
    char *text = NULL;
    if (json) {
        uint64_t length = strlen(json), padded = (length + 7) & ~(uint64_t)7;
        *size = sizeof padded + padded;
        text = malloc(*size);
        if (text) {
            memcpy(text, &padded, sizeof padded);
            memcpy(text + sizeof padded, json, length);
            memset(text + sizeof padded + length, ' ', padded - length);
        }
    }
    return text;
}

/* A file being written: its size so far, and the hash of all of it. */
typedef struct output {
    int fd;
    const char *path;
    tri_hasher hasher;
    int64_t bytes, told; /* written; bytes whose writeback has been started */
} output;

/* Writes in chunks that stay cached between the two hashes and the copy to the page cache. Writeback of one range runs
 * while the next is hashed, so that little is left for fsync. */
static tri_status put(output *out, const char *data, size_t size, tri_hasher *piece) {
    enum { CHUNK = 1 << 20, STRETCH = 16 << 20 };
    for (size_t at = 0; at < size;) {
        size_t part = size - at < CHUNK ? size - at : CHUNK;
        tri__hasher_add(&out->hasher, data + at, part);
        if (piece) tri__hasher_add(piece, data + at, part);
        TRI_TRY(tri__write_all(out->fd, data + at, part, out->path));
        at += part, out->bytes += (int64_t)part;
        if (out->bytes - out->told >= STRETCH) {
            tri__call_begin(TRI_CALL_WRITE, out->path); /* it blocks while the disk's queue is full */
            sync_file_range(out->fd, out->told, out->bytes - out->told,
                            SYNC_FILE_RANGE_WRITE); /* a hint: only fsync guarantees */
            tri__call_end();
            out->told = out->bytes;
        }
    }
    return TRI_OK;
}

static tri_status put_piece(output *out, const tri_piece *piece, char hex[static 33]) {
    tri_hasher hasher;
    tri__hasher_begin(&hasher);
    TRI_TRY(put(out, piece->data, piece_bytes(piece), &hasher));
    tri__hasher_end(&hasher, hex);
    return TRI_OK;
}

/* order[i] points into `pieces`; hashes have the same indices as `pieces`. */
static tri_status put_all(output *out, const char *header, size_t header_bytes, const tri_piece *const *order,
                          const tri_piece *pieces, int n, tri_st_written *written) {
    TRI_TRY(put(out, header, header_bytes, NULL));
    for (int i = 0; i < n; i++) {
        char hex[33];
        TRI_TRY(put_piece(out, order[i], hex));
        if (written && written->piece) memcpy(written->piece[order[i] - pieces], hex, sizeof hex);
    }
    return TRI_OK;
}

static tri_status write_file(const char *path, const char *header, size_t header_bytes, const tri_piece *const *order,
                             const tri_piece *pieces, int n, tri_st_written *written) {
    char hex[33];
    output out = {.path = path};
    TRI_TRY(tri__file_own(path, TRI_OWN_NEW, &out.fd));
    tri__hasher_begin(&out.hasher);
    tri_status status = put_all(&out, header, header_bytes, order, pieces, n, written);
    tri__hasher_end(&out.hasher, hex);
    /* After a failed fsync the kernel marks the pages clean, and a second fsync would succeed without writing them: the
     * file is abandoned. */
    if (status == TRI_OK && tri__file_sync(out.fd, path))
        status = tri__fail(TRI_IO, "%s: cannot sync to disk: %s", path, strerror(errno));
    if (tri__close(out.fd) && status == TRI_OK) status = tri__fail_errno("close", path, TRI_IO);
    if (status != TRI_OK) (void)tri__file_remove(path);
    if (status == TRI_OK && written) {
        written->bytes = out.bytes;
        memcpy(written->xxh3, hex, sizeof hex);
    }
    return status;
}

tri_status tri__st_write(const char *path, const tri_piece *pieces, int n, const tri_json *metadata,
                         tri_st_written *written) {
    TRI_OWNED(tri__free_at) const tri_piece **order = calloc(n ? (size_t)n : 1, sizeof *order);
    if (!order) return tri__fail(TRI_RESOURCE, "%s: out of memory for %d tensors", path, n);
    for (int i = 0; i < n; i++) {
        TRI_ASSERT(tri__slice_is_whole(&pieces[i].slice, &pieces[i].shape));
        order[i] = &pieces[i];
    }
    qsort(order, (size_t)n, sizeof *order, by_dtype_and_name);
    size_t header_bytes = 0;
    TRI_OWNED(tri__free_at) char *header = header_text(order, n, metadata, &header_bytes);
    if (!header) return tri__fail(TRI_RESOURCE, "%s: out of memory for the header", path);
    return write_file(path, header, header_bytes, order, pieces, n, written);
}
