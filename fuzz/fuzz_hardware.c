/* fuzz_hardware.c - a hardware file. What is accepted times a program's instructions with finite seconds, and prints as
 * a file that is accepted and prints the same. */
#include "fuzz.h"

#include "sim/sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *reprint(const char *text, size_t size, int times) {
    static tri_arena arena; /* kept, and emptied for each text: mapping one takes as long as reading */
    tri_hardware h;
    tri_json *root;
    char *printed = NULL;
    if (tri__json_parse(text, size, "input", TRI_DATA, &root) != TRI_OK) return NULL;
    if (arena.chunk) tri__arena_rewind(&arena, 0);
    else FUZZ_CHECK(tri__arena_open(&arena, 1 << 20) == TRI_OK);
    tri_status status = tri__hardware_read(&arena, "input", root, &h);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    tri__json_decref(root);
    if (status == TRI_OK) {
        for (int v = 0; times && v < tri__variant_count(); v++) {
            const tri_kernel_call call = {.variant = v, .threads = 3, .size = {5, 300, 70, 9}};
            double seconds = tri__curve_seconds(&h, &call);
            FUZZ_CHECK(isfinite(seconds) && (seconds == -1 || seconds >= 0));
        }
        tri_json *json = tri__hardware_json(&h);
        printed = tri__json_line(json);
        FUZZ_CHECK(printed != NULL);
        tri__json_decref(json);
    }
    return printed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *first = reprint((const char *)data, size, 1), *second = first ? reprint(first, strlen(first), 0) : NULL;
    FUZZ_CHECK(!first || (second && strcmp(first, second) == 0));
    free(first);
    free(second);
    return 0;
}
