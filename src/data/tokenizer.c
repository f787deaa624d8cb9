/* tokenizer.c - a Hugging Face tokenizer folder: its files, its special tokens, and text to ids. Special tokens written
 * out in a text ("[SEP]") become their ids, as there: they are looked for in the text as it stands, leftmost and longest
 * first, and what lies between them is cut into words on its own. */
#include "data/tokenizer.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "data/wordpiece.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tri_tokenizer {
    tri_pieces pieces;
    tri_bert_rules rules;
    char *name[TRI_TOKENS];      /* of the special tokens */
    int32_t id[TRI_TOKENS];      /* -1: not in the vocabulary */
    unsigned char opens[256];  /* some special token begins with this byte */
    char describe[160];
};

static tri_status read_flag(const json_t *config, const char *path, const char *key, int *flag) {
    const json_t *value = json_object_get(config, key);
    if (!value || json_is_null(value)) return TRI_OK;
    if (!json_is_boolean(value)) return tri__fail(TRI_DATA, "%s: %s must be true or false", path, key);
    *flag = json_is_true(value);
    return TRI_OK;
}

/* A special token is its text, or an object with it as `content`. */
static tri_status read_special(const json_t *config, const char *path, int which, char **name) {
    const json_t *value = json_object_get(config, tri__specials[which].key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (value && !json_is_null(value) && (!json_is_string(value) || !json_string_length(value)))
        return tri__fail(TRI_DATA, "%s: %s must be a text that is not empty", path, tri__specials[which].key);
    *name = strdup(json_is_string(value) ? json_string_value(value) : tri__specials[which].name);
    return *name ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", path);
}

static tri_status read_config(tri_tokenizer *tokenizer, const json_t *config, const char *path) {
    tri_bert_rules *rules = &tokenizer->rules;
    TRI_TRY(read_flag(config, path, "do_lower_case", &rules->lower_case));
    rules->strip_accents = rules->lower_case;
    TRI_TRY(read_flag(config, path, "strip_accents", &rules->strip_accents));
    TRI_TRY(read_flag(config, path, "tokenize_chinese_chars", &rules->split_chinese));
    for (int i = 0; i < TRI_TOKENS; i++) TRI_TRY(read_special(config, path, i, &tokenizer->name[i]));
    return TRI_OK;
}

/* The released models say it in their names; "cased" is also inside "uncased". */
static int name_says_cased(const char *folder) {
    char *full = realpath(folder, NULL);
    if (!full) return 0;
    const char *slash = strrchr(full, '/');
    const char *name = slash ? slash + 1 : full;
    int cased = strstr(name, "cased") && !strstr(name, "uncased");
    free(full);
    return cased;
}

static tri_status load_config(tri_tokenizer *tokenizer, const char *folder, int *assumed) {
    char path[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(path, folder, "tokenizer_config.json"));
    tokenizer->rules = (tri_bert_rules){.lower_case = 1, .split_chinese = 1};
    *assumed = !tri__is_file(path);
    if (*assumed) {
        tokenizer->rules.lower_case = !name_says_cased(folder);
        return read_config(tokenizer, NULL, path);
    }
    json_t *config = NULL;
    TRI_TRY(tri__json_load(path, TRI_DATA, &config));
    tri_status status = read_config(tokenizer, config, path);
    json_decref(config);
    return status;
}

static tri_status find_specials(tri_tokenizer *tokenizer, const char *vocabulary) {
    for (int i = 0; i < TRI_TOKENS; i++) {
        tokenizer->id[i] = tri__pieces_named(&tokenizer->pieces, tokenizer->name[i]);
        if (tokenizer->id[i] >= 0) tokenizer->opens[(unsigned char)tokenizer->name[i][0]] = 1;
        else if (tri__specials[i].needed)
            return tri__fail(TRI_DATA, "%s: the special token %s is missing; it must be one of the pieces", vocabulary,
                             tokenizer->name[i]);
    }
    return TRI_OK;
}

static tri_status find_vocabulary(const char *folder, char path[static TRI_PATH_MAX]) {
    if (!tri__is_folder(folder))
        return tri__fail(TRI_NOINPUT, "%s: no such tokenizer folder; it should hold vocab.txt", folder);
    TRI_TRY(tri__path_join(path, folder, "vocab.txt"));
    if (tri__is_file(path)) return TRI_OK;
    static const char *const others[] = {"vocab.json", "tokenizer.json"};
    for (int i = 0; i < 2; i++) {
        TRI_TRY(tri__path_join(path, folder, others[i]));
        if (tri__is_file(path))
            return tri__fail(TRI_USAGE, "%s: there is %s but no vocab.txt; byte-level BPE is not in this build, WordPiece is",
                             folder, others[i]);
    }
    return tri__fail(TRI_NOINPUT, "%s: there is no vocab.txt in this folder", folder);
}

static tri_status load(tri_tokenizer *tokenizer, const char *folder) {
    char path[TRI_PATH_MAX];
    TRI_TRY(find_vocabulary(folder, path));
    int assumed;
    TRI_TRY(load_config(tokenizer, folder, &assumed));
    TRI_TRY(tri__pieces_load(path, &tokenizer->pieces));
    TRI_TRY(find_specials(tokenizer, path));
    const tri_bert_rules *rules = &tokenizer->rules;
    char count[32];
    snprintf(tokenizer->describe, sizeof tokenizer->describe, "WordPiece, %s pieces, %s%s%s%s",
             tri__text_count(tokenizer->pieces.n, count), rules->lower_case ? "uncased" : "cased",
             rules->strip_accents == rules->lower_case ? "" : rules->strip_accents ? ", accents stripped" : ", accents kept",
             rules->split_chinese ? "" : ", Chinese characters not split",
             assumed ? " (assumed from the folder's name: it has no tokenizer_config.json)" : "");
    return TRI_OK;
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

void tri__tokenizer_free(tri_tokenizer *tokenizer) {
    if (!tokenizer) return;
    tri__pieces_free(&tokenizer->pieces);
    for (int i = 0; i < TRI_TOKENS; i++) free(tokenizer->name[i]);
    free(tokenizer);
}

int tri__tokenizer_size(const tri_tokenizer *tokenizer) { return tokenizer->pieces.n; }

const char *tri__tokenizer_piece(const tri_tokenizer *tokenizer, int32_t id) {
    TRI_ASSERT(id >= 0 && id < tokenizer->pieces.n);
    return tokenizer->pieces.text + tokenizer->pieces.start[id];
}

const char *tri__tokenizer_describe(const tri_tokenizer *tokenizer) { return tokenizer->describe; }

/* The longest special token that stands at text[0]; its length in bytes, 0 when there is none. */
static size_t special_at(const tri_tokenizer *tokenizer, const char *text, size_t length, int32_t *id) {
    size_t longest = 0;
    if (!tokenizer->opens[(unsigned char)text[0]]) return 0;
    for (int i = 0; i < TRI_TOKENS; i++) {
        size_t size = strlen(tokenizer->name[i]);
        if (tokenizer->id[i] < 0 || size <= longest || size > length || memcmp(text, tokenizer->name[i], size)) continue;
        longest = size, *id = tokenizer->id[i];
    }
    return longest;
}

/* Appends the ids of text without special tokens; stops at `room`. */
static int encode_words(const tri_tokenizer *tokenizer, const char *text, size_t length, int n, int room, int32_t *ids) {
    tri_words words;
    tri__words_init(&words, tokenizer->rules, text, length);
    while (n < room && tri__words_next(&words)) {
        int32_t found[TRI_WORD_CHARS];
        int count = tri__pieces_match(&tokenizer->pieces, &words, tokenizer->id[TRI_TOKEN_UNK], found);
        for (int i = 0; i < count && n < room; i++) ids[n++] = found[i];
    }
    return n;
}

int tri__tokenizer_encode(const tri_tokenizer *tokenizer, const char *text, size_t length, int max_len, int32_t *ids) {
    TRI_ASSERT(max_len >= 2);
    int n = 0, room = max_len - 1; /* one is for [SEP] */
    ids[n++] = tokenizer->id[TRI_TOKEN_CLS];
    for (size_t start = 0, at = 0; n < room && start < length;) {
        int32_t id = 0;
        size_t size = 0;
        while (at < length && !(size = special_at(tokenizer, text + at, length - at, &id))) at++;
        n = encode_words(tokenizer, text + start, at - start, n, room, ids);
        if (size && n < room) ids[n++] = id;
        start = at += size;
    }
    ids[n++] = tokenizer->id[TRI_TOKEN_SEP];
    return n;
}

tri_status tri__tokenizer_save(const tri_tokenizer *tokenizer, const char *folder) {
    const tri_pieces *pieces = &tokenizer->pieces;
    const char **piece = malloc((size_t)pieces->n * sizeof *piece);
    if (!piece) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    for (int i = 0; i < pieces->n; i++) piece[i] = pieces->text + pieces->start[i];
    tri_status status =
        tri__wordpiece_write(folder, piece, pieces->n, tokenizer->rules, (const char *const *)tokenizer->name);
    free(piece);
    return status;
}
