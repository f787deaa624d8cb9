/* trained.c - a sample of row hashes: the k smallest ones ("k minimum values"). Hashes are as good as random numbers, so
 * the rows whose hash is below a bound are a fair sample of any table, and whether one of them was trained on is known
 * for certain. Bar-Yossef et al., Counting distinct elements in a data stream, 2002. */
#include "train/trained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 2 * TRI_TRAINED_MAX, DIGITS = 16 };

typedef struct sample {
    uint64_t hash[ROOM]; /* the first n; sorted and different after `tidy` */
    int n, complete;     /* complete: none was left out */
} sample;

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts, drops what stands twice and all but the smallest. */
static void tidy(sample *s) {
    int kept = 0;
    qsort(s->hash, (size_t)s->n, sizeof *s->hash, ascending);
    for (int i = 0; i < s->n; i++)
        if (!kept || s->hash[i] != s->hash[kept - 1]) s->hash[kept++] = s->hash[i];
    if (kept > TRI_TRAINED_MAX) kept = TRI_TRAINED_MAX, s->complete = 0;
    s->n = kept;
}

static void fill(sample *s, const tri_dataset *data) {
    uint64_t bound = UINT64_MAX; /* above it nothing can be among the smallest */
    *s = (sample){.complete = 1};
    for (int64_t row = 0; row < data->n; row++) {
        uint64_t hash = tri__dataset_row_digest(data, row);
        if (hash > bound) continue;
        s->hash[s->n++] = hash;
        if (s->n < ROOM) continue;
        tidy(s);
        if (s->n == TRI_TRAINED_MAX) bound = s->hash[s->n - 1];
    }
    tidy(s);
}

json_t *tri__trained_json(const tri_dataset *data) {
    sample *s = malloc(sizeof *s);
    char *text = malloc(TRI_TRAINED_MAX * DIGITS + 1);
    json_t *made = NULL;
    if (s && text) {
        fill(s, data);
        text[0] = 0;
        for (int i = 0; i < s->n; i++) snprintf(text + i * DIGITS, DIGITS + 1, "%016llx", (unsigned long long)s->hash[i]);
        made = json_pack("{s:b, s:s}", "complete", s->complete, "hashes", text);
    }
    free(text);
    free(s);
    return made;
}

/* A checkpoint may come from elsewhere. */
static tri_status parse(const json_t *trained, const char *name, sample *s) {
    const char *text = json_string_value(json_object_get(trained, "hashes"));
    size_t length = text ? strlen(text) : 1;
    int good = text && length % DIGITS == 0 && length / DIGITS <= TRI_TRAINED_MAX && strspn(text, "0123456789abcdef") == length;
    *s = (sample){.complete = json_is_true(json_object_get(trained, "complete"))};
    for (; good && (size_t)s->n < length / DIGITS; s->n++) {
        char digits[DIGITS + 1] = "";
        memcpy(digits, text + s->n * DIGITS, DIGITS);
        s->hash[s->n] = strtoull(digits, NULL, 16);
        good = !s->n || s->hash[s->n] > s->hash[s->n - 1];
    }
    return good ? TRI_OK : tri__fail(TRI_DATA, "%s: trained_rows of its manifest's state must be hashes in rising order", name);
}

tri_status tri__trained_count(const json_t *trained, const char *name, const tri_dataset *data, tri_trained *out) {
    sample *s = malloc(sizeof *s);
    *out = (tri_trained){0};
    tri_status status = s ? parse(trained, name, s) : tri__fail(TRI_RESOURCE, "out of memory");
    for (int64_t row = 0; status == TRI_OK && row < data->n; row++) {
        uint64_t hash = tri__dataset_row_digest(data, row);
        if (!s->complete && (!s->n || hash > s->hash[s->n - 1])) continue;
        out->seen++;
        out->found += bsearch(&hash, s->hash, (size_t)s->n, sizeof hash, ascending) != NULL;
    }
    free(s);
    return status;
}
