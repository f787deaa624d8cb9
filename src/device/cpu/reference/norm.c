/* norm.c - layer normalisation (Ba, Kiros and Hinton, 2016), alone and with the preceding dropout and residual. The
 * gradient of the input needs only xhat and rstd, so the forward keeps those and not x. */
#include "device/cpu/reference/reference.h"

/* Normalises row t, given as H doubles, into operands y, xhat and rstd. b may be NULL. */
static void norm_row(const tri_call *call, int64_t t, const double *row, const float *g, const float *b) {
    OPERANDS(norm);
    int64_t H = call->t[ARG(y)].cols;
    double mean = 0, var = 0;
    for (int64_t c = 0; c < H; c++) mean += row[c] / (double)H;
    for (int64_t c = 0; c < H; c++) var += (row[c] - mean) * (row[c] - mean) / (double)H;
    double rstd = 1 / sqrt(var + (double)call->attr->eps);
    store(call, ARG(rstd), t, rstd);
    for (int64_t c = 0; c < H; c++) {
        double xhat = (row[c] - mean) * rstd;
        store(call, ARG(xhat), t * H + c, xhat);
        store(call, ARG(y), t * H + c, xhat * g[c] + (b ? b[c] : 0));
    }
}

static void norm(const tri_call *call) {
    OPERANDS(norm);
    const float *x = f32(call, ARG(x)), *res = f32(call, ARG(res)); /* [T,H]; res may be NULL */
    const int32_t *key = i32(call, ARG(key));                       /* [T,2] */
    double s = call->t[ARG(s)].data ? *f32(call, ARG(s)) : 1;
    int64_t T = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols;
    double *row = call->work; /* [H] */
    for (int64_t t = 0; t < T; t++) {
        for (int64_t c = 0; c < H; c++)
            row[c] = res ? keep(call, key, t, c) * s * x[t * H + c] + res[t * H + c] : x[t * H + c];
        norm_row(call, t, row, f32(call, ARG(g)), f32(call, ARG(b)));
    }
}

/* The gradient of row t of the normalisation's input, as H doubles, into row. */
static void norm_din_row(const float *dy, const float *xhat, double rstd, const float *g, int64_t H, double *row) {
    double mean = 0, mean_xhat = 0; /* of dy*g and of dy*g*xhat */
    for (int64_t c = 0; c < H; c++) {
        double dyg = (double)dy[c] * g[c];
        mean += dyg / (double)H;
        mean_xhat += dyg * xhat[c] / (double)H;
    }
    for (int64_t c = 0; c < H; c++) row[c] = rstd * ((double)dy[c] * g[c] - mean - xhat[c] * mean_xhat);
}

static void norm_din(const tri_call *call) {
    OPERANDS(norm_din);
    const float *dy = f32(call, ARG(dy)), *xhat = f32(call, ARG(xhat)); /* [T,H] */
    const float *rstd = f32(call, ARG(rstd)), *g = f32(call, ARG(g));   /* [T] [H] */
    const int32_t *key = i32(call, ARG(key));                           /* [T,2] */
    double s = call->t[ARG(s)].data ? *f32(call, ARG(s)) : 1;
    int64_t T = call->t[ARG(dx)].rows, H = call->t[ARG(dx)].cols;
    double *row = call->work; /* [H] */
    for (int64_t t = 0; t < T; t++) {
        norm_din_row(dy + t * H, xhat + t * H, rstd[t], g, H, row);
        for (int64_t c = 0; c < H; c++) {
            store(call, ARG(dres), t * H + c, row[c]);
            store(call, ARG(dx), t * H + c, row[c] * keep(call, key, t, c) * s);
        }
    }
    if (!call->attr->residual) return;
    sum_rows(call, ARG(dg), dy, xhat, T, H);
    sum_rows(call, ARG(db), dy, NULL, T, H);
    sum_rows(call, ARG(dbias), f32(call, ARG(dx)), NULL, T, H);
}

static void norm_dw(const tri_call *call) {
    OPERANDS(norm_dw);
    int64_t T = call->t[ARG(dy)].rows, H = call->t[ARG(dg)].cols;
    sum_rows(call, ARG(dg), f32(call, ARG(dy)), f32(call, ARG(xhat)), T, H);
    sum_rows(call, ARG(db), f32(call, ARG(dy)), NULL, T, H);
}

/* Scratch: one row of doubles. */
#define ROWS(op_) \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = op_, .work = {.col = 8}}, \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = op_, .work = {.col = 8}, .facts = TRI_FACT_ALONE}
const tri_kernel_row tri__cpu_norm_reference[] = TRI_KERNEL_ROWS(ROWS(norm), ROWS(norm_din), TRI_KERNEL(norm_dw));
