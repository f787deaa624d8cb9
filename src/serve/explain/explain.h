/* explain.h - why a model answers as it does.
 *
 *   explain      one row: by how much its class's probability falls where an input, or a word, is left out (occlusion)
 *   importance   a table: by how much figures worsen where an input's values are permuted among the rows (Breiman
 *                2001), and in models that were trained without it
 *   compare      a table: how far it is from the rows that the model was trained on (compare.c)
 */
#pragma once

#include "settings/settings.h"

enum { TRI_EXPLAIN_ROWS = 40 }; /* rows that are computed for one explained row, at most */

#define TRI_EXPLAIN_TABLE "(table)" /* as an input: all columns */
typedef struct tri_explain_options {
    int64_t first, rows;  /* explains so many rows from row `first` on, counted from 1 */
    const char *label;    /* the class whose probability is explained; NULL: that which predict gives each row */
    int64_t repeats;      /* importance: permutations of each input */
    int64_t seed;
    tri_json *retrained;  /* importance: {input: {folder: a model that was trained without it}}, whose figures are added
                             there, and intervals; NULL: neither */
} tri_explain_options;

/* Called for each explained row, in order; docs/guide/explaining.md has the keys of `row`. */
typedef tri_status tri_explained(void *context, const tri_json *row);
/* Of settings->checkpoint on settings->data_path (of a folder: its test file, else valid). stop: may be NULL. */
tri_status tri__serve_explain(const tri_settings *settings, const tri_explain_options *options, const tri_log *log,
                              const tri_stop *stop, tri_explained *put, void *context);
/* facts: a new reference. */
tri_status tri__serve_importance(const tri_settings *settings, const tri_explain_options *options, const tri_log *log,
                                 const tri_stop *stop, tri_json **facts);
/* How far the rows of settings->data_path (of a folder: its test file, else valid) and their answers are from those
 * that settings->checkpoint was trained and validated on: {checkpoint, table, rows, drift: [{kind, name, psi,
 * by_chance}]}, the
 * largest index first. A new reference. TRI_USAGE: it does not know. */
tri_status tri__serve_compare(const tri_settings *settings, const tri_log *log, const tri_stop *stop, tri_json **facts);
