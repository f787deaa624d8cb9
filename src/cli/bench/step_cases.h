/* step_cases.h - the models and batches of `trident bench step`, and files to train them on. bench/torch_step.py has
 * the same cases. */
#ifndef TRI_CLI_BENCH_STEP_CASES_H
#define TRI_CLI_BENCH_STEP_CASES_H

#include "base/status.h"

#include <stdint.h>

typedef struct tri_step_case {
    const char *name, *what;
    int texts;                         /* number of encoders, all equal */
    int layers, width, heads, vocabulary;
    int samples, tokens;               /* samples of a step; tokens of each text */
    int ragged;                        /* 1: lengths have a long tail, and 27 % of samples x tokens are real */
    const char *family;                /* model_type; further keys are its class's, of DeBERTa those of version 3 */
} tri_step_case;

/* Returns NULL for an unknown name. The second function lists all names for messages: "tiny, minilm, ...". */
const tri_step_case *tri__step_case_find(const char *name);
const char *tri__step_case_names(void);

/* Writes config.json, vocab/ and data/train.csv with `batches` batches into an existing folder. */
tri_status tri__step_case_write(const tri_step_case *at, const char *folder, int batches);

#endif
