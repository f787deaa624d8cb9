/* inspect_columns.c - counts the values of each column and determines its kind. One pass over the rows, in blocks;
 * within a block, columns in parallel. */
#include "data/inspect/inspect_parts.h"

#include <ctype.h>

enum { EXAMPLE_CHARS = 40 };

tri_field_text tri__inspect_field(const tri_inspector *in, int split, int64_t row, int column) {
    return tri__field_trim(tri__table_field(in->table[split], row, in->at[split][column]));
}

/* Whether it is one of the given labels, which are never "missing". */
static int is_listed(const tri_inspector *in, int column, tri_field_text field) {
    const tri_texts *labels = &in->spec->label_list;
    return in->spec->label && !strcmp(in->spec->label, in->out->column[column].name) &&
           tri__field_is_one_of(labels, field);
}

int tri__inspect_missing(const tri_inspector *in, int column, tri_field_text field) {
    if (field.length == 0) return 1;
    if (in->out->column[column].kind == TRI_INSPECT_TEXT && column != in->out->label) return 0;
    return tri__field_missing(&in->reading, field) && !is_listed(in, column, field);
}

uint64_t tri__inspect_hash(tri_field_text field) { return tri__hash64(0, field.text, field.length); }

/* A character's role in words: 0 a blank, 1 part of a word, 2 a word by itself (punctuation, Chinese etc.). */
static int word_part(int32_t code) {
    if (code >= 0x80) return code >= 0x2E80 ? 2 : 1;
    return code <= ' ' ? 0 : isalnum(code) ? 1 : 2;
}

int64_t tri__inspect_words(tri_field_text field, int64_t *pieces) {
    enum { LETTERS = 9 }; /* letters per piece, calibrated on English reviews */
    int64_t words = 0, run = 0;
    int blank = 1;
    *pieces = 0;
    for (size_t at = 0; at < field.length;) {
        int part = word_part(tri__utf8_next(field.text, field.length, &at));
        words += blank && part;
        blank = part == 0;
        run = part == 1 ? run + 1 : 0;
        *pieces += part == 2 || run % LETTERS == 1;
    }
    return words;
}

int tri__inspect_named(const char *name, const char *const *words) {
    for (size_t at = 0, n; name[at]; at += n ? n : 1) {
        n = 0; /* a word: letters up to a change from small to capital */
        while (isalpha((unsigned char)name[at + n]) &&
               !(n && isupper((unsigned char)name[at + n]) && islower((unsigned char)name[at + n - 1])))
            n++;
        for (int i = 0; n && words[i]; i++)
            if (strlen(words[i]) == n && strncasecmp(words[i], name + at, n) == 0) return 1;
    }
    return 0;
}

/* One line of at most EXAMPLE_CHARS characters; blanks and control characters become single spaces. */
static char *make_example(tri_field_text field) {
    char text[EXAMPLE_CHARS * 4 + 8];
    size_t used = 0, at = 0;
    int chars = 0, space = 0;
    while (at < field.length && chars < EXAMPLE_CHARS) {
        size_t begin = at;
        int32_t code = tri__utf8_next(field.text, field.length, &at);
        int control = code <= ' ' || (code >= 0x7F && code < 0xA0) || (code >= 0x2028 && code <= 0x202E) ||
                      code == 0xFEFF;
        if (control && space) continue;
        space = control;
        if (control) text[used++] = ' ';
        else memcpy(text + used, field.text + begin, at - begin), used += at - begin;
        chars++;
    }
    if (at < field.length) memcpy(text + used, "...", 3), used += 3;
    return strndup(text, used);
}

/* An example value: the column's first value, or for a text the first with several words. */
static tri_field_text find_example(const tri_inspector *in, int column) {
    const tri_inspection *out = in->out;
    tri_field_text best = {"", 0, 0};
    for (int64_t row = 0; row < out->split[out->base].rows; row++) {
        tri_field_text field = tri__inspect_field(in, out->base, row, column);
        if (tri__inspect_missing(in, column, field)) continue;
        if (!best.length) best = field;
        if (field.length >= EXAMPLE_CHARS / 2 || out->column[column].kind != TRI_INSPECT_TEXT) return field;
        if (row > 100) break;
    }
    return best;
}

/* A column being counted. */
typedef struct count {
    tri_tally tally;
    tri_tally marks; /* values that mean "missing", unless the column is a text */
    int64_t words, pieces;
    double before; /* the last number */
    int whole, rising, failed;
} count;

static int has_digit(tri_field_text field) {
    size_t at = 0;
    while (at < field.length && !isdigit((unsigned char)field.text[at])) at++;
    return at < field.length;
}

static void count_rows(const tri_inspector *in, int index, int64_t begin, int64_t end, count *count) {
    const tri_inspection *out = in->out;
    tri_inspect_column *column = &out->column[index];
    for (int64_t row = begin; row < end && !count->failed; row++) {
        tri_field_text field = tri__inspect_field(in, out->base, row, index);
        if (!field.length) continue;
        double value;
        int64_t pieces;
        if (tri__inspect_missing(in, index, field)) {
            count->failed = tri__tally_add(&count->marks, tri__inspect_hash(field), row) < 0;
            column->marked++;
            continue;
        }
        char form[TRI_CANONICAL_BYTES];
        uint64_t hash = tri__inspect_hash(tri__field_canonical(&in->reading, field, form));
        count->failed = tri__tally_add(&count->tally, hash, row) < 0;
        column->filled++;
        if (tri__boolean_read(field, &value)) *(value > 0 ? &column->yes : &column->no) += 1;
        if (tri__field_number(&in->reading, field, &value) == TRI_NUMBER_GOOD) {
            count->whole &= value > -1e15 && value < 1e15 && value == (double)(int64_t)value;
            count->rising &= column->numbers == 0 || value > count->before;
            count->before = value, column->numbers++, count->words++;
        } else {
            count->words += tri__inspect_words(field, &pieces);
            count->pieces += pieces;
            column->digits += has_digit(field);
            if (tri__is_date(field)) column->dates++;
            else if (tri__is_amount(field)) column->amounts++;
        }
    }
}

static tri_inspect_kind find_kind(const tri_inspect_column *c, int64_t rows) {
    static const char *const id_words[] = {"id", "ids", "uuid", "guid", "index", "key", "hash", NULL};
    enum { MANY = 20 }; /* least number of values for "all distinct" to be meaningful */
    static const double NAME_WORDS = 3, NAME_PIECES = 12; /* from so many on a value says something: a text */
    int named = c->name[0] == 0 || tri__inspect_named(c->name, id_words);
    if (c->filled == 0) return TRI_INSPECT_EMPTY;
    if (c->distinct == 1 && c->filled == rows && rows > 1) return TRI_INSPECT_CONSTANT;
    if (c->numbers == c->filled) {
        int counts = c->whole && c->key && c->rising && c->filled >= MANY; /* row numbers */
        return c->whole && (named || counts) ? TRI_INSPECT_ID : TRI_INSPECT_NUMERIC;
    }
    if (c->form.form.kind == TRI_FORM_DATE) return TRI_INSPECT_DATE;
    if (c->form.form.kind == TRI_FORM_AMOUNT) /* "123 456 789" may be a number of a customer */
        return named && !c->form.form.unit[0] ? TRI_INSPECT_ID : TRI_INSPECT_AMOUNT;
    if ((double)c->numbers >= 0.9 * (double)c->filled) return TRI_INSPECT_NUMERIC; /* as in training: others are bad */
    if (c->words < 1.5 && (named || (c->key && c->filled >= MANY))) return TRI_INSPECT_ID;
    int few = c->distinct * 2 <= c->filled && (c->distinct <= 50 || c->distinct * 10 <= c->filled);
    if (c->yes && c->no && c->yes + c->no == c->filled) return TRI_INSPECT_BOOLEAN;
    if (few && c->words < 8) return TRI_INSPECT_CATEGORICAL;
    if (c->words >= NAME_WORDS || c->pieces >= NAME_PIECES || c->filled < MANY) return TRI_INSPECT_TEXT;
    return 2 * c->digits > c->filled ? TRI_INSPECT_CODE : TRI_INSPECT_NAME;
}

/* How training would read the values, where they may be dates or amounts. */
static tri_status find_form(const tri_inspector *in, int index) {
    const tri_inspection *out = in->out;
    tri_inspect_column *column = &out->column[index];
    tri_form_spec spec = {.reading = &in->reading, .decimal = in->spec->reading.decimal, .hint = in->known_mark,
                          .order = in->spec->date_order};
    if (!column->dates && !column->amounts) return TRI_OK;
    return tri__form_find(in->table[out->base], in->at[out->base][index], &spec, &column->form);
}

static void end_count(const tri_inspector *in, int index, const count *count) {
    const tri_inspection *out = in->out;
    tri_inspect_column *column = &out->column[index];
    column->distinct = count->tally.n;
    column->whole = count->whole && column->numbers;
    column->rising = count->rising && column->numbers > 1;
    column->words = column->filled ? (double)count->words / (double)column->filled : 0;
    column->key = column->filled > 1 && (double)column->distinct >= 0.98 * (double)column->filled;
    column->pieces = column->filled ? (double)count->pieces / (double)column->filled : 0;
    column->kind = find_kind(column, out->split[out->base].rows);
    if (column->kind >= TRI_INSPECT_BOOLEAN) column->form = (tri_form_found){.form.kind = TRI_FORM_BOOLEAN};
    if (column->kind > TRI_INSPECT_BOOLEAN)
        column->form.form = (tri_value_form){.kind = TRI_FORM_HASHED, .buckets = (int)in->spec->buckets};
    if (column->kind == TRI_INSPECT_TEXT) /* "-" is a text too */
        column->filled += column->marked, column->distinct += count->marks.n, column->marked = 0;
    column->missing[out->base] = out->split[out->base].rows - column->filled;
}

static void count_missing(const tri_inspector *in, int split) {
    for (int c = 0; c < in->out->n_columns; c++) in->out->column[c].missing[split] = in->at[split][c] < 0 ? -1 : 0;
    for (int64_t row = 0; row < in->out->split[split].rows; row++) {
        for (int c = 0; c < in->out->n_columns; c++)
            if (in->at[split][c] >= 0)
                in->out->column[c].missing[split] += tri__inspect_missing(in, c, tri__inspect_field(in, split, row, c));
        tri__rows_passed(in->table[split], row);
    }
}

tri_status tri__inspect_columns(tri_inspector *in) {
    enum { BLOCK = 1 << 14 }; /* rows of a large file whose text is in memory at a time */
    tri_inspection *out = in->out;
    int failed = 0, threads = in->spec->threads > 0 ? in->spec->threads : 1;
    int64_t rows = out->split[out->base].rows;
    (void)threads; /* unused without OpenMP */
    count *counts = calloc((size_t)out->n_columns + 1, sizeof *counts);
    if (!counts) return tri__inspect_no_memory(in);
    for (int c = 0; c < out->n_columns; c++) counts[c].whole = counts[c].rising = 1;
    for (int64_t begin = 0; begin < rows; begin += BLOCK) {
        int64_t end = begin + BLOCK < rows ? begin + BLOCK : rows;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int c = 0; c < out->n_columns; c++) count_rows(in, c, begin, end, &counts[c]);
        tri__table_done(in->table[out->base], begin, end - begin);
    }
    tri_status status = TRI_OK;
    for (int c = 0; c < out->n_columns; c++) {
        if (status == TRI_OK) status = find_form(in, c);
        end_count(in, c, &counts[c]);
        out->column[c].example = make_example(find_example(in, c));
        failed |= counts[c].failed || !out->column[c].example;
        tri__tally_free(&counts[c].tally);
        tri__tally_free(&counts[c].marks);
    }
    free(counts);
    for (int s = 0; s < TRI_SPLITS; s++)
        if (s != out->base && in->table[s]) count_missing(in, s);
    return failed ? tri__inspect_no_memory(in) : status;
}
