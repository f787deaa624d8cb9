/* parquet_bits.c - Parquet's packed numbers: runs of RLE and bit-packing, levels, and DELTA_BINARY_PACKED
 * (parquet-format, Encodings.md). */
#include "data/table/parquet.h"
#include "data/table/thrift.h"

int tri__parquet_run(tri_parquet_runs *runs, tri_parquet_run *run) {
    uint64_t header;
    if (!tri__varint(&runs->at, runs->end, &header)) return 0;
    size_t left = (size_t)(runs->end - runs->at), bytes = (size_t)(runs->width + 7) / 8;
    run->packed = (int)(header & 1);
    if (!run->packed) {
        run->count = header >> 1, run->value = 0;
        if (bytes > left) return 0;
        for (size_t i = 0; i < bytes; i++) run->value |= (uint32_t)runs->at[i] << (8 * i);
        runs->at += bytes;
        return runs->width == 32 || run->value < (uint64_t)1 << runs->width;
    }
    uint64_t groups = header >> 1, most = runs->width ? left / (size_t)runs->width : UINT32_MAX;
    run->bits = runs->at;
    if (groups > most) { /* the last run may lack the bytes of numbers that are not there */
        if (!runs->width || groups - 1 > most) return 0;
        run->count = (uint64_t)left * 8 / (uint64_t)runs->width;
        runs->at = runs->end;
        return 1;
    }
    run->count = groups * 8;
    runs->at += groups * (uint64_t)runs->width;
    return 1;
}

int tri__parquet_levels(const uint8_t *bytes, size_t size, int64_t n, uint8_t *out, int64_t *set) {
    tri_parquet_runs runs = {bytes, bytes + size, 1};
    tri_parquet_run run;
    *set = 0;
    for (int64_t at = 0; at < n;) {
        if (!tri__parquet_run(&runs, &run) || !run.count) return 0;
        int64_t count = run.count < (uint64_t)(n - at) ? (int64_t)run.count : n - at;
        if (!run.packed) {
            memset(out + at, (int)run.value, (size_t)count);
            *set += run.value ? count : 0;
        } else {
            int64_t ones = 0;
            for (int64_t i = 0; i < count; i++) {
                uint8_t bit = run.bits[i >> 3] >> (i & 7) & 1;
                out[at + i] = bit, ones += bit;
            }
            *set += ones;
        }
        at += count;
    }
    return 1;
}

/* A miniblock: n numbers of `width` bits, each added to `base` and the number before it. */
static uint64_t add_deltas(const uint8_t *bits, int width, int64_t n, uint64_t base, uint64_t last, int64_t *out) {
    if (!width) {
        for (int64_t i = 0; i < n; i++) out[i] = (int64_t)(last += base);
    } else if (width <= 32) {
        for (int64_t i = 0; i < n; i++)
            out[i] = (int64_t)(last += base + tri__bits_at(bits, (uint64_t)i * (uint64_t)width, width));
    } else {
        uint64_t mask = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
        for (int64_t i = 0; i < n; i++) {
            uint64_t bit = (uint64_t)i * (uint64_t)width, shift = bit & 7, value = tri__load64(bits + bit / 8) >> shift;
            if (shift) value |= (uint64_t)bits[bit / 8 + 8] << (64 - shift);
            out[i] = (int64_t)(last += base + (value & mask));
        }
    }
    return last;
}

/* A block of `size` numbers in miniblocks of `part`, of which `n` are there. 0: damaged. */
static int delta_block(const uint8_t **at, const uint8_t *end, uint64_t parts, uint64_t part, int64_t n,
                       uint64_t *last, int64_t *out) {
    uint64_t zigzag;
    if (!tri__varint(at, end, &zigzag) || (uint64_t)(end - *at) < parts) return 0;
    uint64_t base = (uint64_t)tri__zigzag(zigzag);
    const uint8_t *width = *at;
    *at += parts;
    for (uint64_t i = 0; i < parts && n > 0; i++) {
        int64_t count = (uint64_t)n < part ? n : (int64_t)part;
        if (width[i] > 64) return 0;
        uint64_t bytes = part / 8 * width[i], needed = ((uint64_t)count * width[i] + 7) / 8;
        if (needed > (uint64_t)(end - *at)) return 0;
        *last = add_deltas(*at, width[i], count, base, *last, out);
        *at += bytes < (uint64_t)(end - *at) ? bytes : (uint64_t)(end - *at);
        out += count, n -= count;
    }
    return 1;
}

int64_t tri__parquet_deltas(const uint8_t *bytes, size_t size, int64_t n, int64_t *out, size_t *used) {
    enum { BLOCK = 1 << 20 };
    const uint8_t *at = bytes, *end = bytes + size;
    uint64_t block, parts, total, first;
    if (!tri__varint(&at, end, &block) || !tri__varint(&at, end, &parts) || !tri__varint(&at, end, &total) ||
        !tri__varint(&at, end, &first))
        return -1;
    if (!parts || block > BLOCK || parts > block || block % parts || block / parts % 32) return -1;
    if (n < 0 ? total > (uint64_t)-n : total != (uint64_t)n) return -1;
    uint64_t last = (uint64_t)tri__zigzag(first);
    n = (int64_t)total;
    if (n) out[0] = (int64_t)last;
    for (int64_t done = 1; done < n; done += (int64_t)block) {
        int64_t count = n - done < (int64_t)block ? n - done : (int64_t)block;
        if (!delta_block(&at, end, parts, block / parts, count, &last, out + done)) return -1;
    }
    *used = (size_t)(at - bytes);
    return n;
}
