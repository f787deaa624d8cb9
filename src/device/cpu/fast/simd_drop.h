/* simd_drop.h - dropout masks by Philox on vectors of counters (base/random.h), and dropout of rows. */

static void vec_mul_wide(vu x, uint32_t factor, vu *high, vu *low);

/* c holds the counters and gets the output, VEC at a time. */
INLINE void philox(vu c[4], uint32_t key0, uint32_t key1) {
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        vu high_a, low_a, high_b, low_b;
        vec_mul_wide(c[0], 0xD2511F53u, &high_a, &low_a);
        vec_mul_wide(c[2], 0xCD9E8D57u, &high_b, &low_b);
        c[0] = high_b ^ c[1] ^ key0, c[1] = low_b;
        c[2] = high_a ^ c[3] ^ key1, c[3] = low_a;
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
}

/* The lanes' counters are so ordered that interleaving within 128 bits puts outputs in memory order. */
INLINE vu lane_order(void) {
    vu order = {0};
    for (int i = 0; i < VEC; i++) order[i] = (uint32_t)((i % 4) * (VEC / 4) + i / 4);
    return order;
}

/* Decisions of features 8 group to 8 (group + n) - 1 of the row with this key, 16 bits each. Writes up to a multiple of
 * VEC groups. */
INLINE void decide(const tri_drop *drop, const int32_t *key, uint32_t group, int64_t n, uint16_t *out) {
    vu order = lane_order() + group;
    for (int64_t i = 0; i < n; i += VEC, order += VEC, out += 8 * VEC) {
        vu c[4] = {all_u(drop->step), all_u((uint32_t)key[0]), all_u((uint32_t)key[1]), order};
        philox(c, drop->seed, drop->id);
        vu a = vec_unpack_low32(c[0], c[1]), b = vec_unpack_low32(c[2], c[3]);
        vu d = vec_unpack_high32(c[0], c[1]), e = vec_unpack_high32(c[2], c[3]);
        vu_any *to = (vu_any *)out;
        to[0] = vec_unpack_low64(a, b);
        to[1] = vec_unpack_high64(a, b);
        to[2] = vec_unpack_low64(d, e);
        to[3] = vec_unpack_high64(d, e);
    }
}

/* All ones where the value stays. */
INLINE vi kept(const uint16_t *decision, uint32_t threshold) {
    return __builtin_convertvector(*(const vh_any *)decision, vi) >= (int32_t)threshold;
}

enum { SPAN = 512 }; /* features whose decisions are held at a time */

/* A row is cut into spans: decides for the one that begins at feature `begin` of row t, and returns its end. */
INLINE int64_t decide_span(const tri_drop *drop, int64_t t, int64_t h, int64_t begin, uint16_t decision[SPAN + 8 * VEC]) {
    int64_t end = h - begin < SPAN ? h : begin + SPAN;
    if (drop->threshold) decide(drop, drop->key + 2 * t, (uint32_t)(begin / 8), (end - begin + 7) / 8, decision);
    return end;
}

static void dropout(const tri_drop *drop, int64_t t0, int64_t t1, int64_t h, const float *x, float *y, int acc) {
    uint16_t decision[SPAN + 8 * VEC] = {0}; /* threshold 0 keeps all */
    for (int64_t t = t0; t < t1; t++)
        for (int64_t begin = 0, end; begin < h; begin = end) {
            end = decide_span(drop, t, h, begin, decision);
            for (int64_t i = begin; i < end; i += VEC) {
                int64_t at = t * h + i, left = end - i;
                vf v = masked(get(x + at, left) * drop->scale, kept(decision + i - begin, drop->threshold));
                if (acc) v += get(y + at, left);
                put(y + at, left, v);
            }
        }
}
