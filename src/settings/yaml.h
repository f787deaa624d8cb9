/* yaml.h - YAML, as Accelerate writes it, for readers of JSON. */
#pragma once

#include "base/base.h"

/* The version of libyaml; NULL: this build is without it. */
const char *tri__yaml_version(void);
/* The document as JSON, its keys on the lines that they have in the file; the caller frees it. Plain words are what
 * PyYAML makes of them: null, true and yes, numbers, else texts. Tags are ignored, and documents after the first.
 * TRI_DATA with the line; TRI_USAGE: this build is without libyaml. */
tri_status tri__yaml_to_json(const char *path, const char *text, size_t size, char **json, size_t *json_size);
