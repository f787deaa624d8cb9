/* snappy.c - Snappy's block format (google/snappy, format_description.txt): a varint with the unpacked size, then
 * literals and copies of what was unpacked before. Every length and offset is checked before bytes move. */
#include "data/table/thrift.h"
#include "data/table/unpack.h"

enum { LITERAL, COPY_1, COPY_2, COPY_4 };
enum { SIZE_BYTES = 5 }; /* most of the unpacked size */

/* Copies `length` bytes that begin `offset` before `to`; they may overlap, which repeats them. `room` bytes may be
 * written. */
static inline void copy_back(uint8_t *to, size_t offset, size_t length, size_t room) {
    const uint8_t *from = to - offset;
    if (offset >= 16 && room >= length + 16) {
        for (size_t i = 0; i < length; i += 16) memcpy(to + i, from + i, 16);
    } else if (offset >= 8 && room >= length + 8) {
        for (size_t i = 0; i < length; i += 8) memcpy(to + i, from + i, 8);
    } else if (offset >= length) {
        memcpy(to, from, length);
    } else {
        for (size_t i = 0; i < length; i++) to[i] = from[i];
    }
}

int tri__snappy_unpack(const uint8_t *packed, size_t size, uint8_t *out, size_t out_size) {
    const uint8_t *at = packed, *end = packed + size;
    uint8_t *to = out, *stop = out + out_size;
    uint64_t expected;
    if (!tri__varint(&at, end, &expected) || at - packed > SIZE_BYTES || expected != out_size) return 0;
    while (at < end) {
        uint8_t tag = *at++;
        size_t left = (size_t)(end - at), room = (size_t)(stop - to), length, offset, extra;
        if ((tag & 3) == LITERAL) {
            length = (size_t)(tag >> 2) + 1;
            if (length <= 16 && left >= 16 && room >= 16) { /* the frequent case: one move, whatever the length */
                memcpy(to, at, 16);
                at += length, to += length;
                continue;
            }
            if (length > 60) {
                extra = length - 60;
                if (left < extra) return 0;
                length = 1;
                for (size_t i = 0; i < extra; i++) length += (size_t)at[i] << (8 * i);
                at += extra, left -= extra;
            }
            if (length > left || length > room) return 0;
            memcpy(to, at, length);
            at += length, to += length;
            continue;
        }
        if ((tag & 3) == COPY_1) {
            if (left < 1) return 0;
            length = 4 + (size_t)(tag >> 2 & 7), offset = (size_t)(tag >> 5) << 8 | at[0], at += 1;
        } else if ((tag & 3) == COPY_2) {
            if (left < 2) return 0;
            length = (size_t)(tag >> 2) + 1, offset = (size_t)at[0] | (size_t)at[1] << 8, at += 2;
        } else {
            if (left < 4) return 0;
            length = (size_t)(tag >> 2) + 1;
            offset = (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24, at += 4;
        }
        if (!offset || offset > (size_t)(to - out) || length > room) return 0;
        copy_back(to, offset, length, room);
        to += length;
    }
    return to == stop;
}
