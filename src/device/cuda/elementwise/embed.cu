/* embed.cu - embeddings: rows of the word, position and type tables, added, as stored or as quantised to 8 bits; and
 * the gradients of the tables. Tokens are sorted by their row of a table, stably, and one block sums all tokens of a
 * row: no two blocks write the same row. */
#include "device/cuda/elementwise/columns.cuh"
#include "device/cuda/product/quantize.cuh"

#include <cub/device/device_radix_sort.cuh>

enum { THREADS = 96, SORT_ALIGN = 256 };

/* The range of table rows that this rank holds. */
typedef struct held {
    int32_t row0;
    int64_t n;
} held;

/* The row of a word among those held; n: not held. */
static __device__ __forceinline__ int64_t row_of(int32_t id, held words) {
    int64_t row = (int64_t)id - words.row0;
    return row >= 0 && row < words.n ? row : words.n;
}

/* position and type may be absent. */
template <typename T, int N>
static __global__ void embed_kernel(int64_t cols, T *y, const int32_t *ids, const int32_t *pos, const T *word,
                                    held words, const T *position, const T *type) {
    int64_t t = blockIdx.x, row = row_of(ids[t], words);
    for (int64_t c = threadIdx.x * N; c < cols; c += THREADS * N) {
        float a[N] = {}, b[N] = {}, s[N] = {};
        if (row < words.n) load<N>(word + row * cols + c, a);
        if (position) load<N>(position + pos[t] * cols + c, b);
        if (type) load<N>(type + c, s);
#pragma unroll
        for (int k = 0; k < N; k++) a[k] += b[k] + s[k];
        store<N>(y + t * cols + c, a);
    }
}

template <typename T> static void embed(const tri_call *call) {
    OPERANDS(embed);
    int64_t rows = call->t[ARG(y)].rows, cols = call->t[ARG(y)].cols;
    T *y = GIVEN(y);                                                                /* [T,H] */
    const T *word = GIVEN(word), *position = GIVEN(position), *type = GIVEN(type); /* [V,H] [P,H] [Y,H] */
    held words = {call->attr->row0, call->t[ARG(word)].rows};
    if (rows * cols == 0) return;
    by_width(cols % WIDE == 0 && aligned(y, word, position, type), [&](auto n) {
        queue(call, "embed", embed_kernel<T, n>, (unsigned)rows, THREADS, cols, y, GIVEN(ids), GIVEN(pos), word, words,
              position, type);
    });
}

/* The largest |x| of a table's row, for all threads of the block. */
static __device__ __forceinline__ uint32_t row_largest(loose table, int64_t row, int64_t cols) {
    __shared__ uint32_t part[THREADS / WARP];
    uint32_t largest = 0;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        largest = max(largest, size_of(loose_load(table, row * cols + c)));
    largest = __reduce_max_sync(0xFFFFFFFFu, largest);
    __syncthreads(); /* the previous row's parts have been read */
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = largest;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < THREADS / WARP; w++) largest = max(largest, part[w]);
    return largest;
}

/* One block per token. Each product is exact, and their sum is made in double. */
template <typename T>
static __global__ void embed_int8_kernel(int64_t cols, T *y, const int32_t *ids, const int32_t *pos, loose word,
                                         held words, loose position, loose type) {
    int64_t t = blockIdx.x, row[3] = {row_of(ids[t], words), position.data ? (int64_t)pos[t] : 0, 0};
    loose table[3] = {word, position, type};
    float scale[3];
    if (row[0] == words.n) table[0].data = nullptr;
#pragma unroll
    for (int k = 0; k < 3; k++)
        if (table[k].data) scale[k] = scale_of(row_largest(table[k], row[k], cols), quantized<int8_t>::most);
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) {
        double sum = 0;
#pragma unroll
        for (int k = 0; k < 3; k++)
            if (table[k].data)
                sum += (double)scale[k] *
                       quantized<int8_t>::at(loose_load(table[k], row[k] * cols + c), inverse_of(scale[k]));
        y[t * cols + c] = narrow<T>((float)sum);
    }
}

template <typename T> static void embed_int8(const tri_call *call) {
    OPERANDS(embed);
    int64_t rows = call->t[ARG(y)].rows, cols = call->t[ARG(y)].cols;
    held words = {call->attr->row0, call->t[ARG(word)].rows};
    if (rows * cols == 0) return;
    queue(call, "embed_int8", embed_int8_kernel<T>, (unsigned)rows, THREADS, cols, GIVEN(y), GIVEN(ids), GIVEN(pos),
          GIVEN(word), words, GIVEN(position), GIVEN(type));
}

/* The tokens from `first` on, and their rows of a table; those whose index + 1 is `pad` have none. */
static __global__ void list_tokens(int n, int32_t first, const int32_t *index, held words, int32_t pad, int32_t *token,
                                   int32_t *row) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int32_t id = index[first + i];
    token[i] = first + i;
    row[i] = (int32_t)(id + 1 == pad ? words.n : row_of(id, words));
}

/* Block (i, j): if position i of the sorted rows begins a run of equal ones, sums the tokens of the run, in token
 * order, into that row of the table, for 96 N columns from j on. Words that are not held are last, in row `rows`. */
template <typename T, int N>
static __global__ void sum_runs(int n, int64_t rows, int64_t cols, const int32_t *row, const int32_t *token,
                                const T *dy, loose table) {
    int i = blockIdx.x, end = i + 1;
    int64_t c = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * N;
    if ((i > 0 && row[i - 1] == row[i]) || row[i] >= rows || c >= cols) return;
    while (end < n && row[end] == row[i]) end++;
    float sum[N] = {};
#pragma unroll 8
    for (int k = i; k < end; k++) {
        float d[N];
        load<N>(dy + (int64_t)token[k] * cols + c, d);
#pragma unroll
        for (int e = 0; e < N; e++) sum[e] += d[e];
    }
#pragma unroll
    for (int e = 0; e < N; e++) loose_put(table, (int64_t)row[i] * cols + c + e, sum[e], 1);
}

typedef struct sorting {
    int32_t *row, *token, *row_in, *token_in; /* [n] */
    void *scratch;
    size_t scratch_bytes;
    int n;                           /* tokens that fit */
} sorting;

static size_t scratch_for(int n) {
    size_t bytes = 0;
    cub::DeviceRadixSort::SortPairs(nullptr, bytes, (const int32_t *)nullptr, (int32_t *)nullptr,
                                    (const int32_t *)nullptr, (int32_t *)nullptr, n);
    return bytes;
}

/* Partitions the library's workspace: four arrays of n and the sort's temporary storage; n is halved until it fits. */
static sorting sorting_in(const tri_cuda *cuda, int64_t rows) {
    sorting s;
    char *memory = static_cast<char *>(cuda->blas_work);
    for (s.n = rows < 1 << 24 ? (int)rows : 1 << 24; s.n > 0; s.n /= 2) {
        size_t array = ((size_t)s.n * sizeof(int32_t) + SORT_ALIGN - 1) / SORT_ALIGN * SORT_ALIGN;
        s.row = (int32_t *)memory, s.token = (int32_t *)(memory + array);
        s.row_in = (int32_t *)(memory + 2 * array), s.token_in = (int32_t *)(memory + 3 * array);
        s.scratch = memory + 4 * array;
        s.scratch_bytes = scratch_for(s.n);
        if (4 * array + s.scratch_bytes <= cuda->blas_bytes) break;
    }
    return s;
}

static int bits_for(int64_t rows) {
    int bits = 1;
    while (bits < 31 && (int64_t)1 << bits < rows) bits++;
    return bits;
}

/* table[index[t] - row0] += dy[t], if that row exists and index[t] + 1 is not `pad`. */
template <typename T>
static void scatter(const tri_call *call, int k, const int32_t *index, int32_t row0, int32_t pad, const T *dy,
                    int64_t rows, int64_t cols) {
    sorting s = sorting_in(tri__cuda(call), rows);
    held words = {row0, call->t[k].rows};
    for (int64_t first = 0; first < rows && s.n > 0; first += s.n) {
        int n = rows - first < s.n ? (int)(rows - first) : s.n;
        queue(call, "embed_dw", list_tokens, blocks_for(n, 256), 256, n, (int32_t)first, index, words, pad, s.token_in,
              s.row_in);
        record(call,
               cub::DeviceRadixSort::SortPairs(s.scratch, s.scratch_bytes, s.row_in, s.row, s.token_in, s.token, n, 0,
                                               bits_for(words.n + 1), stream(call)),
               "embed_dw");
        by_width<4>(cols % 4 == 0 && aligned(dy), [&](auto each) {
            queue(call, "embed_dw", sum_runs<T, each>, dim3((unsigned)n, blocks_for(cols, THREADS * each)), THREADS, n,
                  words.n, cols, s.row, s.token, dy, operand(call, k));
        });
    }
}

template <typename T> static void embed_dw(const tri_call *call) {
    OPERANDS(embed_dw);
    const T *dy = data<T>(call, ARG(dy)); /* [T,H] */
    int64_t rows = call->t[ARG(dy)].rows, cols = call->t[ARG(dy)].cols;
    int positions = call->t[ARG(dposition)].data != nullptr, types = call->t[ARG(dtype)].data != nullptr;
    for (int k = ARG(dword); k <= ARG(dtype); k++)
        if (call->t[k].data) clear(call, k, "embed_dw");
    if (rows * cols == 0) return;
    scatter<T>(call, ARG(dword), data<int32_t>(call, ARG(ids)), call->attr->row0, call->attr->pad, dy, rows, cols);
    if (positions)
        scatter<T>(call, ARG(dposition), data<int32_t>(call, ARG(pos)), 0, call->attr->pad_position, dy, rows, cols);
    column_sums to = {{operand(call, ARG(dtype))}, {adds(call, ARG(dtype))}};
    if (types) sum_columns(call, rows, cols, sum_of<T>{dy}, aligned(dy), to);
}

TRI_CUDA_FAMILY(embed) = {
    TRI_CUDA_ROWS(TRI_OP_embed, embed, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_INT8, TRI_OP_embed, embed_int8, {}),
    TRI_CUDA_ROWS(TRI_OP_embed_dw, embed_dw, COLUMN_WORK(1)),
    {},
};
