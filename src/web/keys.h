/* keys.h - bearer keys: a file with a key a line, and the comparison, whose time says nothing about the keys. */
#pragma once

#include "base/base.h"

typedef struct tri_keys_file {
    char *text;   /* the keys, each ended by a 0 byte; owned */
    int n;
} tri_keys_file;

/* Blank lines and lines that begin with # are left out; a key is at least 8 visible ASCII characters. `name`: for
 * messages. TRI_DATA, TRI_RESOURCE. */
tri_status tri__keys_parse(const char *text, size_t length, const char *name, tri_keys_file *out);
void tri__keys_file_free(tri_keys_file *keys); /* accepts a zeroed one */
/* Whether the value of an Authorization header ("Bearer KEY", NULL: none) has one of the keys. */
int tri__keys_accept(const tri_keys_file *keys, const char *authorization);
