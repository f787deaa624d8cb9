/* test_log_to.c - --log-to: MLflow's and W&B's files, by an independent reading of their formats; a resumed run's files
 * are those of an uninterrupted one. What the tools themselves make of them is checked by tools/parity_logs.py. */
#include "report/sinks/log_to.h"
#include "report/sinks/sinks.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[TRI_PATH_MAX];

static int setup(void **state) {
    (void)state;
    strcpy(folder, "/tmp/trident-test-??????");
    memset(folder + strlen(folder) - 6, 'X', 6);
    return tri__folder_temporary(folder) == TRI_OK ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    return tri__folder_remove_all(folder) == TRI_OK ? 0 : -1;
}

static const double begun = 1700000000.25;

static void send(const tri_sink *sink, tri_event event) { assert_int_equal(sink->emit(sink->context, &event), TRI_OK); }

static void send_steps(const tri_sink *sink, int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; step++)
        send(sink, (tri_event){.kind = TRI_EVENT_TRAIN, .time = begun + (double)step, .step = step, .steps = 500,
                               .loss = 1.0 / (double)step, .learning_rate = 1e-3, .step_seconds = 0.5, .samples = 8});
}

/* Trains from a step on in the folder, with metrics.jsonl and both tools; `run`: how it ends. */
static void train(int64_t from, int64_t to, tri_status run) {
    char mlflow[TRI_PATH_MAX + 32], wandb[TRI_PATH_MAX + 32], run_folder[TRI_PATH_MAX], *asked[] = {mlflow, wandb};
    snprintf(mlflow, sizeof mlflow, "mlflow:%s/mlruns", folder);
    snprintf(wandb, sizeof wandb, "wandb:%s/wandb", folder);
    assert_int_equal(tri__path_join(run_folder, folder, "a \"run\""), TRI_OK);
    assert_int_equal(tri__folder_make(run_folder), TRI_OK);
    tri_scores scores = {.loss = 0.25, .accuracy = 0.5, .positive = -1};
    tri_json *facts = tri__json_pack("{s:s, s:{s:f, s:s, s:n, s:[s]}}", "version", "1", "config", "lr", 1e-3, "name",
                                     "two\nlines \xff", "unset", "list", "a");
    tri_sink sinks[2], tee;
    assert_int_equal(tri__metrics_open(run_folder, 0, &sinks[0]), TRI_OK);
    assert_int_equal(tri__log_to_open(run_folder, asked, 2, &sinks[1]), TRI_OK);
    assert_int_equal(tri__tee_open(sinks, 2, &tee), TRI_OK);
    send(&tee, (tri_event){.kind = TRI_EVENT_START, .time = begun + (double)from, .step = from, .facts = facts});
    send_steps(&tee, from + 1, to);
    if (run == TRI_OK) {
        send(&tee, (tri_event){.kind = TRI_EVENT_EPOCH, .time = begun + (double)to, .step = to, .valid = &scores,
                               .train_loss = 0.125});
        send(&tee, (tri_event){.kind = TRI_EVENT_END, .time = begun + (double)to, .step = to});
    }
    tri__tee_close(&tee);
    assert_int_equal(tri__log_to_close(&sinks[1], run), TRI_OK);
    assert_int_equal(tri__metrics_close(&sinks[0]), TRI_OK);
    tri__json_decref(facts);
}

/* The only entry of a folder that begins so. */
static void only_in(char path[static TRI_PATH_MAX], const char *start) {
    tri_names names;
    char in[TRI_PATH_MAX];
    int found = 0;
    strcpy(in, path);
    assert_int_equal(tri__folder_list(in, &names), TRI_OK);
    for (int i = 0; i < names.n; i++)
        if (strncmp(names.name[i], start, strlen(start)) == 0 && strcmp(names.name[i], "meta.yaml")) {
            assert_int_equal(tri__path_join(path, in, names.name[i]), TRI_OK);
            found++;
        }
    tri__names_free(&names);
    assert_int_equal(found, 1);
}

static char *text_of(const char *in, const char *name, size_t *size) {
    char path[TRI_PATH_MAX], *text;
    assert_int_equal(tri__path_join(path, in, name), TRI_OK);
    assert_int_equal(tri__file_read(path, 1 << 24, &text, size), TRI_OK);
    return text;
}

static void assert_text(const char *in, const char *name, const char *expected) {
    size_t size;
    char *text = text_of(in, name, &size);
    assert_string_equal(text, expected);
    free(text);
}

static void mlflow_run(char path[static TRI_PATH_MAX]) {
    assert_int_equal(tri__path_join(path, folder, "mlruns"), TRI_OK);
    only_in(path, "7");
    only_in(path, "");
}

/* Lines of train/loss are those of steps 1 to `steps`. */
static void assert_losses(const char *run, int steps) {
    size_t size;
    char *text = text_of(run, "metrics/train/loss", &size), *at = text;
    for (int step = 1; step <= steps; step++) {
        char line[100];
        int n = snprintf(line, sizeof line, "%lld %.9g %d\n", 1700000000250ll + 1000ll * step, 1.0 / step, step);
        assert_memory_equal(at, line, (size_t)n);
        at += n;
    }
    assert_int_equal(*at, 0);
    free(text);
}

static void mlflow_files(void **state) {
    (void)state;
    char run[TRI_PATH_MAX];
    size_t size;
    train(0, 20, TRI_OK);
    mlflow_run(run);
    assert_losses(run, 20);
    assert_text(run, "metrics/eval/train_loss", "1700000020250 0.125 20\n");
    assert_text(run, "params/lr", "0.001");
    assert_text(run, "params/name", "two lines \xEF\xBF\xBD");
    assert_text(run, "params/list", "[\"a\"]");
    assert_text(run, "tags/mlflow.runName", "a \"run\"");
    char *meta = text_of(run, "meta.yaml", &size);
    assert_non_null(strstr(meta, "\nrun_name: \"a \\\"run\\\"\"\n"));
    assert_non_null(strstr(meta, "\nstatus: 3\n"));
    assert_non_null(strstr(meta, "\nstart_time: 1700000000250\n"));
    assert_non_null(strstr(meta, "\nend_time: 1700000020250\n"));
    free(meta);
}

/* A run that failed at step 30 after a checkpoint at 12 goes on under the same id, and repeats no step. */
static void mlflow_resumed(void **state) {
    (void)state;
    char run[TRI_PATH_MAX], again[TRI_PATH_MAX];
    size_t size;
    train(0, 30, TRI_IO);
    mlflow_run(run);
    assert_losses(run, 30);
    char *meta = text_of(run, "meta.yaml", &size);
    assert_non_null(strstr(meta, "\nstatus: 4\n"));
    free(meta);
    train(12, 40, TRI_STOPPED);
    mlflow_run(again);
    assert_string_equal(again, run);
    assert_losses(run, 40);
    meta = text_of(run, "meta.yaml", &size);
    assert_non_null(strstr(meta, "\nstatus: 5\n"));
    assert_non_null(strstr(meta, "\nstart_time: 1700000000250\n"));
    free(meta);
}

/* ---- W&B ---- */

static uint32_t slow_crc(const uint8_t *data, size_t size) { /* by polynomial division, most significant bit first */
    uint32_t crc = 0xFFFFFFFFu, out = 0;
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t top = crc >> 31 ^ (data[i] >> bit & 1u);
            crc = crc << 1 ^ (top ? 0x04C11DB7u : 0);
        }
    for (int bit = 0; bit < 32; bit++) out |= (crc >> bit & 1u) << (31 - bit);
    return ~out;
}

typedef struct wandb_file {
    int records, of[32], pieces[5]; /* records by their field; pieces by type */
    int64_t last_step;
    size_t items;                   /* of the last history record */
} wandb_file;

static uint64_t varint(const uint8_t **at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
}

static void look_at_record(wandb_file *f, const uint8_t *data, size_t size) {
    const uint8_t *at = data, *end = data + size;
    f->records++;
    assert_int_equal(varint(&at), 1 << 3); /* num */
    assert_int_equal(varint(&at), f->records);
    uint64_t field = varint(&at) >> 3, length = varint(&at);
    assert_ptr_equal(at + length, end);
    assert_true(field < 32);
    f->of[field]++;
    if (field != 2) return;
    f->items = 0;
    while (at < end) { /* items, then the step */
        uint64_t tag = varint(&at), bytes = varint(&at);
        const uint8_t *inner = at;
        if (tag >> 3 == 1) f->items++;
        else {
            assert_int_equal(varint(&inner), 1 << 3);
            int64_t step = (int64_t)varint(&inner);
            assert_true(step > f->last_step);
            f->last_step = step;
        }
        at += bytes;
    }
}

static void read_wandb(wandb_file *f) {
    char path[TRI_PATH_MAX];
    uint8_t record[1 << 16];
    size_t size, n = 0;
    *f = (wandb_file){.last_step = 0};
    assert_int_equal(tri__path_join(path, folder, "wandb"), TRI_OK);
    only_in(path, "offline-run-20231114_221320-");
    only_in(path, "run-");
    char *text;
    assert_int_equal(tri__file_read(path, 1 << 24, &text, &size), TRI_OK);
    assert_memory_equal(text, ":W&B\xE1\xBE\0", 7);
    for (size_t at = 7; at < size;) {
        if (32768 - at % 32768 < 7) {
            at += 32768 - at % 32768;
            continue;
        }
        const uint8_t *head = (const uint8_t *)text + at;
        uint32_t crc = head[0] | head[1] << 8 | head[2] << 16 | (uint32_t)head[3] << 24;
        size_t length = head[4] | (size_t)head[5] << 8;
        int type = head[6];
        assert_true(at % 32768 + 7 + length <= 32768);
        assert_true(type >= 1 && type <= 4 && (type == 1 || type == 2) == (n == 0));
        assert_int_equal(crc, slow_crc(head + 6, length + 1));
        memcpy(record + n, head + 7, length);
        n += length, at += 7 + length, f->pieces[type]++;
        if (type == 1 || type == 4) look_at_record(f, record, n), n = 0;
    }
    assert_int_equal(n, 0);
    free(text);
}

enum { HISTORY = 2, SUMMARY = 3, RUN = 17, EXIT = 18, HEADER = 21 };

static void wandb_files(void **state) {
    (void)state;
    wandb_file f;
    assert_int_equal(slow_crc((const uint8_t *)"123456789", 9), 0xCBF43926u);
    train(0, 300, TRI_OK);
    read_wandb(&f);
    assert_int_equal(f.of[HEADER], 1);
    assert_int_equal(f.of[RUN], 1);
    assert_int_equal(f.of[HISTORY], 300); /* the epoch's figures join those of its last step */
    assert_int_equal(f.last_step, 300);
    assert_true(f.items > 20);
    assert_true(f.of[SUMMARY] >= 1);
    assert_int_equal(f.of[EXIT], 1);
    assert_true(f.pieces[2] >= 2 && f.pieces[2] == f.pieces[4]); /* records that span blocks */
}

static void wandb_resumed(void **state) {
    (void)state;
    wandb_file f;
    train(0, 50, TRI_IO);
    read_wandb(&f);
    assert_int_equal(f.of[HISTORY], 50);
    train(20, 60, TRI_OK);
    read_wandb(&f);
    assert_int_equal(f.of[HISTORY], 60);
    assert_int_equal(f.last_step, 60);
    assert_int_equal(f.of[EXIT], 1);
}

static void refused(void **state) {
    (void)state;
    static char *const bad[] = {"mlflow", "mlflow:", "mlfow:x", "tensorboard:x", ":x", "wandb"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tri__log_to_check(&bad[i], 1), TRI_USAGE);
        assert_non_null(strstr(tri_error(), "mlflow:FOLDER or wandb:FOLDER"));
    }
    (void)tri__log_to_check(&bad[2], 1);
    assert_non_null(strstr(tri_error(), "as in mlflow:runs"));
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(mlflow_files), TEST(mlflow_resumed), TEST(wandb_files), TEST(wandb_resumed), TEST(refused),
    };
    return cmocka_run_group_tests_name("log_to", tests, NULL, NULL);
}
