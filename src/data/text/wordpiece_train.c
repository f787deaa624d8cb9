/* wordpiece_train.c - learns a WordPiece vocabulary like the tokenizers library: words are split into characters, and
 * the most frequent adjacent pair repeatedly becomes a piece (Sennrich et al. 2016; continuing pieces have the prefix
 * "##"). Pairs are in a heap with their count at insertion; a stale entry is reinserted. Only words that contain the
 * pair are updated, so the work is bounded by the number of characters of distinct words. Ties go to the pair of older
 * pieces: the result depends only on the texts. */
#include "data/text/tokenizer.h"

#include "base/arena.h"
#include "base/file.h"
#include "data/text/normalise.h"
#include "data/text/pre_tokenize.h"
#include "data/text/wordpiece.h"

enum {
    MAX_ALPHABET = 1000, /* rarer characters are dropped, and words with them */
    MIN_COUNT = 2        /* least count of a pair that becomes a piece */
};

/* BERT's special tokens, which come first: their keys in tokenizer_config.json, and their texts. */
static const struct {
    const char *key, *name;
} specials[] = {{"pad_token", "[PAD]"}, {"unk_token", "[UNK]"}, {"cls_token", "[CLS]"}, {"sep_token", "[SEP]"},
                {"mask_token", "[MASK]"}};
enum { SPECIALS = sizeof specials / sizeof *specials };

/* Bytes to numbers, in the order in which they come: open addressing, at most half full. */
typedef struct slot {
    const char *key;
    size_t length;
    uint64_t hash;
    int value;
} slot;

typedef struct map {
    slot *slots;     /* [room] */
    uint64_t room, used;
} map;

typedef struct word {
    const char *text; /* [bytes] */
    size_t bytes;
    int64_t count;
    int *symbol;      /* [n], its pieces */
    int n;            /* 0: it has a character without a piece */
} word;

typedef struct letter {
    const char *text; /* [bytes] one character */
    int bytes;
    int64_t count;
    int begins, continues; /* pieces; -1: none */
} letter;

typedef struct pair {
    int left, right;
    int64_t count;
    int *word;        /* [n], words that contain it, or did */
    int n, room;
    int raised;       /* by the current merge, so that it is pushed onto the heap once */
} pair;

typedef struct candidate {
    int64_t count;
    int left, right, pair;
} candidate;

typedef struct trainer {
    tri_arena *arena;
    map words_by_text, letters_by_text, pieces_by_text, pairs_by_key;
    word *words;
    letter *letters;
    const char **pieces;
    pair *pairs;
    candidate *heap;
    int *raised;      /* pairs whose count has grown in the current merge */
    int n_words, n_letters, n_pieces, n_pairs, n_heap, n_raised;
    int room_words, room_letters, room_pieces, room_pairs, room_heap, room_raised;
} trainer;

static void map_grow(tri_arena *arena, map *map) {
    slot *old = map->slots;
    uint64_t room = map->room;
    map->room = room ? 2 * room : 1024;
    map->slots = tri__arena_alloc(arena, map->room * sizeof *map->slots);
    for (uint64_t i = 0; i < room; i++) {
        if (!old[i].key) continue;
        uint64_t at = old[i].hash & (map->room - 1);
        while (map->slots[at].key) at = (at + 1) & (map->room - 1);
        map->slots[at] = old[i];
    }
}

/* The entry of a key; a new one has the next number, and stores a 0-terminated copy of the key. */
static slot *map_get(tri_arena *arena, map *map, const void *key, size_t length) {
    if (2 * map->used >= map->room) map_grow(arena, map);
    uint64_t hash = tri__hash64(0, key, length), at = hash & (map->room - 1);
    for (slot *here; (here = &map->slots[at])->key; at = (at + 1) & (map->room - 1))
        if (here->hash == hash && here->length == length && !memcmp(here->key, key, length)) return here;
    char *copy = tri__arena_alloc(arena, length + 1);
    memcpy(copy, key, length);
    map->slots[at] = (slot){copy, length, hash, (int)map->used++};
    return &map->slots[at];
}

static int add_piece(trainer *t, const char *text, size_t length) {
    slot *found = map_get(t->arena, &t->pieces_by_text, text, length);
    if (found->value == t->n_pieces) *TRI_PUSH(t->arena, t->pieces, t->n_pieces, t->room_pieces) = found->key;
    return found->value;
}

static int count_word(void *to, const char *text, size_t length) {
    trainer *t = to;
    size_t chars = 0;
    for (size_t i = 0; i < length; i++) chars += (text[i] & 0xC0) != 0x80;
    if (chars > TRI_WORD_CHARS) return 1;
    slot *entry = map_get(t->arena, &t->words_by_text, text, length);
    if (entry->value == t->n_words)
        *TRI_PUSH(t->arena, t->words, t->n_words, t->room_words) = (word){.text = entry->key, .bytes = length};
    t->words[entry->value].count++;
    return 1;
}

static tri_status count_words(trainer *t, const char *const *texts, int64_t n, tri_bert_rules rules) {
    tri_normaliser normaliser = {0};
    tri_pre_tokenizer split = {.n = 1, .step = {{.kind = TRI_SPLIT_BERT}}};
    TRI_OWNED(tri__scratch_free) tri_scratch scratch = {0};
    TRI_ASSERT(tri__normaliser_add_bert(&normaliser, rules));
    for (int64_t i = 0; i < n; i++) {
        const char *text;
        size_t length;
        TRI_TRY(tri__normalise(&normaliser, texts[i], strlen(texts[i]), &scratch, &text, &length));
        tri__pre_tokenize(&split, text, length, 1, &scratch, count_word, t);
    }
    return TRI_OK;
}

static int char_bytes(const char *text, size_t rest) {
    size_t n = 1;
    while (n < rest && (text[n] & 0xC0) == 0x80) n++;
    return (int)n;
}

static int by_count(const void *a, const void *b) {
    const letter *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(x->text, y->text);
}

static int by_text(const void *a, const void *b) {
    return strcmp(((const letter *)a)->text, ((const letter *)b)->text);
}

/* Selects the most frequent characters, at most `limit`, in code point order; each gets a piece that begins a word. */
static void choose_letters(trainer *t, int limit) {
    for (int w = 0; w < t->n_words; w++)
        for (size_t at = 0; at < t->words[w].bytes;) {
            const char *text = t->words[w].text + at;
            int bytes = char_bytes(text, t->words[w].bytes - at);
            slot *entry = map_get(t->arena, &t->letters_by_text, text, (size_t)bytes);
            if (entry->value == t->n_letters)
                *TRI_PUSH(t->arena, t->letters, t->n_letters, t->room_letters) =
                    (letter){.text = entry->key, .bytes = bytes, .begins = -1, .continues = -1};
            t->letters[entry->value].count += t->words[w].count;
            at += (size_t)bytes;
        }
    if (t->n_letters) qsort(t->letters, (size_t)t->n_letters, sizeof *t->letters, by_count);
    if (t->n_letters > limit) t->n_letters = limit;
    if (t->n_letters) qsort(t->letters, (size_t)t->n_letters, sizeof *t->letters, by_text);
    t->letters_by_text = (map){0};
    for (int i = 0; i < t->n_letters; i++) {
        letter *it = &t->letters[i];
        it->begins = add_piece(t, it->text, (size_t)it->bytes);
        map_get(t->arena, &t->letters_by_text, it->text, (size_t)it->bytes); /* its number is i */
    }
}

/* Finds each word's letters; then adds the continuing pieces, in code point order; then replaces letters by pieces. */
static void spell_words(trainer *t) {
    for (int w = 0; w < t->n_words; w++) {
        word *it = &t->words[w];
        it->symbol = tri__arena_alloc(t->arena, it->bytes * sizeof *it->symbol);
        for (size_t at = 0; at < it->bytes;) {
            int bytes = char_bytes(it->text + at, it->bytes - at);
            int number = map_get(t->arena, &t->letters_by_text, it->text + at, (size_t)bytes)->value;
            if (number >= t->n_letters) {
                it->n = 0;
                break;
            }
            if (it->n) t->letters[number].continues = 0; /* needed */
            it->symbol[it->n++] = number;
            at += (size_t)bytes;
        }
    }
    for (int i = 0; i < t->n_letters; i++) {
        letter *it = &t->letters[i];
        char text[8] = "##";
        memcpy(text + 2, it->text, (size_t)it->bytes);
        if (it->continues == 0) it->continues = add_piece(t, text, (size_t)it->bytes + 2);
    }
    for (int w = 0; w < t->n_words; w++)
        for (int i = 0; i < t->words[w].n; i++) {
            const letter *it = &t->letters[t->words[w].symbol[i]];
            t->words[w].symbol[i] = i ? it->continues : it->begins;
        }
}

static int before(const candidate *a, const candidate *b) {
    if (a->count != b->count) return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static void heap_push(trainer *t, int number) {
    const pair *it = &t->pairs[number];
    candidate fresh = {it->count, it->left, it->right, number};
    (void)TRI_PUSH(t->arena, t->heap, t->n_heap, t->room_heap);
    int at = t->n_heap - 1;
    for (int parent; at > 0 && before(&fresh, &t->heap[parent = (at - 1) / 2]); at = parent)
        t->heap[at] = t->heap[parent];
    t->heap[at] = fresh;
}

static candidate heap_pop(trainer *t) {
    candidate top = t->heap[0], moved = t->heap[--t->n_heap];
    int at = 0;
    for (int child; (child = 2 * at + 1) < t->n_heap; at = child) {
        if (child + 1 < t->n_heap && before(&t->heap[child + 1], &t->heap[child])) child++;
        if (!before(&t->heap[child], &moved)) break;
        t->heap[at] = t->heap[child];
    }
    if (t->n_heap) t->heap[at] = moved;
    return top;
}

/* Adds a word's pairs (sign 1) or takes them away (-1). */
static void count_pairs(trainer *t, int w, int sign) {
    const word *it = &t->words[w];
    for (int i = 0; i + 1 < it->n; i++) {
        int key[2] = {it->symbol[i], it->symbol[i + 1]};
        slot *entry = map_get(t->arena, &t->pairs_by_key, key, sizeof key);
        if (entry->value == t->n_pairs)
            *TRI_PUSH(t->arena, t->pairs, t->n_pairs, t->room_pairs) = (pair){.left = key[0], .right = key[1]};
        pair *of = &t->pairs[entry->value];
        of->count += sign * it->count;
        if (sign < 0) continue;
        if (!of->n || of->word[of->n - 1] != w) *TRI_PUSH(t->arena, of->word, of->n, of->room) = w;
        if (of->raised) continue;
        of->raised = 1;
        *TRI_PUSH(t->arena, t->raised, t->n_raised, t->room_raised) = entry->value;
    }
}

static void push_raised(trainer *t) {
    for (int i = 0; i < t->n_raised; i++) {
        pair *it = &t->pairs[t->raised[i]];
        it->raised = 0;
        if (it->count >= MIN_COUNT) heap_push(t, t->raised[i]);
    }
    t->n_raised = 0;
}

static int holds(const word *it, int left, int right) {
    for (int i = 0; i + 1 < it->n; i++)
        if (it->symbol[i] == left && it->symbol[i + 1] == right) return 1;
    return 0;
}

static void merge(trainer *t, int number) {
    int left = t->pairs[number].left, right = t->pairs[number].right;
    const char *front = t->pieces[left], *back = t->pieces[right] + 2; /* continuing pieces begin with ## */
    char text[4 * TRI_WORD_CHARS + 8];
    size_t length = strlen(front), more = strlen(back);
    TRI_ASSERT(length + more <= sizeof text);
    memcpy(text, front, length);
    memcpy(text + length, back, more);
    int whole = add_piece(t, text, length + more);
    for (int i = 0; i < t->pairs[number].n; i++) { /* the list cannot grow here: no word gains this pair */
        int w = t->pairs[number].word[i];
        word *it = &t->words[w];
        if (!holds(it, left, right)) continue;
        count_pairs(t, w, -1);
        int n = 0;
        for (int from = 0; from < it->n; from++) {
            int both = from + 1 < it->n && it->symbol[from] == left && it->symbol[from + 1] == right;
            it->symbol[n++] = both ? whole : it->symbol[from];
            from += both;
        }
        it->n = n;
        count_pairs(t, w, 1);
    }
    push_raised(t);
}

static void learn(trainer *t, int size) {
    for (int w = 0; w < t->n_words; w++) count_pairs(t, w, 1);
    push_raised(t);
    while (t->n_pieces < size && t->n_heap) {
        candidate best = heap_pop(t);
        int64_t now = t->pairs[best.pair].count;
        if (best.count == now) merge(t, best.pair);
        else if (best.count > now && now >= MIN_COUNT) heap_push(t, best.pair);
    }
}

static tri_status write_pieces(const char *folder, const char *const *piece, int n) {
    TRI_OWNED(tri__buffer_free) tri_buffer text = {0};
    TRI_PATH(path, folder, "vocab.txt");
    for (int i = 0; i < n; i++) tri__buffer_put(&text, "%s\n", piece[i]);
    if (text.failed) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    return tri__file_write(path, text.text, text.size);
}

/* vocab.txt and tokenizer_config.json. */
static tri_status write_folder(const char *folder, const char *const *piece, int n, tri_bert_rules rules) {
    TRI_TRY(tri__folder_make(folder));
    TRI_TRY(write_pieces(folder, piece, n));
    TRI_PATH(path, folder, "tokenizer_config.json");
    TRI_OWNED(tri__json_drop) tri_json *config =
        tri__json_pack("{s:s, s:b, s:b, s:b}", "tokenizer_class", "BertTokenizer", "do_lower_case", rules.lower_case,
                       "strip_accents", rules.strip_accents, "tokenize_chinese_chars", rules.split_chinese);
    int failed = !config;
    for (int i = 0; i < SPECIALS && !failed; i++)
        failed = tri__json_set_new(config, specials[i].key, tri__json_string(specials[i].name));
    if (failed) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    return tri__json_save(path, config);
}

typedef struct training {
    const char *const *texts; /* [n] */
    int64_t n;
    int size, lower_case;
    const char *folder;
} training;

static tri_status train(tri_arena *scratch, void *data) {
    const training *job = data;
    trainer t = {.arena = scratch};
    for (int i = 0; i < SPECIALS; i++) add_piece(&t, specials[i].name, strlen(specials[i].name));
    tri_bert_rules rules = {
        .clean_text = 1, .lower_case = job->lower_case, .strip_accents = job->lower_case, .split_chinese = 1};
    TRI_TRY(count_words(&t, job->texts, job->n, rules));
    int limit = (job->size - SPECIALS) / 2;
    choose_letters(&t, limit < MAX_ALPHABET ? limit : MAX_ALPHABET);
    spell_words(&t);
    learn(&t, job->size);
    return write_folder(job->folder, t.pieces, t.n_pieces, rules);
}

tri_status tri__wordpiece_train(const char *const *texts, int64_t n, int size, int lower_case, const char *folder) {
    if (size < SPECIALS + 2)
        return tri__fail(TRI_USAGE, "a vocabulary of %d pieces is too small; it takes at least %d", size, SPECIALS + 2);
    training job = {texts, n, size, lower_case, folder};
    return tri__arena_scratch(train, &job);
}
