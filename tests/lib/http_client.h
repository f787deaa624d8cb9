/* http_client.h - an HTTP client for tests: sockets and text, nothing more. */
#ifndef TRI_TESTS_HTTP_CLIENT_H
#define TRI_TESTS_HTTP_CLIENT_H

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection to 127.0.0.1 from another address of this machine; -1: refused. Reads end after 10 s. */
int http_connect_from(const char *address, int port);
int http_connect(int port);

/* Sends everything, or as much as the other side takes: how much. */
size_t http_send(int fd, const char *text, size_t size);

typedef struct http_answer {
    int status;                /* 0: the connection was closed before an answer */
    char text[1 << 16];        /* header and body */
    char *body;                /* in text */
    size_t length;             /* of the body */
} http_answer;

/* Reads one answer; with_body 0: of HEAD. */
void http_receive(int fd, int with_body, http_answer *a);

/* One request on an open connection. headers: lines that end in \r\n. body NULL: none. */
void http_ask(int fd, const char *method, const char *path, const char *headers, const char *body, http_answer *a);

/* One request on its own connection. */
void http_once(int port, const char *method, const char *path, const char *headers, const char *body, http_answer *a);

#endif
