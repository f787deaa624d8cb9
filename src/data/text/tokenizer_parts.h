/* tokenizer_parts.h - the parts of a tokenizer: a normaliser, pre-tokenizers, a model, a template, and added tokens,
 * which are matched before all of them. For the files that build and use one. */
#pragma once

#include "data/text/added_tokens.h"
#include "data/text/bpe.h"
#include "data/text/pre_tokenize.h"
#include "data/text/template.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_settings.h"
#include "data/text/unigram.h"
#include "data/text/word_cache.h"
#include "data/text/wordpiece.h"

/* A file of the folder that tri__tokenizer_save writes. */
typedef struct tri_tokenizer_file {
    const char *name;
    char *text;
    size_t size;
} tri_tokenizer_file;

enum { TRI_TOKENIZER_FILES = 3 };

typedef enum tri_text_model { TRI_MODEL_WORDPIECE, TRI_MODEL_BPE, TRI_MODEL_UNIGRAM } tri_text_model;

struct tri_tokenizer {
    tri_normaliser normaliser;
    tri_pre_tokenizer pre_tokenizer;
    tri_vocabulary vocabulary;
    tri_text_model model;    /* one of these is used: */
    tri_wordpiece wordpiece;
    tri_bpe bpe;
    tri_unigram unigram;
    tri_added_tokens added;
    tri_template one, two;
    tri_word_cache *cache;
    int size;               /* ids are below, including added tokens */
    int next;               /* id of the next added token that is not a piece; at first the number of pieces */
    int cut_left;           /* truncate at the beginning, not at the end */
    tri_tokenizer_file file[TRI_TOKENIZER_FILES];
    int files;
    char describe[224];
};

/* Takes ownership of `text`, even after a failure. */
tri_status tri__tokenizer_keep(tri_tokenizer *tokenizer, const char *name, char *text, size_t size);
/* The stages of a tokenizer.json of `size` bytes, into a zeroed tokenizer: all but added tokens and post-processor.
 * `exact`: Unigram's scores are those that are written there (unigram.h). */
tri_status tri__tokenizer_read_json(tri_tokenizer *tokenizer, const char *path, const tri_json *root, size_t size,
                                    int exact);
/* A key that is true or false; `otherwise`: its value if it is missing or null. */
tri_status tri__tokenizer_flag(const char *path, const tri_json *it, const char *key, int otherwise, int *flag);
/* The switches of a BertNormalizer. */
tri_status tri__tokenizer_bert_rules(const char *path, const tri_json *normalizer, tri_bert_rules *rules);
/* Adds the tokens to match in texts: those of tokenizer.json (`file`; NULL), listed, named and additional ones. */
tri_status tri__tokenizer_add_tokens(tri_tokenizer *tokenizer, tri_tokenizer_settings *settings, const char *path,
                                     const tri_json *file);
/* The id of a named special token that the class needs; TRI_DATA if it is neither a piece nor listed. */
tri_status tri__tokenizer_special(const tri_tokenizer *tokenizer, const tri_tokenizer_settings *settings,
                                  const char *key, const char *vocabulary, int32_t *id);
/* Stores a tokenizer_config.json with everything that was read or assumed: class, side, every added token with its id.
 * With the vocabulary it suffices for the same ids here and in transformers. */
tri_status tri__tokenizer_keep_config(tri_tokenizer *tokenizer, tri_tokenizer_settings *settings);
/* {"content": ..., "lstrip": ...}: missing keys are false, and `normalized` defaults to !special. The object still owns
 * the content. */
tri_status tri__added_token_read(const char *path, const tri_json *object, tri_added_token *token);
