/* json_line.c - finds the line of a key in a parsed file, for messages about values that the parser accepts and the
 * program refuses. */
#include "base/json.h"

/* The position after the string that begins at text[i]. */
static size_t skip_string(const char *text, size_t length, size_t i) {
    for (i++; i < length && text[i] != '"'; i++) i += text[i] == '\\';
    return i < length ? i + 1 : length;
}

int tri__json_line_of(tri_json_lines *at, const char *key) {
    tri_json_lines here = *at;
    size_t n = strlen(key);
    while (here.i < here.length) {
        char c = here.text[here.i];
        if (c == '"') {
            size_t end = skip_string(here.text, here.length, here.i), next = end;
            int found = (here.any || here.depth == 1) && end - here.i == n + 2 &&
                        memcmp(here.text + here.i + 1, key, n) == 0;
            while (next < here.length && strchr(" \t\r\n", here.text[next])) next++;
            here.i = end;
            if (!found || here.text[next] != ':') continue;
            *at = here;
            return here.line + 1;
        }
        here.line += c == '\n';
        here.depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        here.i++;
    }
    return 0;
}
