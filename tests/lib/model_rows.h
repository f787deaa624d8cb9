/* model_rows.h - a model trained a little, a table, its rows by column names, and what `predict` gives for them. */
#ifndef TESTS_MODEL_ROWS_H
#define TESTS_MODEL_ROWS_H

#include "tests/lib/session_data.h"

#include "serve/infer/model.h"

enum { ROWS = 120, CLASSES = 2 };

extern char checkpoint[128], data[160]; /* options */
extern float want[ROWS * CLASSES];      /* of `predict` */
extern tri_row rows[ROWS];

/* What `predict` gives for the table with these options, [n], at most 8. */
void predict(int n, const char *const *options, float *probs);

/* Trains a little, predicts a table with the command's function, and reads the table as rows. */
int train(void **state);
int clean(void **state);

#endif
