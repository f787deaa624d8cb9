/* utf8_block.h - finds invalid bytes among 64 bytes of UTF-8 with three table look-ups per byte. A byte pair is
 * classified by the high and low half of its first byte and the high half of its second; a class that all three agree
 * on is an error. Keiser and Lemire, Validating UTF-8 in less than one instruction per byte (2021). A fault is reported
 * at the byte where it becomes certain, at most three bytes after the sequence's first. */
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__SSSE3__) && !defined(TRI_UTF8_SSSE3) /* files compiled for specific machines define it themselves */
#define TRI_UTF8_SSSE3 1
#endif
#if defined(__ARM_NEON) || defined(TRI_UTF8_SSSE3)
#define TRI_UTF8_VECTOR 1

enum {
    TRI_UTF8_SHORT = 1,      /* a leading byte, then no continuation */
    TRI_UTF8_LONG = 2,       /* ASCII, then a continuation */
    TRI_UTF8_OVER3 = 4,      /* E0 80..9F */
    TRI_UTF8_LARGE = 8,      /* F4 90..BF, F5..FF */
    TRI_UTF8_SURROGATE = 16, /* ED A0..BF */
    TRI_UTF8_OVER2 = 32,     /* C0, C1 */
    TRI_UTF8_OVER4 = 64,     /* F0 80..8F; F5..FF 80..8F */
    TRI_UTF8_TWO = 128,      /* two continuations: valid only in a sequence of three or four */
    TRI_UTF8_ANY = TRI_UTF8_SHORT | TRI_UTF8_LONG | TRI_UTF8_TWO
};

static const uint8_t tri_utf8_first_high[16] = {[0 ... 7] = TRI_UTF8_LONG,
                                                [8 ... 11] = TRI_UTF8_TWO,
                                                [12] = TRI_UTF8_SHORT | TRI_UTF8_OVER2,
                                                [13] = TRI_UTF8_SHORT,
                                                [14] = TRI_UTF8_SHORT | TRI_UTF8_OVER3 | TRI_UTF8_SURROGATE,
                                                [15] = TRI_UTF8_SHORT | TRI_UTF8_LARGE | TRI_UTF8_OVER4};
#define TRI_UTF8_F5 (TRI_UTF8_ANY | TRI_UTF8_LARGE | TRI_UTF8_OVER4)
static const uint8_t tri_utf8_first_low[16] = {TRI_UTF8_ANY | TRI_UTF8_OVER3 | TRI_UTF8_OVER2 | TRI_UTF8_OVER4,
                                               TRI_UTF8_ANY | TRI_UTF8_OVER2,
                                               [2 ... 3] = TRI_UTF8_ANY,
                                               [4] = TRI_UTF8_ANY | TRI_UTF8_LARGE,
                                               [5 ... 12] = TRI_UTF8_F5,
                                               [13] = TRI_UTF8_F5 | TRI_UTF8_SURROGATE,
                                               [14 ... 15] = TRI_UTF8_F5};
#undef TRI_UTF8_F5
#define TRI_UTF8_CONT (TRI_UTF8_LONG | TRI_UTF8_OVER2 | TRI_UTF8_TWO)
static const uint8_t tri_utf8_second_high[16] = {[0 ... 7] = TRI_UTF8_SHORT,
                                                 [8] = TRI_UTF8_CONT | TRI_UTF8_OVER3 | TRI_UTF8_OVER4,
                                                 [9] = TRI_UTF8_CONT | TRI_UTF8_OVER3 | TRI_UTF8_LARGE,
                                                 [10 ... 11] = TRI_UTF8_CONT | TRI_UTF8_SURROGATE | TRI_UTF8_LARGE,
                                                 [12 ... 15] = TRI_UTF8_SHORT};
#undef TRI_UTF8_CONT
#endif

#if defined(__ARM_NEON)
#include <arm_neon.h>

static inline uint64_t tri_utf8_wrong(const char *text, const char *before) {
    const uint8x16_t high1 = vld1q_u8(tri_utf8_first_high), low1 = vld1q_u8(tri_utf8_first_low),
                     high2 = vld1q_u8(tri_utf8_second_high),
                     bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t past = vld1q_u8((const uint8_t *)before), wrong[4];
    for (int i = 0; i < 4; i++) {
        uint8x16_t here = vld1q_u8((const uint8_t *)text + 16 * i), one = vextq_u8(past, here, 15);
        uint8x16_t class = vandq_u8(vqtbl1q_u8(high1, vshrq_n_u8(one, 4)), vqtbl1q_u8(high2, vshrq_n_u8(here, 4)));
        class = vandq_u8(class, vqtbl1q_u8(low1, vandq_u8(one, vdupq_n_u8(15))));
        /* The sign bit marks the third byte of E0.., or the third or fourth of F0..: there two continuations are
         * valid. */
        uint8x16_t more = vorrq_u8(vqsubq_u8(vextq_u8(past, here, 14), vdupq_n_u8(0xE0 - 0x80)),
                                   vqsubq_u8(vextq_u8(past, here, 13), vdupq_n_u8(0xF0 - 0x80)));
        uint8x16_t error = veorq_u8(vandq_u8(more, vdupq_n_u8(0x80)), class);
        wrong[i] = vandq_u8(vtstq_u8(error, error), bit);
        past = here;
    }
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(wrong[0], wrong[1]), vpaddq_u8(wrong[2], wrong[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sum, sum)), 0);
}

#elif defined(TRI_UTF8_SSSE3)
#include <tmmintrin.h>

static inline uint64_t tri_utf8_wrong(const char *text, const char *before) {
    const __m128i high1 = _mm_loadu_si128((const __m128i *)tri_utf8_first_high), half = _mm_set1_epi8(15),
                  low1 = _mm_loadu_si128((const __m128i *)tri_utf8_first_low),
                  high2 = _mm_loadu_si128((const __m128i *)tri_utf8_second_high);
    __m128i past = _mm_loadu_si128((const __m128i *)before);
    uint64_t wrong = 0;
    for (int i = 0; i < 4; i++) {
        __m128i here = _mm_loadu_si128((const __m128i *)(text + 16 * i)), one = _mm_alignr_epi8(here, past, 15);
        __m128i class = _mm_and_si128(
            _mm_and_si128(_mm_shuffle_epi8(high1, _mm_and_si128(_mm_srli_epi16(one, 4), half)),
                          _mm_shuffle_epi8(low1, _mm_and_si128(one, half))),
            _mm_shuffle_epi8(high2, _mm_and_si128(_mm_srli_epi16(here, 4), half)));
        __m128i more = _mm_or_si128(_mm_subs_epu8(_mm_alignr_epi8(here, past, 14), _mm_set1_epi8((char)(0xE0 - 0x80))),
                                    _mm_subs_epu8(_mm_alignr_epi8(here, past, 13), _mm_set1_epi8((char)(0xF0 - 0x80))));
        __m128i error = _mm_xor_si128(_mm_and_si128(more, _mm_set1_epi8((char)0x80)), class);
        uint64_t right = (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(error, _mm_setzero_si128()));
        wrong |= (~right & 0xFFFF) << 16 * i;
        past = here;
    }
    return wrong;
}
#endif
