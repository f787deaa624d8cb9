/* inspect.h - the parts of `trident inspect`: human-readable tables, and a starter configuration. */
#pragma once

#include "cli/cli.h"
#include "data/inspect/inspect.h"

/* A tokenizer that was requested or found. */
typedef struct tri_inspect_model {
    char name[TRI_PATH_MAX];    /* for the configuration: a folder in --models-dir, or an absolute path; "": none */
    char folder[TRI_PATH_MAX];  /* "": not found on this machine */
    tri_tokenizer *tokenizer;   /* NULL without a folder, and for the secondary text if it uses the primary's */
} tri_inspect_model;

int tri__inspect_has_weights(const tri_inspect_model *model); /* whether its folder has an encoder's weights */
tri_status tri__inspect_print(const tri_cli *cli, const tri_inspection *inspection);
/* Writes a configuration for `trident train`. model [2]: for the primary and the secondary text. `data`: the path as
 * the user gave it. TRI_DATA if there is no label or no text. */
tri_status tri__inspect_write_config(const char *path, const char *data, const tri_settings *settings,
                                     const tri_inspection *inspection, const tri_inspect_model *model);
