/* added_tokens.c - finds added tokens. Patterns are sorted, so that the longest match at a position is found by
 * narrowing a range of them byte by byte; most positions are skipped by their first byte. */
#include "data/text/added_tokens.h"

#include "data/text/unicode.h"
#include "data/text/vocabulary.h"

const tri_added_token *tri__added_tokens_find(const tri_added_tokens *tokens, const char *content) {
    uint64_t hash = tri__piece_hash(content, strlen(content));
    for (int i = 0; i < tokens->n; i++)
        if (tokens->all[i].hash == hash && !strcmp(tokens->all[i].content, content)) return &tokens->all[i];
    return NULL;
}

tri_status tri__added_tokens_add(tri_added_tokens *tokens, const char *where, const tri_added_token *token) {
    size_t length = strlen(token->content);
    if (!length) return tri__fail(TRI_DATA, "%s: an added token has an empty content", where);
    if (length > TRI_ADDED_BYTES)
        return tri__fail(TRI_DATA, "%s: the added token \"%.40s...\" has %zu bytes; at most %d are accepted", where,
                         token->content, length, TRI_ADDED_BYTES);
    tri_added_token copy = *token, *before = (tri_added_token *)tri__added_tokens_find(tokens, token->content);
    copy.pattern = NULL;
    copy.hash = tri__piece_hash(token->content, length);
    if (before) {
        copy.content = before->content;
        *before = copy;
        return TRI_OK;
    }
    if (tokens->n == TRI_ADDED_TOKENS)
        return tri__fail(TRI_DATA, "%s: more than %d added tokens", where, TRI_ADDED_TOKENS);
    int has_room = tri__grow(&tokens->all, &tokens->room, (size_t)tokens->n + 1, sizeof *tokens->all);
    copy.content = has_room ? strdup(token->content) : NULL;
    if (!copy.content) return tri__fail(TRI_RESOURCE, "%s: out of memory", where);
    tokens->all[tokens->n++] = copy;
    return TRI_OK;
}

static tri_status make_pattern(tri_added_token *token, const char *where, const tri_normaliser *normaliser,
                               tri_scratch *scratch) {
    static const tri_normaliser none;
    const char *text;
    size_t length;
    TRI_TRY(tri__normalise(token->normalized ? normaliser : &none, token->content, strlen(token->content), scratch,
                           &text, &length));
    if (!length)
        return tri__fail(TRI_DATA, "%s: nothing is left of the added token \"%.80s\" after normalisation", where,
                         token->content);
    token->pattern = malloc(length);
    if (!token->pattern) return tri__fail(TRI_RESOURCE, "%s: out of memory", where);
    memcpy(token->pattern, text, length);
    token->length = length;
    return TRI_OK;
}

static int by_pattern(const void *a, const void *b) {
    const tri_added_token *x = *(tri_added_token *const *)a, *y = *(tri_added_token *const *)b;
    size_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->pattern, y->pattern, shorter);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static tri_status make_set(tri_added_set *set, tri_added_tokens *tokens, const char *where, int normalized) {
    set->only = -1;
    set->token = malloc((size_t)(tokens->n + 1) * sizeof *set->token);
    if (!set->token) return tri__fail(TRI_RESOURCE, "%s: out of memory", where);
    for (int i = 0; i < tokens->n; i++)
        if (!tokens->all[i].normalized == !normalized) set->token[set->n++] = &tokens->all[i];
    if (set->n) qsort(set->token, (size_t)set->n, sizeof *set->token, by_pattern);
    for (int i = 1; i < set->n; i++)
        if (!by_pattern(&set->token[i - 1], &set->token[i]))
            return tri__fail(TRI_DATA,
                             "%s: the added tokens \"%.80s\" and \"%.80s\" are the same text after normalisation; "
                             "which one is found is left to chance, in transformers too",
                             where, set->token[i - 1]->content, set->token[i]->content);
    int openers = 0;
    for (int i = 0; i < set->n; i++) {
        unsigned char first = (unsigned char)set->token[i]->pattern[0];
        openers += !set->opens[first];
        set->opens[first] = 1;
        set->only = openers == 1 ? first : -1;
    }
    return TRI_OK;
}

tri_status tri__added_tokens_sort(tri_added_tokens *tokens, const char *where, const tri_normaliser *normaliser) {
    TRI_OWNED(tri__scratch_free) tri_scratch scratch = {0};
    for (int i = 0; i < tokens->n; i++) TRI_TRY(make_pattern(&tokens->all[i], where, normaliser, &scratch));
    TRI_TRY(make_set(&tokens->raw, tokens, where, 0));
    return make_set(&tokens->normal, tokens, where, 1);
}

void tri__added_tokens_free(tri_added_tokens *tokens) {
    for (int i = 0; i < tokens->n; i++) {
        TRI_FREE(tokens->all[i].content, tokens->all[i].pattern);
    }
    TRI_FREE(tokens->all, tokens->raw.token, tokens->normal.token);
    *tokens = (tri_added_tokens){0};
}

/* The first of token[low, high), which agree on `column` bytes, whose next byte is at least `byte`. */
static int bound(const tri_added_set *set, int low, int high, size_t column, int byte) {
    while (low < high) {
        int middle = low + (high - low) / 2;
        if ((unsigned char)set->token[middle]->pattern[column] < byte) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The longest token at text[0]; NULL if there is none. */
static const tri_added_token *token_at(const tri_added_set *set, const char *text, size_t length) {
    const tri_added_token *longest = NULL;
    int low = 0, high = set->n;
    for (size_t column = 0; low < high; column++) {
        if (set->token[low]->length == column) longest = set->token[low];
        while (low < high && set->token[low]->length == column) low++; /* the shortest come first */
        if (column == length) break;
        int byte = (unsigned char)text[column];
        low = bound(set, low, high, column, byte);
        high = bound(set, low, high, column, byte + 1);
    }
    return longest;
}

static size_t char_before(const char *text, size_t at) {
    do at--;
    while (at && (text[at] & 0xC0) == 0x80);
    return at;
}

static int class_from(const char *text, size_t length, size_t at, size_t *next) {
    *next = at;
    return tri__class_at(text, length, next);
}

static int stands_alone(const char *text, size_t length, size_t begin, size_t end) {
    size_t next;
    if (begin && class_from(text, begin, char_before(text, begin), &next) & TRI_CHAR_WORD) return 0;
    return end == length || !(class_from(text, length, end, &next) & TRI_CHAR_WORD);
}

static void take_blanks(const tri_added_token *token, const char *text, size_t length, size_t taken,
                        tri_added_match *match) {
    size_t next;
    while (token->lstrip && match->begin > taken) {
        size_t before = char_before(text, match->begin);
        if (!(class_from(text, match->begin, before, &next) & TRI_CHAR_SPACE)) break;
        match->begin = before;
    }
    while (token->rstrip && match->end < length && class_from(text, length, match->end, &next) & TRI_CHAR_SPACE)
        match->end = next;
}

tri_added_match tri__added_set_find(const tri_added_set *set, const char *text, size_t length, size_t from,
                                    size_t taken) {
    for (size_t at = from; set->n && at < length;) {
        if (set->only >= 0) {
            const char *opener = memchr(text + at, set->only, length - at);
            if (!opener) break;
            at = (size_t)(opener - text);
        } else if (!set->opens[(unsigned char)text[at]]) {
            at++;
            continue;
        }
        const tri_added_token *token = token_at(set, text + at, length - at);
        if (!token) {
            at++;
            continue;
        }
        tri_added_match match = {at, at + token->length, at + token->length, token->id};
        if (token->single_word && !stands_alone(text, length, match.begin, match.end)) {
            at = match.end;
            continue;
        }
        take_blanks(token, text, length, taken, &match);
        return match;
    }
    return (tri_added_match){length, length, length, -1};
}
