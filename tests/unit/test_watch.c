/* test_watch.c - a run that is watched: its log read piece by piece, the live page's answers, the terminal's text. */
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"
#include "tests/lib/http_client.h"
#include "report/pages/live_page.h"
#include "report/runs/run_data.h"
#include "report/pages/terminal.h"
#include "web/http.h"

#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

/* ---- reading ---- */

/* Writes text to metrics.jsonl: at its end, or in its place. */
static void put_metrics(const char *text, int anew) {
    char path[TRI_PATH_MAX];
    assert_int_equal(tri__path_join(path, folder, "metrics.jsonl"), TRI_OK);
    int fd = open(path, O_WRONLY | O_CREAT | (anew ? O_TRUNC : O_APPEND), 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

#define LINE(step, loss) \
    "{\"ts\":1700000000.5,\"event\":\"train\",\"step\":" #step ",\"epoch\":0.5,\"loss\":" #loss ",\"step_ms\":250}\n"
#define START "{\"ts\":1700000000,\"event\":\"start\",\"step\":0,\"steps\":10,\"config\":{\"epochs\":2,\"lr\":0.1}}\n"

static tri_json *read_run(tri_run_reader *reader) {
    const tri_run_data_options options = {0};
    tri_json *run;
    assert_int_equal(reader ? tri__run_reader_data(reader, &options, &run) : tri__run_data(folder, &options, &run),
                     TRI_OK);
    return run;
}

/* The run's losses are these, whether the log is kept or read anew. */
static void assert_losses(tri_run_reader *reader, const char *expected) {
    tri_run_reader *const both[] = {reader, NULL};
    for (int i = 0; i < 2; i++) {
        tri_json *run = read_run(both[i]);
        tri_json *curve = tri__json_get(tri__json_get(tri__json_get(run, "curves"), "loss"), "value");
        char *text = curve ? tri__json_text(curve, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(3)) : strdup("none");
        assert_string_equal(text, expected);
        free(text);
        tri__json_decref(run);
    }
}

TEST_IN(read_by_pieces, setup, teardown) {
    tri_run_reader *reader;
    assert_int_equal(tri__run_reader_open(folder, &reader), TRI_OK);
    put_metrics(START, 0);
    assert_losses(reader, "none");
    put_metrics(LINE(1, 0.5), 0);
    assert_losses(reader, "[0.5]");
    assert_losses(reader, "[0.5]"); /* nothing new */
    put_metrics("{\"ts\":1700000001,\"event\":\"train\",\"step\":2,\"lo", 0); /* is being written */
    assert_losses(reader, "[0.5]");
    put_metrics("ss\":0.25}\n" LINE(3, 0.125), 0);
    assert_losses(reader, "[0.5,0.25,0.125]");
    put_metrics("{\"ts\":1700000002,\"event\":\"warn\",\"step\":3,\"message\":\"careful\"}\n", 0);
    tri_json *run = read_run(reader);
    assert_int_equal(tri__json_integer_value(tri__json_get(run, "step")), 3);
    assert_int_equal(tri__json_integer_value(tri__json_get(run, "steps")), 10);
    assert_int_equal(tri__json_size(tri__json_get(run, "warnings")), 1);
    assert_int_equal(tri__json_size(tri__json_get(run, "starts")), 1);
    tri__json_decref(run);
    tri__run_reader_close(reader);
}

/* A run that is begun anew, or goes on from a checkpoint, writes the file again. */
TEST_IN(read_after_a_restart, setup, teardown) {
    char path[TRI_PATH_MAX];
    tri_run_reader *reader;
    assert_int_equal(tri__run_reader_open(folder, &reader), TRI_OK);
    put_metrics(START LINE(1, 0.5) LINE(2, 0.25) LINE(3, 0.125), 0);
    assert_losses(reader, "[0.5,0.25,0.125]");
    put_metrics(START LINE(1, 0.75), 1); /* shorter */
    assert_losses(reader, "[0.75]");
    put_metrics(START LINE(1, 0.25) LINE(2, 0.5) LINE(3, 0.5), 1); /* longer, with another beginning */
    assert_losses(reader, "[0.25,0.5,0.5]");
    assert_int_equal(tri__path_join(path, folder, "metrics.jsonl"), TRI_OK);
    static const char replaced[] = START LINE(1, 0.25) LINE(2, 0.5) START LINE(3, 0.0625);
    assert_int_equal(tri__file_write(path, replaced, sizeof replaced - 1), TRI_OK); /* another file of that name */
    assert_losses(reader, "[0.25,0.5,0.0625]");
    assert_int_equal(tri__file_remove(path), 0);
    static const char none[] = "{\"steps\": 3}";
    assert_int_equal(tri__path_join(path, folder, "summary.json"), TRI_OK);
    assert_int_equal(tri__file_write(path, none, sizeof none - 1), TRI_OK);
    assert_losses(reader, "none");
    put_metrics(START LINE(1, 2), 0);
    assert_losses(reader, "[2.0]");
    tri__run_reader_close(reader);
}

/* Of many warnings the first and the last are kept. */
TEST_IN(many_warnings, setup, teardown) {
    tri_run_reader *reader;
    assert_int_equal(tri__run_reader_open(folder, &reader), TRI_OK);
    for (int i = 1; i <= 377; i++) {
        char line[128];
        snprintf(line, sizeof line, "{\"ts\":1700000000,\"event\":\"warn\",\"step\":1,\"message\":\"%d\"}\n", i);
        put_metrics(line, 0);
    }
    tri_json *run = read_run(reader), *all = tri__json_get(run, "warnings");
    size_t n = tri__json_size(all);
    assert_true(n >= 50 && n <= 100);
    assert_int_equal(tri__json_integer_value(tri__json_get(run, "n_warnings")), 377);
    const struct {
        size_t at;
        const char *text;
    } expected[] = {{0, "1"}, {9, "10"}, {n - 40, "338"}, {n - 1, "377"}};
    for (int i = 0; i < 4; i++)
        assert_string_equal(tri__json_string_value(tri__json_get(tri__json_at(all, expected[i].at), "message")),
                            expected[i].text);
    tri__json_decref(run);
    tri__run_reader_close(reader);
}

/* ---- the live page ---- */

/* One request, with this Host. */
static void ask(int port, const char *method, const char *path, const char *host, const char *more, http_answer *a) {
    char text[1024];
    int fd = http_connect(port), n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, path,
                                              host, more);
    memset(a, 0, sizeof *a);
    if (fd < 0) return;
    http_send(fd, text, (size_t)n);
    http_receive(fd, strcmp(method, "HEAD") != 0, a);
    close(fd);
}

static void copy_tag(const http_answer *a, char tag[static 120]) {
    const char *at = strstr(a->text, "ETag: ");
    assert_non_null(at);
    snprintf(tag, 120, "If-None-Match: %.*s\r\n", (int)strcspn(at + 6, "\r"), at + 6);
}

TEST_IN(routes, setup, teardown) {
    char tag[120], page_tag[120];
    static http_answer a;
    const tri_live_options options = {.folder = folder, .host = "127.0.0.1", .allow_host = "proxy.example"};
    tri_live_page *live;
    assert_int_equal(tri__live_open(&options, &live), TRI_OK);
    int port = atoi(strrchr(tri__live_address(live), ':') + 1);
    ask(port, "GET", "/", "localhost", "", &a); /* the folder is there, but nothing of a run */
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, "Waiting for a run"));
    ask(port, "GET", "/data.json", "localhost", "", &a);
    assert_int_equal(a.status, 503);
    put_metrics(START LINE(1, 0.5), 0);
    for (int i = 0; i < 100 && (ask(port, "GET", "/data.json", "localhost", "", &a), a.status == 503); i++)
        usleep(20000); /* a folder is read again after 20 times what reading it took */
    ask(port, "HEAD", "/", "localhost", "", &a); /* the page itself is larger than this client's room */
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.text, "Content-Security-Policy: default-src 'none';"));
    assert_non_null(strstr(a.text, "X-Content-Type-Options: nosniff"));
    assert_non_null(strstr(a.text, "Content-Type: text/html; charset=utf-8"));
    copy_tag(&a, page_tag);
    ask(port, "GET", "/data.json", "127.0.0.1", "", &a);
    assert_int_equal(a.status, 200);
    tri_json *data;
    assert_int_equal(tri__json_parse(a.body, a.length, "data.json", TRI_DATA, &data), TRI_OK);
    assert_true(tri__json_is_true(tri__json_get(data, "live")));
    assert_int_equal(tri__json_size(tri__json_get(data, "runs")), 1);
    tri__json_decref(data);
    copy_tag(&a, tag);
    ask(port, "GET", "/data.json", "localhost", tag, &a);
    assert_int_equal(a.status, 304);
    assert_int_equal(a.length, 0);
    ask(port, "GET", "/", "localhost", page_tag, &a);
    assert_int_equal(a.status, 304);
    put_metrics(LINE(2, 0.25), 0);
    for (int i = 0; i < 100 && (ask(port, "GET", "/data.json", "localhost", tag, &a), a.status == 304); i++)
        usleep(20000);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, "0.25"));
    static const char *const own[] = {"localhost",   "LOCALHOST:1", "127.0.0.1:99",
                                      "192.168.7.7", "[::1]:8",     "[fe80::1]",   "proxy.example:443"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        ask(port, "GET", "/data.json", own[i], "", &a);
        assert_int_equal(a.status, 200);
    }
    static const char *const foreign[] = {"evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.x",
                                          ""};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        ask(port, "GET", "/data.json", foreign[i], "", &a);
        assert_int_equal(a.status, 403);
        assert_null(strstr(a.body, "runs"));
    }
    ask(port, "POST", "/", "localhost", "Content-Length: 0\r\n", &a);
    assert_int_equal(a.status, 405);
    assert_non_null(strstr(a.text, "Allow: GET"));
    ask(port, "GET", "/metrics.jsonl", "localhost", "", &a);
    assert_int_equal(a.status, 404);
    tri__live_close(live);
}

/* ---- the terminal ---- */

static const char run_text[] =
    "{\"name\":\"a run\",\"state\":\"running\",\"words\":\"running: step 4 of 8\",\"updated\":1700000000,\"step\":4,"
    "\"steps\":8,\"epoch\":1.5,\"epochs\":3,\"curves\":{\"loss\":{\"step\":[1,2,3,4],\"value\":[1,0.5,0.25,0]},"
    "\"learning_rate\":{\"step\":[4],\"value\":[0.001]},\"mem_bytes\":{\"step\":[4],\"value\":[1048576]}},"
    "\"rates\":{\"step_seconds\":2,\"samples_per_second\":12.5,\"tokens_per_second\":24100,\"mfu\":0.25},"
    "\"shares\":{\"compute\":0.5,\"comm\":0.125,\"idle\":0.25,\"loader\":0.125},"
    "\"validations\":[{\"step\":4,\"valid_loss\":0.5,\"accuracy\":0.75,\"best\":true,\"best_by\":\"f1\"}],"
    "\"profile\":{\"ranks\":[{\"rank\":0,\"shares\":{\"waiting\":0.5}},{\"rank\":1,\"seconds\":2,\"parts\":"
    "{\"waiting\":0.5}}]},\"warnings\":[{\"time\":1700000000,\"message\":\"red \\u001b[31m \\u009b31m\\nend\"}],"
    "\"binding\":{\"words\":\"Waiting binds.\"}}";

static char *draw(const char *text, tri_screen screen, double now) {
    tri_json *run;
    tri_buffer out = {0};
    size_t size;
    assert_int_equal(tri__json_parse(text, strlen(text), "run", TRI_DATA, &run), TRI_OK);
    tri__terminal_draw(run, &screen, now, &out);
    tri__json_decref(run);
    return tri__buffer_take(&out, &size);
}

static void assert_lines(const char *screen, const char *const *expected) {
    for (int i = 0; expected[i]; i++) {
        size_t length = strcspn(screen, "\n");
        char *line = strndup(screen, length);
        if (strcmp(expected[i], "*")) assert_string_equal(line, expected[i]); /* *: has the time of day */
        free(line);
        screen += length + (screen[length] == '\n');
    }
    assert_string_equal(screen, "");
}

TEST_IN(terminal_text, setup, teardown) {
    static const char *const ascii[] = {"a run  running: step 4 of 8",
                                        "         ##############--------------  50 %  epoch 1.50 of 3  left 8.0 s",
                                        "",
                                        "loss     0.0000  learning rate 0.001",
                                        "       1 *",
                                        "",
                                        "          *",
                                        "",
                                        "           *",
                                        "       0    *",
                                        "speed    12.5 samples/s  24.1k tokens/s  2.0k ms a step  MFU 25.0 %",
                                        "time     computing 50 %  transfers 12 %  waiting 25 %  loading 12 %",
                                        "memory   1.0 MiB planned a rank",
                                        "valid    loss 0.5000  accuracy 0.7500  at step 4  best by f1",
                                        "",
                                        "waiting     0 ######------  50 %      1 ###---------  25 %",
                                        "limit    Waiting binds.",
                                        "*",
                                        NULL};
    char *text = draw(run_text, (tri_screen){.width = 81}, 1700000001);
    assert_lines(text, ascii);
    assert_null(strchr(text, '\033'));
    assert_null(strstr(text, "\xC2\x9B"));
    assert_non_null(strstr(text, "red  [31m  31m end"));
    free(text);
    static const char *const small[] = {"a run  running: step 4 of 8", "         50 %  epoch 1.50 of 3",
                                        "loss     0.0000", "       1 \u2588\u2585\u2583\u2581", NULL};
    text = draw(run_text, (tri_screen){.width = 32, .height = 4, .utf8 = 1}, 1700000001);
    assert_lines(text, small);
    free(text);
}

/* Never more lines or columns than there are, whatever the window; colours end on their line. */
TEST_IN(terminal_sizes, setup, teardown) {
    for (int width = 1; width < 200; width += width < 30 ? 1 : 17)
        for (int height = 1; height < 40; height += 3) {
            char *text = draw(run_text, (tri_screen){.width = width, .height = height, .utf8 = 1, .color = 1},
                              1700009999);
            int lines = 0;
            for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
                int columns = 0, painted = 0;
                for (char *c = line; c < end; c++) {
                    if (*c == '\033') {
                        painted = strncmp(c, "\033[0m", 4) != 0;
                        c = strchr(c, 'm');
                    } else columns += ((unsigned char)*c & 0xC0) != 0x80;
                }
                assert_true(columns <= width);
                assert_false(painted);
            }
            assert_true(lines <= height && lines > 0);
            free(text);
        }
    char *text = draw(run_text, (tri_screen){.width = 100}, 1700009999);
    assert_non_null(strstr(text, "no news for 2h 46m"));
    free(text);
    text = draw("{\"name\":\"x\",\"state\":\"ended\",\"words\":\"ended\"}", (tri_screen){.width = 80, .height = 24}, 0);
    assert_string_equal(text, "x  ended\n\n\n");
    free(text);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
