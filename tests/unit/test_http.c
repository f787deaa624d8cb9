/* test_http.c - the HTTP layer with clients that behave, and with those that do not. */
#include "tests/lib/test.h"
#include "tests/lib/http_echo.h"

TEST(routes_and_methods) {
    echo e = {0};
    http_answer a;
    int port = start_with(&e, (tri_http_options){0});
    http_once(port, "GET", "/things/a%20b/name?q=x%26y", "X-Word: w\r\n", NULL, &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "a b|x&y|w");
    http_once(port, "GET", "/things/a/b/name", "", NULL, &a);
    assert_int_equal(a.status, 404);
    assert_non_null(strstr(a.body, "\"error\":\"there is nothing at /things/a/b/name"));
    http_once(port, "GET", "/things//name", "", NULL, &a);
    assert_int_equal(a.status, 404);
    http_once(port, "PUT", "/echo", "", "x", &a);
    assert_int_equal(a.status, 405);
    assert_non_null(strcasestr(a.text, "Allow: POST"));
    http_once(port, "HEAD", "/health", "", NULL, &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.text, "Content-Length: 2"));
    stop(&e);
}

TEST(bodies) {
    static const char chunked[] = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "3\r\nabc\r\n5\r\ndefgh\r\n0\r\n\r\n";
    echo e = {0};
    http_answer a;
    char large[8192];
    int port = start_with(&e, (tri_http_options){0}), fd = http_connect(port);
    for (int i = 0; i < 50; i++) { /* one connection, many requests */
        char text[32];
        snprintf(text, sizeof text, "body %d", i);
        http_ask(fd, "POST", i % 2 ? "/echo" : "/later", "", text, &a);
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, text);
    }
    http_send(fd, chunked, sizeof chunked - 1);
    http_receive(fd, 1, &a);
    assert_string_equal(a.body, "abcdefgh");
    http_send(fd, chunked, sizeof chunked - 1); /* two at once */
    http_send(fd, chunked, sizeof chunked - 1);
    for (int i = 0; i < 2; i++) {
        http_receive(fd, 1, &a);
        assert_string_equal(a.body, "abcdefgh");
    }
    close(fd);
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    http_once(port, "POST", "/echo", "", large, &a);
    assert_int_equal(a.status, 413);
    assert_non_null(strstr(a.body, "at most 4096 are taken"));
    fd = http_connect(port); /* the same without saying how long */
    dprintf(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n",
            strlen(large), large);
    http_receive(fd, 1, &a);
    assert_int_equal(a.status, 413);
    close(fd);
    http_once(port, "POST", "/echo", "", "", &a);
    assert_int_equal(a.status, 200);
    stop(&e);
}

TEST(keys) {
    static const char file[] = "# comment\n\nfirst-key-1234\r\nsecond-key-5678";
    echo e = {0};
    http_answer a;
    assert_int_equal(tri__keys_parse(file, sizeof file - 1, "keys", &e.keys), TRI_OK);
    assert_int_equal(e.keys.n, 2);
    int port = start_with(&e, (tri_http_options){.keys = &e.keys});
    static const struct {
        const char *header;
        int status;
    } cases[] = {
        {"", 401},
        {"Authorization: Bearer first-key-1234\r\n", 200},
        {"Authorization: bearer second-key-5678\r\n", 200},
        {"Authorization: Bearer first-key-123\r\n", 401},
        {"Authorization: Bearer first-key-12345\r\n", 401},
        {"Authorization: Bearer first-key-1234first-key-1234\r\n", 401},
        {"Authorization: Bearer \r\n", 401},
        {"Authorization: Basic first-key-1234\r\n", 401},
        {"Authorization: Bearer # comment\r\n", 401},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        http_once(port, "POST", "/echo", cases[i].header, "x", &a);
        assert_int_equal(a.status, cases[i].status);
    }
    http_once(port, "GET", "/secret", "", NULL, &a); /* paths are not told apart without a key */
    assert_int_equal(a.status, 401);
    assert_non_null(strcasestr(a.text, "WWW-Authenticate: Bearer"));
    assert_true(alive(port));
    stop(&e);
    tri_keys_file bad;
    assert_int_equal(tri__keys_parse("short\n", 6, "keys", &bad), TRI_DATA);
    assert_int_equal(tri__keys_parse("a key with blanks\n", 18, "keys", &bad), TRI_DATA);
    assert_int_equal(tri__keys_parse("# none\n", 7, "keys", &bad), TRI_DATA);
}

/* Clients that send a byte now and then. */
TEST(slow_clients) {
    echo e = {0};
    http_answer a;
    int port = start_with(&e, (tri_http_options){.idle_seconds = 0.4, .request_seconds = 0.4});
    int body = http_connect(port), header = http_connect(port), idle = http_connect(port);
    dprintf(body, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n");
    dprintf(header, "POST /echo HTTP/1.1\r\nHo");
    double begin = tri__clock();
    struct pollfd ended = {.fd = body, .events = POLLIN};
    while (poll(&ended, 1, 20) == 0 && tri__clock() - begin < 5) {
        http_send(body, "x", 1);
        http_send(header, "s", 1);
    }
    http_receive(body, 1, &a);
    assert_int_equal(a.status, 408);
    assert_non_null(strstr(a.body, "the body did not arrive in time"));
    http_receive(header, 1, &a);
    assert_int_equal(a.status, 0);
    http_receive(idle, 1, &a);
    assert_int_equal(a.status, 0);
    assert_in_range((int)(1000 * (tri__clock() - begin)), 300, 4000);
    assert_true(wait_for(&e.late, 1));
    close(body), close(header), close(idle);
    assert_true(alive(port));
    stop(&e);
}

TEST(broken_clients) {
    static const char cut[] = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf of it";
    static const char whole[] = "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    echo e = {0};
    http_answer a;
    int port = start_with(&e, (tri_http_options){0}), fd = http_connect(port);
    http_send(fd, cut, sizeof cut - 1); /* a body cut short */
    close(fd);
    assert_true(wait_for(&e.done, 1));
    assert_int_equal(atomic_load(&e.last), 400);
    fd = http_connect(port); /* half closed after a whole request: answered */
    http_send(fd, whole, sizeof whole - 1);
    shutdown(fd, SHUT_WR);
    http_receive(fd, 1, &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "abc");
    close(fd);
    fd = http_connect(port); /* half closed in the middle of one */
    http_send(fd, cut, sizeof cut - 1);
    shutdown(fd, SHUT_WR);
    http_receive(fd, 1, &a);
    assert_int_equal(a.status, 400);
    assert_non_null(strstr(a.body, "the body is cut short"));
    close(fd);
    fd = http_connect(port); /* not HTTP */
    http_send(fd, "\x16\x03\x01 hello\r\n\r\n", 13);
    http_receive(fd, 1, &a);
    assert_int_equal(a.status, 400);
    close(fd);
    size_t size = 1 << 20; /* a header of 1 MB */
    char *header = malloc(size + 64);
    memset(header, 'h', size + 63);
    memcpy(header, "GET /health HTTP/1.1\r\nX-Long: ", 30);
    memcpy(header + size, "\r\n\r\n", 5);
    fd = http_connect(port);
    http_send(fd, header, size + 4);
    http_receive(fd, 1, &a);
    assert_true(a.status == 431 || a.status == 0); /* 0: closed with bytes of ours unread: a reset */
    close(fd);
    free(header);
    assert_true(alive(port));
    stop(&e);
}

TEST(too_many_requests) {
    echo e = {0};
    http_answer a;
    int port = start_with(&e, (tri_http_options){.max_requests = 1}), fd = http_connect(port);
    dprintf(fd, "POST /asked HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    assert_true(wait_for(&e.holding, 1));
    http_once(port, "POST", "/echo", "", "x", &a);
    assert_int_equal(a.status, 429);
    assert_non_null(strcasestr(a.text, "Retry-After: 1"));
    assert_true(alive(port)); /* health is answered all the same */
    atomic_store(&e.release, 1);
    http_receive(fd, 1, &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "hi");
    pthread_join(e.later, NULL);
    while (tri__http_in_flight(e.http)) tri__clock_sleep(tri__clock() + 0.002); /* it ends after its reply was sent */
    http_once(port, "POST", "/echo", "", "x", &a);
    assert_int_equal(a.status, 200);
    close(fd);
    stop(&e);
}

static void *drain_thread(void *context) {
    echo *e = context;
    return (void *)(intptr_t)tri__http_drain(e->http, 10);
}

TEST(draining) {
    echo e = {0};
    http_answer a;
    pthread_t thread;
    void *left;
    int port = start_with(&e, (tri_http_options){0}), held = http_connect(port), kept = http_connect(port);
    http_ask(kept, "POST", "/echo", "", "x", &a);
    dprintf(held, "POST /asked HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    assert_true(wait_for(&e.holding, 1));
    pthread_create(&thread, NULL, drain_thread, &e);
    while (!tri__http_draining(e.http)) tri__clock_sleep(tri__clock() + 0.002);
    tri__clock_sleep(tri__clock() + 0.05);
    assert_int_equal(http_connect(port), -1);
    http_ask(kept, "POST", "/echo", "", "x", &a);
    assert_int_equal(a.status, 503);
    assert_non_null(strcasestr(a.text, "Connection: close"));
    atomic_store(&e.release, 1);
    http_receive(held, 1, &a); /* what had begun is answered */
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "hi");
    pthread_join(thread, &left);
    assert_int_equal((intptr_t)left, 0);
    pthread_join(e.later, NULL);
    tri__http_stop(e.http);
    close(held), close(kept);
}

static void *many_requests(void *context) {
    int port = *(int *)context, fd = http_connect(port);
    http_answer *a = malloc(sizeof *a);
    intptr_t wrong = 0;
    for (int i = 0; i < 100; i++) {
        char text[32];
        snprintf(text, sizeof text, "%d of %d", i, fd);
        http_ask(fd, "POST", "/later", "", text, a);
        wrong += a->status != 200 || strcmp(a->body, text) != 0;
    }
    close(fd);
    free(a);
    return (void *)wrong;
}

TEST(many_clients) {
    enum { CLIENTS = 64, IDLE = 200 }; /* two descriptors each: below the usual limit of 1024 */
    echo e = {0};
    int port = start_with(&e, (tri_http_options){.threads = 3}), idle[IDLE];
    pthread_t thread[CLIENTS];
    for (int i = 0; i < IDLE; i++) assert_true((idle[i] = http_connect(port)) >= 0);
    for (int i = 0; i < CLIENTS; i++) pthread_create(&thread[i], NULL, many_requests, &port);
    for (int i = 0; i < CLIENTS; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        assert_int_equal((intptr_t)wrong, 0);
    }
    assert_true(wait_for(&e.done, CLIENTS * 100));
    for (int i = 0; i < IDLE; i++) close(idle[i]);
    stop(&e);
}

/* A held exchange is finished even if its client has left: what belongs to it is freed there. Whether the library asks
 * for the reply of a connection that was reset is a matter of time, hence several. */
TEST(leaving_while_held) {
    enum { CLIENTS = 120 };
    echo e = {0};
    int port = start_with(&e, (tri_http_options){0});
    for (int i = 0; i < CLIENTS; i++) {
        const struct linger reset = {.l_onoff = i % 2};
        int fd = http_connect(port);
        for (int k = 0; k < 3; k++) dprintf(fd, "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
        tri__clock_sleep(tri__clock() + 1e-4 * (i % 8));
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    assert_int_equal(tri__http_drain(e.http, 5), 0);
    assert_int_equal(atomic_load(&e.finished), atomic_load(&e.held_ever));
    stop(&e);
}

TEST(addresses) {
    echo e = {0};
    tri_http *http;
    int port = start_with(&e, (tri_http_options){0});
    tri_http_options options = {.host = "127.0.0.1", .port = port, .routes = routes, .max_connections = 9,
                                .max_requests = 9, .idle_seconds = 9, .request_seconds = 9};
    assert_int_equal(tri__http_start(&options, &http), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--port 0 picks a free one"));
    options.host = "no such host", options.port = 0;
    assert_int_equal(tri__http_start(&options, &http), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--host no such host"));
    stop(&e);
    options.host = "127.0.0.1", options.certificate = "nonsense", options.private_key = "nonsense";
    assert_int_equal(tri__http_start(&options, &http), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--tls-cert"));
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
