/* formats.c - the list of formats, and of the endings that names of tables have. */
#include "data/table/formats.h"

#define DECLARE(name) extern const tri_format tri__format_##name;
TRI_FORMATS(DECLARE)
#define LIST(name) &tri__format_##name,
static const tri_format *const formats[] = {TRI_FORMATS(LIST)};
enum { FORMATS = sizeof formats / sizeof *formats };

/* The next word of " .csv .tsv"; NULL: none. Advances *at past it. */
static const char *next_ending(const char **at, size_t *length) {
    if (!*at || !**at) return NULL;
    const char *word = *at + 1;
    *length = strcspn(word, " ");
    *at = word + *length;
    return word;
}

const tri_format *tri__format_of(const char *path, size_t length) {
    for (int i = 0; i < FORMATS; i++)
        for (int shared = 0; shared < 2; shared++) {
            size_t n;
            const char *at = shared ? formats[i]->shared : formats[i]->endings, *ending;
            while ((ending = next_ending(&at, &n)))
                if (length >= n && !memcmp(path + length - n, ending, n)) return formats[i];
        }
    return formats[0];
}

const tri_format *tri__format_by_magic(const char *bytes, size_t size) {
    for (int i = 0; i < FORMATS; i++) {
        const char *magic = formats[i]->magic;
        if (magic && size >= strlen(magic) && !memcmp(bytes, magic, strlen(magic))) return formats[i];
    }
    return NULL;
}

const char *tri__format_ending(const tri_format *format, char out[static TRI_ENDING_BYTES]) {
    snprintf(out, TRI_ENDING_BYTES, "%.*s", (int)strcspn(format->endings + 1, " "), format->endings + 1);
    return out;
}

int tri__table_ending(int shared, int number, char out[static TRI_ENDING_BYTES]) {
    for (int i = 0; i < FORMATS; i++) {
        size_t n;
        const char *at = shared ? formats[i]->shared : formats[i]->endings, *ending;
        while ((ending = next_ending(&at, &n)))
            for (int packer = -1; packer < (formats[i]->parse ? TRI_PACKERS : 0); packer++) {
                const char *more = packer < 0 ? "" : tri__packed_ending((tri_packer)packer);
                if (!more || number--) continue;
                snprintf(out, TRI_ENDING_BYTES, "%.*s%s", (int)n, ending, more);
                return 1;
            }
    }
    return 0;
}

const char *tri__table_endings(char out[static TRI_ENDINGS_BYTES]) {
    size_t n;
    *out = 0;
    for (int text = 1; text >= 0; text--) {
        for (int i = 0; i < FORMATS; i++)
            for (int shared = 0; shared < 2 && !formats[i]->parse == !text; shared++) {
                const char *at = shared ? formats[i]->shared : formats[i]->endings, *ending;
                while ((ending = next_ending(&at, &n)))
                    tri__text_append(out, TRI_ENDINGS_BYTES, ", ", "%.*s", (int)n, ending);
            }
        if (text) tri__text_append(out, TRI_ENDINGS_BYTES, " ", "(also .gz, .zst)");
    }
    return out;
}
