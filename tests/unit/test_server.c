/* test_server.c - the whole server in one process, for sanitizers: 64 clients at once, in two protocols, while models
 * are loaded again; every answer has the bits of `predict`. */
#include "tests/lib/test.h"
#include "tests/lib/http_client.h"
#include "tests/lib/session_data.h"

#include "serve/serve.h"
#include "serve/server/server.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ROWS = 60, CLIENTS = 64, ASKED = 12, CLASSES = 2 };

static char run[128];
static char *text, *line[ROWS + 1];   /* the table; [0] is its header */
static float want[ROWS * CLASSES];    /* of `predict` */
static const char *label[CLASSES];
static tri_predictions predictions;

static int train(void **state) {
    char folder[TRI_PATH_MAX], path[128], data[160], checkpoint[160];
    int more = 1, words;
    size_t size;
    double loss;
    make_data(state);
    tri_session *session = open_session("run", OPTIONS("--epochs=1", "--threads=1", "--lr=0.01"));
    while (more) OK(take_step(session, &loss, &more));
    OK(tri_save(session, folder, sizeof folder));
    tri_session_close(session);
    snprintf(run, sizeof run, "%s/run", root);
    snprintf(checkpoint, sizeof checkpoint, "--checkpoint=%s", run);
    write_table("rows.csv", ROWS, 9);
    snprintf(path, sizeof path, "%s/rows.csv", root);
    snprintf(data, sizeof data, "--data-path=%s", path);
    tri_settings asked;
    OK(tri__settings_init(&asked));
    OK(tri__settings_parse(&asked, "predict", 3, OPTIONS(checkpoint, data, "--threads=1"), NULL, 0, &words));
    OK(tri__serve_predict(&asked, NULL, &(tri_predict_options){0}, NULL, &predictions));
    assert_int_equal(predictions.n, ROWS);
    memcpy(want, predictions.probs, sizeof want);
    for (int c = 0; c < CLASSES; c++) label[c] = predictions.label[c];
    tri__settings_free(&asked);
    OK(tri__file_read(path, 1 << 20, &text, &size));
    char *rest = text;
    for (int i = 0; i <= ROWS; i++) line[i] = strsep(&rest, "\n");
    return 0;
}

static int clean(void **state) {
    free(text);
    tri__predictions_free(&predictions);
    return remove_data(state);
}

/* What /invocations answers to n rows from `first`, as CSV. */
static void expected(int first, int n, char *out, size_t size) {
    size_t at = (size_t)snprintf(out, size, "label,prob_%s,prob_%s\n", label[0], label[1]);
    for (int i = first; i < first + n; i++) {
        const float *p = want + i * CLASSES;
        at += (size_t)snprintf(out + at, size - at, "%s,%.9g,%.9g\n", label[p[1] > p[0]], (double)p[0], (double)p[1]);
    }
}

static int port;
static atomic_int finished;

/* Asks for some rows, again and again, on one connection. */
static void *client(void *context) {
    int self = (int)(intptr_t)context, fd = http_connect(port);
    http_answer *a = malloc(sizeof *a);
    intptr_t wrong = 0;
    for (int k = 0; k < ASKED; k++) {
        int n = 1 + (self + k) % 4, first = (self * 7 + k * 11) % (ROWS - n);
        char body[4096], answer[1024];
        size_t at = (size_t)snprintf(body, sizeof body, "%s\n", line[0]);
        for (int i = 0; i < n; i++) at += (size_t)snprintf(body + at, sizeof body - at, "%s\n", line[1 + first + i]);
        http_ask(fd, "POST", "/invocations?truncate=true", "Content-Type: text/csv\r\n", body, a);
        expected(first, n, answer, sizeof answer);
        if (a->status != 200 || strcmp(a->body, answer)) {
            if (!wrong++) printf("%d: %d %s\n%s\n", self, a->status, a->status ? a->body : "", answer);
        }
    }
    close(fd);
    free(a);
    atomic_fetch_add(&finished, 1);
    return (void *)wrong;
}

TEST(many_clients_and_reloads) {
    static const char *const names[] = {"one", "two"};
    const char *const runs[] = {run, run};
    tri_settings asked;
    tri_server *server;
    pthread_t thread[CLIENTS];
    http_answer a;
    int words, reloads = 0;
    OK(tri__settings_init(&asked));
    OK(tri__settings_parse(&asked, "serve", 1, OPTIONS("--threads=1"), NULL, 0, &words));
    const tri_server_options options = {
        .n_models = 2, .name = names, .run = runs, .asked = &asked, .max_rows = 8, .access_log = -1,
        .http = {.host = "127.0.0.1", .max_body = 1 << 16, .max_connections = 200, .max_requests = 200,
                 .idle_seconds = 60, .request_seconds = 60, .threads = 2}};
    OK(tri__server_open(&options, NULL, &server));
    port = atoi(strrchr(tri__server_address(server), ':') + 1);
    for (int i = 0; i < CLIENTS; i++) pthread_create(&thread[i], NULL, client, (void *)(intptr_t)i);
    do { /* at least once, and as long as there are requests */
        OK(tri__server_reload(server));
        reloads++;
    } while (atomic_load(&finished) < CLIENTS && reloads < 20);
    for (int i = 0; i < CLIENTS; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        assert_int_equal((intptr_t)wrong, 0);
    }
    http_once(port, "GET", "/metrics", "", NULL, &a);
    assert_non_null(strstr(a.body, "trident_requests_total{route=\"/invocations\",code=\"200\"} 768\n"));
    int64_t answered = tri__server_close(server, 5);
    assert_int_equal(answered, CLIENTS * ASKED + 1);
    tri__settings_free(&asked);
}

/* The queue is bounded: what does not fit is refused at once, and the rest is answered. */
TEST(full_queue) {
    const char *const names[] = {"one"}, *const runs[] = {run};
    tri_settings asked;
    tri_server *server;
    int words;
    OK(tri__settings_init(&asked));
    OK(tri__settings_parse(&asked, "serve", 1, OPTIONS("--threads=1"), NULL, 0, &words));
    const tri_server_options options = {
        .n_models = 1, .name = names, .run = runs, .asked = &asked, .max_rows = 8, .access_log = -1,
        .batching = {.queue_rows = 4, .max_wait = 0.5},
        .http = {.host = "127.0.0.1", .max_body = 1 << 16, .max_connections = 200, .max_requests = 200,
                 .idle_seconds = 60, .request_seconds = 60, .threads = 1}};
    OK(tri__server_open(&options, NULL, &server));
    port = atoi(strrchr(tri__server_address(server), ':') + 1);
    int fd[8], refused = 0;
    char body[512];
    snprintf(body, sizeof body, "%s\n%s\n", line[0], line[1]);
    for (int i = 0; i < 8; i++) {
        fd[i] = http_connect(port);
        dprintf(fd[i],
                "POST /invocations?truncate=true HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nContent-Length: "
                "%zu\r\n\r\n%s",
                strlen(body), body);
    }
    for (int i = 0; i < 8; i++) {
        http_answer a;
        http_receive(fd[i], 1, &a);
        assert_true(a.status == 200 || a.status == 429);
        if (a.status == 429) assert_non_null(strcasestr(a.text, "Retry-After: "));
        refused += a.status == 429;
        close(fd[i]);
    }
    assert_in_range(refused, 1, 7);
    tri__server_close(server, 5);
    tri__settings_free(&asked);
}

int main(int argc, char **argv) { return run_listed(argc, argv, train, clean); }
