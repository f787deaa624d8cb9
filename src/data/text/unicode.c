/* unicode.c - case, decomposition and composition of single characters. The tokenizers library has its classes from
 * Unicode 8, 9 and 16 (unicode_classes.c), its decompositions from Unicode 9 and its lower case from Unicode 17.
 * utf8proc provides what has not changed since; the tables here revert or add what has, so that results do not depend
 * on the installed utf8proc. */
#include "data/text/unicode.h"

#include <utf8proc.h>

typedef struct range {
    int32_t first, last, value;
} range;

/* Lower case that Unicode 16 and 17 added: value is that of `first`; the others follow in order. */
static const range new_lower[] = {
    {0x1C89, 0x1C89, 0x1C8A}, {0xA7CB, 0xA7CB, 0x264}, {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5}, {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B},
    {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB},
};

/* Characters whose decompositions were added after Unicode 9: they are neither decomposed nor composed. */
static const range whole[] = {
    {0x558, 0x558, 0},     {0x58B, 0x58C, 0},     {0x209D, 0x209F, 0},   {0x32FF, 0x32FF, 0},   {0xA7F1, 0xA7F4, 0},
    {0xAB69, 0xAB69, 0},   {0x105C9, 0x105C9, 0}, {0x105E4, 0x105E4, 0}, {0x10781, 0x107BF, 0}, {0x11383, 0x11391, 0},
    {0x113C5, 0x113C8, 0}, {0x11938, 0x11938, 0}, {0x16121, 0x16128, 0}, {0x16D68, 0x16D6A, 0}, {0x1B123, 0x1B126, 0},
    {0x1CCD6, 0x1CCF9, 0}, {0x1D6A6, 0x1D6A6, 0}, {0x1DF95, 0x1DF95, 0}, {0x1DFCD, 0x1DFFF, 0}, {0x1E030, 0x1E06D, 0},
    {0x1F16C, 0x1F16C, 0}, {0x1FBF0, 0x1FBF9, 0},
};

static const range chinese[] = {
    {0x3400, 0x4DBF, 0},   {0x4E00, 0x9FFF, 0},   {0xF900, 0xFAFF, 0},   {0x20000, 0x2A6DF, 0},
    {0x2A700, 0x2B73F, 0}, {0x2B740, 0x2B81F, 0}, {0x2B920, 0x2CEAF, 0}, {0x2F800, 0x2FA1F, 0},
};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const range *find(const range *ranges, int n, int32_t code) {
    for (int low = 0; low < n;) {
        int middle = (low + n) / 2;
        if (code > ranges[middle].last) low = middle + 1;
        else if (code < ranges[middle].first) n = middle;
        else return &ranges[middle];
    }
    return NULL;
}

tri_char_kind tri__char_kind(int32_t code) {
    int low = 0, high = tri__char_bounds_n; /* the answer is in [low, high): the first bound is 0 */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if ((int32_t)(tri__char_bounds[middle] >> 6) <= code) low = middle;
        else high = middle;
    }
    return tri__char_kinds[tri__char_bounds[low] & 63];
}

int tri__char_lower(int32_t code, int32_t out[static 2]) {
    if (code == 0x130) { /* the only letter whose lower case has two code points */
        out[0] = 'i', out[1] = 0x307;
        return 2;
    }
    const range *found = find(new_lower, COUNT(new_lower), code);
    out[0] = found ? code - found->first + found->value : utf8proc_tolower(code);
    return 1;
}

int tri__char_decompose(int32_t code, int compatibility, int32_t out[static TRI_DECOMPOSED]) {
    utf8proc_ssize_t n = -1;
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatibility ? UTF8PROC_COMPAT : 0);
    if (!find(whole, COUNT(whole), code)) n = utf8proc_decompose_char(code, out, TRI_DECOMPOSED, options, NULL);
    if (n >= 1 && n <= TRI_DECOMPOSED) return (int)n;
    out[0] = code;
    return 1;
}

int32_t tri__char_compose(int32_t first, int32_t second) {
    int32_t both[2] = {first, second};
    if (second < 0x80 || utf8proc_normalize_utf32(both, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1) return -1;
    return find(whole, COUNT(whole), both[0]) ? -1 : both[0];
}

int tri__char_combining(int32_t code) {
    return tri__char_class(code) & TRI_CHAR_MARK ? utf8proc_get_property(code)->combining_class : 0;
}

int tri__char_is_chinese(int32_t code) { return code >= 0x3400 && find(chinese, COUNT(chinese), code) != NULL; }

int tri__char_width(int32_t code) { return code < 0 ? 1 : utf8proc_charwidth(code); }
