/* fuzz_request_infer.c - the body of POST /v2/models/M/infer. */
#include "fuzz_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_request(tri__kserve_parse, TRI_ROWS_JSON, NULL, data, size);
}
