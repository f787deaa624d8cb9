/* tokenizer.h - text to token ids, as Hugging Face does it: WordPiece and byte-level BPE, from vocab.txt, from
 * vocab.json with merges.txt, or from tokenizer.json. */
#ifndef TRI_DATA_TEXT_TOKENIZER_H
#define TRI_DATA_TEXT_TOKENIZER_H

#include "base/status.h"

typedef struct tri_tokenizer tri_tokenizer;

/* Reads a folder: tokenizer.json, vocab.txt, or vocab.json + merges.txt, and tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json and config.json where they are there. Ids are those of transformers; what
 * is not known here, or would be read in another way there, is TRI_USAGE by name. A vocab.txt without
 * tokenizer_config.json is lower-cased unless the folder's name says "cased" and not "uncased" (tri__tokenizer_describe
 * says so). TRI_NOINPUT when files are missing; TRI_DATA file:line for bad ones. */
tri_status tri__tokenizer_load(const char *folder, tri_tokenizer **out);
void tri__tokenizer_free(tri_tokenizer *tokenizer);
int tri__tokenizer_size(const tri_tokenizer *tokenizer);
/* Template with special tokens ([CLS] text [SEP], <s> text </s>), at most max_len ids: the text is cut, at the side
 * that the folder says. `ids` has room for max_len. Thread-safe, linear in the text. Returns the count; -1
 * (TRI_RESOURCE recorded) when out of memory. */
int tri__tokenizer_encode(const tri_tokenizer *tokenizer, const char *text, size_t length, int max_len, int32_t *ids);
/* A pair, cut longest first as Hugging Face does; types [max_len] or NULL: 0 and 1 (BERT), all 0 (RoBERTa). Returns
 * likewise. */
int tri__tokenizer_encode_pair(const tri_tokenizer *tokenizer, const char *a, size_t a_length, const char *b,
                               size_t b_length, int max_len, int32_t *ids, int32_t *types);
const char *tri__tokenizer_piece(const tri_tokenizer *tokenizer, int32_t id);
/* A line for people: "WordPiece, 28,996 pieces, cased". Kept in the tokenizer. */
const char *tri__tokenizer_describe(const tri_tokenizer *tokenizer);
/* One number for everything that decides ids: changes when any id of any text could. */
uint64_t tri__tokenizer_hash(const tri_tokenizer *tokenizer);
/* Writes what tri__tokenizer_load needs to give the same tokenizer. */
tri_status tri__tokenizer_save(const tri_tokenizer *tokenizer, const char *folder);

/* Learns a WordPiece vocabulary from texts: special tokens, characters, then merges by the WordPiece score until
 * `size` pieces. Writes folder/vocab.txt and folder/tokenizer_config.json. Deterministic. */
tri_status tri__wordpiece_train(const char *const *texts, int64_t n, int size, int lower_case, const char *folder);

#endif
