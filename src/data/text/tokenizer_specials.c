/* tokenizer_specials.c - the tokens that are matched in texts, in transformers' order: those that a file lists with
 * ids, named ones (cls_token), additional ones. A token that is not a piece gets the next free id; of two with equal
 * texts the last one listed counts, and naming a listed token adds nothing. */
#include "data/text/tokenizer_parts.h"

#include <errno.h>

/* By class and key, the default text of a named token; NULL: none. */
static const char *const defaults[TRI_CLASS_FILE + 1][TRI_NAMED] = {
    [TRI_CLASS_BERT] = {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
    [TRI_CLASS_ROBERTA] = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    [TRI_CLASS_GPT2] = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
    [TRI_CLASS_MPNET] = {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"},
    [TRI_CLASS_XLM_ROBERTA] = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    [TRI_CLASS_DEBERTA] = {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
};

/* A named token is special, and is therefore not matched in the normalised text unless its object says so. */
static void make_special(const tri_json *object, tri_added_token *token) {
    if (!tri__json_get(object, "normalized")) token->normalized = 0;
    token->special = 1;
}

/* A token as its text, or as an object with it as `content`. The value still owns `content`. */
static tri_status read_special(const char *path, const char *key, const tri_json *value, int has_name,
                               tri_added_token *token) {
    *token = (tri_added_token){.id = -1, .special = 1};
    if (tri__json_is_object(value)) {
        TRI_TRY(tri__added_token_read(path, value, token));
        if (has_name || !tri__json_get(value, "__type")) make_special(value, token);
    } else if (tri__json_is_string(value)) {
        token->content = (char *)tri__json_string_value(value);
    }
    if (token->content && *token->content) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: %s must be a text that is not empty", path, key);
}

/* The named token of a key; content NULL: there is none. */
static tri_status read_named(const tri_tokenizer_settings *s, int index, const tri_json *file, tri_added_token *token) {
    const char *key = tri__tokenizer_named[index], *text = defaults[s->class][index];
    const tri_json *value = tri__json_get(s->config, key);
    if (!strcmp(key, "pad_token") && s->class == TRI_CLASS_FILE)
        text = tri__text_in(tri__json_get(file, "padding"), "pad_token");
    *token = (tri_added_token){.content = (char *)text, .id = -1, .special = 1};
    if (value) token->content = NULL;
    if (value && !tri__json_is_null(value)) TRI_TRY(read_special(s->path, key, value, 1, token));
    if (s->class == TRI_CLASS_MPNET && token->content && !tri__json_is_object(value)) { /* as its class does */
        token->normalized = 1;
        token->lstrip = !strcmp(key, "mask_token");
    }
    return TRI_OK;
}

/* Whether a key is a custom named token; objects are added before texts. */
static int is_own_name(const char *key, const tri_json *value, int object) {
    return tri__tokenizer_is_custom(key) &&
           (object ? tri__json_is_object(value) && tri__json_get(value, "__type") : tri__json_is_string(value));
}

/* Calls `take` for every named token, in order. */
static tri_status each_named(const tri_tokenizer_settings *s, const tri_json *file,
                             tri_status (*take)(void *to, tri_added_token *token), void *to) {
    const tri_json *extras = tri__tokenizer_extras(s->config);
    tri_added_token token;
    for (int i = 0; i < TRI_NAMED; i++) {
        TRI_TRY(read_named(s, i, file, &token));
        if (token.content) TRI_TRY(take(to, &token));
    }
    for (int object = 1; object >= 0; object--)
        tri__json_members(s->config, m) {
            if (!is_own_name(m->key, m->value, object)) continue;
            TRI_TRY(read_special(s->path, m->key, m->value, 1, &token));
            TRI_TRY(take(to, &token));
        }
    if (tri__json_is_object(extras))
        tri__json_members(extras, m) {
            TRI_TRY(read_special(s->path, m->key, m->value, 1, &token));
            TRI_TRY(take(to, &token));
        }
    return TRI_OK;
}

tri_status tri__tokenizer_special(const tri_tokenizer *tokenizer, const tri_tokenizer_settings *s, const char *key,
                                  const char *vocabulary, int32_t *id) {
    tri_added_token token = {0};
    for (int i = 0; i < TRI_NAMED; i++)
        if (!strcmp(tri__tokenizer_named[i], key)) TRI_TRY(read_named(s, i, NULL, &token));
    const tri_added_token *added = token.content ? tri__added_tokens_find(&tokenizer->added, token.content) : NULL;
    if (!token.content) return tri__fail(TRI_DATA, "%s: %s is null, but a text's ids need it", s->path, key);
    *id = added && added < tokenizer->added.all + s->n_listed
              ? added->id
              : tri__vocabulary_named(&tokenizer->vocabulary, token.content);
    if (*id >= 0) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: the special token %.80s is missing; it must be one of the pieces", vocabulary,
                     token.content);
}

/* Adds a token under the id that it has, or under the next one. stated: the id in its file, or -1. */
static tri_status add(tri_tokenizer *tokenizer, const char *path, tri_added_token *token, int64_t stated) {
    const tri_added_token *before = tri__added_tokens_find(&tokenizer->added, token->content);
    token->id = before ? before->id : tri__vocabulary_named(&tokenizer->vocabulary, token->content);
    if (token->id < 0) token->id = tokenizer->next;
    if (stated >= 0 && stated != token->id)
        return tri__fail(TRI_DATA, "%s: the added token \"%.80s\" should have the id %d", path, token->content,
                         token->id);
    TRI_TRY(tri__added_tokens_add(&tokenizer->added, path, token));
    if (token->id >= tokenizer->next) tokenizer->next = token->id + 1;
    if (token->id >= tokenizer->size) tokenizer->size = token->id + 1;
    return TRI_OK;
}

/* "added_tokens" of tokenizer.json, in its order. */
static tri_status add_file(tri_tokenizer *tokenizer, const char *path, const tri_json *list) {
    if (list && !tri__json_is_null(list) && !tri__json_is_array(list))
        return tri__fail(TRI_DATA, "%s: added_tokens must be an array", path);
    tri__json_items(list, each) {
        tri_added_token token;
        const tri_json *id = tri__json_get(each, "id");
        TRI_TRY(tri__added_token_read(path, each, &token));
        tri_json_int stated = tri__json_is_integer(id) ? tri__json_integer_value(id) : INT64_MAX;
        TRI_TRY(add(tokenizer, path, &token, stated < 0 ? INT64_MAX : stated));
    }
    return TRI_OK;
}

typedef struct entry {
    long long id;
    const tri_json *token;
} entry;

static int by_id(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static tri_status sort_listed(const char *path, const tri_json *listed, entry *entries) {
    size_t n = 0;
    tri__json_members(listed, m) {
        char *end;
        errno = 0;
        entries[n] = (entry){strtoll(m->key, &end, 10), m->value};
        if (*end || end == m->key || errno || entries[n++].id < 0)
            return tri__fail(TRI_DATA, "%s: \"%.80s\" is not the id of an added token", path, m->key);
    }
    qsort(entries, n, sizeof *entries, by_id);
    return TRI_OK;
}

/* The sources of added tokens. */
typedef struct adding {
    tri_tokenizer *tokenizer;
    tri_tokenizer_settings *settings;
    const tri_json *file; /* tokenizer.json; NULL */
} adding;

/* A token being added, and its object or text. */
typedef struct unnamed {
    const tri_json *object;
    tri_added_token *token;
} unnamed;

static tri_status take_name(void *to, tri_added_token *named) {
    const unnamed *other = to;
    if (!strcmp(named->content, other->token->content)) make_special(other->object, other->token);
    return TRI_OK;
}

/* In the order of their ids. */
static tri_status add_listed(const adding *a) {
    const char *path = a->settings->listed_path;
    size_t n = tri__json_object_size(a->settings->listed);
    TRI_OWNED(tri__free_at) entry *entries = malloc((n + 1) * sizeof *entries);
    if (!entries) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    TRI_TRY(sort_listed(path, a->settings->listed, entries));
    for (size_t i = 0; i < n; i++) {
        tri_added_token token;
        TRI_TRY(tri__added_token_read(path, entries[i].token, &token));
        TRI_TRY(each_named(a->settings, a->file, take_name, &(unnamed){entries[i].token, &token}));
        TRI_TRY(add(a->tokenizer, path, &token, entries[i].id));
    }
    return TRI_OK;
}

/* Without added_tokens_decoder the added tokens of tokenizer.json are listed too, by their ids. */
static tri_status list_file(tri_tokenizer_settings *s, const char *path, const tri_json *list) {
    tri__json_items(list, each) {
        const char *id = TRI_TEXT(32, "%lld", (long long)tri__whole_in(each, "id"));
        if (tri__json_set(s->listed, id, each)) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    return list ? tri__path_join(s->listed_path, "", path) : TRI_OK;
}

/* Adds a token that no file lists. */
static tri_status add_unlisted(void *to, tri_added_token *token) {
    const adding *a = to;
    const tri_added_tokens *added = &a->tokenizer->added;
    const tri_added_token *before = tri__added_tokens_find(added, token->content);
    return before && before < added->all + a->settings->n_listed ? TRI_OK
                                                                 : add(a->tokenizer, a->settings->path, token, -1);
}

/* Named tokens are special, even if a file lists them otherwise, so that saving and loading gives the same
 * tokenizer. */
static tri_status mark_special(void *to, tri_added_token *named) {
    tri_added_tokens *added = to;
    for (int i = 0; i < added->n; i++)
        if (!strcmp(added->all[i].content, named->content)) added->all[i].special = 1;
    return TRI_OK;
}

tri_status tri__tokenizer_add_tokens(tri_tokenizer *tokenizer, tri_tokenizer_settings *s, const char *path,
                                     const tri_json *file) {
    const tri_json *list = tri__json_get(file, "added_tokens"), *extras = tri__tokenizer_extras(s->config);
    tri_added_token token;
    adding a = {tokenizer, s, file};
    tokenizer->size = tokenizer->vocabulary.n;
    if (s->class == TRI_CLASS_FILE) TRI_TRY(add_file(tokenizer, path, list));
    if (!s->decided) TRI_TRY(list_file(s, path, list));
    TRI_TRY(add_listed(&a));
    s->n_listed = tokenizer->added.n;
    TRI_TRY(each_named(s, file, add_unlisted, &a));
    for (size_t i = 0; i < tri__json_size(extras); i++) {
        const tri_json *extra = tri__json_at(extras, i);
        TRI_TRY(read_special(s->path, "an additional special token", extra, 0, &token));
        TRI_TRY(each_named(s, file, take_name, &(unnamed){extra, &token}));
        TRI_TRY(add_unlisted(&a, &token));
    }
    TRI_TRY(each_named(s, file, mark_special, &tokenizer->added));
    return tri__added_tokens_sort(&tokenizer->added, path, &tokenizer->normaliser);
}

/* A special token as its text: its other properties are in added_tokens_decoder. */
static tri_json *text_of(tri_json *value) {
    tri_json *content = tri__json_is_object(value) ? tri__json_get(value, "content") : NULL;
    return tri__json_incref(content ? content : value);
}

/* The same keys, or indices, with their tokens as texts. */
static tri_json *texts_of(const tri_json *extras) {
    tri_json *out = tri__json_is_array(extras) ? tri__json_array() : tri__json_object();
    tri__json_items(extras, value) tri__json_append_new(out, text_of(value));
    tri__json_members(extras, m) tri__json_set_new(out, m->key, text_of(m->value));
    return out;
}

static int set_texts(tri_json *config) {
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    tri__json_members(config, m) /* existing keys: none moves; an object that is no token stays one */
        if ((tri__tokenizer_is_named(m->key) || is_own_name(m->key, m->value, 1)) &&
            tri__json_set_new(config, m->key, text_of(m->value)))
            return -1;
    for (int i = 0; i < 2; i++) {
        tri_json *value = tri__json_get(config, lists[i]);
        if ((tri__json_is_array(value) || tri__json_is_object(value)) &&
            tri__json_set_new(config, lists[i], texts_of(value)))
            return -1;
    }
    return 0;
}

static int set_decoder(tri_json *config, const tri_added_tokens *added) {
    tri_json *decoder = tri__json_object();
    int failed = !decoder;
    for (int i = 0; i < added->n && !failed; i++) {
        const tri_added_token *token = &added->all[i];
        failed = tri__json_set_new(decoder, TRI_TEXT(16, "%d", token->id),
                                   tri__json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", token->content, "lstrip",
                                                  token->lstrip, "normalized", token->normalized, "rstrip",
                                                  token->rstrip, "single_word", token->single_word, "special",
                                                  token->special));
    }
    return tri__json_set_new(config, "added_tokens_decoder", decoder) || failed;
}

tri_status tri__tokenizer_keep_config(tri_tokenizer *tokenizer, tri_tokenizer_settings *s) {
    tri_json *config = s->config;
    int failed = set_texts(config) || set_decoder(config, &tokenizer->added) ||
                 tri__json_set_new(config, "tokenizer_class", tri__json_string(tri__tokenizer_class_name(s->class))) ||
                 tri__json_set_new(config, "truncation_side", tri__json_string(tokenizer->cut_left ? "left" : "right"));
    char *text = failed ? NULL : tri__json_text(config, TRI_JSON_INDENT(2) | TRI_JSON_SORT_KEYS);
    return tri__tokenizer_keep(tokenizer, "tokenizer_config.json", text, text ? strlen(text) : 0);
}
