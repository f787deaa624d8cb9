/* report_page.c - the page of runs: its files (src/web/) and the data, in one document. */
#include "report/run_data.h"

#include "web/buffer.h"
#include "web/pages.h"

#include <stdlib.h>
#include <string.h>

/* JSON inside a script element: no "<" may stand in it, or a text "</script>" would end it. A "<" occurs only in
 * strings, where \u003c is the same. */
static void put_data(tri_buffer *out, const char *text) {
    for (;;) {
        size_t n = strcspn(text, "<");
        tri__buffer_add(out, text, n);
        if (!text[n]) return;
        tri__buffer_add(out, "\\u003c", 6);
        text += n + 1;
    }
}

/* The file that a mark "@NAME@" at `at` stands for; NULL: it is @data@ or no mark. */
static const tri_page_file *file_at(const char *at, size_t length) {
    for (const tri_page_file *file = tri__page_report + 1; file->name; file++)
        if (strlen(file->name) == length && !memcmp(file->name, at, length)) return file;
    return NULL;
}

/* The document with its marks replaced. */
static void put_page(tri_buffer *out, const char *data) {
    const char *at = tri__page_report->text, *end = tri__page_report->end, *mark, *close;
    while ((mark = memchr(at, '@', (size_t)(end - at))) && (close = memchr(mark + 1, '@', (size_t)(end - mark - 1)))) {
        size_t length = (size_t)(close - mark - 1);
        const tri_page_file *file = file_at(mark + 1, length);
        int is_data = length == 4 && !memcmp(mark + 1, "data", 4);
        tri__buffer_add(out, at, (size_t)(mark - at));
        if (file) tri__buffer_add(out, file->text, (size_t)(file->end - file->text));
        else if (is_data) put_data(out, data);
        else tri__buffer_add(out, mark, 1);
        at = file || is_data ? close + 1 : mark + 1;
    }
    tri__buffer_add(out, at, (size_t)(end - at));
}

tri_status tri__report_page(const tri_json *runs, int live, char **html, size_t *size) {
    tri_json *data = tri__report_json(runs, live);
    char *text = data ? tri__json_text(data, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9)) : NULL;
    tri_buffer out = {0};
    *html = NULL;
    if (text) {
        put_page(&out, text);
        *html = tri__buffer_take(&out, size);
    }
    free(text);
    tri__json_decref(data);
    return *html ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory for the report");
}
