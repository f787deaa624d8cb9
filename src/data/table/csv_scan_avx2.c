/* csv_scan_avx2.c - parses CSV with AVX2, if the machine has it. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "base/for_isa.h"
#include "data/table/csv.h"

TRI_FOR_ISA("avx2")
#define TRI_UTF8_SSSE3 1
#include "data/table/csv_scan.h"

static inline uint64_t equal(const char *text, char byte) {
    __m256i want = _mm256_set1_epi8(byte);
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)text), want));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(
        _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(text + 32)), want));
    return (uint64_t)high << 32 | low;
}

static inline void look(const char *text, char delimiter, marks *out) {
    out->quote = equal(text, '"'), out->delimiter = equal(text, delimiter), out->feed = equal(text, '\n');
    __m256i rare = _mm256_setzero_si256();
    for (int i = 0; i < 2; i++) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(text + 32 * i));
        rare = _mm256_or_si256(rare, _mm256_or_si256(v, _mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_setzero_si256()),
                                                                        _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\r')))));
    }
    out->rare = _mm256_movemask_epi8(rare) != 0;
}

static inline void look_closer(const char *text, rare_marks *out) {
    out->carriage = equal(text, '\r'), out->zero = equal(text, 0);
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)text));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)(text + 32)));
    out->high = (uint64_t)high << 32 | low;
}

void tri__csv_scan_avx2(const tri_table *table, const tri_window *window, size_t from, tri_table_piece *piece) {
    scan_records(table, window, from, piece);
}
TRI_FOR_ISA_END
#endif
