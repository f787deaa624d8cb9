/* normalise.h - the first stage of a tokenizer: text to text, by a short list of steps. */
#pragma once

#include "data/text/charsmap.h"
#include "data/text/replace.h"

typedef enum tri_norm_step {
    TRI_NORM_CLEAN,   /* control characters dropped, blanks of any kind to U+0020 */
    TRI_NORM_CHINESE, /* blanks around Chinese characters */
    TRI_NORM_NFD, TRI_NORM_NFC, TRI_NORM_NFKD, TRI_NORM_NFKC,
    TRI_NORM_ACCENTS, /* nonspacing marks dropped */
    TRI_NORM_MARKS,   /* marks of any kind dropped */
    TRI_NORM_LOWER,
    TRI_NORM_STRIP,   /* blanks at the ends dropped */
    TRI_NORM_NMT,     /* SentencePiece's: control characters dropped, others and blanks to U+0020 */
    TRI_NORM_PREPEND, TRI_NORM_REPLACE, TRI_NORM_CHARSMAP
} tri_norm_step;

enum {
    TRI_NORM_STEPS = 16,
    TRI_NORM_GROWTH = 4096 /* most bytes that all steps may make of one */
};

typedef struct tri_norm_rule {
    tri_norm_step kind;
    int left, right;     /* STRIP */
    tri_replace replace; /* REPLACE; PREPEND: its content */
    tri_charsmap *map;   /* CHARSMAP */
} tri_norm_rule;

typedef struct tri_normaliser {
    int n;
    tri_norm_rule step[TRI_NORM_STEPS];
} tri_normaliser;

/* The switches of BERT's normaliser. */
typedef struct tri_bert_rules {
    int clean_text, split_chinese, strip_accents, lower_case;
} tri_bert_rules;

/* Appends a step, of which the caller sets what its kind needs: it owns texts and map. NULL if there are too many. */
tri_norm_rule *tri__normaliser_add(tri_normaliser *normaliser, tri_norm_step kind);
/* 0 if there are too many steps. */
int tri__normaliser_add_bert(tri_normaliser *normaliser, tri_bert_rules rules);
void tri__normaliser_free(tri_normaliser *normaliser);
/* The most bytes that the steps make of one; more than TRI_NORM_GROWTH if that is too many. */
size_t tri__normaliser_growth(const tri_normaliser *normaliser);
/* Whether a step may drop characters at the beginning of a text. */
int tri__normaliser_drops_first(const tri_normaliser *normaliser);
/* out[n] points into the text (no steps) or the scratch memory. Steps that map characters drop bytes that are not
 * UTF-8. Linear time. TRI_RESOURCE if out of memory. */
tri_status tri__normalise(const tri_normaliser *normaliser, const char *text, size_t length, tri_scratch *scratch,
                          const char **out, size_t *n);
/* Normalisation forms of Unicode: writes to out, which must be large enough, and returns the number of bytes; sets
 * *failed if out of memory. */
size_t tri__normal_form(tri_norm_step form, const char *text, size_t length, tri_bytes *run, char *out, int *failed);
