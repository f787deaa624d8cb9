/* byte_level.c - splits text into words with GPT-2's regular expression, hand-coded: no engine, no backtracking, each
 * character is examined at most twice. Also GPT-2's alphabet, which maps each of 256 bytes to a printable character. */
#include "data/text/pre_tokenize.h"

#include "data/text/unicode.h"

enum { KINDS = TRI_CHAR_LETTER | TRI_CHAR_NUMBER | TRI_CHAR_SPACE }; /* none of them: the pattern's [^\s\p{L}\p{N}] */

static int kind_at(const char *text, size_t length, size_t at, size_t *next) {
    *next = at;
    return tri__class_at(text, length, next) & KINDS;
}

/* Bytes of a contraction, "'s" or "'ll", at text[0]; 0 if there is none. */
static size_t contraction(const char *text, size_t length) {
    if (length >= 2 && text[0] == '\'') {
        if (text[1] == 's' || text[1] == 't' || text[1] == 'm' || text[1] == 'd') return 2;
        if (length >= 3 && (!memcmp(text + 1, "re", 2) || !memcmp(text + 1, "ve", 2) || !memcmp(text + 1, "ll", 2)))
            return 3;
    }
    return 0;
}

size_t tri__byte_level_end(const char *text, size_t length, size_t at, int lead) {
    size_t next, begin = at + (!lead && text[at] == ' ');
    size_t shortened = lead ? 0 : contraction(text + at, length - at);
    if (shortened) return at + shortened;
    int kind = begin < length ? kind_at(text, length, begin, &next) : TRI_CHAR_SPACE;
    if (kind != TRI_CHAR_SPACE) {
        size_t end = next;
        while (end < length && kind_at(text, length, end, &next) == kind) end = next;
        return end;
    }
    size_t end = at, last = at; /* blanks are [at, end), the last of them begins at `last` */
    while (end < length && kind_at(text, length, end, &next) == TRI_CHAR_SPACE) last = end, end = next;
    int alone = !lead && last == at;
    return end == length || alone ? end : last;
}

int32_t tri__byte_level_char(unsigned char byte) {
    if ((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174) return byte;
    /* the others follow U+0100 in their order: 0 to 32, 127 to 160, 173 */
    return 256 + (byte <= 32 ? byte : byte == 173 ? 67 : byte - 127 + 33);
}
