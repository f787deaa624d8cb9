/* http_exchange.c - what a handler sees of a request, and how it replies. */
#include "web/http_parts.h"

#include "web/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tri__exchange_part(const tri_exchange *exchange) { return exchange->part; }

const char *tri__exchange_header(const tri_exchange *exchange, const char *name) {
    return exchange->http->calls.lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *tri__exchange_query(const tri_exchange *exchange, const char *name) {
    return exchange->http->calls.lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *tri__exchange_body(const tri_exchange *exchange, size_t *length) {
    *length = exchange->length;
    return exchange->body ? exchange->body : "";
}

void tri__exchange_add(tri_exchange *exchange, const char *name, const char *value) {
    TRI_ASSERT(exchange->n_headers < TRI_EXCHANGE_HEADERS);
    exchange->header[exchange->n_headers].name = name;
    exchange->header[exchange->n_headers++].value = value;
}

void tri__exchange_add_copy(tri_exchange *exchange, const char *name, const char *value) {
    TRI_ASSERT(!exchange->copied[0] && strlen(value) < sizeof exchange->copied);
    strcpy(exchange->copied, value);
    tri__exchange_add(exchange, name, exchange->copied);
}

static void set(tri_exchange *exchange, int status, const char *type, const char *body, size_t length, int is_const) {
    TRI_ASSERT(!exchange->status);
    exchange->status = status, exchange->type = type, exchange->text = (char *)body, exchange->size = length;
    exchange->is_const = is_const;
}

void tri__exchange_reply_const(tri_exchange *exchange, int status, const char *type, const char *body,
                               size_t length) {
    set(exchange, status, type, body, length, 1);
}

void tri__exchange_reply(tri_exchange *exchange, int status, const char *type, char *body, size_t length) {
    static const char none[] = "{\"error\":\"out of memory for the reply\",\"error_type\":\"Backend\"}";
    if (body) set(exchange, status, type, body, length, 0);
    else set(exchange, 500, "application/json", none, sizeof none - 1, 1);
}

void tri__exchange_error(tri_exchange *exchange, int status, const char *type, const char *format, ...) {
    char text[TRI_ERROR_BYTES];
    tri_buffer body = {0};
    size_t size;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tri__buffer_put(&body, "{\"error\":");
    tri__buffer_json(&body, text, strlen(text));
    tri__buffer_put(&body, ",\"error_type\":\"%s\"}", type);
    if (status == 429 || status == 503) tri__exchange_add(exchange, "Retry-After", "1");
    char *taken = tri__buffer_take(&body, &size);
    tri__exchange_reply(exchange, status, "application/json", taken, size);
}

void tri__exchange_hold(tri_exchange *exchange, tri_http_handler *finish, void *context) {
    exchange->finish = finish, exchange->context = context, exchange->held = 1;
    exchange->http->calls.suspend_connection(exchange->connection);
}

void tri__exchange_resume(tri_exchange *exchange) {
    exchange->http->calls.resume_connection(exchange->connection);
}
