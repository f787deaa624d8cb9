/* normalise.c - applies the normaliser's steps, each in a pass over the whole text. Pure ASCII, the common case, needs
 * only two of them, in place. */
#include "data/text/normalise.h"

#include "data/text/unicode.h"

tri_norm_rule *tri__normaliser_add(tri_normaliser *normaliser, tri_norm_step kind) {
    if (normaliser->n == TRI_NORM_STEPS) return NULL;
    normaliser->step[normaliser->n].kind = kind;
    return &normaliser->step[normaliser->n++];
}

int tri__normaliser_add_bert(tri_normaliser *normaliser, tri_bert_rules rules) {
    return (!rules.clean_text || tri__normaliser_add(normaliser, TRI_NORM_CLEAN)) &&
           (!rules.split_chinese || tri__normaliser_add(normaliser, TRI_NORM_CHINESE)) &&
           (!rules.strip_accents || (tri__normaliser_add(normaliser, TRI_NORM_NFD) &&
                                     tri__normaliser_add(normaliser, TRI_NORM_ACCENTS))) &&
           (!rules.lower_case || tri__normaliser_add(normaliser, TRI_NORM_LOWER));
}

void tri__normaliser_free(tri_normaliser *normaliser) {
    for (int i = 0; i < TRI_NORM_STEPS; i++) {
        TRI_FREE(normaliser->step[i].replace.text, normaliser->step[i].replace.content);
        tri__charsmap_free(normaliser->step[i].map);
    }
    *normaliser = (tri_normaliser){0};
}

static int is_ascii(const char *text, size_t length) {
    unsigned char any = 0;
    for (size_t i = 0; i < length; i++) any |= (unsigned char)text[i];
    return any < 0x80;
}

static size_t clean_ascii(char *text, size_t length) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        int class = tri__ascii_class[(unsigned char)text[i]];
        text[n] = class & TRI_CHAR_SPACE ? ' ' : text[i];
        n += !(class & TRI_CHAR_CONTROL);
    }
    return n;
}

static void lower_ascii(char *text, size_t length) {
    for (size_t i = 0; i < length; i++) text[i] = (char)(text[i] + (text[i] >= 'A' && text[i] <= 'Z' ? 32 : 0));
}

static void strip(const char **text, size_t *length, int left, int right) {
    if (!*length) return; /* its text may be NULL */
    const char *begin = *text, *end = begin + *length;
    while (left && begin < end) {
        size_t at = 0;
        if (!(tri__class_at(begin, (size_t)(end - begin), &at) & TRI_CHAR_SPACE)) break;
        begin += at;
    }
    while (right && begin < end) {
        const char *last = end - 1;
        while (last > begin && (*last & 0xC0) == 0x80) last--;
        size_t at = 0;
        if (!(tri__class_at(last, (size_t)(end - last), &at) & TRI_CHAR_SPACE)) break;
        end = last;
    }
    *text = begin, *length = (size_t)(end - begin);
}

static tri_status normalise_ascii(const tri_normaliser *normaliser, const char *text, size_t length,
                                  tri_scratch *scratch, const char **out, size_t *n) {
    TRI_TRY(tri__bytes_room(&scratch->text[0], length));
    char *at = scratch->text[0].at;
    memcpy(at, text, length);
    for (int i = 0; i < normaliser->n; i++) {
        tri_norm_step kind = normaliser->step[i].kind;
        if (kind == TRI_NORM_CLEAN) length = clean_ascii(at, length);
        else if (kind == TRI_NORM_LOWER) lower_ascii(at, length);
        else if (kind == TRI_NORM_STRIP) {
            const char *begin = at;
            strip(&begin, &length, normaliser->step[i].left, normaliser->step[i].right);
            at += begin - at;
        }
    }
    *out = at, *n = length;
    return TRI_OK;
}

static int is_nmt_control(int32_t code) {
    return (code >= 0x1 && code <= 0x8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F ||
           code == 0x8F || code == 0x9F;
}

static int is_nmt_blank(int32_t code) {
    return code == '\t' || code == '\n' || code == '\f' || code == '\r' || code == 0x1680 ||
           (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 || code == 0xFEFF ||
           code == 0xFFFD;
}

/* Maps one character; returns the number of code points written, at most 3. */
static int change(tri_norm_step kind, int32_t code, int32_t out[static 3]) {
    int class;
    switch (kind) {
    case TRI_NORM_CLEAN:
        class = tri__char_class(code);
        out[0] = class & TRI_CHAR_SPACE ? ' ' : code;
        return !(class & TRI_CHAR_CONTROL);
    case TRI_NORM_CHINESE:
        out[0] = out[2] = ' ', out[1] = code;
        if (tri__char_is_chinese(code)) return 3;
        out[0] = code;
        return 1;
    case TRI_NORM_LOWER:
        return tri__char_lower(code, out);
    case TRI_NORM_NMT:
        out[0] = is_nmt_blank(code) ? ' ' : code;
        return !is_nmt_control(code);
    default:
        out[0] = code;
        return !(tri__char_class(code) & (kind == TRI_NORM_ACCENTS ? TRI_CHAR_ACCENT : TRI_CHAR_MARK));
    }
}

/* Applies a step character by character; out holds 2 * length bytes. Returns the bytes written. */
static size_t change_each(tri_norm_step kind, const char *text, size_t length, char *out) {
    size_t n = 0;
    for (size_t at = 0; at < length;) {
        unsigned char byte = (unsigned char)text[at];
        if (byte < 0x80 && kind != TRI_NORM_CLEAN && kind != TRI_NORM_NMT) {
            at++;
            out[n++] = (char)(kind == TRI_NORM_LOWER && byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
            continue;
        }
        int32_t code = tri__utf8_next(text, length, &at), parts[3];
        int count = code < 0 ? 0 : change(kind, code, parts);
        for (int i = 0; i < count; i++) n += (size_t)tri__utf8_put(parts[i], out + n);
    }
    return n;
}

/* The most bytes that a step makes of one byte: 11 for U+FDFA (3 bytes), 3 for U+0390 (2 bytes). */
static size_t growth(tri_norm_step kind) {
    return kind == TRI_NORM_NFKD || kind == TRI_NORM_NFKC ? 11 : kind == TRI_NORM_NFD || kind == TRI_NORM_NFC ? 3 : 2;
}

size_t tri__normaliser_growth(const tri_normaliser *normaliser) {
    size_t all = 1;
    for (int i = 0; i < normaliser->n && all <= TRI_NORM_GROWTH; i++) {
        tri_norm_step kind = normaliser->step[i].kind;
        const tri_replace *rule = &normaliser->step[i].replace;
        size_t matched = kind == TRI_NORM_REPLACE && rule->kind == TRI_REPLACE_TEXT ? rule->text_bytes : 1;
        size_t each = rule->content_bytes / matched + 1; /* PREPEND: of a text of one byte */
        all *= kind == TRI_NORM_CHARSMAP                               ? tri__charsmap_longest(normaliser->step[i].map)
               : kind == TRI_NORM_REPLACE || kind == TRI_NORM_PREPEND ? each
               : kind == TRI_NORM_STRIP                               ? 1
                                                                      : growth(kind);
    }
    return all;
}

int tri__normaliser_drops_first(const tri_normaliser *normaliser) {
    for (int i = 0; i < normaliser->n; i++) {
        tri_norm_step kind = normaliser->step[i].kind;
        const tri_replace *rule = &normaliser->step[i].replace;
        size_t next = 0;
        if (kind == TRI_NORM_REPLACE && rule->kind == TRI_REPLACE_TEXT)
            tri__utf8_next(rule->text, rule->text_bytes, &next);
        if (kind == TRI_NORM_CLEAN || kind == TRI_NORM_ACCENTS || kind == TRI_NORM_MARKS || kind == TRI_NORM_NMT ||
            (kind == TRI_NORM_STRIP && normaliser->step[i].left) ||
            (kind == TRI_NORM_REPLACE && (next != rule->text_bytes || !next || !rule->content_bytes)))
            return 1;
    }
    return 0;
}

static tri_status prepend(const tri_replace *rule, const char *text, size_t length, tri_bytes *to, size_t *n) {
    TRI_TRY(tri__bytes_room(to, length + rule->content_bytes));
    *n = length ? length + rule->content_bytes : 0;
    if (!length) return TRI_OK;
    memcpy(to->at, rule->content, rule->content_bytes);
    memcpy(to->at + rule->content_bytes, text, length);
    return TRI_OK;
}

/* Applies step i to text[length]; to->at[*n] is the result. */
static tri_status apply(const tri_normaliser *normaliser, int i, const char *text, size_t length, tri_scratch *scratch,
                        tri_bytes *to, size_t *n) {
    tri_norm_step kind = normaliser->step[i].kind;
    const tri_replace *rule = &normaliser->step[i].replace;
    size_t room;
    if (kind == TRI_NORM_CHARSMAP) return tri__charsmap_apply(normaliser->step[i].map, text, length, to, n);
    if (kind == TRI_NORM_REPLACE) return tri__replace_apply(rule, text, length, to, n);
    if (kind == TRI_NORM_PREPEND) return prepend(rule, text, length, to, n);
    if (__builtin_mul_overflow(length, growth(kind), &room))
        return tri__fail(TRI_RESOURCE, "a text of %zu bytes is too long", length);
    TRI_TRY(tri__bytes_room(to, room));
    int failed = 0, form = kind >= TRI_NORM_NFD && kind <= TRI_NORM_NFKC;
    *n = form ? tri__normal_form(kind, text, length, &scratch->run, to->at, &failed)
              : change_each(kind, text, length, to->at);
    return failed ? TRI_RESOURCE : TRI_OK;
}

/* Steps that change ASCII in place or not at all. */
static int is_plain(const tri_normaliser *normaliser) {
    for (int i = 0; i < normaliser->n; i++)
        if (normaliser->step[i].kind > TRI_NORM_STRIP) return 0;
    return 1;
}

tri_status tri__normalise(const tri_normaliser *normaliser, const char *text, size_t length, tri_scratch *scratch,
                          const char **out, size_t *n) {
    *out = text, *n = length;
    if (!normaliser->n) return TRI_OK;
    if (is_plain(normaliser) && is_ascii(text, length))
        return normalise_ascii(normaliser, text, length, scratch, out, n);
    for (int i = 0, turn = 0; i < normaliser->n; i++) {
        tri_norm_step kind = normaliser->step[i].kind;
        if (kind >= TRI_NORM_CHINESE && kind <= TRI_NORM_MARKS && is_ascii(*out, *n)) continue; /* it would stay */
        if (kind == TRI_NORM_STRIP) {
            strip(out, n, normaliser->step[i].left, normaliser->step[i].right);
            continue;
        }
        tri_bytes *to = &scratch->text[turn];
        TRI_TRY(apply(normaliser, i, *out, *n, scratch, to, n));
        *out = to->at, turn = !turn;
    }
    return TRI_OK;
}
