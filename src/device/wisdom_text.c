/* wisdom_text.c - the file of algorithms: one line each, words separated by single blanks, and a hash at the end.
 *
 *     trident-products 1
 *     kind NVIDIA H200, 132 multiprocessors, cuBLASLt 130100
 *     product 3072 32768 768 tn bf16 bf16 bias set 256 512.250 498.125 0000000000000042 ... (8 words)
 *     end 0123456789abcdef
 *
 * A product's line: m n k, whether A and B are transposed (t) or not (n), types of A and B and of D, bias or plain, set
 * or add, alignment, microseconds of the first guess and of the chosen algorithm, and the algorithm. */
#include "device/wisdom.h"
#include "layout/dtype.h"

#include <ctype.h>

#define FIRST_LINE "trident-products 1"
enum {
    LINE_MAX = 512,
    WORDS = 11 + TRI_ALGORITHM_WORDS,
    HASH_SEED = 1
}; /* WORDS: in a product's line, without the first */

void tri__wisdom_end(const char *text, size_t size, char end[TRI_WISDOM_END]) {
    snprintf(end, TRI_WISDOM_END, "end %016llx\n", (unsigned long long)tri__hash64(HASH_SEED, text, size));
}

static int print_entry(char *to, size_t room, const tri_wisdom_entry *e) {
    const tri_product_shape *s = &e->shape;
    int n = snprintf(to, room, "product %lld %lld %lld %c%c %s %s %s %s %d %.3f %.3f", (long long)s->m, (long long)s->n,
                     (long long)s->k, s->a_transposed ? 't' : 'n', s->b_transposed ? 't' : 'n',
                     tri__dtype_name((tri_dtype)s->type), tri__dtype_name((tri_dtype)s->out),
                     s->bias ? "bias" : "plain", s->add ? "add" : "set", (int)s->align, (double)e->guess_us,
                     (double)e->best_us);
    for (int i = 0; i < TRI_ALGORITHM_WORDS; i++)
        n += snprintf(to + n, room - (size_t)n, " %016llx", (unsigned long long)e->algorithm[i]);
    return n + snprintf(to + n, room - (size_t)n, "\n");
}

char *tri__wisdom_text(const tri_wisdom *wisdom, size_t *size) {
    size_t room = (size_t)(wisdom->n + 4) * LINE_MAX;
    char *text = malloc(room);
    if (!text) return NULL;
    size_t at = (size_t)snprintf(text, room, FIRST_LINE "\nkind %s\n", wisdom->kind);
    for (int i = 0; i < wisdom->n; i++) at += (size_t)print_entry(text + at, LINE_MAX, &wisdom->entry[i]);
    tri__wisdom_end(text, at, text + at);
    *size = at + TRI_WISDOM_END - 1;
    return text;
}

/* ---- Reading ---- */

typedef struct reader {
    const char *path;
    const char *at, *end;
    int line;
} reader;

static tri_status bad(const reader *r, const char *what) {
    return tri__fail(TRI_DATA, "%s: line %d: %s; remove the file, and products are timed again", r->path, r->line,
                     what);
}

/* The next line without its newline; TRI_DATA if there is none, or it is too long or not printable text. */
static tri_status next_line(reader *r, char line[static LINE_MAX]) {
    r->line++;
    const char *stop = r->at < r->end ? memchr(r->at, '\n', (size_t)(r->end - r->at)) : NULL;
    if (!stop) return bad(r, "the file ends too early");
    size_t n = (size_t)(stop - r->at);
    if (n >= LINE_MAX) return bad(r, "the line is too long");
    for (size_t i = 0; i < n; i++)
        if (!isprint((unsigned char)r->at[i])) return bad(r, "there is a byte that is not plain text");
    memcpy(line, r->at, n);
    line[n] = 0;
    r->at = stop + 1;
    return TRI_OK;
}

/* A whole number in canonical form: digits only, at most `most`. */
static int whole(const char *word, int64_t most, int64_t *out) {
    int64_t value = 0;
    if (!*word || (word[0] == '0' && word[1])) return 0;
    for (; *word; word++) {
        if (!isdigit((unsigned char)*word) || value > (most - (*word - '0')) / 10) return 0;
        value = 10 * value + (*word - '0');
    }
    *out = value;
    return 1;
}

static int microseconds(const char *word, float *out) {
    char again[64], *end;
    if (!isdigit((unsigned char)*word)) return 0;
    *out = strtof(word, &end);
    return !*end && isfinite(*out) && *out < 1e9f && snprintf(again, sizeof again, "%.3f", (double)*out) > 0 &&
           strcmp(again, word) == 0;
}

static int hexadecimal(const char *word, uint64_t *out) {
    *out = 0;
    for (int i = 0; i < 16; i++) {
        const char *digits = "0123456789abcdef", *at = word[i] ? strchr(digits, word[i]) : NULL;
        if (!at) return 0;
        *out = *out << 4 | (uint64_t)(at - digits);
    }
    return !word[16];
}

/* Matches a word against two: 0 or 1. */
static int either(const char *word, const char *no, const char *yes, int32_t *out) {
    *out = strcmp(word, yes) == 0;
    return *out || strcmp(word, no) == 0;
}

static int turns(const char *word, tri_product_shape *s) {
    s->a_transposed = word[0] == 't', s->b_transposed = word[0] && word[1] == 't';
    return (word[0] == 't' || word[0] == 'n') && (word[1] == 't' || word[1] == 'n') && !word[2];
}

static int type(const char *word, int32_t *out) {
    *out = tri__dtype_find(word);
    return (*out == TRI_F32 || *out == TRI_BF16 || *out == TRI_F16) &&
           strcmp(word, tri__dtype_name((tri_dtype)*out)) == 0;
}

static int split(char *line, char *word[WORDS]) {
    int n = 0;
    for (char *at = line; at; n++) {
        char *blank = strchr(at, ' ');
        if (blank) *blank++ = 0;
        if (n < WORDS) word[n] = at;
        at = blank;
    }
    return n == WORDS;
}

static tri_status parse_entry(const reader *r, char *line, tri_wisdom_entry *e) {
    char *word[WORDS];
    int64_t align = 0;
    memset(e, 0, sizeof *e);
    tri_product_shape *s = &e->shape;
    if (!split(line, word)) return bad(r, "a product's line has the wrong number of words");
    if (!whole(word[0], INT32_MAX, &s->m) || !whole(word[1], INT32_MAX, &s->n) || !whole(word[2], INT32_MAX, &s->k) ||
        !s->m || !s->n || !s->k)
        return bad(r, "m, n and k are not whole numbers above 0");
    if (!turns(word[3], s)) return bad(r, "the transposition is not one of nn, tn, nt, tt");
    if (!type(word[4], &s->type) || !type(word[5], &s->out)) return bad(r, "a type is not one of f32, bf16, f16");
    if (!either(word[6], "plain", "bias", &s->bias)) return bad(r, "there is neither bias nor plain");
    if (!either(word[7], "set", "add", &s->add)) return bad(r, "there is neither set nor add");
    if (!whole(word[8], 256, &align) || !align || align & (align - 1))
        return bad(r, "the alignment is not a power of 2 up to 256");
    s->align = (int32_t)align;
    if (!microseconds(word[9], &e->guess_us) || !microseconds(word[10], &e->best_us))
        return bad(r, "a time is not a number of microseconds");
    for (int i = 0; i < TRI_ALGORITHM_WORDS; i++)
        if (!hexadecimal(word[11 + i], &e->algorithm[i]))
            return bad(r, "the algorithm is not 8 words of 16 hexadecimal digits");
    return TRI_OK;
}

static tri_status parse_end(const reader *r, const char *text, const char *begin) {
    char end[TRI_WISDOM_END];
    tri__wisdom_end(text, (size_t)(begin - text), end);
    if ((size_t)(r->at - begin) != TRI_WISDOM_END - 1 || memcmp(begin, end, TRI_WISDOM_END - 1) != 0)
        return bad(r, "the hash does not match: the file was changed or damaged");
    return r->at == r->end ? TRI_OK : bad(r, "there is text after the end line");
}

tri_status tri__wisdom_parse(const char *text, size_t size, const char *path, tri_wisdom *wisdom) {
    reader r = {.path = path, .at = text, .end = text + size};
    char line[LINE_MAX];
    wisdom->n = 0;
    TRI_TRY(next_line(&r, line));
    if (strcmp(line, FIRST_LINE) != 0) return bad(&r, "this is not a file of products (" FIRST_LINE ")");
    TRI_TRY(next_line(&r, line));
    size_t n = strlen(line);
    if (strncmp(line, "kind ", 5) != 0 || n - 5 >= sizeof wisdom->kind)
        return bad(&r, "the kind of device is missing or too long");
    memcpy(wisdom->kind, line + 5, n - 5 + 1);
    for (;;) {
        tri_wisdom_entry entry;
        const char *begin = r.at;
        TRI_TRY(next_line(&r, line));
        if (strncmp(line, "end ", 4) == 0) return parse_end(&r, text, begin);
        if (strncmp(line, "product ", 8) != 0) return bad(&r, "there is neither product nor end");
        TRI_TRY(parse_entry(&r, line + 8, &entry));
        if (tri__wisdom_find(wisdom, &entry.shape)) return bad(&r, "the shape is listed twice");
        if (wisdom->n == TRI_WISDOM_MAX) return bad(&r, "there are too many products");
        tri__wisdom_add(wisdom, &entry);
    }
}
