/* tokenizer_settings.c - the settings files of a vocabulary, read in transformers' order of precedence
 * (PreTrainedTokenizerBase._from_pretrained, version 5): special_tokens_map.json over tokenizer_config.json; neither it
 * nor added_tokens.json is used if tokenizer_config.json has an added_tokens_decoder. Unknown keys that would change
 * ids are refused. */
#include "data/text/tokenizer_settings.h"

const char *const tri__tokenizer_named[TRI_NAMED] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                     "pad_token", "cls_token", "mask_token"};

/* Names of classes, and the model_type that has one where no file names it. */
static const struct {
    const char *name; /* without "Fast" at its end */
    const char *type; /* NULL: none */
    tri_tokenizer_class class;
} classes[] = {
    {"BertTokenizer", "bert", TRI_CLASS_BERT},
    {"RobertaTokenizer", "roberta", TRI_CLASS_ROBERTA},
    {"GPT2Tokenizer", "gpt2", TRI_CLASS_GPT2},
    {"PreTrainedTokenizer", "modernbert", TRI_CLASS_FILE},
    {"TokenizersBackend", NULL, TRI_CLASS_FILE},
    {"ElectraTokenizer", "electra", TRI_CLASS_BERT},
    {"MobileBertTokenizer", NULL, TRI_CLASS_BERT},
    {"SqueezeBertTokenizer", NULL, TRI_CLASS_BERT},
    {"LayoutLMTokenizer", NULL, TRI_CLASS_BERT},
    {"LongformerTokenizer", NULL, TRI_CLASS_ROBERTA},
    {"BartTokenizer", NULL, TRI_CLASS_ROBERTA},
    {"MPNetTokenizer", "mpnet", TRI_CLASS_MPNET},
    {"DistilBertTokenizer", "distilbert", TRI_CLASS_BERT},
    {"XLMRobertaTokenizer", "xlm-roberta", TRI_CLASS_XLM_ROBERTA},
    {"DebertaV2Tokenizer", "deberta-v2", TRI_CLASS_DEBERTA},
};
enum { CLASSES = sizeof classes / sizeof *classes };

const char *tri__tokenizer_class_name(tri_tokenizer_class class) {
    static const char *const names[] = {NULL, "BertTokenizer", "RobertaTokenizer", "GPT2Tokenizer", "MPNetTokenizer",
                                        "XLMRobertaTokenizer", "DebertaV2Tokenizer", "PreTrainedTokenizerFast"};
    return names[class];
}

int tri__tokenizer_says(const tri_tokenizer_settings *settings, const char *key) {
    return tri__json_get(settings->config, key) != NULL;
}

static int is_filled(const tri_json *value) {
    return tri__json_is_array(value) ? tri__json_size(value) > 0
                                     : tri__json_is_object(value) && tri__json_object_size(value) > 0;
}

const tri_json *tri__tokenizer_extras(const tri_json *config) {
    const tri_json *extra = tri__json_get(config, "extra_special_tokens");
    const tri_json *extras = is_filled(extra) ? extra : tri__json_get(config, "additional_special_tokens");
    return is_filled(extras) ? extras : NULL;
}

static tri_status load_object(const char *path, tri_json **out) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    *out = NULL;
    TRI_TRY(tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size));
    return tri__json_parse_wide(text, size, path, TRI_DATA, out);
}

/* NULL if there is no such file; `path`: where it was expected. */
static tri_status load_optional(const char *folder, const char *name, char path[static TRI_PATH_MAX], tri_json **out) {
    int there;
    *out = NULL;
    TRI_TRY(tri__path_join(path, folder, name));
    TRI_TRY(tri__file_there(path, &there));
    return there ? load_object(path, out) : TRI_OK;
}

/* For a token given as its text, or as an object with it. */
static int has_text(const tri_json *token, const char *text) {
    const char *content = tri__json_string_value(tri__json_is_object(token) ? tri__json_get(token, "content") : token);
    return content && !strcmp(content, text);
}

static tri_status refuse_keys(const tri_json *config, const char *path) {
    static const char *const foreign[] = {"vocab", "merges", "model_specific_special_tokens", "post_processor",
                                          "tokenizer_object"};
    const tri_json *files = tri__json_get(config, "fast_tokenizer_files"), *code = tri__json_get(config, "auto_map");
    const char *key = NULL, *why = "is not known here";
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (tri__json_get(config, foreign[i])) key = foreign[i];
    if (is_filled(tri__json_get(config, "init_inputs"))) key = "init_inputs";
    if (is_filled(code) && (tri__json_is_array(code) || tri__json_get(code, "AutoTokenizer")))
        key = "auto_map", why = "names Python code, which is not run here";
    for (size_t i = 0; i < tri__json_size(files); i++)
        if (!has_text(tri__json_at(files, i), "tokenizer.json")) key = "fast_tokenizer_files";
    if (tri__json_is_object(tri__tokenizer_extras(config)) &&
        is_filled(tri__json_get(config, "extra_special_tokens")) &&
        is_filled(tri__json_get(config, "additional_special_tokens")))
        key = "additional_special_tokens", why = "beside named extra_special_tokens is not known here";
    if (tri__json_is_true(tri__json_get(config, "split_special_tokens"))) key = "split_special_tokens";
    const tri_json *clean = tri__json_get(config, "clean_text");
    if (tri__json_is_boolean(clean) && !tri__json_is_true(clean))
        key = "clean_text", why = "is false, which transformers 5 does not follow; take it out";
    return key ? tri__fail(TRI_USAGE, "%s: %s %s", path, key, why) : TRI_OK;
}

static tri_status class_named(const char *path, const tri_json *name, tri_tokenizer_settings *s) {
    const char *text = tri__json_is_string(name) ? tri__json_string_value(name) : "";
    size_t length = strlen(text);
    if (length > 4 && !strcmp(text + length - 4, "Fast")) length -= 4;
    for (int i = 0; i < CLASSES; i++)
        if (strlen(classes[i].name) == length && !strncmp(classes[i].name, text, length)) {
            s->class = classes[i].class;
            s->follows_file = !strcmp(classes[i].name, "DistilBertTokenizer");
            return TRI_OK;
        }
    return tri__fail(TRI_USAGE,
                     "%s: tokenizer_class %.80s is not known here; known are BertTokenizer, DistilBertTokenizer, "
                     "RobertaTokenizer, GPT2Tokenizer, MPNetTokenizer, XLMRobertaTokenizer, DebertaV2Tokenizer, and "
                     "PreTrainedTokenizerFast for a tokenizer.json as it stands", path, text);
}

/* tokenizer_config.json names the class, or config.json does, or its model_type; ModernBERT's is that of a
 * tokenizer.json, whatever they name, where there is one. */
static tri_status find_class(tri_tokenizer_settings *s, const char *folder) {
    char path[TRI_PATH_MAX], file[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *model = NULL;
    const tri_json *name = tri__json_get(s->config, "tokenizer_class");
    int has_file;
    TRI_TRY(tri__path_join(file, folder, "tokenizer.json"));
    TRI_TRY(tri__file_there(file, &has_file));
    TRI_TRY(load_optional(folder, "config.json", path, &model));
    int here = name && !tri__json_is_null(name);
    if (!here) name = tri__json_get(model, "tokenizer_class");
    const char *type = tri__text_in(model, "model_type");
    if (type && !strcmp(type, "modernbert") && has_file) {
        s->class = TRI_CLASS_FILE;
    } else if (name && !tri__json_is_null(name)) {
        TRI_TRY(class_named(here ? s->path : path, name, s));
    } else if (type) {
        for (int i = 0; i < CLASSES; i++)
            if (classes[i].type && !strcmp(type, classes[i].type)) s->class = classes[i].class;
        if (s->class == TRI_CLASS_OPEN)
            return tri__fail(TRI_USAGE,
                             "%s: the tokenizer of a model_type %.80s is not known here; name it as tokenizer_class in "
                             "tokenizer_config.json", path, type);
    }
    return TRI_OK;
}

int tri__tokenizer_is_named(const char *key) {
    for (int i = 0; i < TRI_NAMED; i++)
        if (!strcmp(key, tri__tokenizer_named[i])) return 1;
    return 0;
}

int tri__tokenizer_is_custom(const char *key) {
    return !tri__tokenizer_is_named(key) && strlen(key) > 6 && tri__text_ends(key, "_token");
}

/* extra_special_tokens of special_tokens_map.json are appended to those of tokenizer_config.json. */
static tri_status merge_extras(tri_json *config, const char *path, const tri_json *more) {
    const tri_json *before = tri__tokenizer_extras(config);
    if (!tri__json_is_array(more) || (before && !tri__json_is_array(before)))
        return tri__fail(TRI_USAGE, "%s: extra_special_tokens must be an array here, as in tokenizer_config.json",
                         path);
    TRI_OWNED(tri__json_drop) tri_json *all = before ? tri__json_deep_copy(before) : tri__json_array();
    int failed = !all || tri__json_extend(all, (tri_json *)more) || tri__json_set(config, "extra_special_tokens", all);
    return failed ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : TRI_OK;
}

/* All keys but additional_special_tokens. */
static tri_status merge_map(tri_json *config, const char *path, const tri_json *map) {
    tri__json_members(map, m) {
        if (!strcmp(m->key, "additional_special_tokens")) continue;
        if (!strcmp(m->key, "extra_special_tokens")) {
            TRI_TRY(merge_extras(config, path, m->value));
            continue;
        }
        if (tri__tokenizer_is_custom(m->key))
            return tri__fail(TRI_USAGE, "%s: %.80s is not known here; name it in tokenizer_config.json", path, m->key);
        if (tri__json_set(config, m->key, m->value)) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    return TRI_OK;
}

/* Whether the configuration names the token among its special ones. */
static int is_special(const tri_json *config, const char *text) {
    const tri_json *extras = tri__tokenizer_extras(config);
    for (int i = 0; i < TRI_NAMED; i++)
        if (has_text(tri__json_get(config, tri__tokenizer_named[i]), text)) return 1;
    for (size_t i = 0; i < tri__json_size(extras); i++)
        if (has_text(tri__json_at(extras, i), text)) return 1;
    return 0;
}

/* added_tokens.json: {"<x>": 309}. */
static tri_status list_added(tri_tokenizer_settings *s, const tri_json *added) {
    const char *path = s->listed_path;
    tri__json_members(added, m) {
        char id[32];
        int special = is_special(s->config, m->key);
        if (!tri__json_is_integer(m->value))
            return tri__fail(TRI_DATA, "%s: the id of \"%.80s\" must be a whole number", path, m->key);
        snprintf(id, sizeof id, "%lld", (long long)tri__json_integer_value(m->value));
        if (tri__json_set_new(
                s->listed, id,
                tri__json_pack("{s:s, s:b, s:b}", "content", m->key, "special", special, "normalized", !special)))
            return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    return TRI_OK;
}

/* special_tokens_map.json and added_tokens.json. */
static tri_status read_beside(tri_tokenizer_settings *s, const char *folder) {
    char map_path[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *map = NULL, *added = NULL;
    TRI_TRY(load_optional(folder, "special_tokens_map.json", map_path, &map));
    const tri_json *more = tri__json_get(map, "additional_special_tokens");
    int alone = !tri__tokenizer_says(s, "additional_special_tokens") && !tri__tokenizer_says(s, "extra_special_tokens");
    if (more && tri__json_is_object(tri__tokenizer_extras(s->config)))
        return tri__fail(TRI_USAGE,
                         "%s: additional_special_tokens beside named ones in tokenizer_config.json are not known here",
                         map_path);
    TRI_TRY(merge_map(s->config, map_path, map));
    TRI_TRY(load_optional(folder, "added_tokens.json", s->listed_path, &added));
    TRI_TRY(list_added(s, added));
    if (more && alone && !tri__json_get(map, "extra_special_tokens") &&
        tri__json_set(s->config, "additional_special_tokens", (tri_json *)more))
        return tri__fail(TRI_RESOURCE, "%s: out of memory", map_path);
    if (map) TRI_TRY(refuse_keys(s->config, map_path)); /* what the map brought */
    return TRI_OK;
}

tri_status tri__tokenizer_settings_open(tri_tokenizer_settings *s, const char *folder) {
    *s = (tri_tokenizer_settings){0};
    TRI_TRY(load_optional(folder, "tokenizer_config.json", s->path, &s->config));
    s->given = s->config != NULL;
    if (!s->given) s->config = tri__json_object();
    TRI_TRY(refuse_keys(s->config, s->path));
    TRI_TRY(find_class(s, folder));
    tri_json *decoder = tri__json_get(s->config, "added_tokens_decoder");
    s->decided = decoder != NULL;
    if (s->decided && !tri__json_is_object(decoder))
        return tri__fail(TRI_DATA, "%s: added_tokens_decoder must be an object", s->path);
    s->listed = s->decided ? tri__json_incref(decoder) : tri__json_object();
    if (!s->config || !s->listed) return tri__fail(TRI_RESOURCE, "%s: out of memory", s->path);
    return s->decided ? tri__path_join(s->listed_path, "", s->path) : read_beside(s, folder);
}

void tri__tokenizer_settings_close(tri_tokenizer_settings *settings) {
    tri__json_decref(settings->config);
    tri__json_decref(settings->listed);
    settings->config = settings->listed = NULL;
}
