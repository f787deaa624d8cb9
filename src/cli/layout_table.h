/* layout_table.h - layouts side by side, simulated (choose) or measured (bench lab): one form of table, as text,
 * Markdown, JSON and an HTML page; and layouts that the user writes down. */
#pragma once

#include "cli/cli.h"

/* A table is an object: title, rule (what "x one device" compares with), rows. A row has, "" or 0 where unknown:
 *   model, hardware, ranks, layout
 *   memory_bytes, state_bytes       planned, of the rank that needs most; state: weights, gradients, optimizer state
 *   held_bytes                      measured, of the process
 *   fits, step_seconds, samples_per_second
 *   times, efficiency               throughput against one device; that by the ranks
 *   gather, reduce_scatter, all_reduce, recv
 *                                   shares of the step in which such transfers are under way, mean of ranks
 *   exposed, waiting                shares in which ranks wait for bytes, and for others
 *   sent_bytes, note, command
 * Columns that no row has are left out. */

/* TRI_USAGE before anything is computed where -o names no form (.txt, .md, .json, .html), or a file that cannot be
 * written. */
tri_status tri__layout_table_check(const tri_settings *settings);
/* Takes the reference. To -o in the form of its ending, else to stdout: JSON with --json, else text. */
tri_status tri__layout_table_print(const tri_cli *cli, const tri_settings *settings, tri_json *table);

/* A layout that was written down: "pp=2,dp=4,shard=zero3", as options "--pp-size=2". Values with commas need no
 * quotes: what has no "=" belongs to the value before it. */
enum { TRI_LAYOUT_WORDS = 16, TRI_LAYOUT_WORD = 160 };
typedef struct tri_layout_words {
    char name[TRI_LAYOUT_WORD];
    char model[TRI_LAYOUT_WORD]; /* "model=NAME": of this model only; "": of all */
    char word[TRI_LAYOUT_WORDS][TRI_LAYOUT_WORD];
    int n;
} tri_layout_words;
/* The i-th of layouts separated by ";" in the words of a list; *found 0: there are fewer. TRI_USAGE: too long. */
tri_status tri__layout_words(const tri_texts *asked, int i, tri_layout_words *out, int *found);
