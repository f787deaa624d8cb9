/* attention_relative_forward.cu - attention by distances on Hopper's tensor cores (attention_relative.cuh), as
 * attention_forward.cu: a block of one warpgroup has 64 queries of one head and iterates over the keys. */
#include "device/cuda/attention/attention_relative.cuh"

#if TRI_HOPPER
/* All keys of a sequence of `length` rows, with biases or terms by their distances to the tile's queries. `from`: the
 * row of the next key to fetch. */
template <typename T, bool BIAS> struct distant_keys {
    typedef sizes<BIAS> size;
    enum { EARLY = 0, HOLES = 0 };
    const relative_args &t;
    const room<BIAS> &m;
    const T *from;
    int head, length, tiles, band; /* band: the first distance to the next tile to fetch */

    __device__ __forceinline__ void look(int) {}
    __device__ __forceinline__ uint32_t keys(int n) const { return m.stage(n); }
    __device__ __forceinline__ uint32_t values(int n) const { return m.stage(n) + TILE_BYTES; }
    __device__ __forceinline__ int key(int n, int half) const {
        return n * TILE + 32 * half + (int)threadIdx.x % 4 * 8;
    }
    /* Begins to fetch the n-th tile, but for the cross band. */
    __device__ __forceinline__ void fetch(int n) {
        int64_t H = (int64_t)t.a.heads * t.a.width;
        fetch_two<T, true>(t.a, from, from + H, 3 * H, length - n * TILE, m.stage(n));
        if constexpr (BIAS) m.biases(n)[threadIdx.x] = bias_at<T>(t, head, band);
        else fetch_half<T, false>(t, head, n, band, m);
    }
    __device__ __forceinline__ void begin() {
        fetch(0);
        if constexpr (!BIAS) fetch_band<T, THREADS>(t, head, 0, band, m.base + size::CROSS_AT);
        copy_commit();
    }
    template <int DROP> __device__ __forceinline__ void scores(int n, float (&score)[32], uint32_t (&)[2][4]) {
        from += (int64_t)TILE * 3 * t.a.heads * t.a.width, band -= TILE;
        if (n + 1 < tiles) fetch(n + 1);
        if constexpr (BIAS) {
            copy_commit();
            wgmma_wait<0>();
        } else form_terms<T, false>(m, n, m.stage(n));
        pin(score);
        add_relative<T, false>(t, m, n, score);
        if constexpr (!BIAS) {
            __syncthreads(); /* products of keys are no longer read */
            if (n + 1 < tiles) fetch_band<T, THREADS>(t, head, 0, band, m.base + size::CROSS_AT);
            copy_commit();
        }
        hide(score, length - n * TILE);
    }
};
#endif

template <typename T, int DROP, bool BIAS>
static __global__ void __launch_bounds__(THREADS, BIAS ? 4 : 2) relative_kernel(relative_args t) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    const attention_args &a = t.a;
    int head = blockIdx.y, s = sequence_of<QUERIES>(a.seq, a.n, blockIdx.x), begin = a.seq[s];
    int first = begin + ((int)blockIdx.x - (begin / QUERIES + s)) * QUERIES, end = s < a.n ? a.seq[s + 1] : (int)a.rows;
    if (first >= end) return;
    if (s == a.n) {
        clear_rows<T>(a, head, first, min(first + QUERIES, end));
        return;
    }
    room<BIAS> m(raw);
    int64_t H = (int64_t)a.heads * a.width;
    const T *rows = (const T *)a.qkv + head * a.width, *from = rows + begin * 3 * H + H;
    copy_rows<T, 64, QUERIES, THREADS>(rows + first * 3 * H, 3 * H, a.width, end - first, m.base, (int)threadIdx.x);
    softmax<64> of = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    decisions drop = decisions_of(a, head, begin, first);
    distant_keys<T, BIAS> meets = {t, m, from, head, end - begin, (end - begin + TILE - 1) / TILE,
                                   first - begin - (TILE - 1)};
    meets.begin();
    if (DROP && !mask_is_even(a, drop.feature)) attend<T, 2 * DROP>(a, drop, meets, m.base, of);
    else attend<T, DROP>(a, drop, meets, m.base, of);
    write_rows<T, 64>(a, head, first, end, of.out, of.largest, of.sum, m.base);
#endif
}

template <typename T, int DROP, bool BIAS> static void launch(const tri_call *call, relative_args t) {
    t.a.mask = mask_keys_of(t.a.drop);
    launch_tiles(call, relative_kernel<T, DROP, BIAS>, dim3(tiles_for<TILE>(t.a.rows, t.a.n), (unsigned)t.a.heads),
                 sizes<BIAS>::ALL, t, "attention by distances");
}

template <typename T> static void launch_kind(const tri_call *call, const relative_args *t) {
    int drop = t->a.drop.threshold > 0;
    if (t->terms) drop ? launch<T, 1, false>(call, *t) : launch<T, 0, false>(call, *t);
    else drop ? launch<T, 1, true>(call, *t) : launch<T, 0, true>(call, *t);
}

void tri__cuda_relative(const tri_call *call, const relative_args *t, int dtype) {
    dtype == TRI_BF16 ? launch_kind<bf16>(call, t) : launch_kind<f16>(call, t);
}
