/* tokenizer_json.c - a tokenizer.json of Hugging Face, read into the parts of a tokenizer. Components have the form
 * {"type": name, ...}; a table row reads each; unknown names are refused. The decoder does not affect ids and is
 * ignored. */
#include "data/text/tokenizer_parts.h"

enum { NESTED = 8 }; /* Sequences in Sequences */

/* A component of a type, and the step that it is: a `read` of its own adds it with its settings, else it has none. */
typedef struct component {
    const char *type;
    int step; /* tri_norm_step or tri_split */
    tri_status (*read)(tri_tokenizer *tokenizer, const char *path, const tri_json *it);
} component;

/* The components of one kind. */
typedef struct components {
    const char *what, *list; /* for messages; the key of a Sequence's list */
    tri_status (*add)(tri_tokenizer *tokenizer, const char *path, int step);
    component row[13]; /* ends with a NULL type */
} components;

tri_status tri__tokenizer_flag(const char *path, const tri_json *it, const char *key, int otherwise, int *flag) {
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

/* Adds what the type's row says. The list of a Sequence is read in order. */
static tri_status read_component(tri_tokenizer *tokenizer, const char *path, const tri_json *it,
                                 const components *of, int depth) {
    const char *type = tri__text_in(it, "type");
    if (!it || tri__json_is_null(it)) return TRI_OK;
    if (!type) return tri__fail(TRI_DATA, "%s: %s has no type", path, of->what);
    if (!strcmp(type, "Sequence")) {
        const tri_json *parts = tri__json_get(it, of->list);
        if (!tri__json_is_array(parts))
            return tri__fail(TRI_DATA, "%s: %s: a Sequence needs an array of %s", path, of->what, of->list);
        if (depth == NESTED)
            return tri__fail(TRI_DATA, "%s: %s: Sequences nest deeper than %d", path, of->what, NESTED);
        tri__json_items(parts, part) TRI_TRY(read_component(tokenizer, path, part, of, depth + 1));
        return TRI_OK;
    }
    char names[384] = "Sequence";
    for (const component *row = of->row; row->type; row++) {
        if (!strcmp(row->type, type))
            return row->read ? row->read(tokenizer, path, it) : of->add(tokenizer, path, row->step);
        tri__text_append(names, sizeof names, ", ", "%s", row->type);
    }
    return tri__fail(TRI_USAGE, "%s: %s %.80s is not known here; known are %s", path, of->what, type, names);
}

static tri_status too_many_steps(const char *path) {
    return tri__fail(TRI_USAGE, "%s: the normalizer has more than %d steps", path, TRI_NORM_STEPS);
}

static tri_status add_rule(tri_tokenizer *tokenizer, const char *path, tri_norm_step kind, tri_norm_rule **rule) {
    *rule = tri__normaliser_add(&tokenizer->normaliser, kind);
    return *rule ? TRI_OK : too_many_steps(path);
}

static tri_status norm_plain(tri_tokenizer *tokenizer, const char *path, int step) {
    tri_norm_rule *rule = NULL;
    return add_rule(tokenizer, path, (tri_norm_step)step, &rule);
}

tri_status tri__tokenizer_bert_rules(const char *path, const tri_json *it, tri_bert_rules *rules) {
    TRI_TRY(tri__tokenizer_flag(path, it, "clean_text", 1, &rules->clean_text));
    TRI_TRY(tri__tokenizer_flag(path, it, "handle_chinese_chars", 1, &rules->split_chinese));
    TRI_TRY(tri__tokenizer_flag(path, it, "lowercase", 1, &rules->lower_case));
    return tri__tokenizer_flag(path, it, "strip_accents", rules->lower_case, &rules->strip_accents);
}

static tri_status norm_bert(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    tri_bert_rules rules;
    TRI_TRY(tri__tokenizer_bert_rules(path, it, &rules));
    return tri__normaliser_add_bert(&tokenizer->normaliser, rules) ? TRI_OK : too_many_steps(path);
}

static tri_status norm_strip(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    tri_norm_rule *rule = NULL;
    TRI_TRY(add_rule(tokenizer, path, TRI_NORM_STRIP, &rule));
    TRI_TRY(tri__tokenizer_flag(path, it, "strip_left", 1, &rule->left));
    return tri__tokenizer_flag(path, it, "strip_right", 1, &rule->right);
}

static tri_status copy_text(const char *path, const char *text, char **copy, size_t *bytes) {
    *copy = strdup(text), *bytes = strlen(text);
    return *copy ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", path);
}

static tri_status norm_prepend(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    const char *content;
    tri_norm_rule *rule = NULL;
    TRI_TRY(read_text(path, it, "prepend", &content));
    TRI_TRY(add_rule(tokenizer, path, TRI_NORM_PREPEND, &rule));
    return copy_text(path, content, &rule->replace.content, &rule->replace.content_bytes);
}

/* {"pattern": {"String": text} or {"Regex": expression}, "content": text} */
static tri_status norm_replace(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    const tri_json *pattern = tri__json_get(it, "pattern");
    const char *text, *expression, *content;
    tri_replace_kind kind = TRI_REPLACE_TEXT;
    tri_norm_rule *rule = NULL;
    TRI_TRY(read_text(path, pattern, "String", &text));
    TRI_TRY(read_text(path, pattern, "Regex", &expression));
    TRI_TRY(read_text(path, it, "content", &content));
    if (!*text == !*expression)
        return tri__fail(TRI_DATA, "%s: the pattern of Replace must be {\"String\": text} or {\"Regex\": text}", path);
    if (*expression && !tri__replace_pattern(expression, &kind))
        return tri__fail(TRI_USAGE,
                         "%s: the regular expression %.80s of Replace is not known here; known are \" {2,}\" "
                         "and \"\\s{2,}|[\\n\\r\\t]\"", path, expression);
    TRI_TRY(add_rule(tokenizer, path, TRI_NORM_REPLACE, &rule));
    rule->replace.kind = kind;
    TRI_TRY(copy_text(path, content, &rule->replace.content, &rule->replace.content_bytes));
    return *text ? copy_text(path, text, &rule->replace.text, &rule->replace.text_bytes) : TRI_OK;
}

static tri_status norm_precompiled(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    const tri_json *value = tri__json_get(it, "precompiled_charsmap");
    tri_norm_rule *rule = NULL;
    if (!tri__json_is_string(value)) return tri__fail(TRI_DATA, "%s: precompiled_charsmap must be a text", path);
    TRI_TRY(add_rule(tokenizer, path, TRI_NORM_CHARSMAP, &rule));
    return tri__charsmap_read(path, tri__json_string_value(value), tri__json_string_length(value), &rule->map);
}

static const components normalizers = {
    "normalizer", "normalizers", norm_plain,
    {{"BertNormalizer", .read = norm_bert},
     {"Lowercase", .step = TRI_NORM_LOWER},
     {"NFD", .step = TRI_NORM_NFD},
     {"NFC", .step = TRI_NORM_NFC},
     {"NFKD", .step = TRI_NORM_NFKD},
     {"NFKC", .step = TRI_NORM_NFKC},
     {"StripAccents", .step = TRI_NORM_MARKS},
     {"Strip", .read = norm_strip},
     {"Nmt", .step = TRI_NORM_NMT},
     {"Prepend", .read = norm_prepend},
     {"Replace", .read = norm_replace},
     {"Precompiled", .read = norm_precompiled}},
};

static tri_status add_split(tri_tokenizer *tokenizer, const char *path, tri_split_rule rule) {
    tri_pre_tokenizer *pre = &tokenizer->pre_tokenizer;
    if (pre->n == TRI_SPLIT_STEPS)
        return tri__fail(TRI_USAGE, "%s: the pre_tokenizer has more than %d steps", path, TRI_SPLIT_STEPS);
    if (pre->n && pre->step[pre->n - 1].kind == TRI_SPLIT_BYTE_LEVEL)
        return tri__fail(TRI_USAGE, "%s: the pre_tokenizer ByteLevel must be the last of its Sequence", path);
    for (int i = 0; i < pre->n && rule.kind == TRI_SPLIT_BYTE_LEVEL; i++)
        if (pre->step[i].kind == TRI_SPLIT_METASPACE)
            return tri__fail(TRI_USAGE, "%s: the pre_tokenizer ByteLevel after Metaspace is not known here", path);
    pre->step[pre->n++] = rule;
    return TRI_OK;
}

static tri_status split_plain(tri_tokenizer *tokenizer, const char *path, int step) {
    return add_split(tokenizer, path, (tri_split_rule){.kind = (tri_split)step});
}

static tri_status split_punctuation(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    const char *name;
    TRI_TRY(read_text(path, it, "behavior", &name));
    for (int i = 0; i < 5; i++)
        if (!strcmp(*name ? name : names[0], names[i]))
            return add_split(tokenizer, path,
                             (tri_split_rule){.kind = TRI_SPLIT_PUNCTUATION, .behaviour = (tri_behaviour)i});
    return tri__fail(TRI_USAGE, "%s: the behavior %.80s of Punctuation is not known here", path, name);
}

static tri_status split_byte_level(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    tri_split_rule rule = {.kind = TRI_SPLIT_BYTE_LEVEL};
    TRI_TRY(tri__tokenizer_flag(path, it, "add_prefix_space", 1, &rule.prefix_space));
    TRI_TRY(tri__tokenizer_flag(path, it, "use_regex", 1, &rule.pattern));
    return add_split(tokenizer, path, rule);
}

static tri_status read_scheme(const char *path, const tri_json *it, tri_scheme *scheme) {
    static const char *const names[] = {"first", "never", "always"}; /* by tri_scheme */
    const tri_json *named = tri__json_get(it, "prepend_scheme");
    const char *name = named ? tri__json_string_value(named) : "always";
    int prefix, found = 0;
    TRI_TRY(tri__tokenizer_flag(path, it, "add_prefix_space", 1, &prefix));
    while (name && found < 3 && strcmp(name, names[found])) found++;
    if (!name || found == 3)
        return tri__fail(TRI_DATA, "%s: prepend_scheme of Metaspace must be \"first\", \"never\" or \"always\"", path);
    *scheme = (tri_scheme)found;
    if (prefix || found == TRI_SCHEME_NEVER) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: add_prefix_space of Metaspace is false, but prepend_scheme is \"%s\"", path, name);
}

static tri_status split_metaspace(tri_tokenizer *tokenizer, const char *path, const tri_json *it) {
    const char *mark;
    tri_split_rule rule = {.kind = TRI_SPLIT_METASPACE};
    size_t bytes = 0;
    const tri_pre_tokenizer *pre = &tokenizer->pre_tokenizer;
    TRI_TRY(read_text(path, it, "replacement", &mark));
    TRI_TRY(read_scheme(path, it, &rule.scheme));
    TRI_TRY(tri__tokenizer_flag(path, it, "split", 1, &rule.pattern));
    if (!*mark || tri__utf8_next(mark, strlen(mark), &bytes) < 0 || mark[bytes])
        return tri__fail(TRI_DATA, "%s: replacement of Metaspace must be one character", path);
    for (int i = 0; i < pre->n; i++)
        if (pre->step[i].kind == TRI_SPLIT_METASPACE)
            return tri__fail(TRI_USAGE, "%s: the pre_tokenizer has Metaspace twice; once is known here", path);
    if (rule.scheme == TRI_SCHEME_FIRST && tri__normaliser_drops_first(&tokenizer->normaliser))
        return tri__fail(TRI_USAGE,
                         "%s: prepend_scheme \"first\" of Metaspace after a normalizer that may drop the beginning of "
                         "a text is not known here; \"always\" and \"never\" are", path);
    memcpy(rule.mark, mark, bytes);
    rule.mark_bytes = (int)bytes;
    return add_split(tokenizer, path, rule);
}

static const components pre_tokenizers = {
    "pre_tokenizer", "pretokenizers", split_plain,
    {{"BertPreTokenizer", .step = TRI_SPLIT_BERT},
     {"Whitespace", .step = TRI_SPLIT_WORDS},
     {"WhitespaceSplit", .step = TRI_SPLIT_BLANKS},
     {"Punctuation", .read = split_punctuation},
     {"ByteLevel", .read = split_byte_level},
     {"Metaspace", .read = split_metaspace}},
};

static tri_status find_unknown(const tri_tokenizer *tokenizer, const char *path, const char *name, int32_t *id) {
    *id = tri__vocabulary_named(&tokenizer->vocabulary, name);
    if (*id >= 0) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: the unknown token \"%.80s\" is missing; it must be one of the pieces", path, name);
}

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
    tokenizer->wordpiece.max_chars = (int)chars;
    return find_unknown(tokenizer, path, unknown, &tokenizer->wordpiece.unknown);
}

static tri_status model_bpe(tri_tokenizer *tokenizer, const char *path, const tri_json *it, size_t size,
                            int byte_level) {
    const char *prefix, *suffix, *unknown;
    int fuse, fallback, whole;
    const tri_json *dropout = tri__json_get(it, "dropout");
    TRI_TRY(read_text(path, it, "continuing_subword_prefix", &prefix));
    TRI_TRY(read_text(path, it, "end_of_word_suffix", &suffix));
    TRI_TRY(read_text(path, it, "unk_token", &unknown));
    TRI_TRY(tri__tokenizer_flag(path, it, "fuse_unk", 0, &fuse));
    TRI_TRY(tri__tokenizer_flag(path, it, "byte_fallback", 0, &fallback));
    TRI_TRY(tri__tokenizer_flag(path, it, "ignore_merges", 0, &whole));
    if (dropout && !tri__json_is_null(dropout) && tri__json_number_value(dropout) != 0)
        return tri__fail(TRI_USAGE, "%s: BPE with dropout gives other ids each time; take it out", path);
    if (*prefix || *suffix || fallback)
        return tri__fail(TRI_USAGE, "%s: %s of BPE is not known here", path,
                         *prefix ? "continuing_subword_prefix" : *suffix ? "end_of_word_suffix" : "byte_fallback");
    TRI_TRY(tri__vocabulary_read_json(path, tri__json_get(it, "vocab"), size, "", &tokenizer->vocabulary));
    TRI_TRY(tri__bpe_read_json(path, tri__json_get(it, "merges"), byte_level, &tokenizer->vocabulary, &tokenizer->bpe));
    tokenizer->model = TRI_MODEL_BPE;
    tokenizer->bpe.fuse_unknown = fuse;
    tokenizer->bpe.whole_words = whole;
    return *unknown ? find_unknown(tokenizer, path, unknown, &tokenizer->bpe.unknown) : TRI_OK;
}

static tri_status model_unigram(tri_tokenizer *tokenizer, const char *path, const tri_json *it, int exact,
                                int byte_level) {
    static const char *const sampling[] = {"alpha", "nbest_size", "dropout"};
    int fallback;
    TRI_TRY(tri__tokenizer_flag(path, it, "byte_fallback", 0, &fallback));
    for (int i = 0; i < 3; i++) {
        const tri_json *value = tri__json_get(it, sampling[i]);
        if (value && !tri__json_is_null(value))
            return tri__fail(TRI_USAGE, "%s: %s of Unigram is not known here; take it out", path, sampling[i]);
    }
    if (byte_level) return tri__fail(TRI_USAGE, "%s: Unigram does not go with the pre_tokenizer ByteLevel here", path);
    tokenizer->model = TRI_MODEL_UNIGRAM;
    TRI_TRY(tri__unigram_read_json(path, tri__json_get(it, "vocab"), exact, &tokenizer->vocabulary,
                                   &tokenizer->unigram));
    return tri__unigram_finish(path, tri__json_get(it, "unk_id"), fallback, &tokenizer->vocabulary,
                               &tokenizer->unigram);
}

static tri_status read_model(tri_tokenizer *tokenizer, const char *path, const tri_json *it, size_t size, int exact) {
    const char *type = tri__text_in(it, "type");
    const tri_pre_tokenizer *pre = &tokenizer->pre_tokenizer;
    int byte_level = pre->n && pre->step[pre->n - 1].kind == TRI_SPLIT_BYTE_LEVEL;
    if (!tri__json_is_object(it)) return tri__fail(TRI_DATA, "%s: there is no model", path);
    if (!type)
        type = tri__json_get(it, "merges")                     ? "BPE"
               : tri__json_get(it, "max_input_chars_per_word") ? "WordPiece"
               : tri__json_get(it, "unk_id")                   ? "Unigram"
                                                               : "without a type";
    if (!strcmp(type, "WordPiece")) return model_wordpiece(tokenizer, path, it, size, byte_level);
    if (!strcmp(type, "BPE")) return model_bpe(tokenizer, path, it, size, byte_level);
    if (!strcmp(type, "Unigram")) return model_unigram(tokenizer, path, it, exact, byte_level);
    return tri__fail(TRI_USAGE, "%s: model %.80s is not known here; known are WordPiece, BPE and Unigram", path, type);
}

tri_status tri__added_token_read(const char *path, const tri_json *object, tri_added_token *token) {
    const tri_json *content = tri__json_get(object, "content");
    *token = (tri_added_token){.id = -1};
    if (!tri__json_is_string(content)) return tri__fail(TRI_DATA, "%s: an added token has no content", path);
    token->content = (char *)tri__json_string_value(content);
    TRI_TRY(tri__tokenizer_flag(path, object, "special", 0, &token->special));
    TRI_TRY(tri__tokenizer_flag(path, object, "single_word", 0, &token->single_word));
    TRI_TRY(tri__tokenizer_flag(path, object, "lstrip", 0, &token->lstrip));
    TRI_TRY(tri__tokenizer_flag(path, object, "rstrip", 0, &token->rstrip));
    return tri__tokenizer_flag(path, object, "normalized", !token->special, &token->normalized);
}

tri_status tri__tokenizer_read_json(tri_tokenizer *tokenizer, const char *path, const tri_json *root, size_t size,
                                    int exact) {
    const tri_json *model = tri__json_get(root, "model"), *vocabulary = tri__json_get(model, "vocab");
    TRI_TRY(read_component(tokenizer, path, tri__json_get(root, "normalizer"), &normalizers, 0));
    if (tri__normaliser_growth(&tokenizer->normaliser) > TRI_NORM_GROWTH)
        return tri__fail(TRI_DATA, "%s: the normalizer may make more than %d bytes of one", path, TRI_NORM_GROWTH);
    TRI_TRY(read_component(tokenizer, path, tri__json_get(root, "pre_tokenizer"), &pre_tokenizers, 0));
    TRI_TRY(read_model(tokenizer, path, model, size, exact));
    tokenizer->next = tokenizer->model == TRI_MODEL_UNIGRAM ? (int)tri__json_size(vocabulary)
                                                            : (int)tri__json_object_size(vocabulary);
    return TRI_OK;
}
