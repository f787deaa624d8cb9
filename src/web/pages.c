/* pages.c - the files, which are part of the program, and documents made of them. */
#include "web/pages.h"

#include "base/embedded.h"

#include <string.h>

TRI_EMBEDDED(tri__page_try_text, "src/web/try.html");
TRI_EMBEDDED(tri__page_openapi_text, "src/web/openapi.json");
TRI_EMBEDDED(tri__page_report_html, "src/web/report.html");
TRI_EMBEDDED(tri__page_report_css, "src/web/report.css");
TRI_EMBEDDED(tri__page_report_charts, "src/web/report_charts.js");
TRI_EMBEDDED(tri__page_report_sections, "src/web/report_sections.js");
TRI_EMBEDDED(tri__page_report_time, "src/web/report_time.js");
TRI_EMBEDDED(tri__page_report_main, "src/web/report_main.js");
TRI_EMBEDDED(tri__page_explain_html, "src/web/explain.html");
TRI_EMBEDDED(tri__page_explain_css, "src/web/explain.css");
TRI_EMBEDDED(tri__page_explain_js, "src/web/explain.js");
TRI_EMBEDDED(tri__page_layouts_html, "src/web/layouts.html");
TRI_EMBEDDED(tri__page_layouts_js, "src/web/layouts.js");

const char *tri__page_try(size_t *size) {
    *size = (size_t)(tri__page_try_text_end - tri__page_try_text);
    return tri__page_try_text;
}

const char *tri__page_openapi(size_t *size) {
    *size = (size_t)(tri__page_openapi_text_end - tri__page_openapi_text);
    return tri__page_openapi_text;
}

#define FILE_OF(name, id) {name, tri__page_##id, tri__page_##id##_end}

const tri_page_file tri__page_report[] = {
    FILE_OF("report.html", report_html), FILE_OF("report.css", report_css),
    FILE_OF("report_charts.js", report_charts), FILE_OF("report_sections.js", report_sections),
    FILE_OF("report_time.js", report_time), FILE_OF("report_main.js", report_main), {0}};

const tri_page_file tri__page_explain[] = {
    FILE_OF("explain.html", explain_html), FILE_OF("report.css", report_css), FILE_OF("explain.css", explain_css),
    FILE_OF("explain.js", explain_js), {0}};

const tri_page_file tri__page_layouts[] = {
    FILE_OF("layouts.html", layouts_html), FILE_OF("report.css", report_css), FILE_OF("layouts.js", layouts_js), {0}};

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
static const tri_page_file *file_at(const tri_page_file *files, const char *at, size_t length) {
    for (const tri_page_file *file = files + 1; file->name; file++)
        if (strlen(file->name) == length && !memcmp(file->name, at, length)) return file;
    return NULL;
}

void tri__page_fill(const tri_page_file *files, const char *data, tri_buffer *out) {
    const char *at = files->text, *end = files->end, *mark, *close;
    while ((mark = memchr(at, '@', (size_t)(end - at))) && (close = memchr(mark + 1, '@', (size_t)(end - mark - 1)))) {
        size_t length = (size_t)(close - mark - 1);
        const tri_page_file *file = file_at(files, mark + 1, length);
        int is_data = length == 4 && !memcmp(mark + 1, "data", 4);
        tri__buffer_add(out, at, (size_t)(mark - at));
        if (file) tri__buffer_add(out, file->text, (size_t)(file->end - file->text));
        else if (is_data) put_data(out, data);
        else tri__buffer_add(out, mark, 1);
        at = file || is_data ? close + 1 : mark + 1;
    }
    tri__buffer_add(out, at, (size_t)(end - at));
}
