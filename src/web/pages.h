/* pages.h - pages that are served as they are: files of this folder, in the program. */
#ifndef TRI_WEB_PAGES_H
#define TRI_WEB_PAGES_H

#include <stddef.h>

const char *tri__page_try(size_t *size);     /* try.html: a page to try a model in a browser */
const char *tri__page_openapi(size_t *size); /* openapi.json: what a server answers */

#endif
