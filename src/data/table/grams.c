/* grams.c - names and codes as numbers: character n-grams, each counted with a sign in a bucket that its hash gives
 * (Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009). The n-grams are those of
 * scikit-learn's HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5)): of each word, in lower case and between two
 * blanks. Of the XXH3 of an n-gram's UTF-8 the lower half, modulo the buckets, is its bucket, and the topmost bit its
 * sign. */
#include "base/hash.h"
#include "data/table/value_form.h"
#include "data/text/unicode.h"

enum { SHORTEST = 3, LONGEST = 5, CHAR_BYTES = 4 };

/* The last characters of a word, and where its n-grams are counted. */
typedef struct window {
    char text[LONGEST * CHAR_BYTES];
    size_t bytes[LONGEST], used; /* of each character; of all */
    int n, buckets;
    float *to;
} window;

/* Counts the n-grams that end with a character. */
static void take_char(window *w, int32_t code) {
    if (w->n == LONGEST) {
        w->used -= w->bytes[0];
        memmove(w->text, w->text + w->bytes[0], w->used);
        memmove(w->bytes, w->bytes + 1, (size_t)--w->n * sizeof *w->bytes);
    }
    w->bytes[w->n] = (size_t)tri__utf8_put(code, w->text + w->used);
    w->used += w->bytes[w->n++];
    size_t from = w->used;
    for (int chars = 1; chars <= w->n; chars++) {
        from -= w->bytes[w->n - chars];
        if (chars < SHORTEST) continue;
        uint64_t hash = tri__hash64(0, w->text + from, w->used - from);
        w->to[(uint32_t)hash % (uint32_t)w->buckets] += hash >> 63 ? -1 : 1;
    }
}

void tri__grams_count(tri_field_text text, int buckets, float *to) {
    window w = {.buckets = buckets, .to = to};
    double squares = 0;
    for (int k = 0; k < buckets; k++) to[k] = 0;
    for (size_t at = 0; at < text.length;) {
        int32_t code = tri__utf8_next(text.text, text.length, &at), lower[2];
        int is_blank = code < 0 || tri__char_class(code) & TRI_CHAR_SPACE;
        int n = is_blank ? 0 : tri__char_lower(code, lower);
        if (n && !w.n) take_char(&w, ' ');
        for (int k = 0; k < n; k++) take_char(&w, lower[k]);
        if (w.n && (is_blank || at == text.length)) take_char(&w, ' '), w.n = 0, w.used = 0;
    }
    for (int k = 0; k < buckets; k++) squares += (double)to[k] * (double)to[k];
    for (int k = 0; k < buckets && squares > 0; k++) to[k] = (float)((double)to[k] / sqrt(squares));
}
