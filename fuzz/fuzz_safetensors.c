/* fuzz_safetensors.c - a safetensors file: header, ranges, and every tensor read as numbers. */
#include "fuzz.h"

#include "checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* What tri__st_open promises: each entry lies in the data, entries touch and make it up, names find them again. */
static void check_file(const tri_st_file *file) {
    int64_t cursor = 0, data = (int64_t)file->size - (int64_t)file->data;
    for (int i = 0; i < file->n; i++) {
        const tri_st_entry *entry = &file->entry[i];
        int64_t bytes = (int64_t)tri__dtype_bytes(entry->dtype), n = (entry->end - entry->begin) / bytes;
        FUZZ_CHECK(entry->begin == cursor && entry->end >= entry->begin && entry->end <= data);
        FUZZ_CHECK(tri__shape_count(&entry->shape) == n);
        FUZZ_CHECK(tri__st_find(file, entry->name) == entry);
        cursor = entry->end;
        float *values = malloc((size_t)n * sizeof *values + 1);
        FUZZ_CHECK(values != NULL);
        tri_status status = tri__st_read_f32(file, entry, 0, n, values);
        FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
        free(values);
    }
    FUZZ_CHECK(cursor == data);
    FUZZ_CHECK(tri__st_find(file, "__metadata__") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tri_st_file file;
    tri_status status = tri__st_open(fuzz_file(data, size), &file);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (status != TRI_OK) return 0;
    check_file(&file);
    tri__st_close(&file);
    return 0;
}
