/* digest.c - one hash of a state, independent of files, slices and mesh: the xxh3-128 of one line per tensor, sorted by
 * name: "<name> <dtype> <shape> <xxh3-128 of its bytes>\n", e.g. "fusion.output.bias F32 [2] 1f0c...". */
#include "checkpoint/checkpoint.h"

#include "checkpoint/content_hash.h"

static int by_name(const void *a, const void *b) {
    return strcmp(((const tri_piece *)a)->name, ((const tri_piece *)b)->name);
}

/* Reads the tensor's bytes from memory if they are there, else from the checkpoint through a buffer. */
static tri_status tensor_hash(const tri_checkpoint *checkpoint, tri_piece tensor, char hex[static 33]) {
    size_t bytes = (size_t)tri__shape_count(&tensor.shape) * tri__dtype_bytes(tensor.dtype);
    TRI_OWNED(tri__free_at) void *buffer = NULL;
    if (!tensor.data && bytes) {
        tensor.data = buffer = malloc(bytes);
        if (!buffer) return tri__fail(TRI_RESOURCE, "no memory for the %zu bytes of tensor '%s'", bytes, tensor.name);
        TRI_TRY(tri__checkpoint_read(checkpoint, &tensor));
    }
    tri__hash(bytes ? tensor.data : "", bytes, hex);
    return TRI_OK;
}

/* Sorts the tensors. `checkpoint`: the source of tensors without data. */
static tri_status digest(const tri_checkpoint *checkpoint, tri_piece *tensors, int n, char hex[static 33]) {
    tri_hasher hasher;
    tri__hasher_begin(&hasher);
    qsort(tensors, (size_t)n, sizeof *tensors, by_name);
    for (int i = 0; i < n; i++) {
        char hash[33], shape[128], rest[256];
        TRI_TRY(tensor_hash(checkpoint, tensors[i], hash));
        int length = snprintf(rest, sizeof rest, " %s %s %s\n", tri__dtype_file_name(tensors[i].dtype),
                              tri__shape_text(&tensors[i].shape, shape), hash);
        tri__hasher_add(&hasher, tensors[i].name, strlen(tensors[i].name));
        tri__hasher_add(&hasher, rest, (size_t)length);
    }
    tri__hasher_end(&hasher, hex);
    return TRI_OK;
}

/* Of the pieces, or, if NULL, of all tensors of the checkpoint. */
static tri_status digest_all(const tri_checkpoint *checkpoint, const tri_piece *pieces, int n, char hex[static 33]) {
    TRI_OWNED(tri__free_at) tri_piece *tensors = malloc(((size_t)n + 1) * sizeof *tensors);
    if (!tensors) return tri__fail(TRI_RESOURCE, "no memory for the digest of %d tensors", n);
    for (int i = 0; i < n; i++)
        if (pieces) tensors[i] = pieces[i];
        else TRI_TRY(tri__checkpoint_tensor(checkpoint, i, &tensors[i]));
    return digest(checkpoint, tensors, n, hex);
}

tri_status tri__pieces_digest(const tri_piece *pieces, int n, char hex[static 33]) {
    for (int i = 0; i < n; i++)
        TRI_ASSERT(tri__slice_is_whole(&pieces[i].slice, &pieces[i].shape) &&
                   (pieces[i].data || pieces[i].slice.end == 0));
    return digest_all(NULL, pieces, n, hex);
}

tri_status tri__checkpoint_digest(const tri_checkpoint *checkpoint, char hex[static 33]) {
    return digest_all(checkpoint, NULL, tri__checkpoint_count(checkpoint), hex);
}
