/* micro.c - packs rows one after the other, without padding between them. */
#include "data/dataset/micro.h"

#include "base/base.h"
#include "layout/runs.h"

void *tri__carve(char *base, size_t *at, size_t bytes) {
    void *here = base ? base + *at : NULL;
    *at += (bytes + 63) & ~(size_t)63;
    return here;
}

/* Rows of `tokens` in as many sequences: rounded up to the granule. */
static int64_t rounded(const tri_micro_spec *spec, int64_t tokens, int64_t sequences) {
    int64_t granule = spec->granule > 1 ? spec->granule : 1;
    if (spec->ring) return tri__ring_rows(tokens, sequences, spec->ring, granule);
    return (tokens + granule - 1) / granule * granule;
}

static int is_windowed(const tri_micro_spec *spec) { return tri__windows_count(&spec->windows); }

/* The encoder of a text. Each of its texts may have all of its room while rows are added. */
static int reader(const tri_micro_spec *spec, int text) { return tri__reader(&spec->windows.readers, text); }

static size_t label_words(const tri_micro_spec *spec) { return spec->words ? (size_t)spec->words : 1; }

void tri__micro_carve(const tri_micro_spec *spec, char *base, size_t *at, tri_micro *out) {
    size_t rows = (size_t)spec->rows, most = 0;
    tri_micro micro = {0};
    for (int t = 0; t < spec->n_texts; t++) {
        int of = reader(spec, t);
        size_t tokens = (size_t)rounded(spec, spec->tokens[of], is_windowed(spec) ? spec->sequences[of] : spec->rows);
        if (tokens > most) most = tokens;
        micro.ids[t] = tri__carve(base, at, tokens * sizeof *micro.ids[t]);
        micro.pos[t] = tri__carve(base, at, tokens * sizeof *micro.pos[t]);
        micro.key[t] = tri__carve(base, at, 2 * tokens * sizeof *micro.key[t]);
        size_t sequences = is_windowed(spec) ? (size_t)spec->sequences[of] : rows;
        micro.seq[t] = tri__carve(base, at, (sequences + 1) * sizeof *micro.seq[t]);
        if (of == t && spec->capacity[t].experts)
            micro.places[t] = tri__carve(base, at, (sequences + 1) * sizeof *micro.places[t]);
        if (!is_windowed(spec)) continue;
        micro.win[t] = tri__carve(base, at, (rows + 1) * sizeof *micro.win[t]);
        micro.keyw[t] = tri__carve(base, at, 2 * sequences * sizeof *micro.keyw[t]);
    }
    if (spec->n_columns) micro.numbers = tri__carve(base, at, rows * (size_t)spec->n_columns * sizeof *micro.numbers);
    micro.labels = tri__carve(base, at, rows * label_words(spec) * sizeof *micro.labels);
    if (spec->is_weighted) micro.weights = tri__carve(base, at, rows * sizeof *micro.weights);
    micro.keyn = tri__carve(base, at, 2 * rows * sizeof *micro.keyn);
    if (spec->fused) {
        micro.seqf = tri__carve(base, at, (rows + 1) * sizeof *micro.seqf);
        micro.keyf = tri__carve(base, at, 2 * rows * (size_t)spec->fused * sizeof *micro.keyf);
    }
    micro.row = tri__carve(base, at, rows * sizeof *micro.row);
    if (spec->ring) micro.spare = tri__carve(base, at, 2 * most * sizeof *micro.spare);
    if (base) *out = micro;
}

void tri__micro_clear(const tri_micro_spec *spec, tri_micro *micro) {
    micro->n = 0;
    if (spec->fused) micro->seqf[0] = 0;
    for (int t = 0; t < spec->n_texts; t++) {
        micro->tokens[t] = micro->windows[t] = 0, micro->squares[t] = 0, micro->seq[t][0] = 0;
        if (is_windowed(spec)) micro->win[t][0] = 0;
    }
}

int32_t *tri__micro_ids(const tri_micro_spec *spec, const tri_micro *micro, int text, int64_t length) {
    tri_packed packed = tri__windows_packed(&spec->windows, length);
    TRI_ASSERT(micro->tokens[text] + packed.tokens <= spec->tokens[reader(spec, text)]);
    TRI_ASSERT(!is_windowed(spec) || micro->windows[text] + packed.windows <= spec->sequences[reader(spec, text)]);
    return micro->ids[text] + micro->tokens[text];
}

/* The next `length` tokens are sequence `index`; first: the place of its first token. */
static void add_sequence(const tri_micro_spec *spec, tri_micro *micro, int text, int64_t index, int64_t length,
                         int64_t row, int64_t first) {
    int64_t at = micro->tokens[text];
    int32_t next = spec->position_base[reader(spec, text)], pad = next - 1; /* -1 is not a token's id */
    for (int64_t i = 0; i < length; i++) {
        micro->pos[text][at + i] = micro->ids[text][at + i] == pad ? pad : next++;
        micro->key[text][2 * (at + i)] = (int32_t)row;
        micro->key[text][2 * (at + i) + 1] = (int32_t)(first + i);
    }
    micro->tokens[text] = at + length;
    micro->seq[text][index + 1] = (int32_t)(at + length);
    micro->squares[text] += (double)length * (double)length;
}

/* The windows of a text. */
static void add_windows(const tri_micro_spec *spec, tri_micro *micro, int text, int64_t length, int64_t row) {
    const tri_windows *w = &spec->windows;
    int64_t n = tri__windows_packed(w, length).windows;
    int64_t other = (int64_t)(w->most > 1 ? w->most : 1) * w->max_len * tri__reader_place(&w->readers, text);
    tri__windows_expand(w, reader(spec, text), length, micro->ids[text] + micro->tokens[text]);
    for (int64_t k = 0; k < n; k++) {
        int64_t index = micro->windows[text]++, first = other + k * w->max_len;
        add_sequence(spec, micro, text, index, k + 1 < n ? w->max_len : length - k * w->stride, row, first);
        micro->keyw[text][2 * index] = (int32_t)row;
        micro->keyw[text][2 * index + 1] = (int32_t)first;
    }
    micro->win[text][micro->n + 1] = (int32_t)micro->windows[text];
}

void tri__micro_text(const tri_micro_spec *spec, tri_micro *micro, int text, int64_t length, int64_t row) {
    if (is_windowed(spec)) add_windows(spec, micro, text, length, row);
    else add_sequence(spec, micro, text, micro->n, length, row, 0);
}

float *tri__micro_numbers(const tri_micro_spec *spec, const tri_micro *micro) {
    TRI_ASSERT(micro->n < spec->rows);
    return spec->n_columns ? micro->numbers + micro->n * spec->n_columns : NULL;
}

void tri__micro_row(const tri_micro_spec *spec, tri_micro *micro, int64_t row, const int32_t *label) {
    TRI_ASSERT(micro->n < spec->rows);
    size_t words = label_words(spec), bytes = words * sizeof *micro->labels;
    int32_t *to = micro->labels + (size_t)micro->n * words; /* [words] */
    if (label) memcpy(to, label, bytes);
    else memset(to, 0, bytes);
    micro->keyn[2 * micro->n] = (int32_t)row;
    micro->keyn[2 * micro->n + 1] = 0;
    for (int64_t t = 0, at = micro->n * spec->fused; t < spec->fused; t++)
        micro->keyf[2 * (at + t)] = (int32_t)row, micro->keyf[2 * (at + t) + 1] = (int32_t)t;
    if (spec->fused) micro->seqf[micro->n + 1] = (int32_t)((micro->n + 1) * spec->fused);
    micro->row[micro->n++] = row;
}

int64_t tri__micro_places(const tri_micro_spec *spec, int text, int64_t length) {
    const tri_windows *w = &spec->windows;
    const tri_capacity *capacity = &spec->capacity[reader(spec, text)];
    if (!capacity->experts) return 0;
    if (!is_windowed(spec)) return tri__capacity(capacity, length);
    int64_t n = tri__windows_packed(w, length).windows, places = tri__capacity(capacity, length - (n - 1) * w->stride);
    return places + (n - 1) * tri__capacity(capacity, w->max_len);
}

static void place_sequences(const tri_capacity *capacity, tri_micro *micro, int text, int64_t sequences) {
    int32_t *places = micro->places[text], *seq = micro->seq[text];
    if (!capacity->experts) return;
    places[0] = 0;
    for (int64_t s = 0; s < sequences; s++)
        places[s + 1] = places[s] + (int32_t)tri__capacity(capacity, seq[s + 1] - seq[s]);
    micro->expert_rows[text] = capacity->experts * places[sequences];
}

/* `width` numbers a token, packed, in the order of the ring's runs: `rows` in all. */
static void spread(const tri_micro_spec *spec, const tri_micro *micro, int text, int64_t sequences, int64_t rows,
                   int width, int32_t *data) {
    size_t each = (size_t)width * sizeof *data;
    const int32_t *seq = micro->seq[text];
    memcpy(micro->spare, data, (size_t)micro->tokens[text] * each);
    memset(data, 0, (size_t)rows * each);
    for (int run = 0; run < spec->ring; run++)
        for (int64_t s = 0; s < sequences; s++) {
            tri_run_rows in = tri__ring_run(seq, s, run, spec->ring);
            memcpy(data + (run * (rows / spec->ring) + in.begin) * width, micro->spare + (seq[s] + in.place) * width,
                   (size_t)(in.end - in.begin) * each);
        }
}

/* A text's sequences follow those of the texts before it; its win then counts among all. */
static void join(const tri_micro_spec *spec, tri_micro *micro, int text) {
    int to = reader(spec, text);
    int64_t at = micro->tokens[to], more = micro->tokens[text], first = micro->windows[to],
            windows = micro->windows[text];
    TRI_ASSERT(at + more <= spec->tokens[to] && first + windows <= spec->sequences[to]);
    memcpy(micro->ids[to] + at, micro->ids[text], (size_t)more * sizeof *micro->ids[to]);
    memcpy(micro->pos[to] + at, micro->pos[text], (size_t)more * sizeof *micro->pos[to]);
    memcpy(micro->key[to] + 2 * at, micro->key[text], 2 * (size_t)more * sizeof *micro->key[to]);
    memcpy(micro->keyw[to] + 2 * first, micro->keyw[text], 2 * (size_t)windows * sizeof *micro->keyw[to]);
    for (int64_t s = 1; s <= windows; s++) micro->seq[to][first + s] = (int32_t)at + micro->seq[text][s];
    for (int64_t i = 0; i <= micro->n; i++) micro->win[text][i] += (int32_t)first;
    micro->tokens[to] += more, micro->windows[to] += windows, micro->squares[to] += micro->squares[text];
    micro->tokens[text] = micro->windows[text] = 0, micro->squares[text] = 0;
}

void tri__micro_pad(const tri_micro_spec *spec, tri_micro *micro) {
    for (int t = 0; t < spec->n_texts; t++)
        if (reader(spec, t) != t) join(spec, micro, t);
    for (int t = 0; t < spec->n_texts && reader(spec, t) == t; t++) {
        int64_t at = micro->tokens[t], sequences = is_windowed(spec) ? micro->windows[t] : micro->n;
        int64_t rows = rounded(spec, at, sequences);
        place_sequences(&spec->capacity[t], micro, t, sequences);
        int32_t *const data[] = {micro->ids[t], micro->pos[t], micro->key[t]};
        for (int i = 0; i < 3; i++) {
            int width = i < 2 ? 1 : 2;
            if (spec->ring) spread(spec, micro, t, sequences, rows, width, data[i]);
            else memset(data[i] + width * at, 0, (size_t)(width * (rows - at)) * sizeof *data[i]);
        }
    }
}
