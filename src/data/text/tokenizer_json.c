/* tokenizer_json.c - a tokenizer.json of Hugging Face, read into the parts of a tokenizer. Components have the form
 * {"type": name, ...}; a table row reads each; unknown names are refused. The decoder does not affect ids and is
 * ignored. */
#include "data/text/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NESTED = 8 }; /* Sequences in Sequences */

/* A component of one kind: reads `it` into the tokenizer. */
typedef struct component {
    const char *type;
    tri_status (*read)(tri_tokenizer *tokenizer, const char *path, const tri_json *it);
} component;

static tri_status read_flag(const char *path, const tri_json *it, const char *key, int otherwise, int *flag) {
    const tri_json *value = tri__json_get(it, key);
    *flag = otherwise;
    if (!value || tri__json_is_null(value)) return TRI_OK;
    if (!tri__json_is_boolean(value)) return tri__fail(TRI_DATA, "%s: %s must be true or false", path, key);
    *flag = tri__json_is_true(value);
    return TRI_OK;
}

/* "" if null or missing. */
static tri_status read_text(const char *path, const tri_json *it, const char *key, const char **text) {
    const tri_json *value = tri__json_get(it, key);
    *text = "";
    if (!value || tri__json_is_null(value)) return TRI_OK;
    if (!tri__json_is_string(value)) return tri__fail(TRI_DATA, "%s: %s must be a text", path, key);
    *text = tri__json_string_value(value);
    return TRI_OK;
}

/* Dispatches on the type's row; `what` and the rows' names are for the message. The `list` of a Sequence is read in
 * order. */
static tri_status read_component(tri_tokenizer *tokenizer, const char *path, const tri_json *it, const component *rows,
                                 const char *what, const char *list, int depth) {
    const char *type = tri__json_string_value(tri__json_get(it, "type"));
    if (!it || tri__json_is_null(it)) return TRI_OK;
    if (!type) return tri__fail(TRI_DATA, "%s: %s has no type", path, what);
    if (!strcmp(type, "Sequence")) {
        const tri_json *parts = tri__json_get(it, list);
        size_t i;
        tri_json *part;
        if (!tri__json_is_array(parts))
            return tri__fail(TRI_DATA, "%s: %s: a Sequence needs an array of %s", path, what, list);
        if (depth == NESTED) return tri__fail(TRI_DATA, "%s: %s: Sequences nest deeper than %d", path, what, NESTED);
        tri__json_each(parts, i, part) TRI_TRY(read_component(tokenizer, path, part, rows, what, list, depth + 1));
        return TRI_OK;
    }
    char names[256] = "Sequence";
    for (const component *row = rows; row->type; row++) {
        if (!strcmp(row->type, type)) return row->read(tokenizer, path, it);
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, ", %s", row->type);
    }
    return tri__fail(TRI_USAGE, "%s: %s %.80s is not known here; known are %s", path, what, type, names);
}

static tri_status add_step(tri_tokenizer *tokenizer, const char *path, tri_norm_step kind, int left, int right) {
    if (tri__normaliser_add(&tokenizer->normaliser, kind, left, right)) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s: the normalizer has more than %d steps", path, TRI_NORM_STEPS);
}

tri_status tri__tokenizer_bert_rules(const char *path, const tri_json *it, tri_bert_rules *rules) {
    TRI_TRY(read_flag(path, it, "clean_text", 1, &rules->clean_text));
    TRI_TRY(read_flag(path, it, "handle_chinese_chars", 1, &rules->split_chinese));
    TRI_TRY(read_flag(path, it, "lowercase", 1, &rules->lower_case));
    return read_flag(path, it, "strip_accents", rules->lower_case, &rules->strip_accents);
}

static tri_status norm_bert(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    tri_bert_rules rules;
    TRI_TRY(tri__tokenizer_bert_rules(path, it, &rules));
    if (tri__normaliser_add_bert(&tokenizer->normaliser, rules)) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s: the normalizer has more than %d steps", path, TRI_NORM_STEPS);
}

static tri_status norm_strip(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    int left, right;
    TRI_TRY(read_flag(path, it, "strip_left", 1, &left));
    TRI_TRY(read_flag(path, it, "strip_right", 1, &right));
    return add_step(tokenizer, path, TRI_NORM_STRIP, left, right);
}

#define PLAIN(name, kind) \
    static tri_status norm_##name(tri_tokenizer *tokenizer, const char *path, const tri_json *it) { \
        (void)it; \
        return add_step(tokenizer, path, kind, 0, 0); \
    }
PLAIN(lower, TRI_NORM_LOWER)
PLAIN(nfd, TRI_NORM_NFD)
PLAIN(nfc, TRI_NORM_NFC)
PLAIN(nfkd, TRI_NORM_NFKD)
PLAIN(nfkc, TRI_NORM_NFKC)
PLAIN(marks, TRI_NORM_MARKS)

static const component normalizers[] = {
    {"BertNormalizer", norm_bert},
    {"Lowercase", norm_lower},
    {"NFD", norm_nfd},
    {"NFC", norm_nfc},
    {"NFKD", norm_nfkd},
    {"NFKC", norm_nfkc},
    {"StripAccents", norm_marks},
    {"Strip", norm_strip},
    {0},
};

static tri_status add_split(tri_tokenizer *tokenizer, const char *path, tri_split kind) {
    tri_pre_tokenizer *pre = &tokenizer->pre_tokenizer;
    if (pre->n == TRI_SPLIT_STEPS)
        return tri__fail(TRI_USAGE, "%s: the pre_tokenizer has more than %d steps", path, TRI_SPLIT_STEPS);
    if (pre->n && pre->step[pre->n - 1].kind == TRI_SPLIT_BYTE_LEVEL)
        return tri__fail(TRI_USAGE, "%s: the pre_tokenizer ByteLevel must be the last of its Sequence", path);
    pre->step[pre->n++].kind = kind;
    return TRI_OK;
}

static tri_status split_bert(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    (void)it;
    return add_split(tokenizer, path, TRI_SPLIT_BERT);
}

static tri_status split_words(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    (void)it;
    return add_split(tokenizer, path, TRI_SPLIT_WORDS);
}

static tri_status split_blanks(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    (void)it;
    return add_split(tokenizer, path, TRI_SPLIT_BLANKS);
}

static tri_status split_punctuation(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    const char *name;
    TRI_TRY(read_text(path, it, "behavior", &name));
    TRI_TRY(add_split(tokenizer, path, TRI_SPLIT_PUNCTUATION));
    if (!*name) name = names[0];
    for (int i = 0; i < 5; i++) {
        if (strcmp(name, names[i])) continue;
        tokenizer->pre_tokenizer.step[tokenizer->pre_tokenizer.n - 1].behaviour = (tri_behaviour)i;
        return TRI_OK;
    }
    return tri__fail(TRI_USAGE, "%s: the behavior %.80s of Punctuation is not known here", path, name);
}

static tri_status split_byte_level(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    int space, pattern;
    TRI_TRY(read_flag(path, it, "add_prefix_space", 1, &space));
    TRI_TRY(read_flag(path, it, "use_regex", 1, &pattern));
    TRI_TRY(add_split(tokenizer, path, TRI_SPLIT_BYTE_LEVEL));
    tri_pre_tokenizer *pre = &tokenizer->pre_tokenizer;
    pre->step[pre->n - 1].prefix_space = space;
    pre->step[pre->n - 1].pattern = pattern;
    return TRI_OK;
}

static const component pre_tokenizers[] = {
    {"BertPreTokenizer", split_bert},   {"Whitespace", split_words},     {"WhitespaceSplit", split_blanks},
    {"Punctuation", split_punctuation}, {"ByteLevel", split_byte_level}, {0},
};

static tri_status model_wordpiece(tri_tokenizer *tokenizer, const char *path, const tri_json *it, size_t size,
                                  int byte_level) {
    const char *prefix, *unknown;
    const tri_json *most = tri__json_get(it, "max_input_chars_per_word");
    tri_json_int chars = most ? tri__json_integer_value(most) : TRI_WORD_CHARS;
    if (byte_level)
        return tri__fail(TRI_USAGE, "%s: WordPiece does not go with the pre_tokenizer ByteLevel here", path);
    if (chars < 1 || chars > TRI_WORD_CHARS_MAX)
        return tri__fail(TRI_DATA, "%s: max_input_chars_per_word must be 1 to %d", path, TRI_WORD_CHARS_MAX);
    TRI_TRY(read_text(path, it, "continuing_subword_prefix", &prefix));
    TRI_TRY(read_text(path, it, "unk_token", &unknown));
    TRI_TRY(tri__vocabulary_read_json(path, tri__json_get(it, "vocab"), size, prefix, &tokenizer->vocabulary));
    tokenizer->wordpiece = (tri_wordpiece){tri__vocabulary_named(&tokenizer->vocabulary, unknown), (int)chars};
    if (tokenizer->wordpiece.unknown >= 0) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: the unknown token \"%.80s\" is missing; it must be one of the pieces", path,
                     unknown);
}

static tri_status model_bpe(tri_tokenizer *tokenizer, const char *path, const tri_json *it, size_t size,
                            int byte_level) {
    const char *prefix, *suffix, *unknown;
    int fuse, fallback, whole;
    const tri_json *dropout = tri__json_get(it, "dropout");
    TRI_TRY(read_text(path, it, "continuing_subword_prefix", &prefix));
    TRI_TRY(read_text(path, it, "end_of_word_suffix", &suffix));
    TRI_TRY(read_text(path, it, "unk_token", &unknown));
    TRI_TRY(read_flag(path, it, "fuse_unk", 0, &fuse));
    TRI_TRY(read_flag(path, it, "byte_fallback", 0, &fallback));
    TRI_TRY(read_flag(path, it, "ignore_merges", 0, &whole));
    if (dropout && !tri__json_is_null(dropout) && tri__json_number_value(dropout) != 0)
        return tri__fail(TRI_USAGE, "%s: BPE with dropout gives other ids each time; take it out", path);
    if (*prefix || *suffix || fallback)
        return tri__fail(TRI_USAGE, "%s: %s of BPE is not known here", path,
                         *prefix ? "continuing_subword_prefix" : *suffix ? "end_of_word_suffix" : "byte_fallback");
    TRI_TRY(tri__vocabulary_read_json(path, tri__json_get(it, "vocab"), size, "", &tokenizer->vocabulary));
    TRI_TRY(tri__bpe_read_json(path, tri__json_get(it, "merges"), byte_level, &tokenizer->vocabulary, &tokenizer->bpe));
    tokenizer->is_bpe = 1;
    tokenizer->bpe.unknown = *unknown ? tri__vocabulary_named(&tokenizer->vocabulary, unknown) : -1;
    tokenizer->bpe.fuse_unknown = fuse;
    tokenizer->bpe.whole_words = whole;
    if (!*unknown || tokenizer->bpe.unknown >= 0) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: the unknown token \"%.80s\" is missing; it must be one of the pieces", path,
                     unknown);
}

static tri_status read_model(tri_tokenizer *tokenizer, const char *path, const tri_json *it, size_t size) {
    const char *type = tri__json_string_value(tri__json_get(it, "type"));
    const tri_pre_tokenizer *pre = &tokenizer->pre_tokenizer;
    int byte_level = pre->n && pre->step[pre->n - 1].kind == TRI_SPLIT_BYTE_LEVEL;
    if (!tri__json_is_object(it)) return tri__fail(TRI_DATA, "%s: there is no model", path);
    if (!type)
        type = tri__json_get(it, "merges")                     ? "BPE"
               : tri__json_get(it, "max_input_chars_per_word") ? "WordPiece"
                                                                 : "without a type";
    if (!strcmp(type, "WordPiece")) return model_wordpiece(tokenizer, path, it, size, byte_level);
    if (!strcmp(type, "BPE")) return model_bpe(tokenizer, path, it, size, byte_level);
    return tri__fail(TRI_USAGE, "%s: model %.80s is not known here; known are WordPiece and BPE", path, type);
}

tri_status tri__added_token_read(const char *path, const tri_json *object, tri_added_token *token) {
    const tri_json *content = tri__json_get(object, "content");
    *token = (tri_added_token){.id = -1};
    if (!tri__json_is_string(content)) return tri__fail(TRI_DATA, "%s: an added token has no content", path);
    token->content = (char *)tri__json_string_value(content);
    TRI_TRY(read_flag(path, object, "special", 0, &token->special));
    TRI_TRY(read_flag(path, object, "single_word", 0, &token->single_word));
    TRI_TRY(read_flag(path, object, "lstrip", 0, &token->lstrip));
    TRI_TRY(read_flag(path, object, "rstrip", 0, &token->rstrip));
    return read_flag(path, object, "normalized", !token->special, &token->normalized);
}

tri_status tri__tokenizer_read_json(tri_tokenizer *tokenizer, const char *path, const tri_json *root, size_t size) {
    const tri_json *model = tri__json_get(root, "model");
    TRI_TRY(read_component(tokenizer, path, tri__json_get(root, "normalizer"), normalizers, "normalizer", "normalizers",
                           0));
    TRI_TRY(read_component(tokenizer, path, tri__json_get(root, "pre_tokenizer"), pre_tokenizers, "pre_tokenizer",
                           "pretokenizers", 0));
    TRI_TRY(read_model(tokenizer, path, model, size));
    tokenizer->next = (int)tri__json_object_size(tri__json_get(model, "vocab"));
    return TRI_OK;
}
