/* fuzz_manifest.c - manifest.json of a checkpoint with one shard. The input's checksum is put right first (when it is
 * an object), so that what lies behind it is reached; then every tensor is read. */
#include "fuzz.h"

#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

static void make_files(void) {
    static int made;
    if (made++) return;
    fuzz_shard("weights-00000.safetensors", "{\"t\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                                            "\"u@0\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]},"
                                            "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[24,24]}}", 24);
    fuzz_write("config.json", "{\"a\": 1}", 8);
    fuzz_write("manifest.json", "{}", 2); /* what is read is held in memory */
}

static void write_manifest(const uint8_t *data, size_t size) {
    tri_json *root;
    if (tri__json_parse((const char *)data, size, "input", TRI_DATA, &root) != TRI_OK) {
        fuzz_hold("manifest.json", data, size);
        return;
    }
    tri__json_del(root, "checksum");
    char *text = tri__manifest_text(root);
    FUZZ_CHECK(text != NULL);
    fuzz_hold("manifest.json", text, strlen(text));
    free(text);
    tri__json_decref(root);
}

static void read_tensors(const tri_checkpoint *checkpoint) {
    for (int i = 0; i < tri__checkpoint_count(checkpoint); i++) {
        tri_piece piece;
        FUZZ_CHECK(tri__checkpoint_tensor(checkpoint, i, &piece) == TRI_OK);
        FUZZ_CHECK(tri__checkpoint_has(checkpoint, piece.name));
        int64_t bytes = tri__shape_count(&piece.shape) * (int64_t)tri__dtype_bytes(piece.dtype);
        FUZZ_CHECK(bytes >= 0 && bytes <= 24 * 4096); /* slices make a tensor up, and each lies in a file */
        char *both = malloc(2 * (size_t)bytes + 1); /* over zeros and over ones: what is not written differs */
        FUZZ_CHECK(both != NULL);
        for (int half = 0; half < 2; half++) {
            piece.data = memset(both + half * bytes, half ? 0xFF : 0, (size_t)bytes);
            FUZZ_CHECK(tri__checkpoint_read(checkpoint, &piece) == TRI_OK);
        }
        FUZZ_CHECK(memcmp(both, both + bytes, (size_t)bytes) == 0);
        free(both);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    make_files();
    write_manifest(data, size);
    tri_checkpoint *checkpoint;
    tri_status status = tri__checkpoint_open(fuzz_folder(), 0, &checkpoint);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA || status == TRI_IO ||
               status == TRI_USAGE); /* the last: of another version */
    if (status == TRI_OK) read_tensors(checkpoint);
    tri__checkpoint_close(checkpoint);
    return 0;
}
