/* encode.c - rows by column names: names are found, fields checked, texts joined and tokenised, numbers transformed. */
#include "serve/infer/encode.h"

#include "data/dataset/field_values.h"
#include "data/dataset/reference.h"
#include "data/text/utf8.h"

enum { LABEL = -2, UNKNOWN = -1 }; /* of find_name */

/* One call of tri__row_form_encode. */
typedef struct encoding {
    const tri_row_form *form;
    tri_overlong overlong;
    tri_encoded *to;
    int64_t row, before;    /* rows before the first, for messages */
    int64_t used, room;     /* ids in to->ids; how many it has room for */
    tri_field_text *field;  /* [n_names] of this row; text NULL: not given */
    tri_joined joined;
} encoding;

static tri_status no_memory(int64_t n) {
    return tri__fail(TRI_RESOURCE, "out of memory for %lld row%s", (long long)n, n == 1 ? "" : "s");
}

/* Compares names by their indices, equal ones by the indices. */
static int by_name(const void *a, const void *b, void *names) {
    const char *const *name = names;
    int i = *(const int *)a, k = *(const int *)b, order = strcmp(name[i], name[k]);
    return order ? order : (i > k) - (i < k);
}

/* Makes the names distinct. use [n] becomes the index of each name among the distinct ones, which keep their order. */
static void unite_names(tri_row_form *form, int n, int *use) {
    for (int i = 0; i < n; i++) form->sorted[i] = i;
    qsort_r(form->sorted, (size_t)n, sizeof *form->sorted, by_name, form->name);
    for (int k = 0; k < n; k++) /* the first of equal ones */
        use[form->sorted[k]] =
            k && strcmp(form->name[form->sorted[k]], form->name[form->sorted[k - 1]]) == 0 ? use[form->sorted[k - 1]]
                                                                                           : form->sorted[k];
    for (int i = 0; i < n; i++)
        if (use[i] != i) use[i] = use[use[i]];
        else form->name[form->n_names] = form->name[i], use[i] = form->n_names++;
    for (int i = 0; i < form->n_names; i++) form->sorted[i] = i;
    qsort_r(form->sorted, (size_t)form->n_names, sizeof *form->sorted, by_name, form->name);
}

tri_status tri__row_form_make(const tri_preprocess *p, tri_tokenizer *const *tokenizer, const tri_windows *windows,
                              tri_row_form *form) {
    int n = 0;
    size_t most = (size_t)p->n_columns;
    for (int t = 0; t < TRI_TEXTS_MAX; t++) most += (size_t)p->text[t].n;
    *form = (tri_row_form){.preprocess = p, .outputs = p->n_classes, .n_texts = tri__preprocess_texts(p->text),
                           .tokenizer = {tokenizer[0], tokenizer[1]}, .windows = *windows};
    form->max_len = (int)tri__windows_room(windows);
    form->memory = malloc(most * sizeof *form->name + 2 * most * sizeof *form->sorted);
    if (!form->memory) return tri__fail(TRI_RESOURCE, "out of memory");
    form->name = form->memory, form->sorted = (int *)(form->name + most), form->column = form->sorted + most;
    for (int t = 0; t < form->n_texts; form->column += p->text[t++].n) {
        form->text[t] = form->column;
        for (int i = 0; i < p->text[t].n; i++) form->name[n++] = p->text[t].at[i];
    }
    for (int c = 0; c < p->n_columns; c++) form->name[n++] = p->column[c].name;
    unite_names(form, n, form->text[0]); /* texts and column are consecutive */
    return TRI_OK;
}

void tri__row_form_free(tri_row_form *form) {
    free(form->memory);
    *form = (tri_row_form){0};
}

/* The index of a column's name. Rows usually give columns in one order: `guess` is tried first. */
static int find_name(const tri_row_form *form, const char *name, int guess) {
    if (guess < form->n_names && strcmp(form->name[guess], name) == 0) return guess;
    for (int low = 0, high = form->n_names; low < high;) {
        int middle = low + (high - low) / 2, order = strcmp(form->name[form->sorted[middle]], name);
        if (order == 0) return form->sorted[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return tri__preprocess_learns(form->preprocess, name) ? LABEL : UNKNOWN;
}

static tri_status unknown_column(const encoding *e, const char *name) {
    enum { SHOWN = 30 };
    const tri_row_form *form = e->form;
    char list[1200] = "";
    int i = 0;
    for (; i < form->n_names && i < SHOWN && strlen(list) < sizeof list - 120; i++)
        tri__text_append(list, sizeof list, ", ", "\"%.60s\"", form->name[i]);
    if (i < form->n_names) tri__text_append(list, sizeof list, " ", "and %d more", form->n_names - i);
    const char *nearest = tri__text_nearest(name, form->name, form->n_names);
    return tri__fail(TRI_USAGE, "row %lld: the model has no column \"%.80s\"%s%.80s%s; its columns are %s",
                     (long long)(e->before + e->row) + 1, name, nearest ? " (did you mean \"" : "",
                     nearest ? nearest : "", nearest ? "\"?)" : "", list);
}

/* TRI_DATA about a column of the row. */
static tri_status bad_value(const encoding *e, const char *column, const char *what) {
    return tri__fail(TRI_DATA, "row %lld, column \"%.80s\": %s", (long long)(e->before + e->row) + 1, column, what);
}

/* Texts of tables are UTF-8 without NUL bytes too. */
static tri_status check_text(const encoding *e, const char *column, tri_field_text field) {
    size_t fault = tri__utf8_fault(field.text, field.length);
    if (fault < field.length)
        return bad_value(e, column, TRI_TEXT(64, "invalid UTF-8 byte 0x%02x at byte offset %zu",
                                             (unsigned char)field.text[fault], fault));
    const char *nul = field.length ? memchr(field.text, 0, field.length) : NULL;
    if (!nul) return TRI_OK;
    return bad_value(e, column, TRI_TEXT(64, "NUL byte at byte offset %zu", (size_t)(nul - field.text)));
}

/* Values by the index of their column's name. The label is read over: tables with labels can be sent as they are. */
static tri_status take_values(encoding *e, const tri_row *row) {
    const tri_row_form *form = e->form;
    memset(e->field, 0, (size_t)form->n_names * sizeof *e->field);
    for (int i = 0, guess = 0; i < row->n; i++) {
        const tri_column_value *value = &row->value[i];
        int at = find_name(form, value->column, guess);
        if (at == UNKNOWN) return unknown_column(e, value->column);
        if (at == LABEL) continue;
        guess = at + 1;
        if (e->field[at].text)
            return tri__fail(TRI_USAGE, "row %lld: column \"%.80s\" is given twice",
                             (long long)(e->before + e->row) + 1, value->column);
        e->field[at] = value->value ? (tri_field_text){value->value, value->length, value->number}
                                    : (tri_field_text){"", 0, 0};
        TRI_TRY(check_text(e, value->column, e->field[at]));
    }
    for (int i = 0; i < form->n_names; i++)
        if (!e->field[i].text) e->field[i] = (tri_field_text){"", 0, 0};
    return TRI_OK;
}

/* A value that is missing, or that training did not have. */
static tri_status take_unseen(encoding *e, int column, tri_field_text field) {
    const tri_preprocess *p = e->form->preprocess;
    if (tri__field_missing(&p->reading, field)) return TRI_OK;
    if (!e->to->unseen) e->to->unseen = calloc((size_t)p->n_columns, sizeof *e->to->unseen);
    if (!e->to->unseen) return no_memory(e->to->n);
    tri__unseen_add(&e->to->unseen[column], field);
    return TRI_OK;
}

static tri_status take_numbers(encoding *e) {
    const tri_preprocess *p = e->form->preprocess;
    float *numbers = e->to->numbers + e->row * p->width, *value = e->to->column + e->row * p->n_columns;
    for (int c = 0, next = 0, source = -1; c < p->n_columns; c++) { /* source: the table's column, as facts have it */
        if (c == next) source++, next = tri__preprocess_next(p, c);
        tri_field_text field = e->field[e->form->column[c]];
        tri_number number = tri__column_numbers(&p->column[c], &p->reading, field, numbers);
        if (number != TRI_NUMBER_GOOD) {
            char quoted[64];
            const tri_value_form *form = &p->column[c].read_as;
            const char *why = number != TRI_NUMBER_NONE || form->kind ? tri__number_words(form, number, &p->reading)
                              : p->reading.decimal == ',' ? "is not a decimal number with a comma, as texts of this "
                                                            "model have it; a number of JSON has a point"
                                                          : "is not a decimal number";
            return bad_value(e, p->column[c].name, TRI_TEXT(320, "%s %s", tri__field_quoted(field, quoted), why));
        }
        if (p->column[c].category && !tri__category_known(&p->column[c], numbers))
            TRI_TRY(take_unseen(e, source, field));
        if (e->form->drift) *value++ = tri__reference_value(&p->column[c], &p->reading, numbers, &field);
        numbers += p->column[c].width;
    }
    return TRI_OK;
}

/* Room for the longest text; a new one is large enough for one row. */
static tri_status make_room(encoding *e) {
    int64_t need = e->used + e->form->max_len + 1;
    if (need <= e->room) return TRI_OK;
    int64_t room = e->to->n == 1 ? e->form->n_texts * (e->form->max_len + 1) : 2 * need;
    int32_t *grown = realloc(e->to->ids, (size_t)room * sizeof *grown);
    if (!grown) return no_memory(e->to->n);
    e->to->ids = grown, e->room = room;
    return TRI_OK;
}

static tri_field_text text_of(encoding *e, int text) {
    const int *from = e->form->text[text], n = e->form->preprocess->text[text].n;
    if (n == 1) return e->field[from[0]];
    e->joined.used = 0;
    for (int i = 0; i < n; i++)
        if (!tri__joined_add(&e->joined, e->field[from[i]])) return (tri_field_text){NULL, 1, 0};
    return (tri_field_text){e->joined.used ? e->joined.at : "", e->joined.used, 0};
}

static tri_status take_text(encoding *e, int text) {
    const tri_row_form *form = e->form;
    TRI_TRY(make_room(e));
    tri_field_text field = text_of(e, text);
    if (!field.text) return no_memory(e->to->n);
    int most = form->max_len + (e->overlong == TRI_OVERLONG_REFUSE); /* one more shows that a text is longer */
    const tri_tokenizer *tokenizer = form->tokenizer[tri__reader(&form->windows.readers, text)];
    int n = tri__tokenizer_encode(tokenizer, field.text, field.length, most, e->to->ids + e->used);
    if (n < 0) return TRI_RESOURCE;
    if (n > form->max_len)
        return bad_value(e, form->preprocess->text[text].at[0], TRI_TEXT(
            96, "its text has more than %d tokens, the most that the model takes", form->max_len));
    e->used += n, e->to->tokens += tri__windows_packed(&form->windows, n).tokens;
    e->to->start[e->row * form->n_texts + text + 1] = e->used;
    return TRI_OK;
}

static tri_status take_rows(encoding *e, const tri_row *rows) {
    for (e->row = 0; e->row < e->to->n; e->row++) {
        TRI_TRY(take_values(e, &rows[e->row]));
        TRI_TRY(take_numbers(e));
        for (int text = 0; text < e->form->n_texts; text++) TRI_TRY(take_text(e, text));
        e->to->tokens_to[e->row + 1] = e->to->tokens;
    }
    return TRI_OK;
}

/* One block: the struct, then its arrays, 8-byte ones first. */
static tri_encoded *make(const tri_row_form *form, int64_t n) {
    const tri_preprocess *p = form->preprocess;
    size_t rows = (size_t)n, starts = rows * (size_t)form->n_texts + 1, numbers = rows * (size_t)p->width,
           probs = rows * (size_t)form->outputs, values = form->drift ? rows * (size_t)p->n_columns : 0;
    tri_encoded *e = malloc(sizeof *e + (starts + rows + 1) * sizeof *e->start +
                            (numbers + probs + values) * sizeof *e->numbers);
    if (!e) return NULL;
    *e = (tri_encoded){.n = n, .n_texts = form->n_texts};
    e->start = (int64_t *)(e + 1), e->tokens_to = e->start + starts, e->numbers = (float *)(e->tokens_to + rows + 1);
    e->probs = e->numbers + numbers, e->column = e->probs + probs, e->start[0] = e->tokens_to[0] = 0;
    return e;
}

tri_status tri__row_form_encode(const tri_row_form *form, const tri_row *rows, int64_t n, int64_t first,
                                tri_overlong overlong, tri_encoded **out) {
    *out = NULL;
    if (n < 1) return tri__fail(TRI_USAGE, "no rows");
    encoding e = {.form = form, .before = first, .overlong = overlong, .to = make(form, n)};
    e.field = malloc((size_t)form->n_names * sizeof *e.field);
    tri_status status = e.to && e.field ? take_rows(&e, rows) : no_memory(n);
    TRI_FREE(e.field, e.joined.at);
    if (status == TRI_OK) *out = e.to;
    else tri__encoded_free(e.to);
    return status;
}

int64_t tri__encoded_rows(const tri_encoded *encoded) { return encoded->n; }

int64_t tri__encoded_tokens(const tri_encoded *encoded) { return encoded->tokens; }

const tri_unseen *tri__encoded_unseen(const tri_encoded *encoded) { return encoded->unseen; }

int tri__encoded_ids(const tri_encoded *encoded, int64_t row, int text, const int32_t **ids) {
    const int64_t *start = encoded->start + row * encoded->n_texts + text;
    *ids = encoded->ids + start[0];
    return (int)(start[1] - start[0]);
}

void tri__encoded_free(tri_encoded *encoded) {
    if (!encoded) return;
    TRI_FREE(encoded->ids, encoded->unseen, encoded);
}
