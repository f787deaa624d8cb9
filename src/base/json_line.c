/* json_line.c - finds the line of a key in a parsed file, for messages about values that the parser accepts and the
 * program refuses. */
#include "base/json.h"

#include <string.h>

/* The position after the string that begins at text[i]. */
static size_t skip_string(const char *text, size_t length, size_t i) {
    for (i++; i < length && text[i] != '"'; i++) i += text[i] == '\\';
    return i < length ? i + 1 : length;
}

int tri__json_line_of(const char *text, size_t length, const char *key) {
    size_t n = strlen(key);
    int line = 1, depth = 0, expects_key = 0;
    for (size_t i = 0; i < length;) {
        char c = text[i];
        if (c == '"') {
            size_t end = skip_string(text, length, i);
            if (expects_key && end - i == n + 2 && memcmp(text + i + 1, key, n) == 0) return line;
            expects_key = 0;
            i = end;
            continue;
        }
        line += c == '\n';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth == 1 && (c == '{' || c == ',')) expects_key = 1;
        i++;
    }
    return 0;
}
