/* read_texts.h - texts that commands read: lines of files or of stdin, or a column of tables. */
#pragma once

#include "cli/cli.h"

typedef struct tri_texts_from {
    const char *const *file; /* [n]; "-" or n = 0: stdin */
    int n;
    tri_texts column;        /* of tables, the settings'; none: lines */
    const tri_tables *tables; /* in memory; NULL: none */
    int null;                /* texts end in a 0 byte, not in a newline */
    int threads;
    char separator;          /* of tables; 0: detected */
} tri_texts_from;

/* Some texts, in order. */
typedef struct tri_text_batch {
    tri_buffer data; /* the texts, a 0 byte after each */
    size_t *start;   /* [n + 1] offset of each in data; the last is the end */
    int n;
    size_t room;     /* of start */
} tri_text_batch;

static inline size_t tri__batch_length(const tri_text_batch *batch, int i) {
    return batch->start[i + 1] - batch->start[i] - 1;
}

/* The texts that a command's bare words and options name. */
tri_status tri__texts_from(const tri_command_call *call, tri_texts_from *out);
/* Passes all texts to `take`, a few thousand at a time; the batch is reused. Texts are valid UTF-8 (else TRI_DATA:
 * file, line, byte), of at most TRI_LIMIT_CSV_ROW bytes; a line's carriage return is removed. */
tri_status tri__texts_read(const tri_texts_from *from, tri_status (*take)(void *to, const tri_text_batch *batch),
                           void *to);
