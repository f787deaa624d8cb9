/* wisdom.h - which of a library's algorithms multiplies matrices of a shape fastest, as timed on a device: the table,
 * and the file that stores it. An algorithm is opaque here: words that only the device interprets. */
#pragma once

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TRI_WISDOM_MAX = 2048, TRI_WISDOM_KIND = 160, TRI_ALGORITHM_WORDS = 8 };

/* D [m, n] = A B (+ D), column-major: the key by which an algorithm is chosen. Zeroed before it is filled, since it is
 * compared as bytes. */
typedef struct tri_product_shape {
    int64_t m, n, k;
    int32_t a_transposed, b_transposed;
    int32_t type, out;          /* tri_dtype of A and B, of D */
    int32_t bias;               /* 1: a vector is added to each column */
    int32_t add;                /* 1: D is added to */
    int32_t align;              /* bytes: the smallest of all operands */
    int32_t b_type;             /* of B, where it is not that of A; else 0 */
} tri_product_shape;

typedef struct tri_wisdom_entry {
    tri_product_shape shape;
    uint64_t algorithm[TRI_ALGORITHM_WORDS];
    float guess_us, best_us;    /* microseconds: the library's first guess; the one chosen */
} tri_wisdom_entry;

typedef struct tri_wisdom {
    char kind[TRI_WISDOM_KIND]; /* device and library, for which alone algorithms are valid. One printable line */
    int n;
    tri_wisdom_entry entry[TRI_WISDOM_MAX];
} tri_wisdom;

/* NULL if the shape is not in the table. */
const tri_wisdom_entry *tri__wisdom_find(const tri_wisdom *wisdom, const tri_product_shape *shape);
/* Keeps the first entry of a shape; ignores entries beyond the table's capacity. */
void tri__wisdom_add(tri_wisdom *wisdom, const tri_wisdom_entry *entry);

/* The file's text, which the caller frees; NULL when out of memory. */
char *tri__wisdom_text(const tri_wisdom *wisdom, size_t *size);
/* Parses that text [size]. TRI_DATA with `path`, the line and the cause. */
tri_status tri__wisdom_parse(const char *text, size_t size, const char *path, tri_wisdom *wisdom);
enum { TRI_WISDOM_END = 22 }; /* bytes, including the 0 */
/* The last line, a hash of all preceding text. */
void tri__wisdom_end(const char *text, size_t size, char end[TRI_WISDOM_END]);

#ifdef __cplusplus
}
#endif
