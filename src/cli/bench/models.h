/* models.h - the models of benchmarks, and files to train them on. bench/torch_step.py has those of step,
 * bench/serve.py those of serve. */
#pragma once

#include "base/base.h"

typedef struct tri_bench_model {
    const char *name, *what;
    int texts;                            /* number of encoders, all equal */
    int layers, width, heads, vocabulary; /* of an encoder */
    int samples, tokens;                  /* of a rank's step, or of a microbatch: texts, and most tokens of each */
    int ragged;                           /* 1: lengths have a long tail, and 27 % of samples x tokens are real */
    const char *family;                   /* model_type; further keys are its class's, of DeBERTa those of version 3 */
    int timed;                            /* lab: steps after the warm-up. Such a model has no numbers, a small head */
} tri_bench_model;

/* Each ends with a NULL name. */
extern const tri_bench_model tri__lab_models[]; /* in the order of --lab-model's choices */
extern const tri_bench_model tri__step_models[];
extern const tri_bench_model tri__serve_models[];
enum { TRI_LAB_WARMUP = 1 };

/* The model of a name of `length` bytes; NULL: there is none. The second function lists all names for messages: "tiny,
 * minilm, ...". */
const tri_bench_model *tri__bench_model(const tri_bench_model *models, const char *name, size_t length);
const char *tri__bench_model_names(const tri_bench_model *models, char out[static 256]);

/* Tokens of the k-th text. */
int tri__bench_tokens(const tri_bench_model *model, int64_t k);
/* Writes config.json into an existing folder; vocab: the tokenizer that it names. */
tri_status tri__bench_config(const tri_bench_model *model, const char *folder, const char *vocab);
/* The same with vocab/, a vocabulary of one-token words, and data/train.csv, `rows` rows of texts of these words, the
 * same on every run. */
tri_status tri__bench_write(const tri_bench_model *model, const char *folder, int64_t rows);
