/* texts.h - the texts of a model, and the encoder that reads each. */
#pragma once

#include "base/base.h"

enum { TRI_TEXTS_MAX = 16 };

/* Encoder e reads text e, the first of its texts. Zeroed: every encoder reads one. */
typedef struct tri_readers {
    int joined;                  /* some encoder reads several texts, and `of` says which one reads a text: in a
                                  * microbatch its sequences are those of all its texts, one text after the other */
    int8_t of[TRI_TEXTS_MAX];
} tri_readers;

static inline int tri__reader(const tri_readers *readers, int text) {
    return readers->joined ? readers->of[text] : text;
}
/* Texts before this one that its encoder reads. */
int tri__reader_place(const tri_readers *readers, int text);
const char *tri__branch_name(int text); /* primary, secondary, text3, ... */
