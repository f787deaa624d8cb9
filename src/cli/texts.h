/* texts.h - texts that commands read: lines of files or of stdin, or a column of tables. */
#ifndef TRI_CLI_TEXTS_H
#define TRI_CLI_TEXTS_H

#include "cli/cli.h"

typedef struct tri_texts_from {
    const char *const *file; /* [n]; "-" and none at all: stdin */
    int n;
    const char *column;      /* of tables; NULL: lines */
    int null;                /* texts end in a 0 byte, not in a newline */
    int threads;
    char separator;          /* of tables; 0: as recognised */
} tri_texts_from;

/* Some texts, in order. */
typedef struct tri_text_batch {
    char *data;      /* the texts, a 0 byte after each */
    size_t used, room;
    size_t *start;   /* [n + 1] of each in data; the last is where the next would begin */
    int n, starts;   /* starts: room of start */
} tri_text_batch;

static inline size_t tri__batch_length(const tri_text_batch *batch, int i) {
    return batch->start[i + 1] - batch->start[i] - 1;
}

/* Gives all texts to `take`, some thousand at a time; the batch is used again. Texts are valid UTF-8 (else TRI_DATA:
 * file, line, byte), of at most TRI_LIMIT_CSV_ROW bytes; a line's carriage return is cut. */
tri_status tri__texts_read(const tri_texts_from *from, tri_status (*take)(void *to, const tri_text_batch *batch),
                           void *to);

#endif
