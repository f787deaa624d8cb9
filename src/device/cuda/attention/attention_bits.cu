/* attention_bits.cu - draws the dropout decisions of attention as bits (layout/mask_bits.h). A warp has a granule of
 * queries and one head: a thread draws for two queries and 16 of every 64 keys, a word. */
#include "device/cuda/attention/attention_mask.cuh"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS) bits_kernel(attention_args a) {
    int granule = (int)(blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP), head = blockIdx.y;
    int lane = threadIdx.x % WARP, s = sequence_of<TRI_MASK_QUERIES>(a.seq, a.n, granule), begin = a.seq[s];
    mask_start start = mask_start_of(a.drop);
    if (s == a.n) return;
    int end = a.seq[s + 1], first = begin + (granule - granule_of(s, begin, begin)) * TRI_MASK_QUERIES;
    if (first >= end) return;
    word_drawer draws = drawer_at(a, start, head, begin, first);
    uint32_t *to = bits_at(a, granule, head, 0) + lane;
    if (draws.feature % 8 == 0)
        for (int key = 0; key < end - begin; key += TRI_MASK_KEYS, to += TRI_MASK_WORDS) *to = draws.even(a, key);
    else
        for (int key = 0; key < end - begin; key += TRI_MASK_KEYS, to += TRI_MASK_WORDS) *to = draws.odd(a, key);
}

void tri__cuda_draw_bits(const tri_call *call, const attention_args *args) {
    attention_args a = *args;
    a.mask = mask_keys_of(a.drop);
    dim3 grid(blocks_for(tri__mask_granules(a.rows, a.n), THREADS / WARP), (unsigned)a.heads);
    queue(call, "attention_bits", bits_kernel, grid, THREADS, a);
}
