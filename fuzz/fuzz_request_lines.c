/* fuzz_request_lines.c - rows as JSON lines. */
#include "fuzz_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_request(tri__tei_parse, TRI_ROWS_LINES, NULL, 0, data, size);
}
