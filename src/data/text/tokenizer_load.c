/* tokenizer_load.c - a Hugging Face tokenizer folder: tokenizer.json or a vocabulary, and its settings files.
 * transformers' tokenizer class for the folder decides: most classes take only the vocabulary from a tokenizer.json and
 * everything else from tokenizer_config.json, and so do we. If the class's default contradicts tokenizer.json and
 * tokenizer_config.json does not set the value, the intent is ambiguous and the folder is refused. What was read is
 * kept, with assumptions made explicit: saving writes that, and its hash is the tokenizer's. */
#include "data/text/tokenizer_parts.h"

enum { HASH_VERSION = 2 }; /* incremented when the same files give different ids than before */

tri_status tri__tokenizer_keep(tri_tokenizer *tokenizer, const char *name, char *text, size_t size) {
    TRI_ASSERT(tokenizer->files < TRI_TOKENIZER_FILES);
    tokenizer->file[tokenizer->files++] = (tri_tokenizer_file){name, text, size};
    return text ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", name);
}

tri_status tri__tokenizer_save(const tri_tokenizer *tokenizer, const char *folder) {
    TRI_TRY(tri__folder_make(folder));
    for (int i = 0; i < tokenizer->files; i++) {
        TRI_PATH(path, folder, tokenizer->file[i].name);
        TRI_TRY(tri__file_write(path, tokenizer->file[i].text, tokenizer->file[i].size));
    }
    return TRI_OK;
}

uint64_t tri__tokenizer_hash(const tri_tokenizer *tokenizer) {
    uint64_t hash = HASH_VERSION;
    for (int i = 0; i < tokenizer->files; i++) {
        hash = tri__hash64(hash, tokenizer->file[i].name, strlen(tokenizer->file[i].name));
        hash = tri__hash64(hash, tokenizer->file[i].text, tokenizer->file[i].size);
    }
    return hash;
}

/* A folder being turned into a tokenizer. */
typedef struct builder {
    tri_tokenizer *tokenizer;
    tri_tokenizer_settings settings;
    const char *folder;
    char path[TRI_PATH_MAX]; /* of the vocabulary: tokenizer.json, vocab.txt or vocab.json */
    tri_json *file;            /* tokenizer.json; NULL */
    int overridden;          /* tokenizer_config.json overrides tokenizer.json */
} builder;

static tri_status read_flag(const tri_tokenizer_settings *s, const char *key, int *flag) {
    return tri__tokenizer_flag(s->path, s->config, key, *flag, flag);
}

/* Released models have it in their names; "uncased" contains "cased" too. */
static int name_says_cased(const char *folder) {
    char full[TRI_PATH_MAX];
    if (!tri__path_real(folder, full)) return 0;
    const char *slash = strrchr(full, '/');
    const char *name = slash ? slash + 1 : full;
    return strstr(name, "cased") && !strstr(name, "uncased");
}

static tri_status contradicts(const builder *b, const char *what, const char *cure) {
    return tri__fail(TRI_USAGE,
                     "%s: %s is not what transformers' %s makes of this folder, which takes from this file the "
                     "vocabulary alone; to follow this file write %s into tokenizer_config.json", b->path, what,
                     tri__tokenizer_class_name(b->settings.class), cure);
}

static const char as_it_stands[] = "\"tokenizer_class\": \"PreTrainedTokenizerFast\"";

/* A setting that both files have: *have is the current value. Refused if they differ and tokenizer_config.json does not
 * set it. */
static tri_status agree(builder *b, const char *key, int in_file, int have, const char *what) {
    if (in_file == have) return TRI_OK;
    b->overridden = tri__tokenizer_says(&b->settings, key);
    return b->overridden ? TRI_OK : contradicts(b, what, TRI_TEXT(80, "\"%s\": %s", key, in_file ? "true" : "false"));
}

/* Checks the parts of tokenizer.json that BertTokenizer would build differently. */
static tri_status compare_bert(builder *b, const tri_bert_rules *rules) {
    const tri_tokenizer *t = b->tokenizer;
    const tri_json *normalizer = tri__json_get(b->file, "normalizer");
    const char *type = tri__text_in(normalizer, "type");
    tri_bert_rules file;
    if (t->model != TRI_MODEL_WORDPIECE || t->wordpiece.max_chars != TRI_WORD_CHARS ||
        strcmp(t->vocabulary.prefix, "##"))
        return contradicts(b, "the model", as_it_stands);
    if (t->pre_tokenizer.n != 1 || t->pre_tokenizer.step[0].kind != TRI_SPLIT_BERT)
        return contradicts(b, "the pre_tokenizer", as_it_stands);
    if (!type || strcmp(type, "BertNormalizer")) return contradicts(b, "the normalizer", as_it_stands);
    TRI_TRY(tri__tokenizer_bert_rules(b->path, normalizer, &file));
    if (!file.clean_text) return contradicts(b, "clean_text of the normalizer", as_it_stands);
    TRI_TRY(agree(b, "do_lower_case", file.lower_case, rules->lower_case, "lowercase of the normalizer"));
    if (file.lower_case == rules->lower_case || tri__tokenizer_says(&b->settings, "strip_accents"))
        TRI_TRY(agree(b, "strip_accents", file.strip_accents, rules->strip_accents, "strip_accents of the normalizer"));
    return agree(b, "tokenize_chinese_chars", file.split_chinese, rules->split_chinese,
                 "handle_chinese_chars of the normalizer");
}

static int same_template(const tri_template *a, const tri_template *b) {
    int same = a->n == b->n;
    for (int i = 0; i < a->n && same; i++) same = a->part[i].id == b->part[i].id && a->part[i].type == b->part[i].type;
    return same;
}

/* Two special tokens around texts; the post-processor of tokenizer.json must be equivalent, unless
 * tokenizer_config.json names the tokens. */
static tri_status take_template(builder *b, int between, int type, const char *before, const char *after) {
    tri_tokenizer *t = b->tokenizer;
    tri_template one, two;
    int32_t cls, sep;
    TRI_TRY(tri__tokenizer_special(t, &b->settings, before, b->path, &cls));
    TRI_TRY(tri__tokenizer_special(t, &b->settings, after, b->path, &sep));
    tri__template_bert(cls, sep, between, type, &t->one, &t->two);
    if (!b->file) return TRI_OK;
    TRI_TRY(tri__template_read(b->path, tri__json_get(b->file, "post_processor"), t->size, &one, &two));
    if (same_template(&one, &t->one) && same_template(&two, &t->two)) return TRI_OK;
    b->overridden = tri__tokenizer_says(&b->settings, before) || tri__tokenizer_says(&b->settings, after);
    return b->overridden ? TRI_OK : contradicts(b, "the post_processor", as_it_stands);
}

/* The unknown token must be a piece: added tokens are not part of the model. */
static tri_status take_unknown(builder *b) {
    tri_tokenizer *t = b->tokenizer;
    int32_t id, file = t->wordpiece.unknown;
    TRI_TRY(tri__tokenizer_special(t, &b->settings, "unk_token", b->path, &id));
    if (id >= t->vocabulary.n || !t->vocabulary.length[id])
        return tri__fail(TRI_DATA, "%s: the unknown token \"%.80s\" is not one of the pieces", b->path,
                         tri__tokenizer_piece(t, id));
    t->wordpiece = (tri_wordpiece){id, TRI_WORD_CHARS};
    if (b->file && file != id && !tri__tokenizer_says(&b->settings, "unk_token"))
        return contradicts(b, "unk_token of the model", as_it_stands);
    return TRI_OK;
}

static tri_status build_wordpiece(builder *b) {
    tri_tokenizer *t = b->tokenizer;
    tri_tokenizer_settings *s = &b->settings;
    int mpnet = s->class == TRI_CLASS_MPNET;
    int assumed = !b->file && !s->given && !tri__tokenizer_says(s, "do_lower_case");
    tri_bert_rules rules = {
        .clean_text = 1, .split_chinese = 1, .lower_case = assumed ? !name_says_cased(b->folder) : 1};
    TRI_TRY(read_flag(s, "do_lower_case", &rules.lower_case));
    rules.strip_accents = rules.lower_case;
    TRI_TRY(read_flag(s, "strip_accents", &rules.strip_accents));
    TRI_TRY(read_flag(s, "tokenize_chinese_chars", &rules.split_chinese));
    if (b->file) TRI_TRY(compare_bert(b, &rules));
    t->normaliser.n = t->pre_tokenizer.n = 0;
    TRI_ASSERT(tri__normaliser_add_bert(&t->normaliser, rules));
    t->pre_tokenizer.step[t->pre_tokenizer.n++].kind = TRI_SPLIT_BERT;
    TRI_TRY(tri__tokenizer_add_tokens(t, s, b->path, b->file));
    TRI_TRY(take_unknown(b));
    TRI_TRY(mpnet ? take_template(b, 2, 0, "cls_token", "sep_token")
                  : take_template(b, 1, 1, "cls_token", "sep_token"));
    if (b->overridden && s->follows_file)
        return tri__fail(TRI_USAGE,
                         "%s: this file and %s differ, and transformers' DistilBertTokenizer follows this one; write "
                         "\"tokenizer_class\": \"BertTokenizer\" into the other to follow that", b->path, s->path);
    snprintf(t->describe, sizeof t->describe, "WordPiece, %s pieces, %s%s%s%s%s",
             tri__text_count(t->vocabulary.n, (char[32]){0}), rules.lower_case ? "uncased" : "cased",
             rules.strip_accents == rules.lower_case ? ""
             : rules.strip_accents                   ? ", accents stripped"
                                                     : ", accents kept",
             rules.split_chinese ? "" : ", Chinese characters not split",
             assumed ? " (assumed from the folder's name: it has no tokenizer_config.json)" : "",
             b->overridden ? " (by tokenizer_config.json, against tokenizer.json)" : "");
    int failed = tri__json_set_new(s->config, "do_lower_case", tri__json_boolean(rules.lower_case)) ||
                 tri__json_set_new(s->config, "strip_accents", tri__json_boolean(rules.strip_accents)) ||
                 tri__json_set_new(s->config, "tokenize_chinese_chars", tri__json_boolean(rules.split_chinese));
    return failed ? tri__fail(TRI_RESOURCE, "%s: out of memory", s->path) : TRI_OK;
}

/* Checks the parts of tokenizer.json that RobertaTokenizer and GPT2Tokenizer would build differently. */
static tri_status compare_bpe(builder *b, int space) {
    const tri_tokenizer *t = b->tokenizer;
    const tri_pre_tokenizer *pre = &t->pre_tokenizer;
    if (t->model != TRI_MODEL_BPE) return contradicts(b, "the model", as_it_stands);
    if (t->normaliser.n) return contradicts(b, "the normalizer", as_it_stands);
    if (pre->n != 1 || pre->step[0].kind != TRI_SPLIT_BYTE_LEVEL || !pre->step[0].pattern)
        return contradicts(b, "the pre_tokenizer", as_it_stands);
    return agree(b, "add_prefix_space", pre->step[0].prefix_space, space, "add_prefix_space of the pre_tokenizer");
}

/* RoBERTa adds <s> and </s> around a text; GPT-2 adds nothing, or what tokenizer.json specifies. */
static tri_status build_bpe(builder *b) {
    tri_tokenizer *t = b->tokenizer;
    tri_tokenizer_settings *s = &b->settings;
    tri_pre_tokenizer *pre = &t->pre_tokenizer;
    int roberta = s->class == TRI_CLASS_ROBERTA, space = 0, bos = 0, eos = 0;
    TRI_TRY(read_flag(s, "add_prefix_space", &space));
    TRI_TRY(read_flag(s, "add_bos_token", &bos));
    TRI_TRY(read_flag(s, "add_eos_token", &eos));
    if ((bos || eos) && !roberta && !b->file)
        return tri__fail(TRI_USAGE, "%s: add_%s_token is not known here; such a folder needs a tokenizer.json", s->path,
                         bos ? "bos" : "eos");
    if (b->file) TRI_TRY(compare_bpe(b, space));
    pre->n = 1;
    pre->step[0].kind = TRI_SPLIT_BYTE_LEVEL;
    pre->step[0].pattern = 1;
    pre->step[0].prefix_space = space;
    t->model = TRI_MODEL_BPE;
    t->bpe.unknown = -1, t->bpe.fuse_unknown = t->bpe.whole_words = 0;
    TRI_TRY(tri__tokenizer_add_tokens(t, s, b->path, b->file));
    if (roberta) TRI_TRY(take_template(b, 2, 0, "cls_token", "sep_token"));
    else if (b->file)
        TRI_TRY(tri__template_read(b->path, tri__json_get(b->file, "post_processor"), t->size, &t->one, &t->two));
    else tri__template_bert(-1, -1, 2, 1, &t->one, &t->two);
    snprintf(t->describe, sizeof t->describe, "byte-level BPE, %s pieces, %s%s%s",
             tri__text_count(t->vocabulary.n, (char[32]){0}), roberta ? "as RoBERTa" : "as GPT-2",
             space ? ", a blank in front" : "",
             b->overridden ? " (by tokenizer_config.json, against tokenizer.json)" : "");
    return tri__json_set_new(s->config, "add_prefix_space", tri__json_boolean(space))
               ? tri__fail(TRI_RESOURCE, "%s: out of memory", s->path)
               : TRI_OK;
}

/* Whether the pre-tokenizer's last step is Metaspace as the classes make it; *scheme is its. */
static int ends_in_metaspace(const tri_pre_tokenizer *pre, int steps, tri_scheme *scheme) {
    if (pre->n != steps) return 0;
    *scheme = pre->step[pre->n - 1].scheme;
    return pre->step[pre->n - 1].kind == TRI_SPLIT_METASPACE && pre->step[pre->n - 1].pattern &&
           pre->step[pre->n - 1].mark_bytes == 3 && !memcmp(pre->step[pre->n - 1].mark, "\xE2\x96\x81", 3);
}

/* Checks the parts of tokenizer.json that XLMRobertaTokenizer would build differently. */
static tri_status compare_xlm_roberta(builder *b, int space) {
    const tri_tokenizer *t = b->tokenizer;
    enum { UNKNOWN = 3 }; /* its id, always */
    tri_scheme scheme;
    if (t->model != TRI_MODEL_UNIGRAM || t->unigram.byte_fallback) return contradicts(b, "the model", as_it_stands);
    if (t->unigram.unknown != UNKNOWN) return contradicts(b, "unk_id of the model", as_it_stands);
    if (t->normaliser.n > 1 || (t->normaliser.n && t->normaliser.step[0].kind != TRI_NORM_CHARSMAP))
        return contradicts(b, "the normalizer", as_it_stands);
    if (!ends_in_metaspace(&t->pre_tokenizer, 2, &scheme) || t->pre_tokenizer.step[0].kind != TRI_SPLIT_BLANKS ||
        scheme == TRI_SCHEME_FIRST)
        return contradicts(b, "the pre_tokenizer", as_it_stands);
    TRI_TRY(agree(b, "add_prefix_space", scheme == TRI_SCHEME_ALWAYS, space, "prepend_scheme of Metaspace"));
    b->tokenizer->pre_tokenizer.step[1].scheme = space ? TRI_SCHEME_ALWAYS : TRI_SCHEME_NEVER;
    return TRI_OK;
}

/* DebertaV2Tokenizer takes as unknown the piece unk_token if its score is 0, else unk_id. */
static tri_status take_deberta_unknown(builder *b) {
    tri_tokenizer *t = b->tokenizer;
    const tri_json *name = tri__json_get(b->settings.config, "unk_token"),
                   *number = tri__json_get(b->settings.config, "unk_id");
    const char *text = tri__json_string_value(tri__json_is_object(name) ? tri__json_get(name, "content") : name);
    int32_t id = tri__vocabulary_named(&t->vocabulary, text ? text : "[UNK]");
    if (id < 0 || t->unigram.score[id] != 0) {
        tri_json_int given = tri__json_is_integer(number) ? tri__json_integer_value(number) : 1;
        if (given < 0 || given >= t->vocabulary.n)
            return tri__fail(TRI_DATA, "%s: unk_id is not an id of the vocabulary", b->settings.path);
        id = (int32_t)given;
    }
    if (id != t->unigram.unknown && !name && !number) return contradicts(b, "unk_id of the model", as_it_stands);
    t->unigram.unknown = id;
    return TRI_OK;
}

/* Checks the parts of tokenizer.json that DebertaV2Tokenizer would build differently. */
static tri_status compare_deberta(builder *b, int space, int lower, int punctuation) {
    const tri_tokenizer *t = b->tokenizer;
    const tri_normaliser *norm = &t->normaliser;
    const tri_pre_tokenizer *pre = &t->pre_tokenizer;
    tri_scheme scheme;
    if (t->model != TRI_MODEL_UNIGRAM || t->unigram.byte_fallback) return contradicts(b, "the model", as_it_stands);
    int at = norm->n && norm->step[0].kind == TRI_NORM_LOWER;
    if (norm->n != at + 3 || norm->step[at].kind != TRI_NORM_REPLACE || norm->step[at + 1].kind != TRI_NORM_NFC ||
        norm->step[at].replace.kind != TRI_REPLACE_SPACES || strcmp(norm->step[at].replace.content, " ") ||
        norm->step[at + 2].kind != TRI_NORM_STRIP || norm->step[at + 2].left || !norm->step[at + 2].right)
        return contradicts(b, "the normalizer", as_it_stands);
    if (at != lower)
        return contradicts(b, "Lowercase of the normalizer", at ? "\"do_lower_case\": true" : as_it_stands);
    if (!ends_in_metaspace(pre, 1 + punctuation, &scheme) || scheme != TRI_SCHEME_ALWAYS || !space ||
        (punctuation &&
         (pre->step[0].kind != TRI_SPLIT_PUNCTUATION || pre->step[0].behaviour != TRI_ISOLATED)))
        return contradicts(b, "the pre_tokenizer", as_it_stands);
    return take_deberta_unknown(b);
}

/* XLM-R and DeBERTa-v3: tokenizer.json must be what the class makes of it. */
static tri_status build_unigram(builder *b) {
    tri_tokenizer *t = b->tokenizer;
    tri_tokenizer_settings *s = &b->settings;
    int roberta = s->class == TRI_CLASS_XLM_ROBERTA, space = 1, lower = 0, punctuation = 0;
    TRI_TRY(read_flag(s, "add_prefix_space", &space));
    if (!roberta) TRI_TRY(read_flag(s, "do_lower_case", &lower));
    if (!roberta) TRI_TRY(read_flag(s, "split_by_punct", &punctuation));
    TRI_TRY(roberta ? compare_xlm_roberta(b, space) : compare_deberta(b, space, lower, punctuation));
    TRI_TRY(tri__tokenizer_add_tokens(t, s, b->path, b->file));
    TRI_TRY(roberta ? take_template(b, 2, 0, "bos_token", "eos_token")
                    : take_template(b, 1, 1, "cls_token", "sep_token"));
    snprintf(t->describe, sizeof t->describe, "Unigram, %s pieces, %s%s", tri__text_count(t->size, (char[32]){0}),
             roberta ? "as XLM-R" : "as DeBERTa-v3",
             b->overridden ? " (by tokenizer_config.json, against tokenizer.json)" : "");
    return tri__json_set_new(s->config, "add_prefix_space", tri__json_boolean(space))
               ? tri__fail(TRI_RESOURCE, "%s: out of memory", s->path)
               : TRI_OK;
}

/* Uses tokenizer.json unchanged. */
static tri_status build_file(builder *b) {
    tri_tokenizer *t = b->tokenizer;
    static const char *const models[] = {"WordPiece", "BPE", "Unigram"};
    TRI_TRY(tri__tokenizer_add_tokens(t, &b->settings, b->path, b->file));
    TRI_TRY(tri__template_read(b->path, tri__json_get(b->file, "post_processor"), t->size, &t->one, &t->two));
    snprintf(t->describe, sizeof t->describe, "%s, %s pieces, by tokenizer.json", models[t->model],
             tri__text_count(t->size, (char[32]){0}));
    return TRI_OK;
}

/* truncation_side, or the value in tokenizer.json. */
static tri_status read_side(builder *b) {
    const tri_json *side = tri__json_get(b->settings.config, "truncation_side");
    const char *text = tri__json_string_value(side),
               *file = tri__text_in(tri__json_get(b->file, "truncation"), "direction");
    if (side && (!text || (strcmp(text, "left") && strcmp(text, "right"))))
        return tri__fail(TRI_DATA, "%s: truncation_side must be \"left\" or \"right\"", b->settings.path);
    b->tokenizer->cut_left = text ? !strcmp(text, "left") : file && !strcmp(file, "Left");
    return TRI_OK;
}

/* tokenizer.json, kept as it is. */
static tri_status read_file(builder *b) {
    char *text;
    size_t size;
    TRI_TRY(tri__file_read(b->path, TRI_LIMIT_JSON_FILE, &text, &size));
    TRI_TRY(tri__tokenizer_keep(b->tokenizer, "tokenizer.json", text, size));
    TRI_TRY(tri__json_parse_wide(text, size, b->path, TRI_DATA, &b->file));
    int exact = b->settings.class == TRI_CLASS_XLM_ROBERTA || b->settings.class == TRI_CLASS_DEBERTA;
    return tri__tokenizer_read_json(b->tokenizer, b->path, b->file, size, exact);
}

/* vocab.txt, kept as it is. */
static tri_status read_lines(builder *b) {
    char *text;
    size_t size;
    TRI_TRY(tri__file_read(b->path, TRI_LIMIT_JSON_FILE, &text, &size));
    TRI_TRY(tri__tokenizer_keep(b->tokenizer, "vocab.txt", text, size));
    TRI_TRY(tri__vocabulary_read_lines(b->path, text, size, "##", &b->tokenizer->vocabulary));
    b->tokenizer->next = b->tokenizer->vocabulary.n;
    return TRI_OK;
}

/* vocab.json and merges.txt, kept as they are. */
static tri_status read_bpe(builder *b) {
    tri_tokenizer *t = b->tokenizer;
    char merges[TRI_PATH_MAX], *text;
    size_t size;
    TRI_OWNED(tri__json_drop) tri_json *root = NULL;
    TRI_TRY(tri__path_join(merges, b->folder, "merges.txt"));
    TRI_TRY(tri__file_read(b->path, TRI_LIMIT_JSON_FILE, &text, &size));
    TRI_TRY(tri__tokenizer_keep(t, "vocab.json", text, size));
    TRI_TRY(tri__json_parse(text, size, b->path, TRI_DATA, &root));
    TRI_TRY(tri__vocabulary_read_json(b->path, root, size, "", &t->vocabulary));
    t->next = (int)tri__json_object_size(root);
    TRI_TRY(tri__file_read(merges, TRI_LIMIT_JSON_FILE, &text, &size));
    TRI_TRY(tri__tokenizer_keep(t, "merges.txt", text, size));
    return tri__bpe_read_lines(merges, text, size, 1, &t->vocabulary, &t->bpe);
}

/* The class of a folder that does not name one. */
static tri_tokenizer_class class_by_files(const builder *b, int found) {
    const tri_vocabulary *vocabulary = &b->tokenizer->vocabulary;
    if (found < 2) return found ? TRI_CLASS_BERT : TRI_CLASS_FILE;
    return tri__vocabulary_named(vocabulary, "<s>") >= 0 && tri__vocabulary_named(vocabulary, "</s>") >= 0
               ? TRI_CLASS_ROBERTA
               : TRI_CLASS_GPT2;
}

/* The files that a class reads (tokenizer.json, vocab.txt, vocab.json with merges.txt), and what it makes of them. */
static const struct {
    uint8_t reads[3];
    const char *names;
    tri_status (*build)(builder *b);
} classes[] = {
    [TRI_CLASS_OPEN] = {{1, 1, 1}, "", NULL},
    [TRI_CLASS_BERT] = {{1, 1, 0}, "tokenizer.json or vocab.txt", build_wordpiece},
    [TRI_CLASS_ROBERTA] = {{1, 0, 1}, "tokenizer.json, or vocab.json and merges.txt", build_bpe},
    [TRI_CLASS_GPT2] = {{1, 0, 1}, "tokenizer.json, or vocab.json and merges.txt", build_bpe},
    [TRI_CLASS_MPNET] = {{1, 1, 0}, "tokenizer.json or vocab.txt", build_wordpiece},
    [TRI_CLASS_XLM_ROBERTA] = {{1, 0, 0}, "tokenizer.json", build_unigram},
    [TRI_CLASS_DEBERTA] = {{1, 0, 0}, "tokenizer.json", build_unigram},
    [TRI_CLASS_FILE] = {{1, 0, 0}, "tokenizer.json", build_file},
};

/* The file with the vocabulary, in b->path: the first of `names` that exists and that the class reads. *found: its
 * index; 3: none. */
static tri_status find_vocabulary(builder *b, const char *const names[static 3], int *found) {
    int there = 0;
    for (*found = 0; *found < 3; ++*found) {
        if (!classes[b->settings.class].reads[*found]) continue;
        TRI_TRY(tri__path_join(b->path, b->folder, names[*found]));
        TRI_TRY(tri__file_there(b->path, &there));
        if (there) break;
    }
    return TRI_OK;
}

/* Why there is no vocabulary to read. */
static tri_status refuse_folder(const builder *b) {
    static const char *const models[] = {"sentencepiece.bpe.model", "spm.model", "spiece.model", "tokenizer.model"};
    char path[TRI_PATH_MAX];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (tri__path_join(path, b->folder, models[i]) != TRI_OK || !tri__is_file(path)) continue;
        return tri__fail(TRI_NOINPUT,
                         "%s: a SentencePiece model is not read here, and there is no tokenizer.json beside it; make "
                         "one: python -c \"from transformers import AutoTokenizer; "
                         "AutoTokenizer.from_pretrained('%s').save_pretrained('%s')\"", path, b->folder, b->folder);
    }
    if (b->settings.class == TRI_CLASS_OPEN)
        return tri__fail(TRI_NOINPUT, "%s: there is neither tokenizer.json nor vocab.txt nor vocab.json in this folder",
                         b->folder);
    return tri__fail(TRI_NOINPUT,
                     "%s: by its settings this folder is of transformers' %s, whose vocabulary is missing: %s",
                     b->folder, tri__tokenizer_class_name(b->settings.class), classes[b->settings.class].names);
}

static tri_status build(builder *b) {
    static const char *const names[] = {"tokenizer.json", "vocab.txt", "vocab.json"};
    TRI_TRY(tri__tokenizer_settings_open(&b->settings, b->folder));
    int found;
    TRI_TRY(find_vocabulary(b, names, &found));
    if (found == 3) return refuse_folder(b);
    TRI_TRY(found == 0 ? read_file(b) : found == 1 ? read_lines(b) : read_bpe(b));
    if (b->settings.class == TRI_CLASS_OPEN) b->settings.class = class_by_files(b, found);
    TRI_TRY(read_side(b));
    TRI_TRY(classes[b->settings.class].build(b));
    TRI_TRY(tri__tokenizer_keep_config(b->tokenizer, &b->settings));
    return tri__word_cache_open(b->tokenizer->vocabulary.n, &b->tokenizer->cache);
}

tri_status tri__tokenizer_load(const char *folder, tri_tokenizer **out) {
    int there;
    *out = NULL;
    TRI_TRY(tri__folder_there(folder, &there));
    if (!there)
        return tri__fail(TRI_NOINPUT,
                         "%s: no such tokenizer folder; it should hold tokenizer.json, vocab.txt, or vocab.json and "
                         "merges.txt", folder);
    builder b = {.tokenizer = calloc(1, sizeof *b.tokenizer), .folder = folder};
    tri_status status = b.tokenizer ? build(&b) : tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    tri__tokenizer_settings_close(&b.settings);
    tri__json_decref(b.file);
    if (status == TRI_OK) *out = b.tokenizer;
    else tri__tokenizer_free(b.tokenizer);
    return status;
}
