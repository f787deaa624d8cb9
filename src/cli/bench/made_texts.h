/* made_texts.h - synthetic data of benchmarks: a vocabulary of one-token words, and texts of these words. */
#ifndef TRI_CLI_BENCH_MADE_TEXTS_H
#define TRI_CLI_BENCH_MADE_TEXTS_H

#include "base/file.h"

#include <stdio.h>

/* Creates a file in a folder; `path` is used in error messages of the close. */
tri_status tri__made_open(const char *folder, const char *name, char path[static TRI_PATH_MAX], FILE **out);
tri_status tri__made_close(FILE *file, const char *path);
/* Creates vocab/, with a vocab.txt of n words that begins with the special tokens, and an empty data/; returns their
 * paths. */
tri_status tri__made_folders(const char *folder, int n, char vocab[static TRI_PATH_MAX],
                             char data[static TRI_PATH_MAX]);
/* Writes a text of `tokens` tokens, including [CLS] and [SEP], from such a vocabulary. *random: generator state,
 * carried from text to text. */
void tri__made_text(FILE *out, int tokens, int vocabulary, uint32_t *random);

#endif
