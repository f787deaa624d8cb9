/* columns.c - columns of a table as vectors. Forward, a row of the table is a work item; for gradients a column, whose
 * rows of the tables no other one has: it adds samples in their order. */
#include "device/cpu/fast/runtime/call.h"
#include "layout/columns.h"

enum { ENOUGH = 1 << 13 }; /* elements */

/* to[h] += by * from[h] */
static void add_row(int64_t h, float by, const float *restrict from, float *restrict to) {
    for (int64_t j = 0; j < h; j++) to[j] += by * from[j];
}

static float dot(int64_t h, const float *a, const float *b) {
    float sum = 0;
    for (int64_t j = 0; j < h; j++) sum += a[j] * b[j];
    return sum;
}

/* The sine and the cosine of 2 pi t. */
static void turn(float t, float *sine, float *cosine) {
    float angle = (float)(2 * M_PI) * (t - rintf(t));
    *sine = sinf(angle), *cosine = cosf(angle);
}

/* Adds the rows of a number, from `table` on, times their factors. */
static void add_number(const int32_t *words, float x, const tri_tensor *frequency, int64_t h, const float *table,
                       float *y) {
    int64_t count = words[TRI_COLUMN_COUNT], n = frequency->cols;
    if (x == TRI_COLUMN_MISSING) {
        if (words[TRI_COLUMN_ROWS] > count) add_row(h, 1, table + count * h, y);
        return;
    }
    if (words[TRI_COLUMN_KIND] == TRI_COLUMN_PIECEWISE) {
        for (int64_t k = 0; k < count && (k == 0 || !(x <= (float)k)); k++)
            add_row(h, tri__column_bin(x, k, count), table + k * h, y);
        return;
    }
    const float *f = (const float *)frequency->data + words[TRI_COLUMN_NUMBER] * n;
    for (int64_t k = 0; k < n; k++) {
        float sine, cosine;
        turn(f[k] * x, &sine, &cosine);
        add_row(h, sine, table + k * h, y), add_row(h, cosine, table + (n + k) * h, y);
    }
}

/* The rows that a column looks up, and their factors, one at a time: the next row from k on; -1: none. */
static int64_t next_row(const int32_t *words, const float *x, int64_t k) {
    int64_t count = words[TRI_COLUMN_COUNT], row;
    if (words[TRI_COLUMN_KIND] == TRI_COLUMN_CATEGORY) {
        row = tri__column_row(*x, words) - words[TRI_COLUMN_FIRST];
        return row >= k ? row : -1;
    }
    while (k < count && x[k] == 0) k++;
    return k < count ? k : -1;
}

static void columns(const tri_call *call) {
    OPERANDS(columns);
    int64_t rows = call->t[ARG(y)].rows, C = call->t[ARG(bias)].rows, h = call->t[ARG(bias)].cols,
            D = call->t[ARG(x)].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows *C *h, ENOUGH))
    for (int64_t i = 0; i < rows * C; i++) {
        const int32_t *words = i32(call, ARG(words)) + i % C * TRI_COLUMN_WORDS;
        const float *x = f32(call, ARG(x)) + i / C * D + words[TRI_COLUMN_AT];
        float *y = f32(call, ARG(y)) + i * h;
        memcpy(y, f32(call, ARG(bias)) + i % C * h, (size_t)h * sizeof *y);
        if (tri__column_looks_up(words)) {
            const float *table = f32(call, ARG(categories)) + words[TRI_COLUMN_FIRST] * h;
            for (int64_t k = -1; (k = next_row(words, x, k + 1)) >= 0;)
                add_row(h, tri__column_look(x, k, words), table + k * h, y);
            continue;
        }
        add_number(words, *x, &call->t[ARG(frequency)], h, f32(call, ARG(numbers)) + words[TRI_COLUMN_FIRST] * h, y);
        for (int64_t j = 0; j < h; j++) y[j] = y[j] < 0 ? 0 : y[j];
    }
}

/* A column whose gradients are formed. */
typedef struct column {
    const tri_call *call;
    const int32_t *words;
    int64_t c, C, h;      /* which, of how many; elements of a vector */
    float *table;         /* gradients of its rows; NULL: it has none */
    float *bias, *frequency; /* [h], [K] likewise */
} column;

static void clear(const tri_call *call, int k, float *from, int64_t n) {
    if (from && !adds(call, k)) memset(from, 0, (size_t)n * sizeof *from);
}

static column column_at(const tri_call *call, int64_t c) {
    OPERANDS(columns_dw);
    const int32_t *words = i32(call, ARG(words)) + c * TRI_COLUMN_WORDS;
    int64_t h = call->t[ARG(dbias)].cols, n = call->t[ARG(frequency)].cols;
    int table = tri__column_looks_up(words) ? ARG(dcategories) : ARG(dnumbers);
    column at = {.call = call, .words = words, .c = c, .C = call->t[ARG(dbias)].rows, .h = h,
                 .bias = f32(call, ARG(dbias)) + c * h};
    if (f32(call, table)) at.table = f32(call, table) + words[TRI_COLUMN_FIRST] * h;
    if (words[TRI_COLUMN_KIND] == TRI_COLUMN_PERIODIC && f32(call, ARG(dfrequency)))
        at.frequency = f32(call, ARG(dfrequency)) + words[TRI_COLUMN_NUMBER] * n;
    clear(call, table, at.table, words[TRI_COLUMN_ROWS] * h);
    clear(call, ARG(dbias), at.bias, h);
    clear(call, ARG(dfrequency), at.frequency, n);
    return at;
}

/* Adds what gradient g [h] of the sum gives for a periodic number. */
static void add_periods(const column *at, float x, const float *g) {
    OPERANDS(columns_dw);
    int64_t h = at->h, n = at->call->t[ARG(frequency)].cols;
    const float *f = f32(at->call, ARG(frequency)) + at->words[TRI_COLUMN_NUMBER] * n,
                *numbers = f32(at->call, ARG(numbers)) + at->words[TRI_COLUMN_FIRST] * h;
    for (int64_t k = 0; k < n; k++) {
        float sine, cosine;
        turn(f[k] * x, &sine, &cosine);
        if (at->table) add_row(h, sine, g, at->table + k * h), add_row(h, cosine, g, at->table + (n + k) * h);
        if (at->frequency)
            at->frequency[k] += (float)(2 * M_PI) * x *
                                (cosine * dot(h, g, numbers + k * h) - sine * dot(h, g, numbers + (n + k) * h));
    }
}

/* Adds gradient g [h] of the sum of a sample's vector. */
static void add_sample(const column *at, const float *numbers, const float *g) {
    const int32_t *words = at->words;
    int64_t h = at->h, count = words[TRI_COLUMN_COUNT];
    float x = *numbers;
    add_row(h, 1, g, at->bias);
    if (tri__column_looks_up(words)) {
        for (int64_t k = -1; at->table && (k = next_row(words, numbers, k + 1)) >= 0;)
            add_row(h, tri__column_look(numbers, k, words), g, at->table + k * h);
    } else if (x == TRI_COLUMN_MISSING) {
        if (words[TRI_COLUMN_ROWS] > count && at->table) add_row(h, 1, g, at->table + count * h);
    } else if (words[TRI_COLUMN_KIND] == TRI_COLUMN_PERIODIC) {
        add_periods(at, x, g);
    } else {
        for (int64_t k = 0; k < count && at->table && (k == 0 || !(x <= (float)k)); k++)
            add_row(h, tri__column_bin(x, k, count), g, at->table + k * h);
    }
}

static void columns_dw(const tri_call *call) {
    OPERANDS(columns_dw);
    int64_t rows = call->t[ARG(dy)].rows, C = call->t[ARG(dbias)].rows, h = call->t[ARG(dbias)].cols,
            D = call->t[ARG(x)].cols;
#pragma omp parallel for schedule(dynamic) num_threads(threads_for(call, rows *C *h, ENOUGH))
    for (int64_t c = 0; c < C; c++) {
        column at = column_at(call, c);
        int number = !tri__column_looks_up(at.words);
        for (int64_t n = 0; n < rows; n++) {
            const float *dy = f32(call, ARG(dy)) + (n * C + c) * h, *y = f32(call, ARG(y)) + (n * C + c) * h;
            float g[TRI_COLUMN_DIM_MAX];
            for (int64_t j = 0; j < h; j++) g[j] = !number || y[j] > 0 ? dy[j] : 0;
            add_sample(&at, f32(call, ARG(x)) + n * D + at.words[TRI_COLUMN_AT], g);
        }
    }
}

TRI_FAST_ROWS(columns) = TRI_KERNEL_ROWS(TRI_KERNEL(columns), TRI_KERNEL(columns_dw));
