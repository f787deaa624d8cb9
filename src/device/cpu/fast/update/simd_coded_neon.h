/* simd_coded_neon.h - what simd_coded.h needs to widen, narrow and gather bits, by NEON's own instructions. Conversions
 * between integers and floats run at a quarter of the rate of other instructions: small integers are placed in the low
 * bits of 2^23 instead. */
#pragma once

/* Compilers would clear the sign in place, and copy before. */
INLINE vf size_of(vf v) { return (vf)vabsq_f32((float32x4_t)v); }

INLINE void put_bytes(uint8_t *to, const vi v[4]) {
    uint16x8_t low = vuzp1q_u16((uint16x8_t)v[0], (uint16x8_t)v[1]);
    uint16x8_t high = vuzp1q_u16((uint16x8_t)v[2], (uint16x8_t)v[3]);
    vst1q_u8(to, vuzp1q_u8((uint8x16_t)low, (uint8x16_t)high));
}

/* 8 vectors as e4m3, and what that stands for. Adding 1.5 * 2^20 times the power of two below |v|, for numbers below
 * 2^-6 that of 2^-6, rounds v to 3 bits after the first, or to a multiple of 2^-9. The low byte of the sum is the count
 * of such steps, with v's sign. e4m3 counts steps of all sizes: 8 for each power of two. Powers are the high halves of
 * v, where 2^-6 is 0x3C80 and the factor adds 0x0A40. */
INLINE void put_e4m3(uint8_t *to, const vf v[8], vf value[8]) {
    uint16x8_t high[4], excess[4], none = vdupq_n_u16(0), low[4];
    uint32x4_t sign = vdupq_n_u32(0x80000000u);
    vf shift[8], shifted[8];
    EACH(j, 4) high[j] = vuzp2q_u16((uint16x8_t)v[2 * j], (uint16x8_t)v[2 * j + 1]);
    EACH(j, 4) excess[j] = vqsubq_u16(vandq_u16(high[j], vdupq_n_u16(0x7F80)), vdupq_n_u16(0x3C80));
    EACH(j, 4) {
        uint16x8_t power = vaddq_u16(excess[j], vdupq_n_u16(0x3C80 + 0x0A40));
        shift[2 * j] = (vf)vzip1q_u16(none, power), shift[2 * j + 1] = (vf)vzip2q_u16(none, power);
    }
    EACH_OF(j, 8) shifted[j] = v[j] + shift[j];
    EACH_OF(j, 8) value[j] = (vf)vbslq_u32(sign, (uint32x4_t)v[j], (uint32x4_t)(shifted[j] - shift[j]));
    EACH(j, 4) low[j] = vuzp1q_u16((uint16x8_t)shifted[2 * j], (uint16x8_t)shifted[2 * j + 1]);
    EACH(j, 2) {
        int8x16_t steps = (int8x16_t)vuzp1q_u8((uint8x16_t)low[2 * j], (uint8x16_t)low[2 * j + 1]);
        int8x16_t powers = (int8x16_t)vshrn_high_n_u16(vshrn_n_u16(excess[2 * j], 4), excess[2 * j + 1], 4);
        uint8x16_t signs = vuzp2q_u8((uint8x16_t)high[2 * j], (uint8x16_t)high[2 * j + 1]);
        uint8x16_t bytes = (uint8x16_t)vabaq_s8(powers, steps, (int8x16_t)none);
        vst1q_u8(to + 16 * j, vbslq_u8(vdupq_n_u8(0x80), signs, bytes));
    }
}

INLINE void put_high(uint16_t *to, const vu v[2]) { vst1q_u16(to, vuzp2q_u16((uint16x8_t)v[0], (uint16x8_t)v[1])); }

/* Bytes, less `zero`, as floats. */
INLINE void small_integers(uint8x16_t bytes, float zero, vf q[4]) {
    uint16x8_t power = vdupq_n_u16(0x4B00), none = vdupq_n_u16(0);
    uint16x8_t low = (uint16x8_t)vzip1q_u8(bytes, (uint8x16_t)none),
               high = (uint16x8_t)vzip2q_u8(bytes, (uint8x16_t)none);
    vf base = all(0x1p23f + zero);
    q[0] = (vf)vzip1q_u16(low, power) - base, q[1] = (vf)vzip2q_u16(low, power) - base;
    q[2] = (vf)vzip1q_u16(high, power) - base, q[3] = (vf)vzip2q_u16(high, power) - base;
}

INLINE void get_int8(const uint8_t *from, vf q[4]) {
    small_integers(veorq_u8(vld1q_u8(from), vdupq_n_u8(0x80)), 128, q);
}

INLINE void get_int4(const uint8_t *from, vf low[4], vf high[4]) {
    uint8x16_t bytes = veorq_u8(vld1q_u8(from), vdupq_n_u8(0x88));
    small_integers(vandq_u8(bytes, vdupq_n_u8(15)), 8, low);
    small_integers(vshrq_n_u8(bytes, 4), 8, high);
}

INLINE void get_e4m3(const uint8_t *from, vf q[4]) {
    uint8x16_t bytes = vld1q_u8(from), none = vdupq_n_u8(0);
    int16x8_t low = (int16x8_t)vzip1q_u8(none, bytes), high = (int16x8_t)vzip2q_u8(none, bytes);
    q[0] = (vf)((vu)vshll_n_s16(vget_low_s16(low), 12) & 0x87F00000u);
    q[1] = (vf)((vu)vshll_high_n_s16(low, 12) & 0x87F00000u);
    q[2] = (vf)((vu)vshll_n_s16(vget_low_s16(high), 12) & 0x87F00000u);
    q[3] = (vf)((vu)vshll_high_n_s16(high, 12) & 0x87F00000u);
}

INLINE void get_bf16(const uint16_t *from, vf x[2]) {
    uint16x8_t half = vld1q_u16(from), none = vdupq_n_u16(0);
    x[0] = (vf)vzip1q_u16(none, half), x[1] = (vf)vzip2q_u16(none, half);
}

/* The sign bits of elements i to i + 15. */
INLINE void get_signs(const uint8_t *payload, int64_t i, vi sign[4]) {
    static const uint32_t place[4][4] = {
        {1, 2, 4, 8}, {16, 32, 64, 128}, {256, 512, 1024, 2048}, {4096, 8192, 16384, 32768}};
    uint32x4_t bits = (uint32x4_t)vld1q_dup_u16((const uint16_t *)(const void *)(payload + i / 8));
    EACH(j, 4) sign[j] = (vi)vandq_u32(vtstq_u32(bits, vld1q_u32(place[j])), vdupq_n_u32(0x80000000u));
}

INLINE vs vec_max_s(vs a, vs b) { return (vs)vmaxq_s16((int16x8_t)a, (int16x8_t)b); }
INLINE int32_t vec_top(vi v) { return vmaxvq_s32((int32x4_t)v); } /* the largest lane */

#define TRI_SIMD_OWN_F16
INLINE vf vec_f16(const uint16_t *from) { return (vf)vcvt_f32_f16((float16x4_t)vld1_u16(from)); }
INLINE void put_f16(uint16_t *to, const vf v[2]) {
    float16x4_t low = vcvt_f16_f32((float32x4_t)v[0]);
    vst1q_u16(to, (uint16x8_t)vcvt_high_f16_f32(low, (float32x4_t)v[1]));
}

/* Bit i: element i of 8 vectors is negative. */
enum { SIGNED = 8 };
INLINE void put_negative(uint8_t *to, const vf v[SIGNED]) {
    static const uint8_t place[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint16x8_t pair[4];
    uint8x16_t bits[2];
    EACH(j, 4) {
        uint32x4_t a = vcltzq_f32((float32x4_t)v[2 * j]), b = vcltzq_f32((float32x4_t)v[2 * j + 1]);
        pair[j] = vuzp1q_u16((uint16x8_t)a, (uint16x8_t)b);
    }
    EACH(j, 2) bits[j] = vandq_u8(vuzp1q_u8((uint8x16_t)pair[2 * j], (uint8x16_t)pair[2 * j + 1]), vld1q_u8(place));
    uint8x16_t sums = vpaddq_u8(bits[0], bits[1]);
    sums = vpaddq_u8(sums, sums);
    sums = vpaddq_u8(sums, sums);
    vst1q_lane_u32((uint32_t *)(void *)to, (uint32x4_t)sums, 0);
}
