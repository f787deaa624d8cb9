/* export.c - a checkpoint in formats that other tools open: the whole model in one file, each encoder as a Hugging Face
 * folder, and a model card. The result is also a checkpoint, which evaluation, prediction and further training accept.
 *
 *   out/model.safetensors, config.json, preprocessing.json, manifest.json, README.md
 *   out/primary/, out/secondary/: model.safetensors, config.json, the tokenizer's files, for AutoModel.from_pretrained
 *   (primary/ alone where texts share an encoder) */
#include "checkpoint/joined.h"
#include "checkpoint/safetensors.h"
#include "model/family.h"
#include "serve/serve.h"
#include "serve/convert/source_checkpoint.h"

enum { CARD_ROOM = 64 << 20 }; /* bytes reserved for the card's text: a table may have many columns */

/* Parts of a branch that transformers' class does not have. */
static int is_own(const tri_encoder *encoder, const char *name) {
    return tri__text_begins(name, "projection.") ||
           (tri__text_begins(name, "pooler.") && !tri__family(encoder)->has_pooler);
}

/* Tensors of one file, some of them joined of parts. */
typedef struct tensors {
    tri_piece *piece;
    void **made;      /* memory of those that are joined; NULL: not one of them */
    int n;
} tensors;

/* Puts one of `parts` parts into its tensor, which is added with the first of them. */
static tri_status add_part(tri_original *e, const tri_piece *from, const char *whole, int parts, int part,
                           tensors *out) {
    size_t bytes = (size_t)tri__shape_count(&from->shape) * sizeof(float);
    int at = 0;
    while (at < out->n && strcmp(out->piece[at].name, whole) != 0) at++;
    tri_piece *piece = &out->piece[at];
    if (at == out->n) {
        *piece = *from;
        piece->name = tri__arena_print(&e->arena, "%s", whole);
        piece->shape.dim[0] *= parts;
        piece->slice = tri__slice_whole(&piece->shape);
        piece->data = out->made[out->n++] = malloc(bytes * (size_t)parts + 1);
        if (!piece->data) return tri__fail(TRI_RESOURCE, "no memory for tensor '%s'", whole);
    }
    memcpy((char *)piece->data + (size_t)part * bytes, from->data, bytes);
    return TRI_OK;
}

/* The encoder's tensors of a branch under Hugging Face's names: the logical names without the branch prefix. */
static tri_status list_tensors(tri_original *e, int branch, tensors *out) {
    char prefix[32], whole[TRI_PATH_MAX];
    snprintf(prefix, sizeof prefix, "%s.", tri__branch_name(branch));
    out->piece = tri__arena_alloc(&e->arena, (size_t)e->n_weights * sizeof *out->piece);
    out->made = tri__arena_alloc(&e->arena, (size_t)e->n_weights * sizeof *out->made);
    memset(out->made, 0, (size_t)e->n_weights * sizeof *out->made);
    for (int i = 0; i < e->n_weights; i++) {
        const char *name = e->weights[i].name;
        int part;
        if (!tri__text_begins(name, prefix) || is_own(&e->assets.encoder[branch], name + strlen(prefix))) continue;
        int parts = tri__joined_parts(name + strlen(prefix), &part, whole);
        if (parts) {
            TRI_TRY(add_part(e, &e->weights[i], whole, parts, part, out));
            continue;
        }
        out->piece[out->n] = e->weights[i];
        out->piece[out->n++].name = name + strlen(prefix);
    }
    return TRI_OK;
}

static tri_status write_encoder(tri_original *e, int branch, const char *folder) {
    char path[TRI_PATH_MAX];
    tensors all = {0};
    TRI_OWNED(tri__json_drop) tri_json *metadata = tri__json_pack("{s:s}", "format", "pt"),
                                       *config = tri__encoder_json(&e->assets.encoder[branch]);
    tri_status status = metadata && config ? list_tensors(e, branch, &all) : tri__fail(TRI_RESOURCE, "out of memory");
    if (status == TRI_OK) status = tri__path_join(path, folder, "model.safetensors");
    if (status == TRI_OK) status = tri__st_write(path, all.piece, all.n, metadata, NULL);
    for (int i = 0; i < all.n; i++) free(all.made[i]);
    if (status == TRI_OK && tri__json_set_new(config, "dtype", tri__json_string("float32")))
        status = tri__fail(TRI_RESOURCE, "out of memory");
    if (status == TRI_OK) status = tri__path_join(path, folder, "config.json");
    if (status == TRI_OK) status = tri__json_save(path, config);
    return status;
}

/* The inputs of the model, as rows of a table. */
static const char *card_inputs(tri_original *e) {
    const tri_model_config *m = &e->settings.model;
    const char *text = "";
    for (int t = 0; t < e->assets.n_texts; t++) {
        int encoder = tri__reader(&e->assets.readers, t);
        const char *columns = t == 0 ? m->primary_text_name : t == 1 ? m->secondary_text_name : m->text_list.at[t];
        for (int i = 0; i < m->secondary_text_list.n && t == 1; i++)
            columns = tri__arena_print(&e->arena, "%s + %s", columns, m->secondary_text_list.at[i]);
        text = tri__arena_print(&e->arena, "%s| text | %s | `%s/`, %s |\n", text, columns, tri__branch_name(encoder),
                                tri__tokenizer_describe(e->assets.tokenizer[encoder]));
    }
    for (int i = 0; i < m->tab_field_list.n; i++)
        text = tri__arena_print(&e->arena, "%s| number or category | %s | `preprocessing.json` |\n", text,
                                m->tab_field_list.at[i]);
    return text;
}

static const char card_form[] = /* texts, parameters, steps, inputs, label, classes */
    "---\npipeline_tag: text-classification\ntags:\n- trimodal-bert\n- tabular\n---\n\n# A Trimodal BERT classifier\n\n"
    "%s and a table of numbers, fused into one decision: %lld parameters, %lld training steps.\n\n"
    "| input | column | as |\n|---|---|---|\n%s\nIt answers: %s, %s.\n\n## Use\n\n"
    "    trident predict --checkpoint . --data-path new.csv -o out.csv\n    trident eval --checkpoint . --data-path "
    "test.csv\n\n"
    "An encoder on its own, in Python:\n\n    from transformers import AutoModel, AutoTokenizer\n"
    "    model = AutoModel.from_pretrained(\"primary\")\n    tokenizer = AutoTokenizer.from_pretrained(\"primary\")\n\n"
    "`model.safetensors` holds all weights under logical names: `primary.*`, `secondary.*` (Hugging Face's names "
    "behind the\n"
    "prefix, and `projection`), `tabular.*`, `fusion.*`. `config.json` is Trident's, `manifest.json` lists files with "
    "their checksums.\n";

static tri_status write_card(tri_original *e, const char *folder) {
    char path[TRI_PATH_MAX], answer[64] = "a number";
    if (e->settings.model.task == TRI_TASK_QUANTILES) snprintf(answer, sizeof answer, "a number's quantiles");
    if (e->settings.model.task == TRI_TASK_LABELS)
        snprintf(answer, sizeof answer, "any of %lld labels", (long long)tri__model_outputs(&e->settings.model));
    if (e->settings.model.task == TRI_TASK_CLASSES)
        snprintf(answer, sizeof answer, "one of %lld classes", (long long)e->settings.model.num_classes);
    const char *texts = e->assets.n_texts > 2 ? "Several texts" : "Two text encoders";
    const char *text = tri__arena_print(&e->arena, card_form, texts, (long long)e->elements,
                                        (long long)tri__checkpoint_step(e->checkpoint), card_inputs(e),
                                        e->settings.model.label_name, answer);
    TRI_TRY(tri__path_join(path, folder, "README.md"));
    return tri__file_write(path, text, strlen(text));
}

static tri_status write_extras(void *context, const char *folder) {
    tri_original *e = context;
    TRI_TRY(tri__assets_save(&e->assets, folder));
    TRI_TRY(tri__original_stack(e, folder));
    for (int branch = 0; branch < e->assets.n_encoders; branch++) {
        char path[TRI_PATH_MAX];
        TRI_TRY(tri__path_join(path, folder, tri__branch_name(branch)));
        TRI_TRY(write_encoder(e, branch, path));
    }
    return write_card(e, folder);
}

static tri_status write_folder(tri_original *e, const char *folder) {
    TRI_OWNED(tri__json_drop) tri_json *config = tri__json_deep_copy(tri__checkpoint_config(e->checkpoint));
    const tri_json *was = tri__checkpoint_state(e->checkpoint);
    TRI_OWNED(tri__json_drop) tri_json *state = NULL;
    if (tri__json_get(was, "data") || tri__json_get(was, "decision")) state = tri__json_object();
    int failed = tri__json_set_new(config, "model_type", tri__json_string("trimodal-bert"));
    if (state) tri__original_state(e, state);
    tri_checkpoint_out out = {.folder = folder, .step = tri__checkpoint_step(e->checkpoint), .weights = e->weights,
                              .n_weights = e->n_weights, .config = config,
                              .preprocessing = tri__checkpoint_preprocessing(e->checkpoint), .state = state,
                              .extras = write_extras, .context = e};
    failed |= state && !tri__json_is_whole(state);
    if (failed) return tri__fail(TRI_RESOURCE, "out of memory");
    return tri__checkpoint_export(&out);
}

/* What a user of the folder has to know. Other programs know no pattern: they read its key of config.json over, and
 * attend to all keys. */
static void note_traits(const tri_assets *assets, tri_json *facts) {
    for (int branch = 0; branch < assets->n_encoders; branch++)
        if (assets->encoder[branch].pattern.mode != TRI_PATTERN_DENSE)
            tri__json_set_new(facts, "note",
                              tri__json_string("config.json has attention_pattern, which transformers ignores: there "
                                               "the encoder attends to all keys, and its outputs differ"));
    if (assets->n_encoders < assets->n_texts)
        tri__json_set_new(facts, "shared", tri__json_string(
            assets->n_encoders > 1 ? "config.json says which encoder reads each text (text_encoders)"
            : assets->n_texts > 2  ? "primary/ is the encoder of all texts (share_encoders)"
                                   : "primary/ is the encoder of both texts (share_encoders)"));
}

tri_status tri__serve_export(const tri_settings *settings, tri_json **facts) {
    TRI_OWNED(tri__original_close) tri_original e = {0};
    *facts = NULL;
    if (!settings->checkpoint || !settings->output_dir)
        return tri__fail(TRI_USAGE, "export needs --checkpoint, a checkpoint or a run folder, and --output-dir, a "
                         "folder to be made");
    TRI_TRY(tri__original_open(settings->checkpoint, CARD_ROOM, &e));
    TRI_TRY(write_folder(&e, settings->output_dir));
    *facts = tri__json_pack("{s:s, s:s, s:I, s:i, s:i}", "checkpoint", tri__checkpoint_path(e.checkpoint), "output_dir",
                            settings->output_dir, "step", (tri_json_int)tri__checkpoint_step(e.checkpoint), "tensors",
                            e.n_weights, "encoders", e.assets.n_encoders);
    if (!*facts) return tri__fail(TRI_RESOURCE, "out of memory");
    note_traits(&e.assets, *facts);
    return TRI_OK;
}
