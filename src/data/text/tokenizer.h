/* tokenizer.h - text to token ids, identical to Hugging Face: WordPiece and byte-level BPE, from vocab.txt, from
 * vocab.json with merges.txt, or from tokenizer.json. */
#pragma once

#include "base/base.h"

typedef struct tri_tokenizer tri_tokenizer;

/* Reads a folder: tokenizer.json, vocab.txt, or vocab.json + merges.txt, and tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json and config.json if present. Ids equal those of transformers; settings that
 * are unsupported, or that transformers would interpret differently, are TRI_USAGE, by name. A vocab.txt without
 * tokenizer_config.json is lower-cased unless the folder's name contains "cased" and not "uncased"
 * (tri__tokenizer_describe tells). TRI_NOINPUT if files are missing; TRI_DATA with file:line if invalid. */
tri_status tri__tokenizer_load(const char *folder, tri_tokenizer **out);
void tri__tokenizer_free(tri_tokenizer *tokenizer);
static inline void tri__tokenizer_drop(tri_tokenizer **at) { tri__tokenizer_free(*at); }
int tri__tokenizer_size(const tri_tokenizer *tokenizer);
/* Template with special tokens ([CLS] text [SEP], <s> text </s>), at most max_len ids: the text is truncated, on the
 * side that the folder configures. `ids` holds max_len. Thread-safe, linear time. Returns the count; -1 (TRI_RESOURCE
 * recorded) if out of memory. */
int tri__tokenizer_encode(const tri_tokenizer *tokenizer, const char *text, size_t length, int max_len, int32_t *ids);
/* Special tokens that the template puts before a text, and after it. */
void tri__tokenizer_specials(const tri_tokenizer *tokenizer, int *before, int *after);
const char *tri__tokenizer_piece(const tri_tokenizer *tokenizer, int32_t id);
/* A one-line description: "WordPiece, 28,996 pieces, cased". Owned by the tokenizer. */
const char *tri__tokenizer_describe(const tri_tokenizer *tokenizer);
/* A hash of everything that determines ids: it changes whenever any id of any text could. */
uint64_t tri__tokenizer_hash(const tri_tokenizer *tokenizer);
/* Writes the files from which tri__tokenizer_load restores the same tokenizer. */
tri_status tri__tokenizer_save(const tri_tokenizer *tokenizer, const char *folder);

/* Learns a WordPiece vocabulary from texts: special tokens, characters, then merges by the WordPiece score until
 * `size` pieces. Writes folder/vocab.txt and folder/tokenizer_config.json. Deterministic. */
tri_status tri__wordpiece_train(const char *const *texts, int64_t n, int size, int lower_case, const char *folder);
