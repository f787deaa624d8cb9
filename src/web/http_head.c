/* http_head.c - request line, headers, chunks. */
#include "web/http_head.h"

#include <ctype.h>
#include <string.h>

/* ---- bytes ---- */

/* Tabs and bytes above ASCII are allowed in values. */
static int is_control(unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; }

static int is_token(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (!c || c >= 0x80 || (!isalnum(c) && !strchr("!#$%&'*+-.^_`|~", c))) return 0;
    }
    return n > 0;
}

ptrdiff_t tri__http_head_size(const char *text, size_t n, size_t *seen) {
    for (size_t i = *seen; i < n; i++) {
        int after_cr = i > 0 && text[i - 1] == '\r';
        if ((text[i] == '\n') != after_cr) return -1;
        if (text[i] == '\n' && i >= 3 && text[i - 2] == '\n') return (ptrdiff_t)i + 1;
        if (text[i] != '\n' && text[i] != '\r' && is_control((unsigned char)text[i])) return -1;
    }
    *seen = n;
    return 0;
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                                                                       : -1;
}

/* %41 becomes A, in place. 0: not two hexadecimal digits, or a NUL. */
static int decode(char *text, int plus_is_blank) {
    char *to = text;
    for (; *text; text++) {
        *to = *text == '+' && plus_is_blank ? ' ' : *text;
        if (*text == '%') {
            int high = hex(text[1]), low = high < 0 ? -1 : hex(text[2]);
            if (low < 0 || !(*to = (char)(high * 16 + low))) return 0;
            text += 2;
        }
        to++;
    }
    *to = 0;
    return 1;
}

/* ---- the request line ---- */

static int read_query(char *text, tri_http_head *out) {
    for (char *pair; (pair = strsep(&text, "&"));) {
        char *value = strchr(pair, '=');
        if (!*pair) continue;
        if (value) *value++ = 0;
        if (out->n_queries == TRI_HTTP_QUERIES || !decode(pair, 1) || (value && !decode(value, 1))) return 0;
        out->query[out->n_queries++] = (tri_http_pair){pair, value ? value : ""};
    }
    return 1;
}

/* A path, or http://authority/path: then *authority. */
static int read_target(char *target, tri_http_head *out, const char **authority) {
    char *query = strchr(target, '?');
    if (query) *query++ = 0;
    *authority = NULL;
    if (!strncasecmp(target, "http://", 7) || !strncasecmp(target, "https://", 8)) {
        char *name = strstr(target, "://") + 3, *path = strchr(name, '/');
        if (!path) return 0;
        memmove(name - 1, name, (size_t)(path - name)); /* one byte to the left, for a 0 at its end */
        path[-1] = 0, *authority = name - 1, target = path;
    }
    out->path = target;
    return (*target == '/' || !strcmp(target, "*")) && decode(target, 0) && (!query || read_query(query, out));
}

static int read_line(char *line, tri_http_head *out, const char **authority, const char **why) {
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    *why = "the first line is not METHOD PATH HTTP/1.1";
    if (!version || !is_token(line, (size_t)(target - line))) return 400;
    *target++ = 0, *version++ = 0;
    out->method = line;
    for (const char *c = target; *c; c++)
        if (is_control((unsigned char)*c) || *c == '\t') return 400;
    if (strcmp(version, "HTTP/1.1") && strcmp(version, "HTTP/1.0")) {
        int other = !strncmp(version, "HTTP/", 5) && isdigit((unsigned char)version[5]) && version[6] == '.' &&
                    isdigit((unsigned char)version[7]) && !version[8];
        if (other) *why = "only HTTP/1.1 and HTTP/1.0 are spoken";
        return other ? 505 : 400;
    }
    out->minor = version[7] - '0';
    *why = "the path or its query is malformed, has a NUL, or has more than 16 parameters";
    return read_target(target, out, authority) ? 0 : 400;
}

/* ---- headers ---- */

/* line: without its CRLF, ended by a 0. */
static int read_field(char *line, tri_http_pair *out, const char **why) {
    char *colon = strchr(line, ':');
    size_t name = colon ? (size_t)(colon - line) : 0;
    if (*line == ' ' || *line == '\t') *why = "a header line that continues the one before it";
    else if (!colon) *why = "a header line without a colon";
    else if (!name) *why = "a header line without a name";
    else if (memchr(line, ' ', name) || memchr(line, '\t', name)) *why = "a blank in the name of a header";
    else if (!is_token(line, name)) *why = "a character that the name of a header cannot have";
    else {
        char *value = colon + 1 + strspn(colon + 1, " \t"), *end = value + strlen(value);
        while (end > value && strchr(" \t", end[-1])) end--;
        *colon = *end = 0;
        *out = (tri_http_pair){line, value};
        return 1;
    }
    return 0;
}

const char *tri__http_field(const tri_http_head *head, const char *name) {
    for (int i = 0; i < head->n_fields; i++)
        if (!strcasecmp(head->field[i].name, name)) return head->field[i].value;
    return NULL;
}

/* Whether a list separated by commas has that word. */
static int has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        if (!strncasecmp(at, word, n) && strchr(", \t", at[n])) return 1;
    }
    return 0;
}

/* Headers that may stand there once: who reads the first and who reads the last would disagree. */
static const char *twice(const tri_http_head *head) {
    static const struct {
        const char *name, *why;
    } once[] = {
        {"Content-Length", "the length of the body is said more than once (Content-Length)"},
        {"Transfer-Encoding", "the length of the body is said more than once (Transfer-Encoding)"},
        {"Host", "more than one Host"}, {"Authorization", "more than one Authorization"},
        {"Origin", "more than one Origin"}, {"Expect", "more than one Expect"},
        {"Content-Type", "more than one Content-Type"}, {"Content-Encoding", "more than one Content-Encoding"},
        {"Inference-Header-Content-Length", "more than one Inference-Header-Content-Length"}};
    for (size_t k = 0; k < sizeof once / sizeof *once; k++) {
        int n = 0;
        for (int i = 0; i < head->n_fields; i++) n += !strcasecmp(head->field[i].name, once[k].name);
        if (n > 1) return once[k].why;
    }
    return NULL;
}

static int read_length(const char *text, uint64_t *out, const char **why) {
    *out = 0, *why = "Content-Length is not a number";
    if (!*text || text[strspn(text, "0123456789")]) return 400;
    *why = "Content-Length is larger than any body that is taken";
    for (; *text; text++) {
        if (*out > UINT64_MAX / 100) return 413;
        *out = 10 * *out + (uint64_t)(*text - '0');
    }
    return 0;
}

/* Where the body ends, what it is for, and what happens after it. */
static int read_meaning(tri_http_head *out, const char *authority, const char **why) {
    const char *length = tri__http_field(out, "Content-Length"), *coding = tri__http_field(out, "Transfer-Encoding"),
               *host = tri__http_field(out, "Host"), *expect = tri__http_field(out, "Expect"),
               *connection = tri__http_field(out, "Connection"), *packed = tri__http_field(out, "Content-Encoding");
    *why = twice(out);
    if (*why) return 400;
    if (length && coding) *why = "the length of the body is said more than once (Content-Length, Transfer-Encoding)";
    else if (coding && !out->minor) *why = "Transfer-Encoding in a request of HTTP/1.0";
    else if (coding && strcasecmp(coding, "chunked")) *why = "Transfer-Encoding: only chunked is read";
    else if (!host && out->minor) *why = "a request of HTTP/1.1 without a Host";
    else if (host && host[strcspn(host, "/\\@?#, \t\"<>")]) *why = "Host is not a name or an address with a port";
    else if (authority && host && strcasecmp(authority, host)) *why = "the Host is another than that of the path";
    if (*why) return 400;
    out->chunked = coding != NULL;
    int refused = length ? read_length(length, &out->length, why) : 0;
    if (refused) return refused;
    *why = "Expect: only 100-continue is understood";
    if (expect && strcasecmp(expect, "100-continue")) return 417;
    out->expects = expect && out->minor;
    *why = "Content-Encoding: a body is read as it is; send it without one";
    if (packed && *packed && strcasecmp(packed, "identity")) return 415;
    out->keep_alive = out->minor ? !has_word(connection, "close") : has_word(connection, "keep-alive");
    return 0;
}

int tri__http_head_read(char *text, size_t size, tri_http_head *out, const char **why) {
    const char *authority = NULL;
    char *end = text + size - 2; /* of the empty line */
    int status = 0;
    *out = (tri_http_head){0};
    for (char *line = text; line < end && !status;) {
        char *next = memchr(line, '\r', (size_t)(end - line));
        *next = 0;
        if (line == text) status = read_line(line, out, &authority, why);
        else if (out->n_fields == TRI_HTTP_FIELDS) status = 431, *why = "more than 100 headers";
        else if (!read_field(line, &out->field[out->n_fields++], why)) status = 400;
        line = next + 2;
    }
    return status ? status : read_meaning(out, authority, why);
}

/* ---- chunks ---- */

/* Bytes of the line at the beginning of text[n], with its CRLF; 0: not complete; -1: malformed or too long. */
static ptrdiff_t line_size(const char *text, size_t n) {
    const char *end = memchr(text, '\n', n < TRI_HTTP_CHUNK_LINE ? n : TRI_HTTP_CHUNK_LINE);
    if (!end) return n < TRI_HTTP_CHUNK_LINE ? 0 : -1;
    if (end == text || end[-1] != '\r') return -1;
    for (const char *c = text; c < end - 1; c++)
        if (is_control((unsigned char)*c)) return -1;
    return end - text + 1;
}

/* SIZE in hexadecimal, and extensions after a semicolon, which mean nothing. */
static int read_size(tri_http_chunks *chunks, const char *line) {
    int digits = 0;
    for (chunks->left = 0; hex(line[digits]) >= 0 && digits < 16; digits++)
        chunks->left = 16 * chunks->left + (uint64_t)hex(line[digits]);
    const char *after = line + digits;
    return digits > 0 && digits < 16 && (*after == '\r' || *after == ';');
}

ptrdiff_t tri__http_chunks_read(tri_http_chunks *chunks, const char *text, size_t n, const char **data, size_t *size) {
    enum { TRAILER = 8192 };
    *size = 0;
    if (!n || chunks->state == TRI_CHUNKS_DONE) return 0;
    if (chunks->state == TRI_CHUNKS_DATA) {
        *data = text, *size = n < chunks->left ? n : (size_t)chunks->left;
        chunks->left -= *size;
        if (!chunks->left) chunks->state = TRI_CHUNKS_AFTER;
        return (ptrdiff_t)*size;
    }
    if (chunks->state == TRI_CHUNKS_AFTER) {
        if (text[0] != '\r' || (n > 1 && text[1] != '\n')) return -1;
        if (n > 1) chunks->state = TRI_CHUNKS_SIZE;
        return n > 1 ? 2 : 0;
    }
    ptrdiff_t used = line_size(text, n);
    if (used <= 0) return used;
    if (chunks->state == TRI_CHUNKS_SIZE) {
        if (!read_size(chunks, text)) return -1;
        chunks->state = chunks->left ? TRI_CHUNKS_DATA : TRI_CHUNKS_TRAILER;
    } else if (used == 2) chunks->state = TRI_CHUNKS_DONE;
    else { /* the trailer's headers are read and dropped */
        const char *colon = memchr(text, ':', (size_t)used);
        chunks->trailer += (size_t)used;
        if (!colon || !is_token(text, (size_t)(colon - text)) || chunks->trailer > TRAILER) return -1;
    }
    return used;
}
