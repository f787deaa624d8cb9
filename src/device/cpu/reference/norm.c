/* norm.c - layer normalisation (Ba, Kiros and Hinton, 2016), alone and with the dropout and the residual before it.
 * The gradient of the input needs xhat and rstd only, so the forward keeps those and not x. */
#include "device/cpu/reference/reference.h"

/* Normalises row t, given as H values of double, into operands y, xhat and rstd. */
static void norm_row(const tri_call *call, int64_t t, const double *row, const float *g, const float *b) {
    enum { Y, XHAT, RSTD };
    int64_t H = call->t[Y].cols;
    double mean = 0, var = 0;
    for (int64_t c = 0; c < H; c++) mean += row[c] / (double)H;
    for (int64_t c = 0; c < H; c++) var += (row[c] - mean) * (row[c] - mean) / (double)H;
    double rstd = 1 / sqrt(var + (double)call->attr->eps);
    store(call, RSTD, t, rstd);
    for (int64_t c = 0; c < H; c++) {
        double xhat = (row[c] - mean) * rstd;
        store(call, XHAT, t * H + c, xhat);
        store(call, Y, t * H + c, xhat * g[c] + b[c]);
    }
}

static void norm(const tri_call *call) {
    enum { Y, XHAT, RSTD, X, G, B };
    const float *x = f32(call, X); /* [T,H] */
    int64_t T = call->t[Y].rows, H = call->t[Y].cols;
    double *row = call->work; /* [H] */
    for (int64_t t = 0; t < T; t++) {
        for (int64_t c = 0; c < H; c++) row[c] = x[t * H + c];
        norm_row(call, t, row, f32(call, G), f32(call, B));
    }
}

static void dropout_add_norm(const tri_call *call) {
    enum { Y, XHAT, RSTD, X, RES, G, B, KEY };
    const float *x = f32(call, X), *res = f32(call, RES); /* [T,H] */
    const int32_t *key = i32(call, KEY);                  /* [T,2] */
    int64_t T = call->t[Y].rows, H = call->t[Y].cols;
    double *row = call->work; /* [H] */
    for (int64_t t = 0; t < T; t++) {
        for (int64_t c = 0; c < H; c++)
            row[c] = keep(call, key, t, c) * x[t * H + c] + res[t * H + c];
        norm_row(call, t, row, f32(call, G), f32(call, B));
    }
}

/* The gradient of row t of the normalisation's input, H values of double, into row. */
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
    enum { DX, DY, XHAT, RSTD, G };
    const float *dy = f32(call, DY), *xhat = f32(call, XHAT); /* [T,H] */
    const float *rstd = f32(call, RSTD), *g = f32(call, G);   /* [T] [H] */
    int64_t T = call->t[DX].rows, H = call->t[DX].cols;
    double *row = call->work; /* [H] */
    for (int64_t t = 0; t < T; t++) {
        norm_din_row(dy + t * H, xhat + t * H, rstd[t], g, H, row);
        for (int64_t c = 0; c < H; c++) store(call, DX, t * H + c, row[c]);
    }
}

static void dropout_add_norm_din(const tri_call *call) {
    enum { DX, DRES, DG, DB, DBIAS, DY, XHAT, RSTD, G, KEY };
    const float *dy = f32(call, DY), *xhat = f32(call, XHAT); /* [T,H] */
    const float *rstd = f32(call, RSTD), *g = f32(call, G);   /* [T] [H] */
    const int32_t *key = i32(call, KEY);                      /* [T,2] */
    int64_t T = call->t[DX].rows, H = call->t[DX].cols;
    double *row = call->work; /* [H] */
    for (int64_t t = 0; t < T; t++) {
        norm_din_row(dy + t * H, xhat + t * H, rstd[t], g, H, row);
        for (int64_t c = 0; c < H; c++) {
            store(call, DRES, t * H + c, row[c]);
            store(call, DX, t * H + c, row[c] * keep(call, key, t, c));
        }
    }
    sum_rows(call, DG, dy, xhat, T, H);
    sum_rows(call, DB, dy, NULL, T, H);
    sum_rows(call, DBIAS, f32(call, DX), NULL, T, H);
}

static void norm_dw(const tri_call *call) {
    enum { DG, DB, DY, XHAT };
    int64_t T = call->t[DY].rows, H = call->t[DG].cols;
    sum_rows(call, DG, f32(call, DY), f32(call, XHAT), T, H);
    sum_rows(call, DB, f32(call, DY), NULL, T, H);
}

/* Scratch: one row of double. */
const tri_kernel_row tri__cpu_norm_reference[] = {
    {.op = TRI_OP_norm, .dtype = TRI_F32, .run = norm, .work = {.col = 8}},
    {.op = TRI_OP_norm_din, .dtype = TRI_F32, .run = norm_din, .work = {.col = 8}},
    {.op = TRI_OP_norm_dw, .dtype = TRI_F32, .run = norm_dw},
    {.op = TRI_OP_dropout_add_norm, .dtype = TRI_F32, .run = dropout_add_norm, .work = {.col = 8}},
    {.op = TRI_OP_dropout_add_norm_din, .dtype = TRI_F32, .run = dropout_add_norm_din, .work = {.col = 8}},
    {.run = NULL},
};
