/* fuzz_request_csv.c - rows as CSV. */
#include "fuzz_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_request(tri__tei_parse, TRI_ROWS_CSV, NULL, 0, data, size);
}
