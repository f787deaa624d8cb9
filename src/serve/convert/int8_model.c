/* int8_model.c - makes an int8 model of a checkpoint and measures what that costs. Every candidate is written as a
 * folder and scored like any other model, so the figures are those of the folder that users get.
 *
 * If the drop is too large, each layer is quantised alone, which shows its harm even where several layers are bad;
 * then layers return to 16 bits, the most harmful first, until the drop is allowed. */
#include "serve/convert/quantized_folder.h"
#include "serve/serve.h"

#include "device/device.h"
#include "data/dataset/data_files.h"

/* The figures of one evaluation, by what the model answers with. */
enum { CLASSES, NUMBERS, LABELS, QUALITY = 0, SECOND, LOSS, FIGURES };
static const char *const keys[][FIGURES] = {
    {"accuracy", "pr_auc", "log_loss"}, {"r2", "rmse", "loss"}, {"f1_micro", "lrap", "loss"}};
static const char *const names[][FIGURES] = {
    {"accuracy", "PR AUC", "log loss"}, {"R2", "RMSE", "loss"}, {"micro F1", "LRAP", "loss"}};
typedef struct figures {
    double of[FIGURES]; /* a PR AUC that is undefined: NaN */
    int64_t rows;
    int kind;
} figures;

/* Weights that are quantised or not together: an operand of one product, or the tables of one sum. */
typedef struct layer {
    char name[256];
    double drop, loss; /* when it alone is quantised */
    int is_float;
} layer;

typedef struct search {
    const tri_settings *asked;
    const tri_log *log;
    const tri_stop *stop;
    tri_original original;
    tri_quantizer quantizer;
    int trained;              /* 1: for int8 products (--quantize int8) */
    char data[TRI_PATH_MAX];  /* the validation table */
    tri_workshop workshop;    /* lock < 0: not open */
    char trial[TRI_PATH_MAX]; /* a folder for candidates, in it */
    int part;                 /* the part of the table; TRI_PART_ASKED_ALL: the whole */
    layer *layers, *order;    /* [n_layers]; order: by their harm */
    int *layer_of;            /* [n_weights]; -1: not quantised */
    tri_dtype *store;         /* [n_weights] */
    int n_layers, evaluations;
    double max_drop;
    figures before, after;
} search;

/* The layer's name: query, key and value are one product, the tables of an encoder one sum. */
static void name_layer(const char *weight, char out[static 256]) {
    static const char *const joined[] = {".query.weight", ".key.weight", ".value.weight", ".weight"};
    const char *tables = strstr(weight, ".embeddings.");
    size_t length = strlen(weight);
    if (tables) length = (size_t)(tables - weight) + strlen(".embeddings");
    for (int i = 0; i < 4 && !tables; i++) {
        size_t n = strlen(joined[i]);
        if (length <= n || strcmp(weight + length - n, joined[i]) != 0) continue;
        length -= n;
        break;
    }
    snprintf(out, 256, "%.*s", (int)length, weight);
}

static int find_layer(search *s, const char *name) {
    for (int i = 0; i < s->n_layers; i++)
        if (strcmp(s->layers[i].name, name) == 0) return i;
    snprintf(s->layers[s->n_layers].name, sizeof s->layers->name, "%s", name);
    return s->n_layers++;
}

/* Whether the run trained a layer in floats: one of its weights in float_layers is enough (pass_quantize.c). */
static int was_float(const search *s, const char *layer) {
    for (int i = 0; i < s->original.n_weights; i++) {
        const tri_piece *weight = &s->original.weights[i];
        char name[256];
        if (!tri__weight_quantizes(weight->name, &weight->shape)) continue;
        name_layer(weight->name, name);
        if (strcmp(name, layer) == 0 && tri__texts_has(&s->original.settings.float_layers, weight->name)) return 1;
    }
    return 0;
}

static tri_status list_layers(search *s) {
    int n = s->original.n_weights;
    tri_arena *arena = &s->original.arena;
    TRI_TRY(tri__arena_room(arena, (size_t)n * (2 * sizeof *s->layers + sizeof *s->layer_of + sizeof *s->store) + 64));
    s->layers = tri__arena_alloc(arena, (size_t)n * sizeof *s->layers);
    s->order = tri__arena_alloc(arena, (size_t)n * sizeof *s->order);
    s->layer_of = tri__arena_alloc(arena, (size_t)n * sizeof *s->layer_of);
    s->store = tri__arena_alloc(arena, (size_t)n * sizeof *s->store);
    for (int i = 0; i < n; i++) {
        const tri_piece *weight = &s->original.weights[i];
        char name[256];
        s->layer_of[i] = -1;
        if (!tri__weight_quantizes(weight->name, &weight->shape)) continue;
        name_layer(weight->name, name);
        if (!was_float(s, name)) s->layer_of[i] = find_layer(s, name);
    }
    return s->n_layers ? TRI_OK
                       : tri__fail(TRI_USAGE, "%s has no layer left to quantise: its float_layers names all of them",
                                   s->asked->checkpoint);
}

/* Writes the candidate that the layers' is_float describe. A layer that the run trained in floats stays in its
 * computing type, so that the forward pass is the one that training saw. */
static tri_status write_candidate(search *s, const tri_json *facts, const char *folder, int64_t *bytes) {
    for (int i = 0; i < s->original.n_weights; i++) {
        const tri_stored_weight *w = &s->quantizer.weight[i];
        int l = s->layer_of[i];
        s->store[i] = TRI_F32;
        if (l >= 0) s->store[i] = s->layers[l].is_float ? w->half_type : TRI_I8;
        else if (w->q && s->quantizer.computing != TRI_F32) s->store[i] = w->half_type;
    }
    return tri__quantizer_write(&s->quantizer, s->store, facts, folder, bytes);
}

/* Scores a folder as `trident eval` does by default. */
static tri_status evaluate(search *s, const char *checkpoint, const tri_log *log, figures *out) {
    tri_settings one = *s->asked; /* borrows its texts */
    TRI_OWNED(tri__evaluation_free) tri_evaluation made = {0};
    one.checkpoint = (char *)checkpoint, one.data_path = s->data, one.part = s->part;
    tri__settings_forget(&one, &one.precision);
    s->evaluations++;
    tri_status status = tri__serve_eval(&one, &(tri_eval_options){0}, NULL, log, &made);
    const tri_scores *of = &made.scores;
    const tri_number_figures *n = &of->numbers;
    *out = !of->is_number    ? (figures){{of->accuracy, of->pr_auc, of->log_loss}, of->rows, CLASSES}
           : of->n_classes ? (figures){{n->f1_micro, n->lrap, of->loss}, of->rows, LABELS}
                           : (figures){{n->r2, n->rmse, of->loss}, of->rows, NUMBERS};
    char name[32];
    if (status != TRI_OK || !tri__stop_signalled(s->stop)) return status;
    return tri__fail(TRI_STOPPED, "stopped (%s); nothing was written", tri__stop_name(s->stop, name));
}

static tri_status measure(search *s, figures *out) {
    TRI_TRY(write_candidate(s, NULL, s->trial, NULL));
    tri_status status = evaluate(s, s->trial, NULL, out);
    if (status == TRI_OK) return tri__folder_remove_all(s->trial);
    tri__checkpoint_drop(s->trial);
    return status;
}

/* The larger drop of the first two, an undefined area counting as unchanged; of numbers that of R2. */
static double drop_of(const figures *before, const figures *after) {
    double quality = before->of[QUALITY] - after->of[QUALITY], area = before->of[SECOND] - after->of[SECOND];
    return before->kind != NUMBERS && isfinite(area) && area > quality ? area : quality;
}

static int is_allowed(const search *s) { return drop_of(&s->before, &s->after) <= s->max_drop; }

static const char *words_of(const figures *f, char out[static 128]) {
    out[0] = 0;
    for (int i = 0; i < FIGURES; i++)
        if (isfinite(f->of[i])) tri__text_append(out, 128, ", ", "%s %.4f", names[f->kind][i], f->of[i]);
    return out;
}

/* The most harmful first. Equal drops, as of few rows, are told apart by the loss; the rest by name. */
static int by_harm(const void *a, const void *b) {
    const layer *x = a, *y = b;
    if (x->drop != y->drop) return x->drop < y->drop ? 1 : -1;
    if (x->loss != y->loss) return x->loss < y->loss ? 1 : -1;
    return strcmp(x->name, y->name);
}

static tri_status find_harm(search *s) {
    tri__say(s->log, TRI_LOG_INFO, "the drop, %.4f, is more than %.4f: measuring %d layers, each quantised alone",
             drop_of(&s->before, &s->after), s->max_drop, s->n_layers);
    for (int i = 0; i < s->n_layers; i++) s->layers[i].is_float = 1;
    for (int i = 0; i < s->n_layers; i++) {
        layer *l = &s->layers[i];
        figures alone;
        l->is_float = 0;
        TRI_TRY(measure(s, &alone));
        l->is_float = 1;
        l->drop = drop_of(&s->before, &alone), l->loss = alone.of[LOSS];
        tri__say(s->log, TRI_LOG_INFO, "%d of %d: %s alone: drop %.4f, %s %.6f", i + 1, s->n_layers, l->name, l->drop,
                 names[alone.kind][LOSS], l->loss);
    }
    return TRI_OK;
}

/* layer_of is by index, so layers are visited in an order and not moved. */
static tri_status return_layers(search *s) {
    layer *order = s->order;
    char words[128];
    memcpy(order, s->layers, (size_t)s->n_layers * sizeof *order);
    qsort(order, (size_t)s->n_layers, sizeof *order, by_harm);
    for (int i = 0; i < s->n_layers; i++) s->layers[i].is_float = 0;
    for (int k = 0; k < s->n_layers && !is_allowed(s); k++) {
        s->layers[find_layer(s, order[k].name)].is_float = 1;
        TRI_TRY(measure(s, &s->after));
        tri__say(s->log, TRI_LOG_INFO, "%s back in 16 bits: %s; drop %.4f", order[k].name, words_of(&s->after, words),
                 drop_of(&s->before, &s->after));
    }
    if (is_allowed(s)) return TRI_OK;
    char before[128];
    return tri__fail(TRI_USAGE, "%s loses more than --max-drop %g in 16 bits as well: %s before, %s with all %d layers "
                     "in 16 bits, on %lld rows of %s. Nothing was written; allow more, take more rows, or train with "
                     "--quantize int8", s->asked->checkpoint, s->max_drop, words_of(&s->before, before),
                     words_of(&s->after, words), s->n_layers, (long long)s->after.rows, s->data);
}

/* ---- What is asked ---- */

static tri_status choose_data(search *s) {
    const char *asked = s->asked->data_path, *recorded = s->original.settings.data_path;
    tri_data_files files;
    tri_status status = tri__data_files(asked ? asked : recorded, &files);
    const char *chosen = status == TRI_OK ? files.valid[0] ? files.valid : asked ? files.test : "" : "";
    const tri_settings *run = &s->original.settings;
    if (!asked && (run->split || run->folds)) { /* one table, of which the run took a part for validation */
        s->part = TRI_PART_ASKED_VALID;
        chosen = status == TRI_OK ? files.train : "";
    }
    if (status == TRI_OK && chosen[0]) return tri__path_join(s->data, "", chosen);
    if (asked && status != TRI_OK) return status;
    if (asked) return tri__fail(TRI_NOINPUT, "%s: has neither a validation nor a test table; name the file", asked);
    return tri__fail(TRI_NOINPUT, "quantize measures what rounding costs, and the run's validation table%s%s is not "
                     "there: name a table with labels by --data-path", recorded ? ", in " : "",
                     recorded ? recorded : "");
}

/* The run's own for a run of --quantize int8; else as asked; else the one that inference takes. */
static tri_status choose_computing(search *s, tri_dtype *out) {
    static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};
    const tri_settings *asked = s->asked, *run = &s->original.settings;
    int given = tri__settings_given(asked, &asked->precision) && asked->precision <= TRI_PRECISION_FP16;
    const tri_device *device;
    if (asked->precision == TRI_PRECISION_FP8)
        return tri__fail(TRI_USAGE, "--precision fp8: the folder holds int8; fp8 needs no such folder, give it to eval "
                                    "or predict");
    s->trained = run->quantize == TRI_QUANTIZE_INT8;
    if (s->trained && given && asked->precision != run->precision)
        return tri__fail(TRI_USAGE, "--precision: the run was trained for int8 products beside another computing type, "
                         "and other integers would follow from this one: leave it out");
    TRI_TRY(tri__device_get(asked->device, &device));
    *out = s->trained ? types[run->precision] : given ? types[asked->precision] : device->async ? TRI_BF16 : TRI_F32;
    return TRI_OK;
}

/* Fails early if the folder exists, rather than after the measurements. */
static tri_status check_output(search *s) {
    const char *folder = s->asked->output;
    char parent[TRI_PATH_MAX];
    TRI_OWNED(tri__names_free) tri_names names = {0};
    tri_kind kind;
    TRI_TRY(tri__path_kind(folder, &kind));
    if (kind == TRI_KIND_FOLDER) TRI_TRY(tri__folder_list(folder, &names));
    int taken = kind != TRI_KIND_NONE && (kind != TRI_KIND_FOLDER || names.n > 0);
    if (taken)
        return tri__fail(TRI_BUSY, "%s: exists and is not empty; name another folder, or remove it", folder);
    TRI_TRY(tri__path_parent(folder, parent));
    TRI_TRY(tri__folder_make(parent));
    TRI_TRY(tri__workshop_open(parent, &s->workshop));
    return tri__path_join(s->trial, s->workshop.folder, "trial");
}

static tri_status open_search(search *s) {
    tri_dtype computing = TRI_F32;
    TRI_TRY(check_output(s));
    TRI_TRY(tri__original_open(s->asked->checkpoint, 1 << 16, &s->original));
    if (tri__checkpoint_quantized(s->original.checkpoint))
        return tri__fail(TRI_USAGE, "%s is quantised already; take the run that it was made from",
                         tri__checkpoint_path(s->original.checkpoint));
    TRI_TRY(choose_data(s));
    TRI_TRY(choose_computing(s, &computing));
    TRI_TRY(list_layers(s));
    return tri__quantizer_open(&s->original, computing, &s->quantizer);
}

/* ---- Results ---- */

static tri_json *figures_json(const figures *f) {
    tri_json *made = tri__json_object();
    for (int i = 0; i < FIGURES; i++) tri__json_set_new(made, keys[f->kind][i], tri__json_real(f->of[i]));
    return made;
}

static tri_json *facts_of(const search *s) {
    tri_json *kept = tri__json_array();
    for (int i = 0; i < s->n_layers; i++)
        if (s->layers[i].is_float) tri__json_append_new(kept, tri__json_string(s->layers[i].name));
    return tri__json_pack("{s:s, s:s, s:s, s:b, s:i, s:o, s:s, s:I, s:o, s:o, s:f, s:f, s:i}", "checkpoint",
                          tri__checkpoint_path(s->original.checkpoint), "quantize", "int8", "precision",
                          tri__quantizer_precision(&s->quantizer), "trained_for_it", s->trained, "layers", s->n_layers,
                          "layers_in_16_bits", kept, "data", s->data, "rows", (tri_json_int)s->before.rows, "before",
                          figures_json(&s->before), "after", figures_json(&s->after), "drop",
                          drop_of(&s->before, &s->after), "max_drop", s->max_drop, "evaluations", s->evaluations);
}

static tri_status run(search *s, tri_json **facts) {
    char words[128];
    int64_t bytes = 0;
    TRI_TRY(open_search(s));
    TRI_TRY(evaluate(s, s->asked->checkpoint, s->log, &s->before));
    tri__say(s->log, TRI_LOG_INFO, "before: %s (%lld rows of %s)", words_of(&s->before, words),
             (long long)s->before.rows, s->data);
    TRI_TRY(measure(s, &s->after));
    tri__say(s->log, TRI_LOG_INFO, "all %d layers in int8: %s; drop %.4f", s->n_layers, words_of(&s->after, words),
             drop_of(&s->before, &s->after));
    if (!is_allowed(s)) TRI_TRY(find_harm(s));
    if (!is_allowed(s)) TRI_TRY(return_layers(s));
    *facts = facts_of(s);
    if (!tri__json_is_whole(*facts)) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(write_candidate(s, *facts, s->asked->output, &bytes));
    tri__json_set_new(*facts, "output_dir", tri__json_string(s->asked->output));
    tri__json_set_new(*facts, "bytes", tri__json_integer(bytes));
    tri__json_set_new(*facts, "fp32_bytes", tri__json_integer(4 * s->original.elements));
    return tri__json_is_whole(*facts) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__serve_quantize(const tri_settings *asked, double max_drop, const tri_log *log, const tri_stop *stop,
                               tri_json **facts) {
    *facts = NULL;
    if (!asked->checkpoint || !asked->output)
        return tri__fail(TRI_USAGE, "quantize needs a run or checkpoint, and -o, the folder to be made");
    TRI_OWNED(tri__free_at) search *s = calloc(1, sizeof *s); /* large */
    if (!s) return tri__fail(TRI_RESOURCE, "out of memory");
    *s = (search){.asked = asked, .log = log, .stop = stop, .workshop.lock = -1, .max_drop = max_drop};
    tri_status status = run(s, facts);
    TRI_KEEP_WORDS();
    if (s->workshop.lock >= 0) tri__workshop_close(&s->workshop);
    tri__quantizer_close(&s->quantizer);
    tri__original_close(&s->original);
    return status;
}
