/* dataset.h - a table tokenised and preprocessed: what training reads. */
#ifndef TRI_DATA_DATASET_H
#define TRI_DATA_DATASET_H

#include "data/table.h"
#include "data/preprocess.h"
#include "data/tokenizer.h"

typedef struct tri_text_column {
    int64_t *start;   /* [n + 1] first token of each row in ids */
    int32_t *ids;     /* [start[n]] */
} tri_text_column;

typedef struct tri_dataset {
    int64_t n;                /* rows */
    int n_texts;              /* 1 or 2 */
    tri_text_column text[2];
    int n_columns;
    float *numbers;           /* [n, n_columns], filled and standardised */
    int32_t *labels;          /* [n]; NULL when the table has no label column (predict) */
    int64_t memory;           /* bytes held */
} tri_dataset;

/* Tokenises with `threads` threads; the same result for any number. need_labels 0: a missing label column is fine.
 * A text of zero pieces is still [CLS] [SEP]. */
tri_status tri__dataset_load(const tri_table *csv, const tri_preprocess *preprocess, tri_tokenizer *const tokenizer[2],
                             int max_len, int need_labels, int threads, tri_dataset **out);
void tri__dataset_free(tri_dataset *dataset);

#endif
