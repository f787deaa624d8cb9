/* quantized_folder.c - writes a model folder with int8 weights: what an export has, without folders for other tools.
 *
 *   out/model.safetensors   NAME as I8 and NAME.scale, or NAME in 16 bits; biases, norms, table and fusion in fp32
 *   out/config.json         the run's, with `quantize`, `float_layers`, and the computing type as `precision`
 *   out/preprocessing.json, primary/, secondary/ (vocabularies), manifest.json */
#include "serve/convert/quantized_folder.h"

#include "checkpoint/quantized_weights.h"
#include "numbers/quantized.h"

/* The computing type, if it has 16 bits. Else fp16, which rounds 8 times as finely as bf16, unless a number is beyond
 * its range. */
static tri_dtype half_type(const float *w, int64_t n, tri_dtype computing) {
    if (computing != TRI_F32) return computing;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(tri__rounded(TRI_F16, w[i]))) return TRI_BF16;
    return TRI_F16;
}

static tri_status make_stored(const tri_piece *piece, tri_dtype computing, tri_stored_weight *out) {
    const float *w = piece->data;
    int64_t rows = piece->shape.dim[0], cols = piece->shape.dim[1], n = rows * cols;
    out->q = malloc((size_t)n + 1);
    out->scale = malloc((size_t)(rows + 1) * sizeof *out->scale);
    out->half = malloc((size_t)(n + 1) * sizeof *out->half);
    if (!out->q || !out->scale || !out->half || asprintf(&out->scale_name, "%s" TRI_SCALE_SUFFIX, piece->name) < 0)
        return tri__fail(TRI_RESOURCE, "no memory to quantise tensor '%s'", piece->name);
    TRI_TRY(tri__quantize_rows(piece->name, w, rows, cols, computing, out->q, out->scale));
    out->half_type = half_type(w, n, computing);
    for (int64_t i = 0; i < n; i++)
        out->half[i] = out->half_type == TRI_F16 ? tri__to_f16(w[i]) : tri__to_bf16(w[i]);
    return TRI_OK;
}

tri_status tri__quantizer_open(const tri_original *original, tri_dtype computing, tri_quantizer *out) {
    *out = (tri_quantizer){.original = original, .computing = computing};
    TRI_TRY(TRI_NEW(out->weight, (size_t)original->n_weights + 1, "weights"));
    for (int i = 0; i < original->n_weights; i++)
        if (tri__weight_quantizes(original->weights[i].name, &original->weights[i].shape))
            TRI_TRY(make_stored(&original->weights[i], computing, &out->weight[i]));
    return TRI_OK;
}

void tri__quantizer_close(tri_quantizer *z) {
    for (int i = 0; z->weight && i < z->original->n_weights; i++) {
        TRI_FREE(z->weight[i].q, z->weight[i].scale, z->weight[i].half, z->weight[i].scale_name);
    }
    free(z->weight);
    *z = (tri_quantizer){0};
}

/* The tensors of the file: [2 * n_weights] is room enough. Returns how many. */
static int list_pieces(const tri_quantizer *z, const tri_dtype *store, tri_piece *into) {
    int n = 0;
    for (int i = 0; i < z->original->n_weights; i++) {
        const tri_stored_weight *w = &z->weight[i];
        tri_piece *piece = &into[n++];
        *piece = z->original->weights[i];
        piece->dtype = store[i];
        if (store[i] == TRI_F32) continue;
        piece->data = store[i] == TRI_I8 ? (void *)w->q : (void *)w->half;
        if (store[i] != TRI_I8) continue;
        tri_shape rows = tri__shape_1d(piece->shape.dim[0]);
        into[n++] = (tri_piece){.name = w->scale_name, .dtype = TRI_F32, .shape = rows,
                                .slice = tri__slice_whole(&rows), .data = w->scale};
    }
    return n;
}

const char *tri__quantizer_precision(const tri_quantizer *z) {
    static const char *const words[] = {[TRI_F32] = "fp32", [TRI_BF16] = "bf16", [TRI_F16] = "fp16"};
    return words[z->computing];
}

/* The run's configuration with the choices of this folder. */
static tri_json *make_config(const tri_quantizer *z, const tri_dtype *store) {
    tri_json *config = tri__json_deep_copy(tri__checkpoint_config(z->original->checkpoint)), *names = tri__json_array();
    for (int i = 0; i < z->original->n_weights; i++)
        if (z->weight[i].q && store[i] != TRI_I8)
            tri__json_append_new(names, tri__json_string(z->original->weights[i].name));
    tri__json_set_new(config, "float_layers", names);
    tri__json_set_new(config, "quantize", tri__json_string("int8"));
    tri__json_set_new(config, "precision", tri__json_string(tri__quantizer_precision(z)));
    return config;
}

static tri_json *make_state(const tri_quantizer *z, const tri_json *facts) {
    tri_json *quantized = facts ? tri__json_deep_copy(facts) : tri__json_object(), *state = tri__json_object();
    tri__json_set_new(quantized, "version", tri__json_integer(TRI_QUANTIZED_VERSION));
    tri__json_set_new(state, "quantized", quantized);
    tri__original_state(z->original, state);
    return state;
}

static tri_status save_assets(void *context, const char *folder) {
    const tri_original *original = context;
    TRI_TRY(tri__original_stack(original, folder));
    return tri__assets_save((void *)&original->assets, folder);
}

tri_status tri__quantizer_write(const tri_quantizer *z, const tri_dtype *store, const tri_json *facts,
                                const char *folder, int64_t *bytes) {
    const tri_original *original = z->original;
    TRI_OWNED(tri__free_at) tri_piece *pieces = calloc(2 * (size_t)original->n_weights + 1, sizeof *pieces);
    TRI_OWNED(tri__json_drop) tri_json *config = make_config(z, store), *state = make_state(z, facts);
    tri_checkpoint_out out = {.folder = folder, .step = tri__checkpoint_step(original->checkpoint), .weights = pieces,
                              .config = config, .preprocessing = tri__checkpoint_preprocessing(original->checkpoint),
                              .state = state, .extras = save_assets, .context = (void *)original};
    int whole = pieces && tri__json_is_whole(config) && tri__json_is_whole(state);
    if (!whole) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    out.n_weights = list_pieces(z, store, pieces);
    TRI_TRY(tri__checkpoint_export(&out));
    for (int i = 0; bytes && i < out.n_weights; i++)
        *bytes = (i ? *bytes : 0) + tri__shape_count(&pieces[i].shape) * (int64_t)tri__dtype_bytes(pieces[i].dtype);
    return TRI_OK;
}
