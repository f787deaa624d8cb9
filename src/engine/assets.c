/* assets.c - an encoder's architecture comes from the known name, overridden by the folder's config.json, overridden by
 * the *_encoder object. */
#include "engine/assets.h"
#include "engine/model_folder.h"
#include "model/family.h"
#include "plan/schedule/schedule.h"

/* The architecture; *fixed: config.json or the object gives the vocabulary's size. */
static tri_status find_encoder(const char *folder, const char *name, const tri_json *object, const char *key,
                               tri_encoder *e, int *fixed) {
    char path[TRI_PATH_MAX] = "";
    const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    int known = tri__encoder_preset(base, e), has_file = 0;
    *fixed = 0;
    if (!known) tri__encoder_preset("bert-base-uncased", e);
    if (folder[0]) TRI_TRY(tri__path_join(path, folder, "config.json"));
    if (path[0]) TRI_TRY(tri__file_there(path, &has_file));
    if (has_file) {
        TRI_OWNED(tri__json_drop) tri_json *json = NULL;
        TRI_TRY(tri__json_load(path, TRI_USAGE, &json));
        TRI_TRY(tri__encoder_parse(json, path, e));
        *fixed = tri__json_get(json, "vocab_size") != NULL;
    }
    if (object) {
        TRI_TRY(tri__encoder_parse(object, key, e));
        TRI_TRY(tri__encoder_check_keys(object, key, e));
        *fixed |= tri__json_get(object, "vocab_size") != NULL;
    }
    if (!known && !has_file && !object)
        return tri__fail(TRI_USAGE, "%s: %s has no config.json and is not a known name; add one or give the %s object",
                         key, folder, key);
    return TRI_OK;
}

/* --attention, which both encoders share, replaces an encoder's own pattern. Random blocks are drawn from the run's
 * seed, which is recorded with the pattern. */
static tri_status choose_pattern(const tri_settings *s, int branch, const tri_log *log, tri_encoder *e) {
    tri_pattern *p = &e->pattern;
    if (s->model.attention && tri__family(e)->pattern)
        return tri__fail(TRI_USAGE, "--attention %s: layers of the %s encoder, a %s, have patterns of their own",
                         s->model.attention, tri__branch_name(branch), tri__family(e)->type);
    if (s->model.attention) {
        tri_pattern own = *p;
        TRI_TRY(tri__pattern_load(s->model.attention, p));
        if (own.mode != TRI_PATTERN_DENSE && memcmp(&own, p, sizeof own) != 0)
            tri__say(log, TRI_LOG_INFO, "attention %s: instead of the %s encoder's attention_pattern, mode %s",
                     s->model.attention, tri__branch_name(branch), tri__pattern_mode_name(own.mode));
    }
    if (tri__pattern_is_random(p) && p->seed < 0) p->seed = s->seed;
    return TRI_OK;
}

/* A branch's own folder ("": none), and the folder of its vocabulary. TRI_NOINPUT when there is neither, or its own is
 * incomplete. */
static tri_status find_folders(const tri_settings *s, const char *name, const char *key, const tri_log *log,
                               char own[static TRI_PATH_MAX], char vocabulary[static TRI_PATH_MAX]) {
    char why[1024];
    tri_status found = tri__model_folder(s, name, key, own);
    if (found == TRI_OK) return tri__path_join(vocabulary, "", own);
    vocabulary[0] = 0;
    if (own[0]) return found; /* there, but not whole */
    const char *alike = tri__encoder_vocabulary(name);
    snprintf(why, sizeof why, "%s", tri_error());
    if (!alike) return found;
    if (tri__model_folder(s, alike, key, vocabulary) != TRI_OK)
        return tri__fail(found, "%s; nor is there one of %s, which has the same vocabulary", why, alike);
    tri__say(log, TRI_LOG_INFO, "%s: no folder of a model named %s; its vocabulary is that of %s", key, name, alike);
    return TRI_OK;
}

/* The padding token's embedding is not trained: warns when it is a token that texts contain. */
static void check_pad(int branch, const tri_log *log, const tri_assets *a) {
    int64_t pad = a->encoder[branch].pad_token_id;
    if (pad < 0 || pad >= tri__tokenizer_size(a->tokenizer[branch])) return;
    const char *piece = tri__tokenizer_piece(a->tokenizer[branch], (int32_t)pad);
    if (!strcasestr(piece, "pad"))
        tri__say(log, TRI_LOG_WARN, "%s text: pad_token_id %lld is \"%.80s\": as in transformers its embedding starts "
                 "at zero and is not trained; if that is not meant, set pad_token_id of the encoder",
                 tri__branch_name(branch), (long long)pad, piece);
}

static tri_status load_vocabulary(const char *folder, int branch, int fixed, const tri_log *log, tri_assets *a) {
    tri_encoder *e = &a->encoder[branch];
    TRI_TRY(tri__tokenizer_load(folder, &a->tokenizer[branch]));
    tri__say(log, TRI_LOG_INFO, "%s text: %s, from %s", tri__branch_name(branch),
             tri__tokenizer_describe(a->tokenizer[branch]), folder);
    int size = tri__tokenizer_size(a->tokenizer[branch]);
    if (!fixed) e->vocab_size = size;
    if (size > e->vocab_size)
        return tri__fail(
            TRI_USAGE, "%s: the vocabulary has %d pieces, the last is \"%.80s\", but the encoder's vocab_size is %lld",
            folder, size, tri__tokenizer_piece(a->tokenizer[branch], size - 1), (long long)e->vocab_size);
    check_pad(branch, log, a);
    return TRI_OK;
}

/* --tiny: as many layers as the stages of a pipeline need, as many heads as the ranks that share a layer; weights of
 * the real size do not fit. */
static void shrink(const tri_settings *s, int branch, const tri_log *log, tri_assets *a) {
    tri_encoder *e = &a->encoder[branch];
    int is_chain = tri__schedule_row((tri_schedule_kind)s->schedule)->chain;
    int64_t chunks = s->virtual_stages ? s->virtual_stages : is_chain ? 2 : 1;
    int64_t layers = (s->pp_size * chunks + a->n_encoders - 1) / a->n_encoders;
    tri__encoder_shrink(e, layers > 2 ? layers : 2, s->tp_size);
    a->folder[branch][0] = 0;
    tri__say(log, TRI_LOG_INFO, "--tiny: the %s encoder has %lld layers, %lld wide, instead of its own",
             tri__branch_name(branch), (long long)e->num_hidden_layers, (long long)e->hidden_size);
}

/* --extend-positions copy: weights with fewer positions are repeated where they are read. */
static void extend(int64_t max_len, int branch, const tri_log *log, tri_encoder *e) {
    int64_t had = tri__encoder_extend(e, max_len);
    if (had)
        tri__say(log, TRI_LOG_INFO, "%s encoder: %lld positions instead of its %lld (--extend-positions copy)",
                 tri__branch_name(branch), (long long)max_len, (long long)had);
}

tri_windows tri__assets_windows(const tri_model_config *model, const tri_assets *assets) {
    tri_windows windows = {.most = (int)model->windows, .max_len = (int)model->max_sen_len, .readers = assets->readers};
    if (windows.most < 2) return windows;
    windows.stride = (int)model->stride;
    for (int branch = 0; branch < assets->n_encoders; branch++) {
        const tri_tokenizer *tokenizer = assets->tokenizer[branch];
        windows.before[branch] = windows.after[branch] = 1; /* [CLS] and [SEP], or the like */
        if (tokenizer) tri__tokenizer_specials(tokenizer, &windows.before[branch], &windows.after[branch]);
    }
    return windows;
}

/* No token of a text may be left out between two windows. */
static tri_status check_windows(const tri_model_config *m, int branch, const char *origin, const tri_assets *a) {
    tri_windows w = tri__assets_windows(m, a);
    int specials = w.before[branch] + w.after[branch];
    if (w.most < 2 || w.stride <= w.max_len - specials) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s: stride %d, but of a window's %d tokens (max_sen_len) %d are special ones: the "
                     "text's tokens between windows would be lost; take a stride of at most %d", origin, w.stride,
                     w.max_len, specials, w.max_len > specials ? w.max_len - specials : 0);
}

static tri_status open_branch(const tri_settings *s, int branch, int need_tokenizers, const tri_log *log,
                              tri_assets *a) {
    const tri_model_config *m = &s->model;
    const char *name = branch && m->secondary_tokenizer ? m->secondary_tokenizer : m->primary_tokenizer;
    const char *name_key = branch ? "secondary_tokenizer" : "primary_tokenizer";
    const char *key = branch ? "secondary_encoder" : "primary_encoder";
    char vocabulary[TRI_PATH_MAX];
    tri_encoder *e = &a->encoder[branch];
    int fixed;
    tri_status found = find_folders(s, name, name_key, log, a->folder[branch], vocabulary);
    if (found != TRI_OK && (a->folder[branch][0] || need_tokenizers || !tri__encoder_preset(name, e))) return found;
    const tri_json *object = branch ? m->secondary_encoder : m->primary_encoder;
    a->overridden[branch] = object != NULL;
    TRI_TRY(find_encoder(a->folder[branch], name, object, key, e, &fixed));
    if (vocabulary[0]) TRI_TRY(load_vocabulary(vocabulary, branch, fixed, log, a));
    TRI_TRY(choose_pattern(s, branch, log, e));
    if (s->tiny) shrink(s, branch, log, a);
    if (m->extend_positions == TRI_EXTEND_COPY) extend(m->max_sen_len, branch, log, e);
    TRI_TRY(tri__encoder_check(e, key, m->max_sen_len));
    return check_windows(m, branch, name_key, a);
}

static tri_assets assets_of(const tri_model_config *model) {
    return (tri_assets){.n_texts = tri__model_texts(model), .n_encoders = tri__model_encoders(model),
                        .readers = tri__model_readers(model)};
}

/* Further texts have the tokenizers of their encoders. */
static void share(tri_assets *a) {
    for (int t = a->n_encoders; t < a->n_texts; t++) a->tokenizer[t] = a->tokenizer[tri__reader(&a->readers, t)];
}

/* Of more than two texts, those that an encoder reads. */
static void say_readers(int encoder, const tri_log *log, const tri_assets *a) {
    char names[200] = "";
    for (int t = 0; t < a->n_texts; t++)
        if (tri__reader(&a->readers, t) == encoder)
            tri__text_append(names, sizeof names, ", ", "%s", tri__branch_name(t));
    tri__say(log, TRI_LOG_INFO, "the %s encoder reads these texts: %s", tri__branch_name(encoder), names);
}

tri_status tri__assets_open(const tri_settings *settings, int need_tokenizers, const tri_log *log, tri_assets *assets) {
    TRI_OWNED(tri__assets_close) tri_assets made = assets_of(&settings->model);
    *assets = (tri_assets){0};
    for (int branch = 0; branch < made.n_encoders; branch++)
        TRI_TRY(open_branch(settings, branch, need_tokenizers, log, &made));
    if (made.n_texts == 2 && made.readers.joined)
        tri__say(log, TRI_LOG_INFO, "both texts share one encoder, the primary one (share_encoders)");
    for (int e = 0; e < made.n_encoders && made.n_texts > 2; e++) say_readers(e, log, &made);
    share(&made);
    *assets = made, made = (tri_assets){0};
    return TRI_OK;
}

tri_status tri__assets_restore(const tri_settings *settings, const char *checkpoint, tri_assets *assets) {
    const tri_model_config *m = &settings->model;
    TRI_OWNED(tri__assets_close) tri_assets made = assets_of(m);
    *assets = (tri_assets){0};
    for (int branch = 0; branch < made.n_encoders; branch++) {
        const tri_json *object = branch ? m->secondary_encoder : m->primary_encoder;
        TRI_TRY(tri__path_join(made.folder[branch], checkpoint, tri__branch_name(branch)));
        TRI_TRY(tri__tokenizer_load(made.folder[branch], &made.tokenizer[branch]));
        if (!object) return tri__fail(TRI_DATA, "%s: its configuration has no encoder", checkpoint);
        TRI_TRY(tri__encoder_parse(object, checkpoint, &made.encoder[branch]));
        TRI_TRY(tri__encoder_check(&made.encoder[branch], checkpoint, m->max_sen_len));
        TRI_TRY(check_windows(m, branch, checkpoint, &made));
    }
    share(&made);
    *assets = made, made = (tri_assets){0};
    return TRI_OK;
}

tri_status tri__assets_save(void *context, const char *folder) {
    const tri_assets *assets = context;
    for (int branch = 0; branch < assets->n_encoders; branch++) {
        TRI_PATH(path, folder, tri__branch_name(branch));
        TRI_TRY(tri__folder_make(path));
        TRI_TRY(tri__tokenizer_save(assets->tokenizer[branch], path));
    }
    return TRI_OK;
}

void tri__assets_close(tri_assets *assets) {
    for (int e = 0; e < assets->n_encoders; e++) tri__tokenizer_free(assets->tokenizer[e]);
    *assets = (tri_assets){0};
}
