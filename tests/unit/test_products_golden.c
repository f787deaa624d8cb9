/* test_products_golden.c - int8 weights, activations and products against numpy, bit by bit, on the reference device
 * and the CPU. tools/golden_quantized.py writes the file; one given as argument replaces it (make parity: the weights
 * of a quantised model). */
#include "checkpoint/quantized_weights.h"
#include "checkpoint/safetensors.h"
#include "device/device.h"

#include "tests/lib/test.h"

static const char *path = "tests/golden/products.safetensors";

typedef struct tensor {
    void *data;
    int64_t rows, cols;
    tri_dtype dtype;
} tensor;

static size_t bytes_of(const tensor *t) { return (size_t)(t->rows * t->cols) * tri__dtype_bytes(t->dtype); }

static tensor load(const tri_st_file *file, int number, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "%d.%s", number, name);
    const tri_st_entry *entry = tri__st_find(file, key);
    if (!entry) fail_msg("%s has no %s", file->path, key);
    tensor t = {.rows = entry->shape.dim[0], .cols = entry->shape.n > 1 ? entry->shape.dim[1] : 1,
                .dtype = entry->dtype};
    t.data = malloc(bytes_of(&t) + 64);
    assert_non_null(t.data);
    assert_int_equal(tri__st_read(file, entry, 0, t.rows * t.cols, t.data), TRI_OK);
    return t;
}

static tensor empty_like(const tensor *other) {
    tensor t = *other;
    t.data = malloc(bytes_of(&t) + 64);
    assert_non_null(t.data);
    memset(t.data, 0x55, bytes_of(&t));
    return t;
}

/* args: of the operands that the int8 variant has, in order. */
static void run(const tri_kernel_table *table, tri_op op, const tensor *const *args, int n) {
    static const tri_attr attr = {.factors = TRI_FACTORS_INT8};
    const tri_op_row *row = tri__op_row(op, &attr);
    tri_call call = {.op = op, .table = table, .attr = &attr, .threads = 2};
    for (int i = 0, k = 0; i < n; i++, k++) {
        while (!row->arg[k].access) k++;
        if (!args[i]) continue;
        call.t[k] = (tri_tensor){args[i]->data, args[i]->rows, args[i]->cols};
        call.dtype[k] = (uint8_t)args[i]->dtype;
    }
    int v = tri__variant(op, &attr);
    int64_t work = tri__workspace_bytes(&table->work[v][TRI_F32], call.t[0].rows, call.t[0].cols, call.t[1].cols);
    call.work = aligned_alloc(64, (size_t)(work + 127) / 64 * 64);
    assert_non_null(call.work);
    table->run[v][TRI_F32](&call);
    free(call.work);
}

static void expect_same(const tensor *got, const tensor *want, int number, const char *what, const char *device) {
    const unsigned char *a = got->data, *b = want->data;
    size_t each = tri__dtype_bytes(want->dtype);
    for (size_t i = 0; i < bytes_of(want); i++)
        if (a[i] != b[i])
            fail_msg("%s, case %d on %s: element %zu of %s is not numpy's", path, number, device, i / each, what);
    free(got->data);
}

static void compare(const tri_st_file *file, int number, const char *device, const tri_kernel_table *table) {
    static const char *const names[] = {"x", "weight", "b", "w", "ws", "q", "s", "y"};
    enum { X, WEIGHT, B, W, WS, Q, S, Y, N };
    tensor t[N];
    for (int i = 0; i < N; i++) t[i] = load(file, number, names[i]);
    tensor q = empty_like(&t[Q]), s = empty_like(&t[S]), w = empty_like(&t[W]), ws = empty_like(&t[WS]),
           y = empty_like(&t[Y]), bias = t[B];
    bias.cols = bias.rows, bias.rows = 1;
    run(table, TRI_OP_quantize, (const tensor *const[]){&q, &s, &t[X], NULL}, 4);
    run(table, TRI_OP_linear, (const tensor *const[]){&y, &t[Q], &t[S], &t[W], &t[WS], &bias}, 6);
    expect_same(&q, &t[Q], number, "q", device);
    expect_same(&s, &t[S], number, "s", device);
    expect_same(&y, &t[Y], number, "y", device);
    run(table, TRI_OP_quantize, (const tensor *const[]){&w, &ws, &t[WEIGHT], NULL}, 4);
    expect_same(&w, &t[W], number, "w", device);
    expect_same(&ws, &t[WS], number, "ws", device);
    /* What files hold is what the kernels compute. */
    w = empty_like(&t[W]), ws = empty_like(&t[WS]);
    assert_int_equal(
        tri__quantize_rows("w", t[WEIGHT].data, t[W].rows, t[W].cols, TRI_F32, w.data, ws.data), TRI_OK);
    expect_same(&w, &t[W], number, "w", "files");
    expect_same(&ws, &t[WS], number, "ws", "files");
    for (int i = 0; i < N; i++) free(t[i].data);
}

TEST(products) {
    static const char *const devices[] = {"reference", "cpu"};
    tri_st_file file;
    int n = 0;
    if (tri__st_open(path, &file) != TRI_OK) fail_msg("%s", tri_error());
    for (char key[32] = "0.x"; tri__st_find(&file, key); snprintf(key, sizeof key, "%d.x", ++n))
        for (int d = 0; d < 2; d++) {
            tri_kernel_table *table = calloc(1, sizeof *table);
            assert_non_null(table);
            tri__device_find(devices[d])->kernels(table);
            compare(&file, n, devices[d], table);
            free(table);
        }
    assert_true(n > 0);
    print_message("  %s: the integers and results of %d products are numpy's, bit by bit\n", path, n);
    tri__st_close(&file);
}

int main(int argc, char **argv) {
    if (argc > 1) path = argv[1];
    return run_listed(argc, argv, NULL, NULL);
}
