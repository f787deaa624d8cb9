/* explain.c - occlusion: the probability, or the number, of a row without each of its inputs and each of its words.
 *
 * An input is left out as if its fields were missing. A word is left out of its text. Where there are more words or
 * columns than rows to spend, they are first left out in chunks; then those chunks whose absence matters most are cut
 * further, round after round, so that the words and columns that count get figures of their own. A round's rows of many
 * explained rows are computed together. */
#include "serve/explain/explain.h"

#include "data/dataset/field_values.h"
#include "data/text/unicode.h"
#include "serve/infer/table_rows.h"

enum {
    SAMPLES = 32,                              /* rows explained together */
    FOR_WORDS = 16,                            /* of a row's budget, kept for words however many columns there are */
    PARTS = 4                                  /* that a chunk is cut into */
};
static const double NOTHING = 5e-4;            /* a chunk whose effect is below is not cut further; in job.unit */

/* A word of a sample. */
typedef struct word_span {
    size_t at, length;      /* bytes of the text */
} word_span;
typedef struct word {
    int column;             /* of tri_table_rows.column */
    word_span span;         /* in its field */
} word;

/* Consecutive words of one text, or consecutive tabular columns, and their effect together. */
typedef struct chunk {
    int of_columns, first, n; /* of the sample's words; of_columns: of the inputs */
    double effect;          /* NaN: not known yet */
} chunk;

typedef struct sample {
    int64_t row;            /* of tri_table_rows */
    tri_column_value *value; /* [n_columns] as they stand */
    word *word;             /* [n_words] text by text */
    int n_words, text_words[TRI_TEXTS_MAX]; /* of each text */
    chunk *chunk;           /* [n_chunks] columns, then words, each in their order */
    int n_chunks, spent;    /* spent: of TRI_EXPLAIN_ROWS */
    const float *probs;     /* [classes] of the whole row; of numbers its answer */
    int class;              /* that is explained; of numbers which of them */
    double effect[TRI_TEXTS_MAX]; /* of each text */
    double *attention;      /* [inputs] that the fusion's last layer pays to each; NULL: it has none */
} sample;

/* What one computed row leaves out. */
typedef struct trial {
    sample *of;
    int text, chunk;        /* -1, -1: nothing */
} trial;

typedef struct job {
    tri_table_rows rows;
    const tri_explain_options *options;
    const tri_stop *stop;
    tri_explained *put;
    void *context;
    int class;              /* that is asked for; -1: that which each row is predicted to be */
    double unit;            /* of effects: 1, or the deviation of training's numbers, as they are transformed */
    /* of the rows in hand */
    tri_arena *arena;
    sample *sample;         /* [n_samples] */
    int n_samples;
    int64_t first;          /* of them, in the table */
    trial *trial;           /* [n_trials] of this round */
    int n_trials;
} job;

/* ---- words, as a reader sees them: runs between blanks, and single Chinese characters ---- */

enum kind { BLANK, LETTER, ALONE }; /* ALONE: a word by itself, for writing without blanks */

/* The kind of the character at text[*at], which moves past it. */
static enum kind kind_at(const char *text, size_t length, size_t *at) {
    int32_t code = tri__utf8_next(text, length, at);
    if (code < 0) return LETTER;
    if (tri__char_class(code) & TRI_CHAR_SPACE) return BLANK;
    return tri__char_is_chinese(code) ? ALONE : LETTER;
}

/* The next word of text [length] from byte `from` on; 0: there is none. `text` is UTF-8; other bytes are letters. */
static int next_word(const char *text, size_t length, size_t from, word_span *word) {
    size_t at = from, next = from;
    enum kind kind = BLANK;
    while (next < length && kind == BLANK) at = next, kind = kind_at(text, length, &next);
    if (kind == BLANK) return 0;
    *word = (word_span){at, next - at};
    for (at = next; kind == LETTER && at < length && kind_at(text, length, &next) == LETTER; at = next)
        word->length = next - word->at;
    return 1;
}

/* ---- rounds ---- */

static int is_empty(const job *j, const sample *s, int first, int n) {
    const tri_input *in = &j->rows.input[first], *last = in + n - 1;
    for (int k = in->first; k < last->first + last->n; k++)
        if (s->value[j->rows.member[k]].length) return 0;
    return 1;
}

static void find_words(job *j, sample *s) {
    word_span span;
    int room = 0;
    for (int t = 0; t < j->rows.facts->n_texts; t++) {
        const tri_input *in = &j->rows.input[t];
        for (int k = 0; k < in->n; k++) {
            int column = j->rows.member[in->first + k];
            const tri_column_value *v = &s->value[column];
            for (size_t at = 0; next_word(v->value, v->length, at, &span); at = span.at + span.length)
                *TRI_PUSH(j->arena, s->word, s->n_words, room) = (word){column, span}, s->text_words[t]++;
        }
    }
}

static int chunks_of(const sample *s, int size) {
    int n = 0;
    for (int t = 0; t < TRI_TEXTS_MAX; t++) n += (s->text_words[t] + size - 1) / size;
    return n;
}

static void try(job *j, sample *s, int text, int chunk) {
    j->trial[j->n_trials++] = (trial){s, text, chunk};
    s->spent++;
}

/* Tries to leave out the chunks from `first` on whose effect is unknown; one without a value has none. */
static void try_chunks(job *j, sample *s, int first) {
    for (int k = first; k < s->n_chunks; k++) {
        chunk *c = &s->chunk[k];
        if (!isnan(c->effect)) continue;
        if (c->of_columns && is_empty(j, s, c->first, c->n)) c->effect = 0;
        else try(j, s, -1, k);
    }
}

/* Single columns where there are enough rows for them and for words; else several together. */
static void chunk_columns(job *j, sample *s) {
    int texts = j->rows.facts->n_texts, columns = j->rows.facts->n_columns;
    int most = TRI_EXPLAIN_ROWS - 1 - FOR_WORDS - texts, size = columns > most ? (columns + most - 1) / most : 1;
    for (int k = 0; k < columns; k += size)
        s->chunk[s->n_chunks++] = (chunk){1, texts + k, columns - k < size ? columns - k : size, NAN};
}

/* Single words where there are enough rows for them; else chunks, for half of the rows. */
static void chunk_words(sample *s) {
    int budget = TRI_EXPLAIN_ROWS - s->spent, size = 1;
    if (s->n_words > budget)
        while (chunks_of(s, size) > budget / 2 && size < s->n_words) size++; /* each text has one at least */
    for (int t = 0, at = 0; t < TRI_TEXTS_MAX; at += s->text_words[t++])
        for (int k = 0; k < s->text_words[t]; k += size) {
            int left = s->text_words[t] - k;
            s->chunk[s->n_chunks++] = (chunk){0, at + k, left < size ? left : size, NAN};
        }
}

/* The first round of a sample: as it is, without each input that it has, and without each chunk. */
static void begin(job *j, sample *s, int64_t row) {
    s->row = row;
    s->value = tri__arena_alloc(j->arena, (size_t)j->rows.n_columns * sizeof *s->value);
    s->chunk = tri__arena_alloc(j->arena, 2 * TRI_EXPLAIN_ROWS * sizeof *s->chunk); /* columns without a value too */
    tri__table_rows_take(&j->rows, row, s->value);
    find_words(j, s);
    try(j, s, -1, -1);
    for (int t = 0; t < j->rows.facts->n_texts; t++)
        if (!is_empty(j, s, t, 1)) try(j, s, t, -1);
    chunk_columns(j, s);
    try_chunks(j, s, 0);
    int columns = s->n_chunks;
    chunk_words(s);
    try_chunks(j, s, columns);
}

/* The chunk that matters most of those that can be cut and have been measured before this round; -1: none. */
static int worth_cutting(const job *j, const sample *s) {
    int best = -1;
    for (int k = 0; k < s->n_chunks; k++)
        if (s->chunk[k].n > 1 && fabs(s->chunk[k].effect) >= NOTHING * j->unit && /* NaN: cut in this round */
            (best < 0 || fabs(s->chunk[k].effect) > fabs(s->chunk[best].effect)))
            best = k;
    return best;
}

/* Cuts chunk k into parts, whose effects are not known yet. */
static void cut(sample *s, int k, int parts) {
    chunk whole = s->chunk[k];
    memmove(&s->chunk[k + parts], &s->chunk[k + 1], (size_t)(s->n_chunks - k - 1) * sizeof *s->chunk);
    for (int p = 0; p < parts; p++) {
        int from = whole.n * p / parts, to = whole.n * (p + 1) / parts;
        s->chunk[k + p] = (chunk){whole.of_columns, whole.first + from, to - from, NAN};
    }
    s->n_chunks += parts - 1;
}

/* A further round of a sample: spends half of what is left, so that the next round can follow where this one leads. */
static void refine(job *j, sample *s) {
    int left = TRI_EXPLAIN_ROWS - s->spent, spend = left > 2 * PARTS ? left / 2 : left, k;
    while (spend > 1 && (k = worth_cutting(j, s)) >= 0) {
        int parts = s->chunk[k].n < PARTS ? s->chunk[k].n : PARTS;
        if (parts > spend) parts = spend;
        cut(s, k, parts);
        spend -= parts;
    }
    try_chunks(j, s, 0);
}

/* The field of a column without words [first, first + n) of it. */
static void leave_out(job *j, tri_column_value *value, const word *words, int n) {
    size_t begin = words[0].span.at, end = words[n - 1].span.at + words[n - 1].span.length;
    char *text = tri__arena_alloc(j->arena, value->length + 1);
    memcpy(text, value->value, begin);
    memcpy(text + begin, value->value + end, value->length - end);
    value->length -= end - begin, value->value = text;
}

static void leave_out_inputs(const job *j, tri_column_value *value, int first, int n) {
    const tri_input *in = &j->rows.input[first], *last = in + n - 1;
    for (int k = in->first; k < last->first + last->n; k++)
        value[j->rows.member[k]].value = NULL, value[j->rows.member[k]].length = 0;
}

/* The row of a trial. */
static tri_row row_of(job *j, const trial *t) {
    const sample *s = t->of;
    const chunk *c = t->chunk >= 0 ? &s->chunk[t->chunk] : NULL;
    int n = j->rows.n_columns;
    tri_column_value *value = tri__arena_alloc(j->arena, (size_t)n * sizeof *value);
    memcpy(value, s->value, (size_t)n * sizeof *value);
    if (t->text >= 0) leave_out_inputs(j, value, t->text, 1);
    if (c && c->of_columns) leave_out_inputs(j, value, c->first, c->n);
    for (int at = c ? c->first : 0, next; c && !c->of_columns && at < c->first + c->n; at = next) {
        for (next = at; next < c->first + c->n && s->word[next].column == s->word[at].column;) next++;
        leave_out(j, &value[s->word[at].column], &s->word[at], next - at); /* of each column that it has words of */
    }
    return (tri_row){value, n};
}

/* The class that `predict` says; of several labels the one that is furthest above its threshold. */
static int predicted(const job *j, const float *probs) {
    const tri_model_facts *f = j->rows.facts;
    int best = 0;
    if (!f->separator) return tri__decision_class(f->decision, probs, f->n_classes);
    for (int c = 1; c < f->n_classes; c++)
        if (probs[c] - f->decision->from[c] > probs[best] - f->decision->from[best]) best = c;
    return best;
}

/* Computes the round's rows, and takes their effects. */
static tri_status compute(job *j) {
    int classes = j->rows.facts->n_classes;
    tri_row *row = tri__arena_alloc(j->arena, (size_t)j->n_trials * sizeof *row);
    float *probs = tri__arena_alloc(j->arena, (size_t)j->n_trials * (size_t)classes * sizeof *probs);
    for (int k = 0; k < j->n_trials; k++) row[k] = row_of(j, &j->trial[k]);
    TRI_TRY(tri__model_predict(j->rows.model, row, j->n_trials, probs));
    for (int k = 0; k < j->n_trials; k++) {
        const trial *t = &j->trial[k];
        const float *p = probs + (int64_t)k * classes;
        sample *s = t->of;
        if (t->text < 0 && t->chunk < 0) s->probs = p, s->class = j->class >= 0 ? j->class : predicted(j, p);
        else *(t->text >= 0 ? &s->effect[t->text] : &s->chunk[t->chunk].effect) = s->probs[s->class] - p[s->class];
    }
    return TRI_OK;
}

static tri_json *input_json(const job *j, const sample *s, int input, double effect, int sharers) {
    const tri_input *in = &j->rows.input[input];
    const tri_column_value *v = &s->value[j->rows.member[in->first]];
    tri_json *made = tri__json_pack("{s:s, s:s}", "input", in->name, "kind", in->is_text ? "text" : "column");
    if (!in->is_text) tri__json_set_new(made, "value", tri__json_stringn(v->value, v->length));
    tri__json_set_new(made, "effect", tri__json_real(effect / sharers));
    if (s->attention) tri__json_set_new(made, "attention", tri__json_real(s->attention[input]));
    if (sharers > 1) tri__json_set_new(made, "shared_by", tri__json_integer(sharers));
    return made;
}

static tri_json *inputs_json(const job *j, const sample *s) {
    tri_json *list = tri__json_array();
    for (int t = 0; t < j->rows.facts->n_texts; t++) tri__json_append_new(list, input_json(j, s, t, s->effect[t], 1));
    for (const chunk *c = s->chunk; c < s->chunk + s->n_chunks && c->of_columns; c++)
        for (int k = 0; k < c->n; k++) tri__json_append_new(list, input_json(j, s, c->first + k, c->effect, c->n));
    return list;
}

static tri_json *words_json(const job *j, const sample *s) {
    tri_json *list = tri__json_array();
    for (int k = 0; k < s->n_chunks; k++) {
        const chunk *c = &s->chunk[k];
        for (int w = c->first; !c->of_columns && w < c->first + c->n; w++) {
            const tri_column_value *v = &s->value[s->word[w].column];
            const word_span *span = &s->word[w].span, *before = w ? &s->word[w - 1].span : NULL;
            int joined = before && s->word[w - 1].column == s->word[w].column &&
                         before->at + before->length == span->at;
            tri_json *word = tri__json_pack("{s:s, s:o, s:f}", "column",
                                            tri__model_column(j->rows.model, s->word[w].column), "word",
                                            tri__json_stringn(v->value + span->at, span->length), "effect",
                                            c->effect / c->n);
            if (c->n > 1) tri__json_set_new(word, "shared_by", tri__json_integer(c->n));
            if (joined) tri__json_set_new(word, "joined", tri__json_boolean(1)); /* no blank before it */
            tri__json_append_new(list, word);
        }
    }
    return list;
}

static tri_status put_sample(const job *j, const sample *s) {
    const tri_model_facts *f = j->rows.facts;
    tri_json *answer = tri__json_object();
    for (int c = 0; c < f->n_classes; c++) tri__json_set_new(answer, f->label[c], tri__json_real((double)s->probs[c]));
    tri_json_int record = tri__table_record(j->rows.table, tri__table_row(&j->rows, s->row));
    TRI_OWNED(tri__buffer_free) tri_buffer labels = {0};
    if (f->separator) tri__decision_labels(f->decision, f->label, f->n_classes, s->probs, f->separator, &labels);
    if (labels.failed) return tri__fail(TRI_RESOURCE, "out of memory for an explanation");
    const char *several = f->separator && labels.size ? labels.text : f->separator ? "" : NULL;
    TRI_OWNED(tri__json_drop) tri_json *row = tri__json_pack(
        "{s:I, s:s*, s:s, s:f, s:o, s:o, s:o, s:i}", "row", record, "label",
        f->is_number ? NULL : several ? several : f->label[predicted(j, s->probs)], "explained", f->label[s->class],
        f->is_number ? "number" : "probability", (double)s->probs[s->class], f->is_number ? "numbers" : "probabilities",
        answer, "inputs", inputs_json(j, s), "words", words_json(j, s), "rows_computed", s->spent);
    if (!tri__json_is_whole(row)) return tri__fail(TRI_RESOURCE, "out of memory for an explanation");
    return j->put(j->context, row);
}

/* What the fusion attends to in a row, which is computed once more, alone. Columns that a date became are one input. */
static tri_status attend(job *j, sample *s) {
    const tri_preprocess *p = j->rows.facts->preprocess;
    const tri_row row = row_of(j, &(trial){s, -1, -1});
    int texts = j->rows.facts->n_texts, token = texts;
    float *each = tri__arena_alloc(j->arena, (size_t)(texts + p->n_columns) * sizeof *each); /* a vector a column */
    TRI_TRY(tri__model_predict(j->rows.model, &row, 1,
                               tri__arena_alloc(j->arena, (size_t)j->rows.facts->n_classes * sizeof *each)));
    tri__model_attention(j->rows.model, each);
    s->attention = tri__arena_alloc(j->arena, (size_t)j->rows.n_inputs * sizeof *s->attention);
    for (int t = 0; t < texts; t++) s->attention[t] = (double)each[t];
    for (int c = 0, input = texts; c < p->n_columns; input++)
        for (int next = tri__preprocess_next(p, c); c < next; c++) s->attention[input] += (double)each[token++];
    return TRI_OK;
}

/* Explains n_samples rows from `first` on, in an arena of their own. */
static tri_status explain_some(tri_arena *arena, void *data) {
    job *j = data;
    j->arena = arena, j->n_trials = 0;
    j->sample = tri__arena_alloc(arena, (size_t)j->n_samples * sizeof *j->sample);
    j->trial = tri__arena_alloc(arena, (size_t)j->n_samples * TRI_EXPLAIN_ROWS * sizeof *j->trial);
    for (int i = 0; i < j->n_samples; i++) begin(j, &j->sample[i], j->first + i);
    while (j->n_trials) {
        TRI_TRY(tri__stop_check(j->stop, "explaining row %lld", (long long)j->first + 1));
        TRI_TRY(compute(j));
        j->n_trials = 0;
        for (int i = 0; i < j->n_samples; i++) refine(j, &j->sample[i]);
    }
    for (int i = 0; i < j->n_samples; i++) {
        if (j->rows.facts->attends) TRI_TRY(attend(j, &j->sample[i]));
        TRI_TRY(put_sample(j, &j->sample[i]));
    }
    return tri__table_rows_done(&j->rows, j->first, j->n_samples);
}

/* --label, of a model of numbers or of several labels: one of those that it answers with. */
static tri_status find_number(job *j) {
    const tri_model_facts *f = j->rows.facts;
    char names[256] = "";
    const char *label = j->options->label;
    if (f->is_number) j->unit = f->preprocess->target->deviation;
    if (!label && f->separator) return TRI_OK; /* of each row its own */
    j->class = label ? tri__text_index(label, (const char *const *)f->label, f->n_classes) : 0;
    if (j->class >= 0) return TRI_OK;
    for (int c = 0; c < f->n_classes; c++) tri__text_append(names, sizeof names, ", ", "%s", f->label[c]);
    return tri__fail(TRI_USAGE, "--label \"%s\": the model answers with %s: %s", label,
                     f->is_number ? "numbers" : "labels", names);
}

/* --label */
static tri_status find_class(job *j) {
    const tri_preprocess *p = j->rows.facts->preprocess;
    const char *label = j->options->label;
    char words[1024];
    j->class = -1, j->unit = 1;
    if (p->target) return find_number(j);
    if (!label) return TRI_OK;
    tri_field_text field = {label, strlen(label), 0};
    j->class = tri__labels_class(p, field);
    if (j->class >= 0) return TRI_OK;
    return tri__fail(TRI_USAGE, "--label \"%s\" %s", label, tri__label_words(p, field, words, sizeof words));
}

static tri_status explain(const tri_settings *asked, const tri_log *log, job *j) {
    tri_settings shown = *asked; /* borrows its texts */
    shown.shows_attention = 1;
    TRI_TRY(tri__table_rows_open(&shown, log, &j->rows));
    TRI_TRY(find_class(j));
    int64_t rows = j->rows.n, first = j->options->first - 1, end = first + j->options->rows;
    if (first >= rows)
        return tri__fail(TRI_USAGE, "--first %lld: %s has %lld row%s%s", (long long)first + 1,
                         tri__table_path(j->rows.table), (long long)rows, rows == 1 ? "" : "s",
                         j->rows.row ? " of this part" : "");
    for (j->first = first; j->first < rows && j->first < end; j->first += j->n_samples) {
        int64_t left = (end < rows ? end : rows) - j->first;
        j->n_samples = left < SAMPLES ? (int)left : SAMPLES;
        TRI_TRY(tri__arena_scratch(explain_some, j));
    }
    return TRI_OK;
}

tri_status tri__serve_explain(const tri_settings *asked, const tri_explain_options *options, const tri_log *log,
                              const tri_stop *stop, tri_explained *put, void *context) {
    job j = {.options = options, .stop = stop, .put = put, .context = context};
    tri_status status = explain(asked, log, &j);
    tri__table_rows_close(&j.rows);
    return status;
}
