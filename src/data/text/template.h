/* template.h - the last stage of a tokenizer: special tokens around one text, or around and between two. */
#pragma once

#include "base/json.h"

enum { TRI_TEMPLATE_PARTS = 64, TRI_TEMPLATE_A = -1, TRI_TEMPLATE_B = -2 };

typedef struct tri_template {
    int n;
    struct {
        int32_t id;   /* a special token; or A or B for a text, each once */
        int32_t type;
    } part[TRI_TEMPLATE_PARTS];
} tri_template;

/* [CLS] A [SEP] (types 0), then, for two texts: `between` (0), B and [SEP] with `type`. A token with id -1 is
 * omitted. */
void tri__template_bert(int32_t cls, int32_t sep, int between, int type, tri_template *one, tri_template *two);
/* "post_processor" of a tokenizer.json, may be null. TRI_USAGE, with its name, if unknown; TRI_DATA if invalid. Special
 * tokens must have ids below `size`. */
tri_status tri__template_read(const char *path, const tri_json *processor, int size, tri_template *one,
                              tri_template *two);
