/* simd_coded.h - blocks of 256 numbers in the codes of layout/coded.h. Results have the bits of the plain rows
 * (device/cpu/coded.h): what is added is rounded before, unless it is exact, as scale * q is. Blocks are finite; so no
 * quotient exceeds the code's largest number by as much as half a step, and nothing is clamped. */

enum { CODED = 256 };
typedef double vdd __attribute__((vector_size(8 * VEC)));

#ifndef TRI_SIMD_OWN_CODED
/* The low bytes of 4 vectors; the high halves of 2. */
INLINE void put_bytes(uint8_t *to, const vi v[4]) {
    EACH(j, 4) *(vb_any *)(to + j * VEC) = __builtin_convertvector(v[j], vb);
}
INLINE void put_high(uint16_t *to, const vu v[2]) {
    EACH(j, 2) *(vh_any *)(to + j * VEC) = __builtin_convertvector(v[j] >> 16, vh);
}
/* 4 vectors of signed bytes as floats; of the low and of the high halves of bytes; bytes in bits 20 .. 26, their signs
 * in bit 31. */
INLINE void get_int8(const uint8_t *from, vf q[4]) {
    EACH(j, 4)
    q[j] = __builtin_convertvector(__builtin_convertvector(*(const vb_any *)(from + j * VEC), vi), vf);
}
INLINE void get_int4(const uint8_t *from, vf low[4], vf high[4]) {
    EACH(j, 4) {
        vi v = __builtin_convertvector(*(const vb_any *)(from + j * VEC), vi);
        low[j] = __builtin_convertvector((vi)((vu)v << 28) >> 28, vf);
        high[j] = __builtin_convertvector(v >> 4, vf);
    }
}
INLINE void get_e4m3(const uint8_t *from, vf q[4]) {
    EACH(j, 4) {
        vu v = (vu)__builtin_convertvector(*(const vb_any *)(from + j * VEC), vi);
        q[j] = (vf)(v << 20 & 0x87F00000u);
    }
}
/* 2 vectors of bf16. */
INLINE void get_bf16(const uint16_t *from, vf x[2]) {
    EACH(j, 2) x[j] = (vf)(__builtin_convertvector(*(const vh_any *)(from + j * VEC), vu) << 16);
}
/* Bit i of 32: element i of t is negative. */
INLINE uint32_t negative(const float *t) {
    uint32_t bits = 0;
    EACH_OF(j, 32 / VEC) bits |= (uint32_t)vec_bits(load(t + j * VEC) < 0) << j * VEC;
    return bits;
}
#endif

/* 2 vectors of t = x + factor * e, 0 where the mask is; what is NULL is left out. */
INLINE void take_some(const tri_coded_in *in, int64_t at, float *t) {
    vf sum[2] = {{0}};
    if (in->half) get_bf16(in->half + at, sum);
    EACH(j, 2) {
        int64_t i = at + j * VEC;
        if (in->x) sum[j] = load(in->x + i);
        if (in->e) sum[j] = sum[j] + rounded(load(in->e + i) * in->factor);
        if (in->mask) sum[j] = masked(sum[j], load(in->mask + i) != 0);
        store(t + i, sum[j]);
    }
}

INLINE void take_all(tri_coded_in in, float *t) {
    for (int64_t i = 0; i < CODED; i += 2 * VEC) take_some(&in, i, t);
}

/* The branches are decided by which pointers are NULL. */
static void coded_take(const tri_coded_in *in, float *t) {
    tri_coded_in of = *in;
#define TAKE(x_, half_, e_, mask_) \
    take_all((tri_coded_in){.x = x_, .half = half_, .e = e_, .mask = mask_, .factor = of.factor}, t)
    if (of.x) {
        if (of.e && of.mask) TAKE(of.x, NULL, of.e, of.mask);
        else if (of.e) TAKE(of.x, NULL, of.e, NULL);
        else TAKE(of.x, NULL, NULL, of.mask);
    } else if (of.half) {
        if (of.e && of.mask) TAKE(NULL, of.half, of.e, of.mask);
        else if (of.e) TAKE(NULL, of.half, of.e, NULL);
        else if (of.mask) TAKE(NULL, of.half, NULL, of.mask);
        else TAKE(NULL, of.half, NULL, NULL);
    } else if (of.mask) TAKE(NULL, NULL, of.e, of.mask);
    else TAKE(NULL, NULL, of.e, NULL);
#undef TAKE
}

/* sums[k] = sum of |t[i]| over i = k, k + 16, ... */
static void coded_sums(const float *t, double sums[16]) {
    enum { LANES = 16 / VEC };
    vd low[LANES] = {{0}}, high[LANES] = {{0}};
    for (int64_t i = 0; i < CODED; i += 16)
        EACH(j, LANES) {
            vf size = vec_abs(load(t + i + j * VEC));
            low[j] += vec_low_double(size);
            high[j] += vec_high_double(size);
        }
    EACH(j, LANES) {
        store_d(sums + j * VEC, low[j]);
        store_d(sums + j * VEC + VEC / 2, high[j]);
    }
}

/* e = (t - value) * after, where there is an e. */
INLINE void keep_error(const tri_coded_out *out, int64_t i, vf t, vf value) {
    if (out->e) store(out->e + i, (t - value) * out->after);
}

INLINE void encode_bf16(tri_coded_out out) {
    for (int64_t i = 0; i < CODED; i += 2 * VEC) {
        vu bits[2];
        EACH(j, 2) {
            vu t = (vu)load(out.t + i + j * VEC);
            bits[j] = t + 0x7FFFu + (t << 15 >> 31);
            keep_error(&out, i + j * VEC, (vf)t, (vf)(bits[j] & 0xFFFF0000u));
        }
        put_high((uint16_t *)(void *)out.payload + i, bits);
    }
}

/* x * inverse, rounded to an integer: adding 1.5 * 2^23 does that, and leaves it in the low bits. */
INLINE vi to_integers(const tri_coded_out *out, int64_t i, float inverse) {
    vf t = load(out->t + i), shifted = rounded(t * inverse) + 12582912.0f;
    keep_error(out, i, t, (shifted - 12582912.0f) * out->scale);
    return (vi)shifted;
}

INLINE void encode_int8(tri_coded_out out) {
    float inverse = out.scale ? 1 / out.scale : 0;
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vi q[4];
        EACH(j, 4) q[j] = to_integers(&out, i + j * VEC, inverse);
        put_bytes(out.payload + i, q);
    }
}

INLINE void encode_int4(tri_coded_out out) {
    float inverse = out.scale ? 1 / out.scale : 0;
    for (int64_t i = 0; i < CODED / 2; i += 4 * VEC) {
        vi q[4];
        EACH(j, 4) {
            vu low = (vu)to_integers(&out, i + j * VEC, inverse);
            vu high = (vu)to_integers(&out, CODED / 2 + i + j * VEC, inverse);
            q[j] = (vi)((low & 15u) | high << 4);
        }
        put_bytes(out.payload + i, q);
    }
}

/* Adding 2^20 times the power of two below |v|, or 2^-6 times that for smaller numbers, rounds |v| to 3 bits after the
 * first, or to a multiple of 2^-9, and leaves their count of such steps in the low bits. */
INLINE void encode_fp8(tri_coded_out out) {
    float inverse = out.scale ? 1 / out.scale : 0;
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vi q[4];
        EACH(j, 4) {
            vf t = load(out.t + i + j * VEC), v = rounded(t * inverse);
            vi sign = (vi)v & INT32_MIN, power = vec_max_i((vi)v & 0x7F800000, all_i(0x3C800000));
            vi shift = power + (20 << 23);
            vf shifted = vec_abs(v) + (vf)shift;
            q[j] = (vi)((vu)((vi)shifted - shift + (power >> 20) - 968) | (vu)sign >> 24);
            vf value = (vf)((vi)(shifted - (vf)shift) | sign);
            keep_error(&out, i + j * VEC, t, value * out.scale);
        }
        put_bytes(out.payload + i, q);
    }
}

INLINE void encode_signs(tri_coded_out out) {
    for (int64_t i = 0; i < CODED; i += 32) {
        uint32_t bits = negative(out.t + i);
        memcpy(out.payload + i / 8, &bits, sizeof bits);
    }
    for (int64_t i = 0; out.e && i < CODED; i += VEC) {
        vf t = load(out.t + i), value = (vf)((vi)all(out.scale) | ((vi)(t < 0) & INT32_MIN));
        vf left = (t - value) * out.after;
        store(out.e + i, out.mask ? masked(left, load(out.mask + i) != 0) : left);
    }
}

/* With and without e, as functions of their own: tests of pointers are decided at compile time. */
#define ENCODE(code)                                                                                          \
    static void code_##code(const tri_coded_out *out) {                                                       \
        tri_coded_out of = *out;                                                                              \
        if (of.e) encode_##code(of);                                                                          \
        else encode_##code((tri_coded_out){.t = of.t, .scale = of.scale, .payload = of.payload, .e = NULL});  \
    }
ENCODE(bf16)
ENCODE(int8)
ENCODE(int4)
ENCODE(fp8)
ENCODE(signs)
#undef ENCODE

INLINE void put_value(float *y, vf value, int add) { store(y, add ? load(y) + value : value); }

INLINE void decode_bf16(const uint8_t *payload, float scale, float *y, int add) {
    (void)scale;
    for (int64_t i = 0; i < CODED; i += 2 * VEC) {
        vf x[2];
        get_bf16((const uint16_t *)(const void *)payload + i, x);
        EACH(j, 2) put_value(y + i + j * VEC, x[j], add);
    }
}

INLINE void decode_int8(const uint8_t *payload, float scale, float *y, int add) {
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vf q[4];
        get_int8(payload + i, q);
        EACH(j, 4) put_value(y + i + j * VEC, q[j] * scale, add);
    }
}

INLINE void decode_int4(const uint8_t *payload, float scale, float *y, int add) {
    for (int64_t i = 0; i < CODED / 2; i += 4 * VEC) {
        vf low[4], high[4];
        get_int4(payload + i, low, high);
        EACH(j, 4) put_value(y + i + j * VEC, low[j] * scale, add);
        EACH(j, 4) put_value(y + CODED / 2 + i + j * VEC, high[j] * scale, add);
    }
}

/* The bits of e4m3 in their places in fp32 stand for 2^-120 of their value; a product with a large scale is taken in
 * two steps. Both are exact. */
INLINE void decode_fp8(const uint8_t *payload, float scale, float *y, int add) {
    float first = scale < 64 ? scale * 0x1p120f : 0x1p120f, second = scale < 64 ? 1 : scale;
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vf q[4];
        get_e4m3(payload + i, q);
        if (scale < 64)
            EACH(j, 4) put_value(y + i + j * VEC, q[j] * first, add);
        else
            EACH(j, 4) put_value(y + i + j * VEC, q[j] * first * second, add);
    }
}

INLINE void decode_signs(const uint8_t *payload, float scale, float *y, int add) {
    vu place[32 / VEC];
    for (int j = 0; j < 32; j++) place[j / VEC][j % VEC] = 1u << j;
    for (int64_t i = 0; i < CODED; i += 32) {
        uint32_t bits;
        memcpy(&bits, payload + i / 8, sizeof bits);
        EACH_OF(j, 32 / VEC) {
            vi sign = (vi)((all_u(bits) & place[j]) != 0) & INT32_MIN;
            put_value(y + i + j * VEC, (vf)((vi)all(scale) ^ sign), add);
        }
    }
}

#define DECODE(code)                                                                          \
    static void value_##code(const uint8_t *payload, float scale, float *y, int add) {        \
        if (add) decode_##code(payload, scale, y, 1);                                         \
        else decode_##code(payload, scale, y, 0);                                             \
    }
DECODE(bf16)
DECODE(int8)
DECODE(int4)
DECODE(fp8)
DECODE(signs)
#undef DECODE

/* NaN becomes the quiet NaN. */
static void coded_to_bf16(const float *x, uint16_t *y) {
    for (int64_t i = 0; i < CODED; i += 2 * VEC) {
        vu bits[2];
        EACH(j, 2) {
            vf v = load(x + i + j * VEC);
            vu is_number = (vu)(v == v), t = (vu)v;
            bits[j] = ((t + 0x7FFFu + (t << 15 >> 31)) & is_number) | (0x7FC00000u & ~is_number);
        }
        put_high(y + i, bits);
    }
}

/* Whole vectors only, and not inlined, as adamw_whole. e += kept * m + fresh * g where m is not 0, in double. */
static __attribute__((noinline)) void momentum_whole(int64_t n, float *e, const float *m, const float *g, double kept,
                                                     double fresh) {
    for (int64_t i = 0; i < n; i += VEC) {
        vf old = load(e + i), momentum = load(m + i);
        vdd sum = __builtin_convertvector(momentum, vdd) * kept + __builtin_convertvector(load(g + i), vdd) * fresh;
        vf fresh_e = __builtin_convertvector(__builtin_convertvector(old, vdd) + sum, vf);
        vi open = momentum != 0;
        store(e + i, (vf)(((vi)fresh_e & open) | ((vi)old & ~open)));
    }
}

static void momentum(int64_t n, float *e, const float *m, const float *g, double kept, double fresh) {
    int64_t whole = n / VEC * VEC;
    size_t bytes = (size_t)(n - whole) * sizeof(float);
    float part[3][VEC] = {{0}};
    momentum_whole(whole, e, m, g, kept, fresh);
    if (!bytes) return;
    memcpy(part[0], e + whole, bytes), memcpy(part[1], m + whole, bytes), memcpy(part[2], g + whole, bytes);
    momentum_whole(VEC, part[0], part[1], part[2], kept, fresh);
    memcpy(e + whole, part[0], bytes);
}

static __attribute__((noinline)) void frozen_whole(const tri_update_run *a, int64_t n) {
    float decayed = (float)(1 - (double)a->lr * a->decay), rate = a->lr / a->c1, inverse = 1 / sqrtf(a->c2);
    for (int64_t i = 0; i < n; i += VEC) {
        vf m = load(a->m + i), step = rate * m / (vec_sqrt(load(a->v + i)) * inverse + a->eps);
        store(a->p + i, load(a->p + i) * decayed - masked(step, m != 0));
    }
}

static void adamw_frozen(const tri_update_run *a, int64_t n) {
    int64_t whole = n / VEC * VEC;
    size_t bytes = (size_t)(n - whole) * sizeof(float);
    float p[VEC] = {0}, m[VEC] = {0}, v[VEC] = {0};
    tri_update_run rest = *a;
    frozen_whole(a, whole);
    if (!bytes) return;
    rest.p = memcpy(p, a->p + whole, bytes), rest.m = memcpy(m, a->m + whole, bytes),
    rest.v = memcpy(v, a->v + whole, bytes);
    frozen_whole(&rest, VEC);
    memcpy(a->p + whole, p, bytes);
}
