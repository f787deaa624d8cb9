/* test_command.c - commands in a process that has other work, on tables in memory: the same results as from files, to
 * the bit; events, stopping, what needs a process of its own; predictions and sessions on the same tables. */
#include "data/table/table.h"
#include "tests/lib/arrow_arrays.h"
#include "tests/lib/session_data.h"
#include "tests/lib/test.h"

#include <math.h>
#include <pthread.h>

enum { COLUMNS = 5, WORDS = 12 };

/* A table of a file as columns of texts. */
typedef struct texts {
    made_stream made;
    char *name[COLUMNS], *bytes[COLUMNS];
    int64_t *offset[COLUMNS];
} texts;

static texts train, valid;
static tri_tables *tables;
static char config[128], data[128], models[128];

static void load(texts *t, const char *name, const char *file) {
    char path[128];
    struct ArrowArrayStream stream;
    tri_table *table;
    snprintf(path, sizeof path, "%s/%s", root, file);
    OK(tri__table_open(path, NULL, &table));
    int64_t rows = tri__table_rows(table);
    *t = (texts){.made = {.n = COLUMNS, .rows = rows, .batch = 16, .fails_at = -1}};
    for (int c = 0; c < COLUMNS; c++) {
        t->offset[c] = calloc((size_t)rows + 1, sizeof *t->offset[c]);
        t->bytes[c] = malloc((size_t)rows * 256);
        t->name[c] = strdup(tri__table_name(table, c));
        for (int64_t row = 0; row < rows; row++) {
            tri_field_text field = tri__table_field(table, row, c);
            memcpy(t->bytes[c] + t->offset[c][row], field.text, field.length);
            t->offset[c][row + 1] = t->offset[c][row] + (int64_t)field.length;
        }
        t->made.column[c] = (made_column){t->name[c], "U", 3, {NULL, t->offset[c], t->bytes[c]}, 0, NULL, 0};
    }
    tri__table_close(table);
    make_stream(&t->made, &stream);
    OK(tri_tables_add(tables, name, NULL, &stream));
}

static void unload(texts *t) {
    for (int c = 0; c < COLUMNS; c++) free(t->name[c]), free(t->bytes[c]), free(t->offset[c]);
}

static int begin(void **state) {
    make_data(state);
    snprintf(config, sizeof config, "--config=%s/config.json", root);
    snprintf(data, sizeof data, "--data-path=%s", root);
    snprintf(models, sizeof models, "--models-dir=%s", root);
    OK(tri_tables_open(&tables));
    load(&train, "train", "train.csv");
    load(&valid, "valid", "valid.csv");
    return 0;
}

static int end(void **state) {
    tri_tables_close(tables);
    unload(&train);
    unload(&valid);
    return made_held ? -1 : remove_data(state);
}

/* What a command said, and when it is to stop. */
typedef struct heard {
    char result[4096], message[4096];
    size_t n[2];
    int events, trains, stop_at;
    double loss[64];
} heard;

static void hear(void *context, tri_output_kind kind, const char *text, size_t n) {
    heard *h = context;
    char *to = kind == TRI_OUTPUT_RESULT ? h->result : h->message;
    size_t room = sizeof h->result - 1 - h->n[kind];
    if (n > room) n = room;
    memcpy(to + h->n[kind], text, n);
    h->n[kind] += n;
}

static int take_event(void *context, const char *line, size_t n) {
    heard *h = context;
    h->events++;
    assert_int_equal(line[0], '{');
    assert_int_equal(line[n - 1], '\n');
    const char *loss = memmem(line, n, "\"event\":\"train\"", 15) ? memmem(line, n, "\"loss\":", 7) : NULL;
    if (loss && h->trains < 64) h->loss[h->trains] = strtod(loss + 7, NULL);
    h->trains += loss != NULL;
    return h->stop_at && h->trains == h->stop_at;
}

static tri_status command(heard *h, const int *stop, const char *const *words) {
    tri_caller caller = {.tables = tables, .output = hear, .event = take_event, .context = h, .stop = stop};
    int n = 0, stop_at = h->stop_at;
    while (words[n]) n++;
    *h = (heard){.stop_at = stop_at};
    return tri_run_command(n, words, &caller);
}

static tri_status train_to(heard *h, const int *stop, const char *from, const char *folder, const char *more) {
    char output[128];
    snprintf(output, sizeof output, "--output-dir=%s/%s", root, folder);
    const char *const words[] = {"train", config, from, models, output, "--epochs=2", "--seed=7", "--log-every=1", more,
                                 NULL};
    return command(h, stop, words);
}

static void digest_of(const char *folder, char out[static 128]) {
    heard h = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, folder);
    const char *const words[] = {"digest", path, NULL};
    OK(command(&h, NULL, words));
    snprintf(out, 128, "%.120s", h.result);
    assert_true(strlen(out) > 16);
}

TEST(training_on_memory_gives_the_bits_of_training_on_files) {
    heard files = {0}, memory = {0};
    char a[128], b[128];
    OK(train_to(&files, NULL, data, "files", NULL));
    OK(train_to(&memory, NULL, "--data-path=memory:train+valid", "memory", NULL));
    assert_int_equal(files.trains, 18);
    assert_int_equal(memory.events, files.events);
    assert_memory_equal(memory.loss, files.loss, sizeof memory.loss);
    assert_non_null(strstr(memory.result, "checkpoint"));
    assert_non_null(strstr(memory.message, "memory:train"));
    digest_of("files", a);
    digest_of("memory", b);
    assert_string_equal(a, b);
    char path[192];
    snprintf(path, sizeof path, "%s/memory/cache", root);
    assert_int_equal(access(path, F_OK), -1); /* no token store: it would be of nothing that lasts */
}

TEST(an_event_may_end_the_run_which_goes_on_later) {
    heard h = {.stop_at = 5};
    char a[128], b[128];
    assert_int_equal(train_to(&h, NULL, "--data-path=memory:train+valid", "stopped", NULL), TRI_STOPPED);
    assert_non_null(strstr(tri_error(), "stopped at step 5 of 18 (on request); its state is saved"));
    assert_int_equal(h.trains, 5);
    h.stop_at = 0;
    OK(train_to(&h, NULL, "--data-path=memory:train+valid", "stopped", NULL));
    assert_int_equal(h.trains, 13);
    digest_of("stopped", a);
    digest_of("memory", b);
    assert_string_equal(a, b);
}

TEST(another_thread_may_end_a_command) {
    heard h = {0};
    const int stop = 1;
    assert_int_equal(train_to(&h, &stop, "--data-path=memory:train+valid", "never", NULL), TRI_STOPPED);
    assert_non_null(strstr(tri_error(), "on request"));
    assert_int_equal(h.trains, 0);
}

TEST(what_needs_processes_is_refused) {
    heard h = {0};
    static const char *const alone[] = {"serve", "watch", "supervise", "sweep", "bench", "calibrate", "demo"};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        const char *const words[] = {alone[i], NULL};
        assert_int_equal(command(&h, NULL, words), TRI_USAGE);
        assert_non_null(strstr(tri_error(), "run the program `trident`"));
    }
    assert_int_equal(train_to(&h, NULL, data, "ranks", "--nproc-per-node=2"), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--nproc-per-node above 1 takes a process of its own"));
    assert_int_equal(train_to(&h, NULL, data, "ranks", "--folds=3"), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--folds takes a process of its own"));
    const char *const unknown[] = {"trian", NULL};
    assert_int_equal(command(&h, NULL, unknown), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "did you mean \"train\"?"));
    assert_int_equal(train_to(&h, NULL, "--data-path=memory:other", "none", NULL), TRI_NOINPUT);
    assert_non_null(strstr(tri_error(), "no such table in memory"));
    assert_int_equal(train_to(&h, NULL, "--data-path=memory:train+other", "none", NULL), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "names are train, valid and test"));
}

static tri_model *open_model(void) {
    char checkpoint[128];
    tri_model *model;
    snprintf(checkpoint, sizeof checkpoint, "--checkpoint=%s/memory", root);
    const char *const options[] = {checkpoint};
    OK(tri_model_open(1, options, &model));
    return model;
}

TEST(rows_of_a_table_are_predicted_as_rows) {
    tri_model *model = open_model();
    int64_t rows = tri_tables_rows(tables, "valid");
    float *whole = malloc((size_t)rows * 2 * sizeof *whole), one[2];
    OK(tri_model_predict_table(model, tables, "valid", whole, NULL));
    for (int64_t row = 0; row < rows; row++) {
        tri_column_value value[COLUMNS];
        int n = 0;
        for (int c = 0; c + 1 < COLUMNS; c++) { /* all but the label */
            const int64_t *offset = valid.offset[c];
            value[n++] = (tri_column_value){valid.name[c], valid.bytes[c] + offset[row],
                                            (size_t)(offset[row + 1] - offset[row]), 0};
        }
        OK(tri_model_predict(model, &(tri_row){value, n}, 1, one));
        assert_memory_equal(one, whole + 2 * row, sizeof one);
    }
    const int stop = 1;
    assert_int_equal(tri_model_predict_table(model, tables, "valid", whole, &stop), TRI_STOPPED);
    assert_non_null(strstr(tri_error(), "stopped on request after 0 of 30 rows"));
    assert_int_equal(tri_model_predict_table(model, tables, "other", whole, NULL), TRI_NOINPUT);
    free(whole);
    tri_model_close(model);
}

TEST(eval_and_inspect_read_memory) {
    heard files = {0}, memory = {0};
    char checkpoint[128], table[128];
    snprintf(checkpoint, sizeof checkpoint, "--checkpoint=%s/memory", root);
    snprintf(table, sizeof table, "--data-path=%s/valid.csv", root);
    const char *const a[] = {"eval", checkpoint, table, "--json", "--bootstrap=0", NULL},
                      *const b[] = {"eval", checkpoint, "--data-path=memory:valid", "--json", "--bootstrap=0", NULL},
                      *const c[] = {"inspect", "memory:train+valid", "--json", NULL};
    OK(command(&files, NULL, a));
    OK(command(&memory, NULL, b));
    const char *first = strstr(files.result, "\"loss\""), *second = strstr(memory.result, "\"loss\"");
    assert_non_null(first);
    assert_non_null(second);
    assert_memory_equal(first, second, strcspn(first, ","));
    OK(command(&memory, NULL, c));
    assert_non_null(strstr(memory.result, "\"review\""));
}

TEST(a_session_on_memory_has_the_losses_of_the_command) {
    tri_session *session;
    heard h = {0};
    char output[128];
    OK(train_to(&h, NULL, "--data-path=memory:train+valid", "again", "--save-every=0"));
    snprintf(output, sizeof output, "--output-dir=%s/session", root);
    const char *const options[] = {config, "--data-path=memory:train+valid", models, output, "--epochs=2", "--seed=7"};
    OK(tri_session_open_tables(tables, 6, options, &session));
    for (int step = 0, more; step < 9; step++) {
        double loss;
        OK(tri_next_batch(session, &more));
        OK(tri_forward_backward(session, &loss));
        OK(tri_update(session));
        assert_true(fabs(loss - h.loss[step]) < 1e-8); /* which has 9 digits */
    }
    tri_result result;
    OK(tri_evaluate(session, &result));
    assert_int_equal(result.rows, 30);
    tri_session_close(session);
}

static void *train_thread(void *name) {
    heard *h = calloc(1, sizeof *h);
    tri_status status = train_to(h, NULL, "--data-path=memory:train+valid", name, "--threads=1");
    free(h);
    return (void *)(intptr_t)status;
}

TEST(several_threads_train_at_once) {
    static char *const names[] = {"one", "two", "three"};
    pthread_t thread[3];
    char first[128], other[128];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, train_thread, names[i]), 0);
    for (int i = 0; i < 3; i++) {
        void *status;
        pthread_join(thread[i], &status);
        assert_int_equal((intptr_t)status, TRI_OK);
    }
    digest_of("one", first);
    for (int i = 1; i < 3; i++) {
        digest_of(names[i], other);
        assert_string_equal(other, first);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, begin, end); }
