/* normalise.h - the first stage of a tokenizer: text to text, by a short list of steps. */
#ifndef TRI_DATA_TEXT_NORMALISE_H
#define TRI_DATA_TEXT_NORMALISE_H

#include "data/text/scratch.h"

typedef enum tri_norm_step {
    TRI_NORM_CLEAN,   /* control characters dropped, blanks of any kind to U+0020 */
    TRI_NORM_CHINESE, /* blanks around Chinese characters */
    TRI_NORM_NFD, TRI_NORM_NFC, TRI_NORM_NFKD, TRI_NORM_NFKC,
    TRI_NORM_ACCENTS, /* nonspacing marks dropped */
    TRI_NORM_MARKS,   /* marks of any kind dropped */
    TRI_NORM_LOWER,
    TRI_NORM_STRIP    /* blanks at the ends dropped */
} tri_norm_step;

enum { TRI_NORM_STEPS = 16 };

typedef struct tri_normaliser {
    int n;
    struct {
        tri_norm_step kind;
        int left, right; /* STRIP */
    } step[TRI_NORM_STEPS];
} tri_normaliser;

/* The switches of BERT's normaliser. */
typedef struct tri_bert_rules {
    int clean_text, split_chinese, strip_accents, lower_case;
} tri_bert_rules;

/* Appends a step; 0 if there are too many. */
int tri__normaliser_add(tri_normaliser *normaliser, tri_norm_step kind, int left, int right);
int tri__normaliser_add_bert(tri_normaliser *normaliser, tri_bert_rules rules);
/* out[n] points into the text (no steps) or the scratch memory. Any step drops bytes that are not UTF-8. Linear time.
 * TRI_RESOURCE if out of memory. */
tri_status tri__normalise(const tri_normaliser *normaliser, const char *text, size_t length, tri_scratch *scratch,
                          const char **out, size_t *n);
/* Normalisation forms of Unicode: writes to out, which must be large enough, and returns the number of bytes; sets
 * *failed if out of memory. */
size_t tri__normal_form(tri_norm_step form, const char *text, size_t length, tri_bytes *run, char *out, int *failed);

#endif
