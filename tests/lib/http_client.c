/* http_client.c - see http_client.h. */
#include "tests/lib/http_client.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int http_connect_from(const char *address, int port) {
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    inet_pton(AF_INET, address, &from.sin_addr);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0 &&
        connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

int http_connect(int port) { return http_connect_from("0.0.0.0", port); }

size_t http_send(int fd, const char *text, size_t size) {
    size_t sent = 0;
    while (sent < size) {
        ssize_t n = send(fd, text + sent, size - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += (size_t)n;
    }
    return sent;
}

void http_receive(int fd, int with_body, http_answer *a) {
    size_t n = 0, want = 0;
    char *end = NULL;
    memset(a, 0, sizeof *a);
    while (n < sizeof a->text - 1 && !(end && n >= want)) {
        ssize_t got = recv(fd, a->text + n, end ? want - n : 1, 0); /* never beyond the answer: more may follow */
        if (got <= 0) break;
        n += (size_t)got;
        a->text[n] = 0;
        if (end || !(end = strstr(a->text, "\r\n\r\n"))) continue;
        const char *length = strcasestr(a->text, "Content-Length:");
        want = (size_t)(end + 4 - a->text) + (length && with_body ? strtoul(length + 15, NULL, 10) : 0);
    }
    if (!end) return;
    a->status = atoi(a->text + 9);
    a->body = end + 4;
    a->length = n - (size_t)(a->body - a->text);
}

void http_ask(int fd, const char *method, const char *path, const char *headers, const char *body, http_answer *a) {
    char *text;
    int n = body ? asprintf(&text, "%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n%s", method, path,
                            headers, strlen(body), body)
                 : asprintf(&text, "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n", method, path, headers);
    http_send(fd, text, (size_t)n);
    free(text);
    http_receive(fd, strcmp(method, "HEAD") != 0, a);
}

void http_once(int port, const char *method, const char *path, const char *headers, const char *body, http_answer *a) {
    int fd = http_connect(port);
    memset(a, 0, sizeof *a);
    if (fd < 0) return;
    http_ask(fd, method, path, headers, body, a);
    close(fd);
}
