/* json.c - JSON files. */
#include "base/json.h"

#include "base/file.h"
#include "base/limits.h"

#include <stdlib.h>
#include <string.h>

tri_status tri__json_load(const char *path, tri_status bad, tri_json **out) {
    *out = NULL;
    char *text;
    size_t size;
    tri_status status = tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size);
    if (status != TRI_OK) return status == TRI_DATA ? bad : status;
    status = tri__json_parse(text, size, path, bad, out);
    free(text);
    return status;
}

tri_status tri__json_save(const char *path, const tri_json *value) {
    char *text = tri__json_text(value, TRI_JSON_INDENT(2) | TRI_JSON_REAL_PRECISION(9));
    if (!text) return tri__fail(TRI_RESOURCE, "no memory to write %s", path);
    size_t length = strlen(text);
    text[length] = '\n'; /* replaces the 0 byte, which is not written */
    tri_status status = tri__file_write(path, text, length + 1);
    free(text);
    return status;
}
