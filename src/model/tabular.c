/* tabular.c - the tabular branch: norm, linear, ReLU. With one column the norm would erase it and is omitted. Where
 * columns become vectors (columns.c), these, side by side, are in the norm's place; where the fusion attends to them,
 * they are all. */
#include "model/model.h"

enum { MIN_COLUMNS_TO_NORM = 2 };
static const double EPS = 1e-5;

void tri__tabular_params(tri_network *model) {
    int64_t F = model->n_columns, C = model->tokens ? 0 : model->common;
    int is_normed = F >= MIN_COLUMNS_TO_NORM && !model->columns.word;
    tri__model_unit(model, "tabular");
    if (model->columns.word) F = tri__columns_params(model);
    const tri_param_row rows[] = {
        TRI_WEIGHT("linear.weight", C, F, 1.0f / sqrtf((float)F), WHOLE), TRI_BIAS("linear.bias", C, WHOLE),
        TRI_GAIN("norm.weight", is_normed ? F : 0, WHOLE), TRI_BIAS("norm.bias", is_normed ? F : 0, WHOLE)};
    tri__model_params(model, "tabular.", rows, 4);
}

int tri__tabular_forward(tri_forward *f) {
    const tri_rows samples = {.sym = TRI_SYM_N};
    int64_t F = f->model->n_columns, C = f->model->common;
    tri__build_unit(&f->build, "tabular");
    int x = tri__forward_input(f, TRI_FIELD_numbers);
    if (f->model->columns.word) x = tri__columns_forward(f, x), F *= f->model->columns.dim;
    else if (F >= MIN_COLUMNS_TO_NORM) x = tri__forward_norm(f, x, samples, F, EPS, "norm", "tabular.norm");
    if (f->model->tokens) return x;
    int h = tri__forward_linear(f, x, samples, C, F, "linear", "tabular.linear");
    return tri__forward_activation(f, h, samples, C, TRI_ACTIVATION_RELU);
}
