/* sampler.c - batches as a pure function of (seed, epoch, k). The order of an epoch is a Fisher-Yates shuffle whose
 * draw i is the high half of (64 random bits) x (i + 1), from Philox at counter (i, epoch, 0, 2): the bias, at most
 * rows / 2^64, is negligible. The split takes rows from one heap (longest first) and parts from another (emptiest
 * first). */
#include "data/dataset/sampler.h"

/* Least first: by major, then by minor. */
typedef struct entry {
    int64_t major, minor, value;
} entry;

tri_status tri__sampler_open(tri_sampler *sampler, const tri_dataset *data, int64_t batch, int parts, int shuffle,
                             uint32_t seed) {
    TRI_ASSERT(batch >= 1 && parts >= 1);
    *sampler = (tri_sampler){
        .data = data, .batch = batch, .seed = seed, .shuffle = shuffle, .parts = parts, .epoch = -1};
    size_t largest = (size_t)(batch < data->n ? batch : data->n);
    sampler->order = malloc(((size_t)data->n + 1) * sizeof *sampler->order);
    sampler->part = malloc((largest + 1) * sizeof *sampler->part);
    sampler->heap = malloc((largest + 2 * (size_t)parts) * sizeof(entry));
    if (sampler->order && sampler->part && sampler->heap) return TRI_OK;
    tri__sampler_close(sampler);
    return tri__fail(TRI_RESOURCE, "out of memory for the order of %lld rows", (long long)data->n);
}

void tri__sampler_close(tri_sampler *sampler) {
    TRI_FREE(sampler->order, sampler->part, sampler->heap);
    *sampler = (tri_sampler){.epoch = -1};
}

int64_t tri__sampler_batches(const tri_sampler *sampler) {
    return sampler->data->n / sampler->batch + (sampler->data->n % sampler->batch != 0);
}

static void set_epoch(tri_sampler *sampler, int64_t epoch) {
    int fresh = sampler->epoch < 0;
    if (sampler->epoch == epoch) return;
    sampler->epoch = epoch;
    if (!sampler->shuffle && !fresh) return;
    int64_t *order = sampler->order;
    for (int64_t i = 0; i < sampler->data->n; i++) order[i] = i;
    if (!sampler->shuffle) return;
    uint32_t key = tri__random_id("epoch");
    for (int64_t i = sampler->data->n - 1; i > 0; i--) {
        tri_random random = tri__philox(sampler->seed, key, (uint32_t)i, (uint32_t)epoch, 0, 2);
        uint64_t bits = (uint64_t)random.word[1] << 32 | random.word[0];
        int64_t j = (int64_t)((unsigned __int128)bits * (uint64_t)(i + 1) >> 64), swapped = order[i];
        order[i] = order[j], order[j] = swapped;
    }
}

int64_t tri__sampler_batch(tri_sampler *sampler, int64_t epoch, int64_t k, const int64_t **rows) {
    TRI_ASSERT(epoch >= 0 && k >= 0 && k < tri__sampler_batches(sampler));
    set_epoch(sampler, epoch);
    int64_t first = k * sampler->batch, rest = sampler->data->n - first;
    *rows = sampler->order + first;
    return rest < sampler->batch ? rest : sampler->batch;
}

static int less(const entry *a, const entry *b) {
    return a->major != b->major ? a->major < b->major : a->minor < b->minor;
}

static void sift_down(entry *heap, int64_t n, int64_t at) {
    entry moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && less(&heap[child + 1], &heap[child])) child++;
        if (!less(&heap[child], &moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

void tri__sampler_split(tri_sampler *sampler, const int64_t *rows, int64_t n, int32_t *part) {
    const tri_dataset *data = sampler->data;
    TRI_ASSERT(n <= sampler->batch && n <= data->n);
    if (sampler->parts == 1) {
        memset(part, 0, (size_t)n * sizeof *part);
        return;
    }
    entry *parts = sampler->heap, *left = parts + sampler->parts; /* [parts], [n] */
    for (int p = 0; p < sampler->parts; p++) parts[p] = (entry){0, p, p};
    for (int64_t i = 0; i < n; i++) {
        int64_t tokens = 0;
        for (int t = 0; t < data->n_texts; t++) tokens += tri__dataset_packed(data, t, rows[i]).tokens;
        left[i] = (entry){-tokens, rows[i], i};
    }
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(left, n, i);
    for (int64_t rest = n; rest > 0;) {
        part[left[0].value] = (int32_t)parts[0].value;
        parts[0].major -= left[0].major;
        sift_down(parts, sampler->parts, 0);
        left[0] = left[--rest];
        sift_down(left, rest, 0);
    }
}

static void raise_to(int64_t *maximum, int64_t value) { *maximum = value > *maximum ? value : *maximum; }

/* 0: none yet. */
static void lower_to(int64_t *minimum, int64_t value) { *minimum = !*minimum || value < *minimum ? value : *minimum; }

/* What a row takes of each encoder. */
static void take_row(const tri_sampler *sampler, int64_t row, tri_packed of[static 2]) {
    of[0] = of[1] = (tri_packed){0};
    for (int t = 0; t < sampler->data->n_texts; t++) {
        tri_packed packed = tri__dataset_packed(sampler->data, t, row),
                   *to = &of[tri__reader(&sampler->data->windows.readers, t)];
        to->tokens += packed.tokens, to->windows += packed.windows;
    }
}

/* The shortest sequences, where windows are not counted. */
static void note_shortest(const tri_sampler *sampler, const tri_packed of[static 2], tri_sampler_maxima *out) {
    for (int text = 0; text < 2 && !tri__windows_count(&sampler->data->windows); text++)
        lower_to(&out->shortest[text], of[text].tokens);
}

/* Sums rows, tokens and windows per part, in the split's scratch memory, which is free by then. */
static void measure(tri_sampler *sampler, const int64_t *rows, int64_t n, tri_sampler_maxima *out) {
    entry *sum = sampler->heap, *windows = sum + sampler->parts; /* [parts] of either text, rows */
    memset(sum, 0, 2 * (size_t)sampler->parts * sizeof *sum);
    for (int64_t i = 0; i < n; i++) {
        int part = sampler->part[i];
        tri_packed of[2];
        take_row(sampler, rows[i], of);
        sum[part].value++, sum[part].major += of[0].tokens, sum[part].minor += of[1].tokens;
        windows[part].major += of[0].windows, windows[part].minor += of[1].windows;
        note_shortest(sampler, of, out);
    }
    for (int p = 0; p < sampler->parts; p++) {
        raise_to(&out->rows, sum[p].value);
        raise_to(&out->tokens[0], sum[p].major);
        raise_to(&out->tokens[1], sum[p].minor);
        if (!tri__windows_count(&sampler->data->windows)) continue;
        raise_to(&out->windows[0], windows[p].major);
        raise_to(&out->windows[1], windows[p].minor);
    }
}

/* ---- bounds ---- */

typedef enum quantity { COST, TOKENS, WINDOWS = TOKENS + 2, QUANTITIES = WINDOWS + 2 } quantity;

static int64_t quantity_of(const tri_packed of[static 2], quantity what) {
    if (what == COST) return of[0].tokens + of[1].tokens;
    return what < WINDOWS ? of[what - TOKENS].tokens : of[what - WINDOWS].windows;
}

/* The sum of a quantity over the rows of one batch that have the most of it: the least of them is on top of a heap. */
static int64_t largest_batch(const tri_sampler *sampler, quantity what) {
    const tri_dataset *data = sampler->data;
    int64_t n = data->n < sampler->batch ? data->n : sampler->batch, sum = 0;
    entry *most = sampler->heap;
    for (int64_t row = 0; row < data->n; row++) {
        tri_packed of[2];
        take_row(sampler, row, of);
        const entry next = {quantity_of(of, what), row, row};
        if (row < n) most[row] = next;
        for (int64_t i = n / 2 - 1; row == n - 1 && i >= 0; i--) sift_down(most, n, i);
        if (row < n || next.major <= most[0].major) continue;
        most[0] = next;
        sift_down(most, n, 0);
    }
    for (int64_t i = 0; i < n; i++) sum += most[i].major;
    return sum;
}

/* A part of a batch is given a row while it has the fewest tokens, at most the mean of all parts; so it has at most
 * that mean and its longest row. Nor has it more of anything than a whole batch. */
static void bound(const tri_sampler *sampler, tri_sampler_maxima *out) {
    int64_t longest = 0, shortest = 0, most[QUANTITIES];
    for (int64_t row = 0; row < sampler->data->n; row++) {
        tri_packed of[2];
        take_row(sampler, row, of);
        raise_to(&longest, of[0].tokens + of[1].tokens);
        lower_to(&shortest, of[0].tokens + of[1].tokens);
        note_shortest(sampler, of, out);
    }
    for (int q = 0; q < QUANTITIES; q++) most[q] = largest_batch(sampler, (quantity)q);
    int64_t of_part = sampler->parts == 1 ? most[COST] : most[COST] / sampler->parts + longest;
    int64_t rows = sampler->batch < sampler->data->n ? sampler->batch : sampler->data->n,
            of_short = shortest ? of_part / shortest : rows;
    out->bounded = 1;
    out->rows = of_short < rows ? of_short : rows;
    for (int text = 0; text < 2; text++) {
        out->tokens[text] = most[TOKENS + text] < of_part ? most[TOKENS + text] : of_part;
        if (tri__windows_count(&sampler->data->windows))
            out->windows[text] = most[WINDOWS + text] < of_part ? most[WINDOWS + text] : of_part;
    }
}

tri_status tri__sampler_maxima(tri_sampler *sampler, int64_t epochs, tri_sampler_maxima *out) {
    *out = (tri_sampler_maxima){0};
    if (!sampler->shuffle && epochs > 1) epochs = 1;
    if (epochs > 1 && sampler->data->n > TRI_MAXIMA_ROWS / epochs) return bound(sampler, out), TRI_OK;
    for (int64_t epoch = 0; epoch < epochs; epoch++)
        for (int64_t k = 0; k < tri__sampler_batches(sampler); k++) {
            const int64_t *rows;
            int64_t n = tri__sampler_batch(sampler, epoch, k, &rows);
            tri__sampler_split(sampler, rows, n, sampler->part);
            measure(sampler, rows, n, out);
            TRI_TRY(tri__stop_check(sampler->stop, "the sizes of batches were measured"));
        }
    return TRI_OK;
}
