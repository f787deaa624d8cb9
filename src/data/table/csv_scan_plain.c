/* csv_scan_plain.c - parses CSV with 64-bit words, for machines without a vector version, and as the reference for
 * vector versions. */
#include "data/table/csv_scan.h"

static const uint64_t ONES = 0x0101010101010101u, TOPS = 0x8080808080808080u;

/* The top bit of each byte that is 0. */
static inline uint64_t zeros(uint64_t word) { return ~(((word & ~TOPS) + ~TOPS) | word) & TOPS; }
/* Gathers the top bits of eight bytes into one byte. */
static inline uint64_t gather(uint64_t tops) { return (tops >> 7) * 0x0102040810204080u >> 56; }

static inline uint64_t word_at(const char *text, int i) {
    uint64_t word;
    memcpy(&word, text + 8 * i, 8);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(word) : word;
}

static inline void look(const char *text, char delimiter, marks *out) {
    *out = (marks){0};
    uint64_t rare = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t word = word_at(text, i);
        out->quote |= gather(zeros(word ^ ONES * '"')) << 8 * i;
        out->delimiter |= gather(zeros(word ^ ONES * (unsigned char)delimiter)) << 8 * i;
        out->feed |= gather(zeros(word ^ ONES * '\n')) << 8 * i;
        rare |= zeros(word) | zeros(word ^ ONES * '\r') | (word & TOPS);
    }
    out->rare = rare != 0;
}

static inline void look_closer(const char *text, rare_marks *out) {
    *out = (rare_marks){0};
    for (int i = 0; i < 8; i++) {
        uint64_t word = word_at(text, i);
        out->carriage |= gather(zeros(word ^ ONES * '\r')) << 8 * i;
        out->zero |= gather(zeros(word)) << 8 * i;
        out->high |= gather(word & TOPS) << 8 * i;
    }
}

void tri__csv_scan_plain(const tri_table *table, const tri_window *window, size_t from, tri_table_piece *piece) {
    scan_records(table, window, from, piece);
}
