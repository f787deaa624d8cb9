/* utf8.c - validates UTF-8 64 bytes at a time: blocks of ASCII by their high bits, others by vector table look-ups
 * (NEON, SSSE3); one character at a time without vectors, at the end, and to locate a fault. */
#include "data/text/utf8.h"

#include "base/text.h"
#include "data/text/utf8_block.h"

/* Whether any of 64 bytes is not ASCII. */
static int beyond_ascii(const char *text) {
    uint64_t word[8];
    memcpy(word, text, 64);
    uint64_t any = 0;
    for (int i = 0; i < 8; i++) any |= word[i];
    return (any & 0x8080808080808080u) != 0;
}

/* The first fault from `at`, which begins a character, or the first character's end at or after `stop`. */
static size_t walk(const char *text, size_t length, size_t at, size_t stop, int *found) {
    while (at < stop) {
        uint64_t word;
        while (stop - at >= 8 && (memcpy(&word, text + at, 8), !(word & 0x8080808080808080u))) at += 8;
        if (at == stop) break;
        size_t next = at;
        if (tri__utf8_next(text, length, &next) < 0) {
            *found = 1;
            return at;
        }
        at = next;
    }
    return at;
}

#ifdef TRI_UTF8_VECTOR
/* The start of a character that is incomplete at the end of text[at, block); `block` if there is none. */
static size_t character(const char *text, size_t at, size_t block) {
    for (size_t from = block; from > at && block - from < 3;) {
        unsigned char byte = (unsigned char)text[--from];
        if (byte >= 0xC0) return from;
        if (byte < 0x80) break;
    }
    return block;
}
#endif

size_t tri__utf8_fault(const char *text, size_t length) {
    size_t at = 0; /* everything before it is valid, and a character starts here */
    int found = 0;
    while (length - at >= 64) {
        if (!beyond_ascii(text + at)) {
            at += 64;
            continue;
        }
#ifdef TRI_UTF8_VECTOR
        static const char nothing[16];
        const char *before = nothing;
        size_t block = at;
        int wrong = 0, high = 1;
        /* The first ASCII block is checked too: it shows whether the last character before it was complete. */
        for (; high && length - block >= 64; block += 64) {
            if ((wrong = tri_utf8_wrong(text + block, before) != 0)) break;
            before = text + block + 48;
            high = beyond_ascii(text + block);
        }
        at = walk(text, length, character(text, at, block), wrong ? block + 64 : block, &found);
#else
        at = walk(text, length, at, at + 64, &found);
#endif
        if (found) return at;
    }
    return walk(text, length, at, length, &found);
}
