/* text.c - the nearest name (edit distance with transpositions), UTF-8, and human-readable numbers. */
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 128 }; /* longest word compared, in bytes */

/* Lower case, without dashes and underscores. Returns the length; -1 if too long. */
static int fold(const char *word, char out[WORD_MAX]) {
    int n = 0;
    for (; *word; word++) {
        if (*word == '-' || *word == '_') continue;
        if (n == WORD_MAX) return -1;
        out[n++] = (char)tolower((unsigned char)*word);
    }
    return n;
}

static int min2(int a, int b) { return a < b ? a : b; }

/* Insertions, deletions, replacements and transpositions that turn a[n] into b[m]. */
static int distance(const char *a, int n, const char *b, int m) {
    int rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    for (int j = 0; j <= m; j++) last[j] = j;
    for (int i = 1; i <= n; i++) {
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            row[j] = min2(min2(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            int swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) row[j] = min2(row[j], before[j - 2] + 1);
        }
        int *spare = before;
        before = last, last = row, row = spare;
    }
    return last[m];
}

void tri__text_append(char *out, size_t size, const char *join, const char *format, ...) {
    size_t used = strlen(out);
    if (used) used += (size_t)snprintf(out + used, size - used, "%s", join);
    if (used < size) TRI_FORMAT(out + used, size - used, format);
}

char *tri__text_print(char *out, size_t size, const char *format, ...) {
    TRI_FORMAT(out, size, format);
    return out;
}

int tri__text_index(const char *word, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], word) == 0) return i;
    return -1;
}

const char *tri__text_nearest(const char *word, const char *const *names, int n) {
    char folded[WORD_MAX], other[WORD_MAX];
    int length = fold(word, folded), least = 0;
    if (length <= 0) return NULL;
    /* Up to a third of the letters may be wrong; in a very short word one, if a letter remains. */
    int slack = length < 3 ? 1 : length / 3;
    const char *nearest = NULL;
    for (int i = 0; i < n; i++) {
        int other_length = fold(names[i], other);
        if (other_length < 0 || abs(other_length - length) > slack) continue;
        int steps = distance(folded, length, other, other_length);
        if (!nearest || steps < least) nearest = names[i], least = steps;
    }
    return nearest && least <= slack && least < length ? nearest : NULL;
}

int32_t tri__utf8_next(const char *text, size_t length, size_t *at) {
    if (*at >= length) return -1;
    const unsigned char *s = (const unsigned char *)text + *at;
    size_t left = length - *at;
    *at += 1;
    if (s[0] < 0x80) return s[0];
    int more = s[0] >= 0xF0 ? 3 : s[0] >= 0xE0 ? 2 : 1; /* bytes that follow */
    if (s[0] < 0xC2 || s[0] > 0xF4 || left <= (size_t)more) return -1;
    int32_t code = s[0] & (0x3F >> more);
    for (int i = 1; i <= more; i++) {
        if ((s[i] & 0xC0) != 0x80) return -1;
        code = code << 6 | (s[i] & 0x3F);
    }
    static const int32_t least[4] = {0, 0x80, 0x800, 0x10000};
    if (code < least[more] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return -1;
    *at += (size_t)more;
    return code;
}

int tri__utf8_put(int32_t code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const int lead[4] = {0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(lead[more] | code >> (6 * more));
    for (int i = 1; i <= more; i++) out[i] = (char)(0x80 | (code >> (6 * (more - i)) & 0x3F));
    return more + 1;
}

int tri__text_hex4(const char *text, size_t left) {
    int code = 0;
    for (size_t i = 0; i < 4; i++) {
        int digit = i < left ? text[i] : 0;
        int lower = digit | 0x20;
        if (digit >= '0' && digit <= '9') code = code << 4 | (digit - '0');
        else if (lower >= 'a' && lower <= 'f') code = code << 4 | (lower - 'a' + 10);
        else return -1;
    }
    return code;
}

int tri__text_begins(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

int tri__text_ends(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* How a word must be written. */
typedef enum quoting { AS_IT_IS, IN_QUOTES, ESCAPED } quoting;

/* Control characters and bytes that are not UTF-8 cannot be printed safely: they are written as \ooo in $'...'. */
static quoting quoting_of(const char *word) {
    size_t length = strlen(word), at = 0;
    quoting need = length ? AS_IT_IS : IN_QUOTES;
    while (at < length) {
        unsigned char first = (unsigned char)word[at];
        int32_t code = tri__utf8_next(word, length, &at);
        if (code < 32 || (code >= 127 && code < 160)) return ESCAPED;
        if (first < 128 && !isalnum(first) && !strchr("-_=+./,:@%", first)) need = IN_QUOTES;
    }
    return need;
}

char *tri__text_quoted(const char *word) {
    quoting need = quoting_of(word);
    size_t length = strlen(word), at = 0;
    char *out = malloc(4 * length + 4), *to = out;
    if (!out) return NULL;
    if (need == ESCAPED) *to++ = '$';
    if (need) *to++ = '\'';
    while (at < length) {
        size_t begin = at;
        int32_t code = tri__utf8_next(word, length, &at);
        int odd = code < 32 || (code >= 127 && code < 160);
        for (size_t i = begin; i < at; i++) {
            if (need == ESCAPED && (odd || word[i] == '\'' || word[i] == '\\'))
                to += sprintf(to, "\\%03o", (unsigned char)word[i]);
            else if (need == IN_QUOTES && word[i] == '\'') to = stpcpy(to, "'\\''");
            else *to++ = word[i];
        }
    }
    if (need) *to++ = '\'';
    *to = 0;
    return out;
}

const char *tri__text_bytes(double bytes, char out[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    while (fabs(bytes) >= 1023.95 && unit < 6) bytes /= 1024, unit++;
    snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

int64_t tri__text_size(const char *text) {
    static const char units[] = "KMGT";
    char *end;
    double number = strtod(text, &end);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    for (int i = 0; unit && i <= unit - units; i++) number *= 1024;
    if (unit) end++;
    return isdigit((unsigned char)*text) && *end == 0 && number < 0x1p62 ? (int64_t)number : -1;
}

const char *tri__text_count(int64_t count, char out[32]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)count), used = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0 && digits[i - 1] != '-') out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

const char *tri__text_seconds(double seconds, char out[32]) {
    if (!(seconds < 59.95)) {
        long long whole = isfinite(seconds) && seconds < 1e15 ? llround(seconds) : -1;
        if (whole < 0) snprintf(out, 32, "?");
        else if (whole < 3600) snprintf(out, 32, "%lldm %02llds", whole / 60, whole % 60);
        else snprintf(out, 32, "%lldh %02lldm", whole / 3600, whole / 60 % 60);
    } else {
        snprintf(out, 32, "%.1f s", seconds);
    }
    return out;
}

const char *tri__text_brief(const char *text, int width, char *out, size_t size) {
    size_t length = strlen(text), at = 0, used = 0, cut = 0;
    for (int n = 0; at < length; n++) {
        size_t begin = at;
        int32_t code = tri__utf8_next(text, length, &at);
        if (n == width || used + (at - begin) + sizeof "..." > size) {
            snprintf(out + cut, size - cut, "...");
            return out;
        }
        if (code < 0x20 || code == 0x7F) out[used++] = code < 0 ? '?' : ' ';
        else memcpy(out + used, text + begin, at - begin), used += at - begin;
        if (n < width - 3) cut = used; /* where "..." would go */
    }
    out[used] = 0;
    return out;
}
