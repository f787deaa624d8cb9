/* run.h - whole runs, as the commands ask for them. */
#ifndef TRI_TRAIN_RUN_H
#define TRI_TRAIN_RUN_H

#include "data/table/table.h"
#include "train/events.h"
#include "settings/settings.h"
#include "train/stop.h"

/* Trains as the settings say, as one rank of the world (NULL: alone): epochs, validation, checkpoints, summary. facts
 * of the END event: the summary. TRI_STOPPED when `stop` (NULL: nobody asks) ended it early, with a checkpoint. */
tri_status tri__run_train(const tri_settings *settings, tri_world *world, const tri_sink *sink, const tri_stop *stop);

/* What training with these settings would refuse before its first step, as far as that is known without tokenising. */
tri_status tri__run_rehearse(const tri_settings *settings);

/* Evaluates settings->checkpoint on settings->data_path (a file, or a folder: its test file, else valid). */
typedef struct tri_evaluation {
    tri_scores scores;
    int64_t trained_on; /* rows that the model was trained on, of a large training table estimated; -1: unknown */
} tri_evaluation;
tri_status tri__run_eval(const tri_settings *settings, const tri_sink *sink, tri_evaluation *out);

/* Predictions of settings->checkpoint for settings->data_path. */
typedef struct tri_predictions {
    int64_t n;
    int n_classes;
    char **label;      /* [n_classes]; owned */
    float *probs;      /* [n, n_classes]; owned */
    tri_table *table;  /* that they were made for; owned. NULL unless columns are kept or bad rows left out */
    int64_t *row;      /* [n] of table; owned */
    int *column;       /* [n_columns] of table that are kept; owned */
    int n_columns;
} tri_predictions;
tri_status tri__run_predict(const tri_settings *settings, const tri_sink *sink, tri_predictions *out);
void tri__predictions_free(tri_predictions *predictions);

/* Writes settings->checkpoint as folders that others open, into settings->output_dir: docs/exporting.md. facts (new
 * reference): what was written. */
tri_status tri__run_export(const tri_settings *settings, tri_json **facts);

/* Before ranks are started on this machine: makes the token stores, plans and checks all ranks, and compares what they
 * need together with the memory there is (TRI_RESOURCE with figures). TRI_STOPPED when `stop` (NULL: nobody asks) ended
 * it. */
tri_status tri__run_prepare(const tri_settings *settings, const tri_stop *stop);

/* Plans settings->world_size ranks without touching data beyond its lengths. Prints, checks; facts as JSON (new
 * reference): per rank bytes of each class, instructions, flops a step; with --timeline or --hardware `simulation`,
 * with --csv `csv`, with
 * --params `params` (study/views.h). `program`: text of --print-program, or NULL; the caller frees it. */
tri_status tri__run_plan(const tri_settings *settings, const tri_sink *sink, tri_json **facts, char **program);

#endif
