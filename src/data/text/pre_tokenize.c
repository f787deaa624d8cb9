/* pre_tokenize.c - splits text into words. Words are spans of the text; a word is copied only if something is
 * put in front of it. */
#include "data/text/pre_tokenize.h"

#include "data/text/unicode.h"

typedef struct walk {
    const tri_pre_tokenizer *pre_tokenizer;
    tri_scratch *scratch;
    tri_take_word *take;
    void *to;
    const char *first; /* the text, if it is the beginning of all; NULL */
} walk;

static int split(const walk *w, int step, const char *text, size_t length);

/* Passes a word of one step to the next step. */
static int emit(const walk *w, int step, const char *word, size_t length) {
    if (!length) return 1;
    return step + 1 < w->pre_tokenizer->n ? split(w, step + 1, word, length) : w->take(w->to, word, length);
}

/* Words end at blanks; a character of the classes `alone` is a separate word. */
static int split_at(const walk *w, int step, const char *text, size_t length, int alone) {
    size_t start = 0, next = 0;
    for (size_t at = 0; at < length; at = next) {
        next = at;
        int class = tri__class_at(text, length, &next);
        if (!(class & (TRI_CHAR_SPACE | alone))) continue;
        int on = emit(w, step, text + start, at - start);
        if (on == 1 && !(class & TRI_CHAR_SPACE)) on = emit(w, step, text + at, next - at);
        if (on != 1) return on;
        start = next;
    }
    return emit(w, step, text + start, length - start);
}

/* Runs of characters of one kind, \w or neither \w nor \s. */
static int split_words(const walk *w, int step, const char *text, size_t length) {
    size_t start = 0, next = 0;
    int kind = TRI_CHAR_SPACE;
    for (size_t at = 0; at <= length; at = next) {
        next = at;
        int here = at < length ? tri__class_at(text, length, &next) & (TRI_CHAR_WORD | TRI_CHAR_SPACE) : TRI_CHAR_SPACE;
        if (at == length || here != kind) {
            int on = kind == TRI_CHAR_SPACE ? 1 : emit(w, step, text + start, at - start);
            if (on != 1 || at == length) return on;
            start = at, kind = here;
        }
    }
    return 1;
}

/* Whether to split between two characters, each punctuation (1) or not (0). */
static int cuts(tri_behaviour behaviour, int before, int after) {
    switch (behaviour) {
    case TRI_CONTIGUOUS: return before != after;
    case TRI_WITH_PREVIOUS: return before;
    case TRI_WITH_NEXT: return after;
    default: return before || after;
    }
}

static int split_punctuation(const walk *w, int step, const char *text, size_t length, tri_behaviour behaviour) {
    size_t start = 0, next = 0;
    int before = 0;
    for (size_t at = 0; at < length; at = next) {
        next = at;
        int here = (tri__class_at(text, length, &next) & TRI_CHAR_PUNCTUATION) != 0;
        if (at && cuts(behaviour, before, here)) {
            int on = behaviour == TRI_REMOVED && before ? 1 : emit(w, step, text + start, at - start);
            if (on != 1) return on;
            start = at;
        }
        before = here;
    }
    return behaviour == TRI_REMOVED && before ? 1 : emit(w, step, text + start, length - start);
}

/* lead[bytes] and text[n] as a word. */
static int emit_lead(const walk *w, int step, const char *lead, size_t bytes, const char *text, size_t n) {
    if (tri__bytes_room(&w->scratch->lead, n + bytes) != TRI_OK) return -1;
    char *word = w->scratch->lead.at;
    memcpy(word, lead, bytes);
    memcpy(word + bytes, text, n);
    return emit(w, step, word, n + bytes);
}

static int split_byte_level(const walk *w, int step, const char *text, size_t length, int prefix_space, int pattern) {
    size_t at = 0;
    if (prefix_space && text[0] != ' ') {
        at = pattern ? tri__byte_level_end(text, length, 0, 1) : length;
        int on = emit_lead(w, step, " ", 1, text, at);
        if (on != 1) return on;
    }
    for (size_t end; at < length; at = end) {
        end = pattern ? tri__byte_level_end(text, length, at, 0) : length;
        int on = emit(w, step, text + at, end - at);
        if (on != 1) return on;
    }
    return 1;
}

/* Bytes of the blank or mark at text[at]; 0: neither. */
static size_t mark_at(const char *text, size_t length, size_t at, const char *mark, size_t bytes) {
    if (text[at] == ' ') return 1;
    return text[at] == mark[0] && bytes <= length - at && !memcmp(text + at, mark, bytes) ? bytes : 0;
}

/* The whole text as a word, its blanks replaced. */
static int emit_marked(const walk *w, int step, const char *text, size_t length, const char *mark, size_t bytes,
                       int lead) {
    size_t n = 0;
    if (tri__bytes_room(&w->scratch->lead, (length + 1) * bytes) != TRI_OK) return -1;
    char *word = w->scratch->lead.at;
    if (lead) memcpy(word, mark, bytes), n = bytes;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != ' ') word[n++] = text[i];
        else memcpy(word + n, mark, bytes), n += bytes;
    }
    return emit(w, step, word, n);
}

static int split_metaspace(const walk *w, int step, const char *text, size_t length) {
    const char *mark = w->pre_tokenizer->step[step].mark;
    size_t bytes = (size_t)w->pre_tokenizer->step[step].mark_bytes;
    tri_scheme scheme = w->pre_tokenizer->step[step].scheme;
    int lead = (scheme == TRI_SCHEME_ALWAYS || (scheme == TRI_SCHEME_FIRST && text == w->first)) &&
               !mark_at(text, length, 0, mark, bytes);
    if (!w->pre_tokenizer->step[step].pattern) return emit_marked(w, step, text, length, mark, bytes, lead);
    for (size_t at = 0, end; at < length; at = end, lead = 0) {
        size_t begins = mark_at(text, length, at, mark, bytes);
        end = at + (begins ? begins : 1);
        while (end < length && !mark_at(text, length, end, mark, bytes)) end++;
        size_t skip = text[at] == ' ';
        int on = skip || lead ? emit_lead(w, step, mark, bytes, text + at + skip, end - at - skip)
                              : emit(w, step, text + at, end - at);
        if (on != 1) return on;
    }
    return 1;
}

static int split(const walk *w, int step, const char *text, size_t length) {
    switch (w->pre_tokenizer->step[step].kind) {
    case TRI_SPLIT_BERT: return split_at(w, step, text, length, TRI_CHAR_PUNCTUATION);
    case TRI_SPLIT_BLANKS: return split_at(w, step, text, length, 0);
    case TRI_SPLIT_WORDS: return split_words(w, step, text, length);
    case TRI_SPLIT_PUNCTUATION: return split_punctuation(w, step, text, length, w->pre_tokenizer->step[step].behaviour);
    case TRI_SPLIT_BYTE_LEVEL:
        return split_byte_level(w, step, text, length, w->pre_tokenizer->step[step].prefix_space,
                                w->pre_tokenizer->step[step].pattern);
    case TRI_SPLIT_METASPACE: return split_metaspace(w, step, text, length);
    }
    return 1;
}

int tri__pre_tokenize(const tri_pre_tokenizer *pre_tokenizer, const char *text, size_t length, int first,
                      tri_scratch *scratch, tri_take_word *take, void *to) {
    if (!length) return 1;
    walk w = {pre_tokenizer, scratch, take, to, first ? text : NULL};
    return pre_tokenizer->n ? split(&w, 0, text, length) : take(to, text, length);
}
