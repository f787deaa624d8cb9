/* test_report.c - the sinks, by the exact text and bytes they write. */
#include "tests/lib/test.h"
#include "tests/lib/sink_events.h"

#include "base/file.h"
#include "report/text/text_table.h"

#include <fcntl.h>
#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void assert_file(const char *name, const char *expected) {
    char *text = text_of(name, NULL);
    assert_string_equal(text, expected);
    free(text);
}

static void write_text(const char *name, const char *text) {
    char path[TRI_PATH_MAX];
    assert_int_equal(tri__path_join(path, folder, name), TRI_OK);
    assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
}

#define TRAIN_LINE(step, epoch) \
    "{\"ts\":1700000000.125,\"event\":\"train\",\"step\":" step ",\"epoch\":" epoch \
    ",\"loss\":0.5,\"learning_rate\":4.6e-05,\"grad_norm\":1.25," \
    "\"samples_per_second\":32,\"tokens_per_second\":24100,\"step_ms\":250,\"loader_share\":0.1,\"comm_share\":0," \
    "\"idle_share\":0,\"mem_" \
    "bytes\":41287680,\"gflops\":138}\n"

static char *labels[] = {"a \"fraud\"", "ok"};

TEST_IN(metrics_lines, setup, teardown) {
    tri_sink sink;
    tri_scores scores = {.loss = 0.25, .accuracy = 0.9375, .f1_macro = 0.9, .pr_auc = NAN, .average_precision = 0.5,
                         .roc_auc = 1.0 / 3.0, .reliability = {.ece = 0.0625, .brier = 0.5}, .label = labels};
    tri_json *decision = tri__json_pack("{s:f, s:f}", "temperature", 1.5, "threshold", 0.25);
    tri_json *facts = tri__json_pack("{s:s, s:i, s:{s:f}}", "version", "0.1.0", "step", 9, "config", "lr", 1e-5);
    double time = 1700000000.125;
    assert_int_equal(tri__metrics_open(folder, 0, &sink), TRI_OK);
    send(&sink,
         (tri_event){.kind = TRI_EVENT_MESSAGE, .time = time, .level = TRI_LOG_WARN, .text = "a \"b\"\n\xff\xc3\xa9"});
    send(&sink, (tri_event){.kind = TRI_EVENT_MESSAGE, .time = time, .level = TRI_LOG_INFO, .text = "not written"});
    send(&sink, (tri_event){.kind = TRI_EVENT_START, .time = time, .facts = facts});
    send(&sink, train_event(1, time));
    send(&sink, (tri_event){.kind = TRI_EVENT_SAVE, .time = time, .step = 1});
    char *text = text_of("metrics.jsonl", NULL); /* flushed before a checkpoint can hold the step */
    assert_non_null(strstr(text, "\"train\""));
    free(text);
    send(&sink, (tri_event){.kind = TRI_EVENT_EPOCH,
                            .time = time,
                            .step = 100,
                            .epoch = 1,
                            .train_loss = 0.3,
                            .valid = &scores,
                            .decision = decision,
                            .seconds = 12.25,
                            .best = 1});
    send(&sink, (tri_event){.kind = TRI_EVENT_CHECKPOINT, .time = time, .step = 100, .text = "run/checkpoint-100"});
    text = text_of("metrics.jsonl", NULL); /* flushed at the commit, before closing */
    assert_non_null(strstr(text, "checkpoint-100"));
    free(text);
    tri_json *summary = tri__json_pack("{s:f, s:i}", "seconds", 30.5, "steps", 100);
    send(&sink, (tri_event){.kind = TRI_EVENT_END, .time = time, .step = 100, .seconds = 30.5, .facts = summary});
    assert_int_equal(tri__metrics_close(&sink), TRI_OK);
    tri__json_decref(summary);
    tri__json_decref(facts);
    tri__json_decref(decision);
    assert_file(
        "metrics.jsonl",
        "{\"ts\":1700000000.125,\"event\":\"warn\",\"step\":0,\"message\":\"a \\\"b\\\"\\u000a\\ufffd\xc3\xa9\"}\n"
        "{\"ts\":1700000000.125,\"event\":\"start\",\"step\":0,\"version\":\"0.1.0\",\"config\":{\"lr\":1e-5}}"
        "\n" TRAIN_LINE(
            "1",
            "0.01") "{\"ts\":1700000000.125,\"event\":\"epoch\",\"step\":100,\"epoch\":1,\"train_loss\":0.3,\"valid_"
                    "loss\":0.25,"
                    "\"accuracy\":0.9375,\"f1_macro\":0.9,\"pr_auc\":null,\"average_precision\":0.5,"
                    "\"roc_auc\":0.333333333,\"positive_label\":\"a \\\"fraud\\\"\",\"ece\":0.0625,\"brier\":0.5,"
                    "\"temperature\":1.5,\"threshold\":0.25,\"seconds\":12.25,\"best\":true}\n"
                    "{\"ts\":1700000000.125,\"event\":\"checkpoint\",\"step\":100,\"path\":\"run/checkpoint-100\"}\n"
                    "{\"ts\":1700000000.125,\"event\":\"end\",\"step\":100,\"seconds\":30.5,\"steps\":100}\n");
}

/* Only where the loss is scaled. A norm that overflowed is no number. */
TEST_IN(metrics_of_a_skipped_step, setup, teardown) {
    tri_sink sink;
    tri_event event = train_event(1, 1700000000.125);
    event.grad_norm = INFINITY, event.loss_scale = 32768, event.skipped_steps = 1;
    assert_int_equal(tri__metrics_open(folder, 0, &sink), TRI_OK);
    send(&sink, (tri_event){.kind = TRI_EVENT_START});
    send(&sink, event);
    assert_int_equal(tri__metrics_close(&sink), TRI_OK);
    char *text = text_of("metrics.jsonl", NULL);
    assert_non_null(strstr(text, "\"grad_norm\":null,"));
    assert_non_null(strstr(text, ",\"loss_scale\":32768,\"skipped_steps\":1}\n"));
    free(text);
}

TEST_IN(metrics_resume, setup, teardown) {
    tri_sink sink;
    write_text("metrics.jsonl", TRAIN_LINE("1", "0.01") "not json\n" TRAIN_LINE("2", "0.02") TRAIN_LINE("3", "0.03")
                                    TRAIN_LINE("4", "0.04") "{\"ts\":17");
    assert_int_equal(tri__metrics_open(folder, 0, &sink), TRI_OK);
    send(&sink, (tri_event){.kind = TRI_EVENT_START, .time = 1700000000.125, .step = 2});
    send(&sink, train_event(3, 1700000000.125));
    assert_int_equal(tri__metrics_close(&sink), TRI_OK);
    assert_file("metrics.jsonl", TRAIN_LINE("1", "0.01") TRAIN_LINE("2", "0.02")
                "{\"ts\":1700000000.125,\"event\":\"start\",\"step\":2}\n" TRAIN_LINE("3", "0.03"));
    /* From the beginning: a new file. */
    assert_int_equal(tri__metrics_open(folder, 0, &sink), TRI_OK);
    send(&sink, (tri_event){.kind = TRI_EVENT_START, .time = 1700000000.125});
    assert_int_equal(tri__metrics_close(&sink), TRI_OK);
    assert_file("metrics.jsonl", "{\"ts\":1700000000.125,\"event\":\"start\",\"step\":0}\n");
    /* Opening alone leaves what is there. */
    assert_int_equal(tri__metrics_open(folder, 0, &sink), TRI_OK);
    assert_int_equal(tri__metrics_close(&sink), TRI_OK);
    assert_file("metrics.jsonl", "{\"ts\":1700000000.125,\"event\":\"start\",\"step\":0}\n");
    assert_int_equal(tri__metrics_close(&sink), TRI_OK); /* a zeroed sink */
}

TEST_IN(metrics_unwritable, setup, teardown) {
    tri_sink sink;
    tri_event event = {.kind = TRI_EVENT_START};
    assert_int_equal(tri__metrics_open("/nowhere/at/all", 0, &sink), TRI_OK);
    assert_int_equal(sink.emit(sink.context, &event), TRI_IO);
    assert_int_equal(tri__metrics_close(&sink), TRI_OK);
}

typedef struct screen {
    char *text;
    size_t size;
    FILE *file;
    tri_sink sink;
} screen;

static void open_screen(screen *s, int terminal, int width, int color, int quiet) {
    s->text = NULL;
    s->file = open_memstream(&s->text, &s->size);
    tri_progress_out out = {.file = s->file, .terminal = terminal, .width = width, .color = color, .quiet = quiet};
    assert_int_equal(tri__progress_open(&out, &s->sink), TRI_OK);
}

static void assert_screen(screen *s, const char *expected) {
    tri__progress_close(&s->sink);
    fclose(s->file);
    assert_string_equal(s->text, expected);
    free(s->text);
}

#define FULL "epoch 1/2  step 1/200  loss 0.5000  lr 4.6e-05  32.0 samples/s  24.1k tok/s  138 GFLOP/s  left 49.8 s"

TEST_IN(progress_terminal, setup, teardown) {
    screen s;
    open_screen(&s, 1, 120, 0, 0);
    send(&s.sink, train_event(1, 100));
    send(&s.sink, train_event(2, 100.05)); /* within a tenth of a second */
    send(&s.sink, (tri_event){.kind = TRI_EVENT_MESSAGE, .level = TRI_LOG_INFO, .text = "hello"});
    send(&s.sink, (tri_event){.kind = TRI_EVENT_MESSAGE, .level = TRI_LOG_WARN, .text = "careful"});
    send(&s.sink, train_event(101, 101));
    assert_screen(
        &s, "\r\033[K" FULL "  [--------------]"
            "\r\033[Khello\nwarning: careful\n"
            "\r\033[Kepoch 2/2  step 101/200  loss 0.5000  lr 4.6e-05  32.0 samples/s  24.1k tok/s  138 GFLOP/s  left "
            "24.8 s  [######------]"
            "\r\033[K");
}

TEST_IN(progress_narrow, setup, teardown) {
    static const struct {
        int width;
        const char *line;
    } rows[] = {
        {80, "epoch 1/2  step 1/200  loss 0.5000  lr 4.6e-05  32.0 samples/s  left 49.8 s"},
        {60, "epoch 1/2  step 1/200  loss 0.5000  left 49.8 s"},
        {30, "step 1/200  loss 0.5000"},
        {8, "step 1/"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        screen s;
        char expected[200];
        open_screen(&s, 1, rows[i].width, 0, 0);
        send(&s.sink, train_event(1, 100));
        snprintf(expected, sizeof expected, "\r\033[K%s\r\033[K", rows[i].line);
        assert_screen(&s, expected);
    }
}

/* A window that is resized while a run is watched: the next line fits it. */
TEST_IN(progress_resized, setup, teardown) {
    static const int widths[] = {100, 40, 71};
    tri_sink sink;
    char text[4096];
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) skip(); /* no terminals here */
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    FILE *file = fdopen(slave, "w");
    assert_non_null(file);
    tri_progress_out out = {.file = file, .terminal = 1, .width = 80};
    assert_int_equal(tri__progress_open(&out, &sink), TRI_OK);
    for (int i = 0; i < 3; i++) {
        struct winsize window = {.ws_row = 24, .ws_col = (unsigned short)widths[i]};
        assert_int_equal(ioctl(master, TIOCSWINSZ, &window), 0);
        send(&sink, train_event(2 + i, 1000 + i));
        ssize_t n = read(master, text, sizeof text - 1);
        assert_true(n > 4);
        text[n] = 0;
        int shown = (int)strlen(text) - 4; /* less what erases the line before it */
        if (shown >= widths[i] || shown < widths[i] - 25) fail_msg("%d columns of %d: %s", shown, widths[i], text);
    }
    tri__progress_close(&sink);
    fclose(file);
    close(master);
}

static tri_event rows_event(int64_t done, double time) {
    return (tri_event){.kind = TRI_EVENT_ROWS, .step = done, .steps = 2000, .time = time};
}

TEST_IN(progress_rows, setup, teardown) {
    screen s;
    open_screen(&s, 1, 60, 0, 0);
    send(&s.sink, rows_event(0, 100));
    send(&s.sink, rows_event(100, 100.05)); /* within a tenth of a second */
    send(&s.sink, rows_event(500, 102));
    send(&s.sink, rows_event(0, 110)); /* the next member of an ensemble */
    send(&s.sink, rows_event(1000, 111));
    assert_screen(&s, "\r\033[K500 of 2000 rows  250 rows/s  left 6.0 s  [###------------]"
                      "\r\033[K1000 of 2000 rows  1.0k rows/s  left 1.0 s  [######-------]"
                      "\r\033[K");
    open_screen(&s, 0, 40, 0, 0);
    send(&s.sink, rows_event(0, 100));
    send(&s.sink, rows_event(500, 120)); /* too early for a line of a log */
    send(&s.sink, rows_event(1000, 131));
    send(&s.sink, rows_event(2000, 150));
    assert_screen(&s, "1000 of 2000 rows  32.3 rows/s  left 31.0 s\n");
}

TEST_IN(progress_log, setup, teardown) {
    screen s;
    char *odd[] = {"a label that\ngoes on and on"};
    tri_scores scores = {.loss = 0.1533, .accuracy = 0.9417, .f1_macro = 0.9412, .pr_auc = 0.9951, .label = odd};
    open_screen(&s, 0, 40, 0, 0);
    send(&s.sink, (tri_event){.kind = TRI_EVENT_START, .time = 99});
    send(&s.sink, train_event(1, 100));
    send(&s.sink, train_event(2, 129));   /* too early */
    send(&s.sink, train_event(3, 130));
    send(&s.sink, train_event(4, 161));   /* 30 s, but not 1 % of the steps */
    send(&s.sink, train_event(5, 162));
    send(&s.sink, (tri_event){.kind = TRI_EVENT_EPOCH,
                              .epoch_index = 2,
                              .epochs = 10,
                              .train_loss = 0.2011,
                              .valid = &scores,
                              .seconds = 12.34,
                              .best = 1});
    send(&s.sink, (tri_event){.kind = TRI_EVENT_EPOCH, .epoch_index = 3, .train_loss = 0.2011, .seconds = 187});
    send(&s.sink, (tri_event){.kind = TRI_EVENT_CHECKPOINT, .text = "run/checkpoint-5"});
    send(&s.sink, (tri_event){.kind = TRI_EVENT_END, .step = 5, .steps = 200, .seconds = 187});
    send(&s.sink, (tri_event){.kind = TRI_EVENT_END, .step = 200, .steps = 200, .seconds = 187});
    assert_screen(
        &s,
        FULL "\n"
             "epoch 1/2  step 3/200  loss 0.5000  lr 4.6e-05  32.0 samples/s  24.1k tok/s  138 GFLOP/s  left 49.2 s\n"
             "epoch 1/2  step 5/200  loss 0.5000  lr 4.6e-05  32.0 samples/s  24.1k tok/s  138 GFLOP/s  left 48.8 s\n"
             "epoch 2/10  train loss 0.2011  valid loss 0.1533  accuracy 0.9417  f1 0.9412  "
             "pr_auc (a label that goes...) 0.9951  12.3 s  best\n"
             "epoch 3  train loss 0.2011  3m 07s\n"
             "saved run/checkpoint-5\n"
             "stopped early  step 5/200  3m 07s\n"
             "finished  step 200/200  3m 07s\n");
}

TEST_IN(progress_quiet_and_color, setup, teardown) {
    screen s;
    open_screen(&s, 1, 80, 1, 1);
    send(&s.sink, train_event(1, 100));
    send(&s.sink, (tri_event){.kind = TRI_EVENT_MESSAGE, .level = TRI_LOG_INFO, .text = "hello"});
    send(&s.sink, (tri_event){.kind = TRI_EVENT_MESSAGE, .level = TRI_LOG_WARN, .text = "careful"});
    send(&s.sink, (tri_event){.kind = TRI_EVENT_EPOCH, .epoch_index = 1, .best = 1});
    assert_screen(&s, "\033[33mwarning:\033[0m careful\n");
    open_screen(&s, 0, 80, 1, 0);
    send(&s.sink, (tri_event){.kind = TRI_EVENT_EPOCH, .epoch_index = 1, .best = 1});
    assert_screen(&s, "epoch 1  train loss 0.0000  0.0 s  \033[32mbest\033[0m\n");
    open_screen(&s, 0, 80, 0, 0);
    send(&s.sink, (tri_event){.kind = TRI_EVENT_EPOCH, .epoch_index = 1, .best = 1, .best_by = "pr_auc"});
    send(&s.sink, (tri_event){.kind = TRI_EVENT_EPOCH, .epoch_index = 2, .best_by = "pr_auc"});
    assert_screen(&s, "epoch 1  train loss 0.0000  0.0 s  best by pr_auc\nepoch 2  train loss 0.0000  0.0 s\n");
}

static const tri_span spans[] = {
    {.name = "linear",
     .unit = "primary.layer.0",
     .shape = "[8,64]",
     .begin = 0,
     .end = 0.003,
     .flops = 6e9,
     .bytes = 3e6,
     .step = 2,
     .mb = 0},
    {.name = "gelu",
     .unit = "primary.layer.0",
     .shape = "",
     .begin = 0.003,
     .end = 0.0035,
     .bytes = 1e6,
     .step = 2,
     .mb = 0},
    {.name = "linear", .unit = "", .shape = "", .begin = 0.0035, .end = 0.0045, .flops = 2e9, .step = 3, .mb = -1},
    {.name = "load \"x\"",
     .unit = "",
     .shape = "",
     .begin = 0,
     .end = 1,
     .step = 2,
     .mb = -1,
     .track = TRI_TRACK_LOADER},
};

static tri_event profile_event(void) {
    return (tri_event){.kind = TRI_EVENT_PROFILE, .spans = spans, .n_spans = 4, .rank = 3, .world = 4};
}

TEST_IN(trace_json, setup, teardown) {
    tri_sink sink;
    assert_int_equal(tri__trace_open(folder, &sink), TRI_OK);
    send(&sink, profile_event());
    tri__sink_close(&sink);
    char path[TRI_PATH_MAX];
    tri_json *trace;
    assert_int_equal(tri__path_join(path, folder, "trace-rank3.json"), TRI_OK);
    assert_int_equal(tri__json_load(path, TRI_DATA, &trace), TRI_OK);
    const tri_json *events = tri__json_get(trace, "traceEvents");
    assert_int_equal(tri__json_size(events), 8); /* process name and order, two tracks, four spans */
    assert_int_equal(tri__json_integer_value(tri__json_get(tri__json_get(trace, "distributedInfo"), "world_size")), 4);
    tri__json_decref(trace);
    char *text = text_of("trace-rank3.json", NULL);
    assert_non_null(strstr(
        text,
        "{\"ph\":\"X\",\"name\":\"gelu\",\"cat\":\"op\",\"pid\":3,\"tid\":0,\"ts\":3000.000,\"dur\":500.000,"
        "\"args\":{\"unit\":\"primary.layer.0\",\"shape\":\"\",\"flops\":0,\"bytes\":1000000,\"mb\":0,\"step\":2}}"));
    assert_non_null(
        strstr(text, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":3,\"tid\":4,\"args\":{\"name\":\"loader\"}}"));
    assert_non_null(strstr(text, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"args\":{\"name\":\"rank 3\"}}"));
    free(text);
}

/* A rank's profile, as train/record/profile.h describes it. */
static const char profile_facts[] =
    "{\"steps\": [4, 6], \"seconds\": 0.01,"
    " \"parts\": {\"compute\": 0.006, \"copies\": 0, \"transfers\": 0.001, \"waiting\": 0.002, \"loader\": 0.0005,"
    " \"other\": 0.0005},"
    " \"operations\": [{\"name\": \"linear\", \"calls\": 2, \"seconds\": 0.004, \"flops\": 8e9, \"bytes\": 3e6},"
    " {\"name\": \"gelu\", \"calls\": 1, \"seconds\": 0.002, \"flops\": 0, \"bytes\": 1e6}],"
    " \"transfers\": [{\"kind\": \"all_reduce\", \"count\": 2, \"bytes\": 4e6, \"seconds\": 0.005,"
    " \"exposed_seconds\": 0.003, \"waiting_seconds\": 0.002}],"
    " \"modules\": {\"name\": \"model\", \"parameters\": 30, \"flops\": 8e9, \"seconds\": 0.006, \"children\": ["
    " {\"name\": \"primary\", \"parameters\": 30, \"flops\": 8e9, \"seconds\": 0.006, \"children\": ["
    " {\"name\": \"layer.0\", \"parameters\": 10, \"flops\": 4e9, \"seconds\": 0.002, \"children\": ["
    " {\"name\": \"products\", \"parameters\": 10, \"flops\": 4e9, \"seconds\": 0.002}]},"
    " {\"name\": \"layer.1\", \"parameters\": 20, \"flops\": 4e9, \"seconds\": 0.004, \"children\": ["
    " {\"name\": \"elementwise\", \"parameters\": 0, \"flops\": 0, \"seconds\": 0.002},"
    " {\"name\": \"products\", \"parameters\": 20, \"flops\": 4e9, \"seconds\": 0.002}]}]}]}}";

static tri_json *facts_of(const char *text) {
    tri_json *facts;
    assert_int_equal(tri__json_parse(text, strlen(text), "facts", TRI_DATA, &facts), TRI_OK);
    return facts;
}

TEST_IN(profile_text, setup, teardown) {
    static const char expected[] =
        "steps 4 to 6, 10.00 ms each: compute 60.0 %, copies 0.0 %, transfers 10.0 %, waiting 20.0 %, loader 5.0 %, "
        "other 5.0 %\n\n"
        "operation  calls    ms  share  avg us  GFLOP/s  GB/s\n"
        "linear         2  4.00  40.0%  2000.0   2000.0   0.8\n"
        "gelu           1  2.00  20.0%  2000.0        -   0.5\n\n"
        "transfer    count  MB sent  in flight ms  moving ms  waiting ms  share\n"
        "all_reduce      2    4.000          5.00       1.00        2.00  30.0%\n\n"
        "module             parameters  GFLOP    ms  GFLOP/s  share\n"
        "model                      30  8.000  6.00   1333.3  60.0%\n"
        "  primary                  30  8.000  6.00   1333.3  60.0%\n"
        "    2 layers               30  8.000  6.00   1333.3  60.0%\n"
        "      products             30  8.000  4.00   2000.0  40.0%\n"
        "      elementwise           0  0.000  2.00        -  20.0%\n";
    tri_sink sink;
    char *text = NULL;
    size_t size = 0;
    tri_json *facts = facts_of(profile_facts);
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(tri__profile_open(folder, out, 0, &sink), TRI_OK);
    tri_event event = profile_event();
    event.facts = facts;
    send(&sink, event);
    event.spans = NULL, event.facts = NULL; /* renewed during the run: no table */
    send(&sink, event);
    tri__sink_close(&sink);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
    assert_file("profile.txt", expected);
    tri__json_decref(facts);
}

/* More operations than the table has rows. */
TEST_IN(profile_many, setup, teardown) {
    enum { MANY = 100 };
    tri_json *facts = facts_of(profile_facts), *many = tri__json_array();
    for (int i = 0; i < MANY; i++)
        tri__json_append_new(many, tri__json_pack("{s:s, s:i, s:f, s:f, s:f}", "name", i ? "other" : "first", "calls",
                                                  1, "seconds", 0.001, "flops", 0.0, "bytes", 0.0));
    tri__json_set_new(facts, "operations", many);
    tri_sink sink;
    tri_event event = profile_event();
    event.facts = facts;
    assert_int_equal(tri__profile_open(folder, NULL, 0, &sink), TRI_OK);
    send(&sink, event);
    tri__sink_close(&sink);
    tri__json_decref(facts);
    char *text = text_of("profile.txt", NULL);
    assert_non_null(strstr(text, "\n10 costliest of 100 operations  calls"));
    assert_non_null(strstr(text, "\nfirst  "));
    int others = 0;
    for (const char *at = text; (at = strstr(at, "\nother ")) != NULL; at++) others++;
    assert_int_equal(others, 9);
    free(text);
}

/* profile-rank<r>.json is renewed by each event. */
TEST_IN(profile_file, setup, teardown) {
    tri_sink sink;
    tri_json *facts = facts_of("{\"rank\": 3}");
    tri_event event = {.kind = TRI_EVENT_PROFILE, .facts = facts, .rank = 3, .world = 4};
    assert_int_equal(tri__profile_file_open(folder, &sink), TRI_OK);
    send(&sink, event);
    assert_file("profile-rank3.json", "{\"rank\":3}");
    tri__json_set_new(facts, "x", tri__json_real(0.1));
    send(&sink, event);
    assert_file("profile-rank3.json", "{\"rank\":3,\"x\":0.1}");
    tri__sink_close(&sink);
    tri__json_decref(facts);
}

/* Prints the table, frees it, and compares. */
static void expect_printed(tri_text_table *table, int color, const char *want) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(tri__text_table_print(table, out, color), TRI_OK);
    tri__text_table_free(table);
    fclose(out);
    assert_string_equal(text, want);
    free(text);
}

TEST_IN(tables, setup, teardown) {
    tri_text_table table = {0};
    tri__text_table_add(&table, "name\tbytes\tnote");
    tri__text_table_add(&table, "%s\t%d\t%s", "\xc3\xa9t\xc3\xa9", 12345, "x");
    tri__text_table_add(&table, "longer name\t-\t-7 and so on");
    expect_printed(&table, 1, "\033[1mname         bytes  note\033[0m\n"
                              "\xc3\xa9t\xc3\xa9          12345  x\n"
                              "longer name      -  -7 and so on\n");
}

/* Chinese and emoji take two columns, combining marks none. */
TEST_IN(wide_tables, setup, teardown) {
    tri_text_table table = {0};
    tri__text_table_add(&table, "city\tnote");
    tri__text_table_add(&table, "\xe6\x9d\xb1\xe4\xba\xac\ta");
    tri__text_table_add(&table, "e\xcc\x81\xf0\x9f\x91\x8d\tb");
    tri__text_table_add(&table, "Rome\tc");
    expect_printed(&table, 0, "city  note\n"
                              "\xe6\x9d\xb1\xe4\xba\xac  a\n"
                              "e\xcc\x81\xf0\x9f\x91\x8d   b\n"
                              "Rome  c\n");
}

/* Ranks that are alike are one row; the header, and rows that only look alike in part, stay. */
TEST_IN(folded_tables, setup, teardown) {
    tri_text_table table = {0};
    tri__text_table_fold(&table);
    tri__text_table_add(&table, "rank\tbytes");
    for (int rank = 0; rank < 12; rank++) tri__text_table_add(&table, "%d\t%d", rank, rank < 8 ? 5 : rank == 8 ? 6 : 5);
    tri__text_table_fold(&table);
    expect_printed(&table, 0, "rank  bytes\n"
                              " 0-7      5\n"
                              "   8      6\n"
                              "9-11      5\n");
}

static tri_status fails(void *context, const tri_event *event) {
    (void)event;
    ++*(int *)context;
    return tri__fail(TRI_IO, "full");
}

TEST_IN(tee_and_summary, setup, teardown) {
    tri_sink summary, tee;
    int calls = 0;
    tri_json *facts = tri__json_pack("{s:f}", "loss", 0.1);
    tri_event end = {.kind = TRI_EVENT_END, .facts = facts};
    assert_int_equal(tri__summary_open(folder, &summary), TRI_OK);
    tri_sink sinks[] = {summary, {.emit = fails, .context = &calls}, {.emit = fails, .context = &calls}};
    assert_int_equal(tri__tee_open(sinks, 3, &tee), TRI_OK);
    assert_int_equal(tee.emit(tee.context, &end), TRI_IO);
    assert_int_equal(calls, 1);
    tri__sink_close(&tee);
    tri__sink_close(&summary);
    tri__json_decref(facts);
    tri_json *back;
    char path[TRI_PATH_MAX];
    assert_int_equal(tri__path_join(path, folder, "summary.json"), TRI_OK);
    assert_int_equal(tri__json_load(path, TRI_DATA, &back), TRI_OK);
    assert_true(tri__json_real_value(tri__json_get(back, "loss")) == 0.1);
    tri__json_decref(back);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
