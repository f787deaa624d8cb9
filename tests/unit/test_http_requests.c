/* test_http_requests.c - the HTTP layer and requests that are malformed, foreign or too many. */
#include "tests/lib/test.h"
#include "tests/lib/http_echo.h"

#include <fcntl.h>

/* ---- requests that two programs may read differently ---- */

/* Bytes with their number: some have a NUL. */
typedef struct raw_case {
    const char *text;
    size_t size;
    int status;
    const char *why;           /* a part of the error */
} raw_case;
#define RAW(text, status, why) {text, sizeof text - 1, status, why}
#define POST_ECHO(headers) "POST /echo HTTP/1.1\r\nHost: x\r\n" headers "\r\n"
static const raw_case malformed[] = {
    RAW(POST_ECHO("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n") "0\r\n\r\n", 400, "more than once"),
    RAW(POST_ECHO("Content-Length: 4\r\nContent-Length: 2\r\n") "abcd", 400, "more than once"),
    RAW(POST_ECHO("Content-Length: 4\r\nContent-Length: 4\r\n") "abcd", 400, "more than once"),
    RAW(POST_ECHO("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") "0\r\n\r\n", 400, "more than once"),
    RAW(POST_ECHO("Content-Length : 4\r\n") "abcd", 400, "a blank in the name"),
    RAW(POST_ECHO("Content-Length: 4,4\r\n") "abcd", 400, "not a number"),
    RAW(POST_ECHO("Content-Length: +4\r\n") "abcd", 400, "not a number"),
    RAW(POST_ECHO("Content-Length: 0x4\r\n") "abcd", 400, "not a number"),
    RAW(POST_ECHO("Content-Length:\r\n") "abcd", 400, "not a number"),
    RAW(POST_ECHO("Content-Length: 99999999999999999999\r\n"), 413, "larger than any"),
    RAW(POST_ECHO("Transfer-Encoding: gzip, chunked\r\n") "0\r\n\r\n", 400, "only chunked"),
    RAW(POST_ECHO("Transfer-Encoding: xchunked\r\n") "0\r\n\r\n", 400, "only chunked"),
    RAW("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "HTTP/1.0"),
    RAW(POST_ECHO(": x\r\nContent-Length: 4\r\n") "abcd", 400, "without a name"),
    RAW(POST_ECHO("\0X: y\r\nContent-Length: 4\r\n") "abcd", 400, "NUL"),
    RAW(POST_ECHO("X: y\0\r\nContent-Length: 4\r\n") "abcd", 400, "NUL"),
    RAW(POST_ECHO("X: y\0\nContent-Length: 4\r\n") "abcd", 400, "NUL"),
    RAW(POST_ECHO("X\0Y: z\r\n"), 400, "NUL"),
    RAW("\0GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 400, "NUL"),
    RAW("GET /heal\0th HTTP/1.1\r\nHost: x\r\n\r\n", 400, "NUL"),
    RAW("GET /heal%00th HTTP/1.1\r\nHost: x\r\n\r\n", 400, "NUL"),
    RAW("GET /health?q=%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "NUL"),
    RAW("GET /health%2 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed"),
    RAW("GET /health HTTP/1.1\nHost: x\n\n", 400, "without CR and LF"),
    RAW("GET /health HTTP/1.1\r\nHost: x\n\r\n", 400, "without CR and LF"),
    RAW("GET /health HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n", 400, "without CR and LF"),
    RAW("GET /health HTTP/1.1\r\nHost: x\r\n\n", 400, "without CR and LF"),
    RAW(POST_ECHO("X: a\r\n Content-Length: 4\r\n"), 400, "continues"),
    RAW(POST_ECHO("X a\r\n"), 400, "without a colon"),
    RAW(POST_ECHO("X(y): a\r\n"), 400, "cannot have"),
    RAW("GET /health HTTP/1.1\r\n\r\n", 400, "without a Host"),
    RAW("GET /health HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400, "more than one Host"),
    RAW("GET /health HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, "Host is not a name"),
    RAW("GET http://a/health HTTP/1.1\r\nHost: b\r\n\r\n", 400, "another than"),
    RAW("GET  /health HTTP/1.1\r\nHost: x\r\n\r\n", 400, "first line"),
    RAW("GET /health  HTTP/1.1\r\nHost: x\r\n\r\n", 400, "first line"),
    RAW("GET /health\r\nHost: x\r\n\r\n", 400, "first line"),
    RAW("GET /health HTTP/1.1 \r\nHost: x\r\n\r\n", 400, "first line"),
    RAW("GET health HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed"),
    RAW("GET /health HTTP/2.0\r\nHost: x\r\n\r\n", 505, "HTTP/1.1"),
    RAW(POST_ECHO("Content-Encoding: gzip\r\nContent-Length: 4\r\n") "abcd", 415, "Content-Encoding"),
    RAW(POST_ECHO("Expect: magic\r\nContent-Length: 4\r\n") "abcd", 417, "100-continue"),
#define CHUNKED(body) POST_ECHO("Transfer-Encoding: chunked\r\n") body
    RAW(CHUNKED("3\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("3\r\nabcd\r\n0\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("3\r\nabc\n0\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("0x3\r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("3 \r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("-1\r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("ffffffffffffffffff\r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("3;a\0b\r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("0\r\n: x\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("0\r\n\0\r\n\r\n"), 400, "chunk"),
    RAW(CHUNKED("0\r\nX: y\n\r\n"), 400, "chunk"),
};

/* How many answers come until the connection is closed; *last is the last one. */
static int answers_of(int fd, http_answer *last) {
    http_answer *a = malloc(sizeof *a);
    int n = 0;
    while (http_receive(fd, 1, a), a->status) *last = *a, n++;
    free(a);
    return n;
}

/* What is refused is the last request of its connection: as the first one, as the second one behind a good one, and a
 * byte at a time; what stands behind it is never read as a request. */
TEST(malformed_requests) {
    static const char good[] = "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi",
                      hidden[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    echo e = {0};
    http_answer *a = calloc(1, sizeof *a);
    int port = start_with(&e, (tri_http_options){.threads = 1});
    for (size_t i = 0; i < 3 * sizeof malformed / sizeof *malformed; i++) {
        const raw_case *c = &malformed[i / 3];
        char text[1024];
        size_t n = 0, before = i % 3 == 1 ? sizeof good - 1 : 0;
        int fd = http_connect(port);
        memcpy(text, good, before), n += before;
        memcpy(text + n, c->text, c->size), n += c->size;
        memcpy(text + n, hidden, sizeof hidden - 1), n += sizeof hidden - 1;
        if (i % 3 < 2) http_send(fd, text, n);
        else
            for (size_t k = 0; k < n; k++) http_send(fd, text + k, 1);
        int answers = answers_of(fd, a);
        if (answers != 1 + (before > 0) || a->status != c->status || !strstr(a->text, c->why))
            fail_msg("case %zu (%s), way %zu: %d answers, the last %s", i / 3, c->why, i % 3, answers, a->text);
        if (!strcasestr(a->text, "Connection: close")) fail_msg("case %zu: kept open", i / 3);
        close(fd);
    }
    assert_true(alive(port));
    free(a);
    stop(&e);
}

/* What is unusual but clear is answered, and the connection kept. */
TEST(unusual_requests) {
    static const raw_case clear[] = {
        RAW("\r\nGET /health HTTP/1.1\r\nhost:x\r\n\r\n", 200, "ok"),
        RAW("GET http://x/health?a=1 HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nX-Tab: \ta\t \r\n\r\n", 200, "ok"),
        RAW("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, "ok"),
        RAW(POST_ECHO("content-length: 0003\r\n") "abc", 200, "abc"),
        RAW(POST_ECHO("Content-Encoding: identity\r\nContent-Length: 3\r\n") "abc", 200, "abc"),
        RAW(CHUNKED("2;name=\"value\"\r\nab\r\n01\r\nc\r\n0\r\nX-Sum: 1\r\n\r\n"), 200, "abc"),
        RAW("GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 200, "ok"),
        RAW("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 404, "nothing at"),
    };
    echo e = {0};
    http_answer a;
    int port = start_with(&e, (tri_http_options){0}), fd = http_connect(port);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < sizeof clear / sizeof *clear; i++) {
            if (pass == 0) http_send(fd, clear[i].text, clear[i].size);
            else
                for (size_t k = 0; k < clear[i].size; k++) http_send(fd, clear[i].text + k, 1);
            http_receive(fd, 1, &a);
            if (a.status != clear[i].status || !strstr(a.body, clear[i].why)) fail_msg("case %zu: %s", i, a.text);
            if (a.status != 200 && pass == 1) close(fd), fd = http_connect(port); /* its body came after the reply */
        }
    }
    http_send(fd, POST_ECHO("Expect: 100-continue\r\nContent-Length: 2\r\n"),
              sizeof POST_ECHO("Expect: 100-continue\r\nContent-Length: 2\r\n") - 1);
    http_receive(fd, 1, &a);
    assert_int_equal(a.status, 100);
    http_send(fd, "hi", 2);
    http_receive(fd, 1, &a);
    assert_string_equal(a.body, "hi");
    dprintf(fd, "GET /health HTTP/1.0\r\n\r\n");
    assert_int_equal(answers_of(fd, &a), 1);
    close(fd);
    stop(&e);
}

/* A client that sends without end leaves others their turn, on the same thread. */
TEST(many_in_a_row) {
    enum { ROW = 20000 };
    static const char one[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    echo e = {0};
    int port = start_with(&e, (tri_http_options){.threads = 1}), fd = http_connect(port), seen = 0, sent = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (double until = tri__clock() + 10; seen < 50 && tri__clock() < until;) {
        static char drop[1 << 16];
        while (sent < ROW * 50 && send(fd, one, sizeof one - 1, MSG_NOSIGNAL) == sizeof one - 1) sent++;
        while (recv(fd, drop, sizeof drop, 0) > 0) continue;
        seen += alive(port);
    }
    assert_int_equal(seen, 50);
    close(fd);
    stop(&e);
}

/* ---- names and sites ---- */

TEST(hosts_and_origins) {
    static const struct {
        const char *host, *origin;
        int status;
    } cases[] = {
        {"localhost", NULL, 200}, {"LOCALHOST:1", NULL, 200}, {"127.0.0.1:99", NULL, 200}, {"[::1]:8", NULL, 200},
        {"192.168.7.7", NULL, 200}, {"models.example:443", NULL, 200}, {"other.example", NULL, 200},
        {"evil.example", NULL, 403}, {"evil.example:80", NULL, 403}, {"127.0.0.1.evil.example", NULL, 403},
        {"localhost.x", NULL, 403}, {"", NULL, 403}, {"models.example.evil", NULL, 403},
        {"localhost:8080", "http://localhost:8080", 200}, {"127.0.0.1", "https://models.example", 200},
        {"localhost:8080", "http://localhost:8081", 403}, {"localhost:8080", "http://evil.example", 403},
        {"localhost:8080", "null", 403}, {"localhost:8080", "http://localhost", 403},
        {"evil.example:8080", "http://evil.example:8080", 403}, {"localhost", "http://localhost.evil", 403},
    };
    echo e = {0};
    http_answer a;
    int port = start_with(&e, (tri_http_options){.check_host = 1, .allow_host = "models.example, other.example"});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = http_connect(port);
        dprintf(fd, "POST /echo HTTP/1.1\r\nHost: %s\r\n%s%s%sContent-Length: 2\r\n\r\nhi", cases[i].host,
                cases[i].origin ? "Origin: " : "", cases[i].origin ? cases[i].origin : "",
                cases[i].origin ? "\r\n" : "");
        http_receive(fd, 1, &a);
        if (a.status != cases[i].status) fail_msg("%s, %s: %s", cases[i].host, cases[i].origin, a.text);
        assert_non_null(strstr(a.text, "X-Content-Type-Options: nosniff"));
        assert_non_null(strstr(a.text, "Cross-Origin-Resource-Policy: same-origin"));
        if (a.status == 403) assert_non_null(strstr(a.body, "--allow-host"));
        close(fd);
    }
    stop(&e);
    port = start_with(&e, (tri_http_options){0}); /* names are not looked at; pages of other sites are */
    http_once(port, "POST", "/echo", "Origin: http://evil.example\r\n", "hi", &a);
    assert_int_equal(a.status, 403);
    http_once(port, "POST", "/echo", "Origin: http://x\r\n", "hi", &a);
    assert_int_equal(a.status, 200);
    stop(&e);
}

/* ---- limits ---- */

/* Bodies that do not come take no place from other requests; those of one address have a bound of their own. */
TEST(slow_bodies) {
    enum { PLACES = 4 };
    echo e = {0};
    http_answer a;
    int port = start_with(&e, (tri_http_options){.max_requests = PLACES}), fd[PLACES + 1], refused = 0;
    int other = http_connect_from("127.0.0.2", port);
    struct pollfd ends[PLACES + 1];
    double until = tri__clock() + 10;
    for (int i = 0; i <= PLACES; i++) {
        fd[i] = http_connect(port), ends[i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
        dprintf(fd[i], "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
    }
    dprintf(other, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
    while (poll(ends, PLACES + 1, 0) == 0 && tri__clock() < until) { /* others, in one piece and in two */
        int split = http_connect(port);
        double begin = tri__clock();
        http_once(port, "POST", "/later", "", "whole", &a);
        assert_int_equal(a.status, 200);
        dprintf(split, "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
        tri__clock_sleep(tri__clock() + 0.02);
        http_send(split, "split", 5);
        http_receive(split, 1, &a);
        if (tri__clock() - begin < 0.5) assert_string_equal(a.body, "split"); /* else it was slow itself */
        close(split);
    }
    for (int i = 0; i <= PLACES; i++) {
        http_send(fd[i], "cde", 3);
        http_receive(fd[i], 1, &a);
        if (a.status == 429) assert_non_null(strstr(a.body, "your address"));
        else assert_string_equal(a.body, "abcde");
        refused += a.status == 429;
        close(fd[i]);
    }
    assert_int_equal(refused, 1);
    http_send(other, "xyz", 3);
    http_receive(other, 1, &a);
    assert_string_equal(a.body, "abxyz");
    close(other);
    stop(&e);
}

TEST(connections_of_an_address) {
    echo e = {0};
    http_answer a;
    int port = start_with(&e, (tri_http_options){.max_per_address = 2, .threads = 1});
    int one = http_connect(port), two = http_connect(port), three = http_connect(port),
        other = http_connect_from("127.0.0.2", port);
    http_receive(three, 1, &a);
    assert_int_equal(a.status, 429);
    assert_int_equal(a.length, strtoul(strstr(a.text, "Content-Length:") + 15, NULL, 10));
    http_ask(other, "GET", "/health", "", NULL, &a);
    assert_int_equal(a.status, 200);
    http_ask(two, "GET", "/health", "", NULL, &a);
    assert_int_equal(a.status, 200);
    close(one), close(three);
    int answered = 0;
    for (int i = 0; i < 500 && !(answered = alive(port)); i++) tri__clock_sleep(tri__clock() + 0.01);
    assert_true(answered);
    close(two), close(other);
    stop(&e);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
