/* replace.c - finds patterns and replaces them. */
#include "data/text/replace.h"

#include "data/text/unicode.h"

static const char *const expressions[] = {[TRI_REPLACE_BLANKS] = " {2,}", [TRI_REPLACE_SPACES] = "\\s{2,}|[\\n\\r\\t]"};

int tri__replace_pattern(const char *expression, tri_replace_kind *kind) {
    for (size_t i = TRI_REPLACE_BLANKS; i < sizeof expressions / sizeof *expressions; i++) {
        *kind = (tri_replace_kind)i;
        if (!strcmp(expression, expressions[i])) return 1;
    }
    return 0;
}

/* Whether a character at text[*at] is a \s; advances *at past it then. */
static int take_space(const char *text, size_t length, size_t *at) {
    size_t next = *at;
    if (!(tri__class_at(text, length, &next) & TRI_CHAR_SPACE)) return 0;
    *at = next;
    return 1;
}

/* Where a match at text[at] ends; `at` if there is none. *next: where to look on if there is none. */
static size_t match(const tri_replace *rule, const char *text, size_t length, size_t at, size_t *next) {
    size_t end = at;
    *next = at + 1;
    switch (rule->kind) {
    case TRI_REPLACE_TEXT:
        return rule->text_bytes <= length - at && !memcmp(text + at, rule->text, rule->text_bytes)
                   ? at + rule->text_bytes
                   : at;
    case TRI_REPLACE_BLANKS:
        while (end < length && text[end] == ' ') end++;
        return end - at >= 2 ? end : at;
    case TRI_REPLACE_SPACES:
        if (!take_space(text, length, &end)) return at;
        *next = end;
        while (end < length && take_space(text, length, &end)) {}
        return end > *next || (text[at] && strchr("\n\r\t", text[at])) ? end : at;
    }
    return at;
}

tri_status tri__replace_apply(const tri_replace *rule, const char *text, size_t length, tri_bytes *to, size_t *n) {
    size_t kept = 0; /* text before is in `to`, or replaced */
    *n = 0;
    if (!length) return TRI_OK;
    TRI_TRY(tri__bytes_room(to, length));
    for (size_t at = 0, next; at < length;) {
        size_t end = match(rule, text, length, at, &next);
        if (end == at) {
            at = next;
            continue;
        }
        TRI_TRY(tri__bytes_room(to, *n + (at - kept) + rule->content_bytes));
        memcpy(to->at + *n, text + kept, at - kept);
        memcpy(to->at + *n + (at - kept), rule->content, rule->content_bytes);
        *n += at - kept + rule->content_bytes;
        kept = at = end;
    }
    TRI_TRY(tri__bytes_room(to, *n + (length - kept)));
    memcpy(to->at + *n, text + kept, length - kept);
    *n += length - kept;
    return TRI_OK;
}
