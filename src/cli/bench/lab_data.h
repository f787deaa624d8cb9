/* lab_data.h - the models of benchmarks that train, and files to train them on. */
#ifndef TRI_CLI_BENCH_LAB_DATA_H
#define TRI_CLI_BENCH_LAB_DATA_H

#include "base/status.h"

#include <stdint.h>

typedef struct tri_lab_model {
    const char *name;
    int layers, width, heads, vocabulary;
    int samples, tokens;    /* of a rank's step, or of a microbatch: number of texts, and tokens of each */
    int warmup, timed;      /* steps */
} tri_lab_model;
extern const tri_lab_model tri__lab_models[]; /* in the order of --lab-model's choices */

/* Writes config.json, vocab/ and data/train.csv with `rows` rows into an existing folder. Every text has the model's
 * number of tokens; texts: 1 or 2, each with its own encoder. */
tri_status tri__lab_write(const tri_lab_model *model, int texts, const char *folder, int64_t rows);

#endif
