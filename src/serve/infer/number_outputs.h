/* number_outputs.h - what a model of numbers answers, in the label's units: "prediction", each quantile by its name,
 * and "low" and "high" of the interval that the model promises. */
#pragma once

#include "serve/infer/model_checkpoint.h"

/* How many numbers a row's answer has; of a model of classes its classes. */
int tri__outputs(const tri_opened *opened);
/* Their names [tri__outputs], to be freed one by one; of classes their labels. */
tri_status tri__output_names(const tri_opened *opened, char ***names);
/* The answers [n, tri__outputs] for a model's values [n, opened->numbers.n], which it puts in order. */
void tri__output_rows(const tri_opened *opened, float *values, int64_t n, float *answers);
