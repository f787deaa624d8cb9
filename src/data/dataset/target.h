/* target.h - numbers as what is learned: a label's column is read and transformed as a numeric column is, by statistics
 * of training rows that are kept with the model, and predictions are turned back. */
#pragma once

#include "data/dataset/preprocess.h"

/* The number in the label's units of a transformed one; stats: a tri_column_stats. Rising. */
double tri__target_value(const void *stats, double transformed);
