/* training_rows.c - a sample of row hashes: the k smallest ones ("k minimum values"). Hashes are effectively random, so
 * the rows whose hash is below a bound are a uniform sample of any table, and whether a sampled row was trained on is
 * known for certain. Bar-Yossef et al., Counting distinct elements in a data stream, 2002. */
#include "data/dataset/training_rows.h"

enum { ROOM = 2 * TRI_TRAINED_MAX, DIGITS = 16 };

typedef struct sample {
    uint64_t hash[ROOM]; /* the first n; sorted and distinct after `tidy` */
    int n, complete;     /* complete: none was dropped */
    uint64_t bound;      /* larger hashes cannot be among the smallest */
} sample;

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts, removes duplicates, and keeps only the smallest. */
static void tidy(sample *s) {
    int kept = 0;
    qsort(s->hash, (size_t)s->n, sizeof *s->hash, ascending);
    for (int i = 0; i < s->n; i++)
        if (!kept || s->hash[i] != s->hash[kept - 1]) s->hash[kept++] = s->hash[i];
    if (kept > TRI_TRAINED_MAX) kept = TRI_TRAINED_MAX, s->complete = 0;
    s->n = kept;
}

static void add_row(void *context, uint64_t hash) {
    sample *s = context;
    if (hash > s->bound) return;
    s->hash[s->n++] = hash;
    if (s->n < ROOM) return;
    tidy(s);
    if (s->n == TRI_TRAINED_MAX) s->bound = s->hash[s->n - 1];
}

tri_status tri__trained_json(const tri_dataset *data, tri_json **out) {
    TRI_OWNED(tri__free_at) sample *s = NULL;
    TRI_OWNED(tri__free_at) char *text = NULL;
    *out = NULL;
    TRI_TRY(TRI_NEW(s, 1, "a sample of rows"));
    TRI_TRY(TRI_NEW(text, TRI_TRAINED_MAX * DIGITS + 1, "a sample of rows"));
    s->complete = 1, s->bound = UINT64_MAX;
    TRI_TRY(tri__dataset_row_digests(data, add_row, s));
    tidy(s);
    for (int i = 0; i < s->n; i++) snprintf(text + i * DIGITS, DIGITS + 1, "%016llx", (unsigned long long)s->hash[i]);
    *out = tri__json_pack("{s:b, s:s}", "complete", s->complete, "hashes", text);
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* Validates, since a checkpoint may come from elsewhere. */
static tri_status parse(const tri_json *trained, const char *name, sample *s) {
    const char *text = tri__text_in(trained, "hashes");
    size_t length = text ? strlen(text) : 1;
    int good = text && length % DIGITS == 0 && length / DIGITS <= TRI_TRAINED_MAX &&
               strspn(text, "0123456789abcdef") == length;
    *s = (sample){.complete = tri__json_is_true(tri__json_get(trained, "complete"))};
    for (; good && (size_t)s->n < length / DIGITS; s->n++) {
        char digits[DIGITS + 1] = "";
        memcpy(digits, text + s->n * DIGITS, DIGITS);
        s->hash[s->n] = strtoull(digits, NULL, 16);
        good = !s->n || s->hash[s->n] > s->hash[s->n - 1];
    }
    return good ? TRI_OK
                : tri__fail(TRI_DATA, "%s: trained_rows of its manifest's state must be hashes in rising order", name);
}

typedef struct search {
    const sample *sample;
    tri_trained *out;
} search;

static void look_up(void *context, uint64_t hash) {
    const search *find = context;
    const sample *s = find->sample;
    if (!s->complete && (!s->n || hash > s->hash[s->n - 1])) return;
    find->out->seen++;
    find->out->found += bsearch(&hash, s->hash, (size_t)s->n, sizeof hash, ascending) != NULL;
}

tri_status tri__trained_count(const tri_json *trained, const char *name, const tri_dataset *data, tri_trained *out) {
    TRI_OWNED(tri__free_at) sample *s = NULL;
    *out = (tri_trained){0};
    TRI_TRY(TRI_NEW(s, 1, "a sample of rows"));
    TRI_TRY(parse(trained, name, s));
    return tri__dataset_row_digests(data, look_up, &(search){.sample = s, .out = out});
}
