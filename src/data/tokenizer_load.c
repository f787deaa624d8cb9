/* tokenizer_load.c - a Hugging Face tokenizer folder: tokenizer.json, or a vocabulary with tokenizer_config.json, or a vocabulary alone.
 * What is read is kept, with what was assumed written out: saving writes that, and its hash is the tokenizer's. */
#include "data/tokenizer_parts.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { HASH_VERSION = 1 }; /* goes up when the same files give other ids than before */

tri_status tri__tokenizer_keep(tri_tokenizer *tokenizer, const char *name, char *text, size_t size) {
    TRI_ASSERT(tokenizer->files < TRI_TOKENIZER_FILES);
    tokenizer->file[tokenizer->files++] = (tri_tokenizer_file){name, text, size};
    return text ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", name);
}

tri_status tri__tokenizer_save(const tri_tokenizer *tokenizer, const char *folder) {
    TRI_TRY(tri__folder_make(folder));
    for (int i = 0; i < tokenizer->files; i++) {
        char path[TRI_PATH_MAX];
        TRI_TRY(tri__path_join(path, folder, tokenizer->file[i].name));
        TRI_TRY(tri__file_write(path, tokenizer->file[i].text, tokenizer->file[i].size));
    }
    return TRI_OK;
}

uint64_t tri__tokenizer_hash(const tri_tokenizer *tokenizer) {
    uint64_t hash = HASH_VERSION;
    for (int i = 0; i < tokenizer->files; i++) {
        hash = XXH3_64bits_withSeed(tokenizer->file[i].name, strlen(tokenizer->file[i].name), hash);
        hash = XXH3_64bits_withSeed(tokenizer->file[i].text, tokenizer->file[i].size, hash);
    }
    return hash;
}

static tri_status read_flag(const json_t *config, const char *path, const char *key, int *flag) {
    const json_t *value = json_object_get(config, key);
    if (!value || json_is_null(value)) return TRI_OK;
    if (!json_is_boolean(value)) return tri__fail(TRI_DATA, "%s: %s must be true or false", path, key);
    *flag = json_is_true(value);
    return TRI_OK;
}

/* A special token is its text, or an object with it as `content`; where the configuration has none, `otherwise`. The text stays the
 * configuration's. */
static tri_status read_special(const json_t *config, const char *path, const char *key, const char *otherwise, tri_added_token *token) {
    const json_t *value = json_object_get(config, key);
    *token = (tri_added_token){.content = (char *)otherwise, .id = -1, .special = 1};
    if (json_is_object(value)) {
        TRI_TRY(tri__added_token_read(path, value, token));
        token->special = 1;
        token->normalized = json_is_true(json_object_get(value, "normalized"));
    } else if (json_is_string(value)) {
        token->content = (char *)json_string_value(value);
    } else if (value && !json_is_null(value)) {
        return tri__fail(TRI_DATA, "%s: %s must be a text that is not empty", path, key);
    }
    return *token->content ? TRI_OK : tri__fail(TRI_DATA, "%s: %s must be a text that is not empty", path, key);
}

/* Looks a special token up and adds it; *id -1 when it is no piece and need not be one. */
static tri_status add_special(tri_tokenizer *tokenizer, const json_t *config, const char *path, const char *vocabulary,
                              const tri_special *special, int32_t *id) {
    tri_added_token token;
    TRI_TRY(read_special(config, path, special->key, special->name, &token));
    *id = token.id = tri__vocabulary_named(&tokenizer->vocabulary, token.content);
    if (token.id >= 0) return tri__added_tokens_add(&tokenizer->added, path, &token);
    if (!special->needed) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: the special token %.80s is missing; it must be one of the pieces", vocabulary, token.content);
}

/* "added_tokens_decoder": {"50264": {"content": "<mask>", "lstrip": true}}. Without tokenizer.json they must be pieces. */
static tri_status add_listed(tri_tokenizer *tokenizer, const json_t *config, const char *path) {
    const char *key;
    json_t *each;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), key, each) {
        tri_added_token token;
        TRI_TRY(tri__added_token_read(path, each, &token));
        token.id = tri__vocabulary_named(&tokenizer->vocabulary, token.content);
        char id[16];
        snprintf(id, sizeof id, "%d", token.id);
        if (strcmp(id, key))
            return tri__fail(TRI_DATA, "%s: the added token \"%.80s\" is not piece %.16s of the vocabulary; such a folder needs a "
                             "tokenizer.json", path, token.content, key);
        TRI_TRY(tri__added_tokens_add(&tokenizer->added, path, &token));
    }
    return TRI_OK;
}

/* The released models say it in their names; "cased" is also inside "uncased". */
static int name_says_cased(const char *folder) {
    char full[TRI_PATH_MAX];
    if (!tri__path_real(folder, full)) return 0;
    const char *slash = strrchr(full, '/');
    const char *name = slash ? slash + 1 : full;
    return strstr(name, "cased") && !strstr(name, "uncased");
}

/* Keeps the configuration with everything that was assumed written into it. */
static tri_status keep_config(tri_tokenizer *tokenizer, json_t *config) {
    char *text = json_dumps(config, JSON_INDENT(2));
    return tri__tokenizer_keep(tokenizer, "tokenizer_config.json", text, text ? strlen(text) : 0);
}

static tri_status build_wordpiece(tri_tokenizer *tokenizer, const char *folder, const char *vocabulary, const char *path, json_t *config,
                                  int assumed) {
    tri_bert_rules rules = {.clean_text = 1, .split_chinese = 1, .lower_case = assumed ? !name_says_cased(folder) : 1};
    int32_t id[TRI_TOKENS];
    char count[32];
    TRI_TRY(read_flag(config, path, "clean_text", &rules.clean_text));
    TRI_TRY(read_flag(config, path, "do_lower_case", &rules.lower_case));
    rules.strip_accents = rules.lower_case;
    TRI_TRY(read_flag(config, path, "strip_accents", &rules.strip_accents));
    TRI_TRY(read_flag(config, path, "tokenize_chinese_chars", &rules.split_chinese));
    for (int i = 0; i < TRI_TOKENS; i++)
        TRI_TRY(add_special(tokenizer, config, path, vocabulary, &tri__bert_specials[i], &id[i]));
    TRI_ASSERT(tri__normaliser_add_bert(&tokenizer->normaliser, rules));
    tokenizer->pre_tokenizer.step[tokenizer->pre_tokenizer.n++].kind = TRI_SPLIT_BERT;
    tokenizer->wordpiece = (tri_wordpiece){id[TRI_TOKEN_UNK], TRI_WORD_CHARS};
    tri__template_bert(id[TRI_TOKEN_CLS], id[TRI_TOKEN_SEP], 1, 1, &tokenizer->one, &tokenizer->two);
    snprintf(tokenizer->describe, sizeof tokenizer->describe, "WordPiece, %s pieces, %s%s%s%s",
             tri__text_count(tokenizer->vocabulary.n, count), rules.lower_case ? "uncased" : "cased",
             rules.strip_accents == rules.lower_case ? "" : rules.strip_accents ? ", accents stripped" : ", accents kept",
             rules.split_chinese ? "" : ", Chinese characters not split",
             assumed ? " (assumed from the folder's name: it has no tokenizer_config.json)" : "");
    int failed = json_object_set_new(config, "do_lower_case", json_boolean(rules.lower_case)) ||
                 json_object_set_new(config, "strip_accents", json_boolean(rules.strip_accents)) ||
                 json_object_set_new(config, "tokenize_chinese_chars", json_boolean(rules.split_chinese));
    return failed ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : TRI_OK;
}

/* RoBERTa puts <s> and </s> around a text, GPT-2 nothing. */
static int is_roberta(const tri_tokenizer *tokenizer, const json_t *config) {
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    if (class && strstr(class, "Roberta")) return 1;
    if (class && strstr(class, "GPT2")) return 0;
    return tri__vocabulary_named(&tokenizer->vocabulary, "<s>") >= 0 && tri__vocabulary_named(&tokenizer->vocabulary, "</s>") >= 0;
}

static tri_status build_bpe(tri_tokenizer *tokenizer, const char *vocabulary, const char *path, json_t *config) {
    static const tri_special roberta[] = {{"cls_token", "<s>", 1}, {"sep_token", "</s>", 1}, {"bos_token", "<s>", 0},
                                          {"eos_token", "</s>", 0}, {"unk_token", "<unk>", 0}, {"pad_token", "<pad>", 0},
                                          {"mask_token", "<mask>", 0}};
    static const tri_special gpt2[] = {{"bos_token", "<|endoftext|>", 0}, {"eos_token", "<|endoftext|>", 0},
                                       {"unk_token", "<|endoftext|>", 0}, {"pad_token", "<|endoftext|>", 0}};
    int whole = is_roberta(tokenizer, config), space = 0, bos = 0;
    int n = whole ? (int)(sizeof roberta / sizeof *roberta) : (int)(sizeof gpt2 / sizeof *gpt2);
    int32_t id[8] = {-1, -1};
    char count[32];
    TRI_TRY(read_flag(config, path, "add_prefix_space", &space));
    TRI_TRY(read_flag(config, path, "add_bos_token", &bos));
    if (bos && !whole) return tri__fail(TRI_USAGE, "%s: add_bos_token is not known here; such a folder needs a tokenizer.json", path);
    for (int i = 0; i < n; i++) TRI_TRY(add_special(tokenizer, config, path, vocabulary, whole ? &roberta[i] : &gpt2[i], &id[i]));
    tri_pre_tokenizer *pre = &tokenizer->pre_tokenizer;
    pre->step[pre->n].kind = TRI_SPLIT_BYTE_LEVEL;
    pre->step[pre->n].pattern = 1;
    pre->step[pre->n++].prefix_space = space;
    tri__template_bert(whole ? id[0] : -1, whole ? id[1] : -1, 2, !whole, &tokenizer->one, &tokenizer->two);
    tokenizer->is_bpe = 1;
    snprintf(tokenizer->describe, sizeof tokenizer->describe, "byte-level BPE, %s pieces, %s%s",
             tri__text_count(tokenizer->vocabulary.n, count), whole ? "as RoBERTa" : "as GPT-2", space ? ", a blank in front" : "");
    int failed = json_object_set_new(config, "add_prefix_space", json_boolean(space)) ||
                 json_object_set_new(config, "tokenizer_class", json_string(whole ? "RobertaTokenizer" : "GPT2Tokenizer"));
    return failed ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : TRI_OK;
}

/* vocab.txt, kept as it is. */
static tri_status read_lines(tri_tokenizer *tokenizer, const char *path) {
    char *text;
    size_t size;
    TRI_TRY(tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size));
    TRI_TRY(tri__tokenizer_keep(tokenizer, "vocab.txt", text, size));
    return tri__vocabulary_read_lines(path, text, size, "##", &tokenizer->vocabulary);
}

/* vocab.json and merges.txt, kept as they are. */
static tri_status read_bpe(tri_tokenizer *tokenizer, const char *folder, const char *path) {
    char merges[TRI_PATH_MAX], *text;
    size_t size;
    json_t *root;
    TRI_TRY(tri__path_join(merges, folder, "merges.txt"));
    TRI_TRY(tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size));
    TRI_TRY(tri__tokenizer_keep(tokenizer, "vocab.json", text, size));
    TRI_TRY(tri__json_parse(text, size, path, TRI_DATA, &root));
    tri_status status = tri__vocabulary_read_json(path, root, size, "", &tokenizer->vocabulary);
    json_decref(root);
    TRI_TRY(status);
    TRI_TRY(tri__file_read(merges, TRI_LIMIT_JSON_FILE, &text, &size));
    TRI_TRY(tri__tokenizer_keep(tokenizer, "merges.txt", text, size));
    return tri__bpe_read_lines(merges, text, size, 1, &tokenizer->vocabulary, &tokenizer->bpe);
}

/* A vocabulary, and tokenizer_config.json where it is there. */
static tri_status load_plain(tri_tokenizer *tokenizer, const char *folder, const char *vocabulary, int is_bpe) {
    char path[TRI_PATH_MAX];
    json_t *config = NULL;
    TRI_TRY(is_bpe ? read_bpe(tokenizer, folder, vocabulary) : read_lines(tokenizer, vocabulary));
    TRI_TRY(tri__path_join(path, folder, "tokenizer_config.json"));
    int assumed = !tri__is_file(path);
    if (!assumed) TRI_TRY(tri__json_load(path, TRI_DATA, &config));
    else if (!(config = json_object())) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    tokenizer->size = tokenizer->vocabulary.n;
    tri_status status = is_bpe ? build_bpe(tokenizer, vocabulary, path, config)
                               : build_wordpiece(tokenizer, folder, vocabulary, path, config, assumed);
    if (status == TRI_OK) status = add_listed(tokenizer, config, path);
    if (status == TRI_OK) status = tri__added_tokens_sort(&tokenizer->added, path, &tokenizer->normaliser);
    if (status == TRI_OK) status = keep_config(tokenizer, config);
    json_decref(config);
    return status;
}

static tri_status load(tri_tokenizer *tokenizer, const char *folder) {
    static const char *const names[] = {"tokenizer.json", "vocab.txt", "vocab.json"};
    char path[TRI_PATH_MAX], count[32];
    if (!tri__is_folder(folder))
        return tri__fail(TRI_NOINPUT,
                         "%s: no such tokenizer folder; it should hold tokenizer.json, vocab.txt, or vocab.json and merges.txt",
                         folder);
    int found = 0;
    for (; found < 3; found++) {
        TRI_TRY(tri__path_join(path, folder, names[found]));
        if (tri__is_file(path)) break;
    }
    if (found == 3)
        return tri__fail(TRI_NOINPUT, "%s: there is neither tokenizer.json nor vocab.txt nor vocab.json in this folder", folder);
    if (found > 0) {
        TRI_TRY(load_plain(tokenizer, folder, path, found == 2));
    } else {
        TRI_TRY(tri__tokenizer_read_json(tokenizer, path));
        snprintf(tokenizer->describe, sizeof tokenizer->describe, "%s, %s pieces, by tokenizer.json",
                 tokenizer->is_bpe ? "BPE" : "WordPiece", tri__text_count(tokenizer->size, count));
    }
    return tri__word_cache_open(tokenizer->vocabulary.n, &tokenizer->cache);
}

tri_status tri__tokenizer_load(const char *folder, tri_tokenizer **out) {
    *out = NULL;
    tri_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    tri_status status = load(tokenizer, folder);
    if (status == TRI_OK) *out = tokenizer;
    else tri__tokenizer_free(tokenizer);
    return status;
}
