/* dataset_build.h - from a table to the sections of a token store. */
#pragma once

#include "data/dataset/dataset.h"
#include "data/dataset/store.h"

enum { TRI_BAD_DESCRIBED = 100 };

/* Skipped rows, in file order; owns the texts. */
typedef struct tri_bad_list {
    int64_t count;
    int n;
    tri_bad_row row[TRI_BAD_DESCRIBED];
} tri_bad_list;

/* What was built. */
typedef struct tri_built {
    int64_t rows;    /* kept */
    /* of them, those whose text has more windows than are kept; 0 where texts are not windowed */
    int64_t cut[TRI_TEXTS_MAX];
    tri_bad_list bad;
    tri_json *unseen; /* of each part (one if the table is not divided) a list of tri__unseen_json; owned */
} tri_built;

/* Writes numbers, labels, parts (part [rows of the table]; NULL: it is not divided) and tokens of a table. Memory does
 * not grow with the texts: rows are read, written and released in pieces. Bad rows are listed in *built, which is
 * zeroed before (or, with the policy fail, are an error). */
tri_status tri__dataset_build(const tri_dataset_spec *spec, const tri_preprocess *preprocess, const tri_table *table,
                              const uint8_t *part, tri_store_writer *writer, tri_built *built);
void tri__bad_list_free(tri_bad_list *bad);
