/* serve_cases.c - the batches of a case as packed tokens. */
#include "cli/bench/serve_cases.h"

enum { FIRST_WORD = 1000, MADE_ROWS = 256 }; /* first id that is not special; rows of a made mixed case */

static tri_status parse(const char *name, tri_serve_case *at) {
    const char *colon = strchr(name, ':');
    char *end = NULL, names[256];
    at->name = name;
    at->model = colon ? tri__bench_model(tri__serve_models, name, (size_t)(colon - name)) : NULL;
    at->rows = at->model ? strtoll(colon + 1, &end, 10) : 0;
    if (at->rows > 0 && *end == 'x') {
        const char *tokens = end + 1;
        if (strcmp(tokens, "mixed") == 0) return TRI_OK;
        at->tokens = strtoll(tokens, &end, 10);
        if (*tokens && !*end && at->tokens >= 2 && at->tokens <= TRI_SERVE_TOKENS) return TRI_OK;
    }
    return tri__fail(TRI_USAGE, "--cases %s: write MODEL:ROWSxTOKENS, as in minilm:32x128, or MODEL:ROWSxmixed; tokens "
                     "are 2 to %d, models %s", name, TRI_SERVE_TOKENS,
                     tri__bench_model_names(tri__serve_models, names));
}

/* ---- Lengths ---- */

typedef struct lengths {
    tri_buffer memory; /* of `of` */
    int32_t *of;       /* [rows, texts], once all are there */
    int64_t rows;
} lengths;

static void add_row(lengths *l, int texts, const int32_t *row) {
    tri__buffer_add(&l->memory, (const char *)row, (size_t)texts * sizeof *row);
    l->rows++;
}

/* One line: a number for each text; further numbers, of texts that the model does not have, are ignored. */
static tri_status read_line(const char *path, int64_t number, const char *line, int texts, lengths *l) {
    int32_t row[2];
    for (int text = 0; text < texts; text++) {
        char *end;
        long n = strtol(line, &end, 10);
        if (end == line || n < 2 || n > TRI_SERVE_TOKENS)
            return tri__fail(TRI_DATA, "%s:%lld: expected %d token counts of 2 to %d", path, (long long)number, texts,
                             TRI_SERVE_TOKENS);
        row[text] = (int32_t)n;
        line = end;
    }
    add_row(l, texts, row);
    return TRI_OK;
}

static tri_status read_lengths(const char *path, int texts, lengths *l) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    int64_t number = 0;
    TRI_TRY(tri__file_read(path, SIZE_MAX / 2, &text, &size));
    char *rest = text;
    for (char *at; (at = strsep(&rest, "\n"));)
        if (*at) TRI_TRY(read_line(path, ++number, at, texts, l));
    return l->rows == 0 ? tri__fail(TRI_DATA, "%s: has no lengths", path) : TRI_OK;
}

static tri_status make_lengths(const tri_serve_case *at, const char *path, lengths *l) {
    int texts = at->model->texts;
    if (!at->tokens && path) return read_lengths(path, texts, l);
    for (int64_t i = 0; i < (at->tokens ? at->rows : MADE_ROWS); i++) {
        int32_t row[2];
        for (int text = 0; text < texts; text++)
            row[text] = at->tokens ? (int32_t)at->tokens : tri__bench_tokens(at->model, i * texts + text);
        add_row(l, texts, row);
    }
    return TRI_OK;
}

/* ---- Batches ---- */

static int32_t *take(int32_t **from, int64_t n) {
    int32_t *at = *from;
    *from += n;
    return at;
}

/* A GPU reads zeros after a text's tokens, up to its granule of 64 or a sixteenth of the largest batch. */
static int64_t padding(const tri_serve_case *at) { return at->rows * TRI_SERVE_TOKENS / 16 + 64; }

/* Integers of all batches' arrays; the float array of numbers is as large as one of int32_t. */
static int64_t room_of(const tri_serve_case *at, const lengths *l) {
    int texts = at->model->texts;
    int64_t tokens = at->batches * texts * padding(at);
    for (int64_t i = 0; i < l->rows * texts; i++) tokens += l->of[i];
    return 4 * tokens + texts * (l->rows + at->batches) + l->rows * (TRI_SERVE_COLUMNS + 1 + 2);
}

static void fill_text(tri_micro *m, int text, const tri_serve_case *at, const int32_t *length, uint32_t *random) {
    int64_t t = 0;
    for (int64_t i = 0; i < m->n; i++) {
        int32_t n = length[i * at->model->texts];
        m->seq[text][i] = (int32_t)t;
        m->squares[text] += (double)n * n;
        for (int32_t place = 0; place < n; place++, t++) {
            *random = *random * 1664525u + 1013904223u;
            m->ids[text][t] = (int32_t)(FIRST_WORD + (*random >> 8) % (uint32_t)(at->model->vocabulary - FIRST_WORD));
            m->pos[text][t] = place;
            m->key[text][2 * t] = (int32_t)i, m->key[text][2 * t + 1] = place;
        }
    }
    m->seq[text][m->n] = (int32_t)t;
}

static void fill_batch(tri_micro *m, const tri_serve_case *at, const int32_t *length, int32_t **memory,
                       uint32_t *random) {
    int texts = at->model->texts;
    for (int text = 0; text < texts; text++) {
        for (int64_t i = 0; i < m->n; i++) m->tokens[text] += length[i * texts + text];
        m->ids[text] = take(memory, m->tokens[text] + padding(at));
        m->pos[text] = take(memory, m->tokens[text] + padding(at));
        m->key[text] = take(memory, 2 * (m->tokens[text] + padding(at)));
        m->seq[text] = take(memory, m->n + 1);
        fill_text(m, text, at, length + text, random);
    }
    m->labels = take(memory, m->n), m->keyn = take(memory, 2 * m->n);
    m->numbers = (float *)(void *)take(memory, m->n * TRI_SERVE_COLUMNS);
    for (int64_t i = 0; i < m->n * TRI_SERVE_COLUMNS; i++) m->numbers[i] = (float)(i % 7) / 3 - 1;
}

static tri_status make_batches(tri_serve_case *at, const lengths *l) {
    int texts = at->model->texts;
    uint32_t random = 1;
    at->batches = (l->rows + at->rows - 1) / at->rows;
    TRI_TRY(TRI_NEW(at->batch, at->batches, "batches"));
    TRI_TRY(TRI_NEW(at->memory, (size_t)room_of(at, l), "batches"));
    int32_t *memory = at->memory;
    for (int64_t i = 0; i < at->batches; i++) {
        int64_t left = l->rows - i * at->rows;
        at->batch[i].n = left < at->rows ? left : at->rows;
        fill_batch(&at->batch[i], at, l->of + i * at->rows * texts, &memory, &random);
    }
    return TRI_OK;
}

tri_status tri__serve_case_open(const char *name, const char *path, tri_serve_case *at) {
    lengths l = {0};
    *at = (tri_serve_case){0};
    TRI_TRY(parse(name, at));
    tri_status status = make_lengths(at, path, &l);
    if (status == TRI_OK && l.memory.failed) status = tri__fail(TRI_RESOURCE, "out of memory");
    l.of = (void *)l.memory.text;
    if (status == TRI_OK) status = make_batches(at, &l);
    tri__buffer_free(&l.memory);
    return status;
}

void tri__serve_case_close(tri_serve_case *at) {
    TRI_FREE(at->batch, at->memory);
    *at = (tri_serve_case){0};
}
