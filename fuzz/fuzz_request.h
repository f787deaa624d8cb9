/* fuzz_request.h - what must hold for any request that a parser accepts: every row and value lies in memory of the
 * request, columns have names, and a second parse gives the same. */
#ifndef TRI_FUZZ_FUZZ_REQUEST_H
#define TRI_FUZZ_FUZZ_REQUEST_H

#include "fuzz.h"

#include "serve/server/server_parts.h"

#include <stdlib.h>
#include <string.h>

static void fuzz_rows_same(const tri_row_set *a, const tri_row_set *b) {
    FUZZ_CHECK(a->n == b->n);
    for (int64_t i = 0; i < a->n; i++) {
        FUZZ_CHECK(a->row[i].n == b->row[i].n);
        for (int k = 0; k < a->row[i].n; k++) {
            const tri_column_value *x = &a->row[i].value[k], *y = &b->row[i].value[k];
            FUZZ_CHECK(x->column && !strcmp(x->column, y->column));
            FUZZ_CHECK(x->length == y->length && !x->value == !y->value && x->number == y->number);
            FUZZ_CHECK(!x->value || !memcmp(x->value, y->value, x->length)); /* reads every byte */
        }
    }
}

/* The body in memory of exactly its size, so that a sanitizer sees what is read beyond. */
static int fuzz_request(tri_status (*parse)(const tri_ask_in *, tri_ask *), tri_wire_form form, const char *text_column,
                        size_t json, const uint8_t *data, size_t size) {
    char *body = malloc(size ? size : 1);
    if (size) memcpy(body, data, size);
    const tri_ask_in in = {.body = body, .length = size, .json_length = json, .form = form,
                           .text_column = text_column};
    tri_ask a, b;
    tri_status status = parse(&in, &a);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA || status == TRI_USAGE);
    FUZZ_CHECK(status == TRI_OK || *tri_error());
    FUZZ_CHECK(parse(&in, &b) == status);
    if (status == TRI_OK) {
        fuzz_rows_same(&a.rows, &b.rows);
        FUZZ_CHECK(a.truncate == b.truncate && a.single == b.single && !a.id == !b.id);
        FUZZ_CHECK(!a.single || a.rows.n == 1);
    }
    tri__ask_free(&a);
    tri__ask_free(&b);
    free(body);
    return 0;
}

#endif
