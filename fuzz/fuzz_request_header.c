/* fuzz_request_header.c - what is read from a request's header (Content-Type, Accept, Authorization), and a file of
 * keys: the input stands for each of them. The keys of an accepted file are accepted, and a shorter one is not. */
#include "fuzz.h"

#include "serve/server_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    tri_wire_form form;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (tri__form_of_type(text, &form)) FUZZ_CHECK(form <= TRI_ROWS_CSV && tri__form_type(form));
    if (tri__form_of_accept(text, TRI_ROWS_LINES, &form)) FUZZ_CHECK(form <= TRI_ROWS_CSV);
    try_keys(text, size);
    free(text);
    return 0;
}
