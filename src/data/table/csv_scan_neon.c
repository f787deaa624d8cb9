/* csv_scan_neon.c - parses CSV with NEON. The load deinterleaves 64 bytes into four vectors, so that narrowing shifts
 * can combine four comparisons into 64 bits in byte order. */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "data/table/csv_scan.h"

/* One bit per byte, from bytes that are all ones or zero. */
static inline uint64_t bits_of(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
    uint8x16_t all = vsriq_n_u8(vsriq_n_u8(d, c, 1), vsriq_n_u8(b, a, 1), 2);
    uint8x8_t packed = vshrn_n_u16(vreinterpretq_u16_u8(vsriq_n_u8(all, all, 4)), 4);
    return vget_lane_u64(vreinterpret_u64_u8(packed), 0);
}

static inline uint64_t equal(uint8x16x4_t v, char byte) {
    uint8x16_t want = vdupq_n_u8((uint8_t)byte);
    return bits_of(vceqq_u8(v.val[0], want), vceqq_u8(v.val[1], want), vceqq_u8(v.val[2], want),
                   vceqq_u8(v.val[3], want));
}

static inline void look(const char *text, char delimiter, marks *out) {
    uint8x16x4_t v = vld4q_u8((const uint8_t *)text);
    out->quote = equal(v, '"'), out->delimiter = equal(v, delimiter), out->feed = equal(v, '\n');
    uint8x16_t carriage = vdupq_n_u8('\r');
    uint8x16_t least = vminq_u8(vminq_u8(v.val[0], v.val[1]), vminq_u8(v.val[2], v.val[3]));
    uint8x16_t differ = vminq_u8(vminq_u8(veorq_u8(v.val[0], carriage), veorq_u8(v.val[1], carriage)),
                                 vminq_u8(veorq_u8(v.val[2], carriage), veorq_u8(v.val[3], carriage)));
    uint8x16_t high = vorrq_u8(vorrq_u8(v.val[0], v.val[1]), vorrq_u8(v.val[2], v.val[3]));
    out->rare = vmaxvq_u8(vorrq_u8(vceqzq_u8(vminq_u8(least, differ)), high)) >= 0x80;
}

static inline void look_closer(const char *text, rare_marks *out) {
    uint8x16x4_t v = vld4q_u8((const uint8_t *)text);
    uint8x16_t high = vdupq_n_u8(0x80);
    out->carriage = equal(v, '\r'), out->zero = equal(v, 0);
    out->high = bits_of(vcgeq_u8(v.val[0], high), vcgeq_u8(v.val[1], high), vcgeq_u8(v.val[2], high),
                        vcgeq_u8(v.val[3], high));
}

void tri__csv_scan_neon(const tri_table *table, const tri_window *window, size_t from, tri_table_piece *piece) {
    scan_records(table, window, from, piece);
}
#endif
