/* tokenizer.c - text to ids. Added tokens ("[SEP]") are matched first: in the original text, then in the normalised
 * text; the text between them is split into words, which the model, or the cache of earlier words, turns into ids. */
#include "data/text/tokenizer_parts.h"

/* A text being encoded. */
typedef struct walk {
    const tri_tokenizer *tokenizer;
    tri_scratch scratch;
    tri_ids ids;
    int count;  /* counts all ids; else stops when the output is full */
    const char *text, *normal; /* the beginning of all; of its first part when that was normalised, else NULL */
} walk;

int tri__tokenizer_size(const tri_tokenizer *tokenizer) { return tokenizer->size; }

const char *tri__tokenizer_piece(const tri_tokenizer *tokenizer, int32_t id) {
    TRI_ASSERT(id >= 0 && id < tokenizer->size);
    for (int i = 0; i < tokenizer->added.n; i++)
        if (tokenizer->added.all[i].id == id) return tokenizer->added.all[i].content;
    return id < tokenizer->vocabulary.n ? tokenizer->vocabulary.text + tokenizer->vocabulary.start[id] : "";
}

const char *tri__tokenizer_describe(const tri_tokenizer *tokenizer) { return tokenizer->describe; }

void tri__tokenizer_free(tri_tokenizer *tokenizer) {
    if (!tokenizer) return;
    tri__vocabulary_free(&tokenizer->vocabulary);
    tri__bpe_free(&tokenizer->bpe);
    tri__unigram_free(&tokenizer->unigram);
    tri__normaliser_free(&tokenizer->normaliser);
    tri__added_tokens_free(&tokenizer->added);
    tri__word_cache_free(tokenizer->cache);
    for (int i = 0; i < tokenizer->files; i++) free(tokenizer->file[i].text);
    free(tokenizer);
}

/* Appends a word's ids, by the model. */
static tri_status encode_word(walk *w, const char *word, size_t length) {
    const tri_tokenizer *t = w->tokenizer;
    if (t->model == TRI_MODEL_BPE) return tri__bpe_encode(&t->bpe, &t->vocabulary, word, length, &w->scratch, &w->ids);
    if (t->model == TRI_MODEL_UNIGRAM)
        return tri__unigram_encode(&t->unigram, &t->vocabulary, word, length, &w->scratch, &w->ids);
    tri__wordpiece_encode(&t->wordpiece, &t->vocabulary, word, length, &w->ids);
    return TRI_OK;
}

/* Appends a word's ids: from the vocabulary if it is a WordPiece, else from the cache or the model. */
static int take_word(void *to, const char *word, size_t length) {
    walk *w = to;
    const tri_tokenizer *tokenizer = w->tokenizer;
    int64_t begin = w->ids.n;
    if (!w->count && begin >= w->ids.room) return 0;
    uint64_t hash = tri__piece_hash(word, length);
    if (tokenizer->model == TRI_MODEL_WORDPIECE && length <= (size_t)tokenizer->wordpiece.max_chars) {
        int32_t id = tri__vocabulary_find(&tokenizer->vocabulary, word, length, hash);
        if (id >= 0) return tri__ids_put(&w->ids, id), 1;
    }
    if (tri__word_cache_get(tokenizer->cache, hash, word, length, &w->ids)) return 1;
    if (encode_word(w, word, length) != TRI_OK) return -1;
    if (w->ids.n <= w->ids.room)
        tri__word_cache_put(tokenizer->cache, hash, word, length, w->ids.at + begin, (int)(w->ids.n - begin));
    return 1;
}

typedef int part_taker(walk *w, const char *text, size_t length);

/* Appends ids of the set's tokens in the text; the text between them goes to `take`. 1, 0 or -1 as tri_take_word. */
static int take_added(walk *w, const tri_added_set *set, const char *text, size_t length, part_taker *take) {
    for (size_t taken = 0, from = 0;;) {
        tri_added_match match = tri__added_set_find(set, text, length, from, taken);
        int on = match.begin > taken ? take(w, text + taken, match.begin - taken) : 1;
        if (on != 1 || match.id < 0) return on;
        if (!w->count && w->ids.n >= w->ids.room) return 0;
        tri__ids_put(&w->ids, match.id);
        taken = match.end, from = match.resume;
    }
}

static int take_normal(walk *w, const char *text, size_t length) {
    return tri__pre_tokenize(&w->tokenizer->pre_tokenizer, text, length, text == w->normal, &w->scratch, take_word, w);
}

static int take_raw(walk *w, const char *text, size_t length) {
    const char *normal;
    size_t n;
    if (tri__normalise(&w->tokenizer->normaliser, text, length, &w->scratch, &normal, &n) != TRI_OK) return -1;
    w->normal = text == w->text ? normal : NULL;
    return take_added(w, &w->tokenizer->added.normal, normal, n, take_normal);
}

/* A text's ids without a template; returns the number stored in ids, -1 if out of memory. */
static int encode(walk *w, const char *text, size_t length) {
    w->text = text;
    int done = take_added(w, &w->tokenizer->added.raw, text, length, take_raw);
    tri__scratch_free(&w->scratch);
    return done < 0 ? -1 : (int)(w->ids.n < w->ids.room ? w->ids.n : w->ids.room);
}

/* The ids of a text, truncated to `room`: the first, or the last if texts are truncated on the left. Returns their
 * number, -1 if out of memory. */
static int encode_part(const tri_tokenizer *tokenizer, const char *text, size_t length, int room, int32_t *ids) {
    walk w = {.tokenizer = tokenizer, .ids = {.at = ids, .room = room}, .count = tokenizer->cut_left};
    int n = encode(&w, text, length);
    if (n < 0 || !tokenizer->cut_left || w.ids.n <= room) return n;
    int64_t many = w.ids.n;
    TRI_OWNED(tri__free_at) int32_t *whole = malloc((size_t)many * sizeof *whole); /* [many] */
    if (!whole) return tri__fail(TRI_RESOURCE, "out of memory for a text of %lld tokens", (long long)many), -1;
    w = (walk){.tokenizer = tokenizer, .ids = {.at = whole, .room = (int)many}};
    n = encode(&w, text, length) < 0 ? -1 : room;
    if (n > 0) memcpy(ids, whole + many - room, (size_t)room * sizeof *ids);
    return n;
}

/* Special tokens of a template. */
static int specials(const tri_template *template) {
    int n = 0;
    for (int i = 0; i < template->n; i++) n += template->part[i].id >= 0;
    return n;
}

void tri__tokenizer_specials(const tri_tokenizer *tokenizer, int *before, int *after) {
    const tri_template *template = &tokenizer->one;
    *before = 0;
    while (*before < template->n && template->part[*before].id >= 0) ++*before;
    *after = specials(template) - *before;
}

int tri__tokenizer_encode(const tri_tokenizer *tokenizer, const char *text, size_t length, int max_len, int32_t *ids) {
    TRI_ASSERT(max_len >= 1);
    const tri_template *template = &tokenizer->one;
    int room = max_len > specials(template) ? max_len - specials(template) : 0, n = 0;
    for (int i = 0; i < template->n; i++) {
        if (template->part[i].id >= 0) {
            if (n < max_len) ids[n++] = template->part[i].id;
            continue;
        }
        int count = encode_part(tokenizer, text, length, room < max_len - n ? room : max_len - n, ids + n);
        if (count < 0) return -1;
        n += count;
    }
    return n;
}
