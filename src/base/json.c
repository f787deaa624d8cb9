/* json.c - JSON files. */
#include "base/json.h"

#include "base/file.h"

tri_status tri__json_load(const char *path, tri_status bad, tri_json **out) {
    *out = NULL;
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    tri_status status = tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size);
    if (status != TRI_OK) return status == TRI_DATA ? bad : status;
    return tri__json_parse(text, size, path, bad, out);
}

/* own: one of our own files, else a user's output. */
static tri_status write_file(const char *path, const tri_json *value, int own, int replaces) {
    TRI_OWNED(tri__free_at) char *text = tri__json_text(value, TRI_JSON_INDENT(2) | TRI_JSON_REAL_PRECISION(9));
    if (!text) return tri__fail(TRI_RESOURCE, "no memory to write %s", path);
    size_t size = strlen(text) + 1;
    text[size - 1] = '\n'; /* replaces the 0 byte, which is not written */
    return own ? tri__file_write(path, text, size) : tri__file_deliver(path, text, size, replaces);
}

tri_status tri__json_save(const char *path, const tri_json *value) { return write_file(path, value, 1, 1); }

tri_status tri__json_deliver(const char *path, const tri_json *value, int replaces) {
    return write_file(path, value, 0, replaces);
}
