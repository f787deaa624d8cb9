/* windows.h - a text longer than max_len as overlapping windows of max_len tokens. A row's ids are those of the whole
 * text: special tokens before its content, the content, special tokens after it. Window k has the same special tokens
 * around the content from token k * stride on. All windows but the last are full. */
#pragma once

#include "layout/texts.h"

enum { TRI_WINDOWS_SPECIALS = 64 }; /* special tokens around a text at most */

typedef struct tri_windows {
    int most;                 /* windows of a text at most; 0 or 1: texts are not windowed, but cut at max_len */
    int max_len, stride;
    int before[2], after[2];  /* special tokens around the content, by encoder */
    tri_readers readers;
} tri_windows;

/* Whether sequences are counted apart from samples. */
static inline int tri__windows_count(const tri_windows *windows) {
    return windows->most > 1 || windows->readers.joined;
}

/* What a text becomes in a packed microbatch. */
typedef struct tri_packed {
    int64_t windows, tokens;
    double squares;           /* sum over windows of length squared */
} tri_packed;

/* The most ids that a text keeps. */
int64_t tri__windows_room(const tri_windows *windows);
/* Of a text of `length` ids, at most tri__windows_room of them. */
tri_packed tri__windows_packed(const tri_windows *windows, int64_t length);
/* Expands the `length` ids of a text of this encoder to windows, one after the other, in place; ids has room for all
 * of them. */
void tri__windows_expand(const tri_windows *windows, int encoder, int64_t length, int32_t *ids);
