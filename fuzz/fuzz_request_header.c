/* fuzz_request_header.c - a request's head and the chunks of a body, what is read from its headers (Content-Type,
 * Accept, Authorization, Host, Origin), and a file of keys: the input stands for each of them. A head has the same end
 * however its bytes arrive, an accepted one says in one way where its body ends, and so do chunks. The keys of an
 * accepted file are accepted, and a shorter one is not. */
#include "fuzz.h"

#include "serve/server/server_parts.h"
#include "web/http_head.h"
#include "web/http_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void try_keys(const char *text, size_t size) {
    tri_keys_file keys;
    tri_status status = tri__keys_parse(text, size, "keys", &keys);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (status != TRI_OK) return;
    const char *key = keys.text;
    for (int i = 0; i < keys.n && i < 4; i++, key += strlen(key) + 1) {
        char *header;
        FUZZ_CHECK(asprintf(&header, "Bearer %s", key) > 0);
        FUZZ_CHECK(tri__keys_accept(&keys, header));
        if (keys.n == 1) header[strlen(header) - 1] = 0, FUZZ_CHECK(!tri__keys_accept(&keys, header));
        free(header);
    }
    tri__keys_file_free(&keys);
}

static void try_head(const char *text, size_t size) {
    size_t seen = 0, late = 0, n = 0;
    ptrdiff_t end = tri__http_head_size(text, size, &seen), slow = 0;
    while (n < size && slow == 0) slow = tri__http_head_size(text, ++n, &late);
    FUZZ_CHECK(slow == end && end <= (ptrdiff_t)size);
    if (end < 4 || !memcmp(text, "\r\n", 2)) return;
    char *copy = malloc((size_t)end);
    tri_http_head head;
    const char *why = NULL;
    memcpy(copy, text, (size_t)end);
    int status = tri__http_head_read(copy, (size_t)end, &head, &why);
    FUZZ_CHECK(status ? why && status >= 400 : head.method && head.path);
    int lengths = 0, hosts = 0;
    for (int i = 0; !status && i < head.n_fields; i++) {
        const char *name = head.field[i].name;
        lengths += !strcasecmp(name, "Content-Length") || !strcasecmp(name, "Transfer-Encoding");
        hosts += !strcasecmp(name, "Host");
        FUZZ_CHECK(*name && !strpbrk(name, " \t:\r\n") && !strpbrk(head.field[i].value, "\r\n"));
    }
    FUZZ_CHECK(lengths <= 1 && hosts <= 1 && (status || !head.minor || hosts) && !(head.chunked && !head.minor));
    free(copy);
}

/* step: bytes that arrive at once. Returns the bytes of the body and *used those of all chunks; -1: malformed. */
static ptrdiff_t read_chunks(const char *text, size_t size, size_t step, size_t *used, uint64_t *hash) {
    tri_http_chunks chunks = {0};
    ptrdiff_t body = 0;
    *used = 0, *hash = 0;
    for (size_t there = 0; there < size && chunks.state != TRI_CHUNKS_DONE;) {
        there = size - there < step ? size : there + step;
        for (ptrdiff_t n = 1; n > 0 && chunks.state != TRI_CHUNKS_DONE; *used += (size_t)n) {
            const char *data = "";
            size_t bytes;
            n = tri__http_chunks_read(&chunks, text + *used, there - *used, &data, &bytes);
            if (n < 0) return -1;
            for (size_t i = 0; i < bytes; i++) *hash = 31 * *hash + (unsigned char)data[i];
            body += (ptrdiff_t)bytes;
        }
    }
    return chunks.state == TRI_CHUNKS_DONE ? body : -2;
}

static void try_chunks(const char *text, size_t size) {
    size_t used, other;
    uint64_t hash, same;
    ptrdiff_t whole = read_chunks(text, size, size + 1, &used, &hash), slow = read_chunks(text, size, 1, &other, &same);
    FUZZ_CHECK(whole == slow && (whole < 0 || (used == other && used <= size && hash == same)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    tri_wire_form form;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (tri__form_of_type(text, &form)) FUZZ_CHECK(form <= TRI_ROWS_CSV && tri__form_type(form));
    if (tri__form_of_accept(text, TRI_ROWS_LINES, &form)) FUZZ_CHECK(form <= TRI_ROWS_CSV);
    if (tri__host_is_own(text, "127.0.0.1", NULL)) FUZZ_CHECK(tri__host_is_own(text, "127.0.0.1", "a, b"));
    FUZZ_CHECK(tri__origin_is_own(text, "a", "*"));
    try_head(text, size);
    try_chunks(text, size);
    try_keys(text, size);
    free(text);
    return 0;
}
