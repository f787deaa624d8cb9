/* http_exchange.c - what a handler sees of a request, and how it replies. */
#include "web/http_parts.h"

const char *tri__exchange_part(const tri_exchange *exchange) { return exchange->part; }

const char *tri__exchange_header(const tri_exchange *exchange, const char *name) {
    return tri__http_field(&exchange->head, name);
}

const char *tri__exchange_query(const tri_exchange *exchange, const char *name) {
    for (int i = 0; i < exchange->head.n_queries; i++)
        if (!strcmp(exchange->head.query[i].name, name)) return exchange->head.query[i].value;
    return NULL;
}

const char *tri__exchange_body(const tri_exchange *exchange, size_t *length) {
    *length = exchange->body.size;
    return exchange->body.text ? exchange->body.text : "";
}

void tri__exchange_add(tri_exchange *exchange, const char *name, const char *value) {
    TRI_ASSERT(exchange->n_headers < TRI_EXCHANGE_HEADERS);
    exchange->header[exchange->n_headers].name = name, exchange->header[exchange->n_headers++].value = value;
}

void tri__exchange_add_copy(tri_exchange *exchange, const char *name, const char *value) {
    TRI_ASSERT(!exchange->copied[0] && strlen(value) < sizeof exchange->copied);
    strcpy(exchange->copied, value);
    tri__exchange_add(exchange, name, exchange->copied);
}

static void set(tri_exchange *exchange, int status, const char *type, const char *body, size_t length, int is_const) {
    TRI_ASSERT(!exchange->status);
    exchange->status = status, exchange->type = type, exchange->reply = (char *)body, exchange->size = length;
    exchange->is_const = is_const;
}

void tri__exchange_reply_const(tri_exchange *exchange, int status, const char *type, const char *body, size_t length) {
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
    TRI_FORMAT(text, sizeof text, format);
    tri__buffer_put(&body, "{\"error\":");
    tri__buffer_json(&body, text, strlen(text));
    tri__buffer_put(&body, ",\"error_type\":\"%s\"}", type);
    if (status == 429 || status == 503) tri__exchange_add(exchange, "Retry-After", "1");
    char *taken = tri__buffer_take(&body, &size);
    tri__exchange_reply(exchange, status, "application/json", taken, size);
}

void tri__exchange_hold(tri_exchange *exchange, tri_http_handler *finish, void *context) {
    exchange->finish = finish, exchange->context = context, exchange->held = 1;
}

/* ---- the reply as bytes ---- */

static const char *reason(int status) {
    static const struct {
        int status;
        const char *text;
    } known[] = {{200, "OK"}, {304, "Not Modified"}, {400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"},
                 {404, "Not Found"}, {405, "Method Not Allowed"}, {406, "Not Acceptable"}, {408, "Request Timeout"},
                 {413, "Content Too Large"}, {415, "Unsupported Media Type"}, {417, "Expectation Failed"},
                 {422, "Unprocessable Content"}, {424, "Failed Dependency"}, {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"}, {500, "Internal Server Error"},
                 {503, "Service Unavailable"}, {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status) return known[i].text;
    return "Unknown";
}

/* What keeps browsers from using a reply for anything else. Pages have their scripts and styles in them, and ask nobody
 * but this server. */
static void put_guards(const tri_exchange *e, tri_buffer *out) {
    if (!strncmp(e->type, "text/html", 9))
        tri__buffer_put(out, "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src "
                        "'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                        "frame-ancestors 'none'\r\n");
    tri__buffer_put(out, "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
                    "Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-cache\r\n");
}

int tri__exchange_write(tri_exchange *e, int close, tri_buffer *out) {
    char date[40];
    struct tm utc;
    time_t now = time(NULL);
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    tri__buffer_put(out, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n", e->status, reason(e->status), date,
                    e->type);
    if (e->status != 304) tri__buffer_put(out, "Content-Length: %zu\r\n", e->size);
    for (int i = 0; i < e->n_headers; i++) tri__buffer_put(out, "%s: %s\r\n", e->header[i].name, e->header[i].value);
    put_guards(e, out);
    if (close) tri__buffer_put(out, "Connection: close\r\n");
    else if (!e->head.minor) tri__buffer_put(out, "Connection: keep-alive\r\n");
    tri__buffer_add(out, "\r\n", 2);
    if (strcmp(e->head.method, "HEAD")) tri__buffer_add(out, e->reply, e->size);
    return !out->failed;
}
