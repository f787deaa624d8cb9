/* bert_text.c - the words of a text, by the rules of Google's BERT as the tokenizers library applies them: first drop
 * control characters, then blanks around Chinese characters, then canonical decomposition without accents, then lower
 * case, then split. A word is held in a buffer of 100 characters, so a text takes time linear in its length. */
#include "data/bert_text.h"

#include "base/text.h"

#include <string.h>

enum { END = -1, SPACE = ' ' };

/* ASCII in one look: 0 dropped, ' ' a blank, else itself. */
static int ascii_kind(unsigned char byte) {
    if (byte == '\t' || byte == '\n' || byte == '\r') return ' ';
    return byte < 0x20 || byte == 0x7F ? 0 : byte;
}

static int is_ascii_punctuation(int32_t code) {
    return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) || (code >= 123 && code <= 126);
}

void tri__words_init(tri_words *words, tri_bert_rules rules, const char *text, size_t length) {
    words->rules = rules;
    words->text = text, words->length = length, words->at = 0;
    words->queued = 0;
    words->chars = 0, words->bytes = 0, words->barrier = 0;
}

static void push(tri_words *words, int32_t code, int order) {
    words->queue[words->queued] = code;
    words->order[words->queued++] = (uint8_t)order;
}

/* Queues what one character becomes, last part first. Nothing may come of it. */
static void normalise(tri_words *words, int32_t code) {
    int32_t part[4] = {code};
    int parts = words->rules.strip_accents ? tri__bert_decompose(code, part) : 1;
    int spaced = words->rules.split_chinese && tri__bert_is_chinese(code);
    if (spaced) push(words, SPACE, 0);
    for (int i = parts - 1; i >= 0; i--) {
        int order = words->rules.strip_accents ? tri__bert_combining(part[i]) : 0;
        if (words->rules.strip_accents && tri__bert_kind(part[i]) == TRI_BERT_ACCENT) {
            if (order == 0) words->barrier = words->chars;
            continue;
        }
        int32_t lower[2] = {part[i]};
        int n = words->rules.lower_case ? tri__bert_lower(part[i], lower) : 1;
        if (n == 2) push(words, lower[1], order);
        push(words, lower[0], order);
    }
    if (spaced) push(words, SPACE, 0);
}

/* The next normalised character, SPACE between words, or END. */
static int32_t next_char(tri_words *words, int *order) {
    for (;;) {
        *order = 0;
        if (words->queued) {
            *order = words->order[--words->queued];
            return words->queue[words->queued];
        }
        if (words->at == words->length) return END;
        unsigned char byte = (unsigned char)words->text[words->at];
        if (byte < 0x80) {
            words->at++;
            int kind = ascii_kind(byte);
            if (!kind) continue;
            return words->rules.lower_case && kind >= 'A' && kind <= 'Z' ? kind + 32 : kind;
        }
        size_t next = words->at;
        int32_t code = tri__utf8_next(words->text, words->length, &next);
        if (code < 0) {
            words->at++;
            continue;
        }
        words->at = next;
        tri_bert_kind kind = tri__bert_kind(code);
        if (kind == TRI_BERT_SPACE) return SPACE;
        if (kind != TRI_BERT_DROP) normalise(words, code);
    }
}

/* Moves the word's last character before earlier ones of a higher combining class: canonical order. */
static void reorder(tri_words *words, int order, int bytes) {
    char saved[4];
    size_t last = words->bytes - (size_t)bytes, to = last;
    int place = words->chars - 1;
    while (place > words->barrier && words->mark[place - 1] > order) {
        place--;
        do to--;
        while ((words->word[to] & 0xC0) == 0x80);
    }
    memcpy(saved, words->word + last, (size_t)bytes);
    memmove(words->word + to + bytes, words->word + to, last - to);
    memcpy(words->word + to, saved, (size_t)bytes);
    memmove(words->mark + place + 1, words->mark + place, (size_t)(words->chars - 1 - place));
    words->mark[place] = (uint8_t)order;
}

static void append(tri_words *words, int32_t code, int order) {
    if (words->chars++ >= TRI_WORD_CHARS) return;
    words->mark[words->chars - 1] = (uint8_t)order;
    if (code < 0x80) {
        words->word[words->bytes++] = (char)code;
        return;
    }
    char utf8[4];
    int bytes = tri__utf8_put(code, utf8);
    memcpy(words->word + words->bytes, utf8, (size_t)bytes);
    words->bytes += (size_t)bytes;
    if (order) reorder(words, order, bytes);
}

int tri__words_next(tri_words *words) {
    words->chars = 0, words->bytes = 0, words->barrier = 0;
    for (;;) {
        int order;
        int32_t code = next_char(words, &order);
        if (code == END || code == SPACE) {
            if (words->chars) return 1;
            if (code == END) return 0;
            words->barrier = 0;
            continue;
        }
        int alone = code < 0x80 ? is_ascii_punctuation(code) : tri__bert_kind(code) == TRI_BERT_PUNCTUATION;
        if (alone && words->chars) {
            push(words, code, order);
            return 1;
        }
        append(words, code, order);
        if (alone) return 1;
    }
}
