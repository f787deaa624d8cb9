/* tokenizer.h - text to token ids, as Hugging Face does it. WordPiece, cased and uncased, from a folder with vocab.txt. */
#ifndef TRI_DATA_TOKENIZER_H
#define TRI_DATA_TOKENIZER_H

#include "base/status.h"

typedef struct tri_tokenizer tri_tokenizer;

/* Reads vocab.txt and, where there, tokenizer_config.json (do_lower_case, strip_accents, tokenize_chinese_chars, special
 * tokens). Without the latter: lower-casing is on unless the folder's name says "cased" and not "uncased" (the released
 * models' names); `said` gets a line on what was assumed. TRI_NOINPUT when files are missing; a folder with vocab.json or
 * tokenizer.json only is TRI_USAGE: byte-level BPE is not in this build. TRI_DATA for bad vocabularies (file:line). */
tri_status tri__tokenizer_load(const char *folder, tri_tokenizer **out);
void tri__tokenizer_free(tri_tokenizer *tokenizer);
int tri__tokenizer_size(const tri_tokenizer *tokenizer);
/* [CLS] text [SEP], at most max_len ids (the text is cut). `ids` has room for max_len. Thread-safe. Returns the count. */
int tri__tokenizer_encode(const tri_tokenizer *tokenizer, const char *text, size_t length, int max_len, int32_t *ids);
const char *tri__tokenizer_piece(const tri_tokenizer *tokenizer, int32_t id);
/* A line for people: "WordPiece, 28,996 pieces, cased". Kept in the tokenizer. */
const char *tri__tokenizer_describe(const tri_tokenizer *tokenizer);
/* Writes vocab.txt and tokenizer_config.json, so that tri__tokenizer_load(folder) gives the same tokenizer. */
tri_status tri__tokenizer_save(const tri_tokenizer *tokenizer, const char *folder);

/* Learns a WordPiece vocabulary from texts: special tokens, characters, then merges by the WordPiece score until
 * `size` pieces. Writes folder/vocab.txt and folder/tokenizer_config.json. Deterministic. */
tri_status tri__wordpiece_train(const char *const *texts, int64_t n, int size, int lower_case, const char *folder);

#endif
