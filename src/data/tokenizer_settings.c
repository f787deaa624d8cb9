/* tokenizer_settings.c - the files beside a vocabulary, read in transformers' order of precedence
 * (PreTrainedTokenizerBase._from_pretrained, version 5): special_tokens_map.json over tokenizer_config.json; neither it
 * nor added_tokens.json counts where tokenizer_config.json has an added_tokens_decoder. Keys that would change ids and
 * are not known here are refused. */
#include "data/tokenizer_settings.h"

#include <stdio.h>
#include <string.h>

const char *const tri__tokenizer_named[TRI_NAMED] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                     "pad_token", "cls_token", "mask_token"};

static const struct {
    const char *name; /* without "Fast" at its end */
    tri_tokenizer_class class;
} classes[] = {
    {"BertTokenizer", TRI_CLASS_BERT},       {"RobertaTokenizer", TRI_CLASS_ROBERTA},
    {"GPT2Tokenizer", TRI_CLASS_GPT2},       {"PreTrainedTokenizer", TRI_CLASS_FILE},
    {"TokenizersBackend", TRI_CLASS_FILE},   {"ElectraTokenizer", TRI_CLASS_BERT},
    {"MobileBertTokenizer", TRI_CLASS_BERT}, {"SqueezeBertTokenizer", TRI_CLASS_BERT},
    {"LayoutLMTokenizer", TRI_CLASS_BERT},   {"LongformerTokenizer", TRI_CLASS_ROBERTA},
    {"BartTokenizer", TRI_CLASS_ROBERTA},
};

const char *tri__tokenizer_class_name(tri_tokenizer_class class) {
    static const char *const names[] = {NULL, "BertTokenizer", "RobertaTokenizer", "GPT2Tokenizer",
                                        "PreTrainedTokenizerFast"};
    return names[class];
}

int tri__tokenizer_says(const tri_tokenizer_settings *settings, const char *key) {
    return json_object_get(settings->config, key) != NULL;
}

static int is_filled(const json_t *value) {
    return json_is_array(value) ? json_array_size(value) > 0 : json_is_object(value) && json_object_size(value) > 0;
}

const json_t *tri__tokenizer_extras(const json_t *config) {
    const json_t *extra = json_object_get(config, "extra_special_tokens");
    const json_t *extras = is_filled(extra) ? extra : json_object_get(config, "additional_special_tokens");
    return is_filled(extras) ? extras : NULL;
}

static tri_status load_object(const char *path, json_t **out) {
    TRI_TRY(tri__json_load(path, TRI_DATA, out));
    return json_is_object(*out) ? TRI_OK : tri__fail(TRI_DATA, "%s: it must be an object", path);
}

/* NULL where there is no such file; `path` says where it was looked for. */
static tri_status load_optional(const char *folder, const char *name, char path[static TRI_PATH_MAX], json_t **out) {
    *out = NULL;
    TRI_TRY(tri__path_join(path, folder, name));
    return tri__is_file(path) ? load_object(path, out) : TRI_OK;
}

/* Of a token that is its text, or an object with it. */
static int has_text(const json_t *token, const char *text) {
    const char *content = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    return content && !strcmp(content, text);
}

static tri_status refuse_keys(const json_t *config, const char *path) {
    static const char *const foreign[] = {"vocab", "merges", "model_specific_special_tokens", "post_processor",
                                          "tokenizer_object"};
    const json_t *files = json_object_get(config, "fast_tokenizer_files"), *code = json_object_get(config, "auto_map");
    const char *key = NULL, *why = "is not known here";
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (json_object_get(config, foreign[i])) key = foreign[i];
    if (is_filled(json_object_get(config, "init_inputs"))) key = "init_inputs";
    if (is_filled(code) && (json_is_array(code) || json_object_get(code, "AutoTokenizer")))
        key = "auto_map", why = "names Python code, which is not run here";
    for (size_t i = 0; i < json_array_size(files); i++)
        if (!has_text(json_array_get(files, i), "tokenizer.json")) key = "fast_tokenizer_files";
    if (json_is_true(json_object_get(config, "split_special_tokens"))) key = "split_special_tokens";
    if (json_is_false(json_object_get(config, "clean_text")))
        key = "clean_text", why = "is false, which transformers 5 does not follow; take it out";
    return key ? tri__fail(TRI_USAGE, "%s: %s %s", path, key, why) : TRI_OK;
}

static tri_status class_named(const char *path, const json_t *name, tri_tokenizer_class *class) {
    const char *text = json_is_string(name) ? json_string_value(name) : "";
    size_t length = strlen(text);
    if (length > 4 && !strcmp(text + length - 4, "Fast")) length -= 4;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].name) == length && !strncmp(classes[i].name, text, length)) {
            *class = classes[i].class;
            return TRI_OK;
        }
    return tri__fail(
        TRI_USAGE,
        "%s: tokenizer_class %.80s is not known here; known are BertTokenizer, RobertaTokenizer, GPT2Tokenizer, and "
        "PreTrainedTokenizerFast for a tokenizer.json as it stands",
        path, text);
}

/* tokenizer_config.json names the class, or config.json does, or its model_type. */
static tri_status find_class(tri_tokenizer_settings *s, const char *folder) {
    static const struct {
        const char *type;
        tri_tokenizer_class class;
    } types[] = {{"bert", TRI_CLASS_BERT}, {"roberta", TRI_CLASS_ROBERTA}, {"gpt2", TRI_CLASS_GPT2}};
    char path[TRI_PATH_MAX];
    json_t *model;
    const json_t *name = json_object_get(s->config, "tokenizer_class");
    if (name && !json_is_null(name)) return class_named(s->path, name, &s->class);
    TRI_TRY(load_optional(folder, "config.json", path, &model));
    name = json_object_get(model, "tokenizer_class");
    const char *type = json_string_value(json_object_get(model, "model_type"));
    tri_status status = TRI_OK;
    if (name && !json_is_null(name)) {
        status = class_named(path, name, &s->class);
    } else if (type) {
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            if (!strcmp(type, types[i].type)) s->class = types[i].class;
        if (s->class == TRI_CLASS_OPEN)
            status =
                tri__fail(TRI_USAGE,
                          "%s: the tokenizer of a model_type %.80s is not known here; name it as tokenizer_class in "
                          "tokenizer_config.json",
                          path, type);
    }
    json_decref(model);
    return status;
}

int tri__tokenizer_is_named(const char *key) {
    for (int i = 0; i < TRI_NAMED; i++)
        if (!strcmp(key, tri__tokenizer_named[i])) return 1;
    return 0;
}

/* extra_special_tokens of special_tokens_map.json go behind those of tokenizer_config.json. */
static tri_status merge_extras(json_t *config, const char *path, const json_t *more) {
    const json_t *before = tri__tokenizer_extras(config);
    if (!json_is_array(more) || (before && !json_is_array(before)))
        return tri__fail(TRI_USAGE, "%s: extra_special_tokens must be an array here, as in tokenizer_config.json",
                         path);
    json_t *all = before ? json_copy((json_t *)before) : json_array();
    int failed = !all || json_array_extend(all, (json_t *)more) || json_object_set(config, "extra_special_tokens", all);
    json_decref(all);
    return failed ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : TRI_OK;
}

/* All keys but additional_special_tokens. */
static tri_status merge_map(json_t *config, const char *path, const json_t *map) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value) {
        size_t length = strlen(key);
        if (!strcmp(key, "additional_special_tokens")) continue;
        if (!strcmp(key, "extra_special_tokens")) {
            TRI_TRY(merge_extras(config, path, value));
            continue;
        }
        if (!tri__tokenizer_is_named(key) && length > 6 && !strcmp(key + length - 6, "_token"))
            return tri__fail(TRI_USAGE, "%s: %.80s is not known here; name it in tokenizer_config.json", path, key);
        if (json_object_set(config, key, value)) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    return TRI_OK;
}

/* Whether the configuration names the token among its special ones. */
static int is_special(const json_t *config, const char *text) {
    const json_t *extras = tri__tokenizer_extras(config);
    for (int i = 0; i < TRI_NAMED; i++)
        if (has_text(json_object_get(config, tri__tokenizer_named[i]), text)) return 1;
    for (size_t i = 0; i < json_array_size(extras); i++)
        if (has_text(json_array_get(extras, i), text)) return 1;
    return 0;
}

/* added_tokens.json: {"<x>": 309}. */
static tri_status list_added(tri_tokenizer_settings *s, const json_t *added) {
    const char *content, *path = s->listed_path;
    json_t *number;
    json_object_foreach((json_t *)added, content, number) {
        char id[32];
        int special = is_special(s->config, content);
        if (!json_is_integer(number))
            return tri__fail(TRI_DATA, "%s: the id of \"%.80s\" must be a whole number", path, content);
        snprintf(id, sizeof id, "%lld", (long long)json_integer_value(number));
        if (json_object_set_new(
                s->listed, id,
                json_pack("{s:s, s:b, s:b}", "content", content, "special", special, "normalized", !special)))
            return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    return TRI_OK;
}

/* special_tokens_map.json and added_tokens.json. */
static tri_status read_beside(tri_tokenizer_settings *s, const char *folder) {
    char map_path[TRI_PATH_MAX];
    json_t *map = NULL, *added = NULL;
    tri_status status = load_optional(folder, "special_tokens_map.json", map_path, &map);
    const json_t *more = json_object_get(map, "additional_special_tokens");
    int alone = !tri__tokenizer_says(s, "additional_special_tokens") && !tri__tokenizer_says(s, "extra_special_tokens");
    if (status == TRI_OK && more && json_is_object(tri__tokenizer_extras(s->config)))
        status = tri__fail(TRI_USAGE,
                           "%s: additional_special_tokens beside named ones in tokenizer_config.json are not known here",
                           map_path);
    if (status == TRI_OK) status = merge_map(s->config, map_path, map);
    if (status == TRI_OK) status = load_optional(folder, "added_tokens.json", s->listed_path, &added);
    if (status == TRI_OK) status = list_added(s, added);
    if (status == TRI_OK && more && alone && !json_object_get(map, "extra_special_tokens") &&
        json_object_set(s->config, "additional_special_tokens", (json_t *)more))
        status = tri__fail(TRI_RESOURCE, "%s: out of memory", map_path);
    json_decref(map);
    json_decref(added);
    return status;
}

tri_status tri__tokenizer_settings_open(tri_tokenizer_settings *s, const char *folder) {
    *s = (tri_tokenizer_settings){0};
    TRI_TRY(load_optional(folder, "tokenizer_config.json", s->path, &s->config));
    s->given = s->config != NULL;
    if (!s->given) s->config = json_object();
    TRI_TRY(refuse_keys(s->config, s->path));
    TRI_TRY(find_class(s, folder));
    json_t *decoder = json_object_get(s->config, "added_tokens_decoder");
    s->decided = decoder != NULL;
    if (s->decided && !json_is_object(decoder))
        return tri__fail(TRI_DATA, "%s: added_tokens_decoder must be an object", s->path);
    s->listed = s->decided ? json_incref(decoder) : json_object();
    if (!s->config || !s->listed) return tri__fail(TRI_RESOURCE, "%s: out of memory", s->path);
    return s->decided ? tri__path_join(s->listed_path, "", s->path) : read_beside(s, folder);
}

void tri__tokenizer_settings_close(tri_tokenizer_settings *settings) {
    json_decref(settings->config);
    json_decref(settings->listed);
    settings->config = settings->listed = NULL;
}
