/* columns.cu - columns of a table as vectors. Forward, a thread has one element of a vector; for gradients one element
 * of a table, to which it adds all samples in their order. */
#include "device/cuda/runtime/common.cuh"
#include "layout/columns.h"

enum { THREADS = 256 };

/* The columns of a call: x [N,D], words [C,6], frequency [B,K]; a vector has H elements. */
template <typename T> struct table {
    int64_t samples, columns, width, frequencies, stride; /* stride: of rows of x */
    const float *x;
    const int32_t *words;
    const T *frequency, *numbers;
};

/* The factor of row k of a column, of which a sample's numbers begin at x. */
template <typename T>
static __device__ float factor(const table<T> &t, const int32_t *words, const float *numbers, int64_t k) {
    if (tri__column_looks_up(words)) return tri__column_look(numbers, k, words);
    int64_t count = words[TRI_COLUMN_COUNT], n = t.frequencies;
    float x = *numbers;
    if (x == TRI_COLUMN_MISSING || k >= count) return x == TRI_COLUMN_MISSING && k == count ? 1.0f : 0.0f;
    if (words[TRI_COLUMN_KIND] == TRI_COLUMN_PIECEWISE) return tri__column_bin(x, k, count);
    float turns = wide(t.frequency[words[TRI_COLUMN_NUMBER] * n + k % n]) * x;
    turns -= rintf(turns);
    return k < n ? sinpif(2 * turns) : cospif(2 * turns);
}

/* A sample's first number of a column. */
template <typename T> static __device__ const float *numbers_at(const table<T> &t, int64_t n, const int32_t *words) {
    return t.x + n * t.stride + words[TRI_COLUMN_AT];
}

template <typename T>
static __global__ void columns_kernel(table<T> t, T *y, const T *categories, const T *bias) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= t.samples * t.columns * t.width) return;
    int64_t d = i % t.width, cell = i / t.width, c = cell % t.columns;
    const int32_t *words = t.words + c * TRI_COLUMN_WORDS;
    const float *x = numbers_at(t, cell / t.columns, words);
    float sum = wide(bias[c * t.width + d]);
    if (words[TRI_COLUMN_KIND] == TRI_COLUMN_CATEGORY) {
        int64_t row = tri__column_row(*x, words);
        if (row >= 0) sum += wide(categories[row * t.width + d]);
    } else {
        int looks_up = tri__column_looks_up(words);
        const T *rows = (looks_up ? categories : t.numbers) + words[TRI_COLUMN_FIRST] * t.width + d;
        for (int64_t k = 0; k < words[TRI_COLUMN_ROWS]; k++) sum += factor(t, words, x, k) * wide(rows[k * t.width]);
        sum = sum < 0 && !looks_up ? 0 : sum;
    }
    y[i] = narrow<T>(sum);
}

/* Where gradients go. */
struct places {
    loose numbers, categories, bias, frequency;
    int add_numbers, add_categories, add_bias, add_frequency;
};

/* Element d of the gradient of a column's sum, of sample n. */
template <typename T>
static __device__ float gradient(const table<T> &t, const T *dy, const T *y, int64_t n, int64_t c, int64_t d,
                                 int number) {
    int64_t i = (n * t.columns + c) * t.width + d;
    return number && !(wide(y[i]) > 0) ? 0.0f : wide(dy[i]);
}

/* The y blocks have a column each: its rows, and after them its bias. */
template <typename T> static __global__ void rows_dw_kernel(table<T> t, places to, const T *dy, const T *y) {
    for (int64_t c = blockIdx.y; c < t.columns; c += gridDim.y) {
        const int32_t *words = t.words + c * TRI_COLUMN_WORDS;
        int64_t rows = words[TRI_COLUMN_ROWS], end = (rows + 1) * t.width;
        int number = !tri__column_looks_up(words);
        for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < end; i += (int64_t)gridDim.x * THREADS) {
            int64_t k = i / t.width, d = i % t.width, at = words[TRI_COLUMN_FIRST] + k;
            float sum = 0;
            for (int64_t n = 0; n < t.samples; n++) {
                float by = k < rows ? factor(t, words, numbers_at(t, n, words), k) : 1;
                sum += by * gradient(t, dy, y, n, c, d, number);
            }
            if (k == rows) loose_put(to.bias, c * t.width + d, sum, to.add_bias);
            else if (number && to.numbers.data) loose_put(to.numbers, at * t.width + d, sum, to.add_numbers);
            else if (!number && to.categories.data) loose_put(to.categories, at * t.width + d, sum, to.add_categories);
        }
    }
}

/* The same: its frequencies, a block each. */
template <typename T> static __global__ void frequency_dw_kernel(table<T> t, places to, const T *dy, const T *y) {
    const float two_pi = 6.283185307179586f;
    for (int64_t c = blockIdx.y; c < t.columns; c += gridDim.y) {
        const int32_t *words = t.words + c * TRI_COLUMN_WORDS;
        if (words[TRI_COLUMN_KIND] != TRI_COLUMN_PERIODIC) continue; /* all threads of the block */
        int64_t n = t.frequencies, k = blockIdx.x, at = words[TRI_COLUMN_FIRST];
        float sum = 0;
        for (int64_t i = threadIdx.x; i < t.samples * t.width; i += THREADS) {
            int64_t s = i / t.width, d = i % t.width;
            const float *x = numbers_at(t, s, words);
            if (*x == TRI_COLUMN_MISSING) continue;
            float slope = factor(t, words, x, n + k) * wide(t.numbers[(at + k) * t.width + d]) -
                          factor(t, words, x, k) * wide(t.numbers[(at + n + k) * t.width + d]);
            sum += two_pi * *x * slope * gradient(t, dy, y, s, c, d, 1);
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) loose_put(to.frequency, words[TRI_COLUMN_NUMBER] * n + k, sum, to.add_frequency);
    }
}

/* Blocks of a grid's second axis. */
static unsigned second_axis(int64_t columns) { return columns < 65535 ? (unsigned)columns : 65535; }

template <typename T> static void columns(const tri_call *call) {
    OPERANDS(columns);
    int64_t n = elements(call, ARG(y));
    table<T> t = {call->t[ARG(y)].rows,
                  call->t[ARG(bias)].rows,
                  call->t[ARG(bias)].cols,
                  call->t[ARG(frequency)].cols,
                  call->t[ARG(x)].cols,
                  GIVEN(x),
                  GIVEN(words),
                  GIVEN(frequency),
                  GIVEN(numbers)};
    if (n)
        queue(call, "columns", columns_kernel<T>, blocks_for(n, THREADS), THREADS, t, GIVEN(y), GIVEN(categories),
              GIVEN(bias));
}

template <typename T> static void columns_dw(const tri_call *call) {
    OPERANDS(columns_dw);
    table<T> t = {call->t[ARG(dy)].rows,
                  call->t[ARG(dbias)].rows,
                  call->t[ARG(dbias)].cols,
                  call->t[ARG(frequency)].cols,
                  call->t[ARG(x)].cols,
                  GIVEN(x),
                  GIVEN(words),
                  GIVEN(frequency),
                  GIVEN(numbers)};
    places to = {GIVEN(dnumbers), GIVEN(dcategories), GIVEN(dbias), GIVEN(dfrequency), adds(call, ARG(dnumbers)),
                 adds(call, ARG(dcategories)), adds(call, ARG(dbias)), adds(call, ARG(dfrequency))};
    if (t.columns * t.width == 0) return;
    int64_t numbers = to.numbers.data ? call->t[ARG(dnumbers)].rows : 0,
            categories = to.categories.data ? call->t[ARG(dcategories)].rows : 0,
            rows = (numbers > categories ? numbers : categories) / t.columns + 1; /* of a column, on average */
    queue(call, "columns_dw", rows_dw_kernel<T>, dim3(blocks_for(rows * t.width, THREADS), second_axis(t.columns)),
          THREADS, t, to, GIVEN(dy), GIVEN(y));
    if (!to.frequency.data || t.frequencies == 0) return;
    queue(call, "columns_dw", frequency_dw_kernel<T>, dim3((unsigned)t.frequencies, second_axis(t.columns)), THREADS, t,
          to, GIVEN(dy), GIVEN(y));
}

TRI_CUDA_FAMILY(columns) = {
    TRI_CUDA_ROWS(TRI_OP_columns, columns, {}),
    TRI_CUDA_ROWS(TRI_OP_columns_dw, columns_dw, {}),
    {},
};
