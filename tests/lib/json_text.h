/* json_text.h - a JSON value from valid text. */
#ifndef TESTS_JSON_TEXT_H
#define TESTS_JSON_TEXT_H

#include "base/json.h"

#include <string.h>

static tri_json *json_of(const char *text) {
    tri_json *value;
    assert_int_equal(tri__json_parse_any(text, strlen(text), "text of the test", TRI_INTERNAL, &value), TRI_OK);
    return value;
}

#endif
