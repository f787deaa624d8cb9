/* fuzz_index.c - model.safetensors.index.json of a folder with two shards, a.safetensors (t, u) and b.safetensors
 * (v). */
#include "fuzz.h"

#include "checkpoint/huggingface.h"

#include <string.h>

static void make_shards(void) {
    static int made;
    if (made++) return;
    fuzz_shard("a.safetensors", "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                "\"u\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8);
    fuzz_shard("b.safetensors", "{\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
}

/* Of an index that was accepted: each tensor is mapped to one of the two shards, so that nothing else was opened. */
static void check_names(const uint8_t *data, size_t size) {
    tri_json *root;
    FUZZ_CHECK(tri__json_parse((const char *)data, size, "input", TRI_DATA, &root) == TRI_OK);
    tri__json_members(tri__json_get(root, "weight_map"), m) {
        const char *name = tri__json_string_value(m->value);
        FUZZ_CHECK(name && (strcmp(name, "a.safetensors") == 0 || strcmp(name, "b.safetensors") == 0));
    }
    tri__json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    make_shards();
    fuzz_hold("model.safetensors.index.json", data, size);
    tri_hf *hf;
    tri_status status = tri__hf_open(fuzz_folder(), &hf);
    /* TRI_NOINPUT: a shard that is not there. TRI_IO: one whose name is a folder's, or too long for the system. */
    FUZZ_CHECK(status == TRI_OK ? hf != NULL : status == TRI_DATA || status == TRI_NOINPUT || status == TRI_IO);
    if (hf) check_names(data, size);
    tri__hf_close(hf);
    return 0;
}
