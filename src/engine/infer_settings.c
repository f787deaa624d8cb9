/* infer_settings.c - the settings of inference: those that a model was trained with, and what is asked for now. */
#include "engine/infer_settings.h"

#include "device/device.h"

/* An option's row says what a change of it means: what does not make it another run does not belong to the model. Of
 * those that do, reading of bad rows is this call's; and a separator is the model's until another is given. */
static int takes(const tri_option *row, const tri_settings *asked) {
    if (!tri__option_listed(row, "config")) return 0;
    if (strcmp(row->name, "separator") == 0) return tri__settings_given(asked, &asked->separator);
    return row->effect != TRI_EFFECT_RUN || strcmp(row->name, "bad_rows") == 0;
}

static tri_status take(const tri_option *row, const tri_settings *asked, tri_settings *model) {
    TRI_OWNED(tri__json_drop) tri_json *value = tri__option_json(row, asked);
    if (!tri__json_is_whole(value)) return tri__fail(TRI_RESOURCE, "out of memory");
    return tri__option_set_json(row, model, row->name, value);
}

/* The computing type beside quantised products, where it was not given. */
static tri_status choose_computing(tri_settings *model) {
    const tri_device *device;
    if (model->quantize != TRI_QUANTIZE_NONE) return TRI_OK; /* the one that training, or storing, rounded for */
    TRI_TRY(tri__device_get(model->device, &device));
    model->precision = device->async ? TRI_PRECISION_BF16 : TRI_PRECISION_FP32;
    return TRI_OK;
}

static tri_status take_precision(tri_settings *model, const tri_settings *asked) {
    static const int products[] = {[TRI_PRECISION_INT8] = TRI_QUANTIZE_INT8, [TRI_PRECISION_FP8] = TRI_QUANTIZE_FP8};
    int has_precision = tri__settings_given(asked, &asked->precision);
    int has_quantize = tri__settings_given(asked, &asked->quantize), quantize = asked->quantize;
    if (has_precision && asked->precision <= TRI_PRECISION_FP16) {
        model->precision = asked->precision, model->quantize = quantize;
        return TRI_OK;
    }
    if (!has_precision && !has_quantize) {
        if (model->quantize == TRI_QUANTIZE_NONE) model->precision = TRI_PRECISION_FP32;
        return TRI_OK;
    }
    if (has_precision && has_quantize && quantize != products[asked->precision])
        return tri__fail(TRI_USAGE, "--precision and --quantize name different types of products: give one of them, or "
                         "--precision fp32, bf16 or fp16 for everything else");
    if (has_precision) quantize = products[asked->precision];
    if (quantize == TRI_QUANTIZE_NONE) model->precision = TRI_PRECISION_FP32;
    else TRI_TRY(choose_computing(model));
    model->quantize = quantize;
    return TRI_OK;
}

tri_status tri__settings_check(const tri_settings *model, const tri_checkpoint *checkpoint) {
    const char *path = tri__checkpoint_path(checkpoint);
    if (tri__model_config_check(&model->model) != TRI_OK) {
        tri_words why;
        tri__words_keep(&why);
        return tri__fail(TRI_DATA, "%s/config.json: %s", path, why.text);
    }
    if (model->precision == TRI_PRECISION_INT8 ||
        (model->precision == TRI_PRECISION_FP8 && model->quantize != TRI_QUANTIZE_NONE))
        return tri__fail(TRI_DATA, "%s/config.json: precision names a type of products, not one to compute in", path);
    for (int i = 0; i < model->float_layers.n; i++)
        if (!tri__checkpoint_has(checkpoint, model->float_layers.at[i]))
            return tri__fail(TRI_DATA, "%s/config.json: float_layers names \"%s\", and there is no such weight", path,
                             model->float_layers.at[i]);
    return TRI_OK;
}

tri_status tri__settings_infer(tri_settings *model, const tri_settings *asked) {
    for (const tri_option *row = tri__run_options; row->name; row++)
        if (takes(row, asked)) TRI_TRY(take(row, asked, model));
    model->nodes = asked->nodes, model->guard = asked->guard;
    model->stub = asked->stub, model->shows_attention = asked->shows_attention;
    model->reduce_dtype = TRI_PRECISION_FP32;
    return take_precision(model, asked);
}
