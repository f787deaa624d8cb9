/* fuzz_request_infer.c - the body of POST /v2/models/M/infer. What follows the last brace stands for binary tensors. */
#include "fuzz_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t json = size;
    while (json && data[json - 1] != '}') json--;
    fuzz_request(tri__kserve_parse, TRI_ROWS_JSON, NULL, json, data, size);
    return fuzz_request(tri__kserve_parse, TRI_ROWS_JSON, NULL, 0, data, size);
}
