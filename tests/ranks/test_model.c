/* test_model.c - a model as a value, from C: its probabilities equal `predict`'s to the bit, for every mix of rows and
 * any number of threads; damaged folders and wrong options are refused; a reload beside requests loses none. */
#include "tests/lib/test.h"
#include "tests/lib/model_rows.h"

#include "base/clock.h"
#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 64 };

/* Allocations that fail on demand; sanitizers replace malloc. */
static atomic_long fail_at, allocated; /* fail_at: the one that fails, from 1; 0: none */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
static int fails(void) {
    long at = atomic_load(&fail_at);
    return atomic_fetch_add(&allocated, 1) + 1 == at;
}
void *malloc(size_t n) { return fails() ? errno = ENOMEM, NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails() ? errno = ENOMEM, NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails() ? errno = ENOMEM, NULL : __libc_realloc(p, n); }
enum { CAN_FAIL = 1 };
#else
enum { CAN_FAIL = 0 };
#endif

static tri_model *open_model(void) {
    tri_model *model;
    OK(tri_model_open(2, OPTIONS(checkpoint, "--threads=1"), &model));
    return model;
}

static void expect_rows(const float *have, int first, int n) {
    for (int i = 0; i < n * CLASSES; i++)
        if (memcmp(&have[i], &want[first * CLASSES + i], sizeof *have))
            fail_msg("row %d: probability %.9g, predict gives %.9g", first + i / CLASSES, (double)have[i],
                     (double)want[first * CLASSES + i]);
}

TEST(probabilities_equal_those_of_predict) {
    tri_model *model = open_model();
    float have[ROWS * CLASSES];
    for (int n = 1; n <= ROWS; n = n * 3 + 1) /* rows at a time: 1, 4, 13, 40 */
        for (int r = 0; r < ROWS; r += n) {
            int here = ROWS - r < n ? ROWS - r : n;
            OK(tri_model_predict(model, rows + r, here, have));
            expect_rows(have, r, here);
        }
    OK(tri_model_predict(model, rows, ROWS, have));
    expect_rows(have, 0, ROWS);
    for (int r = 0; r < ROWS; r++) { /* no threshold: the most probable */
        const float *row = have + r * CLASSES;
        for (int c = 0; c < CLASSES; c++) assert_true(row[tri_model_decide(model, row)] >= row[c]);
    }
    OK(tri_model_predict(model, rows, 0, have));
    tri_model_close(model);
}

/* In every precision of the CPU: a row's bits do not depend on the rows that it is computed with. */
TEST(every_precision_equals_predict) {
    static const char *const options[] = {"--precision=bf16", "--precision=fp16", "--precision=int8"};
    static const char *const names[] = {"bf16", "fp16", "int8"};
    float have[ROWS * CLASSES], here[ROWS * CLASSES];
    for (int k = 0; k < 3; k++) {
        tri_model *model;
        predict(2, OPTIONS("--batch-size=5", options[k]), here);
        assert_memory_not_equal(here, want, sizeof here);
        OK(tri_model_open(3, OPTIONS(checkpoint, "--threads=1", options[k]), &model));
        assert_string_equal(tri__model_facts(model)->precision, names[k]);
        for (int n = 1; n <= ROWS; n = n * 7 + 3) /* 1, 10, 73 */
            for (int r = 0; r < ROWS; r += n) {
                int rest = ROWS - r < n ? ROWS - r : n;
                OK(tri_model_predict(model, rows + r, rest, have));
                assert_memory_equal(have, here + r * CLASSES, (size_t)(rest * CLASSES) * sizeof *have);
            }
        tri_model_close(model);
    }
}

typedef struct client {
    tri_model *model;
    int place, each, good;
    double longest;
} client;

static void *run_client(void *context) {
    client *c = context;
    for (int i = 0; i < c->each; i++) {
        float have[4 * CLASSES];
        int n = 1 + (c->place + i) % 4, r = (c->place * 7 + i * 11) % (ROWS - n);
        double begin = tri__clock();
        c->good += tri_model_predict(c->model, rows + r, n, have) == TRI_OK &&
                   memcmp(have, want + r * CLASSES, (size_t)(n * CLASSES) * sizeof *have) == 0;
        double took = tri__clock() - begin;
        c->longest = took > c->longest ? took : c->longest;
    }
    return NULL;
}

static double run_clients(tri_model *model, int n, int each) {
    pthread_t thread[THREADS];
    client clients[THREADS];
    double longest = 0;
    for (int i = 0; i < n; i++) {
        clients[i] = (client){.model = model, .place = i, .each = each};
        assert_int_equal(pthread_create(&thread[i], NULL, run_client, &clients[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(clients[i].good, each);
        longest = clients[i].longest > longest ? clients[i].longest : longest;
    }
    return longest;
}

TEST(threads_share_batches) {
    tri_model *model = open_model();
    print_message("    longest answer %.2f ms\n", 1e3 * run_clients(model, THREADS, 25));
    tri_model_close(model);
}

/* Small batches and a small queue: calls of many rows are divided, and wait for room. */
TEST(a_small_queue_is_waited_for) {
    tri_settings asked;
    tri_model *model;
    int words;
    float have[ROWS * CLASSES];
    OK(tri__settings_init(&asked));
    OK(tri__settings_parse(&asked, "predict", 2, OPTIONS(checkpoint, "--threads=1"), NULL, 0, &words));
    tri_batching small = {.max_batch_tokens = 24, .max_batch_rows = 3, .queue_rows = 5, .max_wait = 1e-4};
    OK(tri__model_open(&asked, &small, NULL, &model));
    OK(tri_model_predict(model, rows, ROWS, have));
    expect_rows(have, 0, ROWS);
    run_clients(model, 16, 10);
    tri_encoded *six;
    OK(tri__model_encode(model, rows, 6, TRI_OVERLONG_TRUNCATE, &six));
    assert_int_equal(tri__model_submit(model, six, NULL, NULL), TRI_USAGE);
    tri__encoded_free(six);
    tri_model_close(model);
    small.max_batch_tokens = 23; /* a row has up to 2 * 12 */
    assert_int_equal(tri__model_open(&asked, &small, NULL, &model), TRI_USAGE);
    assert_null(model);
    assert_non_null(strstr(tri_error(), "one row of this model may have 24"));
    tri__settings_free(&asked);
}

TEST(facts_and_names) {
    static const char *const columns[] = {"review", "title", "age", "score"};
    tri_model *model = open_model();
    const tri_model_facts *f = tri__model_facts(model);
    for (int i = 0; i < 4; i++) assert_string_equal(tri_model_column(model, i), columns[i]);
    assert_null(tri_model_column(model, 4));
    assert_null(tri_model_column(model, -1));
    assert_int_equal(tri_model_classes(model), 2);
    assert_string_equal(tri_model_label(model, 0), "0");
    assert_string_equal(tri_model_label(model, 1), "1");
    assert_null(tri_model_label(model, 2));
    assert_int_equal(f->n_texts, 2);
    assert_int_equal(f->n_columns, 2);
    assert_int_equal(f->text[1].n, 1);
    assert_string_equal(f->text[1].at[0], "title");
    assert_string_equal(f->column[0]->name, "age");
    assert_null(f->column[0]->category);
    assert_int_equal(f->max_len, 12);
    assert_int_equal(f->step, 18);
    assert_string_equal(f->precision, "fp32");
    assert_string_equal(f->device, "cpu");
    assert_true(f->positive == 0 || f->positive == 1);
    assert_true(f->parameters > 5000 && f->bytes > 4 * f->parameters);
    tri_model_close(model);
}

TEST(bad_rows_and_options) {
    float have[2 * CLASSES];
    tri_model *model = open_model(), *none;
    tri_column_value bad[] = {{"age", "old", 3, 0}}, unknown[] = {{"titel", "x", 1, 0}};
    tri_row two[] = {rows[0], {bad, 1}}, other = {unknown, 1};
    assert_int_equal(tri_model_predict(model, two, 2, have), TRI_DATA);
    assert_string_equal(tri_error(), "row 2, column \"age\": \"old\" is not a decimal number");
    assert_int_equal(tri_model_predict(model, &other, 1, have), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "did you mean \"title\"?"));
    tri_row *many = malloc(1000 * sizeof *many);
    float *all = malloc(1000 * CLASSES * sizeof *all);
    for (int i = 0; i < 1000; i++) many[i] = rows[i % ROWS];
    many[900] = two[1]; /* in a later part of the rows */
    assert_int_equal(tri_model_predict(model, many, 1000, all), TRI_DATA);
    assert_non_null(strstr(tri_error(), "row 901, column \"age\""));
    free(all);
    free(many);
    tri_model_close(model);
    assert_int_equal(tri_model_open(0, NULL, &none), TRI_USAGE);
    assert_null(none);
    assert_int_equal(tri_model_open(1, OPTIONS("--checkpoint=/nowhere"), &none), TRI_NOINPUT);
    assert_int_equal(tri_model_open(1, OPTIONS("--lr=3"), &none), TRI_USAGE);
    tri_model_close(NULL);
}

/* Makes a copy of the checkpoint, in root/bad. */
static void copy_checkpoint(void) {
    char command[512];
    snprintf(command, sizeof command, "rm -rf %s/bad && cp -r %s/run/checkpoint-18 %s/bad", root, root, root);
    assert_int_equal(system(command), 0);
}

static void expect_refused(const char *words) {
    tri_model *model;
    char option[300];
    snprintf(option, sizeof option, "--checkpoint=%s/bad", root);
    assert_int_equal(tri_model_open(1, OPTIONS(option), &model), TRI_DATA);
    assert_null(model);
    if (!strstr(tri_error(), words)) fail_msg("\"%s\" does not say \"%s\"", tri_error(), words);
}

static void damage(const char *name, const char *text, int64_t at, char byte, const char *words) {
    char path[300];
    copy_checkpoint();
    snprintf(path, sizeof path, "%s/bad/%s", root, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    if (text) fputs(text, file);
    else fputc(byte, file);
    fclose(file);
    expect_refused(words);
}

TEST(damaged_folders_are_refused) {
    damage("weights-00000.safetensors", NULL, 30000, 0x7f, "is damaged in tensor '");
    damage("weights-00000.safetensors", NULL, 20, 0x7f, "weights-00000.safetensors");
    damage("preprocessing.json", "[]", 0, 0, "preprocessing.json is damaged");
    damage("config.json", "}{", 0, 0, "config.json is damaged");
    damage("manifest.json", "{\"version\": 99, \"x\": ", 0, 0, "manifest.json is damaged");
}

/* An intact folder that a later version wrote. */
TEST(other_versions_are_refused) {
    char path[300], file[320];
    tri_json *manifest;
    copy_checkpoint();
    snprintf(path, sizeof path, "%s/bad", root);
    snprintf(file, sizeof file, "%s/manifest.json", path);
    OK(tri__manifest_load(path, &manifest));
    assert_int_equal(tri__json_set_new(manifest, "version", tri__json_integer(99)), 0);
    char *text = tri__manifest_text(manifest);
    OK(tri__file_write(file, text, strlen(text)));
    free(text);
    tri__json_decref(manifest);
    expect_refused("has version 99; this build reads version");
}

/* The optimizer's state is not what a model is made of: nothing reads it. */
TEST(optimizer_state_is_not_read) {
    char command[256], option[300];
    tri_model *model;
    float have[CLASSES];
    copy_checkpoint();
    snprintf(command, sizeof command, "printf xyz | dd of=%s/bad/optimizer-00000.safetensors bs=1 seek=40000 "
             "conv=notrunc 2>/dev/null", root);
    assert_int_equal(system(command), 0);
    snprintf(option, sizeof option, "--checkpoint=%s/bad", root);
    OK(tri_model_open(2, OPTIONS(option, "--threads=1"), &model));
    OK(tri_model_predict(model, rows, 1, have));
    expect_rows(have, 0, 1);
    tri_model_close(model);
}

/* Of the allocations of opening and predicting, about 200 fail, one in each try: TRI_RESOURCE, or it did not matter. */
TEST(a_shortage_of_memory_is_an_error) {
    if (!CAN_FAIL) skip();
    float have[4 * CLASSES];
    long all = 0;
    int refused = 0, tries = 0;
    for (long at = 0; at <= all; at = at < 20 ? at + 1 : at + all / 180 + 1, tries++) {
        tri_model *model;
        atomic_store(&allocated, 0), atomic_store(&fail_at, at); /* 0: counts them */
        tri_status status = tri_model_open(2, OPTIONS(checkpoint, "--threads=1"), &model);
        if (status == TRI_OK) status = tri_model_predict(model, rows, 4, have);
        atomic_store(&fail_at, 0);
        if (!at) all = atomic_load(&allocated);
        if (status == TRI_OK) expect_rows(have, 0, 4);
        else if (status != TRI_RESOURCE || !at) fail_msg("allocation %ld: status %d: %s", at, status, tri_error());
        refused += status != TRI_OK;
        tri_model_close(model);
    }
    print_message("    %ld allocations; of %d that failed, %d were refused\n", all, tries - 1, refused);
    assert_true(refused > tries / 2);
}

typedef struct reloading {
    atomic_int done;
    int opened;
} reloading;

static void *reload(void *context) {
    reloading *r = context;
    for (int i = 0; i < 5; i++) {
        tri_settings asked;
        tri_model *model = NULL;
        int words;
        float have[CLASSES];
        if (tri__settings_init(&asked) != TRI_OK) break;
        tri_status status =
            tri__settings_parse(&asked, "predict", 2, OPTIONS(checkpoint, "--threads=1"), NULL, 0, &words);
        if (status == TRI_OK) status = tri__model_open(&asked, &(tri_batching){.polite = 1}, NULL, &model);
        tri__settings_free(&asked);
        if (status != TRI_OK || tri_model_predict(model, rows, 1, have) != TRI_OK) break;
        r->opened += memcmp(have, want, sizeof have) == 0;
        tri_model_close(model);
    }
    atomic_store(&r->done, 1);
    return NULL;
}

TEST(models_are_opened_beside_requests) {
    tri_model *model = open_model();
    reloading r = {0};
    pthread_t thread;
    double longest = 0;
    assert_int_equal(pthread_create(&thread, NULL, reload, &r), 0);
    while (!atomic_load(&r.done)) {
        double here = run_clients(model, 4, 10);
        longest = here > longest ? here : longest;
    }
    pthread_join(thread, NULL);
    assert_int_equal(r.opened, 5);
    print_message("    longest answer while models were opened: %.2f ms\n", 1e3 * longest);
    tri_model_close(model);
}

int main(int argc, char **argv) { return run_listed(argc, argv, train, clean); }
