/* fuzz_csv.c - a table as CSV, or as TSV when a tab is in it. */
#include "fuzz_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_table(size && memchr(data, '\t', size) ? "t.tsv" : "t.csv", data, size);
}
