/* serve.h - using a trained model: evaluation, prediction, export; called by commands. */
#pragma once

#include "data/table/table.h"
#include "score/groups.h"
#include "settings/settings.h"

/* world: the ranks that compute together, each of which calls it; NULL: one rank. Results are those of rank 0.
 * settings->checkpoint is a model, or for evaluation and prediction the folder of an ensemble, whose members'
 * probabilities are averaged (ensemble.h); for evaluation also that of folds.
 *
 * Evaluates settings->checkpoint on settings->data_path (a file, or a folder: its test file, else valid). */
typedef struct tri_evaluation {
    tri_scores scores;  /* of calibrated probabilities; labels by the threshold */
    int64_t trained_on; /* rows that the model was trained on, an estimate for large training tables; -1: unknown */
    tri_decision decision;
    tri_json *fitted;   /* how it was fitted: the checkpoint's "decision"; NULL: it has none; owned */
    tri_json *unseen;   /* category columns with values that training did not have: a list of tri__unseen_json; owned */
    struct {
        double log_loss, ece, brier;
    } before;           /* the temperature */
    tri_intervals intervals; /* of numbers those of r2, rmse and mae, of several labels f1_micro, f1_macro and lrap */
    double promised, inside; /* of numbers: the share of rows that intervals promise to hold, and that of these rows;
                                promised 0: there are none */
    tri_grouped *by;     /* [n_by] of each column that was asked for; owned */
    int n_by;
    struct {
        char *folder;
        tri_scores scores;
    } *member;          /* [n_members] of an ensemble, whose mean the others are of, or folds; owned */
    int n_members;      /* 0: it is one model */
    int folds;          /* 1: members are folds, and there is nothing but them */
} tri_evaluation;
typedef struct tri_eval_options {
    int64_t bootstrap; /* resamples for intervals; 0: none */
    tri_texts by;      /* columns of the table: figures of the rows of each of their values too */
} tri_eval_options;
tri_status tri__serve_eval(const tri_settings *settings, const tri_eval_options *options, tri_world *world,
                           const tri_log *log, tri_evaluation *out);
void tri__evaluation_free(tri_evaluation *evaluation);

/* What is written in addition to the label. */
typedef struct tri_predict_options {
    tri_texts keep; /* columns of the table to write, or "all" */
    int64_t top_k;  /* classes to write; 0: all */
    int64_t uncertain; /* rows to write, the least certain first; 0: all, in order. Of classes those whose two likeliest
                          are closest; of several labels with a label closest to its threshold; of quantiles whose
                          outermost are furthest apart */
} tri_predict_options;

/* Predictions of settings->checkpoint for settings->data_path. */
typedef struct tri_predictions {
    int64_t n;
    int n_classes;
    int is_number;     /* outputs are numbers in the label's units: the prediction, quantiles, and an interval's ends,
                          named by `label` */
    int n_levels;      /* of quantiles, which follow the prediction */
    char *separator;   /* several labels: what is between those of a cell, empty where they have columns; owned; NULL */
    float *from;       /* [n_classes] of several labels: the decision's; owned */
    char **label;      /* [n_classes]; owned */
    float *probs;      /* [n, n_classes] calibrated; owned */
    tri_decision decision;
    tri_table *table;  /* the input; owned. NULL unless its fields or rows' numbers are to be written */
    int64_t *row;      /* [n] of table; owned */
    int *column;       /* [n_columns] of table that are kept; owned */
    int n_columns;
} tri_predictions;
tri_status tri__serve_predict(const tri_settings *settings, tri_world *world, const tri_predict_options *options,
                              const tri_log *log, tri_predictions *out);
void tri__predictions_free(tri_predictions *predictions);

/* After `train --stack`'s runs, that of all training rows in asked->output_dir and those of folds in folder/fold-1...:
 * compares heads with the model alone, and puts the best one into the best checkpoint (docs/guide/stacking.md). facts
 * (new reference): {chosen, by, encoder, linear, trees, folds, rows}; figures of validation, NaN where a head was not
 * tried. log: not NULL. */
enum { TRI_STACK_HEADS = 3 };
extern const char *const tri__stack_heads[TRI_STACK_HEADS]; /* these keys; the first is the model alone */
tri_status tri__serve_stack(const tri_settings *asked, int folds, const char *folder, const tri_log *log,
                            tri_json **facts);

/* Exports settings->checkpoint to settings->output_dir, for other tools: docs/guide/exporting.md. facts (new
 * reference): what was written. */
tri_status tri__serve_export(const tri_settings *settings, tri_json **facts);

/* Writes settings->checkpoint with int8 weights to settings->output, a folder that appears atomically. Figures are
 * taken on settings->data_path (a folder: its valid file, else test), or on the run's own validation table. If accuracy
 * or PR AUC drops by more than max_drop, layers return to 16 bits; TRI_USAGE with figures if that does not help. stop:
 * looked at after each evaluation; may be NULL. facts (new reference): docs/guide/quantizing.md. */
tri_status tri__serve_quantize(const tri_settings *settings, double max_drop, const tri_log *log, const tri_stop *stop,
                               tri_json **facts);
