/* fuzz_jsonl.c - a table as JSON lines. */
#include "fuzz_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_table("t.jsonl", data, size); }
