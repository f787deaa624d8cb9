/* fuzz_request_predict.c - the body of POST /predict, as JSON. */
#include "fuzz_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_request(tri__tei_parse, TRI_ROWS_JSON, "text", 0, data, size);
}
