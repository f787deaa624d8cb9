/* fuzz_wisdom.c - the file of algorithms by shape. The hash at the end is put right first, so that what lies before it
 * is reached; what is accepted prints as the same bytes. */
#include "fuzz.h"

#include "device/wisdom.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tri_wisdom wisdom;
    size_t again_size = 0;
    char *text = malloc(size + TRI_WISDOM_END);
    FUZZ_CHECK(text != NULL);
    if (size) memcpy(text, data, size);
    tri__wisdom_end(text, size, text + size);
    tri_status status = tri__wisdom_parse(text, size + TRI_WISDOM_END - 1, "input", &wisdom);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (status == TRI_OK) {
        char *again = tri__wisdom_text(&wisdom, &again_size);
        FUZZ_CHECK(again && again_size == size + TRI_WISDOM_END - 1 && memcmp(again, text, again_size) == 0);
        free(again);
    }
    free(text);
    text = malloc(size + 1); /* as it is, with no byte to spare */
    FUZZ_CHECK(text != NULL);
    if (size) memcpy(text, data, size);
    status = tri__wisdom_parse(text, size, "input", &wisdom);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    free(text);
    return 0;
}
