/* test_encode.c - rows by column names against the same rows in a table: the same ids and numbers, for random values
 * and for the real reviews where they are. Bad rows are refused with row, column and cause, also when memory is
 * short. */
#include "base/file.h"
#include "data/dataset/dataset.h"
#include "data/dataset/field_values.h"
#include "serve/infer/encode.h"

#include <errno.h>
#include <sys/stat.h>

#include "tests/lib/test.h"

static char folder[] = "/dev/shm/trident-encode-??????";

static int setup(void **state) {
    (void)state;
    memset(folder + strlen(folder) - 6, 'X', 6);
    return mkdtemp(folder) ? 0 : -1;
}

/* Allocations that fail on demand; sanitizers replace malloc. */
static long fail_at, allocated; /* fail_at: the one that fails, from 1; 0: none */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t n) { return fail_at && ++allocated == fail_at ? errno = ENOMEM, NULL : __libc_malloc(n); }
void *realloc(void *p, size_t n) {
    return fail_at && ++allocated == fail_at ? errno = ENOMEM, NULL : __libc_realloc(p, n);
}
enum { CAN_FAIL = 1 };
#else
enum { CAN_FAIL = 0 };
#endif

#define OK(call)                                                        \
    do {                                                                \
        if ((call) != TRI_OK) fail_msg("%s: %s", #call, tri_error());   \
    } while (0)

enum { MAX_LEN = 16 };

static char *in_folder(const char *name, char out[static 256]) {
    snprintf(out, 256, "%s/%s", folder, name);
    return out;
}

static void write_file(const char *name, const char *text) {
    char path[256];
    OK(tri__file_write(in_folder(name, path), text, strlen(text)));
}

/* A table, the preprocessing fitted to it, a tokenizer, and the form of its rows. */
typedef struct fitted {
    tri_table *table;
    tri_preprocess *preprocess;
    tri_tokenizer *tokenizer[2];
    tri_row_form form;
    char path[256];
} fitted;

static void fit(fitted *f, const char *path, const char *vocabulary, const tri_preprocess_spec *spec, int max_len) {
    *f = (fitted){0};
    snprintf(f->path, sizeof f->path, "%s", path);
    OK(tri__table_open(path, NULL, &f->table));
    OK(tri__preprocess_fit(f->table, spec, 2, &f->preprocess));
    OK(tri__tokenizer_load(vocabulary, &f->tokenizer[0]));
    OK(tri__tokenizer_load(vocabulary, &f->tokenizer[1]));
    OK(tri__row_form_make(f->preprocess, f->tokenizer, &(tri_windows){.most = 1, .max_len = max_len}, &f->form));
}

static void drop(fitted *f) {
    tri__row_form_free(&f->form);
    tri__tokenizer_free(f->tokenizer[0]);
    tri__tokenizer_free(f->tokenizer[1]);
    tri__preprocess_free(f->preprocess);
    tri__table_close(f->table);
}

/* Compares every row of the table with the same row given by column names; columns that the model does not read are
 * left out, and every third empty field too. */
static void compare(fitted *f, int max_len) {
    tri_dataset *data;
    tri_dataset_spec spec = {.path = f->path,
                             .preprocess = f->preprocess,
                             .tokenizer = f->tokenizer,
                             .max_len = max_len,
                             .threads = 2};
    OK(tri__dataset_open(&spec, &data));
    int columns = tri__table_columns(f->table), read = 0;
    tri_column_value *values = calloc((size_t)columns, sizeof *values);
    int32_t *ids = malloc((size_t)max_len * sizeof *ids);
    float *numbers = malloc(((size_t)f->preprocess->width + 1) * sizeof *numbers);
    for (int64_t row = 0; row < data->n; row++) {
        tri_row r = {.value = values};
        for (int c = 0; c < columns; c++) {
            const char *name = tri__table_name(f->table, c);
            int known = strcmp(name, f->preprocess->label_name) == 0;
            for (int i = 0; i < f->form.n_names && !known; i++) known = strcmp(f->form.name[i], name) == 0;
            tri_field_text field = tri__table_field(f->table, row, c);
            if (!known || (!field.length && ++read % 3 == 0)) continue;
            values[r.n++] = (tri_column_value){name, field.length || read % 3 == 1 ? field.text : NULL, field.length,
                                                field.number};
        }
        tri_encoded *e;
        OK(tri__row_form_encode(&f->form, &r, 1, row, TRI_OVERLONG_TRUNCATE, &e));
        int64_t tokens = 0;
        for (int t = 0; t < data->n_texts; t++) {
            const int32_t *have;
            int64_t n = data->text[t].start[row + 1] - data->text[t].start[row];
            OK(tri__dataset_ids(data, t, row, ids));
            assert_int_equal(tri__encoded_ids(e, 0, t, &have), n);
            assert_memory_equal(have, ids, (size_t)n * sizeof *ids);
            tokens += n;
        }
        OK(tri__dataset_numbers(data, row, numbers));
        assert_memory_equal(e->numbers, numbers, (size_t)f->preprocess->width * sizeof *numbers);
        assert_int_equal(tri__encoded_tokens(e), tokens);
        assert_int_equal(tri__encoded_rows(e), 1);
        tri__encoded_free(e);
    }
    print_message("    %lld rows, %d numbers each\n", (long long)data->n, f->preprocess->width);
    free(values);
    free(ids);
    free(numbers);
    tri__dataset_close(data);
}

static void make_vocabulary(void) {
    char path[256], text[2048] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n,\n.\n!\n";
    for (int w = 0; w < 40; w++) sprintf(text + strlen(text), "w%d\n##%d\n", w, w);
    OK(tri__folder_make(in_folder("vocab", path)));
    write_file("vocab/vocab.txt", text);
}

static uint32_t draw(uint32_t *state, uint32_t below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* Words, blanks, quotes, accents and line breaks, some empty, some longer than the limit. */
static int put_text(char *out, uint32_t *state) {
    static const char *const pieces[] = {"w1", "w2", "w33", "W7", " ", "  ", "\"\"", ",", "\n", "\xc3\xa9", "w1!", "x"};
    int n = (int)draw(state, 4) ? (int)draw(state, 30) : 0, used = 0;
    for (int i = 0; i < n; i++) used += sprintf(out + used, "%s ", pieces[draw(state, 12)]);
    return used;
}

static void write_table(const char *name, int rows, char separator, char mark) {
    char *text = malloc((size_t)rows * 1024 + 256), *at = text;
    uint32_t state = 7;
    at += sprintf(at, "a%cb%cage%cprice%ccity%cextra%clabel\n", separator, separator, separator, separator, separator,
                  separator);
    for (int i = 0; i < rows; i++) {
        char first[400] = "", second[400] = "", price[32];
        put_text(first, &state);
        put_text(second, &state);
        snprintf(price, sizeof price, "%d%c%02d", (int)draw(&state, 1000) - 200, mark, (int)draw(&state, 100));
        static const char *const ages[] = {"", "NA", " 33 ", "1e2", "+4", "71"};
        at += sprintf(at, "\"%s\"%c\"%s\"%c%s%c%s%cc%d%cignored%c%d\n", first, separator, second, separator,
                      ages[draw(&state, 6)], separator, draw(&state, 8) ? price : "", separator, (int)draw(&state, 6),
                      separator, separator, i % 2);
    }
    write_file(name, text);
    free(text);
}

static char *texts[] = {"a", "b", "a"}, *columns[] = {"age", "price", "city", "age"}, *missing[] = {"NA"};

static tri_preprocess_spec made_spec(tri_transform transform, int n_second, int n_columns, char decimal) {
    return (tri_preprocess_spec){.label_name = "label",
                                 .text = {{texts, 1}, {texts, n_second}},
                                 .columns = {columns, n_columns},
                                 .n_classes = 2,
                                 .transform = transform,
                                 .reading = {decimal, {missing, 1}}};
}

TEST(rows_equal_those_of_a_table) {
    static const tri_transform transforms[] = {TRI_TRANSFORM_STANDARD, TRI_TRANSFORM_QUANTILE_NORMAL,
                                               TRI_TRANSFORM_NONE};
    char vocabulary[256], path[256];
    make_vocabulary();
    in_folder("vocab", vocabulary);
    for (int i = 0; i < 6; i++) {
        char mark = i % 2 ? ',' : '.';
        write_table("table.csv", 300, i % 2 ? ';' : ',', mark);
        tri_preprocess_spec spec = made_spec(transforms[i % 3], i % 4, i < 5 ? 3 : 0, mark);
        spec.vectors = (tri_vectors)(i % 3 ? 0 : i ? TRI_VECTORS_PERIODIC : TRI_VECTORS_PIECEWISE), spec.bins = 7;
        fitted f;
        fit(&f, in_folder("table.csv", path), vocabulary, &spec, MAX_LEN);
        compare(&f, MAX_LEN);
        drop(&f);
    }
}

TEST(the_real_reviews) {
    char path[256] = "../shared/data/reviews/test.csv", vocabulary[256] = "../shared/tokenizers/bert-base-uncased";
    struct stat info;
    if (stat(path, &info) || stat(vocabulary, &info)) skip();
    char *text[] = {"Review Text", "Title", "Class Name"};
    char *tabular[] = {"Age", "Rating", "Positive Feedback Count", "Department Name"};
    tri_preprocess_spec spec = {.label_name = "Recommended IND",
                                .text = {{text, 1}, {text + 1, 2}},
                                .columns = {tabular, 4},
                                .n_classes = 2};
    fitted f;
    fit(&f, path, vocabulary, &spec, 160);
    compare(&f, 160);
    drop(&f);
}

static void made(fitted *f) {
    char vocabulary[256], path[256];
    tri_preprocess_spec spec = made_spec(TRI_TRANSFORM_STANDARD, 3, 3, '.');
    make_vocabulary();
    write_table("table.csv", 50, ',', '.');
    fit(f, in_folder("table.csv", path), in_folder("vocab", vocabulary), &spec, MAX_LEN);
}

#define VALUE(name, text) ((tri_column_value){name, text, sizeof text - 1, 0})

static void refuse(const fitted *f, const tri_row *rows, int64_t n, tri_status status, const char *words) {
    tri_encoded *e = (tri_encoded *)1;
    assert_int_equal(tri__row_form_encode(&f->form, rows, n, 0, TRI_OVERLONG_REFUSE, &e), status);
    assert_null(e);
    if (!strstr(tri_error(), words)) fail_msg("\"%s\" does not say \"%s\"", tri_error(), words);
}

TEST(bad_rows_name_row_column_and_cause) {
    fitted f;
    made(&f);
    tri_row good = {(tri_column_value[]){VALUE("a", "w1 w2"), VALUE("age", "33")}, 2};
    static const struct {
        tri_column_value value;
        tri_status status;
        const char *words;
    } rows[] = {
        {{"Aeg", "3", 1, 0}, TRI_USAGE, "row 2: the model has no column \"Aeg\" (did you mean \"age\"?); its columns "
                                        "are \"a\", \"b\", \"age\", \"price\", \"city\""},
        {{"extra", "3", 1, 0}, TRI_USAGE, "no column \"extra\""},
        {{"", "3", 1, 0}, TRI_USAGE, "no column \"\""},
        {{"age", "old", 3, 0}, TRI_DATA, "row 2, column \"age\": \"old\" is not a decimal number"},
        {{"age", "0x10", 4, 0}, TRI_DATA, "row 2, column \"age\": \"0x10\" is not a decimal number"},
        {{"price", "1,5", 3, 0}, TRI_DATA, "row 2, column \"price\": \"1,5\" is not a decimal number"},
        {{"age", "1e999", 5, 0}, TRI_DATA, "row 2, column \"age\": \"1e999\" is too large"},
        {{"a", "w1 \xff w2", 7, 0}, TRI_DATA, "row 2, column \"a\": invalid UTF-8 byte 0xff at byte offset 3"},
        {{"b", "w1\0w2", 5, 0}, TRI_DATA, "row 2, column \"b\": NUL byte at byte offset 2"},
        {{"age", "\xc3\x28", 2, 0}, TRI_DATA, "row 2, column \"age\": invalid UTF-8 byte 0xc3 at byte offset 0"},
        {{"a", "w1 w2 w1 w2 w1 w2 w1 w2 w1 w2 w1 w2 w1 w2 w1", 44, 0}, TRI_DATA,
         "row 2, column \"a\": its text has more than 16 tokens"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tri_row two[] = {good, {&rows[i].value, 1}};
        refuse(&f, two, 2, rows[i].status, rows[i].words);
    }
    tri_row twice = {(tri_column_value[]){VALUE("a", "w1"), VALUE("age", ""), VALUE("age", "1")}, 3};
    refuse(&f, &twice, 1, TRI_USAGE, "row 1: column \"age\" is given twice");
    refuse(&f, &good, 0, TRI_USAGE, "no rows");
    drop(&f);
}

/* A value that is a number by its type has a point, whatever mark the training table's texts have; a category is known
 * in any spelling, and counted where it is not known. */
TEST(values_are_read_by_their_type) {
    fitted f;
    made(&f);
    f.preprocess->reading.decimal = ',';
    static const struct {
        tri_column_value value;
        tri_status status;
    } cases[] = {
        {{"price", "1.5", 3, 1}, TRI_OK}, {{"price", "1,5", 3, 0}, TRI_OK}, {{"price", "15e-1", 5, 1}, TRI_OK},
        {{"price", "1.5", 3, 0}, TRI_DATA}, {{"price", "1,5", 3, 1}, TRI_DATA},
    };
    float want = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_encoded *e = NULL;
        tri_row row = {&cases[i].value, 1};
        assert_int_equal(tri__row_form_encode(&f.form, &row, 1, 0, TRI_OVERLONG_REFUSE, &e), cases[i].status);
        if (!e) continue;
        if (!i) want = e->numbers[1];
        assert_true(e->numbers[1] == want);
        assert_null(e->unseen);
        tri__encoded_free(e);
    }
    tri_encoded *e;
    tri_column_value cities[] = {VALUE("city", "atlantis"), VALUE("city", ""), VALUE("city", " atlantis"),
                                 VALUE("city", "x\ny")};
    tri_row rows[] = {{&cities[0], 1}, {&cities[1], 1}, {&cities[2], 1}, {&cities[3], 1}};
    OK(tri__row_form_encode(&f.form, rows, 4, 0, TRI_OVERLONG_REFUSE, &e));
    const tri_unseen *city = &tri__encoded_unseen(e)[2];
    assert_int_equal(city->unseen, 3);
    assert_int_equal(city->n_examples, 2);
    assert_string_equal(city->example[0], "atlantis");
    assert_string_equal(city->example[1], "x y"); /* one line */
    assert_int_equal(tri__encoded_unseen(e)[0].unseen, 0);
    tri__encoded_free(e);
    drop(&f);
}

TEST(missing_values_and_the_label_are_accepted) {
    fitted f;
    tri_encoded *nothing, *empty;
    made(&f);
    tri_row none = {NULL, 0};
    tri_row given = {(tri_column_value[]){{"a", NULL, 0, 0},
                                          VALUE("b", ""),
                                          VALUE("age", "NA"),
                                          {"price", NULL, 7, 0},
                                          VALUE("city", "atlantis"),
                                          VALUE("label", "whatever"),
                                          VALUE("label", "\xff")},
                     7};
    OK(tri__row_form_encode(&f.form, &none, 1, 0, TRI_OVERLONG_REFUSE, &nothing));
    OK(tri__row_form_encode(&f.form, &given, 1, 0, TRI_OVERLONG_REFUSE, &empty));
    assert_int_equal(tri__encoded_tokens(nothing), 4); /* [CLS] [SEP], twice */
    assert_int_equal(tri__encoded_tokens(empty), 4);
    assert_memory_equal(nothing->numbers, empty->numbers, (size_t)f.preprocess->width * sizeof(float));
    tri__encoded_free(nothing);
    tri__encoded_free(empty);
    drop(&f);
}

/* A text of megabytes, and one of exactly the limit. */
TEST(long_texts_are_truncated) {
    fitted f;
    tri_encoded *e;
    const int32_t *ids;
    made(&f);
    size_t size = 8 << 20;
    char *text = malloc(size);
    for (size_t i = 0; i < size; i += 4) memcpy(text + i, "w1 \n", 4);
    tri_column_value value = {"a", text, size, 0};
    tri_row row = {&value, 1};
    OK(tri__row_form_encode(&f.form, &row, 1, 0, TRI_OVERLONG_TRUNCATE, &e));
    assert_int_equal(tri__encoded_ids(e, 0, 0, &ids), MAX_LEN);
    assert_int_equal(ids[0], 2);
    assert_int_equal(ids[MAX_LEN - 1], 3);
    assert_int_equal(tri__encoded_ids(e, 0, 1, &ids), MAX_LEN); /* b and a twice, joined */
    tri__encoded_free(e);
    refuse(&f, &row, 1, TRI_DATA, "more than 16 tokens");
    value.length = 4 * (MAX_LEN - 2);
    tri_row_form one = f.form;
    one.n_texts = 1;
    OK(tri__row_form_encode(&one, &row, 1, 0, TRI_OVERLONG_REFUSE, &e));
    assert_int_equal(tri__encoded_tokens(e), MAX_LEN);
    tri__encoded_free(e);
    free(text);
    drop(&f);
}

/* Every allocation fails once: TRI_RESOURCE, nothing leaks, and then the call succeeds. */
TEST(a_shortage_of_memory_is_an_error) {
    if (!CAN_FAIL) skip();
    fitted f;
    made(&f);
    enum { N = 40 };
    tri_column_value value[] = {VALUE("a", "w1 w2 W3\xc3\xa9 w4 w5 w6"), VALUE("b", "w2"), VALUE("age", "3")};
    tri_row rows[N];
    for (int i = 0; i < N; i++) rows[i] = (tri_row){value, 3};
    int failed = 0;
    for (tri_status status = TRI_RESOURCE; status != TRI_OK; failed++) {
        tri_encoded *e;
        allocated = 0, fail_at = failed + 1;
        status = tri__row_form_encode(&f.form, rows, N, 0, TRI_OVERLONG_TRUNCATE, &e);
        fail_at = 0;
        if (status == TRI_OK) assert_int_equal(tri__encoded_rows(e), N);
        else {
            assert_int_equal(status, TRI_RESOURCE);
            assert_non_null(strstr(tri_error(), "out of memory"));
            assert_null(e);
        }
        tri__encoded_free(e);
    }
    print_message("    %d allocations\n", failed - 1);
    assert_true(failed > N);
    tri_row_form form;
    fail_at = 1, allocated = 0;
    assert_int_equal(
        tri__row_form_make(f.preprocess, f.tokenizer, &(tri_windows){.most = 1, .max_len = MAX_LEN}, &form),
        TRI_RESOURCE);
    fail_at = 0;
    drop(&f);
}

static int remove_all(void **state) {
    (void)state;
    return tri__folder_remove_all(folder) != TRI_OK;
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, remove_all); }
