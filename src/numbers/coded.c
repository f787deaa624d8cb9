/* coded.c - sizes of coded rows. */
#include "numbers/coded.h"

static const struct {
    const char *name;
    int payload, scales;
} rows[] = {
#define X(upper, lower, payload, scales) {#lower, payload, scales},
    TRI_CODES(X)
#undef X
};

enum { ROW_GRANULE = 64 }; /* bytes */

static int64_t blocks_of(int64_t count) { return (count + TRI_CODE_BLOCK - 1) / TRI_CODE_BLOCK; }

const char *tri__code_name(tri_code code) { return rows[code].name; }

int64_t tri__code_payload(tri_code code) { return rows[code].payload; }

/* Bytes of a block, with its scale. */
static int64_t block_bytes(tri_code code) { return rows[code].payload + rows[code].scales * (int64_t)sizeof(float); }

int64_t tri__coded_scales(tri_code code, int64_t bytes) { return bytes / block_bytes(code) * rows[code].payload; }

int64_t tri__coded_bytes(tri_code code, int64_t count) {
    int64_t bytes = blocks_of(count) * block_bytes(code);
    return (bytes + ROW_GRANULE - 1) / ROW_GRANULE * ROW_GRANULE;
}

int64_t tri__coded_row(tri_code code, int64_t count, int members) {
    return tri__coded_bytes(code, tri__range_count(tri__shard(count, members, 0)));
}
