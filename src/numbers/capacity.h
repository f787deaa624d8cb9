/* capacity.h - how many tokens of a sequence an expert takes. It depends on the length alone, so that routing is the
 * same however sequences are packed into microbatches and spread over ranks. */
#pragma once

#include <math.h>
#include <stdint.h>

typedef struct tri_capacity {
    int64_t experts;   /* 0: none */
    int64_t per_token; /* experts that a token chooses */
    double factor;     /* places of all experts, per choice */
} tri_capacity;

/* Places of one expert for a sequence: at least 1, at most one for each of its tokens. A product that is above a whole
 * number only by rounding counts as that number. */
static inline int64_t tri__capacity(const tri_capacity *of, int64_t length) {
    double share = of->factor * (double)(of->per_token * length) / (double)of->experts;
    if (share >= (double)length) return length > 0 ? length : 1;
    int64_t places = (int64_t)ceil(share * (1 - 1e-12));
    return places > 1 ? places : 1;
}

/* Rows of all experts for any sequences of so many tokens in all, at most. */
static inline int64_t tri__capacity_rows(const tri_capacity *of, int64_t tokens, int64_t sequences) {
    if (!of->experts) return 0;
    double share = of->factor * (double)(of->per_token * tokens) / (double)of->experts + (double)sequences;
    return of->experts * (share >= (double)tokens ? tokens : (int64_t)share);
}
