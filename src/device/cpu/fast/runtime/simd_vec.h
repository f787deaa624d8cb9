/* simd_vec.h - vectors of VEC floats by the compilers' vector extensions: loads and stores of whole or partial
 * vectors, 2^x, the normal distribution and tanh. Each instruction set adds the few
 * primitives that the extensions lack: vec_sqrt, vec_max, vec_min, vec_max_i, vec_low_double, vec_high_double,
 * vec_mul_wide, vec_unpack_*, vec_top, vec_max_s; on x86 also vec_bits, and bytes and 16-bit numbers as lanes and back.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Vectors and columns of a product tile; attention may use fewer, as sequences are short and columns beyond their end
 * are wasted. */
#ifndef HEAD_VECTORS
#define HEAD_VECTORS 3
#endif
/* Rows of a bf16 panel whose numbers stand side by side: b_group of this CPU's product (gemm_half.h). */
#ifndef HEAD_GROUP
#define HEAD_GROUP 2
#endif
enum { NV = 3, NR = NV * VEC, HV = HEAD_VECTORS, HR = HV * VEC };
enum {
    TRI_KERNEL_SLACK = 64, /* bytes that a product kernel may read beyond its panels */
    TRI_KERNEL_STEP = 4    /* the product kernel's k is a multiple of this; panels are padded with zeros */
};
enum { AHEAD = 4 }; /* vectors at a time */

typedef float vf __attribute__((vector_size(4 * VEC)));
typedef int32_t vi __attribute__((vector_size(4 * VEC)));
typedef uint32_t vu __attribute__((vector_size(4 * VEC)));
typedef int16_t vs __attribute__((vector_size(VEC == 16 ? 32 : 4 * VEC))); /* AVX-512 F has none of 512 bits */
typedef double vd __attribute__((vector_size(4 * VEC))); /* VEC / 2 */
typedef float vf_any __attribute__((vector_size(4 * VEC), aligned(4), may_alias));
typedef double vd_any __attribute__((vector_size(4 * VEC), aligned(8), may_alias));
typedef uint32_t vu_any __attribute__((vector_size(4 * VEC), aligned(2), may_alias));
typedef int16_t vs_any __attribute__((vector_size(VEC == 16 ? 32 : 4 * VEC), aligned(2), may_alias));
typedef uint16_t vh_any __attribute__((vector_size(2 * VEC), aligned(2), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vf load(const float *p) { return *(const vf_any *)p; }
INLINE void store(float *p, vf v) { *(vf_any *)p = v; }
INLINE vd load_d(const double *p) { return *(const vd_any *)p; }
INLINE void store_d(double *p, vd v) { *(vd_any *)p = v; }
INLINE vs load_s(const uint16_t *p) { return *(const vs_any *)p; }
INLINE vf all(float x) { return x - (vf){0}; }
INLINE vu all_u(uint32_t x) { return x + (vu){0}; }
INLINE vi all_i(int32_t x) { return x + (vi){0}; }

/* The same at the end of a row, where fewer than VEC may be left; missing lanes are 0. Elements are moved without a
 * call, which would make loops reload the constants that they hold in registers; the barriers keep compilers from
 * recognising a memcpy. */
INLINE vf get(const float *p, int64_t left) {
    if (__builtin_expect(left >= VEC, 1)) return load(p);
    float part[VEC] = {0};
    for (int64_t i = 0; i < left; i++) {
        part[i] = p[i];
        __asm__ volatile("" ::: "memory");
    }
    return load(part);
}
INLINE void put(float *p, int64_t left, vf v) {
    if (__builtin_expect(left >= VEC, 1)) {
        store(p, v);
        return;
    }
    float part[VEC];
    store(part, v);
    for (int64_t i = 0; i < left; i++) {
        p[i] = part[i];
        __asm__ volatile("" ::: "memory");
    }
}
/* Applies something to n elements by vectors: at i, with `left` elements remaining, which is the constant VEC except
 * for the last. */
#define BY_VECTORS(n, something)                                  \
    do {                                                          \
        int64_t i = 0, n_ = (n);                                  \
        for (; i + VEC <= n_; i += VEC) {                         \
            const int64_t left = VEC;                             \
            something;                                            \
        }                                                         \
        if (i < n_) {                                             \
            const int64_t left = n_ - i;                          \
            something;                                            \
        }                                                         \
    } while (0)

/* Keeps lanes below `left`; zeroes others. */
INLINE vf existing(vf v, int64_t left) {
    if (__builtin_expect(left < VEC, 0))
        for (int64_t i = left; i < VEC; i++) v[i] = 0;
    return v;
}

/* Keeps a compiler from contracting the product v and a sum that it is part of to one operation. */
INLINE vf rounded(vf v) {
#if defined(__aarch64__)
    __asm__("" : "+w"(v));
#elif VEC == 16
    __asm__("" : "+v"(v));
#else
    __asm__("" : "+x"(v));
#endif
    return v;
}

INLINE vf masked(vf v, vi mask) { return (vf)((vi)v & mask); }

INLINE vf vec_abs(vf v) { return (vf)((vi)v & 0x7FFFFFFF); }

INLINE float sum_of(vf v) {
    float part[VEC], sum = 0;
    memcpy(part, &v, sizeof part);
    for (int i = 0; i < VEC; i++) sum += part[i];
    return sum;
}

static vf vec_sqrt(vf x);
static vf vec_max(vf limit, vf x);
static vf vec_min(vf limit, vf x);

/* p * x + c, a step of a polynomial. An instruction set whose product overwrites its sum needs c in a new register each
 * time and defines STEP_OF to load it, which keeps copies out of the units that multiply. */
#ifndef STEP_OF
#define STEP_OF(p, x, c) ((p) * (x) + (c))
#endif

/* Functions of one vector are chains of dependent steps, too long for the CPU to overlap: so they take n vectors, 1 to
 * MANY, and apply each step to all of them. */
enum { MANY = 6 };
#define EACH(j, n) _Pragma("GCC unroll 6") for (int j = 0; j < (n); j++)
#define EACH_OF(j, n) _Pragma("GCC unroll 8") for (int j = 0; j < (n); j++) /* up to 8 */

/* x = 2^x for x up to 127, as 2^m 2^f with |f| <= 1/2; relative error 1.5e-7. Below -100 it stays at 2^-100, to keep
 * products away from denormals, which are many times slower. */
INLINE void vec_exp2(vf *x, int n) {
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, which is in the low bits */
    vf shifted[MANY], p[MANY];
    EACH(j, n) x[j] = vec_max(all(-100.0f), x[j]);
    EACH(j, n) shifted[j] = x[j] + round;
    EACH(j, n) x[j] = x[j] - (shifted[j] - round);
    EACH(j, n) p[j] = STEP_OF(x[j], all(0.00132764721678f), 0.00967554133102f);
    EACH(j, n) p[j] = STEP_OF(p[j], x[j], 0.0555071327288f);
    EACH(j, n) p[j] = STEP_OF(p[j], x[j], 0.24022119724f);
    EACH(j, n) p[j] = STEP_OF(p[j], x[j], 0.693146967065f);
    EACH(j, n) p[j] = STEP_OF(p[j], x[j], 1.00000007165f);
    EACH(j, n) x[j] = (vf)((vu)p[j] + ((vu)shifted[j] << 23)); /* unsigned: out-of-range values wrap */
}

static const float log2_e = 1.44269504088896341f;

/* For the normal distribution, at |x|: the tail beyond it, relative error 1e-6, and e^(-x^2 / 2). Their quotient is a
 * polynomial in 1 / (1 + |x| / 4), fitted on [0, 10]. */
INLINE void vec_tail(const vf *x, vf *tail, vf *bell, int n) {
    vf t[MANY], p[MANY];
    EACH(j, n) t[j] = 1.0f / (vec_abs(x[j]) * 0.25f + 1.0f);
    EACH(j, n) bell[j] = x[j] * x[j] * (-0.5f * log2_e);
    vec_exp2(bell, n);
    EACH(j, n) p[j] = STEP_OF(t[j], all(-0.100252928848f), 0.382760448664f);
    EACH(j, n) p[j] = STEP_OF(p[j], t[j], -0.348819882452f);
    EACH(j, n) p[j] = STEP_OF(p[j], t[j], 0.369017291085f);
    EACH(j, n) p[j] = STEP_OF(p[j], t[j], -0.0299482661656f);
    EACH(j, n) p[j] = STEP_OF(p[j], t[j], 0.131894342102f);
    EACH(j, n) p[j] = STEP_OF(p[j], t[j], 0.0950574974026f);
    EACH(j, n) p[j] = STEP_OF(p[j], t[j], 0.000291466269675f);
    EACH(j, n) tail[j] = p[j] * bell[j];
}

/* tanh by an odd rational function; absolute error 2e-7. */
INLINE vf vec_tanh(vf x) {
    x = vec_min(all(7.90531110763549805f), vec_max(all(-7.90531110763549805f), x));
    vf s = x * x;
    vf p = s * -2.76076847742355e-16f + 2.00018790482477e-13f;
    p = p * s + -8.60467152213735e-11f;
    p = p * s + 5.12229709037114e-08f;
    p = p * s + 1.48572235717979e-05f;
    p = p * s + 6.37261928875436e-04f;
    p = p * s + 4.89352455891786e-03f;
    vf q = s * 1.19825839466702e-06f + 1.18534705686654e-04f;
    q = q * s + 2.26843463243900e-03f;
    q = q * s + 4.89352518554385e-03f;
    return x * p / q;
}
