/* keys.c - bearer keys. */
#include "web/keys.h"

enum { LEAST = 8, MOST = 1024 }; /* characters of a key */

static tri_status check_key(const char *key, size_t n, const char *name, int line) {
    for (size_t i = 0; i < n; i++)
        if (key[i] <= ' ' || key[i] >= 0x7f)
            return tri__fail(TRI_DATA, "%s:%d: a key has only visible ASCII characters, no blanks", name, line);
    if (n < LEAST || n > MOST)
        return tri__fail(TRI_DATA, "%s:%d: a key of %zu characters; it must have %d to %d", name, line, n, LEAST, MOST);
    return TRI_OK;
}

static tri_status read_lines(const char *text, size_t length, const char *name, tri_keys_file *out) {
    char *to = out->text;
    int line = 1;
    for (size_t at = 0; at < length; line++) {
        const char *begin = text + at, *end = memchr(begin, '\n', length - at);
        size_t n = end ? (size_t)(end - begin) : length - at;
        at += n + 1;
        if (n && begin[n - 1] == '\r') n--;
        if (n == 0 || begin[0] == '#') continue;
        TRI_TRY(check_key(begin, n, name, line));
        memcpy(to, begin, n);
        to[n] = 0, to += n + 1, out->n++;
    }
    return out->n ? TRI_OK : tri__fail(TRI_DATA, "%s has no key: write one a line", name);
}

tri_status tri__keys_parse(const char *text, size_t length, const char *name, tri_keys_file *out) {
    *out = (tri_keys_file){.text = malloc(length + 2)};
    if (!out->text) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = read_lines(text, length, name, out);
    if (status != TRI_OK) tri__keys_file_free(out);
    return status;
}

void tri__keys_file_free(tri_keys_file *keys) {
    free(keys->text);
    *keys = (tri_keys_file){0};
}

/* Every key is compared over the whole length of what was given. */
int tri__keys_accept(const tri_keys_file *keys, const char *authorization) {
    static const char scheme[] = "Bearer ";
    if (!authorization || strncasecmp(authorization, scheme, sizeof scheme - 1)) return 0;
    const char *given = authorization + sizeof scheme - 1, *key = keys->text;
    while (*given == ' ') given++;
    size_t n = strnlen(given, MOST + 1);
    int accepted = 0;
    for (int k = 0; k < keys->n; k++) {
        size_t length = strlen(key);
        volatile unsigned char differs = length != n;
        for (size_t i = 0; i < n; i++) differs |= (unsigned char)(given[i] ^ key[i % length]);
        accepted |= !differs, key += length + 1;
    }
    return accepted;
}
