/* http_absent.c - in the place of http.c in a build without the header of libmicrohttpd: says what to install. */
#include "web/http.h"

#include <stdio.h>

#define ADVICE "this build has no HTTP server: install libmicrohttpd-dev (apt-get install libmicrohttpd-dev), run make"

tri_status tri__http_start(const tri_http_options *options, tri_http **out) {
    (void)options;
    *out = NULL;
    return tri__fail(TRI_USAGE, ADVICE);
}

tri_status tri__http_library(char *out, size_t size) {
    snprintf(out, size, ADVICE);
    return tri__fail(TRI_USAGE, ADVICE);
}

/* Nothing of these is reached: there is no tri_http and no exchange. */
int tri__http_port(const tri_http *http) { return (void)http, 0; }
int tri__http_drain(tri_http *http, double seconds) { return (void)http, (void)seconds, 0; }
void tri__http_stop(tri_http *http) { (void)http; }
int tri__http_in_flight(const tri_http *http) { return (void)http, 0; }
int tri__http_draining(const tri_http *http) { return (void)http, 0; }
const char *tri__exchange_part(const tri_exchange *exchange) { return (void)exchange, ""; }
const char *tri__exchange_header(const tri_exchange *exchange, const char *name) {
    return (void)exchange, (void)name, NULL;
}
const char *tri__exchange_query(const tri_exchange *exchange, const char *name) {
    return (void)exchange, (void)name, NULL;
}
const char *tri__exchange_body(const tri_exchange *exchange, size_t *length) {
    return (void)exchange, *length = 0, "";
}
void tri__exchange_add(tri_exchange *exchange, const char *name, const char *value) {
    (void)exchange, (void)name, (void)value;
}
void tri__exchange_add_copy(tri_exchange *exchange, const char *name, const char *value) {
    (void)exchange, (void)name, (void)value;
}
void tri__exchange_reply(tri_exchange *exchange, int status, const char *type, char *body, size_t length) {
    (void)exchange, (void)status, (void)type, (void)body, (void)length;
}
void tri__exchange_reply_const(tri_exchange *exchange, int status, const char *type, const char *body,
                               size_t length) {
    (void)exchange, (void)status, (void)type, (void)body, (void)length;
}
void tri__exchange_error(tri_exchange *exchange, int status, const char *type, const char *format, ...) {
    (void)exchange, (void)status, (void)type, (void)format;
}
void tri__exchange_hold(tri_exchange *exchange, tri_http_handler *finish, void *context) {
    (void)exchange, (void)finish, (void)context;
}
void tri__exchange_resume(tri_exchange *exchange) { (void)exchange; }
