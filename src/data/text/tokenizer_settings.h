/* tokenizer_settings.h - what the small files beside a vocabulary say (tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json, config.json), put together as transformers does it. */
#ifndef TRI_DATA_TEXT_TOKENIZER_SETTINGS_H
#define TRI_DATA_TEXT_TOKENIZER_SETTINGS_H

#include "base/file.h"
#include "base/json.h"

/* transformers' class for a folder decides what a tokenizer is made of. */
typedef enum tri_tokenizer_class {
    TRI_CLASS_OPEN,    /* none is named: the files that are there decide */
    TRI_CLASS_BERT,    /* WordPiece; of a tokenizer.json the vocabulary alone is taken */
    TRI_CLASS_ROBERTA, /* byte-level BPE; of a tokenizer.json vocabulary and merges */
    TRI_CLASS_GPT2,    /* likewise, and its post-processor */
    TRI_CLASS_FILE     /* tokenizer.json as it stands */
} tri_tokenizer_class;

typedef struct tri_tokenizer_settings {
    char path[TRI_PATH_MAX]; /* of tokenizer_config.json, for messages */
    int given;               /* it is there */
    tri_tokenizer_class class;
    tri_json *config;                 /* its keys, and over them those of special_tokens_map.json */
    tri_json *listed;                 /* {"309": {"content": ...}}: added_tokens_decoder, or else added_tokens.json */
    char listed_path[TRI_PATH_MAX]; /* the file that `listed` is from */
    int n_listed;                   /* tokens that a file lists, once they are added: the first of all */
    int decided; /* added_tokens_decoder is there: neither special_tokens_map.json nor other lists count */
} tri_tokenizer_settings;

/* The keys of special tokens, in the order in which transformers adds them. */
enum { TRI_NAMED = 7 };
extern const char *const tri__tokenizer_named[TRI_NAMED];
int tri__tokenizer_is_named(const char *key);

/* Reads the files that are there. TRI_USAGE for a key that would change ids and is not known here, by name. Close it
 * also after a failure. */
tri_status tri__tokenizer_settings_open(tri_tokenizer_settings *settings, const char *folder);
void tri__tokenizer_settings_close(tri_tokenizer_settings *settings);
/* The class's name for tokenizer_config.json. */
const char *tri__tokenizer_class_name(tri_tokenizer_class class);
/* additional_special_tokens or extra_special_tokens, whichever counts: an array, an object of named tokens, or NULL. */
const tri_json *tri__tokenizer_extras(const tri_json *config);
/* Whether the configuration has the key, null included. */
int tri__tokenizer_says(const tri_tokenizer_settings *settings, const char *key);

#endif
