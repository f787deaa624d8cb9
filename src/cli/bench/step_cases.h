/* step_cases.h - the models and batches of `trident bench step`, and files to train them on. bench/torch_step.py has
 * the same. */
#ifndef TRI_CLI_BENCH_STEP_CASES_H
#define TRI_CLI_BENCH_STEP_CASES_H

#include "base/status.h"

#include <stdint.h>

typedef struct tri_step_case {
    const char *name, *what;
    int texts;                         /* encoders, all alike */
    int layers, width, heads, vocabulary;
    int samples, tokens;               /* of a step: so many samples, whose texts have so many tokens */
    int ragged;                        /* 1: lengths have a long tail, and 27 % of samples x tokens are real */
} tri_step_case;

/* NULL when there is none of that name; and the names there are, for messages: "tiny, minilm, ...". */
const tri_step_case *tri__step_case_find(const char *name);
const char *tri__step_case_names(void);

/* Writes config.json, vocab/ and data/train.csv, so many batches, into an existing folder. */
tri_status tri__step_case_write(const tri_step_case *at, const char *folder, int batches);

#endif
