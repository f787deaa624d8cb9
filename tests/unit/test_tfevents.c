/* test_tfevents.c - TensorBoard's files, by the bytes and texts in them. */
#include "tests/lib/test.h"
#include "tests/lib/sink_events.h"

#include "base/file.h"

#include <dirent.h>

static char *labels[] = {"a \"fraud\"", "ok"};

static char *event_file(size_t *size) {
    DIR *dir = opendir(folder);
    char *text = NULL;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strncmp(entry->d_name, "events.out.tfevents.1700000000.", 31) == 0) text = text_of(entry->d_name, size);
    closedir(dir);
    assert_non_null(text);
    return text;
}

/* The version and train/loss = 0.5 of step 1 at 1700000000.0, checked with protoc and an independent CRC. */
static const uint8_t golden_version[] = {0x18, 0,    0,    0,    0,    0,    0,    0,    0xa3, 0x7f,
                                         0x4b, 0x22, 0x09, 0x00, 0x00, 0x00, 0x40, 0xfc, 0x54, 0xd9,
                                         0x41, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e, 0x2e, 0x45,
                                         0x76, 0x65, 0x6e, 0x74, 0x3a, 0x32, 0xec, 0xed, 0x8f, 0x9d};
static const uint8_t golden_loss[] = {0x20, 0,    0,    0,    0,    0,    0,    0,    0x29, 0xed, 0xa9, 0x50,
                                      0x09, 0x00, 0x00, 0x00, 0x40, 0xfc, 0x54, 0xd9, 0x41, 0x10, 0x01, 0x2a,
                                      0x13, 0x0a, 0x11, 0x0a, 0x0a, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x2f, 0x6c,
                                      0x6f, 0x73, 0x73, 0x15, 0x00, 0x00, 0x00, 0x3f, 0x2e, 0x9f, 0x9f, 0xde};

static int contains(const char *text, size_t size, const char *word) {
    return memmem(text, size, word, strlen(word)) != NULL;
}

TEST_IN(tfevents_bytes, setup, teardown) {
    tri_sink sink;
    tri_scores scores = {.loss = 0.25, .label = labels};
    size_t size = 0;
    assert_int_equal(tri__tfevents_open(folder, &sink), TRI_OK);
    send(&sink, (tri_event){.kind = TRI_EVENT_START, .time = 1700000000});
    send(&sink, train_event(1, 1700000000));
    send(&sink, (tri_event){.kind = TRI_EVENT_EPOCH, .time = 1700000001, .step = 300, .valid = &scores});
    assert_int_equal(tri__tfevents_close(&sink), TRI_OK);
    char *text = event_file(&size);
    assert_memory_equal(text, golden_version, sizeof golden_version);
    assert_memory_equal(text + sizeof golden_version, golden_loss, sizeof golden_loss);
    static const char *const tags[] = {"train/learning_rate",
                                       "train/grad_norm",
                                       "train/samples_per_second",
                                       "train/epoch",
                                       "eval/loss",
                                       "eval/accuracy",
                                       "eval/f1",
                                       "eval/pr_auc",
                                       "eval/roc_auc",
                                       "eval/average_precision"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) assert_true(contains(text, size, tags[i]));
    assert_true(contains(text, size, "\x10\xac\x02\x2a")); /* step 300 */
    size_t at = 0, records = 0;
    for (uint64_t length; at < size; at += 16 + length, records++) memcpy(&length, text + at, sizeof length);
    assert_int_equal(at, size);
    assert_int_equal(records, 13);
    /* the tag, a float, then metadata {description} of the areas, and of nothing else */
    static const char said[] = "eval/roc_auc\x15\0\0\0\0\x4a\x14\x1a\x12of label a \"fraud\"";
    assert_non_null(memmem(text, size, said, sizeof said - 1));
    assert_null(memmem(text, size, "eval/f1\x15\0\0\0\0\x4a", 13));
    free(text);
}

/* The data of the nth record, and its size. */
static const char *record_of(const char *text, size_t size, int nth, uint64_t *length) {
    size_t at = 0;
    for (;; at += 16 + *length, nth--) {
        assert_true(at < size);
        memcpy(length, text + at, sizeof *length);
        if (!nth) return text + at + 12;
    }
}

/* Shares, memory, figures of each class, the positive class's curve, the configuration as a table, hyperparameters.
 * What TensorBoard itself makes of them is compared by tools/parity_logs.py. */
TEST_IN(tfevents_views, setup, teardown) {
    tri_sink sink;
    static char *two[] = {"no", "a | very long label that is cut, with \xff"};
    const float probs[] = {0.9f, 0.1f, 0.5f, 0.5f, 0.25f, 0.75f, 0.0f, 1.0f}; /* [4, 2] */
    const int32_t rows[] = {0, 1, 0, 1};
    tri_label_set classes = {.n = 2, .label = two, .positive = 1};
    tri_scores scores;
    tri_json *facts = tri__json_pack("{s:s, s:{s:f, s:s, s:[i], s:b, s:n}}", "version", "1|2", "config", "lr", 1e-5,
                                     "name", "a|b\n<c>", "list", 1, "flag", 1, "unset");
    size_t size = 0;
    uint64_t length = 0;
    assert_int_equal(tri__scores(probs, rows, 4, &classes, &scores), TRI_OK);
    assert_int_equal(scores.above[(1 * TRI_THRESHOLDS + 100) * 2], 2);     /* 0.5 and above: both of the class ... */
    assert_int_equal(scores.above[(1 * TRI_THRESHOLDS + 100) * 2 + 1], 1); /* ... and 0.75, which is not of it */
    assert_int_equal(scores.above[(1 * TRI_THRESHOLDS + 101) * 2], 1);
    assert_int_equal(scores.above[(1 * TRI_THRESHOLDS + 200) * 2], 1);
    assert_int_equal(scores.above[(1 * TRI_THRESHOLDS + 200) * 2 + 1], 0);
    assert_int_equal(scores.above[1], 2); /* threshold 0: all rows */
    assert_int_equal(tri__tfevents_open(folder, &sink), TRI_OK);
    send(&sink, (tri_event){.kind = TRI_EVENT_START, .time = 1700000000, .facts = facts});
    send(&sink, train_event(1, 1700000000));
    send(&sink, (tri_event){.kind = TRI_EVENT_EPOCH, .time = 1700000001, .step = 9, .valid = &scores});
    send(&sink, (tri_event){.kind = TRI_EVENT_END, .time = 1700000002, .step = 9});
    assert_int_equal(tri__tfevents_close(&sink), TRI_OK);
    tri__json_decref(facts);
    tri__scores_free(&scores);
    char *text = event_file(&size);
    const char *config = record_of(text, size, 1, &length);
    assert_true(contains(config, length, "configuration/text_summary"));
    assert_true(contains(config, length, "| setting | value |\n|---|---|\n| version | 1\\|2 |\n| lr | 1e-5 |\n"
                                         "| name | a\\|b \\<c> |\n| list | [1] |\n| flag | true |\n"));
    assert_true(contains(config, length, "_hparams_/session_start_info"));
    const char *speed = record_of(text, size, 7, &length);
    static const char *const tags[] = {"speed/step_ms",      "speed/tokens_per_second", "speed/gflops",
                                       "speed/loader_share", "speed/comm_share",        "speed/idle_share",
                                       "memory/planned_bytes"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) assert_true(contains(speed, length, tags[i]));
    assert_false(contains(speed, length, "device_bytes"));
    const char *each = record_of(text, size, 14, &length);
    assert_true(contains(each, length, "eval_precision/no"));
    assert_true(contains(each, length, "eval_f1/a | very long label that is..."));
    assert_true(contains(each, length, "eval/a | very long label that is.../pr_curves"));
    assert_false(contains(each, length, "eval/no/pr_curves"));
    assert_true(contains(record_of(text, size, 15, &length), length, "_hparams_/session_end_info"));
    free(text);
}

TEST_IN(tfevents_resume, setup, teardown) {
    tri_sink sink;
    size_t size = 0;
    assert_int_equal(tri__tfevents_open(folder, &sink), TRI_OK);
    send(&sink, (tri_event){.kind = TRI_EVENT_START, .time = 1700000000, .step = 4});
    assert_int_equal(tri__tfevents_close(&sink), TRI_OK);
    char *text = event_file(&size);
    assert_int_equal(size, sizeof golden_version + 16 + 15);
    assert_memory_equal(text + sizeof golden_version + 12 + 9, "\x10\x05\x3a\x02\x08\x01",
                        6); /* from step 5 on: SessionLog START */
    free(text);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
