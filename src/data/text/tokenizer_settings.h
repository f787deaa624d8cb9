/* tokenizer_settings.h - the settings files of a vocabulary (tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json, config.json), merged as in transformers. */
#pragma once

#include "base/file.h"
#include "base/json.h"

/* transformers' class for a folder, which determines the tokenizer's parts. */
typedef enum tri_tokenizer_class {
    TRI_CLASS_OPEN,    /* none is named: the existing files decide */
    TRI_CLASS_BERT,    /* WordPiece; uses only the vocabulary of a tokenizer.json */
    TRI_CLASS_ROBERTA, /* byte-level BPE; uses vocabulary and merges of a tokenizer.json */
    TRI_CLASS_GPT2,    /* likewise, and its post-processor */
    TRI_CLASS_MPNET,   /* WordPiece as BERT, special tokens as RoBERTa */
    TRI_CLASS_XLM_ROBERTA, /* Unigram; uses vocabulary and character map of a tokenizer.json */
    TRI_CLASS_DEBERTA, /* Unigram; uses the vocabulary of a tokenizer.json */
    TRI_CLASS_FILE     /* uses tokenizer.json unchanged */
} tri_tokenizer_class;

typedef struct tri_tokenizer_settings {
    char path[TRI_PATH_MAX]; /* of tokenizer_config.json, for messages */
    int given;               /* the file exists */
    tri_tokenizer_class class;
    int follows_file;                 /* DistilBERT's class: BERT's, but of a tokenizer.json it uses everything */
    tri_json *config;                 /* its keys, overridden by those of special_tokens_map.json */
    tri_json *listed;                 /* {"309": {"content": ...}}: added_tokens_decoder, or else added_tokens.json */
    char listed_path[TRI_PATH_MAX]; /* the file that `listed` is from */
    int n_listed;                   /* number of listed tokens, once added; they come first */
    int decided; /* added_tokens_decoder exists: special_tokens_map.json and other lists are ignored */
} tri_tokenizer_settings;

/* The keys of special tokens, in the order in which transformers adds them. */
enum { TRI_NAMED = 7 };
extern const char *const tri__tokenizer_named[TRI_NAMED];
int tri__tokenizer_is_named(const char *key);
/* Whether the key is that of a custom named token ("image_token"). */
int tri__tokenizer_is_custom(const char *key);

/* Reads the files that exist. TRI_USAGE, naming the key, for an unknown key that would change ids. Close it even after
 * a failure. */
tri_status tri__tokenizer_settings_open(tri_tokenizer_settings *settings, const char *folder);
void tri__tokenizer_settings_close(tri_tokenizer_settings *settings);
/* The class's name for tokenizer_config.json. */
const char *tri__tokenizer_class_name(tri_tokenizer_class class);
/* additional_special_tokens or extra_special_tokens, whichever applies: an array, an object of named tokens, or
 * NULL. */
const tri_json *tri__tokenizer_extras(const tri_json *config);
/* Whether the configuration has the key, even if null. */
int tri__tokenizer_says(const tri_tokenizer_settings *settings, const char *key);
