/* columns.c - columns of a table as vectors (Gorishniy et al., 2022): numbers by bins or by sines of learned
 * frequencies, through a dense layer of each column and a ReLU; categories by a row of a table, and hashed texts by a
 * sum of rows. */
#include "device/cpu/reference/reference.h"
#include "layout/columns.h"

/* A row's numbers of a column, and the column. */
typedef struct cell {
    const int32_t *words;
    const float *frequency; /* [K] of a periodic column */
    const float *x;
    int64_t n;              /* frequencies */
} cell;

static cell cell_at(const int32_t *words, const tri_tensor *x, const tri_tensor *frequency, int64_t n, int64_t c) {
    cell at = {.words = words + c * TRI_COLUMN_WORDS, .n = frequency->cols};
    at.x = (const float *)x->data + n * x->cols + at.words[TRI_COLUMN_AT];
    if (at.words[TRI_COLUMN_KIND] == TRI_COLUMN_PERIODIC)
        at.frequency = (const float *)frequency->data + at.words[TRI_COLUMN_NUMBER] * at.n;
    return at;
}

static int looks_up(const cell *at) { return tri__column_looks_up(at->words); }
static int is_missing(const cell *at) { return !looks_up(at) && *at->x == TRI_COLUMN_MISSING; }
static double angle(const cell *at, int64_t k) { return 2 * M_PI * at->frequency[k] * *at->x; }

/* The factor of the column's row k. */
static double factor(const cell *at, int64_t k) {
    int64_t count = at->words[TRI_COLUMN_COUNT];
    if (looks_up(at)) return tri__column_look(at->x, k, at->words);
    if (is_missing(at) || k >= count) return is_missing(at) && k == count;
    if (!at->frequency) return tri__column_bin(*at->x, k, count);
    return k < at->n ? sin(angle(at, k)) : cos(angle(at, k - at->n));
}

static double element(const tri_call *call, const cell *at, int64_t c, int64_t d) {
    OPERANDS(columns);
    int64_t H = call->t[ARG(bias)].cols;
    double sum = f32(call, ARG(bias))[c * H + d];
    const float *table = f32(call, looks_up(at) ? ARG(categories) : ARG(numbers)) + at->words[TRI_COLUMN_FIRST] * H;
    for (int64_t k = 0; k < at->words[TRI_COLUMN_ROWS]; k++) sum += factor(at, k) * table[k * H + d];
    return sum < 0 && !looks_up(at) ? 0 : sum;
}

static void columns(const tri_call *call) {
    OPERANDS(columns);
    int64_t N = call->t[ARG(y)].rows, C = call->t[ARG(bias)].rows, H = call->t[ARG(bias)].cols;
    for (int64_t i = 0; i < N * C; i++) {
        cell at = cell_at(i32(call, ARG(words)), &call->t[ARG(x)], &call->t[ARG(frequency)], i / C, i % C);
        for (int64_t d = 0; d < H; d++) store(call, ARG(y), i * H + d, element(call, &at, i % C, d));
    }
}

/* A call for gradients. */
typedef struct gradients {
    const tri_call *call;
    int64_t N, C, H;
} gradients;

static cell gradient_cell(const gradients *g, int64_t n, int64_t c) {
    OPERANDS(columns_dw);
    return cell_at(i32(g->call, ARG(words)), &g->call->t[ARG(x)], &g->call->t[ARG(frequency)], n, c);
}

/* Element d of the gradient of the sum of column c. */
static double gradient(const gradients *g, const cell *at, int64_t n, int64_t c, int64_t d) {
    OPERANDS(columns_dw);
    int64_t i = (n * g->C + c) * g->H + d;
    return looks_up(at) || f32(g->call, ARG(y))[i] > 0 ? f32(g->call, ARG(dy))[i] : 0;
}

/* Of row k of column c; k -1: of its bias. */
static void row_gradient(const gradients *g, int64_t c, int64_t k) {
    OPERANDS(columns_dw);
    for (int64_t d = 0; d < g->H; d++) {
        double sum = 0;
        cell at = {0};
        for (int64_t n = 0; n < g->N; n++) {
            at = gradient_cell(g, n, c);
            sum += (k < 0 ? 1 : factor(&at, k)) * gradient(g, &at, n, c, d);
        }
        int64_t row = i32(g->call, ARG(words))[c * TRI_COLUMN_WORDS + TRI_COLUMN_FIRST] + k;
        if (k < 0) store(g->call, ARG(dbias), c * g->H + d, sum);
        else store(g->call, looks_up(&at) ? ARG(dcategories) : ARG(dnumbers), row * g->H + d, sum);
    }
}

static void frequency_gradient(const gradients *g, int64_t c, int64_t k) {
    OPERANDS(columns_dw);
    const int32_t *words = i32(g->call, ARG(words)) + c * TRI_COLUMN_WORDS;
    int64_t K = g->call->t[ARG(frequency)].cols, H = g->H;
    const float *numbers = f32(g->call, ARG(numbers)) + (words[TRI_COLUMN_FIRST] + k) * H;
    double sum = 0;
    for (int64_t n = 0; n < g->N; n++) {
        cell at = gradient_cell(g, n, c);
        for (int64_t d = 0; d < H && !is_missing(&at); d++)
            sum += 2 * M_PI * *at.x * gradient(g, &at, n, c, d) *
                   (cos(angle(&at, k)) * numbers[d] - sin(angle(&at, k)) * numbers[K * H + d]);
    }
    store(g->call, ARG(dfrequency), words[TRI_COLUMN_NUMBER] * K + k, sum);
}

static void columns_dw(const tri_call *call) {
    OPERANDS(columns_dw);
    gradients g = {call, call->t[ARG(dy)].rows, call->t[ARG(dbias)].rows, call->t[ARG(dbias)].cols};
    for (int k = ARG(dbias); k <= ARG(dfrequency) && !g.N; k++)
        if (call->t[k].data) clear(call, k);
    for (int64_t c = 0; c < g.C && g.N; c++) {
        const int32_t *words = i32(call, ARG(words)) + c * TRI_COLUMN_WORDS;
        for (int64_t k = -1; k < words[TRI_COLUMN_ROWS]; k++) row_gradient(&g, c, k);
        int64_t K = words[TRI_COLUMN_KIND] == TRI_COLUMN_PERIODIC ? call->t[ARG(frequency)].cols : 0;
        for (int64_t k = 0; k < K; k++) frequency_gradient(&g, c, k);
    }
}

const tri_kernel_row tri__cpu_columns_reference[] = TRI_KERNEL_ROWS(TRI_KERNEL(columns), TRI_KERNEL(columns_dw));
