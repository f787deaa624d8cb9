/* pages.h - pages: files of this folder, in the program. */
#pragma once

#include "base/buffer.h"

#include <stddef.h>

const char *tri__page_try(size_t *size);     /* try.html: a page to try a model in a browser */
const char *tri__page_openapi(size_t *size); /* openapi.json: what a server answers */

/* A file that is part of a page: text up to `end`. */
typedef struct tri_page_file {
    const char *name, *text, *end;
} tri_page_file;
/* The pages of runs, of explanations and of layouts. The first file is the document; a mark @NAME@ in it stands for
 * another of these files, @data@ for what it shows. Ends with a NULL name. */
extern const tri_page_file tri__page_report[], tri__page_explain[], tri__page_layouts[];
/* Appends the document with its marks replaced; data: JSON. */
void tri__page_fill(const tri_page_file *files, const char *data, tri_buffer *out);
