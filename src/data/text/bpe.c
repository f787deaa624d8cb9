/* bpe.c - merges a word. Its letters are a linked list in an array; pairs that can be merged are in a heap, by (rank,
 * position). A pair that has changed since is detected by its rank and skipped. So a word of n letters takes n log n
 * steps, even a million equal letters. */
#include "data/text/bpe.h"

#include "data/text/pre_tokenize.h"

typedef struct symbol {
    int32_t id;         /* -1: merged into the one before */
    int32_t prev, next; /* -1: none */
    int32_t rank;       /* of the merge with the next; NEVER */
    int32_t merged;     /* the result of that merge */
} symbol;

enum { NEVER = INT32_MAX };

typedef struct word {
    symbol *at;      /* [n] */
    int32_t n;
    uint64_t *heap;  /* [waiting] rank << 32 | position, least first */
    int32_t waiting;
} word;

static void push(word *w, uint64_t key) {
    int32_t at = w->waiting++;
    for (int32_t parent; at > 0 && key < w->heap[parent = (at - 1) / 2]; at = parent) w->heap[at] = w->heap[parent];
    w->heap[at] = key;
}

static uint64_t pop(word *w) {
    uint64_t top = w->heap[0], moved = w->heap[--w->waiting];
    int32_t at = 0;
    for (int32_t child; (child = 2 * at + 1) < w->waiting; at = child) {
        child += child + 1 < w->waiting && w->heap[child + 1] < w->heap[child];
        if (w->heap[child] >= moved) break;
        w->heap[at] = w->heap[child];
    }
    w->heap[at] = moved;
    return top;
}

/* Looks up the merge of a symbol and the next one, and queues it. */
static void look(const tri_bpe *model, word *w, int32_t at) {
    symbol *it = &w->at[at];
    it->rank = NEVER;
    if (it->next < 0) return;
    const tri_merge *merge = tri__merge_find(model, it->id, w->at[it->next].id);
    if (merge->left < 0) return;
    it->rank = merge->rank, it->merged = merge->id;
    push(w, (uint64_t)it->rank << 32 | (uint32_t)at);
}

static void add(word *w, int32_t id) {
    w->at[w->n] = (symbol){.id = id, .prev = w->n - 1, .next = w->n + 1, .rank = NEVER};
    w->n++;
}

/* Splits the word into letters and finds their pieces. */
static void spell(const tri_bpe *model, const tri_vocabulary *vocabulary, const char *text, size_t length, word *w) {
    int unknown = 0; /* the letter before had no piece */
    for (size_t at = 0, next = 0; at < length; at = next) {
        next = at + 1;
        int32_t id;
        if (model->byte_level) {
            id = model->byte_id[(unsigned char)text[at]];
        } else {
            while (next < length && (text[next] & 0xC0) == 0x80) next++;
            id = tri__vocabulary_find(vocabulary, text + at, next - at, tri__piece_hash(text + at, next - at));
        }
        if (id >= 0) add(w, id);
        else if (model->unknown >= 0 && !(unknown && model->fuse_unknown)) add(w, model->unknown);
        unknown = id < 0;
    }
    if (w->n) w->at[w->n - 1].next = -1;
}

static void merge_all(const tri_bpe *model, word *w) {
    for (int32_t i = 0; i + 1 < w->n; i++) look(model, w, i);
    while (w->waiting) {
        uint64_t key = pop(w);
        int32_t at = (int32_t)(key & 0xFFFFFFFF);
        symbol *it = &w->at[at];
        if (it->id < 0 || (uint64_t)it->rank != key >> 32) continue;
        symbol *gone = &w->at[it->next];
        it->id = it->merged;
        it->next = gone->next;
        gone->id = -1;
        if (it->next >= 0) w->at[it->next].prev = at;
        look(model, w, at);
        if (it->prev >= 0) look(model, w, it->prev);
    }
}

/* The piece equal to the whole word, -1 if there is none. `spelt`: buffer for the word in the byte alphabet. */
static int32_t find_whole(const tri_bpe *model, const tri_vocabulary *vocabulary, const char *text, size_t length,
                          char *spelt) {
    if (!model->byte_level) return tri__vocabulary_find(vocabulary, text, length, tri__piece_hash(text, length));
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += (size_t)tri__utf8_put(tri__byte_level_char((unsigned char)text[i]), spelt + n);
    return tri__vocabulary_find(vocabulary, spelt, n, tri__piece_hash(spelt, n));
}

tri_status tri__bpe_encode(const tri_bpe *model, const tri_vocabulary *vocabulary, const char *text, size_t length,
                           tri_scratch *scratch, tri_ids *ids) {
    if (length > INT32_MAX / 4) return tri__fail(TRI_RESOURCE, "a word of %zu bytes is too long", length);
    TRI_TRY(tri__bytes_room(&scratch->symbols, length * sizeof(symbol)));
    int32_t whole = model->whole_words ? find_whole(model, vocabulary, text, length, scratch->symbols.at) : -1;
    if (whole >= 0) return tri__ids_put(ids, whole), TRI_OK;
    TRI_TRY(tri__bytes_room(&scratch->heap,
                            2 * length * sizeof(uint64_t))); /* a merge removes one entry and adds at most two */
    word w = {.at = (symbol *)(void *)scratch->symbols.at, .heap = (uint64_t *)(void *)scratch->heap.at};
    spell(model, vocabulary, text, length, &w);
    merge_all(model, &w);
    for (int32_t i = w.n ? 0 : -1; i >= 0; i = w.at[i].next) tri__ids_put(ids, w.at[i].id);
    return TRI_OK;
}
