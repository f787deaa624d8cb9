/* quantized_weights.c - int8 weights: made from fp32 ones by the arithmetic of the kernels, checked, and read as fp32.
 * */
#include "checkpoint/quantized_weights.h"

#include "numbers/quantized.h"

enum { PIECE = 1 << 16 }; /* integers read at once */

static const char *scale_fault(float scale) {
    if (!isfinite(scale)) return "is not finite";
    if (scale < 0) return "is negative";
    if (tri__bits_of_float(scale) & 0xFF) return "has more than 16 significant bits";
    /* Too small or too large: the row's weights are practically 0, or not finite. */
    if (tri__quantized_scale(TRI_INT8_MAX * scale, TRI_INT8_MAX) != scale) return "is out of range";
    return NULL;
}

static tri_status check_shapes(const tri_st_file *file, const tri_st_entry *entry, const tri_st_entry *scale_entry) {
    char have[128], want[128];
    tri_shape rows = tri__shape_1d(entry->shape.dim[0]);
    if (entry->shape.n != 2)
        return tri__fail(TRI_DATA, "%s: tensor '%s' is I8 of shape %s; a quantised weight has two dims", file->path,
                         entry->name, tri__shape_text(&entry->shape, have));
    if (scale_entry->dtype != TRI_F32 || !tri__shape_equal(&scale_entry->shape, &rows))
        return tri__fail(TRI_DATA, "%s: tensor '%s' is %s %s; it must hold a scale for each row of '%s', F32 %s",
                         file->path, scale_entry->name, tri__dtype_file_name(scale_entry->dtype),
                         tri__shape_text(&scale_entry->shape, have), entry->name, tri__shape_text(&rows, want));
    return TRI_OK;
}

tri_status tri__quantized_open(const tri_st_file *file, const tri_st_entry *entry, const tri_st_file *scale_file,
                               const tri_st_entry *scale_entry, tri_quantized *out) {
    *out = (tri_quantized){.file = file, .entry = entry};
    TRI_TRY(check_shapes(file, entry, scale_entry));
    out->rows = entry->shape.dim[0], out->cols = entry->shape.dim[1];
    out->scale = malloc(((size_t)out->rows + 1) * sizeof *out->scale);
    if (!out->scale) return tri__fail(TRI_RESOURCE, "no memory for the scales of tensor '%s'", entry->name);
    TRI_TRY(tri__st_read(scale_file, scale_entry, 0, out->rows, out->scale));
    for (int64_t i = 0; i < out->rows; i++) {
        const char *fault = scale_fault(out->scale[i]);
        if (fault)
            return tri__fail(TRI_DATA, "%s: tensor '%s': the scale of row %lld, %.9g, %s", scale_file->path,
                             scale_entry->name, (long long)i, (double)out->scale[i], fault);
    }
    return TRI_OK;
}

void tri__quantized_close(tri_quantized *quantized) {
    free(quantized->scale);
    *quantized = (tri_quantized){0};
}

static tri_status bad_row(const tri_quantized *z, int64_t row, const char *why) {
    return tri__fail(TRI_DATA, "%s: tensor '%s': row %lld %s", z->file->path, z->entry->name, (long long)row, why);
}

/* Largest and smallest integer of each row, over runs of elements. */
typedef struct extremes {
    int64_t row;
    int low, high;
} extremes;

static tri_status check_row(const tri_quantized *z, const extremes *e) {
    int largest = -e->low > e->high ? -e->low : e->high;
    if (e->low == -128) return bad_row(z, e->row, "holds -128; integers go from -127 to 127");
    if (z->scale[e->row] == 0 && largest > 0) return bad_row(z, e->row, "has the scale 0, but is not 0");
    if (z->scale[e->row] > 0 && largest < 127)
        return bad_row(z, e->row, "holds neither 127 nor -127: its scale is not that of its largest weight");
    return TRI_OK;
}

tri_status tri__quantized_check(const tri_quantized *z) {
    int64_t n = z->rows * z->cols;
    extremes e = {0};
    TRI_OWNED(tri__free_at) int8_t *q = malloc(PIECE);
    if (!q) return tri__fail(TRI_RESOURCE, "no memory to check tensor '%s'", z->entry->name);
    for (int64_t at = 0; at < n;) {
        int64_t count = n - at < PIECE ? n - at : PIECE;
        TRI_TRY(tri__st_read(z->file, z->entry, at, count, q));
        for (int64_t i = 0; i < count;) {
            int64_t rest = z->cols - (at + i) % z->cols, run = rest < count - i ? rest : count - i;
            for (int64_t k = i; k < i + run; k++) {
                e.low = q[k] < e.low ? q[k] : e.low;
                e.high = q[k] > e.high ? q[k] : e.high;
            }
            i += run;
            if (run < rest) break; /* the row goes on in the next piece */
            TRI_TRY(check_row(z, &e));
            e = (extremes){.row = e.row + 1};
        }
        at += count;
    }
    return TRI_OK;
}

tri_status tri__quantized_read(const tri_quantized *z, int64_t begin, int64_t n, float *out) {
    int8_t q[4096];
    for (int64_t at = 0; at < n;) {
        int64_t count = n - at < (int64_t)sizeof q ? n - at : (int64_t)sizeof q;
        TRI_TRY(tri__st_read(z->file, z->entry, begin + at, count, q));
        for (int64_t i = 0; i < count;) {
            int64_t from = begin + at + i, rest = z->cols - from % z->cols, run = rest < count - i ? rest : count - i;
            float scale = z->scale[from / z->cols];
            for (int64_t k = i; k < i + run; k++) out[at + k] = scale * (float)q[k];
            i += run;
        }
        at += count;
    }
    return TRI_OK;
}

tri_status tri__quantize_rows(const char *name, const float *w, int64_t rows, int64_t cols, tri_dtype through,
                              int8_t *q, float *scale) {
    for (int64_t o = 0; o < rows; o++) {
        const float *row = w + o * cols; /* [cols] */
        float largest = 0;
        for (int64_t i = 0; i < cols; i++) {
            float a = fabsf(tri__rounded(through, row[i]));
            if (a > largest || a != a) largest = a;
        }
        scale[o] = tri__quantized_scale(largest, TRI_INT8_MAX);
        if (!isfinite(TRI_INT8_MAX * scale[o]))
            return tri__fail(TRI_DATA,
                             "tensor '%s': row %lld has a number that is not finite, or too large to be quantised",
                             name, (long long)o);
        for (int64_t i = 0; i < cols; i++) q[o * cols + i] = tri__to_int8(tri__rounded(through, row[i]), scale[o]);
    }
    return TRI_OK;
}
