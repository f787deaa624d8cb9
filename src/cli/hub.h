/* hub.h - Hugging Face's cache of models on this machine. */
#ifndef TRI_CLI_HUB_H
#define TRI_CLI_HUB_H

#include "base/status.h"

/* The folder of the cache: HF_HUB_CACHE, else HF_HOME/hub, else huggingface/hub of XDG_CACHE_HOME or ~/.cache. The
 * caller frees *out; NULL: none of them is set. */
tri_status tri__cli_hub(char *(*lookup)(const char *name), char **out);

#endif
