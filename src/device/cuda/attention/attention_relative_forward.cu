/* attention_relative_forward.cu - attention by distances on Hopper's tensor cores (attention_relative.cuh), as
 * attention_forward.cu: a block of one warpgroup has 64 queries of one head and iterates over the keys. */
#include "device/cuda/attention/attention_relative.cuh"

#if TRI_HOPPER
/* Begins to fetch 64 keys and values from row `from` on, of which `left` exist. */
template <typename T>
static __device__ __forceinline__ void fetch_keys(const attention_args &a, const T *from, int left, uint32_t to) {
    int64_t H = (int64_t)a.heads * a.width;
    copy_rows<T, 64, TILE, THREADS, true>(from, 3 * H, a.width, left, to, (int)threadIdx.x);
    copy_rows<T, 64, TILE, THREADS, true>(from + H, 3 * H, a.width, left, to + TILE_BYTES, (int)threadIdx.x);
}

/* All keys of a sequence of `length` rows, of which `from` is the first; `query`: the tile's first, in the sequence.
 * DROP: 0 no dropout, 1 mask_is_even, 2 any other. */
template <typename T, int DROP, bool BIAS>
static __device__ __forceinline__ void attend(const relative_args &t, const decisions &drop, const T *from, int length,
                                              int head, int query, const room<BIAS> &m, softmax<64> &of) {
    typedef sizes<BIAS> size;
    const attention_args &a = t.a;
    int tiles = (length + TILE - 1) / TILE, band = query - (TILE - 1); /* the first distance, to the first tile */
    fetch_keys(a, from, length, m.stage(0));
    if constexpr (BIAS) *(m.biases(0) + threadIdx.x) = bias_at<T>(t, head, band);
    else {
        fetch_half<T, false>(t, head, 0, band, m);
        fetch_band<T, THREADS>(t, head, 0, band, m.base + size::CROSS_AT);
    }
    copy_commit();
    for (int n = 0; n < tiles; n++, band -= TILE) {
        float score[32], before[2];
        uint32_t x[2][4] = {}, weight[2][2][4];
        int left = length - n * TILE, more = n + 1 < tiles;
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile has arrived, and the previous one is no longer read */
        begin_rows<T>(m.base, m.stage(n), score);
        if (more) fetch_keys(a, from + (int64_t)(n + 1) * TILE * 3 * a.heads * a.width, left - TILE, m.stage(n + 1));
        if constexpr (BIAS) {
            if (more) *(m.biases(n + 1) + threadIdx.x) = bias_at<T>(t, head, band - TILE);
            copy_commit();
            wgmma_wait<0>();
            pin(score);
            add_biases<false>(m.biases(n), score);
        } else {
            if (more) fetch_half<T, false>(t, head, n + 1, band - TILE, m);
            form_terms<T, false>(m, n, m.stage(n));
            pin(score);
            add_terms<T, false>(t, m.memory + size::OWN_AT, m.memory + size::CROSS_AT, score);
            __syncthreads(); /* products of keys are no longer read */
            if (more) fetch_band<T, THREADS>(t, head, 0, band - TILE, m.base + size::CROSS_AT);
            copy_commit();
        }
        hide(score, left);
        soften(score, before, of.largest, of.sum, a.scale * 1.44269504f);
        rescale(of.out, before);
        uint32_t value_tile = tile_at(m.stage(n) + TILE_BYTES, TILE_BYTES);
#pragma unroll
        for (int b = 0; b < 2; b++) {
            form_weights<T>(score, b, weight[b]);
            if (DROP) {
                decide<DROP == 1>(a, drop, n * TILE + 32 * b + (int)threadIdx.x % 4 * 8, x);
                drop_weights(x, weight[b]);
            }
            wgmma_begin();
#pragma unroll
            for (int k = 0; k < 2; k++)
                wgmma<T>::template run<1>(of.out, weight[b][k], tile(value_tile, (2 * b + k) * 16 * ROW_BYTES), 1);
            wgmma_commit();
        }
        wgmma_wait<0>();
        pin(of.out);
    }
}
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
    if (DROP && !mask_is_even(a, drop.feature))
        attend<T, 2 * DROP, BIAS>(t, drop, from, end - begin, head, first - begin, m, of);
    else attend<T, DROP, BIAS>(t, drop, from, end - begin, head, first - begin, m, of);
    write_rows<T, 64>(a, head, first, end, of.out, of.largest, of.sum, m.base);
#endif
}

template <typename T, int DROP, bool BIAS> static void launch(const tri_call *call, relative_args t) {
    auto *kernel = relative_kernel<T, DROP, BIAS>;
    int bytes = sizes<BIAS>::ALL;
    t.a.mask = mask_keys_of(t.a.drop);
    record(call, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
           "attention by distances");
    kernel<<<dim3(tiles_for<QUERIES>(t.a.rows, t.a.n), (unsigned)t.a.heads), THREADS, bytes, stream(call)>>>(t);
    launched(call, "attention by distances");
}

template <typename T> static void launch_kind(const tri_call *call, const relative_args *t) {
    int drop = t->a.drop.threshold > 0;
    if (t->terms) drop ? launch<T, 1, false>(call, *t) : launch<T, 0, false>(call, *t);
    else drop ? launch<T, 1, true>(call, *t) : launch<T, 0, true>(call, *t);
}

void tri__cuda_relative(const tri_call *call, const relative_args *t, int dtype) {
    dtype == TRI_BF16 ? launch_kind<bf16>(call, t) : launch_kind<f16>(call, t);
}
