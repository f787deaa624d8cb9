/* test_cuda_model.c - predictions on a GPU in every precision: close to the CPU's in the same one; the same bits for
 * every number of rows at a time, from `predict` and from a model as a value. Skipped, with the reason, without a GPU.
 */
#include "tests/lib/test.h"
#include "tests/lib/model_rows.h"

static void predict_on(const char *device, const char *const *how, const char *batch, float *probs) {
    predict(4, OPTIONS(device, how[0], how[1], batch), probs);
}

/* Limits are of probabilities. */
static const struct {
    const char *how[2], *name;
    double limit;
} precisions[] = {
    {{"--precision=fp32", "--quantize=none"}, "fp32", 1e-5},
    {{"--precision=bf16", "--quantize=none"}, "bf16", 2e-2},
    {{"--precision=fp16", "--quantize=none"}, "fp16", 3e-3},
    {{"--precision=fp32", "--quantize=int8"}, "fp32 and int8", 1e-2},
    {{"--precision=bf16", "--quantize=int8"}, "bf16 and int8", 2e-2},
    {{"--precision=bf16", "--quantize=fp8"}, "bf16 and fp8", 2e-2},
};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

TEST(the_cpus_probabilities) {
    float first[ROWS * CLASSES], have[ROWS * CLASSES];
    for (int k = 0; k < PRECISIONS; k++) {
        double worst = 0;
        predict_on("--device=cpu", precisions[k].how, "--batch-size=64", first);
        predict_on("--device=cuda", precisions[k].how, "--batch-size=64", have);
        for (int i = 0; i < ROWS * CLASSES; i++) { /* not fmax: gcc 12 cannot vectorise it on arm64, and fails */
            double off = fabs((double)have[i] - (double)first[i]);
            if (off > worst || off != off) worst = off;
        }
        print_message("    %s: probabilities differ by at most %.2g\n", precisions[k].name, worst);
        if (!(worst <= precisions[k].limit)) fail_msg("%s: at most %g", precisions[k].name, precisions[k].limit);
    }
}

TEST(rows_do_not_depend_on_others) {
    static const char *const batches[] = {"--batch-size=1", "--batch-size=7", "--batch-size=120"};
    float first[ROWS * CLASSES], have[ROWS * CLASSES];
    for (int k = 0; k < PRECISIONS; k++) {
        tri_model *model;
        predict_on("--device=cuda", precisions[k].how, "--batch-size=64", first);
        for (int i = 0; i < 3; i++) {
            predict_on("--device=cuda", precisions[k].how, batches[i], have);
            if (memcmp(have, first, sizeof have)) fail_msg("%s, %s: other bits", precisions[k].name, batches[i]);
        }
        OK(tri_model_open(4, OPTIONS(checkpoint, "--device=cuda", precisions[k].how[0], precisions[k].how[1]), &model));
        for (int n = 1; n <= ROWS; n = n * 7 + 3) /* 1, 10, 73 */
            for (int r = 0; r < ROWS; r += n) {
                int rest = ROWS - r < n ? ROWS - r : n;
                OK(tri_model_predict(model, rows + r, rest, have));
                if (memcmp(have, first + r * CLASSES, (size_t)(rest * CLASSES) * sizeof *have))
                    fail_msg("%s: row %d on, %d at a time: other bits", precisions[k].name, r, n);
            }
        tri_model_close(model);
    }
}

int main(int argc, char **argv) {
    const tri_device *device;
    int64_t bytes;
    if (tri__device_get("cuda", &device) != TRI_OK || device->room(&tri__core, 0, &bytes) != TRI_OK) {
        puts(tri_error());
        return 77;
    }
    return run_listed(argc, argv, train, clean);
}
