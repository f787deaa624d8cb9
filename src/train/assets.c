/* assets.c - an encoder's architecture is, in this order: the known name, the folder's config.json, the *_encoder object. */
#include "train/assets.h"
#include "model/model.h"

#include <string.h>

tri_status tri__assets_folder(const char *models_dir, const char *name, const char *key, char out[static TRI_PATH_MAX]) {
    if (name[0] == '/') {
        TRI_TRY(tri__path_join(out, "", name));
        if (tri__is_folder(out)) return TRI_OK;
        return tri__fail(TRI_NOINPUT, "%s: no folder %s", key, name);
    }
    if (models_dir) {
        TRI_TRY(tri__path_join(out, models_dir, name));
        if (tri__is_folder(out)) return TRI_OK;
    }
    TRI_TRY(tri__path_join(out, "", name));
    if (strchr(name, '/') && tri__is_folder(out)) return TRI_OK;
    out[0] = 0;
    if (models_dir) return tri__fail(TRI_NOINPUT, "%s: no folder of a model named %s; searched %s/%s", key, name, models_dir, name);
    return tri__fail(TRI_NOINPUT,
                     "%s: no folder of a model named %s; give --models-dir, the folder that holds it, or an absolute path", key,
                     name);
}

/* The architecture; *fixed: config.json or the object says how large the vocabulary is. */
static tri_status find_encoder(const char *folder, const char *name, const json_t *object, const char *key, tri_encoder *e, int *fixed) {
    char path[TRI_PATH_MAX] = "";
    const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    int known = tri__encoder_preset(base, e);
    *fixed = 0;
    if (!known) tri__encoder_preset("bert-base-uncased", e);
    if (folder[0]) TRI_TRY(tri__path_join(path, folder, "config.json"));
    int has_file = path[0] && tri__is_file(path);
    if (has_file) {
        json_t *json;
        TRI_TRY(tri__json_load(path, TRI_USAGE, &json));
        tri_status status = tri__encoder_parse(json, path, e);
        *fixed = json_object_get(json, "vocab_size") != NULL;
        json_decref(json);
        TRI_TRY(status);
    }
    if (object) {
        TRI_TRY(tri__encoder_parse(object, key, e));
        *fixed |= json_object_get(object, "vocab_size") != NULL;
    }
    if (!known && !has_file && !object)
        return tri__fail(TRI_USAGE, "%s: %s has no config.json and is no known name; add one or give the %s object", key, folder, key);
    return TRI_OK;
}

static tri_status open_branch(const tri_settings *s, int branch, int need_tokenizers, const tri_log *log, tri_assets *a) {
    const tri_model_config *m = &s->model;
    const char *name = branch && m->secondary_tokenizer ? m->secondary_tokenizer : m->primary_tokenizer;
    const char *name_key = branch ? "secondary_tokenizer" : "primary_tokenizer";
    const char *key = branch ? "secondary_encoder" : "primary_encoder";
    tri_encoder *e = &a->encoder[branch];
    int fixed;
    tri_status found = tri__assets_folder(s->models_dir, name, name_key, a->folder[branch]);
    if (found != TRI_OK && (need_tokenizers || !tri__encoder_preset(name, e))) return found;
    TRI_TRY(find_encoder(a->folder[branch], name, branch ? m->secondary_encoder : m->primary_encoder, key, e, &fixed));
    if (a->folder[branch][0]) {
        TRI_TRY(tri__tokenizer_load(a->folder[branch], &a->tokenizer[branch]));
        tri__say(log, TRI_LOG_INFO, "%s text: %s, from %s", tri__branch_name(branch), tri__tokenizer_describe(a->tokenizer[branch]),
                 a->folder[branch]);
        int size = tri__tokenizer_size(a->tokenizer[branch]);
        if (!fixed) e->vocab_size = size;
        if (size > e->vocab_size)
            return tri__fail(TRI_USAGE, "%s: the vocabulary has %d pieces, the encoder's vocab_size is %lld", a->folder[branch], size,
                             (long long)e->vocab_size);
    }
    return tri__encoder_check(e, key, m->max_sen_len);
}

tri_status tri__assets_open(const tri_settings *settings, int need_tokenizers, const tri_log *log, tri_assets *assets) {
    *assets = (tri_assets){.n_texts = settings->model.secondary_text_name ? 2 : 1};
    for (int branch = 0; branch < assets->n_texts; branch++) {
        tri_status status = open_branch(settings, branch, need_tokenizers, log, assets);
        if (status != TRI_OK) {
            tri__assets_close(assets);
            return status;
        }
    }
    return TRI_OK;
}

tri_status tri__assets_restore(const tri_settings *settings, const char *checkpoint, tri_assets *assets) {
    const tri_model_config *m = &settings->model;
    *assets = (tri_assets){.n_texts = m->secondary_text_name ? 2 : 1};
    for (int branch = 0; branch < assets->n_texts; branch++) {
        const json_t *object = branch ? m->secondary_encoder : m->primary_encoder;
        tri_status status = tri__path_join(assets->folder[branch], checkpoint, tri__branch_name(branch));
        if (status == TRI_OK) status = tri__tokenizer_load(assets->folder[branch], &assets->tokenizer[branch]);
        if (status == TRI_OK && !object) status = tri__fail(TRI_DATA, "%s: its configuration has no encoder", checkpoint);
        if (status == TRI_OK) status = tri__encoder_parse(object, checkpoint, &assets->encoder[branch]);
        if (status == TRI_OK) status = tri__encoder_check(&assets->encoder[branch], checkpoint, m->max_sen_len);
        if (status != TRI_OK) {
            tri__assets_close(assets);
            return status;
        }
    }
    return TRI_OK;
}

tri_status tri__assets_save(void *context, const char *folder) {
    const tri_assets *assets = context;
    for (int branch = 0; branch < assets->n_texts; branch++) {
        char path[TRI_PATH_MAX];
        TRI_TRY(tri__path_join(path, folder, tri__branch_name(branch)));
        TRI_TRY(tri__folder_make(path));
        TRI_TRY(tri__tokenizer_save(assets->tokenizer[branch], path));
    }
    return TRI_OK;
}

void tri__assets_close(tri_assets *assets) {
    for (int branch = 0; branch < 2; branch++) tri__tokenizer_free(assets->tokenizer[branch]);
    *assets = (tri_assets){0};
}
