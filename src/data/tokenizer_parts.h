/* tokenizer_parts.h - what a tokenizer is made of: a normaliser, ways to split, a model, a template, and tokens that are found before
 * all of them. For the files that build and use one. */
#ifndef TRI_DATA_TOKENIZER_PARTS_H
#define TRI_DATA_TOKENIZER_PARTS_H

#include "data/added_tokens.h"
#include "data/bpe.h"
#include "data/normalise.h"
#include "data/pre_tokenize.h"
#include "data/template.h"
#include "data/tokenizer.h"
#include "data/word_cache.h"
#include "data/wordpiece.h"

/* A file of the folder that tri__tokenizer_save writes. */
typedef struct tri_tokenizer_file {
    const char *name;
    char *text;
    size_t size;
} tri_tokenizer_file;

enum { TRI_TOKENIZER_FILES = 3 };

struct tri_tokenizer {
    tri_normaliser normaliser;
    tri_pre_tokenizer pre_tokenizer;
    tri_vocabulary vocabulary;
    int is_bpe;
    tri_wordpiece wordpiece;
    tri_bpe bpe;
    tri_added_tokens added;
    tri_template one, two;
    tri_word_cache *cache;
    int size;               /* ids are below, added tokens' too */
    tri_tokenizer_file file[TRI_TOKENIZER_FILES];
    int files;
    char describe[160];
};

/* Takes `text`, which is freed with the tokenizer, also when it fails. */
tri_status tri__tokenizer_keep(tri_tokenizer *tokenizer, const char *name, char *text, size_t size);
/* The folder's tokenizer.json into a zeroed tokenizer. */
tri_status tri__tokenizer_read_json(tri_tokenizer *tokenizer, const char *path);
/* {"content": ..., "lstrip": ...}: what is left out is false, `normalized` is what `special` is not. The content stays the object's. */
tri_status tri__added_token_read(const char *path, const json_t *object, tri_added_token *token);

#endif
