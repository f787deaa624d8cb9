/* csv_scan_sse2.c - parses CSV with SSE2, which every x86-64 has. */
#if defined(__x86_64__)
#include <emmintrin.h>

#include "data/table/csv_scan.h"

static inline __m128i part(const char *text, int i) { return _mm_loadu_si128((const __m128i *)(text + 16 * i)); }

static inline uint64_t equal(const char *text, char byte) {
    uint64_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(part(text, i), _mm_set1_epi8(byte))) << 16 * i;
    return bits;
}

static inline void look(const char *text, char delimiter, marks *out) {
    out->quote = equal(text, '"'), out->delimiter = equal(text, delimiter), out->feed = equal(text, '\n');
    __m128i rare = _mm_setzero_si128();
    for (int i = 0; i < 4; i++) {
        __m128i v = part(text, i);
        rare = _mm_or_si128(rare, _mm_or_si128(v, _mm_or_si128(_mm_cmpeq_epi8(v, _mm_setzero_si128()),
                                                               _mm_cmpeq_epi8(v, _mm_set1_epi8('\r')))));
    }
    out->rare = _mm_movemask_epi8(rare) != 0;
}

static inline void look_closer(const char *text, rare_marks *out) {
    out->carriage = equal(text, '\r'), out->zero = equal(text, 0), out->high = 0;
    for (int i = 0; i < 4; i++) out->high |= (uint64_t)(uint32_t)_mm_movemask_epi8(part(text, i)) << 16 * i;
}

void tri__csv_scan_sse2(const tri_table *table, const tri_window *window, size_t from, tri_table_piece *piece) {
    scan_records(table, window, from, piece);
}
#endif
