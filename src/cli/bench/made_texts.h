/* made_texts.h - files that benches make for themselves: a vocabulary of words of one token each, and texts made of
 * them. */
#ifndef TRI_CLI_BENCH_MADE_TEXTS_H
#define TRI_CLI_BENCH_MADE_TEXTS_H

#include "base/file.h"

#include <stdio.h>

/* A new file of a folder; its path is for the message of close. */
tri_status tri__made_open(const char *folder, const char *name, char path[static TRI_PATH_MAX], FILE **out);
tri_status tri__made_close(FILE *file, const char *path);
/* Folders vocab, with a vocab.txt of n words, the special ones first, and data, which is empty; their paths. */
tri_status tri__made_folders(const char *folder, int n, char vocab[static TRI_PATH_MAX],
                             char data[static TRI_PATH_MAX]);
/* A text of so many tokens, [CLS] and [SEP] among them, out of such a vocabulary. *random: carried from text to
 * text. */
void tri__made_text(FILE *out, int tokens, int vocabulary, uint32_t *random);

#endif
