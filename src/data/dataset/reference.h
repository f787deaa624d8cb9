/* reference.h - what a model was trained on, kept with it: of its training rows the values of each column and the
 * lengths of texts in bins (base/bins.h). Values are what the model gets: transformed numbers; indices of categories,
 * the last of which is one that is rare or that training did not have. */
#pragma once

#include "base/bins.h"
#include "data/dataset/dataset.h"

/* The variables: the columns, then the texts. */
tri_status tri__reference_make(const tri_preprocess *preprocess, tri_bin_set *out);
/* A list for checkpoints; a new reference. */
tri_status tri__reference_fit(const tri_dataset *data, const tri_preprocess *preprocess, tri_json **out);
/* The value of a column's numbers; of one that is hashed to several the sum of their sizes, which grows with its
 * length. field: that they are of; NULL: of training, whose missing values are counted by the column's statistics. */
float tri__reference_value(const tri_column_stats *stats, const tri_reading *reading, const float *numbers,
                           const tri_field_text *field);
