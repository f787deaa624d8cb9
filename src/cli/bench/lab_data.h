/* lab_data.h - the models of benches that train, and files to train them on. */
#ifndef TRI_CLI_BENCH_LAB_DATA_H
#define TRI_CLI_BENCH_LAB_DATA_H

#include "base/status.h"

#include <stdint.h>

typedef struct tri_lab_model {
    const char *name;
    int layers, width, heads, vocabulary;
    int samples, tokens;    /* of a rank in a step, or of a microbatch: so many texts of so many tokens */
    int warmup, timed;      /* steps */
} tri_lab_model;
extern const tri_lab_model tri__lab_models[]; /* in the order of --lab-model's choices */

/* Writes config.json, vocab/ and data/train.csv with so many rows into an existing folder. Every text has the model's
 * tokens; texts: 1 or 2, each with an encoder of its own. */
tri_status tri__lab_write(const tri_lab_model *model, int texts, const char *folder, int64_t rows);

#endif
