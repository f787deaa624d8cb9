/* attention_relative_forward.cu - attention by distances on Hopper's tensor cores (attention_relative.cuh), as
 * attention_forward.cu: a block of one warpgroup has 64 queries of one head and iterates over the keys. */
#include "device/cuda/attention/attention_relative.cuh"

#if TRI_HOPPER
/* Their scores get biases or terms. */
template <typename T, bool BIAS> struct distant_keys : distant_tiles<T, BIAS> {
    enum { EARLY = 0, HOLES = 0 };
    __device__ __forceinline__ uint32_t keys(int n) const { return this->m.stage(n); }
    __device__ __forceinline__ uint32_t values(int n) const { return this->m.stage(n) + TILE_BYTES; }
    template <int DROP> __device__ __forceinline__ void scores(int n, float (&score)[32], uint32_t (&)[2][4]) {
        const relative_args &t = this->t;
        bool more = n + 1 < this->tiles;
        this->from += (int64_t)TILE * 3 * t.a.heads * t.a.width, this->band -= TILE;
        if (more) this->fetch_tile(n + 1, this->band);
        if constexpr (BIAS) {
            copy_commit();
            wgmma_wait<0>();
        } else form_terms<T, false>(this->m, n, this->m.stage(n));
        pin(score);
        add_relative<T, false>(t, this->m, n, score);
        if constexpr (!BIAS) {
            __syncthreads(); /* products of keys are no longer read */
            if (more) this->fetch_cross(this->band);
            copy_commit();
        }
        hide(score, this->length - n * TILE);
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
    distant_keys<T, BIAS> meets = {
        {t, m, from, head, end - begin, (end - begin + TILE - 1) / TILE, first - begin - (TILE - 1)}};
    meets.begin();
    if (DROP && !mask_is_even(a, drop.feature)) attend<T, 2 * DROP>(a, drop, meets, m.base, of);
    else attend<T, DROP>(a, drop, meets, m.base, of);
    write_rows<T, 64>(a, head, first, end, of.out, of.largest, of.sum, m.base);
#endif
}

void tri__cuda_relative(const tri_call *call, const relative_args *t, int dtype) {
    relative_args with = *t;
    with.a.mask = mask_keys_of(t->a.drop);
    by_kind(t, dtype, [&](auto x, auto drop, auto bias) {
        queue_sharing(call, "attention by distances", relative_kernel<decltype(x), drop, bias>,
                      dim3(tiles_for<TILE>(t->a.rows, t->a.n), (unsigned)t->a.heads), THREADS, sizes<bias>::ALL, with);
    });
}
