/* choose.h - what the files of `trident choose` share: its options, rows of one search, and its table of layouts. */
#pragma once

#include "cli/cli.h"
#include "study/choose/choose.h"

typedef struct tri_choose_own {
    int64_t top, limit;
    double seconds;
    int exhaustive, compression;
    tri_texts precision, world_size, layouts, models;
    char *within;
} tri_choose_own;

/* A search: what was asked for, what it is searched with, and what one device does. */
typedef struct tri_choose_asked {
    const tri_settings *settings; /* as given, by the configuration too */
    tri_chooser *chooser;
    double one;                   /* samples/s of one device; 0: unknown */
} tri_choose_asked;

enum { TRI_CHOOSE_LINE = 4096 };
/* How to start the run: by `trident` itself on one machine, else through MPI. Into `out`. */
tri_status tri__choose_command(const tri_choose_asked *asked, const tri_layout *layout, int64_t global_batch, int world,
                               char out[static TRI_CHOOSE_LINE]);
/* Makes settings ready for a search of `world` ranks: layout keys of the configuration are what is searched; options
 * stay. TRI_USAGE: machines cannot share the ranks alike. */
tri_status tri__choose_prepare(tri_settings *settings, int world);
/* Precisions to search, a bit each; 0: the configuration's. */
unsigned tri__choose_precisions(const tri_texts *asked);

/* choose_table.c: several models, hardwares, numbers of ranks or named layouts, in one table. */
int tri__choose_wants_table(const tri_settings *settings, const tri_choose_own *own);
tri_status tri__choose_table(tri_cli *cli, const tri_command_call *call, const tri_choose_options *how);
